"""Read the file that a check is given, and the files next to it that a check reads too."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from zipfile import BadZipFile, ZipFile

from activemq_fleet import Finding, InputError
from activemq_fleet.cli.broker_file_search import find_activemq_xml_and_broker_files
from activemq_fleet.cli.file_releases import (
    first_entry_names,
    loaded_jar_directories,
    possible_installation_directories,
)
from activemq_fleet.cli.formats.report import INPUT_ERROR
from activemq_fleet.findings import error_finding, join_problem_and_remedy
from activemq_fleet.given_files import read_beginning_of_file_or_pipe
from activemq_fleet.lint.locations import jar_service_file_paths_of_unknown_schemes, referenced_file_names
from activemq_fleet.schema import decode_xml_document

# These files define the accounts, the address of the console, and the logging.
USUAL_COMPANION_FILES = (
    "credentials-enc.properties",
    "credentials.properties",
    "groups.properties",
    "jetty-realm.properties",
    "jetty-spring.xml",
    "jetty.xml",
    "jmx.password",
    "jolokia-access.xml",
    "log4j.properties",
    "log4j2.properties",
    "login.config",
    "users.properties",
)
_MAX_FILE_SIZE = 16 << 20  # The unit is bytes. The largest known activemq.xml has a few hundred thousand bytes.
_MAX_NAMES = 300


def read_companion_files(path: Path, data: bytes) -> tuple[dict[str, bytes], list[Finding]]:
    """Return the contents of an activemq.xml's companion files by relative name, and errors of unreadable ones.

    Companion files are the usual ones next to the activemq.xml, the files that it names, and those that an XML file
    next to it names, because that may be imported. The errors are a list of findings.
    """
    contents: dict[str, bytes] = {}
    problems: list[Finding] = []
    pending_names = list(dict.fromkeys((*USUAL_COMPANION_FILES, *_referenced_paths(data))))
    checked_names: set[str] = set()
    while pending_names and len(checked_names) < _MAX_NAMES:
        name = pending_names.pop(0)
        file = path.parent / name
        if name in checked_names or file == path:
            continue
        checked_names.add(name)
        if not os.path.isfile(file):
            continue
        try:
            # Only the location of a schema matters, not its content.
            contents[name] = b"" if name.endswith(".xsd") else read_file_to_check(file)
        except UnreadableFileError as error:
            problems.append(unreadable_file_finding(file, error))
            continue
        if name.endswith(".xml"):
            pending_names += _referenced_paths(contents[name], str(PurePosixPath(name).parent))
    contents |= dict.fromkeys(_available_service_files(path, data), b"")
    return contents, problems


def paths_read_by_check(paths: Iterable[Path]) -> list[Path]:
    """Return the files that a check of files and directories reads: files of brokers, and their companion files.

    Paths that cannot be read are left out, and so are pipes, which can be read only once.
    """
    read_paths: list[Path] = []
    for path in paths:
        with suppress(InputError):
            for file in find_activemq_xml_and_broker_files([path]):
                read_paths.append(file)
                if os.path.isfile(file):
                    companions, _ = read_companion_files(file, read_file_to_check(file))
                    read_paths += (file.parent / name for name in companions)
    return read_paths


def _referenced_paths(data: bytes, directory: str = ".") -> Iterable[str]:
    """Return the paths that a file refers to, below the directory of the activemq.xml and below its own."""
    names = list(referenced_file_names(decode_xml_document(data, None)))
    return names if directory == "." else [*names, *(f"{directory}/{name}" for name in names)]


def _available_service_files(path: Path, data: bytes) -> Iterator[str]:
    """Yield the service files of unknown URI schemes that jars of an activemq.xml's broker contain."""
    service_files = jar_service_file_paths_of_unknown_schemes(decode_xml_document(data, None))
    if not service_files:
        return
    yield from (name for name in service_files if (path.parent / name).is_file())
    for home in possible_installation_directories(path):
        for directory in loaded_jar_directories(home):
            for jar in first_entry_names(directory):
                if jar.endswith(".jar"):
                    yield from service_files & _names_in_jar(directory / jar)


def _names_in_jar(jar: Path) -> set[str]:
    try:
        with ZipFile(jar) as archive:
            return set(archive.namelist())
    except (OSError, BadZipFile, NotImplementedError, ValueError):  # the last two: damaged version or name of an entry
        return set()  # The broker cannot load this jar either.


class UnreadableFileError(InputError):
    """An error for a file that cannot be read.

    Its text consists of the path, the ``problem`` and the ``fix``.
    """

    def __init__(self, path: Path, problem: str, fix: str) -> None:
        super().__init__(f"{path}: {join_problem_and_remedy(problem, fix)}")
        self.problem = problem
        self.fix = fix


class AllFilesUnreadableError(InputError):
    """An error for a check whose files are all unreadable: ``errors`` has the error of each file."""

    def __init__(self, errors: Mapping[Path, UnreadableFileError]) -> None:
        super().__init__(*(line for error in errors.values() for line in error.lines))
        self.errors = dict(errors)


def read_file_to_check(path: Path) -> bytes:
    """Return the contents of a configuration file that ``activemq-fleet check`` reads, such as activemq.xml.

    Raises UnreadableFileError for a file that cannot be read, or exceeds 16 MiB.
    """
    try:
        data = read_beginning_of_file_or_pipe(path, _MAX_FILE_SIZE + 1)
    except OSError as error:
        raise UnreadableFileError(
            path,
            f"this file of a broker's configuration cannot be read ({error.strerror})",
            "correct the path, or allow this account to read the file",
        ) from None
    if len(data) > _MAX_FILE_SIZE:
        raise UnreadableFileError(
            path,
            f"this file is larger than {_MAX_FILE_SIZE >> 20} MiB, the limit for configuration files of a broker",
            "if you gave this path on the command line, give the path of a broker's activemq.xml instead. If the "
            "file is only next to an activemq.xml, move it to another directory",
        )
    return data


def unreadable_file_finding(file: Path, error: UnreadableFileError) -> Finding:
    """Return a finding about a file that cannot be read."""
    message = f"{error.problem}, and its content was not checked"
    return error_finding(INPUT_ERROR, "", message, error.fix, file=str(file))
