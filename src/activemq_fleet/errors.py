"""The hierarchy of errors for users: each message names in one line the problem, its place and the fix."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from types import MappingProxyType

_REMEDIES = {
    (errno.ENOSPC, errno.EDQUOT): "free disk space at this path, or ",
    (errno.EACCES, errno.EPERM): "allow this account to write to this path, or ",
}


class FleetError(Exception):
    """The base class of the project's errors, whose messages are meant for users.

    ``lines`` holds one line per problem, ``str(error)`` all of them as one line. ``remedies`` maps a sentence that ends
    with a colon to the command that it introduces. ``exit_code`` is what the command line returns: 2 for input that
    cannot be used, 1 for a run that failed.
    """

    exit_code = 2

    def __init__(
        self,
        *lines: str,
        hosts_by_line: Mapping[str, Sequence[str]] | None = None,
        remedies: Mapping[str, str] | None = None,
    ) -> None:
        """Make an error of lines; ``hosts_by_line`` holds all hosts of a line that names a few of them."""
        self.lines = lines
        self.hosts_by_line = dict(hosts_by_line or {})
        self.remedies = dict(remedies or {})
        commands = (f"{sentence} {command}" for sentence, command in self.remedies.items())
        super().__init__("; ".join((*lines, *commands)))

    def __str__(self) -> str:
        return " ".join(super().__str__().split())


class InputError(FleetError):
    """An error for invalid input: an inventory, file or option that cannot be read or used."""


class OutputError(OSError):
    """An error for a file or directory that cannot be written.

    Its text names the action, the path and the reason.
    """

    def __init__(self, number: int, reason: str, path: str, action: str) -> None:
        """Make an error of what OSError holds, and of the ``action`` that failed, such as "write the file"."""
        super().__init__(number, reason, path)
        self.action = action

    def __str__(self) -> str:
        remedy = "".join(remedy for numbers, remedy in _REMEDIES.items() if self.errno in numbers)
        return f"cannot {self.action} {self.filename} ({self.strerror}): {remedy}choose another path"


class SettingsError(InputError):
    """An error for invalid settings: ``activemq_*`` variables that are unknown, mistyped or contradictory.

    Each of ``problems`` names hosts and variable: ``HOSTS: VARIABLE …``. ``problems_by_host`` holds the problems of
    each host without its name; it is empty for an error whose lines name several hosts.
    """

    problems_by_host: Mapping[str, Sequence[str]] = MappingProxyType({})

    @classmethod
    def of_host(cls, host: str, *problems: str) -> SettingsError:
        """Return an error for problems of one host, with one line (``HOST: PROBLEM``) for each."""
        problems = tuple(dict.fromkeys(problems))
        hosts_by_line = {f"{host}: {problem}": (host,) for problem in problems}
        error = cls(*hosts_by_line, hosts_by_line=hosts_by_line)
        error.problems_by_host = {host: problems}
        return error

    @classmethod
    def join_errors(cls, errors: Iterable[SettingsError]) -> SettingsError:
        """Return one error with the lines of several errors, each line once."""
        hosts_by_line: dict[str, Sequence[str]] = {}
        problems_by_host: dict[str, tuple[str, ...]] = {}
        lines: dict[str, None] = {}
        for error in errors:
            lines |= dict.fromkeys(error.lines)
            hosts_by_line |= error.hosts_by_line
            for host, problems in error.problems_by_host.items():
                problems_by_host[host] = tuple(dict.fromkeys((*problems_by_host.get(host, ()), *problems)))
        joined = cls(*lines, hosts_by_line=hosts_by_line)
        joined.problems_by_host = problems_by_host
        return joined

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems that make ``activemq_*`` variables invalid, as one line of text for each problem."""
        return self.lines


class ReleaseError(FleetError):
    """An error for an unknown release of ActiveMQ."""


class SchemaUnavailableError(FleetError):
    """An error for the XML schema of an ActiveMQ release that cannot be found or used."""


class ArtifactError(FleetError):
    """An error for software, such as an ActiveMQ archive, that a command requires but cannot obtain or use.

    The software is a release archive, jars, Java or Maven. It is missing or damaged, has another release or checksum
    than expected, or cannot be downloaded or stored in the cache.
    """


class LabError(FleetError):
    """An error for a command that a lab (real brokers on loopback addresses) cannot carry out."""

    exit_code = 1


class LabLinksDownError(LabError):
    """An error for network links between a lab's brokers that are down.

    Each of ``lines`` names one link.
    """


def text_required_message(subject: str, value: object) -> str:
    """Return the error message for a value of another type, such as a number or a list, where text is required.

    ``subject`` names the value, such as ``activemq_pair``.
    """
    if isinstance(value, Mapping | list | tuple):
        kind = "mapping" if isinstance(value, Mapping) else "list"
        return f"{subject} must be text, not a {kind}: write a single value"
    kind = "a date" if isinstance(value, date) else "a number"
    if isinstance(value, bool):
        kind = "true or false"
    return f"{subject} must be text, not {kind}: write the value in quotes"


def names_to_text(names: Sequence[str], total: int | None = None, *, most: int = 3) -> str:
    """Return names as text, such as ``a, b, c and 4 more``: the first names and the number of the others.

    The text has the first ``most`` names. ``total`` is the number of all names, where ``names`` holds only the first
    of them.
    """
    shown_names, remaining = ", ".join(names[:most]), (total or len(names)) - most
    return f"{shown_names} and {remaining} more" if remaining > 0 else shown_names


def positions_to_text(positions: Sequence[str]) -> str:
    """Return positions in files (``FILE:LINE``) as text.

    If more than three are in one file, the text is the file's name.
    """
    files = {position.rpartition(":")[0] for position in positions}
    return files.pop() if len(positions) > 3 and len(files) == 1 else names_to_text(positions)


def group_hosts_by_problem(problems_by_host: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Return a dictionary from each problem (a text) to the hosts that have it."""
    hosts_by_problem: dict[str, list[str]] = {}
    for host, problems in problems_by_host.items():
        for problem in problems:
            hosts_by_problem.setdefault(problem, []).append(host)
    return hosts_by_problem


def hosts_by_error_line(hosts_by_problem: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """Return a dictionary with one error line (``HOSTS: PROBLEM``) per problem as key, and all its hosts as value.

    The line itself names only the first few of the hosts.
    """
    return {f"{names_to_text(hosts)}: {problem}": hosts for problem, hosts in hosts_by_problem.items()}
