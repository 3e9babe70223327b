"""The public modules: the action group of Ansible and the page of Galaxy list the same modules."""

from __future__ import annotations

from pathlib import Path

import yaml

from scripts.galaxy_page import INTERNAL

ROOT = Path(__file__).resolve().parents[3]


def test_action_group_lists_all_modules_except_internal_ones() -> None:
    group = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())["action_groups"]["activemq"]
    modules = {path.stem for path in (ROOT / "plugins" / "modules").glob("*.py")}
    assert set(group) == modules - set(INTERNAL)


def test_documentation_of_internal_module_states_that_it_may_change() -> None:
    for name in INTERNAL:
        document = (ROOT / "plugins" / "modules" / f"{name}.py").read_text()
        assert "Do not use it in other playbooks, because it may change" in " ".join(document.split()), name


def test_files_of_execution_environment_exist() -> None:
    definition = yaml.safe_load((ROOT / "meta" / "execution-environment.yml").read_text())
    assert all((ROOT / file).is_file() for file in definition["dependencies"].values())
