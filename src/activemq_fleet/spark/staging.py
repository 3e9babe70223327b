"""An output directory on this machine: written beside its place, and put there in one step."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from activemq_fleet.atomic_files import swap
from activemq_fleet.errors import InputError
from activemq_fleet.spark.manifests import MANIFEST, check_manifest, json_text
from activemq_fleet.spark.problems import SparkProblem

PERSISTENT_ENTRIES = (".follow",)
"""Entries of OUT that stay when the result is replaced."""


class LocalTarget:
    """``OUT.staged`` while a run writes. One run at a time: the directory is locked."""

    def __init__(self, out: Path) -> None:
        if out.is_symlink() and not out.exists():
            raise InputError(f"{out}: is a link to nothing")
        self.out = out.resolve()
        self.staged = staging_directory_of(self.out)
        self._lock = -1

    def check_replaceable(self, kind: str) -> None:
        """Raise InputError unless OUT is absent, empty, or an earlier result of this kind."""
        finish_replacement(self.out)
        if not self.out.exists():
            return
        if not self.out.is_dir():
            raise InputError(f"{self.out}: is not a directory")
        found = {path.name for path in self.out.iterdir()} - set(PERSISTENT_ENTRIES)
        if not found:
            return
        if MANIFEST not in found:
            raise InputError(f"{self.out}: is not empty and was not written by {kind}; choose another directory")
        listed = check_manifest(str(self.out), kind, (self.out / MANIFEST).read_text(errors="replace"))
        if foreign := sorted(found - {MANIFEST} - set(listed.get("contents", ()))):
            raise InputError(
                f"{self.out}: holds {foreign[0]}, which {kind} did not write and would remove; "
                "move it away, or choose another directory"
            )

    def prepare(self) -> None:
        """Make an empty ``OUT.staged``. Raises InputError when another run has it."""
        self.staged.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.staged, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise InputError(f"{self.out}: another run is writing it, into {self.staged}; wait for its end") from None
        self._lock = lock
        for entry in self.staged.iterdir():
            _remove(entry)

    def dataset_path(self, name: str) -> str:
        """Where the files of a dataset are written."""
        return f"file://{self.staged / name}"

    def check_rows(self, name: str, rows: int) -> None:
        """See that all rows are in files here: executors elsewhere would have written to their own disks."""
        import pyarrow.parquet as pq

        place = self.staged / name
        found = sum(pq.read_metadata(path).num_rows for path in place.glob("*.parquet"))
        if found != rows or not place.is_dir():
            raise SparkProblem(
                f"{self.out}: {found} of {rows} rows of {name} arrived, the others lie on executors' own disks; "
                "choose a path that all of them share, such as s3a://, hdfs:// or NFS"
            )
        for path in place.glob(".*.crc"):
            path.unlink()

    def written_files(self, name: str) -> list[str]:
        """The paths of what this run wrote of a dataset."""
        return [str(self.staged / name)]

    def write_text(self, name: str, text: str) -> None:
        """Write a file beside the datasets."""
        (self.staged / name).write_text(text, encoding="utf-8")

    def commit(self, manifest: Mapping[str, Any]) -> None:
        """Put what was written in OUT's place; what was there goes."""
        contents = sorted(path.name for path in self.staged.iterdir())
        self.write_text(MANIFEST, json_text({**manifest, "contents": contents}))
        swap(self.staged, self.out)
        finish_replacement(self.out)
        self.discard()

    def discard(self) -> None:
        """Leave OUT as it is; nothing else of this run stays."""
        if self._lock < 0:
            return
        shutil.rmtree(self.staged, ignore_errors=True)
        os.close(self._lock)
        self._lock = -1


def staging_directory_of(out: Path) -> Path:
    """Where the next result is written."""
    return out.with_name(f"{out.name}.staged")


def finish_replacement(out: Path) -> None:
    """Finish the replacement of OUT that a kill interrupted, if there is one.

    Between the exchange of both directories and its end, what is kept lies in the staged one.
    """
    for name in PERSISTENT_ENTRIES:
        old = staging_directory_of(out) / name
        if old.exists() and out.is_dir() and not (out / name).exists():
            os.rename(old, out / name)


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()
