"""Records -> evidence: each record once, in its agent's order, with how much is missing before it.

``place`` orders all records of an agent: its epochs by their first ``ts``, which is one clock, and jseq inside.
``hole`` counts the records of the agent that are missing before it, so that between two records of an agent
something is missing just when their holes differ. Both only grow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sf

from activemq_fleet.pipeline.verdicts import words

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BUCKET = 16
"""Bits of jseq below which records are numbered together: no task gets more of one agent than 65,536 records."""
_PLACES = 44  # bits of jseq in a place
_EPOCH = ("agent", "epoch")
_FIELDS = ("agent", "epoch", "jseq", "ts", "kind", "event_id", "rx_id", "topic", "filters", "reason")

_LARGEST = 1 << _PLACES
_UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"

NO_JOURNAL = "no journal"
OPEN_END = "the end is missing"
MISSING = "records are missing"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What journals say, for one set of records.

    ``records``: ``_FIELDS``, ``is_sent`` (a barrier by its publisher), ``place``, ``hole``. ``agents``: agent,
    ``missing`` (records of all its epochs that are missing, an open end counting as one). ``gaps``: see
    ``journal_gaps``.
    """

    records: DataFrame
    agents: DataFrame
    gaps: DataFrame


Keep = Callable[["DataFrame"], "DataFrame"]
"""Keeps a frame that is used several times, so that plans do not grow by multiplication."""


def evidence(records: DataFrame, keep: Keep) -> Evidence:
    """Take each (agent, epoch, jseq) once, and measure what is missing."""
    lines = keep(_once(records))
    parts = keep(_parts(lines))
    buckets = _buckets(parts)
    epochs = keep(_epochs(lines, parts, buckets))
    before = sf.sum("missing").over(Window.partitionBy("agent").orderBy("rank")) - sf.col("missing")
    ranked = epochs.select(*_EPOCH, "rank", before.alias("before"))
    numbers = buckets.select(*_EPOCH, "bucket", "earlier").join(ranked, list(_EPOCH))
    gap = sf.col("jseq") - sf.col("earlier") - sf.col("seen")
    found = lines.where("kind IS NOT NULL").join(sf.broadcast(numbers), [*_EPOCH, "bucket"])
    return Evidence(
        records=found.select(
            *_FIELDS,
            _is_sent().alias("is_sent"),
            (sf.shiftleft("rank", _PLACES) + sf.col("jseq")).alias("place"),
            (sf.col("before") + gap).alias("hole"),
        ),
        agents=epochs.groupBy("agent").agg(sf.sum("missing").alias("missing")),
        gaps=_gaps(lines, buckets, epochs),
    )


def id_part(name: str, part: int) -> Column:
    """AGENT (1), EPOCH (2) or SEQ (3) of an id that is made so; else null. AGENT may hold colons."""
    found = sf.nullif(sf.regexp_extract(name, r"^(.+):([^:]+):([1-9][0-9]{0,17})$", part), sf.lit(""))
    return found.cast("long") if part == 3 else found


def _is_sent() -> Column:
    """Whether a barrier was written by who sends it: one that came has a broker, and mostly another agent's id."""
    starts = sf.col("event_id").startswith(sf.concat("agent", sf.lit(":")))
    return sf.coalesce((sf.col("kind") == "barrier") & ~sf.col("came") & starts, sf.lit(False))


def _once(records: DataFrame) -> DataFrame:
    """Each record once, and the lines that are none, which have no kind."""
    came = sf.col("broker").isNotNull() | sf.col("conn").isNotNull()
    is_torn = sf.col("kind").isNull() & sf.col("agent").isNull() & sf.col("problem").isin(words.TORN, words.CUT_OFF)
    rows = records.where(sf.col("jseq").isNotNull() | is_torn).select(
        *_FIELDS, came.alias("came"), "host", "file", "line", sf.shiftright("jseq", BUCKET).alias("bucket")
    )
    part = Window.partitionBy(*_EPOCH, "bucket", sf.col("kind").isNull())
    tie = ("kind", "event_id", "ts", "host", "file", "line")  # of two that differ it is always the same one
    return (
        rows.withColumn("previous", sf.lag("jseq").over(part.orderBy("jseq", *tie)))
        .withColumn("seen", sf.dense_rank().over(part.orderBy("jseq")))
        .where("kind IS NULL OR previous IS NULL OR previous < jseq")
    )


