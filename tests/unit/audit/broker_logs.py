"""Generated logs of brokers for tests of ``audit``, with real messages and real record kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from activemq_fleet.audit.evidence import (
    ConnectionLoss,
    HostLogMinute,
    Incident,
    LogRecordEvidence,
    PairNode,
    SystemdJournalRecord,
)
from activemq_fleet.audit.journal_lines import AgentConnectionRecord
from activemq_fleet.audit.log_evidence import KINDS, evidence_in_log
from activemq_fleet.audit.operation_records import PlannedOperation
from activemq_fleet.audit.pair_findings import incidents_of_pair, pair_findings_of_logs
from activemq_fleet.node.log.log_records import Record
from tests.log_reading import event_of_any_kind, logger_of

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
A, B, C = "orders-mq01-a.example.com", "orders-mq01-b.example.com", "billing-mq01-a.example.com"
PAIR, STORE = "orders-mq01", "/srv/activemq/orders-mq01"

MASTER = ("0 chosen", "1 opened", "1 starting", "2 started")
STANDBY = ("5 chosen", "6 wait")
TAKEOVER = ("1:10 opened", "1:10 unclean", "1:11 starting", "1:12 started")
"""Lines of ``log``: a start as master, a start as standby, and the later takeover of this standby."""

MESSAGES = {
    "chosen": "Using Persistence Adapter: KahaDBPersistenceAdapter[/srv/activemq/orders-mq01]",
    "refresh": "Refreshing org.apache.activemq.xbean.XBeanBrokerFactory$1@5f: startup date [Sun Mar 01]",
    "invalid": "Failed to load: URL [file:/x/activemq.xml], reason: Unrecognized xbean element",
    "wait": f"Database {STORE}/lock is locked by another server. "
    "This broker is now in slave mode waiting a lock to be acquired",
    "opened": "KahaDB is version 7",
    "unclean": f"Page File: {STORE}/db.data. Recovering pageFile free list due to prior unclean shutdown..",
    "starting": "Apache ActiveMQ 5.18.3 (orders-mq01, ID:x-1-1-0:1) is starting",
    "started": "Apache ActiveMQ 5.18.3 (orders-mq01, ID:x-1-1-0:1) started",
    "stopping": "Apache ActiveMQ 5.18.3 (orders-mq01, ID:x-1-1-0:1) is shutting down",
    "stopped": "Apache ActiveMQ 5.18.3 (orders-mq01, ID:x-1-1-0:1) is shutdown",
    "start failed": "Failed to start Apache ActiveMQ (orders-mq01, ID:x-1-1-0:1)",
    "lost": "orders-mq01, no longer able to keep the exclusive lock so giving up being a master",
    "lock gone": f"Lock file {STORE}/lock, does not exist",
    "lock modified": f"Lock file {STORE}/lock, locked at Sun Mar 01, has been modified at Sun Mar 02",
    "lease try": "orders-mq01-b attempting to acquire exclusive lease to become the master",
    "lease got": "orders-mq01-b, becoming master with lease expiry Sun Mar 01 on dataSource: org.x.DataSource@1f",
    "jdbc": "Using Persistence Adapter: JDBCPersistenceAdapter(org.x.DataSource@1f)",
    # Pure master/slave, 5.5.
    "old starting": "ActiveMQ 5.5.1 JMS Message Broker (orders-mq01-b) is starting",
    "old started": "ActiveMQ JMS Message Broker (orders-mq01-b, ID:x-1-1-0:1) started",
    "slave connects": "Starting a slave connection between vm://orders-mq01-b and tcp://orders-mq01-a:61616",
    "slave attached": "Slave connection between vm://orders-mq01-b#0 and tcp://orders-mq01-a:61616 "
    "has been established.",
    "slave seen": "Passive Slave Broker orders-mq01-b is attached",
    "master lost": "Network connection between vm://orders-mq01-b#0 and tcp://orders-mq01-a:61616 "
    "shutdown: Connection reset",
    "promoted": "Master Failed - starting all connectors",
    "retired": "The Master has failed ... shutting down",
    # Bridges.
    "dial": "Establishing network connection from vm://billing-mq01 to "
    "masterslave:(tcp://orders-mq01-a.example.com:61616,tcp://orders-mq01-b.example.com:61616)",
    "connector": "Network Connector DiscoveryNetworkConnector:to-orders:BrokerService[billing-mq01] started",
    "bridge up": "Network connection between vm://billing-mq01#0 and "
    "tcp://orders-mq01-a.example.com/10.0.0.1:61616@50000 (orders-mq01-a) has been established.",
    "bridge lost": "Network connection between vm://billing-mq01#0 and unconnected "
    "shutdown due to a remote error: java.io.EOFException",
    "bridge too large": "Network connection between vm://billing-mq01#0 and tcp://x:61616 shutdown due to a local "
    "error: org.apache.activemq.MaxFrameSizeExceededException: Frame size of 10 MB is larger than max allowed 10 MB",
    "frame too large": "Transport Connection to: tcp://10.30.0.11:41011 failed: "
    "org.apache.activemq.MaxFrameSizeExceededException: Frame size of 14 MB larger than max allowed 10 MB",
    "bridge up b": "Network connection between vm://billing-mq01#4 and "
    "tcp://orders-mq01-b.example.com/10.0.0.2:61616@50001 (orders-mq01-b) has been established.",
    "dial to billing": "Establishing network connection from vm://orders-mq01-a?async=false&network=true "
    "to tcp://10.0.0.3:61616",
    "link started": "Network Connector DiscoveryNetworkConnector:link:BrokerService[orders-mq01-a] Started",
    "link up": "Network connection between vm://orders-mq01-a#2 and tcp:///10.0.0.3:61616@50002(billing-mq01) "
    "has been established.",
    "link stopped": "orders-mq01-a bridge to billing-mq01 stopped",
    "link came": "Started responder end of duplex bridge link@ID:billing-1-2-0:1",
    "other link came": "Started responder end of duplex bridge other@ID:billing-1-2-0:1",
    "came up": "Network connection between vm://orders-mq01-a#4 and tcp:///10.0.0.3:40000@61616(billing-mq01) "
    "has been established.",
    "handshake broken": "Error with pending remote brokerInfo on: "
    "tcp://orders-mq01-a.example.com/10.0.0.1:61616@40390 (Connection reset)",
    "bridge stopped": "billing-mq01 bridge to orders-mq01-a stopped",
    "nameless bridge stopped": "billing-mq01 bridge to Unknown stopped",
    "bridge refused": "Network connection between vm://billing-mq01#0 and tcp://x:61616 shutdown due to a remote "
    "error: java.lang.SecurityException: User name [network] or password is invalid.",
    "bridge without rights": "Network connection between vm://billing-mq01#0 and tcp://x:61616 shutdown due to a "
    "remote error: java.lang.SecurityException: User network is not authorized to read from: topic://ActiveMQ.Advisory",
    "client refused": "Failed to add Connection id=ID:vm-1-2-3:4, clientId=shop, clientIP=tcp://10.0.0.9:4711 "
    "due to User name [shop] or password is invalid.",
    "message failed": "Async error occurred: java.lang.NullPointerException: Cannot invoke "
    '"org.apache.activemq.transaction.Transaction.size()" because "transaction" is null',
    "right missing": "Async error occurred: java.lang.SecurityException: User shop is not authorized to write to: "
    "queue://orders",
    "client gone": "Transport Connection to: tcp://10.0.0.9:4711 failed: java.io.EOFException",
    "client twice": "Failed to add Connection id=ID:x, clientId=shop, clientIP=tcp://10.0.0.9:1 due to "
    "Broker: orders-mq01 - Client: shop already connected from tcp://10.0.0.8:1",
    "bridge twice": "Failed to add Connection id=x->y-1:1, clientId=link_y_inbound_x, clientIP=vm://x#8 due to "
    "Broker: x - Client: link_y_inbound_x already connected from vm://x#4",
    "missing journal": "Some journal files are missing: [2]",
    "corrupt": "Corrupt journal records found in '/srv/x/db-1.log' between offsets: 10-20",
    "store failed": "Stopping BrokerService[orders-mq01] due to IO exception, java.io.IOException: "
    "No space left on device",
    "replaced": "Stopping an existing active duplex connection [x] for network connector (link@ID:y).",
}


def log(host: str, *lines: str | tuple[str, str], clock: float = 0.0) -> list[LogRecordEvidence]:
    """Return the records of a host from lines ``[MINUTES:]SECONDS NAME``. Its clock is ``clock`` seconds ahead."""
    records = []
    for number, line in enumerate(lines, 1):
        text, stack = line if isinstance(line, tuple) else (line, "")
        offset, _, name = text.partition(" ")
        minutes, _, seconds = offset.rpartition(":")
        at = NOON + timedelta(minutes=int(minutes or 0), seconds=float(seconds) + clock)
        record = Record(number, at, "INFO", MESSAGES[name], logger_of(MESSAGES[name]), "main", stack)
        event = event_of_any_kind(record)
        assert event is not None, f"the message {name} has no record kind: correct MESSAGES"
        if event.kind in KINDS:
            body = "\n".join([record.message, stack])
            records.append(LogRecordEvidence(host, number, at, event.kind, event.fields, body, record.thread))
    return records


def logged_period(host: str, first: str, last: str, clock: float = 0.0) -> HostLogMinute:
    """Return a period in which a host writes irrelevant records."""
    return HostLogMinute(host, _at(first, clock), _at(last, clock))


def operation(host: str, first: str, last: str, clock: float = 0.0) -> PlannedOperation:
    """Return an operation of a playbook as recorded by a host."""
    return PlannedOperation(host, "restart", "ops@controller", _at(first, clock), _at(last, clock))


def agent(
    lost: str, back: str | None, *, broker: str = A, to: str = B, clock: float = 0.0
) -> list[AgentConnectionRecord]:
    """Return the records of an agent that loses its connection and connects again."""
    identity, closed = ("shop01.example.com", "shop", "e"), "the connection was closed"
    connection_records = [
        AgentConnectionRecord(*identity, 1, _at(lost, clock), is_up=False, broker=f"{broker}:1883", reason=closed)
    ]
    if back is not None:
        connection_records.append(
            AgentConnectionRecord(*identity, 2, _at(back, clock), is_up=True, broker=f"{to}:1883", reason=None)
        )
    return connection_records


def bridge_loss(lost: str, back: str | None, clock: float = 0.0) -> ConnectionLoss:
    """Return the loss of a bridge of another host."""
    return ConnectionLoss("bridge", C, _at(lost, clock), back=None if back is None else _at(back, clock))


def audit_pair(
    *logs: list[LogRecordEvidence],
    more: Sequence[object] = (),
    store: str | None = STORE,
    host_without_log: str = "",
    generations: Mapping[str, tuple[tuple[int, float], ...]] | None = None,
    states: Mapping[str, str] | None = None,
    collected: str = "",
    gaps: Mapping[str, str] | None = None,
    timezone: str = "UTC",
) -> list[Incident]:
    """Return the incidents of the pair A and B from evidence in reverse order.

    ``states``: the states of brokers when their logs were ``collected``. ``gaps``: the time after which a part of a
    host's log is missing.
    """
    generations_by_host, states_by_host = generations or {}, states or {}
    times_before_gaps = {host: (_at(text, 0),) for host, text in (gaps or {}).items()}
    at = _at(collected, 0) if collected else None
    nodes = [
        PairNode(
            host,
            "orders",
            PAIR,
            store,
            complete=host != host_without_log,
            generations=generations_by_host.get(host, ()),
            state=states_by_host.get(host),
            collected=at,
            times_before_gaps=times_before_gaps.get(host, ()),
            timezone=timezone,
        )
        for host in (A, B)
    ]
    evidence = [sign for records in logs for sign in evidence_in_log(records)]
    periods = [record for record in more if isinstance(record, HostLogMinute | SystemdJournalRecord)]
    operations = [record for record in more if isinstance(record, PlannedOperation)]
    witnesses = [record for record in more if isinstance(record, AgentConnectionRecord | ConnectionLoss)]
    findings = pair_findings_of_logs(nodes, reversed([*evidence, *periods]))
    return incidents_of_pair(findings, reversed(witnesses), operations=operations)


def only_incident(incidents: list[Incident], kind: str = "") -> Incident:
    """Return the only incident, or the only one of a kind."""
    matching = [incident for incident in incidents if kind in ("", incident.kind)]
    assert len(matching) == 1, f"the audit must report one incident {kind}, but it reports {incidents}"
    return matching[0]


def kinds(incidents: list[Incident]) -> list[str]:
    """Return the sorted kinds of incidents."""
    return sorted(incident.kind for incident in incidents)


def _at(text: str, clock: float) -> datetime:
    minutes, _, seconds = text.rpartition(":")
    return NOON + timedelta(minutes=int(minutes or 0), seconds=float(seconds) + clock)
