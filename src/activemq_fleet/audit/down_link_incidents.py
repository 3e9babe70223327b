"""Conclude from a host's bridges which of its links are down: never up, lost and not rebuilt, or given up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from activemq_fleet.audit import advice
from activemq_fleet.audit.evidence import Incident, PairNode, new_incident, short_name
from activemq_fleet.audit.host_incidents import REFUSALS
from activemq_fleet.audit.logged_bridges import LoggedBridge
from activemq_fleet.node.printable import count_with_noun


def down_link_incidents(
    node: PairNode, bridges: Iterable[LoggedBridge], incidents: Iterable[Incident]
) -> Iterator[Incident]:
    """Yield an incident for each network link of a broker that is down when the log of its host ends.

    Only links that the host's broker opens are checked. ``incidents`` are the other ones of the host: a bridge that
    breaks repeatedly until then has one already. A link of a name that the other broker opens, too, is up by the other
    broker's bridge, or an incident ``duplicate_bridge``.
    """
    bridges = list(bridges)
    accepted = {bridge.link for bridge in bridges if bridge.direction == "in" and bridge.link}
    breaking = {(incident.mark, incident.ended) for incident in incidents if incident.kind == "breaking_bridge"}
    for bridge in bridges:
        if bridge.direction != "out" or any(text in bridge.error for text in REFUSALS):
            continue
        if (bridge.peer, bridge.ended) in breaking or bridge.link in accepted:
            continue
        if bridge.state == "failed" and bridge.dialled is not None:
            yield _incident_of_link_never_up(node, bridge)
        elif bridge.is_not_rebuilt_by_running_broker:
            yield _incident_of_lost_link(node, bridge)


def _incident_of_link_never_up(node: PairNode, bridge: LoggedBridge) -> Incident:
    attempts = f" {count_with_noun(bridge.flaps, 'time')}" if bridge.flaps else ""
    reason = ""
    if bridge.broken_handshake:
        reason = " The last attempt failed during the handshake. The log has no later attempt."
    return new_incident(
        "link_down",
        node,
        advice.LINK_HANDSHAKE if bridge.broken_handshake else advice.LINK_NEVER_UP,
        began=bridge.dialled,
        began_from="log",
        cause=f"The link {_link_name(bridge)} of {short_name(node.host)} never came up. The broker tried{attempts} to "
        f"connect to {bridge.cause}.{reason}",
        recorded=bridge.dialled,
        mark=bridge.link or (bridge.cause or "")[:80],
    )


def _incident_of_lost_link(node: PairNode, bridge: LoggedBridge) -> Incident:
    loss_text = (
        f"The link {_link_name(bridge)} of {short_name(node.host)} to {(bridge.peer or 'the other broker')[:80]} "
        "has been down"
    )
    if bridge.broken_handshake:
        cause = (
            f"{loss_text} since its connection ended ({bridge.cause}). The next attempt to connect failed during the "
            f"handshake at {bridge.broken_handshake:%H:%M:%S} UTC. The log has no later attempt."
        )
    else:
        cause = f"{loss_text} since it broke ({bridge.cause}). It did not come up again before the end of the log."
    return new_incident(
        "link_down",
        node,
        advice.LINK_HANDSHAKE if bridge.broken_handshake else advice.LINK_LOST,
        began=bridge.ended,
        began_from="log",
        cause=cause,
        recorded=bridge.ended,
        mark=bridge.link or bridge.peer or "",
    )


def _link_name(bridge: LoggedBridge) -> str:
    return (bridge.link or "without a name")[:80]
