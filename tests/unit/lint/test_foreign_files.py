"""Tests with files that this project did not render.

The behavior of brokers with each form was measured on the releases 5.5.1, 5.18.3 and 6.3.1.
"""

from __future__ import annotations

import pytest

from activemq_fleet.findings import Finding
from activemq_fleet.lint import file_findings
from activemq_fleet.releases import XBEAN, Release
from activemq_fleet.schema import BEANS, CORE

XSI = "http://www.w3.org/2001/XMLSchema-instance"
BEANS_LOCATION, CORE_LOCATION = f"{BEANS} {BEANS}/spring-beans.xsd", f"{CORE} {CORE}/activemq-core.xsd"
BOTH_LOCATIONS = f"{BEANS_LOCATION} {CORE_LOCATION}"
DTD = '<!DOCTYPE beans PUBLIC "-//SPRING//DTD BEAN//EN" "http://www.springframework.org/dtd/spring-beans.dtd">'


def document(
    location: str = BOTH_LOCATIONS,
    *,
    root: str = BEANS,
    core: str = CORE,
    before: str = "",
    inside: str = "",
    attributes: str = "",
) -> bytes:
    hint = f' xmlns:xsi="{XSI}" xsi:schemaLocation="{location}"' if location else ""
    broker = f'<broker xmlns="{core}" brokerName="n"{attributes}>{inside}</broker>'
    return f'<beans xmlns="{root}"{hint}>{before}{broker}</beans>'.encode()


def findings_of_rule(rule: str, data: bytes, release: str = "5.18.3", **other_files: bytes) -> list[Finding]:
    findings = file_findings(
        data, Release.of(release), other_files={f"{name}.xsd": text for name, text in other_files.items()}
    )
    return [finding for finding in findings if finding.rule == rule]


def error_messages(data: bytes, release: str = "5.18.3") -> list[str]:
    return [finding.message for finding in findings_of_rule("V020", data, release) if finding.severity == "error"]


@pytest.mark.parametrize(
    ("location", "starting"),
    [
        (BOTH_LOCATIONS, ("5.5.1", "5.18.3", "6.3.1")),
        (f"{BEANS_LOCATION} {CORE} classpath:activemq.xsd", ("5.5.1", "5.18.3", "6.3.1")),
        (f"{BEANS_LOCATION} {CORE_LOCATION} {CORE} http://nowhere.example/x.xsd", ("5.5.1", "5.18.3", "6.3.1")),
        (f"{BEANS_LOCATION} {CORE_LOCATION} http://dangling", ("5.5.1", "5.18.3", "6.3.1")),
        (f"{BEANS_LOCATION} {CORE} https://activemq.apache.org/schema/core/activemq-core.xsd", ("5.18.3", "6.3.1")),
        (f"{BEANS} https://www.springframework.org/schema/beans/spring-beans.xsd {CORE_LOCATION}", ("5.18.3", "6.3.1")),
        (f"{BEANS} {BEANS}/spring-beans-3.2.xsd {CORE_LOCATION}", ("5.18.3", "6.3.1")),
        (f"{BEANS} {BEANS}/spring-beans-5.3.xsd {CORE_LOCATION}", ()),
        (f"{BEANS_LOCATION} {CORE} {CORE}/activemq-core-5.4.2.xsd", ("5.5.1", "5.18.3")),
        (f"{BEANS_LOCATION} {CORE} {CORE}/activemq-core-5.16.5.xsd", ("5.18.3",)),
        (f"{BEANS_LOCATION} {CORE} http://activemq.apache.org/schema/activemq-core.xsd", ()),
        (f"{BEANS_LOCATION} {CORE} {CORE}", ()),
        (f"{BEANS_LOCATION} {CORE} activemq-core.xsd", ()),
        (f"{BEANS_LOCATION} {CORE} http://nowhere.example/x.xsd {CORE_LOCATION}", ()),
        (f"{BEANS_LOCATION} http://activemq.org/schema/core {CORE}/activemq-core.xsd", ()),
        (f"{BEANS} {CORE_LOCATION}", ()),
        (BEANS_LOCATION, ()),
        (CORE_LOCATION, ()),
        ("", ()),
    ],
)
def test_schema_location_is_error_on_releases_that_lack_its_schemas(location: str, starting: tuple[str, ...]) -> None:
    errors = {release: error_messages(document(location), release) for release in ("5.5.1", "5.18.3", "6.3.1")}
    assert tuple(release for release, messages in errors.items() if not messages) == starting, errors


def test_missing_schema_location_is_error_on_5_3() -> None:
    assert error_messages(document(""), "5.3.2") != []
    assert error_messages(document(), "5.3.2") == []
    assert error_messages(document(f"{BEANS_LOCATION} {CORE} {CORE}/activemq-core-5.3.0.xsd"), "5.3.2") == []


