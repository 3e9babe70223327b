"""Suppress findings of a file by comments in it: ``<!-- activemq-fleet: disable=N019 the peer is decommissioned -->``.

A comment before an element applies to that element and its descendants, and before the root to the whole file. A
comment after the end of an element, on the same line, applies to that element.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from xml.parsers import expat

from activemq_fleet.errors import names_to_text
from activemq_fleet.findings import Finding
from activemq_fleet.lint.file_kinds import KIND_RULE
from activemq_fleet.lint.file_network import DUPLEX_RULE
from activemq_fleet.lint.files import parse_xml_with_stray_ampersands
from activemq_fleet.lint.selection import EVERY_RULE, RuleSelection
from activemq_fleet.lint.versions_placeholders import first_template_mark_with_position
from activemq_fleet.schema import UnreadableXmlError, decode_xml_document
from activemq_fleet.similar_names import most_similar_name

UNUSABLE, UNUSED = "X001", "X002"
_COMMENT_PREFIX = "activemq-fleet:"
_INSTRUCTION = re.compile(r"\s*activemq-fleet:\s*disable=(?P<rules>\S*)(?P<reason>.*)", re.DOTALL)
_MISSPELLED_INSTRUCTION = re.compile(
    r"\s*(?P<name>\w[\w. -]{0,30}?)\s{0,9}:?\s{0,9}disable\s{0,9}=\s*(?P<rules>\S*)(?P<reason>.*)", re.DOTALL | re.I
)
_BETWEEN_RULES = r"\s*(?:[,;&+]|and\b)?\s*"
_LEADING_RULE = re.compile(rf"{_BETWEEN_RULES}(\w+)")
_LAST_LINE = 1 << 31


@dataclass(frozen=True, slots=True)
class SuppressionComment:
    """A comment in an XML file that suppresses lint findings on a range of lines.

    The lines are ``first`` to ``last``, and count from 1. ``whole_file``: also findings without a line.
    """

    rules: tuple[str, ...]
    reason: str
    line: int
    first: int
    last: int
    whole_file: bool = False
    spelling: str = ""
    """The text that the comment has in place of ``activemq-fleet``, if it differs."""

    def covers(self, finding: Finding) -> bool:
        """Return whether a suppression comment covers a lint finding in the same file.

        It covers a rule on a range of lines.
        """
        if finding.rule not in self.rules:
            return False
        return self.whole_file or (finding.line is not None and self.first <= finding.line <= self.last)


def waive_suppressed_findings(
    findings: Sequence[Finding],
    contents: Mapping[str, bytes],
    rule_ids: Iterable[str],
    selection: RuleSelection = EVERY_RULE,
) -> tuple[Finding, ...]:
    """Return all findings, those that a suppression comment in their file covers marked as waived.

    Findings about unusable comments follow. ``contents`` are the files by the path that findings have, ``rule_ids`` the
    ids of all rules. A comment that suppresses nothing is a finding, unless its rule did not check the file:
    ``selection`` leaves the rule out, the file cannot be read, or the rule compares several files and there is one.
    """
    rules = frozenset(rule_ids)
    suppressions = {path: suppression_comments_of_xml(content) for path, content in contents.items()}
    usable = {
        path: [comment for comment in comments if not _unusable_message(comment, rules)]
        for path, comments in suppressions.items()
    }
    used: set[tuple[str, int, str]] = set()
    result = []
    for finding in findings:
        comment = next(
            (candidate for candidate in usable.get(finding.file or "", ()) if candidate.covers(finding)), None
        )
        if comment is not None and finding.waived is None:
            used.add((finding.file or "", comment.line, finding.rule))
            finding = replace(finding, waived=comment.reason)
        result.append(finding)
    problems: list[Finding] = []
    for path, comments in suppressions.items():
        if not comments:
            continue
        file_findings = [finding for finding in result if finding.file == path]
        was_checked = _is_readable(contents[path]) and not any(finding.rule == KIND_RULE for finding in file_findings)
        for comment in comments:
            message = _unusable_message(comment, rules)
            if message:
                problems.append(
                    _suppression_finding(UNUSABLE, path, comment.line, message, _corrected_comment(comment, rules))
                )
                continue
            problems += (
                _unused_finding(rule, comment, path, file_findings)
                for rule in comment.rules
                if (path, comment.line, rule) not in used
                and selection.includes_rule(rule)
                and _rule_checked_file(rule, file_findings, was_checked=was_checked, is_alone=len(contents) == 1)
            )
    return (*result, *(problem for problem in problems if selection.includes_rule(problem.rule)))


def _unusable_message(comment: SuppressionComment, known: frozenset[str]) -> str:
    """Return the message about a comment that cannot suppress anything; "" for a comment that can."""
    if comment.spelling:
        return (
            f"the comment suppresses nothing, because it begins with {comment.spelling} and not with {_COMMENT_PREFIX}"
        )
    if not comment.rules:
        return "the comment suppresses nothing, because it names no rule after disable="
    if unknown := [rule for rule in comment.rules if rule not in known]:
        return f"the comment suppresses nothing, because no rule has the id {unknown[0]}"
    if not comment.reason:
        return f"the comment suppresses nothing, because it disables {', '.join(comment.rules)} without a reason"
    leading, _ = _split_reason(comment.reason, known)
    if leading:
        return f"the comment suppresses nothing, because the rule id {leading[0]} is in its reason, not in disable="
    return ""


def _split_reason(reason: str, known: frozenset[str]) -> tuple[list[str], str]:
    """Return the ids of rules with which a reason begins, and the rest of it."""
    rules = []
    while (match := _LEADING_RULE.match(reason)) and match[1].upper() in known:
        rules.append(match[1].upper())
        reason = reason[match.end() :]
    return rules, re.sub(_BETWEEN_RULES, "", reason, count=1) if rules else reason


def _corrected_comment(comment: SuppressionComment, known: frozenset[str]) -> str:
    """Return the corrected form of a comment that cannot suppress anything, with its rules or rules of similar ids."""
    similar = (rule if rule in known else most_similar_name(rule, known) or "" for rule in comment.rules)
    leading, reason = _split_reason(comment.reason, known)
    rules = ",".join(dict.fromkeys([*filter(None, similar), *leading])) or "RULE"
    return f"write <!-- activemq-fleet: disable={rules} {reason or 'REASON'} -->"


def _rule_checked_file(rule: str, findings: Sequence[Finding], *, was_checked: bool, is_alone: bool) -> bool:
    """Return whether a rule has checked a file; ``findings`` are those of the file.

    ``was_checked``: the rules for files have checked it. ``is_alone``: it was not compared with another file.
    """
    if any(finding.rule == rule for finding in findings):
        return True
    return was_checked and not (rule == DUPLEX_RULE and is_alone)


def _is_readable(content: bytes) -> bool:
    """Return whether the rules for files can check a file: it is XML, and not a template."""
    try:
        parse_xml_with_stray_ampersands(content)
    except UnreadableXmlError:
        return False
    return first_template_mark_with_position(decode_xml_document(content, None)) is None


def _unused_finding(rule: str, comment: SuppressionComment, path: str, findings: Sequence[Finding]) -> Finding:
    """Return the finding about a comment that does not suppress any of the file's ``findings`` of a rule."""
    others = [finding for finding in findings if finding.rule == rule and finding.waived is None]
    lines = sorted({finding.line for finding in others if finding.line is not None})
    if len(lines) < len({finding.line for finding in others}):
        message = f"the comment disables {rule} for an element, but {rule} is about the whole file"
        fix = "put the comment before the root element"
    elif lines:
        lines_text = f"line {lines[0]}" if len(lines) == 1 else f"lines {names_to_text([str(line) for line in lines])}"
        message = (
            f"the comment disables {rule} for an element that has no {rule} finding: the {rule} findings are on "
            f"{lines_text}"
        )
        fix = f"move the comment before the element on line {lines[0]}, or remove {rule} from the comment"
    else:
        message = f"the comment disables {rule}, but no finding of {rule} concerns the element after the comment"
        fix = f"remove {rule} from the comment"
    return _suppression_finding(UNUSED, path, comment.line, message, fix)


