"""Conclude how a file differs from its plan, and whether by hand or because the plan is newer than the deployment."""

from __future__ import annotations

from typing import Literal

from activemq_fleet.drift.records import FileRecord

Status = Literal["added", "removed", "changed", "same"]
Cause = Literal["by_hand", "out_of_date", "unknown"]


def file_status(file: FileRecord, *, installed: bool) -> tuple[Status, Cause | None]:
    """Return the status of a file (added, removed, changed, same) and the cause of a difference (None for ``same``).

    ``installed``: the host has a manifest. ``by_hand``: the file differs from the manifest. ``out_of_date``: it is as
    deployed, and was planned otherwise since.
    """
    if file.noted_status == "unreadable":
        return "changed" if file.planned else "added", "unknown"
    if file.found_sha256 is not None and file.found_sha256 == file.planned:
        return "same", None
    if file.found_sha256 is None:
        return "removed", "by_hand" if file.manifest is not None else "out_of_date" if installed else "unknown"
    return "changed" if file.planned else "added", _cause_of_presence(file)


def _cause_of_presence(file: FileRecord) -> Cause:
    if file.manifest is not None:
        return "out_of_date" if file.found_sha256 == file.manifest else "by_hand"
    return "by_hand" if file.noted_status == "added" else "unknown"
