"""Listeners of other accounts at the address of a broker: they get no login and do not affect its state."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from activemq_fleet.node.config.broker_configuration import read_deployed_broker_settings
from activemq_fleet.node.config.probe_account import Login
from activemq_fleet.node.config.versions import ConfigurationPaths
from activemq_fleet.node.probe.connector_probe import ProbeAnswer, probe_connector
from activemq_fleet.node.probe.pair_watch import watch_which_address_answers
from activemq_fleet.node.state.broker_state import gather_broker_state
from tests.situations import some_situations
from tests.unit.attackers import BROKER, STRANGER, create_owned_directory, directory_for_all_accounts, requires_root
from tests.waiting import LateError

LISTENER = Path(__file__).parents[1] / "hostile_listener.py"
PATIENCE = 60.0
"""Seconds after which the test fails if a probe hangs; a probe has a time limit of 5 s."""
NETWORK_PASSWORD, PROBE_PASSWORD = "N3tworkS3cret", "Pr0beS3cret"
XML = """<beans><!-- o: node b (preferred slave) of pair o, release 5.18.3 -->
<broker><plugins><simpleAuthenticationPlugin><users>
<authenticationUser username="network" password="${{activemq.network.password}}" groups="activemq-network"/>
{probe}</users></simpleAuthenticationPlugin></plugins>
<transportConnectors><transportConnector name="c" uri="{scheme}://0.0.0.0:{port}"/></transportConnectors>
</broker></beans>"""
PROBE_ACCOUNT = '<authenticationUser username="activemq-probe" password="${activemq.probe.password}" groups="p"/>'
WAITS = (
    " | INFO  | Database /store/lock is locked by another server. This broker is now in slave "
    "mode waiting a lock to be acquired | org.apache.activemq.store.SharedFileLocker | main\n"
)


def free_port() -> int:
    with socket.socket() as unbound:
        unbound.bind(("127.0.0.1", 0))
        return int(unbound.getsockname()[1])


class Standby:
    """The directory of a broker, a process of its account that waits for the lock, and hostile listeners."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.base = directory / "orders"
        self.port = free_port()
        self.record = create_owned_directory(directory / "record", STRANGER, 0o777) / "sent"
        self._children: list[subprocess.Popen[str]] = []

    def deploy(self, scheme: str, probe: str = PROBE_ACCOUNT) -> None:
        """Write the files of the broker, and start a process that has them open and listens on no port."""
        conf = self.base / "versions/v/conf"
        conf.mkdir(parents=True)
        (conf / "activemq.xml").write_text(XML.format(scheme=scheme, port=self.port, probe=probe))
        passwords = {"network": NETWORK_PASSWORD, "probe": PROBE_PASSWORD}
        lines = [f"activemq.{name}.password={password}\n" for name, password in passwords.items()]
        (conf / "credentials.properties").write_text("".join(lines))
        (self.base / "current").symlink_to("versions/v")
        log = create_owned_directory(self.base / "data") / "activemq.log"
        log.touch()
        os.chown(log, BROKER, BROKER)
        program = f"import time; kept = open({str(log)!r}, 'a'); print('up', flush=True); time.sleep(600)"
        self._start(BROKER, ["-c", program, f"-Dactivemq.base={self.base}", "start"])
        log.write_text(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(time.time() + 1))},000{WAITS}")

    def listen(self, protocol: str, host: str, account: int, *pem: str) -> None:
        """Start a hostile listener of an account on the port of the broker."""
        arguments = [
            str(self.directory / "hostile_listener.py"),
            host,
            str(self.port),
            str(self.record),
            protocol,
            *pem,
        ]
        Path(arguments[0]).write_bytes(LISTENER.read_bytes())
        self._start(account, arguments)

    def _start(self, account: int, arguments: list[str]) -> None:
        child = subprocess.Popen(
            ["/usr/bin/python3", *arguments],
            stdout=subprocess.PIPE,
            text=True,
            user=account,
            group=account,
            extra_groups=[],
        )
        self._children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline(), "the process did not start: run its command manually to see the error"

    def recorded(self) -> bytes:
        """Return what the hostile listener recorded."""
        return self.record.read_bytes() if self.record.exists() else b""

    def stop(self) -> None:
        for child in self._children:
            child.kill()
            child.communicate()


