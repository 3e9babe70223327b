# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads MBeans of a JVM on this machine over RMI, without starting a JVM for it.

Source: Java RMI Specification, chapter 10 (wire protocol), and javax.management.remote.rmi.RMIConnection. Read on
5.5.1, 5.18.3 and 6.3.1 with Java 17.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import re
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..masking import mask_and_shorten
from .deadline_socket import DeadlineSocket
from .java_objects import (
    HEADER,
    NULL,
    JavaObject,
    ObjectReader,
    decoding_error,
    encode_java_utf,
    serialize_java_strings,
    serialize_object_name,
)

_URL = re.compile(r"service:jmx:rmi://[^/]*/stub/([A-Za-z0-9+/=]+)")
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"(?=,|\Z)')
_MAX_BYTES = 64 << 20
"""Maximum bytes of all answers of one connection: 40 times the answers of a broker with 2,000 MBeans."""
_MAX_CHARACTERS = 16 << 20
"""Maximum characters in all names and values of one connection: an answer may refer to one long text many times."""
_MAX_STUB_LEVELS = 10
"""Nested objects of a stub: a proxy, its handler and the reference."""
_LONGEST_MESSAGE = 400
_PACKAGE = "Ljavax/management/"
_SUBJECT = "Ljavax/security/auth/Subject;"
_NEW_CLIENT = f"newClient(Ljava/lang/Object;){_PACKAGE}remote/rmi/RMIConnection;"
_QUERY_NAMES = f"queryNames({_PACKAGE}ObjectName;Ljava/rmi/MarshalledObject;{_SUBJECT})Ljava/util/Set;"
_GET_ATTRIBUTES = f"getAttributes({_PACKAGE}ObjectName;[Ljava/lang/String;{_SUBJECT}){_PACKAGE}AttributeList;"
_CLOSE = "close()V"


class JmxError(Exception):
    """An error of JMX: the server does not answer, or answers with an exception.

    Its text is one line.
    """


@dataclass(frozen=True)
class _RemoteObject:
    """A remote Java object (RMI): the port of this machine at which its JVM listens, and the 22 bytes of its ObjID."""

    port: int
    id: bytes


class MBeanServerConnection:
    """A JMX connection to the MBean server of a JVM.

    It is made by its local connector address; the caller closes it. ``timeout``: seconds from now for all calls
    together. Raises JmxError when the JVM does not answer in time, sends more than 64 MiB or something other than RMI.
    """

    def __init__(self, url: str, timeout: float) -> None:
        match = _URL.search(url)
        if match is None:
            raise JmxError(
                f"the JVM of the broker reports {url[:80]!r}, which is not the address of a local JMX connector: "
                "check the options -Dcom.sun.management.jmxremote of the JVM"
            )
        self._remaining_characters = _MAX_CHARACTERS
        with _raise_as_jmx_error():
            server = _parse_stub(ObjectReader(_buffer_reader(memoryview(base64.b64decode(match[1])))).read_value())
            connection = socket.socket()
            self._socket = DeadlineSocket(connection, timeout, _MAX_BYTES)
        try:
            with _raise_as_jmx_error():
                connection.settimeout(self._socket.remaining_seconds())
                connection.connect(("127.0.0.1", server.port))
                self._socket.send(b"JRMI\0\2\x4b")
                if self._socket.read(1) != b"\x4e":
                    raise ValueError(
                        "the local JMX port of the broker's JVM does not use RMI: check the options "
                        "-Dcom.sun.management.jmxremote of the JVM"
                    )
                self._socket.read(struct.unpack(">H", self._socket.read(2))[0] + 4)
                self._socket.send(b"\0\0\0\0\0\0")
                self._connection = _parse_stub(self._call_method(server, _NEW_CLIENT, NULL))
        except JmxError:
            self._socket.close()
            raise

    def close(self) -> None:
        """Close a JMX connection to an MBean server."""
        with contextlib.suppress(JmxError), _raise_as_jmx_error():
            self._call_method(self._connection, _CLOSE, b"", returns=False)
        self._socket.close()

    def mbean_names(self, pattern: str) -> list[str]:
        """Return the names of a JVM's MBeans that match a pattern, sorted.

        An example is ``org.apache.activemq:Type=Queue,*``.
        """
        with _raise_as_jmx_error():
            answer = self._call_method(self._connection, _QUERY_NAMES, serialize_object_name(pattern) + NULL + NULL)
            return sorted(
                name
                for object_name in _java_elements(answer)
                if isinstance(name := self._to_python_value(object_name), str)
            )

    def mbean_attributes(self, mbean: str, attribute_names: Sequence[str]) -> dict[str, Any]:
        """Return the given attributes of a JVM's MBean, by attribute name.

        Only those that the MBean has are included: numbers and texts unchanged, ObjectNames as text. Empty if the MBean
        was unregistered in the meantime.
        """
        arguments = serialize_object_name(mbean) + serialize_java_strings(attribute_names) + NULL
        try:
            with _raise_as_jmx_error():
                answer = self._call_method(self._connection, _GET_ATTRIBUTES, arguments)
                return {
                    name: self._to_python_value(attribute.fields.get("value"))
                    for attribute in _java_elements(answer)
                    if isinstance(name := self._to_python_value(attribute.fields.get("name")), str)
                }
        except JmxError as error:
            if "InstanceNotFoundException" in str(error):
                return {}
            raise

    def _to_python_value(self, value: Any) -> Any:
        """Return a value without its Java class: the text of an ObjectName, a list of those of a list; else None.

        Raises ValueError when the values of this connection have more than 16 Mi characters together: several
        references to one text in an answer are as many texts in the result. A list within a list is None.
        """
        if isinstance(value, list):
            return [None if isinstance(element, list) else self._to_python_value(element) for element in value]
        if isinstance(value, JavaObject):
            value = next(value.values_outside_fields(), None) if value.name == "javax.management.ObjectName" else None
        if isinstance(value, (list, JavaObject, bytes)):
            return None
        self._remaining_characters -= len(value) if isinstance(value, str) else 8
        if self._remaining_characters < 0:
            raise ValueError(
                f"the names and values of the JVM's MBeans have more than {_MAX_CHARACTERS >> 20} million characters, "
                "so they were not read: remove unused destinations from the broker"
            )
        return value

    def _call_method(self, target: _RemoteObject, method: str, arguments: bytes, returns: bool = True) -> Any:
        """Call a method of a remote Java object over RMI, and return its value.

        Raises JmxError for the exception that it returns.
        """
        head = target.id + struct.pack(">i", -1) + _method_hash(method)
        self._socket.send(b"\x50" + HEADER + b"\x77" + bytes([len(head)]) + head + arguments)
        if self._socket.read(1) != b"\x51":
            raise decoding_error(f"the reply to the JMX call {method} is not an RMI reply")
        reader = ObjectReader(self._socket.read)
        is_exception = reader.read_block_data()[:1] == b"\2"
        value = reader.read_value() if returns or is_exception else None
        if is_exception:
            name = method.partition("(")[0]
            reason = mask_and_shorten(_describe_exception(value), _LONGEST_MESSAGE)
            raise JmxError(f"the JMX call {name} failed ({reason}): check activemq.log")
        return value


