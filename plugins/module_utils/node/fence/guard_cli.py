# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The command line of the guard's program, which is the main process of a fenced broker's unit.

    guard --store STORE --local DIRECTORY -- java …    start a broker, and fence its store (``guard.Guard``)

With ``--fence-command FILE`` the guard makes no generations, and runs the command of FILE, which terminates the broker
of the other node. With ``--keep-index-copies`` the guard keeps a copy of the index of each generation. With
``--refuse-loss`` no broker may open a generation without an index if messages of durable subscriptions would be lost,
until ``--accept-loss`` is called. The other commands start no broker:

    guard --store STORE --confirm NUMBER     confirm that the broker that claimed NUMBER is dead
    guard --store STORE --unfence            convert the store for brokers without a guard; both brokers must be stopped
    guard --store STORE --mend               repair the store of a killed broker, before a start without a fence
    guard --store STORE --mend --accept-loss the same, even if messages of durable subscriptions are lost
    guard --store STORE --accept-loss        continue from the newest generation, even if messages are lost
    guard --store STORE --tidy               remove old generations whose messages newer ones contain
    guard --store STORE --keep-index PID     keep a copy of the index while the broker's process PID runs

Labs run ``python -m activemq_fleet.node.fence.guard_cli``. Hosts run the file that ``guard_installation`` builds.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator
from typing import NoReturn

from ..errors import NodeError
from ..kahadb.index_keeper import keep_copies_of_store_indexes
from ..kahadb.rebuild_risk import RebuildRefusedError
from ..kahadb.store_repair import repair_killed_broker_stores
from ..process.denied_access import describe_denied_path_access
from ..process.system_accounts import current_account
from .broker_process import print_to_unit_log
from .fence_setup_and_removal import unfence_store
from .guard import Guard
from .old_generations import remove_and_describe_old_store_copies
from .operator_fence_command import read_fence_command
from .shared_store import BARRIER, FenceError, SharedStore, raise_if_root_would_change_untrusted_directory


def main() -> NoReturn:
    """Run the guard: start a broker, fence its store, and exit with the broker's status (75 if the guard killed it)."""
    options = _parse_options()
    try:
        status = _run_command(options)
    except PermissionError as error:
        is_of_store = str(error.filename).startswith(options.store)
        reason = describe_denied_path_access(current_account(), options.store) if is_of_store else error
        print_to_unit_log(f"{_describe_failure(options)}: {reason}")
        status = 1
    except (FenceError, NodeError, RebuildRefusedError, OSError, ValueError) as error:
        print_to_unit_log(f"{_describe_failure(options)}: {error}")
        status = 1
    # sys.exit would wait for the thread that checks a store which does not answer.
    os._exit(status)


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="guard",
        description=(
            "Start a broker on a shared store, and prevent both nodes of the pair from writing to the store "
            "(activemq_fence)."
        ),
    )
    parser.add_argument("--store", required=True, help="set the shared directory of the pair's store")
    parser.add_argument("--local", help="keep the state of the guard in this directory on the host's own disk")
    parser.add_argument("--fence-command", metavar="FILE", help="read activemq_fence_command from this JSON file")
    parser.add_argument(
        "--tidy",
        action="store_true",
        help="remove old copies of the store (generations) if newer copies contain all their messages",
    )
    parser.add_argument(
        "--unfence",
        action="store_true",
        help="convert the store for brokers without activemq_fence: guard; stop the brokers of both nodes first",
    )
    parser.add_argument(
        "--mend", action="store_true", help="repair a store that no guard protects, after its broker was killed"
    )
    parser.add_argument(
        "--accept-loss",
        action="store_true",
        help="let the broker start without a usable index of the store, and lose messages of durable subscriptions",
    )
    parser.add_argument(
        "--refuse-loss",
        action="store_true",
        help="do not start the broker without a usable index of the store if durable subscriptions would lose messages",
    )
    parser.add_argument(
        "--keep-index",
        type=_positive_number,
        metavar="PID",
        help="keep a copy of the store's index while the broker's process PID runs",
    )
    parser.add_argument(
        "--keep-index-copies",
        action="store_true",
        help="keep a copy of the store's index while the broker of this node runs",
    )
    parser.add_argument(
        "--confirm",
        type=_positive_number,
        metavar="NUMBER",
        help=(
            "confirm that the other node's broker, which opened the store at takeover NUMBER, is dead. This node can "
            "then take over"
        ),
    )
    parser.add_argument("command", nargs="*", help="start the broker with this command line")
    options = parser.parse_args()
    maintains = options.tidy or options.unfence or options.mend or options.accept_loss
    if not (maintains or options.keep_index or options.confirm) and not (options.local and options.command):
        parser.error("to start a broker, set --local, and add the command line of the broker after --")
    return options


