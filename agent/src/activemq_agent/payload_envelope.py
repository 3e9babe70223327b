"""Event ids, ``AGENT:EPOCH:SEQ``, and how a payload carries one.

EPOCH is a UUID that is created with the outbox, and SEQ counts from 1 without gaps. A payload that is a JSON object
carries the id as its member ``eventId``; an ``eventId`` that the caller has set is kept.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from activemq_agent.agent_errors import RequestRefusedError

MEMBER = "eventId"
LONGEST = 512
"""Largest number of characters of an event id, because the agent remembers ids for days."""

_OBJECT_START = re.compile(rb"[ \t\r\n]*\{[ \t\r\n]*")


def validated_event_id(text: str) -> str:
    """Return a text if it is a valid event id; raise RequestRefusedError if not.

    An event id has 1 to 512 printable characters.
    """
    if not text or len(text) > LONGEST or not text.isprintable():
        raise RequestRefusedError(f"the event id {text[:40]!r} is not valid: use 1 to {LONGEST} printable characters")
    return text


def event_id_in(payload: bytes) -> str | None:
    """Return the event id in the payload of a message; None without a valid one.

    It is the member ``eventId`` of a JSON object.
    """
    if b"eventId" not in payload and b"\\u" not in payload:
        return None  # true of most payloads, which need not be parsed then
    content = _json_object(payload)
    value = content.get(MEMBER) if content is not None else None
    if isinstance(value, str) and 0 < len(value) <= LONGEST and value.isprintable():
        return value
    return None


def add_event_id(payload: bytes, event_id: str, envelope: bool) -> bytes:
    """Add an event id to the payload of an event, and return the payload to publish.

    A JSON object gets the member ``eventId`` in front, its other bytes unchanged; an object that has the member stays
    as it is. Any other payload stays as it is too, or with ``envelope`` becomes ``{"eventId": ..., "payload": TEXT}``,
    where bytes that are not UTF-8 are in ``payload_base64``.
    """
    content = _json_object(payload)
    if content is not None:
        if MEMBER in content:
            return payload
        opening = _OBJECT_START.match(payload)
        assert opening is not None  # noqa: S101 -- every JSON object matches
        member = f'"{MEMBER}":{json.dumps(event_id)}'.encode()
        return payload[: opening.end()] + member + (b"," if content else b"") + payload[opening.end() :]
    if not envelope:
        return payload
    try:
        content = {"payload": payload.decode()}
    except UnicodeDecodeError:
        content = {"payload_base64": base64.b64encode(payload).decode()}
    return json.dumps({MEMBER: event_id, **content}).encode()


def _json_object(payload: bytes) -> dict[str, Any] | None:
    """Return the JSON object in a payload (UTF-8); None for anything else.

    Each number is replaced by the length of its text, because the text may be too long to convert.
    """
    if not payload.lstrip(b" \t\r\n").startswith(b"{"):
        return None
    try:
        content = json.loads(payload.decode(), parse_int=len, parse_float=len, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _reject_constant(name: str) -> None:
    raise ValueError(name)
