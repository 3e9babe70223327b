"""Classify one log record: a refusal, an error of the store, an exhausted resource, or no known sign of a problem.

Records of known kinds are read by ``_READERS``. A warning or an error that is neither harmless (``logs.harmless``), nor
read here, nor part of a run or a bridge, is unexplained.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from activemq_fleet.audit import advice
from activemq_fleet.audit.evidence import LogRecordEvidence
from activemq_fleet.logs.harmless import harmless_kind_ids
from activemq_fleet.node.log.root_cause import root_cause

REFUSED, RIGHTS, TWICE, CLIENT, STOLEN = "X-REFUSED", "X-RIGHTS", "X-TWICE", "X-CLIENT", "X-STOLEN"
"""Refused accounts, missing rights of clients, and client ids in use: of a bridge, of a client, or taken over."""
STORE, SPOOL, FRAME, FAILED = "X-STORE", "X-SPOOL", "X-FRAME", "X-FAILED"
"""Errors of the store and of the temporary store, refused frames and refused messages."""
BLOCKED, LIMITED, CONNECTIONS = "X-BLOCKED", "X-LIMITED", "X-CONNECTIONS"
"""Blocked producers, lowered limits of the store and refused connections."""
EXHAUSTED, SLOW, RECONNECTED = "X-EXHAUSTED", "X-SLOW", "X-RECONNECTED"
"""Exhausted memory or file descriptors, slow accesses to the store, and reconnections of a failover transport."""
REPORTED, UNEXPLAINED = "X-REPORTED", "X-UNEXPLAINED"
"""Other known errors, and unknown ones.

