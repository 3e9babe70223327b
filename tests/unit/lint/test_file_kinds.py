"""Files that are checked as activemq.xml, but have another kind, define no broker, or import other files."""

from __future__ import annotations

import codecs
from codecs import BOM_UTF32_BE, BOM_UTF32_LE

import pytest

from activemq_fleet import lint_file
from activemq_fleet.findings import Finding
from activemq_fleet.lint import file_findings
from activemq_fleet.releases import Release
from activemq_fleet.schema import BEANS, CORE, UnreadableXmlError, parse_xml_root_element

RELEASE = Release.of("5.18.3")
LOCATIONS = (
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
    f'xsi:schemaLocation="{BEANS} {BEANS}/spring-beans.xsd {CORE} {CORE}/activemq-core.xsd"'
)
BROKER = f'<broker xmlns="{CORE}" brokerName="x" useJmx="false" persistent="false"/>'
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\ndata:\n  activemq.xml: |\n    <beans><broker/></beans>\n"
LOGIN = "activemq {\n  org.apache.activemq.jaas.PropertiesLoginModule required\n  reload=true;\n};\n"

KINDS = [
    ("broker.xml", b'<configuration xmlns="urn:activemq"/>', "broker.xml of Apache Artemis"),
    ("b.xml", b'<configuration xmlns="urn:activemq:core"/>', "broker.xml of Apache Artemis"),
    ("b.xml", b'<broker xmlns="http://activemq.org/schema"/>', "bootstrap.xml of Apache Artemis"),
    ("b.xml", b'<broker xmlns="http://activemq.apache.org/schema"/>', "bootstrap.xml of Apache Artemis"),
    ("b.xml", b"", "an empty file"),
    ("b.xml", codecs.BOM_UTF8 + b" \n", "empty except for white space"),
    ("b.xml", b'<?xml version="1.0"?>\n<!-- licence -->\n', "without any element"),
    ("b.xml", b"\x7fELF\2\1[% x %]\0\0", "a compiled program"),
    ("b.xml", b"PK\x03\x04ab", "zip or jar"),
    ("b.xml", b"\1\2[% \0\0 <beans>", "a binary file"),
    ("users.properties", b"admin=admin\n", "a properties file"),
    ("jetty-realm.properties", b"admin: admin, admin\n", "a properties file"),
    ("x", b"a.b=c\nd.e = f\n", "a properties file"),
    ("env", b'#!/bin/sh\nACTIVEMQ_HOME=/x\nif [ -z "$A" ]; then\n  A=1\nfi\n', "environment variables"),
    ("wrapper.conf", b"#x\nwrapper.debug=TRUE\nset.default.A=b\n", "wrapper.conf"),
    ("login.config", LOGIN.encode(), "JAAS"),
    ("log4j2.properties", b"rootLogger.level = INFO\n", "Log4j"),
    ("log4j2.xml", b"<Configuration/>", "Log4j"),
    ("application.yml", b"spring:\n  activemq:\n    broker-url: tcp://h:1\n", "a YAML file"),
    ("cm.yaml", CONFIG_MAP.encode(), "a Kubernetes manifest of the kind ConfigMap"),
    ("vars.yml", b"activemq_xml: |\n  <beans>\n  </beans>\n", "a YAML file"),
    ("x.json", b'{"a": 1}', "a JSON file"),
    ("x.sh", b"#!/bin/bash\ncat <<E\n<beans></beans>\nE\n", "a script"),
    ("x.pem", b"-----BEGIN CERTIFICATE-----\n", "a certificate or a key"),
    ("x.service", b"[Unit]\nAfter=network.target\n", "a systemd unit"),
    ("pom.xml", b'<project xmlns="http://maven.apache.org/POM/4.0.0"/>', "pom.xml"),
    ("bp.xml", b'<blueprint xmlns="http://www.osgi.org/xmlns/blueprint/v1.0.0"/>', "an OSGi Blueprint file"),
    ("r.xml", b'<routes xmlns="http://camel.apache.org/schema/spring"/>', "an Apache Camel file"),
    ("s.xml", b'<server xmlns="urn:jboss:domain:4.0"/>', "another program, with the root element <server>"),
    ("h.xml", b"<!DOCTYPE html><html><br></html>", "an HTML page"),
    ("n.txt", b"Some words of prose.\nAnd others.\n", "a text file that is not XML"),
]


