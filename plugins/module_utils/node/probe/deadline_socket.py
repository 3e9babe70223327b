# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""A socket with one deadline for the whole exchange and one limit for all bytes that the peer sends.

The timeout of a plain socket applies to each call, so a peer that sends single bytes can block a reader indefinitely.
Every client that queries a broker, a JVM or an agent on a host uses this class.
"""

from __future__ import annotations

import contextlib
import socket
import time

_BLOCK_BYTES = 1 << 16
_PARTING_SECONDS = 1.0
"""Seconds that the peer has to close its end of the connection."""
_TIMEOUTS = (TimeoutError, socket.timeout)
"""Before Python 3.10, these are two classes."""


class DeadlineSocket:
    """A connected socket with one deadline for all its sends and reads.

    They read a limited number of bytes. ``timeout``: seconds until the deadline, from now. ``limit``: bytes that the
    peer may send in all; more raise ValueError. After the deadline every method raises TimeoutError. The socket may use
    TCP, TLS or a path. It is closed by ``close``, or by leaving the context.
    """

    def __init__(self, connection: socket.socket, timeout: float, limit: int) -> None:
        self._connection = connection
        self.renew_deadline(timeout)
        self._limit = self._remaining_bytes = limit
        self._buffer = bytearray()

    def __enter__(self) -> DeadlineSocket:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def renew_deadline(self, timeout: float) -> None:
        """Set the deadline of the socket's next sends and reads to ``timeout`` seconds from now."""
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout

    def remaining_seconds(self) -> float:
        """Return the seconds until the socket's deadline, more than 0; raise TimeoutError after the deadline."""
        seconds = self._deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError(
                f"the server on this port sent no complete answer within {self._timeout:g} s: check whether its "
                "process hangs"
            )
        return seconds

    def send(self, content: bytes) -> None:
        """Send all bytes over the socket before its deadline.

        Raises OSError; TimeoutError when the peer does not read them in time.
        """
        remaining = memoryview(content)
        while remaining:
            self._connection.settimeout(self.remaining_seconds())
            try:
                remaining = remaining[self._connection.send(remaining) :]
            except _TIMEOUTS:
                self.remaining_seconds()

    def read(self, count: int) -> bytes:
        """Read and return exactly ``count`` bytes from the socket.

        Raises OSError, also when the peer closes the connection before.
        """
        self.remaining_seconds()
        while len(self._buffer) < count:
            if not self._receive_block():
                raise _closed_error()
        return self._take_from_buffer(count)

    def read_until_ending(self, *endings: bytes) -> bytes:
        """Read from the socket until the first of the given ``endings``, and return the bytes with it.

        Raises OSError, also when the peer closes before.
        """
        self.remaining_seconds()
        start = 0
        while True:
            positions = [(self._buffer.find(ending, start), len(ending)) for ending in endings]
            stops = [position + length for position, length in positions if position >= 0]
            if stops:
                return self._take_from_buffer(min(stops))
            start = max(0, len(self._buffer) - max(map(len, endings)) + 1)
            if not self._receive_block():
                raise _closed_error()

    def discard_bytes_in_set(self, byte_set: bytes) -> None:
        """Discard the next bytes from the socket that are in ``byte_set``, up to the first other byte.

        The next read returns this other byte first. Raises OSError, also when the peer closes the connection before.
        """
        self.remaining_seconds()
        while not (remaining := self._buffer.lstrip(byte_set)):
            self._buffer.clear()
            if not self._receive_block():
                raise _closed_error()
        self._buffer = remaining

    def read_to_end(self) -> bytes:
        """Read and return all bytes from the socket until the peer closes the connection."""
        while self._receive_block():
            pass
        return self._take_from_buffer(len(self._buffer))

    def sleep_or_raise_if_peer_closes(self, seconds: float) -> None:
        """Wait for some seconds, and return nothing; raise ConnectionResetError if the peer closes the connection.

        Bytes that the peer sends meanwhile are discarded. The time does not count against the deadline of the exchange
        before; no exchange can follow. Raises ValueError above the limit of bytes, OSError.
        """
        self._deadline = time.monotonic() + seconds
        try:
            while self._receive_block():
                self._buffer.clear()
        except TimeoutError:
            return
        raise _closed_error()

    def close(self, *, parting: bool = False) -> None:
        """Close the socket's connection.

        Raises nothing. ``parting``: first wait, for a second at most, until the peer closes its end. Unread data on
        closing resets the connection, which a broker logs as an error.
        """
        if parting:
            with contextlib.suppress(OSError, ValueError):
                self._connection.shutdown(socket.SHUT_WR)
                self._deadline = time.monotonic() + _PARTING_SECONDS
                while self._receive_block():
                    self._buffer.clear()
        self._connection.close()

    def _take_from_buffer(self, count: int) -> bytes:
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def _receive_block(self) -> bool:
        """Receive a block of bytes into the socket's buffer; return False if the peer closed the connection."""
        self._connection.settimeout(self.remaining_seconds())
        try:
            block = self._connection.recv(_BLOCK_BYTES)
        except _TIMEOUTS:
            self._deadline = min(self._deadline, time.monotonic())
            self.remaining_seconds()
            raise
        self._remaining_bytes -= len(block)
        if self._remaining_bytes < 0:
            raise ValueError(
                f"the server on this port sent more than {self._limit} bytes, which no broker does: check that "
                "the broker listens on this port"
            )
        self._buffer += block
        return bool(block)


def _closed_error() -> ConnectionResetError:
    return ConnectionResetError(
        "the server on this port closed the connection before its answer was complete: check activemq.log"
    )
