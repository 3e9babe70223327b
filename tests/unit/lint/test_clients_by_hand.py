"""A hand-written file with mistakes about clients, limits and security, at most one per line, and its repair."""

from __future__ import annotations

import pytest

from activemq_fleet.lint import RuleSelection, file_findings
from activemq_fleet.releases import Release

# The files configure a login, but no access rights and no TLS: tests/unit/lint/test_security_access.py.
NOT_PLANTED = RuleSelection(ignore=("S015", "S016", "V024", "V035", "C012"))
BEANS = "http://www.springframework.org/schema/beans"
CORE = "http://activemq.apache.org/schema/core"

# Each line with a mistake ends with a comment that names the rules that report it.
PLANTED = f"""<?xml version="1.0" encoding="UTF-8"?>
<beans xmlns="{BEANS}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
       xsi:schemaLocation="{BEANS} {BEANS}/spring-beans.xsd {CORE} {CORE}/activemq-core.xsd">
  <bean class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer">
    <property name="location" value="file:${{activemq.conf}}/credentials.properties"/>
  </bean>
  <broker xmlns="{CORE}" brokerName="orders-a" dataDirectory="${{activemq.data}}">
    <destinationPolicy>
      <policyMap>
        <policyEntries>
          <policyEntry queue="orders.>" memoryLimit="512mb">  <!-- C006 -->
            <networkBridgeFilterFactory>
              <conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true" replayDelay="500"/>
            </networkBridgeFilterFactory>
          </policyEntry>
          <policyEntry topic=">" memoryLimit="32mb"/>
        </policyEntries>
      </policyMap>
    </destinationPolicy>
    <networkConnectors>
      <networkConnector name="billing"
                        uri="static:(tcp://billing.example.com:61616?wireFormat.maxInactivityDuration=0)"  <!-- C011 -->
                        decreaseNetworkConsumerPriority="true"
                        userName="network"
                        password="rosebud"/>  <!-- S010 -->
    </networkConnectors>
    <persistenceAdapter>
      <kahaDB directory="${{activemq.data}}/kahadb" journalMaxFileLength="64mb"/>
    </persistenceAdapter>
    <plugins>
      <simpleAuthenticationPlugin>
        <users>
          <authenticationUser username="system" password="manager" groups="admins"/>  <!-- S004 -->
          <authenticationUser username="app" password="${{app.password}}" groups="apps"/>
        </users>
      </simpleAuthenticationPlugin>
    </plugins>
    <systemUsage>
      <systemUsage sendFailIfNoSpace="true">  <!-- C008 -->
        <memoryUsage><memoryUsage limit="256 mb"/></memoryUsage>
        <storeUsage><storeUsage limit="48 mb"/></storeUsage>  <!-- C007 -->
        <tempUsage><tempUsage limit="16 mb"/></tempUsage>  <!-- C007 -->
      </systemUsage>
    </systemUsage>
    <transportConnectors>
      <transportConnector name="internal"
                          uri="tcp://localhost:61616?wireFormat.maxFrameSize=10485760"  <!-- C002 -->
                          updateClusterClients="true"/>  <!-- C003 -->
      <transportConnector name="public"
                          rebalanceClusterClients="true"  <!-- C001 -->
                          uri="nio://orders-a.example.com:61617?maximumConnections=1000"/>  <!-- S009 -->
      <transportConnector name="mqtt"
                    uri="mqtt://0.0.0.0:1883?maximumConnections=0&amp;wireFormat.maxFrameSize=1048576"/>  <!-- C009 -->
    </transportConnectors>
  </broker>
</beans>
"""
REPAIRS = {
    'memoryLimit="512mb"': 'memoryLimit="64mb"',
    "?wireFormat.maxInactivityDuration=0": "",
    'password="rosebud"': 'password="${network.password}"',
    'password="manager"': 'password="${system.password}"',
    ' sendFailIfNoSpace="true"': "",
    '"48 mb"': '"20 gb"',
    '"16 mb"': '"5 gb"',
    "tcp://localhost:61616": "tcp://orders-a.example.com:61616",
    'updateClusterClients="true"/>': 'updateClusterClients="true" updateClusterClientsOnRemove="true"/>',
    'rebalanceClusterClients="true"': 'rebalanceClusterClients="true" updateClusterClients="true"\n'
    '                          updateClusterClientsOnRemove="true"',
    "61617?maximumConnections=1000": "61617?maximumConnections=1000&amp;wireFormat.maxFrameSize=10485760",
    "maximumConnections=0&": "maximumConnections=500&",
}


def split_notes(text: str) -> tuple[bytes, list[tuple[int, str]]]:
    """Return the file without its notes, and (line, rule) of each note: XML allows no comment inside a tag."""
    code_lines, expected = [], []
    for number, line in enumerate(text.splitlines(), 1):
        code, _, note = line.partition("  <!-- ")
        code_lines.append(code)
        expected += [(number, rule) for rule in note.removesuffix(" -->").split()]
    return "\n".join(code_lines).encode(), expected


@pytest.mark.parametrize("release", ["5.8.0", "5.15.16", "5.18.3", "6.3.1"])
def test_linter_reports_exactly_planted_mistakes_about_clients_at_their_lines(release: str) -> None:
    content, expected = split_notes(PLANTED)
    if release == "5.8.0":
        # In 5.8.0, a replay requires a disabled audit; another rule reports this.
        content = content.replace(b'memoryLimit="512mb"', b'enableAudit="false" memoryLimit="512mb"')
    positions = [
        (finding.line, finding.rule) for finding in file_findings(content, Release.of(release), selection=NOT_PLANTED)
    ]
    assert positions == expected


@pytest.mark.parametrize("release", ["5.8.0", "5.18.3", "6.3.1"])
def test_linter_reports_nothing_for_repaired_file_about_clients(release: str) -> None:
    repaired_text = PLANTED
    for mistake, repair in REPAIRS.items():
        assert mistake in repaired_text
        repaired_text = repaired_text.replace(mistake, repair)
    content, _ = split_notes(repaired_text)
    if release == "5.8.0":
        content = content.replace(b'memoryLimit="64mb"', b'enableAudit="false" memoryLimit="64mb"')
    assert file_findings(content, Release.of(release), selection=NOT_PLANTED) == ()
