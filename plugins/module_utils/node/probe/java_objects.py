# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads and writes serialized Java objects as plain Python values, as far as JMX over RMI needs it.

Source: Java Object Serialization Specification, chapter 6 (stream version 5). No class is loaded and nothing is
executed: an object is its fields and what its ``writeObject`` added.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

HEADER = b"\xac\xed\0\5"
NULL = b"\x70"
_END_OF_ANNOTATIONS = object()
_MAX_LEVELS = 60
_MAX_BYTES = 16 << 20
"""Maximum bytes of one answer."""
_HAS_WRITE_METHOD, _SERIALIZABLE, _EXTERNALIZABLE = 1, 2, 4
_PRIMITIVES = {"B": "b", "C": "H", "D": "d", "F": "f", "I": "i", "J": "q", "S": "h", "Z": "?"}


@dataclass
class JavaObject:
    """A deserialized Java object: its class name and its fields by name.

    ``added`` holds the further values that ``writeObject`` wrote, in order, primitive data as bytes.
    """

    name: str
    fields: dict[str, Any] = field(default_factory=dict)
    added: list[Any] = field(default_factory=list)

    def values_outside_fields(self) -> Iterator[Any]:
        """Yield the values of a Java object that are not in its fields, such as the elements of a collection."""
        yield from (value for value in self.added if not isinstance(value, bytes))


@dataclass
class _ClassDescriptor:
    name: str
    flags: int = 0
    fields: list[tuple[str, str]] = field(default_factory=list)
    parent: _ClassDescriptor | None = None

    def classes_from_topmost_superclass_down(self) -> list[_ClassDescriptor]:
        """Return the descriptors of a serialized Java class and its superclasses, from the topmost superclass down.

        That is the order of their serialized data. Raises ValueError for more than 60 superclasses: a hostile peer can
        make a class its own superclass.
        """
        classes: list[_ClassDescriptor] = []
        kind: Any = self
        while kind is not None:
            if not isinstance(kind, _ClassDescriptor) or len(classes) > _MAX_LEVELS:
                raise decoding_error("invalid superclass")
            classes.append(kind)
            kind = kind.parent
        return classes[::-1]


def decoding_error(detail: object) -> ValueError:
    """Return an error for an answer over JMX that cannot be decoded.

    ``detail`` is for its developers.
    """
    return ValueError(
        f"the JVM's answer over JMX cannot be decoded ({detail}): report this message and the broker's Java version "
        "as a bug of activemq.fleet"
    )


