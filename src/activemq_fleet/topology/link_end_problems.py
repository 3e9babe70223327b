"""Create the findings about the ends of configured links: unknown, the same twice, or inside the inventory (T007)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from activemq_fleet.findings import Finding, error_finding
from activemq_fleet.settings.connectors_and_links import LinkSettings
from activemq_fleet.similar_names import most_similar_name
from activemq_fleet.topology.model.fleet import MAX_LISTED

_MISSING_LINK = "the network connection between the brokers would be missing, and messages would wait"


def link_end_inside_inventory_finding(host: str, position: int, name: str) -> Finding:
    """Return the error for a link that has ``addresses``, although its target is in the inventory (T007)."""
    message = f"activemq_links[{position}] has addresses, but its `to` is {name!r}, a group or pair of the inventory"
    return error_finding(
        "T007",
        host,
        message,
        "remove `addresses` from the link, or set its `to` to a name outside of the inventory",
        why="the inventory has the addresses of its own brokers: `addresses` is only for brokers outside of it",
    )


def link_to_itself_finding(host: str, position: int, name: str) -> Finding:
    """Return the finding for a link whose two ends are the same pair or broker (T007)."""
    return error_finding(
        "T007",
        host,
        f"`from` and `to` of activemq_links[{position}] name the same pair or broker, {name}",
        "set `to` to another pair, or remove the link",
        why="a broker has no link to itself, and both nodes of a pair serve the same store: the link has no effect",
    )


def unknown_link_end_findings(
    entry: LinkSettings, host: str, position: int, known: Collection[str]
) -> Iterator[Finding]:
    """Yield an error for each end (``from``, ``to``) of an ``activemq_links`` entry that is no group or pair (T007).

    ``host`` and ``position`` are those of the entry in ``activemq_links``. ``known`` are the groups and pairs.
    """
    for key, name in (("from", entry.source), ("to", entry.to)):
        if name not in known and not (key == "to" and entry.addresses):
            yield _unknown_link_end_finding(host, f"activemq_links[{position}].{key}", name, sorted(known))


def _unknown_link_end_finding(host: str, variable: str, name: str, known: Sequence[str]) -> Finding:
    if "," in name:
        return _several_ends_finding(host, variable, name)
    near = most_similar_name(name, known)
    listed = ", ".join(known[:MAX_LISTED])
    choice = f"{near}, or to another group or pair" if near else f"one of the groups and pairs {listed}"
    return error_finding(
        "T007",
        host,
        f"{variable} is {name!r}, but the inventory has no group or pair of this name",
        f"set {variable} to {choice}",
        why=_MISSING_LINK,
    )


def _several_ends_finding(host: str, variable: str, name: str) -> Finding:
    """Return the finding for a list of groups or pairs at one end of a link, which has only one (T007)."""
    names = [part for part in (part.strip() for part in name.split(",")) if part]
    different = list(dict.fromkeys(names))
    message = f"{variable} is {name!r}, but must be the name of one group or pair"
    if len(different) < len(names):
        twice = next(part for part in different if names.count(part) > 1)
        message = f"{variable} is {name!r}, which lists {twice} twice, but must be the name of one group or pair"
    if len(different) < 2:
        name = "".join(different) or "the name of a group or pair"
        return error_finding("T007", host, message, f"set {variable} to {name}", _MISSING_LINK)
    fix = f"write one entry of activemq_links for each of {', '.join(different)}"
    return error_finding("T007", host, message, fix, _MISSING_LINK)
