"""Sessions in separate processes, as a user starts them: their output, exit codes and remaining files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from tests.pipeline import clusters
from tests.situations import further
from tests.waiting import wait_until

_PATIENCE = 800.0
_SMALL = {
    "spark.driver.memory": "600m",
    "spark.driver.extraJavaOptions": clusters.QUICK,
    "spark.sql.shuffle.partitions": "2",
}

# A job that writes rows with a configurable pause per batch, run like a command of a user.
_JOB = f"""
import sys
from activemq_fleet.cli.error_lines import run_and_print_errors
from activemq_fleet.spark.session import SessionOptions, temporary_spark_session

def slow(batches):
    import time
    for batch in batches:
        yield batch
        time.sleep(float(sys_argv[2]))

sys_argv = sys.argv

def job():
    with temporary_spark_session("test", SessionOptions(master="local[2]", conf={_SMALL})) as spark:
        from pyspark.sql import functions as sf
        from activemq_fleet.spark.datasets import SCHEMAS, AtomicJobOutput
        columns = SCHEMAS["drift"].names
        with AtomicJobOutput(spark, sys.argv[1], "drift") as output:
            rows = spark.range(int(sys.argv[3])).repartition(2)
            text = sf.sha2(sf.col("id").cast("string"), 512)
            long = [sf.concat(text, sf.lit(column)).alias(column) for column in columns]
            frame = rows.mapInArrow(slow, "id long").select(*long)
            output.write_dataset("drift", frame, ordered=True)
            output.commit()
    return 0

sys.exit(run_and_print_errors(job))
"""


def _start(
    out: Path, *, seconds: float = 0, rows: int = 10, before: tuple[str, ...] = (), **variables: str
) -> subprocess.Popen[str]:
    environment = {**os.environ, **variables}
    command = [*before, sys.executable, "-c", _JOB, str(out), str(seconds), str(rows)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )


def _wait_for_end(job: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = job.communicate(timeout=_PATIENCE)
    return job.returncode, out, err


def test_spark_job_prints_nothing_and_removes_temporary_files(tmp_path: Path) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    assert _wait_for_end(_start(tmp_path / "out", TMPDIR=str(scratch))) == (0, "", "")
    _wait_until_empty(scratch)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "tmp"]


def test_killed_spark_job_keeps_earlier_output_and_next_job_cleans_up(tmp_path: Path) -> None:
    scratch, output_directory = tmp_path / "tmp", tmp_path / "out"
    scratch.mkdir()
    output_directory.mkdir()
    (output_directory / "manifest.json").write_text(
        '{"made_by": "activemq-fleet", "kind": "drift", "contents": ["drift"]}'
    )
    (output_directory / "drift").mkdir()
    (output_directory / "drift" / "earlier").write_text("")
    job = _start(output_directory, seconds=3600, TMPDIR=str(scratch))
    wait_until(
        lambda: any((tmp_path / "out.staged").glob("drift/_temporary/**/*.parquet")) or job.poll() is not None,
        "the job writes",
        patience=_PATIENCE,
        expected_errors=(FileNotFoundError,),  # files disappear during the search
    )
    assert job.poll() is None, job.communicate()
    children = psutil.Process(job.pid).children(recursive=True)
    job.send_signal(signal.SIGKILL)
    job.communicate(timeout=_PATIENCE)
    assert psutil.wait_procs(children, timeout=120)[1] == [], "the job did not end all of its processes"
    assert (output_directory / "drift" / "earlier").exists()
    assert list(scratch.iterdir()) != []

    assert _wait_for_end(_start(output_directory, TMPDIR=str(scratch)))[0] == 0
    assert not (output_directory / "drift" / "earlier").exists()
    assert not (tmp_path / "out.staged").exists()
    _wait_until_empty(scratch)


def test_killed_java_of_spark_job_is_reported_in_one_line(tmp_path: Path) -> None:
    job = _start(tmp_path / "out", seconds=3600)
    wait_until(
        lambda: any((tmp_path / "out.staged").glob("drift/_temporary/**/*.parquet")) or job.poll() is not None,
        "the job writes",
        patience=_PATIENCE,
        expected_errors=(FileNotFoundError,),  # files disappear during the search
    )
    (java,) = (process for process in psutil.Process(job.pid).children(recursive=True) if process.name() == "java")
    java.kill()
    exit_code, _, err = _wait_for_end(job)
    assert exit_code == 2
    (line,) = err.splitlines()
    assert "Java was killed by signal 9 in the middle of the job" in line


@pytest.mark.parametrize("full", ["out", *further("tmp")])
def test_full_disk_of_spark_job_is_reported_in_one_line(tmp_path: Path, full: str) -> None:
    if not clusters.can_hide_checkout():
        pytest.skip("this user may not mount file systems, and the test requires a small one: run it as root")
    for name in ("out", "tmp"):
        (tmp_path / name).mkdir()
    mount_command = f"mount -t tmpfs -o size=4m none '{tmp_path / full}' && exec \"$@\""
    command_before = ("unshare", "--mount", "--map-root-user", "sh", "-c", mount_command, "sh")
    # Only the numbers of rows are transferred between tasks, and they compress well.
    row_count = {"out": 100_000, "tmp": 8_000_000}[full]
    exit_code, _, err = _wait_for_end(
        _start(tmp_path / "out" / "result", rows=row_count, before=command_before, TMPDIR=str(tmp_path / "tmp"))
    )
    assert exit_code == 2
    (line,) = err.splitlines()
    assert "the disk is full" in line
    assert ("Spark cannot write temporary files in" in line) == (full == "tmp")


def test_other_python_on_spark_workers_is_reported_in_one_line(tmp_path: Path) -> None:
    other_python = _another_python()
    if other_python is None:
        pytest.skip("this machine has only one version of Python: install another version to run the test")
    exit_code, _, err = _wait_for_end(_start(tmp_path / "out", PYSPARK_PYTHON=other_python))
    assert exit_code == 2
    (line,) = err.splitlines()
    assert "the Spark workers run Python 3." in line
    assert "activemq-fleet pack" in line


def test_local_spark_driver_listens_only_on_loopback(spark: SparkSession) -> None:
    spark.range(1).count()
    listening_sockets = []
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # Spark stops idle workers
            listening_sockets += [
                connection for connection in process.net_connections("inet") if connection.status == psutil.CONN_LISTEN
            ]
    assert listening_sockets, "the driver must listen at least for its Python process, but no socket listens"
    assert {connection.laddr.ip.removeprefix("::ffff:") for connection in listening_sockets} <= {"127.0.0.1", "::1"}


def _another_python() -> str | None:
    """Return a working Python of another version, or None."""
    for minor in (10, 12, 13, 9, 14):
        names = [
            shutil.which(f"python3.{minor}"),
            *map(str, Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python")),
        ]
        for name in filter(None, names):
            probe = subprocess.run(
                [name, "-c", "import sys; print(sys.version_info[1])"], capture_output=True, check=False
            )
            if minor != sys.version_info.minor and probe.stdout.strip() == str(minor).encode():
                return name
    return None


def _wait_until_empty(scratch: Path) -> None:
    """Wait until a directory is empty, because Java can remove its files shortly after the job ends."""
    wait_until(lambda: not any(scratch.iterdir()), "the directory is empty", seen=lambda: list(scratch.rglob("*")))
