"""The error of an invalid document, with its position."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class SchemaProblem:
    """One reason why a release would not start with a document.

    ``line`` and ``column`` are 1-based and point at the start tag of the element, or at the
    attribute that is wrong. ``element`` is its path from the root by local names,
    ``beans/broker/transportConnectors/transportConnector[2]``; empty when the document is not
    XML at all.
    """

    line: int
    column: int
    element: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.message}"
