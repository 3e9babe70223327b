"""The environment file of a broker: its name, and what a shell reads from it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from activemq_fleet.render.java_command import java_options
from activemq_fleet.render.systemd_units import unit_environment_and_log_files
from tests.unit.rendered_units import broker, unit, value


@pytest.mark.parametrize(
    ("release", "path"),
    [
        ("5.5.1", "etc/default/second"),
        ("5.10.2", "etc/default/second"),
        ("5.19.10", "bin/env"),
        ("6.0.1", "bin/setenv"),
    ],
)
def test_the_environment_file_has_the_name_of_the_release(release: str, path: str) -> None:
    of = broker(release, instance="second", ha="none")

    assert path in unit_environment_and_log_files(of)
    assert value(unit(of), "EnvironmentFile") == f"/var/lib/activemq/second/current/{path}"


def sourced(data: bytes, name: str, directory: Path) -> str:
    (directory / "env").write_bytes(data)
    done = subprocess.run(
        ["/bin/sh", "-euc", f'. ./env; printf %s "${name}"'], cwd=directory, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_shell_reads_the_options_from_the_environment_file(tmp_path: Path) -> None:
    of = broker(heap="2g", java_options=["-Dmy.option=1", "-XX:+UseG1GC"])
    options = sourced(unit_environment_and_log_files(of)["bin/env"], "ACTIVEMQ_OPTS", tmp_path)

    assert tuple(options.split()) == java_options(of)
    assert options.startswith("-Xmx2g ")
    assert options.endswith(" -Dmy.option=1 -XX:+UseG1GC")


def test_no_value_of_the_environment_file_is_anything_but_text(tmp_path: Path) -> None:
    hostile = "$(touch one)`touch two`\";touch three;'\\ $HOME"
    of = broker()
    # The settings refuse such a value: this is about what happens should one get past them.
    evil = of.settings.model_copy(update={"java_home": hostile})
    data = unit_environment_and_log_files(replace(of, settings=evil))["bin/env"]

    assert sourced(data, "JAVA_HOME", tmp_path) == hostile
    assert [path.name for path in tmp_path.iterdir()] == ["env"]
    assert all(re.fullmatch(r'#.*|[A-Z_]+=".*"', line) for line in data.decode().splitlines())


def test_java_is_named_only_where_it_was_said() -> None:
    assert b"JAVA" not in unit_environment_and_log_files(broker())["bin/env"]
    data = unit_environment_and_log_files(broker(java_home="/opt/jdk"))["bin/env"].decode()
    assert value(data, "JAVACMD") == '"/opt/jdk/bin/java"'