def test_https_schema_address_is_error_before_5_15_10() -> None:
    location = f"{BEANS_LOCATION} {CORE} https://activemq.apache.org/schema/core/activemq-core.xsd"
    releases = ("5.15.9", "5.15.10", "5.16.0")
    assert [bool(error_messages(document(location), release)) for release in releases] == [True, False, False]


def test_schema_location_of_broker_element_is_read() -> None:
    attributes = f' xmlns:xsi="{XSI}" xsi:schemaLocation="{CORE_LOCATION}"'
    assert error_messages(document(BEANS_LOCATION, attributes=attributes)) == []


def test_xml_namespace_without_elements_requires_no_schema() -> None:
    assert error_messages(document(f"{BOTH_LOCATIONS} http://example.com/unused http://example.com/unused.xsd")) == []
    assert error_messages(document(attributes=' xmlns:x="urn:x" x:note="an attribute needs no schema"')) == []


def test_xml_namespace_of_element_without_schema_address_is_error() -> None:
    (message,) = error_messages(document(before='<x:y xmlns:x="urn:x"/>'))
    assert message == "xsi:schemaLocation has no address for the namespace urn:x of <y>: the broker does not start"


def test_error_of_unknown_schema_address_mentions_added_jar() -> None:
    plugin = document(
        f"{BOTH_LOCATIONS} urn:x http://x.example/x.xsd", inside='<plugins><x:y xmlns:x="urn:x"/></plugins>'
    )
    (message,) = error_messages(plugin)
    assert "unless an added jar contains the schema" in message


def test_xml_schema_in_directory_of_checked_file_is_accepted() -> None:
    activemq_xml = document(f"{BEANS_LOCATION} {CORE} mine.xsd")
    assert len(findings_of_rule("V020", activemq_xml)) == 1
    assert findings_of_rule("V020", activemq_xml, mine=b"") == []


def test_schema_in_subdirectory_is_matched_by_its_path() -> None:
    activemq_xml = document(f"{BEANS_LOCATION} {CORE} sub/mine.xsd")
    for other_files, count in (({"mine.xsd": b""}, 1), ({"sub/mine.xsd": b""}, 0)):
        findings = file_findings(activemq_xml, Release.of("5.18.3"), other_files=other_files)
        assert [finding.severity for finding in findings if finding.rule == "V020"] == ["error"] * count


def test_xml_schema_of_class_path_is_searched_in_directory_of_checked_file() -> None:
    activemq_xml = document(f"{BEANS_LOCATION} {CORE} classpath:mine.xsd")
    assert [finding.severity for finding in findings_of_rule("V020", activemq_xml)] == ["warning"]
    assert findings_of_rule("V020", activemq_xml, mine=b"") == []


def test_schema_path_outside_directory_is_warning() -> None:
    activemq_xml = document(f"{BEANS_LOCATION} {CORE} ../mine.xsd")
    assert [finding.severity for finding in findings_of_rule("V020", activemq_xml, mine=b"")] == ["warning"]


def test_schema_with_file_uri_is_warning() -> None:
    (finding,) = findings_of_rule("V020", document(f"{BEANS_LOCATION} {CORE} file:/opt/activemq-core.xsd"))
    assert finding.severity == "warning"


def test_fix_of_namespace_of_release_4_contains_its_successor() -> None:
    (finding,) = findings_of_rule("V020", document(core="http://activemq.org/config/1.0"))
    assert f'xmlns="{CORE}"' in finding.fix


def test_root_of_xbean_namespace_requires_schema_of_its_jar() -> None:
    location = f"{XBEAN} classpath:/org/apache/xbean/spring/spring-beans.xsd {CORE_LOCATION}"
    assert error_messages(document(location, root=XBEAN)) == []
    assert error_messages(document(f"{XBEAN} {BEANS}/spring-beans.xsd {CORE_LOCATION}", root=XBEAN))
    assert error_messages(document(CORE_LOCATION, root=XBEAN))


@pytest.mark.parametrize(
    ("bean", "since"),
    [
        ('<bean class="A" singleton="true"/>', None),
        ('<bean class="A" dependency-check="none"/>', None),
        ('<bean class="A"><property value="x"/></bean>', None),
        ('<bean class="A"><value>x</value></bean>', None),
        ('<bean class="A"><property name="x"><ref bean="y"/></property></bean>', "5.5.1"),
        ('<bean class="A"><constructor-arg name="x" value="y"/></bean>', "5.5.1"),
        ('<beans profile="test"/>', "5.8.0"),
    ],
)
def test_spring_elements_are_checked_for_spring_of_release(bean: str, since: str | None) -> None:
    accepting = [
        release
        for release in ("5.5.1", "5.8.0", "5.18.3", "6.3.1")
        if not findings_of_rule("V021", document(before=bean), release)
    ]
    assert (accepting[0] if accepting else None) == since


