# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Splits the output of programs, logs and files of /proc into lines."""

from __future__ import annotations


def split_lines(text: str) -> list[str]:
    """Split a text into its lines at newlines only, unlike ``str.splitlines``.

    The lines are without their ends. ``str.splitlines`` also splits at vertical tabs, form feeds, U+0085, U+2028 and
    others, which clients of a broker and processes of other accounts can put into names. With it a name could start a
    new line.
    """
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines
