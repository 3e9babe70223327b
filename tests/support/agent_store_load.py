"""A process that writes to the agent's store until it is killed, and prints the confirmed operations.

    python agent_store_load.py DIRECTORY SYNCHRONOUS COUNT

It writes lines to stdout immediately after each call returns: ``accepted ID PAYLOAD`` and ``handled ID``.
With COUNT 0 it runs indefinitely; otherwise it only accepts COUNT events.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from threading import Thread

from activemq_agent.store import SentEvent, Store

CALLERS = 4


def print_line(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def accept(store: Store, caller: int, count: int) -> None:
    for number in range(count) if count else itertools.count():
        payload = f"<{caller}.{number}>"
        print_line(f"accepted {store.accept_event('t', payload.encode())} {payload}")


def send(store: Store) -> None:
    """Send events as a publisher does: in their order, and acknowledge each event once."""
    after = 0
    while True:
        events = store.outgoing_events(20, after)
        if events:
            after = events[-1].seq
            sent_events = [SentEvent(event.seq, 1, event.seq % 65535, "b") for event in events]
            store.queue_journal_records_for_sent_events(sent_events).result()
            store.queue_removal_of_acknowledged_events(sent_events[::2], is_delivery_proved=True).result()


def handle(store: Store) -> None:
    """Handle messages as a subscriber does, with ids that no earlier run has used."""
    run = os.getpid()
    for number in itertools.count():
        outcome = store.queue_message_for_inbox(
            "in", b'{"eventId":"%d-%d"}' % (run, number), broker="b", conn=1
        ).result()
        store.begin_handling_attempt(outcome.rx)
        store.record_handled(outcome.rx)
        print_line(f"handled {outcome.event_id}")


def main(directory: str, synchronous: str, count: str) -> None:
    with Store.open(Path(directory), agent="a1", synchronous=synchronous) as store:
        count_per_caller = int(count) // CALLERS
        threads = [Thread(target=accept, args=(store, caller, count_per_caller)) for caller in range(CALLERS)]
        if not count_per_caller:
            threads += [Thread(target=send, args=(store,)), Thread(target=handle, args=(store,))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
