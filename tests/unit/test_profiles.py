"""Profiles are asked what they can do: nothing outside ``profiles/`` decides by a profile's name."""

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
    "plugins/module_utils/node/watchdog/hang_detection.py": "runs on hosts, where the library is not",
    "plugins/module_utils/node/watchdog/watchdog.py": "runs on hosts, where the library is not",
    "src/activemq_fleet/explain/release.py": "a key in the JSON of explain",
    "src/activemq_fleet/audit/pair_incidents.py": "how a broker took over, by its log: it was promoted",
    "src/activemq_fleet/audit/advice.py": "advice about such a take-over",
}
# Where Jinja decides. The names in argument_specs and in inventories are those that users write.
YAML = [path for name in ("playbooks", "roles") for path in (ROOT / name).rglob("*.yml") if "meta" not in path.parts]
NAMED = re.compile(r"\.ha\b|['\"]ha['\"]|shared-file|shared-jdbc|['\"]pure['\"]")


def is_ha(node: ast.expr) -> bool:
    """True for ``x.ha``, ``x["ha"]`` and ``ha``."""
    match node:
        case ast.Attribute(attr="ha") | ast.Subscript(slice=ast.Constant(value="ha")) | ast.Name(id="ha"):
            return True
    return False


def names_profile(tree: ast.AST) -> bool:
    """Whether a module holds the name of a profile, or compares what ``activemq_ha`` says; ``none`` has other uses."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in PROFILES.keys() - {"none"}:
            return True
        if isinstance(node, ast.Compare) and any(map(is_ha, (node.left, *node.comparators))):
            return True
    return False


def modules() -> Iterator[Path]:
    for directory in (LIBRARY, ROOT / "plugins"):
        yield from (path for path in directory.rglob("*.py") if LIBRARY / "profiles" not in path.parents)


def test_nothing_else_decides_by_the_name_of_a_profile() -> None:
    named = {path.resolve().relative_to(ROOT) for path in modules() if names_profile(ast.parse(path.read_text()))}
    assert sorted(map(str, named)) == sorted(ALLOWED)


@pytest.mark.parametrize(
    "code", ["x = 'pure'", "node.ha != 'none'", "facts['ha'] in shared", "match ha:\n  case 'shared-file': pass"]
)
def test_a_decision_by_the_name_of_a_profile_is_seen(code: str) -> None:
    assert names_profile(ast.parse(code))


def test_no_task_decides_by_the_name_of_a_profile() -> None:
    assert YAML
    assert [f"{path.relative_to(ROOT)}: {found[0]}" for path in YAML if (found := NAMED.search(path.read_text()))] == []


def test_every_value_of_activemq_ha_has_its_profile() -> None:
    assert set(PROFILES) == set(get_args(ProfileName))
    assert all((LIBRARY / "profiles" / f"{name.replace('-', '_')}.py").is_file() for name in PROFILES)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_a_profile_has_one_way_to_stand_in_or_none(profile: HighAvailabilityProfile) -> None:
    ways = [profile.shares_store_directory, profile.has_database_lease, profile.replicates]
    assert sum(ways) == profile.has_peer == bool(profile.legend)


def test_only_the_slave_of_a_pair_that_replicates_is_a_replica() -> None:
    pure = fleet("orders-mq01", ha="pure", release="5.5.1")
    shared = fleet("orders-mq01")
    assert [broker.is_replication_slave for broker in (*pure.brokers, *shared.brokers)] == [False, True, False, False]
    assert [broker.shared_store_directory for broker in (*pure.brokers[:1], *shared.brokers[:1])] == [
        None, "/srv/activemq/orders-mq01",
    ]  # fmt: skip
