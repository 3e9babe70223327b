"""Configurations that no broker refuses and that led to incidents: each does on a real broker what its rule says."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from activemq_fleet.artifacts import distribution_for
from activemq_fleet.errors import LabError
from activemq_fleet.lab.stomp import Credentials
from activemq_fleet.releases import Release
from tests.integration.planted import STOMP, Ground, document, until
from tests.integration.waiting import PATIENCE
from tests.situations import in_every_situation
from tests.stomp_clients import stomp_send

RELOAD = '<plugins><runtimeConfigurationPlugin checkPeriod="1000"/></plugins>'
OF_PLUGIN = ("activemq-runtime-config", "jaxb", "istack", "javax.activation")
"""The jars that the plugin needs and that the set of jars lacks, by the beginnings of their names."""
JAXB_OPTIONS = ("--add-opens=java.base/java.lang=ALL-UNNAMED",)
SHORT = 5.0  # seconds: so long a client tries again that the broker rejects
MESSAGES, SIZE = 2000, 1000
SPOOL = (
    '<destinationPolicy><policyMap><policyEntries><policyEntry queue="&gt;" memoryLimit="512kb">'
    "<pendingQueuePolicy><fileQueueCursor/></pendingQueuePolicy></policyEntry></policyEntries></policyMap>"
    "</destinationPolicy>"
    '<systemUsage><systemUsage><memoryUsage><memoryUsage limit="1 mb"/></memoryUsage></systemUsage></systemUsage>'
)


@pytest.mark.parametrize(("start", "text"), [("true", "Null BrokerContext"), ("false", "Monitoring for updates")])
def test_runtime_config_started_by_spring_watches_no_file(ground: Ground, start: str, text: str) -> None:
    """V031."""
    home = distribution_for(Release.of("5.18.3"))
    assert home is not None
    jars = [path for name in OF_PLUGIN for path in sorted(home.rglob(f"{name}*.jar"))]
    assert len(jars) >= len(OF_PLUGIN)
    text_of_file = document("store", ground.address(1), RELOAD, start=start)
    broker = ground.plant("store", "5.18.3", text_of_file, jars=jars, options=JAXB_OPTIONS)
    assert broker.boot().fate == "started", broker.said
    assert broker.await_said(text), broker.said
    other = {"Null BrokerContext", "Monitoring for updates"} - {text}
    assert other.pop() not in broker.said


@pytest.mark.parametrize("groups", ["all", "*", "admins"])
def test_advisory_group_all_rejects_each_client(ground: Ground, groups: str) -> None:
    """S032."""
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
    broker = ground.plant("north", "5.18.3", document("north", ground.address(1), plugins))
    assert broker.boot().fate == "started", broker.said
    address = [(ground.address(1), STOMP)]
    shop, root = (Credentials(name, f"secret-of-{name}") for name in ("shop", "root"))
    if groups != "*":
        with pytest.raises(LabError):
            stomp_send(address, "/queue/orders", ["hello"], shop, timeout=SHORT)
        assert broker.await_said("not authorized to create: topic://ActiveMQ.Advisory.Connection"), broker.said
    if groups == "admins":
        assert stomp_send(address, "/queue/orders", ["hello"], root) == ["hello"]
    if groups != "all":
        assert stomp_send(address, "/queue/orders", ["hello"], shop) == ["hello"]


@pytest.mark.parametrize("release", ["5.18.3", pytest.param("6.3.1", marks=[in_every_situation])])
def test_ldap_map_without_its_server_ends_the_start(ground: Ground, release: str) -> None:
    """S030."""
    plugins = (
        "<plugins><authorizationPlugin><map>"
        f'<cachedLDAPAuthorizationMap connectionURL="ldap://{ground.address(9)}:21389" connectionUsername="cn=broker"'
        ' connectionPassword="secret-of-broker"/>'
        "</map></authorizationPlugin></plugins>"
    )
    broker = ground.plant("north", release, document("north", ground.address(1), plugins))
    outcome = broker.boot()
    assert outcome.fate == "refused", outcome.said
    assert f"{ground.address(9)}:21389" in outcome.said


@pytest.mark.parametrize(
    ("release", "deletes"), [("5.11.4", True), pytest.param("5.15.16", False, marks=[in_every_situation])]
)
def test_shared_tmp_storage_is_deleted_by_the_start_of_the_standby(
    ground: Ground, tmp_path: Path, release: str, deletes: bool
) -> None:
    """L040."""
    store = f'<persistenceAdapter><kahaDB directory="{tmp_path}/kahadb"/></persistenceAdapter>'
    active, standby = (
        ground.plant(
            f"ledger-{number}",
            release,
            document("ledger", ground.address(number), store, SPOOL, dataDirectory=str(tmp_path / "data")),
        )
        for number in (1, 2)
    )
    assert active.boot().fate == "started", active.said
    send_non_persistent(ground.address(1))
    spooled = tmp_path / "data" / "ledger" / "tmp_storage" / "db-1.log"
    assert until(spooled.exists, PATIENCE)
    standby.launch()
    assert standby.await_said("is locked", PATIENCE), standby.said
    assert ("Successfully deleted temporary storage" in standby.said) == deletes
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
