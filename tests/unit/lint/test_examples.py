"""Examples of the rules: each rule reports its failing examples, and does not report its passing examples."""

from __future__ import annotations

from contextlib import suppress

import pytest

from activemq_fleet.lint import Rule, file_findings, rules_of_scope
from activemq_fleet.lint.document import Document
from activemq_fleet.lint.engine import RuleExample
from activemq_fleet.lint.files import SCHEMA_RULE, parse_xml_with_stray_ampersands
from activemq_fleet.lint.selection import RuleSelection
from activemq_fleet.releases import Release
from activemq_fleet.schema import UnreadableXmlError
from tests.rule_examples import complete

# The rule of the schema requires the XSD of the release: tests/integration/test_refusals.py tests it.
FILE_RULES = [rule for rule in rules_of_scope("file") if rule.id != SCHEMA_RULE]


def cases(kind: str) -> list[object]:
    return [
        pytest.param(rule, example, id=f"{rule.id}-{example.release}-{number}")
        for rule in FILE_RULES
        for number, example in enumerate(getattr(rule, kind))
    ]


def _activemq_xml_with_import(release: Release) -> bytes:
    """Return an activemq.xml that imports the console: another file is checked only if activemq.xml uses it."""
    return complete(f'<import resource="{release.console_file}"/>', release)


def reported_rules(example: RuleExample) -> set[str]:
    release = Release.of(example.release)
    other_files = {}
    content = complete(example.text, release)
    if example.file != "activemq.xml":
        other_files, content = {example.file: example.text.encode()}, _activemq_xml_with_import(release)
    return {finding.rule for finding in file_findings(content, release, other_files=other_files)}


@pytest.mark.parametrize(("rule", "example"), cases("failing_examples"))
def test_file_rule_reports_each_of_its_failing_examples(rule: Rule, example: RuleExample) -> None:
    assert rule.id in reported_rules(example)


@pytest.mark.parametrize(("rule", "example"), cases("passing_examples"))
def test_file_rule_does_not_report_its_passing_examples(rule: Rule, example: RuleExample) -> None:
    assert rule.id not in reported_rules(example)


@pytest.mark.parametrize("rule", [rule for rule in FILE_RULES if rule.needs], ids=lambda rule: rule.id)
def test_file_rule_reports_nothing_without_elements_or_attributes_it_requires(
    rule: Rule, example_documents: list[Document]
) -> None:
    documents_without_them = [
        document for document in example_documents if not document.has_element_or_attribute(rule.needs)
    ]
    assert documents_without_them
    assert [problem for document in documents_without_them for problem in rule.check(document)] == []


@pytest.mark.parametrize("rule", [rule for rule in FILE_RULES if rule.texts], ids=lambda rule: rule.id)
def test_file_rule_reports_nothing_without_attribute_value_it_requires(
    rule: Rule, example_documents: list[Document]
) -> None:
    documents_without_it = [
        document for document in example_documents if not document.has_attribute_value_containing(rule.texts)
    ]
    assert documents_without_it
    assert [problem for document in documents_without_it for problem in rule.check(document)] == []


@pytest.fixture(scope="module")
def example_documents() -> list[Document]:
    """Return the documents of all examples of file rules that are XML."""
    examples = [example for rule in FILE_RULES for example in (*rule.failing_examples, *rule.passing_examples)]
    documents = []
    for example in examples:
        release = Release.of(example.release)
        with suppress(UnreadableXmlError):
            documents.append(Document(parse_xml_with_stray_ampersands(complete(example.text, release)), release))
    return documents


@pytest.mark.parametrize("release", ["5.5.1", "5.8.0", "5.18.3", "6.3.1"])
def test_file_around_rule_examples_has_no_finding(release: str) -> None:
    # In 5.5, no setting limits the size of frames (S009). The skeleton has no access rights and no TLS (S015, S016),
    # and no configurer that replaces its placeholders (V024).
    selection = RuleSelection(ignore=("S009", "S015", "S016", "V024"))
    findings = file_findings(complete("", Release.of(release)), Release.of(release), selection=selection)
    assert findings == ()


@pytest.mark.parametrize("rule", rules_of_scope(), ids=lambda rule: rule.id)
def test_every_rule_has_title_reason_fix_evidence_and_examples(rule: Rule) -> None:
    assert rule.title.endswith(".")
    assert rule.why
    assert rule.fix
    assert rule.evidence_from_docstring
    assert rule.failing_examples
    assert rule.passing_examples
