# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Builds the watchdog as one file that the host's Python runs."""

from __future__ import annotations

from ..install.program_archive import pack_program
from . import watchdog


def watchdog_program(python: str) -> bytes:
    """Return the content of the executable file of a broker's watchdog.

    ``python`` is the interpreter that runs it.
    """
    return pack_program(watchdog, python)
