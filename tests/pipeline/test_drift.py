"""``drift`` on Spark: every kind of difference in a small fleet, in a single run."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from activemq_fleet.drift.file_records import planned_file_record
from activemq_fleet.drift.host_drift import FleetDrift
from activemq_fleet.errors import InputError
from activemq_fleet.spark.datasets import SCHEMAS, AtomicJobOutput, read_dataset
from activemq_fleet.spark.drift_job import report_drift
from tests.pipeline.collected import FILES, Fleet
from tests.pipeline.job_counts import counted_jobs

Rows = dict[tuple[str, str], tuple[str, str | None, str | None]]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Return a fleet with one host per kind of difference."""
    directory = tmp_path_factory.mktemp("a fleet [1]")  # Hadoop would interpret this name as a pattern
    fleet = Fleet(directory / "planned", directory / "found")
    fleet.host("same")
    (fleet.host("by-hand") / "conf/activemq.xml").write_text("<broker name='mine'>\n</broker>\n")
    fleet.record_status("by-hand", "conf/activemq.xml", status="changed")
    fleet.host("secret")
    (fleet.collected / "secret/configuration/conf/credentials.properties").write_text(
        "activemq.username=system\nactivemq.password=hunter22\n"
    )
    fleet.record_status("secret", "conf/credentials.properties", status="changed")
    fleet.host("out-of-date")
    fleet.plan("out-of-date", "conf/activemq.xml", "<broker name='newer'>\n</broker>\n")
    fleet.plan("out-of-date", "conf/new.xml", "<new/>\n")
    (fleet.host("lacks") / "conf/activemq.xml").unlink()
    fleet.record_status("lacks", "conf/activemq.xml", status="removed")
    (fleet.host("more") / "conf/extra.xml").write_text("<extra/>\n")
    fleet.record_status("more", "conf/extra.xml", status="added")
    fleet.record_status("more", "conf/broker.ks", status="added", sha256="ab" * 32, why="a key store")
    (fleet.host("same") / "conf/login.config").write_text("broker {};\n")
    fleet.record_status("same", "conf/login.config", status="shipped")
    (fleet.host("foreign", manifest=False) / "conf/activemq.xml").write_text("<broker/>\n")
    empty_sha256 = hashlib.sha256(b"").hexdigest()
    (fleet.host("emptied") / "conf/activemq.xml").write_text("")
    fleet.record_status("emptied", "conf/activemq.xml", status="changed", sha256=empty_sha256)
    for path, text in FILES.items():
        fleet.plan("not-collected", path, text)
    fleet.plan("not-planned", "conf/activemq.xml", "<broker/>\n")
    fleet.collect("not-planned")
    (fleet.planned / "hosts/not-planned/conf/activemq.xml").unlink()
    return fleet


@pytest.fixture(scope="module")
def fleet_drift(spark: SparkSession, fleet: Fleet) -> FleetDrift:
    return report_drift(spark, str(fleet.planned), str(fleet.collected), str(fleet.planned.parent / "out"))


@pytest.fixture(scope="module")
def drift_rows(spark: SparkSession, fleet_drift: FleetDrift, fleet: Fleet) -> Rows:
    frame = read_dataset(spark, str(fleet.planned.parent / "out"), "drift")
    return {(row.host, row.path): (row.status, row.cause, row["diff"]) for row in frame.collect()}


@pytest.mark.parametrize(
    ("host", "path", "status", "cause"),
    [
        ("same", "conf/activemq.xml", "same", None),
        ("same", "conf/.hidden", "same", None),
        ("same", "conf/login.config", "same", None),
        ("by-hand", "conf/activemq.xml", "changed", "by_hand"),
        ("secret", "conf/credentials.properties", "changed", "by_hand"),
        ("out-of-date", "conf/activemq.xml", "changed", "out_of_date"),
        ("out-of-date", "conf/new.xml", "removed", "out_of_date"),
        ("lacks", "conf/activemq.xml", "removed", "by_hand"),
        ("emptied", "conf/activemq.xml", "changed", "by_hand"),
        ("more", "conf/extra.xml", "added", "by_hand"),
        ("more", "conf/broker.ks", "added", "by_hand"),
        ("foreign", "conf/activemq.xml", "changed", "unknown"),
    ],
)
def test_each_difference_of_drift_has_its_status_and_cause(
    drift_rows: Rows, host: str, path: str, status: str, cause: str
) -> None:
    assert drift_rows[host, path][:2] == (status, cause)


