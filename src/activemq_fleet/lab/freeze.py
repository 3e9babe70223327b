"""Freeze the active node of a pair and give its lock away, as a paused virtual machine or a lost lease does.

The frozen broker does not know that it lost the lock. Without a fence it writes into the store of its successor when it
thaws, before it looks at its lock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from activemq_fleet.errors import LabError
from activemq_fleet.lab.lab import Lab

_SETTLED = 0.5  # seconds for what was on its way to the disk before the lock is given away
_POLL = 0.02
_TAKEOVER = 60.0
_LOOKS_AT_LOCK = 20.0  # a broker without a guard looks every 2 s by itself, and closes its store for some seconds more


@dataclass(frozen=True, slots=True)
class Freeze:
    """What a freeze did. Times are in seconds.

    ``served_after``: from the theft until ``successor`` served; None where no lock was stolen, or nobody took over.
    ``ended_after``: from the thaw until the frozen broker was gone; None where it still ran after 20 s, with ``serves``
    if it also answered then.
    """

    host: str
    successor: str
    served_after: float | None
    ended_after: float | None
    serves: bool

    def sentences(self) -> tuple[str, ...]:
        """Return what happened, one sentence a line, for the operator."""
        taken = (
            f"nobody took over while {self.host} was frozen"
            if self.served_after is None
            else f"{self.successor} served {self.served_after:.1f} s after the lock was free"
        )
        if self.ended_after is not None:
            return taken, f"{self.host} ended {self.ended_after:.2f} s after its thaw"
        if self.serves:
            return taken, f"{self.host} serves again since its thaw: it and its successor may write into one store"
        return taken, f"{self.host} runs on since its thaw, and serves nobody"


def freeze(
    lab: Lab, host: str, *, steal_lock: bool, thaw_after: float, progress: Callable[[str], None] = lambda _line: None
) -> Freeze:
    """Freeze a broker that serves, with its guard; thaw it ``thaw_after`` seconds after its successor serves.

    Without ``steal_lock`` the frozen broker keeps its lock, and nobody takes over. Raises LabError for a broker that
    shares no store, or does not serve.
    """
    broker = lab.fleet.broker(host)
    store = broker.shared_directory
    if store is None or broker.peer is None:
        raise LabError(f"{broker.host} has no store that it shares: activemq_ha is {broker.settings.ha}")
    if lab.state(broker.host) != "active":
        raise LabError(f"{broker.host} is {lab.state(broker.host)}: freeze the active node of {broker.pair}")
    lab.pause(broker.host)
    try:
        progress(f"{broker.host} is frozen")
        time.sleep(_SETTLED)
        stolen = time.monotonic()
        served_after = None
        if steal_lock:
            _replace(os.path.join(store, "fence", "lock") if broker.has_guard else os.path.join(store, "lock"))
            progress(f"its lock was given away; {broker.peer} may take it")
            if _until(lambda: lab.state(str(broker.peer)) == "active", _TAKEOVER):
                served_after = time.monotonic() - stolen
        time.sleep(thaw_after)
    finally:
        thawed = time.monotonic()
        lab.resume(broker.host)
    progress(f"{broker.host} thaws")
    ended = steal_lock and _until(lambda: not lab.is_alive(broker.host), _LOOKS_AT_LOCK)
    ended_after = time.monotonic() - thawed if ended else None
    serves = not ended and lab.state(broker.host) == "active"
    return Freeze(broker.host, broker.peer, served_after, ended_after, serves)


def _replace(path: str) -> None:
    """Put another file where the lock is, as a file system does that has forgotten who locked it."""
    os.unlink(path)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o640))


def _until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL)
    return True
