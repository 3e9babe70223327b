"""The findings that rules report about a fleet or a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from activemq_fleet.errors import names_to_text, positions_to_text
from activemq_fleet.node.printable import escape_unprintable


@dataclass(frozen=True, slots=True, order=True)
class TextEdit:
    """An edit of a text file: one replacement of characters.

    It replaces the characters from ``begin`` to before ``end`` by ``text``. Offsets count characters from 0, without a
    byte order mark.
    """

    begin: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class InventoryVariablesOfValue:
    """The inventory variables that can set a value in a rendered file.

    The object also identifies the value inside of these variables. A value of ``parts`` occurs in the rendered element;
    ``settings`` decide where no value of ``parts`` does. Both are names of variables, the most specific first.
    ``element`` is the XML element, "" for one that each broker has, and ``attributes`` are its attributes with values.
    If ``is_attribute``, they are only the reported one, and ``other_attributes`` are the others. ``reported`` are the
    reported value and its words, ``identifying`` those of the element and of the elements around it.
    """

    parts: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    element: str = ""
    attributes: tuple[tuple[str, str], ...] = ()
    other_attributes: tuple[tuple[str, str], ...] = ()
    is_attribute: bool = False
    reported: tuple[str, ...] = ()
    identifying: tuple[str, ...] = ()


Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""The severities, the worst first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A finding: a problem or remark that a rule reports about a host or file.

    ``waived`` is a waiver's reason, or None. ``line`` and ``column`` are 1-based positions in ``file`` and None for
    findings about the inventory, whose message names the variable instead.
    """

    rule: str
    severity: Severity
    host: str
    message: str
    fix: str
    why: str = ""
    file: str | None = None
    line: int | None = None
    column: int | None = None
    waived: str | None = None
    hosts: tuple[str, ...] = ()
    """All hosts of a wrong value (T000), which is reported once for all of them; () for other findings."""
    edits: tuple[TextEdit, ...] = ()
    """The edits of ``file`` that repair the mistake without changing what the file means; () where none are known."""
    origin: InventoryVariablesOfValue | None = field(default=None, compare=False, repr=False)
    """The variables of the inventory that can set the value in a rendered file; None where they are not known."""

    @property
    def blocks(self) -> bool:
        """Whether the finding blocks rendering: it is an error that no waiver covers.

        Such a finding makes the commands ``render`` and ``check`` fail.
        """
        return self.severity == "error" and self.waived is None

    @property
    def message_and_fix_sentences(self) -> str:
        """The finding's message and its fix as one text of sentences."""
        return join_problem_and_remedy(self.message, self.fix)

    def to_line(self) -> str:
        """Return the finding as one line of text: rule, host or place, message and fix.

        The reason of a waiver follows. Control and invisible characters are escaped: a message may quote what a host or
        a client wrote.
        """
        return _finding_line(self, self.host)

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as a dictionary for JSON.

        JSON output and the dataset ``findings`` have the same keys.
        """
        return {name: getattr(self, name) for name in _DATASET_COLUMNS}


# Hosts, edits and origin are not among the columns of the dataset; all others are text or numbers.
_DATASET_COLUMNS = tuple(column.name for column in fields(Finding) if column.name not in ("hosts", "edits", "origin"))


def merged_finding_lines(findings: Iterable[Finding], source_of: Callable[[Finding], str] = lambda _: "") -> list[str]:
    """Return a list with one line of text for each finding; equal findings about several hosts share one line.

    The lines are those of ``Finding.to_line``. Each ends with the inventory's ``FILE:LINE`` that ``source_of`` returns
    for a finding, if it is not "".
    """
    same_findings: dict[Finding, list[Finding]] = {}
    for finding in findings:
        key = replace(finding, host="", line=None, column=None, edits=()) if finding.host else finding
        same_findings.setdefault(key, []).append(finding)
    return [_line_of_equal_findings(same, source_of) for same in same_findings.values()]


def _line_of_equal_findings(findings: Sequence[Finding], source_of: Callable[[Finding], str]) -> str:
    sources = list(dict.fromkeys(source for finding in findings if (source := source_of(finding))))
    ending = f" ({positions_to_text(sources)})" if sources else ""
    hosts = list(dict.fromkeys(finding.host for finding in findings))
    lines = {finding.line for finding in findings}
    merged_finding = findings[0] if len(lines) == 1 else replace(findings[0], line=None)
    return _finding_line(merged_finding, names_to_text(hosts)) + ending


def _finding_line(finding: Finding, host: str) -> str:
    waived = f" (waived: {finding.waived})" if finding.waived else ""
    position = f"{finding.file}:{finding.line}" if finding.line else finding.file
    subject = f"{host} ({position})" if host and position else host or position
    prefix = " ".join(filter(None, (finding.rule, subject)))
    return escape_unprintable(f"{prefix}: {finding.message_and_fix_sentences}{waived}")


def join_problem_and_remedy(problem: str, remedy: str) -> str:
    """Return one text that consists of a sentence about a problem and the imperative that states its remedy.

    The remedy begins with a capital letter, except before a name. The text has no period at its end, so that a caller
    can add a reason or a place.
    """
    punctuation = "" if problem.endswith(("?", ".", "…")) else "."
    verb, blank, rest = remedy.partition(" ")
    return f"{problem}{punctuation} {verb.capitalize() if verb.isalpha() and verb.islower() else verb}{blank}{rest}"


def error_finding(rule: str, host: str, message: str, fix: str, why: str = "", file: str | None = None) -> Finding:
    """Create a finding of severity ``error`` from its rule id, host, message and remedy, and return it.

    The finding is about the inventory, or about a whole file.
    """
    return Finding(rule=rule, severity="error", host=host, message=message, fix=fix, why=why, file=file)
