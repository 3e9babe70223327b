"""Configurations that brokers accept and that caused incidents: on a real broker, each has the effect of its rule."""

from __future__ import annotations

import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from activemq_fleet import lint_file
from activemq_fleet.artifacts import fetch_and_unpack_distribution
from activemq_fleet.errors import LabError
from activemq_fleet.lab.stomp import Credentials
from activemq_fleet.releases import Release
from tests.integration.database import Database
from tests.integration.relay import Relay
from tests.integration.single_brokers import STOMP, BrokerSandbox, SandboxBroker, document, until
from tests.integration.waiting import PATIENCE
from tests.situations import fact_of_activemq, in_every_situation
from tests.stomp_clients import stomp_send

pytestmark = fact_of_activemq

RELOAD = '<plugins><runtimeConfigurationPlugin checkPeriod="1000"/></plugins>'
PLUGIN_JAR_PREFIXES = ("activemq-runtime-config", "jaxb", "istack", "javax.activation")
"""Prefixes of the names of jars that the plugin requires and that the set of jars lacks."""
JAXB_OPTIONS = ("--add-opens=java.base/java.lang=ALL-UNNAMED",)
SHORT = 5.0  # seconds for which a client that the broker rejects retries
MESSAGES, SIZE = 2000, 1000
WRITES = 50
RESUME = 'resumeCheckSleepPeriod="300"'
RENEWAL = "failed to update lease"
FULL = 1 << 20  # bytes of a file that a failed disk still accepts
SPOOL = (
    '<destinationPolicy><policyMap><policyEntries><policyEntry queue="&gt;" memoryLimit="512kb">'
    "<pendingQueuePolicy><fileQueueCursor/></pendingQueuePolicy></policyEntry></policyEntries></policyMap>"
    "</destinationPolicy>"
    '<systemUsage><systemUsage><memoryUsage><memoryUsage limit="1 mb"/></memoryUsage></systemUsage></systemUsage>'
)


@pytest.mark.parametrize(("start", "text"), [("true", "Null BrokerContext"), ("false", "Monitoring for updates")])
def test_runtime_config_started_by_spring_monitors_no_file(sandbox: BrokerSandbox, start: str, text: str) -> None:
    """Evidence for rule V031."""
    home = fetch_and_unpack_distribution(Release.of("5.18.3"))
    assert home is not None
    jars = [path for name in PLUGIN_JAR_PREFIXES for path in sorted(home.rglob(f"{name}*.jar"))]
    assert len(jars) >= len(PLUGIN_JAR_PREFIXES)
    activemq_xml = document("store", sandbox.address(1), RELOAD, start=start)
    broker = sandbox.add_broker("store", "5.18.3", activemq_xml, jars=jars, options=JAXB_OPTIONS)
    assert broker.boot().fate == "started", broker.output
    assert broker.wait_for_output(text), broker.output
    (other_text,) = {"Null BrokerContext", "Monitoring for updates"} - {text}
    assert other_text not in broker.output


@pytest.mark.parametrize("groups", ["all", "*", "admins"])
def test_advisory_group_all_rejects_each_client(sandbox: BrokerSandbox, groups: str) -> None:
    """Evidence for rule S032."""
    rights = "".join(
        f'<authorizationEntry {destination} read="{names}" write="{names}" admin="{names}"/>'
        for destination, names in (('queue="&gt;"', "shops"), ('topic="ActiveMQ.Advisory.&gt;"', groups))
    )
    plugins = (
        "<plugins><simpleAuthenticationPlugin><users>"
        '<authenticationUser username="shop" password="secret-of-shop" groups="shops"/>'
        '<authenticationUser username="root" password="secret-of-root" groups="shops,admins"/></users>'
        "</simpleAuthenticationPlugin><authorizationPlugin><map><authorizationMap>"
        f"<authorizationEntries>{rights}</authorizationEntries></authorizationMap></map></authorizationPlugin></plugins>"
    )
    broker = sandbox.add_broker("north", "5.18.3", document("north", sandbox.address(1), plugins))
    assert broker.boot().fate == "started", broker.output
    address = [(sandbox.address(1), STOMP)]
    shop, root = (Credentials(name, f"secret-of-{name}") for name in ("shop", "root"))
    if groups != "*":
        with pytest.raises(LabError):
            stomp_send(address, "/queue/orders", ["hello"], shop, timeout=SHORT)
        assert broker.wait_for_output("not authorized to create: topic://ActiveMQ.Advisory.Connection"), broker.output
    if groups == "admins":
        assert stomp_send(address, "/queue/orders", ["hello"], root) == ["hello"]
    if groups != "all":
        assert stomp_send(address, "/queue/orders", ["hello"], shop) == ["hello"]


