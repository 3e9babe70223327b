"""Run the file rules on one activemq.xml, of a fleet or of any user, and the release rules on its release."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from types import MappingProxyType

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
from activemq_fleet.lint.versions_placeholders import first_template_mark
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
ACTIVEMQ_XML = "conf/activemq.xml"
# A rule, and the rule that reports the same cause at the same place, whose remedy removes both.
_STRONGER = {
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
_DTD = "the file uses Spring's DTD instead of a schema: a broker can start with it, but no rule checks the file"
_DTD_FIX = (
    'remove the DOCTYPE, and write <beans xmlns="http://www.springframework.org/schema/beans"> with its schema in '
    "xsi:schemaLocation"
)
_DTD_WHY = "the rules require the namespaces of Spring and ActiveMQ, which a file with a DTD does not have"
_LONGEST_DOCTYPE = 500
_MOST = 100  # findings of one rule in one file
# The importing file decides the values of placeholders.
_OF_THE_IMPORTING_FILE = frozenset({"V024", "V051"})
_OF_SPRING = frozenset({"V020", "V021", "V028"})
_NOTHING: Mapping[str, bytes] = MappingProxyType({})
_STRAY_AMPERSAND = re.compile(r"&(?!#[0-9]+;|#x[0-9A-Fa-f]+;|[A-Za-z_][\w.-]*;)")
_ENCODING = re.compile(r"(<\?xml[^>]*?encoding\s*=\s*)([\"'])([A-Za-z][\w.-]*)\2")


def file_findings(
    data: bytes,
    release: Release,
    *,
    schema: CompiledActivemqXsd | None = None,
    file: str = ACTIVEMQ_XML,
    selection: RuleSelection = EVERY_RULE,
    other_files: Mapping[str, bytes] = _NOTHING,
) -> tuple[Finding, ...]:
    """Return the lint findings about one activemq.xml file, in the order of its lines.

    The function never raises, whatever the file contains. ``other_files`` are the files of the same directory, content
    by name: accounts, console, logging. A template yields a single finding. ``schema`` is the release's own; without it
    rule V002 reports only files that are not XML. A file that is not XML because of a bare ``&`` is read as if it were
    escaped, so that all else is checked too. A file of another kind, such as a properties file, yields a single
    finding, too. Imported files among ``other_files`` are checked against the schema, and those with a broker by the
    rules.
    """
    kind = foreign_file_kind(data, file)
    mark = None if kind and b"\0" in data else first_template_mark(decode_xml_document(data, None))
    try:
        if mark is not None:
            findings = [_template_finding(*mark, file)]
        elif kind is not None:
            findings = [_kind_finding(kind, file)]
        else:
            source = parse_xml_with_stray_ampersands(data)
            document = Document(source, release, other_files=other_files)
            findings = list(document_findings(document, file, selection))
            if schema is not None:
                findings += [schema_finding(problem, release, file) for problem in schema.find_problems(source)]
            findings += _imported_findings(document, file, selection, schema)
    except XmlTooLargeError as error:
        excess = error.problem
        findings = [_finding(SIZE_RULE, Problem(excess.message, line=excess.line, column=1, fix=excess.fix), file)]
    except UnreadableXmlError as error:
        findings = [schema_finding(error.problem, release, file)]
        if _is_springs_dtd(data):
            findings = [replace(findings[0], severity="warning", message=_DTD, fix=_DTD_FIX, why=_DTD_WHY)]
    selected = (finding for finding in without_duplicate_findings(findings) if selection.includes_rule(finding.rule))
    return tuple(sorted(selected, key=lambda f: (f.line or 0, f.column or 0, f.rule, f.message)))


def _imported_findings(
    document: Document, file: str, selection: RuleSelection, schema: CompiledActivemqXsd | None
) -> Iterator[Finding]:
    """Yield the findings of the files next to an activemq.xml that it imports, directly or through another one."""
    directory, slash, _ = file.rpartition("/")
    for name, page in imported_paths_and_documents(document):
        path = f"{directory}{slash}{name}"
        if schema is not None:
            problems = schema.find_problems(XmlDocument(document.other_files[name]))
            yield from (schema_finding(problem, document.release, path) for problem in problems)
        if page is not None:
            findings = document_findings(page, file, selection)
            yield from (finding for finding in findings if _holds_imported(finding.rule, page))


def _holds_imported(rule: str, page: Document) -> bool:
    """Return whether a lint rule applies to an imported file.

    If the file has a broker, nearly each rule applies; otherwise those about Spring's beans.
    """
    return rule not in _OF_THE_IMPORTING_FILE if page.brokers else rule in _OF_SPRING


def _is_springs_dtd(data: bytes) -> bool:
    """Return whether a file names Spring's own DTD and holds no element of ActiveMQ, which a broker starts with."""
    begin = data.find(b"<!DOCTYPE")
    declared = data[begin : begin + _LONGEST_DOCTYPE] if begin >= 0 else b""
    spring = re.match(rb"<!DOCTYPE\s+beans\s+(PUBLIC|SYSTEM)[^>\[]*>", declared)
    if spring is None or b"spring-beans" not in spring[0]:
        return False
    return b"activemq.apache.org/schema/core" not in data and b"<broker" not in data


def _finding(name: str, problem: Problem, file: str) -> Finding:
    return next(findings_from_problems(all_rules_by_id()[name], [problem], file=file))


