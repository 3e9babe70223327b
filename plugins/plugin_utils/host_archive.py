# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the archives that hosts send to the controller: gzipped tar files, with a bound for each thing that grows."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from typing import IO, NamedTuple

MAX_FILES = 10_000
"""Files of a host: 200 MiB of logs and journals are some hundreds."""
LONGEST_HEADER = 1 << 16
"""Bytes of an extended header, which holds a long name and a time."""
_BLOCK = tarfile.BLOCKSIZE
_EXTENDED_KEYS = {"path", "mtime", "hdrcharset"}
"""What the extended headers of collect's archives hold; ``hdrcharset`` is there for names that are not UTF-8."""
_MAX_NAME_LENGTH, _MAX_DEPTH = 1024, 8
_LATEST_TIME = 1 << 40
_CHUNK = 1 << 20


class ArchivedFile(NamedTuple):
    """A file in an archive from a host: its path, size, modification time and content.

    The path is below the archive's root; the size is in bytes.
    """

    name: str
    size: int
    mtime: float
    chunks: Iterator[bytes]
    """The content. Read it before the next file; what is not read is skipped."""


def read_host_archive(path: str, limit: int) -> Iterator[ArchivedFile]:
    """Read the archive that a host sent, and yield its files.

    It is a gzipped tar archive. Raises ValueError for an archive that holds anything but files below its root, more
    than ``limit`` bytes when unpacked (headers and padding included), more than 10,000 files, or a header of more than
    64 KiB. The standard library's reader is not used: it reads a header of any length as a whole.
    """
    with open(path, "rb") as packed:
        source = _BoundedReader(gzip.GzipFile(fileobj=packed), limit)
        extended: dict[str, str] = {}
        count = 0
        while any(block := source.read_exactly(_BLOCK)):
            header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            if header.type == tarfile.XHDTYPE:
                extended = _read_extended_header(source, header.size)
                continue
            name, mtime = extended.get("path", header.name), extended.get("mtime", header.mtime)
            if header.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or extended.keys() - _EXTENDED_KEYS:
                raise ValueError(
                    f"the archive of collected files that the host sent contains {name!r}, which is not a regular "
                    "file. The module collect writes only regular files. Run the playbook collect again. If this error "
                    "occurs again, check whether the host is compromised"
                )
            count += 1
            if count > MAX_FILES:
                raise ValueError(
                    f"the archive of collected files that the host sent contains more than {MAX_FILES} files. "
                    "Remove old ActiveMQ logs from the host, and run the playbook collect again"
                )
            content = _ArchivedContent(source, header.size)
            yield ArchivedFile(_checked_name(name), header.size, _checked_time(name, mtime), content)
            for _unused in content:
                pass
            source.read_exactly(-header.size % _BLOCK)
            extended = {}


class _BoundedReader:
    """A reader of an archive that reads exactly the requested bytes, and no more than a limit in total."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, limit: int) -> None:
        self._stream, self._limit, self._remaining_bytes = stream, limit, limit

    def read_exactly(self, size: int) -> bytes:
        """Read and return exactly ``size`` bytes of an archive.

        Raises ValueError at the end of the data, for damaged data, and beyond the limit.
        """
        self._remaining_bytes -= size
        if self._remaining_bytes < 0:
            raise ValueError(
                f"the archive of collected files that the host sent contains more than {self._limit} bytes, which is "
                "far more than activemq_collect_megabytes permits. Run the playbook collect again. If this error "
                "occurs again, check whether the host is compromised"
            )
        try:
            content = self._stream.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(
                f"the archive of collected files that the host sent is damaged ({error}). Run the playbook collect "
                "again"
            ) from None
        if len(content) < size:
            raise ValueError(
                "the archive of collected files that the host sent is truncated. Run the playbook collect again"
            )
        return content


class _ArchivedContent:
    """The content of one archived file in chunks, each of which is read once."""

    def __init__(self, source: _BoundedReader, size: int) -> None:
        self._source, self._remaining_bytes = source, size
        if size < 0:
            raise ValueError(
                "the archive of collected files that the host sent contains a file with a negative size, which the "
                "module collect never writes. Run the playbook collect again. If this error occurs again, check "
                "whether the host is compromised"
            )

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if not self._remaining_bytes:
            raise StopIteration
        size = min(self._remaining_bytes, _CHUNK)
        self._remaining_bytes -= size
        return self._source.read_exactly(size)


def _read_extended_header(source: _BoundedReader, size: int) -> dict[str, str]:
    """Return the records of a PAX header: each is ``LENGTH KEY=VALUE`` and a line end."""
    if not 0 <= size <= LONGEST_HEADER:
        raise ValueError(
            f"the archive of collected files that the host sent contains a tar header of {size} bytes, but at most "
            f"{LONGEST_HEADER} are permitted. Run the playbook collect again. If this error occurs again, check "
            "whether the host is compromised"
        )
    content = source.read_exactly(size + -size % _BLOCK)[:size]
    records: dict[str, str] = {}
    while content:
        digits, _separator, rest = content[:20].partition(b" ")
        length = int(digits) if digits.isdigit() and len(digits) < 6 else 0
        key, is_record, text = content[len(digits) + 1 : length].partition(b"=")
        if not rest or not is_record or not text.endswith(b"\n"):
            raise ValueError(
                "the archive of collected files that the host sent contains a damaged tar header. Run the playbook "
                "collect again"
            )
        records[key.decode("utf-8", "surrogateescape")] = text[:-1].decode("utf-8", "surrogateescape")
        content = content[length:]
    return records


def _checked_name(name: str) -> str:
    parts = name.split("/")
    if len(name) > _MAX_NAME_LENGTH or len(parts) > _MAX_DEPTH:
        raise ValueError(
            f"the archive of collected files that the host sent contains the file name {name[:60]!r}..., which is "
            "longer than any name that the module collect writes. Run the playbook collect again. If this error "
            "occurs again, check whether the host is compromised"
        )
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise ValueError(
            f"the archive of collected files that the host sent contains the path {name!r}, which is outside of the "
            "host's directory on the controller. Run the playbook collect again. If this error occurs again, check "
            "whether the host is compromised"
        )
    return name


def _checked_time(name: str, mtime: str | float) -> float:
    moment = float(mtime)
    if not 0 <= moment < _LATEST_TIME:
        raise ValueError(
            f"the collected file {name!r} has the modification time {mtime} (seconds since 1970), which is not "
            f"between 0 and {_LATEST_TIME}. Run touch on this file on the host, and run the playbook collect again"
        )
    return moment
