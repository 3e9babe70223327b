"""Define the class that describes the capabilities of a release of ActiveMQ."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal

from activemq_fleet.errors import ReleaseError
from activemq_fleet.releases._data import (
    Advisory,
    ReleasesAndAdvisories,
    load_element_and_attribute_spans,
    load_releases_and_advisories,
)
from activemq_fleet.releases._schemas import SchemasInJars, schemas_in_jars
from activemq_fleet.releases._spans import Version, VersionSpan, parse_version
from activemq_fleet.similar_names import similar_names

_RELEASE = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,4})", re.ASCII)
_MAJORS_OF_ARTEMIS = (1, 2)
_LINE = re.compile(r"(\d{1,3})(?:\.(\d{1,3}))?", re.ASCII)
_ACCEPTED_NEWER_LINES = 2
"""The number of accepted minor lines after the newest known line of a major version. Later lines are errors."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Release:
    """One release of ActiveMQ Classic, with its features.

    A release is created by :meth:`of`. Releases are compared by identity: :meth:`of` gives the same object for the same
    text, in another process too (they are pickled by their text).
    """

    text: str
    """The release as the user wrote it, such as ``5.18.3``."""
    line: str
    """The release line, such as ``5.18``."""
    version: Version
    known: bool
    """False for a release that is newer than the data files; ``warnings`` then names the data that is used."""
    warnings: tuple[str, ...]
    data_release: str
    """The release whose data is used: ``text``, or the newest known one of its line, or of the line before it."""
    gets_security_fixes: bool
    """Whether ActiveMQ's project still publishes security fixes for the release line (``[support]``)."""

    java_minimum: int
    """Feature release of Java that the bytecode needs: 5, 6, 7, 8, 11 or 17."""
    spring: str
    """Major and minor version of the Spring Framework that the release ships, such as ``5.3``."""
    jetty: str
    """Major and minor version of the Jetty that the release ships, such as ``9.4``."""
    mkahadb_rest: Literal["0", "#210"]
    """The directory of the mKahaDB store for all destinations that have no separate store."""
    schema_jar: Literal["activemq-core", "activemq-spring"]
    """Artifact whose jar holds ``activemq.xsd``."""
    start_jar: Literal["bin/run.jar", "bin/activemq.jar"]
    start_script_sets_conf: bool
    """The start script sets ``-Dactivemq.conf`` and ``-Dactivemq.data``, in addition to activemq.base and home."""
    jms_package: Literal["javax.jms", "jakarta.jms"]

    has_pure_master_slave: bool
    """masterConnector and a master that copies to it (to 5.7; AMQ-4165)."""
    data_source_class: Literal["org.apache.commons.dbcp.BasicDataSource", "org.apache.commons.dbcp2.BasicDataSource"]
    """The connection pool that the release ships for JDBC stores."""
    log_query_class: (
        Literal["org.fusesource.insight.log.log4j.Log4jLogQuery", "io.fabric8.insight.log.log4j.Log4jLogQuery", ""]
        | None
    )
    """The class of the logQuery bean, with which hawtio shows the log; empty or None where the release has none."""
    has_lock_wait_delay: bool
    """``databaseLockedWaitDelay`` on kahaDB; from 5.7 on the interval is an attribute of the locker."""
    forgets_early_bridge_failures: bool
    """A bridge that fails during its start is never reconnected (to 5.7)."""
    prefixes_duplex_filter: bool
    """The peer of a duplex link adds ``ActiveMQ.Advisory.Consumer.`` to the filter; later releases use it unchanged."""
    has_max_frame_size: bool
    """``wireFormat.maxFrameSize`` has an effect; earlier releases ignore the option without a message."""
    limits_client_frames: bool
    """``wireFormat.maxFrameSize`` limits STOMP and MQTT, too; in earlier releases, their limits are 100 and 256 MiB."""
    has_lockers: bool
    """``<locker>``, ``lockKeepAlivePeriod`` on kahaDB, ``useLock``."""
    goes_by_database_clock: bool
    """A lease locker can correct the host's clock by the database's clock; before 5.9 the correction is wrong."""
    has_adjustable_lease: bool
    """The length of the lease of a JDBC store can be configured; in 5.7 it is always 5 s."""
    has_stop_on_error: bool
    """``stopOnError`` on a store: stop when the keep-alive of its lock throws."""
    has_restart_allowed: bool
    """``restartAllowed``: a master that lost its lock restarts as standby."""
    has_ignore_no_space_errors: bool
    """``ignoreNoSpaceErrors`` on ``defaultIOExceptionHandler``."""
    lease_exception_handler: Literal["leaseLockerIOExceptionHandler", "jDBCIOExceptionHandler"] | None
    """Element that stops a broker whose lease cannot be renewed."""
    lock_keepalive_checks_file: bool
    """The keep-alive of a file lock detects that the file was deleted."""
    lock_keepalive_checks_owner: bool
    """The keep-alive of a file lock also detects that another broker wrote the file (AMQ-4705)."""
    loses_subscriptions_on_rebuild: bool
    """A kahaDB index that is built from the journal lacks messages that wait for durable subscriptions (AMQ-6131)."""
    logs_lock_wait_once: bool
    """A standby that waits for a file lock logs this once; earlier releases log each attempt."""
    has_network_start_async: bool

    kahadb_version: int
    """The version number that the release writes into the index of a KahaDB store."""
    kahadb_reads: int
    """The newest ``kahadb_version`` of a store that the release can open and continue (measured)."""
    store_openwire: int
    """OpenWire version of a new store's messages. KahaDB keeps the version of an existing store, JDBC does not."""

    has_masterslave_discovery: bool
    """The scheme ``masterslave:`` (AMQ-3564)."""
    bridge_reconnect_attempts: Literal[0, 1]
    """``maxReconnectAttempts`` with which a bridge's failover: URI makes one round of attempts (AMQ-3542)."""
    has_consumer_ttl: bool
    """``consumerTTL`` and ``messageTTL`` can be set separately (AMQ-4607)."""
    has_replay_when_no_consumers: bool
    replay_needs_audit_off: bool
    """A replayed message counts as duplicate unless the policy has ``enableAudit="false"``."""
    has_selector_aware_replay: bool
    has_runtime_configuration: bool
    """``runtimeConfigurationPlugin`` works with the release's archive alone. The element exists from 5.9 on."""
    decreases_network_priority: bool
    """``decreaseNetworkConsumerPriority`` is true by default (AMQ-5137)."""

    schemes: frozenset[str]
    """Schemes a transportConnector can listen on."""
    discovery_schemes: frozenset[str]
    """Schemes a networkConnector can name."""
    has_usable_mqtt: bool
    """The release's MQTT delivers messages. Measured on 5.6.0: MQTT accepts subscriptions and delivers nothing."""
    supports_agents: bool
    """The release's MQTT accepts several durable subscriptions of one client. An agent has one for its canaries."""
    supports_jmx_tls: bool
    """The broker's JMX connector uses the configured socket factories, so that its port can be encrypted."""
    mqtt_swaps_dots: bool
    """MQTT's ``a.b/c`` is the destination ``a/b.c``; before 5.10 it is ``a.b.c``."""
    has_nio_client_auth: bool
    """``nio+ssl`` and similar schemes refuse a client without a certificate when ``needClientAuth`` is set."""
    reads_on_after_nio_handshake: bool
    """``nio+ssl`` and similar schemes read data that a client sent together with the end of its handshake, which
    TLS 1.3 allows. Before 5.14.1 they wait for more data, so that links on which neither end sends data do not connect.
    """

    logging: Literal["log4j1", "log4j2"]
    log_file_name: Literal["log4j.properties", "log4j2.properties"]
    environment_file: Literal["etc/default", "bin/env", "bin/setenv"]
    """The file that the start script reads; to 5.10 only the one below /etc/default."""
    console_family: Literal["jetty6", "jetty7", "jetty8", "jetty9", "jetty11", "jetty12"]
    console_file: Literal["jetty.xml", "jetty-spring.xml"]
    console_accounts: Literal["realm", "jaas"]
    """Where the console's accounts are: jetty-realm.properties, or users.properties and groups.properties."""
    console_allows_csp: bool
    """The console's pages contain no inline scripts, so that a Content-Security-Policy can forbid them."""
    jolokia_policy_file: str | None
    """The path of Jolokia's policy below the release's directory; None for a release without Jolokia."""
    jmx_names: Literal["old", "new"]
    """Key style of MBean names: ``Type=Broker`` (old) or ``type=Broker`` (new)."""

    dead_attributes: frozenset[str]
    """Attributes of ``<broker>`` that the schema accepts and no code reads."""

    advisories: tuple[Advisory, ...]
    """The published vulnerabilities of the release, newest first."""
    meets_security_floor: bool
    """Whether the release is not older than the oldest release that is suitable for a new installation."""
    security_floor: str
    """The oldest release of the same major version that is suitable for a new installation."""

    distribution_available: bool
    """Whether Maven delivered the complete archive of the release in the last measurement."""
    jars_available: bool
    """Whether Maven delivered a set of jars with which a broker of the release starts, in the last measurement."""
    jar_profiles: tuple[str, ...]
    jar_properties: Mapping[str, str]
    """The properties with which broker-pom.xml of the artifacts is resolved."""
    jar_schemes: frozenset[str]
    """The schemes that a broker made of the release's jars from Maven can listen on."""

    @classmethod
    def of(cls, text: object) -> Release:
        """Return the release of ActiveMQ with the version ``text``, such as ``5.18.3``.

        A release that is newer than the data files has the data of the newest known release of its line; the next two
        lines after the newest known line of a major version have the data of that line. ``warnings`` names that
        release. Raises ReleaseError for anything else; its text names a similar release or the nearest line.
        """
        if not isinstance(text, str):
            kind = type(text).__name__
            msg = f"the release {text!r} must be text, not {kind}: write a release such as '5.18.3' in quotes"
            raise ReleaseError(msg)
        return _release_of(text)

    def __reduce__(self) -> tuple[Any, ...]:
        return Release.of, (self.text,)

    def __repr__(self) -> str:
        return f"Release.of({self.text!r})"

    def __str__(self) -> str:
        return self.text

    def supports(self, element: str, attribute: str | None = None) -> bool:
        """Return whether the release's XSD has an element, or an attribute of an element.

        ``release.supports("networkConnector", "consumerTTL")``. Answers without the XSD, for all
        elements and for the attributes of those that a fleet uses; raises KeyError when no
        release has the element, or when its attributes are not in the data.
        """
        return _has_in_schema(element, attribute, self.data_release)

    def xml_attribute_for_key(self, element: str, key: str) -> str | None:
        """Return the XML attribute of an element for a key in snake case: ``queuePrefetch`` for ``queue_prefetch``.

        The result is None when the release's element has no such attribute, or when its attributes are not in the data.
        """
        names = _attribute_names_by_lower_case_name(element).get(key.replace("_", ""), ())
        return next((name for name in names if self.supports(element, name)), None)

    @property
    def schemas_in_jars(self) -> SchemasInJars:
        """The XML schemas that the jars of the ActiveMQ release contain.

        A broker finds them without Internet access.
        """
        return schemas_in_jars(parse_version(self.data_release))

    def is_within_span(self, span: str) -> bool:
        """Return whether the release is within a span of versions.

        ``"5.6.0"`` means from 5.6 on, and ``"5.3.0 !5.8.0"`` means before 5.8.
        """
        return _is_version_within(span, self.data_release)

    def tls_scheme(self, scheme: str) -> str | None:
        """Return the TLS variant of a URI scheme in the release, such as ``nio+ssl`` for ``nio``.

        The result is None if none exists. Before 5.6, ``nio`` becomes ``ssl``, which blocks. A scheme that is TLS
        already is returned unchanged.
        """
        if scheme in {"ssl", "https", "wss"} or scheme.endswith("+ssl"):
            return scheme if scheme in self.schemes else None
        tls_variants = {"tcp": "ssl", "http": "https", "ws": "wss"}
        for candidate in (tls_variants.get(scheme, f"{scheme}+ssl"), f"{scheme.removesuffix('+nio')}+ssl"):
            if candidate in self.schemes:
                return candidate
        return "ssl" if scheme == "nio" else None


