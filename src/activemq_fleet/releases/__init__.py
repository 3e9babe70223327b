"""The capabilities and vulnerabilities of each ActiveMQ Classic release, from data files, as :class:`Release`.

Only this package compares version strings.
"""

from __future__ import annotations

from activemq_fleet.releases._data import Advisory, SpringBeanClass, bean_class_data_if_known
from activemq_fleet.releases._release import (
    MISSPELT_ATTRIBUTES,
    Release,
    describe_releases_with,
    example_release,
    is_element_of_any_release,
    known_release_lines,
    releases_available_in_maven,
    releases_with_published_schema,
    supported_release_lines,
    uri_schemes_of_all_releases,
)
from activemq_fleet.releases._schemas import BEANS, CORE, XBEAN
from activemq_fleet.releases._spans import parse_version, version_range_in_words

__all__ = [
    "BEANS",
    "CORE",
    "MISSPELT_ATTRIBUTES",
    "XBEAN",
    "Advisory",
    "Release",
    "SpringBeanClass",
    "bean_class_data_if_known",
    "describe_releases_with",
    "example_release",
    "is_element_of_any_release",
    "known_release_lines",
    "parse_version",
    "releases_available_in_maven",
    "releases_with_published_schema",
    "supported_release_lines",
    "uri_schemes_of_all_releases",
    "version_range_in_words",
]
