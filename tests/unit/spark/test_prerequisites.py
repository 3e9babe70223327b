"""The prerequisites of Spark, which are checked before it is started."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from activemq_fleet.spark.prerequisites import check_local_archives_exist, check_reachable, require_supported_java_home
from activemq_fleet.spark.problems import SparkProblem


def _create_java(home: Path, version: str) -> Path:
    """Create a program that prints the version as java does."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


def test_spark_error_without_java_names_packages_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SparkProblem, match=r"requires Java 17 or newer, but no java is on the PATH.* apt-get install"):
        require_supported_java_home()


def test_spark_error_names_path_of_old_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_create_java(tmp_path / "jdk", "11.0.2")))
    monkeypatch.setenv("PATH", "/usr/bin:/bin" if not Path("/usr/bin/java").exists() else "/nowhere")
    with pytest.raises(SparkProblem, match=r"jdk/bin/java (is Java 11|does not)"):
        require_supported_java_home()


def test_spark_error_names_java_home_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SparkProblem, match="gone/bin/java does not start"):
        require_supported_java_home()


def test_new_java_on_path_is_preferred_to_old_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_java_home = _create_java(tmp_path / "new", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(_create_java(tmp_path / "old", "1.8.0_392")))
    monkeypatch.setenv("PATH", f"{new_java_home}/bin:/usr/bin:/bin")
    assert require_supported_java_home() == new_java_home


@pytest.mark.parametrize(
    ("url", "line"),
    [
        (
            "spark://127.0.0.1:{}",
            "Spark master spark://127.0.0.1:{} cannot be reached (127.0.0.1:{}: Connection refused)",
        ),
        ("sc://127.0.0.1:{}/;token=secret", "Spark Connect server sc://127.0.0.1:{}/ cannot be reached"),
        ("spark://no.such.invalid:7077", "the name no.such.invalid cannot be resolved"),
        ("spark://127.0.0.1:x", "cannot be reached"),
    ],
)
def test_spark_error_names_unreachable_address_without_its_password(url: str, line: str) -> None:
    with socket.socket() as bound_socket:  # The socket does not listen, so the system refuses each connection.
        bound_socket.bind(("127.0.0.1", 0))
        port = bound_socket.getsockname()[1]
        with pytest.raises(SparkProblem) as caught:
            check_reachable(url.replace("{}", str(port)))
    assert line.replace("{}", str(port)) in str(caught.value)
    assert "secret" not in str(caught.value)


def test_one_reachable_master_of_several_suffices() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        check_reachable(f"spark://127.0.0.1:1,127.0.0.1:{listener.getsockname()[1]}")


@pytest.mark.parametrize("master", ["local[*]", "yarn", "k8s://https://host:6443"])
def test_reachability_of_spark_master_without_address_is_not_checked(master: str) -> None:
    check_reachable(master)


def test_spark_error_names_missing_environment_archive(tmp_path: Path) -> None:
    (tmp_path / "env.tar.gz").write_bytes(b"")
    check_local_archives_exist([f"{tmp_path}/env.tar.gz#environment", "s3a://bucket/env.tar.gz#environment"])
    with pytest.raises(
        SparkProblem,
        match=r"gone\.tar\.gz#environment: the file does not exist: create it with `activemq-fleet pack",
    ):
        check_local_archives_exist([f"{tmp_path}/gone.tar.gz#environment"])
