"""Format the status of one host as a line for Nagios, Icinga and Checkmk."""

from __future__ import annotations

from activemq_fleet.errors import InputError
from activemq_fleet.node.printable import escape_unprintable
from activemq_fleet.status.findings import FILLING, FULL
from activemq_fleet.status.host_evidence import BrokerStatistics
from activemq_fleet.status.model import FleetStatus

_WORDS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")


def nagios_line_and_exit_code(status: FleetStatus) -> tuple[str, int]:
    """Return the output line and the exit code of a Nagios check about a host's status.

    Performance data follow ``|`` in the line. 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN: the host did not answer, or the
    state of its broker, agent or load balancer is not known. Raises InputError for the status of several hosts. Source:
    Monitoring Plugins Development Guidelines.
    """
    states_by_host = status.states_by_host
    if len(states_by_host) > 1:
        raise InputError(
            f"--format nagios requires exactly one host, but {len(states_by_host)} hosts are selected: name one of "
            f"{', '.join(states_by_host)}"
        )
    findings = [finding for finding in status.findings if finding.severity != "info"]
    if any(row.state in ("unreachable", "unknown") for row in status.rows):
        code = 3
    else:
        code = max((2 if finding.severity == "error" else 1 for finding in findings), default=0)
    summary = "; ".join(f"{finding.rule}: {finding.message}" for finding in findings) or "all is well"
    states = ", ".join(f"{host} is {state}" for host, state in states_by_host.items())
    line = escape_unprintable(" ".join(f"ACTIVEMQ {_WORDS[code]} - {states}; {summary}".replace("|", "/").split()))
    data = " ".join(_performance_data(row.usage) for row in status.brokers if row.usage)
    return line + (f" | {data}" if data else ""), code


def _performance_data(usage: BrokerStatistics) -> str:
    """Return performance data: numbers alone, since the broker's account chooses what its MBeans return."""
    limits = [f"{name}={percent}%;{FILLING};{FULL};0" for name, percent in usage.percents.items()]
    return " ".join([*limits, f"messages={usage.messages}", f"durable={usage.durable}", f"dlq={usage.dlq}"])
