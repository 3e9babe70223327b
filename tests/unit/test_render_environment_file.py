"""The environment file of a broker: its name, and the values that a shell reads from it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from activemq_fleet.render.java_command import java_options
from activemq_fleet.render.systemd_units import unit_environment_and_log_configuration
from tests.unit.rendered_units import broker, unit_text, value_of_key


@pytest.mark.parametrize(
    ("release", "path"),
    [
        ("5.5.1", "etc/default/second"),
        ("5.10.2", "etc/default/second"),
        ("5.19.10", "bin/env"),
        ("6.0.1", "bin/setenv"),
    ],
)
def test_environment_file_has_path_of_release(release: str, path: str) -> None:
    node = broker(release, instance="second", ha="none")

    assert path in unit_environment_and_log_configuration(node)
    assert value_of_key(unit_text(node), "EnvironmentFile") == f"/var/lib/activemq/second/current/{path}"


def source_variable(content: bytes, name: str, directory: Path) -> str:
    """Return the value of a variable after a shell reads the environment file."""
    (directory / "env").write_bytes(content)
    completed = subprocess.run(
        ["/bin/sh", "-euc", f'. ./env; printf %s "${name}"'], cwd=directory, capture_output=True, text=True, check=True
    )
    return completed.stdout


def test_shell_reads_java_options_from_environment_file(tmp_path: Path) -> None:
    node = broker(heap="2g", java_options=["-Dmy.option=1", "-XX:+UseG1GC"])
    options = source_variable(unit_environment_and_log_configuration(node)["bin/env"], "ACTIVEMQ_OPTS", tmp_path)

    assert tuple(options.split()) == java_options(node)
    assert options.startswith("-Xmx2g ")
    assert options.endswith(" -Dmy.option=1 -XX:+UseG1GC")


def test_shell_executes_no_value_of_environment_file(tmp_path: Path) -> None:
    hostile = "$(touch one)`touch two`\";touch three;'\\ $HOME"
    node = broker()
    # The settings reject such a value; this test covers a value that passes them.
    hostile_settings = node.settings.model_copy(update={"java_home": hostile})
    environment_file = unit_environment_and_log_configuration(replace(node, settings=hostile_settings))["bin/env"]

    assert source_variable(environment_file, "JAVA_HOME", tmp_path) == hostile
    assert [path.name for path in tmp_path.iterdir()] == ["env"]
    assert all(re.fullmatch(r'#.*|[A-Z_]+=".*"', line) for line in environment_file.decode().splitlines())


def test_java_is_in_environment_file_only_if_set() -> None:
    assert b"JAVA" not in unit_environment_and_log_configuration(broker())["bin/env"]
    environment_file = unit_environment_and_log_configuration(broker(java_home="/opt/jdk"))["bin/env"].decode()
    assert value_of_key(environment_file, "JAVACMD") == '"/opt/jdk/bin/java"'
