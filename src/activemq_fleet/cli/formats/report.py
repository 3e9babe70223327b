"""Hold the result of a check before it is formatted."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from activemq_fleet import Finding
from activemq_fleet.findings import SEVERITIES
from activemq_fleet.inventory_positions import Position, position_of_finding, position_of_reported_value

if TYPE_CHECKING:
    from activemq_fleet import FileRepair, Fleet


KINDS = (*SEVERITIES, "waived")
"""The kinds by which findings are counted and sorted, the worst first."""
INPUT_ERROR = "T000"
"""The name under which formats list input that cannot be used; no waiver or baseline lets it pass."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The report of a check on a fleet or on files: findings, and names of what was checked.

    ``hosts`` are the names of the checked hosts, or of the checked files if ``is_about_files``. ``waivers`` are the
    waivers in force, ``warnings`` lines for stderr.
    """

    hosts: tuple[str, ...]
    findings: tuple[Finding, ...]
    waivers: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    is_about_files: bool = False
    repairs: Mapping[Path, FileRepair] = field(default_factory=dict)
    """By file the repair that ``--fix`` makes; a finding has edits only if its repair is among them."""
    positions: Mapping[str, Mapping[str, Position]] = field(default_factory=dict)
    """By host the position in the inventory of each of its variables, by name; the host's position has the name ""."""

    @classmethod
    def check_report_of_fleet(cls, fleet: Fleet) -> CheckReport:
        """Return the report of a check on a fleet's brokers, agents and balancers."""
        brokers, agents = [b.host for b in fleet.brokers], [a.host for a in fleet.agents]
        hosts = dict.fromkeys((*brokers, *agents, *(b.host for b in fleet.balancers)))
        return cls(tuple(hosts), fleet.findings, fleet.waivers, fleet.warnings)

    @property
    def finding_counts_by_severity(self) -> dict[str, int]:
        """How many findings of each severity the check has, in a dictionary by severity.

        Waived findings are counted only as ``waived``. Equal findings about several hosts are one mistake, and count
        once, as the text shows them.
        """
        counts_by_severity = dict.fromkeys(KINDS, 0)
        for finding in {finding_grouping_key(finding): finding for finding in self.findings}.values():
            counts_by_severity["waived" if finding.waived is not None else finding.severity] += 1
        return counts_by_severity

    @property
    def fixable_count(self) -> int:
        """The number of the check's findings that ``check --fix`` can repair."""
        return sum(bool(finding.edits) for finding in self.findings)

    def inventory_position_of(self, finding: Finding) -> Position | None:
        """Return the position (file and line) of a finding in the inventory.

        The position is that of the variable from which a rendered value came, or of the first variable that the message
        names, else that of the host. None is returned for a finding about files.
        """
        return _with_relative_path(position_of_finding(self.positions.get(finding.host, {}), finding))

    def variable_position_of(self, finding: Finding) -> Position | None:
        """Return the position in the inventory of the variable that a finding is about.

        None is returned if no variable is known.
        """
        return _with_relative_path(position_of_reported_value(self.positions.get(finding.host, {}), finding))

    def user_file_position(self, finding: Finding) -> tuple[str | None, int | None, int | None]:
        """Return (path, line, column) of a finding: in the inventory if it is known there, else in the finding's file.

        Unknown parts are None. For a finding about a fleet, the path of its file is that in the output directory of
        ``render``.
        """
        source = self.inventory_position_of(finding)
        if source is not None:
            return source.file, source.line, None
        return _path_in_output_directory(finding), finding.line, finding.column

    def shown_position_text(self, finding: Finding) -> str:
        """Return a finding's position as text: that in the inventory, and that in the rendered file in parentheses.

        The form is ``FILE:LINE (FILE:LINE:COLUMN)``; an unknown position is omitted. The position in the inventory is
        that of the variable. A finding about the inventory that names no variable has the position of its host.
        """
        position = self.inventory_position_of(finding) if finding.file is None else self.variable_position_of(finding)
        source = f"{position.file}:{position.line}" if position else ""
        finding_position = _finding_position(finding)
        return f"{source} ({finding_position})" if source and finding_position else source or finding_position

    def message_with_fix_and_rendered_position(self, finding: Finding) -> str:
        """Return a finding's message and fix with the finding's position in the rendered file.

        The position is omitted where the report already shows it.
        """
        text = message_with_fix(finding)
        return f"{_finding_position(finding)}: {text}" if finding.file and self.inventory_position_of(finding) else text


def _with_relative_path(position: Position | None) -> Position | None:
    """Return a position whose file is relative to the current directory, if the file is inside of it."""
    if position is None:
        return None
    relative = os.path.relpath(position.file)
    return position if relative.startswith("..") else Position(relative, position.line)


def finding_grouping_key(finding: Finding) -> Hashable:
    """Return the key that groups equal findings about several hosts: the finding's text and place.

    Findings with the same key are shown as one. A finding on a line of a hostless file has a separate key.
    """
    position: Hashable = finding.file
    if not finding.host:
        position = (finding.file, finding.line, finding.column) if finding.line else ()
    text = (finding.rule, finding.severity, finding.message, finding.why, finding.fix, finding.waived)
    return *text, position


def finding_subject(finding: Finding) -> str:
    """Return the subject of a finding: its host, or else its file."""
    return finding.host or finding.file or ""


def reported_hosts(finding: Finding) -> tuple[str, ...]:
    """Return the hosts that a finding is about.

    A finding about a file, an option or a whole inventory has no hosts; its message names the subject.
    """
    if finding.hosts or finding.rule == INPUT_ERROR:
        return finding.hosts
    return (finding.host,) if finding.host else ()


def _finding_position(finding: Finding) -> str:
    """Return the position of a finding as ``FILE:LINE:COLUMN``.

    Unknown parts are left out; "" for findings about the inventory.
    """
    known = (finding.file, finding.line, finding.column)
    return ":".join(str(part) for part in known if part is not None)


def message_with_fix(finding: Finding) -> str:
    """Return a finding's message and fix on one line, with ``Fix:`` between them."""
    full_stop = "" if finding.message.endswith(("?", ".", "…")) else "."
    return f"{finding.message}{full_stop} Fix: {finding.fix}"


def _path_in_output_directory(finding: Finding) -> str | None:
    """Return the path of a finding's file in the output directory of ``render``.

    None is returned for a finding without file. A finding about input that cannot be used has the path of the input
    itself.
    """
    if finding.file is None or not finding.host or finding.rule == INPUT_ERROR:
        return finding.file
    return f"hosts/{finding.host}/{finding.file}"
