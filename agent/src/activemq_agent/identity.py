"""Event ids, ``AGENT:EPOCH:SEQ``, and how a payload carries one.

EPOCH is a UUID made with the outbox, SEQ counts from 1 without gaps. A payload that is a JSON object
carries the id as its member ``eventId``; an ``eventId`` that the caller has set is kept.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from dataclasses import dataclass
from typing import Any

from activemq_agent.errors import Refused

MEMBER = "eventId"
LONGEST = 512
"""Characters an event id may have: it is remembered for days."""

_OPENING = re.compile(rb"[ \t\r\n]*\{[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class EventId:
    """An event id that an agent made. ``str()`` gives ``AGENT:EPOCH:SEQ``; AGENT may hold colons, the rest may not."""

    agent: str
    epoch: uuid.UUID
    seq: int

    def __str__(self) -> str:
        return f"{self.agent}:{self.epoch}:{self.seq}"

    @classmethod
    def parse(cls, text: str) -> EventId:
        """Return the event id that ``text`` spells.

        Raises ValueError unless the text is exactly as an agent writes it.
        """
        agent, _, rest = text.rpartition(":")
        agent, _, epoch = agent.rpartition(":")
        try:
            found = cls(agent, uuid.UUID(epoch), int(rest))
        except ValueError:
            found = cls("", uuid.UUID(int=0), 0)
        if str(found) != text or not agent or found.seq < 1:
            raise ValueError(f"{text!r} is not AGENT:EPOCH:SEQ as an agent writes it")
        return found


def check_id(text: str) -> str:
    """Return ``text`` if it can serve as an event id: 1 to 512 printable characters. Raises Refused if not."""
    if not text or len(text) > LONGEST or not text.isprintable():
        raise Refused(f"an event id has 1 to {LONGEST} printable characters; this one is {text[:40]!r}")
    return text


def id_in(payload: bytes) -> str | None:
    """Return member ``eventId`` of a payload that is a JSON object; None without a usable one."""
    if b"eventId" not in payload and b"\\u" not in payload:
        return None  # most payloads: spares parsing them
    found = _json_object(payload)
    value = found.get(MEMBER) if found is not None else None
    if isinstance(value, str) and 0 < len(value) <= LONGEST and value.isprintable():
        return value
    return None


def with_id(payload: bytes, event_id: str, envelope: bool) -> bytes:
    """Return the payload with the event id in it, as it is published.

    A JSON object gets the member ``eventId`` in front, its other bytes unchanged; an object that has the member stays
    as it is. Any other payload stays as it is too, or with ``envelope`` becomes ``{"eventId": ..., "payload": TEXT}``,
    where bytes that are no UTF-8 stand as ``payload_base64``.
    """
    found = _json_object(payload)
    if found is not None:
        if MEMBER in found:
            return payload
        opening = _OPENING.match(payload)
        assert opening is not None  # noqa: S101 -- a JSON object starts so
        member = f'"{MEMBER}":{json.dumps(event_id)}'.encode()
        return payload[: opening.end()] + member + (b"," if found else b"") + payload[opening.end() :]
    if not envelope:
        return payload
    try:
        content = {"payload": payload.decode()}
    except UnicodeDecodeError:
        content = {"payload_base64": base64.b64encode(payload).decode()}
    return json.dumps({MEMBER: event_id, **content}).encode()


def _json_object(payload: bytes) -> dict[str, Any] | None:
    """Return the JSON object in a payload (UTF-8), its numbers unread; None for anything else."""
    if not payload.lstrip(b" \t\r\n").startswith(b"{"):
        return None
    try:
        found = json.loads(payload.decode(), parse_int=_unread, parse_float=_unread, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _unread(number: str) -> int:
    """Return an integer in place of a JSON number, which may be too long to convert; its value is not used."""
    return len(number)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