def _parts(lines: DataFrame) -> DataFrame:
    """What is needed of a file's part of a bucket. ``torn``: the last line with a jseq alone; ``lost``: without."""
    whole = sf.col("kind").isNotNull()
    return lines.groupBy("host", "file", *_EPOCH, "bucket").agg(
        sf.count_if(whole).alias("size"),
        sf.min(sf.when(whole, sf.col("jseq"))).alias("first"),
        sf.max(sf.when(whole, sf.col("jseq"))).alias("last"),
        sf.max(sf.when(~whole, sf.col("jseq"))).alias("torn"),
        sf.min(sf.when(whole, sf.col("ts"))).alias("began"),
        sf.max(sf.when(whole, sf.col("line"))).alias("line"),
        sf.max(sf.when(~whole & sf.col("agent").isNull(), sf.col("line"))).alias("lost"),
    )


def _buckets(parts: DataFrame) -> DataFrame:
    sizes = parts.where("size > 0").groupBy(*_EPOCH, "bucket").agg(
        sf.sum("size").alias("size"), sf.max("last").alias("last"), sf.min("first").alias("first")
    )  # fmt: skip
    order = Window.partitionBy(*_EPOCH).orderBy("bucket")
    return sizes.withColumn("earlier", sf.sum("size").over(order) - sf.col("size")).withColumn(
        "before", sf.lag("last").over(order)
    )


def _epochs(lines: DataFrame, parts: DataFrame, buckets: DataFrame) -> DataFrame:
    """A row an epoch; ``rank`` numbers those of an agent, ``missing`` counts what is not there."""
    epochs = parts.where("agent IS NOT NULL").groupBy(*_EPOCH).agg(
        sf.max(sf.greatest("last", "torn")).alias("known"), sf.max("last").alias("last"), sf.sum("size").alias("seen"),
        sf.min("began").alias("began"),
    )  # fmt: skip
    epochs = epochs.join(_torn_ends(parts), list(_EPOCH), "left").join(
        _own_events(lines, buckets), list(_EPOCH), "left"
    )
    # Somebody received an event of which this journal, gapless to its end, knows nothing.
    ended = sf.col("known") - sf.col("seen") == sf.coalesce("own_gap", sf.lit(0))
    more = ended & (sf.col("received") > sf.coalesce("own", sf.lit(0)))
    torn = sf.coalesce(sf.col("torn_after") >= sf.col("known"), sf.lit(False))
    cut = torn | sf.coalesce(more, sf.lit(False))
    rank = sf.row_number().over(Window.partitionBy("agent").orderBy("began", "epoch"))
    return epochs.select(
        *_EPOCH, "known", "last", cut.alias("is_cut"), rank.cast("long").alias("rank"),
        (sf.col("known") - sf.col("seen") + cut.cast("long")).alias("missing"),
    )  # fmt: skip


