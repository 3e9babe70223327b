# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The kinds of log records from which hosts, the lab and audits read phases of brokers, bridges and pure pairs.

Each expression is derived from the source of all 114 release tags of apache/activemq from 5.3.0 to 6.3.1 and checked
against the logs of real brokers. ``activemq_fleet.logs`` adds the kinds that only audits read, as data.

Messages contain names that clients choose, and log4j 1 writes their line ends unchanged. So a record matches a kind
only if the message is in its class of ActiveMQ in any release, and the thread may write it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .log_records import UNFILLED_ERROR, Record, error_of_stack_trace, is_client_thread

COMPARED = 1000
"""Characters of a message that are compared with the kinds. Clients put names of any length into messages, and some
kinds take time with the square of that length."""
NEVER_OF_CLIENTS = frozenset(
    {"LIFE-STORE-CHOSEN", "LIFE-STARTING", "LIFE-STARTING-OLD", "LIFE-STARTED", "LIFE-STARTED-OLD", "LIFE-PA-STARTED"}
    | {"LOCK-FILE-WAIT", "LOCK-FILE-WAIT-OLD", "LOCK-DB-TRY", "LOCK-DB-WAIT", "LOCK-DB-GOT"}
    | {"LOCK-LEASE-TRY", "LOCK-LEASE-WAIT", "LOCK-LEASE-GOT", "KDB-OPENING", "KDB-VERSION"}
)
"""Kinds about a start or about waiting for a lock, which no broker logs on a thread that serves connections."""
_PACKAGE = "org.apache.activemq."


@dataclass(frozen=True)
class LogMessageKind:
    """A kind of message in a broker's log, whose wording a regular expression matches.

    It is ``regex``. ``classes`` are the simple names of the classes whose source has the message; empty if unknown.
    ``releases`` lists the levels and releases that write it, such as ``INFO 5.3.0-5.8.0``; empty if unused.
    """

    id: str
    regex: re.Pattern[str]
    classes: frozenset[str] = frozenset()
    releases: str = ""

    def can_be_written_by(self, logger: str, thread: str) -> bool:
        """Return whether a given logger and thread of a broker can write a log message of this kind.

        Returns True where both are unknown.
        """
        if logger and self.classes and logger.rpartition(".")[2] not in self.classes:
            return False
        return self.id not in NEVER_OF_CLIENTS or not is_client_thread(thread)


@dataclass(frozen=True)
class LogEvent:
    """An event of a broker: a log record of a known kind.

    It has the values that its message names. Absent values are left out.
    """

    kind: str
    record: Record
    fields: Mapping[str, str]


_BROKER = r"\((?P<broker>[^,()]+), (?P<brokerId>[^)]+)\)"
_BRIDGE = r"Network connection between (?P<local>\S+) and (?P<remote>\S+)"
_SLAVE_CONNECTION = r"Slave connection between (?P<local>.+) and (?P<remote>.+) has been"
_FAILED = r"Failed to start (?:Apache ActiveMQ|ActiveMQ JMS Message Broker)"
_IS_LOCKED = r"Database (?P<lock>.+) is locked"

