"""Decide which destinations a bridge carries."""

from __future__ import annotations

from collections.abc import Iterable

from activemq_fleet.errors import InputError
from activemq_fleet.releases import Release
from activemq_fleet.routes.bridges import Bridge

KINDS = ("queue", "topic")


def qualified_destination(text: str) -> str:
    """Return a destination with its type, ``queue://NAME`` or ``topic://NAME``: a name without a type is a queue.

    Raises InputError for anything but a single queue or topic, such as a name with a wildcard.
    """
    kind, separator, name = text.partition("://")
    if not separator:
        kind, name = "queue", text
    if kind not in KINDS or not name or set(name.split(".")) & {"*", ">", ""}:
        raise InputError(f"{text!r} is not a single destination: write queue://NAME or topic://NAME")
    return f"{kind}://{name}"


def matches_pattern(pattern: str, destination: str) -> bool:
    """Return whether a destination pattern such as ``queue://orders.>`` matches a destination.

    This pattern matches ``queue://orders.a.b``. ``*`` matches one part of a name.
    """
    pattern_kind, _, name_pattern = pattern.partition("://")
    destination_kind, _, name = destination.partition("://")
    if pattern_kind != destination_kind:
        return False
    parts = name.split(".")
    for position, part in enumerate(name_pattern.split(".")):
        if part == ">":
            return True
        if position >= len(parts) or part not in ("*", parts[position]):
            return False
    return len(parts) == len(name_pattern.split("."))


def carries_destination(bridge: Bridge, destination: str, release: Release) -> bool:
    """Return whether a network bridge forwards the messages of a destination.

    ``release`` is that of the broker that opens the bridge. A duplex connector sends its peer the included destinations
    (from 5.6 on, in the filter of advisories that it requests), and never the excluded ones (source: startRemoteBridge,
    getDestinationFilter).
    """
    carried, exclude = bridge.connector.carried_destinations, bridge.connector.exclude
    if bridge.back:
        exclude = ()
        # 5.5 subscribes to the advisories of all destinations. 5.6, which introduced masterslave:, changed this.
        carried = carried if release.has_masterslave_discovery else ()
    if _matches_any(exclude, destination):
        return False
    return not carried or _matches_any(carried, destination)


def has_static_subscription(bridge: Bridge, destination: str | None) -> bool:
    """Return whether a network bridge subscribes to a destination statically, that is, without any consumer.

    The destination None means every queue.
    """
    connector = bridge.connector
    if bridge.back or not connector.static:
        return False
    return _matches_any(connector.static, destination) if destination else "queue://>" in connector.static


def _matches_any(patterns: Iterable[str], destination: str) -> bool:
    return any(matches_pattern(pattern, destination) for pattern in patterns)