def _own_events(lines: DataFrame, buckets: DataFrame) -> DataFrame:
    """By epoch: the highest SEQ that it accepted, what is missing before that record, the highest that was received."""
    rows = lines.where("kind IS NOT NULL AND event_id IS NOT NULL").select(
        "agent", "epoch", "bucket", "jseq", "seen", "kind", "came", "event_id",
        *(id_part("event_id", part).alias(name) for part, name in enumerate(("of", "of_epoch", "seq"), 1)),
    ).where("seq IS NOT NULL")  # fmt: skip
    its = (sf.col("agent") == sf.col("of")) & (sf.col("epoch") == sf.col("of_epoch"))
    mine = its & ((sf.col("kind") == "accepted") | ((sf.col("kind") == "barrier") & ~sf.col("came")))
    got = sf.col("kind").isin(*words.RECEIVING, "barrier") & ~mine
    found = (
        rows.groupBy(sf.col("of").alias("agent"), sf.col("of_epoch").alias("epoch"))
        .agg(
            sf.max(sf.when(mine, sf.struct("seq", "jseq", "seen", "bucket"))).alias("top"),
            sf.max(sf.when(got, sf.col("seq"))).alias("received"),
        )
        .select(*_EPOCH, "top.*", "received")
    )
    return found.join(buckets.select(*_EPOCH, "bucket", "earlier"), [*_EPOCH, "bucket"], "left").select(
        *_EPOCH,
        sf.col("seq").alias("own"),
        (sf.col("jseq") - sf.col("earlier") - sf.col("seen")).alias("own_gap"),
        "received",
    )


def _torn_ends(parts: DataFrame) -> DataFrame:
    """Epochs with ``torn_after``: the jseq behind which something was written that cannot be read, not even whose."""
    where = ("host", "file")
    files = parts.groupBy(*where, *_EPOCH).agg(
        sf.max("line").alias("line"), sf.max("last").alias("last"), sf.max("lost").alias("lost")
    )
    by_file = Window.partitionBy(*where)
    told = (
        files.withColumn("lost_at", sf.max("lost").over(by_file))
        .withColumn("readable", sf.count("line").over(by_file))
        # A file with nothing readable may be any journal's of its host.
        .withColumn(
            "alone", sf.max(sf.col("lost_at").isNotNull() & (sf.col("readable") == 0)).over(Window.partitionBy("host"))
        )
        .where("agent IS NOT NULL AND line IS NOT NULL AND (alone OR lost_at > line)")
    )
    return told.groupBy(*_EPOCH).agg(
        sf.max(sf.when(sf.col("alone"), _LARGEST).otherwise(sf.col("last"))).alias("torn_after")
    )


def _gaps(lines: DataFrame, buckets: DataFrame, epochs: DataFrame) -> DataFrame:
    known = lines.where("kind IS NOT NULL")
    inner = known.where("jseq > previous + 1").select(*_EPOCH, sf.col("previous").alias("a"), sf.col("jseq").alias("b"))
    between = buckets.select(*_EPOCH, sf.coalesce("before", sf.lit(0)).alias("a"), sf.col("first").alias("b"))
    tail = epochs.select(*_EPOCH, sf.coalesce("last", sf.lit(0)).alias("a"), (sf.col("known") + 1).alias("b"))
    holes = inner.unionByName(between).unionByName(tail).where("b > a + 1")
    unknown = sf.lit(None).cast("long").alias("count")
    cut = epochs.where("is_cut").select(
        *_EPOCH, (sf.col("known") + 1).alias("jseq"), unknown, sf.lit(OPEN_END).alias("what")
    )
    nothing = _without_journal(known, epochs).select(
        *_EPOCH, sf.lit(1).cast("long").alias("jseq"), unknown, sf.lit(NO_JOURNAL).alias("what")
    )
    return holes.select(
        *_EPOCH, (sf.col("a") + 1).alias("jseq"), (sf.col("b") - sf.col("a") - 1).alias("count"),
        sf.lit(MISSING).alias("what"),
    ).unionByName(cut).unionByName(nothing)  # fmt: skip


def _without_journal(known: DataFrame, epochs: DataFrame) -> DataFrame:
    """Epochs whose events were received, and that no journal is of. An id of a caller's may look like one's own."""
    named = known.where("event_id IS NOT NULL").select(
        id_part("event_id", 1).alias("agent"), id_part("event_id", 2).alias("epoch")
    )
    return named.where(sf.col("epoch").rlike(_UUID)).distinct().join(epochs, list(_EPOCH), "left_anti")