@pytest.mark.parametrize("release", ["5.18.3", pytest.param("6.3.1", marks=[in_every_situation])])
def test_broker_with_ldap_map_without_server_does_not_start(sandbox: BrokerSandbox, release: str) -> None:
    """Evidence for rule S030."""
    plugins = (
        "<plugins><authorizationPlugin><map>"
        f'<cachedLDAPAuthorizationMap connectionURL="ldap://{sandbox.address(9)}:21389" connectionUsername="cn=broker"'
        ' connectionPassword="secret-of-broker"/>'
        "</map></authorizationPlugin></plugins>"
    )
    broker = sandbox.add_broker("north", release, document("north", sandbox.address(1), plugins))
    outcome = broker.boot()
    assert outcome.fate == "refused", outcome.output
    assert f"{sandbox.address(9)}:21389" in outcome.output


@pytest.mark.parametrize(
    ("release", "deletes"), [("5.11.4", True), pytest.param("5.15.16", False, marks=[in_every_situation])]
)
def test_start_of_standby_deletes_shared_tmp_storage_of_active_node(
    sandbox: BrokerSandbox, tmp_path: Path, release: str, deletes: bool
) -> None:
    """Evidence for rule L040."""
    store = f'<persistenceAdapter><kahaDB directory="{tmp_path}/kahadb"/></persistenceAdapter>'
    active, standby = (
        sandbox.add_broker(
            f"ledger-{number}",
            release,
            document("ledger", sandbox.address(number), store, SPOOL, dataDirectory=str(tmp_path / "data")),
        )
        for number in (1, 2)
    )
    assert active.boot().fate == "started", active.output
    send_non_persistent(sandbox.address(1))
    spooled = tmp_path / "data" / "ledger" / "tmp_storage" / "db-1.log"
    assert until(spooled.exists, PATIENCE)
    standby.launch()
    assert standby.wait_for_output("is locked", PATIENCE), standby.output
    assert ("Successfully deleted temporary storage" in standby.output) == deletes
    assert spooled.exists() != deletes


def send_non_persistent(host: str) -> None:
    """Send more messages than fit into the memory of the broker, and wait until it has them."""
    with socket.create_connection((host, STOMP), timeout=PATIENCE) as connection:
        connection.sendall(b"CONNECT\n\n\0")
        frame = b"SEND\ndestination:/queue/orders\n\n" + b"x" * SIZE + b"\0"
        connection.sendall(frame * MESSAGES)
        connection.sendall(b"SEND\ndestination:/queue/last\nreceipt:last\n\nx\0")
        received = b""
        while b"RECEIPT" not in received:
            received += connection.recv(1 << 16)


def is_reported(sandbox: BrokerSandbox, broker: str, rule: str, release: str) -> bool:
    """Return whether a rule has a finding for the file of a broker."""
    activemq_xml = (sandbox.lab_paths.directory / broker / "conf" / "activemq.xml").read_bytes()
    return bool(lint_file(activemq_xml, Release.of(release), schema_of=None, select=[rule]))


@pytest.mark.parametrize(
    ("release", "size", "overflows"),
    [
        ("5.18.3", "4gb", True),
        ("5.18.3", "1gb", False),
        *(pytest.param(release, "4gb", True, marks=[in_every_situation]) for release in ("5.5.1", "6.3.1")),
        pytest.param("5.18.3", "2gb", True, marks=[in_every_situation]),
        pytest.param("5.18.3", "5gb", False, marks=[in_every_situation]),
    ],
)
def test_journal_length_that_overflows_creates_data_file_per_write(
    sandbox: BrokerSandbox, release: str, size: str, overflows: bool
) -> None:
    """Evidence for rule V054."""
    directory = sandbox.lab_paths.directory / "kahadb"
    store = f'<persistenceAdapter><kahaDB directory="{directory}" journalMaxFileLength="{size}"/></persistenceAdapter>'
    broker = sandbox.add_broker("north", release, document("north", sandbox.address(1), store))
    assert broker.boot().fate == "started", broker.output
    bodies = [f"message {number}" for number in range(WRITES)]
    assert stomp_send([(sandbox.address(1), STOMP)], "/queue/orders", bodies) == bodies
    files = len(list(directory.glob("db-*.log")))
    assert files > WRITES // 2 if overflows else files == 1
    assert is_reported(sandbox, "north", "V054", release) == (size != "1gb")


def add_broker_with_handler(sandbox: BrokerSandbox, number: int, handler: str) -> SandboxBroker:
    """Return a broker of a pair with a shared kahaDB and an exception handler; it is not started yet."""
    store = (
        f'<persistenceAdapter><kahaDB directory="{sandbox.lab_paths.directory}/kahadb" lockKeepAlivePeriod="1000"'
        ' journalMaxFileLength="4mb"><locker><shared-file-locker lockAcquireSleepInterval="500"/></locker></kahaDB>'
        "</persistenceAdapter>"
    )
    handlers = f"<ioExceptionHandler>{handler}</ioExceptionHandler>"
    activemq_xml = document("ledger", sandbox.address(number), handlers, store)
    return sandbox.add_broker(f"ledger-{number}", "5.18.3", activemq_xml)


