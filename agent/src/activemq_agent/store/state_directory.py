"""Makes changes of files and directories durable, and locks a state directory for one agent."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from activemq_agent.agent_errors import AgentError

LOCK_FILE = "agent.lock"


def sync_paths_to_disk(*paths: Path) -> None:
    """Sync files and directories to the disk.

    Calls fsync, so that their contents and entries are on the disk.
    """
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def lock_state_directory(directory: Path) -> int:
    """Lock the state directory of an agent, and return the file descriptor that holds the lock.

    The directory is created if missing. The lock is held until the descriptor is closed. Two agents would evict each
    other from the broker and share one outbox. The kernel releases the lock when the process ends, however it ends.
    Raises AgentError if another process has it, naming that process, or if the directory cannot be used.
    """
    try:
        if not directory.is_dir():
            directory.mkdir(mode=0o750, parents=True, exist_ok=True)
            sync_paths_to_disk(directory.parent)
        descriptor = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise AgentError(
            f"{directory}: the agent cannot use this state directory ({error.strerror}): correct its owner and mode, "
            "or set state.directory in agent.conf to another directory"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.read(descriptor, 20).decode(errors="replace").strip()
        os.close(descriptor)
        raise AgentError(
            f"{directory}: another agent{f', process {holder},' if holder else ''} uses this state directory: "
            "stop that agent, or set a separate state.directory for this one in agent.conf"
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor
