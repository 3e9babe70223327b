"""Run the file rules on one activemq.xml, of a fleet or of anybody."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from types import MappingProxyType

from activemq_fleet.findings import Finding
from activemq_fleet.lint.document import STRAY, Document, Problem
from activemq_fleet.lint.engine import RULES, Rule
from activemq_fleet.lint.problems import findings_of
from activemq_fleet.lint.selection import Selection
from activemq_fleet.lint.table import rules
from activemq_fleet.lint.templates import template_mark
from activemq_fleet.releases import Release
from activemq_fleet.schema import Schema, SchemaProblem, TooLargeError, UnreadableError, text_of

SCHEMA_RULE = "V002"
SIZE_RULE = "V019"
TEMPLATE_RULE = "V022"
ACTIVEMQ_XML = "conf/activemq.xml"
_DTD = "Spring's DTD in place of a schema: the rules do not read such a file, which a broker of plain beans starts with"
_EVERY_RULE = Selection()
_LONGEST_DOCTYPE = 500
_MOST = 100  # findings of one rule in one file
_NOTHING: Mapping[str, bytes] = MappingProxyType({})
_STRAY_AMPERSAND = re.compile(r"&(?!#[0-9]+;|#x[0-9A-Fa-f]+;|[A-Za-z_][\w.-]*;)")
_ENCODING = re.compile(r"(<\?xml[^>]*?encoding\s*=\s*)([\"'])([A-Za-z][\w.-]*)\2")


def file_findings(
    data: bytes,
    release: Release,
    *,
    schema: Schema | None = None,
    file: str = ACTIVEMQ_XML,
    host: str = "",
    selection: Selection = _EVERY_RULE,
    other_files: Mapping[str, bytes] = _NOTHING,
) -> tuple[Finding, ...]:
    """Return the findings of one activemq.xml in the order of its lines; never raises, whatever the file holds.

    ``other_files`` are the files of the same directory, content by name: accounts, console, logging. A template yields
    a single finding. ``schema`` is the release's own; without it rule V002 reports only files that are not XML. A file
    that is not XML because of a bare ``&`` is read as if it were escaped, so that all else is checked too.
    """
    rules()  # what is not XML is told by rules too
    mark = template_mark(text_of(data, None))
    if mark is not None:
        found = list(_template_finding(mark, host, file))
        return tuple(finding for finding in found if selection.takes(finding.rule))
    try:
        data, document = _read(data, release, other_files)
    except TooLargeError as error:
        found = [
            *findings_of(
                RULES[SIZE_RULE], [Problem(error.problem.message, line=error.problem.line, column=1)], host, file
            )
        ]
    except UnreadableError as error:
        found = [_schema_finding(error.problem, release, host, file)]
        if _is_springs_dtd(data):
            found = [replace(found[0], severity="warning", message=_DTD, why="")]
    else:
        found = list(document_findings(document, host, file, selection))
        if schema is not None:
            found += [_schema_finding(problem, release, host, file) for problem in schema.explain(data)]
    taken = (finding for finding in without_echoes(found) if selection.takes(finding.rule))
    return tuple(sorted(taken, key=lambda f: (f.line or 0, f.column or 0, f.rule, f.message)))


def _is_springs_dtd(data: bytes) -> bool:
    """Return whether a file names Spring's own DTD and holds no element of ActiveMQ, which a broker starts with."""
    begin = data.find(b"<!DOCTYPE")
    declared = data[begin : begin + _LONGEST_DOCTYPE] if begin >= 0 else b""
    spring = re.match(rb"<!DOCTYPE\s+beans\s+(PUBLIC|SYSTEM)[^>\[]*>", declared)
    if spring is None or b"spring-beans" not in spring[0]:
        return False
    return b"activemq.apache.org/schema/core" not in data and b"<broker" not in data


def _template_finding(mark: tuple[int, int, str], host: str, file: str) -> Iterator[Finding]:
    line, column, text = mark
    message = f"a template: render it first ({text[:40]} is no part of a configuration); nothing else of it was checked"
    return findings_of(RULES[TEMPLATE_RULE], [Problem(message, line=line, column=column)], host, file)


def without_echoes(found: Iterable[Finding]) -> list[Finding]:
    """Return the findings without those of the schema at a position where a rule reports the same mistake."""
    findings = list(dict.fromkeys(found))
    told = {(f.host, f.line, f.column) for f in findings if f.rule != SCHEMA_RULE and _refuses(f.rule)}
    return [f for f in findings if f.rule != SCHEMA_RULE or (f.host, f.line, f.column) not in told]


def _refuses(name: str) -> bool:
    return name in RULES and RULES[name].refuses


def _read(data: bytes, release: Release, other_files: Mapping[str, bytes]) -> tuple[bytes, Document]:
    """Return the bytes that were read and their document, stray ampersands replaced. Raises UnreadableError."""
    try:
        return data, Document(data, release, other_files=other_files)
    except TooLargeError:
        raise
    except UnreadableError:
        marked = _with_stray_marked(data)
        if marked is None:
            raise
    return marked, Document(marked, release, other_files=other_files)


def _with_stray_marked(data: bytes) -> bytes | None:
    """Return the file in UTF-8 with each stray ampersand replaced; None where it has none.

    Ampersands in comments and CDATA are kept. Every character keeps its line and column.
    """
    declared = _ENCODING.match(data[:200].decode("ascii", "replace"))
    try:
        text = text_of(data, declared[3] if declared else None, "strict")
        parts = re.split(r"(<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z))", text, flags=re.DOTALL)
        parts[::2] = [_STRAY_AMPERSAND.sub(STRAY, part) for part in parts[::2]]
        marked = "".join(parts)
        # the spaces keep the columns of what follows on the first line
        utf8 = _ENCODING.sub(lambda at: f'{at[1]}"UTF-8"'.ljust(len(at[0])), marked, count=1).encode()
    except (LookupError, UnicodeError):
        return None
    return None if marked == text or STRAY in text else utf8


def document_findings(
    document: Document, host: str, file: str = ACTIVEMQ_XML, selection: Selection = _EVERY_RULE
) -> Iterator[Finding]:
    """Yield the findings of the file rules about a document, in the order of the rules; at most 100 of each rule."""
    for one in _applicable_rules(document.release, selection):
        found = iter(findings_of(one, one.check(document), host, file))
        yield from islice(found, _MOST)
        if further := next(found, None):
            message = f"the rule has more than {_MOST} findings in this file: only the first are told"
            yield replace(further, message=message, line=None, column=None)


@lru_cache(maxsize=256)
def _applicable_rules(release: Release, selection: Selection) -> tuple[Rule, ...]:
    return tuple(one for one in rules("file") if selection.takes(one.id) and one.applies_to(release))


def _schema_finding(problem: SchemaProblem, release: Release, host: str, file: str) -> Finding:
    one = RULES[SCHEMA_RULE]
    return Finding(
        rule=SCHEMA_RULE,
        severity=one.severity,
        host=host,
        message=problem.message,
        fix=one.fix.removesuffix("."),
        why=f"release {release.text} checks the file when it starts, and does not start with this one",
        file=file,
        line=problem.line,
        column=problem.column,
    )
