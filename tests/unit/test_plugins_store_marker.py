"""The marker of a shared store."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.activemq.fleet.plugins.modules import store_marker as store_marker_module

from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.host_paths import STORE_MARKER
from activemq_fleet.node.kahadb import store_marker


def test_empty_store_is_claimed_only_once(tmp_path: Path) -> None:
    assert store_marker.claim_empty_store(str(tmp_path), "x-mq01", "word")
    assert (tmp_path / STORE_MARKER).read_text() == "x-mq01\nword\n"
    assert not store_marker.claim_empty_store(str(tmp_path), "x-mq01", "other")
    assert store_marker.read_store_and_marker_state(str(tmp_path))["marked"] == ["x-mq01", "word"]


def test_store_with_messages_is_not_claimed(tmp_path: Path) -> None:
    (tmp_path / "db-1.log").touch()
    with pytest.raises(NodeError, match="contains messages, but no file"):
        store_marker.claim_empty_store(str(tmp_path), "x-mq01", "word")
    assert os.listdir(tmp_path) == ["db-1.log"]


def test_store_directory_is_not_created_without_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "ismount", lambda path: path == "/")
    with pytest.raises(NodeError, match="not on a mounted file system, so it was not created"):
        store_marker.claim_empty_store(str(tmp_path / "x-mq01"), "x-mq01", "word")
    assert os.listdir(tmp_path) == []


def test_store_directory_is_created_below_mount_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "ismount", lambda path: path == str(tmp_path))
    assert store_marker.claim_empty_store(str(tmp_path / "x-mq01"), "x-mq01", "word")
    assert (tmp_path / "x-mq01").stat().st_mode & 0o777 == 0o750


def test_store_directory_is_created_through_link_to_mount_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = tmp_path / "share"
    share.mkdir()
    (tmp_path / "link").symlink_to(share)
    monkeypatch.setattr(os.path, "ismount", lambda path: path == str(share))
    assert store_marker.claim_empty_store(str(tmp_path / "link" / "x-mq01"), "x-mq01", "word")
    assert os.listdir(share / "x-mq01") == [STORE_MARKER]


def test_store_marker_is_removed_only_by_run_that_wrote_it(tmp_path: Path) -> None:
    store_marker.claim_empty_store(str(tmp_path), "x-mq01", "word")
    assert not store_marker.remove_marker_of_run(str(tmp_path), "other")
    assert store_marker.remove_marker_of_run(str(tmp_path), "word")
    assert store_marker.read_store_and_marker_state(str(tmp_path))["marked"] is None


def test_reading_of_store_marker_creates_nothing(tmp_path: Path) -> None:
    assert store_marker.read_store_and_marker_state(str(tmp_path / "x"))["exists"] is False
    assert os.listdir(tmp_path) == []


def test_store_without_marker_of_run_is_refused_with_its_path(tmp_path: Path) -> None:
    parameters = {"directory": str(tmp_path), "pair": "x-mq01", "word": "word", "state": "confirmed", "user": None}
    with pytest.raises(Exception, match=f"^the store directory {tmp_path} is not the same directory as on the other"):
        store_marker_module._check_or_change_marker(parameters, False)
