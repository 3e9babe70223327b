"""A process that keeps the agent's store busy until it is killed, and says what it was promised.

    python agent_store_load.py DIRECTORY SYNCHRONOUS COUNT

Lines on stdout, each written at once after the call returned: ``accepted ID PAYLOAD`` and ``handled ID``.
COUNT 0 goes on for ever; otherwise only events are accepted, that many.
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
    """As a publisher does: in order, each event acknowledged once."""
    after = 0
    while True:
        events = store.outgoing_events(20, after)
        if events:
            after = events[-1].seq
            wire = [SentEvent(event.seq, 1, event.seq % 65535, "b") for event in events]
            store.queue_journal_records_for_sent_events(wire).result()
            store.queue_removal_of_acknowledged_events(wire[::2], is_delivery_proved=True).result()


def handle(store: Store) -> None:
    """As a subscriber does, with ids that no earlier run has used."""
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
        each = int(count) // CALLERS
        threads = [Thread(target=accept, args=(store, caller, each)) for caller in range(CALLERS)]
        if not each:
            threads += [Thread(target=send, args=(store,)), Thread(target=handle, args=(store,))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
