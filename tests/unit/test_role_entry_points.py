"""Single task files of the roles that the playbooks include."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
INCLUDES = ("ansible.builtin.import_role", "ansible.builtin.include_role")
PLAYBOOKS = sorted((ROOT / "playbooks").rglob("*.yml"))


def _includes(node: Any) -> Iterator[dict[str, Any]]:
    """Yield the options of each task that includes a role, including tasks in blocks."""
    if isinstance(node, list):
        for child in node:
            yield from _includes(child)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key in INCLUDES:
                yield value
            else:
                yield from _includes(value)


@pytest.mark.parametrize("playbook", PLAYBOOKS, ids=lambda path: str(path.relative_to(ROOT)))
def test_playbook_loads_no_argument_specs_for_single_task_files(playbook: Path) -> None:
    """Ansible copies the argument specs of a role for each include, but they only describe the entry point main."""
    for options in _includes(yaml.safe_load(playbook.read_text(encoding="utf-8"))):
        assert options.get("rolespec_validate") is False, options


def test_argument_specs_describe_only_entry_point_main() -> None:
    specs = sorted(ROOT.glob("roles/*/meta/argument_specs.yml"))
    assert len(specs) == 3
    for path in specs:
        assert list(yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]) == ["main"], path
