"""Atomic writes of files and directories, which never replace files that `render` did not write."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from activemq_fleet import atomic_files
from activemq_fleet.atomic_files import write_file_atomically
from activemq_fleet.cli.render import check_output_directory
from activemq_fleet.errors import InputError, OutputError

FILES = {"fleet.json": b"{}", "hosts/a/conf/x.xml": b"<x/>", "hosts/a/bin/env": b"\x00"}


def write_tree(directory: Path, files: dict[str, bytes]) -> None:
    atomic_files.replace_directory_files(directory, files, check_target=check_output_directory)


def read_tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_content_is_written_to_device_or_pipe_which_stays(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "output"
    if kind == "pipe":
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    else:
        reader, terminal = os.openpty()
        path.symlink_to(os.ttyname(terminal))

    write_file_atomically(path, b"report")

    assert os.read(reader, 100) == b"report"
    assert path.is_fifo() or path.is_char_device()


def test_standard_stream_is_written_even_if_it_leads_to_file(tmp_path: Path) -> None:
    with (tmp_path / "stdout").open("wb") as stream:
        inode = os.fstat(stream.fileno()).st_ino
        write_file_atomically(Path(f"/dev/fd/{stream.fileno()}"), b"report")

    assert (tmp_path / "stdout").read_bytes() == b"report"
    assert (tmp_path / "stdout").stat().st_ino == inode


def test_write_of_output_tree_to_full_disk_is_error_and_existing_tree_stays(small_disk: Path) -> None:
    write_tree(small_disk / "out", FILES)

    with pytest.raises(OutputError, match="No space left") as error:
        write_tree(small_disk / "out", {**FILES, "hosts/a/large": b"x" * 100_000})
    assert (error.value.errno, error.value.filename) == (errno.ENOSPC, str(small_disk / "out"))
    assert read_tree(small_disk / "out") == FILES

    with pytest.raises(OutputError, match="No space left") as error:
        write_file_atomically(small_disk / "fleet.svg", b"x" * 100_000)
    assert error.value.filename == str(small_disk / "fleet.svg")
    assert [path.name for path in small_disk.iterdir()] == ["out"]


def test_output_tree_is_written_with_missing_parent_directories(tmp_path: Path) -> None:
    write_tree(tmp_path / "parent" / "out", FILES)
    assert read_tree(tmp_path / "parent" / "out") == FILES
    assert [path.name for path in (tmp_path / "parent").iterdir()] == ["out"]


def test_output_tree_is_written_into_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write_tree(tmp_path / "out", FILES)
    assert read_tree(tmp_path / "out") == FILES


@pytest.mark.parametrize("exchange", [None, lambda first, second: False], ids=["with renameat2", "without renameat2"])
def test_existing_output_tree_is_replaced_completely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: Callable[[Path, Path], bool] | None
) -> None:
    if exchange:
        monkeypatch.setattr(atomic_files, "_exchange", exchange)
    write_tree(tmp_path / "out", {**FILES, "hosts/gone/file": b""})
    write_tree(tmp_path / "out", FILES)
    assert read_tree(tmp_path / "out") == FILES
    assert os.listdir(tmp_path) == ["out"]


def test_symlink_to_output_directory_stays_symlink(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(tmp_path / "real")
    (tmp_path / "real").mkdir()
    write_tree(tmp_path / "out", FILES)
    assert (tmp_path / "out").is_symlink()
    assert read_tree(tmp_path / "real") == FILES


@pytest.mark.parametrize(
    ("existing_names", "reason"),
    [
        (["mine.txt"], "this directory contains files that `render` did not write"),
        (["fleet.json", "hosts", ".git"], "contains .git, which `render` did not write"),
    ],
)
def test_output_directory_with_foreign_files_is_refused(tmp_path: Path, existing_names: list[str], reason: str) -> None:
    output_directory = tmp_path / "out"
    output_directory.mkdir()
    for name in existing_names:
        (output_directory / name).write_text("mine")
    with pytest.raises(InputError, match=reason):
        write_tree(output_directory, FILES)
    assert sorted(os.listdir(output_directory)) == sorted(existing_names)
    assert os.listdir(tmp_path) == ["out"]


def test_file_in_place_of_output_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(InputError, match="is not a directory"):
        check_output_directory(tmp_path / "out")


def test_dangling_symlink_as_output_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="is a symbolic link to a path that does not exist"):
        check_output_directory(tmp_path / "out")


@pytest.mark.parametrize("output", [".", "..", "../../out"])
def test_working_directory_and_those_above_are_refused_as_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    """The shell that started the command would remain in the removed directory."""
    write_tree(tmp_path / "out", FILES)
    monkeypatch.chdir(tmp_path / "out" / "hosts")
    with pytest.raises(InputError, match="is the working directory or above it"):
        write_tree(Path(output), {"fleet.json": b"new"})
    assert read_tree(tmp_path / "out") == FILES


def test_directory_is_replaced_while_working_directory_does_not_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "removed").mkdir()
    monkeypatch.chdir(tmp_path / "removed")
    (tmp_path / "removed").rmdir()
    write_tree(tmp_path / "out", FILES)
    assert read_tree(tmp_path / "out") == FILES


def test_mount_point_is_refused_as_output_directory() -> None:
    with pytest.raises(InputError, match="/proc is a mount point, which cannot be replaced"):
        check_output_directory(Path("/proc"))


@pytest.mark.parametrize("step", ["_write_files", "_exchange"])
def test_interrupted_write_leaves_existing_output_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    write_tree(tmp_path / "out", FILES)

    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(atomic_files, step, interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_tree(tmp_path / "out", {"fleet.json": b"new"})
    assert read_tree(tmp_path / "out") == FILES
    assert os.listdir(tmp_path) == ["out"]


def test_modes_of_written_output_files_follow_umask(tmp_path: Path) -> None:
    umask_before = os.umask(0o027)
    try:
        write_tree(tmp_path / "out", FILES)
        write_file_atomically(tmp_path / "file", b"x")
    finally:
        os.umask(umask_before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "out" / "hosts" / "a" / "conf").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "out" / "fleet.json").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_output_file_is_replaced_without_temporary_file(tmp_path: Path) -> None:
    write_file_atomically(tmp_path / "picture.svg", b"old")
    write_file_atomically(tmp_path / "picture.svg", b"new")
    assert read_tree(tmp_path) == {"picture.svg": b"new"}


def test_output_file_is_written_with_missing_parent_directories(tmp_path: Path) -> None:
    write_file_atomically(tmp_path / "build" / "pictures" / "picture.svg", b"new")
    assert read_tree(tmp_path) == {"build/pictures/picture.svg": b"new"}


def test_output_file_below_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "build").write_bytes(b"old")
    with pytest.raises(OutputError) as error:
        write_file_atomically(tmp_path / "build" / "picture.svg", b"")
    assert str(error.value) == (
        f"cannot write the file {tmp_path}/build/picture.svg ({tmp_path}/build is not a directory): choose another path"
    )
    assert read_tree(tmp_path) == {"build": b"old"}
