"""Files as strangers write them: what a broker makes of each shape was measured on 5.5.1, 5.18.3 and 6.3.1."""

from __future__ import annotations

import pytest

from activemq_fleet.findings import Finding
from activemq_fleet.lint import file_findings
from activemq_fleet.releases import XBEAN, Release
from activemq_fleet.schema import BEANS, CORE

XSI = "http://www.w3.org/2001/XMLSchema-instance"
OF_BEANS, OF_CORE = f"{BEANS} {BEANS}/spring-beans.xsd", f"{CORE} {CORE}/activemq-core.xsd"
BOTH = f"{OF_BEANS} {OF_CORE}"
DTD = '<!DOCTYPE beans PUBLIC "-//SPRING//DTD BEAN//EN" "http://www.springframework.org/dtd/spring-beans.dtd">'


def document(
    location: str = BOTH, *, root: str = BEANS, core: str = CORE, before: str = "", inside: str = "", own: str = ""
) -> bytes:
    hint = f' xmlns:xsi="{XSI}" xsi:schemaLocation="{location}"' if location else ""
    broker = f'<broker xmlns="{core}" brokerName="n"{own}>{inside}</broker>'
    return f'<beans xmlns="{root}"{hint}>{before}{broker}</beans>'.encode()


def of(rule: str, data: bytes, release: str = "5.18.3", **other_files: bytes) -> list[Finding]:
    findings = file_findings(
        data, Release.of(release), other_files={f"{name}.xsd": text for name, text in other_files.items()}
    )
    return [finding for finding in findings if finding.rule == rule]


def refusals(data: bytes, release: str = "5.18.3") -> list[str]:
    return [finding.message for finding in of("V020", data, release) if finding.severity == "error"]


@pytest.mark.parametrize(
    ("location", "starting"),
    [
        (BOTH, ("5.5.1", "5.18.3", "6.3.1")),
        (f"{OF_BEANS} {CORE} classpath:activemq.xsd", ("5.5.1", "5.18.3", "6.3.1")),
        (f"{OF_BEANS} {OF_CORE} {CORE} http://nowhere.example/x.xsd", ("5.5.1", "5.18.3", "6.3.1")),
        (f"{OF_BEANS} {OF_CORE} http://dangling", ("5.5.1", "5.18.3", "6.3.1")),
        (f"{OF_BEANS} {CORE} https://activemq.apache.org/schema/core/activemq-core.xsd", ("5.18.3", "6.3.1")),
        (f"{BEANS} https://www.springframework.org/schema/beans/spring-beans.xsd {OF_CORE}", ("5.18.3", "6.3.1")),
        (f"{BEANS} {BEANS}/spring-beans-3.2.xsd {OF_CORE}", ("5.18.3", "6.3.1")),
        (f"{BEANS} {BEANS}/spring-beans-5.3.xsd {OF_CORE}", ()),
        (f"{OF_BEANS} {CORE} {CORE}/activemq-core-5.4.2.xsd", ("5.5.1", "5.18.3")),
        (f"{OF_BEANS} {CORE} {CORE}/activemq-core-5.16.5.xsd", ("5.18.3",)),
        (f"{OF_BEANS} {CORE} http://activemq.apache.org/schema/activemq-core.xsd", ()),
        (f"{OF_BEANS} {CORE} {CORE}", ()),
        (f"{OF_BEANS} {CORE} activemq-core.xsd", ()),
        (f"{OF_BEANS} {CORE} http://nowhere.example/x.xsd {OF_CORE}", ()),
        (f"{OF_BEANS} http://activemq.org/schema/core {CORE}/activemq-core.xsd", ()),
        (f"{BEANS} {OF_CORE}", ()),
        (OF_BEANS, ()),
        (OF_CORE, ()),
        ("", ()),
    ],
)
def test_the_releases_that_find_the_schemas_of_a_location_are_those_that_start(
    location: str, starting: tuple[str, ...]
) -> None:
    found = {release: refusals(document(location), release) for release in ("5.5.1", "5.18.3", "6.3.1")}
    assert tuple(release for release, messages in found.items() if not messages) == starting, found


def test_5_3_checks_its_file_too() -> None:
    assert refusals(document(""), "5.3.2") != []
    assert refusals(document(), "5.3.2") == []
    assert refusals(document(f"{OF_BEANS} {CORE} {CORE}/activemq-core-5.3.0.xsd"), "5.3.2") == []


