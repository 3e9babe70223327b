"""Define the evidence from which incidents are concluded, and the incidents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from activemq_fleet.addresses import host_name_without_domain
from activemq_fleet.audit.advice import IncidentKind, Remedy

BeganFrom = Literal["agent", "bridge", "watchdog", "systemd", "log", "unknown"]
Certainty = Literal["proved", "possible"]

SKEW = timedelta(minutes=5)
"""The default of ``--skew``: the largest difference between the clocks of two hosts."""


@dataclass(frozen=True, slots=True)
class LogRecordEvidence:
    """A record of a broker's log that is evidence of a possible incident.

    It is timed by the clock of ``host``. ``count`` records of the same meaning were logged from ``at`` to ``last``,
    because refusals are frequent. ``text`` is the beginning of message and stack trace, ``level`` empty where it does
    not matter.
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
        """The time of the last log record that a piece of log evidence includes."""
        return self.last or self.at


@dataclass(frozen=True, slots=True)
class HostLogMinute:
    """A minute in which a host wrote log records.

    It has the times of the first and the last record of that minute.
    """

    host: str
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class SystemdJournalRecord:
    """A record of a host's systemd journal.

    It is about the end of the host's broker. ``number`` is the line of the record.
    """

    host: str
    number: int
    at: datetime
    kind: str
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConnectionLoss:
    """The loss of a connection that an agent or a network bridge had to a broker.

    It includes the connection that replaced the lost one. Both are timed by the clock of the agent or bridge.
    ``lost_host`` and ``back_host`` are None where only the pair is known, ``back`` where no connection followed.
    """

    source: Literal["agent", "bridge"]
    witness: str
    lost: datetime
    lost_host: str | None = None
    back: datetime | None = None
    back_host: str | None = None


@dataclass(frozen=True, slots=True)
class DurableSubscriptionMessageLossRisk:
    """A risk that durable subscriptions lose messages.

    A record in the broker's store describes it. It names the subscriptions that a start without a usable index put at
    risk.
    """

    time: datetime
    path: str
    description: str


@dataclass(frozen=True, slots=True)
class PairNode:
    """A node of a broker pair whose logs are audited.

    It may also be a host without a peer. ``complete`` is False where a part of its log is missing. ``generations`` are
    number and time (seconds since the epoch) of those that its guard made of a fenced store. ``risks`` are the records
    in its store. ``state`` is the state of its broker when its logs were collected, at the time ``collected``; None
    where that is not known. ``times_before_gaps`` are the times of the last log records before missing parts of its
    log. ``timezone`` is that of the times in its log.
    """

    host: str
    group: str | None = None
    pair: str | None = None
    store: str | None = None
    complete: bool = True
    generations: tuple[tuple[int, float], ...] = ()
    risks: tuple[DurableSubscriptionMessageLossRisk, ...] = ()
    state: str | None = None
    collected: datetime | None = None
    times_before_gaps: tuple[datetime, ...] = ()
    timezone: str = "UTC"

    def fencing_generation_at(self, moment: datetime | None) -> int | None:
        """Return the number of the fencing generation (store directory) of a broker at a given time.

        The broker wrote to that generation. Returns None if the host's broker wrote none.
        """
        before = [number for number, made in self.generations if moment is not None and made <= moment.timestamp()]
        return max(before, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """An incident: a problem of a host or its pair that an audit found, with its times, cause and remedy.

    It is a row of the dataset ``incidents`` without the row's id.
    """

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
    def incident_id(self) -> str:
        """The id of an incident: kind, host, time of the log record and ``mark`` (if not empty), joined by slashes."""
        when = f"{self.recorded:%Y%m%dT%H%M%S.%f}" if self.recorded else "-"
        return "/".join([self.kind, self.host, when, *([self.mark] if self.mark else [])])


def new_incident(kind: IncidentKind, node: PairNode, advised_remedy: Remedy, **known: Any) -> Incident:
    """Return a new incident of a kind on a host.

    Remedy and rules are those of ``advised_remedy``; other attributes are given by name.
    """
    about = {"host": node.host, "group": node.group, "pair": node.pair}
    return Incident(**{"kind": kind, **about, "remedy": advised_remedy.remedy, "rules": advised_remedy.rules, **known})


def seconds_between(began: datetime | None, ended: datetime | None) -> float | None:
    """Return the number of seconds between two times, or None if a time is missing or ``ended`` is before ``began``."""
    if began is None or ended is None or ended < began:
        return None
    return round((ended - began).total_seconds(), 3)


def short_name(host: str) -> str:
    """Return a host name without its domain."""
    return host_name_without_domain(host) or host
