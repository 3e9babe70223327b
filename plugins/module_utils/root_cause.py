# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The deepest cause that a Java stack trace names."""

from __future__ import annotations

from collections.abc import Iterable

CAUSE = "Caused by: "
SHOWN = 300
"""Characters of a cause, at most, that stands for a deeper one."""


def root_cause(lines: Iterable[str]) -> str:
    """The deepest cause of the last exception in these lines of stack traces; empty where none names a cause.

    A cause above it that repeats it and says more, as which address is in use, is taken in its place.
    """
    causes = [line.strip()[len(CAUSE) :].strip() for line in lines if line.lstrip().startswith(CAUSE)]
    cause = causes.pop() if causes else ""
    while causes and len(causes[-1]) <= SHOWN and _message_of(cause) in causes[-1]:
        cause = causes.pop()
    return cause


def _message_of(cause: str) -> str:
    """Without the class of the exception."""
    return cause.partition(": ")[2] or cause
