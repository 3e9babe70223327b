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

from activemq_fleet.spark.verdicts import words

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
    epochs = keep(_epochs(lines))
    found = _read(lines).join(sf.broadcast(epochs.select(*_EPOCH, "rank", "before")), list(_EPOCH))
    return Evidence(
        records=found.select(
            *_FIELDS,
            _is_sent().alias("is_sent"),
            (sf.shiftleft("rank", _PLACES) + sf.col("jseq")).alias("place"),
            (sf.col("before") + sf.col("hole")).alias("hole"),
        ),
        agents=epochs.groupBy("agent").agg(sf.sum("missing").alias("missing")),
        gaps=_gaps(lines, epochs),
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
    """Records, with what is missing of their epochs before them, and lines that are none, which have no kind.

    A record that was written before ``is_copy``: it counts no more, but where a file ends with one matters.
    """
    came = sf.col("broker").isNotNull() | sf.col("conn").isNotNull()
    is_torn = sf.col("problem").isin(*words.UNREADABLE)
    rows = records.where(sf.col("jseq").isNotNull() | (sf.col("kind").isNull() & is_torn)).select(
        *_FIELDS, came.alias("came"), "host", "file", "line"
    )
    # Of two that differ it is always the same one, and one that can be read if there is one.
    tie = (sf.col("kind").isNull(), "kind", "event_id", "ts", "host", "file", "line")
    order = Window.partitionBy(*_EPOCH).orderBy("jseq", *tie)
    numbered = rows.withColumn("previous", sf.lag("jseq").over(order))
    numbered = numbered.withColumn("is_copy", sf.coalesce(sf.col("previous") == sf.col("jseq"), sf.lit(False)))
    numbered = numbered.withColumn("previous", sf.coalesce("previous", sf.lit(0)))
    gap = sf.col("jseq") - sf.col("previous") - sf.when(sf.col("kind").isNull() | sf.col("is_copy"), 0).otherwise(1)
    return numbered.withColumn("hole", sf.sum(gap).over(order))


def _read(lines: DataFrame) -> DataFrame:
    """The records alone, each once."""
    return lines.where("kind IS NOT NULL AND NOT is_copy")


def _epochs(lines: DataFrame) -> DataFrame:
    """A row an epoch: agent, epoch, known (the highest jseq that was there), is_cut (there was more behind it),
    missing, rank (its number among the agent's), before (missing of those before it).
    """
    whole = sf.col("kind").isNotNull()
    parts = lines.groupBy("host", "file", *_EPOCH).agg(
        sf.max("jseq").alias("known"),
        sf.max("hole").alias("hole"),
        sf.min(sf.when(whole, sf.col("ts"))).alias("began"),
        sf.max(sf.when(whole, sf.col("line"))).alias("line"),
        sf.max(sf.when(sf.col("jseq").isNull(), sf.col("line"))).alias("torn"),
    )
    epochs = _with_torn_ends(parts).groupBy(*_EPOCH).agg(
        *(sf.max(name).alias(name) for name in ("known", "hole", "torn_after")), sf.min("began").alias("began")
    )  # fmt: skip
    epochs = epochs.join(_own_events(lines), list(_EPOCH), "left")
    # Somebody received an event of which this journal, gapless after its last own one, knows nothing.
    ended = sf.col("hole") == sf.coalesce("own_hole", sf.lit(0))
    more = ended & (sf.col("received") > sf.coalesce("own", sf.lit(0)))
    torn = sf.coalesce(sf.col("torn_after") >= sf.col("known"), sf.lit(False))
    agent = Window.partitionBy("agent").orderBy("began", "epoch")
    return (
        epochs.withColumn("is_cut", torn | sf.coalesce(more, sf.lit(False)))
        .withColumn("missing", sf.col("hole") + sf.col("is_cut").cast("long"))
        .withColumn("rank", sf.row_number().over(agent).cast("long"))
        .withColumn("before", sf.sum("missing").over(agent) - sf.col("missing"))
        .select(*_EPOCH, "known", "is_cut", "missing", "rank", "before")
    )


def _with_torn_ends(parts: DataFrame) -> DataFrame:
    """Adds ``torn_after``: the jseq behind which something was written that cannot be read, not even whose it is."""
    by_file = Window.partitionBy("host", "file")
    files = parts.withColumn("torn_at", sf.max("torn").over(by_file)).withColumn("told", sf.count("line").over(by_file))
    # A file with nothing readable may be any journal's of its host.
    alone = sf.max(sf.col("torn_at").isNotNull() & (sf.col("told") == 0)).over(Window.partitionBy("host"))
    after = sf.when(sf.col("alone"), _LARGEST).when(sf.col("torn_at") > sf.col("line"), sf.col("known"))
    return files.withColumn("alone", alone).where("agent IS NOT NULL").withColumn("torn_after", after)


def _own_events(lines: DataFrame) -> DataFrame:
    """By epoch: the highest SEQ that it accepted, what is missing before that record, the highest that was received."""
    of, of_epoch, seq = (id_part("event_id", part) for part in (1, 2, 3))
    sent = (sf.col("kind") == "accepted") | _is_sent()
    mine = sent & (sf.col("agent") == of) & (sf.col("epoch") == of_epoch)
    got = sf.col("kind").isin(*words.RECEIVING, "barrier") & ~mine
    rows = (
        _read(lines)
        .where("event_id IS NOT NULL")
        .select(
            of.alias("agent"), of_epoch.alias("epoch"), seq.alias("seq"), "hole", mine.alias("mine"), got.alias("got")
        )
    )
    return (
        rows.where("seq IS NOT NULL")
        .groupBy(*_EPOCH)
        .agg(
            sf.max(sf.when(sf.col("mine"), sf.struct("seq", "hole"))).alias("top"),
            sf.max(sf.when(sf.col("got"), sf.col("seq"))).alias("received"),
        )
        .select(*_EPOCH, sf.col("top.seq").alias("own"), sf.col("top.hole").alias("own_hole"), "received")
    )


def _gaps(lines: DataFrame, epochs: DataFrame) -> DataFrame:
    """A marker of a line that is torn stands at a jseq that is missing: what it ends it belongs to."""
    order = Window.partitionBy(*_EPOCH).orderBy("jseq")
    known = _read(lines).select(*_EPOCH, "jseq", "event_id")
    inner = known.select(
        *_EPOCH, sf.coalesce(sf.lag("jseq").over(order), sf.lit(0)).alias("a"), sf.col("jseq").alias("b")
    )
    last = known.groupBy(*_EPOCH).agg(sf.max("jseq").alias("a"))
    tail = epochs.join(last, list(_EPOCH), "left").select(
        *_EPOCH, sf.coalesce("a", sf.lit(0)).alias("a"), (sf.col("known") + 1).alias("b")
    )
    holes = inner.unionByName(tail).where("b > a + 1")
    unknown = sf.lit(None).cast("long").alias("count")
    cut = epochs.where("is_cut").select(
        *_EPOCH, (sf.col("known") + 1).alias("jseq"), unknown, sf.lit(OPEN_END).alias("what")
    )
    nothing = _without_journal(known, epochs).select(
        *_EPOCH, sf.lit(1).cast("long").alias("jseq"), unknown, sf.lit(NO_JOURNAL).alias("what")
    )
    size = sf.col("b") - sf.col("a") - 1
    counted = holes.select(*_EPOCH, (sf.col("a") + 1).alias("jseq"), size.alias("count"), sf.lit(MISSING).alias("what"))
    return counted.unionByName(cut).unionByName(nothing)


def _without_journal(known: DataFrame, epochs: DataFrame) -> DataFrame:
    """Epochs whose events were received, and that no journal is of. An id of a caller's may look like one's own."""
    named = known.where("event_id IS NOT NULL").select(
        id_part("event_id", 1).alias("agent"), id_part("event_id", 2).alias("epoch")
    )
    return named.where(sf.col("epoch").rlike(_UUID)).distinct().join(epochs, list(_EPOCH), "left_anti")
