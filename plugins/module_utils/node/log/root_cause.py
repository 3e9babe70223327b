# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Extracts the root cause from a Java stack trace."""

from __future__ import annotations

from collections.abc import Iterable

CAUSE = "Caused by: "
SHOWN = 300
"""Maximum characters of a cause that is returned in place of a deeper cause."""


def root_cause(lines: Iterable[str]) -> str:
    """Return the root cause in the lines of a Java stack trace; "" if there is none.

    It is that of the last exception. It is the deepest ``Caused by:``. A cause above the deepest one that repeats its
    message with more details (which address is in use) is returned instead.
    """
    causes = [line.strip()[len(CAUSE) :].strip() for line in lines if line.lstrip().startswith(CAUSE)]
    cause = causes.pop() if causes else ""
    while causes and len(causes[-1]) <= SHOWN and _message_without_class(cause) in causes[-1]:
        cause = causes.pop()
    return cause


def _message_without_class(cause: str) -> str:
    """Return the message of a cause without the class of the exception."""
    return cause.partition(": ")[2] or cause
