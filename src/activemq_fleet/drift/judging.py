"""Conclude how a file differs from its plan, and whether by hand or because the plan is newer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["added", "removed", "changed", "same"]
Cause = Literal["by_hand", "out_of_date", "unknown"]


@dataclass(frozen=True, slots=True)
class FileEvidence:
    """The known versions of a file. The hashes are sha256 of masked texts; None where there is no file.

    ``manifest``: as deployed. ``told``: the file's status against its manifest as ``collect`` noted it: same, changed,
    added, removed, unreadable, or unknown on a host without a manifest. ``installed``: the host has a manifest.
    """

    planned: str | None = None
    found: str | None = None
    manifest: str | None = None
    told: str | None = None
    installed: bool = False


def file_status(file: FileEvidence) -> tuple[Status, Cause | None]:
    """Return the status and the cause of a file. ``by_hand``: it differs from the manifest. ``out_of_date``: it is as
    deployed, and was planned otherwise since.
    """
    if file.told == "unreadable":
        return "changed" if file.planned else "added", "unknown"
    if file.found is not None and file.found == file.planned:
        return "same", None
    if file.found is None:
        return "removed", _cause_of_absence(file)
    return "changed" if file.planned else "added", _cause_of_presence(file)


def _cause_of_presence(file: FileEvidence) -> Cause:
    if file.manifest is not None:
        return "out_of_date" if file.found == file.manifest else "by_hand"
    return "by_hand" if file.told == "added" else "unknown"


def _cause_of_absence(file: FileEvidence) -> Cause:
    if file.manifest is not None:
        return "by_hand"
    return "out_of_date" if file.installed else "unknown"
