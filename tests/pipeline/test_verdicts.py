"""Verdicts of seeded histories, against their truth and against a plain reference."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from activemq_fleet.spark import verdicts
from activemq_fleet.spark.schemas import SCHEMAS
from activemq_fleet.spark.settings import temporarily
from activemq_fleet.spark.verdicts import Settled, parse_journal, settled
from tests.pipeline.histories.damage import History, history
from tests.pipeline.histories.mutants import MUTANTS, Mutant, planted
from tests.pipeline.histories.reference import Fleet

HISTORIES = int(os.environ.get("HISTORIES", "100"))
PLANTED = int(os.environ.get("PLANTED_BUGS", "2"))
"""Bugs that are looked for: each costs a run of its own."""
MOST_JOBS = 10
ONE_JOB_AN_ACTION = {"spark.sql.adaptive.enabled": "false"}
"""Adaptive execution makes a job of every shuffle. The planted bugs and the cases by hand are settled with it."""
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


@contextmanager
def watched() -> Iterator[list[str]]:
    """The plans of everything that is computed meanwhile."""
    plans: list[str] = []
    kept = verdicts._kept

    def watching(frame: DataFrame) -> DataFrame:
        text = io.StringIO()
        with redirect_stdout(text):
            frame.explain()
        plans.append(text.getvalue())
        return kept(frame)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdicts, "_kept", watching)
        yield plans


@dataclass(frozen=True)
class Run:
    histories: list[History]
    records: DataFrame
    settled: Settled
    units: Units
    events: dict[str, str]
    plans: list[str]
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
    with temporarily(spark, ONE_JOB_AN_ACTION), watched() as plans:
        found = settled(records)
        units = units_of(found.deliveries)
        table = found.messages.select("event_id", "verdict").toArrow().to_pydict()
    jobs = jobs_of(spark) - before
    assert len(set(table["event_id"])) == len(table["event_id"])
    events = dict(zip(table["event_id"], table["verdict"], strict=True))
    yield Run(histories, records, found, units, events, plans, jobs)
    records.unpersist()


def test_units_have_the_verdicts_that_are_true(run: Run) -> None:
    assert differences(run.units, run.truth) == []


def test_events_have_the_worst_verdict_of_their_units(run: Run) -> None:
    truth = {event: verdict for one in run.histories for event, verdict in one.events.items()}

    assert {e: (v, truth.get(e)) for e, v in run.events.items() if truth.get(e) != v} == {}
    assert run.events.keys() == truth.keys()


def test_the_plain_reference_comes_to_the_same(run: Run) -> None:
    units: Units = {}
    for one in run.histories:
        units |= Fleet(one.files).units

    assert differences(run.units, units) == []


def test_every_verdict_occurs(run: Run) -> None:
    found = Counter(run.units.values())

    assert min(found[one] for one in ("delivered", "duplicate", "stuck", "lost", "indeterminate")) >= HISTORIES // 5


def test_without_evidence_taken_away_nothing_is_indeterminate(run: Run) -> None:
    whole = [one for one in run.histories if not any(one.gone.values())]

    assert len(whole) >= HISTORIES // 4
    assert [key for one in whole for key in one.units if run.units[key] == "indeterminate"] == []


def test_what_is_missing_of_journals_is_told(run: Run) -> None:
    told = {row.agent for row in run.settled.gaps.select("agent").distinct().collect()}
    harmed = {agent for one in run.histories for agent, places in one.gone.items() if places}
    no_journal = {
        agent for one in run.histories for agent in one.gone if not any(f.startswith(f"{agent}/") for f in one.files)
    }

    assert told - harmed == set()
    assert harmed - told <= no_journal


def test_datasets_have_their_columns(run: Run) -> None:
    assert run.settled.deliveries.schema.simpleString() == SCHEMAS["deliveries"].simpleString()
    assert run.settled.messages.schema.simpleString() == SCHEMAS["messages"].simpleString()


def test_nothing_is_joined_with_everything(run: Run) -> None:
    plans = "".join(run.plans)

    assert len(run.plans) >= 6
    assert "Join" in plans
    assert "Cartesian" not in plans
    assert "NestedLoop" not in plans


def test_all_histories_take_ten_jobs_of_spark(run: Run) -> None:
    assert 1 <= run.jobs <= MOST_JOBS


@pytest.mark.parametrize("mutant", MUTANTS[:PLANTED], ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_caught(mutant: Mutant, run: Run, tmp_path: Path) -> None:
    with planted(mutant, tmp_path) as package:
        assert differences(units_of(package.deliveries(run.records)), run.truth) != []