def _positive_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 on")
    return int(text)


def _run_command(options: argparse.Namespace) -> int:
    """Run the command that the options select, and return the exit status."""
    if options.tidy:
        return _print_all(remove_and_describe_old_store_copies(SharedStore(options.store)))
    if options.unfence:
        removal = unfence_store(options.store)
        # The playbook unfence reads the last line, which the programs of earlier versions do not print.
        return _print_all((*removal.sentences, f"changed: {str(removal.changed).lower()}"))
    if options.mend:
        raise_if_root_would_change_untrusted_directory(options.store)
        return _print_all(repair_killed_broker_stores(options.store, accept_loss=options.accept_loss))
    if options.accept_loss:
        raise_if_root_would_change_untrusted_directory(options.store)
        return _print_all(_accept_index_loss(options.store))
    if options.keep_index:
        return _start_index_keeper(options.store, options.keep_index)
    if options.confirm:
        return _print_all(_confirm_broker_dead(options.store, options.confirm))
    guard = Guard(
        options.store,
        options.local,
        read_fence_command(options.fence_command) if options.fence_command else None,
        keeps_index=options.keep_index_copies,
        refuses_loss=options.refuse_loss,
    )
    return guard.run_broker(options.command)


def _describe_failure(options: argparse.Namespace) -> str:
    if options.tidy:
        return f"the guard could not remove old generations (copies) of the store {options.store}, and will try again"
    if options.mend:
        return f"the store {options.store} was not repaired completely"
    if options.unfence or options.confirm or options.accept_loss:
        return "the guard changed nothing"
    return "the guard did not start the broker"


def _print_all(sentences: Iterable[str]) -> int:
    for sentence in sentences:
        print_to_unit_log(sentence)
    return 0


def _accept_index_loss(directory: str) -> Iterator[str]:
    """Record that the operator accepts the loss of a shared store's index.

    A node may then continue from the store's newest generation without its index. Yields a sentence on what was done.
    Raises FenceError for a store without generations, OSError.
    """
    store = SharedStore(directory)
    if not os.path.isdir(os.path.join(directory, BARRIER)):
        raise FenceError(
            f"nothing was changed, because {directory} has no directory {BARRIER}: no guard (activemq_fence) uses "
            "this store. Correct --store, or add --mend to repair it even if durable subscriptions lose messages"
        )
    number = store.gather_lock_and_claim_evidence().newest_claim_number
    store.record_accepted_index_loss(number)
    yield (
        f"the next takeover of the store {directory} may use generation {number}, the newest copy of the store, "
        "without an index, because you accepted that durable subscriptions lose messages"
    )


def _start_index_keeper(directory: str, pid: int) -> int:
    """Start a separate process that keeps a copy of the index of a broker's stores; return the exit status."""
    if os.fork():
        return 0
    os.setsid()
    keep_copies_of_store_indexes(directory, pid, print_to_unit_log)
    os._exit(0)


def _confirm_broker_dead(directory: str, number: int) -> Iterator[str]:
    """Record the operator's confirmation that the broker of a store's newest claim is dead.

    Yields a sentence for each act. Raises FenceError if that number is not the highest, OSError.
    """
    store = SharedStore(directory)
    highest = store.gather_lock_and_claim_evidence().newest_claim_number
    if highest != number:
        raise FenceError(
            f"the newest takeover of the store {directory} has the number {highest}, not {number}. The log of the "
            "standby's service unit contains the command with the right number: run that command"
        )
    store.record_broker_dead(number)
    yield (
        f"the broker that opened the store {directory} at takeover {number} is recorded as dead, so the standby can "
        "take over"
    )


if __name__ == "__main__":
    main()
