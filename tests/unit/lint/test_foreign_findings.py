"""Regression tests of findings that were false, misleading, duplicate or missing for foreign files."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from activemq_fleet import Release, lint_file
from activemq_fleet.cli.main import main
from activemq_fleet.findings import Finding
from activemq_fleet.lint import file_findings
from activemq_fleet.schema import BEANS, CORE
from tests.rule_examples import complete

LINKS = "<networkConnectors>{}</networkConnectors>"
SERVICES = "META-INF/services/org/apache/activemq/transport"


def findings_of(snippet: str, release: str = "5.18.3", **other_files: bytes) -> list[Finding]:
    activemq_xml = complete(snippet, Release.of(release))
    return list(file_findings(activemq_xml, Release.of(release), other_files=other_files))


def rules_of(snippet: str, release: str = "5.18.3") -> list[str]:
    return [finding.rule for finding in findings_of(snippet, release)]


def single_finding(rule: str, snippet: str, release: str = "5.18.3") -> Finding:
    (finding,) = (finding for finding in findings_of(snippet, release) if finding.rule == rule)
    return finding


def store(directory: str) -> str:
    return f'<kahaDB directory="{directory}"/>'


@pytest.mark.parametrize(
    "directory",
    [
        "/usr/share/activemq/data/kahadb",
        "/usr/local/share/amq",
        "~/.local/share/amq",
        "/home/app/.local/share/amq",
        "/opt/homebrew/share/amq",
        "/usr/pkg/share/amq",
    ],
)
@pytest.mark.parametrize("release", ["5.6.0", "5.18.3"])
def test_store_below_directory_of_programs_is_no_network_share(directory: str, release: str) -> None:
    assert not {"L003", "L004"} & set(rules_of(store(directory), release))


@pytest.mark.parametrize("directory", ["/share/amq", "/mnt/share/amq", "/usr/share/nfs/amq", "/srv/shared/amq"])
def test_directory_name_that_suggests_network_share_is_reported(directory: str) -> None:
    assert "L003" in rules_of(store(directory))


@pytest.mark.parametrize("scheme", ["k8s", "consul+x"])
def test_discovery_agent_of_jar_is_accepted(scheme: str) -> None:
    link = f'<networkConnector name="s" uri="{scheme}://default"/>'
    assert "V008" in rules_of(link)
    activemq_xml = complete(link, Release.of("5.18.3"))
    service = {f"{SERVICES}/discoveryagent/{scheme}": b""}
    assert "V008" not in {f.rule for f in file_findings(activemq_xml, Release.of("5.18.3"), other_files=service)}


CONNECTORS = "<broker><transportConnectors>{}</transportConnectors></broker>"


def release_findings_by_rule(content: bytes, release: str) -> dict[str, Finding]:
    findings = lint_file(content, Release.of(release), schema_of=None, select=["S001", "S002"])
    return {finding.rule: finding for finding in findings}


def file_with_connector(uri: str) -> bytes:
    connector = f'<transportConnector name="x" uri="{uri}"/>' if uri else ""
    return complete(CONNECTORS.format(connector), Release.of("5.15.9"))


@pytest.mark.parametrize("uri", ["stomp://0.0.0.0:61613", "amqp://0.0.0.0:5672", "vm://x", ""])
def test_code_execution_is_not_reported_without_openwire_port(uri: str) -> None:
    findings_by_rule = release_findings_by_rule(file_with_connector(uri), "5.15.9")
    assert findings_by_rule.keys() == {"S002"}
    assert ("connections to the ports" in findings_by_rule["S002"].fix) == uri.endswith(("61613", "5672"))


@pytest.mark.parametrize("uri", ["tcp://0.0.0.0:1", "auto+nio://0.0.0.0:1", "${uri}"])
def test_upgrade_of_openwire_broker_is_reported_once(uri: str) -> None:
    findings_by_rule = release_findings_by_rule(file_with_connector(uri), "5.15.9")
    assert findings_by_rule.keys() == {"S001"}
    assert re.search(r" \([0-9]+ further vulnerabilities are published\)$", findings_by_rule["S001"].message)


def test_upgrade_is_reported_if_stronger_rule_is_ignored() -> None:
    findings = lint_file(file_with_connector("tcp://0.0.0.0:1"), Release.of("5.15.9"), schema_of=None, ignore=["S001"])
    assert "S002" in {finding.rule for finding in findings}


def test_file_without_broker_has_no_vulnerability_findings() -> None:
    assert release_findings_by_rule(f'<beans xmlns="{BEANS}"/>'.encode(), "5.15.9") == {}


def test_message_counts_links_to_same_peer() -> None:
    links = '<networkConnector name="a" uri="static:(tcp://h:1)"/><networkConnector name="b" uri="static:(tcp://h:1)"/>'
    message = single_finding("N037", f"<broker>{LINKS.format(links)}</broker>").message
    assert "its 2 links" in message
    assert "peers" not in message


def test_broker_without_store_has_no_store_findings() -> None:
    usage = '<systemUsage><systemUsage><storeUsage><storeUsage limit="20 gb"/></storeUsage></systemUsage></systemUsage>'
    link = LINKS.format('<networkConnector name="${hostname}" uri="static:(tcp://a:1)"/>')
    assert {"C012", "N016"} <= set(rules_of(f'<broker persistent="true">{link}{usage}</broker>'))
    assert not {"C012", "N016"} & set(rules_of(f'<broker persistent="false">{link}{usage}</broker>'))


@pytest.mark.parametrize(
    ("period", "is_reported"), [("0", True), ("-1", True), ("60000", False), ("${disk.check.period}", False)]
)
def test_percentage_limit_is_reported_without_periodic_disk_check(period: str, is_reported: bool) -> None:
    usage = '<storeUsage><storeUsage percentLimit="100" total="20 gb"/></storeUsage>'
    broker = f'<broker schedulePeriodForDiskUsageCheck="{period}"><systemUsage><systemUsage>{usage}</systemUsage>'
    assert ("C012" in rules_of(f"{broker}</systemUsage></broker>")) is is_reported


@pytest.mark.parametrize(("limit", "is_reported"), [("0", True), ("0 mb", True), ("64 mb", False), ("${max}", False)])
def test_memory_limit_of_zero_is_reported(limit: str, is_reported: bool) -> None:
    policy = f'<policyEntry queue=">" producerFlowControl="false" memoryLimit="{limit}"/>'
    assert ("C014" in rules_of(policy)) is is_reported


@pytest.mark.parametrize(("expiration", "is_reported"), [("0", True), ("604800000", False), ("${ttl}", False)])
def test_dead_letter_expiration_of_zero_is_reported(expiration: str, is_reported: bool) -> None:
    strategy = f'<deadLetterStrategy><sharedDeadLetterStrategy expiration="{expiration}"/></deadLetterStrategy>'
    assert ("C015" in rules_of(f'<policyEntry queue=">">{strategy}</policyEntry>')) is is_reported


DEAD_LETTERS = "<deadLetterStrategy><individualDeadLetterStrategy/></deadLetterStrategy>"


def test_dead_letters_that_plugin_discards_are_not_reported() -> None:
    policy = f"<destinationPolicy><policyMap><policyEntries><policyEntry queue='>'>{DEAD_LETTERS}</policyEntry>"
    policy += "</policyEntries></policyMap></destinationPolicy>"
    plugin = '<plugins><discardingDLQBrokerPlugin dropAll="{}"/></plugins>'
    assert "C015" not in rules_of(f"<broker>{policy}{plugin.format('true')}</broker>")
    assert "C015" in rules_of(f"<broker>{policy}{plugin.format('false')}</broker>")


def test_placeholders_of_file_without_broker_are_not_reported() -> None:
    bean = f'<beans xmlns="{BEANS}"><bean id="x" class="X"><property name="home" value="${{activemq.conf}}"/></bean>'
    file_without_broker = f"{bean}</beans>".encode()
    assert "V024" not in {f.rule for f in file_findings(file_without_broker, Release.of("5.18.3"))}


def test_one_way_static_bridge_requires_no_replay() -> None:
    link = (
        '<networkConnector name="s" uri="static:(tcp://a:1)" staticBridge="true" duplex="{}">'
        '<staticallyIncludedDestinations><queue physicalName="x"/></staticallyIncludedDestinations></networkConnector>'
    )
    assert "N019" not in rules_of(link.format("false"))
    assert "N019" in rules_of(link.format("true"))


def account(user: str, password: str) -> str:
    users = f'<authenticationUser username="{user}" password="{password}" groups="g"/>'
    return f"<simpleAuthenticationPlugin><users>{users}</users></simpleAuthenticationPlugin>"


@pytest.mark.parametrize(
    ("user", "password", "text"),
    [("system", "manager", "ActiveMQ's default password"), ("admin", "password", "a well-known default password")],
)
def test_default_password_message_names_source_of_password(user: str, password: str, text: str) -> None:
    assert text in single_finding("S004", account(user, password)).message


@pytest.mark.parametrize(
    ("user", "password"),
    [
        ("bob", "bob"),
        ("bob", "Bob1"),
        ("x", "1234"),
        ("mcollective", "marionette"),
        ("orders", "secret"),
        ("orders", "password123"),
        ("orders", "abc"),
    ],
)
def test_trivial_password_is_reported_once(user: str, password: str) -> None:
    assert [rule for rule in rules_of(account(user, password)) if rule in ("S004", "S010", "S050")] == ["S050"]


@pytest.mark.parametrize("password", ["correct-horse-battery", "${bob}", "ENC(abc)", "s3kr1t-Xy", "***", "xxx"])
def test_password_that_is_hard_to_guess_is_not_reported(password: str) -> None:
    assert "S050" not in rules_of(account("bob", password))


@pytest.mark.parametrize(
    ("password", "rules"),
    [
        *((password, ["S019"]) for password in ("changeit", "QWERTY", "broker1", "12")),
        ("rosebud", ["S010"]),
        ("${keystore.password}", []),
    ],
)
def test_guessable_password_of_key_store_is_reported_once(password: str, rules: list[str]) -> None:
    context = f'<broker><sslContext><sslContext keyStore="x" keyStorePassword="{password}"/></sslContext></broker>'
    assert [rule for rule in rules_of(context) if rule in ("S010", "S019")] == rules


def test_root_broker_without_schema_location_message_mentions_amazon_mq() -> None:
    activemq_xml = f'<broker xmlns="{CORE}"/>'.encode()
    (problem,) = (f for f in file_findings(activemq_xml, Release.of("5.18.3")) if f.rule == "V020")
    assert "Amazon MQ" in problem.message


def test_dead_letter_strategies_without_expiration_share_finding() -> None:
    entries = "\n".join(f"<policyEntry queue='q{number}'>{DEAD_LETTERS}</policyEntry>" for number in range(3))
    policy = (
        f"<destinationPolicy><policyMap><policyEntries>\n{entries}\n</policyEntries></policyMap></destinationPolicy>"
    )
    message = single_finding("C015", f"<broker>{policy}</broker>").message
    assert re.search(r"; the same problem is in lines [0-9]+, [0-9]+$", message)


def test_data_directory_and_store_in_tmp_share_finding() -> None:
    broker = (
        '<broker dataDirectory="/tmp/amq"><persistenceAdapter><kahaDB directory="/tmp/amq/k"/></persistenceAdapter>'
    )
    assert re.search(
        r"; directory of <kahaDB> in line [0-9]+ is also in /tmp$",
        single_finding("L028", f"{broker}</broker>").message,
    )


def test_misspelled_frame_limit_is_reported_once() -> None:
    uri = "nio://0.0.0.0:1?wireformat.maxFrameSize=1"
    rules = rules_of(f'<transportConnector name="x" uri="{uri}"/>')
    assert [rule for rule in rules if rule in ("N008", "S009")] == ["N008"]


def test_unreplaced_placeholders_share_finding() -> None:
    message = single_finding("V024", '<broker brokerName="${a}" dataDirectory="${b}"/>').message
    assert re.match(r"nothing replaces the placeholders \$\{a\}, \$\{b\} \(line [0-9]+\)", message)


USAGE = "<broker><systemUsage><systemUsage><{0}><{0} {1}/></{0}></systemUsage></systemUsage></broker>"


@pytest.mark.parametrize(
    "limit",
    ["1.5 gb", "1 tb", "70%", "10 megabytes", "32 MiB", "", "-1", "64 mb;", "9223372036854775808", "1_000", "10 k b"],
)
@pytest.mark.parametrize("usage", ["memoryUsage", "storeUsage", "tempUsage"])
def test_usage_limit_that_broker_rejects_is_error(limit: str, usage: str) -> None:
    assert single_finding("V050", USAGE.format(usage, f'limit="{limit}"')).severity == "error"


@pytest.mark.parametrize("limit", ["64mb", " 64 MB ", "64m", "1024", "1024 b", "2Gb", "${limit:1 gb}", "@limit@"])
def test_valid_or_unknown_usage_limit_is_no_error(limit: str) -> None:
    assert "V050" not in rules_of(USAGE.format("memoryUsage", f'limit="{limit}"'))


@pytest.mark.parametrize(
    ("snippet", "fires"),
    [
        ('<kahaDB directory="k" journalMaxFileLength="32 MiB"/>', True),
        ('<kahaDB directory="k" journalMaxFileLength="2147483648"/>', True),
        ('<kahaDB directory="k" journalMaxFileLength="32mb"/>', False),
        ('<broker persistent=" true "/>', True),
        ('<broker useJmx="on"/>', True),
        ('<broker useJmx="True"/>', False),
        ('<kahaDB directory="k" journalDiskSyncStrategy=" periodic"/>', False),
        ('<kahaDB directory="k" preallocationStrategy="zero"/>', True),
        ('<kahaDB directory="k" preallocationScope="none"/>', False),
        ('<networkConnector name="s" uri="static:(tcp://a:1)" prefetchSize="many"/>', True),
    ],
)
def test_attribute_value_that_broker_cannot_convert_is_reported(snippet: str, fires: bool) -> None:
    assert ("V050" in rules_of(snippet)) is fires


@pytest.mark.parametrize("attribute", ["indexCacheSize", "indexWriteBatchSize", "journalMaxWriteBatchSize"])
@pytest.mark.parametrize(("size", "fires"), [("4gb", True), ("2147483648", True), ("2gb", True), ("2047mb", False)])
def test_kahadb_size_above_32_bit_limit_is_error(attribute: str, size: str, fires: bool) -> None:
    rules = rules_of(f'<kahaDB directory="k" {attribute}="{size}"/>')
    assert ("V050" in rules, "V054" in rules) == (fires, False)


def test_usage_step_that_is_no_number_is_error() -> None:
    assert single_finding("V050", USAGE.format("memoryUsage", 'percentUsageMinDelta="abc"')).severity == "error"


@pytest.mark.parametrize(
    ("size", "number", "severity"),
    [
        ("4gb", "0", "error"),
        ("4096 MB", "0", "error"),
        ("4194304k", "0", "error"),
        ("2gb", "-2147483648", "error"),
        ("2048mb", "-2147483648", "error"),
        ("3g", "-1073741824", "error"),
        ("5 GB", "1073741824", "warning"),
        ("2147483647gb", "-1073741824", "error"),
    ],
)
@pytest.mark.parametrize("store", ["kahaDB", "mKahaDB"])
def test_journal_file_length_that_overflows_is_reported_with_resulting_number(
    store: str, size: str, number: str, severity: str
) -> None:
    overflow = single_finding("V054", f'<{store} directory="k" journalMaxFileLength="{size}"/>')
    assert (overflow.severity, overflow.message.split(" as ")[1]) == (severity, f"{number} bytes")


@pytest.mark.parametrize("size", ["2047mb", "2097151 kb", "2147483647", "1gb", "0", "${length}", "1.5gb", "2147483648"])
def test_journal_file_length_that_fits_or_is_rejected_is_no_overflow(size: str) -> None:
    assert "V054" not in rules_of(f'<kahaDB directory="k" journalMaxFileLength="{size}"/>')


@pytest.mark.parametrize(("limit", "fires"), [("8589934592gb", True), ("8589934591 gb", False), ("4gb", False)])
@pytest.mark.parametrize("usage", ["memoryUsage", "storeUsage", "tempUsage"])
def test_usage_limit_that_overflows_64_bits_is_error(usage: str, limit: str, fires: bool) -> None:
    assert ("V054" in rules_of(USAGE.format(usage, f'limit="{limit}"'))) is fires


BEAN = (
    "<broker><persistenceAdapter><bean"
    ' xmlns:p="http://www.springframework.org/schema/p" class="{}" {}</bean></persistenceAdapter></broker>'
)
KAHADB_CLASS = "org.apache.activemq.store.kahadb.KahaDBPersistenceAdapter"


@pytest.mark.parametrize(
    ("class_name", "rest", "fires"),
    [
        (KAHADB_CLASS, '><property name="journalMaxFileLength" value="64mb"/>', True),
        (KAHADB_CLASS, '><property name="journalMaxFileLength"><value>64 MB</value></property>', True),
        (KAHADB_CLASS, 'p:journalMaxFileLength="1g">', True),
        (KAHADB_CLASS, '><property name="journalMaxFileLength" value="67108864"/>', False),
        (KAHADB_CLASS, '><property name="journalMaxFileLength" value="${length}"/>', False),
        (KAHADB_CLASS, '><property name="brokerName" value="64mb"/>', False),
        ("com.example.KahaDBPersistenceAdapter", '><property name="journalMaxFileLength" value="64mb"/>', False),
        ("org.apache.activemq.usage.MemoryUsage", '><property name="limit" value="512 mb"/>', True),
    ],
)
def test_bean_size_with_unit_is_reported(class_name: str, rest: str, fires: bool) -> None:
    assert ("V055" in rules_of(BEAN.format(class_name, rest))) is fires


def test_numeric_boolean_is_reported_from_5_6_on() -> None:
    assert "V050" not in rules_of('<broker persistent="1"/>', "5.5.1")
    assert "V050" in rules_of('<broker persistent="1"/>', "5.6.0")


def test_placeholder_of_red_hat_image_is_reported_as_template() -> None:
    snippet = USAGE.format("storeUsage", 'limit="##### STORE_USAGE #####"')
    assert rules_of(snippet) == ["V022"]


@pytest.mark.parametrize("uri", ["tcp://0.0.0.0:${p}", "stomp://${host}:1", "${uri}", "${scheme}://0.0.0.0:1"])
def test_listener_address_with_unreplaced_placeholder_is_error(uri: str) -> None:
    connector = f'<transportConnector name="x" uri="{uri}"/>'
    rules = [f.rule for f in findings_of(connector) if "app.password" not in f.message and f.rule in ("V024", "V051")]
    assert rules == ["V051"]


@pytest.mark.parametrize("uri", ["tcp://0.0.0.0:1?maximumConnections=${n}", "vm://${name}"])
def test_listener_option_with_placeholder_is_no_error(uri: str) -> None:
    assert "V051" not in rules_of(f'<transportConnector name="x" uri="{uri}"/>')


def test_link_address_with_unreplaced_placeholder_is_error() -> None:
    problems = findings_of('<networkConnector name="s" uri="static:(tcp://a:${p})?maxReconnectDelay=${d}"/>')
    severities = {f.message.partition(":")[0]: f.severity for f in problems if f.rule == "V024"}
    assert severities["<networkConnector> s cannot connect, because nothing replaces the placeholder ${p}"] == "error"
    assert set(severities.values()) == {"error", "warning"}


@pytest.mark.parametrize("attribute", ["keyStoreType", "trustStoreType"])
@pytest.mark.parametrize(
    ("kind", "fires"), [("someTypeOfFile", True), ("JKS", False), ("pkcs12", False), ("${t}", False)]
)
def test_key_store_of_unknown_type_is_error(attribute: str, kind: str, fires: bool) -> None:
    name = attribute.removesuffix("Type")
    context = f'<broker><sslContext><sslContext {name}="file:x.ks" {attribute}="{kind}"/></sslContext></broker>'
    assert ("V052" in rules_of(context)) is fires


@pytest.mark.parametrize(
    ("name", "fires"),
    [
        ("tmp_*", True),
        ("a.b>", True),
        (">a", True),
        ("a.*.b_*", True),
        ("a,b*", True),
        ("*", False),
        (">", False),
        ("a.*.b.>", False),
        ("${prefix}*", False),
    ],
)
def test_wildcard_within_destination_element_is_reported(name: str, fires: bool) -> None:
    assert ("N060" in rules_of(f'<policyEntry queue="{name}" memoryLimit="1 mb"/>')) is fires


def test_plugin_that_discards_all_dead_letters_by_default_is_reported() -> None:
    plugin = "<broker><plugins><discardingDLQBrokerPlugin {}/></plugins></broker>"
    assert "C041" in rules_of(plugin.format(""))
    assert "C041" in rules_of(plugin.format('dropOnly="PRICES"'))


@pytest.mark.parametrize(
    ("directory", "fires"),
    [("data", True), ("../data", True), ("./data", True), ("/data", False), ("${activemq.data}", False),
     ("C:/data", False), ("C:\\data", False), ("file:/data", False), ("target/x", False)],
)  # fmt: skip
def test_relative_data_directory_is_reported(directory: str, fires: bool) -> None:
    assert ("C042" in rules_of(f'<broker dataDirectory="{directory}"/>')) is fires


@pytest.mark.parametrize(
    ("kind", "cursor", "fires"),
    [
        ("queue", "<pendingQueuePolicy><vmQueueCursor/></pendingQueuePolicy>", True),
        ("topic", "<pendingSubscriberPolicy><vmCursor/></pendingSubscriberPolicy>", True),
        ("topic", "<pendingDurableSubscriberPolicy><vmDurableCursor/></pendingDurableSubscriberPolicy>", True),
        ("queue", "<pendingSubscriberPolicy><vmCursor/></pendingSubscriberPolicy>", False),
        (
            "topic",
            "<pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limit='9'/>"
            "</pendingMessageLimitStrategy>"
            "<pendingSubscriberPolicy><vmCursor/></pendingSubscriberPolicy>",
            False,
        ),
    ],
)
def test_memory_cursor_without_flow_control_is_reported(kind: str, cursor: str, fires: bool) -> None:
    entry = f'<policyEntry {kind}="x" producerFlowControl="false" memoryLimit="1 mb">{cursor}</policyEntry>'
    assert ("C043" in rules_of(entry)) is fires


def test_check_reads_schemes_from_jars_of_installation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "lib").mkdir()
    with zipfile.ZipFile(tmp_path / "lib" / "activemq-broker-5.18.3.jar", "w"):
        pass
    file = tmp_path / "conf" / "activemq.xml"
    file.write_bytes(complete('<networkConnector name="s" uri="k8s://default"/>', Release.of("5.18.3")))
    arguments = ["check", "--file", str(file), "--select", "V008"]
    assert main(arguments) == 1
    with zipfile.ZipFile(tmp_path / "lib" / "k8s-discovery.jar", "w") as archive:
        archive.writestr(f"{SERVICES}/discoveryagent/k8s", "class=K8s")
    (tmp_path / "lib" / "damaged.jar").write_bytes(b"no archive")
    assert main(arguments) == 0


@pytest.mark.parametrize(
    ("uri", "fires"),
    [
        ("tcp://0.0.0.0:99999", True),
        ("tcp://0.0.0.0", True),
        ("stomp+nio://0.0.0.0:", True),
        ("mqtt://0.0.0.0:port", True),
        ("nio://my host:61616", True),
        ("tcp:0.0.0.0:61616", True),
        ("tcp://my_host:61616", True),
        ("tcp://:61616", True),
        ("tcp://[::]", True),
        ("tcp://[::]:61616", False),
        ("tcp://0.0.0.0:61616?x=a b", False),
        ("tcp://0.0.0.0:0", False),
        ("tcp://0.0.0.0:@PORT@", False),
        ("ws://0.0.0.0", False),
        ("vm://my_name", False),
        ("${uri}", False),
    ],
)
def test_listener_address_without_valid_host_and_port_is_reported(uri: str, fires: bool) -> None:
    assert ("V053" in rules_of(f'<transportConnector name="x" uri="{uri}"/>')) is fires


@pytest.mark.parametrize(
    ("first", "second", "fires"),
    [
        ("tcp://0.0.0.0:21616", "stomp://0.0.0.0:21616", True),
        ("nio://0.0.0.0:21616", "mqtt+nio://127.0.0.1:21616?x=1", True),
        ("tcp://mq.example.com:21616", "amqp://MQ.example.com:21616", True),
        ("tcp://[::]:21616", "ws://10.0.0.1:21616", True),
        ("tcp://10.0.0.1:21616", "tcp://10.0.0.2:21616", False),
        ("tcp://0.0.0.0:21616", "stomp://0.0.0.0:21613", False),
        ("tcp://0.0.0.0:0", "stomp://0.0.0.0:0", False),
        ("tcp://0.0.0.0:21616", "udp://0.0.0.0:21616", False),
        ("tcp://0.0.0.0:${port}", "stomp://0.0.0.0:${port}", False),
        ("vm://north", "tcp://0.0.0.0:21616", False),
    ],
)
def test_connectors_on_same_port_are_reported_once(first: str, second: str, fires: bool) -> None:
    snippet = f'<transportConnector name="x" uri="{first}"/><transportConnector name="y" uri="{second}"/>'
    assert list(rules_of(snippet)).count("V057") == fires


@pytest.mark.parametrize(
    ("option", "fires"),
    [
        ("wireFormat.maxFrameSize=10 MB", True),
        ("wireFormat.maxFrameSize=100mb", True),
        ("maximumConnections=many", True),
        ("maximumConnections=", True),
        ("maximumConnections=1000", False),
        ("wireFormat.maxInactivityDuration=${duration}", False),
        ("wireFormat.cacheEnabled=true", False),
    ],
)
def test_listener_option_that_is_no_number_is_reported(option: str, fires: bool) -> None:
    assert ("N061" in rules_of(f'<transportConnector name="x" uri="tcp://0.0.0.0:1?{option}"/>')) is fires


@pytest.mark.parametrize(
    ("uri", "fires"),
    [
        ("static:(tcp://my_host:61616)", True),
        ("static:(tcp://a:1,nio://b)", True),
        ("masterslave:(tcp://a:1,tcp://b:99999)", True),
        ("static:(failover:(tcp://a:1,ssl://b c:2)?maxReconnectAttempts=0)", True),
        ("static:(tcp://a-1:1?x=a_b)?y=c_d", False),
        ("static:tcp://a:1", False),
        ("static:(tcp://${my_host}:1)", False),
        ("static:(http://a)", False),
        ("multicast://default", False),
    ],
)
def test_link_address_without_valid_host_and_port_is_reported(uri: str, fires: bool) -> None:
    assert ("N062" in rules_of(f'<networkConnector name="s" uri="{uri}"/>')) is fires


@pytest.mark.parametrize(
    ("placeholder", "fires"),
    [
        ("runtime.id", False),
        ("update.site", False),
        ("activemq.candidate.name", False),
        ("rapid.name", False),
        ("user.timezone", False),
        ("random.uuid", True),
        ("START_TIMESTAMP", True),
        ("startTime", True),
        ("env.PID", True),
        ("broker.starttime", True),
        ("datetime", True),
        ("randomid", True),
        ("currenttimemillis", True),
    ],
)
def test_name_that_changes_at_each_start_is_recognized_by_words(placeholder: str, fires: bool) -> None:
    link = LINKS.format(f'<networkConnector name="south-${{{placeholder}}}" uri="static:(tcp://a:1)"/>')
    assert ("N016" in rules_of(f"<broker>{link}</broker>")) is fires


@pytest.mark.parametrize(
    "expression",
    [
        "T(java.lang.System).currentTimeMillis()",
        "T(java.util.UUID).randomUUID()",
        "new java.util.Date()",
        "T(java.time.Instant).now()",
        "T(java.lang.ProcessHandle).current().pid()",
    ],
)
def test_expression_that_changes_at_each_start_is_recognized(expression: str) -> None:
    link = LINKS.format(f'<networkConnector name="south-#{{{expression}}}" uri="static:(tcp://a:1)"/>')
    assert "N016" in rules_of(f"<broker>{link}</broker>")


@pytest.mark.parametrize(
    ("attributes", "fires"),
    [("", False), ('name="&gt;"', False), ('name="VirtualTopic.&gt;"', False), ('name="x"', True)],
)
def test_virtual_topic_without_name_includes_default_topic(attributes: str, fires: bool) -> None:
    interceptors = (
        "<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>"
        f'<virtualTopic {attributes} prefix="Consumer.*." selectorAware="false"/>'
        "</virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>"
    )
    assert ("C018" in rules_of(interceptors)) is fires
