"""A directory that nobody else can write, nor anything that leads to it, as handlers need one: below /tmp is none."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from activemq_agent.agent_errors import AgentError
from activemq_agent.programs import raise_if_replaceable_by_other_users

_BUILD = Path(__file__).resolve().parents[1] / "build"
_PLACES = (_BUILD, Path("/var/lib"))
"""Where a checkout lies below /tmp, root still has a place."""


@contextmanager
def directory_for_handlers() -> Iterator[Path]:
    """A new directory below the checkout's ``build``, else one of root's; it is gone at the end."""
    _BUILD.mkdir(exist_ok=True)
    place = next((place for place in _PLACES if os.access(place, os.W_OK) and _is_guarded(place)), None)
    if place is None:
        pytest.skip(f"others can write {_BUILD} or what leads to it: clone to a place of your own")
    with tempfile.TemporaryDirectory(dir=place, prefix="activemq-fleet-test-") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


def _is_guarded(place: Path) -> bool:
    try:
        raise_if_replaceable_by_other_users(place)
    except AgentError:
        return False
    return True
