"""One engine of ``benchmarks.audit``: python -m benchmarks.audit_engines ENGINE LOGS OUT REPORT."""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import psutil

HOST_LOGS = "*/activemq.log*"
_RECORD = r"^(.{23}) \| ([A-Z]+) +\| (?s:(.*?)) \| ([^\s|]+) \| ([^\n]*)(?:\n((?s:.*)))?$"
_SHARED = ("raw_time", "level", "message", "logger", "thread", "stack")


def main(engine: str, logs: Path, out: Path, report: Path) -> None:
    """Run it, hash what it wrote, and print the duration."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with ResourceWatch() as watch:
        ENGINES[engine](logs, out, watch)
        told = watch.told()
    told |= _hashes(out, full=engine in ("spark", "processes"))
    report.write_text(json.dumps(told))


# -- the engines -------------------------------------------------------------------------------


def spark(logs: Path, out: Path, watch: ResourceWatch) -> None:
    """The stage of ``audit``: looking at the files, parsing, writing the dataset."""
    from activemq_fleet.spark.audit_job import read_logs
    from activemq_fleet.spark.datasets import Output
    from activemq_fleet.spark.inputs import list_inputs
    from activemq_fleet.spark.session import SessionOptions, session

    with session("bench", SessionOptions(master="local[2]", conf={"spark.driver.memory": "1g"})) as running:
        running.range(1).count()
        watch.ready()
        with Output(running, str(out / "audit")) as output:
            read_logs(running, output, list_inputs(running, str(logs)))
            output.commit()
        watch.finished()


def processes(logs: Path, out: Path, watch: ResourceWatch) -> None:
    """Files in two halves, one Parquet file per host."""
    watch.ready()
    hosts = sorted(path.parent for path in logs.glob("*/host.json"))
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(_plain, hosts, [out] * len(hosts), chunksize=1))
    watch.finished()


def _plain(host: Path, out: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from activemq_fleet.logs.event_batches import LogSource, Scanner

    about = json.loads((host / "host.json").read_text())
    writer = None
    for path in sorted(host.glob("activemq.log*")):
        for batch in Scanner(LogSource(about["release"], about["timezone"])).scan(path.read_bytes()):
            known = {"host": about["host"], "file": path.name, "release": about["release"]}
            columns = {name: pa.repeat(pa.scalar(value), batch.num_rows) for name, value in known.items()}
            table = pa.table(
                {**columns, **{name: batch.column(name) for name in batch.schema.names if name != "problem"}}
            )
            writer = writer or pq.ParquetWriter(out / f"{host.name}.parquet", table.schema, compression="zstd")
            writer.write_table(table)
    if writer:
        writer.close()


def polars(logs: Path, out: Path, watch: ResourceWatch) -> None:
    """Each file split at the dates, each record by one expression."""
    import polars as pl

    watch.ready()
    names = list(_SHARED)
    for path in sorted(logs.glob(HOST_LOGS)):
        frame = pl.DataFrame({"text": ["\n" + path.read_text().removesuffix("\n")]})
        records = (
            frame.select(pl.col("text").str.split("\n20").explode())
            .slice(1)
            .select((pl.lit("20") + pl.col("text")).alias("text"))
        )
        groups = records.select(pl.col("text").str.extract_groups(_RECORD).struct.rename_fields(names).alias("one"))
        table = groups.unnest("one").with_columns(host=pl.lit(path.parent.name), file=pl.lit(path.name))
        table.write_parquet(out / f"{path.parent.name}-{path.name}.parquet", compression="zstd")
    watch.finished()


def with_duckdb(logs: Path, out: Path, watch: ResourceWatch) -> None:
    """The same as one query."""
    watch.ready()
    connection = duckdb.connect(config={"threads": 2})
    groups = ", ".join(f"'{name}'" for name in _SHARED)
    connection.execute(
        f"""COPY (
            WITH records AS (
                SELECT split_part(filename, '/', -2) AS host, split_part(filename, '/', -1) AS file,
                    '20' || unnest(string_split(chr(10) || rtrim(content, chr(10)), chr(10) || '20')[2:]) AS text
                FROM read_text('{logs}/{HOST_LOGS}')
            ), read AS (SELECT host, file, regexp_extract(text, ?, [{groups}]) AS one FROM records)
            SELECT host, file, one.* FROM read
        ) TO '{out}/events.parquet' (COMPRESSION zstd)""",  # noqa: S608 -- our own paths
        [_RECORD],
    )
    watch.finished()


ENGINES = {"spark": spark, "processes": processes, "polars": polars, "duckdb": with_duckdb}


# -- what came of it ---------------------------------------------------------------------------


def _hashes(out: Path, *, full: bool) -> dict[str, Any]:
    """Rows, and sums of the hashes of rows: of what all engines have, and of all columns."""
    text = ", ".join(f"coalesce({name}, '')" for name in _SHARED)
    rest = "line, end_line, epoch_us(time), kind, release, parsed, coalesce(fields::VARCHAR, '')"
    everything = f"sum(hash(host, file, {text}, {rest}))" if full else "NULL"
    found = duckdb.connect().execute(
        f"SELECT count(*), sum(hash(host, file, {text})), {everything} FROM read_parquet('{out}/**/*.parquet')"  # noqa: S608
    )
    rows, shared, whole = found.fetchall()[0]
    return {"rows": rows, "shared": f"{int(shared):x}"[-16:], "full": f"{int(whole):x}"[-16:] if full else ""}


class ResourceWatch:
    """Time and processor's time since ``ready``, and the most memory at a time, of this process and its children."""

    def __init__(self) -> None:
        self._me = psutil.Process()
        self._peak = 0.0
        self._cpu: dict[int, float] = {}
        self._began = self._ready = self._finished = time.perf_counter()
        self._before = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> ResourceWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def ready(self) -> None:
        """From here on it counts."""
        self._look()
        self._before, self._ready = sum(self._cpu.values()), time.perf_counter()

    def finished(self) -> None:
        """Up to here."""
        self._finished = time.perf_counter()
        self._look()

    def told(self) -> dict[str, Any]:
        """Seconds of the work and before it, seconds of the processors, peak MiB."""
        return {
            "seconds": self._finished - self._ready,
            "before": self._ready - self._began,
            "cpu": sum(self._cpu.values()) - self._before,
            "peak": self._peak,
        }

    def _look(self) -> None:
        """Add up what the processes use now; one that has ended counts as it was last seen."""
        memory = 0
        for process in (self._me, *self._me.children(recursive=True)):
            try:
                memory += process.memory_info().rss
                times = process.cpu_times()
            except psutil.Error:
                continue
            self._cpu[process.pid] = times.user + times.system
        self._peak = max(self._peak, memory / (1 << 20))

    def _watch(self) -> None:
        while not self._done.wait(0.2):
            self._look()


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:5]))
