"""What micro-batches have parsed, kept below OUT/.follow by shares: rows of logs, their signs, records of journals.

Kept rows are known by the mark of their share, that is by all that they come from. So it does not matter which
micro-batch wrote them, or whether it was killed: what the ledger names is whole, and what it does not name is made.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyspark.sql import Observation
from pyspark.sql import functions as sf

from activemq_fleet.spark.audit import frames, gathering
from activemq_fleet.spark.datasets import shaped_as
from activemq_fleet.spark.events.parse import LINES
from activemq_fleet.spark.follow.slabs import Share
from activemq_fleet.spark.paths import pattern_of
from activemq_fleet.spark.problems import SparkProblem
from activemq_fleet.spark.settings import temporarily
from activemq_fleet.spark.verdicts import RECORDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LEDGER = "ledger.json"
LOGS, JOURNALS, SIGNS = "logs", "journals", "signs"
RECORDS_NOW = "records-"
_MARK = "\x1f"  # between the words of a host's name that carries more: no directory's name has it
_TASK = 16 << 20
_SIGNS = (
    "share string, number bigint, host string, sequence bigint, time timestamp, last timestamp, count bigint, "
    "kind string, fields map<string,string>, text string, thread string"
)
Read = Callable[[Sequence[Share]], "DataFrame"]
"""The rows of some shares, with columns ``share`` and ``number``."""


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of a share. ``files``: paths below the place, and their sizes in bytes."""

    files: list[tuple[str, int]] = field(default_factory=list)
    rows: int = 0
    unknown: int = 0
    unread: int = 0
    problems: list[dict[str, str]] = field(default_factory=list)


