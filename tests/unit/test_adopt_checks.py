"""``check`` after ``adopt`` reports what the original files cause, and nothing about values that adopt chose."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from activemq_fleet.adopt import AdoptedInventory, adopt_files
from activemq_fleet.inventory import load_fleet
from activemq_fleet.render.activemq_xml import render_activemq_xml_bytes
from activemq_fleet.schema import XmlDocument
from activemq_fleet.validation import fleet_with_check_findings
from tests.situations import some_situations
from tests.unit.adopt_files import document, write_files, write_inventory

CONNECTOR = (
    "<transportConnectors><transportConnector name='openwire' "
    "uri='tcp://0.0.0.0:61616?maximumConnections=1000&amp;wireFormat.maxFrameSize=104857600'/></transportConnectors>"
)
KEY_STORE_OPTIONS = "-Djavax.net.ssl.keyStorePassword -Djava.x.pwd"
SHARED = "<persistenceAdapter><kahaDB directory='/mnt/share/{}'/></persistenceAdapter>"
ACCOUNT = (
    "<plugins><simpleAuthenticationPlugin><users><authenticationUser username='{}' password='p4ss' groups='staff'/>"
    "</users></simpleAuthenticationPlugin></plugins>"
)
JAAS = "<plugins><jaasAuthenticationPlugin configuration='activemq'/></plugins>"
MEMORY = "<systemUsage><systemUsage><memoryUsage><memoryUsage limit='{}'/></memoryUsage></systemUsage></systemUsage>"


def links(*hosts: str, attributes: str = "") -> str:
    """Return the networkConnectors to hosts."""
    connectors = (
        f"<networkConnector name='to-{host}' uri='static:(tcp://{host}:61616)' {attributes}/>" for host in hosts
    )
    return f"<networkConnectors>{''.join(connectors)}</networkConnectors>"


FLEETS = {
    "full mesh with networkTTL 2": {
        f"{name}-mq01-a": document(
            links(*(f"{peer}-mq01-a" for peer in "nse" if peer != name), attributes="networkTTL='2'") + CONNECTOR,
            brokerName=f"{name}-mq01-a",
        )
        for name in "nse"
    },
    "two pairs and a hub": {
        **{
            f"{group}-mq01-{node}": document(
                links("hub-mq01-a", attributes="networkTTL='4' duplex='true'") + SHARED.format(group) + CONNECTOR,
                brokerName=f"{group}-mq01",
            )
            for group in "ns"
            for node in "ab"
        },
        "hub-mq01-a": document(CONNECTOR, brokerName="hub"),
    },
    "broker with accounts": {"o-mq01-a": document(ACCOUNT.format("app") + CONNECTOR, brokerName="o")},
    "broker with much memory": {"o-mq01-a": document(MEMORY.format("3 gb") + CONNECTOR, brokerName="o")},
    "bridge to two addresses": {
        "o-mq01-a": document(
            "<networkConnectors><networkConnector uri='static:(tcp://10.0.0.5:61616,tcp://10.0.0.5:61626)'/>"
            "</networkConnectors>" + CONNECTOR,
            brokerName="o",
        )
    },
}


def adopted_inventory(
    tmp_path: Path, files: dict[str, bytes], release: str
) -> tuple[AdoptedInventory, set[tuple[str, str]]]:
    """Return an adoption, and rule and host of each warning of ``check`` after its passwords are written to files."""
    directory = write_files(tmp_path / "files", files)
    adoption = adopt_files([directory], releases=[release], schema_of=None)
    inventory = write_inventory(tmp_path / "inventory", adoption)
    (inventory / ".secrets").mkdir(mode=0o700)
    for label in adoption.secrets:
        (inventory / ".secrets" / label).write_text("current-password\n")
    fleet = load_fleet([str(inventory)])
    documents = {broker.host: XmlDocument(render_activemq_xml_bytes(broker)) for broker in fleet.brokers}
    findings = fleet_with_check_findings(fleet, documents, None, for_site=True).findings
    warnings = [finding for finding in findings if finding.waived is None and finding.severity != "info"]
    return adoption, {(finding.rule, finding.host) for finding in warnings}


def noted_rules(adoption: AdoptedInventory) -> set[str]:
    """Return the rules of which a note states that the original files cause them."""
    texts = [
        match[1] for note in adoption.notes if (match := re.search(r"check` reports (.*) for the original files", note))
    ]
    return {rule for text in texts for rule in text.split(", ")}


@some_situations(6)
@pytest.mark.parametrize("release", ["5.8.0", "5.15.16", "5.18.3", "6.1.4"])
@pytest.mark.parametrize("name", FLEETS)
def test_check_of_adopted_inventory_reports_only_rules_that_notes_name(name: str, release: str, tmp_path: Path) -> None:
    adoption, warnings = adopted_inventory(tmp_path, FLEETS[name], release)

    assert {rule for rule, _ in warnings} == noted_rules(adoption)


def test_adopt_note_names_finding_about_ttl_of_mesh_in_original_files(tmp_path: Path) -> None:
    adoption, warnings = adopted_inventory(tmp_path, FLEETS["full mesh with networkTTL 2"], "5.18.3")

    assert ("N018", "n-mq01-a") in warnings
    assert "N018" in noted_rules(adoption)


@pytest.mark.parametrize(("limit", "heap"), [("3 gb", "5g"), ("512mb", "1g"), ("300 mb", None), ("64mb", None)])
def test_adopt_chooses_unknown_heap_for_memory_limit_of_activemq_xml(
    limit: str, heap: str | None, tmp_path: Path
) -> None:
    files = {"o-mq01-a": document(MEMORY.format(limit) + CONNECTOR, brokerName="o")}
    adoption, _ = adopted_inventory(tmp_path, files, "5.18.3")

    assert adoption.fleet.broker("o-mq01-a").settings.heap == (heap or "512m")
    assert any(f"adopt set activemq_heap: {heap}." in note for note in adoption.notes) is bool(heap)


def test_adopt_keeps_known_heap_that_memory_limit_of_activemq_xml_exceeds(tmp_path: Path) -> None:
    write_files(tmp_path, {"o-mq01-a": document(MEMORY.format("3 gb") + CONNECTOR, brokerName="o")})
    environment = tmp_path / "hosts/o-mq01-a/bin/env"
    environment.parent.mkdir()
    environment.write_text('ACTIVEMQ_OPTS_MEMORY="-Xms64M -Xmx1G"\n')

    adoption = adopt_files([tmp_path], releases=["5.18.3"], schema_of=None)
    assert adoption.fleet.broker("o-mq01-a").settings.heap == "1G"


def test_accounts_with_placeholder_names_stay_in_authentication_plugin(tmp_path: Path) -> None:
    files = {"o-mq01-a": document(ACCOUNT.format("${user}") + CONNECTOR, brokerName="o")}
    adoption, _ = adopted_inventory(tmp_path, files, "5.18.3")

    broker = adoption.fleet.broker("o-mq01-a")
    assert broker.settings.authentication == "custom"
    assert render_activemq_xml_bytes(broker).count(b"<simpleAuthenticationPlugin") == 1
    assert b"activemq-probe" not in render_activemq_xml_bytes(broker)


@pytest.mark.parametrize("plugins", [JAAS, ACCOUNT.format("${user}")])
def test_broker_with_login_plugin_is_not_reported_to_reject_clients(plugins: str, tmp_path: Path) -> None:
    adoption, warnings = adopted_inventory(tmp_path, {"o-mq01-a": document(plugins, brokerName="o")}, "5.18.3")

    assert ("T016", "o-mq01-a") in warnings
    [finding] = [finding for finding in adoption.fleet.findings if finding.rule == "T016"]
    assert "health checks can log in" in finding.message
    assert "activemq_probe_password" in finding.fix


def test_errors_that_adopt_waives_have_separate_note_for_each_pair(tmp_path: Path) -> None:
    files = {
        f"{group}-mq01-{node}": document(SHARED.format(group) + CONNECTOR, brokerName=f"{group}{node}")
        for group in "ns"
        for node in "ab"
    }
    adoption, _ = adopted_inventory(tmp_path, files, "5.18.3")

    notes = [note for note in adoption.notes if "T009" in note]
    assert [note.partition(": ")[0] for note in notes] == ["n-mq01-b", "s-mq01-b"]
    assert "the value of n-mq01-a in pair n-mq01" in notes[0]
    assert "the value of s-mq01-a in pair s-mq01" in notes[1]


def adopt_with_account(directory: Path, name: str, password: str) -> AdoptedInventory:
    """Adopt one broker with one account."""
    plugins = ACCOUNT.format(name).replace("p4ss", password)
    write_files(directory, {"o-mq01-a": document(plugins + CONNECTOR, brokerName="o")})
    return adopt_files([directory], releases=["5.18.3"], schema_of=None)


def test_java_options_that_adopt_does_not_copy_are_named_without_values(tmp_path: Path) -> None:
    environment = tmp_path / "hosts/o-mq01-a/bin/env"
    environment.parent.mkdir(parents=True)
    environment.write_text(
        '# ACTIVEMQ_OPTS="-Dcommented=1"\n'
        'ACTIVEMQ_OPTS_MEMORY="-Xms1G -Xmx2G"\n'
        'ACTIVEMQ_OPTS="$ACTIVEMQ_OPTS_MEMORY -Dapp.password=hunter2 -XX:+UseG1GC"\n'
    )

    adoption = adopt_with_account(tmp_path, "app", "Kp4-xw8v")

    assert (
        "o-mq01-a: adopt did not copy these Java options from the environment file: -Xms1G -Dapp.password "
        "-XX:+UseG1GC. Add those that the broker needs to activemq_java_options" in adoption.notes
    )


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("ACTIVEMQ_OPTS=\"-Dapp.password='-S3cret word -x' -Dpw=a\"", "-Dapp.password -Dpw"),
        ('ACTIVEMQ_OPTS="$ACTIVEMQ_OPTS \\\n -XX:+UseG1GC"', "-XX:+UseG1GC"),
        ('ACTIVEMQ_OPTS+=" -Xss2m"', "-Xss2m"),
        ('ACTIVEMQ_OPTS="-javaagent:/opt/j.jar:T0KEN"', "-javaagent:/opt/j.jar"),
        ('ACTIVEMQ_OPTS="-Djavax.net.ssl.keyStorePassword=a -Djava.x.pwd=b"', KEY_STORE_OPTIONS),
        ("ACTIVEMQ_OPTS=\"-Xrunagent:key=T0KEN -XX:OnError='a b'\"", "-Xrunagent:key -XX:OnError"),
    ],
)
def test_note_about_java_options_contains_names_and_no_part_of_any_value(line: str, names: str, tmp_path: Path) -> None:
    environment = tmp_path / "hosts/o-mq01-a/bin/env"
    environment.parent.mkdir(parents=True)
    environment.write_text(f"{line}\n")

    notes = adopt_with_account(tmp_path, "app", "Kp4-xw8v").notes

    assert any(f"from the environment file: {names}. Add" in note for note in notes)


@pytest.mark.parametrize(
    "options",
    [
        "-Xms64M -XX:TieredStopAtLevel=1",
        "-XX:HeapDumpPath=/var/tmp/dump.hprof",
        "-Djava.net.preferIPv4Stack=true -Dcom.sun.management.jmxremote.port=1099",
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
    ],
)
def test_note_about_java_options_shows_values_that_are_no_secrets(options: str, tmp_path: Path) -> None:
    environment = tmp_path / "hosts/o-mq01-a/bin/env"
    environment.parent.mkdir(parents=True)
    environment.write_text(f'ACTIVEMQ_OPTS_MEMORY="-Xmx256m {options}"\n')

    notes = adopt_with_account(tmp_path, "app", "Kp4-xw8v").notes

    assert any(f"from the environment file: {options}. Add" in note for note in notes)


def test_connectors_on_same_port_have_note_of_v057_and_no_waiver(tmp_path: Path) -> None:
    stomp = "<transportConnector name='stomp' uri='stomp://0.0.0.0:61616?wireFormat.maxFrameSize=104857600'/>"
    connectors = CONNECTOR.replace("</transportConnectors>", f"{stomp}</transportConnectors>")
    write_files(tmp_path, {"o-mq01-a": document(connectors, brokerName="o")})

    adoption = adopt_files([tmp_path], releases=["5.18.3"], schema_of=None)

    assert any("because the file has the error V057" in note for note in adoption.notes)
    assert not [note for note in adoption.notes if "T006" in note]
    assert "T006" not in adoption.files["group_vars/all.yml"].decode()


def test_connectors_on_same_port_of_two_addresses_need_no_waiver(tmp_path: Path) -> None:
    stomp = "<transportConnector name='stomp' uri='stomp://127.0.0.2:61616?wireFormat.maxFrameSize=104857600'/>"
    connectors = CONNECTOR.replace("0.0.0.0", "127.0.0.1").replace("</transport", f"{stomp}</transport", 2)
    connectors = connectors.replace(f"{stomp}</transportConnector>", "</transportConnector>", 1)
    write_files(tmp_path, {"o-mq01-a": document(connectors, brokerName="o")})

    adoption = adopt_files([tmp_path], releases=["5.18.3"], schema_of=None)

    assert not [note for note in adoption.notes if "T006" in note]
    assert [connector.bind for connector in adoption.fleet.broker("o-mq01-a").connectors] == [None, "127.0.0.2"]


def test_java_options_with_unclosed_quotation_mark_have_no_note(tmp_path: Path) -> None:
    environment = tmp_path / "hosts/o-mq01-a/bin/env"
    environment.parent.mkdir(parents=True)
    environment.write_text('ACTIVEMQ_OPTS="-Dapp.password=\'-S3cret word"\n')

    notes = adopt_with_account(tmp_path, "app", "Kp4-xw8v").notes

    assert not [note for note in notes if "did not copy these Java options" in note]


def test_java_options_that_releases_set_themselves_have_no_note(tmp_path: Path) -> None:
    environment = tmp_path / "hosts/o-mq01-a/bin/env"
    environment.parent.mkdir(parents=True)
    environment.write_text(
        'ACTIVEMQ_OPTS_MEMORY="-Xms64M -Xmx1G"\n'
        'ACTIVEMQ_OPTS="$ACTIVEMQ_OPTS_MEMORY -Djava.util.logging.config.file=logging.properties '
        '-Djava.security.auth.login.config=$ACTIVEMQ_CONF/login.config"\n'
    )

    adoption = adopt_with_account(tmp_path, "app", "Kp4-xw8v")

    assert not [note for note in adoption.notes if "did not copy these Java options" in note]


@pytest.mark.parametrize(("name", "password"), [("system", "manager"), ("guest", "guest")])
def test_account_with_default_password_has_note_about_new_password(name: str, password: str, tmp_path: Path) -> None:
    adoption = adopt_with_account(tmp_path, name, password)

    assert adoption.secrets == {name: f"new password of user {name}"}
    assert [note for note in adoption.notes if "default password" in note] == [
        f"o-mq01-a: the account {name} has a well-known default password, which `activemq-fleet check`, "
        "`activemq-fleet render` and the playbook activemq.fleet.site reject. Before you run the playbook, choose a "
        f"new password, write it to .secrets/{name}, and prepare the clients that use this account. The restarted "
        "brokers accept only the new password"
    ]


def test_adopted_account_keeps_password_that_is_no_default(tmp_path: Path) -> None:
    adoption = adopt_with_account(tmp_path, "system", "Kp4-xw8v")

    assert adoption.secrets == {"system": "password of user system"}
    assert not [note for note in adoption.notes if "default password" in note]
