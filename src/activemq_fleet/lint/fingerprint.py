"""Compute fingerprints of documents without the fleet's own names; equal fingerprints mean equal findings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # `check --file` comes by here, and does without the weight of the topology
    from activemq_fleet.topology import Broker

_OWN_NAME = re.compile(r"(?!127\.|::)(?=.*[0-9])(?=.*[-.]).{4,}")
_IN_WORD, _IN_NAME = re.compile(rb"\w"), re.compile(rb"[\w.:-]")


def fingerprint(broker: Broker, data: bytes) -> bytes:
    """Return a hash of the document that does not depend on the fleet's own names."""
    return blake2b(without_names(broker, data)).digest()


def without_names(broker: Broker, data: bytes) -> bytes:
    """Return the document with numbers in place of the fleet's own names: equal results have the same findings.

    Which names are equal stays visible. Short words and loopback addresses stay too: a group called ``static`` must not
    hide a scheme, and rules ask whether an address is loopback. A word after ``group=`` or ``group`` that equals the
    group's name is always replaced.
    """
    data = number_names(own_names(broker), data.decode(errors="surrogateescape")).encode(errors="surrogateescape")
    for lead in (b"group ", b"group="):
        data = _without_group(data, lead, lead + broker.group.encode())
    return data


def own_names(broker: Broker) -> list[str]:
    """Return the fleet's names that fingerprints replace, shortest first: each has a digit, and a dot or a hyphen."""
    own: tuple[str, ...] = ()
    # A pair's name begins those of its hosts: with it they are told apart too.
    for name in sorted(names_of(broker), key=len):
        if not name.startswith(own) and _is_own(name):
            own += (name,)
    return list(own)


@lru_cache(maxsize=4096)
def _is_own(name: str) -> bool:
    return _OWN_NAME.fullmatch(name) is not None


def number_names(own: Sequence[str], text: str) -> str:
    """Return the text with each of the names replaced by a number, numbered as they occur."""
    # Names that are not there are the first; that one begins another cannot be.
    numbers = {name: number for number, name in enumerate(sorted(own, key=text.find))}
    for name in reversed(own):
        text = text.replace(name, f"\0{numbers[name]}\0")
    return text


def _without_group(data: bytes, lead: bytes, named: bytes) -> bytes:
    """Return the data with the group's name replaced where it is a whole word after ``lead``."""
    if named not in data:
        return data
    result, *parts = data.split(named)
    for part in parts:
        whole = not _IN_WORD.match(result[-1:]) and not _IN_NAME.match(part)
        result += (lead + b"\x00group\x00" if whole else named) + part
    return result


def names_of(broker: Broker) -> set[str]:
    """Return all names that the fleet gives to a broker and to what it is linked to."""
    names = {broker.host, broker.address, broker.identity.host, broker.broker_name, broker.pair, broker.group}
    names |= {account.name for account in broker.accounts}
    for link in broker.links:
        names.add(link.target)
        for host, _ in link.addresses:
            names.add(host)
    if broker.peer_address:
        names.add(broker.peer_address[0])
    return names
