"""Run the file rules on one activemq.xml, of a fleet or of any user, and the release rules on its release."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from activemq_fleet.findings import Finding
from activemq_fleet.lint.document import STRAY, Document, Problem
from activemq_fleet.lint.engine import (
    Rule,
    all_rules_by_id,
    applicable_rules,
    findings_from_problems,
    rules_applicable_to_file,
)
from activemq_fleet.lint.exposure import Exposure, exposed_port_kind
from activemq_fleet.lint.file_kinds import KIND_RULE, ForeignFileKind, foreign_file_kind
from activemq_fleet.lint.imports import imported_paths_and_documents
from activemq_fleet.lint.selection import EVERY_RULE, RuleSelection
from activemq_fleet.lint.versions_placeholders import first_template_mark_with_position
from activemq_fleet.node.host_paths import ACTIVEMQ_XML
from activemq_fleet.releases import Release
from activemq_fleet.schema import (
    CompiledActivemqXsd,
    SchemaProblem,
    UnreadableXmlError,
    XmlDocument,
    XmlTooLargeError,
    decode_xml_document,
)

SCHEMA_RULE = "V002"
SIZE_RULE = "V019"
TEMPLATE_RULE = "V022"
# By rule, the rule that reports the same cause at the same position. The fix of the latter corrects both.
_SUPERSEDING_RULES = {
    "C011": "V035",
    "C017": "V002",
    "L007": "V007",
    "L031": "V002",
    "L042": "V002",
    "N027": "S032",
    "N061": "N008",
    "S002": "S001",
    "S006": "V014",
    "S009": "N008",
    "S010": "S019",
    "V024": "V051",
}
_DTD_MESSAGE = "the file uses Spring's DTD instead of a schema: a broker can start with it, but no rule checks the file"
_DTD_FIX = (
    'remove the DOCTYPE, and write <beans xmlns="http://www.springframework.org/schema/beans"> with its schema in '
    "xsi:schemaLocation"
)
_DTD_WHY = "the rules require the namespaces of Spring and ActiveMQ, which a file with a DTD does not have"
_MAX_DOCTYPE_LENGTH = 500
_MAX_FINDINGS_PER_RULE = 100  # per rule and file
# The values of the placeholders are defined in the importing file.
_RULES_OF_IMPORTING_FILE = frozenset({"V024", "V051"})
_SPRING_BEAN_RULES = frozenset({"V020", "V021", "V028"})
_NO_FILES: Mapping[str, bytes] = MappingProxyType({})
_STRAY_AMPERSAND = re.compile(r"&(?!#[0-9]+;|#x[0-9A-Fa-f]+;|[A-Za-z_][\w.-]*;)")
_ENCODING_DECLARATION = re.compile(r"(<\?xml[^>]*?encoding\s*=\s*)([\"'])([A-Za-z][\w.-]*)\2")


def file_findings(
    data: bytes,
    release: Release,
    *,
    schema: CompiledActivemqXsd | None = None,
    file: str = ACTIVEMQ_XML,
    selection: RuleSelection = EVERY_RULE,
    other_files: Mapping[str, bytes] = _NO_FILES,
) -> tuple[Finding, ...]:
    """Return the lint findings about one activemq.xml file, in the order of its lines.

    The function never raises. The parameters are those of ``check_activemq_xml``.
    """
    return check_activemq_xml(
        data, release, schema=schema, file=file, selection=selection, other_files=other_files
    ).findings


class FileFindingsAndDocument(NamedTuple):
    """The lint findings about one activemq.xml file, in the order of its lines, and the file as it was parsed.

    ``document`` is None for a template, and for a file that is not XML.
    """

    findings: tuple[Finding, ...]
    document: Document | None


def check_activemq_xml(
    data: bytes,
    release: Release,
    *,
    schema: CompiledActivemqXsd | None,
    file: str,
    selection: RuleSelection,
    other_files: Mapping[str, bytes],
) -> FileFindingsAndDocument:
    """Check one activemq.xml file with the file rules, and return the findings and the parsed file.

    The function never raises, whatever the file contains. ``other_files`` are the files of the same directory, content
    by name: accounts, console, logging. A template yields a single finding. ``schema`` is the release's own; without it
    rule V002 reports only files that are not XML. A file that is not XML because of a bare ``&`` is read as if it were
    escaped, so that all else is checked too. A file of another kind, such as a properties file, yields a single
    finding, too. Imported files among ``other_files`` are checked against the schema, and those with a broker by the
    rules.
    """
    kind = foreign_file_kind(data, file)
    mark = None if kind and b"\0" in data else first_template_mark_with_position(decode_xml_document(data, None))
    document = None
    try:
        if mark is not None:
            findings = [_template_finding(*mark, file)]
        elif kind is not None:
            findings = [_kind_finding(kind, file)]
            with suppress(UnreadableXmlError):
                document = _parse_document(data, release, other_files)
        else:
            document = _parse_document(data, release, other_files)
            findings = list(document_findings(document, file, selection))
            if schema is not None:
                problems = schema.find_problems(document.source)
                findings += [schema_finding(problem, release, file) for problem in problems]
            findings += _imported_findings(document, file, selection, schema)
    except XmlTooLargeError as error:
        excess = error.problem
        findings = [
            _finding_of_rule(SIZE_RULE, Problem(excess.message, line=excess.line, column=1, fix=excess.fix), file)
        ]
    except UnreadableXmlError as error:
        findings = [schema_finding(error.problem, release, file)]
        if _uses_spring_dtd(data):
            findings = [replace(findings[0], severity="warning", message=_DTD_MESSAGE, fix=_DTD_FIX, why=_DTD_WHY)]
    selected = (finding for finding in one_finding_per_mistake(findings) if selection.includes_rule(finding.rule))
    ordered = sorted(selected, key=lambda f: (f.line or 0, f.column or 0, f.rule, f.message))
    return FileFindingsAndDocument(tuple(ordered), document)


def _parse_document(data: bytes, release: Release, other_files: Mapping[str, bytes]) -> Document:
    return Document(parse_xml_with_stray_ampersands(data), release, other_files=other_files)


def _imported_findings(
    document: Document, file: str, selection: RuleSelection, schema: CompiledActivemqXsd | None
) -> Iterator[Finding]:
    """Yield the findings of the files next to an activemq.xml that it imports, directly or through another one."""
    directory, slash, _ = file.rpartition("/")
    for name, imported_document in imported_paths_and_documents(document):
        path = f"{directory}{slash}{name}"
        if schema is not None:
            source = imported_document.source if imported_document else XmlDocument(document.other_files[name])
            problems = schema.find_problems(source)
            yield from (schema_finding(problem, document.release, path) for problem in problems)
        if imported_document is not None:
            findings = document_findings(imported_document, file, selection)
            yield from (finding for finding in findings if _applies_to_imported_file(finding.rule, imported_document))


def _applies_to_imported_file(rule: str, imported_document: Document) -> bool:
    """Return whether a lint rule applies to an imported file.

    If the file has a broker, nearly every rule applies; otherwise only the rules about Spring's beans apply.
    """
    return rule not in _RULES_OF_IMPORTING_FILE if imported_document.brokers else rule in _SPRING_BEAN_RULES


def _uses_spring_dtd(data: bytes) -> bool:
    """Return whether a file declares Spring's DTD and has no element of ActiveMQ; a broker starts with such a file."""
    begin = data.find(b"<!DOCTYPE")
    head = data[begin : begin + _MAX_DOCTYPE_LENGTH] if begin >= 0 else b""
    doctype = re.match(rb"<!DOCTYPE\s+beans\s+(PUBLIC|SYSTEM)[^>\[]*>", head)
    if doctype is None or b"spring-beans" not in doctype[0]:
        return False
    return b"activemq.apache.org/schema/core" not in data and b"<broker" not in data


