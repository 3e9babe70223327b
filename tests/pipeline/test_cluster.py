"""Jobs on a cluster that has nothing of ours but the archive that is shipped, and over Spark Connect.

CLUSTER_FILES is the number of files that the killed job compares. With CLUSTER=full an audit runs, too, a worker is
lost, and the jobs run over Spark Connect.
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
FULL = pytest.mark.skipif(os.environ.get("CLUSTER") != "full", reason="a minute more each: CLUSTER=full")
_PATIENCE = 840.0


@dataclass
class Jobs:
    """Starts our command line as a user would, against a cluster."""

    cluster: Cluster
    archive: Path
    place: Path

    def command(self, *words: str, where: Sequence[str] = (), log: Path | None = None) -> list[str]:
        """``activemq-fleet WORDS`` on the cluster, with the packed environment."""
        place = where or ("--master", self.cluster.url)
        settings = []
        if not where:
            settings = ["spark.executor.memory=512m", "spark.sql.shuffle.partitions=4", "spark.driver.memory=600m"]
            settings += [f"spark.{one}.extraJavaOptions={clusters.QUICK}" for one in ("driver", "executor")]
        if log is not None:
            log.mkdir()
            settings += ["spark.eventLog.enabled=true", f"spark.eventLog.dir=file://{log}"]
            settings += ["spark.eventLog.compress=false", "spark.eventLog.rolling.enabled=false"]
            settings += ["spark.sql.files.minPartitionNum=24"]
        confs = [word for setting in settings for word in ("--conf", setting)]
        return [
            sys.executable,
            "-m",
            "activemq_fleet",
            *words,
            *place,
            "--archives",
            f"{self.archive}#environment",
            *confs,
        ]

    def run(self, *words: str, where: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        command = self.command(*words, where=where)
        return subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    place = tmp_path_factory.mktemp("cluster")
    archive = pack_activemq_fleet_environment(place / "env.tar.gz", clusters.python_prefix()).archive
    with cluster(place) as running:
        yield Jobs(running, archive, place)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Hosts enough for many small tasks, one of them changed by hand."""
    place = tmp_path_factory.mktemp("fleet")
    fleet = Fleet(place / "planned", place / "found")
    for number in range(FILES // 3):
        fleet.host(f"host{number}")
    (fleet.collected / "host0/configuration/conf/activemq.xml").write_text("<broker name='mine'/>\n")
    fleet.record_status("host0", "conf/activemq.xml", status="changed")
    return fleet


@pytest.fixture(scope="module")
def expected(spark: SparkSession, fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The rows that this machine alone comes to."""
    out = tmp_path_factory.mktemp("local") / "out"
    report_drift(spark, str(fleet.planned), str(fleet.collected), str(out))
    return rows_hash(out, "drift")


def _drift(fleet: Fleet, out: Path) -> list[str]:
    return ["drift", "--planned", str(fleet.planned), "--found", str(fleet.collected), "-o", str(out)]


def rows_hash(out: Path, *datasets: str) -> str:
    """sha256 of the sorted rows of datasets, of which at least the first has some."""
    digest = hashlib.sha256()
    for name in datasets:
        rows = sorted(json.dumps(row, default=str, sort_keys=True) for row in pq.read_table(out / name).to_pylist())
        assert rows or name != datasets[0]
        digest.update("\n".join([name, *rows]).encode())
    return digest.hexdigest()


def test_a_worker_sees_nothing_of_the_checkout(jobs: Jobs) -> None:
    if not clusters.can_hide_checkout():
        pytest.skip("this user may not mount: the workers' variables are empty, but the checkout can be seen")
    for worker in jobs.cluster.workers:
        (java,) = (one.pid for one in _family(worker.pid) if clusters.WORKER in _words(one))
        assert not any(Path(f"/proc/{java}/root{clusters.CHECKOUT}").iterdir())
        assert "PYTHONPATH" not in psutil.Process(java).environ()


@in_every_situation
def test_without_the_archive_the_line_says_what_to_do(jobs: Jobs, fleet: Fleet, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "activemq_fleet", *_drift(fleet, tmp_path / "out"), "--master", jobs.cluster.url]
    words += ["--conf", "spark.executor.memory=512m"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    # Which of the two it is depends on whether this user may hide the checkout from the workers.
    assert "the Spark workers cannot run the Python" in line or "on the Spark workers has no module" in line
    assert "activemq-fleet pack" in line
    assert not (tmp_path / "out").exists()


def test_plan_comes_to_the_same_rows(jobs: Jobs, spark: SparkSession, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.jsonl"
    hosts.write_text(inventory_json_lines(pairs("north-mq01", "north-mq02", "south-mq01"), {}))
    done = jobs.run("plan", "--hosts", str(hosts), "-o", str(tmp_path / "out"))
    assert done.returncode in (0, 1), done.stderr
    source = read_hosts(spark, str(hosts))
    plan(spark, source, str(tmp_path / "here"), PlanJobOptions(), tell=lambda _: None, warn=lambda _: None)
    datasets = ("brokers", "links", "findings", "files")
    assert rows_hash(tmp_path / "out", *datasets) == rows_hash(tmp_path / "here", *datasets)


@FULL
def test_audit_comes_to_the_same_rows(jobs: Jobs, spark: SparkSession, tmp_path: Path) -> None:
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
    done = jobs.run("audit", "--logs", str(tmp_path / "logs"), "-o", str(tmp_path / "out"))
    assert done.returncode in (0, 1), done.stderr
    audit(spark, str(tmp_path / "logs"), str(tmp_path / "here"))
    datasets = ("events", "incidents", "bridges", "messages", "deliveries")
    assert rows_hash(tmp_path / "out", *datasets) == rows_hash(tmp_path / "here", *datasets)


@FULL
@pytest.mark.timeout(4 * _PATIENCE)
def test_a_lost_worker_changes_no_row(jobs: Jobs, fleet: Fleet, expected: str, tmp_path: Path) -> None:
    """Where this process had no processor at the time, the worker is killed too late, and the next job is tried."""
    for attempt in range(3):
        out, log = tmp_path / f"out{attempt}", tmp_path / f"events{attempt}"
        killed = _run_and_kill(jobs, jobs.command(*_drift(fleet, out), log=log))
        assert rows_hash(out, "drift") == expected
        events = _events(log)
        if len(killed) > 1 and _ran_twice(events):
            assert [event for event in events if event["Event"] == "SparkListenerExecutorRemoved"]
            return
    raise LateError("no task was run again: the worker was killed too late")


def _run_and_kill(jobs: Jobs, command: Sequence[str]) -> list[int]:
    """Run a job to its end, and kill a worker as soon as its executor has written for a shuffle; what was killed."""
    # What jobs before have left goes some time after their ends.
    before = set(_shuffled(jobs.cluster))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        victim = _first_that_shuffles(jobs.cluster, job, before)
        killed = jobs.cluster.kill(victim) if victim else []
        said = job.communicate(timeout=_PATIENCE)
    if victim:
        jobs.cluster.workers.remove(victim)
        jobs.cluster.add_worker(jobs.cluster.started)
    assert job.returncode == 1, (said, jobs.cluster.last_output())
    return killed


@FULL
def test_all_of_it_runs_over_connect(jobs: Jobs, fleet: Fleet, expected: str, tmp_path: Path) -> None:
    with jobs.cluster.connect(f"spark.master={jobs.cluster.url}", "spark.executor.memory=512m") as url:
        done = jobs.run(*_drift(fleet, tmp_path / "out"), where=("--remote", url))
    assert done.returncode == 1, (done.stderr, jobs.cluster.last_output())
    assert done.stderr == ""
    assert rows_hash(tmp_path / "out", "drift") == expected


@FULL
def test_plan_over_connect_comes_to_the_same_rows(jobs: Jobs, spark: SparkSession, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.jsonl"
    hosts.write_text(inventory_json_lines(pairs("north-mq01", "north-mq02", "south-mq01"), {}))
    with jobs.cluster.connect(f"spark.master={jobs.cluster.url}", "spark.executor.memory=512m") as url:
        for _ in ("anew", "with an earlier output"):
            done = jobs.run("plan", "--hosts", str(hosts), "-o", str(tmp_path / "out"), where=("--remote", url))
            assert done.returncode in (0, 1), (done.stderr, jobs.cluster.last_output())
    source = read_hosts(spark, str(hosts))
    plan(spark, source, str(tmp_path / "here"), PlanJobOptions(), tell=lambda _: None, warn=lambda _: None)
    datasets = ("brokers", "links", "findings", "files", "components")
    assert rows_hash(tmp_path / "out", *datasets) == rows_hash(tmp_path / "here", *datasets)


def _family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def _words(process: psutil.Process) -> list[str]:
    with suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []


def _first_that_shuffles(running: Cluster, job: subprocess.Popen[str], before: set[Path]) -> Any:
    """The worker whose executor has written the first file of a shuffle, or None when the job ended unseen."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        for file, worker in _shuffled(running).items():
            if file not in before:
                return worker
        if job.poll() is not None:
            return None
        time.sleep(0.02)
    job.kill()
    raise LateError(f"no shuffle was seen in {_PATIENCE:g} s: {job.communicate()}, {running.last_output()}")


def _shuffled(running: Cluster) -> dict[Path, Any]:
    """The files that shuffles have written, and the worker of each."""
    found: dict[Path, Any] = {}
    for worker in running.workers:
        with suppress(FileNotFoundError):  # what is looked through comes and goes
            found |= dict.fromkeys(running.local_of(worker).rglob("shuffle_*.data"), worker)
    return found


def _events(log: Path) -> list[dict[str, Any]]:
    (file,) = log.iterdir()
    return [json.loads(line) for line in file.read_text().splitlines()]


def _ran_twice(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tasks that began although they had begun before: by attempt, or in a later attempt of their stage."""
    starts = [event for event in events if event["Event"] == "SparkListenerTaskStart"]
    return [event for event in starts if event["Task Info"]["Attempt"] > 0 or event["Stage Attempt ID"] > 0]
