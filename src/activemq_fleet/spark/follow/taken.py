"""Datasets that are taken over as long as all that they come from is the same."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from activemq_fleet.audit.result import Gap
from activemq_fleet.spark.follow.final import FinalOutput
from activemq_fleet.spark.follow.parts import link_all
from activemq_fleet.spark.follow.places import digest
from activemq_fleet.spark.paths import local_path

_DONE = "done.json"


def taken_over(
    output: FinalOutput,
    place: Path,
    names: Sequence[str],
    marks: Iterable[str],
    make: Callable[[], Sequence[Gap]],
) -> list[Gap]:
    """Write the datasets ``names``, by ``make`` or as they were made before; what ``make`` returned.

    ``marks`` say all that they come from, ``final`` included. What was made of the same is below ``place``: a directory
    whose last file is there is whole, whatever run it is from.
    """
    kept = place / f"{names[0]}-{digest(' '.join(marks).encode())}"
    told = _told(kept, names)
    if told is None:
        gaps = list(make())
        _keep(output, kept, names, gaps)
    else:
        gaps = [Gap(**gap) for gap in told["gaps"]]
        for name in names:
            output.adopt(name, [kept / name / file for file in told["files"][name]], told["rows"][name])
    for other in place.glob(f"{names[0]}-*"):
        if other != kept:
            shutil.rmtree(other, ignore_errors=True)
    return gaps


def _keep(output: FinalOutput, kept: Path, names: Sequence[str], gaps: Sequence[Gap]) -> None:
    shutil.rmtree(kept, ignore_errors=True)
    files: dict[str, dict[str, int]] = {}
    for name in names:
        found = local_path(output.place(name))
        if found is None:
            return
        link_all(sorted(found.glob("*.parquet")), kept / name)
        files[name] = {path.name: path.stat().st_size for path in (kept / name).iterdir()}
    rows = {name: output.rows_of(name) for name in names}
    beside = kept / f"{_DONE}.new"
    beside.write_text(json.dumps({"gaps": [asdict(gap) for gap in gaps], "files": files, "rows": rows}))
    os.replace(beside, kept / _DONE)


def _told(kept: Path, names: Sequence[str]) -> dict[str, Any] | None:
    """What was kept, if all of it is there."""
    try:
        told: dict[str, Any] = json.loads((kept / _DONE).read_text())
        sizes = [
            ((kept / name / file).stat().st_size, size) for name in names for file, size in told["files"][name].items()
        ]
    except (OSError, ValueError):
        return None
    return told if all(found == size for found, size in sizes) else None
