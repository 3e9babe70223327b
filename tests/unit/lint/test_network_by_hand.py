"""Tests with handwritten files: correct files have no findings, and each planted error has one, at its position."""

from __future__ import annotations

import pytest

from activemq_fleet.findings import Finding
from activemq_fleet.lint import file_findings
from activemq_fleet.releases import Release

_BEANS = """<?xml version="1.0" encoding="UTF-8"?>
<beans xmlns="http://www.springframework.org/schema/beans"
       xmlns:amq="http://activemq.apache.org/schema/core">
"""

SHOP_FILE = f"""{_BEANS}
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="shop-mq01" networkConnectorStartAsync="true">
    <destinationPolicy><policyMap><policyEntries>
      <policyEntry queue=">" producerFlowControl="true">
        <networkBridgeFilterFactory>
          <conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true" replayDelay="1000"/>
        </networkBridgeFilterFactory>
      </policyEntry>
    </policyEntries></policyMap></destinationPolicy>
    <networkConnectors>
      <networkConnector name="hub" duplex="true" networkTTL="2" decreaseNetworkConsumerPriority="true"
          uri="masterslave:(tcp://hub-mq01-a.example.com:61616,
                            tcp://hub-mq01-b.example.com:61616)?useExponentialBackOff=false"
          userName="network" password="${{activemq.network.password}}">
        <dynamicallyIncludedDestinations>
          <queue physicalName="orders.>"/>
          <topic physicalName="prices.>"/>
        </dynamicallyIncludedDestinations>
        <excludedDestinations><queue physicalName="orders.private.>"/></excludedDestinations>
      </networkConnector>
    </networkConnectors>
    <plugins>
      <jaasAuthenticationPlugin configuration="activemq-domain"/>
      <authorizationPlugin><map><authorizationMap><authorizationEntries>
        <authorizationEntry queue=">" read="admins,network" write="admins,network" admin="admins,network"/>
        <authorizationEntry topic=">" read="admins" write="admins" admin="admins"/>
        <authorizationEntry topic="ActiveMQ.Advisory.>" read="apps,network" write="apps,network" admin="apps,network"/>
      </authorizationEntries></authorizationMap></map></authorizationPlugin>
    </plugins>
    <transportConnectors>
      <transportConnector name="openwire" rebalanceClusterClients="false"
          uri="nio://0.0.0.0:61616?maximumConnections=1000&amp;wireFormat.maxFrameSize=104857600"/>
      <transportConnector name="stomp" uri="stomp+nio://0.0.0.0:61613?transport.hbGracePeriodMultiplier=2"/>
      <transportConnector name="ssl" uri="ssl://0.0.0.0:61617?transport.enabledProtocols=TLSv1.2&amp;needClientAuth=true"/>
    </transportConnectors>
  </broker>
  <bean id="jms" class="org.apache.activemq.ActiveMQConnectionFactory">
    <property name="brokerURL" value="vm://shop-mq01?create=false&amp;waitForStart=10000"/>
  </bean>
</beans>
"""

PURE_MASTER_FILE = f"""{_BEANS}
  <amq:broker brokerName="orders-mq01-a" waitForSlave="true" waitForSlaveTimeout="86400000">
    <amq:networkConnectors>
      <amq:networkConnector name="orders-mq01-a-orders" uri="multicast://224.1.2.3:6255?group=orders" duplex="true"
          networkTTL="3" decreaseNetworkConsumerPriority="true" userName="net" password="${{p}}"/>
      <amq:networkConnector name="billing" decreaseNetworkConsumerPriority="true" userName="net" password="${{p}}"
          uri="static:(failover:(tcp://billing-mq01-a:61616,tcp://billing-mq01-b:61616)?randomize=false&amp;maxReconnectAttempts=1)"/>
    </amq:networkConnectors>
    <amq:plugins><amq:simpleAuthenticationPlugin><amq:users>
      <amq:authenticationUser username="net" password="${{p}}" groups="net"/>
    </amq:users></amq:simpleAuthenticationPlugin></amq:plugins>
    <amq:transportConnectors>
      <amq:transportConnector name="openwire" uri="nio://0.0.0.0:61616"
          discoveryUri="multicast://224.1.2.3:6255?group=orders"/>
      <amq:transportConnector name="replication" uri="nio://0.0.0.0:61618"/>
    </amq:transportConnectors>
  </amq:broker>
</beans>
"""


def network_findings(text: str, release: str) -> list[Finding]:
    return [finding for finding in file_findings(text.encode(), Release.of(release)) if finding.rule[0] in "NM"]


@pytest.mark.parametrize("release", ["5.11.4", "5.16.7", "5.18.3", "6.3.1"])
def test_correct_handwritten_file_has_no_findings_about_links(release: str) -> None:
    assert network_findings(SHOP_FILE, release) == []


def test_correct_handwritten_file_of_5_5_has_no_findings_about_links() -> None:
    assert network_findings(PURE_MASTER_FILE, "5.5.1") == []