@pytest.fixture
def standby() -> Iterator[Standby]:
    with directory_for_all_accounts() as directory:
        broker = Standby(directory)
        try:
            yield broker
        finally:
            broker.stop()


def make_certificate(directory: Path) -> tuple[str, str]:
    """Create a self-signed certificate for another name; return the paths of certificate and key."""
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=mallory.example.net",
    ]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    key.chmod(0o644)
    return str(certificate), str(key)


@some_situations(3)
@requires_root
@pytest.mark.parametrize(
    ("scheme", "protocol", "host", "account"),
    [
        ("mqtt+nio", "mqtt", "127.0.0.1", STRANGER),
        ("stomp+nio", "stomp", "127.0.0.1", STRANGER),
        ("nio", "openwire", "127.0.0.1", STRANGER),
        ("mqtt", "mqtt", "0.0.0.0", STRANGER),
        ("stomp", "stomp", "::", STRANGER),  # an IPv4 client has an IPv6-mapped address there
        ("mqtt+nio+ssl", "mqtt", "127.0.0.1", STRANGER),
        ("stomp+ssl", "stomp", "::", STRANGER),
        ("ws", "mqtt", "127.0.0.1", STRANGER),
        ("mqtt", "mqtt", "127.0.0.1", 0),  # a listener of root, such as a forwarder
        ("mqtt", "pending", "127.0.0.1", STRANGER),
    ],
)
def test_listener_of_another_account_gets_no_login_and_is_no_broker(
    standby: Standby, scheme: str, protocol: str, host: str, account: int
) -> None:
    standby.deploy(scheme)
    state_before = gather_broker_state(str(standby.base), None)
    assert state_before["state"] == "standby", state_before
    pem = make_certificate(standby.directory) if "ssl" in scheme else ()
    standby.listen(protocol, host, account, *pem)

    state_after = gather_broker_state(str(standby.base), None)

    recorded = standby.recorded()
    assert b"CONNECTION" in recorded, "the attack did not reach its target: the listener has no connection"
    assert NETWORK_PASSWORD.encode() not in recorded
    assert PROBE_PASSWORD.encode() not in recorded
    assert state_after["state"] == "standby", state_after
    assert state_after["message_returned"] is None


