"""Hand-written files: ``[[RULE]]`` marks each position at which that rule, and no other, reports a finding."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from activemq_fleet.lint import RuleSelection, file_findings
from activemq_fleet.releases import Release

# The files configure a login, but no access rights and no TLS: tests/unit/lint/test_security_access.py.
NOT_PLANTED = RuleSelection(ignore=("S015", "S016", "V024", "V035", "V051", "L027"))
BEANS = "http://www.springframework.org/schema/beans"
CORE = "http://activemq.apache.org/schema/core"
_MARK = re.compile(r"\[\[([A-Z0-9 ]+)\]\]")

HEAD = f"""<?xml version="1.0" encoding="UTF-8"?>
<!-- our broker: do not edit this on the machine itself -->
<beans xmlns="{BEANS}" xmlns:amq="{CORE}"
  xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="{BEANS} {BEANS}/spring-beans.xsd
  {CORE} {CORE}/activemq-core.xsd">
"""
LOGIN = '<plugins><jaasAuthenticationPlugin configuration="activemq"/></plugins>'
REPLAY = """<destinationPolicy><policyMap><policyEntries><policyEntry queue=">"><networkBridgeFilterFactory>
  <conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true" replayDelay="500"/>
</networkBridgeFilterFactory></policyEntry></policyEntries></policyMap></destinationPolicy>"""
ACCOUNT = 'userName="u" password="${p}"'
LOCAL = 'decreaseNetworkConsumerPriority="true"'
FRAME = "wireFormat.maxFrameSize=10485760"


def broker(body: str, attributes: str = 'brokerName="mq1"', after: str = "") -> str:
    return f'{HEAD}  <broker xmlns="{CORE}" {attributes}>\n{body}\n  </broker>\n{after}\n</beans>\n'


def broker_with_login(body: str, attributes: str = 'brokerName="mq1"', after: str = "") -> str:
    return broker(f"{LOGIN}\n{body}", attributes, after)


def store(body: str, attributes: str = 'brokerName="mq1"', after: str = "") -> str:
    return broker_with_login(f"\t<persistenceAdapter>\n\t{body}\n\t</persistenceAdapter>", attributes, after)


def broker_with_links(body: str, attributes: str = 'brokerName="mq1"', policies: str = REPLAY) -> str:
    return broker_with_login(f"{policies}<networkConnectors>\n{body}</networkConnectors>", attributes)


def link(uri: str, attributes: str = "") -> str:
    connector = f'<networkConnector name="x" {ACCOUNT} {LOCAL} {attributes} uri="{uri}"/>'
    return broker_with_links(connector, 'brokerName="mq1" networkConnectorStartAsync="true"')


def data_source_bean(url: str) -> str:
    return f"""<bean id="ds" class="org.apache.commons.dbcp2.BasicDataSource">
  <property name="url" value="{url}"/></bean>"""


def policies(*entries: str) -> str:
    return (
        "<destinationPolicy><policyMap><policyEntries>\n"
        + "\n".join(entries)
        + "</policyEntries></policyMap></destinationPolicy>"
    )


PLANTED = {
    "V001 twice, tabs": ("5.5.1", broker(f"\t{LOGIN}\n\t\t[[V001]]<plugins><statisticsBrokerPlugin/></plugins>")),
    "V003 prefixed, over lines": (
        "6.2.7",
        f"""{HEAD}<amq:broker brokerName="s"
     [[V003]]masterConnectorURI = 'tcp://m:61616'><amq:plugins><amq:jaasAuthenticationPlugin configuration="a"/>
     </amq:plugins></amq:broker></beans>""",
    ),
    "V004 quotes": (
        "6.3.1",
        broker_with_login(
            "", 'brokerName="a"\n\t\t[[V004]]shutdownOnMasterFailure="false"\n\t\t[[V004]]passiveSlave=\'true\''
        ),
    ),
    "V005 two": ("5.18.3", store('[[V005]]<replicatedLevelDB directory="/x" zkAddress="z:2181"/>')),
    "V006 after a comment": ("6.3.1", store('<!-- old --> [[V006]]<amq:kahaPersistenceAdapter directory="/x"/>')),
    "V007 thrice": (
        "5.5.1",
        broker(
            f"""<persistenceAdapter><kahaDB directory="/x"
  [[L004 V007]]lockKeepAlivePeriod="500"
  [[V007]]useLock="true">[[V007]]<locker/></kahaDB></persistenceAdapter>{LOGIN}"""
        ),
    ),
    "V008 slashes": ("5.18.3", link("[[V008]]rendezvous://default")),
    "V008 no agent": ("6.3.1", link("[[V008]]tcp://x:61616")),
    "V009": (
        "5.11.4",
        broker_with_login(
            f"""<transportConnectors><transportConnector name="m" uri="[[V009]]auto+nio://0.0.0.0:5671?{FRAME}"/>
