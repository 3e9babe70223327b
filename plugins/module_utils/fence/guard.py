# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The guard: the main process of a fenced broker's unit, and the broker's parent.

    guard --store STORE --local DIRECTORY -- java …

The broker's configuration names ``DIRECTORY/store`` as its store: a link, first to a gate where nobody gets a lock. So
the broker starts, checks its configuration, and waits as any standby does. When the guard has the pair's lock and
a generation of the store is its own, it moves the link; the broker's next try takes the lock of that generation.
The guard looks at the store while the broker serves, and kills it once another guard has claimed it.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from typing import Any, NoReturn

from ..install import disk
from .decision import Action, Claim, Fence, Look, Step
from .generation import make_first, make_generation
from .old_generations import tidy
from .shared_store import SHARED_LINK, FenceError, SharedStore

LOOK_INTERVAL = 0.05
"""Seconds between two looks of a guard whose broker serves: how long that may run on once the other node claims."""
TRY_INTERVAL = 0.1
"""Seconds between two tries for the pair's lock."""
RETRY_INTERVAL = 1.0
"""Seconds until a guard tries again that had the lock and could not make or claim a generation."""
LOOK_TIMEOUT = 20.0
"""Seconds that the store has to answer a look. A broker on a store that does not answer serves nobody either."""
TIDY_INTERVAL = 60.0
"""Seconds between two looks for generations that can go."""
_PAUSES = {Action.WAIT: TRY_INTERVAL, Action.STAY: LOOK_INTERVAL}
_BUILD_TIMEOUT = 600
"""Seconds that making a generation may take: the index of the store is copied, and systemd hears nothing meanwhile."""
_PR_SET_PDEATHSIG = 1
ENDED = 75
"""Exit status of a guard that killed its broker (EX_TEMPFAIL: the unit starts it again, and it waits)."""


def main() -> NoReturn:
    """Run the guard until its broker has ended; the exit status is the broker's, or ``ENDED``."""
    parser = argparse.ArgumentParser(prog="guard", description="Run a broker behind a fence.")
    parser.add_argument("--store", required=True)
    parser.add_argument("--local", required=True)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    try:
        sys.exit(Guard(options.store, options.local).run(options.command))
    except (FenceError, OSError) as error:
        _say(f"the broker is not started: {error}")
        sys.exit(1)


def _exit_status(code: int) -> int:
    """Return the exit status for a broker's return code: of one that a signal ended what a shell says of it."""
    return code if code >= 0 else 128 - code


def _start(command: list[str], inherited: tuple[int, ...]) -> subprocess.Popen[bytes]:
    """Start the broker. The kernel kills it when this thread, which is the process's first, ends."""
    prctl = ctypes.CDLL(None).prctl
    guard = os.getpid()

    def die_with_guard() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(ENDED)

    return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=inherited, preexec_fn=die_with_guard)


def _tell_systemd(text: str) -> None:
    """Send a word to the unit's manager (sd_notify); it kills a guard that says nothing, and so its broker."""
    path = os.environ.get("NOTIFY_SOCKET")
    if path:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.connect("\0" + path[1:] if path.startswith("@") else path)
            notify.send(text.encode())


def _say(text: str) -> None:
    print(f"guard: {text}", flush=True)


