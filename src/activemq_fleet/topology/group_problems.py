"""Find settings that differ between the brokers of a group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from activemq_fleet.findings import Finding
from activemq_fleet.topology.model.broker import Broker
from activemq_fleet.topology.unequal_settings import EqualSetting, unequal_setting_findings

_GROUP_EQUAL: tuple[EqualSetting, ...] = (
    (
        "activemq_discovery",
        lambda b: b.bridge_discovery_method == "multicast",
        "brokers with multicast and brokers without it do not find each other",
    ),
    ("activemq_topology", lambda b: b.settings.topology, "links would be missing or exist twice"),
    ("activemq_environment", lambda b: b.settings.environment, "the brokers would not find each other"),
)
_MULTICAST_EQUAL: tuple[EqualSetting, ...] = (
    ("activemq_multicast", lambda b: b.settings.multicast, "the brokers would not find each other"),
)


def different_group_setting_findings(members: Mapping[str, Sequence[Broker]]) -> Iterator[Finding]:
    """Yield an error for each difference between brokers of one group in settings that must be equal (T009).

    The settings are discovery, topology and environment.
    """
    for group, brokers in members.items():
        yield from unequal_setting_findings(brokers, _GROUP_EQUAL, f"group {group}")
        if brokers[0].bridge_discovery_method == "multicast":
            yield from unequal_setting_findings(brokers, _MULTICAST_EQUAL, f"group {group}")
