"""What a stream has read so far, as Parquet by micro-batch below OUT/.follow.

It keeps the bytes themselves. What they mean depends on what may come later: the next file of a log holds the end of a
record, a host.json tells the zone of its clock. So all of it is read by the very functions of the batch each time.

A micro-batch writes only its own directories, so that doing it again changes nothing. Every ``EVERY`` micro-batches all
earlier ones are put together. Which directories count follows from the number of the micro-batch alone: nothing has
to be listed, and half a directory that a kill left is never read.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sf

from activemq_fleet.pipeline.paths import local_path, pattern_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVERY = 16
PIECES, NAMES = "pieces", "names"
_SCHEMAS = {
    PIECES: "host string, number bigint, kind string, begin bigint, line bigint, size bigint, chunk binary, "
    "head binary, first string, problem string, batch bigint",
    NAMES: "host string, number bigint, kind string, file string, gone boolean, batch bigint",
}
_KEY = ["host", "number"]


@dataclass(frozen=True, slots=True)
class State:
    """Pieces and names at ``root``, a path as Spark has it."""

    spark: SparkSession
    root: str

    def take(self, batch: int, rows: DataFrame) -> None:
        """Keep what a micro-batch brings: rows of the stream."""
        if batch and batch % EVERY == 0:
            self._write(self.pieces(batch - 1), PIECES, self._base(batch, PIECES), batch - 1)
            self._write(self.names(batch - 1), NAMES, self._base(batch, NAMES), batch - 1)
        elif batch > EVERY and batch % EVERY == 1:
            self._forget(batch - 1)
        rows = rows.persist()
        try:
            self._write(
                rows.where("NOT named").withColumn("size", sf.length("chunk")),
                PIECES,
                self._place(batch, PIECES),
                batch,
            )
            self._write(rows.where("named AND number > 0"), NAMES, self._place(batch, NAMES), batch)
        finally:
            rows.unpersist()

    def pieces(self, batch: int) -> DataFrame:
        """Every byte that counts after a micro-batch.

        host, number, kind, begin, line, size, chunk, head, first, problem; ``size`` is that of ``chunk``.
        """
        rows = self._rows(batch, PIECES)
        begins = rows.groupBy(*_KEY, "batch").agg(sf.min("begin").alias("from"))
        later = Window.partitionBy(*_KEY).orderBy("batch").rowsBetween(1, Window.unboundedFollowing)
        cuts = begins.select(*_KEY, "batch", sf.min("from").over(later).alias("cut"))
        left = sf.col("cut") - sf.col("begin")
        whole = sf.col("cut").isNull() | (sf.col("size") <= left)
        return (
            rows.join(sf.broadcast(cuts), [*_KEY, "batch"])
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

    def names(self, batch: int) -> DataFrame:
        """host, number, kind, file, gone: what every file that was read is called after a micro-batch."""
        last = sf.max_by(sf.struct("kind", "file", "gone"), "batch").alias("last")
        return self._rows(batch, NAMES).groupBy(*_KEY).agg(last).select(*_KEY, "last.*")

    def _forget(self, base: int) -> None:
        """Remove what has been put together, once that is sure to be done. Elsewhere than on a local path it stays."""
        for name in (PIECES, NAMES):
            old = [self._place(batch, name) for batch in range(base - EVERY, base)]
            for place in [*old, self._base(base - EVERY, name)]:
                path = local_path(place)
                if path is not None:
                    shutil.rmtree(path, ignore_errors=True)

    def _rows(self, batch: int, name: str) -> DataFrame:
        base = batch // EVERY * EVERY
        places = [self._place(number, name) for number in range(base, batch + 1)]
        if base:
            places.insert(0, self._base(base, name))
        return self.spark.read.schema(_SCHEMAS[name]).parquet(*map(pattern_of, places))

    def _write(self, frame: DataFrame, name: str, place: str, batch: int) -> None:
        columns = [column.split()[0] for column in _SCHEMAS[name].split(", ")]
        frame.withColumn("batch", sf.lit(batch).cast("bigint")).select(*columns).write.mode("overwrite").parquet(place)

    def _place(self, batch: int, name: str) -> str:
        return f"{self.root}/{name}/batch-{batch:09}"

    def _base(self, batch: int, name: str) -> str:
        return f"{self.root}/{name}/upto-{batch:09}"