def is_element_of_any_release(name: str) -> bool:
    """Return whether the XSD of any ActiveMQ release has an element of the given name."""
    return name in load_element_and_attribute_spans().elements


def describe_releases_with(element: str, key: str | None = None) -> str:
    """Return a text that names the releases with an XML element or attribute, such as ``5.6.0 and later``.

    It is empty if no release has it.
    """
    spans = load_element_and_attribute_spans()
    if key is None:
        return spans.elements[element].versions_in_words() if element in spans.elements else ""
    name = next(iter(_attribute_names_by_lower_case_name(element).get(key.replace("_", ""), ())), None)
    return spans.attributes[element][name].versions_in_words() if name else ""


def example_release(line: str) -> str:
    """Return an example of an ActiveMQ release for a release line such as 6.3, or for a major version such as 6.

    It is the newest known one of the line. A line without data has the newest release of its major version, or the
    newest known release. YAML reads 5.10 as the number 5.1, so ``5.1`` gives a release of the line 5.10.

    >>> example_release("5.18"), example_release("5.1")
    ('5.18.7', '5.10.2')
    """
    data = load_releases_and_advisories()
    match = _LINE.fullmatch(line)
    if match is not None and match[2]:
        if _data_line(line, data):
            return _example_release_of_line(line, data)
        if f"{line}0" in data.lines:
            return data.newest_release(f"{line}0")
    newest_line = _newest_line(int(match[1]), data) if match else None
    return data.newest_release(newest_line or list(data.lines)[-1])


