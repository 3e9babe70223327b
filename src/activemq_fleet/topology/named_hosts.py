"""Find the hosts that the name of a host, a pair or a group selects, with one precedence for all commands."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

from activemq_fleet.addresses import host_name_without_domain
from activemq_fleet.errors import InputError
from activemq_fleet.naming import hosts_with_full_or_short_name
from activemq_fleet.similar_names import most_similar_name
from activemq_fleet.topology.model.fleet import Fleet


class SelectableHost(NamedTuple):
    """A host that a command selects by its name, or by the name of its pair or group; a missing pair or group is ""."""

    host: str
    pair: str = ""
    group: str = ""


class HostsSelectedByName(NamedTuple):
    """The hosts that a name selects, and the kind of the name: the name of a host, a broker pair or a group."""

    kind: Literal["host", "pair", "group"]
    hosts: tuple[str, ...]


def selectable_brokers(fleet: Fleet) -> list[SelectableHost]:
    """Return all brokers of a fleet as SelectableHosts (host, pair, group), which commands select by name."""
    return [SelectableHost(broker.host, broker.pair, broker.group) for broker in fleet.brokers]


def find_named_hosts(
    name: str, brokers: Sequence[SelectableHost], other_hosts: Sequence[SelectableHost] = (), *, option: str
) -> HostsSelectedByName:
    """Return the hosts that the name of a host, a pair or a group selects.

    A name can be that of several of them. The first of these applies: a broker's host, a pair, a group, another host
    such as that of an agent. So a name selects the same brokers in commands that accept other hosts and in those that
    do not. A host may be given by its first label if only one host has it. ``option`` is the option or variable that
    errors name. Raises InputError for an unknown or ambiguous name.
    """
    all_hosts = (*brokers, *other_hosts)
    brokers_with_name = hosts_with_full_or_short_name(name, [broker.host for broker in brokers])
    if len(set(brokers_with_name)) == 1:
        return HostsSelectedByName("host", (brokers_with_name[0],))
    if hosts := [candidate.host for candidate in all_hosts if candidate.pair == name]:
        return HostsSelectedByName("pair", tuple(hosts))
    if hosts := [candidate.host for candidate in all_hosts if candidate.group == name]:
        return HostsSelectedByName("group", tuple(hosts))
    if hosts := brokers_with_name or hosts_with_full_or_short_name(name, [candidate.host for candidate in other_hosts]):
        return HostsSelectedByName("host", (only_host_with_name(name, hosts, option),))
    known = {
        text
        for candidate in all_hosts
        for text in (candidate.host, host_name_without_domain(candidate.host), candidate.pair, candidate.group)
        if text
    }
    raise InputError(
        f"{option} is {name}, which is not a host, pair or group of the inventory. {similar_name_hint(name, known)}"
    )


def similar_name_hint(name: str, known: Collection[str]) -> str:
    """Return the sentence of an error about an unknown name that suggests a known name, or a few of them."""
    suggestion = most_similar_name(name, known)
    return f"Did you mean {suggestion}?" if suggestion else f"Set, for example, one of {', '.join(sorted(known)[:4])}"


def only_host_with_name(name: str, hosts: Sequence[str], option: str) -> str:
    """Return the one host in ``hosts``, those that a name identifies; raise InputError for several hosts.

    The error names the hosts, and ``option``, the option with the name.
    """
    distinct_hosts = sorted(set(hosts))
    if len(distinct_hosts) > 1:
        raise InputError(
            f"{option} is {name}, but {len(distinct_hosts)} host names begin with this name. Set it to one of "
            f"{', '.join(distinct_hosts)}"
        )
    return distinct_hosts[0]
