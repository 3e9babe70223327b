"""Tests of comments that suppress findings: their position, reason and use."""

from __future__ import annotations

import pytest

from activemq_fleet.findings import Finding
from activemq_fleet.lint.suppressions import suppression_comments_of_xml
from activemq_fleet.node.host_paths import ACTIVEMQ_XML
from activemq_fleet.releases import Release
from activemq_fleet.validation import lint_file, mark_findings_waived_by_comments
from tests.hostile_files import document

UNNAMED_LINK = '<networkConnector uri="masterslave:(tcp://a:61616)"/>'


def findings_of(inside: str, *, select: tuple[str, ...] = ("N001", "X"), head: str = "") -> list[Finding]:
    content = document(f"<networkConnectors>\n{inside}\n</networkConnectors>")
    content = content.replace(b"<beans", head.encode() + b"<beans", 1)
    findings = lint_file(content, Release.of("5.18.3"), schema_of=None, select=select)
    return list(mark_findings_waived_by_comments(findings, {ACTIVEMQ_XML: content}, select=select))


def rules_and_waivers(inside: str, **options: object) -> list[tuple[str, str | None]]:
    return [(finding.rule, finding.waived) for finding in findings_of(inside, **options)]  # type: ignore[arg-type]


COMMENT = "<!-- activemq-fleet: disable=N001 the peer was removed -->"
SUPPRESSED = [("N001", "the peer was removed")]


@pytest.mark.parametrize(
    "inside",
    [
        f"{COMMENT}\n{UNNAMED_LINK}",
        f"{COMMENT}{UNNAMED_LINK}",
        f"<networkConnector name='first' uri='static:(tcp://b:1)'/>{COMMENT}{UNNAMED_LINK}",
        f"{COMMENT}\n\n<!-- another comment -->\n{UNNAMED_LINK}",
        f"{UNNAMED_LINK} {COMMENT}",
        f"{COMMENT}\n<networkConnector\n name='x'\n uri='masterslave:(tcp://a:61616)'/>",
        f"<networkConnector\n name='x'\n uri='masterslave:(tcp://a:61616)'/> {COMMENT}",
        f"<!--activemq-fleet: disable=n001,N001\n  the peer\n  was removed-->\n{UNNAMED_LINK}",
    ],
)
def test_suppressing_comment_waives_finding_about_its_element(inside: str) -> None:
    assert rules_and_waivers(inside) == SUPPRESSED


def test_suppressing_comment_after_parent_tag_applies_to_first_child() -> None:
    content = document(f"<networkConnectors> {COMMENT}\n{UNNAMED_LINK}</networkConnectors>")
    findings = lint_file(content, Release.of("5.18.3"), schema_of=None, select=["N001"])
    (finding,) = mark_findings_waived_by_comments(findings, {ACTIVEMQ_XML: content})
    assert finding.waived == "the peer was removed"


def test_suppressing_comment_after_element_does_not_apply_to_next_element() -> None:
    assert rules_and_waivers(f"{UNNAMED_LINK} {COMMENT}\n{UNNAMED_LINK}") == [*SUPPRESSED, ("N001", None)]


def test_suppressing_comment_before_element_does_not_apply_to_following_element() -> None:
    assert rules_and_waivers(f"{COMMENT}\n{UNNAMED_LINK}\n{UNNAMED_LINK}") == [*SUPPRESSED, ("N001", None)]


def test_suppressing_comment_before_root_element_applies_to_whole_file() -> None:
    head = "<!-- activemq-fleet: disable=N001,S002 accepted by security on 2026-11-01 -->\n"
    findings = rules_and_waivers(f"{UNNAMED_LINK}\n{UNNAMED_LINK}", select=("N001", "S002", "X"), head=head)
    assert {rule for rule, _ in findings} == {"N001", "S002"}
    assert {waived for _, waived in findings} == {"accepted by security on 2026-11-01"}


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
def test_invalid_suppressing_comment_is_reported_and_waives_no_finding(
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
def test_suppressing_comment_with_misspelled_name_is_reported_and_not_applied(
    comment: str, reason: str, corrected: str
) -> None:
    assert_reported(comment, reason, corrected)


@pytest.mark.parametrize("comment", ["pylint: disable=N001 because", "To disable=N001 write", "activemq: disable TLS"])
def test_suppressing_comment_for_other_program_is_ignored(comment: str) -> None:
    assert rules_and_waivers(f"<!-- {comment} -->\n{UNNAMED_LINK}") == [("N001", None)]


def assert_reported(comment: str, reason: str, corrected: str) -> None:
    """Assert that a comment does not suppress the finding after it, and is reported with a correction."""
    findings = findings_of(f"<!-- {comment} -->\n{UNNAMED_LINK}")
    assert [(f.rule, f.severity, f.waived) for f in findings] == [("N001", "error", None), ("X001", "warning", None)]
    assert reason in findings[1].message
    assert corrected in findings[1].fix
    assert findings[1].line == findings[0].line - 1  # type: ignore[operator]


def test_unused_suppressing_comment_is_reported() -> None:
    assert rules_and_waivers(f'{COMMENT}\n<networkConnector name="x" uri="static:(tcp://a:61616)"/>') == [
        ("X002", None)
    ]


def test_suppressing_comment_is_not_unused_if_its_rule_is_not_selected() -> None:
    assert rules_and_waivers(f"{COMMENT}\n{UNNAMED_LINK}", select=("N009", "X")) == []


def unused_comment_findings(content: bytes, *, select: tuple[str, ...]) -> list[tuple[str, str]]:
    findings = lint_file(content, Release.of("5.18.3"), schema_of=None, select=select)
    marked = mark_findings_waived_by_comments(findings, {ACTIVEMQ_XML: content}, select=select)
    return [(finding.message, finding.fix) for finding in marked if finding.rule == "X002"]


def test_element_comment_that_disables_rule_about_file_is_reported_with_position() -> None:
    content = document("").replace(b"<broker", b"<!-- activemq-fleet: disable=S002 accepted -->\n<broker", 1)
    assert unused_comment_findings(content, select=("S002", "X")) == [
        (
            "the comment disables S002 for an element, but S002 is about the whole file",
            "put the comment before the root element",
        )
    ]


def test_suppressing_comment_at_wrong_element_is_reported_with_finding_lines() -> None:
    inside = f'{COMMENT}\n<networkConnector name="x" uri="static:(tcp://a:61616)"/>\n{UNNAMED_LINK}\n{UNNAMED_LINK}'
    content = document(f"<networkConnectors>\n{inside}\n</networkConnectors>")
    line = content[: content.index(UNNAMED_LINK.encode())].count(b"\n") + 1
    assert unused_comment_findings(content, select=("N001", "X")) == [
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
def test_suppressing_comment_is_not_unused_if_its_rule_cannot_run(inside: str) -> None:
    content = document(f"<networkConnectors>{inside}</networkConnectors>")
    assert unused_comment_findings(content, select=("N", "V", "X")) == []


def test_misplaced_suppressing_comment_is_reported_in_malformed_file() -> None:
    content = document("<a>").replace(b"<broker", b"<!-- activemq-fleet: disable=S002,N001 accepted -->\n<broker", 1)
    assert [fix for _, fix in unused_comment_findings(content, select=("S002", "N001", "X"))] == [
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
def test_malformed_file_with_suppressing_comment_raises_no_error(content: bytes) -> None:
    assert len(suppression_comments_of_xml(content)) <= 1
