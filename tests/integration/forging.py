"""A client that writes forged records into the log of a broker, over MQTT, STOMP and OpenWire.

It sends a name with line ends in each field of a client that a broker logs: user, client id, destination, header,
command. Most of these attempts do not require authentication.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable
from contextlib import suppress

from activemq_fleet.addresses import Address
from activemq_fleet.node.protocols import encode_mqtt_packet, encode_mqtt_text
from tests.log_reading import logger_of

FORGED = (
    "Using Persistence Adapter: KahaDBPersistenceAdapter[/forged]",
    "Database /forged/lock is locked by another server. This broker is now in slave mode waiting a lock to be acquired",
    "Apache ActiveMQ 9.9.9 (forged, ID:forged-1-2-0:1) is shutting down",
)
"""Messages that show another state of a broker: it starts, it is a standby, it stops."""
LINE_ENDS = ("\n", "\r", "\r\n", "\u2028", "\x85", "\x0b")
_TIMEOUT = 3.0


def forged_name(message: str, end: str = "\n") -> str:
    """Return a name that ends the current record and adds another one, with the class and thread of a real record."""
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    record = f"{now},999 | INFO  | {message} | {logger_of(message)} | main"
    return f"x | org.apache.activemq.X | main{end}{record}{end}{now},999 | INFO  | x"


def forge_over_mqtt(address: Address, names: Iterable[str]) -> None:
    """Send each name as the user, and as the client id."""
    for name in names:
        for client, user in (("forger", name), (name, "forger")):
            fields = b"".join(map(encode_mqtt_text, (client, user, "wrong")))
            _send_parts(address, encode_mqtt_packet(0x10, encode_mqtt_text("MQTT") + b"\x04\xc2\0\x1e" + fields))


def forge_over_stomp(address: Address, names: Iterable[str], login: str = "") -> None:
    """Send each name as the user, and with a ``login`` as client id, destination, header and command.

    5.5 logs each header of a frame that it refuses in one record.
    """
    for name in names:
        escaped_name = name.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n").replace(":", "\\c")
        opening = "CONNECT\naccept-version:1.1\nhost:x\n"
        _send_parts(address, f"{opening}login:{escaped_name}\npasscode:wrong\n\n\0".encode())
        frames = (
            f"SUBSCRIBE\nid:{escaped_name}\ndestination:{escaped_name}\n\n\0",
            f"SEND\ndestination:/queue/{escaped_name}\ntransaction:{escaped_name}\n\nx\0",
            f"SEND\ndestination:{escaped_name}\n\nx\0",
            f"{escaped_name}\n\n\0",
            f"SEND\ndestination:x\n{name.splitlines()[1]}\n\n\0",
        )
        for number, frame in enumerate(frames):  # the broker may not have removed the previous client yet
            _send_parts(address, f"{opening}client-id:{escaped_name}{number}\n{login}\n\0".encode(), frame.encode())


def forge_over_openwire(address: Address, names: Iterable[str]) -> None:
    """Send each name as client id and user of a connection, with the loose encoding that precedes the negotiation."""
    for name in names:
        name_bytes = name.encode()
        text = b"\1" + struct.pack(">H", len(name_bytes)) + name_bytes
        identity = b"\1\x78" + text  # ConnectionId
        info = b"\3" + struct.pack(">i", 1) + b"\1" + identity + text + text + text + b"\0" + b"\0" * 8
        _send_parts(address, struct.pack(">I", len(info)) + info)


def _send_parts(address: Address, *parts: bytes) -> None:
    """Send the parts and wait for the response to each, then until the broker closes: it has read all parts."""
    with suppress(OSError), socket.create_connection(address, _TIMEOUT) as connection:
        connection.settimeout(_TIMEOUT / 15)
        for part in parts:
            connection.sendall(part)
            with suppress(TimeoutError):
                connection.recv(1 << 16)
        connection.shutdown(socket.SHUT_WR)
        with suppress(TimeoutError):
            while connection.recv(1 << 16):
                pass