@contextlib.contextmanager
def _raise_as_jmx_error() -> Iterator[None]:
    """Raise JmxError in place of any error that an answer of the JVM, or its absence, causes."""
    try:
        yield
    except OSError as error:
        raise JmxError(
            f"the management view (JMX) of the broker cannot be read ({error}): check whether its process hangs, "
            "and try again"
        ) from None
    except (IndexError, TypeError, struct.error, binascii.Error, UnicodeError) as error:
        raise JmxError(
            f"the management view (JMX) of the broker cannot be read, because {decoding_error(error)}"
        ) from None
    except ValueError as error:  # a sentence with the remedy
        raise JmxError(f"the management view (JMX) of the broker cannot be read, because {error}") from None


def _describe_exception(exception: Any) -> str:
    """Return the class and the message of a Java exception."""
    if not isinstance(exception, JavaObject):
        return "an exception"
    message = exception.fields.get("detailMessage")
    return f"{exception.name}: {message}" if isinstance(message, str) else str(exception.name)


def object_name_properties(name: str) -> dict[str, str]:
    """Return the key properties of an MBean's object name as a dict.

    The name is ``domain:key=value,…``; values have no quotes around them. The time grows with the length of the name.
    """
    text = name.partition(":")[2]
    properties: dict[str, str] = {}
    position = 0
    while (equals := text.find("=", position)) >= 0:
        key = text[position:equals].rpartition(",")[2]
        quoted = _QUOTED.match(text, equals + 1)
        if quoted:
            value, end = quoted[0][1:-1], quoted.end()
        else:
            end = text.find(",", equals + 1)
            end = len(text) if end < 0 else end
            value = text[equals + 1 : end]
        if key:
            properties[key] = value
        position = end + 1
    return properties


def encode_object_name_part(name: str) -> str:
    """Encode a name as a part of an MBean's object name, as ActiveMQ does.

    An example is the name of a networkConnector. Source: JMXSupport.encodeObjectNamePart of the release tags, which
    replaces reserved characters of JMX.
    """
    encoded_name = re.sub("[:,'\"]", "_", name)
    return encoded_name.replace("?", "&qe;").replace("=", "&amp;").replace("*", "&ast;")


def _method_hash(method: str) -> bytes:
    """Return the RMI hash of a method's name and descriptor: the first 8 bytes of the SHA-1, in reverse order."""
    return hashlib.sha1(encode_java_utf(method), usedforsecurity=False).digest()[7::-1]


def _java_elements(collection: Any) -> Iterator[JavaObject]:
    """Yield the objects of a Java collection, or of the collection that it wraps."""
    if isinstance(collection, JavaObject):
        yield from (element for element in collection.values_outside_fields() if isinstance(element, JavaObject))


def _parse_stub(stub: Any) -> _RemoteObject:
    """Return the remote object of a stub: ``UnicastRef`` or ``UnicastRef2``, host, port, ObjID."""
    for _index in range(_MAX_STUB_LEVELS):
        if not isinstance(stub, JavaObject) or stub.added:
            break
        stub = stub.fields.get("h")
    data = stub.added[0] if isinstance(stub, JavaObject) and stub.added else b""
    if not isinstance(data, bytes):
        raise decoding_error("no RMI reference")
    size = struct.unpack(">H", data[:2])[0]
    kind, remaining = data[2 : 2 + size], data[2 + size :]
    if kind == b"UnicastRef2":
        remaining = remaining[1:]
    elif kind != b"UnicastRef":
        raise decoding_error(f"RMI reference {kind[:20]!r}")
    size = struct.unpack(">H", remaining[:2])[0]
    port = struct.unpack(">i", remaining[2 + size : 6 + size])[0]
    if not 0 < port < 1 << 16:
        raise ValueError(
            f"the JMX server of the broker's JVM reports the invalid port {port}: check the options "
            "-Dcom.sun.management.jmxremote of the JVM"
        )
    return _RemoteObject(port, bytes(remaining[6 + size : 28 + size]))


def _buffer_reader(data: memoryview) -> Any:
    position = 0

    def read(count: int) -> bytes:
        nonlocal position
        position += count
        if position > len(data):
            raise ValueError(
                "the JVM of the broker reports a truncated address of its local JMX connector: run the command again"
            )
        return bytes(data[position - count : position])

    return read
