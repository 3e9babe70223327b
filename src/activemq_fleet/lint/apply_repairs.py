"""Repair an XML file by the edits of its findings, and verify that the repair causes no new errors.

Only the characters of the edits change: byte order mark, encoding, line ends, comments and white space are kept.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff

from activemq_fleet.findings import Finding, TextEdit
from activemq_fleet.schema import declared_encoding, utf_16_encoding

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_MAX_ROUNDS = 50
Check = Callable[[bytes], Sequence[Finding]]


@dataclass(frozen=True, slots=True)
class WithheldRepair:
    """A withheld repair: a repair of a finding that was not applied, because it would cause another finding.

    The other finding is ``error``.
    """

    finding: Finding
    error: Finding


@dataclass(frozen=True, slots=True)
class FileRepair:
    """The automatic repair of an XML file: the content before and after, and the repaired findings.

    ``withheld`` are the findings whose repair was not applied.
    """

    original: bytes
    content: bytes
    repaired: tuple[Finding, ...] = ()
    withheld: tuple[WithheldRepair, ...] = ()

    def difference(self, name: str) -> str:
        """Return a unified diff of a file before and after its repair.

        ``name`` is the file name in the diff.
        """
        before, after = (_LINE.findall(_decode(content)) for content in (self.original, self.content))
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in unified_diff(before, after, name, name)
        )


def repair_content(content: bytes, check: Check, is_selected: Callable[[Finding], bool]) -> FileRepair:
    """Repair the content of an XML file by the edits of its lint findings, and return the result.

    Every fix is applied that does not cause a new error. ``check`` returns all findings about a content,
    ``is_selected`` whether a finding is to be repaired. A repair after which a rule reports more errors is withheld,
    and all others are applied.
    """
    findings = check(content)
    candidates = [finding for finding in findings if finding.edits and is_selected(finding)]
    if not candidates or not _round_trips_exactly(content):
        return FileRepair(content, content)
    repaired, remaining_findings = _apply_repairs(content, findings, check, is_selected, frozenset())
    if _new_error(findings, candidates, remaining_findings) is None:
        return FileRepair(content, repaired, tuple(candidates))
    withheld = tuple(_withheld_repairs(content, findings, candidates, check, is_selected))
    excluded = frozenset(_finding_key(withheld_repair.finding) for withheld_repair in withheld)
    remaining = [finding for finding in candidates if _finding_key(finding) not in excluded]
    repaired, remaining_findings = _apply_repairs(content, findings, check, is_selected, excluded)
    error = _new_error(findings, remaining, remaining_findings)
    if error is not None:
        return FileRepair(content, content, (), tuple(WithheldRepair(finding, error) for finding in candidates))
    return FileRepair(content, repaired, tuple(remaining), withheld)


def _withheld_repairs(
    content: bytes,
    findings: Sequence[Finding],
    candidates: Sequence[Finding],
    check: Check,
    is_selected: Callable[[Finding], bool],
) -> Iterator[WithheldRepair]:
    """Yield the lint findings whose repair alone causes an error, without the repairs of the others."""
    keys = frozenset(map(_finding_key, candidates))
    for key in dict.fromkeys(map(_finding_key, candidates)):
        equal_findings = [finding for finding in candidates if _finding_key(finding) == key]
        _, remaining_findings = _apply_repairs(content, findings, check, is_selected, keys - {key})
        error = _new_error(findings, equal_findings, remaining_findings)
        if error is not None:
            yield from (WithheldRepair(finding, error) for finding in equal_findings)


def _apply_repairs(
    content: bytes,
    findings: Sequence[Finding],
    check: Check,
    is_selected: Callable[[Finding], bool],
    excluded: frozenset[tuple[str, str]],
) -> tuple[bytes, Sequence[Finding]]:
    """Return a file's content after its repairs, and the findings about the repaired content.

    The repairs include those of mistakes that the rules report only after the first repairs. ``findings`` are
    those about the original content.
    """
    for _ in range(_MAX_ROUNDS):
        selected = [finding for finding in findings if finding.edits and is_selected(finding)]
        edits = list(
            _nonoverlapping_edits(finding.edits for finding in selected if _finding_key(finding) not in excluded)
        )
        if not edits:
            break
        content = _apply_edits(content, edits)
        findings = check(content)
    return content, findings


def _finding_key(finding: Finding) -> tuple[str, str]:
    return finding.rule, finding.message


def _nonoverlapping_edits(repairs: Iterable[tuple[TextEdit, ...]]) -> Iterator[TextEdit]:
    """Yield the edits of a file that do not overlap, the shortest first; the next round applies the others."""
    chosen: list[TextEdit] = []
    for edits in sorted(set(repairs), key=lambda edits: (edits[-1].end - edits[0].begin, edits)):
        if all(edit.end <= other.begin or other.end <= edit.begin for edit in edits for other in chosen):
            chosen += edits
    return iter(chosen)


def _new_error(before: Sequence[Finding], repaired: Sequence[Finding], after: Sequence[Finding]) -> Finding | None:
    """Return an error that a repair of a file causes; None without one.

    It is an error of a rule that reports more errors after the repair than before, without the ``repaired`` ones.
    """
    expected = Counter(finding.rule for finding in before if finding.severity == "error")
    expected -= Counter(finding.rule for finding in repaired if finding.severity == "error")
    counts: Counter[str] = Counter()
    for finding in after:
        if finding.severity == "error":
            counts[finding.rule] += 1
            if counts[finding.rule] > expected[finding.rule]:
                return _new_finding_of_rule(finding.rule, before, after)
    return None


def _new_finding_of_rule(rule: str, before: Sequence[Finding], after: Sequence[Finding]) -> Finding:
    earlier_messages = {finding.message for finding in before}
    findings = [finding for finding in after if finding.rule == rule]
    return next((finding for finding in findings if finding.message not in earlier_messages), findings[0])


def _decode(content: bytes) -> str:
    """Return the characters of an XML file without a byte order mark. Raises UnicodeError, LookupError."""
    mark, encoding = _encoding_of(content)
    return content[len(mark) :].decode(encoding)


def _apply_edits(content: bytes, edits: Iterable[TextEdit]) -> bytes:
    mark, encoding = _encoding_of(content)
    text = content[len(mark) :].decode(encoding)
    for edit in sorted(edits, reverse=True):
        text = text[: edit.begin] + edit.text + text[edit.end :]
    return mark + text.encode(encoding)


def _round_trips_exactly(content: bytes) -> bool:
    """Return whether decoding and encoding a file returns the same bytes, so that an edit changes nothing else."""
    try:
        return _apply_edits(content, ()) == content
    except (LookupError, UnicodeError):
        return False


def _encoding_of(content: bytes) -> tuple[bytes, str]:
    """Return the byte order mark of an XML file, b"" without one, and the name of its encoding."""
    utf_16 = utf_16_encoding(content)
    marks = [mark for mark in (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) if content.startswith(mark)]
    mark = marks[0] if marks else b""
    return mark, utf_16 or ("utf-8" if mark else declared_encoding(content) or "utf-8")
