# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the ActiveMQ release of a broker's jars, from inside the jar or else from its file name."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tarfile
import zipfile
from typing import IO

from ..errors import NodeError
from ..files.untrusted_paths import UntrustedPathError, reopen_file_of_process
from ..process.proc import open_files_with_descriptors, process_ids

_BROKER_JAR = re.compile(r"(activemq-(?:broker|core|all))(?:-(\d[^/]*))?\.jar")
_VERSION_LINE = re.compile(r"^version=(\d[\w.+-]{0,60})\s*$", re.MULTILINE)
_IMPLEMENTATION = re.compile(r"^Implementation-Version: (\d[\w.+-]{0,60})\s*$", re.MULTILINE)
_LARGEST_JAR = 128 << 20
"""Maximum bytes of a broker's jar; activemq-all, the largest, has 17 MiB."""
_LARGEST_RECORD = 1 << 20
_LARGEST_DIRECTORY = 8 << 20
"""Maximum bytes of a jar's central directory, which is read completely; that of activemq-all has 1 MiB."""
_LONGEST_END_RECORD = 65557


def is_broker_jar(name: str) -> bool:
    """Return whether a jar, by its file name, contains the broker of ActiveMQ.

    Such a jar is activemq-broker, -core or -all.
    """
    return _BROKER_JAR.fullmatch(name) is not None


def release_of_jar(name: str, file: IO[bytes]) -> str | None:
    """Return the ActiveMQ release of a broker's jar.

    It is read from the jar's Maven metadata or manifest, or from its file name. Returns None if none of the three names
    a release.
    """
    name_match = _BROKER_JAR.fullmatch(name)
    if name_match is None:
        return None
    version = None
    # The account of a broker controls the files that its process has open, and zipfile raises errors of its decoders.
    with contextlib.suppress(Exception):
        if _has_small_directory(file):
            with zipfile.ZipFile(file) as jar:
                record = _read_member(jar, f"META-INF/maven/org.apache.activemq/{name_match[1]}/pom.properties")
                version = _VERSION_LINE.search(record) or _IMPLEMENTATION.search(
                    _read_member(jar, "META-INF/MANIFEST.MF")
                )
    return version[1] if version else name_match[2]


def _has_small_directory(file: IO[bytes]) -> bool:
    """Return whether a jar's central directory is small enough to be read; no jar of ActiveMQ is a ZIP64 file."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _LONGEST_END_RECORD))
    tail = file.read(_LONGEST_END_RECORD)
    end_record = tail.rfind(b"PK\5\6")
    is_large = (
        b"PK\6\7" in tail[:end_record]
        or int.from_bytes(tail[end_record + 12 : end_record + 16], "little") > _LARGEST_DIRECTORY
    )
    return end_record >= 0 and not is_large


def _read_member(jar: zipfile.ZipFile, name: str) -> str:
    try:
        with jar.open(name) as member:
            return member.read(_LARGEST_RECORD).decode("utf-8", "replace")
    except KeyError:
        return ""


def release_of_jar_at(path: str, name: str) -> str | None:
    """Return the ActiveMQ release of the broker's jar at a path, or None.

    The path may be under /proc/PID/fd. Only a regular file up to the size of a jar is read, without blocking; for
    others the name determines the release.
    """
    with contextlib.suppress(OSError, UntrustedPathError), os.fdopen(reopen_file_of_process(path), "rb") as file:
        if os.fstat(file.fileno()).st_size <= _LARGEST_JAR:
            return release_of_jar(name, file)
    name_match = _BROKER_JAR.fullmatch(name)
    return name_match[2] if name_match else None


def releases_in_directory(directory: str) -> list[str]:
    """Return the sorted ActiveMQ releases of the brokers' jars in a directory.

    The result is empty without any jar.
    """
    try:
        names = sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []
    releases = set()
    for name in filter(is_broker_jar, names):
        path = os.path.join(directory, name)
        if os.path.isfile(path):  # neither a FIFO nor a loop of links
            releases.add(release_of_jar_at(path, name))
    return sorted(release for release in releases if release)


def releases_in_archive(path: str, *, is_distribution: bool) -> list[str]:
    """Return the sorted ActiveMQ releases of the brokers' jars in a tar archive.

    The jars of a distribution are in ``NAME/lib``, those of another archive are in no directory. Raises NodeError with
    one line for a file that is not a readable archive.
    """
    releases = set()
    try:
        with tarfile.open(path, mode="r|*") as archive:
            for member in archive:
                directory, _separator, name = os.path.normpath(member.name).rpartition("/")
                is_in_jar_directory = directory.split("/")[1:] == ["lib"] if is_distribution else directory == ""
                if is_in_jar_directory and is_broker_jar(name) and member.isreg() and member.size <= _LARGEST_JAR:
                    content = archive.extractfile(member)
                    releases.add(release_of_jar(name, io.BytesIO(content.read() if content else b"")))
    except (OSError, EOFError, tarfile.TarError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise NodeError(
            f"{path} cannot be read as a tar archive: {reason}. Download the archive again, or correct activemq_archive"
        ) from None
    return sorted(release for release in releases if release)


def pids_with_open_files_below(home: str) -> list[int]:
    """Return the pids of processes that have a file below ``home`` open.

    The file, such as a broker's jar, is not deleted. Only root sees the processes of other accounts.
    """
    prefix = os.path.realpath(home) + "/"
    pids = []
    for pid in process_ids():
        with contextlib.suppress(OSError):
            if any(
                path.startswith(prefix) and not path.endswith(" (deleted)")
                for _unused, path in open_files_with_descriptors(pid)
            ):
                pids.append(pid)
    return pids
