"""Write an output directory on this machine as ``OUT.staged``, and exchange it with OUT in one step."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from activemq_fleet import InputError
from activemq_fleet.atomic_files import check_directory_replaceable, exchange_paths, os_errors_as_output_errors
from activemq_fleet.spark.manifests import MANIFEST, json_text, parse_and_check_manifest
from activemq_fleet.spark.problems import SparkProblem

PERSISTENT_ENTRIES = (".follow",)
"""Entries of OUT that stay when the result is replaced."""


class LocalTarget:
    """A local output directory, to which a Spark job writes.

    It is written as ``OUT.staged`` first, and locked against other runs.
    """

    def __init__(self, out: Path) -> None:
        if out.is_symlink() and not out.exists():
            raise InputError(
                f"the output path {out} is a symbolic link to a path that does not exist: correct or remove the link"
            )
        self.out = out.resolve()
        self.staged = staging_directory_of(self.out)
        self._lock = -1

    def check_output_replaceable(self, kind: str) -> None:
        """Raise InputError if the output path has content that is not an earlier result of the same kind of job.

        It must be absent, empty, or an earlier result of the job ``kind``.
        """
        finish_replacement(self.out)
        if not self.out.exists():
            return
        if not self.out.is_dir():
            raise InputError(f"the output path {self.out} exists, but is not a directory: choose another output path")
        check_directory_replaceable(self.out)
        names = {path.name for path in self.out.iterdir()} - set(PERSISTENT_ENTRIES)
        if not names:
            return
        if MANIFEST not in names:
            raise InputError(
                f"{self.out}: this directory contains files that `{kind}` did not write, and `{kind}` would delete "
                "them: choose another output directory"
            )
        listed = parse_and_check_manifest(str(self.out), kind, (self.out / MANIFEST).read_text(errors="replace"))
        if foreign := sorted(names - {MANIFEST} - set(listed.get("contents", ()))):
            raise InputError(
                f"{self.out}: the output directory contains {foreign[0]}, which `{kind}` did not write and would "
                f"remove: move {foreign[0]} away, or choose another output directory"
            )

    def create_staging_directory_if_local(self) -> None:
        """Create and lock an empty staging directory for the output path.

        It is ``OUT.staged``. Raises InputError when another run has locked it, and OutputError when it cannot be
        created.
        """
        with os_errors_as_output_errors("create the directory", self.out):
            self.staged.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.staged, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise InputError(
                f"{self.out}: another run writes to this directory (it has locked {self.staged}): wait until that run "
                "has ended"
            ) from None
        self._lock = lock
        for entry in self.staged.iterdir():
            _remove_entry(entry)

    def dataset_uri(self, name: str) -> str:
        """Return the URI of a dataset's directory in the staging directory.

        The URI begins with ``file:``, the directory is in ``OUT.staged``.
        """
        return f"file://{self.staged / name}"

    def check_row_count_if_local(self, name: str, rows: int) -> None:
        """Check that a dataset's files on this machine have as many rows as Spark's tasks reported.

        Raises SparkProblem if they do not. Executors on other machines write to their own disks. ``HadoopTarget``
        checks nothing.
        """
        import pyarrow.parquet as pq

        directory = self.staged / name
        arrived_rows = sum(pq.read_metadata(path).num_rows for path in directory.glob("*.parquet"))
        if arrived_rows != rows or not directory.is_dir():
            raise SparkProblem(
                f"{self.out}: only {arrived_rows} of {rows} result rows in the directory {name} are on this machine. "
                "Executors on other machines wrote the other rows to their own disks. Choose a path that all executors "
                "share, such as s3a://, hdfs:// or NFS"
            )
        for path in directory.glob(".*.crc"):
            path.unlink()

    def paths_of_written_dataset(self, name: str) -> list[str]:
        """Return the directory of a dataset that the current job wrote, as a list with one path, for Spark to read."""
        return [str(self.staged / name)]

    def add_text_file_to_commit(self, name: str, text: str) -> None:
        """Write a text file, such as ``audit.json``, to the staging directory, which ``commit`` moves to the output.

        The file ``name`` is next to the datasets.
        """
        (self.staged / name).write_text(text, encoding="utf-8")

    def commit(self, manifest: Mapping[str, Any]) -> None:
        """Commit the output of a job: the staged output replaces the earlier content of the output path.

        The manifest is written before. ``OUT.staged`` and the output path are exchanged in one step; then the earlier
        result is removed.
        """
        contents = sorted(path.name for path in self.staged.iterdir())
        self.add_text_file_to_commit(MANIFEST, json_text({**manifest, "contents": contents}))
        exchange_paths(self.staged, self.out)
        finish_replacement(self.out)
        self.delete_staging_directory_if_local()

    def delete_staging_directory_if_local(self) -> None:
        """Delete the staging directory ``OUT.staged`` of a job's output, and release its lock.

        What was not committed is discarded; the output path is unchanged. Does nothing when called again.
        """
        if self._lock < 0:
            return
        shutil.rmtree(self.staged, ignore_errors=True)
        os.close(self._lock)
        self._lock = -1


def staging_directory_of(out: Path) -> Path:
    """Return the path of an output path's staging directory, ``OUT.staged``.

    The next result of ``out`` is written there.
    """
    return out.with_name(f"{out.name}.staged")


def finish_replacement(out: Path) -> None:
    """Finish the replacement of an output directory that was interrupted because its job was killed.

    PERSISTENT_ENTRIES are moved back from ``OUT.staged``.
    """
    for name in PERSISTENT_ENTRIES:
        old = staging_directory_of(out) / name
        if old.exists() and out.is_dir() and not (out / name).exists():
            os.rename(old, out / name)


def _remove_entry(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()
