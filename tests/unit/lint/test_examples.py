"""Each rule's own examples: the one that fires does, the one that is silent is."""

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

# The schema's own rule needs the release's XSD: tests/integration/test_refusals.py shows it.
FILE_RULES = [rule for rule in rules_of_scope("file") if rule.id != SCHEMA_RULE]


def cases(kind: str) -> list[object]:
    return [
        pytest.param(one, example, id=f"{one.id}-{example.release}-{number}")
        for one in FILE_RULES
        for number, example in enumerate(getattr(one, kind))
    ]


def _importing(release: Release) -> bytes:
    """Files beside activemq.xml count where it makes use of them: most are the console's."""
    return complete(f'<import resource="{release.console_file}"/>', release)


def found(example: RuleExample) -> set[str]:
    release = Release.of(example.release)
    other_files = {}
    data = complete(example.text, release)
    if example.file != "activemq.xml":
        other_files, data = {example.file: example.text.encode()}, _importing(release)
    return {finding.rule for finding in file_findings(data, release, other_files=other_files)}


@pytest.mark.parametrize(("rule", "example"), cases("failing_examples"))
def test_the_example_that_fires_does(rule: Rule, example: RuleExample) -> None:
    assert rule.id in found(example)


@pytest.mark.parametrize(("rule", "example"), cases("passing_examples"))
def test_the_example_that_is_silent_is(rule: Rule, example: RuleExample) -> None:
    assert rule.id not in found(example)


@pytest.mark.parametrize("rule", [rule for rule in FILE_RULES if rule.needs], ids=lambda rule: rule.id)
def test_rule_reports_nothing_without_what_it_needs(rule: Rule, example_documents: list[Document]) -> None:
    others = [document for document in example_documents if not document.has_element_or_attribute(rule.needs)]
    assert others
    assert [problem for document in others for problem in rule.check(document)] == []


@pytest.mark.parametrize("rule", [rule for rule in FILE_RULES if rule.texts], ids=lambda rule: rule.id)
def test_rule_reports_nothing_without_text_it_needs(rule: Rule, example_documents: list[Document]) -> None:
    others = [document for document in example_documents if not document.has_attribute_value_containing(rule.texts)]
    assert others
    assert [problem for document in others for problem in rule.check(document)] == []


@pytest.fixture(scope="module")
def example_documents() -> list[Document]:
    """The documents of all examples of file rules that are XML."""
    examples = [example for rule in FILE_RULES for example in (*rule.failing_examples, *rule.passing_examples)]
    documents = []
    for example in examples:
        release = Release.of(example.release)
        with suppress(UnreadableXmlError):
            documents.append(Document(parse_xml_with_stray_ampersands(complete(example.text, release)), release))
    return documents


@pytest.mark.parametrize("release", ["5.5.1", "5.8.0", "5.18.3", "6.3.1"])
def test_the_skeleton_of_the_examples_has_no_mistake(release: str) -> None:
    # S009: 5.5 has no setting against large frames, which is said as info. Nor has it rights or TLS (S015, S016),
    # or what replaces its placeholders (V024).
    selection = RuleSelection(ignore=("S009", "S015", "S016", "V024"))
    found = file_findings(complete("", Release.of(release)), Release.of(release), selection=selection)
    assert found == ()


@pytest.mark.parametrize("rule", rules_of_scope(), ids=lambda rule: rule.id)
def test_every_rule_says_what_why_how_to_mend_and_shows_it(rule: Rule) -> None:
    assert rule.title.endswith(".")
    assert rule.why
    assert rule.fix
    assert rule.evidence_for_rule
    assert rule.failing_examples
    assert rule.passing_examples
