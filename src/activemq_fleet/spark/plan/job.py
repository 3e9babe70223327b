"""The steps of ``plan``, in their order. What is decided of a broker is decided by the core, in ``parts.py``."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from activemq_fleet.artifacts import schema_for
from activemq_fleet.errors import InputError
from activemq_fleet.printable import counted
from activemq_fleet.releases import Release
from activemq_fleet.render import ACTIVEMQ_XML
from activemq_fleet.spark.datasets import Output, read
from activemq_fleet.spark.plan import parts
from activemq_fleet.spark.plan.bundles import SCHEMA, bundles, ddl_of
from activemq_fleet.spark.plan.context import Context
from activemq_fleet.spark.plan.direct import write_tables
from activemq_fleet.spark.plan.earlier import Earlier
from activemq_fleet.spark.plan.layout import rows_by_component
from activemq_fleet.spark.plan.packing import TABLES, unpacked
from activemq_fleet.spark.plan.survey import (
    Survey,
    known_groups,
    refuse_problems,
    survey,
    waivers_of,
    warnings_of,
)
from activemq_fleet.spark.plan.wrong_line import placed
from activemq_fleet.spark.settings import INTERPRETED, cores_of, is_local, temporarily

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from activemq_fleet.spark.plan.sources import Source

Told = Callable[[str], None]

_PACKS = ", ".join(f"{name} binary" for name in TABLES) + ", blocking bigint, withheld bigint, error string"
_FILE = 192 << 20  # bytes: a file of a dataset has 128 to 256 MB
_LEAST = 24 << 20  # bytes: below it a file of its own is not worth a task
_FEW = 8  # files that are smaller, so that some tasks can write at once
_BROKERS_A_TASK = 4000
_TASKS_A_CORE, _FEWEST_A_TASK = 4, 1000  # of tasks that write files, few: but no core is to wait for another


@dataclass(frozen=True)
class Options:
    """``largest``: brokers of a component that one task looks at. ``since``: an earlier output to build on."""

    content: bool = True
    largest: int = 5000
    since: str | None = None
    today: date = field(default_factory=date.today)


@dataclass(frozen=True)
class Result:
    """Numbers of rows; ``blocking``: findings that nothing waives; ``withheld``: brokers that have no files."""

    rows: dict[str, int]
    blocking: int
    withheld: int


def plan(spark: SparkSession, source: Source, out: str, options: Options, *, tell: Told, warn: Told) -> Result:
    """Write the datasets of a fleet to ``out``. ``tell`` takes progress, ``warn`` warnings, a line each.

    Raises FleetError for what ``check`` or ``render`` would refuse. Then ``out`` stays what it was.
    """
    with Output(spark, out, kind="plan") as output, temporarily(spark, INTERPRETED | _at_once(spark, options)):
        facts, found = _facts(source)
        try:
            for warning in (*source.warnings, *warnings_of(found)):
                warn(warning)
            waivers, expired = waivers_of(found, options.today)
            for warning in expired:
                warn(warning)
            tell(
                f"{counted(found.brokers, 'broker')} in {counted(found.groups, 'group')}, "
                f"{counted(len(found.releases), 'release')}"
            )
            context = Context(
                pattern=found.pattern,
                groups=known_groups(found),
                waivers=tuple(waiver.model_dump_json() for waiver in waivers),
                schemas={text: zlib.compress(schema_for(Release.of(text), progress=tell)) for text in found.releases},
                content=options.content,
                largest=options.largest,
            )
            places = _own_places(output, options)
            rows = rows_by_component(facts, found, _tasks(spark, found, direct=bool(places)))
            if places:
                return _write_by_workers(rows, context, output, places, tell)
            return _write_by_spark(spark, rows, context, output, options, tell)
        finally:
            for frame in (facts, *source.kept):
                frame.unpersist()


def _at_once(spark: SparkSession, options: Options) -> dict[str, str]:
    """On this machine what the driver asks is one job a question, of as many tasks as there are cores.

    With an earlier output there are joins of all its files, which are to be divided as Spark sees fit.
    """
    master = spark.conf.get("spark.master", None) or ""
    if options.since or not is_local(master):
        return {}
    return {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(cores_of(master)),
        # Five parts of a million hosts are three rounds on two cores, of which the last has work for one.
        "spark.sql.files.maxPartitionBytes": "32m",
    }


def _facts(source: Source) -> tuple[DataFrame, Survey]:
    """The hosts in bundles, kept; and what they say together. Raises what is wrong with any host's variables."""
    facts = _read(source, None)
    found = survey(facts)
    if not found.is_settled:
        facts.unpersist()
        facts = _read(source, found.pattern)
        found = survey(facts)
    try:
        if found.problems:
            refuse_problems(facts)
        found.refuse_none()
    except InputError as error:
        facts.unpersist()
        raise placed(source.lines, error) from None
    except Exception:
        facts.unpersist()
        raise
    return facts, found


