"""The file of results of attacks or drills, one JSON object per line. Attacks in the file are not repeated."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def read_results(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the results in a file, in their order; none if the file does not exist."""
    if path.exists():
        yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def append_result(path: Path, result: Mapping[str, Any]) -> None:
    """Append a result to a file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(result) + "\n")
