"""Profiles: code outside ``profiles/`` queries their capabilities and does not depend on their names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from activemq_fleet.profiles import PROFILES, HighAvailabilityProfile, ProfileName
from tests.unit.fleets import fleet

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "src/activemq_fleet"
ALLOWED = {
    "plugins/module_utils/node/config/broker_configuration.py": "a key that a module returns, about a slave",
    "plugins/module_utils/node/watchdog/hang_detection.py": "runs on hosts, which do not have the library",
    "plugins/module_utils/node/watchdog/watchdog.py": "runs on hosts, which do not have the library",
    "plugins/module_utils/node/watchdog/watchdog_cli.py": "runs on hosts, which do not have the library",
    "src/activemq_fleet/explain/release_section.py": "a key in the JSON of explain",
    "src/activemq_fleet/audit/pair_incidents.py": "the way of a takeover according to the log: the broker was promoted",
    "src/activemq_fleet/audit/advice.py": "advice about such a takeover",
}
# Files with Jinja conditions, without argument_specs, in which users read the names.
YAML = [path for name in ("playbooks", "roles") for path in (ROOT / name).rglob("*.yml") if "meta" not in path.parts]
PROFILE_NAME = re.compile(r"\.ha\b|['\"]ha['\"]|shared-file|shared-jdbc|['\"]pure['\"]")


def is_ha(node: ast.expr) -> bool:
    """Return True for ``x.ha``, ``x["ha"]`` and ``ha``."""
    match node:
        case ast.Attribute(attr="ha") | ast.Subscript(slice=ast.Constant(value="ha")) | ast.Name(id="ha"):
            return True
    return False


def depends_on_profile_name(tree: ast.AST) -> bool:
    """Return whether a module contains a profile name or compares ``activemq_ha``; the name ``none`` has other uses."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in PROFILES.keys() - {"none"}:
            return True
        if isinstance(node, ast.Compare) and any(map(is_ha, (node.left, *node.comparators))):
            return True
    return False


def python_modules() -> Iterator[Path]:
    for directory in (LIBRARY, ROOT / "plugins"):
        yield from (path for path in directory.rglob("*.py") if LIBRARY / "profiles" not in path.parents)


def test_only_allowed_modules_depend_on_names_of_ha_profiles() -> None:
    dependent = {
        path.resolve().relative_to(ROOT)
        for path in python_modules()
        if depends_on_profile_name(ast.parse(path.read_text()))
    }
    assert sorted(map(str, dependent)) == sorted(ALLOWED)


@pytest.mark.parametrize(
    "code", ["x = 'pure'", "node.ha != 'none'", "facts['ha'] in shared", "match ha:\n  case 'shared-file': pass"]
)
def test_check_detects_dependency_on_name_of_ha_profile(code: str) -> None:
    assert depends_on_profile_name(ast.parse(code))


def test_no_playbook_or_role_depends_on_name_of_ha_profile() -> None:
    assert YAML
    assert [
        f"{path.relative_to(ROOT)}: {reference[0]}"
        for path in YAML
        if (reference := PROFILE_NAME.search(path.read_text()))
    ] == []


def test_every_value_of_activemq_ha_has_profile() -> None:
    assert set(PROFILES) == set(get_args(ProfileName))
    assert all((LIBRARY / "profiles" / f"{name.replace('-', '_')}.py").is_file() for name in PROFILES)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_ha_profile_has_single_failover_mechanism_if_it_has_peer(profile: HighAvailabilityProfile) -> None:
    mechanisms = [profile.shares_store_directory, profile.has_database_lease, profile.replicates]
    assert sum(mechanisms) == profile.has_peer == bool(profile.legend)


def test_only_slave_of_pure_pair_is_replication_slave() -> None:
    pure = fleet("orders-mq01", ha="pure", release="5.5.1")
    shared = fleet("orders-mq01")
    assert [broker.is_replication_slave for broker in (*pure.brokers, *shared.brokers)] == [False, True, False, False]
    assert [broker.shared_store_directory for broker in (*pure.brokers[:1], *shared.brokers[:1])] == [
        None, "/srv/activemq/orders-mq01",
    ]  # fmt: skip