def test_https_addresses_are_found_from_5_15_10_on() -> None:
    location = f"{OF_BEANS} {CORE} https://activemq.apache.org/schema/core/activemq-core.xsd"
    assert [bool(refusals(document(location), release)) for release in ("5.15.9", "5.15.10", "5.16.0")] == [1, 0, 0]


def test_a_location_on_the_broker_itself_counts() -> None:
    own = f' xmlns:xsi="{XSI}" xsi:schemaLocation="{OF_CORE}"'
    assert refusals(document(OF_BEANS, own=own)) == []


def test_namespaces_that_no_element_has_are_not_asked_for() -> None:
    assert refusals(document(f"{BOTH} http://example.com/unused http://example.com/unused.xsd")) == []
    assert refusals(document(own=' xmlns:x="urn:x" x:note="an attribute needs no schema"')) == []


def test_a_namespace_without_an_address_stops_every_broker_whatever_jars_it_has() -> None:
    (message,) = refusals(document(before='<x:y xmlns:x="urn:x"/>'))
    assert message == "xsi:schemaLocation has no address for the namespace urn:x of <y>: the broker does not start"


def test_a_namespace_with_an_address_may_be_brought_by_a_jar_of_the_users_own() -> None:
    plugin = document(f"{BOTH} urn:x http://x.example/x.xsd", inside='<plugins><x:y xmlns:x="urn:x"/></plugins>')
    (message,) = refusals(plugin)
    assert "unless an added jar contains the schema" in message


def test_a_schema_beside_the_file_is_taken() -> None:
    data = document(f"{OF_BEANS} {CORE} mine.xsd")
    assert len(of("V020", data)) == 1
    assert of("V020", data, mine=b"") == []


def test_a_schema_of_a_directory_is_not_the_one_beside_the_file() -> None:
    data = document(f"{OF_BEANS} {CORE} sub/mine.xsd")
    for other_files, count in (({"mine.xsd": b""}, 1), ({"sub/mine.xsd": b""}, 0)):
        findings = file_findings(data, Release.of("5.18.3"), other_files=other_files)
        assert [finding.severity for finding in findings if finding.rule == "V020"] == ["error"] * count


def test_a_schema_of_the_class_path_may_lie_beside_the_file_which_is_on_it() -> None:
    data = document(f"{OF_BEANS} {CORE} classpath:mine.xsd")
    assert [finding.severity for finding in of("V020", data)] == ["warning"]
    assert of("V020", data, mine=b"") == []


def test_of_a_path_out_of_the_directory_nothing_is_certain() -> None:
    data = document(f"{OF_BEANS} {CORE} ../mine.xsd")
    assert [finding.severity for finding in of("V020", data, mine=b"")] == ["warning"]


def test_a_file_elsewhere_is_a_warning() -> None:
    (finding,) = of("V020", document(f"{OF_BEANS} {CORE} file:/opt/activemq-core.xsd"))
    assert finding.severity == "warning"


def test_the_namespace_of_4_is_told_its_successor() -> None:
    (finding,) = of("V020", document(core="http://activemq.org/config/1.0"))
    assert f'xmlns="{CORE}"' in finding.fix


def test_xbeans_own_root_starts_with_the_schema_of_its_jar_only() -> None:
    mine = f"{XBEAN} classpath:/org/apache/xbean/spring/spring-beans.xsd {OF_CORE}"
    assert refusals(document(mine, root=XBEAN)) == []
    assert refusals(document(f"{XBEAN} {BEANS}/spring-beans.xsd {OF_CORE}", root=XBEAN))
    assert refusals(document(OF_CORE, root=XBEAN))


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
def test_springs_elements_are_held_against_the_spring_of_the_release(bean: str, since: str | None) -> None:
    told = [release for release in ("5.5.1", "5.8.0", "5.18.3", "6.3.1") if of("V021", document(before=bean), release)]
    fine = [release for release in ("5.5.1", "5.8.0", "5.18.3", "6.3.1") if release not in told]
    assert (fine[0] if fine else None) == since


