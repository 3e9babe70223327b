"""Which file of its directory an activemq.xml means by a location."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from itertools import islice

_CONF = re.compile(r"(file:(//)?)?\$\{activemq\.(conf\}|(base|home)\}/conf)/|classpath\*?:/?")
_ELSEWHERE = re.compile(r"[A-Za-z][\w+.-]*:|/|.*[$#]\{")
_WORD = re.compile(r"[\w./-]+")
_ENDS = (".properties", ".xml", ".xsd")
_LONGEST, _MOST = 200, 200


def is_relative(location: str) -> bool:
    """True for a location below the directory of the file: a relative one, of the class path or of activemq.conf."""
    rest = _without_conf(location)
    return not _ELSEWHERE.match(rest) and not posixpath.normpath(rest).startswith("..")


def below_directory(location: str) -> str:
    """The path below the file's directory that Spring reads for a relative location, which may have directories.

    The directory is on the broker's class path. Of a location elsewhere only the last part is known.
    """
    rest = _without_conf(location)
    return posixpath.normpath(rest) if is_relative(location) else rest.rpartition("/")[2].rpartition(":")[2]


def _without_conf(location: str) -> str:
    text = location.strip()
    found = _CONF.match(text)
    return text[found.end() :] if found else text


def file_names_in(text: str) -> Iterator[str]:
    """Paths below its directory that the text of a file may mean: of properties, schemas and further XML."""
    words = dict.fromkeys(word for word in _WORD.findall(text) if word.endswith(_ENDS) and len(word) <= _LONGEST)
    for word in islice(words, _MOST):
        path = posixpath.normpath(word.lstrip("/"))
        if not path.startswith(".."):
            yield path
        if word.startswith("/"):  # behind a ${…}, or of another machine
            yield path.rpartition("/")[2]