def _template_finding(line: int, column: int, text: str, file: str) -> Finding:
    message = f"the file is a template, because it contains {text[:40]}: no other rule checked the file"
    return _finding(TEMPLATE_RULE, Problem(message, line=line, column=column), file)


def _kind_finding(kind: ForeignFileKind, file: str) -> Finding:
    message = f"the file is {kind.name}, not an activemq.xml"
    why = "" if "Artemis" in kind.name else "a broker that is started with this file as its activemq.xml does not start"
    return _finding(KIND_RULE, Problem(message, line=1, column=1, fix=kind.fix, why=why), file)


def without_duplicate_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Return the given lint findings without duplicates: one finding for each mistake.

    A duplicate is about a mistake that a more specific rule also reports. Duplicates are findings of the schema, and of
    weaker rules. A finding that takes the place of one of the schema has its repair.
    """
    places = {finding: _place(finding) for finding in findings}
    edits = {place: f.edits for f, place in places.items() if f.rule == SCHEMA_RULE and f.edits}
    refused = {place for f, place in places.items() if f.rule != SCHEMA_RULE and rule_prevents_broker_start(f.rule)}
    reported = {(f.rule, place) for f, place in places.items()}
    return [
        replace(f, edits=edits[place]) if place in edits and not f.edits and rule_prevents_broker_start(f.rule) else f
        for f, place in places.items()
        if not (f.rule == SCHEMA_RULE and place in refused) and (_STRONGER.get(f.rule), place) not in reported
    ]


def _place(finding: Finding) -> tuple[str, str | None, int | None, int | None]:
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
        marked = _with_stray_marked(data)
        if marked is None:
            raise
        return XmlDocument(marked)
    return document


def _with_stray_marked(data: bytes) -> bytes | None:
    """Return the file in UTF-8 with each stray ampersand replaced; None where it has none.

    Ampersands in comments and CDATA are kept. Every character keeps its line and column.
    """
    declared = _ENCODING.match(data[:200].decode("ascii", "replace"))
    try:
        text = decode_xml_document(data, declared[3] if declared else None, "strict")
        parts = re.split(r"(<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z))", text, flags=re.DOTALL)
        parts[::2] = [_STRAY_AMPERSAND.sub(STRAY, part) for part in parts[::2]]
        marked = "".join(parts)
        # the spaces keep the columns of what follows on the first line
        utf8 = _ENCODING.sub(lambda at: f'{at[1]}"UTF-8"'.ljust(len(at[0])), marked, count=1).encode()
    except (LookupError, UnicodeError):
        return None
    return None if marked == text or STRAY in text else utf8


def document_findings(document: Document, file: str, selection: RuleSelection) -> Iterator[Finding]:
    """Yield the findings of the lint rules about a parsed activemq.xml, at most 100 for each rule."""
    host = document.broker.host if document.broker else ""
    for rule in rules_applicable_to_file(document.element_and_attribute_names, document.release, selection):
        if rule.texts and not document.has_attribute_value_containing(rule.texts):
            continue
        problems = list(islice(rule.check(document), _MOST + 1))
        if len(problems) > _MOST:
            further = next(findings_from_problems(rule, problems[_MOST:], host, file))
            message = f"rule {rule.id} has more than {_MOST} findings in this file: only the first {_MOST} are reported"
            fix = f"correct the reported findings of {rule.id}, and run the check again"
            yield from findings_from_problems(rule, problems[:_MOST], host, file)
            why = f"the check omits further findings of {rule.id}, so that the report stays readable"
            yield replace(further, message=message, fix=fix, why=why, line=None, column=None)
        elif problems:
            yield from findings_from_problems(rule, problems, host, file)


def schema_finding(problem: SchemaProblem, release: Release, file: str, host: str = "", fix: str = "") -> Finding:
    """Return a finding about an error that XML schema validation reports in an activemq.xml.

    It is a finding of rule V002. An empty ``fix`` means the fix of the rule.
    """
    at = Problem(
        problem.message.replace("in this release", f"in ActiveMQ {release.text}"),
        line=problem.line,
        column=problem.column,
        host=host,
        fix=fix or problem.fix,
        edits=problem.edits,
    )
    why = f"a broker of release {release.text} validates the file at its start, and does not start with this error"
    return replace(_finding(SCHEMA_RULE, at, file), why=why)


@dataclass(frozen=True, slots=True)
class InstalledReleaseFacts:
    """Facts about an ActiveMQ release that is installed or to be installed; the release lint rules check them.

    ``from_package`` is True where a distribution's package installed the release, because a distribution may backport
    fixes. ``exposure`` names the ports that the brokers open.
    """

    release: Release
    from_package: bool = False
    exposure: Exposure = "openwire"


def exposed_port_kind_of_file(
    activemq_xml: bytes, release: Release, other_files: Mapping[str, bytes] = _NOTHING
) -> Exposure:
    """Return the kind of ports that an activemq.xml exposes: "openwire", "other ports", "no port" or "no broker".

    ``activemq_xml`` is the file's content. The result is also ``openwire`` where the ports are not known: for a
    template, for a file that is not XML, and for a file that imports one with brokers or one that cannot be read.
    ``other_files`` are the files that the file can import, by path.
    """
    if first_template_mark(decode_xml_document(activemq_xml, None)) is not None:
        return "openwire"
    try:
        document = Document(parse_xml_with_stray_ampersands(activemq_xml), release, other_files=other_files)
    except UnreadableXmlError:
        return "openwire"
    if any(page is None or page.brokers for _, page in imported_paths_and_documents(document)):
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
