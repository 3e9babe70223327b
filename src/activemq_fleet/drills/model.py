"""Define the results of a drill; times are seconds since the epoch, and durations are in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from pydantic import TypeAdapter

from activemq_fleet.addresses import host_name_without_domain
from activemq_fleet.audit.scraped_availability import ScrapedAvailability
from activemq_fleet.node.judge import BrokerState
from activemq_fleet.node.state.fault_kinds import FaultKind

ObservedState = BrokerState | Literal["unknown"]
DrillVerdict = Literal["clean", "findings", "incomplete", "void"]
EventVerdict = Literal["delivered", "duplicate", "stuck", "lost", "indeterminate"]


@dataclass(frozen=True, slots=True)
class FaultyEvent:
    """An event of a drill with a faulty outcome: it was lost, duplicated, stuck or indeterminate.

    The event has a verdict and a reason.
    """

    event_id: str
    verdict: EventVerdict
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairEventCounts:
    """The number of events of one broker pair in a drill for each outcome, such as lost or duplicate.

    The counts of all outcomes sum to ``accepted``. ``copies`` are redelivered messages that the receiver dropped; they
    are not a verdict. ``gaps`` describes missing records of the journals. ``units`` are the first 100 events that were
    lost, duplicated, stuck or indeterminate.
    """

    pair: str
    protocol: str
    accepted: int
    acknowledged: int
    handled: int
    lost: int = 0
    duplicate: int = 0
    stuck: int = 0
    indeterminate: int = 0
    copies: int = 0
    gaps: tuple[str, ...] = ()
    units: tuple[FaultyEvent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault that a drill injected, such as a killed broker, with the fault's measured effects.

    Examples of effects are takeover and downtime, in seconds. ``takeover``: the time until the log of the successor
    reported its start. ``silence`` and ``publish_gap``: the longest time around the fault without a handled event, and
    without an acknowledged event, both from the agents' journals; the silence begins at ``silent_from``. ``unserved``:
    the longest time around the fault in which scrapes of the brokers' metrics showed no active node, None without
    metrics. ``back``: until the faulted node was standby again. ``void``: why the fault proves nothing and was
    repeated. ``problem``: what went wrong.
    """

    number: int
    what: FaultKind
    pair: str
    host: str
    at: float
    successor: str | None = None
    takeover: float | None = None
    back: float | None = None
    silence: float | None = None
    silent_from: float | None = None
    publish_gap: float | None = None
    unserved: float | None = None
    rate_accepted: float = 0.0
    rate_handled: float = 0.0
    in_flight: int = 0
    void: str | None = None
    problem: str | None = None
    note: str | None = None

    @property
    def short_host_name(self) -> str:
        """The short name of the host on which the fault was injected: its first label, or its whole IP address."""
        return host_name_without_domain(self.host)

    @property
    def short_successor_name(self) -> str:
        """The short name of the host that took over; "" if none did."""
        return host_name_without_domain(self.successor or "")


@dataclass(frozen=True, slots=True)
class BrokerStateSpan:
    """A span of time in which a host's broker was in one state, such as active.

    The broker belongs to the pair ``pair``; ``began`` and ``ended`` are in epoch seconds.
    """

    pair: str
    host: str
    state: ObservedState
    began: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillSettingsAndMachine:
    """The setup of a drill (faults injected under load): its settings and its machine.

    The machine is the one that runs the drill. ``releases`` are by pair, ``rate`` is in events per second for each
    pair.
    """

    where: Literal["lab", "hosts"]
    what: FaultKind
    wanted: int
    rate: float
    seed: int
    target: str
    releases: Mapping[str, str]
    profiles: Mapping[str, str] = field(default_factory=dict)
    protocols: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillResult:
    """The result of a drill (faults injected under load): the verdict, its reasons, and all faults.

    ``reasons`` are sentences that explain the verdict, the most severe first. ``scraped``: the times without an active
    node by Prometheus; None if no Prometheus ran during the drill.
    """

    verdict: DrillVerdict
    reasons: tuple[str, ...]
    began: float
    ended: float
    faults: tuple[Fault, ...]
    accounts: tuple[PairEventCounts, ...]
    spans: tuple[BrokerStateSpan, ...]
    conditions: DrillSettingsAndMachine
    scraped: ScrapedAvailability | None = None

    @property
    def faults_under_sufficient_load(self) -> tuple[Fault, ...]:
        """The faults that are a valid test, because the test load was sufficient when the drill injected them."""
        return tuple(fault for fault in self.faults if fault.void is None)

    def event_count_of_all_pairs(self, name: str) -> int:
        """Return the total of one event count, such as ``lost``, over all pairs of the drill.

        ``name`` is the count's name.
        """
        return sum(int(getattr(account, name)) for account in self.accounts)

    @property
    def event_counts_of_all_pairs(self) -> PairEventCounts:
        """The total event counts of the drill over all pairs.

        They are those of a pair named ``all``.
        """
        names = ("accepted", "acknowledged", "handled", "lost", "stuck", "duplicate", "indeterminate", "copies")
        totals: dict[str, Any] = {name: self.event_count_of_all_pairs(name) for name in names}
        return PairEventCounts(pair="all", protocol="", **totals)

    def to_dict(self) -> dict[str, Any]:
        """Return the result of the drill as a dictionary for JSON.

        ``lab drill --format json`` prints it.
        """
        return {"schema_version": 1, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the result of a drill from a dictionary that ``to_dict`` returned.

        Raises pydantic.ValidationError.
        """
        return TypeAdapter(cls).validate_python(data)
