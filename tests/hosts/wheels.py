"""The wheels from which a machine installs the agent without a network: that of the checkout and its requirements."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from activemq_fleet.artifacts._cache import ensure_cached, log_software_fetch_progress
from scripts import wheelhouse


def build_wheels(directory: Path) -> Path:
    """Build the wheels of ``make package``; take the requirements from the cache of the library."""
    pinned = wheelhouse.ROOT / "requirements/agent.txt"
    name = f"wheels/{hashlib.sha256(pinned.read_bytes()).hexdigest()[:12]}"
    shutil.copytree(
        ensure_cached(name, wheelhouse.download_requirements, progress=log_software_fetch_progress), directory
    )
    wheelhouse.build_agent(directory)
    return directory
