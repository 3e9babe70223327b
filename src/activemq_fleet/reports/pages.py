"""Render HTML pages from the templates next to this module; every value in them is escaped."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from activemq_fleet.audit.evidence import short_name
from activemq_fleet.documentation_links import rule_address_or_command
from activemq_fleet.node.printable import count_with_noun, escape_unprintable


def render_html_page(template: str, **values: Any) -> str:
    """Render a template of this package as an HTML page.

    The template gets the given values.
    """
    return ENVIRONMENT.get_template(template).render(values)


def _seconds_text(value: float | None) -> str:
    """Return a number of seconds as text.

    The text is a dash for None.
    """
    return "–" if value is None else f"{value:.1f} s"


def utc_time_text(at: datetime | float, form: str = "%d %b %H:%M:%S") -> str:
    """Return a time in UTC as text in a ``strftime`` format, by default such as ``05 Nov 14:30:00``.

    ``at`` may be a datetime or seconds since the epoch.
    """
    return (at if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)).astimezone(UTC).strftime(form)


def duration_text(value: float | None) -> str:
    """Return a duration, given in seconds, as text with a suitable unit, such as ``340 ms``; a dash for None.

    The unit is ms, s, min or h.
    """
    if value is None:
        return "–"
    if value < 0.9995:
        return f"{value * 1000:.3g} ms"
    if value < 120:
        return f"{value:.3g} s"
    return f"{value / 60:.3g} min" if value < 7200 else f"{value / 3600:.3g} h"


def _time_with_milliseconds(at: datetime) -> str:
    return utc_time_text(at, "%d %b %H:%M:%S.%f")[:-3]


def _escape_if_plain_text(value: Any) -> Any:
    """Return text with its control and invisible characters escaped; other values are returned unchanged."""
    return escape_unprintable(value, lines=True) if isinstance(value, str) and not isinstance(value, Markup) else value


ENVIRONMENT = Environment(
    loader=PackageLoader("activemq_fleet.reports"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_escape_if_plain_text,
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.filters.update(
    seconds=_seconds_text,
    duration=duration_text,
    moment=utc_time_text,
    clock=_time_with_milliseconds,
    number="{:,}".format,
    count_with_noun=count_with_noun,
    short_name=short_name,
    rule_reference=rule_address_or_command,
)