def errors_of(data: bytes, file: str = "activemq.xml", **other_files: bytes) -> list[Finding]:
    """Return the errors of a file and of the files next to it, whose names have ``__`` in place of dots."""
    names = {name.replace("__", "."): content for name, content in other_files.items()}
    findings = lint_file(data, RELEASE, file=file, other_files=names, schema_of=None)
    return [finding for finding in findings if finding.severity == "error"]


def beans(inside: str) -> bytes:
    return f'<beans xmlns="{BEANS}" {LOCATIONS}>{inside}</beans>'.encode()


def v041_findings(data: bytes, **other_files: bytes) -> list[Finding]:
    names = {name.replace("__", "."): content for name, content in other_files.items()}
    return [finding for finding in file_findings(data, RELEASE, other_files=names) if finding.rule == "V041"]


@pytest.mark.parametrize(("file", "data", "kind"), KINDS, ids=[kind for _, _, kind in KINDS])
def test_file_that_is_no_activemq_xml_is_single_error_that_names_its_kind(file: str, data: bytes, kind: str) -> None:
    [finding] = lint_file(data, RELEASE, file=file, schema_of=None)

    assert (finding.rule, finding.severity, finding.file) == ("V040", "error", file)
    assert kind in finding.message
    assert "spelling" not in finding.fix


def test_artemis_file_gets_tools_of_artemis_as_fix() -> None:
    [finding] = lint_file(b'<configuration xmlns="urn:activemq"/>', RELEASE, schema_of=None)

    assert "artemis check node" in finding.fix


@pytest.mark.parametrize(
    "data",
    [
        beans(BROKER),
        beans(BROKER).decode().encode("utf-16"),
        b"<beans",
        b"stray text\n<beans><broker/></beans>",
        b'<broker xmlns="http://activemq.org/config/1.0"/>',
        b"<broker/>",
        f'<!DOCTYPE beans SYSTEM "x"><beans>{BROKER}</beans>'.encode(),
    ],
)
def test_file_intended_as_activemq_xml_has_no_finding_about_kind(data: bytes) -> None:
    assert "V040" not in {finding.rule for finding in file_findings(data, RELEASE)}


@pytest.mark.parametrize(
    ("inside", "kind"),
    [
        ('<bean class="org.apache.activemq.ActiveMQConnectionFactory"/>', "JMS clients"),
        (f'<connectionFactory xmlns="{CORE}"/>', "JMS clients"),
        ('<camelContext xmlns="http://camel.apache.org/schema/spring"/>', "Apache Camel"),
        ('<bean class="org.eclipse.jetty.server.Server"/>', "the web console"),
        ("", "a Spring context"),
    ],
)
def test_spring_context_without_broker_is_error_that_names_its_content(inside: str, kind: str) -> None:
    [finding] = v041_findings(beans(inside))

    assert finding.severity == "error"
    assert kind in finding.message


@pytest.mark.parametrize(
    "inside",
    [
        BROKER,
        '<bean class="org.apache.activemq.broker.BrokerService"/>',
        '<bean class="com.example.OwnBroker"/>',
        f'<beans profile="default">{BROKER}</beans>',
        f'<beans profile="!test">{BROKER}</beans>',
        '<import resource="part.xml"/>',
        '<import resource="${activemq.conf}/part.xml"/>',
        '<import resource="between.xml"/>',
    ],
)
def test_spring_context_with_broker_in_any_place_has_no_finding_about_it(inside: str) -> None:
    imported = {"part__xml": beans(BROKER), "between__xml": beans('<import resource="part.xml"/>')}

    assert not v041_findings(beans(inside), **imported)


@pytest.mark.parametrize("inside", [f'<beans profile="p">{BROKER}</beans>', '<import resource="absent.xml"/>'])
def test_spring_context_whose_broker_may_not_exist_is_warning(inside: str) -> None:
    [finding] = v041_findings(beans(inside))

    assert finding.severity == "warning"


def test_errors_of_imported_broker_are_those_of_imported_file() -> None:
    broken_broker = f'<broker xmlns="{CORE}"><transportConnectors><transportConnector uri="nosuch://h:1"/>'.encode()
    imported_file = beans((broken_broker + b"</transportConnectors></broker>").decode())
    errors = errors_of(beans('<import resource="part.xml"/>'), file="conf/activemq.xml", part__xml=imported_file)

    assert [(finding.rule, finding.file) for finding in errors] == [("V009", "conf/part.xml")]


