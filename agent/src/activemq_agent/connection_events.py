"""Events of an MQTT connection; each has the number of its connection, ``conn``."""

from __future__ import annotations

from typing import NamedTuple


class TransportUp(NamedTuple):
    """Event of an agent's MQTT connection to a broker: its transport (TCP and TLS) is up.

    TLS is only used if the broker is reached by it. ``conn`` is the connection.
    """

    conn: int


class ConnackReceived(NamedTuple):
    """Event of an agent's MQTT connection to a broker: the broker answered the CONNECT by a CONNACK.

    ``refused`` is the reason of a refused login, else None.
    """

    conn: int
    refused: str | None
    bad_credentials: bool


class SubackReceived(NamedTuple):
    """Event of an agent's MQTT connection to a broker: the broker acknowledged a SUBSCRIBE by a SUBACK.

    ``mid`` is the packet id of the SUBSCRIBE.
    """

    conn: int
    mid: int
    refused: bool


class PubackReceived(NamedTuple):
    """Event of an agent's MQTT connection to a broker: the broker acknowledged a PUBLISH by a PUBACK.

    ``mid`` is the packet id of the PUBLISH. ActiveMQ also acknowledges messages that it rejects.
    """

    conn: int
    mid: int


class MessageReceived(NamedTuple):
    """Event of an agent's MQTT connection to a broker: a message was received.

    A message at QoS 1 waits for ``Session.acknowledge(mid)``. ``held`` counts the memory of the message in a
    ``ReceiveMemoryLimit``.
    """

    conn: int
    topic: str
    payload: bytes
    qos: int
    mid: int
    held: object = None


class OversizedMessageReceived(NamedTuple):
    """Event of an agent's MQTT connection to a broker: a message above the size limit was received.

    The message is discarded and not acknowledged. ``qos`` is its QoS: the broker keeps a message of QoS 1.
    """

    conn: int
    qos: int


class ConnectionEnded(NamedTuple):
    """Event of an agent's MQTT connection to a broker: it ended, or could not be opened.

    ``conn`` is the connection. ``silent``: the broker did not answer for two keep-alives. ``hostile``: it
    violated the MQTT protocol.
    """

    conn: int
    reason: str
    silent: bool = False
    hostile: bool = False


SessionEvent = (
    TransportUp
    | ConnackReceived
    | SubackReceived
    | PubackReceived
    | MessageReceived
    | OversizedMessageReceived
    | ConnectionEnded
)
