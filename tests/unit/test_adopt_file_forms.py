"""Files to adopt in unusual forms: roots, profiles, templates, consoles and duplicate policies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from activemq_fleet import adopt_files, check_fleet
from activemq_fleet.adopt import read_adopted_documents
from activemq_fleet.errors import InputError
from activemq_fleet.naming import Naming
from tests.unit.adopt_files import BEANS, CORE, document, render_adopted_inventory, write_and_adopt

HOST = "o-mq1-a"
BROKER = f'<broker xmlns="{CORE}" brokerName="x"/>'
JETTY = f"""<beans xmlns="{BEANS}"><bean id="jettyPort" class="org.apache.activemq.web.WebConsolePort">
<property name="host" value="10.0.0.1"/><property name="port" value="%s"/></bean></beans>"""


def refusal_of(directory: Path, content: bytes) -> str:
    """Return the error of a file that cannot be adopted."""
    path = directory / "file.xml"
    path.write_bytes(content)
    with pytest.raises(InputError) as raised:
        read_adopted_documents([f"{HOST}={path}"], ["5.18.3"], Naming())
    return str(raised.value)


def test_broker_as_root_element_is_adopted(tmp_path: Path) -> None:
    adoption = write_and_adopt(tmp_path / "files", {HOST: BROKER.encode()}, "5.18.3")

    assert any("the root element of the file is <broker>" in note for note in adoption.notes)
    assert b'brokerName="x"' in render_adopted_inventory(tmp_path, adoption)[f"hosts/{HOST}/conf/activemq.xml"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            f'<beans xmlns="{BEANS}"><beans profile="p">{BROKER}</beans></beans>',
            'a nested <beans> with the profile "p"',
        ),
        (
            f'<beans xmlns="{BEANS}"><beans>{BROKER}</beans></beans>',
            "is in a nested <beans>, which adopt does not read: move",
        ),
        (f'<beans xmlns="{BEANS}"><broker xmlns="http://activemq.org/config/1.0"/></beans>', "correct its xmlns"),
        (f'<beans xmlns="{BEANS}"><bean class="a.b.BrokerService"/></beans>', "a bean of the class a.b.BrokerService"),
        (f'<beans xmlns="{BEANS}"><import resource="b.xml"/></beans>', "imports b.xml: name the imported file"),
        (f'<beans xmlns="{BEANS}"/>', "the file has no <broker>, so it is a Spring context"),
        ('<configuration xmlns="urn:activemq"/>', "broker.xml of Apache Artemis"),
        ("a=b", "a properties file"),
        ("", "an empty file"),
        ("<beans", "not XML"),
        (f"<% if %><beans>{BROKER}</beans>", "the file is a template with '<%'"),
        ("{% if x %}\n<beans/>", "the file is a template with '{%'"),
        ('<?xml version="1.0" encoding="UTF-16"?><beans/>', "declares the encoding UTF-16"),
    ],
)
def test_error_of_file_that_cannot_be_adopted_names_its_kind(content: str, reason: str, tmp_path: Path) -> None:
    message = refusal_of(tmp_path, content.encode())

    assert reason in message
    assert "before 5.3" not in message


@pytest.mark.parametrize("mark", ["@@NAME@@", "{{ name }}", "[% name %]"])
def test_adopt_notes_that_valid_xml_file_is_template(mark: str, tmp_path: Path) -> None:
    adoption = write_and_adopt(tmp_path, {HOST: document("", brokerName=mark)}, "5.18.3")

    assert any("the file is a template" in note and mark[:2] in note for note in adoption.notes)


def test_address_of_adopted_console_comes_from_imported_jetty_file(tmp_path: Path) -> None:
    conf = tmp_path / "hosts" / HOST / "conf"
    conf.mkdir(parents=True)
    (conf / "jetty.xml").write_text(JETTY % 8199)
    (conf / "jetty3.xml").write_text(JETTY % 8163)

    adoption = write_and_adopt(
        tmp_path, {HOST: document("", '<import resource="jetty3.xml"/>', brokerName="x")}, "5.18.3"
    )

    settings = adoption.fleet.broker(HOST).settings
    assert (settings.console_port, settings.console_bind) == (8163, "10.0.0.1")
    expected = "adopt took only the port and the address of the web console from jetty3.xml"
    [note] = [note for note in adoption.notes if expected in note]
    assert "Only users of activemq_users in the group admins can log in" in note


def test_jetty_file_without_import_causes_no_note_about_console(tmp_path: Path) -> None:
    conf = tmp_path / "hosts" / HOST / "conf"
    conf.mkdir(parents=True)
    (conf / "jetty.xml").write_text(JETTY % 8199)

    adoption = write_and_adopt(tmp_path, {HOST: document("", brokerName="x")}, "5.18.3")

    assert not adoption.fleet.broker(HOST).settings.console
    assert not [note for note in adoption.notes if "adopt took only" in note]


def test_second_policy_of_destination_has_note_and_is_not_merged(tmp_path: Path) -> None:
    policy_entries = (
        '<policyEntry queue="a.>" memoryLimit="1mb"/><policyEntry queue="a.>" memoryLimit="2mb" maxPageSize="7"/>'
        '<policyEntry topic="a.>" memoryLimit="3mb"/>'
    )
    policies = f"<policyMap><policyEntries>{policy_entries}</policyEntries></policyMap>"
    files = {HOST: document(f"<destinationPolicy>{policies}</destinationPolicy>", brokerName="x")}
    adoption = write_and_adopt(tmp_path / "files", files, "5.18.3")

    xml = render_adopted_inventory(tmp_path, adoption)[f"hosts/{HOST}/conf/activemq.xml"].decode()

    assert [line.strip() for line in xml.splitlines() if 'queue="a.' in line] == [
        '<policyEntry queue="a.>" memoryLimit="1mb"/>'
    ]
    assert any("several policyEntry elements for queue a.>" in note for note in adoption.notes)


def test_broker_with_rights_and_without_accounts_is_adopted(tmp_path: Path) -> None:
    authorization_entry = '<authorizationEntry topic="ActiveMQ.Advisory.>" read="all" write="all" admin="all"/>'
    rights = f"<authorizationMap><authorizationEntries>{authorization_entry}</authorizationEntries></authorizationMap>"
    authorization = f"<authorizationPlugin><map>{rights}</map></authorizationPlugin>"
    plugins = f"<plugins><simpleAuthenticationPlugin/>{authorization}</plugins>"
    path = tmp_path / "file.xml"
    path.write_bytes(document(plugins, brokerName="x"))

    adoption = adopt_files([f"{HOST}={path}"], releases=["5.18.3"], schema_of=None)

    assert "S032" not in {finding.rule for finding in adoption.fleet.findings}
    assert any("activemq.xml has no accounts" in note for note in adoption.notes)


def test_import_of_url_does_not_hide_missing_imported_file(tmp_path: Path) -> None:
    imports = '<import resource="http://h/x.xml"/><import resource="camel.xml"/>'

    adoption = write_and_adopt(tmp_path, {HOST: document("", imports, brokerName="x")}, "5.18.3")

    assert adoption.fleet.broker(HOST).settings.imports == ("camel.xml",)
    assert any("activemq.xml imports http://h/x.xml, which adopt does not copy" in note for note in adoption.notes)
    assert any("imports camel.xml, which adopt did not copy" in note for note in adoption.notes)


def test_finding_about_open_console_in_file_of_any_name_is_waived_and_noted(tmp_path: Path) -> None:
    console = (
        f'<beans xmlns="{BEANS}"><bean class="org.eclipse.jetty.util.security.Constraint">'
        '<property name="authenticate" value="false"/></bean><bean class="org.eclipse.jetty.webapp.WebAppContext">'
        '<property name="contextPath" value="/admin"/></bean><bean class="org.eclipse.jetty.server.ServerConnector">'
        '<property name="port" value="8163"/></bean></beans>'
    )
    conf = tmp_path / HOST / "conf"
    (conf / "web").mkdir(parents=True)
    (conf / "web/console.xml").write_text(console)
    (conf / "activemq.xml").write_bytes(document("", '<import resource="web/console.xml"/>', brokerName="x"))

    adoption = adopt_files([tmp_path], releases=["5.18.3"], schema_of=None)

    waived = {finding.rule for finding in check_fleet(adoption.fleet, schema_of=None) if finding.waived}
    assert "S005" in waived
    note_text = "the finding S005 (the property authenticate of this Constraint bean is false"
    assert any(note_text in note for note in adoption.notes)


def test_activemq_xml_from_pipe_is_adopted_and_fifo_without_writer_refused(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, document("", brokerName="piped"))
    os.close(write_end)
    try:
        [piped] = read_adopted_documents([f"{HOST}=/dev/fd/{read_end}"], ["5.18.3"], Naming())
    finally:
        os.close(read_end)
    os.mkfifo(tmp_path / "fifo")

    assert piped.broker.get("brokerName") == "piped"
    with pytest.raises(InputError, match=r"the file is a FIFO .named pipe. to which no process"):
        read_adopted_documents([f"{HOST}={tmp_path / 'fifo'}"], ["5.18.3"], Naming())
