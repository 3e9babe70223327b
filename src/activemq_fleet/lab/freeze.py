"""Freeze the active node of a pair and release its lock, as a paused virtual machine or a lost lease does.

The frozen broker does not notice that it lost the lock. Without a fence it writes into the store of its successor when
it thaws, before it checks its lock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from activemq_fleet.errors import InputError, LabError
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.polling import poll_for_true_result
from activemq_fleet.node.fence.shared_store import pair_lock_path
from activemq_fleet.topology import Broker

_SETTLE_SECONDS = 0.5  # Seconds in which pending writes reach the disk before the lock is released.
_POLL = 0.02
_TAKEOVER_TIMEOUT = 60.0
# A broker without a guard checks its lock every 2 s, and then needs some seconds to close its store.
_LOCK_CHECK_TIMEOUT = 20.0


@dataclass(frozen=True, slots=True)
class FreezeResult:
    """The result of freezing an active broker: the takeover by its peer, and the end of the frozen broker.

    A frozen broker is like a paused virtual machine. The broker was resumed after the takeover by its peer. Times are
    in seconds. ``served_after``: from the release of the lock until ``successor`` served; None if no lock was released,
    or the other node did not take over. ``ended_after``: from the thaw until the frozen broker was gone; None
    where it still ran after 20 s, with ``serves`` if it also answered then. ``two_masters``: the sentence that names
    both nodes if both could write to the store in force after the thaw.
    """

    host: str
    successor: str
    served_after: float | None
    ended_after: float | None
    serves: bool
    two_masters: str = ""

    @property
    def is_store_endangered(self) -> bool:
        """Whether both nodes of the pair could write to their store after the frozen broker resumed."""
        return bool(self.two_masters) or (self.serves and self.served_after is not None)

    def freeze_effect_sentences(self) -> tuple[str, ...]:
        """Return sentences about the effects of freezing an active broker, on the broker and its pair."""
        takeover_sentence = (
            f"no node took over while {self.host} was frozen"
            if self.served_after is None
            else f"{self.successor} began to serve clients {self.served_after:.1f} s after the lock of {self.host} was "
            "released"
        )
        if self.ended_after is not None:
            resume_sentence = f"{self.host} stopped {self.ended_after:.2f} s after it resumed"
        elif self.serves and self.served_after is None:
            resume_sentence = f"{self.host} serves clients again after it resumed"
        elif self.serves:
            resume_sentence = (
                f"{self.host} serves clients again after it resumed. {self.host} and {self.successor} may both write "
                "to the store: "
                "stop the lab (`lab down`), and start it with empty stores (`lab up --fresh`)"
            )
        else:
            resume_sentence = f"{self.host} still runs after it resumed, and serves no clients"
        return (
            takeover_sentence,
            resume_sentence,
            *([f"after {self.host} resumed: {self.two_masters}"] if self.two_masters else []),
        )


def freeze_and_resume_active_broker(
    lab: Lab, host: str, *, steal_lock: bool, thaw_after: float, progress: Callable[[str], None] = lambda _line: None
) -> FreezeResult:
    """Freeze an active broker like a paused virtual machine, resume it after a time, and return the result.

    The guard of the broker is also frozen. The broker is resumed ``thaw_after`` s after the takeover by its peer.
    Without ``steal_lock`` the frozen broker keeps its lock, and the other node does not take over. Raises InputError
    for a broker that shares no store, and LabError for a broker that does not serve.
    """
    broker = lab.fleet.broker(host)
    if broker.shared_store_directory is None or broker.peer is None:
        raise InputError(
            f"{broker.host} cannot be frozen, because it shares no store with a second node (activemq_ha is "
            f"{broker.settings.ha}): choose a broker of a pair with a shared store"
        )
    if lab.state(broker.host) != "active":
        raise LabError(
            f"{broker.host} is {lab.state(broker.host)}, but only an active broker can be frozen: choose the active "
            f"node of pair {broker.pair}"
        )
    peer = broker.peer
    try:
        lab.pause(broker.host)
        progress(f"{broker.host} is frozen")
        time.sleep(_SETTLE_SECONDS)
        released_at = time.monotonic()
        served_after = None
        if steal_lock:
            replace_lock_file(lock_file_path(broker))
            progress(f"the lock of {broker.host} was released; {peer} can acquire it")
            if poll_for_true_result(lambda: lab.state(peer) == "active", _TAKEOVER_TIMEOUT, _POLL):
                served_after = time.monotonic() - released_at
        time.sleep(thaw_after)
    finally:
        resumed_at = time.monotonic()
        lab.resume(broker.host)
    progress(f"{broker.host} resumes")
    two_masters = ""

    def has_stopped() -> bool:
        nonlocal two_masters
        two_masters = two_masters or lab.describe_two_masters(broker.pair)
        return not lab.is_alive(broker.host)

    ended = steal_lock and poll_for_true_result(has_stopped, _LOCK_CHECK_TIMEOUT, _POLL)
    ended_after = time.monotonic() - resumed_at if ended else None
    serves = not ended and lab.state(broker.host) == "active"
    return FreezeResult(broker.host, peer, served_after, ended_after, serves, two_masters)


def lock_file_path(broker: Broker) -> str:
    """Return the path of the lock file of a broker's shared message store.

    The lock decides which node of a pair is active.
    """
    store = str(broker.shared_store_directory)
    return pair_lock_path(store) if broker.has_guard else os.path.join(store, "lock")


def replace_lock_file(path: str) -> None:
    """Replace the lock file of a message store by a new, empty file.

    No process has locked the new file.
    """
    os.unlink(path)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o640))