def _example_release_of_line(line: str, data: ReleasesAndAdvisories) -> str:
    """Return a release of a line that has data, or whose data is that of an earlier line."""
    return data.newest_release(line) if line in data.lines else f"{line}.0"


def known_release_lines() -> tuple[str, ...]:
    """Return the names of all known ActiveMQ release lines, from ``5.3`` to the newest."""
    return tuple(load_releases_and_advisories().lines)


@cache
def supported_release_lines() -> tuple[str, ...]:
    """Return the names of the supported ActiveMQ release lines, which get security fixes.

    They are such as 5.19 and 6.3, oldest first.
    """
    data = load_releases_and_advisories()
    return tuple(line for line in data.lines if line in data.supported_lines)


def releases_available_in_maven() -> tuple[Release, ...]:
    """Return the ActiveMQ releases whose jars Maven can download, oldest first.

    The tuple shows the state of the last measurement.
    """
    return tuple(
        sorted(map(Release.of, load_releases_and_advisories().jars), key=lambda release: parse_version(release.text))
    )


def releases_with_published_schema(line: str) -> tuple[Release, ...]:
    """Return the releases of a release line that have a published XML schema, newest first.

    The schema can be downloaded through Maven. The list shows the state of the last measurement.
    """
    data = load_releases_and_advisories()
    releases = (Release.of(text) for text in data.jars | data.schemas)
    return tuple(sorted((r for r in releases if r.line == line), key=lambda release: release.version, reverse=True))


