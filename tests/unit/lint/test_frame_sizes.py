"""Tests of rule N048: frame limits of connectors and links, by release, protocol and setting."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.lint.fleets import FleetView
from activemq_fleet.lint.frame_sizes import messages_too_large_for_link
from activemq_fleet.render import render_activemq_xml_documents_by_host
from tests.support.network_findings import findings_of_rule, link_fragment
from tests.unit.fleets import fleet
from tests.work import count_lines

NORTH, SOUTH = "north-mq01", "south-mq01"
A, B = "north-mq01-a", "south-mq01-a"


def connector_variables(**limits: int | None) -> list[dict[str, Any]]:
    """Return ``activemq_connectors`` for schemes and their limits. A connector with the limit None has no options."""
    ports = {"nio": 61616, "stomp+nio": 61613, "mqtt+nio": 1883, "amqp+nio": 5672}
    entries = []
    for scheme, limit in limits.items():
        name = scheme.replace("_", "+")
        entry: dict[str, Any] = {"name": scheme, "scheme": name, "port": ports[name]}
        entries.append(entry if limit is None else {**entry, "options": {"wireFormat.maxFrameSize": limit}})
    return entries


def reported_frame_limits(variables_by_host: dict[str, Any], **variables: Any) -> list[tuple[str, str, str]]:
    links = [{"from": "north", "to": "south"}]
    findings = findings_of_rule("N048", NORTH, SOUTH, links=links, variables_by_host=variables_by_host, **variables)
    return [(finding.host.partition(".")[0], finding.severity, finding.message) for finding in findings]


@pytest.mark.parametrize(
    ("release", "limit"),
    [("5.5.1", None), ("5.6.0", "301989888"), ("5.11.4", "301989888"), ("5.12.3", "33554432"), ("6.3.1", "33554432")],
)
def test_default_frame_limit_depends_on_release(release: str, limit: str | None) -> None:
    brokers = fleet(NORTH, release=release).brokers
    limits = {c.scheme: c.options.get("wireFormat.maxFrameSize") for c in brokers[0].connectors}
    assert limits["nio"] == limit
    if limit is not None:
        assert limits["stomp+nio"] == "10485760"
    assert limits.get("mqtt+nio", "10485760") == "10485760" or limit is None


def test_listed_connectors_without_options_have_default_limits() -> None:
    brokers = fleet(NORTH, connectors=connector_variables(nio=None, **{"stomp+nio": None})).brokers
    limits = {c.scheme: c.options["wireFormat.maxFrameSize"] for c in brokers[0].connectors}
    assert limits == {"nio": "33554432", "stomp+nio": "10485760"}
    alone = fleet(NORTH, release="5.8.0", connectors=connector_variables(nio=None)).brokers
    assert alone[0].connectors[0].options["wireFormat.maxFrameSize"] == "33554432"


@pytest.mark.parametrize(
    ("limits", "severity"),
    [
        ({"nio": 1_048_576}, "warning"),
        ({"nio": 33_554_432, "stomp+nio": 41_943_040}, None),
        ({"nio": 33_554_432}, None),
        ({"nio": 104_857_600}, None),
    ],
)
def test_smaller_frame_limit_of_link_receiver_is_warning_for_sender(
    limits: dict[str, int], severity: str | None
) -> None:
    settings = {"connectors": connector_variables(**limits)}
    findings = reported_frame_limits({f"{SOUTH}-{node}": settings for node in "ab"})
    assert {(host, kind) for host, kind, _ in findings} == (
        {(A, severity), (f"{NORTH}-b", severity)} if severity else set()
    )
    if severity:
        assert "Connectors of north-mq01-a.example.com accept larger messages: openwire (" in findings[0][2]
        assert "1 MiB" in findings[0][2]


def test_larger_stomp_frame_limit_of_link_sender_is_warning() -> None:
    settings = {"connectors": connector_variables(nio=33_554_432, **{"stomp+nio": 33_554_432})}
    findings = reported_frame_limits({f"{NORTH}-{node}": settings for node in "ab"})
    assert {(host, kind) for host, kind, _ in findings} == {(A, "warning"), (f"{NORTH}-b", "warning")}
    larger = {"connectors": connector_variables(nio=33_554_432, **{"stomp+nio": 20_971_520})}
    # Only a message of many characters that are not UTF-8 is too large.
    assert {kind for _, kind, _ in reported_frame_limits({f"{NORTH}-{node}": larger for node in "ab"})} == {"info"}


def test_frame_limit_of_duplex_link_receiver_is_warning_for_both_brokers() -> None:
    links = [{"from": "north", "to": "south", "duplex": True}]
    settings = {"connectors": connector_variables(nio=1_048_576, **{"stomp+nio": 10_485_760})}
    findings = findings_of_rule(
        "N048", NORTH, SOUTH, links=links, variables_by_host={f"{SOUTH}-{node}": settings for node in "ab"}
    )
    assert {finding.host.partition(".")[0] for finding in findings} == {
        f"{x}-{n}" for x in (NORTH, SOUTH) for n in "ab"
    }


def test_smaller_frame_limit_in_link_uri_is_warning() -> None:
    fragment = link_fragment("more", B)
    limited = [{**fragment[0], "xml": fragment[0]["xml"].replace(":61616", ":61616?wireFormat.maxFrameSize=1048576")}]
    findings = findings_of_rule("N048", NORTH, SOUTH, variables_by_host={A: {"xml_fragments": limited}})
    assert [finding.severity for finding in findings] == ["warning"]
    assert "the URI of the link at north-mq01-a" in findings[0].message
    assert findings_of_rule("N048", NORTH, SOUTH, variables_by_host={A: {"xml_fragments": fragment}}) == []


def test_link_between_releases_with_different_default_frame_limits_is_info() -> None:
    findings = reported_frame_limits({f"{NORTH}-{node}": {"release": "5.8.0"} for node in "ab"})
    assert {kind for _, kind, _ in findings} == {"info"}
    assert all("stomp (100 MiB)" in message for _, _, message in findings)


def test_work_of_frame_limit_rule_grows_with_number_of_links_of_mesh() -> None:
    """A mesh of twice as many pairs has 4.2 times as many links."""
    lines = []
    for pairs in (20, 40):
        mesh = fleet(*(f"north-mq{number:02}" for number in range(pairs)))
        view = FleetView(mesh, render_activemq_xml_documents_by_host(mesh))
        assert view.pair_bridge_graph.planned
        lines.append(count_lines(lambda: list(messages_too_large_for_link(view))))  # noqa: B023 -- called here
    assert lines[1] < 4.2 * lines[0]