def test_drift_reports_no_difference_of_other_files(drift_rows: Rows) -> None:
    assert sum(status != "same" for status, _, _ in drift_rows.values()) == 9
    assert not {path for _, path in drift_rows} - {
        *FILES,
        "conf/new.xml",
        "conf/extra.xml",
        "conf/broker.ks",
        "conf/login.config",
    }


def test_drift_shows_differences_without_secrets(drift_rows: Rows) -> None:
    assert "+<broker name='mine'>" in (drift_rows["by-hand", "conf/activemq.xml"][2] or "")
    assert "+activemq.password=@secret@" in (drift_rows["secret", "conf/credentials.properties"][2] or "")
    assert drift_rows["more", "conf/broker.ks"][2] == "the content of the file is not shown: a key store\n"
    assert drift_rows["same", "conf/activemq.xml"][2] is None
    assert "hunter22" not in repr(drift_rows)


def test_drift_does_not_compare_hosts_that_are_only_planned_or_collected(
    drift_rows: Rows, fleet_drift: FleetDrift
) -> None:
    assert (fleet_drift.not_collected, fleet_drift.not_planned) == (("not-collected",), ("not-planned",))
    assert not {host for host, _ in drift_rows} & {"not-collected", "not-planned"}


def test_drift_lists_hosts_with_most_differences_first(fleet_drift: FleetDrift) -> None:
    assert [host.host for host in fleet_drift.hosts[:2]] == ["more", "out-of-date"]
    assert (fleet_drift.same_hosts, len(fleet_drift.hosts), fleet_drift.has_differing_host) == (1, 7, True)
    assert (fleet_drift.hosts[0].added, fleet_drift.hosts[0].by_hand) == (2, 2)


@pytest.mark.parametrize("content", [True, False])
def test_drift_compares_output_of_plan_like_output_of_render(
    spark: SparkSession, tmp_path: Path, content: bool
) -> None:
    fleet = Fleet(tmp_path / "planned", tmp_path / "found")
    fleet.host("one")
    with AtomicJobOutput(spark, str(tmp_path / "plan"), kind="plan") as output:
        texts = {path: text.format(host="one") for path, text in FILES.items()}
        plan_rows: list[tuple[str | None, ...]] = [
            ("one", path, "0" * 64, None, text)
            if content
            else ("one", path, "0" * 64, planned_file_record("one", path, text, None).planned, None)
            for path, text in texts.items()
        ]
        plan_rows += [(None, "clients/group.properties", "0" * 64, None, "x")]
        output.write_dataset("files", spark.createDataFrame(plan_rows, SCHEMAS["files"]))
        output.commit()
    drift_result = report_drift(spark, str(tmp_path / "plan"), str(tmp_path / "found"), str(tmp_path / "out"))
    assert not drift_result.has_differing_host
    assert drift_result.same_hosts == 1


@pytest.mark.parametrize(
    ("planned", "collected", "message"),
    [
        ("empty", "found", "the directory contains neither files/"),
        ("planned", "empty", "the directory has no HOST/configuration"),
    ],
)
def test_drift_refuses_empty_directory(
    spark: SparkSession, tmp_path: Path, planned: str, collected: str, message: str
) -> None:
    Fleet(tmp_path / "planned", tmp_path / "found").host("one")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=message):
        report_drift(spark, str(tmp_path / planned), str(tmp_path / collected), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("side", ["planned/hosts/one/conf", "found/one/configuration/conf", "found"])
def test_drift_refuses_link_out_of_input_directory(spark: SparkSession, tmp_path: Path, side: str) -> None:
    Fleet(tmp_path / "planned", tmp_path / "found").host("one")
    (tmp_path / "secret").write_text("root alone\n")
    (tmp_path / side / "planted.xml").symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match=r"planted\.xml leads out of the input directory"):
        report_drift(spark, str(tmp_path / "planned"), str(tmp_path / "found"), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_drift_runs_two_spark_jobs(spark: SparkSession, fleet: Fleet, tmp_path: Path) -> None:
    with counted_jobs(spark) as jobs:
        report_drift(spark, str(fleet.planned), str(fleet.collected), str(tmp_path / "out"))

    # The records of all files by host, and the comparison, which writes the dataset.
    assert len(jobs) == 2
