"""Measure the memory of an audit on Spark by the number of events of an agent.

The input is the event journals of a publisher and a subscriber.

Each event has the records that agents write: accepted, sent and acknowledged, received and handled. The files
are compressed and as large as those of an agent.
"""

from __future__ import annotations

import gzip
import itertools
import json
import shutil
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.audit_engines import ResourceWatch
from benchmarks.measure import BenchmarkError, print_progress, run

EVENTS = (1_000_000, 10_000_000)
MASTER = "local[2]"
_RATE = 1000  # events per second
_FILE = 16 << 20  # bytes, as an agent's journal files
_EPOCH = {host: str(uuid.UUID(int=number)) for number, host in enumerate(("publisher", "subscriber"))}
_BEGAN = datetime(2026, 11, 23, tzinfo=UTC)
_BROKER = "orders-mq01-a.example.com:1883"


@dataclass(frozen=True, slots=True)
class AuditFigures:
    """Figures of an audit: events, seconds, CPU seconds, peak MiB of all processes together, and verdicts."""

    events: int
    seconds: float
    cpu: float
    peak: float
    verdicts: dict[str, int]


def measure(work: Path, sizes: Sequence[int] = EVENTS) -> list[AuditFigures]:
    """Measure an audit of each size in a separate process. Raise BenchmarkError if events are not delivered."""
    return [_measure_audit(work, events) for events in sizes]


def _measure_audit(work: Path, events: int) -> AuditFigures:
    logs, out, report = work / "journals", work / "audited", work / "journals.json"
    print_progress(f"journals of {events:,} events")
    shutil.rmtree(logs, ignore_errors=True)
    write_agent_journals(logs, events)
    print_progress(f"audit of {events:,} events")
    run([sys.executable, "-m", "benchmarks.journals", "audit", logs, out, report])
    figures = AuditFigures(events, **json.loads(report.read_text()))
    if figures.verdicts.get("delivered") != events:
        raise BenchmarkError(f"the audit of {events} delivered events has the verdicts {figures.verdicts}")
    shutil.rmtree(logs)
    shutil.rmtree(out)
    return figures


def write_agent_journals(directory: Path, events: int) -> None:
    """Write the journals of both agents in the directory structure of ``collect``."""
    for host, records in (("publisher", _published(events)), ("subscriber", _handled(events))):
        host_directory = directory / f"{host}.example.com"
        (host_directory / "agent").mkdir(parents=True)
        (host_directory / "host.json").write_text(json.dumps({"host": host_directory.name, "timezone": "UTC"}))
        head = f'{{"v":1,"agent":"{host}","epoch":"{_EPOCH[host]}","jseq":'
        lines = (f"{head}{jseq},{record}}}\n".encode() for jseq, record in enumerate(records, 1))
        for number in itertools.count(1):
            first = next(lines, None)
            if first is None:
                break
            path = host_directory / "agent" / f"journal-{number:06d}.jsonl.gz"
            with gzip.open(path, "wb", compresslevel=1) as file:
                size = file.write(first)
                while size < _FILE and (line := next(lines, None)):
                    size += file.write(line)


def _published(events: int) -> Iterator[str]:
    yield f'"ts":"{_time(0)}","kind":"started"'
    for seq, at, about in _events(events):
        yield f'{at},"kind":"accepted",{about}'
        for kind in ("sent", "acknowledged"):
            yield f'{at},"kind":"{kind}",{about},"broker":"{_BROKER}","conn":1,"mid":{seq % 65535 + 1}'


def _handled(events: int) -> Iterator[str]:
    yield f'"ts":"{_time(0)}","kind":"subscribed","filters":["bench/#"]'
    for _, at, about in _events(events):
        yield f'{at},"kind":"received",{about},"broker":"{_BROKER}","conn":1'
        yield f'{at},"kind":"handled",{about}'


def _events(events: int) -> Iterator[tuple[int, str, str]]:
    for seq in range(1, events + 1):
        about = f'"event_id":"publisher:{_EPOCH["publisher"]}:{seq}","topic":"bench/status/Event"'
        yield seq, f'"ts":"{_time(seq / _RATE)}"', about


def _time(seconds: float) -> str:
    return (_BEGAN + timedelta(seconds=seconds)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def audit(logs: Path, out: Path, report: Path) -> None:
    """Run an audit, and write its figures to the report."""
    from activemq_fleet.spark import audit_job
    from activemq_fleet.spark.session import SessionOptions, temporary_spark_session

    with ResourceWatch() as watch:
        with temporary_spark_session("benchmark", SessionOptions(master=MASTER)) as spark:
            watch.ready()
            audit_job.audit(spark, str(logs), str(out))
            watch.finished()
        figures = watch.usage()
    counts = json.loads((out / "audit.json").read_text())["counts"]
    del figures["before"]
    report.write_text(json.dumps({**figures, "verdicts": counts["messages"]}))


def table(figures: Sequence[AuditFigures]) -> str:
    """Return the figures as a Markdown table, and the memory of the last row relative to the first row."""
    lines = ["| events of an agent | s | events/s | CPU s | peak MiB |", "|---|---|---|---|---|"]
    lines += [
        f"| {audited.events:,} | {audited.seconds:.0f} | {audited.events / audited.seconds:,.0f} "
        f"| {audited.cpu:.0f} | {audited.peak:,.0f} |"
        for audited in figures
    ]
    return "\n".join(lines) + f"\n\n{figures[-1].peak / figures[0].peak:.2f} times the memory.\n"


if __name__ == "__main__":
    if sys.argv[1] == "audit":
        audit(*map(Path, sys.argv[2:5]))
    else:
        print(table(measure(Path(sys.argv[1]), [int(word) for word in sys.argv[2:]] or EVENTS)))
