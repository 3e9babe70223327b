"""Warnings and errors: known records are harmless or belong to an incident, and unknown records are reported."""

from __future__ import annotations

import re

import pytest

from activemq_fleet.audit.record_signs import incident_kinds_of_record_kind
from activemq_fleet.logs.harmless import harmless_kind_ids, harmless_record_kinds
from activemq_fleet.logs.kinds import log_message_kind, log_message_kind_ids
from tests.support.recorded_logs import RecordedFindings, audit_logs

STARTED = [
    f"INFO  | {message} | org.apache.activemq.broker.BrokerService | main"
    for message in (
        "Using Persistence Adapter: KahaDBPersistenceAdapter[/srv/x]",
        "Apache ActiveMQ 5.18.3 (x, ID:x-1-1-0:1) is starting",
        "Apache ActiveMQ 5.18.3 (x, ID:x-1-1-0:1) started",
    )
]
CONNECTION = "org.apache.activemq.broker.TransportConnection"
ID_IN_USE = "due to Broker: x - Client: {} already connected from tcp://10.0.0.8:1"
BLOCKED_PRODUCER = (
    "Usage(default:memory) percentUsage=100%: Usage Manager Memory Limit reached. Producer (p) stopped to prevent "
    "flooding queue://a.b. See http://x (blocking for: {}s)"
)


def audit_records(*records: str, apart: int = 5) -> RecordedFindings:
    """Return the findings for the log of a broker that starts and then writes records ``apart`` seconds apart."""
    lines = [f"2026-03-01 10:00:0{second},000 | {line}" for second, line in enumerate(STARTED)]
    for number, record in enumerate(records, 1):
        minutes, seconds = divmod(number * apart, 60)
        hours, minutes = divmod(minutes, 60)
        lines.append(f"2026-03-01 {10 + hours}:{minutes:02}:{seconds:02},000 | {record}")
    return audit_logs({"x": "\n".join([*lines, ""]).encode()})


def test_each_documented_broker_warning_and_error_is_harmless_or_incident() -> None:
    warnings = {
        name for name in log_message_kind_ids() if re.search(r"\b(?:WARN|ERROR)\b", log_message_kind(name).releases)
    }

    unexplained = {name for name in warnings - harmless_kind_ids() if not incident_kinds_of_record_kind(name)}
    assert unexplained == {"LIFE-REFRESH"}  # a record of level INFO that the level of a logger hides


def test_each_harmless_record_has_message_releases_source_and_reason() -> None:
    for record in harmless_record_kinds():
        assert record.message
        assert record.releases
        assert record.source
        assert record.reason.endswith(".")


def test_harmless_records_are_no_incident_and_not_unexplained() -> None:
    closed_connection = (
        f"WARN  | Transport Connection to: tcp://x:5 failed: java.io.EOFException | {CONNECTION}.Transport | t"
    )

    findings = audit_records(*[closed_connection] * 50)

    assert (findings.incidents, findings.unexplained) == ([], [])
    assert "TR-CONN-FAILED" in harmless_kind_ids()


def test_unknown_log_error_is_unexplained_and_unknown_warning_only_if_repeated() -> None:
    error = "ERROR | The frobnicator of ID:x-1-2-3:4 failed | org.apache.activemq.Frob | main"
    warning = "WARN  | Frob {} is late | org.apache.activemq.Frob | main"

    findings = audit_records(error, *[warning.format(number) for number in range(4)])
    assert [(records.level, records.count) for records in findings.unexplained] == [("ERROR", 1)]

    (records,) = audit_records(*[warning.format(number) for number in range(7)]).unexplained
    assert (records.host, records.level, records.count, records.message) == ("x", "WARN", 7, "Frob 0 is late")
    assert audit_records(*["INFO  | Frob is here | org.apache.activemq.Frob | main"] * 9).unexplained == []


