"""What a stream has read so far, as Parquet by micro-batch below OUT/.follow.

It keeps the bytes themselves. What they mean depends on what may come later: the next file of a log holds the end of a
record, a host.json tells the zone of its clock. So whatever that concerns is parsed again.

A micro-batch writes only its own directories, so that doing it again changes nothing. Every ``EVERY`` micro-batches
those are put together, every ``EVERY`` of these again, and so on: each byte is written once a level. Which directories
count follows from the number of the micro-batch alone: nothing has to be listed, and half a directory that a kill left
is never read.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sf

from activemq_fleet.spark.follow.merging import GROUP, merged
from activemq_fleet.spark.paths import local_path, pattern_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

EVERY = 16
PIECES, NAMES = "pieces", "names"
_SCHEMAS = {
    PIECES: "host string, number bigint, kind string, begin bigint, line bigint, size bigint, hash bigint, "
    "chunk binary, head binary, first string, problem string, batch bigint",
    NAMES: "host string, number bigint, kind string, file string, gone boolean, batch bigint",
}
_KEY = ["host", "number"]
_MERGED = _SCHEMAS[PIECES].removesuffix(", batch bigint")

Span = tuple[int, int]
"""The number of a span's first micro-batch, and how many it has."""


@dataclass(frozen=True, slots=True)
class State:
    """Pieces and names at ``root``, a path as Spark has it."""

    spark: SparkSession
    root: str

    def take(self, batch: int, rows: DataFrame) -> None:
        """Keep what a micro-batch brings: rows of the stream."""
        for span in ended_at(batch):
            self._put_together(span)
        for span in ended_at(batch - 1):
            self._forget(span)  # what is in it is sure to be done
        rows = rows.persist()
        try:
            pieces = rows.where("NOT named").withColumns({"size": sf.length("chunk"), "hash": sf.xxhash64("chunk")})
            self._write(pieces, PIECES, (batch, 1))
            self._write(rows.where("named AND number > 0"), NAMES, (batch, 1))
        finally:
            rows.unpersist()

    def pieces(self, batch: int, only: Column | None = None) -> DataFrame:
        """Every byte that counts after a micro-batch; with ``only``, of the pieces where that is true.

        host, number, kind, begin, line, size, hash, chunk, head, first, problem; ``size`` is that of ``chunk``. Equal
        sizes and hashes are equal bytes: ``hash`` is that of the piece as it was read, of which the end may be gone.
        """
        return _last(self._rows(spans(batch), PIECES), only)

    def names(self, batch: int) -> DataFrame:
        """host, number, kind, file, gone: what every file that was read is called after a micro-batch."""
        return _newest(self._rows(spans(batch), NAMES))

    def _put_together(self, span: Span) -> None:
        pieces = _last(self._rows(parts_of(span), PIECES), None)
        group = sf.floor(sf.col("begin") / GROUP).alias("group")
        together = pieces.groupBy("host", "number", group).applyInArrow(merged, _MERGED)
        self._write(together, PIECES, span)
        self._write(_newest(self._rows(parts_of(span), NAMES)), NAMES, span)

    def _forget(self, span: Span) -> None:
        """Remove what has been put together. Elsewhere than on a local path it stays."""
        for name in (PIECES, NAMES):
            for part in parts_of(span):
                path = local_path(self._place(part, name))
                if path is not None:
                    shutil.rmtree(path, ignore_errors=True)

    def _rows(self, found: list[Span], name: str) -> DataFrame:
        places = [self._place(span, name) for span in found]
        return self.spark.read.schema(_SCHEMAS[name]).parquet(*map(pattern_of, places))

    def _write(self, frame: DataFrame, name: str, span: Span) -> None:
        columns = [column.split()[0] for column in _SCHEMAS[name].split(", ")]
        number = sf.lit(span[0] + span[1] - 1).cast("bigint")
        rows = frame.withColumn("batch", number).select(*columns)
        if name == PIECES:
            rows = rows.sortWithinPartitions("host", "number", "begin")
        rows.write.mode("overwrite").parquet(self._place(span, name))

    def _place(self, span: Span, name: str) -> str:
        return f"{self.root}/{name}/batch-{span[0]:09}-{span[1]}"


def spans(batch: int) -> list[Span]:
    """What holds everything up to a micro-batch: whole powers of ``EVERY``, the largest first, then single ones."""
    size = 1
    while size * EVERY <= batch:
        size *= EVERY
    found, begin = [], 0
    while size > 1:
        while batch - begin >= size:
            found.append((begin, size))
            begin += size
        size //= EVERY
    return [*found, *((number, 1) for number in range(begin, batch + 1))]


def ended_at(batch: int) -> Iterator[Span]:
    """What is to be put together before a micro-batch, smaller spans first."""
    size = EVERY
    while batch >= size and batch % size == 0:
        yield batch - size, size
        size *= EVERY


def parts_of(span: Span) -> list[Span]:
    """The smaller spans that one is made of."""
    begin, size = span
    return [(begin + number * (size // EVERY), size // EVERY) for number in range(EVERY)]


def _last(rows: DataFrame, only: Column | None) -> DataFrame:
    """Without what later micro-batches read again: from where they began in a file, only theirs counts."""
    begins = rows.groupBy(*_KEY, "batch").agg(sf.min("begin").alias("from"))
    later = Window.partitionBy(*_KEY).orderBy("batch").rowsBetween(1, Window.unboundedFollowing)
    cuts = begins.select(*_KEY, "batch", sf.min("from").over(later).alias("cut"))
    left = sf.col("cut") - sf.col("begin")
    whole = sf.col("cut").isNull() | (sf.col("size") <= left)
    return (
        (rows if only is None else rows.where(only))
        .join(sf.broadcast(cuts), [*_KEY, "batch"])
        .where("cut IS NULL OR begin < cut")
        .withColumns(
            {
                "chunk": sf.when(whole, sf.col("chunk")).otherwise(sf.substring("chunk", 1, left.cast("int"))),
                "size": sf.when(whole, sf.col("size")).otherwise(left),
                "problem": sf.when(whole, sf.col("problem")),
            }
        )
        .drop("cut", "batch")
    )


def _newest(names: DataFrame) -> DataFrame:
    last = sf.max_by(sf.struct("kind", "file", "gone"), "batch").alias("last")
    return names.groupBy(*_KEY).agg(last).select(*_KEY, "last.*")