A sign's kind is one of these. Its field ``what`` has details, ``who`` names the subject, and ``of`` is the kind of
the record.
"""

LEVELS = ("WARN", "ERROR", "FATAL")
"""The levels of warnings and errors."""
EXHAUSTED_TEXTS = ("OutOfMemoryError", "Too many open files")
"""Texts that make a log record of any kind and level evidence."""
STARTS_FAILED = frozenset({"LIFE-START-FAILED", "LIFE-CONFIG-INVALID"})

_STORE_ERROR_BY_KIND: Mapping[str, str] = {
    "KDB-INDEX-CORRUPT": "corrupt",
    "KDB-MISSING": "missing",
    "KDB-DROPPED": "missing",
    "KDB-DROPPED-ONE": "missing",
    "KDB-CORRUPT-REFS": "missing",
    "KDB-CORRUPT-FATAL": "missing",
    "KDB-JOURNAL-CORRUPT": "corrupt",
    "KDB-CHECKPOINT-FAIL": "write",
    "KDB-STORE-FAIL": "write",
    "KDB-JOURNAL-WRITE": "write",
    "IO-STOP-BROKER": "write",
    "IO-STOP-CONNECTORS": "write",
    "IO-WAIT-STORE": "write",
    "IO-IGNORED": "write",
    "X-KDB-FILES": "missing",
    "X-KDB-INDEX-LOAD": "corrupt",
    "X-FILL-BATCH": "corrupt",
    "X-JDBC-FAILED": "database",
}
_CONNECTION_NOT_ADDED = "Failed to add Connection"
_CREDENTIALS = re.compile(r"User name (?:\[(?P<user>[^\]\n]{0,300})\] )?or password is invalid|password is incorrect")
_RIGHTS = re.compile(r"User (?P<user>\S+) is not authorized to (?P<right>[a-z ]{1,40}): ?(?P<destination>\S{1,300})")
_BRIDGE_RIGHTS = re.compile(r"User (?P<user>\S+) is not authorized to ")
_DUPLICATE_BRIDGE = re.compile(r"Client: (?P<client>\S{0,300}_(?:in|out)bound\S{0,300}) already connected from")
_DUPLICATE_CLIENT = re.compile(r"Client: (?P<client>[^\n]{0,300}?) already connected from")
_CLIENT = re.compile(r"clientId=(?P<client>[^\s=,]{1,300}_(?:in|out)bound[^\s=,]{0,300}),")
_BROKER_FAULT = re.compile(
    r"NullPointerException|Cannot invoke \"|ResourceAllocationException|Usage Manager|[Ss]tore is [Ff]ull"
)
"""Errors that refuse a message for another reason than a right of the account."""
_FULL_DISK = ("No space left on device", "isk quota exceeded")
_MISSING_FILES = re.compile(r"(?:[Mm]issing|corrupt)\S{0,100} journal files|references corrupt locations")
_WRITE_ERRORS = (
    "Read-only file system",
    "tale file handle",
    "tale NFS file handle",
    "Input/output error",
    "Transport endpoint is not connected",
)
_DATABASE = re.compile(r"SQLException|SQLNonTransient|JDBC")
_LOCK = re.compile(r"could not be locked|is locked|attempt to obtain lock|asked to shut down")
_UNREADABLE = re.compile(r"\tat org\.apache\.(?:activemq\.(?:store\.kahadb|leveldb|util\.Recoverable)|kahadb)")
"""Frames of a start that failed while its store was opened. Up to 5.8 kahaDB is in a separate package."""
_ADDRESS_IN_USE = re.compile(r"BindException|Address already in use|lock")
_SPOOL = re.compile(r"kahadb\.plist|FilePendingMessageCursor|tmp_storage")
_MEMORY = re.compile(
    r"java\.lang\.OutOfMemoryError(?:: (?P<what>[^\n|\"')]{0,60}))?|unable to create (?:new )?native thread"
)
_OPEN_FILES = re.compile(r"Too many open files")
_USAGE = re.compile(r"(?P<temp>[Tt]emp)|(?P<store>[Ss]tore is Full|:store|persistent)", re.IGNORECASE)
_CONNECTION_LIMIT = re.compile(r"[Mm]aximum number of allowed client connections|ExceededMaximumConnections")
_TLS = re.compile(r"SSL|TLS|certificate|handshake", re.IGNORECASE)
_PROBE = re.compile(r"terminated the handshake|EOFException|Connection reset|Broken pipe|closed")
"""How a connection ends that a health check opened."""
_STOPS = re.compile(r"BrokerStoppedException|Broker\S* (?:has been |is being |is )?stopped|peer \S+ stopped|disposed")
_VARIABLE = re.compile(r"ID:\S+|\w[\w+.-]*://\S+|0x[0-9a-f]+|@[0-9a-f]{4,}|\d+")
_START_ERROR_LENGTH = 200  # characters
_SOCKET = re.compile(r"@\d+$")
"""The local port in a connected socket's address."""
_WORDING_LENGTH = 160
"""Characters of a message by which unexplained records count as the same."""


def incident_evidence_in_log_record(record: LogRecordEvidence) -> LogRecordEvidence | None:
    """Return the evidence of an incident in one log record; None if the record has none.

    Examples are a refusal and a store error.
    """
    exhausted = _exhausted_resource(record)
    if exhausted is not None:
        return exhausted
    if record.kind in harmless_kind_ids():
        return _limit_of_store(record) if record.kind in _LIMITS else None
    reader = _READERS.get(record.kind)
    if reader is not None:
        return reader(record)
    if record.kind in advice.REPORTED:
        return _evidence(record, REPORTED, record.kind, "")
    return None if record.kind in _KINDS_BY_ORDER else _disk_error_or_unexplained(record)


def _exhausted_resource(record: LogRecordEvidence) -> LogRecordEvidence | None:
    memory = _MEMORY.search(record.text)
    if memory:
        return _evidence(record, EXHAUSTED, "memory", (memory["what"] or "").strip())
    return _evidence(record, EXHAUSTED, "files", "") if _OPEN_FILES.search(record.text) else None


def _store_error(record: LogRecordEvidence) -> LogRecordEvidence | None:
    return _evidence(record, STORE, _store_error_kind(record.text) or _STORE_ERROR_BY_KIND[record.kind], "")


def _failed_start(record: LogRecordEvidence) -> LogRecordEvidence | None:
    """Return the store error that made a broker start fail.

    It may also be an error of reading the store, whatever its exception.
    """
    what = _store_error_kind(record.text)
    if _LOCK.search(record.text):
        return None
    if what is None and _UNREADABLE.search(record.text) and not _ADDRESS_IN_USE.search(record.text):
        what = "write" if "Permission denied" in record.text else "corrupt"
    if what is None:
        return None
    return replace(_evidence(record, STORE, what, ""), text=start_error_text(record.text))


