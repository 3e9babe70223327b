"""Settings that differ in a pair's own database only. Pure.

With ``activemq_ha: shared-jdbc`` each pair of a group says a URL of its own, and so has settings of
its own. What does not look at that URL need be made once for all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from activemq_fleet.alike import Alike
from activemq_fleet.settings import JdbcSettings, Settings

_known: Alike[Settings] = Alike(most=1024)  # each pair has its own
_firsts: deque[Settings] = deque(maxlen=8)


def but_for_database(settings: Settings) -> Settings:
    """The first of the settings seen lately that differ from these in ``activemq_jdbc.url`` at most."""
    return settings if settings.jdbc is None else _known.get(lambda: _first_like(settings), settings)


def with_database(settings: Settings, database: Mapping[str, Any]) -> Settings | None:
    """The settings with another ``activemq_jdbc``; None where that is not as it should be, which is to be told."""
    try:
        return settings.model_copy(update={"jdbc": JdbcSettings.model_validate(database)})
    except ValidationError:
        return None


def _first_like(settings: Settings) -> Settings:
    for first in _firsts:
        if _are_alike(first, settings):
            return first
    _firsts.append(settings)
    return settings


def _are_alike(one: Settings, other: Settings) -> bool:
    if one.jdbc is None or other.jdbc is None:
        return False
    return _are_equal_but_for(one, other, "jdbc") and _are_equal_but_for(one.jdbc, other.jdbc, "url")


def _are_equal_but_for(one: BaseModel, other: BaseModel, field: str) -> bool:
    """As ``==`` of models, of which dictionaries are quick to compare."""
    if one.model_fields_set != other.model_fields_set:
        return False
    return one.__dict__ | {field: None} == other.__dict__ | {field: None}