PLANTED = [
    ("N001", ",\n                            tcp://hub-mq01-b.example.com:61616)", ")", "masterslave:("),
    ("N005", "masterslave:(", "static:(", "static:("),
    ("N006", "useExponentialBackOff=false", "maxReconnectAttempts=10", "maxReconnectAttempts=10"),
    ("N007", "tcp://hub-mq01-b.example.com:61616", "tcp://hub-mq01-b:61616?keepalive=true", "keepalive="),
    ("N008", "useExponentialBackOff=false", "useExponentialBackoff=false", "useExponentialBackoff"),
    ("N008", "wireFormat.maxFrameSize", "wireformat.maxFrameSize", "wireformat.maxFrameSize"),
    ("N008", "transport.enabledProtocols", "enabledProtocols", "enabledProtocols"),
    ("N009", "&amp;waitForStart", "&waitForStart", "&waitForStart"),
    ("N014", 'brokerName="shop-mq01"', 'brokerName="localhost"', 'brokerName="localhost"'),
    ("N015", 'brokerName="shop-mq01"', 'brokerName="shop#mq01"', "#mq01"),
    ("N016", 'name="hub"', 'name="hub-${random.int}"', "${random.int}"),
    ("N019", 'replayWhenNoConsumers="true"', 'replayWhenNoConsumers="false"', "replayWhenNoConsumers"),
    ("N021", ' replayDelay="1000"', "", "<conditionalNetwork"),
    ("N023", 'Priority="true"', 'Priority="false"', "decreaseNetworkConsumerPriority"),
    ("N024", 'duplex="true"', 'duplex="true" conduitSubscriptions="false"', "conduitSubscriptions"),
    ("N027", 'brokerName="shop-mq01"', 'brokerName="shop-mq01" advisorySupport="false"', "advisorySupport"),
    ("N028", 'duplex="true"', 'staticBridge="true"', "staticBridge"),
    ("N030", 'duplex="true"', 'prefetchSize="0"', "prefetchSize"),
    ("N031", 'duplex="true"', 'duplex="true" useVirtualDestSubs="true"', "useVirtualDestSubs"),
    ("N032", 'duplex="true"', 'syncDurableSubs="true"', "syncDurableSubs"),
    ("N033", 'duplex="true"', 'dynamicOnly="false"', "dynamicOnly"),
    ("N034", 'name="openwire"', 'name="openwire" auditNetworkProducers="true"', "auditNetworkProducers"),
    ("N036", 'userName="network" password="${activemq.network.password}"', "", "<networkConnector "),
    ("N039", "vm://shop-mq01?create=false&amp;waitForStart=10000", "vm://localhost", "vm://localhost"),
]


@pytest.mark.parametrize(("rule", "good", "bad", "position"), PLANTED, ids=[f"{case[0]}-{case[3]}" for case in PLANTED])
def test_error_planted_in_link_of_file_is_reported_once_at_its_position(
    rule: str, good: str, bad: str, position: str
) -> None:
    assert good in SHOP_FILE
    faulty_file = SHOP_FILE.replace(good, bad, 1)
    findings = network_findings(faulty_file, "5.18.3")
    if rule in ("N014", "N015"):  # N039 correctly reports that the vm:// URI has a different name
        findings = [finding for finding in findings if finding.rule != "N039"]
    assert [finding.rule for finding in findings] == [rule]
    (finding,) = findings
    assert faulty_file.splitlines()[(finding.line or 0) - 1][(finding.column or 0) - 1 :].startswith(position)


PLANTED_BEFORE_5_6 = [
    ("N002", "&amp;maxReconnectAttempts=1", "", "failover:("),
    ("N003", "maxReconnectAttempts=1", "maxReconnectAttempts=0", "maxReconnectAttempts=0"),
    ("N004", "randomize=false&amp;", "", "failover:("),
    ("N007", "randomize=false", "randomize=false&amp;priorityBackup=true", "priorityBackup"),
    ("N026", 'networkTTL="3" decreaseNetworkConsumerPriority="true"', "", "<amq:networkConnector "),
    ("M003", 'discoveryUri="multicast://224.1.2.3:6255?group=orders"', "", "multicast:"),
    ("M004", "nio://0.0.0.0:61616", "nio://127.0.0.1:61616", "127.0.0.1"),
]


@pytest.mark.parametrize(
    ("rule", "good", "bad", "position"), PLANTED_BEFORE_5_6, ids=[case[0] for case in PLANTED_BEFORE_5_6]
)
def test_error_planted_in_link_of_5_5_file_is_reported_once_at_its_position(
    rule: str, good: str, bad: str, position: str
) -> None:
    assert good in PURE_MASTER_FILE
    faulty_file = PURE_MASTER_FILE.replace(good, bad, 1)
    (finding,) = network_findings(faulty_file, "5.5.1")
    assert finding.rule == rule
    assert faulty_file.splitlines()[(finding.line or 0) - 1][(finding.column or 0) - 1 :].startswith(position)
