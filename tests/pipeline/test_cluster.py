"""Jobs on a cluster that has only the packed environment of the project, and over Spark Connect.

CLUSTER_FILES is the number of files that the killed job compares. CLUSTER=full adds an audit, the loss of a worker,
and jobs over Spark Connect.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from activemq_fleet.spark.audit_job import audit
from activemq_fleet.spark.drift_job import report_drift
from activemq_fleet.spark.pack import pack_activemq_fleet_environment
from activemq_fleet.spark.plan_inputs import read_hosts
from activemq_fleet.spark.plan_job import PlanJobOptions, plan
from tests.pipeline import clusters
from tests.pipeline.clusters import Cluster, cluster
from tests.pipeline.collected import Fleet
from tests.situations import in_every_situation
from tests.unit.planning.planned import inventory_json_lines, pairs
from tests.waiting import LateError

_LINE = "2026-11-21 05:22:{0:02d},001 | INFO  | Slave stopped {0} | org.apache.activemq.broker.BrokerService | main\n"
FILES = int(os.environ.get("CLUSTER_FILES", "600"))
FULL = pytest.mark.skipif(
    os.environ.get("CLUSTER") != "full", reason="the test takes a minute: set CLUSTER=full to run it"
)
_PATIENCE = 840.0


@dataclass
class Jobs:
    """The command line as a user starts it, on a cluster."""

    cluster: Cluster
    archive: Path
    directory: Path

    def command(self, *words: str, location: Sequence[str] = (), log: Path | None = None) -> list[str]:
        """Return the command ``activemq-fleet WORDS`` for the cluster, with the packed environment."""
        cluster_options = location or ("--master", self.cluster.url)
        settings = []
        if not location:
            settings = ["spark.executor.memory=512m", "spark.sql.shuffle.partitions=4", "spark.driver.memory=600m"]
            settings += [f"spark.{process}.extraJavaOptions={clusters.QUICK}" for process in ("driver", "executor")]
        if log is not None:
            log.mkdir()
            settings += ["spark.eventLog.enabled=true", f"spark.eventLog.dir=file://{log}"]
            settings += ["spark.eventLog.compress=false", "spark.eventLog.rolling.enabled=false"]
            settings += ["spark.sql.files.minPartitionNum=24"]
        conf_options = [word for setting in settings for word in ("--conf", setting)]
        return [
            sys.executable,
            "-m",
            "activemq_fleet",
            *words,
            *cluster_options,
            "--archives",
            f"{self.archive}#environment",
            *conf_options,
        ]

    def run(self, *words: str, location: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        """Run the command until it ends."""
        command = self.command(*words, location=location)
        return subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    directory = tmp_path_factory.mktemp("cluster")
    archive = pack_activemq_fleet_environment(directory / "env.tar.gz", clusters.python_prefix()).archive
    with cluster(directory) as running_cluster:
        yield Jobs(running_cluster, archive, directory)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Return a fleet with enough hosts for many small tasks, and one host that was changed by hand."""
    directory = tmp_path_factory.mktemp("fleet")
    fleet = Fleet(directory / "planned", directory / "found")
    for number in range(FILES // 3):
        fleet.host(f"host{number}")
    (fleet.collected / "host0/configuration/conf/activemq.xml").write_text("<broker name='mine'/>\n")
    fleet.record_status("host0", "conf/activemq.xml", status="changed")
    return fleet


@pytest.fixture(scope="module")
def local_rows_hash(spark: SparkSession, fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the hash of the rows that the same job writes on this machine without the cluster."""
    output_directory = tmp_path_factory.mktemp("local") / "out"
    report_drift(spark, str(fleet.planned), str(fleet.collected), str(output_directory))
    return rows_hash(output_directory, "drift")


def _drift(fleet: Fleet, out: Path) -> list[str]:
    return ["drift", "--planned", str(fleet.planned), "--found", str(fleet.collected), "-o", str(out)]


def rows_hash(out: Path, *datasets: str) -> str:
    """Return the sha256 of the sorted rows of datasets, and assert that the first dataset has rows."""
    digest = hashlib.sha256()
    for name in datasets:
        row_jsons = sorted(
            json.dumps(row, default=str, sort_keys=True) for row in pq.read_table(out / name).to_pylist()
        )
        assert row_jsons or name != datasets[0]
        digest.update("\n".join([name, *row_jsons]).encode())
    return digest.hexdigest()


def test_spark_worker_of_test_cannot_read_checkout(jobs: Jobs) -> None:
    if not clusters.can_hide_checkout():
        pytest.skip("this user may not mount file systems, so the workers can read the checkout: run the test as root")
    for worker in jobs.cluster.workers:
        (java,) = (process.pid for process in _process_tree(worker.pid) if clusters.WORKER in _command_line(process))
        assert not any(Path(f"/proc/{java}/root{clusters.CHECKOUT}").iterdir())
        assert "PYTHONPATH" not in psutil.Process(java).environ()


@in_every_situation
def test_error_of_cluster_job_without_archive_names_command_pack(jobs: Jobs, fleet: Fleet, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "activemq_fleet", *_drift(fleet, tmp_path / "out"), "--master", jobs.cluster.url]
    words += ["--conf", "spark.executor.memory=512m"]
    process = subprocess.run(words, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    assert process.returncode == 2
    (line,) = process.stderr.splitlines()
    # The message depends on whether this user may hide the checkout from the workers.
    assert "the Spark workers cannot run the Python" in line or "on the Spark workers has no module" in line
    assert "activemq-fleet pack" in line
    assert not (tmp_path / "out").exists()


def test_plan_on_cluster_writes_same_rows_as_local_plan(jobs: Jobs, spark: SparkSession, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.jsonl"
    hosts.write_text(inventory_json_lines(pairs("north-mq01", "north-mq02", "south-mq01"), {}))
    process = jobs.run("plan", "--hosts", str(hosts), "-o", str(tmp_path / "out"))
    assert process.returncode in (0, 1), process.stderr
    source = read_hosts(spark, str(hosts))
    plan(spark, source, str(tmp_path / "local"), PlanJobOptions(), report_progress=lambda _: None, warn=lambda _: None)
    datasets = ("brokers", "links", "findings", "files")
    assert rows_hash(tmp_path / "out", *datasets) == rows_hash(tmp_path / "local", *datasets)


@FULL
def test_audit_on_cluster_writes_same_rows_as_local_audit(jobs: Jobs, spark: SparkSession, tmp_path: Path) -> None:
    for host in ("a-mq01-a", "a-mq01-b"):
        (tmp_path / "logs" / host / "agent").mkdir(parents=True)
        (tmp_path / "logs" / host / "activemq.log").write_text("".join(map(_LINE.format, range(60))))
        record = {
            "v": 1,
            "agent": host,
            "epoch": "e",
            "jseq": 1,
            "ts": "2026-11-21T05:22:44.000001Z",
            "kind": "started",
        }
        (tmp_path / "logs" / host / "agent" / "journal-1.jsonl").write_text(json.dumps(record) + "\n")
    process = jobs.run("audit", "--logs", str(tmp_path / "logs"), "-o", str(tmp_path / "out"))
    assert process.returncode in (0, 1), process.stderr
    audit(spark, str(tmp_path / "logs"), str(tmp_path / "local"))
    datasets = ("events", "incidents", "bridges", "messages", "deliveries")
    assert rows_hash(tmp_path / "out", *datasets) == rows_hash(tmp_path / "local", *datasets)


@FULL
@pytest.mark.timeout(4 * _PATIENCE)
def test_loss_of_spark_worker_changes_no_row_of_drift(
    jobs: Jobs, fleet: Fleet, local_rows_hash: str, tmp_path: Path
) -> None:
    """On a busy machine the worker can be killed too late; then the test tries another job."""
    for attempt in range(3):
        output_directory, log = tmp_path / f"out{attempt}", tmp_path / f"events{attempt}"
        killed_processes = _run_and_kill(jobs, jobs.command(*_drift(fleet, output_directory), log=log))
        assert rows_hash(output_directory, "drift") == local_rows_hash
        events = _spark_events(log)
        if len(killed_processes) > 1 and _repeated_tasks(events):
            assert [event for event in events if event["Event"] == "SparkListenerExecutorRemoved"]
            return
    raise LateError("no task was repeated in 3 attempts, because the worker was killed too late: run the test again")


def _run_and_kill(jobs: Jobs, command: Sequence[str]) -> list[int]:
    """Run a job, kill a worker as soon as its executor has written a shuffle file, and return the killed processes."""
    # Files of earlier jobs are removed some time after these jobs end.
    shuffle_files_before = set(_shuffle_files(jobs.cluster))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        victim = _first_shuffling_worker(jobs.cluster, job, shuffle_files_before)
        killed_processes = jobs.cluster.kill(victim) if victim else []
        output = job.communicate(timeout=_PATIENCE)
    if victim:
        jobs.cluster.workers.remove(victim)
        jobs.cluster.add_worker(jobs.cluster.started)
    assert job.returncode == 1, (output, jobs.cluster.last_output())
    return killed_processes


@FULL
def test_drift_over_spark_connect_writes_same_rows_as_local_drift(
    jobs: Jobs, fleet: Fleet, local_rows_hash: str, tmp_path: Path
) -> None:
    with jobs.cluster.connect(f"spark.master={jobs.cluster.url}", "spark.executor.memory=512m") as url:
        process = jobs.run(*_drift(fleet, tmp_path / "out"), location=("--remote", url))
    assert process.returncode == 1, (process.stderr, jobs.cluster.last_output())
    assert process.stderr == ""
    assert rows_hash(tmp_path / "out", "drift") == local_rows_hash


@FULL
def test_plan_over_spark_connect_writes_same_rows_as_local_plan(
    jobs: Jobs, spark: SparkSession, tmp_path: Path
) -> None:
    hosts = tmp_path / "hosts.jsonl"
    hosts.write_text(inventory_json_lines(pairs("north-mq01", "north-mq02", "south-mq01"), {}))
    with jobs.cluster.connect(f"spark.master={jobs.cluster.url}", "spark.executor.memory=512m") as url:
        for _ in ("without output", "with an earlier output"):
            process = jobs.run("plan", "--hosts", str(hosts), "-o", str(tmp_path / "out"), location=("--remote", url))
            assert process.returncode in (0, 1), (process.stderr, jobs.cluster.last_output())
    source = read_hosts(spark, str(hosts))
    plan(spark, source, str(tmp_path / "local"), PlanJobOptions(), report_progress=lambda _: None, warn=lambda _: None)
    datasets = ("brokers", "links", "findings", "files", "components")
    assert rows_hash(tmp_path / "out", *datasets) == rows_hash(tmp_path / "local", *datasets)


def _process_tree(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def _command_line(process: psutil.Process) -> list[str]:
    with suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []


def _first_shuffling_worker(running_cluster: Cluster, job: subprocess.Popen[str], before: set[Path]) -> Any:
    """Return the worker whose executor has written the first shuffle file, or None if the job ended before."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        for file, worker in _shuffle_files(running_cluster).items():
            if file not in before:
                return worker
        if job.poll() is not None:
            return None
        time.sleep(0.02)
    job.kill()
    raise LateError(
        f"the job wrote no shuffle file in {_PATIENCE:g} s: {job.communicate()}, {running_cluster.last_output()}"
    )


def _shuffle_files(running_cluster: Cluster) -> dict[Path, Any]:
    """Return the shuffle files, and the worker of each."""
    workers_by_file: dict[Path, Any] = {}
    for worker in running_cluster.workers:
        with suppress(FileNotFoundError):  # files disappear during the search
            workers_by_file |= dict.fromkeys(running_cluster.local_of(worker).rglob("shuffle_*.data"), worker)
    return workers_by_file


def _spark_events(log: Path) -> list[dict[str, Any]]:
    (file,) = log.iterdir()
    return [json.loads(line) for line in file.read_text().splitlines()]


def _repeated_tasks(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tasks that were started again, in a later attempt of the task or of its stage."""
    starts = [event for event in events if event["Event"] == "SparkListenerTaskStart"]
    return [event for event in starts if event["Task Info"]["Attempt"] > 0 or event["Stage Attempt ID"] > 0]
