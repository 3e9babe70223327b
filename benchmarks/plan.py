"""Measure ``plan`` on Spark with two cores: brokers per second by size of the fleet.

The reference calls the same functions in two plain processes. Each process reads half of the same JSON lines and
writes the same rows as Parquet. The tables list the session start separately. ``plan_fleet`` generates the fleets:
either every site has different settings, or the settings of a number of kinds of sites repeat.
"""

from __future__ import annotations

import datetime
import json
import shutil
import subprocess
import sys
import time
import zlib
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.measure import BenchmarkError, print_progress, run
from benchmarks.plan_fleet import KINDS, records, write_fleet

if TYPE_CHECKING:
    from activemq_fleet.planning.compute import ConnectedComponentHost, PlanContext

WITH_FILES = (20_000, 100_000)
WITHOUT_CONTENT = (100_000, 1_000_000)
ROUNDS = 3
MASTER = "local[2]"


@dataclass(frozen=True, slots=True)
class Figure:
    """Figures of a run: seconds of the session start and of the job, and rows of the dataset ``files``."""

    brokers: int
    content: bool
    kinds: int | None
    start: float
    seconds: float
    files: int

    @property
    def speed(self) -> float:
        return self.brokers / self.seconds


@dataclass(frozen=True, slots=True)
class Comparison:
    """Brokers per second of the job and of two plain processes in each round, for a size of the fleet."""

    brokers: int
    plan_speeds: list[float]
    plain_speeds: list[float]


def measure(work: Path) -> tuple[list[Figure], list[Comparison]]:
    """Measure the job at each size in a separate process, and compare it with two plain processes."""
    figures = []
    for brokers, content, kinds in [
        (WITH_FILES[-1], True, KINDS),
        *((brokers, False, None) for brokers in WITHOUT_CONTENT),
    ]:
        print_progress(
            f"plan of {brokers:,} brokers, {'with' if content else 'without'} content, {kinds or 'no'} kinds of sites"
        )
        figures.append(_job(work, brokers, content=content, kinds=kinds))
    return figures, [compare(work, brokers) for brokers in WITH_FILES]


def compare(work: Path, brokers: int) -> Comparison:
    """Measure the job and two plain processes alternately, with content and different settings for every site."""
    comparison = Comparison(brokers, [], [])
    for number in range(1, ROUNDS + 1):
        print_progress(f"plan of {brokers:,} brokers and two plain processes, round {number}")
        comparison.plan_speeds.append(_job(work, brokers, content=True, kinds=None).speed)
        comparison.plain_speeds.append(_speed_of_two_processes(work, brokers))
    return comparison


def _job(work: Path, brokers: int, *, content: bool, kinds: int | None) -> Figure:
    hosts, report = write_fleet(work / "hosts.jsonl", brokers, kinds=kinds), work / "plan.json"
    out = work / "planned"
    run([sys.executable, "-m", "benchmarks.plan", "job", hosts, out, str(int(content)), report])
    shutil.rmtree(out)
    figures = json.loads(report.read_text())
    return Figure(figures["brokers"], content, kinds, figures["start"], figures["seconds"], figures["files"])


def _speed_of_two_processes(work: Path, brokers: int) -> float:
    """Return the brokers per second of two parallel plain processes, until the last process exits."""
    halves = _write_halves(work, brokers)
    began = time.perf_counter()
    running = [
        subprocess.Popen([sys.executable, "-m", "benchmarks.plan", "plain", str(part), str(part.with_suffix(""))])
        for part in halves
    ]
    if any(process.wait() for process in running):
        raise BenchmarkError("a plain process failed")
    seconds = time.perf_counter() - began
    for part in halves:
        shutil.rmtree(part.with_suffix(""))
    return brokers / seconds


def _write_halves(work: Path, brokers: int) -> list[Path]:
    """Write the fleet to two files, and return them. The hosts of a group and of linked groups are in the same file."""
    lines: list[list[str]] = [[], []]
    part, last = 0, ""
    for number, record in enumerate(records(brokers, kinds=None)):
        group = record["host"].partition("-")[0]
        if group != last and number > (part + 1) * brokers // 2 and "activemq_links" not in record["variables"]:
            part += 1
        last = group
        lines[part].append(json.dumps(record) + "\n")
    paths = [work / f"half{number}.jsonl" for number in range(2)]
    for path, half in zip(paths, lines, strict=True):
        path.write_text("".join(half))
    return paths


