"""A hostile JVM with an attach socket, an RMI registry stub and hostile answers over RMI.

This module uses only the standard library, because a test also runs its text as a process of another account.
"""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable

HEADER = b"\xac\xed\0\5"
RETURN = b"\x51" + HEADER + b"\x77\x0f\x01" + bytes(14)
DRIP = 0.2
"""Seconds between two bytes of an answer that never ends."""


def utf(text: bytes) -> bytes:
    return struct.pack(">H", len(text)) + text


def long_text(text: bytes) -> bytes:
    return b"\x7c" + struct.pack(">q", len(text)) + text


def java_class(name: bytes, flags: int = 2, fields: bytes = b"\0\0", parent: bytes = b"\x70") -> bytes:
    return b"\x72" + utf(name) + bytes(8) + bytes([flags]) + fields + b"\x78" + parent


def java_object(name: bytes, added: bytes) -> bytes:
    return b"\x73" + java_class(name, 3) + added + b"\x78"


def stub(port: int) -> bytes:
    reference = utf(b"UnicastRef") + utf(b"localhost") + struct.pack(">i", port) + bytes(23)
    return java_object(b"java.rmi.server.RemoteObject", b"\x77" + bytes([len(reference)]) + reference)


def set_of_names(*names: bytes) -> bytes:
    return java_object(
        b"java.util.HashSet", b"".join(java_object(b"javax.management.ObjectName", long_text(name)) for name in names)
    )


def attribute(value: bytes) -> bytes:
    fields = (
        b"\0\2L" + utf(b"name") + b"\x74" + utf(b"Ljava/lang/String;")
        + b"L" + utf(b"value") + b"\x74" + utf(b"Ljava/lang/Object;")
    )  # fmt: skip
    return java_object(
        b"javax.management.AttributeList",
        b"\x73" + java_class(b"javax.management.Attribute", 2, fields) + b"\x74" + utf(b"QueueSize") + value,
    )


def blocks(count: int) -> bytes:
    """Return an object whose added data comes in small blocks."""
    return java_object(b"x", (b"\x77\xff" + b"A" * 255) * count)


def cyclic_superclass() -> bytes:
    """Return an object of a class that is its own superclass."""
    return b"\x73\x72" + utf(b"x") + bytes(8) + b"\x02\0\0\x78\x71" + struct.pack(">i", 0x7E0000)


def nested_lists(depth: int) -> bytes:
    """Return an attribute whose value is a list of ten references to a list of ten references …, ``depth`` times.

    Expanded, the value has 10 to the power of ``depth`` texts.
    """
    head = b"\x75" + java_class(b"[Ljava.lang.Object;") + struct.pack(">i", 10)
    value = head + b"\x74\0\1A" * 10
    # Handle of the innermost array: 7 handles precede the outermost array's class, each array takes two.
    for handle in range(0x7E0000 + 8 + 2 * (depth - 1), 0x7E0000 + 8, -2):
        value = head + value + (b"\x71" + struct.pack(">i", handle)) * 9
    return attribute(value)


class HostileJvm:
    """The RMI port of a hostile JVM: ``names`` and ``attributes`` are its answers to the two queries, as bytes.

    With ``drips`` the first answer to a query comes byte by byte and never ends. ``queries`` counts received queries.
    """

    def __init__(self, names: bytes = b"", attributes: bytes = b"", drips: bool = False) -> None:
        self.queries = 0
        self._names, self._attributes, self._drips = names, attributes, drips
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(5)
        self.port = self._listener.getsockname()[1]
        serve(self._listener, self._answer)

    @property
    def url(self) -> str:
        return "service:jmx:rmi://127.0.0.1/stub/" + base64.b64encode(HEADER + stub(self.port)).decode()

    def close(self) -> None:
        self._listener.close()

    def _answer(self, caller: socket.socket) -> None:
        caller.recv(7, socket.MSG_WAITALL)
        caller.sendall(b"\x4e" + utf(b"127.0.0.1") + bytes(4))
        caller.recv(6, socket.MSG_WAITALL)
        caller.recv(65536)
        caller.sendall(RETURN + stub(self.port))
        while caller.recv(65536):
            self.queries += 1
            if self._drips:
                caller.sendall(RETURN + b"\x73" + java_class(b"x", 3))
                while True:
                    caller.sendall(b"\x77\x01A")
                    time.sleep(DRIP)
            caller.sendall(RETURN + (self._names if self.queries == 1 else self._attributes))


def serve(listener: socket.socket, answer: Callable[[socket.socket], None]) -> None:
    """Answer every caller of a listener, each in a separate thread, until the listener is closed."""

    def answer_caller(caller: socket.socket) -> None:
        try:
            with caller:
                answer(caller)
        except OSError:
            pass

    def accept() -> None:
        try:
            while True:
                threading.Thread(target=answer_caller, args=(listener.accept()[0],), daemon=True).start()
        except OSError:
            pass

    threading.Thread(target=accept, daemon=True).start()


ATTACKS: dict[str, Callable[[], HostileJvm]] = {
    "drip": lambda: HostileJvm(drips=True),
    "names": lambda: HostileJvm(names=set_of_names(b"o:" + b"a" * 4_000_000)),
}


def main(attack: str, report: str, account: str) -> None:
    """Run as a broker's process: open the JVM's attach socket, answer attacks, count queries in the file ``report``."""
    path = f"/tmp/.java_pid{os.getpid()}"  # noqa: S108 -- the name that a JVM uses
    with contextlib.suppress(FileNotFoundError):  # a killed JVM that had this pid leaves its socket
        os.unlink(path)
    # This process changes its account itself, because other accounts often cannot run the Python of the tests.
    os.setgroups([])
    os.setgid(int(account))
    os.setuid(int(account))
    jvm = ATTACKS[attack]()
    attach = socket.socket(socket.AF_UNIX)
    attach.bind(path)
    attach.listen(5)

    def answer(caller: socket.socket) -> None:
        caller.recv(4096)
        address = f"com.sun.management.jmxremote.localConnectorAddress={jvm.url}"
        caller.sendall(f"0\n{address}\n".encode())

    serve(attach, answer)
    print("ready", flush=True)
    while True:
        with open(report + ".new", "w") as file:
            file.write(str(jvm.queries))
        os.replace(report + ".new", report)
        time.sleep(0.1)


if __name__ == "__main__":
    main(*sys.argv[1].split(","))