def _finding_of_rule(rule_id: str, problem: Problem, file: str) -> Finding:
    return next(findings_from_problems(all_rules_by_id()[rule_id], [problem], file=file))


def _template_finding(line: int, column: int, text: str, file: str) -> Finding:
    message = f"the file is a template, because it contains {text[:40]}: no other rule checked the file"
    return _finding_of_rule(TEMPLATE_RULE, Problem(message, line=line, column=column), file)


def _kind_finding(kind: ForeignFileKind, file: str) -> Finding:
    message = f"the file is {kind.name}, not an activemq.xml"
    why = "" if "Artemis" in kind.name else "a broker that is started with this file as its activemq.xml does not start"
    return _finding_of_rule(KIND_RULE, Problem(message, line=1, column=1, fix=kind.fix, why=why), file)


def one_finding_per_mistake(findings: Iterable[Finding]) -> list[Finding]:
    """Return the given lint findings without duplicates: one finding for each mistake.

    A duplicate is about a mistake that a more specific rule also reports. Duplicates are findings of the schema, and of
    weaker rules. A finding that takes the place of one of the schema has its repair.
    """
    places = {finding: _position_key(finding) for finding in findings}
    edits = {place: f.edits for f, place in places.items() if f.rule == SCHEMA_RULE and f.edits}
    places_of_startup_errors = {
        place for f, place in places.items() if f.rule != SCHEMA_RULE and rule_prevents_broker_start(f.rule)
    }
    reported = {(f.rule, place) for f, place in places.items()}
    return [
        replace(f, edits=edits[place]) if place in edits and not f.edits and rule_prevents_broker_start(f.rule) else f
        for f, place in places.items()
        if not (f.rule == SCHEMA_RULE and place in places_of_startup_errors)
        and (_SUPERSEDING_RULES.get(f.rule), place) not in reported
    ]


