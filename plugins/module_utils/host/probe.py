# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Probes whether a broker's connectors serve clients: an open port does not show that a broker works.

Over STOMP and MQTT one message is sent to a topic of the probe's own and must come back. Over OpenWire
the broker's greeting is enough. STOMP is spoken as 1.0, which 5.5 knows and every later release too.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..protocols import is_encrypted, mqtt_packet, mqtt_text, protocol_of, supports_round_trip
from .timeouts import PROBE

TOPIC = "activemq.fleet.probe"
_LIMIT = 1 << 20
_PARTING = 1.0
"""Seconds that the broker has to close its end of the connection."""


@dataclass(frozen=True)
class Answer:
    """The outcome of probing one connector of a broker: whether it spoke its protocol and returned a message.

    ``answered``: it spoke its protocol. ``returned``: a message came back; None where that was
    not tried or the account may not. ``detail`` says the outcome in words. ``greeted``: the broker itself
    spoke, with CONNECTED, CONNACK or its OpenWire greeting, whatever became of the message; what
    holds messages back, such as a memory limit, does not keep a broker from greeting.
    """

    answered: bool
    returned: bool | None
    detail: str
    greeted: bool = False


@dataclass(frozen=True)
class Login:
    """A user name and password for probing a broker; empty where the broker requires no login."""

    username: str = ""
    password: str = ""


class Refused(Exception):
    """An error: the broker refused a probe."""


class Blocked(Exception):
    """An error: the broker greeted a probe and then stopped answering."""


# Two classes until Python 3.10.
_SILENCE = (TimeoutError, socket.timeout)


def probe_connector(
    scheme: str,
    address: tuple[str, int],
    login: Login,
    timeout: float = PROBE,
    *,
    requires_client_certificate: bool = False,
) -> Answer:
    """Probe one connector of a broker (connect, log in, exchange a message) and return the outcome; raises nothing.

    ``timeout``: seconds for each answer. ``requires_client_certificate``: the connector refuses clients without a
    certificate, and the probe has none; then only the TLS handshake can be probed.
    """
    is_agreed = False
    speak: Callable[[socket.socket, Login], str] | None = _PROTOCOLS.get(protocol_of(scheme))
    try:
        with connect(scheme, address, timeout) as connection:
            is_agreed = True
            if speak is None:
                return Answer(True, None, "accepts connections")
            try:
                detail = speak(connection, login)
            finally:
                _part(connection)
    except Refused as error:
        return Answer(True, None, str(error), greeted=True)
    except Blocked as error:
        return Answer(False, False, f"{error}, and then says nothing for {timeout:g} s", greeted=True)
    except ConnectionRefusedError:
        return Answer(False, None, "refuses connections")
    except _SILENCE:
        return Answer(False, False, f"accepts connections and says nothing for {timeout:g} s")
    except (ConnectionError, ssl.SSLError) as error:
        # Only a broker that lives completes a handshake, or refuses it by an alert.
        if requires_client_certificate and (is_agreed or "ALERT" in (getattr(error, "reason", None) or "")):
            return Answer(True, None, "answers over TLS, and refuses a client without a certificate")
        return Answer(False, None, f"{type(error).__name__}: {error}")
    except (OSError, ValueError, struct.error) as error:
        return Answer(False, None, f"{type(error).__name__}: {error}")
    return Answer(True, True if supports_round_trip(scheme) else None, detail, greeted=True)


def speaks_protocol_of(scheme: str) -> bool:
    """Return whether a probe of a connector with this scheme speaks its protocol, and tests more than its port."""
    return protocol_of(scheme) in _PROTOCOLS


def connect(scheme: str, address: tuple[str, int], timeout: float) -> socket.socket:
    """Return a connection to a connector of this machine's broker, over TLS where the scheme has it. Raises OSError."""
    connection = socket.create_connection(address, timeout)
    if not is_encrypted(scheme):
        return connection
    # It asks this machine's own broker whether it lives; whose certificate it shows is not the question.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(connection)


def _part(connection: socket.socket) -> None:
    """Close a connection so that the broker logs nothing: unread data on closing would reset the connection.

    There always is some: the rest of the OpenWire greeting, the newline after a STOMP frame.
    """
    until = time.monotonic() + _PARTING
    with contextlib.suppress(OSError, ValueError):
        connection.shutdown(socket.SHUT_WR)
        while time.monotonic() < until:
            connection.settimeout(_PARTING)
            if not connection.recv(4096):
                break


