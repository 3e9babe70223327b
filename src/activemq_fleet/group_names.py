"""Compute the inventory groups of brokers, whose names playbooks and ``--limit`` use, and the order of their hosts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from activemq_fleet.errors import InputError
from activemq_fleet.naming import Identity

BROKERS = "activemq_brokers"
MASTERS = "activemq_masters"
SLAVES = "activemq_slaves"
GROUPS_OF_EVERY_INVENTORY = frozenset({"all", "ungrouped"})
"""The names of the groups that every Ansible inventory has. No host can have such a name."""
_INVALID_CHARACTER = re.compile(r"[^a-z0-9_]")


def inventory_group_name(kind: str, name: str) -> str:
    """Return the name of the Ansible inventory group for a group or pair of brokers.

    An example is ``activemq_pair_orders_mq01`` for the pair ``Orders-mq01``.
    """
    return f"activemq_{kind}_{_INVALID_CHARACTER.sub('_', name.lower())}"


def inventory_groups_of_brokers(identities: Iterable[Identity]) -> dict[str, tuple[str, ...]]:
    """Return the Ansible inventory groups of brokers: names of hosts, by name of the group.

    The hosts are in the order given.

    Raises InputError when two groups, or two pairs, would share a name: playbooks would then
    act on both.
    """
    members: dict[str, list[str]] = {BROKERS: [], MASTERS: [], SLAVES: []}
    owners: dict[str, str] = {}
    for identity in identities:
        members[BROKERS].append(identity.name)
        members[MASTERS if identity.role == "master" else SLAVES].append(identity.name)
        for kind, name in (("group", identity.group), ("pair", identity.pair)):
            group = inventory_group_name(kind, name)
            if owners.setdefault(group, name) != name:
                raise InputError(
                    f"the {kind}s {owners[group]!r} and {name!r} would have the same inventory group {group}, because "
                    "the name of a group contains only lower-case letters, digits and _: rename the hosts of one "
                    f"{kind}, such as {identity.name}, so that the names of the two {kind}s differ in a letter or "
                    "digit"
                )
            members.setdefault(group, []).append(identity.name)
    return {group: tuple(hosts) for group, hosts in members.items()}


def hosts_level_by_level(
    group: str, hosts_of: Callable[[str], Iterable[str]], children_of: Callable[[str], Iterable[str]]
) -> list[str]:
    """Return the names of the hosts of an Ansible inventory group: its own, then those of its children level by level.

    Each host is returned once. ``hosts_of`` returns the hosts that are directly in a group, ``children_of`` the names
    of its child groups.
    """
    hosts: dict[str, None] = {}
    names, seen = [group], {group}
    for name in names:  # grows
        hosts |= dict.fromkeys(hosts_of(name))
        children = [child for child in children_of(name) if child not in seen]
        seen.update(children)
        names += children
    return list(hosts)