def start_error_text(text: str) -> str:
    """Return the error that the log record of a failed broker start contains.

    It is the first line of the record and the deepest cause in its stack trace.
    """
    first, *stack = text.split("\n")
    cause = root_cause(stack) or next((line for line in stack if line.strip() and not line.startswith("\t")), "")
    return f"{first[:_START_ERROR_LENGTH]}: {cause[:_START_ERROR_LENGTH]}" if cause else first[:_START_ERROR_LENGTH]


def _refused_frame(record: LogRecordEvidence) -> LogRecordEvidence | None:
    what = "frame" if record.kind == "TR-FRAME-TOO-LARGE" else "client"
    return _evidence(record, FRAME, what, record.fields.get("remote", "").rpartition(":")[0])


def _failed_command(record: LogRecordEvidence) -> LogRecordEvidence | None:
    """Return the evidence in the failure of a command that a client or a bridge sent to a broker."""
    rights = _right_missing(record)
    if rights is not None:
        return rights
    if _BROKER_FAULT.search(record.text):
        return _evidence(record, FAILED, "message", "")
    if _CREDENTIALS.search(record.text) or _DUPLICATE_CLIENT.search(record.text) or _STOPS.search(record.text):
        return None  # the record of the refused connection counts
    return _disk_error_or_unexplained(record)


def _right_missing(record: LogRecordEvidence) -> LogRecordEvidence | None:
    rights = _RIGHTS.search(record.text)
    if rights is None:
        return None
    return _evidence(record, RIGHTS, "rights", f"{rights['user']} {rights['right']} {rights['destination']}")


def _refused_connection(record: LogRecordEvidence) -> LogRecordEvidence | None:
    """Return the evidence of a refused connection of a client or a bridge.

    It may be the refusal of the bridge at its other end.
    """
    if record.kind == "NET-DUP-CLIENT" and not record.text.startswith(_CONNECTION_NOT_ADDED):
        return None
    twice = _DUPLICATE_BRIDGE.search(record.text)
    if twice:
        return _evidence(record, TWICE, "client", twice["client"])
    in_use = _DUPLICATE_CLIENT.search(record.text)
    if in_use and not record.kind.startswith("NET-REMOTE"):
        return _evidence(record, CLIENT, "client", in_use["client"])
    is_bridge = record.kind.startswith("NET-")
    refused = _CREDENTIALS.search(record.text)
    if refused:
        what = "bridge" if is_bridge or _CLIENT.search(record.text) else "client"
        return _evidence(record, REFUSED, what, refused["user"] or "")
    if is_bridge:
        rights = _BRIDGE_RIGHTS.search(record.text)
        return _evidence(record, REFUSED, "rights", rights["user"]) if rights else None
    rights_of_client = _right_missing(record)
    if rights_of_client is not None or _STOPS.search(record.text):
        return rights_of_client
    return _disk_error_or_unexplained(record)


def _unaccepted_connection(record: LogRecordEvidence) -> LogRecordEvidence | None:
    if _CONNECTION_LIMIT.search(record.text):
        return _evidence(record, CONNECTIONS, "limit", "")
    if "sd" in record.fields or _PROBE.search(record.text):
        return None
    if _TLS.search(record.text):
        return _evidence(record, CONNECTIONS, "tls", "")
    return _disk_error_or_unexplained(record)


def _stolen_client(record: LogRecordEvidence) -> LogRecordEvidence | None:
    return _evidence(record, STOLEN, "client", record.fields.get("client", ""))


def _lost_connection(record: LogRecordEvidence) -> LogRecordEvidence | None:
    """Return the evidence of a lost connection of a bridge, which its failover transport replaces.

    The bridge has no log record of it.
    """
    return _evidence(record, RECONNECTED, "link", _SOCKET.sub("", record.fields.get("uri", "")))


