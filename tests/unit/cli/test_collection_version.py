"""Warnings about a collection of Ansible whose version differs from the version of the library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from activemq_fleet import __version__
from activemq_fleet._collection import collection_version_warnings
from tests.situations import further

INVENTORY = "all: {hosts: {a-mq01-a: , a-mq01-b: }, vars: {activemq_release: 5.18.3}}\n"
COMMANDS = [
    ["check", "-i", "hosts.yml", "--format", "json"],
    ["explain", "-i", "hosts.yml", "a-mq01-a"],
    ["graph", "-i", "hosts.yml", "-o", "fleet.svg"],
]


def install_collection(directory: Path, version: str, *, is_checkout: bool = False) -> Path:
    """Write the file with the version of an installed collection, or of a checkout, below a directory."""
    collection = directory / "ansible_collections" / "activemq" / "fleet"
    collection.mkdir(parents=True)
    if is_checkout:
        (collection / "galaxy.yml").write_text(f"namespace: activemq\nname: fleet\nversion: {version}\n")
    else:
        (collection / "MANIFEST.json").write_text(json.dumps({"collection_info": {"version": version}}))
    return collection


def run_command(directory: Path, words: list[str], **environment: str) -> tuple[str, str]:
    (directory / "hosts.yml").write_text(INVENTORY)
    process = subprocess.run(
        [sys.executable, "-m", "activemq_fleet", *words],
        cwd=directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return process.stdout, process.stderr


@pytest.mark.parametrize("words", [COMMANDS[0], *further(*COMMANDS[1:])], ids=lambda words: words[0])
def test_collection_of_another_version_is_warning_with_both_versions(tmp_path: Path, words: list[str]) -> None:
    collection = install_collection(tmp_path / "collections", "0.0.9")
    out, err = run_command(tmp_path, words, ANSIBLE_COLLECTIONS_PATH=str(tmp_path / "collections"))
    (warning,) = [line for line in err.splitlines() if "version" in line]
    assert warning.startswith(f"warning: the collection activemq.fleet has version 0.0.9 ({collection}), but the ")
    assert f"library activemq-fleet has version {__version__} (" in warning
    assert f"or remove {collection}" in warning
    if "json" in words:
        json.loads(out)


def test_collection_of_another_version_in_ansible_cfg_is_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANSIBLE_COLLECTIONS_PATH", raising=False)
    install_collection(tmp_path / "elsewhere", "9.0.0")
    (tmp_path / "ansible.cfg").write_text("[defaults]\ncollections_path = ./elsewhere\n")
    assert "has version 9.0.0" in run_command(tmp_path, COMMANDS[0], ANSIBLE_CONFIG=str(tmp_path / "ansible.cfg"))[1]


@pytest.mark.parametrize("content", [None, "{", "{}", "[]", '{"collection_info": 1}'])
def test_collection_without_version_gives_no_warning(tmp_path: Path, content: str | None) -> None:
    collection = install_collection(tmp_path, "0.0.9")
    (collection / "MANIFEST.json").unlink()
    if content is not None:
        (collection / "MANIFEST.json").write_text(content)
    assert collection_version_warnings([str(tmp_path)]) == ()


def test_ansible_collection_checkout_of_other_version_causes_warning(tmp_path: Path) -> None:
    install_collection(tmp_path, "0.0.9", is_checkout=True)
    assert "has version 0.0.9" in collection_version_warnings([str(tmp_path)])[0]


def test_version_warning_uses_first_ansible_collection_of_search_path(tmp_path: Path) -> None:
    install_collection(tmp_path / "first", __version__)
    install_collection(tmp_path / "second", "0.0.9")
    paths = [str(tmp_path / name) for name in ("empty", "first", "second")]
    assert collection_version_warnings(paths) == ()
    assert "has version 0.0.9" in collection_version_warnings(reversed(paths))[0]
