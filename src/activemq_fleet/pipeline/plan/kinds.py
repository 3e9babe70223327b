"""Variables that differ only in names that stand in them: read once, with marks where those stand. Pure.

Of a fleet that was made by a program many groups say the same, but for their own name in accounts, destinations,
links and the like, and many pairs but for theirs in the URL of a database. Whether such a text is as it should be does
not hang on the name, where

- the name is a word that each of those values may hold anywhere, and so is the mark; neither ``activemq_`` nor the name
  of an account that releases ship has the name in it;
- it stands in those values only (``_PLACES``), in which nothing is looked for but characters that no name has;
- names in place of the marks give back the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from activemq_fleet import shipped
from activemq_fleet.inventory import PREFIX
from activemq_fleet.settings import Settings

_MARKS = ("qzzzzzzzx", "jzzzzzzzk")
_NAME = re.compile(r"[a-z][a-z0-9-]*[a-z0-9]")
_PLACES: Mapping[str, tuple[str, ...]] = {
    "users": ("name",),
    "acl": ("destination",),
    "links": ("from", "to", "include", "exclude"),
    "extra_files": ("content",),
}
_ATTRIBUTES = {"from": "source"}
_DIALS = (":", "=")  # what a text has that names hosts or other groups


Words = tuple[str, ...]


def words_in(text: str, host: str) -> Words:
    """What a text may have of a host's name: that of its pair, and that of its group, so far as it has them."""
    label = host.partition(".")[0]
    words = label.rpartition("-")[0], label.partition("-mq")[0]
    return tuple(word for word in words if word and word in text and _may_be(word))


@lru_cache(maxsize=4096)
def _may_be(name: str) -> bool:
    taken = (PREFIX, *(account for account, _ in shipped.PASSWORDS))
    return bool(_NAME.fullmatch(name)) and not any(name in word for word in taken)


def marked(text: str, words: Words) -> str | None:
    """A text with marks in place of words; None where there are none, or they may not be told from others."""
    found = text
    for word, mark in zip(words, _MARKS, strict=False):
        found = found.replace(word, mark)
    return found if words and named(found, words) == text else None


def named(text: str, words: Words) -> str:
    """The text of a marked one."""
    for word, mark in reversed([*zip(words, _MARKS, strict=False)]):
        text = text.replace(mark, word)
    return text


def is_marked(text: str) -> bool:
    """Whether some mark stands in a text."""
    return any(mark in text for mark in _MARKS)


def is_kind(text: str, variables: Mapping[str, Any]) -> bool:
    """Whether marks stand in a text of variables only where names do not matter."""
    values = [*_values(variables)]
    return all(text.count(mark) == sum(value.count(mark) for value in values) for mark in _MARKS)


def _values(variables: Mapping[str, Any]) -> Iterator[str]:
    for name, keys in _PLACES.items():
        entries = variables.get(PREFIX + name)
        for entry in entries if isinstance(entries, list) else ():
            found = [entry.get(key) for key in keys] if isinstance(entry, dict) else []
            for value in found:
                yield from _texts(value) if name != "extra_files" else _silent(value)
    database = variables.get(PREFIX + "jdbc")
    if isinstance(database, dict):
        yield from _texts(database.get("url"))


def _texts(value: Any) -> list[str]:
    every = value if isinstance(value, list) else [value]
    return [one for one in every if isinstance(one, str)]


def _silent(value: Any) -> list[str]:
    return [text for text in _texts(value) if not any(sign in text for sign in _DIALS)]


def settings_of(kind: Settings, words: Words) -> Settings:
    """Settings with words where those of a kind have marks."""
    changed: dict[str, Any] = {}
    for field, keys in _PLACES.items():
        entries = getattr(kind, field)
        renamed = tuple(_renamed(entry, keys, words) for entry in entries)
        if any(one is not other for one, other in zip(entries, renamed, strict=True)):
            changed[field] = renamed
    if kind.jdbc is not None:
        changed["jdbc"] = _renamed(kind.jdbc, ("url",), words)
    return kind.model_copy(update=changed)


def _renamed(entry: Any, keys: tuple[str, ...], words: Words) -> Any:
    found = {key: getattr(entry, key) for key in (_ATTRIBUTES.get(key, key) for key in keys)}
    changed = {key: _with(value, words) for key, value in found.items()}
    different = {key: value for key, value in changed.items() if value != found[key]}
    return entry.model_copy(update=different) if different else entry


def _with(value: Any, words: Words) -> Any:
    return named(value, words) if isinstance(value, str) else tuple(named(text, words) for text in value)
