"""Run the job ``plan`` on Spark: divide hosts into components, compute each, and write the datasets."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa

from activemq_fleet import InputError, Release
from activemq_fleet.artifacts import schema_bytes
from activemq_fleet.node.printable import count_with_noun
from activemq_fleet.planning.components import (
    FleetDivision,
    component_lookup_key,
    divide_into_components,
    naming_pattern_set_by_other_hosts,
)
from activemq_fleet.planning.compute import (
    DATASETS,
    ComponentPlanRows,
    ConnectedComponentHost,
    PlanContext,
    plan_fleet_component,
)
from activemq_fleet.planning.host_facts import (
    HostFactsForSeparatePlanning,
    host_component_facts_and_variables,
)
from activemq_fleet.planning.host_records import (
    HostRecord,
    RecordWithoutHostError,
    activemq_variables,
    escape_lone_surrogates,
    parse_inventory_host_record,
    read_listed_host,
    variables_from_json,
)
from activemq_fleet.planning.line_numbers import error_at_first_invalid_json_line
from activemq_fleet.spark.datasets import AtomicJobOutput
from activemq_fleet.spark.earlier_plan import EarlierPlanOutput, count_blocking_findings_and_withheld_brokers
from activemq_fleet.spark.settings import is_local_master, task_slots_of_master, temporary_settings
from activemq_fleet.spark.task_results import (
    OBJECTS,
    OBJECTS_DDL,
    Batches,
    DatasetRows,
    KeyedObject,
    repartition_by_key,
    unpickle_objects,
)
from activemq_fleet.spark.workers import less_frequent_garbage_collection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from activemq_fleet.spark.plan_inputs import HostRecords

Report = Callable[[str], None]

_BROKERS_A_TASK, _BROKERS_A_FILE = 1000, 20_000


@dataclass(frozen=True)
class PlanJobOptions:
    """The options of the Spark job ``plan``, which renders and checks a fleet.

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
    """The result of the Spark job ``plan``, which renders and checks a fleet.

    It has ``rows`` by dataset, ``blocking`` findings without a waiver, and ``withheld`` brokers without files.
    """

    rows: dict[str, int]
    blocking: int
    withheld: int