class ObjectReader:
    """A reader of Java objects from a serialization stream.

    Its argument ``read(n)`` returns exactly n bytes, or raises OSError. Raises ValueError for data that is not a
    serialized object, is nested deeper than 60, or has more than 16 MiB.
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read_from_source = read
        self._remaining_bytes = _MAX_BYTES
        self._handles: list[Any] = []
        self._depth = 0
        if self._read_bytes(4) != HEADER:
            raise decoding_error("no stream header")

    def read_block_data(self) -> bytes:
        """Read the next block of primitive data in a Java serialization stream, and return its bytes.

        Raises ValueError if an object comes next.
        """
        value = self.read_value()
        if not isinstance(value, bytes):
            raise decoding_error("it contains an object where primitive data are expected")
        return value

    def read_value(self) -> Any:
        """Read the next value of a Java serialization stream, and return it.

        It is None, text, list (array), bytes (primitive data), or a JavaObject. A boxed number is that number, an enum
        constant its name.
        """
        self._depth += 1
        if self._depth > _MAX_LEVELS:
            raise decoding_error("its Java objects are nested too deeply")
        try:
            return self._read_by_type_code(self._read_bytes(1)[0])
        finally:
            self._depth -= 1

    def _read_by_type_code(self, code: int) -> Any:
        if code == 0x70:
            return None
        if code == 0x71:
            return self._handles[self._read_number("i") - 0x7E0000]
        if code == 0x77:
            return self._read_bytes(self._read_bytes(1)[0])
        if code == 0x7A:
            return self._read_bytes(self._read_number("i"))
        if code == 0x78:
            return _END_OF_ANNOTATIONS
        if code in (0x74, 0x7C):
            text = self._read_text("H" if code == 0x74 else "q")
            self._handles.append(text)
            return text
        readers = {
            0x72: self._read_class,
            0x73: self._read_object,
            0x75: self._read_array,
            0x76: self._read_class_object,
        }
        readers |= {0x7D: self._read_proxy_class, 0x7E: self._read_enum}
        if code not in readers:
            raise decoding_error(f"type code {code:#x}")
        return readers[code]()

    def _read_class(self) -> _ClassDescriptor:
        class_descriptor = _ClassDescriptor(self._read_text("H"))
        self._read_bytes(8)
        self._handles.append(class_descriptor)
        class_descriptor.flags = self._read_bytes(1)[0]
        for _index in range(self._read_number("H")):
            code, name = chr(self._read_bytes(1)[0]), self._read_text("H")
            class_descriptor.fields.append((code, name))
            if code in "[L":
                self.read_value()  # the name of the field's type
        self._read_annotations()
        class_descriptor.parent = self.read_value()
        return class_descriptor

    def _read_proxy_class(self) -> _ClassDescriptor:
        proxy_class = _ClassDescriptor("proxy", _SERIALIZABLE)
        self._handles.append(proxy_class)
        for _index in range(self._read_number("i")):
            self._read_text("H")
        self._read_annotations()
        proxy_class.parent = self.read_value()
        return proxy_class

    def _read_class_object(self) -> str:
        name = str(self._read_class_of_value().name)
        self._handles.append(name)
        return name

    def _read_class_of_value(self) -> _ClassDescriptor:
        class_descriptor = self.read_value()
        if not isinstance(class_descriptor, _ClassDescriptor):
            raise decoding_error("object without class")
        return class_descriptor

    def _read_object(self) -> Any:
        kind = self._read_class_of_value()
        java_object = JavaObject(kind.name)
        handle = len(self._handles)
        self._handles.append(java_object)
        for class_descriptor in kind.classes_from_topmost_superclass_down():
            if class_descriptor.flags & _SERIALIZABLE:
                for code, name in class_descriptor.fields:
                    java_object.fields[name] = self._read_element(code)
            if class_descriptor.flags & (_HAS_WRITE_METHOD | _EXTERNALIZABLE):
                java_object.added += self._read_annotations()
        if kind.name.startswith("java.lang.") and java_object.fields.keys() == {"value"}:
            self._handles[handle] = java_object.fields["value"]
        return self._handles[handle]

    def _read_array(self) -> list[Any]:
        kind = self._read_class_of_value()
        elements: list[Any] = []
        self._handles.append(elements)
        for _index in range(self._read_number("i")):
            elements.append(self._read_element(kind.name[1:2]))  # noqa: PERF401 -- an element may refer to the array
        return elements

    def _read_enum(self) -> Any:
        self._read_class_of_value()
        handle = len(self._handles)
        self._handles.append(None)
        self._handles[handle] = self.read_value()
        return self._handles[handle]

    def _read_element(self, code: str) -> Any:
        return self._read_number(_PRIMITIVES[code]) if code in _PRIMITIVES else self.read_value()

    def _read_annotations(self) -> list[Any]:
        annotation_contents: list[Any] = []
        blocks: list[bytes] = []
        while (value := self.read_value()) is not _END_OF_ANNOTATIONS:
            if isinstance(value, bytes):
                blocks.append(value)
                continue
            if blocks:
                annotation_contents.append(b"".join(blocks))
                blocks = []
            annotation_contents.append(value)
        if blocks:
            annotation_contents.append(b"".join(blocks))
        return annotation_contents

    def _read_text(self, length: str) -> str:
        return self._read_bytes(self._read_number(length)).decode(errors="replace")

    def _read_number(self, code: str) -> Any:
        return struct.unpack(">" + code, self._read_bytes(struct.calcsize(">" + code)))[0]

    def _read_bytes(self, count: int) -> bytes:
        self._remaining_bytes -= count
        if count < 0:
            raise decoding_error(f"length {count}")
        if self._remaining_bytes < 0:
            raise ValueError(
                f"the JVM's answer over JMX has more than {_MAX_BYTES >> 20} MiB: remove unused destinations from the "
                "broker"
            )
        return self._read_from_source(count)


def _serialize_java_string(value: str) -> bytes:
    """Return a text in Java's serialized form of a java.lang.String."""
    encoded = value.encode()
    if len(encoded) < 1 << 16:
        return b"\x74" + encode_java_utf(value)
    return b"\x7c" + struct.pack(">q", len(encoded)) + encoded


def serialize_java_strings(values: Sequence[str]) -> bytes:
    """Return texts in Java's serialized form of an array of java.lang.String."""
    kind = b"\x72" + encode_java_utf("[Ljava.lang.String;") + bytes.fromhex("add256e7e91d7b47") + b"\2\0\0\x70\x78\x70"
    return b"\x75" + kind + struct.pack(">i", len(values)) + b"".join(map(_serialize_java_string, values))


def serialize_object_name(name: str) -> bytes:
    """Return an MBean name in Java's serialized form of a javax.management.ObjectName.

    An example is ``org.apache.activemq:*``.
    """
    kind = (
        b"\x72"
        + encode_java_utf("javax.management.ObjectName")
        + bytes.fromhex("0f03a71beb6d15cf")
        + b"\3\0\0\x70\x78\x70"
    )
    return b"\x73" + kind + _serialize_java_string(name) + b"\x78"


def encode_java_utf(text: str) -> bytes:
    """Return a text in the format of Java's ``DataOutput.writeUTF``: length, then UTF-8.

    The length has two bytes.
    """
    data = text.encode()
    return struct.pack(">H", len(data)) + data
