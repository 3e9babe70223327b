"""Locks a state directory for one agent: two agents would evict each other from the broker and share one outbox."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from activemq_agent.errors import AgentError

FILE = "agent.lock"


def lock(directory: Path) -> int:
    """Lock the state directory, creating it if need be; return the descriptor that holds the lock until it is closed.

    The kernel releases the lock when the process ends, however it ends. Raises AgentError if another process
    has it, naming that process, or if the directory cannot be used.
    """
    try:
        if not directory.is_dir():
            directory.mkdir(mode=0o750, parents=True, exist_ok=True)
            _sync(directory.parent)
        descriptor = os.open(directory / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise AgentError(f"{directory}: cannot be used as the state directory: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.read(descriptor, 20).decode(errors="replace").strip()
        os.close(descriptor)
        raise AgentError(
            f"{directory}: another agent{f', process {holder},' if holder else ''} uses this state directory: "
            "stop it, or give this one its own state.directory"
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _sync(directory: Path) -> None:
    """Make sure by fsync that a directory's entries are on the disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
