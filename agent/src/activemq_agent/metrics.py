"""Provide the agent's Prometheus metrics in a separate registry; each scrape reads the figures from the status."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from activemq_agent.config_values import Endpoint
from activemq_agent.metrics_server import MetricsServer

PREFIX = "activemq_agent"
MAX_EVENTS = 200
"""Largest number of event names with a separate series; all further names, which senders choose, share ``other``."""
OTHER = "other"

GAUGES = (
    ("outbox_events", "store", "outbox_rows", "number of events on the agent's disk that wait to be sent to a broker"),
    (
        "outbox_bytes",
        "store",
        "outbox_bytes",
        "size of the events on the agent's disk that wait to be sent to a broker, in bytes",
    ),
    (
        "outbox_oldest_age_seconds",
        "store",
        "oldest_age",
        "age of the oldest event that waits to be sent to a broker, in seconds",
    ),
    (
        "expired_events",
        "store",
        "expired",
        "number of events that expired before they were sent, and that the agent keeps for activemq-agent requeue",
    ),
    (
        "unconfirmed_events",
        "store",
        "unconfirmed",
        "number of unconfirmed events: a broker acknowledged them, but did not return the agent's test message "
        "(canary)",
    ),
    ("inbox_events", "store", "inbox_rows", "number of received messages that wait for their handlers"),
    (
        "inbox_bytes",
        "store",
        "inbox_bytes",
        "size of the received messages that wait for their handlers, in bytes",
    ),
    (
        "quarantined_events",
        "store",
        "quarantined",
        "number of quarantined messages: every attempt of their handlers failed",
    ),
    (
        "remembered_ids",
        "store",
        "remembered",
        "number of ids of handled messages that the agent remembers to recognize duplicates",
    ),
    (
        "journal_rows",
        "store",
        "journal_rows",
        "number of rows of the event journal that the agent has not written to the journal's files yet",
    ),
    ("damaged_rows", "store", "damaged", "number of rows of the agent's store that failed their checksum"),
)
"""Name of each gauge without the prefix, the part and the member of the status that it shows, and its description."""

COUNTERS = (
    (
        "duplicates",
        "store",
        "duplicates",
        "received messages that the agent dropped as duplicates, because it had already stored or handled them",
    ),
    (
        "unconfirmed_dropped",
        "store",
        "unconfirmed_dropped",
        "unconfirmed events that the agent deleted, because it keeps only the newest unconfirmed events",
    ),
    ("sent", "publisher", "sent", "events that the agent sent to brokers, including repeated ones"),
    ("acknowledged", "publisher", "acknowledged", "events that brokers acknowledged"),
    ("received", "subscriber", "received", "messages that the agent received and stored"),
    ("handled", "handlers", "handled", "messages whose handlers succeeded"),
    ("without_handler", "handlers", "without_handler", "messages for which the agent has no handler"),
    ("handler_failures", "handlers", "failures", "handler runs that failed"),
    ("refused", "publisher", "refused", "events that the agent refused because its outbox was full"),
)
"""The same fields for each counter, whose series ends in ``_total``. A missing part has no counters."""


class Metrics(Collector):
    """The Prometheus metrics of an agent.

    They are computed at each scrape from the status that ``activemq-agent status`` prints.
    """

    def __init__(self, status: Callable[[], dict[str, Any]]) -> None:
        self.registry = CollectorRegistry()
        self._status = status
        self._event_names: set[str] = set()
        self._handler_seconds = Histogram(
            f"{PREFIX}_handler_seconds", "duration of the handlers' runs in seconds", ["event"], registry=self.registry,
            buckets=(0.005, 0.02, 0.1, 0.5, 1, 5, 15, 60, 300),
        )  # fmt: skip
        self.registry.register(self)
        self._server: MetricsServer | None = None

    def record_handler_time(self, event: str, seconds: float) -> None:
        """Record the time of one handler run, in seconds, in the agent's metrics.

        The histogram of handler times has a label with the name of the event.
        """
        if event not in self._event_names and len(self._event_names) < MAX_EVENTS:
            self._event_names.add(event)
        self._handler_seconds.labels(event if event in self._event_names else OTHER).observe(seconds)

    def serve(self, endpoint: Endpoint) -> None:
        """Serve the agent's metrics over HTTP on an endpoint.

        The path is ``/metrics``. Raises AgentError if the endpoint cannot be listened on.
        """
        self._server = MetricsServer(endpoint, self.registry)
        self._server.start()

    def close(self) -> None:
        """Close the HTTP server of the agent's metrics."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def describe(self) -> Iterator[Metric]:
        """Return no metrics, so that registering the collector does not read the agent's status."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Collect the agent's metrics for a scrape, and yield each of them.

        The histogram of handler times is collected separately.
        """
        status = self._status()
        for name, part, member, description in GAUGES:
            yield GaugeMetricFamily(f"{PREFIX}_{name}", description, value=status[part][member] or 0)
        lanes = GaugeMetricFamily(
            f"{PREFIX}_topic_events",
            "number of received messages that wait for their handlers, by topic filter",
            labels=["filter"],
        )
        for lane, rows in status["store"]["lanes"].items():
            lanes.add_metric([lane], rows)
        yield lanes
        for name, part, member, description in COUNTERS:
            if part in status:
                yield CounterMetricFamily(f"{PREFIX}_{name}", description, value=status[part][member])
        yield from _connection_metrics({role: status[role] for role in ("publisher", "subscriber") if role in status})


def _connection_metrics(connections: dict[str, dict[str, Any]]) -> Iterator[Metric]:
    """Yield the metrics of each connection of the agent, by its part of the status."""
    active = GaugeMetricFamily(
        f"{PREFIX}_active_broker", "1 for the broker to which the agent is connected", labels=["connection", "broker"]
    )
    alarm = GaugeMetricFamily(
        f"{PREFIX}_alarm",
        "1 while the agent cannot connect to any broker until an operator corrects the cause, such as a wrong password",
        labels=["connection"],
    )
    round_trip = GaugeMetricFamily(
        f"{PREFIX}_canary_seconds",
        "duration of the last round trip of a test message over the broker, in seconds",
        labels=["connection"],
    )
    established = CounterMetricFamily(
        f"{PREFIX}_connections", "connections that the agent established to brokers", labels=["connection"]
    )
    lost = CounterMetricFamily(
        f"{PREFIX}_failovers",
        "ended connections of the agent to brokers, by the reason of the end",
        labels=["connection", "reason"],
    )
    dropped = CounterMetricFamily(
        f"{PREFIX}_dropped",
        "messages from brokers that the agent discarded, by reason",
        labels=["connection", "reason"],
    )
    for role, connection in connections.items():
        for broker in connection["brokers"]:
            active.add_metric([role, broker], broker == connection["broker"])
        alarm.add_metric([role], connection["alarm"] is not None)
        if connection["round_trip"] is not None:
            round_trip.add_metric([role], connection["round_trip"])
        established.add_metric([role], connection["connections"])
        for reason, number in connection["losses"].items():
            lost.add_metric([role, reason], number)
        for reason, number in connection["dropped"].items():
            dropped.add_metric([role, reason], number)
    yield from (active, alarm, round_trip, established, lost, dropped)
