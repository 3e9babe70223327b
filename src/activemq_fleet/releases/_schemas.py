"""Determine the XML schemas that a release finds in its own jars, from the data file schemas.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Any

from activemq_fleet.releases._spans import Version, VersionSpan

BEANS = "http://www.springframework.org/schema/beans"
CORE = "http://activemq.apache.org/schema/core"
# XBean's namespace, which an element around a broker can use instead of Spring's.
XBEAN = "http://xbean.apache.org/schemas/spring/1.0"
_SPRING_SCHEMA_ADDRESS = re.compile(
    r"(?P<scheme>https?)://www\.springframework\.org/schema/(?P<name>[a-z]+)/spring-(?P<file>\S+)\.xsd"
)
_CORE_FILE = re.compile(re.escape(CORE) + r"/activemq-core(?:-(\d+\.\d+\.\d+))?\.xsd")
_SPRING_NAMESPACE = "http://www.springframework.org/schema/"
_XBEAN_FILE = re.compile(r"classpath\*?:/?org/apache/xbean/spring/spring-beans\.xsd")
SpringVersion = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SchemasInJars:
    """The XML schemas in the jars of one ActiveMQ release.

    ``core`` are the versions of ActiveMQ's schema that a document may name, ``spring`` is the newest version of
    Spring's. ``https``: an address may also begin with https:. ``one_for_all``: an address with an older version of
    Spring's schema means the newest. ``since``: the Spring version that brought each schema.
    """

    core: frozenset[str]
    spring: SpringVersion
    https: bool
    one_for_all: bool
    since: Mapping[str, SpringVersion]

    def has_schema_of_namespace(self, namespace: str) -> bool:
        """Return whether the jars of an ActiveMQ release contain any schema of an XML namespace."""
        name = namespace.removeprefix(_SPRING_NAMESPACE)
        is_spring = namespace.startswith(_SPRING_NAMESPACE) and self.since.get(name, (99, 0)) <= self.spring
        return is_spring or namespace in {CORE, XBEAN}

    def has_schema_at(self, namespace: str, address: str) -> bool:
        """Return whether the jars of an ActiveMQ release contain an XML namespace's schema for the given address (URL).

        The address is from ``xsi:schemaLocation``.
        """
        if namespace == XBEAN:
            return _XBEAN_FILE.fullmatch(address) is not None
        if namespace.startswith(_SPRING_NAMESPACE):
            name = namespace.removeprefix(_SPRING_NAMESPACE)
            return self._spring_version(name, address) is not None
        return namespace == CORE and self._has_core_schema_at(address)

    def versionless_schema_address(self, namespace: str) -> str:
        """Return the versionless URL of the schema of an XML namespace, or "" if the jars do not contain the schema.

        The address is for ``xsi:schemaLocation``, and is valid in every release with this schema.
        """
        if namespace == XBEAN:
            return "classpath:/org/apache/xbean/spring/spring-beans.xsd"
        if not self.has_schema_of_namespace(namespace):
            return ""
        if namespace == CORE:
            return f"{CORE}/activemq-core.xsd"
        return f"{namespace}/spring-{namespace.removeprefix(_SPRING_NAMESPACE)}.xsd"

    def spring_beans_schema_version_at_address(self, address: str) -> SpringVersion | None:
        """Return the version of Spring's beans schema that the jars of this release have for an address.

        It is a tuple of major and minor version, and may be newer than the version in the address. The result is None
        if the jars have no beans schema for the address.
        """
        return self._spring_version("beans", address)

    def _has_core_schema_at(self, address: str) -> bool:
        if re.fullmatch(r"classpath\*?:/?activemq\.xsd", address):
            return True
        if self.https and address.startswith("https:"):
            address = f"http:{address.removeprefix('https:')}"
        match = _CORE_FILE.fullmatch(address)
        return match is not None and (match[1] is None or match[1] in self.core)

    def _spring_version(self, name: str, address: str) -> SpringVersion | None:
        match = _SPRING_SCHEMA_ADDRESS.fullmatch(address)
        if match is None or match["name"] != name or (match["scheme"] == "https" and not self.https):
            return None
        if match["file"] == name:
            return self.spring
        version = re.fullmatch(rf"{name}-(\d)\.(\d)", match["file"])
        spring_version = (int(version[1]), int(version[2])) if version else None
        if (
            spring_version is None
            or spring_version not in _SPRING_VERSIONS
            or not self.since.get(name, (99, 0)) <= spring_version <= self.spring
        ):
            return None
        return self.spring if self.one_for_all else spring_version


_SPRING_VERSIONS = frozenset({(2, 0), (2, 5), (3, 0), (3, 1), (3, 2), (4, 0), (4, 1), (4, 2), (4, 3)})


def _parse_spring_version(text: str) -> SpringVersion:
    major, minor = text.split(".")
    return int(major), int(minor)


@cache
def schemas_in_jars(version: Version) -> SchemasInJars:
    """Return the XML schemas in the jars of the ActiveMQ release with the given version.

    The data file is read on first use.
    """
    spring = _load_schema_data()["spring"]
    newest = [name for name, span in spring["newest"].items() if VersionSpan.parse(span).includes(version)]
    core = (
        versions.split()
        for span, versions in _load_schema_data()["core"].items()
        if VersionSpan.parse(span).includes(version)
    )
    return SchemasInJars(
        core=frozenset(chain.from_iterable(core)),
        spring=_parse_spring_version(newest[-1]) if newest else (2, 5),
        https=VersionSpan.parse(spring["https"]).includes(version),
        one_for_all=VersionSpan.parse(spring["one_for_all"]).includes(version),
        since={name: _parse_spring_version(text) for text, names in spring["since"].items() for name in names.split()},
    )


@cache
def _load_schema_data() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("schemas.toml").read_text("utf-8"))
