"""Messages without end to whoever serves, and whether all of them arrived: load for what is done to a pair.

    python -m tests.hosts.stream --username NAME --password WORD ADDRESS...

Publishes numbers, each until it is acknowledged, to a topic with a durable session that is not there. When stdin
is closed that session comes back and takes them. Prints a line once the first number was acknowledged, and at the
end one JSON object: ``sent``, ``missing`` (numbers that never came), ``again`` (how many came more than once) and
``longest`` (seconds between two acknowledgements).
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

from tests.hosts.exchange import ExchangeError, Login, Session

TOPIC = "stream/numbers"
PATIENCE = 120.0
PAUSE = 0.02


def connect(addresses: Sequence[str], login: Login, name: str, *, durable: bool = False) -> Session:
    """A session with the first that answers; they are tried in turn until one does."""
    end = time.monotonic() + PATIENCE
    for address in itertools.cycle(addresses):
        session = Session(address, login, name, durable=durable)
        try:
            session.open()
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


def take(addresses: Sequence[str], login: Login, name: str, sent: int) -> dict[str, Any]:
    """What the durable session gets; it waits until nothing is missing, or for a minute."""
    session = connect(addresses, login, name, durable=True)
    wanted = {str(number) for number in range(sent)}
    try:
        session.subscribe(TOPIC)
        with session.changed:
            session.changed.wait_for(lambda: wanted <= set(session.received), PATIENCE)
    finally:
        session.close()
    missing = sorted(wanted - set(session.received), key=int)
    return {"missing": missing, "again": len(session.received) - len(set(session.received))}


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
    absent = connect(options.addresses, login, name, durable=True)
    absent.subscribe(TOPIC)
    absent.close()
    threading.Thread(target=wait_for_end, args=(ended,), daemon=True).start()
    try:
        sent, longest = publish(options.addresses, login, ended)
        found = take(options.addresses, login, name, sent)
    except ExchangeError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps({"sent": sent, "longest": round(longest, 3), **found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
