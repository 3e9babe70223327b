# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Copies the unit files of a configuration into systemd's directory.

A link to the configuration is not enough: at boot, systemd reads its units before it mounts other file systems than the
root file system. A unit whose link leads to a file system that is not mounted yet does not exist until the next
``daemon-reload``.
"""

from __future__ import annotations

import os
import stat

from ..files import disk

_UNIT_MODE = 0o644


def is_unit_installed(path: str, source: str) -> bool:
    """Return whether ``path`` is a regular file with the content of the unit file ``source``, readable by all accounts.

    A link is not an installed unit. Raises OSError, except for a missing file.
    """
    try:
        status = os.lstat(path)
        return (
            stat.S_ISREG(status.st_mode) and stat.S_IMODE(status.st_mode) == _UNIT_MODE and _read(path) == _read(source)
        )
    except FileNotFoundError:
        return False


def install_unit(path: str, source: str, *, check: bool = False) -> bool:
    """Replace ``path`` atomically by a copy of the unit file ``source``, and return whether that changed anything.

    In check mode, return whether it would. Raises OSError.
    """
    if is_unit_installed(path, source):
        return False
    if not check:
        disk.replace_file(path, _read(source), _UNIT_MODE)
    return True


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
