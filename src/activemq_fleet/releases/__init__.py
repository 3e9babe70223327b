"""The capabilities and vulnerabilities of each ActiveMQ Classic release, from data files, as :class:`Release`.

Only this package compares version strings.
"""

from __future__ import annotations

from activemq_fleet.releases._data import Advisory, BeanClass, bean_class
from activemq_fleet.releases._release import (
    MISSPELT_ATTRIBUTES,
    Release,
    every_scheme,
    known_lines,
    releases_to_download,
    releases_with,
    releases_with_schema,
    supported_lines,
    was_element,
)
from activemq_fleet.releases._schemas import BEANS, CORE, XBEAN

__all__ = [
    "BEANS",
    "CORE",
    "MISSPELT_ATTRIBUTES",
    "XBEAN",
    "Advisory",
    "BeanClass",
    "Release",
    "bean_class",
    "every_scheme",
    "known_lines",
    "releases_to_download",
    "releases_with",
    "releases_with_schema",
    "supported_lines",
    "was_element",
]
