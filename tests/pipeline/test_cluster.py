"""Jobs on a cluster that has nothing of ours but the archive that is shipped, and over Spark Connect.

CLUSTER_FILES is the number of files that the killed job compares.
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

from activemq_fleet.pipeline.audit import audit
from activemq_fleet.pipeline.drift.job import drift
from activemq_fleet.pipeline.pack import pack
from activemq_fleet.pipeline.plan.job import Options, plan
from activemq_fleet.pipeline.plan.sources import source_of
from tests.pipeline import clusters
from tests.pipeline.clusters import Cluster, cluster
from tests.pipeline.collected import Fleet
from tests.unit.pipeline.planned import lines, pairs

_LINE = "2026-11-21 05:22:{0:02d},001 | INFO  | Slave stopped {0} | org.apache.activemq.broker.BrokerService | main\n"
FILES = int(os.environ.get("CLUSTER_FILES", "600"))
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
    archive = pack(place / "env.tar.gz", clusters.python_prefix()).archive
    with cluster(place) as running:
        yield Jobs(running, archive, place)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Hosts enough for many small tasks, one of them changed by hand."""
    place = tmp_path_factory.mktemp("fleet")
    fleet = Fleet(place / "planned", place / "found")
    for number in range(FILES // 3):
        fleet.host(f"host{number}")
    (fleet.found / "host0/configuration/conf/activemq.xml").write_text("<broker name='mine'/>\n")
    fleet.tell("host0", "conf/activemq.xml", status="changed")
    return fleet


@pytest.fixture(scope="module")
def expected(spark: SparkSession, fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The rows that this machine alone comes to."""
    out = tmp_path_factory.mktemp("local") / "out"
    drift(spark, str(fleet.planned), str(fleet.found), str(out))
    return rows_hash(out, "drift")


def _drift(fleet: Fleet, out: Path) -> list[str]:
    return ["drift", "--planned", str(fleet.planned), "--found", str(fleet.found), "-o", str(out)]


def rows_hash(out: Path, *datasets: str) -> str:
    """sha256 of the sorted rows of datasets, of which at least the first has some."""
    digest = hashlib.sha256()
    for name in datasets:
        rows = sorted(json.dumps(row, default=str, sort_keys=True) for row in pq.read_table(out / name).to_pylist())
        assert rows or name != datasets[0]
        digest.update("\n".join([name, *rows]).encode())
    return digest.hexdigest()


def test_a_worker_sees_nothing_of_the_checkout(jobs: Jobs) -> None:
    if not clusters.can_hide():
        pytest.skip("this user may not mount: the workers' variables are empty, but the checkout can be seen")
    for worker in jobs.cluster.workers:
        (java,) = (one.pid for one in _family(worker.pid) if one.name() == "java")
        assert not any(Path(f"/proc/{java}/root{clusters.CHECKOUT}").iterdir())
        assert "PYTHONPATH" not in psutil.Process(java).environ()


def test_without_the_archive_the_line_says_what_to_do(jobs: Jobs, fleet: Fleet, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "activemq_fleet", *_drift(fleet, tmp_path / "out"), "--master", jobs.cluster.url]
    words += ["--conf", "spark.executor.memory=512m"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    # Which of the two it is depends on whether this user may hide the checkout from the workers.
    assert "the workers cannot run Python" in line or "on the workers has no module" in line
    assert "activemq-fleet pack" in line
    assert not (tmp_path / "out").exists()


def test_plan_comes_to_the_same_rows(jobs: Jobs, spark: SparkSession, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.jsonl"
    hosts.write_text(lines(pairs("north-mq01", "north-mq02", "south-mq01"), {}))
    done = jobs.run("plan", "--hosts", str(hosts), "-o", str(tmp_path / "out"))
    assert done.returncode in (0, 1), done.stderr
    source = source_of(spark, str(hosts))
    plan(spark, source, str(tmp_path / "here"), Options(), tell=lambda _: None, warn=lambda _: None)
    datasets = ("brokers", "links", "findings", "files")
    assert rows_hash(tmp_path / "out", *datasets) == rows_hash(tmp_path / "here", *datasets)


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


def test_a_lost_worker_changes_no_row(jobs: Jobs, fleet: Fleet, expected: str, tmp_path: Path) -> None:
    log = tmp_path / "events"
    command = jobs.command(*_drift(fleet, tmp_path / "out"), log=log)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        victim = _first_that_shuffles(jobs.cluster, job)
        killed = jobs.cluster.kill(victim)
        said = job.communicate(timeout=_PATIENCE)
    number = jobs.cluster.workers.index(victim)
    jobs.cluster.workers.remove(victim)
    jobs.cluster.add_worker(number + 2)
    assert job.returncode == 1, said
    assert len(killed) >= 2, "the worker's executor was to die with it"
    assert rows_hash(tmp_path / "out", "drift") == expected
    events = _events(log)
    assert [event for event in events if event["Event"] == "SparkListenerExecutorRemoved"]
    assert _ran_twice(events), "no task was run again: the worker was killed too late"


def test_all_of_it_runs_over_connect(jobs: Jobs, fleet: Fleet, expected: str, tmp_path: Path) -> None:
    url = jobs.cluster.start_connect(f"spark.master={jobs.cluster.url}", "spark.executor.memory=512m")
    done = jobs.run(*_drift(fleet, tmp_path / "out"), where=("--remote", url))
    assert done.returncode == 1, done.stderr
    assert done.stderr == ""
    assert rows_hash(tmp_path / "out", "drift") == expected


def _family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def _first_that_shuffles(running: Cluster, job: subprocess.Popen[str]) -> Any:
    """The worker whose executor has written the first file of a shuffle."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end and job.poll() is None:
        for worker in running.workers:
            with suppress(FileNotFoundError):  # what is looked through comes and goes
                if any(running.local_of(worker).rglob("shuffle_*.data")):
                    return worker
        time.sleep(0.02)
    raise AssertionError(
        f"no shuffle was seen: {job.communicate() if job.poll() is not None else 'the job still runs'}"
    )


def _events(log: Path) -> list[dict[str, Any]]:
    (file,) = log.iterdir()
    return [json.loads(line) for line in file.read_text().splitlines()]


def _ran_twice(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tasks that began although they had begun before: by attempt, or in a later attempt of their stage."""
    starts = [event for event in events if event["Event"] == "SparkListenerTaskStart"]
    return [event for event in starts if event["Task Info"]["Attempt"] > 0 or event["Stage Attempt ID"] > 0]
