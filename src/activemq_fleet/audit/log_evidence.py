"""Select the log records that show problems of a host, and count records that are repeated many times."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from activemq_fleet.audit import advice
from activemq_fleet.audit.broker_runs import KINDS as OF_RUNS
from activemq_fleet.audit.evidence import LogRecordEvidence
from activemq_fleet.audit.record_signs import READ, STARTS_FAILED, incident_evidence_in_log_record, start_error_text
from activemq_fleet.node.log.kinds import fields_with_error_of_stack_trace

TEXT = 2000
"""Maximum number of characters of message and stack trace that are searched."""

LOCKS = frozenset(
    {"LOCK-FILE-GONE", "LOCK-FILE-MODIFIED", "LOCK-LEASE-UPD-ERR", "LOCK-DB-UPDATE-ERR", "LOCK-OWNER-LOST"}
    | {"LOCK-KEEPALIVE-ERR", "LOCK-LEASE-ACQ-ERR", "LOCK-LEASE-REL-ERR"}
)
"""Kinds that show an error of a store's lock."""
OF_LINKS = frozenset(
    {"NET-DIAL", "NET-UP", "NET-UP-INTERRUPTED", "NET-DOWN", "NET-REMOTE-ERR", "NET-LOCAL-ERR", "NET-START-FAIL"}
    | {"NET-REMOTE-URI-ERR", "NET-CONNECTOR-UP", "NET-CONNECTOR-DOWN", "NET-DUPLEX-UP", "NET-DUPLEX-UP-OLD"}
    | {"NET-PEER-SHUTDOWN", "NET-GAVE-UP", "FO-RECONNECTED", "NET-PENDING-INFO", "FO-STILL-TRYING"}
)
FORWARDED = "X-NET-REGISTER"
"""A record that names the destination of a message which a bridge was about to forward."""
TEMP_DELETED = "X-TEMP-DELETED"
"""A record of a start that deletes the temporary store."""
_UNCOUNTED_KINDS = frozenset({FORWARDED, TEMP_DELETED})
KINDS = OF_RUNS | OF_LINKS | LOCKS | STARTS_FAILED | READ | _UNCOUNTED_KINDS | frozenset(advice.REPORTED)
"""The kinds of the dataset ``events`` that are evidence at any level. Warnings and errors of other kinds are, too."""

_ABORTED_START = re.compile(r"attempt to obtain lock aborted|asked to shut down|[Ii]nterrupted attempt")
"""A standby was stopped while it waited for its lock."""


def evidence_in_log(records: Iterable[LogRecordEvidence]) -> Iterator[LogRecordEvidence]:
    """Yield the evidence of incidents in the records of a host's log.

    It consists of broker runs, links, and a count per minute of repeated errors. Only records of failed starts keep
    their text.
    """
    minutes: dict[tuple[str, str, str, str, str, datetime], LogRecordEvidence] = {}
    for record in records:
        if record.kind in OF_RUNS or record.kind in OF_LINKS or record.kind in LOCKS or record.kind in _UNCOUNTED_KINDS:
            fields = fields_with_error_of_stack_trace(record.fields, record.text.partition("\n")[2])
            yield _failed_start(record) if record.kind in STARTS_FAILED else replace(record, fields=fields, text="")
        sign = incident_evidence_in_log_record(record)
        if sign is None:
            continue
        minute = record.at.replace(second=0, microsecond=0)
        key = (record.host, sign.kind, sign.fields["what"], sign.fields["who"], sign.fields["of"], minute)
        merged = minutes.get(key)
        minutes[key] = sign if merged is None else _merge_evidence(merged, sign)
    yield from minutes.values()


def _failed_start(record: LogRecordEvidence) -> LogRecordEvidence:
    """Return the evidence of a failed broker start.

    Field ``aborted`` is set where a standby was stopped while it waited.
    """
    fields = {**record.fields, "aborted": "yes"} if _ABORTED_START.search(record.text) else record.fields
    return replace(record, fields=fields, text=start_error_text(record.text))


def _merge_evidence(earlier: LogRecordEvidence, later: LogRecordEvidence) -> LogRecordEvidence:
    first = earlier if earlier.sequence <= later.sequence else later
    return replace(
        first,
        at=min(earlier.at, later.at),
        last=max(earlier.last_record_time, later.last_record_time),
        count=earlier.count + later.count,
    )
