# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Sends a service's state to the socket of systemd (sd_notify(3))."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping


def notify_systemd(*assignments: str, environment: Mapping[str, str] | None = None) -> bool:
    """Send assignments such as ``READY=1`` to systemd (sd_notify(3)); return whether they were sent.

    ``NOTIFY_SOCKET`` of ``environment``, by default of this process, names systemd's socket. Without systemd nothing is
    sent, and errors of its socket are ignored.
    """
    path = (os.environ if environment is None else environment).get("NOTIFY_SOCKET", "")
    # "@" represents the zero byte of an abstract address; other values are not socket paths.
    if not path.startswith(("/", "@")):
        return False
    address = f"\0{path[1:]}" if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.settimeout(1.0)
            sender.sendto("\n".join(assignments).encode(), address)
    except OSError:
        return False
    return True
