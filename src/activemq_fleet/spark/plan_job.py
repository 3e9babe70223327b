"""The Spark job ``plan``: divide hosts into components, compute each with the package ``planning``, write datasets."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from datetime import date
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_type
from pyspark.sql.types import ArrayType

from activemq_fleet.artifacts import schema_for
from activemq_fleet.errors import InputError
from activemq_fleet.planning.components import Division, common_pattern, component_key, divide_into_components
from activemq_fleet.planning.compute import DATASETS, ComponentHost, PlanContext, compute_component, row_chunks
from activemq_fleet.planning.host_facts import HostFacts, ProblemKind, host_facts
from activemq_fleet.planning.line_numbers import with_line_number
from activemq_fleet.planning.records import (
    Record,
    activemq_variables,
    printable_text,
    read_listed_host,
    read_record,
    variables_from_json,
)
from activemq_fleet.printable import counted
from activemq_fleet.releases import Release
from activemq_fleet.spark.datasets import Output
from activemq_fleet.spark.earlier_plan import EarlierPlan
from activemq_fleet.spark.schemas import SCHEMAS
from activemq_fleet.spark.settings import cores_of, temporary_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from activemq_fleet.spark.plan_inputs import HostRecords

Report = Callable[[str], None]

_TEXT, _BOOL, _TEXTS = pa.string(), pa.bool_(), pa.list_(pa.string())
_FACTS = pa.schema(
    [
        *((name, _TEXT) for name in ("host", "pattern", "group", "pair", "unit", "release", "address", "store")),
        *((name, _TEXT) for name in ("links", "waivers", "agent_group")),
        *((name, _BOOL) for name in ("broker", "agent", "balancer", "by_hand", "nearly", "sets_store", "vip")),
        *((name, _TEXTS) for name in ("dialled", "names", "problems")),
        ("position", pa.int64()),
        ("problem_kind", pa.int32()),
        ("key", _TEXT),
        ("text", _TEXT),  # the variables, as JSON
    ]
)
_FACT_NAMES = tuple(column.name for column in fields(HostFacts))
_COMPUTED = pa.schema(
    [
        ("component", _TEXT),
        ("unchanged", _BOOL),
        ("blocking", pa.int64()),
        ("withheld", pa.int64()),
        ("error", _TEXT),
        *((name, to_arrow_type(ArrayType(SCHEMAS[name]))) for name in DATASETS),
    ]
)
_BROKERS_A_TASK, _BROKERS_A_FILE = 1000, 20_000
_ROWS_AT_ONCE = 1000  # files of some kilobytes each, which Spark holds as one row


@dataclass(frozen=True)
class PlanOptions:
    """Options of ``plan``.

    ``content``: whether the dataset ``files`` has the files' content. ``largest``: the number of brokers above which a
    component is listed and not computed. ``since``: the path of an earlier output whose unchanged components are
    reused. ``today``: the date by which waivers expire.
    """

    content: bool = True
    largest: int = 5000
    since: str | None = None
    today: date = field(default_factory=date.today)


@dataclass(frozen=True)
class PlanResult:
    """``rows`` written by dataset; ``blocking``: findings without a waiver; ``withheld``: brokers without files."""

    rows: dict[str, int]
    blocking: int
    withheld: int


def plan(
    spark: SparkSession, source: HostRecords, out: str, options: PlanOptions, *, tell: Report, warn: Report
) -> PlanResult:
    """Plan the fleet of ``source``, write its datasets to ``out``, and return the numbers of rows and findings.

    ``tell`` is called with lines of progress, ``warn`` with warnings. Raises FleetError for variables that ``check`` or
    ``render`` would refuse, and leaves ``out`` as it was.
    """
    with Output(spark, out, kind="plan") as output, temporary_settings(spark, _settings(options)):
        facts, division = _read_facts(source, options.today)
        try:
            for warning in (*source.warnings, *division.warnings):
                warn(warning)
            tell(
                f"{counted(division.brokers, 'broker')} in {counted(len(division.groups), 'group')}, "
                f"{counted(len(division.releases), 'release')}"
            )
            earlier = EarlierPlan(spark, options.since) if options.since else None
            context = PlanContext(
                division=division,
                schemas={
                    text: zlib.compress(schema_for(Release.of(text), progress=tell)) for text in division.releases
                },
                content=options.content,
                largest=options.largest,
                earlier=earlier.fingerprints() if earlier else {},
            )
            cores = cores_of(spark.conf.get("spark.master", None) or "")
            tasks, files = (max(cores, -(-division.brokers // many)) for many in (_BROKERS_A_TASK, _BROKERS_A_FILE))
            hosts = _by_component(facts, division, tasks)
            computed = hosts.mapInArrow(partial(_compute, context=context), from_arrow_schema(_COMPUTED))
            return _write(computed, files, output, earlier, tell)
        finally:
            facts.unpersist()


def _settings(options: PlanOptions) -> dict[str, str]:
    # With an earlier output whole datasets are joined, in as many partitions as Spark sees fit.
    return {} if options.since else {"spark.sql.adaptive.enabled": "false"}


def _read_facts(source: HostRecords, today: date) -> tuple[DataFrame, Division]:
    """Return the facts of all hosts, persisted, and their division. Raises what is wrong with hosts' variables."""
    frame, facts = _collect_facts(source, None)
    try:
        pattern = common_pattern(facts)
        if pattern is not None:
            frame.unpersist()
            frame, facts = _collect_facts(source, pattern)
        return frame, divide_into_components(facts, today)
    except InputError as error:
        frame.unpersist()
        raise with_line_number(source.lines, error) from None
    except Exception:
        frame.unpersist()
        raise