@pytest.mark.parametrize(
    ("record", "times", "kind_of_incident", "part_of_cause"),
    [
        (
            "ERROR | Could not accept connection : java.net.SocketException: Too many open files | "
            "org.apache.activemq.broker.TransportConnector | t",
            3,
            "too_many_open_files",
            "ran out of file descriptors 3 times",
        ),
        (
            "INFO  | Transport failed: java.lang.OutOfMemoryError: GC overhead limit exceeded | org.apache.x.Y | t",
            1,
            "out_of_memory",
            "ran out of memory once",
        ),
        (
            "WARN  | Could not accept connection from tcp://10.0.0.9:1: Exceeded the maximum number of allowed client "
            "connections. See the 'maximumConnections' property | org.apache.activemq.broker.TransportConnector | t",
            2,
            "refused_connections",
            "refused connections 2 times, because a connector has reached maximumConnections",
        ),
        (
            "WARN  | Could not accept connection from tcp://10.0.0.9:1: Received fatal alert: certificate_unknown "
            "(javax.net.ssl.SSLHandshakeException) | org.apache.activemq.broker.TransportConnector | t",
            5,
            "refused_connections",
            "their TLS handshake failed",
        ),
        (
            f"WARN  | Failed to add Connection id=ID:1, clientId=shop {ID_IN_USE.format('shop')} | {CONNECTION} | t",
            3,
            "duplicate_client",
            "another connection had the same client id: shop 3 times",
        ),
        (
            "WARN  | Stealing link for clientId till7 From Connection Transport Connection to: tcp://10.0.0.9:1 | "
            "org.apache.activemq.broker.region.RegionBroker | t",
            12,
            "duplicate_client",
            "took over their client id: till7 12 times",
        ),
        (
            f"WARN  | {BLOCKED_PRODUCER.format(30)} | org.apache.activemq.broker.region.Queue | t",
            20,
            "blocked_producers",
            "blocked producers of queue://a.b, because the memory limit was reached",
        ),
        (
            "WARN  | Job Scheduler Store is Full (100% of 1024). Stopping producer (p) to prevent flooding of the job "
            "scheduler store. See http://x | org.apache.activemq.broker.scheduler.SchedulerBroker | t",
            1,
            "blocked_producers",
            "blocked producers of a destination, because the store was full",
        ),
        (
            "WARN  | Transport (tcp://10.0.0.3:61616) failed, reason:  java.io.EOFException, attempting to "
            "automatically reconnect | org.apache.activemq.transport.failover.FailoverTransport | t",
            20,
            "breaking_bridge",
            "to tcp://10.0.0.3:61616 lost its connection 20 times in a row",
        ),
        (
            "INFO  | Slow KahaDB access: cleanup took 9,000 | org.apache.activemq.store.kahadb.MessageDatabase | t",
            3,
            "slow_store",
            "was slow 3 times",
        ),
        (
            "INFO  | Recovery replayed 90 operations from the journal in 312.5 seconds. | "
            "org.apache.activemq.store.kahadb.MessageDatabase | main",
            1,
            "slow_store",
            "312.5 seconds",
        ),
        (
            "WARN  | Security Error occurred on connection to: tcp://10.0.0.9:1, User joe is not authorized to create: "
            f"topic://ActiveMQ.Advisory.Connection | {CONNECTION}.Service | t",
            4,
            "refused_rights",
            "the account joe tried to create topic://ActiveMQ.Advisory.Connection 4 times without the right",
        ),
        (
            "ERROR | Broker Name: a b contained illegal characters matching regExp: x - replaced with a_b | "
            "org.apache.activemq.broker.BrokerService | main",
            1,
            "reported_error",
            "the broker replaced characters that are not allowed in its brokerName",
        ),
        (
            "WARN  | locker keepAlive resulted in java.io.IOException: x | org.apache.activemq.broker."
            "LockableServiceSupport | t",
            2,
            "store_error",
            "the lock of the store could not be renewed or released 2 times",
        ),
        (
            "ERROR | Frob could not write: java.io.IOException: No space left on device | org.apache.activemq.Frob | t",
            1,
            "store_error",
            "the disk was full",
        ),
        (
            "WARN  | The frob broke: java.io.IOException: Read-only file system | org.apache.activemq.Frob | t",
            1,
            "store_error",
            "could not be written",
        ),
    ],
)
def test_repeated_log_record_is_single_incident_with_cause_and_remedy(
    record: str, times: int, kind_of_incident: str, part_of_cause: str
) -> None:
    findings = audit_records(*[record] * times)

    (incident,) = findings.incidents
    assert incident.kind == kind_of_incident
    assert part_of_cause in incident.cause
    assert incident.remedy
    assert findings.unexplained == []


