"""Tests of the command ``audit`` on logs of fleets with problems, and of healthy fleets of each release line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.pipeline.clusters import QUICK
from tests.support.recorded_logs import LOGS, read_log

EXPECTED = {
    ("blocked_producers", "order-mq07-a"),
    ("breaking_bridge", "mill-mq01-a"),
    ("failing_start", "claims-mq01-a"),
    ("link_down", "news-mq01-a"),
    ("link_down", "rail-mq01-a"),
    ("lost_spool", "ledger-mq01-a"),
    ("out_of_memory", "deep"),
    ("out_of_memory", "heap-mq01-a"),
    ("outage", "dock-mq01-a"),
    ("outage", "yard-mq01-a"),
    ("refused_frames", "mill-mq02-a"),
    ("refused_rights", "pick-mq01-a"),
    ("store_error", "vault-mq01-a"),
}
EXCLUDED_CASES = (
    "frame-limit-wedge",
    "max-uncommitted-network",
    "max-uncommitted-network-real",
    "shared-tmp-storage-real",
)
"""Cases whose hosts have the same names as hosts of other cases."""
DEEP = "2026-03-01 10:00:00,000 | ERROR | Error in thread 'x' | org.apache.activemq.thread.TaskRunnerFactory | x\n"
DEEP += "java.lang.RuntimeException: x\n" + "\tat org.apache.activemq.Frob.frob(Frob.java:7)\n" * 90
DEEP += "Caused by: java.lang.OutOfMemoryError: Metaspace\n"
"""A stack trace in which the cause is one of the last lines."""
UNKNOWN = "2026-03-01 10:00:00,000 | ERROR | The frobnicator failed | org.apache.activemq.Frob | main\n"


def run_audit(logs: Path, out: Path) -> tuple[int, str]:
    """Run the command on a directory of logs; return its exit code and its output."""
    command = [sys.executable, "-m", "activemq_fleet", "audit", "--logs", str(logs), "-o", str(out)]
    command += ["--conf", f"spark.driver.extraJavaOptions={QUICK}", "--conf", "spark.driver.memory=1g"]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert process.returncode in (0, 1), process.stderr
    return process.returncode, process.stdout


def write_log(recorded: Path, place: Path) -> None:
    place.mkdir(parents=True)
    (place / "activemq.log").write_bytes(read_log(recorded))


def read_rows(out: Path, dataset: str) -> list[dict[str, Any]]:
    dataset_rows: list[dict[str, Any]] = pq.read_table(out / dataset).to_pylist()
    return dataset_rows


@pytest.mark.timeout(700)
def test_audit_of_fleets_with_problems_reports_each_problem(tmp_path: Path) -> None:
    for case in (path for path in (LOGS / "cases").iterdir() if path.name not in EXCLUDED_CASES):
        for host in case.iterdir():
            write_log(host, tmp_path / "logs" / host.name)
    for name, log in (("frob", UNKNOWN), ("deep", DEEP)):
        (tmp_path / "logs" / name).mkdir()
        (tmp_path / "logs" / name / "activemq.log").write_text(log)

    exit_code, printed = run_audit(tmp_path / "logs", tmp_path / "out")

    incidents = {(row["kind"], row["host"]): row for row in read_rows(tmp_path / "out", "incidents")}
    assert exit_code == 1
    assert set(incidents) == EXPECTED
    assert "max allowed 10 MB" in incidents["breaking_bridge", "mill-mq01-a"]["cause"]
    assert "dock-mq01-b" in incidents["outage", "dock-mq01-a"]["cause"]
    assert [row["host"] for row in read_rows(tmp_path / "out", "bridges") if row["state"] == "failed"] == [
        "news-mq01-a"
    ]
    summary = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert [(row["host"], row["level"], row["count"]) for row in summary["unexplained"]] == [("frob", "ERROR", 1)]
    assert "others     1 unexplained warning or error" in printed
    assert "frob: 1 × ERROR “The frobnicator failed”" in printed
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Unexplained warnings and errors" in page
    assert "1 unexplained warning or error" in page


@pytest.mark.timeout(700)
def test_audit_of_healthy_fleets_through_planned_failovers_is_clean(tmp_path: Path) -> None:
    for release in (LOGS / "healthy").iterdir():
        for host in release.iterdir():
            place = tmp_path / "logs" / f"{release.name}-{host.name}"
            write_log(host, place)
            pair = f"{release.name}-{host.name.removesuffix('-a').removesuffix('-b')}"
            facts = {"host": place.name, "timezone": "UTC", "pair": pair, "release": release.name}
            (place / "host.json").write_text(json.dumps(facts))
            work = {"v": 1, "run": "1f0c", "operation": "drill", "by": "ops@controller", "host": place.name}
            times = (("begin", "2026-11-27T00:00:00Z"), ("end", "2026-11-29T00:00:00Z"))
            lines = [json.dumps({**work, "kind": kind, "ts": at}) for kind, at in times]
            (place / "operations.jsonl").write_text("\n".join([*lines, ""]))

    exit_code, printed = run_audit(tmp_path / "logs", tmp_path / "out")

    assert {row["kind"] for row in read_rows(tmp_path / "out", "incidents")} == {"takeover"}
    assert "unexplained" not in printed
    assert (exit_code, printed.split()[1]) == (0, "clean"), printed


START = "2026-03-01 {}:00,000 | INFO  | {} | org.apache.activemq.{} | main\n"
CHOSEN = "Using Persistence Adapter: KahaDBPersistenceAdapter[/srv/kahadb]"
WAITS = "Database /srv/kahadb/lock is locked by another server. This broker is now in slave mode waiting a lock"
WAITS += " to be acquired"


@pytest.mark.timeout(700)
def test_audit_reads_states_of_brokers_at_time_of_collection(tmp_path: Path) -> None:
    service = "broker.BrokerService"
    active = START.format("10:00", CHOSEN, service)
    active += START.format("10:00", "Apache ActiveMQ 5.18.3 (silo, ID:a-1-1-0:1) started", service)
    standby = START.format("10:02", CHOSEN, service) + START.format("10:02", WAITS, "store.SharedFileLocker")
    for pair, state in (("silo-mq01", "stopped"), ("silo-mq02", "active")):
        for host, log, reported_state in ((f"{pair}-a", active, state), (f"{pair}-b", standby, "standby")):
            home = tmp_path / "logs" / host
            home.mkdir(parents=True)
            (home / "activemq.log").write_text(log)
            facts = {"timezone": "UTC", "pair": pair, "state": reported_state, "collected": "2026-03-01T12:00:00Z"}
            (home / "host.json").write_text(json.dumps(facts))

    exit_code, _ = run_audit(tmp_path / "logs", tmp_path / "out")

    incident_rows = read_rows(tmp_path / "out", "incidents")
    assert exit_code == 1
    assert [(row["kind"], row["pair"]) for row in incident_rows] == [("outage", "silo-mq01")]
