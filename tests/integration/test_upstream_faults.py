"""Tests of faults of releases that a configuration meets: a real broker with each fault, and one without it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from activemq_fleet import Release, lint_file
from activemq_fleet.artifacts import _maven, fetch_and_unpack_distribution
from activemq_fleet.artifacts._cache import ensure_cached, log_software_fetch_progress
from activemq_fleet.schema import BEANS
from tests.integration.single_brokers import OPENWIRE, BrokerSandbox, SandboxBroker, document, until
from tests.integration.waiting import PATIENCE
from tests.situations import fact_of_activemq, in_every_situation

pytestmark = fact_of_activemq

AFFECTED, REPAIRED = "5.18.3", "6.3.1"
SHORT = 5.0  # seconds after the end of the inactivity monitor's timeout
UNUSED_PORT = 21999  # no process listens on this port of the address
JAXB_OPTIONS = ("--add-opens=java.base/java.lang=ALL-UNNAMED",)
OF_PLUGIN = ("activemq-runtime-config", "jaxb", "istack", "javax.activation")
"""The jars that runtimeConfigurationPlugin needs and that the set of jars lacks, by the beginnings of their names."""
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>test</groupId><artifactId>plugin</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.activemq</groupId><artifactId>activemq-runtime-config</artifactId><version>6.3.1</version>
    </dependency>
    <dependency>
      <groupId>org.glassfish.jaxb</groupId><artifactId>jaxb-runtime</artifactId><version>4.0.9</version>
    </dependency>
  </dependencies>
</project>
"""
CONFIGURER = (
    '<bean xmlns="http://www.springframework.org/schema/beans"'
    ' class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer"/>'
)


def plugin_jars(release: str) -> list[Path]:
    """Return the jars of runtimeConfigurationPlugin: from the distribution of 5.18.3, for 6.3.1 from Maven."""
    if release == AFFECTED:
        home = fetch_and_unpack_distribution(Release.of(release))
        assert home is not None
        return [path for name in OF_PLUGIN for path in sorted(home.rglob(f"{name}*.jar"))]

    def make(part: Path) -> None:
        part.mkdir()
        (part / "pom.xml").write_text(POM)
        _maven.copy_dependencies(part / "pom.xml", {}, ["none"], part)

    directory = ensure_cached(f"drivers/runtime-config-{release}", make, progress=log_software_fetch_progress)
    names = ("activemq-runtime", "angus", "istack", "jakarta.activation", "jakarta.xml.bind", "jaxb", "txw2")
    return [path for name in names for path in sorted(directory.glob(f"{name}*.jar"))]


class SilentPeer:
    """A listener that accepts connections and sends nothing, or only the wire format of the client back."""

    def __init__(self, address: str, *, negotiates: bool) -> None:
        self.accepted = 0
        self._negotiates = negotiates
        self._connections: list[socket.socket] = []
        self._listener = socket.create_server((address, OPENWIRE))

    @contextmanager
    def listening(self) -> Iterator[SilentPeer]:
        threading.Thread(target=self._accept, daemon=True).start()
        try:
            yield self
        finally:
            for connection in (self._listener, *self._connections):
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                connection.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.accepted += 1
                self._connections.append(connection)
                if self._negotiates:
                    connection.sendall(connection.recv(1 << 16))


def rules_of(text: str, release: str, rule: str) -> list[str]:
    findings = lint_file(text.encode(), Release.of(release), schema_of=None, select=[rule])
    return [finding.rule for finding in findings]


def add_broker_with_links(sandbox: BrokerSandbox, release: str, uri: str) -> SandboxBroker:
    """Return a broker, not started yet, with a link and a second link to a port without a listener."""
    links = (
        "<networkConnectors>"
        f'<networkConnector name="unused" uri="static:(tcp://{sandbox.address(1)}:{UNUSED_PORT})"/>'
        f'<networkConnector name="south" uri="static:({uri})"/>'
        "</networkConnectors>"
    )
    return sandbox.add_broker("north", release, document("north", sandbox.address(1), links))


def is_rule_reported(sandbox: BrokerSandbox, rule: str, release: str) -> bool:
    """Return whether a rule reports something about the file of the broker."""
    activemq_xml = (sandbox.lab_paths.directory / "north" / "conf" / "activemq.xml").read_bytes()
    return bool(lint_file(activemq_xml, Release.of(release), schema_of=None, select=[rule]))


