"""Define the evidence from which incidents are concluded, and the incidents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from activemq_fleet.audit.advice import IncidentKind, Remedy

BeganFrom = Literal["agent", "bridge", "watchdog", "systemd", "log", "unknown"]
Certainty = Literal["proved", "possible"]

SKEW = timedelta(minutes=5)
"""The default of ``--skew``: the largest difference between the clocks of two hosts."""


@dataclass(frozen=True, slots=True)
class LogEvidence:
    """A record of a broker's log that may show an incident, timed by the clock of ``host``.

    ``count`` records of the same meaning were logged from ``at`` to ``last``, because refusals are frequent. ``text``
    is the beginning of message and stack trace, ``level`` empty where it does not matter.
    """

    host: str
    sequence: int
    at: datetime
    kind: str
    fields: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    thread: str = ""
    last: datetime | None = None
    count: int = 1
    level: str = ""

    @property
    def last_record_time(self) -> datetime:
        """The time of the last log record that this evidence counts."""
        return self.last or self.at


@dataclass(frozen=True, slots=True)
class LoggedPeriod:
    """A period of at most a minute in which a host logged anything: the times of its first and last record."""

    host: str
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class UnitRecord:
    """A record of a systemd journal of ``host`` about the end of its broker; ``number`` is its line."""

    host: str
    number: int
    at: datetime
    kind: str
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConnectionLoss:
    """A lost connection of an agent or a bridge and the connection that replaced it, both timed by the witness's clock.

    ``lost_host`` and ``back_host`` are None where only the pair is known, ``back`` where no connection followed.
    """

    source: Literal["agent", "bridge"]
    witness: str
    lost: datetime
    lost_host: str | None = None
    back: datetime | None = None
    back_host: str | None = None


@dataclass(frozen=True, slots=True)
class SubscriptionRisk:
    """A record in a store: which durable subscriptions a start without a usable index put at risk."""

    time: datetime
    path: str
    description: str


@dataclass(frozen=True, slots=True)
class PairNode:
    """A node of a pair, or a host without a peer; ``complete`` is False where a part of its log is missing.

    ``generations`` are number and time (seconds since the epoch) of those that its guard made of a fenced store.
    ``risks`` are the records in its store. ``state`` is the state of its broker when its logs were collected, at the
    time ``collected``; None where that is not known.
    """

    host: str
    group: str | None = None
    pair: str | None = None
    store: str | None = None
    complete: bool = True
    generations: tuple[tuple[int, float], ...] = ()
    risks: tuple[SubscriptionRisk, ...] = ()
    state: str | None = None
    collected: datetime | None = None

    def fencing_generation_at(self, moment: datetime | None) -> int | None:
        """Return the number of the fenced store's generation that the host's broker wrote at
        ``moment``; None without one.
        """
        before = [number for number, made in self.generations if moment is not None and made <= moment.timestamp()]
        return max(before, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A row of the dataset ``incidents``: something that went wrong, its cause and remedy, without the row's id."""

    kind: IncidentKind
    host: str
    group: str | None = None
    pair: str | None = None
    began: datetime | None = None
    ended: datetime | None = None
    seconds: float | None = None
    downtime_min: float | None = None
    """The shortest time, in seconds, for which the pair had no working broker, as far as the evidence proves it."""
    downtime_max: float | None = None
    """The longest time, in seconds, for which the pair can have had no working broker."""
    began_from: BeganFrom = "unknown"
    certainty: Certainty = "proved"
    cause: str = ""
    remedy: str = ""
    rules: tuple[str, ...] = ()
    recorded: datetime | None = None
    """The time of the record that shows the incident; it is part of the id, and so is ``mark``."""
    mark: str = ""
    peer: str = ""
    """The broker that refused; if its log also shows the incident, the incident is reported once."""
    planned: bool = False
    """Whether a playbook caused the incident, and recorded the operation."""
    names: tuple[str, ...] = ()
    """The names of the broker, if logs of its peers can show the same incident."""
    store: str = ""
    """The store for whose lock a host without a known pair waits; a different host can hold the lock."""

    @property
    def id(self) -> str:
        """The id of the incident: its kind, host and time of the log record that shows it, joined by slashes."""
        when = f"{self.recorded:%Y%m%dT%H%M%S.%f}" if self.recorded else "-"
        return "/".join([self.kind, self.host, when, *([self.mark] if self.mark else [])])


def new_incident(kind: IncidentKind, node: PairNode, advised: Remedy, **known: Any) -> Incident:
    """Return a new incident of a host; remedy and rules are those of ``advised``, other
    attributes are given by name.
    """
    about = {"host": node.host, "group": node.group, "pair": node.pair}
    return Incident(**{"kind": kind, **about, "remedy": advised.remedy, "rules": advised.rules, **known})


def seconds_between(began: datetime | None, ended: datetime | None) -> float | None:
    """Return the seconds from ``began`` to ``ended``; None where either is None, or ``ended`` is earlier."""
    if began is None or ended is None or ended < began:
        return None
    return round((ended - began).total_seconds(), 3)


def short_name(host: str) -> str:
    """Return a host name without its domain."""
    return host.partition(".")[0] or host
