# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The guard: the parent process of a fenced broker, which carries out the steps that ``decision`` returns.

``guard_cli`` contains the command line of its program.

The broker's configuration names ``DIRECTORY/store`` as its store. This is a link that first points to a gate, a
directory in which no broker can acquire the lock. So the broker starts, checks its configuration, and waits as every
standby does. When the guard holds the pair's lock and has claimed a generation of the store, it points the link to that
generation, and the broker acquires the lock there at its next attempt. While the broker serves, the guard checks the
store, and kills the broker after another guard has claimed the store.

With a fence command the guard makes no generations. It points the link to the store itself after the broker of the
other node is dead: its guard recorded that, the command terminated it, or an operator confirmed it.
"""
# pylint: disable=ansible-bad-function # The package also runs without Ansible, which has no run_command there.

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import signal
import socket
import subprocess
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from typing import TYPE_CHECKING, Any

from ..errors import NodeError
from ..files import disk
from ..kahadb.incomplete_batch import describe_incomplete_batch_not_copied, remove_incomplete_batch_at_journal_end
from ..kahadb.journal_end_check import describe_missing_journal_end
from ..kahadb.moved_acks import begin_data_file_if_acks_moved
from ..kahadb.rebuild_risk import RebuildRefusedError
from ..kahadb.risk_records import RebuildRisk, record_rebuild_risk
from ..kahadb.store_repair import repair_killed_broker_stores
from ..process.systemd_notification import notify_systemd
from ..timeouts import STORE_ANSWER
from .broker_process import (
    ENDED,
    command_to_start_guard,
    exit_status_of_return_code,
    kill_broker,
    print_to_unit_log,
    signal_broker,
    start_broker,
)
from .decision import (
    FenceCommandGuardState,
    FenceEvidence,
    GuardAction,
    GuardStep,
    StoreClaim,
    StoreCopyingGuardState,
    claim_without_store_copy,
)
from .fence_setup_and_removal import claim_existing_store, move_files_into_generation, record_guard_start
from .generation import (
    GenerationCopyResult,
    copy_store_into_new_generation,
    hard_link_generation,
    make_first_generation,
    replace_lock_file_by_directory,
)
from .operator_fence_command import ExecutableFenceCommand
from .shared_store import BARRIER, SHARED_LINK, FenceError, SharedStore, claimant_name_of_this_machine

if TYPE_CHECKING:
    from typing import TypeAlias  # of Python 3.10

    AnyFence: TypeAlias = "StoreCopyingGuardState | FenceCommandGuardState"

_CHECK_INTERVAL = 0.05
"""Seconds between two checks of a guard whose broker serves: the broker can run that long after the peer claims."""
_LOCK_INTERVAL = 0.1
"""Seconds between two attempts to acquire the pair's lock."""
_FENCE_COMMAND_INTERVAL = 10.0
"""Seconds until a fence command that failed is called again."""
_TAKEOVER_INTERVAL = 1.0
"""Seconds until a guard that had the lock and could not create or claim a generation tries again."""
_FIRST_REMOVAL_DELAY = 2.0
"""Seconds from the start of the guard, and from a takeover, to the next removal of old generations."""
_REMOVAL_INTERVAL = 60.0
"""Seconds between two removals of old generations."""
_COPY_TIMEOUT = 600
"""Seconds that making a generation may take: the index is copied, and systemd gets no watchdog message."""