@cache
def uri_schemes_of_all_releases() -> frozenset[str]:
    """Return all URI schemes of listeners, discovery agents and connections in any ActiveMQ release."""
    sets = load_releases_and_advisories().sets
    return frozenset({*sets["schemes"], *sets["discovery_schemes"], "failover", "fanout", "discovery", "mock", "peer"})


MISSPELT_ATTRIBUTES: Mapping[str, str] = {
    "advisdoryForFastProducers": "advisoryForFastProducers",
    "doOptimzeMessageStorage": "optimizeMessageStorage",
    "inactiveTimoutBeforeGC": "inactiveTimeoutBeforeGC",
}
"""The correct name of each attribute that earlier releases misspelt."""


@cache
def _attribute_names_by_lower_case_name(element: str) -> dict[str, list[str]]:
    """Return the attributes of an element by their names in lower case, the correct spelling of each first."""
    spellings_by_name: dict[str, list[str]] = {}
    for name in sorted(
        load_element_and_attribute_spans().attributes.get(element, ()), key=lambda name: name in MISSPELT_ATTRIBUTES
    ):
        spellings_by_name.setdefault(MISSPELT_ATTRIBUTES.get(name, name).lower(), []).append(name)
    return spellings_by_name


@lru_cache(maxsize=1 << 14)
def _has_in_schema(element: str, attribute: str | None, data_release: str) -> bool:
    spans = load_element_and_attribute_spans()
    span = spans.elements[element] if attribute is None else spans.attributes[element][attribute]
    return span.includes(parse_version(data_release))


@lru_cache(maxsize=1 << 14)
def _is_version_within(span: str, data_release: str) -> bool:
    return VersionSpan.parse(span).includes(parse_version(data_release))


@lru_cache(maxsize=512)
def _release_of(text: str) -> Release:
    data = load_releases_and_advisories()
    match = _RELEASE.fullmatch(text)
    version = (int(match[1]), int(match[2]), int(match[3])) if match else (0, 0, 0)
    line = f"{version[0]}.{version[1]}"
    data_line = _data_line(line, data)
    if data_line is None or text != f"{line}.{version[2]}":
        raise ReleaseError(_unknown_release_message(text, data))
    newest = parse_version(data.newest_release(data_line))
    known = version <= newest
    data_version = version if known else newest
    data_release = ".".join(map(str, data_version))
    warning = (
        f"release {text} is newer than {data_release}, the newest {data_line} release that this version of "
        f"activemq-fleet has data for: {text} is handled as {data_release}. Upgrade activemq-fleet, or check the "
        f"release notes of {text} for changes"
    )
    return Release(
        text=text,
        line=line,
        version=version,
        known=known,
        warnings=() if known else (warning,),
        data_release=data_release,
        gets_security_fixes=data_line in data.supported_lines,
        **data.release_attributes(data_line, data_version, version, text),
    )


