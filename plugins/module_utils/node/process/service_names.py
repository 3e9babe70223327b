# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Names of the systemd services of a broker."""

from __future__ import annotations

WATCHDOG_SUFFIX = "-watchdog"
"""The end of the name of each watchdog's service. No instance has a name with this suffix."""


def watchdog_service_name(instance: str) -> str:
    """Return the name of the systemd service of a broker's watchdog, without ``.service``.

    ``instance`` is the systemd instance of the broker. Its program and its runtime directory have the same name.
    """
    return f"{instance}{WATCHDOG_SUFFIX}"
