"""The local output directory: which directories may be replaced, and that the replacement is atomic."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from activemq_fleet.errors import InputError
from activemq_fleet.spark.manifests import new_manifest
from activemq_fleet.spark.staging import LocalTarget, finish_replacement


def _write_staged_output(out: Path, text: str, *, kind: str = "audit") -> LocalTarget:
    """Write an output of one file to the staging directory."""
    target = LocalTarget(out)
    target.check_output_replaceable(kind)
    target.create_staging_directory_if_local()
    target.add_text_file_to_commit("audit.json", text)
    return target


def _commit(target: LocalTarget, kind: str = "audit") -> None:
    target.commit(new_manifest(kind, "1", 1, {}))


def test_committed_job_output_replaces_previous_output(tmp_path: Path) -> None:
    for text in ("first", "second"):
        _commit(_write_staged_output(tmp_path / "out", text))
    assert (tmp_path / "out" / "audit.json").read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_uncommitted_job_output_leaves_previous_output_unchanged(tmp_path: Path) -> None:
    _commit(_write_staged_output(tmp_path / "out", "first"))
    _write_staged_output(tmp_path / "out", "second").delete_staging_directory_if_local()
    assert (tmp_path / "out" / "audit.json").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_second_job_that_writes_to_same_directory_at_same_time_is_refused(tmp_path: Path) -> None:
    first_output = _write_staged_output(tmp_path / "out", "first")
    with pytest.raises(InputError, match="another run writes to this directory"):
        LocalTarget(tmp_path / "out").create_staging_directory_if_local()
    _commit(first_output)
    assert (tmp_path / "out" / "audit.json").read_text() == "first"


def test_next_commit_deletes_staged_files_of_killed_job(tmp_path: Path) -> None:
    (tmp_path / "out.staged" / "events").mkdir(parents=True)
    (tmp_path / "out.staged" / "events" / "half").write_text("")
    _commit(_write_staged_output(tmp_path / "out", "whole"))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["audit.json", "manifest.json"]


@pytest.mark.parametrize("name", [".git", "notes.txt", "events"])
def test_output_directory_with_file_of_another_program_is_refused(tmp_path: Path, name: str) -> None:
    _commit(_write_staged_output(tmp_path / "out", "first"))
    (tmp_path / "out" / name).mkdir()
    with pytest.raises(InputError, match=f"contains {name}, which `audit` did not write"):
        LocalTarget(tmp_path / "out").check_output_replaceable("audit")


def test_output_directory_of_another_job_is_refused(tmp_path: Path) -> None:
    _commit(_write_staged_output(tmp_path / "out", "first"))
    with pytest.raises(InputError, match="contains the output of `audit`, which `drift` does not replace"):
        LocalTarget(tmp_path / "out").check_output_replaceable("drift")


def test_file_or_dangling_link_as_output_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(InputError, match="is not a directory"):
        LocalTarget(tmp_path / "file").check_output_replaceable("audit")
    with pytest.raises(InputError, match="is a symbolic link to a path that does not exist"):
        LocalTarget(tmp_path / "link")


def test_link_to_output_directory_stays_link_after_commit(tmp_path: Path) -> None:
    _commit(_write_staged_output(tmp_path / "real", "first"))
    (tmp_path / "out").symlink_to("real")
    _commit(_write_staged_output(tmp_path / "out", "second"))
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "real" / "audit.json").read_text() == "second"


def test_commit_keeps_state_of_stream_in_output_directory(tmp_path: Path) -> None:
    _commit(_write_staged_output(tmp_path / "out", "first"))
    (tmp_path / "out" / ".follow").mkdir()
    _commit(_write_staged_output(tmp_path / "out", "second"))
    assert (tmp_path / "out" / ".follow").is_dir()
    assert (tmp_path / "out" / "audit.json").read_text() == "second"


def test_kill_between_exchange_and_cleanup_of_output_loses_no_stream_state(tmp_path: Path) -> None:
    _commit(_write_staged_output(tmp_path / "out", "second"))
    os.makedirs(tmp_path / "out.staged" / ".follow")  # The exchange moves it to this path.
    finish_replacement(tmp_path / "out")
    assert (tmp_path / "out" / ".follow").is_dir()


def test_job_output_to_mount_point_is_refused_before_job_starts() -> None:
    with pytest.raises(InputError, match="/proc is a mount point"):
        LocalTarget(Path("/proc")).check_output_replaceable("audit")


def test_job_output_to_working_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    with pytest.raises(InputError, match="is the working directory"):
        LocalTarget(Path("../out")).check_output_replaceable("plan")


@pytest.mark.parametrize("text", ["", "[]", "no JSON", "[" * 100_000])
def test_directory_with_unreadable_manifest_is_not_replaced(text: str, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "manifest.json").write_text(text)

    with pytest.raises(InputError, match=r"the file manifest\.json in this directory was not written by"):
        LocalTarget(tmp_path / "out").check_output_replaceable("audit")
