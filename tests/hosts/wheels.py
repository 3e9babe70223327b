"""What a machine installs the agent from: this checkout's wheel, and all that it needs, without a network."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from activemq_fleet.artifacts._cache import ensure_cached, log_progress
from scripts import wheelhouse


def build_wheels(directory: Path) -> Path:
    """Make what ``make package`` makes, of requirements that were fetched once and kept in the library's cache."""
    pinned = wheelhouse.ROOT / "requirements/agent.txt"
    name = f"wheels/{hashlib.sha256(pinned.read_bytes()).hexdigest()[:12]}"
    shutil.copytree(ensure_cached(name, wheelhouse.download_requirements, progress=log_progress), directory)
    wheelhouse.build_agent(directory)
    return directory
