"""Spark's settings: what we choose, and what the user's word changes."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from activemq_fleet.spark.options import SessionOptions
from activemq_fleet.spark.settings import cores_of, for_python, master_of, remote_settings, settings_of

_SCRATCH = Path("/scratch")
_JAVA = "spark.driver.extraJavaOptions"


def test_this_machine_is_the_default() -> None:
    assert master_of(SessionOptions()) == "local[*]"


def test_spark_submit_has_its_own_master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert master_of(SessionOptions()) is None
    assert "spark.master" not in settings_of(SessionOptions(), None, _SCRATCH)


def test_what_the_user_says_wins() -> None:
    options = SessionOptions(conf={"spark.driver.memory": "9g", "spark.sql.session.timeZone": "Asia/Tokyo"})
    found = settings_of(options, "local[*]", _SCRATCH)
    assert (found["spark.driver.memory"], found["spark.sql.session.timeZone"]) == ("9g", "Asia/Tokyo")


def test_javas_options_of_both_count() -> None:
    options = SessionOptions(conf={"spark.driver.extraJavaOptions": "-Dmine=1"})
    found = settings_of(options, "local[*]", _SCRATCH)["spark.driver.extraJavaOptions"]
    assert found.endswith("-Dmine=1")
    assert "log4j2" in found


def test_java_compiles_quickly_where_spark_is_here() -> None:
    def java(master: str) -> str:
        return settings_of(SessionOptions(), master, _SCRATCH)["spark.driver.extraJavaOptions"]

    assert "TieredStopAtLevel" in java("local[2]")
    assert "TieredStopAtLevel" not in java("spark://far:7077")


@pytest.mark.parametrize(("memory", "small"), [("900m", True), ("8g", True), ("9g", False), ("20000m", False)])
def test_pages_are_small_where_a_task_has_no_more_memory_than_it_may_have_pages(memory: str, *, small: bool) -> None:
    found = settings_of(SessionOptions(conf={"spark.driver.memory": memory}), "local[*]", _SCRATCH)

    assert ("spark.buffer.pageSize" in found) is small


def test_a_local_spark_is_on_loopback_and_its_files_are_in_the_scratch_directory(tmp_path: Path) -> None:
    found = settings_of(SessionOptions(), "local[*]", tmp_path)
    assert (found["spark.driver.host"], found["spark.driver.bindAddress"]) == ("127.0.0.1", "127.0.0.1")
    assert found["spark.local.dir"] == str(tmp_path)
    assert found["spark.ui.enabled"] == "false"


def test_a_cluster_elsewhere_can_reach_the_driver(tmp_path: Path) -> None:
    found = settings_of(SessionOptions(), "spark://master.example.com:7077", tmp_path)
    assert "spark.driver.host" not in found


def test_archives_go_to_clusters_alone(tmp_path: Path) -> None:
    options = SessionOptions(archives=("env.tar.gz#environment",))
    assert settings_of(options, "yarn", tmp_path)["spark.archives"] == "env.tar.gz#environment"
    assert "spark.archives" not in settings_of(options, "local[2]", tmp_path)


def test_the_packed_python_runs_over_connect_whatever_the_archive_is_called() -> None:
    key = "spark.sql.execution.pyspark.python"
    assert remote_settings(SessionOptions(archives=("env.tar.gz#mine",)))[key] == "mine/bin/python"
    assert remote_settings(SessionOptions(archives=("env.tar.gz",)))[key] == "environment/bin/python"
    assert key not in remote_settings(SessionOptions())


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[2]", 2), ("local[16,3]", 16), ("local[*]", os.cpu_count()), ("spark://127.0.0.1:7077", 1)],
)
def test_a_local_master_says_how_many_cores_it_takes(master: str, cores: int) -> None:
    assert cores_of(master) == cores


@pytest.mark.parametrize(
    ("options", "alone"),
    [
        (SessionOptions(master="local[2]"), True),
        (SessionOptions(master="local[2]", conf={_JAVA: "-Dmine=1"}), True),
        (SessionOptions(master="local[2]", conf={_JAVA: "-XX:+UseG1GC"}), False),
        (SessionOptions(master="local[3]"), False),
        (SessionOptions(master="spark://far:7077"), False),
        (SessionOptions(remote="sc://far"), False),
    ],
)
def test_java_collects_alone_where_it_would_take_cores_from_python(options: SessionOptions, *, alone: bool) -> None:
    found = for_python(options).conf.get(_JAVA, "")

    assert ("UseSerialGC" in found) is alone
    assert found.endswith(options.conf.get(_JAVA, ""))


def test_a_collector_chosen_for_all_of_java_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseParallelGC")

    assert _JAVA not in for_python(SessionOptions(master="local[2]")).conf


_DAEMON = "spark.python.daemon.module"


def test_workers_of_this_machine_begin_with_what_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)

    for options in (SessionOptions(master="local[2]"), for_python(SessionOptions(master="local[2]"))):
        module = settings_of(options, "local[2]", tmp_path)[_DAEMON]
        assert find_spec(module) is not None


@pytest.mark.parametrize("master", ["spark://far:7077", "yarn"])
def test_workers_elsewhere_begin_as_spark_has_it(master: str, tmp_path: Path) -> None:
    options = SessionOptions(master=master)

    assert _DAEMON not in settings_of(for_python(options), master, tmp_path)


def test_workers_of_another_python_begin_as_spark_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/other/bin/python")

    assert _DAEMON not in settings_of(for_python(SessionOptions(master="local[2]")), "local[2]", tmp_path)


def test_a_daemon_that_the_user_chose_stays(tmp_path: Path) -> None:
    options = for_python(SessionOptions(master="local[2]", conf={_DAEMON: "mine"}))

    assert settings_of(options, "local[2]", tmp_path)[_DAEMON] == "mine"


def test_no_code_is_compiled_for_a_session_of_python_unless_the_user_wants_it(tmp_path: Path) -> None:
    key = "spark.sql.codegen.wholeStage"
    for said, wanted in (({}, "false"), ({key: "true"}, "true")):
        options = for_python(SessionOptions(master="local[2]", conf=said))
        assert settings_of(options, "local[2]", tmp_path)[key] == wanted
