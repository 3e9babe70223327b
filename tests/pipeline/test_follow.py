"""``audit --follow`` on Spark, which writes the same result as a batch even if it is killed while logs change."""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from activemq_fleet.errors import InputError
from activemq_fleet.spark.audit_job import audit
from activemq_fleet.spark.follow import STATE_DIRECTORY, rewrite_audit_after_log_changes
from activemq_fleet.spark.staging import staging_directory_of
from tests.pipeline.growing import LOST, RUN, WAIT, A, B, C, Fleet, Writer
from tests.situations import in_every_situation
from tests.waiting import LateError

KILLS = int(os.environ.get("FOLLOW_KILLS", "1"))
DATASETS = ("events", "incidents", "bridges", "messages", "deliveries")
# With so few rows, Spark would spend most of the time on the compilation of plans.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
SETTINGS = (
    "spark.driver.memory=1g",
    "spark.sql.shuffle.partitions=2",
    "spark.default.parallelism=2",
    # The process runs for seconds, so optimizing compilers would finish too late.
    "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    *(f"{name}={value}" for name, value in INTERPRETED.items()),
)
_PATIENCE = 1200  # seconds; the time limit of the test ends a hang


@pytest.fixture(autouse=True)
def interpreted_plans(spark: SparkSession) -> Iterator[None]:
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)
    yield
    for name in INTERPRETED:
        spark.conf.unset(name)


def dataset_rows(out: Path, name: str, *, final: bool = False) -> list[str]:
    """Return the rows of a dataset as sorted text, without the column ``final`` by default."""
    table = pq.read_table(out / name)
    if not final and "final" in table.column_names:
        table = table.drop_columns(["final"])
    return sorted(map(repr, table.to_pylist()))


def final_rows(out: Path, name: str) -> dict[str, dict[str, Any]]:
    """Return the final rows of a dataset by id."""
    all_rows = pq.read_table(out / name).to_pylist()
    return {row["incident" if name == "incidents" else "event_id"]: row for row in all_rows if row["final"]}


def summary_of(out: Path) -> Any:
    """Return the content of audit.json."""
    return json.loads((out / "audit.json").read_text())


@in_every_situation
@pytest.mark.timeout(900 + 300 * KILLS)  # sufficient for a busy machine
def test_randomly_killed_audit_stream_writes_same_result_as_batch(spark: SparkSession, tmp_path: Path) -> None:
    logs, output_directory = tmp_path / "logs", tmp_path / "out"
    fleet = Fleet(logs)
    writer = Writer(fleet, rounds=2 * KILLS + 2, pause=0.2, shares=KILLS + 1)
    chance = random.Random(os.environ.get("FOLLOW_SEED", "1"))
    writer.start()
    try:
        for _ in range(KILLS):
            writer.grant()
            run_and_kill(logs, output_directory, chance.uniform(0, 12))
        writer.grant()
        writer.join(_PATIENCE)
    finally:
        writer.stop_requested.set()
    assert writer.error is None
    assert not writer.is_alive()
    fleet.continue_after_a_week()
    rewrite_audit_after_log_changes(spark, str(logs), str(output_directory), until_idle=0)
    settled = {name: final_rows(output_directory, name) for name in ("incidents", "messages")}
    fleet.add_late_evidence()
    rewrite_audit_after_log_changes(spark, str(logs), str(output_directory), until_idle=0)
    for name, before in settled.items():
        changed = {key for key, row in before.items() if final_rows(output_directory, name).get(key) != row}
        assert 0 < len(changed) < len(before), f"late evidence must change some final rows of {name}: {changed}"
    audit(spark, str(logs), str(tmp_path / "batch"))
    for name in DATASETS:
        expected = dataset_rows(tmp_path / "batch", name)
        assert expected, f"the fleet has no {name}, so the test compares nothing: add evidence to the fleet"
        assert dataset_rows(output_directory, name) == expected, name
    assert {**summary_of(output_directory), "out": ""} == {**summary_of(tmp_path / "batch"), "out": ""}


