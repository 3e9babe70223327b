"""Command and environment of the process that fills an agent's store in tests of durability."""

from __future__ import annotations

import os
import sys
from pathlib import Path

STORE_LOAD = Path(__file__).with_name("agent_store_load.py")


LIBRARY_SOURCE = Path(__file__).resolve().parents[2] / "src"


def store_load_command(directory: Path, synchronous: str, count: int) -> list[str]:
    return [sys.executable, str(STORE_LOAD), str(directory), synchronous, str(count)]


def agent_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(LIBRARY_SOURCE)}
