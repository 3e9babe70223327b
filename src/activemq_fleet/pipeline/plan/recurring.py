"""Rows of networks that come again under other names: computed once, with places for the names.

A worker keeps what the core said of a network, with marks in place of its groups' names. The next
network of that form (``renaming``) has the same rows with its own names there. As they are as long as the
marks, nothing moves: in each column names are written over marks, and only hashes of files are made anew. That
takes the place of topology, files, rules and routes; and of the schema, but for one document in a thousand.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from activemq_fleet.pipeline.plan.packing import COMPACT, TEXT
from activemq_fleet.pipeline.plan.renaming import Form, are_said_otherwise, mark
from activemq_fleet.render import ACTIVEMQ_XML

_MOST = 128 << 20  # bytes that a worker keeps
_MARK = mark(0, 0)[:1].encode()
_HASH, _CONTENT = (COMPACT["files"].get_field_index(name) for name in ("sha256", "content"))
_SAMPLED = "004"  # what begins with less, of a hash in hexadecimal: four in 4,096


class Rows(NamedTuple):
    """Tables of one network (``packing.COMPACT``), how many findings block, and brokers that have no files.

    ``sampled`` are documents that are to be validated all the same, each with its release. They are chosen by
    their content, so that every run chooses the same.
    """

    tables: Mapping[str, pa.RecordBatch]
    blocking: int
    withheld: int
    sampled: Sequence[tuple[str, bytes]] = ()


class Recurring:
    """The networks that a worker knows, those that were asked for last."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._size = 0
        self._known: OrderedDict[tuple[object, ...], _Network] = OrderedDict()

    def rows(self, form: Form) -> Rows | None:
        """Those of a network, if one of its form is known."""
        known = self._known.get(form.key)
        if known is None:
            return None
        self._known.move_to_end(form.key)
        return known.named(form.names)

    def forget(self) -> None:
        """Nothing is known any more."""
        self._known.clear()
        self._size = 0

    def learn(self, form: Form, rows: Rows) -> None:
        """Keep what was computed of a network, unless a name stands where it cannot be replaced."""
        if form.key in self._known or _has_named_ports(rows, form.names):
            return
        network = _Network(rows, form.names)
        if network.says_otherwise(form.names):
            return
        self._known[form.key] = network
        self._size += network.size
        while self._size > self._most:
            self._size -= self._known.popitem(last=False)[1].size


def _has_named_ports(rows: Rows, names: Sequence[str]) -> bool:
    brokers = rows.tables.get("brokers")
    return brokers is not None and any(
        pc.any(pc.match_substring(brokers["ports"].keys, name)).as_py() for name in names
    )


class _Network:
    def __init__(self, rows: Rows, names: Sequence[str]) -> None:
        self._rows = rows
        self._lengths = [len(name) for name in names]
        self._marks = [mark(number, len(name)) for number, name in enumerate(names)]
        swaps = list(zip(names, self._marks, strict=True))
        self._tables = {name: _Table(name, batch, swaps) for name, batch in rows.tables.items()}
        self._contents = _Contents(self._tables) if "files" in self._tables else None
        self.size = sum(table.size for table in self._tables.values())

    def says_otherwise(self, names: Sequence[str]) -> bool:
        return any(are_said_otherwise(names, text) for table in self._tables.values() for text in table.texts())

    def named(self, names: Sequence[str]) -> Rows:
        swaps = [(one.encode(), name.encode()) for one, name in zip(self._marks, names, strict=True)]
        arrays = {name: table.named(swaps) for name, table in self._tables.items()}
        sampled = self._contents.hash_again(arrays["files"]) if self._contents else ()
        tables = {name: pa.RecordBatch.from_arrays(found, schema=COMPACT[name]) for name, found in arrays.items()}
        return self._rows._replace(tables=tables, sampled=sampled)


