"""Define the words for kinds of journal records, verdicts and their reasons, and problems of journal lines."""

from __future__ import annotations

PUBLISHING = ("accepted", "sent", "acknowledged", "unconfirmed", "expired")
"""The kinds of journal records that a publisher writes about an event."""
RECEIVING = ("received", "duplicate", "handling", "handled", "quarantined")
"""The kinds of journal records that a subscriber writes about an event."""
KINDS = (*PUBLISHING, *RECEIVING, "subscribed", "unsubscribed", "barrier", "connected", "connection_lost",
         "started", "stopped")  # fmt: skip

WORST = ("lost", "stuck", "indeterminate", "duplicate", "delivered")
"""The verdicts from worst to best: an event's verdict is the worst verdict of its deliveries."""

BARRIER_TOPIC = "(^|/)__barrier__(/[^/]*)?$"
"""A barrier's topic, ``PREFIX/__barrier__/AGENT`` or the older ``PREFIX/__barrier__``: it closes the prefix."""

TORN = "the record is incomplete"
"""The problem of a line that begins like a record but cannot be read."""
CUT_OFF = "the file is cut off here"
TOO_LARGE = "the file is too large to be read"
UNREADABLE = (TORN, CUT_OFF, TOO_LARGE)
"""Problems of lines that may replace lost records of an unknown agent."""
FOREIGN = "the line is not a record of an agent's event journal"
UNKNOWN_VERSION = "the record has an unknown format version: run the audit with a newer version of activemq-fleet"
UNKNOWN_KIND = "the record has an unknown kind: run the audit with a newer version of activemq-fleet"

HANDLED = "handled"
QUARANTINED = "quarantined: the subscriber could not handle the event, skipped it, and keeps a copy"
NOT_HANDLED = "the subscriber received the event, but neither handled nor quarantined it"
NEVER_ACKNOWLEDGED = "the publisher accepted the event, but no broker acknowledged it"
EXPIRED = "the event expired before a broker acknowledged it, and the publisher keeps it"
DROPPED = "the event expired, and the publisher dropped it because of --drop-expired"
BARRIER_CAME = (
    "a broker acknowledged the event, but the subscriber did not receive it. The subscriber received a later barrier, "
    "the message with which the publisher proves that all earlier events arrived"
)
NO_BARRIER = (
    "a broker acknowledged the event, but the subscriber received neither the event nor a later barrier, the message "
    "with which the publisher proves that all earlier events arrived. The event may still arrive"
)
SUBSCRIBER_GAP = "the subscriber's journal lacks records, which may be records of this event"
PUBLISHER_GAP = "the publisher's journal lacks records, which may be records of this event"
NO_ACCEPTANCE = "no journal records that an agent accepted the event"
NO_SUBSCRIBER = "the audit knows no subscriber that should receive the event"

NO_JOURNAL = "no journal"
OPEN_END = "the end is missing"
MISSING = "records are missing"
