"""The streaming source of ``audit --follow``: a tail over the logs and journals of a fleet.

Spark's own file source reads a file once, and forgets it. This one opens files itself, on the driver and in tasks, so
the directory must be mounted wherever tasks run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes

from activemq_fleet.spark.follow.advance import HOLD, Tail
from activemq_fleet.spark.follow.places import Name, Offset, Range, changes
from activemq_fleet.spark.follow.reading import read

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

FORMAT = "activemq_fleet_tail"
SCHEMA = (
    "host string, number bigint, kind string, file string, gone boolean, named boolean, "
    "begin bigint, line bigint, chunk binary, head binary, first string, problem string"
)
"""A row is a piece of file ``number`` of a host, a ``log`` or a ``journal``, or, where ``named``, what that file is
called from now on and whether it is gone. Number 0 says that the host's description has changed.

``begin`` and ``line``: bytes and line ends before the piece. What a batch brings of a file takes the place of all that
earlier ones brought from its first piece on. ``head`` and ``first``: what stands before the first record of a log's
piece, and how that begins; only what is before a log's first record has a head. ``problem``: why the file was not read
to its end.
"""
MOST = 256 << 20
_TASK = 16 << 20
_RANGES = 200


class TailSource(DataSource):
    """Options: ``path``, ``hold`` (seconds), ``most`` (bytes in a micro-batch) and ``salt``."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> TailReader:  # noqa: N802 -- Spark's name
        return TailReader(self.options)


class _Part(InputPartition):
    def __init__(self, wanted: Sequence[Range | Name]) -> None:
        self.wanted = tuple(wanted)


class TailReader(DataSourceStreamReader):
    """Offsets are those of ``places``. Between calls it keeps only what saves work, and since when files are quiet."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._root = Path(options["path"])
        self._most = int(options.get("most", MOST))
        self._tail = Tail(self._root, float(options.get("hold", HOLD)), options.get("salt", ""))

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return Offset().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxBytes(self._most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        most = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        return self._tail.advance(Offset.from_json(start), most).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        ranges, names = changes(Offset.from_json(start), Offset.from_json(end))
        parts: list[InputPartition] = [_Part(group) for group in _tasks(ranges)]
        return [*parts, _Part(names)] if names else parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Part)  # noqa: S101 -- for the type alone
        return read(self._root, partition.wanted)


def _tasks(ranges: Sequence[Range]) -> Iterator[list[Range]]:
    """Small ranges share a task: each costs more to start than to run."""
    group: list[Range] = []
    size = 0
    for one in ranges:
        group.append(one)
        size += one.end - one.begin
        if size >= _TASK or len(group) >= _RANGES:
            yield group
            group, size = [], 0
    if group:
        yield group