def _position_key(finding: Finding) -> tuple[str, str | None, int | None, int | None]:
    return finding.host, finding.file, finding.line, finding.column


def rule_prevents_broker_start(rule_id: str) -> bool:
    """Return whether a broker with a finding of the given lint rule fails to start."""
    return rule_id in all_rules_by_id() and all_rules_by_id()[rule_id].refuses


def parse_xml_with_stray_ampersands(data: bytes) -> XmlDocument:
    """Return an XML document from the bytes of a file, in which stray ampersands are tolerated.

    If the file is not well-formed, its stray ampersands are replaced first. Raises UnreadableXmlError if the file is
    not XML even then, and XmlTooLargeError if it is too large.
    """
    document = XmlDocument(data)
    try:
        document.elements_in_document_order  # noqa: B018 -- parses
    except XmlTooLargeError:
        raise
    except UnreadableXmlError:
        marked = _mark_stray_ampersands(data)
        if marked is None:
            raise
        return XmlDocument(marked)
    return document


def _mark_stray_ampersands(data: bytes) -> bytes | None:
    """Return the file in UTF-8 with each stray ampersand replaced; None if it has none.

    Ampersands in comments and CDATA are kept. Every character keeps its line and column.
    """
    declared = _ENCODING_DECLARATION.match(data[:200].decode("ascii", "replace"))
    try:
        text = decode_xml_document(data, declared[3] if declared else None, "strict")
        parts = re.split(r"(<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z))", text, flags=re.DOTALL)
        parts[::2] = [_STRAY_AMPERSAND.sub(STRAY, part) for part in parts[::2]]
        marked = "".join(parts)
        # the spaces preserve the columns of the rest of the first line
        utf8 = _ENCODING_DECLARATION.sub(
            lambda declaration: f'{declaration[1]}"UTF-8"'.ljust(len(declaration[0])), marked, count=1
        ).encode()
    except (LookupError, UnicodeError):
        return None
    return None if marked == text or STRAY in text else utf8


