"""Define the status of a fleet: a row for each broker, agent and balancer, and the findings about them.

``FleetStatus.to_dict`` is the JSON that ``activemq-fleet status --format json`` prints (docs/status.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from activemq_fleet.errors import InputError
from activemq_fleet.findings import SEVERITIES, Finding
from activemq_fleet.node.foreign_data import parse_untrusted_json
from activemq_fleet.node.judge import STATES, BrokerState
from activemq_fleet.pair_state import is_not_installed, pair_or_host
from activemq_fleet.status.host_evidence import NO_BROKER_EVIDENCE, BrokerStatistics, BrokerStatusEvidence

FORMAT = 1
OF_PAIRS = frozenset({"no-active", "two-active"})
"""The rules whose findings are about a pair as a whole; such a finding names one node of the pair as its host."""
ShownState = BrokerState | Literal["unreachable", "unknown"]
"""A broker's state: from the evidence, or ``unreachable`` if its host did not answer, or ``unknown`` if its host could
not determine it.
"""
LinkState = Literal["up", "half", "down", "unknown"]


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """The status of one network link (networkConnector) of an active broker.

    ``to`` names the brokers of which one has to be connected now. ``half``: a duplex link that carries messages one
    way. ``unknown``: the broker's management view did not answer.
    """

    link: str
    to: tuple[str, ...]
    state: LinkState
    reason: str = ""
    breaking: str = ""
    """The brokerName of the peer at which the bridge breaks repeatedly, each time soon after it came up."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A TLS certificate that a program uses, with the time at which it expires.

    It has its place, its end (RFC 3339) and the days until then; ``error`` is the reason why the end is unknown.
    """

    name: str
    ends: str | None
    days: float | None
    error: str = ""

    @property
    def days_text(self) -> str:
        """The days until the TLS certificate expires, as text such as ``12`` or ``0.5``; ``unknown`` if not known."""
        if self.days is None:
            return "unknown"
        return f"{self.days:g}" if abs(self.days) < 1 else f"{self.days:.0f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatus:
    """The observed status of one broker: its state, release, deployed configuration, usage and network links.

    Values are None or empty where they are unknown. ``since``: when its state began, ``started``: when its process was
    started (RFC 3339, UTC). ``release`` is running, ``release_planned`` is in the inventory. ``version`` is the
    installed configuration in force; ``not_deployed`` are files that differ from the plan, ``by_hand`` those changed on
    the host, ``restart`` the reasons why a restart is pending. ``usage`` are values of its MBeans.
    ``generation`` of a fenced store is written by the broker, ``generation_in_force`` is the pair's.
    """

    host: str
    group: str
    pair: str
    role: str
    ha: str
    state: ShownState
    reason: str = ""
    frozen: bool = False
    since: str | None = None
    started: str | None = None
    pid: int | None = None
    release: str | None = None
    release_planned: str = ""
    version: str | None = None
    not_deployed: tuple[str, ...] = ()
    by_hand: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    usage: BrokerStatistics | None = None
    links: tuple[LinkStatus, ...] = ()
    certificates: tuple[Certificate, ...] = ()
    generation: int | None = None
    generation_in_force: int | None = None
    holds_lock: bool | None = None
    evidence: BrokerStatusEvidence = NO_BROKER_EVIDENCE
    """What the host returned, for findings; it is not in the JSON."""

    def to_dict(self) -> dict[str, Any]:
        """Return the status of a broker as a dictionary for JSON."""
        columns = asdict(replace(self, usage=None, evidence=NO_BROKER_EVIDENCE))
        del columns["evidence"]
        usage = self.usage.model_dump(exclude_unset=True) if self.usage else {}
        return {**columns, "usage": usage, "configuration": self.configuration_state}

    @property
    def configuration_state(self) -> str:
        """The state of a broker's deployed configuration, compared with the plan.

        It is planned, outdated, by hand, none or unknown.
        """
        if self.state in ("unreachable", "unknown"):
            return "unknown"
        if self.version is None:
            return "none"
        return "by hand" if self.by_hand else "outdated" if self.not_deployed else "planned"

    @property
    def is_not_installed(self) -> bool:
        """Whether the playbook ``site`` has not installed the broker on its host yet."""
        return is_not_installed(self.state, self.version)

    @property
    def store(self) -> str | None:
        """The directory of the broker's store on its host; None if it is unknown."""
        return self.evidence.store

    @property
    def store_marker(self) -> tuple[str, ...] | None:
        """The lines of the store marker, a file that assigns a shared store to its pair; None without such a file."""
        return None if self.evidence.store_marker is None else tuple(self.evidence.store_marker)

    @property
    def guard(self) -> int | None:
        """The process of the guard that started the broker; None without a guard."""
        return self.evidence.guard


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStatus:
    """The observed status of one failover agent: its state, its queued events, and the brokers of its connections.

    ``outbox`` and ``inbox`` are numbers of events, ``oldest`` the age of the outbox's oldest in seconds. ``publisher``
    and ``subscriber`` are the brokers that it is connected to.
    """

    host: str
    group: str
    pair: str
    state: Literal["running", "stopped", "unreachable", "unknown"]
    reason: str = ""
    outbox: int | None = None
    outbox_bytes: int | None = None
    oldest: float | None = None
    inbox: int | None = None
    quarantined: int | None = None
    publisher: str | None = None
    subscriber: str | None = None
    not_deployed: tuple[str, ...] = ()
    certificates: tuple[Certificate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerStatus:
    """The status of one load balancer: whether HAProxy and keepalived run, and the virtual addresses that it holds.

    Programs are ``up`` or ``down``; virtual addresses are by group.
    """

    host: str
    state: Literal["up", "down", "unreachable", "unknown"]
    haproxy: str = ""
    keepalived: str = ""
    addresses: Mapping[str, bool | None] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetStatus:
    """The status of a fleet: of its brokers, agents and load balancers, with findings.

    ``time`` is when it was queried; ``seconds`` is the duration of the queries.
    """

    time: float
    seconds: float
    brokers: tuple[BrokerStatus, ...]
    agents: tuple[AgentStatus, ...] = ()
    balancers: tuple[BalancerStatus, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def exit_code(self) -> int:
        """The exit code of the command ``status``: 1 if a finding is an error or a warning, else 0."""
        return int(any(finding.severity != "info" for finding in self.findings))

    @property
    def summary_counts(self) -> dict[str, int]:
        """The numbers of brokers in all and by state, and of errors and warnings, as a dictionary."""
        states = Counter(broker.state for broker in self.brokers)
        severities = Counter(finding.severity for finding in self.findings)
        counted_states = [*STATES, "unreachable", "unknown"]
        return {
            "brokers": len(self.brokers),
            **{state: states[state] for state in counted_states},  # type: ignore[index]
            "errors": severities["error"],
            "warnings": severities["warning"],
        }

    @property
    def states_by_host(self) -> dict[str, str]:
        """The state of each host's broker, agent or load balancer (the first of these on the host), by host."""
        return _first_state_by_host((row.host, row.state) for row in self.rows)

    @property
    def rows(self) -> tuple[BrokerStatus | AgentStatus | BalancerStatus, ...]:
        """The statuses of all brokers, agents and load balancers, in this order."""
        return (*self.brokers, *self.agents, *self.balancers)

    def findings_of_host_and_pair(self, host: str) -> tuple[Finding, ...]:
        """Return the findings of a fleet's status about a host, and those about its pair as a whole."""
        pair = next((pair_or_host(row) for row in self.brokers if row.host == host), None)
        nodes = {row.host for row in self.brokers if pair_or_host(row) == pair}
        return tuple(
            finding
            for finding in self.findings
            if finding.host == host or (finding.rule in OF_PAIRS and finding.host in nodes)
        )

    def restricted_to(self, hosts: Collection[str]) -> FleetStatus:
        """Return a copy of the fleet's status that has only the brokers, agents and load balancers on some hosts.

        The findings about them and about their pairs are included.
        """
        about = {finding for host in hosts for finding in self.findings_of_host_and_pair(host)}
        return replace(
            self,
            brokers=tuple(row for row in self.brokers if row.host in hosts),
            agents=tuple(row for row in self.agents if row.host in hosts),
            balancers=tuple(row for row in self.balancers if row.host in hosts),
            findings=tuple(finding for finding in self.findings if finding in about),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the status of a fleet as a dictionary.

        ``--format json`` prints it.
        """
        finding_keys = ("rule", "severity", "host", "message", "fix")
        return {
            "format": FORMAT,
            "time": rfc3339(self.time),
            "seconds": round(self.seconds, 3),
            "summary": self.summary_counts,
            "brokers": [row.to_dict() for row in self.brokers],
            "agents": [asdict(row) for row in self.agents],
            "balancers": [asdict(row) for row in self.balancers],
            "findings": [{name: getattr(finding, name) for name in finding_keys} for finding in self.findings],
        }


def _first_state_by_host(states: Iterable[tuple[str, str]]) -> dict[str, str]:
    states_by_host: dict[str, str] = {}
    for host, state in states:
        states_by_host.setdefault(host, state)
    return states_by_host


def rfc3339(seconds: float | None) -> str | None:
    """Return a time in seconds since the epoch as text in the format RFC 3339.

    It is in UTC; None for None.
    """
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_states_and_findings(status_json: str, file_name: str) -> tuple[dict[str, str], tuple[Finding, ...]]:
    """Parse the JSON that ``status --format json`` prints, and return (states by host, findings).

    The state of a host with a broker is the broker's. ``file_name`` is for errors. Raises InputError for any other
    text.
    """
    try:
        status = parse_untrusted_json(status_json)
        if status["format"] != FORMAT:
            raise ValueError
        rows = [*status["brokers"], *status["agents"], *status["balancers"]]
        findings = tuple(map(_finding, status["findings"]))
        return _first_state_by_host((str(row["host"]), str(row["state"])) for row in rows), findings
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{file_name}: the file is not a status that this version of activemq-fleet can read: write it again with "
            "`activemq-fleet status --format json`"
        ) from None


def _finding(finding: Mapping[str, Any]) -> Finding:
    severity = SEVERITIES[SEVERITIES.index(finding["severity"])]
    rule, host, message, fix = (str(finding[name]) for name in ("rule", "host", "message", "fix"))
    return Finding(rule=rule, severity=severity, host=host, message=message, fix=fix)