def _suppression_finding(rule: str, path: str, line: int, message: str, fix: str) -> Finding:
    why = (
        "the check still reports the finding that the comment is meant to suppress"
        if rule == UNUSABLE
        else "the comment has no effect now, but would hide a finding that appears at this element later"
    )
    return Finding(
        rule=rule, severity="warning", host="", message=message, fix=fix, why=why, file=path, line=line, column=1
    )


def suppression_comments_of_xml(content: bytes) -> tuple[SuppressionComment, ...]:
    """Return the comments of an XML file that suppress lint findings.

    Comments after the first place that is not XML are omitted.
    """
    text = decode_xml_document(content, None)
    if _COMMENT_PREFIX not in text and "disable" not in text.lower():
        return ()
    reader = _CommentReader()
    parser = expat.ParserCreate()
    parser.CommentHandler = lambda text: reader.add_comment(text, parser.CurrentLineNumber)
    parser.StartElementHandler = lambda _name, _attributes: reader.start_element(parser.CurrentLineNumber)
    parser.EndElementHandler = lambda _name: reader.end_element(parser.CurrentLineNumber)
    parser.EntityDeclHandler = _reject_entity_declaration
    with suppress(expat.ExpatError, ValueError, LookupError):  # other findings report the errors of the file
        parser.Parse(content, True)
    return reader.suppressions()


