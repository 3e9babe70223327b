"""Keep a baseline: findings that a fleet is known to have, so that only new findings fail a check."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from activemq_fleet import Finding, InputError
from activemq_fleet.atomic_files import write_file_atomically
from activemq_fleet.cli.formats.report import INPUT_ERROR
from activemq_fleet.validation import known_rule_ids

REASON = "in the baseline"
_VERSION = 1
Fingerprint = tuple[str, str, str, str]


def write_baseline(path: Path, findings: Iterable[Finding]) -> int:
    """Write findings to a baseline file, and return their number.

    Waived findings and line numbers are left out.
    """
    known = sorted(_fingerprint(finding) for finding in findings if finding.waived is None)
    entries = [dict(zip(("rule", "host", "file", "message"), fingerprint, strict=True)) for fingerprint in known]
    content = {"version": _VERSION, "findings": entries}
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    # The escape sequence of a lone surrogate is valid JSON.
    write_file_atomically(path, text.encode(errors="backslashreplace"))
    return len(entries)


def read_baseline(path: Path) -> Counter[Fingerprint]:
    """Read a baseline file, and return the known findings of ``activemq-fleet check`` that it lists.

    They are returned with the number of times that the file lists each. Raises InputError for a file that is no
    baseline.
    """
    try:
        content = json.loads(path.read_bytes())
        if content["version"] != _VERSION:
            raise InputError(
                f"{path}: this version of activemq-fleet does not support the format of this baseline. To write it "
                f"again, run activemq-fleet check with --write-baseline {path}"
            )
        unknown = {str(e["rule"]) for e in content["findings"]} - {*known_rule_ids(), INPUT_ERROR}
        if unknown:
            unknown_names = ", ".join(sorted(unknown))
            raise InputError(
                f"{path}: the baseline contains rules that do not exist ({unknown_names}). To write it again, run "
                f"activemq-fleet check with --write-baseline {path}"
            )
        return Counter((str(e["rule"]), str(e["host"]), str(e["file"]), str(e["message"])) for e in content["findings"])
    except OSError as error:
        raise InputError(
            f"{path}: the baseline cannot be read ({error.strerror}): set --baseline to the right file, or allow "
            "this account to read the file"
        ) from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise InputError(
            f"{path}: the file is not a baseline of known findings: set --baseline to the right file, or write "
            "a baseline with activemq-fleet check --write-baseline FILE"
        ) from None


def with_baseline_waived(findings: Iterable[Finding], known_findings: Counter[Fingerprint]) -> tuple[Finding, ...]:
    """Return the findings of a check, with those waived that a baseline lists.

    Each is waived as often as ``known_findings`` lists it.
    """
    remaining = known_findings.copy()
    result = []
    for finding in findings:
        fingerprint = _fingerprint(finding)
        if finding.waived is None and remaining[fingerprint] > 0:
            remaining[fingerprint] -= 1
            finding = replace(finding, waived=REASON)
        result.append(finding)
    return tuple(result)


def _fingerprint(finding: Finding) -> Fingerprint:
    return finding.rule, finding.host, finding.file or "", finding.message
