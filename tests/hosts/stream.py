"""Messages without end to whoever serves, and whether all of them arrived: load for what is done to a pair.

    python -m tests.hosts.stream --username NAME --password WORD ADDRESS...

Publishes numbers, each until it is acknowledged, to a topic with a durable session that is not there. When stdin
is closed that session comes back and takes them. Prints a line once the first number was acknowledged, and at the
end one JSON object: ``sent``, ``missing`` (numbers that never came), ``again`` (how many came more than once) and
``longest`` (seconds between two acknowledgements).

A number is missing only when a message that was sent after all of them has come, and nothing after it for a while.
Where that does not come within a time, nothing is known: one line on stderr says so (exit 1).
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import threading
import time
import uuid
from collections.abc import Sequence
from typing import Any

from tests.hosts.exchange import ExchangeError, LateExchangeError, Login, Session

TOPIC = "stream/numbers"
PATIENCE = 300.0
"""Seconds until somebody serves, and until what was sent has come, on a machine that others load."""
ANSWER = 15.0
"""Seconds that one broker is given to answer before the next is tried."""
QUIET = 20.0
"""Seconds without a message, after the last one has come, in which one that was late would have come, too."""
PAUSE = 0.02
LAST = "last"


def connect(
    addresses: Sequence[str], login: Login, name: str, *, durable: bool = False, got: list[str] | None = None
) -> Session:
    """A session with the first that answers; they are tried in turn until one does.

    A durable one is subscribed, and ``got`` has what came, to those that did not stay, too.
    """
    end = time.monotonic() + PATIENCE
    for address in itertools.cycle(addresses):
        session = Session(
            address, login, name, durable=durable, patience=ANSWER, received=list[str]() if got is None else got
        )
        try:
            session.open()
            if durable:
                session.subscribe(TOPIC)
            return session
        except ExchangeError:
            session.close()
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
    raise AssertionError("there is always one more")


def publish(addresses: Sequence[str], login: Login, ended: threading.Event) -> tuple[int, float]:
    """How many numbers were acknowledged, and the longest time between two."""
    session = connect(addresses, login, f"stream-{uuid.uuid4().hex}")
    longest, last, number = 0.0, time.monotonic(), 0
    while not ended.is_set():
        try:
            session.publish(TOPIC, str(number))
        except ExchangeError:
            session.close()
            session = connect(addresses, login, f"stream-{uuid.uuid4().hex}")
            continue
        if number == 0:
            print("begun", flush=True)
        now = time.monotonic()
        longest, last, number = max(longest, now - last), now, number + 1
        time.sleep(PAUSE)
    session.close()
    return number, longest


def send_last(addresses: Sequence[str], login: Login) -> None:
    """Publish the message that follows all numbers, until it is acknowledged."""
    end = time.monotonic() + PATIENCE
    while True:
        session = connect(addresses, login, f"stream-{uuid.uuid4().hex}")
        try:
            session.publish(TOPIC, LAST)
        except ExchangeError:
            if time.monotonic() > end:
                raise
        else:
            return
        finally:
            session.close()


def take(addresses: Sequence[str], login: Login, name: str, sent: int) -> dict[str, Any]:
    """What the durable session gets, with whoever serves: until nothing is missing, or surely does not come any more.

    Raises ExchangeError when that is not known after a time without any message.
    """
    wanted, got = {str(number) for number in range(sent)}, list[str]()
    had, moved = 0, time.monotonic()
    session = connect(addresses, login, name, durable=True, got=got)
    try:
        while not wanted <= set(got):
            with session.changed:
                session.changed.wait(0.5)
            if len(got) > had:
                had, moved = len(got), time.monotonic()
            quiet = time.monotonic() - moved
            if session.lost:
                session.close()
                session = connect(addresses, login, name, durable=True, got=got)
            elif LAST in got and quiet > QUIET:
                break
            if quiet > PATIENCE:
                late = len(wanted - set(got))
                raise LateExchangeError(
                    f"{session.address}: timed out: {late} of {sent} have not come, nor anything for {quiet:.0f} s"
                )
    finally:
        session.close()
    return {"missing": sorted(wanted - set(got), key=int), "again": len(got) - len(set(got))}


def wait_for_end(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


def main() -> int:
    parser = argparse.ArgumentParser(prog="stream")
    parser.add_argument("--username", required=True)
    parser.add_argument("--password", required=True)
    parser.add_argument("addresses", nargs="+", metavar="ADDRESS")
    options = parser.parse_args()
    login, name, ended = Login(options.username, options.password), f"taker-{uuid.uuid4().hex}", threading.Event()
    threading.Thread(target=wait_for_end, args=(ended,), daemon=True).start()
    try:
        connect(options.addresses, login, name, durable=True).close()
        sent, longest = publish(options.addresses, login, ended)
        send_last(options.addresses, login)
        found = take(options.addresses, login, name, sent)
    except ExchangeError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps({"sent": sent, "longest": round(longest, 3), **found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
