# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Sends messages that only an old generation has to the pair over OpenWire, in their stored form.

A message keeps its id, type, properties and body. So it arrives as it was sent, and a store that already has it detects
a duplicate. Only its producer and its transaction are replaced, as in a bridge between brokers
(DemandForwardingBridgeSupport.configureMessage).
"""

from __future__ import annotations

import secrets
import socket
import ssl
import struct
from collections.abc import Iterable

from ..config.probe_account import Login
from ..kahadb.openwire_message import StoredMessage, parse_openwire_message
from ..probe.broker_connection import require_owner_of_local_listener
from .old_generations import UncopiedMessage
from .shared_store import FenceError

_OLD, _NEW = 6, 11
"""The supported OpenWire versions: that of the stored messages, and that of every broker from 5.12 on."""
_WIRE_FORMAT, _CONNECTION, _SESSION, _PRODUCER, _SHUTDOWN, _RESPONSE, _EXCEPTION = 1, 3, 4, 6, 11, 30, 31
_MESSAGE_ID, _CONNECTION_ID, _SESSION_ID, _PRODUCER_ID = 110, 120, 121, 123
_NULL = b"\0"
_LONGEST_FRAME = 1 << 30
_WINDOW = 100
"""Maximum number of messages in flight: the broker acknowledges each message after it is on the disk."""


def _string(text: str) -> bytes:
    content = text.encode()
    return b"\1" + struct.pack(">H", len(content)) + content


def _object(kind: int, content: bytes) -> bytes:
    return bytes([1, kind]) + content


class MessageReplayConnection:
    """An OpenWire connection to a broker over which messages from a store are sent again.

    It is a context manager. ``account``: the uid that must own a listener on this machine before the login is sent.
    Raises OSError, FenceError.
    """

    def __init__(
        self,
        address: tuple[str, int],
        login: Login,
        tls: ssl.SSLContext | None = None,
        timeout: float = 30.0,
        account: int | None = None,
    ) -> None:
        self._commands = 0
        self._waiting: dict[int, str] = {}
        plain = socket.create_connection(address, timeout)
        if account is not None:
            try:
                require_owner_of_local_listener(plain, account, timeout)
            except OSError:
                plain.close()
                raise
        self._socket = tls.wrap_socket(plain, server_hostname=address[0]) if tls else plain
        self._file = self._socket.makefile("rb")
        name = f"ID:activemq-fleet-{secrets.token_hex(8)}"
        try:
            self._version = self._agree()
            connection = _object(_CONNECTION_ID, _string(name))
            client_ip = _NULL if self._version >= 8 else b""
            who = [_string(text) if text else _NULL for text in (login.password, login.username)]
            self._ask(_CONNECTION, connection + _string(name) + b"".join(who) + bytes(6) + client_ip, "the connection")
            session = _string(name) + struct.pack(">q", 1)
            self._ask(_SESSION, _object(_SESSION_ID, session), "the session")
            self._producer = _object(_PRODUCER_ID, _string(name) + struct.pack(">qq", 1, 1))
            self._ask(_PRODUCER, self._producer + _NULL + _NULL + _NULL + struct.pack(">i", 0), "the producer")
            self._settle(0)
        except BaseException:
            self._close()
            raise

    def __enter__(self) -> MessageReplayConnection:
        return self

    def __exit__(self, *_unused: object) -> None:
        try:
            self._send(_SHUTDOWN, b"", answered=False)
        except OSError:
            pass
        finally:
            self._close()

    def resend_uncopied_messages(self, messages: Iterable[UncopiedMessage]) -> int:
        """Send messages that only an old copy of a shared store has to the broker, over OpenWire; return their number.

        The old copy is a generation. Returns once the broker has acknowledged all of them.
        """
        sent = 0
        for message in messages:
            try:
                stored = parse_openwire_message(message.read_frame_of_uncopied_message())
            except ValueError as error:
                raise FenceError(
                    f"the message {message.message} in the store file {message.path} cannot be read ({error}), so "
                    "this message and the messages after it were not sent: check the directory of this file with "
                    "activemq-fleet store inspect"
                ) from None
            self._ask(stored.frame[4], self._producer + self._rest_of(stored), f"message {message.message}")
            self._settle(_WINDOW)
            sent += 1
        self._settle(0)
        return sent

    def _rest_of(self, stored: StoredMessage) -> bytes:
        """Return the fields of a message from its destination on, without its transaction, in the agreed version."""
        frame, at = stored.frame, stored.message_id
        destination, rest = frame[stored.destination : stored.transaction], frame[stored.rest :]
        if stored.version == self._version:
            return destination + _NULL + rest
        if stored.version > self._version:
            raise FenceError(
                "the messages were not sent, because the release of the running broker supports only an older OpenWire "
                "version than the messages in the store. Run the playbook upgrade with activemq_release set to the "
                "release that wrote the messages, and run the command again"
            )
        # Newer versions have a different form of the message id before this field, and a flag at the end.
        newer = frame[stored.rest : at] + _object(_MESSAGE_ID, _NULL + frame[at + 2 :]) + _NULL
        return destination + _NULL + newer

    def _agree(self) -> int:
        """Exchange OpenWire greetings; return the agreed version, with loose encoding and without a cache."""
        greeting = self._read()
        if greeting[:9] != bytes([_WIRE_FORMAT]) + b"ActiveMQ":
            raise FenceError(
                "the option --to names a port that is not an OpenWire connector: use the port of the connector "
                "openwire, by default 61616"
            )
        (newest,) = struct.unpack_from(">i", greeting, 9)
        version = _NEW if newest >= _NEW else _OLD
        self._write(bytes([_WIRE_FORMAT]) + b"ActiveMQ" + struct.pack(">i", version) + _NULL)
        return version

    def _ask(self, kind: int, content: bytes, what: str) -> None:
        self._send(kind, content, answered=True)
        self._waiting[self._commands] = what

    def _send(self, kind: int, content: bytes, *, answered: bool) -> None:
        self._commands += 1
        self._write(struct.pack(">BiB", kind, self._commands, answered) + content)

    def _settle(self, most: int) -> None:
        """Read the broker's responses until at most ``most`` are missing. Raises FenceError if it rejects a message."""
        while len(self._waiting) > most:
            answer = self._read()
            if answer[0] not in (_RESPONSE, _EXCEPTION):
                continue
            (number,) = struct.unpack_from(">i", answer, 6)
            what = self._waiting.pop(number, "")
            if answer[0] == _EXCEPTION:
                raise FenceError(
                    f"the broker rejects {what} of the command activemq-fleet store replay "
                    f"({_exception(answer[10:])}): check activemq.log of this broker"
                )

    def _write(self, content: bytes) -> None:
        self._socket.sendall(struct.pack(">i", len(content)) + content)

    def _read(self) -> bytes:
        head = self._file.read(4)
        size = struct.unpack(">i", head)[0] if len(head) == 4 else 0
        content = self._file.read(size) if 0 < size <= _LONGEST_FRAME else b""
        if not content or len(content) != size:
            raise ConnectionError(
                "the broker closed the connection of the command activemq-fleet store replay: check activemq.log "
                "of this broker, and run the command again"
            )
        return content

    def _close(self) -> None:
        self._file.close()
        self._socket.close()


def _exception(content: bytes) -> str:
    """Return the class and the message of an exception in a broker's OpenWire response."""
    texts, at = [], 1
    for _index in range(2):
        if content[at : at + 1] == b"\1":
            (size,) = struct.unpack_from(">H", content, at + 1)
            texts.append(content[at + 3 : at + 3 + size].decode(errors="replace"))
            at += 2 + size
        at += 1
    return ": ".join(texts) or "without a reason"
