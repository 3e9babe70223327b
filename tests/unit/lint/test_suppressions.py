"""Comments in files that suppress findings: their place, reason and use."""

from __future__ import annotations

import pytest

from activemq_fleet.findings import Finding
from activemq_fleet.lint.suppressions import read_suppressions
from activemq_fleet.releases import Release
from activemq_fleet.render import ACTIVEMQ_XML
from activemq_fleet.validation import lint_file, mark_findings_waived_by_comments
from tests.hostile_files import document

NAMELESS = '<networkConnector uri="masterslave:(tcp://a:61616)"/>'


def findings_of(inside: str, *, select: tuple[str, ...] = ("N001", "X"), head: str = "") -> list[Finding]:
    content = document(f"<networkConnectors>\n{inside}\n</networkConnectors>")
    content = content.replace(b"<beans", head.encode() + b"<beans", 1)
    findings = lint_file(content, Release.of("5.18.3"), schema_of=None, select=select)
    return list(mark_findings_waived_by_comments(findings, {ACTIVEMQ_XML: content}, select=select))


def outcome(inside: str, **options: object) -> list[tuple[str, str | None]]:
    return [(finding.rule, finding.waived) for finding in findings_of(inside, **options)]  # type: ignore[arg-type]


COMMENT = "<!-- activemq-fleet: disable=N001 the peer was removed -->"
SUPPRESSED = [("N001", "the peer was removed")]


@pytest.mark.parametrize(
    "inside",
    [
        f"{COMMENT}\n{NAMELESS}",
        f"{COMMENT}{NAMELESS}",
        f"<networkConnector name='first' uri='static:(tcp://b:1)'/>{COMMENT}{NAMELESS}",
        f"{COMMENT}\n\n<!-- another comment -->\n{NAMELESS}",
        f"{NAMELESS} {COMMENT}",
        f"{COMMENT}\n<networkConnector\n name='x'\n uri='masterslave:(tcp://a:61616)'/>",
        f"<networkConnector\n name='x'\n uri='masterslave:(tcp://a:61616)'/> {COMMENT}",
        f"<!--activemq-fleet: disable=n001,N001\n  the peer\n  was removed-->\n{NAMELESS}",
    ],
)
def test_comment_suppresses_the_finding_about_its_element(inside: str) -> None:
    assert outcome(inside) == SUPPRESSED


def test_comment_after_the_start_tag_of_the_parent_holds_for_its_first_child() -> None:
    content = document(f"<networkConnectors> {COMMENT}\n{NAMELESS}</networkConnectors>")
    findings = lint_file(content, Release.of("5.18.3"), schema_of=None, select=["N001"])
    (finding,) = mark_findings_waived_by_comments(findings, {ACTIVEMQ_XML: content})
    assert finding.waived == "the peer was removed"


def test_comment_after_an_element_does_not_hold_for_the_next_one() -> None:
    assert outcome(f"{NAMELESS} {COMMENT}\n{NAMELESS}") == [*SUPPRESSED, ("N001", None)]


def test_comment_before_an_element_does_not_hold_for_the_next_one() -> None:
    assert outcome(f"{COMMENT}\n{NAMELESS}\n{NAMELESS}") == [*SUPPRESSED, ("N001", None)]


def test_comment_before_the_root_holds_for_the_whole_file() -> None:
    head = "<!-- activemq-fleet: disable=N001,S002 accepted by security on 2026-11-01 -->\n"
    outcomes = outcome(f"{NAMELESS}\n{NAMELESS}", select=("N001", "S002", "X"), head=head)
    assert {rule for rule, _ in outcomes} == {"N001", "S002"}
    assert {waived for _, waived in outcomes} == {"accepted by security on 2026-11-01"}


@pytest.mark.parametrize(
    ("comment", "reason", "corrected"),
    [
        ("disable=N001", "disables N001 without a reason", "disable=N001 REASON"),
        ("disable=N001 ", "disables N001 without a reason", "disable=N001 REASON"),
        ("disable= because", "names no rule after disable=", "disable=RULE because"),
        ("disable N001 because", "names no rule after disable=", "disable=RULE"),
        ("disable=N0019 because", "no rule has the id N0019", "disable=N019 because"),
        ("disable=N001,N0019 because", "no rule has the id N0019", "disable=N001,N019 because"),
        (
            "disable=N001, C012 because",
            "the rule id C012 is in its reason, not in disable=",
            "disable=N001,C012 because",
        ),
        (
            "disable=N001 c012 because",
            "the rule id C012 is in its reason, not in disable=",
            "disable=N001,C012 because",
        ),
        ("disable=N001 , C012", "the rule id C012 is in its reason, not in disable=", "disable=N001,C012 REASON"),
        (
            "disable=N001 and C012, S003 because",
            "the rule id C012 is in its reason, not in disable=",
            "disable=N001,C012,S003 because",
        ),
        ("disable= N001 because", "names no rule after disable=", "disable=N001 because"),
    ],
)
def test_comment_that_cannot_be_used_is_reported_and_suppresses_nothing(
    comment: str, reason: str, corrected: str
) -> None:
    assert_reported(f"activemq-fleet: {comment}", reason, corrected)