<transportConnector name="n" uri="[[V009]]tcps://0.0.0.0:5671?{FRAME}"/></transportConnectors>"""
        ),
    ),
    "V010": (
        "5.18.3",
        broker_with_login("").replace(f"{CORE}/activemq-core.", f"[[V010]]{CORE}/activemq-core-5.16.5."),
    ),
    "V013, V014": (
        "6.3.1",
        broker_with_login(
            "",
            after='<bean [[V013]]class="org.fusesource.insight.log.log4j.Log4jLogQuery" id="logQuery"/>\n'
            ' <import resource="[[V014]]jetty.xml"/>',
        ),
    ),
    "V016 in another order": (
        "5.8.0",
        broker_with_login(
            f"""<transportConnectors>
<transportConnector name="ow" uri="tcp://0.0.0.0:61616?{FRAME}"/>
<transportConnector
   uri="nio://0.0.0.0:61617?{FRAME}"
   name="[[V016]]ow"/></transportConnectors>"""
        ),
    ),
    "L003 by its path": ("5.18.3", store('[[L003]]<kahaDB directory="/mnt/nfs/amq"/>')),
    "L003, L008, L022": (
        "6.3.1",
        store(
            """<kahaDB directory="/data/kahadb" [[L003]]lockKeepAlivePeriod="0">
  <locker><shared-file-locker [[L008]]failIfLocked="true" [[L022]]lockAcquireSleepInterval="45000"/></locker>
  </kahaDB>"""
        ),
    ),
    "L005, L024": (
        "5.11.4",
        store(
            """<amq:kahaDB directory="/gfs2/broker"\r
 [[L005]]lockKeepAlivePeriod="5000" [[L024]]ignoreMissingJournalfiles="true" checkForCorruptJournalFiles="true"/>"""
        ),
    ),
    "L007, L020, L021": (
        "5.18.3",
        store(
            '<kahaDB directory="/shared/x" [[L007]]useLock="false" lockKeepAlivePeriod="5000"/>',
            'brokerName="a" [[L021]]restartAllowed="false" [[L020]]deleteAllMessagesOnStartup="true"',
        ),
    ),
    "L009 by default": (
        "5.15.16",
        store(
            """<jdbcPersistenceAdapter dataSource="#ds" stopOnError="true"><locker>
  [[L009]]<lease-database-locker/></locker></jdbcPersistenceAdapter>""",
            after=data_source_bean("jdbc:mysql://db/x"),
        ).replace(
            "\t<persistence", "<ioExceptionHandler><leaseLockerIOExceptionHandler/></ioExceptionHandler><persistence"
        ),
    ),
    "L012, L014, L015": (
        "5.18.3",
        store(
            '[[L012 L014 L015]]<jdbcPersistenceAdapter dataSource="#ds"/>',
            after=data_source_bean("jdbc:mysql://db1,db2/x"),
        ),
    ),
    "L018": (
        "5.18.3",
        store(
            '<kahaDB directory="/shared/x/k" lockKeepAlivePeriod="5000"/>',
            'schedulerSupport="true" brokerName="a" [[L018]]dataDirectory="${activemq.data}"',
        ),
    ),
    "L019, L021": (
        "6.3.1",
        store(
            '<kahaDB directory="/shared/x/k" lockKeepAlivePeriod="5000"/>',
            'brokerName="a" [[L019]]persistent="false" [[L021]]systemExitOnShutdown="true"',
        ),
    ),
    "P001, P010": (
        "5.5.1",
        broker_with_login(
            '<services><masterConnector [[P010]]remoteURI="[[P001]]failover://(tcp://m:1)?initialReconnectDelay=9"/></services>'
        ),
    ),
    "P003, P004": ("5.5.1", broker_with_login("", 'brokerName="m" [[P003 P004]]waitForSlave="true"')),
    "N001 slashes": ("6.3.1", link("[[N001]]masterslave://(ssl://a:61616)?useExponentialBackOff=false")),
    "N002, N004 over lines": (
        "5.18.3",
        link("static:([[N002 N004]]failover:(tcp://a:61616,\n   tcp://b:61616))", 'duplex="true"'),
    ),
    "N002 by number": (
        "6.2.7",
        link("static:(failover://(tcp://a:1,tcp://b:1)?randomize=false&#38;[[N002]]maxReconnectAttempts=5)"),
    ),
    "N005, spaces": (
        "6.3.1",
        link("  [[N005]]static:(nio://mq-master:1 , [[V068]]nio://mq-slave:1)?maxReconnectDelay=9"),
    ),
    "N006 second": ("6.3.1", link("static:(tcp://a:1)?initialReconnectDelay=500&amp;[[N006]]maxReconnectAttempts=3")),
    "N007 in both": (
        "5.18.3",
        link(
            "static:(tcp://a:1?[[N007]]keepalive=true&amp;soTimeout=1000,"
            "tcp://c:1?keepAlive=true&amp;[[N007]]wireformat.maxFrameSize=5)",
        ),
    ),
    "N008": (
        "6.3.1",
        broker_with_login(
            f"""<transportConnectors>
 <transportConnector name="ow" uri="tcp://0.0.0.0:1?[[N008]]maxConnections=9&amp;{FRAME}&amp;[[N008]]transport.keepalive=true"/>
 <transportConnector name="st" uri="stomp://0.0.0.0:2?{FRAME}
     &amp;[[N008]]hbGracePeriodMultiplier=2"/></transportConnectors>"""
        ),
    ),
    "N009 twice": (
        "5.18.3",
        broker_with_login(
            f"""<!-- a & b --><transportConnectors><transportConnector name="ow"
  uri="tcp://0.0.0.0:1?maximumConnections=9[[N009]]&{FRAME}[[N009]]&transport.tcpNoDelay=true"/></transportConnectors>"""
        ),
    ),
    "N012": (
        "5.5.1",
        broker(
            f"""<networkConnectors><networkConnector {LOCAL} {ACCOUNT} uri="static:(tcp://a:1)"/>
  [[N012]]<amq:networkConnector {LOCAL} {ACCOUNT} uri="static:(tcp://c:1)"/></networkConnectors>{LOGIN}""",
            'brokerName="m" networkConnectorStartAsync="true"',
        ),
    ),
    "N015, non-ASCII letters": ("6.3.1", broker_with_login("", 'useJmx="true"\n\tbrokerName="mq[[N015]]ä"')),
    "N016": ("5.18.3", link("static:(tcp://a:1)").replace('name="x"', 'name="[[N016]]${random.uuid}"')),
    "N020, N021": (
        "5.7.0",
        broker_with_links(
            f'<networkConnector name="x" {ACCOUNT} {LOCAL} uri="static:(tcp://a:1)"/>',
            policies=policies(
                """<policyEntry queue=">" [[N020]]enableAudit="true"><networkBridgeFilterFactory>
 <conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true" [[N021]]replayDelay="0"/>
 </networkBridgeFilterFactory></policyEntry>"""
            ),
        ),
    ),
    "N022 prefixed": (
        "5.11.4",
        broker_with_links(
            f'<networkConnector name="x" {ACCOUNT} {LOCAL} uri="static:(tcp://a:1)"/>',
            policies=policies(
                """<amq:policyEntry queue="A">
\t[[N022]]<amq:conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true"
\t\treplayDelay="500"/></amq:policyEntry>"""
            ),
        ),
    ),
    "N024": ("5.15.16", link("static:(tcp://a:1)", "[[N024]]conduitSubscriptions='false'")),
    "N028, N030": ("6.3.1", link("static:(tcp://a:1)", '[[N028]]staticBridge="true" [[N030]]prefetchSize="-1"')),
    "N031, N032, N033": (
        "5.18.3",
        link(
            "static:(tcp://a:1)",
            '[[N032]]syncDurableSubs="true"\n  [[N031]]useVirtualDestSubs="true" [[N033]]dynamicOnly="false"',
        ),
    ),
    "N039 in another schema": (
        "5.18.3",
        broker_with_login(
            "",
            after='<bean class="org.apache.activemq.ActiveMQConnectionFactory"\n p:brokerURL="[[N039]]vm:localhost"'
            ' xmlns:p="http://www.springframework.org/schema/p"/>',
        ),
    ),
    "C001 to C003": (
        "6.3.1",
        broker_with_login(
            f"""<transportConnectors>
 <transportConnector name="ow" [[C001]]rebalanceClusterClients="true" uri="tcp://h.example.com:1?{FRAME}"/>
 <transportConnector name="o2" [[C003]]updateClusterClients="true" uri="tcp://[[C002]]127.0.0.1:2?{FRAME}"/>
</transportConnectors>"""
        ),
    ),
    "C011": ("5.18.3", link("static:(tcp://a:1?keepAlive=true&amp;[[C011]]wireFormat.maxInactivityDuration=0)")),
    "S004, passwords first": (
        "5.18.3",
        broker(
            """<plugins><simpleAuthenticationPlugin><users>
 <authenticationUser groups="u" [[S004]]password="user" username="user"/></users>
 </simpleAuthenticationPlugin></plugins>"""
        ),
    ),
    "S010": (
        "5.18.3",
        link("static:(tcp://a:1)").replace(ACCOUNT, 'userName="u"\n\t[[S010]]password="hunter2"'),
    ),
}

