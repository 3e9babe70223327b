"""Deliveries and messages, taken over as long as journals are the same: they and ``final`` come from journals alone."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from activemq_fleet.pipeline.audit.findings import Gap
from activemq_fleet.pipeline.audit.job import settle
from activemq_fleet.pipeline.follow.final import FinalOutput
from activemq_fleet.pipeline.follow.parts import link_all
from activemq_fleet.pipeline.follow.places import digest
from activemq_fleet.pipeline.paths import local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DONE = "done.json"
_NAMES = ("deliveries", "messages")
_PREFIX = "verdicts-"


def verdicts(output: FinalOutput, records: DataFrame, marks: Iterable[str], place: Path) -> list[Gap]:
    """Write deliveries and messages; what is missing of the journals.

    ``marks`` are those of all shares of the journals that ``records`` come from. What was settled for the same is below
    ``place``: a directory whose last file is there is whole, whatever run it is from.
    """
    kept = place / f"{_PREFIX}{digest(' '.join(sorted(marks)).encode())}"
    told = _told(kept)
    if told is None:
        gaps = _settle(output, records)
        _keep(output, gaps, kept)
    else:
        gaps = [Gap(**gap) for gap in told["gaps"]]
        for name in _NAMES:
            output.adopt(name, [kept / name / file for file in told["files"][name]], told["rows"][name])
    for other in place.glob(f"{_PREFIX}*"):
        if other != kept:
            shutil.rmtree(other, ignore_errors=True)
    return gaps


def _settle(output: FinalOutput, records: DataFrame) -> list[Gap]:
    records = records.persist()
    try:
        return settle(output, records)
    finally:
        records.unpersist()


def _keep(output: FinalOutput, gaps: list[Gap], kept: Path) -> None:
    shutil.rmtree(kept, ignore_errors=True)
    files: dict[str, dict[str, int]] = {}
    for name in _NAMES:
        found = local_path(output.place(name))
        if found is None:
            return
        link_all(sorted(found.glob("*.parquet")), kept / name)
        files[name] = {path.name: path.stat().st_size for path in (kept / name).iterdir()}
    rows = {name: output.rows_of(name) for name in _NAMES}
    beside = kept / f"{_DONE}.new"
    beside.write_text(json.dumps({"gaps": [asdict(gap) for gap in gaps], "files": files, "rows": rows}))
    os.replace(beside, kept / _DONE)


def _told(kept: Path) -> dict[str, Any] | None:
    """What was kept, if all of it is there."""
    try:
        told: dict[str, Any] = json.loads((kept / _DONE).read_text())
        sizes = [
            ((kept / name / file).stat().st_size, size) for name in _NAMES for file, size in told["files"][name].items()
        ]
    except (OSError, ValueError):
        return None
    return told if all(found == size for found, size in sizes) else None
