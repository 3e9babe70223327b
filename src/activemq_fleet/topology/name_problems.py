"""Find errors in the names of hosts: names of no broker, incomplete pairs, and a name with two meanings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from activemq_fleet.findings import Finding, error
from activemq_fleet.naming import UnclearNameError
from activemq_fleet.topology.model.broker import Broker


def unmatched_name_findings(
    names: Iterable[str], unclear: Mapping[str, UnclearNameError], pattern: str
) -> Iterator[Finding]:
    """Yield the error T001 for each given host that is meant as a broker and whose name cannot be read; ``unclear``
    holds reasons by host.
    """
    for name in names:
        if name in unclear:
            text, fix = unclear[name].reason, unclear[name].fix
        else:
            text = "the host is in activemq_brokers, but its name does not match activemq_naming_pattern"
            fix = "rename the host to GROUP-mqNUMBER-NODE, such as orders-mq01-a, or remove it from activemq_brokers"
        yield error(
            "T001",
            name,
            text,
            fix,
            why=f"the name determines group, pair and node; activemq_naming_pattern is {pattern}",
        )


def misspelt_name_findings(names: Iterable[str], pattern: str) -> Iterator[Finding]:
    """Yield the warning T017 for each given host whose name has -mq and digits but does not match
    the naming pattern.
    """
    for name in names:
        yield Finding(
            rule="T017",
            severity="warning",
            host=name,
            message="the host name is similar to the name of a broker, but does not match activemq_naming_pattern, so "
            "the host is not in the fleet",
            fix="rename the host to GROUP-mqNUMBER-NODE with node a or b, change activemq_naming_pattern, "
            "or add the host to activemq_agents or activemq_loadbalancers if it is an agent or a load balancer",
            why="no configuration is generated for a host that is not in the fleet; activemq_naming_pattern is "
            f"{pattern}",
        )


def duplicate_node_findings(brokers: Sequence[Broker]) -> Iterator[Finding]:
    """Yield the error T003 for brokers that are the same node of the same pair."""
    seen: dict[tuple[str, str], list[str]] = defaultdict(list)
    for broker in brokers:
        seen[broker.pair, broker.identity.node].append(broker.host)
    for (pair, node), hosts in seen.items():
        if len(hosts) > 1:
            yield error(
                "T003",
                hosts[1],
                f"the host is node {node} of pair {pair}, but {hosts[0]} is the same node",
                "rename one of the hosts, remove it from the inventory, or change activemq_naming_pattern",
            )


def name_clash_findings(brokers: Sequence[Broker]) -> Iterator[Finding]:
    """Yield the error T003 for a pair with the name of a host in its group, which makes targets and link ends
    ambiguous.
    """
    hosts = {(broker.group, broker.identity.host): broker.host for broker in brokers}
    for pair, broker in {broker.pair: broker for broker in brokers if broker.profile.has_peer}.items():
        if other := hosts.get((broker.group, pair)):
            yield error(
                "T003",
                broker.host,
                f"the host is in pair {pair}, but the host {other} has the same name as this pair",
                "set activemq_pair on both nodes to a name that no host has",
            )


def name_conflict_findings(brokers: Iterable[Broker]) -> Iterator[Finding]:
    """Yield the finding T035 for each part of a broker's identity where a variable contradicts the host's name.

    A contradicting node is a warning, because the wrong host may be preferred; a different group or pair is an info.
    """
    for broker in brokers:
        for part, parsed in broker.identity.disagreements.items():
            yield Finding(
                rule="T035",
                severity="warning" if part == "node" else "info",
                host=broker.host,
                message=f"activemq_{part} is {getattr(broker.identity, part)}, but the host name contains {parsed}",
                fix=f"remove activemq_{part} if the host name is correct; the variable overrides the name",
                why=f"operators who read the host name expect another {part}",
            )
