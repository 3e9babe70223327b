"""Guarantees of adopt: no broker is lost or duplicated, adopt causes no error, and its work is linear in the files."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import FrameType

import pytest

from activemq_fleet.adopt import adopt_documents, read_adopted_documents
from activemq_fleet.errors import InputError
from activemq_fleet.findings import Finding, error_finding
from activemq_fleet.lint import fleet_findings
from activemq_fleet.naming import Naming
from activemq_fleet.render.activemq_xml import render_activemq_xml_bytes
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import Fleet
from tests.unit.adopt_files import BEANS, CORE, document, render_adopted_inventory, write_and_adopt, write_files

HOST = "o-mq1-a"
CAMEL = "http://camel.apache.org/schema/spring"
XSI = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'


def render_adopted_broker(
    directory: Path, broker: str, beans: str = "", release: str = "5.18.3", **attributes: str
) -> str:
    """Return the activemq.xml that the adopted inventory renders, loaded with Ansible."""
    adoption = write_and_adopt(
        directory / "files", {HOST: document(broker, beans, brokerName="x", **attributes)}, release
    )
    return render_adopted_inventory(directory, adoption)[f"hosts/{HOST}/conf/activemq.xml"].decode()


def test_adopted_slave_with_placeholder_as_master_uri_stays_slave(tmp_path: Path) -> None:
    uri = "tcp://${m.host}:${m.port}"

    assert f'<masterConnector remoteURI="{uri}"/>' in render_adopted_broker(
        tmp_path, "", release="5.5.1", masterConnectorURI=uri
    )


def test_adopted_slave_with_address_as_master_uri_stays_slave(tmp_path: Path) -> None:
    xml = render_adopted_broker(tmp_path, "", release="5.5.1", masterConnectorURI="tcp://m:1")

    assert 'masterConnectorURI="tcp://m:1"' in xml


def test_adopt_notes_omitted_attribute_of_broker_element(tmp_path: Path) -> None:
    adoption = write_and_adopt(tmp_path, {HOST: document("", brokerName="x", vmConnectorURI="vm://${x}")}, "5.18.3")

    assert any("adopt left out the attribute vmConnectorURI of <broker>" in note for note in adoption.notes)


@pytest.mark.parametrize("announced_names", [(), ("a",), ("b",), ("a", "b"), ("m",)])
def test_adopted_connector_has_discovery_uri_only_if_original_connector_has_it(
    announced_names: tuple[str, ...], tmp_path: Path
) -> None:
    ports = {"a": "tcp://0.0.0.0:61616", "b": "tcp://0.0.0.0:61617", "m": "mqtt://0.0.0.0:1883"}
    connectors = "".join(
        f'<transportConnector name="{name}" uri="{uri}"'
        + (' discoveryUri="multicast://default?group=g"/>' if name in announced_names else "/>")
        for name, uri in ports.items()
    )
    broker = (
        f"<transportConnectors>{connectors}</transportConnectors><networkConnectors>"
        '<networkConnector name="n" uri="multicast://default?group=g"/></networkConnectors>'
    )

    xml = render_adopted_broker(tmp_path, broker)

    lines = [line for line in xml.splitlines() if "<transportConnector " in line]
    assert [line.split('name="')[1][0] for line in lines if "discoveryUri" in line] == list(announced_names)


@pytest.mark.parametrize("prefix", ["$aq{", "@{", "#{x"])
def test_placeholder_configurer_with_another_prefix_is_kept(prefix: str, tmp_path: Path) -> None:
    bean = (
        '<bean class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer">'
        f'<property name="placeholderPrefix" value="{prefix}"/></bean>'
    )

    xml = render_adopted_broker(tmp_path, "", bean, dataDirectory="$aq{user.home}/x")

    assert f'<property name="placeholderPrefix" value="{prefix}"/>' in xml
    assert xml.count("PlaceholderConfigurer") == 2


@pytest.mark.parametrize(
    "configurer",
    [
        '<bean class="org.springframework.context.support.PropertySourcesPlaceholderConfigurer"/>',
        '<bean class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer"/>',
        '<bean class="org.jasypt.spring3.properties.EncryptablePropertyPlaceholderConfigurer"/>',
        '<context:property-placeholder xmlns:context="http://www.springframework.org/schema/context"/>',
    ],
)
def test_adopted_activemq_xml_has_exactly_one_placeholder_configurer(configurer: str, tmp_path: Path) -> None:
    xml = render_adopted_broker(tmp_path, "", configurer)

    assert xml.count("PlaceholderConfigurer") + xml.count("property-placeholder") == 1


def test_omitted_settings_of_placeholder_configurer_have_note(tmp_path: Path) -> None:
    bean = (
        '<bean class="a.PropertyPlaceholderConfigurer"><property name="systemPropertiesModeName" value="X"/>'
        '<property name="location" value="y"/></bean>'
    )
    adoption = write_and_adopt(tmp_path, {HOST: document("", bean, brokerName="x")}, "5.18.3")

    [note] = [note for note in adoption.notes if "of the bean PropertyPlaceholderConfigurer" in note]
    assert "adopt left out systemPropertiesModeName of" in note


ROUTE = (
    f'<camelContext xmlns="{CAMEL}"><route><from uri="activemq:a"/><log message="${{header.x}} ${{body}}"/>'
    "<simple>${exchangeProperty.y}</simple></route></camelContext>"
)


def camel_document() -> bytes:
    """Return a document with a route of Camel."""
    return (
        f'<beans xmlns="{BEANS}" {XSI} xsi:schemaLocation="{BEANS} {BEANS}/spring-beans.xsd'
        f' {CAMEL} {CAMEL}/camel-spring.xsd {CORE} {CORE}/activemq-core.xsd">'
        f'<broker xmlns="{CORE}" brokerName="x"/>{ROUTE}</beans>'
    ).encode()


def lint_findings(fleet: Fleet, documents: Mapping[str, XmlDocument]) -> Iterable[Finding]:
    """Return the findings of a fleet and of its documents."""
    return (*fleet.findings, *fleet_findings(fleet, documents))


def test_file_with_camel_is_rendered_with_schema_of_camel(tmp_path: Path) -> None:
    write_files(tmp_path / "files", {HOST: camel_document()})
    adoption = adopt_documents(
        read_adopted_documents([str(tmp_path / "files")], ["5.16.7"], Naming()), Naming(), lint_findings
    )

    xml = render_adopted_inventory(tmp_path, adoption)[f"hosts/{HOST}/conf/activemq.xml"]

    [broker] = adoption.fleet.brokers
    assert "V020" not in {f.rule for f in fleet_findings(adoption.fleet, {broker.host: XmlDocument(xml)})}
    assert "V020" not in {waiver["rule"] for waiver in adoption.fleet.waivers}
    assert f"{CAMEL} {CAMEL}/camel-spring.xsd" in xml.decode()


def test_placeholders_of_camel_are_not_reported_as_properties(tmp_path: Path) -> None:
    adoption = write_and_adopt(tmp_path, {HOST: camel_document()}, "5.16.7")

    assert not [note for note in adoption.notes if "${" in note]


def findings_at_marks(rule: str, *marks: str) -> Callable[[Fleet, Mapping[str, XmlDocument]], Iterable[Finding]]:
    """Return a function that reports an error for each document with all of the marks."""

    def findings(fleet: Fleet, documents: Mapping[str, XmlDocument]) -> Iterable[Finding]:
        return [
            error_finding(rule, host, "<broker> has an unknown plugin", "remove the plugin")
            for host, source in documents.items()
            if all(mark.encode() in source.content for mark in marks)
        ]

    return findings


def adopt_with_findings(
    directory: Path, broker: str, findings: Callable[[Fleet, Mapping[str, XmlDocument]], Iterable[Finding]]
) -> tuple[str, list[str], set[str]]:
    """Return the rendered document, the notes and the waived rules."""
    write_files(directory, {HOST: document(broker, brokerName="x", useJmx="false")})
    adoption = adopt_documents(read_adopted_documents([str(directory)], ["5.18.3"], Naming()), Naming(), findings)
    waived = {waiver["rule"] for waiver in adoption.fleet.waivers}
    return render_activemq_xml_bytes(adoption.fleet.brokers[0]).decode(), list(adoption.notes), waived


PLUGINS = '<plugins><a/><bean xmlns="http://www.springframework.org/schema/beans" class="a.B"/></plugins>'


def test_adopt_waives_error_of_original_activemq_xml(tmp_path: Path) -> None:
    xml, notes, waived = adopt_with_findings(tmp_path, PLUGINS, findings_at_marks("X001", 'class="a.B"'))

    assert 'class="a.B"' in xml
    assert waived == {"X001"}
    expected = (
        "the original file has the finding X001 (<broker> has an unknown plugin). `activemq-fleet render` rejects an "
        "inventory with this finding, so adopt added an entry to activemq_waivers"
    )
    assert any(expected in note for note in notes)


@pytest.mark.parametrize("rule", ["V002", "V003", "V029", "V050"])
def test_adopt_does_not_waive_error_with_which_no_broker_starts(rule: str, tmp_path: Path) -> None:
    _, notes, waived = adopt_with_findings(tmp_path, PLUGINS, findings_at_marks(rule, 'class="a.B"'))

    assert not waived
    [note] = [note for note in notes if rule in note]
    assert (
        "a broker of release 5.18.3 does not start with the original activemq.xml, because the file has the "
        f"error {rule}" in note
    )
    assert f"{rule} (<broker> has an unknown plugin). Adopt again with the activemq.xml that the broker uses" in note


def test_waiver_of_adopt_applies_only_to_hosts_that_have_error(tmp_path: Path) -> None:
    write_files(tmp_path, {host: document(PLUGINS, brokerName="x") for host in ("o-mq1-a", "o-mq2-a")})
    documents = read_adopted_documents([str(tmp_path)], ["5.18.3"], Naming())
    adoption = adopt_documents(documents, Naming(), findings_at_marks("X001", 'class="a.B"'))

    assert [waiver["hosts"] for waiver in adoption.fleet.waivers] == [["o-mq1-a", "o-mq2-a"]]


def test_element_that_causes_error_only_in_rendered_file_is_omitted(tmp_path: Path) -> None:
    # Only rendered files of a broker have this id, so the original does not have the error.
    xml, notes, waived = adopt_with_findings(tmp_path, PLUGINS, findings_at_marks("X001", 'id="broker"', 'class="a.B"'))

    assert 'class="a.B"' not in xml
    assert not waived
    assert any("adopt left out <plugins>, because it would cause the error" in note for note in notes)


def test_attribute_that_causes_error_only_in_rendered_file_is_omitted(tmp_path: Path) -> None:
    xml, notes, _ = adopt_with_findings(tmp_path, PLUGINS, findings_at_marks("X001", 'id="broker"', 'useJmx="false"'))

    assert 'useJmx="false"' not in xml
    assert 'class="a.B"' in xml
    assert any("adopt left out the attribute useJmx of <broker>, because" in note for note in notes)


def test_adopt_refuses_error_of_rendered_file_without_element_to_omit(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=f"{HOST}: adopt wrote nothing, .* the error X001: <broker> has an unknown plugin."
    ):
        adopt_with_findings(tmp_path, PLUGINS, findings_at_marks("X001", 'id="broker"'))


def test_adopt_refuses_to_omit_store_that_causes_error_only_in_rendered_file(tmp_path: Path) -> None:
    store = '<persistenceAdapter><jdbcPersistenceAdapter dataSource="#db"/></persistenceAdapter>'
    with pytest.raises(InputError, match=f"{HOST}: adopt wrote nothing, .* the error X001"):
        adopt_with_findings(tmp_path, store, findings_at_marks("X001", 'id="broker"', "jdbcPersistenceAdapter"))


def count_calls(action: Callable[[], object]) -> int:
    """Return the number of function calls of an action, including calls of C functions."""
    count = 0

    def profile(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def _policies(count: int) -> str:
    policy_entries = "".join(f'<policyEntry queue="q{n}.>" memoryLimit="1mb"/>' for n in range(count))
    return (
        f"<destinationPolicy><policyMap><policyEntries>{policy_entries}</policyEntries></policyMap></destinationPolicy>"
    )


def _users(count: int) -> str:
    users = "".join(f'<authenticationUser username="u{n}" password="p{n}" groups="g"/>' for n in range(count))
    return f"<plugins><simpleAuthenticationPlugin><users>{users}</users></simpleAuthenticationPlugin></plugins>"


def _bridges(count: int) -> str:
    bridges = "".join(f'<networkConnector name="n{n}" uri="static:(tcp://h{n}:61616)"/>' for n in range(count))
    return f"<networkConnectors>{bridges}</networkConnectors>"


def _bridges_with_equal_host_names(count: int) -> str:
    bridges = "".join(f'<networkConnector name="n{n}" uri="static:(tcp://h.x{n}:61616)"/>' for n in range(count))
    return f"<networkConnectors>{bridges}</networkConnectors>"


def _queues(count: int) -> str:
    return "<destinations>" + "".join(f'<queue physicalName="q{n}"/>' for n in range(count)) + "</destinations>"


def _composites(count: int) -> str:
    composite_queues = "".join(
        f'<compositeQueue name="q{n}"><forwardTo><queue physicalName="a"/></forwardTo></compositeQueue>'
        for n in range(count)
    )
    return (
        f"<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>{composite_queues}"
        "</virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>"
    )


def _passwords(count: int) -> str:
    beans = "".join(
        f'<bean xmlns="{BEANS}" class="a.B"><property name="password" value="p{n}"/></bean>' for n in range(count)
    )
    return f"<plugins>{beans}</plugins>"


def _connectors_without_names(count: int) -> str:
    connectors = "".join(f'<transportConnector uri="tcp://0.0.0.0:{2000 + n}"/>' for n in range(count))
    return f"<transportConnectors>{connectors}</transportConnectors>"


@pytest.mark.parametrize(
    "form",
    [
        _policies,
        _users,
        _bridges,
        _bridges_with_equal_host_names,
        _queues,
        _composites,
        _passwords,
        _connectors_without_names,
    ],
)
def test_work_of_adopt_grows_linearly_with_number_of_elements(form: Callable[[int], str], tmp_path: Path) -> None:
    def call_count(count: int) -> int:
        directory = tmp_path / str(count)
        write_files(directory, {HOST: document(form(count), brokerName="x")})
        documents = read_adopted_documents([str(directory)], ["5.18.3"], Naming())
        return count_calls(lambda: adopt_documents(documents, Naming()))

    call_count(1)  # The first call also fills caches and imports modules.
    base_count = call_count(2)
    small, large = call_count(15) - base_count, call_count(60) - base_count

    assert large < 6 * small, (
        f"the work is not linear: four times the elements take {large / small:.1f} times the calls"
    )


def test_time_of_adopt_to_find_passwords_grows_linearly_with_length_of_text(tmp_path: Path) -> None:
    def adoption_seconds(length: int) -> float:
        plugins_xml = f"<plugins><x>={'a' * length}</x></plugins>"
        write_files(tmp_path / str(length), {HOST: document(plugins_xml, brokerName="x")})
        documents = read_adopted_documents([str(tmp_path / str(length))], ["5.18.3"], Naming())
        times = []
        for _ in range(3):
            begin = time.process_time()
            adopt_documents(documents, Naming())
            times.append(time.process_time() - begin)
        return min(times)

    assert adoption_seconds(12_000) < 6 * adoption_seconds(1500), (
        "the search is not linear: eight times the text takes far more than eight times the work"
    )


def test_adopt_limits_length_of_element_text_like_length_of_attributes(tmp_path: Path) -> None:
    write_files(tmp_path, {HOST: document(f"<plugins><x>={'a' * 20_000}</x></plugins>", brokerName="x")})

    with pytest.raises(InputError, match="the text in or after <x> has more than 16384 characters"):
        read_adopted_documents([str(tmp_path)], ["5.18.3"], Naming())


@pytest.mark.parametrize(
    "line",
    ["ACTIVEMQ_OPTS=" * 20_000, "<connector " * 30_000, "x" * 300_000 + "=", "#" * 300_000],
    ids=["options", "connectors", "word", "comments"],
)
def test_adopt_searches_files_next_to_activemq_xml_in_linear_time(line: str, tmp_path: Path) -> None:
    def adoption_seconds(part: int) -> float:
        tree = tmp_path / str(part)
        write_files(tree, {HOST: document("", brokerName="x")})
        for name in ("bin/env", "conf/jetty.xml", "conf/credentials.properties", "systemd/x.service"):
            path = tree / "hosts" / HOST / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(line[: len(line) // part])
        begin = time.process_time()
        adopt_documents(read_adopted_documents([str(tree)], ["5.18.3"], Naming()), Naming())
        return time.process_time() - begin

    base_seconds = adoption_seconds(1000)
    assert adoption_seconds(1) < 40 * (adoption_seconds(8) + base_seconds), (
        "the search is not linear: eight times the text takes far more than eight times the work"
    )