def test_an_older_version_of_springs_schema_counts_as_it_is_named_before_5_17() -> None:
    old = document(
        f"{BEANS} {BEANS}/spring-beans-2.0.xsd {OF_CORE}", before='<bean class="A" dependency-check="none"/>'
    )
    assert [bool(of("V021", old, release)) for release in ("5.5.1", "5.16.7", "5.17.0")] == [False, False, True]


def test_unknown_scheme_may_come_with_jar_and_scheme_of_other_release_may_not() -> None:
    links = '<networkConnectors><networkConnector uri="{}:(tcp://a:1)"/></networkConnectors>'
    (unknown,) = of("V008", document(inside=links.format("kubernetes")))
    assert unknown.severity == "error"
    assert "unless an added jar contains META-INF/services" in unknown.message
    (gone,) = of("V008", document(inside=links.format("rendezvous")))
    assert "unless" not in gone.message


@pytest.mark.parametrize("release", ["5.18.3", "6.3.1"])
@pytest.mark.parametrize(
    ("uri", "count"),
    [("0.0.0.0:61617", 1), ("//0.0.0.0:61617", 1), (" tcp://0.0.0.0:61617", 0), ("${x}://a:1", 0), ("${uri}", 0)],
)
def test_a_connector_without_a_scheme_does_not_start(uri: str, count: int, release: str) -> None:
    inside = f'<transportConnectors><transportConnector name="x" uri="{uri}"/></transportConnectors>'
    assert len(of("V009", document(inside=inside), release)) == count


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
def test_of_a_template_nothing_is_told_but_that_it_is_one(mark: str) -> None:
    text = f'<beans>\n  <broker {mark}><policyEntry memoryLimit="{{{{ x }}}}"/></beans>'
    (finding,) = file_findings(text.encode(), Release.of("5.18.3"))
    assert (finding.rule, finding.severity, finding.line) == ("V022", "warning", 2)
    assert finding.message.startswith("the file is a template, because it contains ")


@pytest.mark.parametrize(
    "text",
    [
        document().replace(b"<broker", b"<!-- {{ not a template }} <% nor this %> --><broker").decode(),
        document(own=' dataDirectory="${activemq.data}"').decode(),
        document(own=" dataDirectory=\"#{systemProperties['x']}\"").decode(),
        document(
            before='<camelContext xmlns="http://camel.apache.org/schema/spring"><x y="{{z}}"/></camelContext>'
        ).decode(),
    ],
)
def test_what_a_broker_reads_is_no_template(text: str) -> None:
    assert "V022" not in {finding.rule for finding in file_findings(text.encode(), Release.of("5.18.3"))}


@pytest.mark.parametrize("name", ["%edge.name%", "$HOSTNAME", "$(hostname)", "@name@", "&lt;name&gt;"])
def test_a_placeholder_of_any_kind_is_no_name(name: str) -> None:
    data = document().replace(b'brokerName="n"', f'brokerName="{name}"'.encode())
    assert of("N015", data) == []


def test_springs_dtd_around_plain_beans_is_no_error_and_around_a_broker_is() -> None:
    plain = f'{DTD}<beans><bean class="org.apache.activemq.broker.BrokerService"/></beans>'.encode()
    assert [finding.severity for finding in of("V002", plain)] == ["warning"]
    assert [finding.severity for finding in of("V002", f"{DTD}<beans><broker/></beans>".encode())] == ["error"]
    internal = b'<!DOCTYPE beans [<!ENTITY spring-beans "x">]><beans/>'
    assert [finding.severity for finding in of("V002", internal)] == ["error"]


def test_a_file_without_a_login_is_a_warning_because_a_file_shows_no_firewall() -> None:
    inside = '<transportConnectors><transportConnector uri="tcp://0.0.0.0:61616"/></transportConnectors>'
    assert [finding.severity for finding in of("S003", document(inside=inside))] == ["warning"]


@pytest.mark.parametrize(
    "part", ["<!-- ", "<![CDATA[", "<camelContext ", "{{ ", "{% ", "@@a", "${a:", "<!DOCTYPE beans PUBLIC "]
)
def test_a_megabyte_of_open_marks_takes_no_longer_than_reading_it(part: str) -> None:
    """With a search that begins again at each of them this test would run for hours."""
    file_findings((part * (1_000_000 // len(part))).encode(), Release.of("5.18.3"))
