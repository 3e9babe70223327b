"""Sessions as a user starts them: in a process of their own, whose output and end are looked at."""

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

# A job that writes rows as slowly as it is told, as a user's command would run it.
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
            long = [sf.concat(text, sf.lit(one)).alias(one) for one in columns]
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


def _ended(job: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = job.communicate(timeout=_PATIENCE)
    return job.returncode, out, err


def test_a_job_says_nothing_and_leaves_nothing_behind(tmp_path: Path) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    assert _ended(_start(tmp_path / "out", TMPDIR=str(scratch))) == (0, "", "")
    _wait_to_be_empty(scratch)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "tmp"]


def test_a_killed_run_leaves_the_earlier_result_and_the_next_one_tidies_up(tmp_path: Path) -> None:
    scratch, out = tmp_path / "tmp", tmp_path / "out"
    scratch.mkdir()
    out.mkdir()
    (out / "manifest.json").write_text('{"made_by": "activemq-fleet", "kind": "drift", "contents": ["drift"]}')
    (out / "drift").mkdir()
    (out / "drift" / "earlier").write_text("")
    job = _start(out, seconds=3600, TMPDIR=str(scratch))
    wait_until(
        lambda: any((tmp_path / "out.staged").glob("drift/_temporary/**/*.parquet")) or job.poll() is not None,
        "the job writes",
        patience=_PATIENCE,
        expected_errors=(FileNotFoundError,),  # what is looked through comes and goes
    )
    assert job.poll() is None, job.communicate()
    children = psutil.Process(job.pid).children(recursive=True)
    job.send_signal(signal.SIGKILL)
    job.communicate(timeout=_PATIENCE)
    assert psutil.wait_procs(children, timeout=120)[1] == [], "what the job had started must end with it"
    assert (out / "drift" / "earlier").exists()
    assert list(scratch.iterdir()) != []

    assert _ended(_start(out, TMPDIR=str(scratch)))[0] == 0
    assert not (out / "drift" / "earlier").exists()
    assert not (tmp_path / "out.staged").exists()
    _wait_to_be_empty(scratch)


def test_a_java_that_was_killed_is_one_line(tmp_path: Path) -> None:
    job = _start(tmp_path / "out", seconds=3600)
    wait_until(
        lambda: any((tmp_path / "out.staged").glob("drift/_temporary/**/*.parquet")) or job.poll() is not None,
        "the job writes",
        patience=_PATIENCE,
        expected_errors=(FileNotFoundError,),  # what is looked through comes and goes
    )
    (java,) = (one for one in psutil.Process(job.pid).children(recursive=True) if one.name() == "java")
    java.kill()
    code, _, err = _ended(job)
    assert code == 2
    (line,) = err.splitlines()
    assert "Java was killed by signal 9 in the middle of the job" in line


@pytest.mark.parametrize("full", ["out", *further("tmp")])
def test_a_full_disk_is_one_line(tmp_path: Path, full: str) -> None:
    if not clusters.can_hide_checkout():
        pytest.skip("this user may not mount a small disk")
    for name in ("out", "tmp"):
        (tmp_path / name).mkdir()
    small = f"mount -t tmpfs -o size=4m none '{tmp_path / full}' && exec \"$@\""
    before = ("unshare", "--mount", "--map-root-user", "sh", "-c", small, "sh")
    # Between tasks only the numbers of rows are moved, and they pack well.
    rows = {"out": 100_000, "tmp": 8_000_000}[full]
    code, _, err = _ended(_start(tmp_path / "out" / "result", rows=rows, before=before, TMPDIR=str(tmp_path / "tmp")))
    assert code == 2
    (line,) = err.splitlines()
    assert "the disk is full" in line
    assert ("Spark cannot write temporary files in" in line) == (full == "tmp")


def test_another_python_on_the_workers_is_one_line(tmp_path: Path) -> None:
    other = _another_python()
    if other is None:
        pytest.skip("there is only one Python on this machine")
    code, _, err = _ended(_start(tmp_path / "out", PYSPARK_PYTHON=other))
    assert code == 2
    (line,) = err.splitlines()
    assert "the Spark workers run Python 3." in line
    assert "activemq-fleet pack" in line


def test_nothing_listens_beyond_loopback(spark: SparkSession) -> None:
    spark.range(1).count()
    listening = []
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # Spark ends workers that have nothing to do
            listening += [one for one in process.net_connections("inet") if one.status == psutil.CONN_LISTEN]
    assert listening, "a driver listens at least for its own Python"
    assert {one.laddr.ip.removeprefix("::ffff:") for one in listening} <= {"127.0.0.1", "::1"}


def _another_python() -> str | None:
    """A Python of another version than this one, that runs."""
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


def _wait_to_be_empty(scratch: Path) -> None:
    """What the job's Java removes may go a moment after the job."""
    wait_until(lambda: not any(scratch.iterdir()), "nothing is left behind", seen=lambda: list(scratch.rglob("*")))
