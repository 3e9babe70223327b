"""Determine the release for which ``check`` checks each file, by options, jars around the file, or its header."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path, PurePath
from typing import NamedTuple

from activemq_fleet import InputError, Release, ReleaseError
from activemq_fleet.cli.broker_file_search import walk_directories_searched_by_check
from activemq_fleet.errors import names_to_text
from activemq_fleet.given_files import read_beginning_of_file_or_pipe
from activemq_fleet.node.text_lines import split_lines
from activemq_fleet.render.rendered_header import read_activemq_xml_header

_JAR = re.compile(r"activemq-(?:all|broker|client|core|spring)-(\d+\.\d+\.\d+)\.jar")
_HOME = re.compile(r"(?:apache-)?activemq-(\d+\.\d+\.\d+)")
# The script bin/activemq adds these directories to the class path, in addition to lib.
_LIB_SUBDIRECTORIES = ("optional", "web", "extra", "camel")
_MAX_BYTES, _MAX_ENTRIES = 256 << 20, 5_000
Rules = Sequence[tuple[str, str]]


def read_releases_by_file_pattern(path: Path) -> Rules:
    """Read from a file the rules that map patterns of file names to ActiveMQ releases.

    Returns (pattern, release) pairs. The lines are ``PATTERN RELEASE``. Raises InputError for other lines.
    """
    try:
        lines = split_lines(read_beginning_of_file_or_pipe(path, _MAX_BYTES).decode())
    except (OSError, UnicodeError) as error:
        raise InputError(
            f"{path}: the file of --release-from cannot be read ({getattr(error, 'strerror', None) or 'not UTF-8'}): "
            "correct its path, permissions or encoding"
        ) from None
    rules = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if words and len(words) != 2:
            raise InputError(
                f"{path}, line {number}: the line does not have two words: write a file name pattern and a "
                "release, such as: conf/*.xml 5.18.3"
            )
        if words and not PurePath(words[0]).name:
            raise InputError(
                f"{path}, line {number}: {words[0]} is not a file name pattern, because it contains no file name: "
                "write a pattern and a release, such as: conf/*.xml 5.18.3"
            )
        if words:
            rules.append((words[0], words[1]))
    return rules


class ReleaseOfCheckedFile(NamedTuple):
    """The ActiveMQ release for which ``check`` checks a file.

    ``source`` is the source of the release, such as ``--release``.
    """

    text: str
    source: str


def releases_of_files(
    contents: Mapping[Path, bytes], release: str | None, rules: Rules, rules_source: str = "--release-from"
) -> dict[Path, ReleaseOfCheckedFile]:
    """Return the ActiveMQ release for which each file is checked, by file.

    ``contents`` are the files' contents by path. The release is that of the first matching rule, else ``release``, else
    that of the jars around the file, else that of the header of a rendered file. ``rules_source`` names where the rules
    come from.

    Raises InputError that names the files whose release is unknown.
    """
    release_by_file: dict[Path, ReleaseOfCheckedFile] = {}
    unknown: list[str] = []
    for path, content in contents.items():
        rule_release = next((text for pattern, text in rules if _matches(path, pattern)), None)
        if rule_release:
            release_by_file[path] = ReleaseOfCheckedFile(rule_release, rules_source)
        elif release:
            release_by_file[path] = ReleaseOfCheckedFile(release, "--release")
        elif installed_release := _release_around(path):
            release_by_file[path] = ReleaseOfCheckedFile(
                installed_release, "the jars or the name of the installation directory"
            )
        elif header := read_activemq_xml_header(content):
            _refuse_unknown_header_release(path, header.release)
            release_by_file[path] = ReleaseOfCheckedFile(header.release, "the header")
        else:
            unknown.append(str(path))
    if unknown:
        raise InputError(
            f"--release is missing: the release of the broker is not known for {names_to_text(unknown)}. If all files "
            "have the same release, set --release X. Otherwise set --release-from FILE. Each line of FILE has a file "
            "name pattern and a release, such as: conf/*.xml 5.18.3"
        )
    return release_by_file


def _matches(path: Path, pattern: str) -> bool:
    return fnmatch(str(path), pattern) or path.match(pattern)


def patterns_without_files(patterns: Iterable[str], paths: Sequence[Path], project: Path) -> list[str]:
    """Return the file name patterns in the ``releases`` setting of ``check`` that match no file.

    Such a pattern matches none of the paths, and no file below one of them or below a project.
    """
    unmatched = [pattern for pattern in patterns if not any(_matches(path, pattern) for path in paths)]
    for top in (*filter(os.path.isdir, paths), project):
        for parent, names in walk_directories_searched_by_check(top) if unmatched else ():
            files = [Path(parent, name) for name in names]
            files += [file.relative_to(top) for file in files]
            unmatched = [pattern for pattern in unmatched if not any(_matches(file, pattern) for file in files)]
    return unmatched


def header_release_warnings(contents: Mapping[Path, bytes], releases: Mapping[Path, ReleaseOfCheckedFile]) -> list[str]:
    """Return warnings about files whose header names another ActiveMQ release than the check uses."""
    files: dict[tuple[str, ReleaseOfCheckedFile], list[str]] = {}
    for path, content in contents.items():
        header = read_activemq_xml_header(content)
        if header and path in releases and header.release != releases[path].text:
            files.setdefault((header.release, releases[path]), []).append(str(path))
    return [
        f"{names_to_text(paths)}: check uses release {used.text} ({used.source}), but the comment at the beginning of "
        f"the file names release {rendered}. To check the file for that release, set --release {rendered}"
        for (rendered, used), paths in files.items()
    ]


def _refuse_unknown_header_release(path: Path, text: str) -> None:
    try:
        Release.of(text)
    except ReleaseError:
        raise InputError(
            f"{path}: the comment at the beginning of the file names an unknown release, {text!r}: correct the "
            "comment, or set --release to the release of the broker"
        ) from None


def possible_installation_directories(path: Path) -> list[Path]:
    """Return the directories that may be the ActiveMQ installation to which a file belongs.

    The nearest directory is first.
    """
    above = path.absolute().parent
    return [above, *list(above.parents)[:2]]


def loaded_jar_directories(home: Path) -> list[Path]:
    """Return the directories of an ActiveMQ installation from which a broker loads jars.

    The directories are listed whether they exist or not.
    """
    return [home, home / "lib", *(home / "lib" / name for name in _LIB_SUBDIRECTORIES)]


def _release_around(path: Path) -> str | None:
    """Return the release named by jars and directories around a file; None where they name none or several."""
    for home in possible_installation_directories(path):
        releases = {match[1] for match in map(_HOME.fullmatch, [home.name]) if match}
        for directory in loaded_jar_directories(home):
            releases |= {match[1] for match in map(_JAR.fullmatch, first_entry_names(directory)) if match}
        if releases:
            return releases.pop() if len(releases) == 1 else None
    return None


def first_entry_names(directory: Path) -> list[str]:
    """Return the names of the first 5,000 entries of a directory.

    The list is empty for a directory that cannot be listed.
    """
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in islice(entries, _MAX_ENTRIES)]
    except OSError:
        return []
