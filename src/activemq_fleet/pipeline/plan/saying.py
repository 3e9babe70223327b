"""What a text of variables says, whoever's they are: settings, release, and what concerns other groups. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any
from zlib import crc32

from activemq_fleet.errors import ReleaseError, SettingsError
from activemq_fleet.likeness import with_database
from activemq_fleet.pipeline.plan.kinds import Words, is_kind, marked, named, settings_of, words_in
from activemq_fleet.pipeline.plan.records import PATTERN, variables_of
from activemq_fleet.releases import Release
from activemq_fleet.settings import Settings, read_settings

# Problems by the order in which they are told: a kind is told only when there is none before it.
INPUT, SETTINGS, NO_RELEASE, RELEASE = "1", "2", "3", "4"
MULTICAST = "group:"
"""What stands before a name under which brokers find each other."""

_REMEMBERED, _FEW = 4096, 64
_NOBODY = "?"
_PLACE = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9_.-]+)):[0-9]+")
_GROUP = re.compile(r"\bgroup=([^&;\"'\s)]+)")
_DATABASE, _ELSEWHERE = "activemq_jdbc", "\0"  # which no JSON holds
_with_databases: dict[str, Said] = {}


@dataclass(frozen=True)
class Said:
    """What variables say, whoever's they are. ``like`` are the settings, with marks (``kinds``) for ``words``."""

    like: Settings | None
    problems: tuple[str, ...] = ()
    release: Release | None = None
    links: str | None = None
    waivers: str | None = None
    dialled: tuple[str, ...] = ()
    announced: tuple[str, ...] = ()
    words: Words = ()
    kind: int = 0  # the same for texts that differ in words only; 0 where they may differ in more

    @cached_property
    def settings(self) -> Settings | None:
        """None where there are problems with them."""
        return settings_of(self.like, self.words) if self.like is not None and self.words else self.like

    def named(self, text: str) -> str:
        """A text of ``like`` with the words."""
        return named(text, self.words) if self.words else text


def said(variables: str, host: str = "") -> Said:
    """What a text of ``records.text_of`` holds. Texts that differ only in words of the ``host`` are read once."""
    return said_with(variables, words_in(variables, host))


@lru_cache(maxsize=_REMEMBERED)
def said_with(variables: str, words: Words) -> Said:
    """The same, given the words."""
    text = marked(variables, words)
    found = None if text is None else said_as(text, words)
    if found is not None:
        return found
    found = _said(variables)
    return found if words or found.release is None else replace(found, kind=_number(variables))


def said_as(text: str, words: Words) -> Said | None:
    """What a marked text says with words; None where that may hang on them."""
    kind = _kind(text)
    return kind and replace(kind, words=words, links=kind.links and named(kind.links, words))


@lru_cache(maxsize=_REMEMBERED)
def _kind(text: str) -> Said | None:
    """With marks."""
    try:
        variables = json.loads(text)
    except ValueError:  # a name that is part of what escapes a letter
        return None
    if not is_kind(text, variables):
        return None
    found = _said(text)
    return None if found.release is None else replace(found, kind=_number(text))


def _number(text: str) -> int:
    return crc32(text.encode()) or 1


def _said(variables: str) -> Said:
    found = variables_of(variables)
    found.pop(PATTERN, None)
    database = found.get(_DATABASE)
    if not isinstance(database, dict):
        return _read(found)
    url = json.dumps(database.get("url"))
    if variables.count(url) != 1:
        return _read(found)
    # Pairs with databases of their own have texts that differ in this one place, and settings that differ in it.
    but_for_url = variables.replace(url, _ELSEWHERE)
    first = _with_databases.get(but_for_url)
    if first is not None and first.like is not None:
        settings = with_database(first.like, database)
        if settings is not None:
            return replace(first, like=settings)
    if len(_with_databases) >= _FEW:
        _with_databases.clear()
    _with_databases[but_for_url] = first = _read(found)
    return first


def _read(variables: Mapping[str, Any]) -> Said:
    try:
        settings = read_settings(_NOBODY, variables)
    except SettingsError as error:
        return Said(None, tuple(SETTINGS + problem.removeprefix(f"{_NOBODY}: ") for problem in error.problems))
    release: Release | None = None
    problems: tuple[str, ...] = ()
    if settings.release is not None:
        try:
            release = Release.of(settings.release)
        except ReleaseError as error:
            problems = (f"{RELEASE}{error}",)
    texts = _texts(settings)
    return Said(
        settings,
        problems,
        release,
        _json([link.model_dump(mode="json", by_alias=True) for link in settings.links]),
        _json([waiver.model_dump(mode="json") for waiver in settings.waivers]),
        tuple(dict.fromkeys((bracketed or name).lower() for bracketed, name in _PLACE.findall(texts))),
        tuple(dict.fromkeys(MULTICAST + name for name in _GROUP.findall(texts))) if "multicast:" in texts else (),
    )


def _texts(settings: Settings) -> str:
    """All that the user wrote himself, in which any host of the fleet may be named."""
    parts = [*settings.java_options, *settings.broker_attributes.values()]
    parts += [fragment.xml for fragment in settings.xml_fragments]
    parts += [file.content for file in settings.extra_files]
    return "\n".join(map(str, parts))


def _json(found: list[Any]) -> str | None:
    return json.dumps(found) if found else None