def test_imported_file_is_read_from_directory_of_importing_file() -> None:
    files = {"sub/a.xml": beans('<import resource="b.xml"/>'), "sub/b.xml": beans('<bean idd="x"/>')}
    findings = file_findings(beans(f'{BROKER}<import resource="sub/a.xml"/>'), RELEASE, other_files=files)

    assert [(finding.rule, finding.file) for finding in findings if finding.severity == "error"] == [
        ("V021", "conf/sub/b.xml")
    ]


def test_absent_imported_file_is_reported_as_not_checked() -> None:
    findings = file_findings(beans(f'{BROKER}<import resource="absent.xml"/>'), RELEASE)

    assert [finding.message for finding in findings if finding.rule == "V042"] == [
        "the imported file absent.xml was not found in the directory of this file: its content was not checked"
    ]


# The behavior of Java 17: unlike libxml2, it rejects a declaration that contradicts the bytes.
ENCODINGS = [
    ("UTF-8", "utf-16", False),
    ("ISO-8859-1", "utf-16-le", False),
    ("UTF-16", "utf-16", True),
    ("utf-16le", "utf-16-le", True),
    ("UTF-16", "utf-8", False),
    ("UTF-8", "utf-8-sig", True),
    ("ISO-8859-1", "latin-1", True),
    (None, "utf-16", True),
]


@pytest.mark.parametrize(("declared", "written", "is_readable"), ENCODINGS)
def test_xml_encoding_that_contradicts_bytes_of_file_is_refused(
    declared: str | None, written: str, is_readable: bool
) -> None:
    declaration = f' encoding="{declared}"' if declared else ""
    data = f'<?xml version="1.0"{declaration}?>\n<beans/>'.encode(written)

    if is_readable:
        assert parse_xml_root_element(data).tag == "beans"
    else:
        with pytest.raises(UnreadableXmlError, match=f"declares the encoding {declared}, but is written in"):
            parse_xml_root_element(data)


@pytest.mark.parametrize("declaration", ["", '<?xml version="1.0" encoding="UTF-32"?>'])
@pytest.mark.parametrize(("mark", "encoding"), [(BOM_UTF32_LE, "utf-32-le"), (BOM_UTF32_BE, "utf-32-be")])
def test_file_in_utf_32_has_single_finding_that_names_encoding(declaration: str, mark: bytes, encoding: str) -> None:
    """Java 17 reports content in the prolog for little-endian files, and an invalid byte for others."""
    findings = file_findings(mark + (declaration + beans(BROKER).decode()).encode(encoding), RELEASE)

    assert [(finding.rule, finding.message, finding.fix) for finding in findings] == [
        (
            "V002",
            "Java cannot read the file: it is written in UTF-32 with a byte order mark",
            "save the file in UTF-8, and declare UTF-8 or no encoding in its first line",
        )
    ]


CONSOLE = f"""<beans xmlns="{BEANS}">
  <bean id="login" class="org.eclipse.jetty.util.security.Constraint">
    <property name="authenticate" value="false"/></bean>
  <bean class="org.eclipse.jetty.webapp.WebAppContext"><property name="contextPath" value="/admin"/></bean>
  <bean id="jettyPort" class="org.apache.activemq.web.WebConsolePort"><property name="host" value="0.0.0.0"/></bean>
  <bean class="org.eclipse.jetty.server.ServerConnector">
    <property name="host" value="#{{systemProperties['jetty.host']}}"/></bean>
</beans>""".encode()


@pytest.mark.parametrize("name", ["jetty3.xml", "console.xml", "web/admin.xml"])
def test_console_imported_by_any_name_is_checked(name: str) -> None:
    importing = beans(f'{BROKER}<import resource="{name}"/>')
    findings = file_findings(importing, RELEASE, other_files={name: CONSOLE})

    assert {("S005", f"conf/{name}"), ("S006", f"conf/{name}")} <= {(f.rule, f.file) for f in findings}


HOSTILE = ["a.", "\n", "a\n", " ", "- ", "[1,", "a: ", "<a", "<!--", "<?", "a required {\n", "x\n<beans ", "kind: "]


@pytest.mark.parametrize("part", HOSTILE)
def test_large_text_that_is_no_xml_has_single_finding(part: str) -> None:
    findings = file_findings((part * 30_000 + "x").encode(), RELEASE)

    assert {finding.rule for finding in findings} <= {"V002", "V019", "V040"}
    assert len(findings) == 1
