# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Recognizes the files of a broker's log by their names.

The names are those of the configurations that releases ship (``activemq.log``, ``activemq.log.1``), and those with the
usual numbers and dates of ``filePattern`` (log4j 2) and ``DatePattern`` (log4j 1): ``activemq.log.2026-11-30``,
``activemq-2026-11-30-1.log.gz``, ``2026-11/activemq-11-30-2026-1.log.gz``, ``activemq-1.log``.
"""

from __future__ import annotations

import re

from ..host_paths import BROKER_LOG

_MONTH = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_PART = rf"(?:\d+(?:T\d+)?|[AP]M|{_MONTH})"
_PLAIN_NAME = re.compile(rf"{re.escape(BROKER_LOG)}(?![A-Za-z])")
_DATED_NAME = re.compile(rf"activemq[-_.]?{_PART}(?:[-_.]{_PART})*\.log(?:\.gz)?")
_DATE_DIRECTORY = re.compile(r"20\d\d(?:[-_.]?\d\d){0,2}(?:/\d\d){0,2}")
_SIMILAR_NAME = re.compile(r"(?!.*(?:audit|\.service\.log|\.timer\.log)).*activemq.*\.log(?![A-Za-z])", re.DOTALL)
_TEMPORARY_FILE_ENDINGS = (".lck", ".tmp")
_UNREADABLE_FILE_ENDINGS = (*_TEMPORARY_FILE_ENDINGS, ".7z", ".bz2", ".deflate", ".lzma", ".xz", ".zip", ".zst")
"""Endings of files that are not text: the compression formats of log4j 2 other than gzip, and unfinished files."""


def is_broker_log_path(path: str) -> bool:
    """Return whether a file is a part of a broker's log, by its path below the broker's data directory.

    The file can be in a directory that is named by a date, such as ``2026-11/activemq-2026-11-30-1.log.gz``.
    """
    directory, _, name = path.rpartition("/")
    if directory and not is_date_directory(directory):
        return False
    if _PLAIN_NAME.match(name):
        return not name.endswith(_UNREADABLE_FILE_ENDINGS)
    return _DATED_NAME.fullmatch(name) is not None


def is_date_directory(path: str) -> bool:
    """Return whether a directory of rolled logs is named by a date: ``2026``, ``2026-11``, ``2026/11``, ``20261130``.

    ``path`` is its path below the broker's data directory.
    """
    return _DATE_DIRECTORY.fullmatch(path) is not None


def is_similar_to_broker_log(path: str) -> bool:
    """Return whether the name of a file is similar to that of a broker's log, but is not recognized as one.

    Examples are ``old/activemq.log.1`` and ``activemq-node1.log``. A log of ``org.apache.activemq.audit`` does not
    count, nor does a journal of a systemd unit, a lock file or an unfinished file (``.tmp``).
    """
    name = path.rpartition("/")[2]
    is_similar = _SIMILAR_NAME.match(name) is not None and not name.endswith(_TEMPORARY_FILE_ENDINGS)
    return is_similar and not is_broker_log_path(path)
