"""The agent's Prometheus metrics, in a registry of their own; the figures are read at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Histogram, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from activemq_agent.addresses import join
from activemq_agent.errors import AgentError

if TYPE_CHECKING:
    from activemq_agent.control import Control
    from activemq_agent.handling import Handlers
    from activemq_agent.link import Link
    from activemq_agent.publishing import Publisher
    from activemq_agent.store import Counts
    from activemq_agent.subscribing import Subscriber

PREFIX = "activemq_agent"
MOST_EVENTS = 200
"""Event names that get a series of their own; further ones, of which topics may bring any number, share ``other``."""
OTHER = "other"

_COUNTS = {
    "outbox_rows": ("outbox_events", "events that wait to be sent"),
    "outbox_bytes": ("outbox_bytes", "their size"),
    "oldest_age": ("outbox_oldest_age_seconds", "how long the oldest of them has waited"),
    "expired": ("expired_events", "events that were not sent in time and are kept apart"),
    "unconfirmed": ("unconfirmed_events", "events acknowledged on a topic that cannot be proved"),
    "inbox_rows": ("inbox_events", "messages that wait to be handled"),
    "inbox_bytes": ("inbox_bytes", "their size"),
    "quarantined": ("quarantined_events", "messages whose handlers failed for good"),
    "remembered": ("remembered_ids", "handled ids that are remembered against duplicates"),
    "journal_rows": ("journal_rows", "rows of the journal that are not in its files yet"),
    "damaged": ("damaged_rows", "rows of the store that failed their checksum"),
}


class Metrics:
    """The Prometheus metrics of an agent.

    ``counts`` returns the store's current counts; parts that are None have none.
    """

    def __init__(
        self,
        counts: Callable[[], Counts],
        *,
        publisher: Publisher | None = None,
        subscriber: Subscriber | None = None,
        handlers: Handlers | None = None,
        control: Control | None = None,
    ) -> None:
        self.registry = CollectorRegistry()
        self.publisher, self.subscriber, self.handlers, self.control = publisher, subscriber, handlers, control
        self._counts = counts
        self._names: set[str] = set()
        self._seconds = Histogram(
            f"{PREFIX}_handler_seconds", "how long handlers ran", ["event"], registry=self.registry,
            buckets=(0.005, 0.02, 0.1, 0.5, 1, 5, 15, 60, 300),
        )  # fmt: skip
        self.registry.register(_Reader(self._read))
        self._server: Any = None

    def observe(self, event: str, seconds: float) -> None:
        """Add the seconds of one handler run to the histogram of its event."""
        if event not in self._names and len(self._names) < MOST_EVENTS:
            self._names.add(event)
        self._seconds.labels(event if event in self._names else OTHER).observe(seconds)

    def serve(self, address: tuple[str, int]) -> None:
        """Serve the metrics on http://ADDRESS/metrics. Raises AgentError if the address cannot be listened on."""
        try:
            self._server, _ = start_http_server(address[1], address[0], registry=self.registry)
        except OSError as error:
            raise AgentError(
                f"metrics.address: {join(*address)} cannot be served: {error.strerror or error}"
            ) from error

    def close(self) -> None:
        """Stop serving the metrics."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _read(self) -> Iterator[Metric]:
        counts = self._counts()
        for field, (name, what) in _COUNTS.items():
            value = getattr(counts, field)
            yield GaugeMetricFamily(f"{PREFIX}_{name}", what, value=0 if value is None else value)
        lanes = GaugeMetricFamily(f"{PREFIX}_topic_events", "messages that wait, by topic filter", labels=["filter"])
        for lane, rows in counts.lanes.items():
            lanes.add_metric([lane], rows)
        yield lanes
        yield _counter("duplicates", "messages that were there already", counts.duplicates)
        yield _counter(
            "unconfirmed_dropped", "unconfirmed events that their bound pushed out", counts.unconfirmed_dropped
        )
        yield from self._read_parts()
        links = [("publisher", self.publisher), ("subscriber", self.subscriber)]
        yield from _of_links({role: part.link for role, part in links if part is not None})

    def _read_parts(self) -> Iterator[Metric]:
        if self.publisher:
            yield _counter("sent", "events put on the wire, copies counted", self.publisher.sent)
            yield _counter("acknowledged", "events that brokers acknowledged", self.publisher.acknowledged)
        if self.subscriber:
            yield _counter("received", "messages stored", self.subscriber.received)
        if self.handlers:
            yield _counter("handled", "events whose handlers ended well", self.handlers.handled)
            yield _counter("without_handler", "events that had no handler", self.handlers.without_handler)
            yield _counter("handler_failures", "runs of handlers that failed", self.handlers.failures)
        if self.control:
            yield _counter("refused", "events refused because the outbox was full", self.control.refused)


class _Reader(Collector):
    def __init__(self, read: Callable[[], Iterator[Metric]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        return self._read()

    def describe(self) -> Iterator[Metric]:
        return iter(())  # nothing is read before somebody asks


def _counter(name: str, what: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"{PREFIX}_{name}", what, value=value)


def _of_links(links: dict[str, Link]) -> Iterator[Metric]:
    active = GaugeMetricFamily(
        f"{PREFIX}_active_broker", "1 for the broker that is connected", labels=["connection", "broker"]
    )
    alarm = GaugeMetricFamily(f"{PREFIX}_alarm", "1 while waiting will not help", labels=["connection"])
    trip = GaugeMetricFamily(f"{PREFIX}_canary_seconds", "the last round trip", labels=["connection"])
    opened = CounterMetricFamily(f"{PREFIX}_connections", "connections that came up", labels=["connection"])
    lost = CounterMetricFamily(
        f"{PREFIX}_failovers", "connections that ended, by reason", labels=["connection", "reason"]
    )
    dropped = CounterMetricFamily(
        f"{PREFIX}_dropped", "what brokers sent and was thrown away, by reason", labels=["connection", "reason"]
    )
    for role, link in links.items():
        now = link.broker
        for broker in link.names:
            active.add_metric([role, broker], broker == now)
        alarm.add_metric([role], link.alarm is not None)
        if link.round_trip is not None:
            trip.add_metric([role], link.round_trip)
        opened.add_metric([role], link.connections)
        for reason, number in list(link.losses.items()):
            lost.add_metric([role, reason], number)
        for reason, number in list(link.dropped.counts.items()):
            dropped.add_metric([role, reason], number)
    yield from (active, alarm, trip, opened, lost, dropped)
