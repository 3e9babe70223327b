"""Findings of an audit in incomplete logs, and in errors of other stores and protocols."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.recorded_logs import RecordedFindings, audit_logs
from tests.unit.audit.broker_logs import NOON

DISCOVERY = "org.apache.activemq.network.DiscoveryNetworkConnector"
DATABASE = "org.apache.activemq.store.jdbc.JDBCPersistenceAdapter"
REFUSED = "Could not connect to remote URI: ssl://hub-mq01-a:61617: PKIX path building failed"
UNKNOWN_HOST = "Could not start network bridge between: vm://x and: tcp://hub:61616 due to: UnknownHostException: hub"
CLOSED_CONNECTION = "Transport Connection to: tcp://10.0.0.9:4321 failed: java.io.EOFException"
TRANSPORT = "org.apache.activemq.broker.TransportConnection.Transport"


def record(second: float, level: str, message: str, logger: str) -> str:
    time = f"{NOON + timedelta(seconds=second):%Y-%m-%d %H:%M:%S},000"
    return f"{time} | {level:5} | {message} | {logger} | ActiveMQ Task-1"


def audit(*records: str) -> RecordedFindings:
    return audit_logs({"rail-mq01-a": "\n".join([*records, ""]).encode()})


@pytest.mark.parametrize("message", [REFUSED, UNKNOWN_HOST])
def test_link_that_fails_until_end_of_log_without_info_records_is_down(message: str) -> None:
    findings = audit(*(record(30 * number, "WARN", message, DISCOVERY) for number in range(20)))

    assert findings.kinds == {"link_down"}
    cause = findings.only_incident("link_down").cause
    assert "tried 20 times to connect" in cause
    assert "may have been up before" in cause


def test_link_that_stops_failing_in_log_without_info_records_is_not_down() -> None:
    attempts = [record(30 * number, "WARN", REFUSED, DISCOVERY) for number in range(5)]

    assert audit(*attempts, record(900, "WARN", CLOSED_CONNECTION, TRANSPORT)).kinds == set()


@pytest.mark.parametrize(
    "message",
    [
        "Could not get JDBC connection: Cannot get a connection, pool error Timeout waiting for idle object",
        "JDBC Failure: Connection is closed, due to: The server was stopped",
    ],
)
def test_failed_database_connections_of_jdbc_store_are_store_error(message: str) -> None:
    findings = audit(*(record(number, "WARN", message, DATABASE) for number in range(3)))

    assert findings.kinds == {"store_error"}
    assert findings.unexplained == []


@pytest.mark.parametrize(
    ("client", "error"),
    [
        ("StompTransport:tcp://10.0.0.4:2", "stomp.ProtocolException: The maximum data length was exceeded"),
        (
            "tcp://10.0.0.4:2",
            "stomp.ProtocolException: The maximum frame size was exceeded",
        ),
        ("tcp://10.0.0.4:2", "java.io.IOException: The maximum message length was exceeded"),
        ("tcp://10.0.0.4:2", "stomp.ProtocolException: The maximum number of headers was exceeded"),
    ],
)
def test_frames_of_clients_above_limit_are_refused_frames_incident(client: str, error: str) -> None:
    message = f"Transport Connection to: {client} failed: {error}"
    findings = audit(*(record(number, "WARN", message, TRANSPORT) for number in range(10)))

    assert findings.kinds == {"refused_frames"}
    assert findings.only_incident("refused_frames").remedy.startswith("Let the client send smaller messages")


def test_missing_right_named_in_stack_trace_is_refused_rights_incident() -> None:
    refusal = "java.lang.SecurityException: User meter is not authorized to read from: topic://a.b"
    logger = "org.apache.activemq.transport.mqtt.strategy.AbstractMQTTSubscriptionStrategy"
    findings = audit(
        *(f"{record(number, 'WARN', 'Error subscribing to a/b', logger)}\n{refusal}" for number in range(9))
    )

    assert findings.kinds == {"refused_rights"}
    assert "the account meter tried to read from topic://a.b" in findings.only_incident("refused_rights").cause
