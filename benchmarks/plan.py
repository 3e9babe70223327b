"""``plan`` on Spark, two cores of this machine: brokers a second, and how that grows with the fleet.

Beside it the same functions in one plain process, and in two, each with half of the fleet, which read the same
JSON lines and write the same rows as Parquet. Session start is not in the figures and shown. Fleets are those of
``plan_fleet``: every site has settings of its own, and in a second row kinds of sites come again.
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
from typing import TYPE_CHECKING

from benchmarks.measure import BenchmarkError, run, say
from benchmarks.plan_fleet import KINDS, records, write

if TYPE_CHECKING:
    from activemq_fleet.planning.compute import ComponentHost, PlanContext

WITH_FILES = (20_000, 100_000)
WITHOUT_CONTENT = (100_000, 1_000_000)
PLAIN = 20_000
MASTER = "local[2]"
MEMORY = "3g"


@dataclass(frozen=True, slots=True)
class Figure:
    """Seconds of one run: of the session's start, of the job itself; and rows of files."""

    brokers: int
    content: bool
    kinds: int | None
    start: float
    seconds: float
    files: int

    @property
    def speed(self) -> float:
        return self.brokers / self.seconds


def measure(work: Path) -> tuple[list[Figure], dict[str, float]]:
    """The job at each size, each in a process of its own; and plain processes' brokers a second."""
    figures = []
    for brokers, content, kinds in [
        *((brokers, True, None) for brokers in WITH_FILES),
        (WITH_FILES[-1], True, KINDS),
        *((brokers, False, None) for brokers in WITHOUT_CONTENT),
    ]:
        say(f"plan of {brokers:,} brokers, {'with' if content else 'without'} content, {kinds or 'no'} kinds of sites")
        figures.append(_job(work, brokers, content=content, kinds=kinds))
    say(f"plain processes, {PLAIN:,} brokers")
    return figures, {"one process": _plain(work, 1), "two processes": _plain(work, 2)}


def _job(work: Path, brokers: int, *, content: bool, kinds: int | None = KINDS) -> Figure:
    hosts, told = write(work / "hosts.jsonl", brokers, kinds=kinds), work / "plan.json"
    out = work / "planned"
    run([sys.executable, "-m", "benchmarks.plan", "job", hosts, out, str(int(content)), told])
    shutil.rmtree(out)
    found = json.loads(told.read_text())
    return Figure(found["brokers"], content, kinds, found["start"], found["seconds"], found["files"])


def _plain(work: Path, processes: int) -> float:
    """Brokers a second of so many plain processes at once, from start to end of the last."""
    halves = _divided(work, processes)
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
    return PLAIN / seconds


def _divided(work: Path, parts: int) -> list[Path]:
    """The fleet as files of whole groups; a link leads to the group before, so that it is cut where there is none."""
    lines: list[list[str]] = [[] for _ in range(parts)]
    part, last = 0, ""
    for number, record in enumerate(records(PLAIN, kinds=None)):
        group = record["host"].partition("-")[0]
        if group != last and number > (part + 1) * PLAIN // parts and "activemq_links" not in record["variables"]:
            part += 1
        last = group
        lines[part].append(json.dumps(record) + "\n")
    paths = [work / f"half{number}.jsonl" for number in range(parts)]
    for path, found in zip(paths, lines, strict=True):
        path.write_text("".join(found))
    return paths


def job(hosts: str, out: str, content: str, told: str) -> None:
    """One run of the job, timed."""
    from activemq_fleet.spark.plan_inputs import read_hosts
    from activemq_fleet.spark.plan_job import PlanOptions, plan
    from activemq_fleet.spark.session import SessionOptions, session

    began = time.perf_counter()
    conf = {"spark.driver.memory": MEMORY, "spark.sql.shuffle.partitions": "8"}
    with session("benchmark", SessionOptions(master=MASTER, conf=conf)) as spark:
        started = time.perf_counter()
        result = plan(spark, read_hosts(spark, hosts), out, PlanOptions(content=content == "1"), tell=say, warn=say)
        ended = time.perf_counter()
    if result.blocking:
        raise BenchmarkError("the fleet that is measured is not sound")
    found = {"brokers": result.rows["brokers"], "files": result.rows["files"]}
    Path(told).write_text(json.dumps(found | {"start": started - began, "seconds": ended - started}))


def plain(hosts: str, out: str) -> None:
    """What the job does, in one process without Spark: the same functions, and the same rows in Parquet files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from activemq_fleet.planning.compute import DATASETS, compute_component
    from activemq_fleet.spark.schemas import arrow_schema_of

    context, members = _components(Path(hosts))
    Path(out).mkdir(parents=True)
    schemas = {name: arrow_schema_of(name) for name in DATASETS}
    with ExitStack() as files:
        writers = {
            name: files.enter_context(pq.ParquetWriter(Path(out) / f"{name}.parquet", schema, compression="zstd"))
            for name, schema in schemas.items()
        }
        for component, found in members.items():
            computed = compute_component(component, sorted(found), context)
            if computed.blocking or computed.error:
                raise BenchmarkError("the fleet that is measured is not sound")
            for name, rows in computed.rows.items():
                writers[name].write_table(pa.Table.from_pylist(rows, schemas[name]))


def _components(hosts: Path) -> tuple[PlanContext, dict[str, list[ComponentHost]]]:
    from activemq_fleet.artifacts import schema_for
    from activemq_fleet.planning.components import component_key, divide_into_components
    from activemq_fleet.planning.compute import ComponentHost, PlanContext
    from activemq_fleet.planning.host_facts import host_facts
    from activemq_fleet.planning.records import read_record
    from activemq_fleet.releases import Release

    with hosts.open() as lines:
        facts = [host_facts(read_record(line), 0, None) for line in lines]
    division = divide_into_components([one for one, _ in facts], datetime.date.today())
    members: dict[str, list[ComponentHost]] = defaultdict(list)
    for one, text in facts:
        host = ComponentHost(one.host, text, one.position, one.broker, one.agent, one.balancer, one.by_hand)
        members[division.component_of[component_key(one) or ""]].append(host)
    schemas = {text: zlib.compress(schema_for(Release.of(text))) for text in division.releases}
    return PlanContext(division, schemas), members


def table(figures: list[Figure], plain_speeds: dict[str, float]) -> str:
    """The figures in Markdown."""
    lines = ["| brokers | kinds of sites | content | brokers/s | seconds | session start s | files |", "|---" * 7 + "|"]
    lines += [
        f"| {one.brokers:,} | {one.kinds or 'each its own'} | {'yes' if one.content else 'no'} | {one.speed:,.0f} "
        f"| {one.seconds:.1f} "
        f"| {one.start:.1f} | {one.files:,} |"
        for one in figures
    ]
    lines += ["", f"| plain, {PLAIN:,} brokers | brokers/s |", "|---|---|"]
    lines += [f"| {name} | {speed:,.0f} |" for name, speed in plain_speeds.items()]
    for content in (True, False):
        sizes = [one for one in figures if one.content is content and not one.kinds]
        if len(sizes) > 1:
            few, many = sizes[0], sizes[-1]
            ratio = (many.seconds / many.brokers) / (few.seconds / few.brokers)
            lines.append(
                f"\n{'With' if content else 'Without'} content each of {many.brokers:,} brokers takes "
                f"{ratio:.2f} times as long as with {few.brokers:,}."
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1] == "job":
        job(*sys.argv[2:])
    else:
        plain(*sys.argv[2:])
