"""Choose the log records that show trouble at a host, and count those that come by the thousand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from activemq_fleet.audit.broker_runs import KINDS as OF_RUNS
from activemq_fleet.audit.evidence import LogEvidence
from activemq_fleet.node.log.root_cause import root_cause

TEXT = 2000
"""Characters of message and stack trace that are looked at."""

REFUSED, TWICE, STORE, FRAME, FAILED = "X-REFUSED", "X-TWICE", "X-STORE", "X-FRAME", "X-FAILED"
"""What a sign's kind becomes; its field ``what`` says more, ``who`` whom it concerns."""

_OF_STORE: Mapping[str, str] = {
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
}
# A refusal leaves more records than these; so it is counted once. What names a client that is there
# already is of the kind NET-DUP-CLIENT, whatever else it says.
_OF_REFUSAL = frozenset({"TR-ADD-FAILED", "NET-DUP-CLIENT", "NET-REMOTE-ERR"})
_COMMAND_FAILED = "TR-ASYNC-ERR"
"""A command of a client or a bridge that is not answered failed, such as a message that is sent."""
STARTS_FAILED = frozenset({"LIFE-START-FAILED", "LIFE-CONFIG-INVALID"})
_LOCKS = frozenset(
    {"LOCK-FILE-GONE", "LOCK-FILE-MODIFIED", "LOCK-LEASE-UPD-ERR", "LOCK-DB-UPDATE-ERR", "LOCK-OWNER-LOST"}
    | {"LOCK-KEEPALIVE-ERR"}
)
OF_LINKS = frozenset(
    {"NET-DIAL", "NET-UP", "NET-UP-INTERRUPTED", "NET-DOWN", "NET-REMOTE-ERR", "NET-LOCAL-ERR", "NET-START-FAIL"}
    | {"NET-REMOTE-URI-ERR", "NET-CONNECTOR-UP", "NET-CONNECTOR-DOWN", "NET-DUPLEX-UP", "NET-DUPLEX-UP-OLD"}
    | {"NET-PEER-SHUTDOWN", "NET-GAVE-UP", "FO-RECONNECTED"}
)
_OF_FRAMES = frozenset({"TR-FRAME-TOO-LARGE"})
FORWARDED = "X-NET-REGISTER"
"""A record that names the destination of a message which a bridge was about to forward."""
KINDS = (
    OF_RUNS
    | OF_LINKS
    | _OF_FRAMES
    | {FORWARDED, _COMMAND_FAILED}
    | _OF_REFUSAL
    | STARTS_FAILED
    | _LOCKS
    | frozenset(_OF_STORE)
)
"""The kinds of the dataset ``events`` that are evidence."""

_START_ERROR = 200  # characters
_ADDED = "Failed to add Connection"
_CREDENTIALS = re.compile(r"User name (?:\[(?P<user>[^\]\n]{0,300})\] )?or password is invalid|password is incorrect")
_RIGHTS = re.compile(r"User (?P<user>\S+) is not authorized to ")
_TWICE = re.compile(r"Client: (?P<client>\S{0,300}_(?:in|out)bound\S{0,300}) already connected from")
_CLIENT = re.compile(r"clientId=(?P<client>[^\s=,]{1,300}_(?:in|out)bound[^\s=,]{0,300}),")
_FAULT = re.compile(r"NullPointerException|Cannot invoke \"|ResourceAllocationException|Usage Manager")
"""Errors that refuse a message for another reason than a right of the account."""
_FULL = re.compile(r"No space left on device|[Dd]isk quota exceeded")
_MISSING = re.compile(r"(?:[Mm]issing|corrupt)\S{0,100} journal files|references corrupt locations")
_BROKEN = re.compile(r"Read-only file system|Stale (?:NFS )?file handle|Input/output error|Transport endpoint is not")
_DATABASE = re.compile(r"SQLException|SQLNonTransient|JDBC")
_LOCK = re.compile(r"could not be locked|is locked|attempt to obtain lock")


