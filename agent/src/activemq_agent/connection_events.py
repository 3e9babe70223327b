"""What happens on an MQTT connection, as small events; each has the number of its connection, ``conn``."""

from __future__ import annotations

from typing import NamedTuple


class TransportUp(NamedTuple):
    """Event: the transport of an MQTT connection is up, that is, TCP and TLS.

    TLS is only used if the broker is reached by it. ``conn`` is the connection.
    """

    conn: int


class Connack(NamedTuple):
    """Event: the broker answered the CONNECT by a CONNACK (MQTT).

    ``refused`` is the reason of a refused login, else None.
    """

    conn: int
    refused: str | None
    bad_credentials: bool


class Suback(NamedTuple):
    """Event: the broker acknowledged a SUBSCRIBE by a SUBACK (MQTT).

    ``mid`` is the packet id of the SUBSCRIBE.
    """

    conn: int
    mid: int
    refused: bool


class Puback(NamedTuple):
    """Event: the broker acknowledged a PUBLISH by a PUBACK (MQTT).

    ``mid`` is the packet id of the PUBLISH. ActiveMQ also acknowledges messages that it rejects.
    """

    conn: int
    mid: int


class MessageReceived(NamedTuple):
    """Event: an MQTT message was received.

    A message at QoS 1 waits for ``Session.acknowledge(mid)``. ``held`` counts the memory of the message in a
    ``ReceiveBudget``.
    """

    conn: int
    topic: str
    payload: bytes
    qos: int
    mid: int
    held: object = None


class OversizedMessageReceived(NamedTuple):
    """Event: an MQTT message above the size limit was received.

    The message is discarded and not acknowledged.
    """

    conn: int


class ConnectionEnded(NamedTuple):
    """Event: an MQTT connection to a broker ended, or could not be made.

    ``conn`` is the connection. ``silent``: the broker did not answer for two keep-alives. ``hostile``: it sent what no
    broker sends.
    """

    conn: int
    reason: str
    silent: bool = False
    hostile: bool = False


SessionEvent = TransportUp | Connack | Suback | Puback | MessageReceived | OversizedMessageReceived | ConnectionEnded
