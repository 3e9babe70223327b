"""Reads the URIs of other people's files: transports in discovery agents in brackets.

Source: URISupport.parseComposite of the release tags. Options after a bracket belong to the
scheme before it; without brackets they belong to the last part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

COMPOSITE = frozenset({"static", "masterslave", "failover", "discovery", "fanout", "simple", "ha", "randomize"})

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

    @classmethod
    def _read(cls, text: str) -> Uri:
        scheme, colon, rest = text.partition(":")
        if not colon or not scheme or not scheme.replace("+", "").isalnum():
            return cls(text, "")
        rest = rest.removeprefix("//")
        if scheme not in COMPOSITE and not rest.startswith("("):
            return _transport(text, scheme, rest)
        inside, after = _bracket(rest)
        parts = tuple(_read(part) for each in _split(inside) if (part := each.strip()))
        return cls(text, scheme, _options(after.partition("?")[2]), parts)

    def walk(self) -> Iterator[Uri]:
        """This one and everything inside it, outermost first."""
        yield self
        for part in self.parts:
            yield from part.walk()

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


@lru_cache(maxsize=1024)
def _read(text: str) -> Uri:
    """Many rules look at one URI, and nobody changes what they see."""
    return Uri._read(text)


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
    for position, character in enumerate(rest):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return rest[1:position], rest[position + 1 :]
    return rest[1:], ""


def _split(text: str) -> Iterator[str]:
    depth, begin = 0, 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            yield text[begin:position]
            begin = position + 1
    yield text[begin:]


def _options(query: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for option in query.split("&"):
        name, _, value = option.strip().partition("=")
        if name:
            found.setdefault(name, value)
    return found
