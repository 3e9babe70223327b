"""What a text of variables says, whoever's they are: settings, release, and what concerns other groups. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from activemq_fleet.errors import ReleaseError, SettingsError
from activemq_fleet.releases import Release
from activemq_fleet.settings.broker import Settings, read_settings
from activemq_fleet.spark.plan.records import PATTERN, variables_of

# Problems by the order in which they are told: a kind is told only when there is none before it.
INPUT, SETTINGS, NO_RELEASE, RELEASE = "1", "2", "3", "4"
MULTICAST = "group:"
"""What stands before a name under which brokers find each other."""

_REMEMBERED = 4096
_NOBODY = "?"
_PLACE = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9_.-]+)):[0-9]+")
_GROUP = re.compile(r"\bgroup=([^&;\"'\s)]+)")


@dataclass(frozen=True)
class Said:
    """What variables say, whoever's they are. ``settings`` are None where there are problems with them."""

    settings: Settings | None
    problems: tuple[str, ...] = ()
    release: Release | None = None
    links: str | None = None
    waivers: str | None = None
    dialled: tuple[str, ...] = ()
    announced: tuple[str, ...] = ()


@lru_cache(maxsize=_REMEMBERED)
def said(text: str) -> Said:
    """What a text of ``records.text_of`` holds."""
    variables = variables_of(text)
    variables.pop(PATTERN, None)
    return _read(variables)


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
