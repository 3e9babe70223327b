"""Spark's settings: what we choose, and what the user's word changes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from activemq_fleet.spark.inputs import AuditInputs, InputFile
from activemq_fleet.spark.options import SessionOptions
from activemq_fleet.spark.settings import (
    shuffle_settings,
    spark_connect_settings,
    spark_master_of,
    spark_settings,
    task_slots_of_master,
)

_SCRATCH = Path("/scratch")
_JAVA = "spark.driver.extraJavaOptions"
MEGABYTE = 1 << 20
NUMBER, ADAPTIVE = "spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled"


def test_this_machine_is_the_default() -> None:
    assert spark_master_of(SessionOptions()) == "local[*]"


def test_spark_submit_has_its_own_master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert spark_master_of(SessionOptions()) is None
    assert "spark.master" not in spark_settings(SessionOptions(), None, _SCRATCH)


def test_what_the_user_says_wins() -> None:
    options = SessionOptions(conf={"spark.driver.memory": "9g", "spark.sql.session.timeZone": "Asia/Tokyo"})
    settings = spark_settings(options, "local[*]", _SCRATCH)
    assert (settings["spark.driver.memory"], settings["spark.sql.session.timeZone"]) == ("9g", "Asia/Tokyo")


def test_javas_options_of_both_count() -> None:
    options = SessionOptions(conf={"spark.driver.extraJavaOptions": "-Dmine=1"})
    java_options = spark_settings(options, "local[*]", _SCRATCH)["spark.driver.extraJavaOptions"]
    assert java_options.endswith("-Dmine=1")
    assert "log4j2" in java_options


def test_java_compiles_quickly_where_spark_is_here() -> None:
    def java(master: str) -> str:
        return spark_settings(SessionOptions(), master, _SCRATCH)["spark.driver.extraJavaOptions"]

    assert "TieredStopAtLevel" in java("local[2]")
    assert "TieredStopAtLevel" not in java("spark://far:7077")


def test_a_local_spark_is_on_loopback_and_its_files_are_in_the_scratch_directory(tmp_path: Path) -> None:
    settings = spark_settings(SessionOptions(), "local[*]", tmp_path)
    assert (settings["spark.driver.host"], settings["spark.driver.bindAddress"]) == ("127.0.0.1", "127.0.0.1")
    assert settings["spark.local.dir"] == str(tmp_path)
    assert settings["spark.ui.enabled"] == "false"


def test_a_cluster_elsewhere_can_reach_the_driver(tmp_path: Path) -> None:
    settings = spark_settings(SessionOptions(), "spark://master.example.com:7077", tmp_path)
    assert "spark.driver.host" not in settings


def test_archives_go_to_clusters_alone(tmp_path: Path) -> None:
    options = SessionOptions(archives=("env.tar.gz#environment",))
    assert spark_settings(options, "yarn", tmp_path)["spark.archives"] == "env.tar.gz#environment"
    assert "spark.archives" not in spark_settings(options, "local[2]", tmp_path)


def test_the_packed_python_runs_over_connect_whatever_the_archive_is_called() -> None:
    key = "spark.sql.execution.pyspark.python"
    assert spark_connect_settings(SessionOptions(archives=("env.tar.gz#mine",)))[key] == "mine/bin/python"
    assert spark_connect_settings(SessionOptions(archives=("env.tar.gz",)))[key] == "environment/bin/python"
    assert key not in spark_connect_settings(SessionOptions())


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[2]", 2), ("local[16,3]", 16), ("local[*]", os.cpu_count()), ("spark://127.0.0.1:7077", 1)],
)
def test_a_local_master_says_how_many_cores_it_takes(master: str, cores: int) -> None:
    assert task_slots_of_master(master) == cores


# -- shuffle partitions by the size of the input -----------------------------------------------


class Session:
    """What is asked of a session: its settings."""

    def __init__(self, master: str = "local[2]", number: str = "200") -> None:
        self.conf = {"spark.master": master, NUMBER: number}


def divided(session: Session, megabytes: int) -> dict[str, str]:
    file = InputFile("file:/logs/a/activemq.log", "a", "activemq.log", "log", megabytes * MEGABYTE, compressed=False)
    return shuffle_settings(cast("Any", session), AuditInputs("file:/logs", (file,), {}, ()))


def test_a_small_input_of_this_machine_is_one_partition_without_plans_in_steps() -> None:
    settings = divided(Session(), 2)

    assert settings[NUMBER] == "1"
    assert settings[ADAPTIVE] == "false"


def test_a_larger_input_has_a_partition_for_each_16_megabytes() -> None:
    assert divided(Session(), 160) == {NUMBER: "14"}


def test_a_cluster_is_given_work_for_several_however_little_it_is() -> None:
    assert divided(Session(master="spark://head:7077"), 2) == {NUMBER: "4"}


def test_shuffle_partitions_set_by_the_user_are_kept() -> None:
    assert divided(Session(number="7"), 2) == {}