@pytest.mark.parametrize(
    ("release", "option", "reconnects"),
    [
        (AFFECTED, "&amp;wireFormat.maxInactivityDuration=0", False),
        (REPAIRED, "&amp;wireFormat.maxInactivityDuration=0", True),
        pytest.param(
            AFFECTED,
            "&amp;wireFormat.maxInactivityDuration=2000&amp;wireFormat.maxInactivityDurationInitalDelay=2000",
            True,
            marks=[in_every_situation],
        ),
    ],
)
def test_link_without_monitor_waits_indefinitely_for_silent_peer(
    sandbox: BrokerSandbox, release: str, option: str, reconnects: bool
) -> None:
    """Rule V035."""
    with SilentPeer(sandbox.address(2), negotiates=True).listening() as peer:
        address = f"tcp://{sandbox.address(2)}:{OPENWIRE}?connectionTimeout=2000{option}"
        broker = add_broker_with_links(sandbox, release, address)
        assert broker.boot().fate == "started", broker.output
        assert until(lambda: peer.accepted > 0, PATIENCE), broker.output
        if reconnects:
            assert until(lambda: peer.accepted > 2, PATIENCE), broker.output
        else:
            # The other link shows that the broker has had time for several attempts.
            attempts = broker.output.count(f":{UNUSED_PORT}")
            assert broker.wait_for_output(f":{UNUSED_PORT}", PATIENCE, times=attempts + 6), broker.output
            assert peer.accepted == 1, broker.output
    assert is_rule_reported(sandbox, "V035", release) != reconnects


@pytest.mark.parametrize(("release", "starts"), [(AFFECTED, False), (REPAIRED, True)])
def test_write_timeout_of_link_ends_handshake_only_on_repaired_releases(
    sandbox: BrokerSandbox, release: str, starts: bool
) -> None:
    """Rule V036."""
    with SilentPeer(sandbox.address(2), negotiates=False).listening() as peer:
        broker = add_broker_with_links(sandbox, release, f"ssl://{sandbox.address(2)}:{OPENWIRE}?soWriteTimeout=1000")
        broker.launch()
        if starts:
            assert broker.wait_for_phase("started"), broker.output
            assert until(lambda: peer.accepted > 1, PATIENCE), broker.output
        else:
            assert broker.wait_for_output("Channel was inactive", PATIENCE), broker.output
            assert not broker.wait_for_phase("started", SHORT), broker.output
            assert peer.accepted == 1
    assert is_rule_reported(sandbox, "V036", release) != starts


@pytest.mark.parametrize(
    ("release", "password", "removes"),
    [
        (AFFECTED, "${link.password}", False),
        (AFFECTED, "changed", True),
        pytest.param(REPAIRED, "${link.password}", True, marks=[in_every_situation]),
    ],
)
def test_reload_removes_link_with_reference_only_on_repaired_releases(
    sandbox: BrokerSandbox, release: str, password: str, removes: bool
) -> None:
    """Rule V032."""
    south, north = (
        f'<networkConnector name="{name}" uri="static:(tcp://{sandbox.address(1)}:{UNUSED_PORT})" password="{secret}"/>'
        for name, secret in (("south", password), ("north", "changed"))
    )

    def file(links: str) -> str:
        connectors = f"<networkConnectors>{links}</networkConnectors>" if links else ""
        reload = '<plugins><runtimeConfigurationPlugin checkPeriod="1000"/></plugins>'
        return document("north", sandbox.address(1), reload, connectors, beans=CONFIGURER, start="false")

    options = (*JAXB_OPTIONS, "-Dlink.password=changed")
    broker = sandbox.add_broker("north", release, file(south), jars=plugin_jars(release), options=options)
    assert broker.boot().fate == "started", broker.output
    assert is_rule_reported(sandbox, "V032", release) != removes
    path = sandbox.lab_paths.directory / "north" / "conf" / "activemq.xml"
    for links, text in (("", "change in "), (north, "started new network connector")):
        times = broker.output.count(text) + 1
        path.write_text(file(links))
        assert broker.wait_for_output(text, PATIENCE, times=times), broker.output
    assert ("stopped and removed networkConnector" in broker.output) == removes, broker.output


@pytest.mark.parametrize("named", [False, True])
def test_file_that_depends_on_bean_broker_prevents_start_without_that_bean(sandbox: BrokerSandbox, named: bool) -> None:
    """Rule V034.

    The archives of the affected releases cannot be fetched, so that the depends-on of their jetty.xml is known from the
    release tags only. A bean of Java replaces the web console.
    """
    console = f'''<beans xmlns="{BEANS}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="{BEANS} {BEANS}/spring-beans.xsd">
<bean id="invokeStart" class="java.util.Date" depends-on="broker"/></beans>'''
    attributes = {"id": "broker"} if named else {}
    activemq_xml = document("north", sandbox.address(1), **attributes)
    activemq_xml = activemq_xml.replace("</broker>", f'</broker><import xmlns="{BEANS}" resource="jetty.xml"/>')
    broker = sandbox.add_broker("north", "6.2.7", activemq_xml)
    (sandbox.lab_paths.directory / "north" / "conf" / "jetty.xml").write_text(console)
    outcome = broker.boot()
    assert outcome.fate == ("started" if named else "refused"), outcome.output
    assert ("No bean named 'broker'" in outcome.output) != named
    findings = lint_file(
        activemq_xml.encode(),
        Release.of("6.2.7"),
        other_files={"jetty.xml": console.encode()},
        schema_of=None,
        select=["V034"],
    )
    assert bool(findings) != named