class Parts:
    """Kept rows below ``place``, a directory on this machine that executors share."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self._spark = spark
        self.place = place
        told = _read_ledger(place / LEDGER)
        self._next = int(told.get("next", 0))
        self._signs = str(told.get("signs", ""))
        self._known = {kind: self._whole(told.get(kind, {})) for kind in (LOGS, JOURNALS)}
        if not (self._signs and (place / self._signs / "_SUCCESS").exists()):
            self._signs, self._known[LOGS] = "", {}

    def _whole(self, told: Mapping[str, Any]) -> dict[str, Part]:
        """Those of which every file is there, as large as it was written."""
        files = {mark: [(name, size) for name, size in one["files"]] for mark, one in told.items()}
        parts = {mark: Part(**{**one, "files": files[mark]}) for mark, one in told.items()}

        def is_there(part: Part) -> bool:
            return all(_size(self.place / name) == size for name, size in part.files)

        return {mark: part for mark, part in parts.items() if is_there(part)}

    def bring(self, logs: Sequence[Share], events: Read, journals: Sequence[Share], records: Read) -> None:
        """Make what is missing of these shares, and forget all others."""
        self._bring_logs(logs, events)
        self._bring(JOURNALS, journals, records, lambda fresh: shaped_records(fresh))
        self._write_ledger()
        self._sweep()

    # -- what is made -----------------------------------------------------------------------------

    def _bring_logs(self, shares: Sequence[Share], events: Read) -> None:
        def shaped(fresh: DataFrame) -> DataFrame:
            return shaped_as("events", fresh, "share").sortWithinPartitions("share", "host", "file", "line")

        live = {share.mark for share in shares}
        old = self._known[LOGS]
        missing = [share for share in shares if share.mark not in old]
        if not missing:
            self._known[LOGS] = {mark: old[mark] for mark in live}
            return
        with temporarily(self._spark, _partitions(self._spark, missing)):
            fresh = events(missing).persist()
            try:
                made = self._write(LOGS, missing, fresh, shaped)
                made = _looked_at(fresh, made)
                self._add_signs(fresh, live & old.keys())
            finally:
                fresh.unpersist()
        self._known[LOGS] = {mark: part for mark, part in {**old, **made}.items() if mark in live}

    def _bring(self, kind: str, shares: Sequence[Share], read: Read, shaped: Callable[[DataFrame], DataFrame]) -> None:
        live = {share.mark for share in shares}
        old = self._known[kind]
        missing = [share for share in shares if share.mark not in old]
        made: dict[str, Part] = {}
        if missing:
            with temporarily(self._spark, _partitions(self._spark, missing)):
                made = self._write(kind, missing, read(missing), shaped)
        self._known[kind] = {mark: part for mark, part in {**old, **made}.items() if mark in live}

    def _write(
        self, kind: str, shares: Sequence[Share], fresh: DataFrame, shaped: Callable[[DataFrame], DataFrame]
    ) -> dict[str, Part]:
        """Each share's rows in a file of its own."""
        name = self._fresh(kind)
        rows, seen = shaped(fresh.repartition(_count(shares), "share")), Observation()
        counted = rows.observe(seen, sf.count(sf.lit(1)).alias("rows"))
        counted.write.partitionBy("share").mode("overwrite").parquet(f"file://{self.place / name}")
        made = {share.mark: self._part(name, share) for share in shares}
        self._see_all(made.values(), seen.get["rows"])
        return made

    def _part(self, name: str, share: Share) -> Part:
        paths = sorted((self.place / name / f"share={share.mark}").glob("*.parquet"))
        return Part([(str(path.relative_to(self.place)), path.stat().st_size) for path in paths])

    def _see_all(self, made: Iterable[Part], rows: int) -> None:
        """Executors elsewhere would have written to their own disks."""
        found = sum(pq.read_metadata(self.place / name).num_rows for part in made for name, _ in part.files)
        if found != rows:
            raise SparkProblem(
                f"{self.place}: {found} of {rows} rows arrived, the others lie on executors' own disks; "
                "choose an OUT that all of them share"
            )

    def _add_signs(self, fresh: DataFrame, kept: set[str]) -> None:
        """What incidents and bridges come from: few rows, all of them in one place."""
        host = sf.concat_ws(_MARK, "share", "number", "host")
        words = sf.split("host", _MARK, 3)
        signs = frames.signs(fresh.withColumn("host", host)).withColumns(
            {"share": words[0], "number": words[1].cast("bigint"), "host": words[2]}
        )
        names = [column.split()[0] for column in _SIGNS.split(", ")]
        together = signs.select(*names)
        if self._signs:
            together = self._kept_signs(kept).select(*names).unionAll(together)
        name = self._fresh(SIGNS)
        together.hint("rebalance").write.mode("overwrite").parquet(f"file://{self.place / name}")
        self._signs = name

    def _kept_signs(self, live: Iterable[str]) -> DataFrame:
        marks = self._spark.createDataFrame([(mark,) for mark in sorted(live)], "share string")
        kept = self._spark.read.schema(_SIGNS).parquet(pattern_of(self.place / self._signs))
        return kept.join(sf.broadcast(marks), "share", "left_semi")

    def _fresh(self, kind: str) -> str:
        """A directory that nobody has: the next number, whatever a killed run left there."""
        name = f"{kind}-{self._next:09}"
        self._next += 1
        shutil.rmtree(self.place / name, ignore_errors=True)
        return name

    # -- what is there ----------------------------------------------------------------------------

    def marks(self, kind: str) -> list[str]:
        """The marks of all shares of a kind: while they are the same, so are the rows."""
        return sorted(self._known[kind])

    def files(self, kind: str) -> list[Path]:
        """The files of all shares of a kind."""
        return [self.place / name for part in self._known[kind].values() for name, _ in part.files]

    def rows(self) -> int:
        """How many events there are."""
        return sum(part.rows for part in self._known[LOGS].values())

    def seen(self) -> dict[str, Any]:
        """As ``gathering.watched`` sees events, but for their order, which signs have here."""
        parts = self._known[LOGS].values()
        problems = {tuple(problem.items()): problem for part in parts for problem in part.problems}
        return {
            "problems": list(problems.values()),
            "turns": [],
            "unknown": sum(part.unknown for part in parts),
            "unread": sum(part.unread for part in parts),
        }

    def signs(self, turns: Iterable[tuple[str, int, int]]) -> DataFrame:
        """As ``frames.signs`` makes them of all events. ``turns``: host, number, which of the host's files it is."""
        if not self._signs:
            return self._spark.createDataFrame([], _SIGNS).drop("share", "number")
        order = self._spark.createDataFrame(list(turns), "host string, number bigint, turn bigint")
        kept = self._kept_signs(self._known[LOGS]).join(sf.broadcast(order), ["host", "number"])
        sequence = sf.col("turn") * sf.lit(LINES) + sf.col("sequence")
        return kept.withColumn("sequence", sequence).drop("share", "number", "turn")

    def records(self) -> DataFrame:
        """As ``journal_records`` makes them of all journals."""
        # Never the same directory twice: Spark takes frames that read equal paths for equal.
        place = self.place / f"{RECORDS_NOW}{uuid.uuid4().hex}"
        if not link_all(self.files(JOURNALS), place):
            return self._spark.createDataFrame([], RECORDS)
        return self._spark.read.schema(RECORDS).parquet(pattern_of(place))

    # -- the ledger ---------------------------------------------------------------------------------

    def _write_ledger(self) -> None:
        told = {kind: {mark: asdict(part) for mark, part in parts.items()} for kind, parts in self._known.items()}
        text = json.dumps({**told, "next": self._next, "signs": self._signs})
        beside = self.place / f"{LEDGER}.new"
        beside.write_text(text)
        os.replace(beside, self.place / LEDGER)

    def _sweep(self) -> None:
        """Remove what the ledger does not name. Results have links of their own to what they show."""
        live = {str(path.parent) for kind in (LOGS, JOURNALS) for path in self.files(kind)}
        for place in self.place.iterdir():
            if place.name.startswith((f"{SIGNS}-", RECORDS_NOW)) and place.name != self._signs:
                shutil.rmtree(place, ignore_errors=True)
            elif place.name.startswith((f"{LOGS}-", f"{JOURNALS}-")):
                for share in place.iterdir():
                    if share.is_dir() and str(share) not in live:
                        shutil.rmtree(share, ignore_errors=True)
                if not any(share.is_dir() for share in place.iterdir()):
                    shutil.rmtree(place, ignore_errors=True)


