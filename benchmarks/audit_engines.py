"""Run an engine of ``benchmarks.audit``: python -m benchmarks.audit_engines ENGINE LOGS OUT REPORT."""

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
    """Run an engine, hash its output, and write its figures to the report."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with ResourceWatch() as watch:
        ENGINES[engine](logs, out, watch)
        figures = watch.usage()
    figures |= _hashes(out, full=engine in ("spark", "processes"))
    report.write_text(json.dumps(figures))


# -- the engines -------------------------------------------------------------------------------


def spark(logs: Path, out: Path, watch: ResourceWatch) -> None:
    """Run the log stage of ``audit``: list the files, parse them, and write the dataset."""
    from activemq_fleet.spark.audit_job import write_log_events_and_summarize_files
    from activemq_fleet.spark.datasets import AtomicJobOutput
    from activemq_fleet.spark.inputs import list_audit_inputs
    from activemq_fleet.spark.session import SessionOptions, temporary_spark_session

    with temporary_spark_session(
        "bench", SessionOptions(master="local[2]", conf={"spark.driver.memory": "1g"})
    ) as running:
        running.range(1).count()
        watch.ready()
        with AtomicJobOutput(running, str(out / "audit")) as output:
            write_log_events_and_summarize_files(running, output, list_audit_inputs(running, str(logs)))
            output.commit()
        watch.finished()


def processes(logs: Path, out: Path, watch: ResourceWatch) -> None:
    """Parse the logs in two processes, and write a Parquet file for each host."""
    watch.ready()
    hosts = sorted(path.parent for path in logs.glob("*/host.json"))
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(_convert_host, hosts, [out] * len(hosts), chunksize=1))
    watch.finished()


def _convert_host(host: Path, out: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from activemq_fleet.logs.event_batches import LogReleaseAndTimeZone, LogScanner

    host_record = json.loads((host / "host.json").read_text())
    writer = None
    for path in sorted(host.glob("activemq.log*")):
        scanner = LogScanner(LogReleaseAndTimeZone(host_record["release"], host_record["timezone"]))
        for batch in scanner.arrow_batches_of_log_records(path.read_bytes()):
            constants = {"host": host_record["host"], "file": path.name, "release": host_record["release"]}
            columns = {name: pa.repeat(pa.scalar(value), batch.num_rows) for name, value in constants.items()}
            table = pa.table(
                {**columns, **{name: batch.column(name) for name in batch.schema.names if name != "problem"}}
            )
            writer = writer or pq.ParquetWriter(out / f"{host.name}.parquet", table.schema, compression="zstd")
            writer.write_table(table)
    if writer:
        writer.close()


def polars(logs: Path, out: Path, watch: ResourceWatch) -> None:
    """Split each file at the dates, and each record with a regular expression, with Polars."""
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
        groups = records.select(pl.col("text").str.extract_groups(_RECORD).struct.rename_fields(names).alias("record"))
        table = groups.unnest("record").with_columns(host=pl.lit(path.parent.name), file=pl.lit(path.name))
        table.write_parquet(out / f"{path.parent.name}-{path.name}.parquet", compression="zstd")
    watch.finished()


def with_duckdb(logs: Path, out: Path, watch: ResourceWatch) -> None:
    """Split files and records in a single DuckDB query."""
    watch.ready()
    connection = duckdb.connect(config={"threads": 2})
    groups = ", ".join(f"'{name}'" for name in _SHARED)
    connection.execute(
        f"""COPY (
            WITH records AS (
                SELECT split_part(filename, '/', -2) AS host, split_part(filename, '/', -1) AS file,
                    '20' || unnest(string_split(chr(10) || rtrim(content, chr(10)), chr(10) || '20')[2:]) AS text
                FROM read_text('{logs}/{HOST_LOGS}')
            ), read AS (SELECT host, file, regexp_extract(text, ?, [{groups}]) AS record FROM records)
            SELECT host, file, record.* FROM read
        ) TO '{out}/events.parquet' (COMPRESSION zstd)""",  # noqa: S608 -- paths of the benchmark
        [_RECORD],
    )
    watch.finished()


ENGINES = {"spark": spark, "processes": processes, "polars": polars, "duckdb": with_duckdb}


# -- results and resources ---------------------------------------------------------------------


def _hashes(out: Path, *, full: bool) -> dict[str, Any]:
    """Return the number of rows, the hash of the columns that all engines write, and the hash of all columns."""
    text = ", ".join(f"coalesce({name}, '')" for name in _SHARED)
    rest = "line, end_line, epoch_us(time), kind, release, parsed, coalesce(fields::VARCHAR, '')"
    hash_of_all = f"sum(hash(host, file, {text}, {rest}))" if full else "NULL"
    result = duckdb.connect().execute(
        f"SELECT count(*), sum(hash(host, file, {text})), {hash_of_all} FROM read_parquet('{out}/**/*.parquet')"  # noqa: S608
    )
    rows, shared_hash, full_hash = result.fetchall()[0]
    return {"rows": rows, "shared": f"{int(shared_hash):x}"[-16:], "full": f"{int(full_hash):x}"[-16:] if full else ""}


class ResourceWatch:
    """Measure elapsed and CPU time since ``ready`` and the peak memory of this process and its children."""

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
        """Start the measured period."""
        self._sample()
        self._before, self._ready = sum(self._cpu.values()), time.perf_counter()

    def finished(self) -> None:
        """End the measured period."""
        self._finished = time.perf_counter()
        self._sample()

    def usage(self) -> dict[str, Any]:
        """Return the seconds of the work and of its start, the CPU seconds, and the peak MiB."""
        return {
            "seconds": self._finished - self._ready,
            "before": self._ready - self._began,
            "cpu": sum(self._cpu.values()) - self._before,
            "peak": self._peak,
        }

    def _sample(self) -> None:
        """Add up the resources of all processes; a terminated process counts with its last sample."""
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
            self._sample()


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:5]))