def _blocked_producer(record: LogRecordEvidence) -> LogRecordEvidence | None:
    usage = _USAGE.search(record.fields.get("what") or record.fields.get("u") or "")
    what = "memory" if usage is None else str(usage.lastgroup)
    return _evidence(record, BLOCKED, what, record.fields.get("dest") or record.fields.get("q", ""))


def _limit_of_store(record: LogRecordEvidence) -> LogRecordEvidence | None:
    return _evidence(record, LIMITED, "store", "")


def _spool_error(record: LogRecordEvidence) -> LogRecordEvidence | None:
    """Return the evidence of an error of the temporary store, which holds messages that do not fit in memory."""
    if record.kind == "X-PAGE-IN" and not _SPOOL.search(record.text):
        return _evidence(record, STORE, _store_error_kind(record.text) or "corrupt", "")
    return _evidence(record, SPOOL, _store_error_kind(record.text) or "lost", "")


def _slow_access(record: LogRecordEvidence) -> LogRecordEvidence | None:
    seconds = float(record.fields["s"]) if record.kind == "KDB-RECOVERED" else 0.0
    if record.kind == "KDB-RECOVERED" and seconds < SLOW_REPLAY:
        return None
    return _evidence(record, SLOW, "replay" if record.kind == "KDB-RECOVERED" else "access", "")


SLOW_REPLAY = 60.0
"""Seconds from which the replay of the store journal at a start counts as slow."""
_LIMITS = frozenset({"LIMIT-STORE", "X-LIMIT-PERCENT"})
_READERS: Mapping[str, Callable[[LogRecordEvidence], LogRecordEvidence | None]] = {
    **dict.fromkeys(_STORE_ERROR_BY_KIND, _store_error),
    **dict.fromkeys(STARTS_FAILED, _failed_start),
    "TR-FRAME-TOO-LARGE": _refused_frame,
    "TR-FRAME-LIMIT": _refused_frame,
    # Commands without a response, such as asynchronous messages, and commands of STOMP and MQTT.
    "TR-ASYNC-ERR": _failed_command,
    "X-SECURITY-ERROR": _failed_command,
    "X-PROTOCOL-ERROR": _failed_command,
    "X-CLIENT-COMMAND": _failed_command,
    "X-MQTT-PUBLISH": _failed_command,
    # A refusal causes more records than these, so it is counted once. A record of a duplicate client is of
    # the kind NET-DUP-CLIENT, regardless of its other content.
    "TR-ADD-FAILED": _refused_connection,
    "NET-DUP-CLIENT": _refused_connection,
    "NET-REMOTE-ERR": _refused_connection,
    "TR-ACCEPT-FAIL": _unaccepted_connection,
    "TR-LINK-STEAL": _stolen_client,
    "FO-LOST-RETRY": _lost_connection,
    "PFC-BLOCKED": _blocked_producer,
    "PFC-SENDFAIL": _blocked_producer,
    "PFC-TX-WAIT": _blocked_producer,
    "PFC-CURSOR-BLOCKED": _blocked_producer,
    "X-PFC-SCHEDULER": _blocked_producer,
    "X-DISK-LIST": _spool_error,
    "X-DISK-WRITE": _spool_error,
    "X-PAGE-IN": _spool_error,
    "KDB-SLOW": _slow_access,
    "KDB-RECOVERED": _slow_access,
}
READ = frozenset(_READERS) | _LIMITS
"""The kinds from which records of any level are read."""
_INCIDENTS_BY_READER: Mapping[
    Callable[[LogRecordEvidence], LogRecordEvidence | None], tuple[advice.IncidentKind, ...]
] = {
    _store_error: ("store_error",),
    _failed_start: ("failing_start", "store_error"),
    _refused_frame: ("refused_frames",),
    _failed_command: ("refused_messages", "refused_rights"),
    _refused_connection: ("refused_credentials", "duplicate_client", "duplicate_bridge"),
    _unaccepted_connection: ("refused_connections",),
    _stolen_client: ("duplicate_client",),
    _lost_connection: ("breaking_bridge", "link_down"),
    _blocked_producer: ("blocked_producers",),
    _spool_error: ("lost_spool", "store_error"),
    _slow_access: ("slow_store",),
}
"""The incidents that the evidence of each reader can show."""
_KINDS_BY_ORDER: Mapping[str, tuple[advice.IncidentKind, ...]] = {
    **dict.fromkeys(("LIFE-MASTERFAIL-PROMOTE", "PMS-MASTER-CLEAN-STOP", "PMS-SLAVE-LINK-LOST"), ("takeover",)),
    "LIFE-MASTERFAIL-STOP": ("failed_takeover",),
    **dict.fromkeys(
        {"LIFE-CONTEXT-FAIL", "NET-NO-SCHEME", "LOCK-FILE-DENIED", "PMS-WAIT-TIMEOUT", "LOCK-ABORT"}
        | {"LOCK-DB-START-STOP"},
        ("failing_start",),
    ),
    "PMS-NO-SLAVE-YET": ("refused_messages",),
    "LOCK-LOST": ("demotion",),
    **dict.fromkeys(("LOCK-FILE-WAIT", "LOCK-FILE-WAIT-OLD", "LOCK-DB-WAIT", "LOCK-LEASE-WAIT"), ("outage",)),
    **dict.fromkeys(
        {"LOCK-FILE-GONE", "LOCK-FILE-MODIFIED", "LOCK-LEASE-UPD-ERR", "LOCK-DB-UPDATE-ERR", "LOCK-OWNER-LOST"}
        | {"LOCK-KEEPALIVE-ERR", "LOCK-LEASE-ACQ-ERR", "LOCK-LEASE-REL-ERR"},
        ("demotion", "store_error"),
    ),
    **dict.fromkeys(
        {"NET-LOCAL-ERR", "NET-START-FAIL", "NET-REMOTE-URI-ERR", "NET-UP-INTERRUPTED", "NET-GAVE-UP"}
        | {"FO-STILL-TRYING", "NET-PENDING-INFO", "X-BRIDGE-COMMAND"},
        ("link_down", "breaking_bridge"),
    ),
}
"""Incidents that depend on the order of records in runs and bridges, by record kind."""


