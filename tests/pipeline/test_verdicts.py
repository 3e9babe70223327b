"""Verdicts of seeded histories on Spark, against their truth."""

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
ONE_JOB_AN_ACTION = {"spark.sql.adaptive.enabled": "false"}
"""Adaptive execution makes a job of every shuffle. The cases by hand are settled with it."""
Units = dict[tuple[str, str], str]


def laid_down(root: Path, histories: list[History]) -> Path:
    """The journals of all histories as files."""
    for one in histories:
        for path, lines in one.files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text("".join(f"{line}\n" for line in lines))
    return root


def units_of(deliveries: list[dict[str, Any]]) -> Units:
    keys = [(row["event_id"], row["subscriber"]) for row in deliveries]
    assert len(keys) == len(set(keys)), "a unit came twice"
    return {(row["event_id"], row["subscriber"]): row["verdict"] for row in deliveries}


def differences(found: Units, truth: Units) -> list[str]:
    """What differs, the first ten, as text to be read."""
    keys = sorted(key for key in {*found, *truth} if found.get(key) != truth.get(key))
    return [f"{key}: found {found.get(key)}, in truth {truth.get(key)}" for key in keys[:10]]


def jobs_of(spark: SparkSession) -> int:
    """How many jobs this Spark has begun so far."""
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
        return {key: verdict for one in self.histories for key, verdict in one.units.items()}

    @property
    def events(self) -> dict[str, str]:
        rows = self.messages.to_pylist()
        assert len({row["event_id"] for row in rows}) == len(rows)
        return {row["event_id"]: row["verdict"] for row in rows}


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All histories, settled together."""
    histories = [history(seed) for seed in range(HISTORIES)]
    place = tmp_path_factory.mktemp("histories")
    inputs = list_audit_inputs(spark, str(laid_down(place / "logs", histories)))
    before = jobs_of(spark)
    with temporary_settings(spark, ONE_JOB_AN_ACTION), AtomicJobOutput(spark, str(place / "out")) as output:
        _, gaps = judge_and_write_event_deliveries(
            output, read_agent_event_journals(spark, output, inputs), ANY_TIME, None
        )
        output.commit()
    jobs = jobs_of(spark) - before
    deliveries, messages = (pq.read_table(place / "out" / name) for name in ("deliveries", "messages"))
    return Run(histories, gaps, deliveries, messages, jobs)


def test_units_have_the_verdicts_that_are_true(run: Run) -> None:
    assert differences(units_of(run.deliveries.to_pylist()), run.truth) == []


def test_events_have_the_worst_verdict_of_their_units(run: Run) -> None:
    truth = {event: verdict for one in run.histories for event, verdict in one.events.items()}

    assert {e: (v, truth.get(e)) for e, v in run.events.items() if truth.get(e) != v} == {}
    assert run.events.keys() == truth.keys()


def test_what_is_missing_of_journals_is_told(run: Run) -> None:
    told = {gap.agent for gap in run.gaps}
    harmed = {agent for one in run.histories for agent, places in one.gone.items() if places}
    no_journal = {
        agent for one in run.histories for agent in one.gone if not any(f.startswith(f"{agent}/") for f in one.files)
    }

    assert told - harmed == set()
    assert harmed - told <= no_journal


def test_datasets_have_their_columns(run: Run) -> None:
    assert run.deliveries.schema.remove_metadata() == arrow_schema_of("deliveries").remove_metadata()
    assert run.messages.schema.remove_metadata() == arrow_schema_of("messages").remove_metadata()


def test_all_histories_take_four_jobs_of_spark(run: Run) -> None:
    assert run.jobs == JOBS