def fail_writes(broker: SandboxBroker, sandbox: BrokerSandbox) -> None:
    """Make each write of a broker beyond 1 MB of a file fail, and send messages until a write fails."""
    subprocess.run(["prlimit", f"--pid={broker.pid}", f"--fsize={FULL}:{FULL}"], check=True)
    with suppress(LabError):
        stomp_send([(sandbox.address(1), STOMP)], "/queue/orders", ["x" * 10_000] * 300, timeout=SHORT)


@pytest.mark.parametrize(
    ("handler", "rule", "text"),
    [
        ("<jDBCIOExceptionHandler/>", "L042", "Initiating stop/restart of transports"),
        ("<leaseLockerIOExceptionHandler/>", "L042", "Initiating stop/restart of transports"),
        ('<defaultIOExceptionHandler ignoreAllErrors="true"/>', "L043", "Ignoring IO exception"),
    ],
)
def test_unsuitable_handler_keeps_lock_after_failure_of_store(
    sandbox: BrokerSandbox, handler: str, rule: str, text: str
) -> None:
    """Evidence for rules L042 and L043."""
    active, standby = (add_broker_with_handler(sandbox, number, handler) for number in (1, 2))
    assert active.boot().fate == "started", active.output
    standby.launch()
    assert standby.wait_for_output("is locked", PATIENCE), standby.output
    fail_writes(active, sandbox)
    assert active.wait_for_output(text, PATIENCE), active.output
    assert not standby.wait_for_phase("started", SHORT)
    assert not active.has_ended
    assert is_reported(sandbox, "ledger-1", rule, "5.18.3")
    active.kill()
    assert standby.wait_for_phase("started", PATIENCE), standby.output


def test_standby_takes_over_after_handler_stops_broker(sandbox: BrokerSandbox) -> None:
    """Evidence for rules L042 and L043."""
    handler = '<defaultIOExceptionHandler ignoreNoSpaceErrors="false"/>'
    active, standby = (add_broker_with_handler(sandbox, number, handler) for number in (1, 2))
    assert active.boot().fate == "started", active.output
    standby.launch()
    assert standby.wait_for_output("is locked", PATIENCE), standby.output
    fail_writes(active, sandbox)
    assert standby.wait_for_phase("started", PATIENCE), active.output
    assert not is_reported(sandbox, "ledger-1", "L042", "5.18.3")
    assert not is_reported(sandbox, "ledger-1", "L043", "5.18.3")


@pytest.mark.parametrize(
    ("handler", "opens"),
    [
        ('<defaultIOExceptionHandler ignoreSQLExceptions="false" stopStartConnectors="true" {}/>', True),
        ("<leaseLockerIOExceptionHandler {}/>", False),
    ],
)
def test_handler_without_check_of_lock_opens_connectors_of_second_master(
    sandbox: BrokerSandbox, handler: str, opens: bool
) -> None:
    """Evidence for rule L042."""
    database = Database(sandbox, 9)
    handlers = f"<ioExceptionHandler>{handler.format(RESUME)}</ioExceptionHandler>"
    with Relay(database.address) as relay:
        first_broker = add_broker_with_lease(sandbox, 1, handlers, database, relay.address)
        second_broker = add_broker_with_lease(sandbox, 2, handlers, database, database.address)
        assert first_broker.boot().fate == "started", first_broker.output
        second_broker.launch()
        assert second_broker.wait_for_output("attempting to acquire exclusive lease", PATIENCE), second_broker.output
    assert second_broker.wait_for_phase("started", PATIENCE), second_broker.output
    failures = first_broker.output.count(RENEWAL)
    assert first_broker.wait_for_output(RENEWAL, PATIENCE, times=failures + 1), first_broker.output
    with Relay(database.address, port=relay.address[1]):
        # The handler or the renewal of the lease, depending on which runs first, detects that the lock is lost.
        expected_message = "Successfully restarted transports" if opens else "no longer "
        assert first_broker.wait_for_output(expected_message, PATIENCE), first_broker.output
        assert second_broker.run_state.phase == "started"
        assert opens or "Successfully restarted transports" not in first_broker.output
    assert is_reported(sandbox, "ledger-1", "L042", "5.18.3") == opens


def add_broker_with_lease(
    sandbox: BrokerSandbox, number: int, handlers: str, database: Database, address: tuple[str, int]
) -> SandboxBroker:
    """Return a broker of a pair with a lease in a database at an address; the broker is not started yet."""
    store = (
        '<persistenceAdapter><jdbcPersistenceAdapter dataSource="#store" lockKeepAlivePeriod="6000">'
        f'<locker><lease-database-locker lockAcquireSleepInterval="7000" leaseHolderId="ledger-{number}"/></locker>'
        "</jdbcPersistenceAdapter></persistenceAdapter>"
    )
    beans = database.bean("store", address)
    activemq_xml = document("ledger", sandbox.address(number), handlers, store, beans=beans)
    return sandbox.add_broker(f"ledger-{number}", "5.18.3", activemq_xml, jars=[database.driver])
