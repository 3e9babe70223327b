"""The capabilities and vulnerabilities of each ActiveMQ Classic release, from data files, as :class:`Release`.

Nothing else in the project compares version strings.
"""

from __future__ import annotations

from activemq_fleet.releases._data import Advisory, BeanClass, load_bean_classes
from activemq_fleet.releases._release import (
    Release,
    every_scheme,
    known_lines,
    releases_to_download,
    releases_with,
    releases_with_schema,
)
from activemq_fleet.releases._schemas import BEANS, CORE, XBEAN

__all__ = [
    "BEANS",
    "CORE",
    "XBEAN",
    "Advisory",
    "BeanClass",
    "Release",
    "every_scheme",
    "known_lines",
    "load_bean_classes",
    "releases_to_download",
    "releases_with",
    "releases_with_schema",
]
