"""Convert an error about the input of ``check`` to findings: hosts, position, message and remedy from its text."""

from __future__ import annotations

import os
import re

from activemq_fleet import Finding, FleetError, ReleaseError, SettingsError
from activemq_fleet.cli.checked_files import AllFilesUnreadableError, unreadable_file_finding
from activemq_fleet.cli.formats import CheckReport
from activemq_fleet.cli.formats.report import INPUT_ERROR
from activemq_fleet.validation import lint_and_inventory_rules_by_id

_POSITION = re.compile(
    r"\((?P<path>/[^()]*):(?P<line>[0-9]+)\)(?=: |\. |$)|^(?P<first>/[^:]*):(?P<first_line>[0-9]+): "
)
"""How errors name a position: ``… (/srv/inventory/hosts.yml:8)``, also before a remedy, or before the message."""

_IMPERATIVES = (
    "add|allow|assign|check|choose|close|configure|connect|convert|correct|create|declare|define|delete|download|enable"
    "|enter|free|give|indent|insert|install|lower|make|mount|move|omit|put|quote|raise|remove|rename|repair|replace"
    "|restore|run|save|select|set|shorten|specify|start|stop|unset|upgrade|use|wait|write"
)
_REMEDY = re.compile(
    rf": (?=(?:for [^.:]*, )?(?:{_IMPERATIVES}) )"
    rf"|[.?] (?=(?:{_IMPERATIVES.title()}) |(?:If|To) [^.]*, (?:{_IMPERATIVES}) )"
)
"""Where the remedy of an error begins: with an imperative, or with the condition or the purpose of one."""
_LAST_POSITION = re.compile(r" \(/[^()]*:[0-9]+\)$")
_HOST_LIST = re.compile(r"[^\s:,']+(, [^\s:,']+)*( and [0-9]+ more)?")
"""How an error names its hosts at its beginning."""
_INPUT_ERROR_REASON = "this error prevents all other checks"


def report_on_error(error: FleetError, subject: str) -> CheckReport:
    """Return a report of ``activemq-fleet check`` that has a finding for each problem of unreadable or invalid input.

    ``error`` has the problems; ``subject`` names the input.
    """
    if isinstance(error, AllFilesUnreadableError):
        unreadable = tuple(unreadable_file_finding(path, reason) for path, reason in error.errors.items())
        return CheckReport(tuple(map(str, error.errors)), unreadable, is_about_files=True)
    findings = []
    for problem in error.lines:
        host_list, colon, text = problem.partition(": ")
        is_about_hosts = bool(colon) and (
            problem in error.hosts_by_line
            or (isinstance(error, SettingsError | ReleaseError) and _HOST_LIST.fullmatch(host_list) is not None)
        )
        hosts = tuple(error.hosts_by_line.get(problem, (host_list,))) if is_about_hosts else (subject,)
        message_and_fix = " ".join((text if is_about_hosts else problem).split())
        file, line = _position_in_message(message_and_fix)
        message, fix = _message_and_fix(message_and_fix)
        findings.append(
            Finding(
                rule=INPUT_ERROR,
                severity="error",
                host=hosts[0],
                message=message,
                fix=fix,
                why=_INPUT_ERROR_REASON,
                file=file,
                line=line,
                hosts=hosts if is_about_hosts else (),
            )
        )
    return CheckReport((subject,), tuple(findings))


def _message_and_fix(text: str) -> tuple[str, str]:
    """Return the message and the fix of an error's text.

    The fix comes after a colon, or in further sentences.

    The fix does not have the position in a file that ends the text.
    """
    match = _REMEDY.search(text)
    if match is None:
        return text, lint_and_inventory_rules_by_id()[INPUT_ERROR].fix
    fix = _LAST_POSITION.sub("", text[match.end() :])
    return text[: match.end()].rstrip(" .:"), f"{fix[0].lower()}{fix[1:]}"


def _position_in_message(message: str) -> tuple[str | None, int | None]:
    """Return the file and line that an error of Ansible names at its end or beginning.

    A path below the working directory is relative to it.
    """
    match = _POSITION.search(message)
    if match is None:
        return None, None
    path = match["path"] or match["first"]
    relative = os.path.relpath(path)
    return (path if relative.startswith("..") else relative), int(match["line"] or match["first_line"])
