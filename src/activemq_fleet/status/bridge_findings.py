"""Find links of brokers that are not up, from the rows of a fleet's status."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.errors import names_to_text
from activemq_fleet.findings import Finding, error_finding
from activemq_fleet.node.log.bridge_breaks import is_frame_size_error
from activemq_fleet.status.host_evidence import BreakingBridge
from activemq_fleet.status.model import BrokerStatus, LinkStatus
from activemq_fleet.topology import Broker

_MAX_NAMED = 3


def bridge_findings(row: BrokerStatus, broker: Broker) -> Iterator[Finding]:
    """Yield an error for each network link of a broker that is down, one-directional, or repeatedly disconnected.

    A one-directional link has the state ``half``.
    """
    breaking = {bridge.peer: bridge for bridge in row.evidence.breaking_bridges}
    for link in row.links:
        text = f"the link {link.link} to {' or '.join(link.to)}"
        if link.breaking in breaking:
            yield _breaking_bridge(row, link, text, breaking[link.breaking])
        elif link.state == "down":
            yield error_finding(
                "bridge-down",
                row.host,
                f"{text} is not up: {link.reason}",
                (
                    f"check activemq.log on {_end_hosts_text(row, link)}. To see the link, run activemq-fleet explain "
                    f"{row.host}"
                ),
            )
        elif link.state == "half":
            text = f"{text} carries messages in one direction only: {link.reason}"
            yield error_finding(
                "bridge-half",
                row.host,
                text,
                f"run the playbook restart for {row.host}: when its broker starts, it opens the network connector "
                f"{link.link} again",
            )


def _end_hosts_text(row: BrokerStatus, link: LinkStatus) -> str:
    """Return the hosts at both ends of a link, for a sentence."""
    return " and ".join((row.host, *link.to))


def _breaking_bridge(row: BrokerStatus, link: LinkStatus, link_text: str, bridge: BreakingBridge) -> Finding:
    error = link.reason or bridge.error or "the log has no error"
    waiting = [queue for queue in row.usage.queues if not queue.dlq] if row.usage else []
    largest = max(waiting, key=lambda queue: queue.largest, default=None)
    if largest and largest.largest:
        message = (
            f"probably the first message of queue://{largest.name}, whose largest message has {largest.largest} bytes"
        )
    elif waiting:
        names = names_to_text([f"queue://{queue.name}" for queue in waiting], most=_MAX_NAMED)
        message = f"probably the first message of one of these queues: {names}"
    else:
        message = "a message that the log does not name"
    text = (
        f"{link_text} disconnected {bridge.count} times, each time soon after it came up: {error}. The cause is "
        f"{message}"
    )
    if is_frame_size_error(error):
        fix = f"raise wireFormat.maxFrameSize of the OpenWire connectors on {_end_hosts_text(row, link)}"
    else:
        fix = f"check activemq.log on {_end_hosts_text(row, link)}, and correct this error"
    if waiting:
        fix += ", or move this message out of its queue"
    return error_finding("bridge-breaking", row.host, text, fix)