def _looked_at(fresh: DataFrame, made: Mapping[str, Part]) -> dict[str, Part]:
    """With what is to be known of the events besides their rows."""
    counted = fresh.groupBy("share").agg(sf.count(sf.lit(1)).alias("rows"), *gathering.looks()).drop("turns")
    found = dict(made)
    for row in counted.collect():
        problems = [{name: problem[name] for name in ("host", "file", "what")} for problem in row["problems"]]
        files = made[row["share"]].files
        found[row["share"]] = Part(files, row["rows"], row["unknown"], row["unread"], problems)
    return found


def shaped_records(fresh: DataFrame) -> DataFrame:
    """Records as they are kept."""
    return fresh.select(*RECORDS.names, "share").sortWithinPartitions("share", "host", "file", "line")


def tagged(host: str, share: str) -> str:
    """A host's name that carries a share through functions that know of none."""
    return f"{share}{_MARK}{host}"


def untagged(frame: DataFrame) -> DataFrame:
    """The other way: with a column ``share``."""
    words = sf.split("host", _MARK, 2)
    return frame.withColumns({"share": words[0], "host": words[1]})


def link_all(files: Sequence[Path], place: Path) -> int:
    """Have the files in a directory, without a copy where that can be; how many there are."""
    place.mkdir(parents=True, exist_ok=True)
    for number, file in enumerate(sorted(files)):
        target = place / f"part-{number:05}-{file.parent.name.removeprefix('share=')}.parquet"
        try:
            os.link(file, target)
        except OSError:
            shutil.copyfile(file, target)
    return len(files)


def _count(shares: Sequence[Share]) -> int:
    """Tasks that write: no more than there are shares."""
    return max(1, min(len(shares), 2 + _bytes(shares) // _TASK, 200))


def _partitions(spark: SparkSession, shares: Sequence[Share]) -> dict[str, str]:
    """As many shuffle partitions as the shares are worth, unless the user said how many."""
    name = "spark.sql.shuffle.partitions"
    return {name: str(min(200, 2 + _bytes(shares) // _TASK))} if spark.conf.get(name, "200") == "200" else {}


def _bytes(shares: Sequence[Share]) -> int:
    return sum(slab.size for share in shares for slab in share.slabs)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _read_ledger(path: Path) -> dict[str, Any]:
    """What an earlier micro-batch kept; nothing, if that cannot be read: then all is made again."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
