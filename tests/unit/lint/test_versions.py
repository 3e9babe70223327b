"""Tests of the V rules beyond their examples: positions, severities, and files without findings."""

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


def test_broker_child_out_of_order_is_reported_with_element_to_precede() -> None:
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


def test_spring_bean_does_not_affect_order_of_broker_children() -> None:
    inner = '<plugins/><bean xmlns="http://www.springframework.org/schema/beans" class="x.Y"/><systemUsage/>'
    assert rule_findings("V001", BEANS.format(inner, "").encode(), "5.5.1") == []


@pytest.mark.parametrize("release", ["5.3.2", "5.6.0", "5.18.3"])
def test_order_of_broker_children_is_reported_on_5_5_only(release: str) -> None:
    assert rule_findings("V001", BEANS.format("<systemUsage/><plugins/>", "").encode(), release) == []


def test_removed_broker_attribute_is_info_if_it_disables_function() -> None:
    problems = rule_findings(
        "V004", '<broker shutdownOnSlaveFailure="false" waitForSlave="true" waitForSlaveTimeout="1"/>'
    )
    assert {problem.message.partition("=")[0]: problem.severity for problem in problems} == {
        "shutdownOnSlaveFailure": "info",
        "waitForSlave": "error",
        "waitForSlaveTimeout": "info",
    }


def test_leveldb_is_warning_until_release_removes_it() -> None:
    snippet = '<levelDB directory="${activemq.data}/leveldb"/>'
    assert [problem.severity for problem in rule_findings("V005", snippet, "5.16.7")] == ["warning"]
    assert [problem.severity for problem in rule_findings("V005", snippet, "5.17.6")] == ["error"]
    assert rule_findings("V005", snippet, "5.13.5") == []


def test_keep_alive_of_jdbc_store_is_not_reported_on_5_5() -> None:
    snippet = '<jdbcPersistenceAdapter dataSource="#db" lockKeepAlivePeriod="5000" useDatabaseLock="true"/>'
    assert rule_findings("V007", snippet, "5.5.1") == []


def test_every_locker_setting_is_reported_before_5_7() -> None:
    snippet = (
        '<kahaDB directory="d" useLock="true" lockKeepAlivePeriod="1"><locker><shared-file-locker/></locker></kahaDB>'
    )
    assert len(rule_findings("V007", snippet, "5.5.1")) == 3


def test_scheme_with_placeholder_is_not_reported() -> None:
    assert rule_findings("V008", '<networkConnector name="s" uri="${south.uri}"/>') == []
    assert rule_findings("V009", '<transportConnector name="s" uri="${scheme}://0.0.0.0:1"/>') == []


def test_discovery_uri_of_connector_is_checked() -> None:
    snippet = '<transportConnector name="s" uri="tcp://0.0.0.0:1" discoveryUri="rendezvous:default"/>'
    assert [problem.message.partition(" (")[0] for problem in rule_findings("V008", snippet)] == [
        "ActiveMQ 5.18.3 has no discovery agent for the URI scheme rendezvous"
    ]


def test_versioned_schema_is_reported_at_its_position_in_attribute() -> None:
    document = b"""<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="
    http://activemq.apache.org/schema/core
    http://activemq.apache.org/schema/core/activemq-core-5.5.0.xsd"><broker xmlns="http://activemq.apache.org/schema/core"/></beans>"""
    assert [(problem.line, problem.column) for problem in rule_findings("V010", document)] == [(4, 5)]


def test_disabled_xml_validation_in_comment_of_wrapper_conf_is_ignored() -> None:
    text = "# xbean:activemq.xml?validate=false\nexec java xbean:activemq.xml?validate=false\n"
    assert [
        (problem.file, problem.line, problem.column) for problem in rule_findings("V011", "", wrapper__conf=text)
    ] == [("conf/wrapper.conf", 2, 11)]


def test_existing_console_file_is_not_reported() -> None:
    assert rule_findings("V014", '<import resource="jetty.xml"/>', "6.3.1", jetty__xml="<beans/>") == []


def test_console_file_of_older_jetty_is_reported() -> None:
    console_of_older_jetty = '<bean class="org.eclipse.jetty.webapp.WebAppContext"/>'
    assert len(rule_findings("V014", '<import resource="jetty.xml"/>', "6.3.1", jetty__xml=console_of_older_jetty)) == 1


def test_log4j_files_of_both_versions_are_not_reported() -> None:
    assert rule_findings("V015", "", log4j__properties="", log4j2__properties="") == []


def test_log4j2_file_alone_is_reported_on_5_16() -> None:
    assert [problem.file for problem in rule_findings("V015", "", "5.16.7", log4j2__properties="")] == [
        "conf/log4j2.properties"
    ]


def test_duplicate_link_name_is_reported_with_line_of_first_link() -> None:
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


def test_link_names_that_share_word_before_blank_are_reported() -> None:
    snippet = '<networkConnector name="to a" uri="static:(tcp://a:1)"/><networkConnector name="to b" uri="static:(tcp://b:1)"/>'
    assert ['"to"' in problem.message for problem in rule_findings("V016", snippet)] == [True]


def test_duplicate_name_of_virtual_destinations_is_reported() -> None:
    inner = (
        "<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>"
        '<compositeQueue name="X"/><compositeTopic name="X"/>'
        "</virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>"
    )
    assert len(rule_findings("V016", BEANS.format(inner, "").encode())) == 1


def test_inner_beans_may_have_same_id() -> None:
    outer = (
        '<bean id="one" class="x.Y"><property name="handlers"><list>'
        '<bean id="header" class="x.Z"/><bean id="header" class="x.Z"/></list></property></bean>'
        '<bean id="two" class="x.Y"><property name="handlers"/></bean>'
    )
    assert rule_findings("V016", BEANS.format("", outer).encode()) == []


def test_link_may_have_same_name_and_id() -> None:
    assert rule_findings("V016", '<networkConnector id="s" name="s" uri="static:(tcp://a:1)"/>') == []


def test_console_file_in_subdirectory_is_matched_by_its_path() -> None:
    snippet = '<import resource="sub/jetty.xml"/>'
    assert rule_findings("V014", snippet, "6.3.1", jetty__xml="<beans/>")
    target_release = Release.of("6.3.1")
    findings = file_findings(
        complete(snippet, target_release), target_release, other_files={"sub/jetty.xml": b"<beans/>"}
    )
    assert "V014" not in {finding.rule for finding in findings}
