"""Find gaps in an audit's input, and count the rows of its datasets by kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as sf

from activemq_fleet.audit.result import UNREAD, Counts, Gap, InputSummary
from activemq_fleet.logs.log_files import LINES
from activemq_fleet.logs.rolled_files import missing
from activemq_fleet.spark.inputs import Host, Inputs

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CUT = re.compile(r"\b(?:cut|truncated|damaged|missing)\b", re.IGNORECASE)
"""Words of problems that mean that bytes are missing; others are bytes that were there and no text."""
_JOURNAL_GAPS = 500


def with_inventory_hosts(inputs: Inputs, inventory_hosts: Mapping[str, Host] | None) -> tuple[Inputs, list[Gap]]:
    """Return the inputs with the hosts that only the inventory has, and a gap for each host without log and journal."""
    known = dict(inputs.hosts)
    absent = sorted((inventory_hosts or {}).keys() - known.keys())
    for name in absent:
        known[name] = (inventory_hosts or {})[name]
    there = {file.host for file in inputs.files if file.kind in ("log", "journal")}
    gaps = [Gap(name, "nothing was collected from it") for name in absent]
    gaps += [Gap(name, "no log and no journal") for name in sorted(inputs.hosts) if name not in there]
    return replace(inputs, hosts=known), gaps


def input_summary(inputs: Inputs) -> InputSummary:
    """Return the numbers of hosts, logs and journals that an audit reads, and their size in bytes as stored."""
    logs, journals = inputs.of_kind("log"), inputs.of_kind("journal")
    hosts = {file.host for file in inputs.files}
    size = sum(file.size for file in (*logs, *journals))
    return InputSummary(inputs.root, len(hosts), len(logs), len(journals), size, inputs.problems)


def observe_events(events: DataFrame, statistics: Observation) -> DataFrame:
    """Return the events with ``event_statistics`` as observed metrics, which are known once the frame is written."""
    return events.observe(statistics, *event_statistics())


def event_statistics() -> tuple[Column, ...]:
    """Return the aggregate columns over events that gaps and counts need.

    ``problems``: the host, file and text of what was wrong with files' bytes; ``file_indexes``: the position of each
    log file among its host's; ``unknown`` and ``unread``: numbers of events.
    """
    what = sf.regexp_replace("problem", r"\d+", "N")
    problem = sf.when(sf.col("problem").isNotNull(), sf.struct("host", "file", what.alias("what")))
    file_index = sf.shiftright("sequence", LINES.bit_length() - 1).alias("file_index")
    return (
        sf.collect_set(problem).alias("problems"),
        sf.collect_set(sf.struct("host", "file", file_index)).alias("file_indexes"),
        sf.count_if(sf.col("kind") == "UNKNOWN").alias("unknown"),
        sf.count_if(~sf.col("parsed")).alias("unread"),
    )


def log_gaps(statistics: Mapping[str, Any], events: DataFrame, inputs: Inputs) -> list[Gap]:
    """Return the gaps of logs: files that are cut off or missing, and records that could not be parsed.

    ``statistics`` has the values of ``event_statistics``.
    """
    gaps = []
    for row in sorted(statistics["problems"] or [], key=lambda row: (row["host"], row["file"], row["what"])):
        what = row["what"].replace("N ", "some ")
        gaps.append(Gap(row["host"], what, row["file"], weighs=_is_cut(row["what"])))
    names: dict[str, list[str]] = {}
    for file in inputs.of_kind("log"):
        names.setdefault(file.host, []).append(file.file)
    gaps += [Gap(host, what) for host, mine in sorted(names.items()) for what in missing(mine)]
    if statistics["unread"]:
        gaps += _unread(events)
    return gaps


def _is_cut(what: str) -> bool:
    return _CUT.search(what) is not None


def _unread(events: DataFrame) -> list[Gap]:
    """Return a gap for each file with records that could not be parsed; it weighs where their share is above UNREAD."""
    counted = (
        events.groupBy("host", "file")
        .agg(
            sf.count("*").alias("all"),
            sf.count_if(~sf.col("parsed")).alias("unread"),
            sf.min(sf.when(~sf.col("parsed"), sf.col("line"))).alias("line"),
        )
        .where("unread > 0")
        .orderBy(sf.desc("unread"), "host", "file")
        .limit(_JOURNAL_GAPS)
    )
    return [
        Gap(
            row["host"],
            f"{row['unread']} of {row['all']} records could not be read",
            row["file"],
            row["line"],
            weighs=row["unread"] > UNREAD * row["all"],
        )
        for row in counted.collect()
    ]


def journal_gaps(gaps: DataFrame) -> list[Gap]:
    """Return the first 500 rows of ``DeliveryVerdicts.gaps`` as gaps, each of which makes an audit incomplete."""
    rows = gaps.orderBy("agent", "epoch", "jseq").limit(_JOURNAL_GAPS).collect()
    return [
        Gap(
            row["agent"],
            f"journal of epoch {row['epoch']}: {row['what']} from record {row['jseq']}"
            + (f" ({row['count']})" if row["count"] else ""),
        )
        for row in rows
    ]


def malformed_line_gaps(records: DataFrame) -> list[Gap]:
    """Return a gap for each file and problem of journal lines that are no records, with their number; 500 at most."""
    counted = (
        records.where("problem IS NOT NULL")
        .groupBy("host", "file", "problem")
        .agg(sf.count("*").alias("count"), sf.min("line").alias("line"))
        .orderBy("host", "file", "line")
        .limit(_JOURNAL_GAPS)
    )
    return [
        Gap(
            row["host"],
            f"{row['count']} line{'' if row['count'] == 1 else 's'}: {row['problem']}",
            row["file"],
            row["line"],
        )
        for row in counted.collect()
    ]


def file_indexes(statistics: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    """Return which of its host's files each log is, from 0, the oldest, by host and name."""
    return {(row["host"], row["file"]): int(row["file_index"]) for row in statistics["file_indexes"] or ()}


def dataset_counts(events: int, statistics: Mapping[str, Any], frames: Mapping[str, DataFrame]) -> Counts:
    """Return the numbers of events, and of the rows of ``frames`` (datasets by name) by kind, state or verdict.

    A dataset that is not in ``frames`` counts as empty. ``statistics`` has the values of ``event_statistics``.
    """
    broken = (sf.col("state") == "down") & (sf.col("rebuilt") == sf.lit(False)) & sf.col("cause").startswith("error")
    columns = {
        "incidents": sf.col("kind"),
        "bridges": sf.when(broken, sf.lit("not rebuilt")).otherwise(sf.col("state")),
        "messages": sf.col("verdict"),
        "deliveries": sf.col("verdict"),
    }
    together: DataFrame | None = None
    for name, frame in frames.items():
        planned = sf.coalesce("planned", sf.lit(False)) if name == "incidents" else sf.lit(False)
        mine = frame.select(sf.lit(name).alias("name"), columns[name].alias("what"), planned.alias("planned"))
        together = mine if together is None else together.unionAll(mine)
    found: dict[str, dict[str, int]] = {name: {} for name in columns}
    planned_incidents = 0
    if together is not None:
        for row in together.groupBy("name", "what", "planned").count().orderBy("name", "what").collect():
            counted, what = found[row["name"]], str(row["what"])
            counted[what] = counted.get(what, 0) + int(row["count"])
            planned_incidents += int(row["count"]) if row["planned"] else 0
    unknown, unread = int(statistics["unknown"] or 0), int(statistics["unread"] or 0)
    return Counts(events=events, unknown=unknown, unread=unread, planned=planned_incidents, **found)
