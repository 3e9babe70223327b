"""Validation of a configuration version: a rejected version is not activated and is removed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.node.config.configuration_archive import ConfigurationFile, pack_configuration
from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.install.configure import install_or_restore_configuration

VALIDATION_COMMAND = (
    f'{sys.executable} -c \'import sys; sys.exit("good" not in open(sys.argv[1]).read() and "line 7: bad")\' %s/a.cfg'
)


def install(base: Path, text: str, *commands: str, check: bool = False) -> dict[str, Any]:
    archive = base.parent / "archive.tar"
    archive.write_bytes(pack_configuration({"a.cfg": ConfigurationFile(text.encode(), 0o640, None)}))
    outcome: dict[str, Any] = install_or_restore_configuration(
        {"archive": str(archive), "base": str(base), "data": "", "validate": list(commands)}, check
    )
    return outcome


def active_text(base: Path) -> str:
    return (base / "current" / "a.cfg").read_text()


def test_configuration_accepted_by_validation_command_becomes_active(tmp_path: Path) -> None:
    assert install(tmp_path / "base", "good", VALIDATION_COMMAND)["changed"]
    assert active_text(tmp_path / "base") == "good"


def test_rejected_configuration_changes_nothing_and_error_contains_reason(tmp_path: Path) -> None:
    base = tmp_path / "base"
    version = install(base, "good", VALIDATION_COMMAND)["version"]
    with pytest.raises(NodeError, match=r"nothing was changed, because .*python.* rejects the .* files .line 7: bad"):
        install(base, "poor", VALIDATION_COMMAND)
    assert active_text(base) == "good"
    assert [path.name for path in (base / "versions").iterdir() if not path.name.startswith(".fleet")] == [version]


def test_error_of_rejected_configuration_contains_no_secret(tmp_path: Path) -> None:
    command = f"{sys.executable} -c 'import sys; sys.exit(\"jdbc:oracle:thin:amq/Canary99@db: bad\")' %s"
    with pytest.raises(NodeError, match=r"files \(jdbc:oracle:thin:amq/@secret@@db: bad\)"):
        install(tmp_path / "base", "good", command)


def test_rejected_configuration_is_rejected_again_by_next_run(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(NodeError):
            install(tmp_path / "base", "poor", VALIDATION_COMMAND)
    assert not (tmp_path / "base" / "current").exists()


def test_configuration_must_pass_every_validation_command(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="rejects"):
        install(tmp_path / "base", "good", VALIDATION_COMMAND, "false")


def test_missing_validation_program_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="no-such-program could not be run"):
        install(tmp_path / "base", "good", "no-such-program %s")


def test_check_mode_runs_no_validation_command(tmp_path: Path) -> None:
    assert install(tmp_path / "base", "poor", VALIDATION_COMMAND, check=True)["changed"]
    assert not (tmp_path / "base").exists()
