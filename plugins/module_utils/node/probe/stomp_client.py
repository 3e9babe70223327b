# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Sends and reads frames of STOMP 1.0, which every release from 5.3 to 6.3 supports.

It sends CONNECT, because 5.5.1 refuses the frame STOMP of later versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..config.probe_account import Login
from .deadline_socket import DeadlineSocket


@dataclass(frozen=True)
class StompFrame:
    """One STOMP frame received from a broker."""

    command: str
    headers: Mapping[str, str]
    body: str

    @property
    def error_reason(self) -> str:
        """The reason of a STOMP ERROR frame in one line.

        It is its message, else the first line of its body.
        """
        message = self.headers.get("message", "").strip()
        return message if message not in ("", "null") else self.body.strip().partition("\n")[0]


def connect_headers(login: Login, client_id: str = "") -> dict[str, str]:
    """Return the headers of a STOMP CONNECT frame for a login (account and password).

    They name an account unless the login is empty.
    """
    headers = {"client-id": client_id} if client_id else {}
    if login.username:
        headers.update(login=login.username, passcode=login.password)
    return headers


class StompClient:
    """A STOMP client over a connected socket.

    One thread uses it. The socket's deadline and limit count for what it sends and reads.
    """

    def __init__(self, exchange: DeadlineSocket) -> None:
        self.exchange = exchange
        self._frame_head = b""

    def send_frame(self, command: str, headers: Mapping[str, str], body: str = "") -> None:
        """Send one STOMP frame to the broker.

        Raises ValueError for what the frame cannot carry, OSError.
        """
        lines = [command, *(f"{name}:{text}" for name, text in headers.items())]
        if any("\n" in line or "\0" in line for line in lines) or "\0" in body:
            raise ValueError(
                f"the STOMP frame {command} cannot be sent, because one of its headers contains a line end or a "
                "NUL character. Remove this character from the user name, the password or the queue's name"
            )
        self.exchange.send(("\n".join(lines) + "\n\n" + body + "\0").encode())

    def read_frame(self) -> StompFrame:
        """Read and return the next STOMP frame from the broker.

        After a TimeoutError a further call continues it. Raises OSError, ValueError.
        """
        if not self._frame_head:
            self.exchange.discard_bytes_in_set(b"\r\n")  # heart-beats
            self._frame_head = self.exchange.read_until_ending(b"\n\n", b"\0")
        command, *lines = self._frame_head.rstrip(b"\n\0").decode(errors="replace").replace("\r", "").split("\n")
        headers: dict[str, str] = {}
        for line in lines:
            name, _separator, text = line.partition(":")
            headers.setdefault(name, text)  # the first one counts
        length = headers.get("content-length", "").strip()
        body = b"\0"
        if self._frame_head.endswith(b"\n\n"):  # otherwise the headers have no end: no broker sends such a frame
            body = self.exchange.read(int(length) + 1) if length.isdigit() else self.exchange.read_until_ending(b"\0")
        self._frame_head = b""
        return StompFrame(command, headers, body[:-1].decode(errors="replace"))
