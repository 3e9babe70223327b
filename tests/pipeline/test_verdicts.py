"""Verdicts of seeded histories on Spark, against their truth."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from activemq_fleet.spark.deliveries import DeliveryVerdicts, judge_deliveries
from activemq_fleet.spark.journals import parse_journal
from activemq_fleet.spark.schemas import SCHEMAS
from activemq_fleet.spark.settings import temporary_settings
from tests.histories.damage import History, history

HISTORIES = int(os.environ.get("HISTORIES", "100"))
JOBS = 7
ONE_JOB_AN_ACTION = {"spark.sql.adaptive.enabled": "false"}
"""Adaptive execution makes a job of every shuffle. The cases by hand are settled with it."""
_LINES = pa.schema([("host", pa.string()), ("file", pa.string()), ("line", pa.int64()), ("value", pa.string())])
Units = dict[tuple[str, str], str]


def lines_of(spark: SparkSession, histories: list[History]) -> DataFrame:
    """All lines of all journals in one frame."""
    rows = [
        (*path.split("/", 1), number, line)
        for one in histories
        for path, lines in one.files.items()
        for number, line in enumerate(lines, 1)
    ]
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), _LINES, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(columns, schema=_LINES))


def units_of(deliveries: DataFrame) -> Units:
    table = deliveries.select("event_id", "subscriber", "verdict").toArrow().to_pydict()
    keys = list(zip(table["event_id"], table["subscriber"], strict=True))
    assert len(keys) == len(set(keys)), "a unit came twice"
    return dict(zip(keys, table["verdict"], strict=True))


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
    records: DataFrame
    verdicts: DeliveryVerdicts
    units: Units
    events: dict[str, str]
    jobs: int

    @property
    def truth(self) -> Units:
        return {key: verdict for one in self.histories for key, verdict in one.units.items()}


@pytest.fixture(scope="module")
def run(spark: SparkSession) -> Iterator[Run]:
    """All histories, settled together."""
    histories = [history(seed) for seed in range(HISTORIES)]
    records = parse_journal(lines_of(spark, histories)).persist()
    before = jobs_of(spark)
    with temporary_settings(spark, ONE_JOB_AN_ACTION):
        found = judge_deliveries(records)
        units = units_of(found.deliveries)
        table = found.messages.select("event_id", "verdict").toArrow().to_pydict()
    jobs = jobs_of(spark) - before
    assert len(set(table["event_id"])) == len(table["event_id"])
    events = dict(zip(table["event_id"], table["verdict"], strict=True))
    yield Run(histories, records, found, units, events, jobs)
    records.unpersist()


def test_units_have_the_verdicts_that_are_true(run: Run) -> None:
    assert differences(run.units, run.truth) == []


def test_events_have_the_worst_verdict_of_their_units(run: Run) -> None:
    truth = {event: verdict for one in run.histories for event, verdict in one.events.items()}

    assert {e: (v, truth.get(e)) for e, v in run.events.items() if truth.get(e) != v} == {}
    assert run.events.keys() == truth.keys()


def test_what_is_missing_of_journals_is_told(run: Run) -> None:
    told = {row.agent for row in run.verdicts.gaps.select("agent").distinct().collect()}
    harmed = {agent for one in run.histories for agent, places in one.gone.items() if places}
    no_journal = {
        agent for one in run.histories for agent in one.gone if not any(f.startswith(f"{agent}/") for f in one.files)
    }

    assert told - harmed == set()
    assert harmed - told <= no_journal


def test_datasets_have_their_columns(run: Run) -> None:
    assert run.verdicts.deliveries.schema.simpleString() == SCHEMAS["deliveries"].simpleString()
    assert run.verdicts.messages.schema.simpleString() == SCHEMAS["messages"].simpleString()


def test_all_histories_take_seven_jobs_of_spark(run: Run) -> None:
    assert run.jobs == JOBS
