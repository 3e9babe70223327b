"""Convert the problems that rules report into findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from activemq_fleet.findings import Finding
from activemq_fleet.lint.document import Problem
from activemq_fleet.lint.engine import Rule


def findings_of(one: Rule, problems: Iterable[Problem], host: str, file: str | None = None) -> Iterator[Finding]:
    """Yield the problems of one rule as findings about a host, or about a file of no fleet."""
    for problem in problems:
        line, column = problem.line, problem.column
        if problem.node is not None:
            line, column = problem.node.place(problem.attribute, problem.part)
        yield Finding(
            rule=one.id,
            severity=problem.severity or one.severity,
            host=problem.host or host,
            message=problem.message,
            fix=problem.fix or one.fix.removesuffix("."),
            why=one.why.removesuffix("."),
            file=_beside(file, problem.file) if problem.file else file,
            line=line,
            column=column,
        )


def _beside(file: str | None, name: str) -> str:
    directory, slash, _ = (file or "").rpartition("/")
    return f"{directory}{slash}{name}"
