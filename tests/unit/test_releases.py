"""Releases of ActiveMQ: parsing, facts, schema attributes and advisories."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activemq_fleet.errors import ReleaseError
from activemq_fleet.releases import Release, describe_releases_with, example_release, known_release_lines
from activemq_fleet.releases._data import load_element_and_attribute_spans, load_releases_and_advisories
from activemq_fleet.releases._spans import VersionSpan, parse_version, version_range_in_words

MEASURED = ["5.5.1", "5.6.0", "5.7.0", "5.8.0", "5.11.4", "5.15.16", "5.16.7", "5.17.6", "5.18.3", "6.2.7", "6.3.1"]


def includes(span: str, release: str) -> bool:
    return VersionSpan.parse(span).includes(parse_version(release))


@pytest.mark.parametrize(
    ("first", "end", "words"),
    [
        ("5.13.0", "5.18.5", "5.13.0 to 5.18.4"),
        ("5.6.0", "5.10.0", "5.6.0 to 5.9.x"),
        ("5.19.6", "6.0.0", "5.19.6 and later 5.x"),
        ("6.3.0", "6.3.1", "6.3.0"),
    ],
)
def test_version_range_names_its_last_versions(first: str, end: str, words: str) -> None:
    assert version_range_in_words(first, parse_version(end)) == words


def test_known_patch_release_has_no_warning() -> None:
    release = Release.of("5.18.3")
    assert (release.text, release.line, release.version) == ("5.18.3", "5.18", (5, 18, 3))
    assert release.known
    assert release.warnings == ()


def test_unknown_patch_release_has_newest_data_of_its_line_with_warning() -> None:
    release = Release.of("5.18.99")
    assert (release.text, release.data_release, release.known) == ("5.18.99", "5.18.7", False)
    assert release.warnings[0].startswith(
        "release 5.18.99 is newer than 5.18.7, the newest 5.18 release that this version"
    )
    assert release.supports("broker", "maxUncommittedCount")  # since 5.18.4


@pytest.mark.parametrize(("text", "data_release"), [("6.4.0", "6.3.2"), ("6.5.3", "6.3.2"), ("5.20.0", "5.19.11")])
def test_newer_release_line_has_data_of_newest_known_line_with_warning(text: str, data_release: str) -> None:
    release = Release.of(text)
    assert (release.line, release.data_release) == (text.rpartition(".")[0], data_release)
    assert not release.known
    assert release.gets_security_fixes
    assert release.meets_security_floor
    assert release.warnings[0].startswith(f"release {text} is newer than {data_release}, the newest")


def test_release_lines_with_security_fixes_are_those_of_project() -> None:
    lines = [
        line
        for line in known_release_lines()
        if Release.of(load_releases_and_advisories().newest_release(line)).gets_security_fixes
    ]
    assert lines == ["5.19", "6.2", "6.3"]


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("5.2.0", "5.3.2"),
        ("5.2", "5.3.2"),
        ("5.18", "5.18.7"),
        ("6.4", "6.4.0"),
        ("5.18.3-fuse", "5.18.7"),
        ("05.18.3", "5.18.7"),
        ("5.18.03", "5.18.7"),
        ("5.18.3\n", "5.18.7"),
        ("5", "5.19.11"),
        ("latest", "6.3.2"),
        ("", "6.3.2"),
        ("٥.١٨.٣", "6.3.2"),
    ],
)
def test_invalid_release_is_error_with_nearest_release(text: str, nearest: str) -> None:
    with pytest.raises(ReleaseError) as error:
        Release.of(text)
    assert str(error.value).endswith((f"one is {nearest}", f"such as {nearest}"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2.31.0", "2.x is Apache Artemis, another broker, which is not supported"),
        ("2", "2.x is Apache Artemis, another broker, which is not supported"),
        ("1.5.6", "1.x is Apache Artemis, another broker, which is not supported"),
        ("4.1.2", "4.x is not supported"),
        ("7.0.0", "7.x is not supported"),
        ("7", "7.x is not supported"),
    ],
)
def test_release_of_unsupported_major_version_is_error_without_nearest_release(text: str, reason: str) -> None:
    with pytest.raises(ReleaseError) as error:
        Release.of(text)
    assert str(error.value) == (
        f"release {text!r} is not known: {reason}. Set a release of ActiveMQ Classic (5.x and 6.x), such as 6.3.2"
    )


@pytest.mark.parametrize(
    ("text", "line", "meant"),
    [
        ("5.81.3", "5.81", "5.18.3"),
        ("5.51.16", "5.51", "5.15.16"),
        ("5.118.3", "5.118", "5.18.3"),
        ("5.91.11", "5.91", "5.19.11"),
        ("6.12.1", "6.12", "6.2.1"),
    ],
)
def test_release_line_far_above_newest_line_is_error_with_similar_release(text: str, line: str, meant: str) -> None:
    with pytest.raises(ReleaseError, match=f"^ActiveMQ has no release line {line}: did you mean {meant}[?] The newest"):
        Release.of(text)


@pytest.mark.parametrize(
    ("text", "line", "newest_line", "newest"),
    [("6.9.9", "6.9", "6.3", "6.3.2"), ("6.6.0", "6.6", "6.3", "6.3.2"), ("5.99", "5.99", "5.19", "5.19.11")],
)
def test_unknown_release_line_without_similar_release_is_error_with_newest_line(
    text: str, line: str, newest_line: str, newest: str
) -> None:
    with pytest.raises(ReleaseError) as error:
        Release.of(text)
    assert str(error.value) == (
        f"ActiveMQ has no release line {line}: the newest release line of {text[0]}.x is {newest_line}. Set a release "
        f"such as {newest}"
    )


@pytest.mark.parametrize(
    ("line", "release"),
    [
        ("6.3", "6.3.2"),
        ("5.1", "5.10.2"),
        ("6.4", "6.4.0"),
        ("6.9", "6.3.2"),
        ("5", "5.19.11"),
        ("7.1", "6.3.2"),
        ("nan", "6.3.2"),
        ("1e+22", "6.3.2"),
    ],
)
def test_example_release_of_line_has_three_parts(line: str, release: str) -> None:
    assert example_release(line) == release


def test_misplaced_digit_of_major_version_is_error_with_release_meant() -> None:
    with pytest.raises(ReleaseError, match=r"'51\.8\.3' is not known: did you mean 5\.18\.3[?]$"):
        Release.of("51.8.3")


@pytest.mark.parametrize(
    "text", ["5.20.0", "5.21.9", "6.4.0", "6.5.1", *(f"{line}.99" for line in known_release_lines())]
)
def test_unknown_release_is_not_rated_safer_than_newest_known_release(text: str) -> None:
    release = Release.of(text)
    newest = Release.of(release.data_release)
    assert {advisory.cve for advisory in newest.advisories} <= {advisory.cve for advisory in release.advisories}
    assert release.gets_security_fixes <= newest.gets_security_fixes
    assert release.meets_security_floor <= newest.meets_security_floor


@given(st.one_of(st.text(), st.from_regex(r"\d+\.\d+(\.\d+)?", fullmatch=True), st.none(), st.floats()))
def test_any_value_gives_release_or_error_of_single_line(value: str) -> None:
    try:
        text = Release.of(value).text
    except ReleaseError as error:
        text = str(error)
    else:
        assert text == value
    assert "\n" not in text.strip()
    assert len(text) < 200


def test_same_text_gives_same_release_object_even_after_pickling() -> None:
    release = Release.of("6.3.1")
    assert Release.of("6.3.1") is release
    assert pickle.loads(pickle.dumps(release)) is release  # noqa: S301 -- this line created the pickle


def test_all_117_release_tags_are_known() -> None:
    tags = [
        f"{line}.{patch}"
        for line, line_data in load_releases_and_advisories().lines.items()
        for patch in range(line_data.last_patch + 1)
    ]
    assert len(tags) == 117
    assert all(Release.of(tag).known for tag in tags)
    assert known_release_lines() == ("5.3", *(f"5.{minor}" for minor in range(4, 20)), "6.0", "6.1", "6.2", "6.3")


@pytest.mark.parametrize(
    ("span", "inside", "outside"),
    [
        ("5.7.0", ["5.7.0", "5.19.0", "6.0.0"], ["5.6.0"]),
        ("5.17.7 5.18.4 6.1.0", ["5.17.7", "5.18.4", "5.19.0", "6.1.0"], ["5.16.8", "5.17.6", "5.18.3", "6.0.1"]),
        ("5.19.0 6.2.0", ["5.19.0", "6.2.0", "6.3.0"], ["5.18.7", "6.0.0", "6.1.8"]),
        ("5.3.0 !5.8.0", ["5.3.0", "5.7.0"], ["5.8.0", "6.0.0"]),
        ("5.9.0 !5.16.0 5.16.1", ["5.15.16", "5.16.1", "5.17.0"], ["5.8.0", "5.16.0"]),
    ],
)
def test_span_includes_releases_that_have_change(span: str, inside: list[str], outside: list[str]) -> None:
    assert [release for release in [*inside, *outside] if includes(span, release)] == inside


def test_pure_master_slave_ends_with_5_7() -> None:
    assert [text for text in MEASURED if Release.of(text).has_pure_master_slave] == ["5.5.1", "5.6.0", "5.7.0"]


def test_bridge_before_5_6_has_single_reconnect_attempt() -> None:
    old_release, new_release = Release.of("5.5.1"), Release.of("5.6.0")
    assert (old_release.bridge_reconnect_attempts, old_release.has_masterslave_discovery) == (1, False)
    assert (new_release.bridge_reconnect_attempts, new_release.has_masterslave_discovery) == (0, True)


def test_mqtt_is_usable_only_since_5_7() -> None:
    assert "mqtt+nio" in Release.of("5.6.0").schemes
    assert not Release.of("5.6.0").has_usable_mqtt
    assert Release.of("5.7.0").has_usable_mqtt
    assert not Release.of("5.8.0").supports_agents
    assert Release.of("5.9.1").supports_agents


def test_lease_exception_handler_depends_on_release() -> None:
    handlers = [Release.of(text).lease_exception_handler for text in ("5.6.0", "5.7.0", "5.10.2", "5.11.0")]
    assert handlers == [None, "jDBCIOExceptionHandler", "jDBCIOExceptionHandler", "leaseLockerIOExceptionHandler"]


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("5.5.1", ("log4j1", "log4j.properties", "etc/default", "jetty.xml", "realm", "old", "jetty7")),
        ("5.11.4", ("log4j1", "log4j.properties", "bin/env", "jetty.xml", "realm", "new", "jetty8")),
        ("5.17.6", ("log4j2", "log4j2.properties", "bin/env", "jetty.xml", "realm", "new", "jetty9")),
        ("6.2.7", ("log4j2", "log4j2.properties", "bin/setenv", "jetty.xml", "jaas", "new", "jetty11")),
        ("6.3.1", ("log4j2", "log4j2.properties", "bin/setenv", "jetty-spring.xml", "jaas", "new", "jetty12")),
    ],
)
def test_release_has_names_of_its_files_and_formats(text: str, files: tuple[str, ...]) -> None:
    release = Release.of(text)
    assert files == (
        release.logging,
        release.log_file_name,
        release.environment_file,
        release.console_file,
        release.console_accounts,
        release.jmx_names,
        release.console_family,
    )


@pytest.mark.parametrize(
    ("text", "scheme", "over_tls"),
    [
        ("5.18.3", "nio", "nio+ssl"),
        ("5.18.3", "tcp", "ssl"),
        ("5.18.3", "mqtt+nio", "mqtt+nio+ssl"),
        ("5.18.3", "mqtt+nio+ssl", "mqtt+nio+ssl"),
        ("5.18.3", "ws", "wss"),
        ("5.6.0", "ws", None),
        ("5.5.1", "nio", "ssl"),
        ("5.5.1", "stomp+nio", "stomp+ssl"),
        ("5.5.1", "nio+ssl", None),
    ],
)
def test_scheme_has_tls_scheme_if_release_supports_it(text: str, scheme: str, over_tls: str | None) -> None:
    assert Release.of(text).tls_scheme(scheme) == over_tls


def test_release_supports_elements_and_attributes_of_its_version() -> None:
    assert Release.of("5.9.0").supports("networkConnector", "consumerTTL")
    assert not Release.of("5.8.0").supports("networkConnector", "consumerTTL")
    assert Release.of("5.7.0").supports("masterConnector")
    assert not Release.of("5.8.0").supports("masterConnector", "remoteURI")


def test_lowercase_key_maps_to_xml_attribute_of_release() -> None:
    for text, element, key, attribute in (
        ("6.3.1", "kahaDB", "index_lfu_eviction_factor", "indexLFUEvictionFactor"),
        ("5.10.0", "policyEntry", "inactive_timeout_before_gc", "inactiveTimoutBeforeGC"),
        ("5.11.4", "policyEntry", "inactive_timeout_before_gc", "inactiveTimeoutBeforeGC"),
        ("5.8.0", "policyEntry", "max_destinations", None),
        ("6.3.1", "vmCursor", "anything", None),
    ):
        assert Release.of(text).xml_attribute_for_key(element, key) == attribute


def test_releases_with_element_or_attribute_are_described_in_words() -> None:
    assert describe_releases_with("redeliveryPlugin") == "5.7.0 and later"
    statistics = describe_releases_with("policyEntry", "advanced_network_statistics_enabled")
    assert statistics == "5.18.6 and later 5.x, 6.2.0 and later"
    assert describe_releases_with("kahaDB", "rewrite_on_redelivery") == "5.6.0 to 5.9.x"
    assert (describe_releases_with("borker"), describe_releases_with("kahaDB", "colour")) == ("", "")


@pytest.mark.parametrize("names", [("borker",), ("broker", "brokrName"), ("queue", "physicalName")])
def test_supports_rejects_unknown_element_or_attribute(names: tuple[str, ...]) -> None:
    with pytest.raises(KeyError):
        Release.of("5.18.3").supports(*names)


def test_attributes_of_pure_replication_are_dead_since_5_8() -> None:
    assert Release.of("5.7.0").dead_attributes == frozenset()
    assert "waitForSlave" in Release.of("5.8.0").dead_attributes


def test_facts_about_schema_agree_with_table_of_schemas() -> None:
    facts = {
        "has_lockers": ("kahaDB", "lockKeepAlivePeriod"),
        "has_stop_on_error": ("kahaDB", "stopOnError"),
        "has_restart_allowed": ("broker", "restartAllowed"),
        "has_network_start_async": ("broker", "networkConnectorStartAsync"),
        "has_consumer_ttl": ("networkConnector", "consumerTTL"),
        "has_ignore_no_space_errors": ("defaultIOExceptionHandler", "ignoreNoSpaceErrors"),
        "has_replay_when_no_consumers": ("conditionalNetworkBridgeFilterFactory", "replayWhenNoConsumers"),
        "has_selector_aware_replay": ("conditionalNetworkBridgeFilterFactory", "selectorAware"),
        "has_pure_master_slave": ("masterConnector", "remoteURI"),
    }
    for line, line_data in load_releases_and_advisories().lines.items():
        for patch in range(line_data.last_patch + 1):
            release = Release.of(f"{line}.{patch}")
            for fact, element_and_attribute in facts.items():
                assert getattr(release, fact) == release.supports(*element_and_attribute), (release, fact)


def test_periods_of_all_release_tables_are_in_order() -> None:
    since = load_element_and_attribute_spans()
    tables = [since.elements, *since.attributes.values(), load_releases_and_advisories().has]
    for name, span in ((name, span) for table in tables for name, span in table.items()):
        edges = [edge for floors, end in span.periods for edge in (*floors, *((end,) if end else ()))]
        assert edges == sorted(set(edges)), name


def cves_of(release: str) -> set[str]:
    return {advisory.cve for advisory in Release.of(release).advisories}


def test_release_at_security_floor_has_no_advisories() -> None:
    for text in ("5.19.11", "6.3.2"):
        assert Release.of(text).meets_security_floor
        assert Release.of(text).advisories == ()
    for text in ("5.19.10", "6.2.9", "6.3.1"):
        assert not Release.of(text).meets_security_floor
        assert cves_of(text) == {"CVE-2026-74761"}


# From the announcements: the last vulnerable releases or releases without a fix, and releases that are not vulnerable.
@pytest.mark.parametrize(
    ("cve", "vulnerable", "not_vulnerable"),
    [
        ("CVE-2014-3576", "5.5.1 5.10.1", "5.10.2 5.11.0 6.0.0"),
        ("CVE-2014-3600", "5.5.1 5.10.0", "5.10.1 5.11.0"),
        ("CVE-2014-3612", "5.9.1 5.10.0", "5.10.1 5.18.3"),
        ("CVE-2014-8110", "5.5.1 5.10.0", "5.10.1 5.11.0"),
        ("CVE-2015-1830", "5.10.2 5.11.1", "5.11.2 5.12.0"),
        ("CVE-2015-5254", "5.11.2 5.12.1", "5.12.2 5.13.0"),
        ("CVE-2015-7559", "5.13.5 5.14.4", "5.14.5 5.15.0"),
        ("CVE-2016-0734", "5.12.3 5.13.1", "5.13.2 5.14.0"),
        ("CVE-2016-0782", "5.10.2 5.11.3 5.12.2 5.13.0", "5.11.4 5.12.3 5.13.1 5.14.0"),
        ("CVE-2016-6810", "5.13.5 5.14.1", "5.14.2 5.15.0"),
        ("CVE-2017-15709", "5.14.0 5.14.5 5.15.2", "5.13.5 5.15.3 5.16.0"),
        ("CVE-2018-8006", "5.14.5 5.15.5", "5.15.6 5.16.0"),
        ("CVE-2018-11775", "5.14.5 5.15.5", "5.15.6 5.16.0"),
        ("CVE-2019-0222", "5.8.0 5.15.8", "5.5.1 5.15.9 5.16.0"),
        ("CVE-2020-1941", "5.14.5 5.15.11", "5.15.12 5.16.0"),
        ("CVE-2020-11998", "5.15.12", "5.14.5 5.15.11 5.15.13 5.16.0"),
        ("CVE-2020-13920", "5.5.1 5.15.11", "5.15.12 5.16.0"),
        ("CVE-2020-13947", "5.14.5 5.15.13 5.16.0", "5.15.14 5.16.1 5.17.0"),
        ("CVE-2021-26117", "5.14.5 5.15.13 5.16.0", "5.15.14 5.16.1 5.17.0"),
        ("CVE-2022-41678", "5.8.0 5.15.16 5.16.5 5.17.3", "5.5.1 5.16.6 5.17.4 5.18.0 6.0.0"),
        ("CVE-2023-46604", "5.5.1 5.15.15 5.16.6 5.17.5 5.18.2", "5.15.16 5.16.7 5.17.6 5.18.3 5.19.0 6.0.0"),
        ("CVE-2024-32114", "6.0.0 6.1.1", "5.18.3 6.1.2"),
        ("CVE-2025-27533", "5.15.16 5.16.7 5.17.6 5.18.6 6.0.1 6.1.5", "5.16.8 5.17.7 5.18.7 5.19.0 6.1.6"),
        ("CVE-2026-49270", "5.14.0 5.18.7 6.2.5", "5.13.5 5.19.7 6.2.6"),
        ("CVE-2026-50750", "5.19.7 6.2.6", "5.18.7 5.19.6 5.19.8 6.2.5 6.2.7 6.3.0"),
        ("CVE-2026-61487", "5.5.1 5.19.8 6.2.7", "5.19.9 6.2.8 6.3.0"),
        ("CVE-2026-74761", "5.5.1 5.19.10 6.2.9 6.3.1", "5.19.11 6.3.2"),
    ],
)
def test_advisories_of_releases_match_announcements(cve: str, vulnerable: str, not_vulnerable: str) -> None:
    assert [text for text in vulnerable.split() if cve not in cves_of(text)] == []
    assert [text for text in not_vulnerable.split() if cve in cves_of(text)] == []


def test_every_advisory_has_source_severity_and_fixed_release() -> None:
    advisories = {
        advisory.cve: advisory
        for text in ("5.5.1", "5.15.12", "5.19.7", "6.0.0")
        for advisory in Release.of(text).advisories
    }
    for cve, advisory in advisories.items():
        assert cve in advisory.source or "oss-security" in advisory.source
        assert advisory.severity in {"critical", "important", "moderate", "low"}
        assert advisory.fixed_in


def test_release_below_security_floor_has_release_to_upgrade_to() -> None:
    assert not Release.of("5.18.3").meets_security_floor
    assert Release.of("5.18.3").security_floor == "5.19.11"
    assert Release.of("6.1.8").security_floor == "6.3.2"


def test_jar_profiles_depend_on_release() -> None:
    assert Release.of("5.5.1").jar_profiles == ("core", "log4j1")
    assert Release.of("5.8.0").jar_profiles == ("modules", "log4j1")
    assert Release.of("6.3.1").jar_profiles == ("modules", "amqp", "log4j2")
    assert Release.of("6.2.7").jar_profiles == ("all", "log4j2")
    assert Release.of("6.2.7").jar_properties["jaas.version"] == "6.3.1"


def test_jar_schemes_exclude_amqp_and_ws_if_jars_do_not_support_them() -> None:
    assert "ws" in Release.of("6.3.1").schemes
    assert "ws" not in Release.of("6.3.1").jar_schemes
    assert "amqp" in Release.of("6.3.1").jar_schemes
    assert "amqp" not in Release.of("5.15.16").jar_schemes


def test_release_reads_stores_that_it_writes() -> None:
    for release in map(Release.of, MEASURED):
        assert release.kahadb_reads >= release.kahadb_version


@pytest.mark.parametrize(
    ("release", "version", "openwire"),
    [("5.4.1", 2, 6), ("5.5.1", 3, 6), ("5.8.0", 4, 6), ("5.11.4", 5, 6), ("5.12.0", 6, 11), ("6.3.1", 7, 11)],
)
def test_store_formats_are_those_of_release_tags(release: str, version: int, openwire: int) -> None:
    supported_release = Release.of(release)
    assert (supported_release.kahadb_version, supported_release.store_openwire) == (version, openwire)