def incident_kinds_of_record_kind(kind: str) -> tuple[advice.IncidentKind, ...]:
    """Return the kinds of incidents that log records of a kind can show.

    Empty for a harmless or an unknown kind.
    """
    if kind in _READERS:
        bridge_kinds = ("link_down", "breaking_bridge") if kind.startswith("NET-") else ()
        return (*_INCIDENTS_BY_READER[_READERS[kind]], *bridge_kinds)
    return ("reported_error",) if kind in advice.REPORTED else _KINDS_BY_ORDER.get(kind, ())


def _disk_error_or_unexplained(record: LogRecordEvidence) -> LogRecordEvidence | None:
    """Return a warning or an error in a log as a disk error, or as unexplained; None for a record of another level."""
    if record.level not in LEVELS:
        return None
    what = _disk_error_kind(record.text)
    if what is not None:
        return _evidence(record, SPOOL if _SPOOL.search(record.text) else STORE, what, "")
    rights = _right_missing(record)
    if rights is not None:
        return rights
    template = _VARIABLE.sub("…", record.text.split("\n", 1)[0])[:_WORDING_LENGTH]
    return _evidence(record, UNEXPLAINED, record.level, template)


def _store_error_kind(text: str) -> str | None:
    disk = _disk_error_kind(text)
    if disk == "full" or not (_MISSING_FILES.search(text) or _DATABASE.search(text)):
        return disk
    return "missing" if _MISSING_FILES.search(text) else disk or "database"


def _disk_error_kind(text: str) -> str | None:
    if any(error in text for error in _FULL_DISK):
        return "full"
    return "write" if any(error in text for error in _WRITE_ERRORS) else None


def _evidence(record: LogRecordEvidence, kind: str, what: str, who: str) -> LogRecordEvidence:
    first = record.text.split("\n", 1)[0][:300]
    fields = {"what": what, "who": who[:200], "of": record.kind}
    if record.kind.startswith("NET-") and "local" in record.fields:
        fields["local"] = record.fields["local"]
    return replace(record, kind=kind, fields=fields, text=first, thread="")
