"""The settings of Spark: the defaults of the project, and the settings of the user, which override them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from activemq_fleet.spark.inputs import AuditInputs, InputFile
from activemq_fleet.spark.session_options import SessionOptions
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


def test_spark_master_is_local_by_default() -> None:
    assert spark_master_of(SessionOptions()) == "local[*]"


def test_master_of_spark_submit_is_not_overridden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert spark_master_of(SessionOptions()) is None
    assert "spark.master" not in spark_settings(SessionOptions(), None, _SCRATCH)


def test_spark_settings_of_user_override_defaults() -> None:
    options = SessionOptions(conf={"spark.driver.memory": "9g", "spark.sql.session.timeZone": "Asia/Tokyo"})
    settings = spark_settings(options, "local[*]", _SCRATCH)
    assert (settings["spark.driver.memory"], settings["spark.sql.session.timeZone"]) == ("9g", "Asia/Tokyo")


def test_java_options_of_user_are_added_to_default_options_of_spark_driver() -> None:
    options = SessionOptions(conf={"spark.driver.extraJavaOptions": "-Dmine=1"})
    java_options = spark_settings(options, "local[*]", _SCRATCH)["spark.driver.extraJavaOptions"]
    assert java_options.endswith("-Dmine=1")
    assert "log4j2" in java_options


def test_spark_driver_with_local_master_uses_only_first_tier_of_jit_compiler() -> None:
    def java_options(master: str) -> str:
        return spark_settings(SessionOptions(), master, _SCRATCH)["spark.driver.extraJavaOptions"]

    assert "TieredStopAtLevel" in java_options("local[2]")
    assert "TieredStopAtLevel" not in java_options("spark://far:7077")


def test_local_spark_uses_loopback_and_scratch_directory(tmp_path: Path) -> None:
    settings = spark_settings(SessionOptions(), "local[*]", tmp_path)
    assert (settings["spark.driver.host"], settings["spark.driver.bindAddress"]) == ("127.0.0.1", "127.0.0.1")
    assert settings["spark.local.dir"] == str(tmp_path)
    assert settings["spark.ui.enabled"] == "false"


def test_spark_driver_of_remote_cluster_is_not_bound_to_loopback(tmp_path: Path) -> None:
    settings = spark_settings(SessionOptions(), "spark://master.example.com:7077", tmp_path)
    assert "spark.driver.host" not in settings


def test_python_archives_are_sent_to_spark_clusters_and_not_to_local_spark(tmp_path: Path) -> None:
    options = SessionOptions(archives=("env.tar.gz#environment",))
    assert spark_settings(options, "yarn", tmp_path)["spark.archives"] == "env.tar.gz#environment"
    assert "spark.archives" not in spark_settings(options, "local[2]", tmp_path)


def test_connect_uses_python_of_archive_below_its_alias() -> None:
    key = "spark.sql.execution.pyspark.python"
    assert spark_connect_settings(SessionOptions(archives=("env.tar.gz#mine",)))[key] == "mine/bin/python"
    assert spark_connect_settings(SessionOptions(archives=("env.tar.gz",)))[key] == "environment/bin/python"
    assert key not in spark_connect_settings(SessionOptions())


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[2]", 2), ("local[16,3]", 16), ("local[*]", os.cpu_count()), ("spark://127.0.0.1:7077", 1)],
)
def test_task_slots_of_local_master_are_its_cores(master: str, cores: int) -> None:
    assert task_slots_of_master(master) == cores


# -- shuffle partitions by the size of the input -----------------------------------------------


class Session:
    """The part of a session that is used: its settings."""

    def __init__(self, master: str = "local[2]", number: str = "200") -> None:
        self.conf = {"spark.master": master, NUMBER: number}


def shuffle_settings_for(session: Session, megabytes: int) -> dict[str, str]:
    """Return the settings of the shuffle for an input of this size."""
    file = InputFile("file:/logs/a/activemq.log", "a", "activemq.log", "log", megabytes * MEGABYTE, compressed=False)
    return shuffle_settings(cast("Any", session), AuditInputs("file:/logs", (file,), {}, ()))


def test_small_input_of_local_spark_has_one_partition_and_no_adaptive_plans() -> None:
    settings = shuffle_settings_for(Session(), 2)

    assert settings[NUMBER] == "1"
    assert settings[ADAPTIVE] == "false"


def test_shuffle_partitions_grow_with_size_of_local_input() -> None:
    assert shuffle_settings_for(Session(), 160) == {NUMBER: "14"}


def test_spark_cluster_has_several_shuffle_partitions_for_small_input() -> None:
    assert shuffle_settings_for(Session(master="spark://head:7077"), 2) == {NUMBER: "4"}


def test_shuffle_partitions_set_by_the_user_are_kept() -> None:
    assert shuffle_settings_for(Session(number="7"), 2) == {}
