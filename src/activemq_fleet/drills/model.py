"""What a drill found, as data. Moments are seconds since the epoch; durations are in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from activemq_fleet.host.judge import BrokerState

What = Literal["kill", "pause", "stop"]
State = BrokerState | Literal["unknown"]
Verdict = Literal["clean", "findings", "incomplete", "void"]
UnitVerdict = Literal["delivered", "duplicate", "stuck", "lost", "indeterminate"]


@dataclass(frozen=True, slots=True)
class Unit:
    """One event that was not simply delivered: what became of it at its subscriber, and why that is said."""

    event_id: str
    verdict: UnitVerdict
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What became of every event of one pair's load; the counts of verdicts add up to ``accepted``.

    ``copies`` are messages that came again and were dropped by their receiver; they are no verdict.
    ``gaps`` says which records of which journal are missing.
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
    units: tuple[Unit, ...] = ()
    """The first of those that were not delivered."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of ``dataclasses.asdict``."""
        units = tuple(Unit(**unit) for unit in data["units"])
        return cls(**{**data, "gaps": tuple(data["gaps"]), "units": units})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault at the node that was active.

    ``takeover``: until the log of the node that took over said that it is started. ``silence`` and
    ``publish_gap``: the longest time around the fault without an event handled, and without one
    acknowledged, both by the agents' journals; the first begins at ``silent_from``. ``back``: until
    the node that had the fault stood by again.
    ``void``: why it proves nothing and was repeated. ``problem``: what went wrong.
    """

    number: int
    what: What
    pair: str
    host: str
    at: float
    successor: str | None = None
    takeover: float | None = None
    back: float | None = None
    silence: float | None = None
    silent_from: float | None = None
    publish_gap: float | None = None
    rate_accepted: float = 0.0
    rate_handled: float = 0.0
    in_flight: int = 0
    void: str | None = None
    problem: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """A host's state for a while. ``pair`` is the name of the pair that the host belongs to."""

    pair: str
    host: str
    state: State
    began: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Under which it was done. ``releases`` are by pair; ``rate`` is in events a second for each pair."""

    where: Literal["lab", "hosts"]
    what: What
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
    """A whole drill. ``reasons`` are the sentences behind the verdict, the gravest first."""

    verdict: Verdict
    reasons: tuple[str, ...]
    began: float
    ended: float
    faults: tuple[Fault, ...]
    accounts: tuple[Account, ...]
    spans: tuple[Span, ...]
    conditions: Conditions

    @property
    def counted(self) -> tuple[Fault, ...]:
        """The faults that prove something."""
        return tuple(fault for fault in self.faults if fault.void is None)

    def total(self, name: str) -> int:
        """The sum of one of the accounts' counts."""
        return sum(int(getattr(account, name)) for account in self.accounts)

    def to_dict(self) -> dict[str, Any]:
        """As ``lab drill --format json`` has it."""
        return {"schema_version": 1, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of ``to_dict``."""
        conditions = Conditions(**{**data["conditions"], "notes": tuple(data["conditions"]["notes"])})
        return cls(
            verdict=data["verdict"],
            reasons=tuple(data["reasons"]),
            began=data["began"],
            ended=data["ended"],
            faults=tuple(Fault(**fault) for fault in data["faults"]),
            accounts=tuple(Account.from_dict(account) for account in data["accounts"]),
            spans=tuple(Span(**span) for span in data["spans"]),
            conditions=conditions,
        )
