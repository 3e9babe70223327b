"""Verdicts of seeded histories on Spark, compared with their known outcomes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from activemq_fleet.audit.journals import AgentJournalGap
from activemq_fleet.spark.datasets import AtomicJobOutput
from activemq_fleet.spark.deliveries import judge_and_write_event_deliveries, read_agent_event_journals
from activemq_fleet.spark.inputs import list_audit_inputs
from activemq_fleet.spark.schemas import arrow_schema_of
from activemq_fleet.spark.settings import temporary_settings
from tests.histories.damage import History, history
from tests.support.time_ranges import ANY_TIME

HISTORIES = int(os.environ.get("HISTORIES", "100"))
JOBS = 4
ONE_JOB_PER_ACTION = {"spark.sql.adaptive.enabled": "false"}
"""Adaptive execution runs a job per shuffle. test_verdicts_cases.py uses it."""
Units = dict[tuple[str, str], str]


def write_journals(root: Path, histories: list[History]) -> Path:
    """Write the journals of all histories, and return the directory."""
    for case in histories:
        for path, lines in case.files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text("".join(f"{line}\n" for line in lines))
    return root


def units_of(deliveries: list[dict[str, Any]]) -> Units:
    keys = [(row["event_id"], row["subscriber"]) for row in deliveries]
    assert len(keys) == len(set(keys)), "a delivery has two rows"
    return {(row["event_id"], row["subscriber"]): row["verdict"] for row in deliveries}


def differences(verdicts: Units, truth: Units) -> list[str]:
    """Return the first 10 differences as text."""
    keys = sorted(key for key in {*verdicts, *truth} if verdicts.get(key) != truth.get(key))
    return [f"{key}: the verdict is {verdicts.get(key)} instead of {truth.get(key)}" for key in keys[:10]]


def jobs_of(spark: SparkSession) -> int:
    """Return the number of jobs that Spark has started."""
    assert spark.sparkContext._jsc is not None
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


@dataclass(frozen=True)
class Run:
    histories: list[History]
    gaps: list[AgentJournalGap]
    deliveries: pa.Table
    messages: pa.Table
    jobs: int

    @property
    def truth(self) -> Units:
        return {key: verdict for case in self.histories for key, verdict in case.units.items()}

    @property
    def events(self) -> dict[str, str]:
        message_rows = self.messages.to_pylist()
        assert len({row["event_id"] for row in message_rows}) == len(message_rows)
        return {row["event_id"]: row["verdict"] for row in message_rows}


@pytest.fixture(scope="module")
def judged_run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Judge all histories together."""
    histories = [history(seed) for seed in range(HISTORIES)]
    directory = tmp_path_factory.mktemp("histories")
    inputs = list_audit_inputs(spark, str(write_journals(directory / "logs", histories)))
    jobs_before = jobs_of(spark)
    with temporary_settings(spark, ONE_JOB_PER_ACTION), AtomicJobOutput(spark, str(directory / "out")) as output:
        _, gaps = judge_and_write_event_deliveries(
            output, read_agent_event_journals(spark, output, inputs), ANY_TIME, None
        )
        output.commit()
    jobs = jobs_of(spark) - jobs_before
    deliveries, messages = (pq.read_table(directory / "out" / name) for name in ("deliveries", "messages"))
    return Run(histories, gaps, deliveries, messages, jobs)


def test_deliveries_of_events_have_correct_verdicts(judged_run: Run) -> None:
    assert differences(units_of(judged_run.deliveries.to_pylist()), judged_run.truth) == []


def test_events_have_worst_verdict_of_their_deliveries(judged_run: Run) -> None:
    truth = {event: verdict for case in judged_run.histories for event, verdict in case.events.items()}

    assert {e: (v, truth.get(e)) for e, v in judged_run.events.items() if truth.get(e) != v} == {}
    assert judged_run.events.keys() == truth.keys()


def test_missing_parts_of_event_journals_are_reported(judged_run: Run) -> None:
    reported_agents = {gap.agent for gap in judged_run.gaps}
    damaged_agents = {agent for case in judged_run.histories for agent, places in case.missing.items() if places}
    agents_without_journal = {
        agent
        for case in judged_run.histories
        for agent in case.missing
        if not any(f.startswith(f"{agent}/") for f in case.files)
    }

    assert reported_agents - damaged_agents == set()
    assert damaged_agents - reported_agents <= agents_without_journal


def test_datasets_of_verdicts_have_columns_of_schema(judged_run: Run) -> None:
    assert judged_run.deliveries.schema.remove_metadata() == arrow_schema_of("deliveries").remove_metadata()
    assert judged_run.messages.schema.remove_metadata() == arrow_schema_of("messages").remove_metadata()


def test_verdicts_of_all_histories_take_four_spark_jobs(judged_run: Run) -> None:
    assert judged_run.jobs == JOBS
