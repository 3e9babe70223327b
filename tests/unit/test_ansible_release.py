"""The release of ansible-core: one error if it is too old, and one module that imports its internal names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ansible.release
import pytest
import yaml
from ansible.errors import AnsibleError

from activemq_fleet import InputError, _ansible_internals, inventory
from plugins.plugin_utils import library

ROOT = Path(__file__).resolve().parents[2]
INTERNALS = ROOT / "src" / "activemq_fleet" / "_ansible_internals.py"


def test_library_plugins_and_collection_require_same_ansible_release() -> None:
    runtime = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())
    oldest = ".".join(map(str, inventory.OLDEST_ANSIBLE))
    assert runtime["requires_ansible"] == f">={oldest}.0"
    assert inventory.OLDEST_ANSIBLE == library.OLDEST_ANSIBLE


@pytest.mark.parametrize("release", ["2.16.19", "2.18.0", "2.9.27", "2.18.0b1"])
def test_library_reports_old_ansible_as_input_error(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    monkeypatch.setattr(ansible.release, "__version__", release)
    with pytest.raises(InputError, match=rf"ansible-core {release} of .* Run: .*pip install"):
        inventory.read_inventory([str(ROOT / "examples" / "shared-store")])


@pytest.mark.parametrize("function", [library.import_from_public_api, library.import_library_module])
@pytest.mark.parametrize("release", ["2.16.19", "2.18.0", "2.18.0b1"])
def test_plugins_report_old_ansible_as_ansible_error(
    monkeypatch: pytest.MonkeyPatch, release: str, function: Callable[[str], Any]
) -> None:
    monkeypatch.setattr(library, "release", release)
    with pytest.raises(AnsibleError, match=rf"requires ansible-core 2\.19 or later.* has ansible-core {release}"):
        function("load_fleet")


@pytest.mark.parametrize("release", ["2.19.0", "2.19.0b1", "2.21.5", "2.100.0", "3.0.0"])
def test_newer_ansible_is_accepted(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    monkeypatch.setattr(library, "release", release)
    assert callable(library.import_from_public_api("load_fleet"))


def test_only_module_ansible_internals_imports_private_names_of_ansible() -> None:
    statement = re.compile(r"^\s*(?:from|import) ansible\.(?:\S*\.)?_", re.MULTILINE)
    directories = ("src", "agent/src", "plugins", "scripts", "benchmarks")
    files = {path.resolve() for name in directories for path in (ROOT / name).rglob("*.py")}
    assert [path for path in files if statement.search(path.read_text("utf-8"))] == [INTERNALS]


def test_internals_of_ansible_have_members_that_library_uses() -> None:
    assert {name for name in _ansible_internals.__all__ if not hasattr(_ansible_internals, name)} == set()
    assert {"loader", "marker_behavior"} <= inspect.signature(_ansible_internals.TemplateEngine).parameters.keys()
    assert callable(_ansible_internals.TemplateEngine._compile_template)
    assert callable(_ansible_internals.Origin.get_tag)
    assert callable(_ansible_internals.DeferredWarningContext.get_warnings)
    assert {"path", "line_num"} <= _ansible_internals.Origin.__dataclass_fields__.keys()
