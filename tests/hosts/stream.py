"""A continuous load of messages on the active broker of a pair, and the check that all messages arrive.

    python -m tests.hosts.stream --username NAME --password WORD ADDRESS...

The client publishes numbers, each until it is acknowledged, to a topic with a disconnected durable session. When stdin
is closed, this session reconnects and receives them. The client prints a line when the first number is acknowledged,
and at the end one JSON object: ``sent``, ``missing`` (numbers that did not arrive), ``again`` (number of duplicates)
and ``longest`` (seconds between two acknowledgments).

A number is missing only if the last message has arrived, and nothing after it for a while. If the last message does not
arrive in time, the outcome is unknown: the client prints the error in one line on stderr (exit 1).
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
"""Seconds until a broker is active, and until all messages have arrived, on a busy machine."""
ANSWER = 15.0
"""Seconds for the response of one broker before the client tries the next."""
QUIET = 20.0
"""Seconds after the last message in which a late message would arrive."""
PAUSE = 0.02
LAST = "last"


def connect(
    addresses: Sequence[str], login: Login, name: str, *, durable: bool = False, received: list[str] | None = None
) -> Session:
    """Return a session with the first broker that responds; try the brokers in turn until one does.

    A durable session is subscribed, and ``received`` contains the messages of all its connections.
    """
    deadline = time.monotonic() + PATIENCE
    for address in itertools.cycle(addresses):
        session = Session(
            address,
            login,
            name,
            durable=durable,
            patience=ANSWER,
            received=list[str]() if received is None else received,
        )
        try:
            session.open()
            if durable:
                session.subscribe(TOPIC)
            return session
        except ExchangeError:
            session.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    raise AssertionError("itertools.cycle ended, which never happens")


def publish(addresses: Sequence[str], login: Login, stopped: threading.Event) -> tuple[int, float]:
    """Publish numbers until ``stopped``; return the number of acknowledgments and the longest time between two."""
    session = connect(addresses, login, f"stream-{uuid.uuid4().hex}")
    longest, last, number = 0.0, time.monotonic(), 0
    while not stopped.is_set():
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
    deadline = time.monotonic() + PATIENCE
    while True:
        session = connect(addresses, login, f"stream-{uuid.uuid4().hex}")
        try:
            session.publish(TOPIC, LAST)
        except ExchangeError:
            if time.monotonic() > deadline:
                raise
        else:
            return
        finally:
            session.close()


def take(addresses: Sequence[str], login: Login, name: str, sent: int) -> dict[str, Any]:
    """Receive messages of the durable session until none is missing, or until missing ones can no longer arrive.

    Raises ExchangeError if the outcome is unknown after a time without any message.
    """
    expected, received = {str(number) for number in range(sent)}, list[str]()
    count, last_arrival = 0, time.monotonic()
    session = connect(addresses, login, name, durable=True, received=received)
    try:
        while not expected <= set(received):
            with session.changed:
                session.changed.wait(0.5)
            if len(received) > count:
                count, last_arrival = len(received), time.monotonic()
            idle_seconds = time.monotonic() - last_arrival
            if session.lost:
                session.close()
                session = connect(addresses, login, name, durable=True, received=received)
            elif LAST in received and idle_seconds > QUIET:
                break
            if idle_seconds > PATIENCE:
                missing = len(expected - set(received))
                raise LateExchangeError(
                    f"{session.address}: timed out: {missing} of {sent} messages are missing, "
                    f"and no message has arrived for {idle_seconds:.0f} s"
                )
    finally:
        session.close()
    return {"missing": sorted(expected - set(received), key=int), "again": len(received) - len(set(received))}


def wait_for_end(stopped: threading.Event) -> None:
    sys.stdin.read()
    stopped.set()


def main() -> int:
    parser = argparse.ArgumentParser(prog="stream")
    parser.add_argument("--username", required=True)
    parser.add_argument("--password", required=True)
    parser.add_argument("addresses", nargs="+", metavar="ADDRESS")
    options = parser.parse_args()
    login, name, stopped = Login(options.username, options.password), f"taker-{uuid.uuid4().hex}", threading.Event()
    threading.Thread(target=wait_for_end, args=(stopped,), daemon=True).start()
    try:
        connect(options.addresses, login, name, durable=True).close()
        sent, longest = publish(options.addresses, login, stopped)
        send_last(options.addresses, login)
        outcome = take(options.addresses, login, name, sent)
    except ExchangeError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps({"sent": sent, "longest": round(longest, 3), **outcome}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
