"""``version_added`` in the documentation of plugins, modules, roles, their options and returned values."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from scripts.check_ansible_doc import COLLECTION, documented_plugins

ROOT = Path(__file__).resolve().parents[3]
# The plugins, options and returned values of 0.1.0, which have no later version. Add no line to this file.
FIRST_RELEASE = frozenset((ROOT / "tests" / "data" / "documented_in_0_1_0.txt").read_text("utf-8").splitlines())
_NESTED = ("options", "suboptions", "contains")


@pytest.fixture(scope="module")
def documented() -> Mapping[str, Any]:
    """Return the documentation of all plugins, modules and roles."""
    return documented_plugins()


def test_documented_options_since_first_release_name_their_version(documented: Mapping[str, Any]) -> None:
    assert find_wrong_versions(documented) == []


def test_new_option_without_version_is_reported(documented: Mapping[str, Any]) -> None:
    changed = copy.deepcopy(dict(documented))
    options = changed["role"][f"{COLLECTION}.broker"]["entry_points"]["main"]["options"]
    options["activemq_novelty"] = {"type": "dict", "options": {"key": {"type": "str"}}}

    assert find_wrong_versions(changed) == [
        "role broker options activemq_novelty: 0.1.0",
        "role broker options activemq_novelty.key: 0.1.0",
    ]


def test_version_of_new_option_applies_to_its_keys(documented: Mapping[str, Any]) -> None:
    changed = copy.deepcopy(dict(documented))
    options = changed["role"][f"{COLLECTION}.broker"]["entry_points"]["main"]["options"]
    options["activemq_novelty"] = {"type": "dict", "version_added": "0.3.0", "options": {"key": {"type": "str"}}}

    assert find_wrong_versions(changed) == []


def test_option_of_first_release_with_later_version_is_reported(documented: Mapping[str, Any]) -> None:
    changed = copy.deepcopy(dict(documented))
    options = changed["role"][f"{COLLECTION}.broker"]["entry_points"]["main"]["options"]
    options["activemq_acl"]["version_added"] = "0.2.0"

    assert "role broker options activemq_acl: 0.2.0" in find_wrong_versions(changed)


def find_wrong_versions(documented: Mapping[str, Any]) -> list[str]:
    """Return ``NAME: VERSION`` for each entry whose version contradicts the list of the first release."""
    return [
        f"{name}: {version}"
        for name, version in _versions(documented)
        if (Version(version) <= Version("0.1.0")) != (name in FIRST_RELEASE)
    ]


def _versions(documented: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each entry with its version; an entry without a version inherits that of the enclosing entry."""
    for kind, plugins in documented.items():
        for full_name, plugin in plugins.items():
            document = plugin.get("doc") or plugin.get("entry_points", {}).get("main")
            if not document:
                continue
            name = f"{kind} {full_name.removeprefix(f'{COLLECTION}.')}"
            version = document.get("version_added") or "0.1.0"
            yield name, version
            yield from _nested_versions(document.get("options"), f"{name} options ", version)
            yield from _nested_versions(plugin.get("return"), f"{name} return ", version)


def _nested_versions(entries: Mapping[str, Any] | None, prefix: str, inherited: str) -> Iterator[tuple[str, str]]:
    """Yield the entries below an entry with their versions."""
    for name, entry in (entries or {}).items():
        version = str(entry.get("version_added") or inherited)
        yield f"{prefix}{name}", version
        for nested in _NESTED:
            yield from _nested_versions(entry.get(nested), f"{prefix}{name}.", version)