def document_findings(document: Document, file: str, selection: RuleSelection) -> Iterator[Finding]:
    """Yield the findings of the lint rules about a parsed activemq.xml, at most 100 for each rule."""
    host = document.broker.host if document.broker else ""
    for rule in rules_applicable_to_file(document.element_and_attribute_names, document.release, selection):
        if rule.texts and not document.has_attribute_value_containing(rule.texts):
            continue
        problems = list(islice(rule.check(document), _MAX_FINDINGS_PER_RULE + 1))
        if len(problems) > _MAX_FINDINGS_PER_RULE:
            further = next(findings_from_problems(rule, problems[_MAX_FINDINGS_PER_RULE:], host, file))
            message = (
                f"rule {rule.id} has more than {_MAX_FINDINGS_PER_RULE} findings in this file: only the first "
                f"{_MAX_FINDINGS_PER_RULE} are reported"
            )
            fix = f"correct the reported findings of {rule.id}, and run the check again"
            yield from findings_from_problems(rule, problems[:_MAX_FINDINGS_PER_RULE], host, file)
            why = f"the check omits further findings of {rule.id}, so that the report stays readable"
            yield replace(further, message=message, fix=fix, why=why, line=None, column=None)
        elif problems:
            yield from findings_from_problems(rule, problems, host, file)


def schema_finding(problem: SchemaProblem, release: Release, file: str, host: str = "", fix: str = "") -> Finding:
    """Return a finding about an error that XML schema validation reports in an activemq.xml.

    It is a finding of rule V002. An empty ``fix`` means the fix of the rule.
    """
    located = Problem(
        problem.message.replace("in this release", f"in ActiveMQ {release.text}"),
        line=problem.line,
        column=problem.column,
        host=host,
        fix=fix or problem.fix,
        edits=problem.edits,
    )
    why = f"a broker of release {release.text} validates the file at its start, and does not start with this error"
    return replace(_finding_of_rule(SCHEMA_RULE, located, file), why=why)


@dataclass(frozen=True, slots=True)
class InstalledReleaseFacts:
    """Facts about an ActiveMQ release that is installed or to be installed; the release lint rules check them.

    ``from_package`` is True where a distribution's package installed the release, because a distribution may backport
    fixes. ``exposure`` names the ports that the brokers open.
    """

    release: Release
    from_package: bool = False
    exposure: Exposure = "openwire"


def exposed_port_kind_of_checked_file(document: Document | None) -> Exposure:
    """Return which kind of ports the broker of a checked file exposes, such as "no port"; "openwire" if it is unknown.

    The ports are unknown without a ``document``, as for a template and for a file that is not XML, and for a file that
    imports one with brokers or one that cannot be read.
    """
    if document is None or any(
        imported_document is None or imported_document.brokers
        for _, imported_document in imported_paths_and_documents(document)
    ):
        return "openwire"
    return exposed_port_kind(document)


def installed_release_findings(
    facts: InstalledReleaseFacts, selection: RuleSelection, *, host: str = "", file: str | None = None
) -> tuple[Finding, ...]:
    """Return the lint findings about an installed ActiveMQ release, such as its known vulnerabilities.

    Each finding names the given host or file.
    """
    by_rule = _release_problems(facts, selection)
    return tuple(
        finding for rule, problems in by_rule for finding in findings_from_problems(rule, problems, host, file)
    )


@lru_cache(maxsize=512)
def _release_problems(
    facts: InstalledReleaseFacts, selection: RuleSelection
) -> tuple[tuple[Rule, tuple[Problem, ...]], ...]:
    """Return the problems of a release by lint rule; they are the same for all its brokers."""
    rules = applicable_rules("release", facts.release, selection)
    return tuple((rule, tuple(rule.check(facts))) for rule in rules)
