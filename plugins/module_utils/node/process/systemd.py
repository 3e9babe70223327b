# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Report the state of a service to systemd."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping


def notify_systemd(*lines: str, environment: Mapping[str, str] = os.environ) -> None:
    """Send lines such as ``READY=1`` to systemd (sd_notify(3)); do nothing without systemd."""
    path = environment.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.settimeout(1.0)
        sender.sendto("\n".join(lines).encode(), f"\0{path[1:]}" if path.startswith("@") else path)