def test_older_version_of_spring_schema_is_applied_before_5_17() -> None:
    file_with_spring_2_schema = document(
        f"{BEANS} {BEANS}/spring-beans-2.0.xsd {CORE_LOCATION}", before='<bean class="A" dependency-check="none"/>'
    )
    assert [
        bool(findings_of_rule("V021", file_with_spring_2_schema, release)) for release in ("5.5.1", "5.16.7", "5.17.0")
    ] == [
        False,
        False,
        True,
    ]


def test_only_error_of_unknown_scheme_mentions_added_jar() -> None:
    links = '<networkConnectors><networkConnector uri="{}:(tcp://a:1)"/></networkConnectors>'
    (unknown,) = findings_of_rule("V008", document(inside=links.format("kubernetes")))
    assert unknown.severity == "error"
    assert "unless an added jar contains META-INF/services" in unknown.message
    (removed,) = findings_of_rule("V008", document(inside=links.format("rendezvous")))
    assert "unless" not in removed.message


@pytest.mark.parametrize("release", ["5.18.3", "6.3.1"])
@pytest.mark.parametrize(
    ("uri", "count"),
    [("0.0.0.0:61617", 1), ("//0.0.0.0:61617", 1), (" tcp://0.0.0.0:61617", 0), ("${x}://a:1", 0), ("${uri}", 0)],
)
def test_connector_without_scheme_is_reported(uri: str, count: int, release: str) -> None:
    inside = f'<transportConnectors><transportConnector name="x" uri="{uri}"/></transportConnectors>'
    assert len(findings_of_rule("V009", document(inside=inside), release)) == count


@pytest.mark.parametrize(
    "mark",
    [
        'brokerName="{{ inventory_hostname }}"',
        'brokerName="<%= @name %>"',
        'brokerName="@@NAME@@"',
        'brokerName="@BROKER_NAME@"',
        'brokerName="n">{% if x %}<!-- --',
    ],
)
def test_template_of_activemq_xml_has_single_warning(mark: str) -> None:
    text = f'<beans>\n  <broker {mark}><policyEntry memoryLimit="{{{{ x }}}}"/></beans>'
    (finding,) = file_findings(text.encode(), Release.of("5.18.3"))
    assert (finding.rule, finding.severity, finding.line) == ("V022", "warning", 2)
    assert finding.message.startswith("the file is a template, because it contains ")


@pytest.mark.parametrize(
    "text",
    [
        document().replace(b"<broker", b"<!-- {{ not a template }} <% nor this %> --><broker").decode(),
        document(attributes=' dataDirectory="${activemq.data}"').decode(),
        document(attributes=" dataDirectory=\"#{systemProperties['x']}\"").decode(),
        document(
            before='<camelContext xmlns="http://camel.apache.org/schema/spring"><x y="{{z}}"/></camelContext>'
        ).decode(),
    ],
)
def test_file_without_template_marks_has_no_template_warning(text: str) -> None:
    assert "V022" not in {finding.rule for finding in file_findings(text.encode(), Release.of("5.18.3"))}


@pytest.mark.parametrize("name", ["%edge.name%", "$HOSTNAME", "$(hostname)", "@name@", "&lt;name&gt;"])
def test_broker_name_with_placeholder_is_not_checked(name: str) -> None:
    activemq_xml = document().replace(b'brokerName="n"', f'brokerName="{name}"'.encode())
    assert findings_of_rule("N015", activemq_xml) == []


def test_spring_dtd_is_error_only_with_broker_element() -> None:
    plain = f'{DTD}<beans><bean class="org.apache.activemq.broker.BrokerService"/></beans>'.encode()
    assert [finding.severity for finding in findings_of_rule("V002", plain)] == ["warning"]
    assert [finding.severity for finding in findings_of_rule("V002", f"{DTD}<beans><broker/></beans>".encode())] == [
        "error"
    ]
    internal = b'<!DOCTYPE beans [<!ENTITY spring-beans "x">]><beans/>'
    assert [finding.severity for finding in findings_of_rule("V002", internal)] == ["error"]


def test_file_without_authentication_is_warning() -> None:
    inside = '<transportConnectors><transportConnector uri="tcp://0.0.0.0:61616"/></transportConnectors>'
    assert [finding.severity for finding in findings_of_rule("S003", document(inside=inside))] == ["warning"]


@pytest.mark.parametrize(
    "part", ["<!-- ", "<![CDATA[", "<camelContext ", "{{ ", "{% ", "@@a", "${a:", "<!DOCTYPE beans PUBLIC "]
)
def test_linter_checks_megabyte_of_unclosed_marks(part: str) -> None:
    """The linter reads the file in one pass. A new search at each mark would take hours."""
    file_findings((part * (1_000_000 // len(part))).encode(), Release.of("5.18.3"))
