"""One file of one host: what became of it since it was planned, and whose doing that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["added", "removed", "changed", "same"]
Cause = Literal["by_hand", "out_of_date", "unknown"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a file. The hashes are sha256 of masked texts; None where there is no file.

    ``manifest``: as deployed. ``told``: what ``collect`` says of the file against its manifest:
    same, changed, added, removed, unreadable, or unknown where nothing of ours was installed.
    ``installed``: the host has a manifest at all.
    """

    planned: str | None = None
    found: str | None = None
    manifest: str | None = None
    told: str | None = None
    installed: bool = False


def judge(file: Evidence) -> tuple[Status, Cause | None]:
    """Status and cause. By hand: other than the manifest. Out of date: as deployed, and planned otherwise since."""
    if file.told == "unreadable":
        return "changed" if file.planned else "added", "unknown"
    if file.found is not None and file.found == file.planned:
        return "same", None
    if file.found is None:
        return "removed", _cause_of_absence(file)
    return "changed" if file.planned else "added", _cause_of_presence(file)


def _cause_of_presence(file: Evidence) -> Cause:
    if file.manifest is not None:
        return "out_of_date" if file.found == file.manifest else "by_hand"
    return "by_hand" if file.told == "added" else "unknown"


def _cause_of_absence(file: Evidence) -> Cause:
    if file.manifest is not None:
        return "by_hand"
    return "out_of_date" if file.installed else "unknown"