@pytest.mark.parametrize(
    ("comment", "reason", "corrected"),
    [
        (
            "activemq.fleet: disable=N001 because",
            "begins with activemq.fleet and not with activemq-fleet:",
            "disable=N001 because",
        ),
        (
            "ActiveMQ-Fleet: disable=N001 because",
            "begins with ActiveMQ-Fleet and not with activemq-fleet:",
            "disable=N001 because",
        ),
        (
            "activemq-fleet disable=N001 because",
            "begins with activemq-fleet and not with activemq-fleet:",
            "disable=N001 because",
        ),
        (
            "activmq_fleet: disable = N001",
            "begins with activmq_fleet and not with activemq-fleet:",
            "disable=N001 REASON",
        ),
        ("activemq: DISABLE=N001 because", "begins with activemq and not with activemq-fleet:", "disable=N001 because"),
    ],
)
def test_comment_with_misspelt_name_is_reported_and_suppresses_nothing(
    comment: str, reason: str, corrected: str
) -> None:
    assert_reported(comment, reason, corrected)


@pytest.mark.parametrize("comment", ["pylint: disable=N001 because", "To disable=N001 write", "activemq: disable TLS"])
def test_comment_for_another_program_is_ignored(comment: str) -> None:
    assert outcome(f"<!-- {comment} -->\n{NAMELESS}") == [("N001", None)]


def assert_reported(comment: str, reason: str, corrected: str) -> None:
    """Assert that a comment before a finding leaves it an error, and is reported with a correction."""
    findings = findings_of(f"<!-- {comment} -->\n{NAMELESS}")
    assert [(f.rule, f.severity, f.waived) for f in findings] == [("N001", "error", None), ("X001", "warning", None)]
    assert reason in findings[1].message
    assert corrected in findings[1].fix
    assert findings[1].line == findings[0].line - 1  # type: ignore[operator]


def test_comment_that_suppresses_nothing_is_reported() -> None:
    assert outcome(f'{COMMENT}\n<networkConnector name="x" uri="static:(tcp://a:61616)"/>') == [("X002", None)]


def test_comment_is_not_called_unused_where_its_rule_is_not_selected() -> None:
    assert outcome(f"{COMMENT}\n{NAMELESS}", select=("N009", "X")) == []


def unused(content: bytes, *, select: tuple[str, ...]) -> list[tuple[str, str]]:
    findings = lint_file(content, Release.of("5.18.3"), schema_of=None, select=select)
    marked = mark_findings_waived_by_comments(findings, {ACTIVEMQ_XML: content}, select=select)
    return [(finding.message, finding.fix) for finding in marked if finding.rule == "X002"]


def test_comment_before_an_element_about_the_whole_file_names_the_right_place() -> None:
    content = document("").replace(b"<broker", b"<!-- activemq-fleet: disable=S002 accepted -->\n<broker", 1)
    assert unused(content, select=("S002", "X")) == [
        (
            "the comment disables S002 for an element, but S002 is about the whole file",
            "put the comment before the root element",
        )
    ]


def test_comment_at_another_element_names_the_lines_of_the_findings() -> None:
    inside = f'{COMMENT}\n<networkConnector name="x" uri="static:(tcp://a:61616)"/>\n{NAMELESS}\n{NAMELESS}'
    content = document(f"<networkConnectors>\n{inside}\n</networkConnectors>")
    line = content[: content.index(NAMELESS.encode())].count(b"\n") + 1
    assert unused(content, select=("N001", "X")) == [
        (
            "the comment disables N001 for an element that has no N001 finding: the N001 findings are on "
            f"lines {line}, {line + 1}",
            f"move the comment before the element on line {line}, or remove N001 from the comment",
        )
    ]


@pytest.mark.parametrize(
    "inside",
    [
        f"{COMMENT}\n<networkConnector>",  # not XML
        f"{COMMENT}\n<networkConnector name='{{{{ name }}}}'/>",  # a template
        "<!-- activemq-fleet: disable=N010 the other end is repaired in May -->\n<networkConnector name='x'/>",
    ],
)
def test_comment_is_not_called_unused_where_its_rule_cannot_run(inside: str) -> None:
    content = document(f"<networkConnectors>{inside}</networkConnectors>")
    assert unused(content, select=("N", "V", "X")) == []


def test_comment_about_the_whole_file_is_reported_in_a_file_that_is_not_xml() -> None:
    content = document("<a>").replace(b"<broker", b"<!-- activemq-fleet: disable=S002,N001 accepted -->\n<broker", 1)
    assert [fix for _, fix in unused(content, select=("S002", "N001", "X"))] == [
        "put the comment before the root element"
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<!-- activemq-fleet: disable=N001 x -->",
        b"<a><!-- activemq-fleet: disable=N001 x --></b>",
        b'<!DOCTYPE a [<!ENTITY e "x">]><!-- activemq-fleet: disable=N001 x --><a>&e;</a>',
        b'<?xml version="1.0" encoding="nowhere"?><!-- activemq-fleet: disable=N001 x --><a/>',
        "<!-- activemq-fleet: disable=N001 x --><a/>".encode("utf-16"),
    ],
)
def test_no_file_raises_an_error(content: bytes) -> None:
    assert len(read_suppressions(content)) <= 1
