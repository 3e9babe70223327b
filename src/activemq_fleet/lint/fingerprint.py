"""Compute fingerprints of documents without the fleet's own names; equal fingerprints mean equal findings."""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b

from activemq_fleet.topology import Broker

_OWN_NAME = re.compile(r"(?!127\.|::)(?=.*[0-9])(?=.*[-.]).{4,}")
_GROUP = re.compile(rb"group[ =](?<!\wgroup.)([\w.:-]+)")


def fingerprint(broker: Broker, data: bytes) -> bytes:
    """Return a hash of an activemq.xml with the fleet's own names left out; files with equal hashes need one check."""
    return blake2b(without_names(broker, data)).digest()


def without_names(broker: Broker, data: bytes) -> bytes:
    """Return an activemq.xml with numbers in place of the fleet's own names, so that similar brokers give equal files.

    Names are numbered as they occur, so that it stays visible which are equal. Only names with a digit, and a dot or a
    hyphen, are replaced, and no loopback addresses: a group called ``static`` must not hide a scheme, and rules ask
    whether an address is loopback. The group's own name is also replaced after ``group=`` and ``group``.
    """
    text = data.decode(errors="surrogateescape")
    own: tuple[str, ...] = ()
    # A pair's name begins those of its hosts: with it they are told apart too.
    for name in sorted(names_of(broker), key=len):
        if not name.startswith(own) and _is_own(name):
            own += (name,)
    numbers = {name: number for number, name in enumerate(sorted(own, key=text.find))}
    for name in reversed(own):
        text = text.replace(name, f"\0{numbers[name]}\0")
    group = broker.group.encode()
    named = text.encode(errors="surrogateescape")
    return _GROUP.sub(lambda found: found[0][:6] + b"\0group\0" if found[1] == group else found[0], named)


@lru_cache(maxsize=4096)
def _is_own(name: str) -> bool:
    return _OWN_NAME.fullmatch(name) is not None


def names_of(broker: Broker) -> set[str]:
    """Return the names that a fleet gives to a broker and its link partners: of hosts, pairs, groups, accounts."""
    names = {broker.host, broker.address, broker.identity.host, broker.broker_name, broker.pair, broker.group}
    names |= {account.name for account in broker.accounts}
    for link in broker.links:
        names.add(link.target)
        for host, _ in link.addresses:
            names.add(host)
    if broker.peer_address:
        names.add(broker.peer_address[0])
    return names
