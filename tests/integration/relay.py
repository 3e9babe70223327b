"""A relay of TCP connections that can stand still, as a network does that loses every packet."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

_CHUNK = 65536


class Relay:
    """Forwards connections to ``target`` from ``address``, a free port beside it, while it is a context.

    Between ``cut`` and ``heal`` it forwards nothing, neither bytes nor ends of connections, and closes none: what was
    sent meanwhile arrives when it heals, as what TCP sends again.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._open = threading.Event()
        self._open.set()
        self._listener = socket.create_server((target[0], 0))
        self._sockets: list[socket.socket] = []
        self.address: tuple[str, int] = self._listener.getsockname()

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self._listener, *self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self.heal()

    def cut(self) -> None:
        self._open.clear()

    def heal(self) -> None:
        self._open.set()

    @staticmethod
    def _start(work: Callable[..., None], *arguments: socket.socket) -> None:
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
        self._forward(server, client)

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        """Forward one direction until its end, which is forwarded as well."""
        data = b"-"
        while data:
            try:
                data = source.recv(_CHUNK)
            except OSError:
                data = b""
            self._open.wait()
            with suppress(OSError):
                if data:
                    target.sendall(data)
                else:
                    target.shutdown(socket.SHUT_WR)