class Guard:
    """One guard and its broker. ``store`` is the shared directory, ``local`` one on the host's own disk."""

    def __init__(self, store: str, local: str) -> None:
        self._store = SharedStore(store)
        self._local = local
        self._link = os.path.join(local, "store")
        self._gate = os.path.join(local, "gate")
        self._record = os.path.join(local, "claim.json")
        self._token = secrets.token_hex(16)
        self._built: tuple[Claim, dict[str, Any]] | None = None
        self._broker: subprocess.Popen[bytes] | None = None
        self._looks = ThreadPoolExecutor(1, thread_name_prefix="look")
        self._tidies = ThreadPoolExecutor(1, thread_name_prefix="tidy")
        self._tidying: Future[None] | None = None
        self._tidy_at = 0.0

    def run(self, command: list[str]) -> int:
        """Start the broker at the gate, and serve as its guard until it has ended; return the exit status.

        Raises FenceError, OSError for what is found before the broker is started.
        """
        os.makedirs(self._local, 0o750, exist_ok=True)
        alive = self._only_one()
        self._store.prepare()
        disk.point(os.path.join(self._local, SHARED_LINK), self._store.directory)
        own = self._read_record()
        if own:
            # Nobody else holds the file `alive`, so the broker that wrote this generation is dead.
            self._note_end(own)
        self._close_gate()
        fence = Fence(frozenset([own.token] if own else []))
        self._broker = _start(command, (alive,))
        signal.signal(signal.SIGTERM, lambda *_: self._send(signal.SIGTERM))
        try:
            return _exit_status(self._watch(fence, self._broker))
        finally:
            self._kill()
            self._close_gate()
            self._drop_built()
            own = self._read_record()
            if own:
                with contextlib.suppress(OSError, FenceError):
                    self._note_end(own)

    def _watch(self, fence: Fence, broker: subprocess.Popen[bytes]) -> int:
        while True:
            step = fence.next(self._look())
            _tell_systemd("WATCHDOG=1")
            if step.action is Action.STAY:
                self._tidy(step.number)
            if step.action is Action.END:
                self._kill()
                _say(f"the broker was killed: {step.reason}")
                return ENDED
            pause = _PAUSES.get(step.action, 0.0)
            try:
                fence = self._carry_out(fence, step)
            except (OSError, FenceError) as error:
                if fence.serves is not None:
                    raise
                _say(f"it cannot {step.action.value}: {error}")
                self._store.unlock()
                fence = fence.dropped()
                pause = RETRY_INTERVAL
            if pause:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return broker.wait(pause)

    def _look(self) -> Look:
        """Look at the store; what is not seen in time counts as lost."""
        look: Future[Look] = self._looks.submit(self._store.look)
        try:
            return look.result(LOOK_TIMEOUT)
        except (LateError, OSError, FenceError) as error:
            _say(f"the store cannot be seen: {error or 'it does not answer'}")
            return Look(holds_lock=False, highest=None)

    def _carry_out(self, fence: Fence, step: Step) -> Fence:
        if step.action is Action.WAIT:
            self._store.try_lock(self._token)
        elif step.action is Action.BUILD:
            self._build(step.number)
            return fence.built(step.number)
        elif step.action is Action.CLAIM:
            return fence.claimed(self._claim(step.number))
        elif step.action is Action.ADMIT:
            self._admit(step.number)
            return fence.admitted(step.number)
        return fence

    def _build(self, number: int) -> None:
        """Make a generation under a name that nobody else uses; a token serves one claim only."""
        self._drop_built()
        token = secrets.token_hex(16)
        claim = Claim(number + 1, token, f"{number + 1}-{token}")
        self._built = claim, {}
        target = self._store.generation(claim.directory)
        began = time.monotonic()
        _tell_systemd(f"WATCHDOG_USEC={_BUILD_TIMEOUT * 1_000_000}")
        made = make_generation(self._path_of(number), target) if number else make_first(target)
        _tell_systemd(f"WATCHDOG_USEC={os.environ.get('WATCHDOG_USEC', '')}")
        self._built = claim, {**made.to_dict(), "host": socket.gethostname(), "made": time.time()}
        _say(
            f"generation {claim.number} was made in {time.monotonic() - began:.3f} s: {made.links} files linked, "
            f"{len(made.ends)} copied, {'with' if made.has_index else 'without'} its index"
        )

    def _tidy(self, number: int) -> None:
        """Remove old generations now and then, beside the looks, which must not wait for it."""
        if self._tidying and not self._tidying.done():
            return
        now = time.monotonic()
        if now >= self._tidy_at:
            self._tidy_at = now + TIDY_INTERVAL
            self._tidying = self._tidies.submit(self._tidy_now, number)

    def _tidy_now(self, number: int) -> None:
        try:
            for sentence in tidy(self._store, number):
                _say(sentence)
        except (OSError, FenceError) as error:
            _say(f"old generations are kept for now: {error}")

    def _drop_built(self) -> None:
        """Remove what was made and not claimed: no claim will ever name it."""
        if self._built:
            with contextlib.suppress(OSError):
                disk.remove_tree(self._store.generation(self._built[0].directory))
            self._built = None

    def _path_of(self, number: int) -> str:
        return self._store.generation(self._store.read_claim(number)[0].directory)

    def _claim(self, number: int) -> str:
        if self._built is None or self._built[0].number != number:
            raise FenceError(f"no generation {number} was made")
        claim, told = self._built
        # Written first: after a crash between the two the token stands in no claim, and says nothing.
        disk.replace_file(self._record, json.dumps(vars(claim)).encode(), 0o640)
        if self._store.claim(claim, told):
            self._built = None
            _say(f"generation {number} is claimed")
            if number > 1:
                # A broker that still runs there ends by itself when it sees this, on 5.9 and later.
                disk.remove(os.path.join(self._path_of(number - 1), "lock"))
            return claim.token
        self._drop_built()
        raise FenceError(f"another guard has claimed generation {number}")

    def _admit(self, number: int) -> None:
        self._store.withdraw_end(number)
        disk.point(self._link, self._path_of(number))
        _say(f"the broker is let into generation {number}")

    # -- the broker ---------------------------------------------------------------------------

    def _only_one(self) -> int:
        """Return the open file whose lock guard and broker hold as long as one of them lives.

        Raises FenceError where another guard or its broker does.
        """
        descriptor = os.open(os.path.join(self._local, "alive"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise FenceError(f"another guard, or a broker of it, still runs with {self._local}: end it first") from None
        return descriptor

    def _close_gate(self) -> None:
        """Point the link to where no broker ever gets a lock: a directory has the place of the lock's file."""
        os.makedirs(os.path.join(self._gate, "lock"), 0o750, exist_ok=True)
        disk.point(self._link, self._gate)

    def _send(self, number: signal.Signals) -> None:
        if self._broker and self._broker.poll() is None:
            self._broker.send_signal(number)

    def _kill(self) -> None:
        if self._broker:
            self._send(signal.SIGKILL)
            self._broker.wait()

    # -- what this host has claimed -----------------------------------------------------------

    def _read_record(self) -> Claim | None:
        try:
            with open(self._record, "rb") as file:
                return Claim(**json.loads(file.read()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def _note_end(self, own: Claim) -> None:
        with contextlib.suppress(FileNotFoundError):
            if self._store.read_claim(own.number)[0] == own:
                self._store.note_end(own.number, own.token)