def run_and_kill(logs: Path, out: Path, seconds: float) -> None:
    """Start the command, wait until it writes a result, and kill all of its processes some seconds later."""
    command = [sys.executable, "-m", "activemq_fleet", "audit", "--logs", str(logs), "-o", str(out), "--follow"]
    options = [word for setting in SETTINGS for word in ("--conf", setting)]
    staged = staging_directory_of(out)
    with (out.parent / "follow.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "--master", "local[2]", *options], stdout=log, stderr=log, start_new_session=True
        )
        try:
            wait_for(lambda: (staged / "events").exists() or process.poll() is not None)
            assert process.poll() is None, (out.parent / "follow.log").read_text()[-2000:]
            time.sleep(seconds)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(_PATIENCE)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise LateError(f"audit --follow did not begin an audit in {_PATIENCE} s: see follow.log")
        time.sleep(0.2)


def test_late_evidence_changes_only_audit_files_of_its_hosts(spark: SparkSession, tmp_path: Path) -> None:
    logs, output_directory = tmp_path / "logs", tmp_path / "out"
    fleet = Fleet(logs)
    fleet.describe(B, "orders", "orders-mq01")
    fleet.append_records(A, *RUN, LOST, "a line")
    fleet.append_records(C, *RUN)
    rewrite_audit_after_log_changes(spark, str(logs), str(output_directory), until_idle=0)
    assert {row["kind"]: row["final"] for row in incidents(output_directory)} == {"demotion": False}
    (part_of_c,) = parts_of(output_directory, C)

    fleet.append_records(B, RUN[0], WAIT, *RUN[1:], "a line")
    fleet.pass_minutes(20)
    fleet.append_records(A, "a line")
    fleet.append_records(B, "a line")
    rewrite_audit_after_log_changes(spark, str(logs), str(output_directory), until_idle=0)
    assert {row["kind"]: row["final"] for row in incidents(output_directory)} == {"demotion": True, "takeover": True}
    assert parts_of(output_directory, C) == [part_of_c]
    assert os.stat(output_directory / "events" / part_of_c).st_nlink == 2


def parts_of(out: Path, host: str) -> list[str]:
    """Return the names of the files of the dataset events that contain rows of a host."""
    return [
        path.name
        for path in (out / "events").glob("*.parquet")
        if host in pq.read_table(path, columns=["host"])["host"].to_pylist()
    ]


def incidents(out: Path) -> list[dict[str, Any]]:
    incident_rows: list[dict[str, Any]] = pq.read_table(out / "incidents").to_pylist()
    return incident_rows


def test_audit_follow_refuses_object_store_or_missing_directory(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="only directories on local or mounted file systems"):
        rewrite_audit_after_log_changes(spark, "s3a://logs/collected", str(tmp_path / "out"), until_idle=0)
    with pytest.raises(InputError, match="the directory does not exist"):
        rewrite_audit_after_log_changes(spark, str(tmp_path / "nowhere"), str(tmp_path / "out"), until_idle=0)


def test_audit_follow_refuses_directory_without_logs(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "logs" / "mq01a").mkdir(parents=True)
    with pytest.raises(InputError, match="this path contains no logs"):
        rewrite_audit_after_log_changes(spark, str(tmp_path / "logs"), str(tmp_path / "out"), until_idle=0)


def test_audit_follow_refuses_output_inside_of_logs(spark: SparkSession, tmp_path: Path) -> None:
    """Each audit would change the files that it follows, and so cause the next audit."""
    Fleet(tmp_path / "logs").append_records(A, *RUN)
    with pytest.raises(InputError, match="is inside the directory of logs"):
        rewrite_audit_after_log_changes(spark, str(tmp_path / "logs"), str(tmp_path / "logs" / "out"), until_idle=0)


def test_second_audit_follow_with_same_output_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    logs, output_directory = tmp_path / "logs", tmp_path / "out"
    Fleet(logs).append_records(A, *RUN)
    (output_directory / STATE_DIRECTORY).mkdir(parents=True)
    with (output_directory / STATE_DIRECTORY / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another run of audit --follow writes to this directory"):
            rewrite_audit_after_log_changes(spark, str(logs), str(output_directory), until_idle=0)
    rewrite_audit_after_log_changes(spark, str(logs), str(output_directory), until_idle=0)
    assert (output_directory / "audit.json").exists()
