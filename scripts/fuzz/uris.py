"""Fuzz target: composite URIs. The parser is compared with a simple one that reads each character."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from activemq_fleet.network.uri_parser import COMPOSITE, DEEPEST, Uri

from .target import Target

_TOKENS = (
    *(f"{scheme}:" for scheme in sorted(COMPOSITE)),
    *(
        "tcp://a:61616",
        "nio+ssl://[::1]:1",
        "vm://x",
        "multicast://default",
        "ssl://h",
        "//",
        "(",
        "(",
        ")",
        ")",
        ",",
        ",",
    ),
    *(
        "?",
        "&",
        "=",
        "a=1",
        "a=2&amp;",
        "?transport.x=y",
        "${a}",
        "#{x}",
        " ",
        ":",
        "@",
        "u:p@",
        "[",
        "]",
        "%28",
        "\n",
        "é",
    ),
    *("99999999999999999999", "-1", "\u0660", "\x00", "x+y:", "+:", "a.b:"),
)


def _generate(random: Random, samples: Sequence[bytes]) -> bytes:
    """Return tokens in random order, sometimes with a token that is repeated thousands of times or part of a sample."""
    words = [random.choice(_TOKENS) for _ in range(random.randrange(1, 60))]
    if random.random() < 0.1:
        words.insert(random.randrange(len(words) + 1), random.choice(_TOKENS) * random.randrange(2, 5000))
    if samples and random.random() < 0.1:
        words.append(random.choice(samples)[: random.randrange(1, 500)].decode(errors="replace"))
    return "".join(words).encode()


def _run(data: bytes) -> str:
    text = data.decode(errors="replace")
    uri = Uri.parse(text)
    for part in uri.uri_and_nested_uris():
        if part.text not in text:
            return f"the text does not contain the part {part.text!r}"
        if part.port and not part.host:
            return f"the part has a port and no host: {part.text!r}"
    if (depth := _depth(uri)) > DEEPEST + 1:
        return f"the parser followed {depth} levels of brackets"
    if depth < DEEPEST and (composite := _wrongly_split_composite(uri)):
        return f"the parts of the composite are wrong: {composite!r}"
    return ""


def _depth(uri: Uri) -> int:
    return 1 + max((_depth(part) for part in uri.parts), default=0)


def _wrongly_split_composite(uri: Uri) -> str:
    """Return the text of a composite whose parts differ from those of the simple parser, or an empty text."""
    for part in uri.uri_and_nested_uris():
        if part.scheme and (part.parts or part.scheme in COMPOSITE):
            rest = part.text.partition(":")[2].removeprefix("//")
            if [subpart.text for subpart in part.parts] != [text for text in _parts(rest) if text]:
                return part.text
    return ""


def _parts(rest: str) -> list[str]:
    """Return the texts between commas outside of nested brackets, in the first bracket or in a text without one."""
    opened = rest.startswith("(")
    depth, parts = 0, [""]
    for character in rest[opened:]:
        depth += (character == "(") - (character == ")")
        if opened and depth < 0:
            break
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


TARGET = Target("composite URIs, parsed in two ways", _generate, _run, suffix=".txt", seconds=5.0)
