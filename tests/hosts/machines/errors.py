"""What can go wrong with the machines, in one line each."""

from __future__ import annotations


class MachinesError(Exception):
    """A machine that did not do what it was told; ``str()`` is one line."""

    def __str__(self) -> str:
        return " ".join(super().__str__().split())


class LateMachineError(MachinesError):
    """A machine had not done what it was told when the wait timed out."""


class UnsupportedError(MachinesError):
    """This kernel, user or system cannot run machines; the text says what is missing.

    Tests turn it into a skip that is reported loudly, never into a pass.
    """
