"""What the examples of the V rules do not show: places, severities, and what must not fire."""

from __future__ import annotations

import pytest

from activemq_fleet.lint import file_findings
from activemq_fleet.releases import Release
from tests.rule_examples import complete
from tests.support.rule_findings import rule_findings

BEANS = (
    '<beans xmlns="http://www.springframework.org/schema/beans">'
    '<broker xmlns="http://activemq.apache.org/schema/core" brokerName="north">{}</broker>{}</beans>'
)


def test_a_child_out_of_order_is_named_with_the_one_it_must_precede() -> None:
    document = b"""<beans xmlns="http://www.springframework.org/schema/beans">
  <broker xmlns="http://activemq.apache.org/schema/core">
    <transportConnectors/>
    <networkConnectors/>
    <plugins/>
    <plugins/>
  </broker>
</beans>"""
    problems = rule_findings("V001", document, "5.5.1")
    assert [(problem.line, problem.column) for problem in problems] == [(4, 5), (5, 5), (6, 5)]
    assert "<transportConnectors>" in problems[0].message
    assert "second <plugins>" in problems[2].message


def test_a_spring_bean_among_the_children_has_no_place_in_the_order() -> None:
    inner = '<plugins/><bean xmlns="http://www.springframework.org/schema/beans" class="x.Y"/><systemUsage/>'
    assert rule_findings("V001", BEANS.format(inner, "").encode(), "5.5.1") == []


@pytest.mark.parametrize("release", ["5.3.2", "5.6.0", "5.18.3"])
def test_other_releases_take_any_order(release: str) -> None:
    assert rule_findings("V001", BEANS.format("<systemUsage/><plugins/>", "").encode(), release) == []


def test_a_dead_attribute_that_is_switched_off_is_only_a_hint() -> None:
    problems = rule_findings(
        "V004", '<broker shutdownOnSlaveFailure="false" waitForSlave="true" waitForSlaveTimeout="1"/>'
    )
    assert {problem.message.partition("=")[0]: problem.severity for problem in problems} == {
        "shutdownOnSlaveFailure": "info",
        "waitForSlave": "error",
        "waitForSlaveTimeout": "info",
    }


def test_leveldb_is_a_warning_while_the_release_still_has_it() -> None:
    snippet = '<levelDB directory="${activemq.data}/leveldb"/>'
    assert [problem.severity for problem in rule_findings("V005", snippet, "5.16.7")] == ["warning"]
    assert [problem.severity for problem in rule_findings("V005", snippet, "5.17.6")] == ["error"]
    assert rule_findings("V005", snippet, "5.13.5") == []


def test_a_jdbc_store_may_have_a_keep_alive_before_lockers_exist() -> None:
    snippet = '<jdbcPersistenceAdapter dataSource="#db" lockKeepAlivePeriod="5000" useDatabaseLock="true"/>'
    assert rule_findings("V007", snippet, "5.5.1") == []


def test_every_name_of_a_locker_is_told_before_5_7() -> None:
    snippet = (
        '<kahaDB directory="d" useLock="true" lockKeepAlivePeriod="1"><locker><shared-file-locker/></locker></kahaDB>'
    )
    assert len(rule_findings("V007", snippet, "5.5.1")) == 3


def test_a_scheme_that_is_decided_elsewhere_is_not_judged() -> None:
    assert rule_findings("V008", '<networkConnector name="s" uri="${south.uri}"/>') == []
    assert rule_findings("V009", '<transportConnector name="s" uri="${scheme}://0.0.0.0:1"/>') == []


def test_the_discovery_uri_of_a_connector_is_looked_at_too() -> None:
    snippet = '<transportConnector name="s" uri="tcp://0.0.0.0:1" discoveryUri="rendezvous:default"/>'
    assert [problem.message.partition(" (")[0] for problem in rule_findings("V008", snippet)] == [
        "ActiveMQ 5.18.3 has no discovery agent for the URI scheme rendezvous"
    ]


