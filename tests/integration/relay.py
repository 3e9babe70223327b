"""A relay of TCP connections that can stop, lose one direction, or be slow, as networks do."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

_CHUNK = 65536


class Relay:
    """A context manager that forwards connections from ``address`` to ``target``.

    ``address`` is on the host of the target, with the port ``port``, or a free one.

    Between ``cut`` and ``heal`` it forwards neither bytes nor ends of connections, and closes no connection: the bytes
    that were sent in this time arrive after ``heal``, as after a retransmission of TCP. ``rate`` is the maximum of
    bytes per second for each direction of a connection; 0 is no limit.
    """

    def __init__(self, target: tuple[str, int], rate: int = 0, port: int = 0) -> None:
        self._target = target
        self.rate = rate
        self._open = threading.Event()
        self._open.set()
        self._replies = threading.Event()
        self._replies.set()
        self._listener = socket.create_server((target[0], port))
        self._sockets: list[socket.socket] = []
        self.address: tuple[str, int] = self._listener.getsockname()

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._close(self._listener, *self._sockets)
        self.heal()

    def cut(self) -> None:
        self._open.clear()

    def hold_replies(self) -> None:
        """Forward the bytes of clients, and hold the replies of the target."""
        self._replies.clear()

    def reset(self) -> None:
        """Close all connections, with the loss of the bytes that they hold; forward new connections."""
        sockets, self._sockets = self._sockets, []
        self._close(*sockets)
        self.heal()

    def heal(self) -> None:
        self._open.set()
        self._replies.set()

    @staticmethod
    def _close(*sockets: socket.socket) -> None:
        for connection in sockets:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    @staticmethod
    def _start(work: Callable[..., None], *arguments: Any) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        self._open.wait()
        try:
            server = socket.create_connection(self._target, 10)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        self._sockets.append(server)
        self._start(self._forward, client, server)
        self._forward(server, client, self._replies)

    def _forward(self, source: socket.socket, target: socket.socket, gate: threading.Event | None = None) -> None:
        """Forward one direction, including its end; while ``gate`` is not set, hold the bytes."""
        chunk = b"-"
        while chunk:
            try:
                chunk = source.recv(min(_CHUNK, self.rate // 10) if self.rate else _CHUNK)
            except OSError:
                chunk = b""
            for event in (self._open, *([gate] if gate else [])):
                event.wait()
            if self.rate:
                time.sleep(len(chunk) / self.rate)
            with suppress(OSError):
                if chunk:
                    target.sendall(chunk)
                else:
                    target.shutdown(socket.SHUT_WR)
