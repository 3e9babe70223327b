"""Fleets that are hard to draw, for the tests of the pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from activemq_fleet.findings import Finding, Severity
from activemq_fleet.topology import AGENTS, BALANCERS, BROKERS, Fleet, build_fleet
from tests.unit.fleets import fleet, hosts

AGENT = {"activemq_agent_username": "agent", "activemq_agent_password": "a password"}
TOPOLOGIES = ("mesh", "hub", "ring", "chain", "none")


def pairs(group: str, count: int) -> list[str]:
    return [f"{group}-mq{number:02}" for number in range(1, count + 1)]


def shop(**variables: Any) -> Fleet:
    return fleet(*pairs("orders", 2), **variables)


def jdbc(url: str) -> dict[str, Any]:
    return {"url": url, "driver": "org.example.Driver", "username": "mq", "password": "a password"}


def fleet_with_agents(count: int) -> Fleet:
    agents = {
        f"agent-{i}.example.com": AGENT
        | {"activemq_agent_pair": "orders-mq01", "activemq_agent_username": f"agent-{i}"}
        for i in range(count)
    }
    return build_fleet(hosts(*pairs("orders", 2)) | agents, {AGENTS: list(agents)})


def linked_groups(counts: dict[str, int], *links: dict[str, Any], **variables: Any) -> Fleet:
    names = [name for group, count in counts.items() for name in pairs(group, count)]
    return fleet(*names, links=list(links), **variables)


def links_between_all(groups: str) -> list[dict[str, Any]]:
    return [{"from": a, "to": b} for a in groups for b in groups if a < b]


def star(count: int, **link: Any) -> Fleet:
    """Return groups that are linked to the group ``hub`` and to no other group."""
    names = [f"shop{number:02}" for number in range(count)]
    links = [{"from": f"{name}-mq01", "to": "hub-mq01", "duplex": True} | link for name in names]
    return linked_groups(dict.fromkeys(["hub", *names], 4), *links)


def balanced_groups(count: int) -> Fleet:
    """Return two groups, with a short and a long name, each with an address on two load balancers."""
    sizes = {"a": count // 2, "payments-clearing-house": count - count // 2}
    link = {"from": "a", "to": "payments-clearing-house", "include": ["queue://orders.>"]}
    host_variables: dict[str, Any] = {}
    for number, (group, size) in enumerate(sizes.items()):
        host_variables |= hosts(*pairs(group, size), links=[link], vip=f"192.0.2.{10 + number}", vip_interface="eth0")
    balancers = ["lb1", "load-balancer-2.frankfurt.internal.example.com"]
    return build_fleet(host_variables | {name: {} for name in balancers}, {BALANCERS: balancers})


def add_findings(original: Fleet) -> Fleet:
    """Return the fleet with up to three findings per broker, of different severities."""
    kinds: tuple[tuple[str, Severity], ...] = (("T001", "error"), ("S012", "warning"), ("N003", "info"))
    added_findings = [
        Finding(
            rule=rule,
            severity=severity,
            host=broker.host,
            message=f"rule {rule} is violated in activemq_links",
            fix="correct activemq_links",
        )
        for position, broker in enumerate(original.brokers)
        for rule, severity in kinds[: position % 4]
    ]
    return replace(original, findings=(*original.findings, *added_findings))


FLEETS = {
    "single broker": fleet("orders-mq01", nodes="a", ha="none"),
    "single brokers": shop(ha="none"),
    "shared file": shop(),
    "jdbc": shop(ha="shared-jdbc", jdbc=jdbc("jdbc:postgresql://db/x")),
    "pure": shop(ha="pure", release="5.5.1"),
    "many pure": fleet(*pairs("orders", 9), ha="pure", release="5.5.1"),
    "multicast": fleet(*pairs("orders", 5), discovery="multicast"),
    "nodes of a pair linked": fleet("orders-mq01", pair_links="static"),
    "missing node": fleet("orders-mq01", nodes="b"),
    "two groups": linked_groups({"orders": 2, "billing": 2}, {"from": "orders", "to": "billing"}),
    "agents": fleet_with_agents(3),
    "no brokers": build_fleet({"oddone": {}}, {BROKERS: ["oddone"]}),
    "links between seven groups": linked_groups(dict.fromkeys("abcdefg", 1), *links_between_all("abcdefg")),
    "links to groups far away": linked_groups(dict.fromkeys("abcdefghijkl", 3), *links_between_all("alfg")),
    "more links between than lines": linked_groups(dict.fromkeys("abcdefgh", 1), *links_between_all("abcdefgh")),
    "groups around hub": star(30),
    "balanced groups": balanced_groups(4),
    "sixty pairs with findings": add_findings(balanced_groups(60)),
    "a hundred pairs": fleet(*(name for i in range(10) for name in pairs(f"group{i}", 10))),
} | {
    f"{topology} of {count}": fleet(*pairs("orders", count), topology=topology)
    for topology in TOPOLOGIES
    for count in (2, 3, 4, 5, 6, 7, 11, 23)
}  # fmt: skip