CORRECT = {
    "placeholders everywhere": (
        ("5.16.7", "5.18.3", "6.3.1"),
        broker_with_links(
            """<networkConnector name="${link}" uri="${link.uri}" networkTTL="2" decreaseNetworkConsumerPriority="true"
    userName="${u}" password="${p}"/>
  <networkConnector name="two" uri="${scheme}:(tcp://${a}:${port},tcp://${b}:${port})?${options}"
    decreaseNetworkConsumerPriority="true" userName="${u}" password="${p}"/>""",
            'brokerName="${broker.name}" dataDirectory="${activemq.data}"',
        ),
    ),
    "two brokers in one file": (
        ("5.15.16", "6.3.1"),
        broker_with_login("", 'id="one" brokerName="one" useJmx="false" persistent="false"').replace(
            "</beans>",
            f"""<broker xmlns="{CORE}" id="two" brokerName="two" useJmx="false" persistent="false">{LOGIN}
  <transportConnectors><transportConnector name="auto" uri="auto+nio://0.0.0.0:1?{FRAME}&amp;auto.protocols=stomp"/>
  </transportConnectors></broker></beans>""",
        ),
    ),
    "a slave of 2011": (
        ("5.5.1", "5.7.0"),
        broker_with_login(
            """<services><masterConnector remoteURI="nio://m1.example.com:61618" userName="system" password="${p}"/>
  </services>""",
            'brokerName="s1" shutdownOnMasterFailure="false"',
        ),
    ),
    "a bridge that connects through failover:": (
        ("5.8.0", "5.11.4"),
        link(
            "static:(failover:(tcp://a:1,tcp://b:1)?randomize=false&amp;maxReconnectAttempts=0&amp;timeout=3000)"
        ).replace('queue=">"', 'queue="&gt;" enableAudit="false"'),
    ),
}