class _Table:
    """The rows of one table. ``_columns`` are those with marks, by their place."""

    def __init__(self, name: str, batch: pa.RecordBatch, swaps: Sequence[tuple[str, str]]) -> None:
        self._places = {field.name: place for place, field in enumerate(COMPACT[name])}
        self._arrays = [_marked(array, swaps) for array in batch.columns]
        self._columns = [(place, array) for place, array in enumerate(self._arrays) if _holds_mark(array)]
        self.size = sum(array.nbytes for array in self._arrays)

    def column(self, name: str) -> pa.Array:
        return self._arrays[self._places[name]]

    def texts(self) -> Iterator[str]:
        """All that stands in its columns, a column at a time."""
        for data in filter(None, map(_data, self._arrays)):
            yield data.decode()

    def named(self, swaps: Sequence[tuple[bytes, bytes]]) -> list[pa.Array]:
        arrays = self._arrays.copy()
        for place, array in self._columns:
            arrays[place] = _named(array, swaps)
        return arrays


class _Contents:
    """Files' contents, each of which stands once, with its hash at the same place of another dictionary."""

    def __init__(self, tables: Mapping[str, _Table]) -> None:
        files, brokers = tables["files"], tables["brokers"]
        contents = files.column("content").dictionary
        self._hashes: list[str] = files.column("sha256").dictionary.to_pylist()
        ends = list(accumulate(pc.binary_length(contents).to_pylist(), initial=0))
        marked = pc.match_substring(contents, _MARK.decode()).to_pylist()
        self._places = [(place, ends[place], ends[place + 1]) for place, found in enumerate(marked) if found]
        releases = dict(zip(brokers.column("host").to_pylist(), brokers.column("release").to_pylist(), strict=True))
        rows = zip(*(files.column(name).to_pylist() for name in ("path", "host")), strict=True)
        self._releases = {
            place: releases[host]
            for (path, host), place in zip(rows, files.column("content").indices.to_pylist(), strict=True)
            if path == ACTIVEMQ_XML
        }

    def hash_again(self, files: list[pa.Array]) -> list[tuple[str, bytes]]:
        """Put the hashes of contents where those of others are; gives documents that are to be validated."""
        sampled: list[tuple[str, bytes]] = []
        if not self._places:
            return sampled
        data, hashes = memoryview(files[_CONTENT].dictionary.buffers()[2]), self._hashes.copy()
        for place, begin, end in self._places:
            sha = hashes[place] = hashlib.sha256(data[begin:end]).hexdigest()
            if sha < _SAMPLED and place in self._releases:
                sampled.append((self._releases[place], bytes(data[begin:end])))
        files[_HASH] = pa.DictionaryArray.from_arrays(files[_HASH].indices, pa.array(hashes, TEXT), safe=False)
        return sampled


def _marked(array: pa.Array, swaps: Sequence[tuple[str, str]]) -> pa.Array:
    """An array of texts with marks for names; any other array as it is."""
    if pa.types.is_dictionary(array.type):
        return pa.DictionaryArray.from_arrays(array.indices, _marked(array.dictionary, swaps))
    if pa.types.is_list(array.type):
        return _list_of(array, _marked(array.values, swaps))
    if pa.types.is_string(array.type):
        for name, one in swaps:
            array = pc.replace_substring(array, name, one)
    return array


def _holds_mark(array: pa.Array) -> bool:
    return _MARK in _data(array)


def _data(array: pa.Array) -> bytes:
    """The texts of a column, one after the other; nothing of one that holds no texts."""
    if pa.types.is_dictionary(array.type):
        return _data(array.dictionary)
    if pa.types.is_list(array.type):
        return _data(array.values)
    buffer = array.buffers()[2] if pa.types.is_string(array.type) else None
    return b"" if buffer is None else bytes(buffer.to_pybytes())


def _named(array: pa.Array, swaps: Sequence[tuple[bytes, bytes]]) -> pa.Array:
    """The array with names, which are as long as the marks."""
    if pa.types.is_dictionary(array.type):
        return pa.DictionaryArray.from_arrays(array.indices, _named(array.dictionary, swaps), safe=False)
    if pa.types.is_list(array.type):
        return _list_of(array, _named(array.values, swaps))
    validity, offsets, buffer = array.buffers()
    data = buffer.to_pybytes()
    for one, name in swaps:
        data = data.replace(one, name)
    return pa.Array.from_buffers(array.type, len(array), [validity, offsets, pa.py_buffer(data)], array.null_count)


def _list_of(array: pa.Array, values: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(array.type, len(array), array.buffers()[:2], array.null_count, 0, [values])
