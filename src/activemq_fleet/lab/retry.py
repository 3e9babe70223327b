"""Retry to send a message to a list of brokers, as every publisher of the lab does when a broker dies."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

from activemq_fleet.errors import LabError

PAUSE = 0.05
"""Seconds between two tries, when no broker of the list takes the call."""


def send_until_accepted(send: Callable[[], None], hang_up: Callable[[], None], *, to: str, timeout: float) -> int:
    """Call ``send`` until it succeeds; return the number of calls, 1 where nothing went wrong.

    ``hang_up`` is called after each failure, so that the next call dials another broker. Raises LabError, naming
    ``to``, when no broker accepts the message within ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    last: Exception | None = None
    for attempt in itertools.count(1):
        try:
            send()
        except (OSError, LabError) as error:
            last = error
            hang_up()
            if time.monotonic() > deadline:
                break
            time.sleep(PAUSE)
        else:
            return attempt
    raise LabError(f"no broker took a message for {to} in {timeout:g} s: {last}")
