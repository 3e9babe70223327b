"""Add positions in an inventory, and hints about misspelled or unread variables, to errors and findings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from activemq_fleet.errors import FleetError, SettingsError, group_hosts_by_problem, hosts_by_error_line
from activemq_fleet.findings import Finding, merged_finding_lines
from activemq_fleet.inventory_positions import (
    Position,
    position_of_finding,
    position_of_first_variable_in_text,
    position_of_reported_value,
)
from activemq_fleet.naming import PARITY_VARIABLE, PATTERN_VARIABLE, PREFIX
from activemq_fleet.unread_variable_files import unread_definition_hint

if TYPE_CHECKING:
    from activemq_fleet.inventory import InventoryData

_VARIABLE = re.compile(r"\w+")
_UNSET_VARIABLE = re.compile(r"\b(activemq_\w+) is not set\b")


def mentions_activemq_variable(error: FleetError) -> bool:
    """Return whether the text of an error contains the name of an ``activemq_…`` variable."""
    return PREFIX in str(error)


def error_with_positions(error: FleetError, data: InventoryData) -> FleetError:
    """Return a copy of an error that has the file and line of the variable appended to each line about a variable.

    A line without a known position is not changed in this way.
    Equal problems of several hosts become one line.
    """
    from activemq_fleet.settings.variable_validation import variables_by_misspelled_name

    lines: dict[str, None] = {}
    hosts_by_line: dict[str, Sequence[str]] = {}
    misspelled_by_host = {host: variables_by_misspelled_name(positions) for host, positions in data.positions.items()}
    misspelled_by_host = {host: misspelled for host, misspelled in misspelled_by_host.items() if misspelled}
    for line, hosts in _hosts_by_merged_line(error).items():
        host = hosts[0] if hosts else ""
        hint, position = _misspelling_hint(line, hosts, misspelled_by_host, data.positions)
        position = position or _position_of_line(line, host, data)
        line += hint or _unread_variable_hint(line, host, data)
        line = f"{line} ({position.file}:{position.line})" if position else line
        lines[line] = None
        if host in data.hosts:
            hosts_by_line[line] = hosts
    return type(error)(*lines, hosts_by_line=hosts_by_line)


def _hosts_by_merged_line(error: FleetError) -> dict[str, Sequence[str]]:
    """Return the lines of an error with the hosts of each; lines that differ only in their host become one line.

    A line that is not about a host has no hosts.
    """
    if not isinstance(error, SettingsError) or not error.problems_by_host:
        return {line: error.hosts_by_line.get(line, ()) for line in error.lines}
    lines: dict[str, Sequence[str]] = {line: () for line in error.lines if line not in error.hosts_by_line}
    return lines | hosts_by_error_line(group_hosts_by_problem(error.problems_by_host))


def _position_of_line(line: str, host: str, data: InventoryData) -> Position | None:
    """Return the position of the variable that a line of an error names, or None.

    An error about the naming of all hosts names no host: its variable is that of the first host that has it.
    """
    if host in data.hosts:
        return position_of_first_variable_in_text(data.positions.get(host, {}), line, data.hosts[host])
    for positions in data.positions.values():
        naming = {name: positions[name] for name in (PARITY_VARIABLE, PATTERN_VARIABLE) if name in positions}
        if position := position_of_first_variable_in_text(naming, line):
            return position
    return None


def _unread_variable_hint(line: str, host: str, data: InventoryData) -> str:
    """Return a hint about a file that sets a variable but that Ansible does not read; "" without such a file.

    The line ``line`` of an error reports that the variable is not set.
    """
    match = _UNSET_VARIABLE.search(line)
    if match is None or host not in data.directories or match[1] in data.hosts.get(host, {}):
        return ""
    return unread_definition_hint(match[1], data.directories[host], data.findings)


def _misspelling_hint(
    line: str,
    hosts: Iterable[str],
    misspelled_by_host: Mapping[str, Mapping[str, str]],
    positions_by_host: Mapping[str, Mapping[str, Position]],
) -> tuple[str, Position | None]:
    """Return a hint about a misspelled variable that a line of an error probably concerns, and its position.

    The host lacks the variable that the line names. The result is "" and None without such a variable.
    """
    words = frozenset(_VARIABLE.findall(line))
    for host in hosts if misspelled_by_host else ():
        for name, intended in misspelled_by_host.get(host, {}).items():
            if intended in words and intended not in positions_by_host[host]:
                hint = f"; the variable {name} of host {host} is ignored: did you mean {intended}?"
                return hint, positions_by_host[host][name]
    return "", None


def finding_lines_with_positions(findings: Iterable[Finding], data: InventoryData) -> list[str]:
    """Return findings as lines of text, each with a position in the inventory.

    The position is the file and line that define the finding's variable or list its host. Equal findings about several
    hosts become one line.
    """

    def source_of(finding: Finding) -> str:
        positions = data.positions.get(finding.host, {})
        position = (position_of_reported_value if finding.file else position_of_finding)(positions, finding)
        return f"{position.file}:{position.line}" if position else ""

    return merged_finding_lines(findings, source_of)