class Guard:
    """The guard: the parent process of a broker, which fences the shared store of its pair.

    It claims the store before the broker opens it, and kills the broker when the peer claims the store. ``store`` is
    the shared directory, ``local`` a directory on the host's own disk. Without a fence ``command`` each takeover makes
    a generation of the store; with a command the store is not copied. ``keeps_index``: the guard keeps a copy of the
    index, with each later data file. ``refuses_loss``: the broker may not open a store without a usable index if
    messages of durable subscriptions would be lost.
    """

    def __init__(
        self,
        store: str,
        local: str,
        command: ExecutableFenceCommand | None = None,
        *,
        keeps_index: bool = False,
        refuses_loss: bool = False,
    ) -> None:
        self._store = SharedStore(store)
        self._fence_command = command
        self._local_directory = local
        self._store_link = os.path.join(local, "store")
        self._gate = os.path.join(local, "gate")
        self._lock_token = secrets.token_hex(16)
        self._node = ""
        self._keeps_index = keeps_index
        self._refuses_loss = refuses_loss
        self._unclaimed_generation: tuple[StoreClaim, dict[str, Any], RebuildRisk] | None = None
        self._broker: subprocess.Popen[bytes] | None = None
        self._evidence_executor = ThreadPoolExecutor(1, thread_name_prefix="evidence")
        self._removal_process: subprocess.Popen[bytes] | None = None
        self._index_keeper: subprocess.Popen[bytes] | None = None
        self._next_removal_at = time.monotonic() + _FIRST_REMOVAL_DELAY
        self._dead_brokers_recorded_until = 0
        self._both_have_guards = False

    def run_broker(self, command: list[str]) -> int:
        """Run a broker by its command under the guard; return its exit status, or ``ENDED`` if the guard killed it.

        The broker opens the store once this node has claimed it. Raises FenceError or OSError for a problem that is
        detected before the broker starts.
        """
        os.makedirs(self._local_directory, 0o750, exist_ok=True)
        alive = self._lock_against_second_guard()
        self._node = self._read_or_create_node_name()
        self._prepare_store()
        disk.set_symlink_target(os.path.join(self._local_directory, SHARED_LINK), self._store.directory)
        self._point_store_link_to_gate()
        self._broker = broker = start_broker(command, (alive,))
        signal.signal(signal.SIGTERM, lambda *_unused: signal_broker(broker, signal.SIGTERM))
        try:
            fence = FenceCommandGuardState(self._node) if self._fence_command else StoreCopyingGuardState(self._node)
            return exit_status_of_return_code(self._carry_out_steps_until_broker_ends(fence, broker))
        finally:
            kill_broker(broker)
            # Recorded before the lock is released, so that the other node makes its generation without copies.
            with contextlib.suppress(OSError, FenceError):
                self._record_dead_brokers(max(self._store.claim_numbers(), default=0))
            self._store.release_pair_lock()
            self._point_store_link_to_gate()

    def _prepare_store(self) -> None:
        """Create the guard's directories in the store, and record that this node has a guard.

        With a fence command nothing is recorded. Raises FenceError for a store with generations then.
        """
        self._store.make_directories()
        if self._fence_command is None:
            self._both_have_guards = record_guard_start(self._store, self._node)
            return
        highest = self._store.highest_claim()
        if (highest and highest.is_claim_on_store_copy) or os.path.isdir(os.path.join(self._store.directory, BARRIER)):
            raise FenceError(
                f"the store {self._store.directory} was used with activemq_fence: guard, but activemq_fence is now "
                f"command. Stop the brokers of both nodes. On one of them, run {' '.join(command_to_start_guard())} "
                f"--store {self._store.directory} --unfence. Then start the brokers"
            )

    def _carry_out_steps_until_broker_ends(self, fence: AnyFence, broker: subprocess.Popen[bytes]) -> int:
        """Gather evidence and carry out the step that follows, until the broker ends; return its exit status."""
        while True:
            step = fence.next_guard_step(self._gather_evidence(at_end=fence.serves is None))
            notify_systemd("WATCHDOG=1")
            if step.action is GuardAction.END:
                kill_broker(broker)
                print_to_unit_log(f"the guard killed the broker, because {step.reason}. This node restarts as standby")
                return ENDED
            try:
                fence, pause = self._carry_out_step(fence, step)
            except (OSError, FenceError, NodeError, RebuildRefusedError) as error:
                if fence.serves is not None:
                    raise
                print_to_unit_log(f"the guard cannot {step.action.value}, and tries again: {error}")
                self._store.release_pair_lock()
                fence = fence.guard_state_after_claim_attempt()
                is_slow = step.action is GuardAction.FENCE or isinstance(error, RebuildRefusedError)
                pause = _FENCE_COMMAND_INTERVAL if is_slow else _TAKEOVER_INTERVAL
                self._remove_unclaimed_generation()
                self._next_removal_at = 0.0
            if pause:
                self._start_removal_of_old_generations()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return broker.wait(pause)

    def _gather_evidence(self, *, at_end: bool) -> FenceEvidence:
        """Gather the evidence of the shared store's lock and claim; late evidence counts as lost."""
        reading: Future[FenceEvidence] = self._evidence_executor.submit(
            self._store.gather_lock_and_claim_evidence, at_end=at_end
        )
        try:
            return reading.result(STORE_ANSWER)
        except (LateError, OSError, FenceError, NodeError) as error:
            print_to_unit_log(
                f"the guard cannot read the store {self._store.directory} "
                f"({error or f'no answer within {STORE_ANSWER:g} s'}), so it kills the broker of this node if the "
                "broker uses the store. Check the mount of the store"
            )
            return FenceEvidence(holds_lock=False, highest=None)

    def _carry_out_step(self, fence: AnyFence, step: GuardStep) -> tuple[AnyFence, float]:
        """Carry out a step of the guard; return the guard's new state, and the seconds until the next check."""
        if step.action is GuardAction.WAIT:
            return self._try_to_acquire_lock(fence, step.number)
        if step.action is GuardAction.BUILD and isinstance(fence, StoreCopyingGuardState):
            self._create_unclaimed_generation(step.number)
            return fence.guard_state_after_copying_generation(step.number), 0.0
        if step.action is GuardAction.FENCE:
            self._run_fence_command(step.number)
            return fence, 0.0
        if step.action is GuardAction.CLAIM:
            self._claim_store(step.number)
            return fence.guard_state_after_claim_attempt(step.number), 0.0
        if step.action is GuardAction.ADMIT:
            self._let_broker_open_store(step.number)
            return fence.guard_state_after_granting_access(step.number), 0.0
        return fence, _CHECK_INTERVAL

    def _try_to_acquire_lock(self, fence: AnyFence, number: int) -> tuple[AnyFence, float]:
        """Try to acquire the pair's lock; the other node may have written since an earlier copy, so it is outdated."""
        # If the store could not be read, the number is 0, and the claim of this node's last broker still has no end.
        self._record_dead_brokers(number or max(self._store.claim_numbers(), default=0))
        has_it = self._store.try_to_acquire_pair_lock(self._lock_token)
        if has_it and self._fence_command is None and not self._store.try_to_block_unguarded_brokers():
            self._store.release_pair_lock()  # A broker without a guard serves, so this node waits.
            has_it = False
        return fence.guard_state_after_claim_attempt(), 0.0 if has_it else _LOCK_INTERVAL

    def _create_unclaimed_generation(self, source_number: int) -> None:
        """Make a generation (copy of the store) in the directory that only the guard of this node uses.

        ``source_number`` is the generation to copy, 0 for a store that no node has claimed.
        """
        if not source_number and claim_existing_store(self._store):
            return
        target = self._store.unclaimed_copy_path(self._node)
        began, store = time.monotonic(), self._store.directory
        notify_systemd(f"WATCHDOG_USEC={_COPY_TIMEOUT * 1_000_000}")
        try:
            made = self._copy_store_files(source_number, target)
        finally:
            notify_systemd(f"WATCHDOG_USEC={os.environ.get('WATCHDOG_USEC', '')}")
        if made.risk and self._refuses_loss and not self._store.is_index_loss_accepted(source_number):
            raise RebuildRefusedError(
                f"generation {source_number}, the newest copy of the store {store}, has no usable index, and no saved "
                "copy of the index exists. A broker that builds its index from the store journal loses messages of "
                f"these durable subscriptions: {made.risk.describe_subscriptions()}. Restore the store from a backup, "
                f"or accept this loss: {' '.join(command_to_start_guard())} --store {store} --accept-loss"
            )
        claim = StoreClaim(source_number + 1, self._node, f"{source_number + 1}-{secrets.token_hex(16)}")
        claim_details = {**made.to_dict(), "host": socket.gethostname(), "made": time.time()}
        self._unclaimed_generation = claim, claim_details, made.risk
        print_to_unit_log(
            f"generation {claim.number}, a copy of the store {store} for the next takeover, was created in "
            f"{time.monotonic() - began:.3f} s: {made.links} files linked, {made.copies} files copied, "
            f"{'with' if made.has_index else 'without'} the index"
        )
        if made.restored:
            print_to_unit_log(
                f"the index of generation {source_number}, the previous copy of the store, cannot be used, so "
                f"generation {claim.number} was created with {made.restored}. No action is required"
            )

    def _copy_store_files(self, source_number: int, target: str) -> GenerationCopyResult:
        """Link or copy the files of generation ``source_number`` into the directory ``target``."""
        if not source_number:
            return make_first_generation(target)
        source = self._store.read_claim_and_details(source_number)[0]
        path = self._store.generation_directory_path(source.directory)
        is_dead = self._store.is_broker_recorded_dead(source_number)
        create_generation = hard_link_generation if is_dead else copy_store_into_new_generation
        made = create_generation(path, target, in_place=path == self._store.directory)
        if not made.is_whole and (sentence := describe_incomplete_batch_not_copied(path)):
            print_to_unit_log(sentence)
        return made

    def _run_fence_command(self, number: int) -> None:
        """Run the operator's command that stops the other node's broker, and record that it is dead."""
        if self._fence_command is None:
            raise FenceError(
                "activemq_fence is set to command, but the inventory does not define that command: set "
                "activemq_fence_command for both nodes, and run the playbook site"
            )
        began, host = time.monotonic(), self._fence_command.host_to_fence
        print_to_unit_log(
            f"the broker on host {host} may still write to the store, so the guard runs the fence command "
            f"{self._fence_command.argv[0]}"
        )
        if why := self._fence_command.run_and_describe_failure(lambda: notify_systemd("WATCHDOG=1")):
            raise FenceError(
                f"{why}. The broker on host {host} may still write to the store {self._store.directory}. The guard of "
                "this node repeats the fence command. Only if you are sure that this broker is dead, confirm it: "
                f"{' '.join(command_to_start_guard())} --store {self._store.directory} --confirm {number}"
            )
        self._store.record_broker_dead(number)
        print_to_unit_log(
            f"the fence command confirmed after {time.monotonic() - began:.1f} s that the broker on host {host} is "
            "dead, so this node can take over"
        )

    def _remove_unclaimed_generation(self) -> None:
        """Remove the unclaimed copy of the store that this guard made, because the disk may be full."""
        with contextlib.suppress(OSError):
            disk.remove_tree_or_file(self._store.unclaimed_copy_path(self._node))

    def _claimed_directory(self, number: int) -> str:
        """Return the path of the directory that the broker of claim ``number`` uses."""
        return self._store.generation_directory_path(self._store.read_claim_and_details(number)[0].directory)

    def _claim_store(self, number: int) -> None:
        """Claim the store for this node as takeover ``number``, with the generation that the guard made for it.

        Raises FenceError if the other node has claimed this number.
        """
        if self._fence_command is not None:
            if not self._store.create_claim(claim_without_store_copy(number, self._node), {"claimed": time.time()}):
                raise FenceError(
                    f"the other node took over the store {self._store.directory} first (takeover {number}), so this "
                    "node stays standby"
                )
            return
        if self._unclaimed_generation is None or self._unclaimed_generation[0].number != number:
            raise FenceError(
                f"the copy of the store {self._store.directory} for takeover {number} is incomplete, so this node "
                "stays standby. The guard of this node creates the copy again automatically"
            )
        (claim, claim_details, risk), self._unclaimed_generation = self._unclaimed_generation, None
        if risk:
            path = record_rebuild_risk(self._store.directory, claim.directory, "the store has no usable index", risk)
            print_to_unit_log(
                f"the store {self._store.directory} has no usable index, so messages of these durable "
                f"subscriptions may be lost: {risk.describe_subscriptions()}. If the publishers still have "
                f"these messages, publish them again. Then delete the file {path}, which lists these subscriptions"
            )
        if not self._store.create_claim(claim, claim_details):
            disk.remove_tree_or_file(self._store.generation_directory_path(claim.directory))
            raise FenceError(
                f"the other node took over the store {self._store.directory} first (takeover {number}), so this node "
                "stays standby"
            )
        print_to_unit_log(
            f"this node took over the store {self._store.directory}: the broker of this node uses generation {number}, "
            "the newest copy of the store"
        )
        if number > 1:
            with contextlib.suppress(OSError, FenceError):
                replace_lock_file_by_directory(self._claimed_directory(number - 1))

    def _let_broker_open_store(self, number: int) -> None:
        """Point the store's link to the directory of claim ``number``, in which the broker can acquire the lock."""
        path = self._claimed_directory(number)
        if not os.path.isdir(path):
            raise FenceError(
                f"the broker cannot start: the directory {path}, the newest copy of the store, is missing. If it was "
                "moved, move it back. Otherwise restore it from a backup, which lacks the newest messages"
            )
        if self._fence_command is None:
            move_files_into_generation(self._store, number)
            for sentence in filter(
                None, (remove_incomplete_batch_at_journal_end(path), describe_missing_journal_end(path))
            ):
                print_to_unit_log(sentence)
        else:
            for sentence in repair_killed_broker_stores(path, accept_loss=not self._refuses_loss):
                print_to_unit_log(sentence)
            begin_data_file_if_acks_moved(path)
        self._store.sync_claims()
        disk.set_symlink_target(self._store_link, path)
        self._start_index_keeper(path)
        self._next_removal_at = time.monotonic() + _FIRST_REMOVAL_DELAY
        print_to_unit_log(f"the broker opens the store {path} (takeover {number})")

    # -- old generations ----------------------------------------------------------------------

    def _record_dead_brokers(self, highest: int) -> None:
        """Record that the brokers of this node's claims are dead.

        The caller's broker must wait at the gate or be dead, so that a claim is valid for one start of a broker.
        Brokers without a guard are dead after both nodes have a guard.
        """
        if highest in (0, self._dead_brokers_recorded_until):
            return
        for number in {*self._store.generation_names_by_number(), highest}:
            if number > highest or self._store.is_broker_recorded_dead(number):
                continue
            node = self._store.read_claim_and_details(number)[0].node
            if node == self._node or (not node and self._both_have_guards and number < highest):
                self._store.record_broker_dead(number)
        self._dead_brokers_recorded_until = highest

    def _start_removal_of_old_generations(self) -> None:
        """Start another process that removes old generations (copies of the store), so that no check waits for it.

        It is started only if the last removal has ended, and the next one is due.
        """
        now = time.monotonic()
        is_idle = self._removal_process is None or self._removal_process.poll() is not None
        if is_idle and now >= self._next_removal_at:
            self._next_removal_at = now + _REMOVAL_INTERVAL
            with contextlib.suppress(OSError):
                self._removal_process = subprocess.Popen(
                    [*command_to_start_guard(), "--store", self._store.directory, "--tidy"]
                )

    def _start_index_keeper(self, path: str) -> None:
        """Start another process that keeps a copy of the store's index, so that no check waits for it."""
        if self._keeps_index and self._broker:
            with contextlib.suppress(OSError):
                self._index_keeper = subprocess.Popen(
                    [*command_to_start_guard(), "--store", path, "--keep-index", str(self._broker.pid)]
                )

    # -- the broker ---------------------------------------------------------------------------

    def _read_or_create_node_name(self) -> str:
        """Return the name of this node, which is made once."""
        path = os.path.join(self._local_directory, "node")
        if not os.path.exists(path):
            disk.replace_file(path, secrets.token_hex(12).encode(), 0o640)
        return claimant_name_of_this_machine(self._local_directory)

    def _lock_against_second_guard(self) -> int:
        """Lock a file as long as this guard or its broker runs, so that no second guard starts; return its descriptor.

        Raises FenceError if another guard or its broker holds the lock.
        """
        descriptor = os.open(
            os.path.join(self._local_directory, "alive"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o640
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise FenceError(
                "another process of this broker's guard (activemq_fence) still runs. Stop the broker's service unit "
                f"with systemctl, kill the processes that fuser -v {self._local_directory}/alive lists, and start the "
                "unit"
            ) from None
        return descriptor

    def _point_store_link_to_gate(self) -> None:
        """Point the store's link to a directory in which ``lock`` is a directory: no broker can acquire the lock."""
        os.makedirs(os.path.join(self._gate, "lock"), 0o750, exist_ok=True)
        disk.set_symlink_target(self._store_link, self._gate)