# By the classes that write them: kinds with the expression that matches a message from its beginning.
_EXPRESSIONS = {
    "BrokerService": {
        "LIFE-STARTING": rf"Apache ActiveMQ (?P<version>\S+) {_BROKER} is starting$",
        "LIFE-STARTED": rf"Apache ActiveMQ (?P<version>\S+) {_BROKER} started$",
        "LIFE-STARTING-OLD": r"ActiveMQ (?P<version>\S+) JMS Message Broker \((?P<broker>[^)]+)\) is starting$",
        "LIFE-STARTED-OLD": rf"ActiveMQ JMS Message Broker {_BROKER} started$",
        "LIFE-STOPPING": rf"(?:Apache ActiveMQ (?P<version>\S+)|ActiveMQ Message Broker) {_BROKER} is shutting down$",
        "LIFE-STOPPED": rf"Apache ActiveMQ (?P<version>\S+) {_BROKER} is shutdown$",
        "LIFE-STOPPED-OLD": rf"ActiveMQ JMS Message Broker {_BROKER} stopped$",
        "LIFE-START-FAILED": rf"{_FAILED}(?: {_BROKER})?(?:$|\. Reason: (?P<reason>.*))",
        "LIFE-STORE-CHOSEN": r"Using Persistence Adapter: (?P<adapter>.+)$",
        "LIFE-PA-STARTED": r"Persistence Adapter successfully started$",
        "LIFE-MASTERFAIL-PROMOTE": r"Master Failed - starting all connectors$",
        "LIFE-MASTERFAIL-STOP": r"The Master has failed \.\.\. shutting down$",
    },
    "XBeanBrokerFactory": {"LIFE-CONFIG-INVALID": r"Failed to load: (?P<resource>.+?), reason: (?P<reason>.*)"},
    "SharedFileLocker": {
        "LOCK-FILE-WAIT": rf"{_IS_LOCKED} by another server\. This broker is now in slave mode waiting a lock to be "
        r"acquired$",
    },
    "JobSchedulerStore JobSchedulerStoreImpl MessageDatabase SharedFileLocker": {
        "LOCK-FILE-WAIT-OLD": rf"{_IS_LOCKED}\.\.\. waiting (?P<s>[\d.]+) seconds for the database to be unlocked\. "
        r"Reason: (?P<reason>.*)",
    },
    "DefaultDatabaseLocker TransactDatabaseLocker": {
        "LOCK-DB-TRY": r"Attempting to acquire the exclusive lock to become the Master broker$",
        "LOCK-DB-GOT": r"Becoming the master on dataSource: (?P<ds>.+)$",
    },
    "DefaultDatabaseLocker": {
        "LOCK-DB-WAIT": r"Failed to acquire lock\.\s+Sleeping for (?P<ms>\d+) milli\(s\) before trying again",
    },
    "LeaseDatabaseLocker": {
        "LOCK-LEASE-TRY": r"(?P<holder>.+) attempting to acquire exclusive lease to become the (?:[Mm]aster)"
        r"(?: broker)?$",
        "LOCK-LEASE-WAIT": r"(?P<holder>.+) failed to acquire lease\.\s+Sleeping for (?P<ms>\d+) milli",
        "LOCK-LEASE-GOT": r"(?P<holder>.+), becoming (?:the )?master (?:with lease expiry (?P<till>.+) )?on "
        r"dataSource: (?P<ds>.+)$",
    },
    "JDBCPersistenceAdapter LockableServiceSupport": {
        "LOCK-LOST": r"(?:(?P<broker>.+), )?[Nn]o longer able to keep the exclusive lock so giving up being a master$",
    },
    "KahaDBStore MessageDatabase": {"KDB-OPENING": r"(?:Opening MessageDatabase|Starting KahaDBStore)$"},
    "MessageDatabase": {"KDB-VERSION": r"KahaDB is version (?P<v>-?\d+)$"},
    "MasterConnector": {
        "PMS-SLAVE-CONNECTING": r"Starting a slave connection between (?P<local>.+) and (?P<remote>.+)$",
        "PMS-SLAVE-ATTACHED": rf"{_SLAVE_CONNECTION} established\.$",
        "PMS-SLAVE-REATTACHED": rf"{_SLAVE_CONNECTION} reestablished\.$",
        "PMS-SLAVE-NO-MASTER": r"Failed to start network bridge: (?P<e>.*)",
    },
    "MasterBroker": {"PMS-SLAVE-FAILED": r"Slave Failed$"},
    "TransportConnection": {
        "PMS-MASTER-SAW-SLAVE": r"(?P<mode>Passive|Active|\d+) Slave Broker (?P<slave>.+) is attached$",
        "NET-DUPLEX-UP": r"Started responder end of duplex bridge (?P<duplexId>\S+)$",
    },
    "DemandForwardingBridgeSupport": {
        "NET-UP": rf"{_BRIDGE} ?\((?P<peer>[^)]*)\) has been established\.$",
        "NET-REMOTE-ERR": rf"{_BRIDGE} shutdown due to a remote error: (?P<e>.*)",
        "NET-LOCAL-ERR": rf"{_BRIDGE} shutdown due to a local error: (?P<e>.*)",
        "NET-DOWN": r"(?P<broker>\S+) bridge to (?P<peer>.+) stopped$",
    },
}
KINDS = {
    id_: LogMessageKind(id_, re.compile(f"^{regex}"), frozenset(classes.split()))
    for classes, expressions in _EXPRESSIONS.items()
    for id_, regex in expressions.items()
}
"""The kinds that more than audits read, by identifier."""
_KINDS_BY_CLASS = {
    name: [kind for kind in KINDS.values() if name in kind.classes]
    for classes in _EXPRESSIONS
    for name in classes.split()
}


def parse_log_event(record: Record) -> LogEvent | None:
    """Return the event that a log record reports; None for a record of an unknown kind.

    Returns None also for one that is cut off. The kinds are ``KINDS``.
    """
    if not record.logger.startswith(_PACKAGE):
        return None
    for kind in _KINDS_BY_CLASS.get(record.logger.rpartition(".")[2], ()):
        match = kind.regex.match(record.message[:COMPARED])
        if match is not None:
            fields = {name: text for name, text in match.groupdict().items() if text is not None}
            event = LogEvent(kind.id, record, dict(fields_with_error_of_stack_trace(fields, record.stack)))
            return event if kind.can_be_written_by(record.logger, record.thread) else None
    return None


def fields_with_error_of_stack_trace(fields: Mapping[str, str], stack: str) -> Mapping[str, str]:
    """Return a log message's fields, with the placeholder ``{}`` of its error replaced by the error of its stack trace.

    ``e`` is the field of the error.
    """
    if fields.get("e", "").strip() != UNFILLED_ERROR:
        return fields
    return {**fields, "e": error_of_stack_trace(stack)}