def _reject_entity_declaration(*_declaration: object) -> None:
    raise ValueError(
        "comments of an XML file that declares an entity cannot suppress findings: remove this declaration"
    )


@dataclass(slots=True)
class _Comment:
    rules: tuple[str, ...]
    reason: str
    line: int
    spelling: str
    after: int | None
    """The first line of the element that ends on the line of the comment; None if no element ends there."""
    first: int = 0
    last: int = _LAST_LINE
    whole_file: bool = False


class _CommentReader:
    """A collector of comments, and of the elements to which they apply, from the events of a parser."""

    def __init__(self) -> None:
        self._comments: list[_Comment] = []
        self._pending_comments: list[_Comment] = []  # comments that precede the next element of the same parent
        self._open_elements: list[
            tuple[int, list[_Comment]]
        ] = []  # the line of each open element, and the comments that apply to it
        self._last_closed_lines = (0, 0)  # first and last line of the element that ended last

    def add_comment(self, text: str, line: int) -> None:
        spelling = ""
        if text.strip().startswith(_COMMENT_PREFIX):
            match = _INSTRUCTION.fullmatch(text)
        else:
            match = _MISSPELLED_INSTRUCTION.fullmatch(text)
            if match is None or most_similar_name(match["name"], [_COMMENT_PREFIX]) is None:
                return
            spelling = match["name"]
        words = match["rules"].split(",") if match else ()
        comment = _Comment(
            tuple(word.upper() for word in words if word),
            " ".join(match["reason"].split()) if match else "",
            line,
            spelling,
            self._last_closed_lines[0] if self._last_closed_lines[1] == line else None,
        )
        self._comments.append(comment)
        self._pending_comments.append(comment)

    def start_element(self, line: int) -> None:
        applicable_comments = []
        for comment in self._pending_comments:
            if comment.after is not None and line > comment.line:
                comment.first, comment.last = comment.after, comment.line
            else:
                comment.first, comment.whole_file = comment.line, not self._open_elements
                applicable_comments.append(comment)
        self._pending_comments = []
        self._open_elements.append((line, applicable_comments))
        self._last_closed_lines = (0, 0)

    def end_element(self, line: int) -> None:
        self._assign_pending_comments()
        first, applicable_comments = self._open_elements.pop()
        for comment in applicable_comments:
            comment.last = line
        self._last_closed_lines = (first, line)

    def suppressions(self) -> tuple[SuppressionComment, ...]:
        self._assign_pending_comments()
        return tuple(
            SuppressionComment(c.rules, c.reason, c.line, c.first, c.last, c.whole_file, c.spelling)
            for c in self._comments
        )

    def _assign_pending_comments(self) -> None:
        """Apply comments without a following element to the preceding element, or otherwise to their own line."""
        for comment in self._pending_comments:
            comment.first, comment.last = comment.after or comment.line, comment.line
        self._pending_comments = []