def _data_line(line: str, data: ReleasesAndAdvisories) -> str | None:
    """Return the known line whose data apply to a line: the line itself, or the newest known one that precedes it."""
    if line in data.lines:
        return line
    major, minor = map(int, line.split("."))
    newest = _newest_line(major, data)
    is_next = newest is not None and 0 < minor - int(newest.partition(".")[2]) <= _ACCEPTED_NEWER_LINES
    return newest if is_next else None


def _newest_line(major: int, data: ReleasesAndAdvisories) -> str | None:
    return next((line for line in reversed([*data.lines]) if line.startswith(f"{major}.")), None)


def _unknown_release_message(text: str, data: ReleasesAndAdvisories) -> str:
    short_text = text if len(text) <= 30 else f"{text[:30]}…"
    match = _LINE.match(text.strip())
    if match is None:
        newest = data.newest_release(list(data.lines)[-1])
        return f"{short_text!r} is not a release of ActiveMQ: set a release such as {newest}"
    requested = int(match[1]), int(match[2] or 0)

    line = f"{requested[0]}.{requested[1]}"
    if match[2] and _data_line(line, data):
        example = _example_release_of_line(line, data)
        if re.search("[A-Za-z]", text):
            return (
                f"{short_text!r} is not a release number of Apache ActiveMQ: for a vendor's build, set the Apache "
                f"release on which it is based, such as {example}"
            )
        return f"{short_text!r} is not a release number of three parts: set a release such as {example}"
    newest_line = _newest_line(requested[0], data)
    if newest_line is not None and text.strip() == match[1]:
        newest = data.newest_release(newest_line)
        return f"{short_text!r} is not a release number of three parts: set a release such as {newest}"
    similar = _similar_release(text, data)
    if newest_line is not None and requested[1] > int(newest_line.partition(".")[2]):
        newest = data.newest_release(newest_line)
        if similar and _is_mistyped(text, similar):
            hint = f"did you mean {similar}? The newest known release of {requested[0]}.x is {newest}"
        else:
            hint = f"the newest release line of {requested[0]}.x is {newest_line}. Set a release such as {newest}"
        return f"ActiveMQ has no release line {line}: {hint}"
    if similar and sorted(similar) == sorted(text):
        return f"release {short_text!r} is not known: did you mean {similar}?"
    if newest_line is None:
        return _unsupported_major_version_message(short_text, requested[0], data)
    lines = [known_line for known_line in data.lines if known_line.startswith(f"{requested[0]}.")]
    nearest = min(lines, key=lambda known_line: abs(int(known_line.partition(".")[2]) - requested[1]))
    return (
        f"release {short_text!r} is not known: set a known release; the nearest one is {data.newest_release(nearest)}"
    )


def _unsupported_major_version_message(short_text: str, major: int, data: ReleasesAndAdvisories) -> str:
    """Return the error text for a release whose major version no known release has."""
    known_lines = [*data.lines]
    supported = " and ".join(dict.fromkeys(f"{line.partition('.')[0]}.x" for line in known_lines))
    if major in _MAJORS_OF_ARTEMIS:
        reason = f"{major}.x is Apache Artemis, another broker, which is not supported"
    else:
        reason = f"{major}.x is not supported"
    return (
        f"release {short_text!r} is not known: {reason}. Set a release of ActiveMQ Classic ({supported}), "
        f"such as {data.newest_release(known_lines[-1])}"
    )


def _is_mistyped(text: str, release: str) -> bool:
    """Return whether a text is a release with its digits in another order, or with one digit too many."""
    return sorted(text) == sorted(release) or any(
        f"{text[:index]}{text[index + 1 :]}" == release for index in range(len(text))
    )


def _similar_release(text: str, data: ReleasesAndAdvisories) -> str | None:
    """Return the known release that is most similar to a text, one with the same digits first; None without one."""
    known_releases = [
        f"{line}.{patch}" for line in reversed([*data.lines]) for patch in range(data.lines[line].last_patch + 1)
    ]
    similar = similar_names(text, known_releases, certain=True)
    return next((release for release in similar if sorted(release) == sorted(text)), next(iter(similar), None))
