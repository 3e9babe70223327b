"""What happens on an MQTT connection, as small events; each has the number of its connection, ``conn``."""

from __future__ import annotations

from typing import NamedTuple


class TransportUp(NamedTuple):
    """Event: connection ``conn`` has its TCP connection, and its TLS session if the broker is reached by TLS."""

    conn: int


class Connack(NamedTuple):
    """Event: the broker answered CONNECT; ``refused`` is the reason of a refused login, else None."""

    conn: int
    refused: str | None
    bad_credentials: bool


class Suback(NamedTuple):
    """Event: the broker answered the SUBSCRIBE with packet id ``mid``."""

    conn: int
    mid: int
    refused: bool


class Puback(NamedTuple):
    """Event: the broker acknowledged the PUBLISH with packet id ``mid``.

    ActiveMQ also acknowledges messages that it rejects.
    """

    conn: int
    mid: int


class Message(NamedTuple):
    """Event: a message was received; at QoS 1 it waits for ``Session.ack(mid)``.

    ``held`` counts the memory of the message in a ``ReceiveBudget``.
    """

    conn: int
    topic: str
    payload: bytes
    qos: int
    mid: int
    held: object = None


class OversizedMessage(NamedTuple):
    """Event: a message above the size limit was received; it is discarded and not acknowledged."""

    conn: int


class ConnectionEnded(NamedTuple):
    """Event: connection ``conn`` ended, or could not be made.

    ``silent``: the broker did not answer for two keep-alives. ``hostile``: it sent what no broker sends.
    """

    conn: int
    reason: str
    silent: bool = False
    hostile: bool = False


SessionEvent = TransportUp | Connack | Suback | Puback | Message | OversizedMessage | ConnectionEnded
