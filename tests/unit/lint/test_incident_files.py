"""Tests of configurations that caused incidents: the linter reports each of them before a broker starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from activemq_fleet import Finding, Release, build_fleet, check_fleet, lint_links_between_files
from activemq_fleet.schema import BEANS
from tests.rule_examples import complete
from tests.support.rule_findings import rule_findings

JETTY = '<import resource="jetty.xml"/>'


def fleet_findings(rule: str, *hosts: str, release: str, **variables: Any) -> list[Finding]:
    """Return the findings of a rule about an inventory of these hosts."""
    settings: dict[str, Any] = {"release": release, "users": [{"name": "shop", "password": "aB3dE5fG7h"}], **variables}
    host_variables = {f"activemq_{name}": value for name, value in settings.items()}
    fleet = build_fleet(dict.fromkeys(hosts, host_variables))
    return list(check_fleet(fleet, schema_of=None, select=[rule]))


def severities(findings: list[Finding]) -> list[str]:
    return [finding.severity for finding in findings]


# -- dbcp1-after-upgrade, crash-loop-late-bean ------------------------------------------------


def data_source(name: str, properties: Mapping[str, str]) -> str:
    texts = "".join(f'<property name="{key}" value="{value}"/>' for key, value in properties.items())
    return f'<bean id="claims-db" class="{name}" destroy-method="close">{texts}</bean>'


OLD_POOL = data_source("org.apache.commons.dbcp.BasicDataSource", {"maxActive": "50", "maxWait": "1000"})
EXPECTED_FIX = "BasicDataSource, and maxTotal instead of maxActive, and maxWaitMillis instead of maxWait"


def test_data_source_of_dbcp_1_after_upgrade_is_error_with_new_names() -> None:
    (finding,) = rule_findings("V028", OLD_POOL)
    assert EXPECTED_FIX in finding.fix


def test_data_source_of_dbcp_1_in_xml_fragment_of_inventory_is_error() -> None:
    fragment = OLD_POOL.replace("<bean ", f'<bean xmlns="{BEANS}" ')
    (finding,) = fleet_findings(
        "V028",
        "claims-mq01-a",
        release="5.18.3",
        ha="none",
        xml_fragments=[{"parent": "beans", "xml": fragment}],
    )
    assert EXPECTED_FIX in finding.fix


def test_data_source_of_dbcp_2_with_property_of_dbcp_1_is_error() -> None:
    new_pool = data_source("org.apache.commons.dbcp2.BasicDataSource", {"maxActive": "50"})
    (finding,) = rule_findings("V028", new_pool)
    assert "no property maxActive" in finding.message
    assert "write maxTotal" in finding.fix


DBCP2 = "org.apache.commons.dbcp2.BasicDataSource"
POOL = "org.apache.activemq.pool.PooledConnectionFactory"


@pytest.mark.parametrize(
    ("bean", "release", "expected"),
    [
        ('class="org.apache.commons.dbcp.managed.BasicManagedDataSource"/>', "5.18.3", "dbcp2.managed.BasicManaged"),
        (
            'class="org.apache.commons.pool.impl.GenericObjectPool"/>',
            "5.18.3",
            "the class org.apache.commons.pool2.",
        ),
        (
            'class="org.apache.commons.dbcp2.PoolingDataSource"/>',
            "5.11.4",
            "the class org.apache.commons.dbcp.Po",
        ),
        ('class="org.apache.activemq.jms.pool.XaPooledConnectionFactory"/>', "5.8.0", "activemq.pool.XaPooled"),
        ('class="org.apache.activemq.camel.component.ActiveMQComponent"/>', "5.17.6", "remove the bean"),
        (f'xmlns:p="http://www.springframework.org/schema/p" class="{DBCP2}" p:maxActive="5"/>', "5.18.3", "maxTotal"),
        (f'class="{DBCP2}"><property name="maxactive" value="5"/></bean>', "5.18.3", "no property maxactive"),
        (f'class="{DBCP2}"><property name="maxWait"><value>5</value></property></bean>', "5.18.3", "maxWaitMillis"),
        (f'class="{DBCP2}"><property name="maxActive" value="${{size}}"/></bean>', "5.18.3", "write maxTotal"),
        (
            f'class="{POOL}"><property name="maximumActive" value="5"/></bean>',
            "5.18.3",
            "write maximumActiveSessionPerConnection",
        ),
        (
            f'class="{POOL}"><property name="connectionTimeout" value="5"/></bean>',
            "5.15.11",
            "install 5.15.12 or later",
        ),
        (
            'class="org.apache.activemq.ActiveMQSslConnectionFactory"><property name="brokerUrl" value="x"/></bean>',
            "6.3.1",
            "write brokerURL",
        ),
        (
            'class="org.postgresql.ds.PGSimpleDataSource"><property name="username" value="x"/></bean>',
            "5.18.3",
            "PGSimpleDataSource has no property username: the broker stops during its start: write user",
        ),
        (
            'class="oracle.jdbc.pool.OracleDataSource"><property name="url" value="x"/></bean>',
            "5.18.3",
            "write URL",
        ),
    ],
)
def test_spring_bean_of_different_activemq_release_is_error(bean: str, release: str, expected: str) -> None:
    (finding,) = rule_findings("V028", f'<bean id="x" {bean}', release)
    assert expected in f"{finding.message}: {finding.fix}"


@pytest.mark.parametrize(
    "beans",
    [
        f'<bean id="x" class="{DBCP2}" abstract="true"><property name="maxActive" value="5"/></bean>',
        f'<bean id="x" class="{DBCP2}" lazy-init="true"><property name="maxActive" value="5"/></bean>',
        f'<bean id="x" class="{DBCP2}"><property name="maxTotal" value="5"/></bean>',
        '<bean id="x" class="com.example.dbcp.BasicDataSource"><property name="maxActive" value="5"/></bean>',
        '<bean id="x" class="org.apache.activemq.pool.PooledConnectionFactory" p="x"/>',
        '<bean id="x" class="${pool.class}"><property name="maxActive" value="5"/></bean>',
    ],
)
def test_valid_or_unused_spring_bean_has_no_finding(beans: str) -> None:
    assert rule_findings("V028", beans) == []


def test_spring_bean_that_inherits_its_class_is_checked() -> None:
    parent = f'<bean id="base" class="{DBCP2}" abstract="true"/>'
    child = '<bean id="x" parent="base"><property name="maxActive" value="5"/></bean>'
    assert len(rule_findings("V028", parent + child)) == 1


def test_lazy_spring_bean_that_store_references_is_checked() -> None:
    bean = f'<bean id="db" class="{DBCP2}" lazy-init="true"><property name="maxActive" value="5"/></bean>'
    assert len(rule_findings("V028", f'{bean}<jdbcPersistenceAdapter dataSource="#db"/>')) == 1


def test_spring_bean_inside_other_bean_is_checked() -> None:
    inner = f'<bean id="db" class="{DBCP2}"><property name="maxActive" value="5"/></bean>'
    outer = f'<bean id="x" class="com.example.Audit"><property name="source">{inner}</property></bean>'
    assert len(rule_findings("V028", outer)) == 1


# -- shared-tmp-storage -----------------------------------------------------------------------

LOCKED = '<kahaDB directory="{}" lockKeepAlivePeriod="5000"/>'


@pytest.mark.parametrize(
    ("attributes", "store", "severity"),
    [
        ('dataDirectory="/mnt/ledger/activemq"', "/mnt/ledger/activemq/kahadb", "error"),
        ('dataDirectory="/mnt/ledger//./activemq/"', "/mnt/ledger/activemq/kahadb/", "error"),
        ('dataDirectory="file:///mnt/ledger/activemq"', "/mnt/ledger/activemq/kahadb", "error"),
        ('dataDirectory="/srv/ledger/kahadb/data"', "/srv/ledger/kahadb", "error"),
        ('dataDirectory="/var/amq" tmpDataDirectory="/srv/ledger/kahadb/tmp"', "/srv/ledger/kahadb", "error"),
        ('dataDirectory="/nfs/ledger/other"', "/srv/ledger/kahadb", "error"),
        ('dataDirectory="/srv/ledger/tmp"', "/srv/ledger/kahadb", "warning"),
        ('dataDirectory="${activemq.data}"', "${activemq.data}/kahadb", "warning"),
    ],
)
def test_temporary_storage_on_shared_directory_is_reported(attributes: str, store: str, severity: str) -> None:
    snippet = f"<broker {attributes}/>{LOCKED.format(store)}"
    assert severities(rule_findings("L040", snippet, "5.10.2")) == [severity]


@pytest.mark.parametrize(
    "attributes",
    [
        'dataDirectory="/var/lib/activemq/data"',
        'dataDirectory="${activemq.data}"',
        'dataDirectory="/mnt/ledger" tmpDataDirectory="/var/tmp/activemq"',
        'dataDirectory="/mnt/ledger" persistent="false"',
        'dataDirectory="/mnt/ledger-of-node-a/x"',
    ],
)
def test_temporary_storage_in_local_directory_is_no_error(attributes: str) -> None:
    store = LOCKED.format("/mnt/ledger/kahadb") if "of-node" not in attributes else LOCKED.format("/srv/x/kahadb")
    findings = rule_findings("L040", f"<broker {attributes}/>{store}", "5.10.2")
    assert [finding for finding in findings if finding.severity == "error"] == []


PLIST_BEAN = (
    '<bean id="spool" class="org.apache.activemq.store.kahadb.plist.PListStoreImpl">'
    '<property name="directory" value="/srv/ledger/tmp"/></bean>'
)


@pytest.mark.parametrize(
    ("store", "attributes"),
    [
        ('<tempDataStore><pListStoreImpl directory="/srv/ledger/tmp"/></tempDataStore>', ""),
        (f"<tempDataStore>{PLIST_BEAN}</tempDataStore>", ""),
        ("", 'tempDataStore="#spool"'),
    ],
)
def test_temp_data_store_in_shared_directory_is_warning(store: str, attributes: str) -> None:
    bean = PLIST_BEAN if attributes else ""
    broker = f'<broker dataDirectory="/var/amq" {attributes}>{store}</broker>'
    (finding,) = rule_findings("L040", f"{bean}{broker}{LOCKED.format('/srv/ledger/kahadb')}", "5.10.2")
    assert finding.severity == "warning"
    assert "count against tempUsage" in finding.message


def test_temporary_storage_on_shared_directory_in_inventory_is_error() -> None:
    findings = fleet_findings(
        "L040",
        *("ledger-mq01-a", "ledger-mq01-b"),
        release="5.10.2",
        broker_attributes={"dataDirectory": "/srv/activemq/ledger-mq01"},
    )
    assert severities(findings) == ["error", "error"]


def test_temporary_storage_of_inventory_with_defaults_has_no_finding() -> None:
    assert fleet_findings("L040", "ledger-mq01-a", "ledger-mq01-b", release="5.10.2") == []


# -- runtime-config-started -------------------------------------------------------------------

RELOAD = '<runtimeConfigurationPlugin checkPeriod="1000"/>'


@pytest.mark.parametrize(
    ("snippet", "number"),
    [
        (RELOAD, 1),
        (f'<broker start="true"/>{RELOAD}', 1),
        (f'<broker start="false"/>{RELOAD}', 0),
        (f'<broker start="${{activemq.start}}"/>{RELOAD}', 0),
        (
            '<broker><plugins><bean id="reload"'
            ' class="org.apache.activemq.plugin.RuntimeConfigurationPlugin"/></plugins></broker>',
            1,
        ),
    ],
)
def test_runtime_configuration_plugin_of_broker_started_by_spring_is_reported(snippet: str, number: int) -> None:
    assert len(rule_findings("V031", snippet)) == number


@pytest.mark.parametrize("variables", [{}, {"runtime_configuration": True}])
def test_runtime_configuration_plugin_of_rendered_file_has_no_finding(variables: dict[str, Any]) -> None:
    assert fleet_findings("V031", "store-mq01-a", release="5.18.3", ha="none", **variables) == []


def test_runtime_configuration_plugin_in_xml_fragment_is_reported() -> None:
    fragments = [{"xml": f"<plugins>{RELOAD}</plugins>"}]
    (finding,) = fleet_findings("V031", "store-mq01-a", release="5.18.3", ha="none", xml_fragments=fragments)
    assert "the runtimeConfigurationPlugin never reloads activemq.xml" in finding.message


@pytest.mark.parametrize(
    "release", ["5.9.0", "5.18.7", "5.19.7", "6.0.0", "6.2.6", "5.19.8", "6.2.7", "6.3.0", "6.3.1"]
)
def test_reloaded_link_with_placeholder_is_warning_before_fixed_releases(release: str) -> None:
    link = '<networkConnector name="south" uri="static:(tcp://a:61616)" password="${app.password}"/>'
    expected = [] if release in ("5.19.8", "6.2.7", "6.3.0", "6.3.1") else ["warning"]
    assert severities(rule_findings("V032", f'<broker start="false"/>{RELOAD}{link}', release)) == expected


# -- advisory-group-all -----------------------------------------------------------------------


def accounts_and_rights(account: str, *entries: str, login: str = "") -> str:
    """Return accounts and an authorization map. ``login`` replaces the login plugin of the account."""
    users = f"<users><authenticationUser username='shop' password='${{shop.password}}' groups='{account}'/></users>"
    plugin = login or f"<simpleAuthenticationPlugin>{users}</simpleAuthenticationPlugin>"
    holder = f"<authorizationEntries>{''.join(entries)}</authorizationEntries>"
    rights = f"<authorizationPlugin><map><authorizationMap>{holder}</authorizationMap></map></authorizationPlugin>"
    return f"<broker><plugins>{plugin}{rights}</plugins></broker>"


def entry(destination: str, groups: str) -> str:
    return f'<authorizationEntry {destination} read="{groups}" write="{groups}" admin="{groups}"/>'


QUEUES, ADVISORIES = 'queue=">"', 'topic="ActiveMQ.Advisory.>"'


@pytest.mark.parametrize(
    ("entries", "release", "errors"),
    [
        ([entry(QUEUES, "shops"), entry(ADVISORIES, "all")], "5.18.3", 1),
        ([entry(QUEUES, "shops"), entry('topic=">"', "everyone")], "5.18.3", 1),
        ([entry(QUEUES, "shops")], "5.18.3", 1),
        ([entry(QUEUES, "shops"), f'<authorizationEntry {ADVISORIES} read="shops" write="shops"/>'], "5.18.3", 1),
        ([entry(QUEUES, "shops"), entry(ADVISORIES, "*")], "5.8.0", 1),
        ([entry(QUEUES, "shops"), entry(ADVISORIES, "*")], "5.18.3", 0),
        ([entry(QUEUES, "shops"), entry(ADVISORIES, "all"), entry('topic=">"', "shops")], "5.18.3", 0),
        ([entry(QUEUES, "shops"), entry(ADVISORIES, "all, shops ")], "5.18.3", 0),
        ([entry(QUEUES, "shops"), entry(ADVISORIES, "${groups}")], "5.18.3", 0),
    ],
)
def test_missing_advisory_rights_are_error_if_each_client_is_rejected(
    entries: list[str], release: str, errors: int
) -> None:
    findings = rule_findings("S032", accounts_and_rights("shops", *entries), release)
    assert severities(findings) == ["error"] * errors


def test_account_without_advisory_rights_is_warning() -> None:
    snippet = accounts_and_rights("shops", entry(QUEUES, "shops"), entry(ADVISORIES, "admins"))
    account = "<authenticationUser username='root' password='${root.password}' groups='admins,shops'/></users>"
    (finding,) = rule_findings("S032", snippet.replace("</users>", account))
    assert finding.severity == "warning"
    assert finding.message.startswith("the account shop may not create ActiveMQ.Advisory topics")


def test_missing_advisory_rights_with_unknown_jaas_groups_have_no_finding() -> None:
    login = '<jaasAuthenticationPlugin configuration="brokers"/>'
    snippet = accounts_and_rights("", entry(QUEUES, "shops"), entry(ADVISORIES, "all"), login=login)
    assert rule_findings("S032", snippet) == []
    assert rule_findings("S031", snippet) == []


def test_missing_advisory_rights_with_jaas_groups_file_are_error() -> None:
    login = '<jaasAuthenticationPlugin configuration="brokers"/>'
    snippet = accounts_and_rights("", entry(QUEUES, "shops"), entry(ADVISORIES, "all"), login=login)
    module = "brokers {\n  org.apache.activemq.jaas.PropertiesLoginModule required\n  x=y;\n};"
    files = {"groups__properties": "shops=shop\n", "login__config": module}
    assert severities(rule_findings("S032", snippet, **files)) == ["error"]
    ldap = {**files, "login__config": module.replace("Properties", "LDAP")}
    assert rule_findings("S032", snippet, **ldap) == []


def test_rights_of_group_without_account_are_warning() -> None:
    temporary = (
        "<tempDestinationAuthorizationEntry><tempDestinationAuthorizationEntry read='temps' write='temps' "
        "admin='temps'/></tempDestinationAuthorizationEntry>"
    )
    snippet = accounts_and_rights("admin", entry(QUEUES, "admins"), entry(ADVISORIES, "admin"))
    snippet = snippet.replace("</authorizationEntries>", f"</authorizationEntries>{temporary}")
    findings = rule_findings("S031", snippet)
    assert severities(findings) == ["warning", "warning"]
    assert "group admins has the read right on queue >" in findings[0].message
    assert "group temps has the read right on temporary destinations" in findings[1].message


def test_rights_of_entry_with_queue_and_topic_name_the_topic() -> None:
    entry_for_topic = entry(QUEUES, "admins").replace("queue=", "topic='orders' queue=")
    snippet = accounts_and_rights("admin", entry_for_topic, entry(ADVISORIES, "admin"))
    (finding,) = rule_findings("S031", snippet)
    assert finding.message.startswith("group admins has the read right on topic orders,")


def test_missing_advisory_rights_in_inventory_are_error() -> None:
    xml = accounts_and_rights("shops", entry(QUEUES, "shops"), entry(ADVISORIES, "all"))
    xml = xml.removeprefix("<broker>").removesuffix("</broker>").replace("${shop.password}", "aB3dE5fG7h")
    findings = fleet_findings(
        "S032",
        "north-mq03-a",
        release="5.18.3",
        ha="none",
        users=[],
        authentication="custom",
        xml_fragments=[{"xml": xml}],
    )
    assert severities(findings) == ["error"]


# -- duplex-both-ends -------------------------------------------------------------------------


def linked_file(name: str, host: str, content: str = "", *, port: int = 61616) -> bytes:
    link = (
        f'<networkConnector name="{name}" duplex="true" uri="static:(tcp://{host}:{port})">{content}</networkConnector>'
    )
    return complete(link, Release.of("5.18.3"))


def lint_links_of_files(files: Mapping[str, bytes]) -> list[Finding]:
    return list(lint_links_between_files(files, dict.fromkeys(files, Release.of("5.18.3"))))


@pytest.mark.parametrize(
    ("hosts", "number"),
    [
        (("gear-mq02-a.example.com", "gear-mq01-a.example.com"), 1),
        (("gear-mq02-a", "GEAR-MQ01-A.example.com"), 1),
        (("gear-mq02-a", "gear-mq03-a"), 0),
        (("gear-mq02-a.example.com", "10.0.0.1"), 0),
    ],
)
def test_duplex_links_to_each_other_in_two_files_are_error(hosts: tuple[str, str], number: int) -> None:
    files = {
        "gear-mq01-a/conf/activemq.xml": linked_file("one", hosts[0]),
        "gear-mq02-a/conf/activemq.xml": linked_file("two", hosts[1]),
    }
    findings = lint_links_of_files(files)
    assert [(finding.rule, finding.severity) for finding in findings] == [("N010", "error")] * number
    assert all(finding.file == "gear-mq02-a/conf/activemq.xml" for finding in findings)


@pytest.mark.parametrize("domain", ["", ".example.com"])
def test_duplex_links_to_each_other_in_xml_fragments_are_error(domain: str) -> None:
    hosts = {"gear-mq01-a": "gear-mq02-a", "gear-mq02-a": "gear-mq01-a"}
    settings = {"activemq_release": "5.18.3", "activemq_ha": "none", "activemq_topology": "none"}
    variables = {
        host: settings
        | {
            "activemq_xml_fragments": [
                {
                    "xml": "<networkConnectors><networkConnector name='link' duplex='true' "
                    f"uri='static:(tcp://{peer}{domain}:61616)'/></networkConnectors>"
                }
            ]
        }
        for host, peer in hosts.items()
    }
    findings = check_fleet(build_fleet(variables), schema_of=None, select=["N010"])
    assert severities(list(findings)) == ["error"]


def test_duplex_links_to_each_other_with_different_destinations_have_no_finding() -> None:
    queues, topics = (
        f'<excludedDestinations><{kind} physicalName="&gt;"/></excludedDestinations>' for kind in ("topic", "queue")
    )
    files = {"a/activemq.xml": linked_file("one", "b", queues), "b/activemq.xml": linked_file("two", "a", topics)}
    assert lint_links_of_files(files) == []
    files["b/activemq.xml"] = linked_file("two", "a", queues)
    assert len(lint_links_of_files(files)) == 1


def test_duplex_link_back_to_different_port_has_no_finding() -> None:
    files = {"a.xml": linked_file("one", "b", port=61617), "b.xml": linked_file("two", "a")}
    assert lint_links_of_files(files) == []


# -- max-uncommitted-network ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "number"),
    [
        ("5.17.7", 1),
        ("5.18.3", 0),
        ("5.18.7", 1),
        ("5.19.7", 1),
        ("5.19.8", 0),
        ("6.0.1", 0),
        ("6.1.0", 1),
        ("6.2.7", 0),
    ],
)
def test_max_uncommitted_count_is_error_on_affected_releases(release: str, number: int) -> None:
    assert len(rule_findings("V027", '<broker maxUncommittedCount="5000"/>', release)) == number


@pytest.mark.parametrize(
    ("snippet", "expected"),
    [
        ('<broker maxUncommittedCount="0"/>', []),
        ('<broker maxUncommittedCount="${broker.uncommitted:5000}"/>', ["warning"]),
        (
            '<bean id="b" class="org.apache.activemq.broker.BrokerService">'
            '<property name="maxUncommittedCount" value="10"/></bean>',
            ["error"],
        ),
    ],
)
def test_max_uncommitted_count_is_reported_in_attribute_placeholder_and_bean(snippet: str, expected: list[str]) -> None:
    assert severities(rule_findings("V027", snippet, "6.1.8")) == expected


def test_max_uncommitted_count_in_inventory_is_error() -> None:
    hosts = ("till-mq01-a", "till-mq02-a")
    attributes = {"maxUncommittedCount": 5000}
    findings = fleet_findings("V027", *hosts, release="6.1.8", ha="none", broker_attributes=attributes)
    assert severities(findings) == ["error", "error"]


# -- startasync-console -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "number"), [("5.7.0", 0), ("5.18.3", 1), ("5.19.6", 0), ("6.2.4", 1), ("6.2.5", 0), ("6.3.1", 0)]
)
def test_asynchronous_start_with_console_is_reported_before_fixed_releases(release: str, number: int) -> None:
    snippet = f'<broker startAsync="true"/>{LOCKED.format("/mnt/ledger2/kahadb")}{JETTY}'
    assert len(rule_findings("L041", snippet, release)) == number


def test_broker_that_console_starts_asynchronously_is_reported() -> None:
    snippet = f'<broker start="false"/>{LOCKED.format("/mnt/ledger2/kahadb")}{JETTY}'
    assert severities(rule_findings("L041", snippet)) == ["warning"]
    hosts = ("ledger-mq02-a", "ledger-mq02-b")
    assert severities(fleet_findings("L041", *hosts, release="5.18.3", runtime_configuration=True)) == ["info", "info"]


def test_asynchronous_start_with_console_in_inventory_is_reported() -> None:
    hosts = ("ledger-mq02-a", "ledger-mq02-b")
    findings = fleet_findings("L041", *hosts, release="6.2.4", broker_attributes={"startAsync": True})
    assert severities(findings) == ["warning", "warning"]
    assert fleet_findings("L041", *hosts, release="6.2.4") == []


# -- handlers ---------------------------------------------------------------------------------

FILE_STORE = LOCKED.format("/srv/shared/kahadb")
LOCAL_STORE = '<kahaDB directory="/var/lib/activemq/kahadb"/>'
DATABASE = (
    '<jdbcPersistenceAdapter dataSource="#db" lockKeepAlivePeriod="5000" stopOnError="true">'
    '<locker><lease-database-locker lockAcquireSleepInterval="10000"/></locker></jdbcPersistenceAdapter>'
)
LEASED_FILE_STORE = (
    '<kahaDB directory="/srv/shared/kahadb" lockKeepAlivePeriod="5000"><locker>'
    '<lease-database-locker dataSource="#db" lockAcquireSleepInterval="10000"><statements><statements/></statements>'
    "</lease-database-locker></locker></kahaDB>"
)


@pytest.mark.parametrize(
    ("handler", "store", "expected"),
    [
        ("<jDBCIOExceptionHandler/>", FILE_STORE, ["warning"]),
        ("<leaseLockerIOExceptionHandler/>", FILE_STORE, ["warning"]),
        ("<jDBCIOExceptionHandler/>", LEASED_FILE_STORE, ["warning"]),
        ("<leaseLockerIOExceptionHandler/>", LEASED_FILE_STORE, []),
        ("<jDBCIOExceptionHandler/>", LOCAL_STORE, ["info"]),
        ('<defaultIOExceptionHandler stopStartConnectors="true"/>', FILE_STORE, ["warning"]),
        ('<defaultIOExceptionHandler stopStartConnectors="true"/>', LOCAL_STORE, []),
        ('<leaseLockerIOExceptionHandler stopStartConnectors="false"/>', FILE_STORE, []),
        ("<defaultIOExceptionHandler/>", FILE_STORE, []),
        ("<leaseLockerIOExceptionHandler/>", DATABASE, []),
        ('<defaultIOExceptionHandler ignoreSQLExceptions="false" stopStartConnectors="true"/>', DATABASE, ["warning"]),
        (
            '<ioExceptionHandler><bean class="org.apache.activemq.store.jdbc.JDBCIOExceptionHandler"/>'
            "</ioExceptionHandler>",
            FILE_STORE,
            ["warning"],
        ),
        (
            '<ioExceptionHandler><bean class="org.apache.activemq.util.DefaultIOExceptionHandler">'
            '<property name="stopStartConnectors" value="true"/></bean></ioExceptionHandler>',
            FILE_STORE,
            ["warning"],
        ),
        (
            '<ioExceptionHandler><bean class="com.example.Handler"/></ioExceptionHandler>',
            FILE_STORE,
            [],
        ),
    ],
)
def test_io_exception_handler_that_does_not_fit_store_is_reported(
    handler: str, store: str, expected: list[str]
) -> None:
    assert severities(rule_findings("L042", handler + store)) == expected


def test_io_exception_handler_referenced_as_bean_is_checked() -> None:
    bean = '<bean id="handler" class="org.apache.activemq.store.jdbc.JDBCIOExceptionHandler"/>'
    snippet = f'<broker ioExceptionHandler="#handler"/>{bean}{FILE_STORE}'
    assert severities(rule_findings("L042", snippet)) == ["warning"]


@pytest.mark.parametrize("kind", ["leaseLockerIOExceptionHandler", "jDBCIOExceptionHandler"])
def test_io_exception_handler_that_ignores_sql_exceptions_is_reported(kind: str) -> None:
    findings = rule_findings("L014", f'<{kind} ignoreSQLExceptions="true"/>{DATABASE}')
    assert ["ignores SQL exceptions" in finding.message for finding in findings] == [True]


# -- faults of releases -----------------------------------------------------------------------

CONSOLE_FILE = f'<beans xmlns="{BEANS}"><bean id="start" class="java.util.Date" depends-on="broker, server"/></beans>'
BROKER_FILE = f'<beans xmlns="{BEANS}"><bean id="broker" class="com.example.Broker"/></beans>'


@pytest.mark.parametrize(
    ("snippet", "files", "expected"),
    [
        (JETTY, {}, ["warning"]),
        (JETTY, {"jetty__xml": CONSOLE_FILE}, ["error"]),
        (JETTY, {"jetty__xml": CONSOLE_FILE.replace("broker, ", "")}, []),
        (f'<broker id="broker"/>{JETTY}', {"jetty__xml": CONSOLE_FILE}, []),
        (f'<import resource="part.xml"/>{JETTY}', {"jetty__xml": CONSOLE_FILE}, []),
        (f'<import resource="part.xml"/>{JETTY}', {"jetty__xml": CONSOLE_FILE, "part__xml": BROKER_FILE}, []),
    ],
)
def test_console_that_depends_on_missing_broker_bean_is_reported(
    snippet: str, files: dict[str, str], expected: list[str]
) -> None:
    assert severities(rule_findings("V034", snippet, "6.2.9", **files)) == expected
    assert rule_findings("V034", snippet, "6.2.4", **files) == []