def plan(
    spark: SparkSession,
    source: HostRecords,
    out: str,
    options: PlanJobOptions,
    *,
    report_progress: Report,
    warn: Report,
) -> PlanResult:
    """Plan a fleet with Spark, and write the datasets of the plan to an output path.

    Returns the numbers of rows and findings. ``report_progress`` is called with lines of progress, ``warn`` with
    warnings. Raises FleetError for variables that ``check`` or ``render`` would refuse, and leaves ``out`` as it was.
    """
    with AtomicJobOutput(spark, out, kind="plan") as output, temporary_settings(spark, _spark_settings(options)):
        hosts, division = _read_hosts(output, source, options.today)
        for warning in (*source.warnings, *division.warnings):
            warn(warning)
        report_progress(
            f"{count_with_noun(division.brokers, 'broker')} in {count_with_noun(len(division.groups), 'group')}, "
            f"{count_with_noun(len(division.releases), 'release')}"
        )
        earlier = EarlierPlanOutput(spark, options.since) if options.since else None
        context = PlanContext(
            division=division,
            schemas={
                text: zlib.compress(schema_bytes(Release.of(text), progress=report_progress))
                for text in division.releases
            },
            content=options.content,
            largest=options.largest,
            earlier=earlier.component_fingerprints() if earlier else {},
        )
        components = hosts.mapInArrow(partial(_replace_keys_by_components, division=division), OBJECTS_DDL)
        by_component = repartition_by_key(components, _number_of_tasks(spark, division.brokers))
        task, files = partial(_compute_components, context=context), -(-division.brokers // _BROKERS_A_FILE)
        totals, _ = output.run_task_and_write_rows(by_component.mapInArrow, task, DATASETS, ordered=True, files=files)
        return _commit_plan(spark, output, totals, earlier, report_progress)


def _spark_settings(options: PlanJobOptions) -> dict[str, str]:
    # Adaptive execution runs a job per stage: for 100 brokers 3 jobs with 8 tasks, without it 2 with 6. With an
    # earlier output, complete datasets are joined, and Spark chooses the number of partitions.
    return {} if options.since else {"spark.sql.adaptive.enabled": "false"}


def _read_hosts(output: AtomicJobOutput, source: HostRecords, today: date) -> tuple[DataFrame, FleetDivision]:
    """Return OBJECTS with hosts by fleet component, and their division. Raises InputError for wrong variables."""
    try:
        facts, hosts = _collect_facts(output, source, None)
        pattern = naming_pattern_set_by_other_hosts(facts)
        if pattern is not None:
            facts, hosts = _collect_facts(output, source, pattern)
        return hosts, divide_into_components(facts, today, source.findings)
    except InputError as error:
        raise error_at_first_invalid_json_line(source.lines, error) from None


def _collect_facts(
    output: AtomicJobOutput, source: HostRecords, pattern: str | None
) -> tuple[list[HostFactsForSeparatePlanning], DataFrame]:
    task = partial(_facts_and_hosts, form=source.form, pattern=pattern)
    return output.run_task_and_write_rows(source.frame.mapInArrow, task, [], keep=True)


def _facts_and_hosts(
    batches: Batches, *, form: str, pattern: str | None
) -> Iterator[HostFactsForSeparatePlanning | KeyedObject]:
    """Yield the facts of each host in rows of the input, and hosts with a role by the key of their fleet component."""
    for row in (row for batch in batches for row in batch.to_pylist()):
        text = row["text"]
        if text is None or not text.strip():
            continue
        try:
            record = _read_host_record(form, text, row.get("host") or "", dict(row.get("groups") or ()))
            facts, variables = host_component_facts_and_variables(record, pattern)
        except RecordWithoutHostError as error:
            facts, variables = HostFactsForSeparatePlanning("", input_error=str(error), has_host=False), None
        except InputError as error:
            facts, variables = HostFactsForSeparatePlanning(row.get("host") or "", input_error=str(error)), None
        facts = replace(facts, host=escape_lone_surrogates(facts.host))
        yield facts
        if key := component_lookup_key(facts):
            roles = facts.broker, facts.agent, facts.balancer, facts.by_hand
            positions = facts.agent_position, facts.balancer_position
            yield KeyedObject(key, ConnectedComponentHost(facts.host, variables, *positions, *roles))


def _read_host_record(form: str, text: str, host: str, groups: Mapping[str, int]) -> HostRecord:
    """Return the host in a row of the input of any form."""
    if form == "listed":
        return read_listed_host(host, text, groups)
    if form == "given":
        return HostRecord(host, activemq_variables(variables_from_json(text)), groups)
    return parse_inventory_host_record(text, cells=form == "table")


def _replace_keys_by_components(batches: Batches, *, division: FleetDivision) -> Batches:
    """Yield OBJECTS with the component in place of the ``component_lookup_key``."""
    for batch in batches:
        components = [division.component_of[key] for key in batch.column("key").to_pylist()]
        yield batch.set_column(0, OBJECTS.field("key"), pa.array(components, pa.string()))


def _number_of_tasks(spark: SparkSession, brokers: int) -> int:
    """Return the number of tasks: on this machine, where each writes files, a multiple of the cores; else one for each
    1,000 brokers.

    Hashes spread components of 1 to 159 brokers evenly enough: of 100,000 brokers the busier of two cores has at most
    1.04 times its half, with a task a core as with sixteen.
    """
    master = spark.conf.get("spark.master", None) or ""
    cores = task_slots_of_master(master)
    files = cores * max(1, -(-brokers // (_BROKERS_A_FILE * cores)))
    return files if is_local_master(master) else max(files, -(-brokers // _BROKERS_A_TASK))


def _compute_components(batches: Batches, *, context: PlanContext) -> Iterator[DatasetRows | ComponentPlanRows]:
    """Yield the rows of components, and each component without its rows; hosts are grouped by component."""
    with less_frequent_garbage_collection():
        for component, hosts in groupby(unpickle_objects(batches), key=lambda keyed: keyed.key):
            in_order = sorted((keyed.value for keyed in hosts), key=lambda host: host.host)
            computed = plan_fleet_component(component, in_order, context)
            yield replace(computed, rows={})
            for name, rows in computed.rows.items():
                yield from (DatasetRows(name, row) for row in rows)


def _commit_plan(
    spark: SparkSession,
    output: AtomicJobOutput,
    totals: list[ComponentPlanRows],
    earlier: EarlierPlanOutput | None,
    report: Report,
) -> PlanResult:
    """Add the rows of an earlier output, and commit. Raises InputError for the first error of any component."""
    if errors := [computed.error for computed in totals if computed.error is not None]:
        raise InputError(min(errors))
    if earlier:
        earlier.copy_unchanged_rows_and_write_changes(
            output, [computed.component for computed in totals if computed.unchanged]
        )
    for name, rows in output.row_counts_by_dataset.items():
        report(f"{name}: {rows} rows")
    output.commit()
    if earlier:
        return PlanResult(
            dict(output.row_counts_by_dataset), *count_blocking_findings_and_withheld_brokers(spark, output.path)
        )
    return PlanResult(
        dict(output.row_counts_by_dataset),
        sum(computed.blocking for computed in totals),
        sum(computed.withheld for computed in totals),
    )
