"""Reads the URIs of other people's files: transports in discovery agents in brackets.

Source: URISupport.parseComposite of the release tags. Options after a bracket belong to the
scheme before it; without brackets they belong to the last part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

COMPOSITE = frozenset({"static", "masterslave", "failover", "discovery", "fanout", "simple", "ha", "randomize"})
DEEPEST = 20  # brackets inside brackets; static:(failover:(…)) is two

_MARK = re.compile(r"[(),]")
_STEP = {"(": 1, ")": -1, ",": 0}
_DIGITS = 9  # more make no port, and Python refuses to read thousands of them


@dataclass(frozen=True, slots=True)
class Uri:
    """``text`` is this part as it stands in the file; ``options`` are its own, in order.

    ``parts`` are what stands in the brackets of a composite; ``host`` and ``port`` are those of a
    plain transport (port 0 where none is said).
    """

    text: str
    scheme: str
    options: dict[str, str] = field(default_factory=dict)
    parts: tuple[Uri, ...] = ()
    host: str = ""
    port: int = 0

    @classmethod
    def read(cls, text: str) -> Uri:
        """Never fails: what cannot be understood has no scheme, parts or host."""
        return _read(text.strip())

    def walk(self) -> Iterator[Uri]:
        """This one and everything inside it, outermost first."""
        waiting = [self]
        while waiting:
            part = waiting.pop()
            yield part
            waiting += reversed(part.parts)

    def find(self, *schemes: str) -> Iterator[Uri]:
        """Every part, itself included, of one of these schemes."""
        return (part for part in self.walk() if part.scheme in schemes)

    @property
    def transports(self) -> tuple[Uri, ...]:
        """What is really dialled: the innermost parts that have a scheme."""
        return tuple(part for part in self.walk() if part.scheme and not part.parts and part.scheme not in COMPOSITE)

    def number(self, option: str) -> int | None:
        """An option as a whole number, None where it is absent or none."""
        try:
            return int(self.options.get(option, ""))
        except ValueError:
            return None


@lru_cache(maxsize=1 << 15)
def _read(text: str) -> Uri:
    """The URI of a text, cached: many rules look at one, and nobody changes what they see.

    Takes no stack of Python's, and time in proportion to the length: brackets are followed to
    ``DEEPEST``, and what is inside of deeper ones has no scheme.
    """
    around = [_Composite("", "", {}, [text])]
    while True:
        composite = around[-1]
        if composite.unread:
            part = composite.unread.pop()
            read = _opened(part) if len(around) <= DEEPEST else Uri(part, "")
            if isinstance(read, Uri):
                composite.parts.append(read)
            else:
                around.append(read)
        elif len(around) == 1:
            return composite.parts[0]
        else:
            around.pop()
            around[-1].parts.append(composite.uri())


@dataclass(slots=True)
class _Composite:
    """A composite whose parts are being read, the last of ``unread`` next."""

    text: str
    scheme: str
    options: dict[str, str]
    unread: list[str]
    parts: list[Uri] = field(default_factory=list)

    def uri(self) -> Uri:
        return Uri(self.text, self.scheme, self.options, tuple(self.parts))


def _opened(text: str) -> Uri | _Composite:
    """A plain transport, what cannot be understood, or a composite with its parts still to read."""
    scheme, colon, rest = text.partition(":")
    if not colon or not scheme or not scheme.replace("+", "").isalnum():
        return Uri(text, "")
    rest = rest.removeprefix("//")
    if scheme not in COMPOSITE and not rest.startswith("("):
        return _transport(text, scheme, rest)
    inside, after = _bracket(rest)
    parts = [stripped for each in _split(inside) if (stripped := each.strip())]
    return _Composite(text, scheme, _options(after.partition("?")[2]), parts[::-1])


def _transport(text: str, scheme: str, rest: str) -> Uri:
    place, _, query = rest.partition("?")
    authority = place.partition("/")[0]
    host, _, port = authority.rpartition(":")
    if authority.endswith("]") or not port.isdecimal() or len(port) > _DIGITS:
        host, port = authority, ""
    return Uri(text, scheme, _options(query), host=host.strip("[]"), port=int(port or 0))


def _bracket(rest: str) -> tuple[str, str]:
    """What is inside the outer brackets, and what follows; all is inside where there are none."""
    if not rest.startswith("("):
        return rest, ""
    depth = 0
    for mark in _MARK.finditer(rest):
        depth += _STEP[mark[0]]
        if depth == 0:
            return rest[1 : mark.start()], rest[mark.end() :]
    return rest[1:], ""


def _split(text: str) -> Iterator[str]:
    depth, begin = 0, 0
    for mark in _MARK.finditer(text):
        depth += _STEP[mark[0]]
        if mark[0] == "," and depth == 0:
            yield text[begin : mark.start()]
            begin = mark.end()
    yield text[begin:]


def _options(query: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for option in query.split("&"):
        name, _, value = option.strip().partition("=")
        if name:
            found.setdefault(name, value)
    return found
