"""Errors of the machines, each with a text of one line."""

from __future__ import annotations


class MachinesError(Exception):
    """An operation of a machine failed; the text is one line."""

    def __str__(self) -> str:
        return " ".join(super().__str__().split())


class LateMachineError(MachinesError):
    """An operation of a machine had not ended when the wait timed out."""


class UnsupportedError(MachinesError):
    """This kernel, user or system does not support machines; the text contains the missing prerequisite.

    Tests skip with this reason, which the summary shows, and never pass.
    """