def _read(source: Source, pattern: str | None) -> DataFrame:
    read = partial(bundles, form=source.form, pattern=pattern)
    return source.frame.mapInArrow(read, ddl_of(SCHEMA)).persist()


def _tasks(spark: SparkSession, found: Survey, *, direct: bool) -> int:
    """In how many parts the work is done: of those that write themselves each makes a file."""
    if direct:
        cores = cores_of(spark.conf.get("spark.master", None) or "")
        return max(1, min(_TASKS_A_CORE * cores, -(-found.brokers // _FEWEST_A_TASK)))
    return max(4, -(-found.brokers // _BROKERS_A_TASK))


def _own_places(output: Output, options: Options) -> dict[str, Path]:
    """Where workers may write the tables themselves; what is taken over from an earlier output Spark writes."""
    if options.since:
        return {}
    return {name: place for name in TABLES if (place := output.own_place(name))}


def _write_by_workers(rows: DataFrame, context: Context, output: Output, places: dict[str, Path], tell: Told) -> Result:
    told = write_tables(rows, context, places)
    if told["error"] is not None:
        raise InputError(told["error"])
    for name in TABLES:
        output.wrote(name, told[name])
        tell(f"{name}: {told[name]} rows")
    output.commit()
    return Result({name: told[name] for name in TABLES}, told["blocking"], told["withheld"])


def _write_by_spark(
    spark: SparkSession, rows: DataFrame, context: Context, output: Output, options: Options, tell: Told
) -> Result:
    earlier = Earlier(spark, options.since, rows, context) if options.since else None
    wanted = earlier.changed(rows) if earlier else rows
    packs = wanted.mapInArrow(partial(parts.compute, context=context), _PACKS).persist()
    try:
        told = packs.agg(
            sf.min("error").alias("error"),
            sf.coalesce(sf.sum("blocking"), sf.lit(0)).alias("blocking"),
            sf.coalesce(sf.sum("withheld"), sf.lit(0)).alias("withheld"),
            *(sf.coalesce(sf.sum(sf.length(name)), sf.lit(0)).alias(name) for name in TABLES),
        ).collect()[0]
        if told["error"] is not None:
            raise InputError(told["error"])
        written = {}
        for name in TABLES:
            frame = _dataset(packs, name, told[name])
            if earlier:
                frame = earlier.with_kept(name, frame)
            written[name] = output.write(name, frame, ordered=True)
            tell(f"{name}: {written[name]} rows")
        if earlier:
            written["changes"] = output.write("changes", earlier.changes(_dataset(packs, "files", told["files"])))
            tell(f"changes: {written['changes']} rows")
        output.commit()
        blocking, withheld = _standing(spark, output.path) if earlier else (told["blocking"], told["withheld"])
        return Result(written, blocking, withheld)
    finally:
        packs.unpersist()
        if earlier:
            earlier.forget()


def _standing(spark: SparkSession, out: str) -> tuple[int, int]:
    """Findings that block and brokers without files, of all that was written."""
    blocking = read(spark, out, "findings").where("severity = 'error' and waived is null").count()
    if not blocking:
        return 0, 0
    files = read(spark, out, "files").where(sf.col("path") == ACTIVEMQ_XML).select("host")
    return blocking, read(spark, out, "brokers").join(files, "host", "left_anti").count()


def _dataset(packs: DataFrame, name: str, size: int) -> DataFrame:
    """Rows of one dataset, in as many partitions as there should be files."""
    files = max(1, -(-size // _FILE), min(_FEW, -(-size // _LEAST)))
    kept = packs.where(sf.col(name).isNotNull()).select(name).coalesce(files)
    return kept.mapInArrow(partial(unpacked, name=name), _schema_of(name))


def _schema_of(name: str) -> str:
    from activemq_fleet.spark.schemas import SCHEMAS

    return ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in SCHEMAS[name])