@pytest.mark.parametrize(
    ("record", "times"),
    [
        (
            f"WARN  | Failed to add Connection id=ID:1, clientId=shop {ID_IN_USE.format('shop')} | {CONNECTION} | t",
            2,
        ),
        (
            "WARN  | Could not accept connection from tcp://10.0.0.9:1: Remote host terminated the handshake "
            "(javax.net.ssl.SSLHandshakeException) | org.apache.activemq.broker.TransportConnector | t",
            50,
        ),
        (f"WARN  | {BLOCKED_PRODUCER.format(3)} | org.apache.activemq.broker.region.Queue | t", 2),
        (
            "ERROR | Could not accept connection during shutdown : null | "
            "org.apache.activemq.broker.TransportConnector | t",
            3,
        ),
        (
            "WARN  | Could not create JDBC tables; they could already exist. Failure was: CREATE TABLE ACTIVEMQ_MSGS "
            "Message: java.sql.SQLException: exists | org.apache.activemq.store.jdbc.adapter.DefaultJDBCAdapter | main",
            8,
        ),
        (
            "INFO  | Recovery replayed 90 operations from the journal in 12.5 seconds. | "
            "org.apache.activemq.store.kahadb.MessageDatabase | main",
            1,
        ),
    ],
)
def test_log_record_that_healthy_brokers_write_is_no_incident(record: str, times: int) -> None:
    findings = audit_records(*[record] * times)

    assert (findings.incidents, findings.unexplained) == ([], [])


def test_broker_that_stops_three_times_without_log_record_is_crash_incident() -> None:
    lines = []
    for hour in (10, 11, 12, 13):
        lines += [f"2026-03-01 {hour}:00:0{second},000 | {line}" for second, line in enumerate(STARTED)]
        lines.append(f"2026-03-01 {hour}:40:00,000 | INFO  | For help | x.Y | main")

    findings = audit_logs({"x": "\n".join(lines).encode()})

    (incident,) = findings.incidents
    assert incident.kind == "crashes"
    assert "ended 3 times in a row without a record" in incident.cause


def test_broker_start_that_needs_minutes_after_lock_is_slow_store_incident() -> None:
    minutes = (0, 0, 4)
    lines = [
        f"2026-03-01 10:0{minute}:0{second},000 | {line}"
        for second, (minute, line) in enumerate(zip(minutes, STARTED, strict=True))
    ]

    (incident,) = audit_logs({"x": "\n".join(lines).encode()}).incidents

    assert (incident.kind, incident.seconds) == ("slow_store", 242.0)


BRIDGES = "org.apache.activemq.network.DemandForwardingBridgeSupport | main"
LATER_RECORDS = ["INFO  | For help | x.Y | main"] * 3
BROKEN_LINK = (
    "INFO  | Establishing network connection from vm://x to tcp://10.0.0.3:61616 | "
    "org.apache.activemq.network.DiscoveryNetworkConnector | main",
    "INFO  | Network Connector DiscoveryNetworkConnector:link:BrokerService[x] started | "
    "org.apache.activemq.network.NetworkConnector | main",
    f"INFO  | Network connection between vm://x#0 and tcp:///10.0.0.3:61616@5 (y) has been established. | {BRIDGES}",
    "WARN  | Network connection between vm://x#0 and tcp:///10.0.0.3:61616@5 shutdown due to a remote error: "
    f"java.io.EOFException | {BRIDGES}",
)
ACCEPTED_LINK = (
    f"INFO  | Started responder end of duplex bridge link@ID:y-1-2-0:1 | {CONNECTION} | t",
    f"INFO  | Network connection between vm://x#4 and tcp:///10.0.0.3:400@61616 (y) has been established. | {BRIDGES}",
)


def test_lost_duplex_link_that_other_broker_opens_is_not_down() -> None:
    assert audit_records(*BROKEN_LINK, apart=60).kinds == set()  # a failover may take this long
    assert audit_records(*BROKEN_LINK, *LATER_RECORDS, apart=60).kinds == {"link_down"}
    assert audit_records(*BROKEN_LINK, *ACCEPTED_LINK, *LATER_RECORDS, apart=60).kinds == set()
