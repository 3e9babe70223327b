"""Read releases.toml and advisories.toml once, and return their data for one version."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from activemq_fleet.releases._spans import Version, VersionSpan

_NUMBERS = ("bridge_reconnect_attempts", "kahadb_version", "kahadb_reads", "store_openwire")


@dataclass(frozen=True, slots=True)
class ReleaseLine:
    """A release line of ActiveMQ, such as 5.18.

    It has its newest patch number, and the software it contains or requires.
    """

    last_patch: int
    java: int
    console_family: str


@dataclass(frozen=True, slots=True)
class Advisory:
    """A published vulnerability of ActiveMQ.

    It has its CVE, the possible harm, the releases that fix it, and the source. ``severity`` is ``critical``,
    ``important``, ``moderate`` or ``low``.
    """

    cve: str
    severity: str
    what: str
    fixed_in: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class ReleasesAndAdvisories:
    """The data about ActiveMQ releases and their vulnerabilities, from releases.toml and advisories.toml.

    Spans of versions are parsed.
    """

    lines: Mapping[str, ReleaseLine]
    supported_lines: frozenset[str]
    support_date: date
    jars: frozenset[str]
    schemas: frozenset[str]
    distributions: frozenset[str]
    has: Mapping[str, VersionSpan]
    choices: Mapping[str, Mapping[str, VersionSpan]]
    sets: Mapping[str, Mapping[str, VersionSpan]]
    jar_properties: Mapping[str, Mapping[str, VersionSpan]]
    one_jar: Mapping[str, str]
    no_jar_schemes: frozenset[str]
    no_jar_amqp: frozenset[str]
    dead: Mapping[str, VersionSpan]
    advisories: tuple[tuple[Advisory, VersionSpan, VersionSpan], ...]

    def newest_release(self, line: str) -> str:
        """Return the newest known release of a release line such as 5.18."""
        return f"{line}.{self.lines[line].last_patch}"

    def release_attributes(self, line: str, version: Version, release_version: Version, text: str) -> dict[str, Any]:
        """Return the attributes of a :class:`Release`, by name, that the package's data files contain for a version.

        ``version`` is the one whose data is used, ``release_version`` the release's own: a patch that is newer than
        all known ones has the fixes that are published for it.
        """
        release_line = self.lines[line]
        attributes: dict[str, Any] = {
            "java_minimum": release_line.java,
            "console_family": release_line.console_family,
            "jars_available": text in self.jars,
            "distribution_available": text in self.distributions,
        }
        for name, span in self.has.items():
            attributes[name] = span.includes(version)
        for name, options in self.choices.items():
            attributes[name] = _last_choice(options, version)
        for name, options in self.sets.items():
            attributes[name] = frozenset(value for value, span in options.items() if span.includes(version))
        attributes |= {name: int(attributes[name]) for name in _NUMBERS}
        attributes["dead_attributes"] = frozenset(name for name, span in self.dead.items() if span.includes(version))
        attributes["advisories"] = tuple(
            advisory
            for advisory, affected, fixed in self.advisories
            if affected.includes(release_version) and not fixed.includes(release_version)
        )
        attributes["meets_security_floor"] = self.has["meets_security_floor"].includes(release_version)
        floors = self.has["meets_security_floor"].first_versions_of_release_lines()
        attributes["security_floor"] = next(floor for floor in floors if floor.startswith(f"{version[0]}."))
        return attributes | self._jar_attributes(version, text, attributes)

    def _jar_attributes(self, version: Version, text: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
        properties = {name: _last_choice(options, version) for name, options in self.jar_properties.items()}
        properties |= {"activemq.version": text, "jaas.version": self.one_jar.get(text)}
        if text in self.one_jar:
            parts: tuple[str, ...] = ("all",)
        elif attributes["schema_jar"] == "activemq-core":
            parts = ("core",)
        else:
            parts = ("modules",) if text in self.no_jar_amqp else ("modules", "amqp")
        missing = self.no_jar_schemes
        if text in self.no_jar_amqp:
            missing |= {scheme for scheme in attributes["schemes"] if scheme.startswith("amqp")}
        return {
            "jar_profiles": (*parts, attributes["logging"]),
            "jar_properties": MappingProxyType({name: value for name, value in properties.items() if value}),
            "jar_schemes": attributes["schemes"] - missing,
        }


def _last_choice(options: Mapping[str, VersionSpan], version: Version) -> str | None:
    return next((value for value, span in reversed([*options.items()]) if span.includes(version)), None)


def _spans(table: Mapping[str, str]) -> dict[str, VersionSpan]:
    return {name: VersionSpan.parse(text) for name, text in table.items()}


def _parse_advisory(fixed: str, since: str = "5.3.0", **texts: str) -> tuple[Advisory, VersionSpan, VersionSpan]:
    span = VersionSpan.parse(fixed)
    return Advisory(fixed_in=span.first_versions_of_release_lines(), **texts), VersionSpan.parse(since), span


def _read_toml(name: str) -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath(name).read_text("utf-8"))


@cache
def load_releases_and_advisories() -> ReleasesAndAdvisories:
    """Return the data about ActiveMQ releases and their vulnerabilities, loaded from the package's data files.

    The files are releases.toml and advisories.toml. They are read once per process (5 ms).
    """
    raw = _read_toml("releases.toml")
    return ReleasesAndAdvisories(
        lines={name: ReleaseLine(**line_data) for name, line_data in raw["lines"].items()},
        supported_lines=frozenset(raw["support"]["lines"].split()),
        support_date=raw["support"]["as_of"],
        jars=frozenset(raw["artifacts"]["jars"].split()),
        schemas=frozenset(raw["artifacts"]["schemas"].split()),
        distributions=frozenset(raw["artifacts"]["distributions"].split()),
        has=_spans(raw["has"]),
        choices={name: _spans(options) for name, options in raw["choices"].items()},
        sets={name: _spans(options) for name, options in raw["sets"].items()},
        jar_properties={name: _spans(options) for name, options in raw["jars"]["properties"].items()},
        one_jar=raw["jars"]["one_jar"],
        no_jar_schemes=frozenset(raw["jars"]["without"]["schemes"].split()),
        no_jar_amqp=frozenset(raw["jars"]["without"]["amqp"].split()),
        dead=_spans(raw["dead"]),
        advisories=tuple(_parse_advisory(**entry) for entry in _read_toml("advisories.toml")["advisories"]),
    )


@dataclass(frozen=True, slots=True)
class SpringBeanClass:
    """A Java class that a Spring bean in an ``activemq.xml`` may name.

    It has the releases that contain it, its properties, and their other names. ``releases``: a span. ``instead``: the
    class to write in other releases. ``properties``: the properties of all these releases, ``since``: those of some, by
    span; both are empty where the properties are not known. A text cannot be converted to those in ``not_from_text``.
    ``renamed``: the names here of properties of the other class.
    """

    releases: str
    instead: str
    properties: frozenset[str] = frozenset()
    since: Mapping[str, frozenset[str]] = field(default_factory=dict)
    not_from_text: frozenset[str] = frozenset()
    renamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def are_properties_known(self) -> bool:
        """Whether the properties of the Java class are known.

        Otherwise only the names in ``renamed`` are known to be wrong.
        """
        return bool(self.properties or self.since)

    def spans_of_property(self, name: str) -> tuple[str, ...]:
        """Return the ranges of ActiveMQ releases, as texts, in which the bean's Java class has a property.

        The result is () if no release has it.
        """
        if name in self.properties:
            return (self.releases,)
        return tuple(span for span, names in self.since.items() if name in names)


@cache
def _bean_classes() -> Mapping[str, SpringBeanClass]:
    entries = _read_toml("bean_classes.toml")
    return {name: _parse_bean_class(entry, entries.get(entry.get("like", ""), {})) for name, entry in entries.items()}


def _parse_bean_class(entry: Mapping[str, Any], inherited: Mapping[str, Any]) -> SpringBeanClass:
    since: dict[str, frozenset[str]] = {}
    for source in (inherited, entry):
        for span, names in source.get("since", {}).items():
            since[span] = since.get(span, frozenset()) | frozenset(names.split())
    return SpringBeanClass(
        releases=entry["releases"],
        instead=entry["instead"],
        properties=frozenset(f"{inherited.get('properties', '')} {entry.get('properties', '')}".split()),
        since=since,
        not_from_text=frozenset(entry.get("not_from_text", "").split()),
        renamed=inherited.get("renamed", {}) | entry.get("renamed", {}),
    )


@lru_cache(maxsize=1024)
def bean_class_data_if_known(class_name: str) -> SpringBeanClass | None:
    """Return data about a Spring bean's Java class (its releases and properties) as SpringBeanClass; None if unknown.

    They are from bean_classes.toml, and may be those of the class's package.
    """
    classes = _bean_classes()
    bean_class = classes.get(class_name)
    package = class_name.rpartition(".")[0]
    while bean_class is None and package:
        bean_class = classes.get(f"{package}.*")
        if bean_class is not None and bean_class.instead:
            instead = bean_class.instead.removesuffix("*").rstrip(".") + class_name.removeprefix(package)
            return replace(bean_class, instead=instead)
        package = package.rpartition(".")[0]
    return bean_class


@dataclass(frozen=True, slots=True)
class ElementAndAttributeSpans:
    """The spans of ActiveMQ versions in which each element and attribute of ``activemq.xsd`` exists."""

    elements: Mapping[str, VersionSpan]
    attributes: Mapping[str, Mapping[str, VersionSpan]]


@cache
def load_element_and_attribute_spans() -> ElementAndAttributeSpans:
    """Return the spans of ActiveMQ versions in which each element and attribute of ``activemq.xsd`` exists.

    They are in attributes.toml. The file is read on first use (3 ms).
    """
    raw = _read_toml("attributes.toml")
    tables = {element: _spans_by_name(spans) for element, spans in raw["attributes"].items()}
    return ElementAndAttributeSpans(_spans_by_name(raw["elements"]), tables)


def _spans_by_name(spans: Mapping[str, str]) -> dict[str, VersionSpan]:
    return {name: VersionSpan.parse(text) for text, names in spans.items() for name in names.split()}
