"""Parse the URIs of any activemq.xml: transports inside discovery agents in brackets.

Source: URISupport.parseComposite of the release tags. Options after a bracket belong to the scheme before it; without
brackets they belong to the last part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

COMPOSITE = frozenset({"static", "masterslave", "failover", "discovery", "fanout", "simple", "ha", "randomize"})
DEEPEST = 20  # brackets inside brackets; static:(failover:(…)) is two

_DELIMITER = re.compile(r"[(),]")
_DEPTH_CHANGES = {"(": 1, ")": -1, ",": 0}
_MAXIMUM_PORT_DIGITS = 9  # a port has fewer digits, and Python cannot parse thousands of digits


def has_placeholder(text: str) -> bool:
    """Return whether a text contains a placeholder, ``${…}`` or ``#{…}``.

    Another file or process determines the value of such a text.
    """
    return "${" in text or "#{" in text


@dataclass(frozen=True)
class Uri:
    """A parsed ActiveMQ URI: its scheme, its options, and its address or the URIs that are nested in it.

    It can itself be nested in a composite URI such as ``static:(…)``. ``text`` is the URI as written; ``options`` are
    its own, in order. ``parts`` are the URIs in the parentheses of a composite; ``host`` and ``port`` belong to a plain
    transport (port 0 where none is set).
    """

    text: str
    scheme: str
    options: dict[str, str] = field(default_factory=dict)
    parts: tuple[Uri, ...] = ()
    host: str = ""
    port: int = 0

    @classmethod
    def parse(cls, text: str) -> Uri:
        """Return a parsed ActiveMQ URI, such as ``failover:(tcp://a:61616)``, from a text.

        The method never raises: a text that is not a URI has no scheme, parts or host.
        """
        return _parse_uri(text.strip())

    def uri_and_nested_uris(self) -> Iterator[Uri]:
        """Yield the URI and every URI that is nested inside its parentheses, outermost first."""
        return iter(self._nested_uris)

    @cached_property
    def _nested_uris(self) -> tuple[Uri, ...]:
        return (self, *(inner for part in self.parts for inner in part._nested_uris))

    def find_uris_with_given_schemes(self, *schemes: str) -> Iterator[Uri]:
        """Yield the URIs with one of the given schemes, among a URI and its nested URIs."""
        return (part for part in self.uri_and_nested_uris() if part.scheme in schemes)

    @cached_property
    def transport_uris(self) -> tuple[Uri, ...]:
        """The transport URIs to which a composite URI connects.

        They are its innermost parts that have a scheme.
        """
        return tuple(
            part
            for part in self.uri_and_nested_uris()
            if part.scheme and not part.parts and part.scheme not in COMPOSITE
        )

    def integer_option(self, option: str) -> int | None:
        """Return the value of a URI option as an integer, or None if the option is absent or not an integer."""
        try:
            return int(self.options.get(option, ""))
        except ValueError:
            return None


@lru_cache(maxsize=1 << 15)
def _parse_uri(text: str, depth: int = 1) -> Uri:
    """Return the URI of a text, cached, because many rules read the same URI.

    The content of brackets deeper than ``DEEPEST`` has no scheme.
    """
    scheme, colon, rest = text.partition(":")
    if depth > DEEPEST or not colon or not scheme.replace("+", "").isalnum():
        return Uri(text, "")
    rest = rest.removeprefix("//")
    if scheme not in COMPOSITE and not rest.startswith("("):
        return _parse_transport(text, scheme, rest)
    content, rest_after_brackets = _split_brackets(rest)
    parts = tuple(_parse_uri(stripped, depth + 1) for part in _split_at_commas(content) if (stripped := part.strip()))
    return Uri(text, scheme, _parse_options(rest_after_brackets.partition("?")[2]), parts)


def _parse_transport(text: str, scheme: str, rest: str) -> Uri:
    address, _, query = rest.partition("?")
    authority = address.partition("/")[0]
    host, _, port = authority.rpartition(":")
    if authority.endswith("]") or not port.isdecimal() or len(port) > _MAXIMUM_PORT_DIGITS:
        host, port = authority, ""
    return Uri(text, scheme, _parse_options(query), host=host.strip("[]"), port=int(port or 0))


def _split_brackets(rest: str) -> tuple[str, str]:
    """Return the text inside the outer brackets of a URI, and the text after them.

    Without brackets, all text counts as inside.
    """
    if not rest.startswith("("):
        return rest, ""
    depth = 0
    for delimiter in _DELIMITER.finditer(rest):
        depth += _DEPTH_CHANGES[delimiter[0]]
        if depth == 0:
            return rest[1 : delimiter.start()], rest[delimiter.end() :]
    return rest[1:], ""


def members_as_written(text: str) -> Iterator[tuple[int, str]]:
    """Yield (position, text) of each URI in the list of a composite URI, with the white space around it."""
    rest = text.partition(":")[2].removeprefix("//")
    content, _ = _split_brackets(rest)
    position = len(text) - len(rest) + rest.startswith("(")
    for member in _split_at_commas(content):
        yield position, member
        position += len(member) + 1


def _split_at_commas(text: str) -> Iterator[str]:
    """Yield the parts of a text between its commas; commas in brackets do not count."""
    depth, part_start = 0, 0
    for delimiter in _DELIMITER.finditer(text):
        depth += _DEPTH_CHANGES[delimiter[0]]
        if delimiter[0] == "," and depth == 0:
            yield text[part_start : delimiter.start()]
            part_start = delimiter.end()
    yield text[part_start:]


def _parse_options(query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for option in query.split("&"):
        name, _, value = option.strip().partition("=")
        if name:
            options[name] = value  # URISupport.parseQuery of every release: the last value of an option applies
    return options
