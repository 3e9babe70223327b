# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Finds host names that this machine cannot resolve, within a limited time."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable

_TIMEOUT = 3.0  # seconds; an unreachable name server delays each name by 5 s or more
_MAX_THREADS = 16


def unresolvable_host_names(names: Iterable[str], timeout: float = _TIMEOUT) -> list[str]:
    """Return the host names that this machine cannot resolve to an IP address within ``timeout`` seconds in total.

    IP addresses are skipped. Names whose resolution did not begin within the timeout are not returned.
    """
    host_names = [name for name in dict.fromkeys(names) if not _is_ip_address(name)]
    waiting, unresolved = deque(host_names), set[str]()
    deadline = time.monotonic() + timeout

    def resolve_waiting_names() -> None:
        while time.monotonic() < deadline:
            try:
                name = waiting.popleft()
            except IndexError:
                return
            unresolved.add(name)
            try:
                socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError):
                continue
            unresolved.discard(name)

    # Threads, because getaddrinfo has no timeout; daemons, so that the process does not wait for the last answer.
    threads = [
        threading.Thread(target=resolve_waiting_names, daemon=True)
        for _unused in range(min(len(host_names), _MAX_THREADS))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    failed = unresolved.copy()
    return [name for name in host_names if name in failed]


def _is_ip_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
