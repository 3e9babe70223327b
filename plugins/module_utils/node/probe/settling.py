# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Decide when a started broker stays ready: its connectors answer before its configuration is loaded completely.

Spring starts the broker while it creates the beans of ``activemq.xml`` one after the other. A bean after ``<broker>``
that fails therefore terminates a broker that already serves clients, 2 to 4 s later (5.18.3). No release logs
the end of this phase. In a thread dump it is visible: until then the thread ``main`` is within
``BrokerFactory.createBroker``; afterwards it waits in ``StartCommand``. Measured on 5.5.1, 5.18.3 and 6.3.1.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Literal

from ..errors import NodeError
from ..process.proc import Process
from .management import fetch_thread_dump

READY_STATES: tuple[Literal["active", "standby"], ...] = ("active", "standby")
"""The states of a broker that serves, or can take over."""
UNSEEN = 5.0
"""Seconds that a broker must stay ready when its JVM returns no thread dump."""
_MAIN_THREAD = re.compile(r'^"main" .*?(?:\n\s*\n|\Z)', re.MULTILINE | re.DOTALL)
_LOADING_FRAME = re.compile(r"^\s+at org\.apache\.activemq\.broker\.BrokerFactory\.createBroker\(", re.MULTILINE)


def is_loading_configuration(process: Process) -> bool | None:
    """Return whether a thread dump of a broker's JVM shows that the broker is still loading its configuration.

    Returns None where its JVM returns no thread dump.
    """
    try:
        return thread_dump_shows_configuration_loading(fetch_thread_dump(process))
    except (NodeError, OSError):
        return None


def thread_dump_shows_configuration_loading(thread_dump: str) -> bool:
    """Return whether a thread dump of a broker shows that it is still loading its configuration.

    Pure.
    """
    main = _MAIN_THREAD.search(thread_dump)
    return main is not None and _LOADING_FRAME.search(main[0]) is not None


class ReadinessDetector:
    """A detector of whether a started broker is ready and stays ready, over repeated observations.

    A standby waits for its lock while it loads its configuration, so its process alone counts. An active broker counts
    when its configuration is loaded, or without a thread dump when its process has been ready for ``UNSEEN`` seconds.
    """

    def __init__(
        self,
        loading: Callable[[Process], bool | None] = is_loading_configuration,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loading = loading
        self._clock = clock
        self._process: tuple[int, float] | None = None
        self._ready_since = 0.0
        self._is_loaded = False

    def is_stably_ready(self, process: Process | None, state: str) -> bool:
        """Return whether a broker, by its process and new state, is standby, or active with its configuration loaded.

        Returns False for a broker that is neither active nor standby, or that still loads its configuration.
        """
        if process is None or state not in READY_STATES:
            self._process = None
            return False
        if self._process != (process.pid, process.started):
            self._process, self._ready_since = (process.pid, process.started), self._clock()
            self._is_loaded = False
        if state == "active" and not self._is_loaded:
            loading = self._loading(process)
            self._is_loaded = not (self._clock() - self._ready_since < UNSEEN if loading is None else loading)
        return state == "standby" or self._is_loaded