def _collect_facts(source: HostRecords, pattern: str | None) -> tuple[DataFrame, list[HostFacts]]:
    read = partial(_facts, form=source.form, pattern=pattern)
    frame = source.frame.mapInArrow(read, from_arrow_schema(_FACTS)).persist()
    batches = frame.drop("key", "text").toArrow().to_batches()
    return frame, [HostFacts(**row) for batch in batches for row in batch.to_pylist()]


def _facts(batches: Iterable[pa.RecordBatch], *, form: str, pattern: str | None) -> Iterator[pa.RecordBatch]:
    """Rows of the input -> rows of ``_FACTS``."""
    for batch in batches:
        rows = []
        for row in batch.to_pylist():
            text = row["text"]
            if text is None or not text.strip():
                continue
            try:
                record = _record(form, text, row.get("host") or "", row.get("groups") or ())
                facts, variables = host_facts(record, row.get("position") or 0, pattern)
            except InputError as error:
                host, variables = row.get("host") or "", None
                facts = HostFacts(host, problem_kind=ProblemKind.INPUT, problems=(str(error),))
            row_of_facts = {name: getattr(facts, name) for name in _FACT_NAMES}
            rows.append({**row_of_facts, "key": component_key(facts), "text": variables})
        yield _batch(rows, _FACTS)


def _record(form: str, text: str, host: str, groups: Iterable[str]) -> Record:
    if form == "listed":
        return read_listed_host(host, text, groups)
    if form == "given":
        return Record(host, activemq_variables(variables_from_json(text)), tuple(groups))
    return read_record(text, cells=form == "table")


def _by_component(facts: DataFrame, division: Division, tasks: int) -> DataFrame:
    """Return the hosts that have a role with their component, sorted, those of a component in one partition."""
    keys = pa.table({"key": [*division.component_of], "component": [*division.component_of.values()]})
    components = facts.sparkSession.createDataFrame(keys.cast(pa.schema([("key", _TEXT), ("component", _TEXT)])))
    hosts = facts.join(sf.broadcast(components), "key").select("component", *ComponentHost._fields)
    return hosts.repartition(tasks, "component").sortWithinPartitions("component", "host", "position")


def _compute(batches: Iterable[pa.RecordBatch], *, context: PlanContext) -> Iterator[pa.RecordBatch]:
    """Hosts in order of component -> rows of ``_COMPUTED``, one a component or several for a large one."""
    hosts = (row for batch in batches for row in batch.to_pylist())
    for component, rows in groupby(hosts, key=lambda row: row.pop("component")):
        computed = compute_component(component, [ComponentHost(**row) for row in rows], context)
        totals: dict[str, Any] = {
            "component": component,
            "unchanged": computed.unchanged,
            "blocking": computed.blocking,
            "withheld": computed.withheld,
            "error": computed.error,
        }
        for chunk in row_chunks(computed, _ROWS_AT_ONCE):
            yield _batch([totals | chunk], _COMPUTED)
            totals = {"component": component}


def _write(computed: DataFrame, files: int, output: Output, earlier: EarlierPlan | None, tell: Report) -> PlanResult:
    """Write every dataset from rows of ``_COMPUTED``, those that were computed in at most ``files`` files each."""
    computed.persist()
    try:
        totals = computed.agg(
            sf.min("error").alias("error"),
            *(sf.coalesce(sf.sum(name), sf.lit(0)).alias(name) for name in ("blocking", "withheld")),
        ).collect()[0]
        if totals["error"] is not None:
            raise InputError(totals["error"])
        if earlier:
            earlier.reuse_unchanged(computed)
        rows = {}
        for name in DATASETS:
            frame = computed.coalesce(files).select(sf.inline(name))
            rows[name] = output.write(name, earlier.with_reused_rows(name, frame) if earlier else frame, ordered=True)
            tell(f"{name}: {rows[name]} rows")
        if earlier:
            rows["changes"] = output.write("changes", earlier.changed_files(computed.select(sf.inline("files"))))
            tell(f"changes: {rows['changes']} rows")
        output.commit()
        blocking, withheld = totals["blocking"], totals["withheld"]
        return PlanResult(rows, *(earlier.blocking_and_withheld(output.path) if earlier else (blocking, withheld)))
    finally:
        computed.unpersist()


def _batch(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    try:
        return pa.RecordBatch.from_pylist(rows, schema)
    except UnicodeEncodeError:
        return pa.RecordBatch.from_pylist([_printable(row) for row in rows], schema)


def _printable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _printable(inside) for name, inside in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(inside) for inside in value]
    return printable_text(value) if isinstance(value, str) else value
