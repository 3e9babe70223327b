# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads MBeans of a JVM on this machine over RMI, without starting a JVM for it.

Source: Java RMI Specification, chapter 10 (wire protocol), and javax.management.remote.rmi.RMIConnection. Read on
5.5.1, 5.18.3 and 6.3.1 with Java 17.
"""

from __future__ import annotations

import base64
import hashlib
import re
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .java_objects import (
    HEADER,
    NULL,
    JavaObject,
    ObjectReader,
    encoded_utf,
    serialized_object_name,
    serialized_strings,
)

_URL = re.compile(r"service:jmx:rmi://[^/]*/stub/([A-Za-z0-9+/=]+)")
_PROPERTY = re.compile(r'([^=,]+)=("(?:\\.|[^"\\])*"|[^,]*)(?:,|\Z)')
_PACKAGE = "Ljavax/management/"
_SUBJECT = "Ljavax/security/auth/Subject;"
_NEW_CLIENT = f"newClient(Ljava/lang/Object;){_PACKAGE}remote/rmi/RMIConnection;"
_QUERY_NAMES = f"queryNames({_PACKAGE}ObjectName;Ljava/rmi/MarshalledObject;{_SUBJECT})Ljava/util/Set;"
_GET_ATTRIBUTES = f"getAttributes({_PACKAGE}ObjectName;[Ljava/lang/String;{_SUBJECT}){_PACKAGE}AttributeList;"
_CLOSE = "close()V"


class JmxError(Exception):
    """An error for a JMX server that does not answer or answers with an exception; its text is one line."""


@dataclass(frozen=True)
class _Remote:
    """A remote object: the port of this machine at which its JVM listens, and the 22 bytes of its ObjID."""

    port: int
    id: bytes


class MBeanServer:
    """A JMX connection to the MBean server of a JVM, by its local connector address; to be closed by the caller.

    ``timeout``: seconds for the whole of it. Raises JmxError where nobody answers in time, or not in RMI.
    """

    def __init__(self, url: str, timeout: float) -> None:
        match = _URL.search(url)
        if match is None:
            raise JmxError(f"{url[:80]!r} is no address of a local JMX connector")
        self._end = time.monotonic() + timeout
        data = memoryview(base64.b64decode(match[1]))
        server = _remote(ObjectReader(_reader_of(data)).read_value())
        try:
            self._socket = socket.create_connection(("127.0.0.1", server.port), timeout)
            self._file = self._socket.makefile("rb")
            self._socket.sendall(b"JRMI\0\2\x4b")
            if self._read(1) != b"\x4e":
                raise JmxError("the JVM does not speak RMI")
            self._read(struct.unpack(">H", self._read(2))[0] + 4)
            self._socket.sendall(b"\0\0\0\0\0\0")
            self._connection = _remote(self._call(server, _NEW_CLIENT, NULL))
        except (OSError, ValueError, IndexError) as error:
            raise JmxError(f"the JVM's management view does not answer: {error}") from None

    def close(self) -> None:
        """Close the JMX connection."""
        try:
            self._call(self._connection, _CLOSE, b"", returns=False)
        except (JmxError, OSError, ValueError, IndexError):
            pass  # It has answered all that was asked.
        finally:
            self._file.close()
            self._socket.close()

    def names(self, pattern: str) -> list[str]:
        """Return the sorted names of the MBeans that match a pattern such as ``org.apache.activemq:Type=Queue,*``."""
        found = self._ask(_QUERY_NAMES, serialized_object_name(pattern) + NULL + NULL)
        return sorted(str(next(one.inner_values())) for one in _elements(found))

    def attributes(self, name: str, wanted: Sequence[str]) -> dict[str, Any]:
        """Return the wanted attributes that an MBean has, by name: numbers and texts unchanged, ObjectNames as text.

        Empty for an MBean that has gone meanwhile.
        """
        try:
            found = self._ask(_GET_ATTRIBUTES, serialized_object_name(name) + serialized_strings(wanted) + NULL)
        except JmxError as error:
            if "InstanceNotFoundException" in str(error):
                return {}
            raise
        return {str(one.fields["name"]): _plain(one.fields["value"]) for one in _elements(found)}

    def _ask(self, method: str, arguments: bytes) -> Any:
        try:
            return self._call(self._connection, method, arguments)
        except (OSError, ValueError, IndexError) as error:
            raise JmxError(f"the JVM's management view does not answer: {error}") from None

    def _call(self, target: _Remote, method: str, arguments: bytes, returns: bool = True) -> Any:
        """Call a method of a remote object; return the value, raise JmxError for the exception that it returns."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("it took too long")
        self._socket.settimeout(left)
        head = target.id + struct.pack(">i", -1) + _hash_of(method)
        self._socket.sendall(b"\x50" + HEADER + b"\x77" + bytes([len(head)]) + head + arguments)
        if self._read(1) != b"\x51":
            raise ValueError("it does not answer with a return value")
        reader = ObjectReader(self._read)
        is_exception = reader.read_block_data()[:1] == b"\2"
        value = reader.read_value() if returns or is_exception else None
        if is_exception:
            message = value.fields.get("detailMessage") if isinstance(value, JavaObject) else None
            raise JmxError(f"{getattr(value, 'name', 'an exception')}: {message}")
        return value

    def _read(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            raise ConnectionResetError("the connection was closed")
        return data


def object_name_properties(name: str) -> dict[str, str]:
    """Return the key properties of an MBean name ``domain:key=value,…`` as a dict; values have no
    quotes around them.
    """
    found = _PROPERTY.findall(name.partition(":")[2])
    return {key: value[1:-1] if value.startswith('"') else value for key, value in found}


def encoded_name(name: str) -> str:
    """Return a name, such as a networkConnector's, as a broker writes it into the names of its MBeans.

    Source: JMXSupport.encodeObjectNamePart of the release tags, which replaces characters that JMX keeps for itself.
    """
    plain = re.sub("[:,'\"]", "_", name)
    return plain.replace("?", "&qe;").replace("=", "&amp;").replace("*", "&ast;")


def _hash_of(method: str) -> bytes:
    """Return the hash of a method's name and descriptor, as RMI numbers methods: of SHA-1 the first 8 bytes, turned."""
    return hashlib.sha1(encoded_utf(method), usedforsecurity=False).digest()[7::-1]


def _elements(found: Any) -> Iterator[JavaObject]:
    """Yield the objects of a collection, or of the one that a collection wraps."""
    if isinstance(found, JavaObject):
        yield from (one for one in found.inner_values() if isinstance(one, JavaObject))


def _plain(value: Any) -> Any:
    """Return a value without its Java class: the text of an ObjectName, a list of those of a list; else None."""
    if isinstance(value, JavaObject):
        return next(value.inner_values(), None) if value.name == "javax.management.ObjectName" else None
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _remote(stub: Any) -> _Remote:
    """Return the remote object of a stub: ``UnicastRef`` or ``UnicastRef2``, host, port, ObjID."""
    while isinstance(stub, JavaObject) and not stub.added:
        stub = stub.fields.get("h")
    data = stub.added[0] if isinstance(stub, JavaObject) else b""
    size = struct.unpack(">H", data[:2])[0]
    kind, rest = data[2 : 2 + size], data[2 + size :]
    if kind == b"UnicastRef2":
        rest = rest[1:]
    elif kind != b"UnicastRef":
        raise ValueError(f"the JVM's management view is of the kind {kind!r}")
    size = struct.unpack(">H", rest[:2])[0]
    port = struct.unpack(">i", rest[2 + size : 6 + size])[0]
    return _Remote(port, bytes(rest[6 + size : 28 + size]))


def _reader_of(data: memoryview) -> Any:
    position = 0

    def read(count: int) -> bytes:
        nonlocal position
        position += count
        if position > len(data):
            raise ValueError("the address is cut off")
        return bytes(data[position - count : position])

    return read