def test_the_place_of_a_versioned_schema_is_inside_the_attribute() -> None:
    document = b"""<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="
    http://activemq.apache.org/schema/core
    http://activemq.apache.org/schema/core/activemq-core-5.5.0.xsd"><broker xmlns="http://activemq.apache.org/schema/core"/></beans>"""
    assert [(problem.line, problem.column) for problem in rule_findings("V010", document)] == [(4, 5)]


def test_validation_that_a_comment_switches_off_is_on() -> None:
    text = "# xbean:activemq.xml?validate=false\nexec java xbean:activemq.xml?validate=false\n"
    assert [
        (problem.file, problem.line, problem.column) for problem in rule_findings("V011", "", wrapper__conf=text)
    ] == [("conf/wrapper.conf", 2, 11)]


def test_a_console_file_that_is_there_is_not_missed() -> None:
    assert rule_findings("V014", '<import resource="jetty.xml"/>', "6.3.1", jetty__xml="<beans/>") == []


def test_a_console_file_carried_over_from_an_older_jetty_is_told() -> None:
    old = '<bean class="org.eclipse.jetty.webapp.WebAppContext"/>'
    assert len(rule_findings("V014", '<import resource="jetty.xml"/>', "6.3.1", jetty__xml=old)) == 1


def test_logging_settings_of_both_kinds_are_no_mistake() -> None:
    assert rule_findings("V015", "", log4j__properties="", log4j2__properties="") == []


def test_log4j2_settings_alone_are_not_read_to_5_16() -> None:
    assert [problem.file for problem in rule_findings("V015", "", "5.16.7", log4j2__properties="")] == [
        "conf/log4j2.properties"
    ]


def test_the_second_of_two_names_is_named_with_the_line_of_the_first() -> None:
    document = b"""<beans xmlns="http://www.springframework.org/schema/beans">
  <broker xmlns="http://activemq.apache.org/schema/core">
    <networkConnectors>
      <networkConnector name="south" uri="static:(tcp://a:1)"/>
      <networkConnector
          name="south" uri="static:(tcp://b:1)"/>
    </networkConnectors>
  </broker>
</beans>"""
    problem = rule_findings("V016", document)[0]
    assert (problem.line, problem.column) == (6, 17)
    assert "line 4" in problem.message


def test_names_of_several_words_share_their_words() -> None:
    snippet = '<networkConnector name="to a" uri="static:(tcp://a:1)"/><networkConnector name="to b" uri="static:(tcp://b:1)"/>'
    assert ['"to"' in problem.message for problem in rule_findings("V016", snippet)] == [True]


def test_a_virtual_destination_is_a_bean_like_any_other() -> None:
    inner = (
        "<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>"
        '<compositeQueue name="X"/><compositeTopic name="X"/>'
        "</virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>"
    )
    assert len(rule_findings("V016", BEANS.format(inner, "").encode())) == 1


def test_inner_beans_of_spring_and_properties_may_share_a_name() -> None:
    outer = (
        '<bean id="one" class="x.Y"><property name="handlers"><list>'
        '<bean id="header" class="x.Z"/><bean id="header" class="x.Z"/></list></property></bean>'
        '<bean id="two" class="x.Y"><property name="handlers"/></bean>'
    )
    assert rule_findings("V016", BEANS.format("", outer).encode()) == []


def test_an_element_may_repeat_its_own_name_as_its_id() -> None:
    assert rule_findings("V016", '<networkConnector id="s" name="s" uri="static:(tcp://a:1)"/>') == []


def test_a_console_file_of_a_directory_is_not_the_one_beside_the_file() -> None:
    snippet = '<import resource="sub/jetty.xml"/>'
    assert rule_findings("V014", snippet, "6.3.1", jetty__xml="<beans/>")
    known = Release.of("6.3.1")
    findings = file_findings(complete(snippet, known), known, other_files={"sub/jetty.xml": b"<beans/>"})
    assert "V014" not in {finding.rule for finding in findings}