@requires_root
def test_listener_of_another_account_gets_no_login_from_watchdog(standby: Standby) -> None:
    standby.deploy("mqtt+nio")
    standby.listen("mqtt", "127.0.0.1", STRANGER)
    program = "from activemq_fleet.node.watchdog.watchdog_cli import main; main()"
    options = ["--base", str(standby.base), "--unit", "x.service", "--ha", "shared-file", "--every", "0.2", "kill"]
    watchdog = subprocess.Popen(
        [sys.executable, "-c", program, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while standby.recorded().count(b"CONNECTION") < 4:
            if time.monotonic() > deadline:
                raise LateError("timed out: the watchdog has not connected 4 times")
            assert watchdog.poll() is None, watchdog.communicate()[0]
            time.sleep(0.05)
    finally:
        watchdog.kill()
        watchdog.communicate()
    assert NETWORK_PASSWORD.encode() not in standby.recorded()
    assert PROBE_PASSWORD.encode() not in standby.recorded()


@requires_root
def test_listener_of_broker_account_is_probed_with_probe_account(standby: Standby) -> None:
    standby.deploy("mqtt+nio")
    standby.listen("mqtt", "0.0.0.0", BROKER)
    assert gather_broker_state(str(standby.base), None)["state"] == "active"
    assert PROBE_PASSWORD.encode() in standby.recorded()
    assert NETWORK_PASSWORD.encode() not in standby.recorded()


@requires_root
def test_broker_without_probe_account_is_probed_with_network_account(standby: Standby) -> None:
    standby.deploy("stomp", probe="")
    standby.listen("stomp", "::", BROKER)
    assert gather_broker_state(str(standby.base), None)["state"] == "active"
    assert NETWORK_PASSWORD.encode() in standby.recorded()
    assert PROBE_PASSWORD.encode() not in standby.recorded()


@some_situations(1)
@requires_root
@pytest.mark.parametrize("scheme", ["mqtt", "mqtt+ssl"])
def test_watching_of_addresses_sends_no_login_to_another_account(standby: Standby, scheme: str) -> None:
    standby.deploy(scheme)
    standby.listen("mqtt", "127.0.0.1", STRANGER, *(make_certificate(standby.directory) if "ssl" in scheme else ()))

    watched = watch_which_address_answers(
        [f"{scheme}://localhost:{standby.port}"], str(standby.base), 1.0, 0.2, 2.0, None
    )

    assert b"CONNECTION" in standby.recorded(), "the attack did not reach its target: the listener has no connection"
    assert NETWORK_PASSWORD.encode() not in standby.recorded()
    assert PROBE_PASSWORD.encode() not in standby.recorded()
    assert watched["trips"] == 0


@contextlib.contextmanager
def serving(act: Callable[[socket.socket], None]) -> Iterator[tuple[str, int]]:
    """Serve connections on a port in a thread of this process; yield the address."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client = server.accept()[0]
                    with contextlib.suppress(OSError), client:
                        act(client)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()


def send_other_messages(client: socket.socket) -> None:
    """Greet as an MQTT broker, then send a message that is not of the probe every 0.1 s."""
    client.recv(1000)
    client.sendall(b"\x20\2\0\0")
    request_head = client.recv(1000)
    client.sendall(b"\x90\3" + request_head[2:4] + b"\1")
    pause = threading.Event()
    while True:
        client.sendall(b"\x30\x05\0\1aXX")
        pause.wait(0.1)


def send_single_bytes(client: socket.socket) -> None:
    """Begin a STOMP frame, and send a single byte of it every 0.1 s."""
    client.recv(1000)
    client.sendall(b"CONNECTED\n")
    pause = threading.Event()
    while True:
        client.sendall(b"a")
        pause.wait(0.1)


def send_nothing_but_newlines(client: socket.socket) -> None:
    """Send a STOMP heartbeat every 0.1 s."""
    pause = threading.Event()
    while True:
        client.sendall(b"\n")
        pause.wait(0.1)


def send_messages_without_end(client: socket.socket) -> None:
    """Greet as a STOMP broker, then send messages that are not of the probe without a pause."""
    client.recv(1000)
    client.sendall(b"CONNECTED\n\n\0")
    client.recv(1000)
    client.sendall(b"RECEIPT\nreceipt-id:s\n\n\0")
    message = b"MESSAGE\n\n" + b"x" * 50_000 + b"\0"
    while True:
        client.sendall(message)


@some_situations(2)
@pytest.mark.parametrize(
    ("scheme", "act"),
    [
        ("mqtt", send_other_messages),
        ("stomp", send_single_bytes),
        ("stomp", send_nothing_but_newlines),
        ("stomp", send_messages_without_end),
        ("nio", lambda client: send_nothing_but_newlines(client)),
    ],
    ids=["other_messages", "single_bytes", "newlines", "without_end", "openwire"],
)
def test_probe_ends_for_any_data_that_listener_sends(scheme: str, act: Callable[[socket.socket], None]) -> None:
    reached = threading.Event()

    def act_once(client: socket.socket) -> None:
        reached.set()
        act(client)

    answers: list[ProbeAnswer] = []
    with serving(act_once) as address:
        thread = threading.Thread(
            target=lambda: answers.append(probe_connector(scheme, address, Login("u", "p"), 1.0)), daemon=True
        )
        thread.start()
        thread.join(PATIENCE)
    assert reached.is_set(), "the attack did not reach its target: the listener has no connection"
    assert answers, "timed out"
    assert not answers[0].answered


@requires_root
def test_deployed_configuration_has_both_accounts_and_release(standby: Standby) -> None:
    standby.deploy("mqtt")
    deployed = read_deployed_broker_settings(ConfigurationPaths(str(standby.base)), "v")
    assert deployed.login == Login("network", NETWORK_PASSWORD)
    assert deployed.probe_login == Login("activemq-probe", PROBE_PASSWORD)
    assert deployed.release == (5, 18, 3)
    assert PROBE_PASSWORD not in repr(deployed)
