"""Kinds of documents that came from a mold, without a look at the whole of each. Pure.

Documents from one mold (``render.molds``) differ in the names that were put into it, and nowhere else. So
what is alike of them can be seen in the words in which one of the fleet's own names may stand: those that
names were put into, and words of the mold itself that look like one. They are a few hundred bytes of six
thousand. Where they are the same but for own names, the documents are of one kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from string import ascii_letters, digits
from typing import Any

from activemq_fleet.lint.kinds import kind_of, numbered, own_names
from activemq_fleet.render import ACTIVEMQ_XML
from activemq_fleet.render.molds import Mold, filled_of
from activemq_fleet.topology import Broker

_LETTERS = f"{ascii_letters}{digits}._-"
_PLAIN = re.compile(r"[A-Za-z0-9._-]*")
_DIGIT = re.compile("[0-9]")
_SPACED = {code: "\n" for code in range(128) if chr(code) not in _LETTERS}
_REMEMBERED = 512


def kinds_of(brokers: Sequence[Broker], documents: Mapping[str, bytes]) -> dict[str, bytes]:
    """``kind_of`` the document of each broker, by inventory name."""
    return {broker.host: _kind(broker, documents[broker.host]) for broker in brokers}


def _kind(broker: Broker, document: bytes) -> bytes:
    filled = filled_of(broker)
    if filled is None or filled.tree[ACTIVEMQ_XML] != document:
        return kind_of(broker, document)
    words, own = _words_of(filled.mold), own_names(broker)
    # An own name of other letters may begin in one word and end in the next.
    if words is None or not _PLAIN.fullmatch("".join(own)):
        return kind_of(broker, document)
    form = words.form(filled.names, own)
    known = words.kinds.get(form)
    if known is None:
        if len(words.kinds) >= _REMEMBERED:
            words.kinds.clear()
        known = words.kinds[form] = kind_of(broker, document)
    return known


class _Words:
    """Words of the documents of one mold in which an own name may stand, and the kinds that were met."""

    def __init__(self, text: str, taken: Callable[[Sequence[str]], Any]) -> None:
        text = text.replace("%%", "\n")
        self._filled = "\n".join(_around_places(text.split("%s")))
        self._fixed = "\n".join(_like_names(text.replace("%s", "\n")))
        self._taken = taken
        self.kinds: dict[Hashable, bytes] = {}

    def form(self, names: Sequence[str], own: Sequence[str]) -> Hashable:
        """The same for brokers whose documents differ in own names only, each of which stands for one other."""
        filled = self._filled % self._taken(names)
        fixed = [name for name in own if name in self._fixed]
        if not fixed:
            return len(own), numbered(own, filled)
        if any(name in filled for name in fixed):
            return len(own), numbered(own, f"{filled}\n{self._fixed}")
        # They stand in words of the mold only, so that they are the same for all.
        return len(own), numbered([name for name in own if name not in fixed], filled), *fixed


_known: dict[Mold, _Words | None] = {}


def _words_of(mold: Mold) -> _Words | None:
    if mold not in _known:
        if len(_known) >= _REMEMBERED:
            _known.clear()
        found = mold.text_of(ACTIVEMQ_XML)
        _known[mold] = _Words(*found) if found else None
    return _known[mold]


def _around_places(pieces: Sequence[str]) -> Iterator[str]:
    """Each place of a name, with the letters that touch it; ``pieces`` is what is between the places."""
    word = ""
    for number, piece in enumerate(pieces):
        begin = _PLAIN.match(piece).end()  # type: ignore[union-attr]
        if number and begin == len(piece) and number + 1 < len(pieces):
            word += f"{piece}%s"
            continue
        if number:
            yield word + piece[:begin]
        word = piece[len(piece.rstrip(_LETTERS)) :] + "%s"


def _like_names(text: str) -> list[str]:
    words = set(text.translate(_SPACED).split())
    return [word for word in words if not word.isalpha() and ("-" in word or "." in word) and _DIGIT.search(word)]