def evidence_in(records: Iterable[LogEvidence]) -> Iterator[LogEvidence]:
    """Yield the evidence in a host's log: broker runs, links, and a count a minute of repeated errors.

    Only records of failed starts keep their text.
    """
    minutes: dict[tuple[str, str, str, str, datetime], LogEvidence] = {}
    for record in records:
        if record.kind in OF_RUNS or record.kind in OF_LINKS or record.kind in _LOCKS or record.kind == FORWARDED:
            yield replace(record, text=_start_error_text(record.text) if record.kind in STARTS_FAILED else "")
        sign = sign_of(record)
        if sign is None:
            continue
        minute = record.at.replace(second=0, microsecond=0)
        key = (record.host, sign.kind, sign.fields["what"], sign.fields["who"], minute)
        known = minutes.get(key)
        minutes[key] = sign if known is None else _merge_evidence(known, sign)
    yield from minutes.values()


def _start_error_text(text: str) -> str:
    """Return the first line of a failed start's record, and the deepest cause in its stack trace."""
    first, *stack = text.split("\n")
    cause = root_cause(stack)
    return f"{first[:_START_ERROR]}: {cause[:_START_ERROR]}" if cause else first[:_START_ERROR]


def sign_of(record: LogEvidence) -> LogEvidence | None:
    """Return the evidence in one log record, such as a refusal or a store error; None for most records."""
    if record.kind in _OF_STORE:
        return _evidence_of_kind(record, STORE, _store_error_kind(record.text) or _OF_STORE[record.kind], "")
    if record.kind in STARTS_FAILED:
        what = _store_error_kind(record.text)
        return None if what is None or _LOCK.search(record.text) else _evidence_of_kind(record, STORE, what, "")
    if record.kind == "TR-FRAME-TOO-LARGE":
        return _evidence_of_kind(record, FRAME, "frame", record.fields.get("remote", "").rpartition(":")[0])
    if record.kind == _COMMAND_FAILED:
        return _evidence_of_kind(record, FAILED, "message", "") if _FAULT.search(record.text) else None
    if record.kind not in _OF_REFUSAL:
        return None
    if record.kind == "NET-DUP-CLIENT" and not record.text.startswith(_ADDED):
        return None
    twice = _TWICE.search(record.text)
    if twice:
        return _evidence_of_kind(record, TWICE, "client", twice["client"])
    return _refusal_in(record)


def _refusal_in(record: LogEvidence) -> LogEvidence | None:
    is_bridge = record.kind.startswith("NET-")
    refused = _CREDENTIALS.search(record.text)
    if refused:
        client = _CLIENT.search(record.text)
        if is_bridge or client:
            return _evidence_of_kind(record, REFUSED, "bridge", refused["user"] or "")
        return _evidence_of_kind(record, REFUSED, "client", refused["user"] or "")
    rights = _RIGHTS.search(record.text)
    if rights and is_bridge:
        return _evidence_of_kind(record, REFUSED, "rights", rights["user"])
    return None


def _store_error_kind(text: str) -> str | None:
    for what, expression in (("full", _FULL), ("missing", _MISSING), ("write", _BROKEN), ("database", _DATABASE)):
        if expression.search(text):
            return what
    return None


def _evidence_of_kind(record: LogEvidence, kind: str, what: str, who: str) -> LogEvidence:
    first = record.text.split("\n", 1)[0][:300]
    fields = {"what": what, "who": who[:200], "of": record.kind}
    if record.kind.startswith("NET-") and "local" in record.fields:
        fields["local"] = record.fields["local"]
    return replace(record, kind=kind, fields=fields, text=first, thread="")


def _merge_evidence(known: LogEvidence, sign: LogEvidence) -> LogEvidence:
    first = known if known.sequence <= sign.sequence else sign
    return replace(
        first,
        at=min(known.at, sign.at),
        last=max(known.until, sign.until),
        count=known.count + sign.count,
    )
