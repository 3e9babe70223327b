"""A version that a program refuses is never in force, and does not stay."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.node.config.configuration_archive import ConfigurationFile, pack_configuration
from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.install.configure import install_or_restore_configuration

LOOK = (
    f'{sys.executable} -c \'import sys; sys.exit("good" not in open(sys.argv[1]).read() and "line 7: bad")\' %s/a.cfg'
)


def put(base: Path, text: str, *commands: str, check: bool = False) -> dict[str, Any]:
    archive = base.parent / "archive.tar"
    archive.write_bytes(pack_configuration({"a.cfg": ConfigurationFile(text.encode(), 0o640, None)}))
    found: dict[str, Any] = install_or_restore_configuration(
        {"archive": str(archive), "base": str(base), "data": "", "validate": list(commands)}, check
    )
    return found


def in_force(base: Path) -> str:
    return (base / "current" / "a.cfg").read_text()


def test_a_version_that_is_taken_comes_into_force(tmp_path: Path) -> None:
    assert put(tmp_path / "base", "good", LOOK)["changed"]
    assert in_force(tmp_path / "base") == "good"


def test_one_that_is_refused_leaves_all_as_it_was_and_says_why(tmp_path: Path) -> None:
    base = tmp_path / "base"
    version = put(base, "good", LOOK)["version"]
    with pytest.raises(NodeError, match=r"nothing was changed, because .*python.* rejects the .* files .line 7: bad"):
        put(base, "poor", LOOK)
    assert in_force(base) == "good"
    assert [path.name for path in (base / "versions").iterdir() if not path.name.startswith(".fleet")] == [version]


def test_it_is_refused_again_by_the_next_run(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(NodeError):
            put(tmp_path / "base", "poor", LOOK)
    assert not (tmp_path / "base" / "current").exists()


def test_every_command_must_agree(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="rejects"):
        put(tmp_path / "base", "good", LOOK, "false")


def test_a_program_that_is_not_there_refuses(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="no-such-program could not be run"):
        put(tmp_path / "base", "good", "no-such-program %s")


def test_check_mode_asks_nobody(tmp_path: Path) -> None:
    assert put(tmp_path / "base", "poor", LOOK, check=True)["changed"]
    assert not (tmp_path / "base").exists()
