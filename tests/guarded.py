"""A directory for handlers: no other user can write it or its parents, which excludes /tmp."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from activemq_agent.agent_errors import AgentError
from activemq_agent.executable_handlers import resolve_path_not_replaceable_by_others

_BUILD = Path(__file__).resolve().parents[1] / "build"
_PARENTS = (_BUILD, Path("/var/lib"))
"""Root uses /var/lib if the checkout is below /tmp."""


@contextmanager
def directory_for_handlers() -> Iterator[Path]:
    """Provide a new directory below ``build`` of the checkout, or below /var/lib for root; remove it at the end."""
    _BUILD.mkdir(exist_ok=True)
    parent = next((parent for parent in _PARENTS if os.access(parent, os.W_OK) and _is_protected(parent)), None)
    if parent is None:
        pytest.skip(f"other users can write {_BUILD} or one of its parents: clone to a directory of your user")
    with tempfile.TemporaryDirectory(dir=parent, prefix="activemq-fleet-test-") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


def _is_protected(directory: Path) -> bool:
    try:
        resolve_path_not_replaceable_by_others(directory)
    except AgentError:
        return False
    return True
