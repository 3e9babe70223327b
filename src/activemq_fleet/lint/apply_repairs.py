"""Repair an XML file by the edits of its findings, and prove that the result has no error that the file did not have.

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
_ROUNDS = 50
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
        before, after = (_LINE.findall(_decoded(content)) for content in (self.original, self.content))
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
    if not candidates or not _is_written_back_exactly(content):
        return FileRepair(content, content)
    repaired, left = _applied(content, findings, check, is_selected, frozenset())
    if _new_error(findings, candidates, left) is None:
        return FileRepair(content, repaired, tuple(candidates))
    withheld = tuple(_withheld(content, findings, candidates, check, is_selected))
    excluded = frozenset(_identity(refused.finding) for refused in withheld)
    remaining = [finding for finding in candidates if _identity(finding) not in excluded]
    repaired, left = _applied(content, findings, check, is_selected, excluded)
    error = _new_error(findings, remaining, left)
    if error is not None:
        return FileRepair(content, content, (), tuple(WithheldRepair(finding, error) for finding in candidates))
    return FileRepair(content, repaired, tuple(remaining), withheld)


def _withheld(
    content: bytes,
    findings: Sequence[Finding],
    candidates: Sequence[Finding],
    check: Check,
    is_selected: Callable[[Finding], bool],
) -> Iterator[WithheldRepair]:
    """Yield the lint findings whose repair alone causes an error, without the repairs of the others."""
    identities = frozenset(map(_identity, candidates))
    for identity in dict.fromkeys(map(_identity, candidates)):
        same = [finding for finding in candidates if _identity(finding) == identity]
        _, left = _applied(content, findings, check, is_selected, identities - {identity})
        error = _new_error(findings, same, left)
        if error is not None:
            yield from (WithheldRepair(finding, error) for finding in same)


def _applied(
    content: bytes,
    findings: Sequence[Finding],
    check: Check,
    is_selected: Callable[[Finding], bool],
    excluded: frozenset[tuple[str, str]],
) -> tuple[bytes, Sequence[Finding]]:
    """Return a file's content after its repairs, and the findings about the repaired content.

    The repairs include those of mistakes that show only after the first repairs. ``findings`` are those about the
    original content.
    """
    for _ in range(_ROUNDS):
        selected = [finding for finding in findings if finding.edits and is_selected(finding)]
        edits = list(_apart(finding.edits for finding in selected if _identity(finding) not in excluded))
        if not edits:
            break
        content = _edited(content, edits)
        findings = check(content)
    return content, findings


def _identity(finding: Finding) -> tuple[str, str]:
    return finding.rule, finding.message


def _apart(repairs: Iterable[tuple[TextEdit, ...]]) -> Iterator[TextEdit]:
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
    seen: Counter[str] = Counter()
    for finding in after:
        if finding.severity == "error":
            seen[finding.rule] += 1
            if seen[finding.rule] > expected[finding.rule]:
                return _newest(finding.rule, before, after)
    return None


def _newest(rule: str, before: Sequence[Finding], after: Sequence[Finding]) -> Finding:
    known = {finding.message for finding in before}
    of_rule = [finding for finding in after if finding.rule == rule]
    return next((finding for finding in of_rule if finding.message not in known), of_rule[0])


def _decoded(content: bytes) -> str:
    """Return the characters of an XML file without a byte order mark. Raises UnicodeError, LookupError."""
    mark, encoding = _encoding_of(content)
    return content[len(mark) :].decode(encoding)


def _edited(content: bytes, edits: Iterable[TextEdit]) -> bytes:
    mark, encoding = _encoding_of(content)
    text = content[len(mark) :].decode(encoding)
    for edit in sorted(edits, reverse=True):
        text = text[: edit.begin] + edit.text + text[edit.end :]
    return mark + text.encode(encoding)


def _is_written_back_exactly(content: bytes) -> bool:
    """Return whether decoding and encoding a file gives the same bytes, so that an edit changes nothing else."""
    try:
        return _edited(content, ()) == content
    except (LookupError, UnicodeError):
        return False


def _encoding_of(content: bytes) -> tuple[bytes, str]:
    """Return the byte order mark of an XML file, b"" without one, and the name of its encoding."""
    wide = utf_16_encoding(content)
    marks = [mark for mark in (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) if content.startswith(mark)]
    mark = marks[0] if marks else b""
    return mark, wide or ("utf-8" if mark else declared_encoding(content) or "utf-8")