def job(hosts: str, out: str, content: str, report: str) -> None:
    """Run the job, and write its figures to the report."""
    from activemq_fleet.spark.plan_inputs import read_hosts
    from activemq_fleet.spark.plan_job import PlanJobOptions, plan
    from activemq_fleet.spark.session import SessionOptions, temporary_spark_session

    began = time.perf_counter()
    with temporary_spark_session("benchmark", SessionOptions(master=MASTER)) as spark:
        started = time.perf_counter()
        result = plan(
            spark,
            read_hosts(spark, hosts),
            out,
            PlanJobOptions(content=content == "1"),
            report_progress=print_progress,
            warn=print_progress,
        )
        ended = time.perf_counter()
    if result.blocking:
        raise BenchmarkError("the measured fleet has blocking findings")
    rows = {"brokers": result.rows["brokers"], "files": result.rows["files"]}
    Path(report).write_text(json.dumps(rows | {"start": started - began, "seconds": ended - started}))


def plain(hosts: str, out: str) -> None:
    """Plan the fleet in a process without Spark: call the same functions, and write the same rows as Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from activemq_fleet.planning.compute import DATASETS, plan_fleet_component
    from activemq_fleet.spark.schemas import arrow_schema_of

    context, members = _components(Path(hosts))
    Path(out).mkdir(parents=True)
    schemas = {name: arrow_schema_of(name) for name in DATASETS}
    with ExitStack() as files:
        writers = {
            name: files.enter_context(pq.ParquetWriter(Path(out) / f"{name}.parquet", schema, compression="zstd"))
            for name, schema in schemas.items()
        }
        for component, component_hosts in members.items():
            computed = plan_fleet_component(component, sorted(component_hosts), context)
            if computed.blocking or computed.error:
                raise BenchmarkError("the measured fleet has blocking findings")
            for name, rows in computed.rows.items():
                writers[name].write_table(pa.Table.from_pylist(rows, schemas[name]))


def _components(hosts: Path) -> tuple[PlanContext, dict[str, list[ConnectedComponentHost]]]:
    from activemq_fleet.artifacts import schema_bytes
    from activemq_fleet.planning.components import component_lookup_key, divide_into_components
    from activemq_fleet.planning.compute import ConnectedComponentHost, PlanContext
    from activemq_fleet.planning.host_facts import host_component_facts_and_variables
    from activemq_fleet.planning.host_records import parse_inventory_host_record
    from activemq_fleet.releases import Release

    with hosts.open() as lines:
        facts = [host_component_facts_and_variables(parse_inventory_host_record(line), None) for line in lines]
    division = divide_into_components([fact for fact, _ in facts], datetime.date.today())
    members: dict[str, list[ConnectedComponentHost]] = defaultdict(list)
    for fact, text in facts:
        host = ConnectedComponentHost(
            fact.host,
            text,
            fact.agent_position,
            fact.balancer_position,
            fact.broker,
            fact.agent,
            fact.balancer,
            fact.by_hand,
        )
        members[division.component_of[component_lookup_key(fact) or ""]].append(host)
    schemas = {text: zlib.compress(schema_bytes(Release.of(text))) for text in division.releases}
    return PlanContext(division, schemas), members


def table(figures: list[Figure], comparisons: list[Comparison]) -> str:
    """Return the figures as a Markdown table."""
    lines = ["| brokers | kinds of sites | content | brokers/s | seconds | session start s | files |", "|---" * 7 + "|"]
    lines += [
        f"| {figure.brokers:,} | {figure.kinds or 'all different'} | {'yes' if figure.content else 'no'} "
        f"| {figure.speed:,.0f} | {figure.seconds:.1f} | {figure.start:.1f} | {figure.files:,} |"
        for figure in figures
    ]
    return "\n".join([*lines, "", comparison_table(comparisons)])


def comparison_table(comparisons: list[Comparison]) -> str:
    """Return the comparisons as a Markdown table: the speed of the job relative to two plain processes."""
    lines = [
        "| brokers | `plan`, brokers/s | two plain processes, brokers/s | `plan`, two processes = 1 |",
        "|---" * 4 + "|",
    ]
    for comparison in comparisons:
        ratios = [job / plain for job, plain in zip(comparison.plan_speeds, comparison.plain_speeds, strict=True)]
        columns = (
            _rounds(figures, form)
            for figures, form in ((comparison.plan_speeds, ",.0f"), (comparison.plain_speeds, ",.0f"), (ratios, ".2f"))
        )
        lines.append(f"| {comparison.brokers:,} | {' | '.join(columns)} |")
    return "\n".join(lines) + "\n"


def _rounds(figures: list[float], form: str) -> str:
    return f"{median(figures):{form}} ({', '.join(f'{figure:{form}}' for figure in figures)})"


if __name__ == "__main__":
    if sys.argv[1] == "job":
        job(*sys.argv[2:])
    elif sys.argv[1] == "compare":
        print(comparison_table([compare(Path(sys.argv[2]), int(sys.argv[3]))]))
    else:
        plain(*sys.argv[2:])