SPELLINGS: dict[str, Callable[[str], bytes]] = {
    "UTF-8": str.encode,
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "Windows line ends": lambda text: re.sub("\r?\n", "\r\n", text).encode(),
    "UTF-16": lambda text: text.replace('"UTF-8"', '"UTF-16"').encode("utf-16"),
    "ISO-8859-1": lambda text: text.replace('"UTF-8"', '"ISO-8859-1"').encode("iso-8859-1"),
}


def split_marks(marked: str) -> tuple[str, list[tuple[str, int, int]]]:
    """Return the text without its marks, and (rule, line, column) of each mark."""
    text, expected = "", []
    for part in re.split(r"(\[\[[A-Z0-9 ]+\]\])", marked):
        if _MARK.fullmatch(part):
            line, column = text.count("\n") + 1, len(text) - text.rfind("\n")
            expected += [(name, line, column) for name in part.strip("[]").split()]
        else:
            text += part
    return text, sorted(expected)


def finding_positions(content: bytes, release: str) -> list[tuple[str, int | None, int | None]]:
    return sorted(
        (finding.rule, finding.line, finding.column)
        for finding in file_findings(content, Release.of(release), selection=NOT_PLANTED)
    )


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", PLANTED)
def test_linter_reports_exactly_planted_mistakes_of_handwritten_files(name: str, spelling: str) -> None:
    release, marked = PLANTED[name]
    text, expected = split_marks(marked)
    assert expected
    assert finding_positions(SPELLINGS[spelling](text), release) == expected


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", CORRECT)
def test_linter_reports_nothing_for_correct_handwritten_files(name: str, spelling: str) -> None:
    releases, text = CORRECT[name]
    assert [finding_positions(SPELLINGS[spelling](text), release) for release in releases] == [[] for _ in releases]
