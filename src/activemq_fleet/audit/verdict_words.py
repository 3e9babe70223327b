"""Define the words for kinds of journal records, verdicts and their reasons, and problems of journal lines."""

from __future__ import annotations

from enum import Enum
from typing import Literal, NamedTuple

PUBLISHING = ("accepted", "sent", "acknowledged", "unconfirmed", "expired")
"""The kinds of journal records that a publisher writes about an event."""
RECEIVING = ("received", "duplicate", "handling", "handled", "quarantined")
"""The kinds of journal records that a subscriber writes about an event."""
KINDS = (*PUBLISHING, *RECEIVING, "subscribed", "unsubscribed", "barrier", "connected", "connection_lost",
         "started", "stopped")  # fmt: skip

WITHOUT_ID = "without id"
"""The reason in a journal record ``sent`` of an event whose payload does not carry the event id."""

Verdict = Literal["lost", "stuck", "indeterminate", "duplicate", "delivered"]

WORST: tuple[Verdict, ...] = ("lost", "stuck", "indeterminate", "duplicate", "delivered")
"""The verdicts from worst to best: an event's verdict is the worst verdict of its deliveries."""


class JournalLineProblem(Enum):
    """A problem of a line of an agent's event journal; the value is its text in reports."""

    TORN = "the record is incomplete"
    """The line begins like a record but cannot be read."""
    CUT_OFF = "the file is cut off here"
    TOO_LARGE = "the file is too large to be read"
    FOREIGN = "the line is not a record of an agent's event journal"
    UNKNOWN_VERSION = "the record has an unknown format version: run the audit with a newer version of activemq-fleet"
    UNKNOWN_KIND = "the record has an unknown kind: run the audit with a newer version of activemq-fleet"

    @property
    def may_hide_records(self) -> bool:
        """Whether an unreadable journal line with this problem may contain lost records, whose agent is unknown."""
        return self in (JournalLineProblem.TORN, JournalLineProblem.CUT_OFF, JournalLineProblem.TOO_LARGE)


class MissingJournalPartKind(Enum):
    """Which part of an agent's event journal is missing: the whole journal, its end, or records."""

    JOURNAL = "the journal"
    END = "the end"
    RECORDS = "records"


class DeliveryVerdictWithReason(NamedTuple):
    """A verdict about the delivery of an event to a subscriber, and the sentence that gives its reason."""

    verdict: Verdict
    reason: str


HANDLED = DeliveryVerdictWithReason("delivered", "handled")
QUARANTINED = DeliveryVerdictWithReason(
    "delivered", "quarantined: the subscriber could not handle the event, skipped it, and keeps a copy"
)
NOT_HANDLED = DeliveryVerdictWithReason(
    "stuck", "the subscriber received the event, but neither handled nor quarantined it"
)
NEVER_ACKNOWLEDGED = DeliveryVerdictWithReason(
    "stuck", "the publisher accepted the event, but no broker acknowledged it"
)
EXPIRED = DeliveryVerdictWithReason(
    "stuck", "the event expired before a broker acknowledged it, and the publisher keeps it"
)
DROPPED = DeliveryVerdictWithReason("lost", "the event expired, and the publisher dropped it because of --drop-expired")
BARRIER_CAME = DeliveryVerdictWithReason(
    "lost",
    "a broker acknowledged the event, but the subscriber did not receive it. The subscriber received a later barrier, "
    "the message with which the publisher proves that all earlier events arrived",
)
NO_BARRIER = DeliveryVerdictWithReason(
    "stuck",
    "a broker acknowledged the event, but the subscriber received neither the event nor a later barrier, the message "
    "with which the publisher proves that all earlier events arrived. The event may still arrive",
)
SENT_WITHOUT_ID = DeliveryVerdictWithReason(
    "indeterminate",
    "a broker acknowledged the event, but its payload has no event id, so no journal can show whether the subscriber "
    "received it. Publish JSON objects, or set publisher.envelope = true in agent.conf of the publisher",
)
SUBSCRIBER_GAP = DeliveryVerdictWithReason(
    "indeterminate", "the subscriber's journal lacks records, which may be records of this event"
)
PUBLISHER_GAP = DeliveryVerdictWithReason(
    "indeterminate", "the publisher's journal lacks records, which may be records of this event"
)
NO_ACCEPTANCE = DeliveryVerdictWithReason("indeterminate", "no journal records that an agent accepted the event")
NO_SUBSCRIBER = DeliveryVerdictWithReason(
    "indeterminate", "the audit knows no subscriber that should receive the event"
)