def _read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise ConnectionResetError("the connection was closed")
        data += part
    return data


@contextlib.contextmanager
def _greeted(how: str) -> Iterator[None]:
    try:
        yield
    except _SILENCE:
        raise Blocked(how) from None


def _openwire(connection: socket.socket, _login: Login) -> str:
    """Read the WireFormatInfo with which every OpenWire broker greets: length, type 1, the word ActiveMQ."""
    head = _read(connection, 13)
    if head[4] != 1 or head[5:] != b"ActiveMQ":
        raise ValueError("it does not speak OpenWire")
    return "greets in OpenWire"


def _stomp(connection: socket.socket, login: Login) -> str:
    token = os.urandom(8).hex()
    send_frame(connection, "CONNECT", stomp_login_headers(login))
    _expect_frame(connection, "CONNECTED")
    destination = f"/topic/{TOPIC}"
    with _greeted("CONNECTED over STOMP"):
        send_frame(connection, "SUBSCRIBE", {"destination": destination, "receipt": "s"})
        _expect_frame(connection, "RECEIPT")
        send_frame(connection, "SEND", {"destination": destination, "persistent": "false"}, token)
        while token not in _expect_frame(connection, "MESSAGE"):
            pass
    send_frame(connection, "DISCONNECT", {})
    return "CONNECTED, and gave a message back over STOMP"


def stomp_login_headers(login: Login) -> dict[str, str]:
    """Return the headers of STOMP's CONNECT frame that name an account; empty for an empty login."""
    return {"login": login.username, "passcode": login.password} if login.username else {}


def send_frame(connection: socket.socket, command: str, headers: dict[str, str], body: str = "") -> None:
    """Send one frame of STOMP 1.0."""
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    connection.sendall(f"{command}\n{lines}\n{body}\0".encode())


def _expect_frame(connection: socket.socket, command: str) -> str:
    frame = b""
    while not frame.endswith(b"\0"):
        frame += _read(connection, 1)
        if frame == b"\n":
            frame = b""
        if len(frame) > _LIMIT:
            raise ValueError("it does not speak STOMP")
    text = frame.decode(errors="replace")
    if text.startswith("ERROR"):
        reason = next((line[8:] for line in text.splitlines() if line.startswith("message:")), "no reason given")
        raise Refused(f"answers over STOMP and refuses the probe: {reason}")
    if not text.startswith(command):
        raise ValueError(f"it answers {text[:20]!r} over STOMP")
    return text


def _mqtt(connection: socket.socket, login: Login) -> str:
    token = os.urandom(8).hex()
    topic = TOPIC.replace(".", "/")
    flags = 0xC2 if login.username else 0x02
    payload = mqtt_text(f"fleet-{token}")
    if login.username:
        payload += mqtt_text(login.username) + mqtt_text(login.password)
    connection.sendall(mqtt_packet(0x10, b"\0\x04MQTT\x04" + bytes([flags]) + b"\0\x1e" + payload))
    code = _expect_packet(connection, 2)[1]
    if code:
        raise Refused(f"CONNACK {code}: answers over MQTT and refuses the account")
    with _greeted("CONNACK 0 over MQTT"):
        connection.sendall(mqtt_packet(0x82, b"\0\x01" + mqtt_text(topic) + b"\0"))
        if _expect_packet(connection, 9)[2] == 0x80:
            raise Refused("CONNACK 0: answers over MQTT and refuses the subscription")
        connection.sendall(mqtt_packet(0x30, mqtt_text(topic) + token.encode()))
        while token.encode() not in _expect_packet(connection, 3):
            pass
    connection.sendall(mqtt_packet(0xE0, b""))
    return "CONNACK 0, and gave a message back over MQTT"


def _expect_packet(connection: socket.socket, kind: int) -> bytes:
    head = _read(connection, 1)[0]
    length, shift = 0, 0
    while True:
        digit = _read(connection, 1)[0]
        length |= (digit & 0x7F) << shift
        shift += 7
        if not digit & 0x80:
            break
    if head >> 4 != kind or length > _LIMIT:
        raise ValueError(f"it answers with packet {head >> 4}, not {kind}, over MQTT")
    return _read(connection, length)


_PROTOCOLS: dict[str, Callable[[socket.socket, Login], str]] = {"openwire": _openwire, "stomp": _stomp, "mqtt": _mqtt}
