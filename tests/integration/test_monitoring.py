"""Prometheus and Alertmanager beside real brokers: alerts fire while their cause is made, and clear when it is gone.

``ALERTS=all`` does so for every alert and on further releases; without it a death of the active node stands for all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from ansible_collections.activemq.fleet.plugins.module_utils.watchdog.program import program as pack

from activemq_fleet.errors import LabError
from activemq_fleet.lab import Lab
from activemq_fleet.lab.monitoring import find_programs
from activemq_fleet.lab.stomp import StompConnection, StompTimeout
from activemq_fleet.render import render
from activemq_fleet.render.metrics import fingerprint
from activemq_fleet.render.monitoring.dashboards import queries
from activemq_fleet.render.service import paths
from activemq_fleet.topology import build_fleet
from tests.integration.agents import PROGRAM, Agent
from tests.integration.conftest import LabOf
from tests.integration.labs import pair, processes_of, write_inventory
from tests.integration.waiting import until
from tests.stomp_clients import stomp_drain, stomp_send

A, B = pair("orders")
C, D = pair("orders", 2)
FIRST, SECOND = "orders-mq01", "orders-mq02"
LOGIN, SECRET = "prom", "s3cret-of-metrics"
FIRES, CLEARS = 60.0, 90.0
"""Seconds for an alert to fire or clear; the lab's alerts wait some 3 s, on a machine that has other work, too."""
FURTHER = os.environ.get("ALERTS") == "all"


@pytest.fixture(autouse=True, scope="module")
def _has_prometheus() -> None:
    try:
        find_programs()
    except LabError as error:
        pytest.skip(str(error))


def lab_with_prometheus(
    lab_of: LabOf, directory: Path, hosts: Collection[str], more: Path | None = None, **variables: Any
) -> Lab:
    """Return a lab that is up, with Prometheus, whose brokers all know the queue orders.in."""
    common: dict[str, Any] = {
        "release": "5.18.3",
        "metrics_destinations": ["orders.in"],
        "metrics_username": LOGIN,
        "metrics_password": SECRET,
        "network_username": "net",
        "network_password": "s3cret-net",
        "users": [{"name": "app", "password": "s3cret-app", "groups": ["apps"]}],
    }
    inventory = write_inventory(directory / "inventory", list(hosts), **{**common, **variables})
    lab = lab_of([inventory, *([more] if more else [])])
    lab.up(prometheus=True)
    # What a lab command did mutes alerts for a while; the metrics of the first scrapes come meanwhile.
    ready = "up == 1 unless on () activemq:operation"
    until(lambda: lab.monitoring.query_prometheus(ready), 60, lambda: str(lab.monitoring.query_prometheus("up")))
    return lab


def firing(lab: Lab) -> set[str]:
    return {labels["alertname"] for labels in lab.monitoring.alerts()}


def expect(lab: Lab, *alerts: str) -> None:
    until(lambda: set(alerts) <= firing(lab), FIRES, lambda: f"{alerts} do not fire, but {firing(lab)}")


def expect_cleared(lab: Lab, *alerts: str) -> None:
    def clear() -> bool:
        # A command of the lab mutes for a while: that is no end of the cause.
        return not lab.monitoring.query_prometheus("activemq:operation") and not set(alerts) & firing(lab)

    until(clear, CLEARS, lambda: f"of {alerts} {firing(lab)} do not clear")


def listening(pids: Collection[int]) -> set[tuple[str, int]]:
    """Return each address and port that one of these processes listens on."""
    return {
        (one.laddr.ip.removeprefix("::ffff:"), one.laddr.port)
        for pid in pids
        for one in psutil.Process(pid).net_connections("tcp")
        if one.status == psutil.CONN_LISTEN
    }


def test_a_death_is_told_in_order_and_every_panel_has_data(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_with_prometheus(lab_of, tmp_path, (A, B, C, D), topology="mesh")
    stomp_send(lab.addresses(A, "stomp"), "/queue/orders.in", ["one", "two"], lab.credentials(A))
    two = f'activemq_destination_messages{{host="{A}",destination="orders.in"}} == 2'
    until(lambda: lab.monitoring.query_prometheus(two), 20, two)
    assert not firing(lab)
    check_nothing_else_listens(lab)
    check_no_secret_is_told(lab)
    # From the second scrape on there are rates.
    shown = [(title, text) for name, title, text in queries(host=A, pair=FIRST) if name != "activemq-agents"]
    until(lambda: not empty_panels(lab, shown), 30, lambda: f"panels without data: {empty_panels(lab, shown)}")
    lab.kill(A)
    expect(lab, "ActiveMQTakeOver")
    expect(lab, "ActiveMQStandbyMissing")
    expect_cleared(lab, "ActiveMQTakeOver")
    assert firing(lab) == {"ActiveMQStandbyMissing"}
    lab.start(A)
    expect_cleared(lab, "ActiveMQStandbyMissing")
    assert firing(lab) == set()
    lab.down()
    assert not processes_of(lab.directory)


def empty_panels(lab: Lab, panels: Sequence[tuple[str, str]]) -> list[str]:
    """Return the titles of panels whose query has no series now."""
    return [title for title, text in panels if not lab.monitoring.query_prometheus(text)]


def check_nothing_else_listens(lab: Lab) -> None:
    """Every port that the lab's processes listen on is one that the inventory or the lab names."""
    wanted = {
        (lab._hosts.address(broker.host), port) for broker in lab.fleet.brokers for port in broker.ports.values()
    } | {lab.monitoring.address(name) for name in ("prometheus", "alertmanager", "node-exporter")}
    assert listening(processes_of(lab.directory)) <= wanted


def check_no_secret_is_told(lab: Lab) -> None:
    """Metrics need the login, and hold no password."""
    url = f"http://{lab._hosts.address(A)}:9404/metrics"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(url, timeout=10)
    manager = urllib.request.HTTPPasswordMgrWithDefaultRealm()
    manager.add_password(None, url, LOGIN, SECRET)
    opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(manager))
    with opener.open(url, timeout=10) as answer:
        text = answer.read().decode()
    assert "activemq_broker_messages" in text
    assert "s3cret" not in text


further = pytest.mark.skipif(not FURTHER, reason="every alert by its cause: ALERTS=all, as make test-full has it")


@further
def test_nobody_active_a_bridge_down_and_a_hung_broker(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_with_prometheus(lab_of, tmp_path, (A, B, C, D))
    lab.kill(B)
    lab.kill(A)
    expect(lab, "ActiveMQNoActiveNode", "ActiveMQBridgeDown")
    lab.start(A)
    lab.start(B)
    expect_cleared(lab, "ActiveMQNoActiveNode", "ActiveMQBridgeDown")
    with watched(lab, C):
        lab.pause(C)
        expect(lab, "ActiveMQBrokerHung")
        lab.resume(C)
        expect_cleared(lab, "ActiveMQBrokerHung", "ActiveMQNoActiveNode")


@further
def test_a_configuration_that_was_not_deployed(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_with_prometheus(lab_of, tmp_path, (A, B))
    planned = lab.directory / "prometheus/rules/activemq-planned.yml"
    deployed = planned.read_text()
    newer = next(brokers_with(lab, store_limit="3 gb"))
    older = next(brokers_with(lab))
    planned.write_text(deployed.replace(older, newer))
    lab.monitoring.reload()
    expect(lab, "ActiveMQConfigurationDrift")
    planned.write_text(deployed)
    lab.monitoring.reload()
    expect_cleared(lab, "ActiveMQConfigurationDrift")


@further
def test_two_nodes_that_lost_their_common_lock(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_with_prometheus(lab_of, tmp_path, (A, B), release="5.5.1")
    (lab.directory / "stores" / FIRST / "lock").unlink()
    expect(lab, "ActiveMQTwoActiveNodes")
    lab.kill(A)
    expect_cleared(lab, "ActiveMQTwoActiveNodes")


@further
@pytest.mark.parametrize("release", ["5.18.3", "6.3.1"])
def test_destinations_and_limits(tmp_path: Path, lab_of: LabOf, release: str) -> None:
    options = {"maximumConnections": 10}
    policy = {"destination": "memory.>", "kind": "queue", "pending_queue_policy": "vm"}
    lab = lab_with_prometheus(
        lab_of,
        tmp_path,
        (A,),
        release=release,
        ha="none",
        connectors=[
            {"name": "openwire", "scheme": "nio", "port": 61616},
            {"name": "stomp", "scheme": "stomp+nio", "port": 61613, "options": options},
        ],
        destination_policies=[policy],
        memory_limit="20 mb",
        store_limit="80 mb",
    )
    where, login = lab.addresses(A, "stomp"), lab.credentials(A)
    for number in range(40):  # a backlog that grows, with a consumer nowhere
        stomp_send(where, "/queue/orders.in", [f"{number}"], login)
        if "ActiveMQBacklogWithoutConsumers" in firing(lab):
            break
        time.sleep(0.5)
    expect(lab, "ActiveMQBacklogWithoutConsumers")
    stomp_drain(where, "/queue/orders.in", login)
    expect_cleared(lab, "ActiveMQBacklogWithoutConsumers")
    stomp_send(where, "/queue/ActiveMQ.DLQ", ["dead"], login)
    expect(lab, "ActiveMQDeadLetters")
    stomp_drain(where, "/queue/ActiveMQ.DLQ", login)
    expect_cleared(lab, "ActiveMQDeadLetters")
    with StompConnection(where[0], login) as producer:
        producer.send("/queue/orders.in", "late", {"expires": str(int(time.time() * 1000) + 300)})
    time.sleep(1)
    stomp_drain(where, "/queue/orders.in", login)
    expect(lab, "ActiveMQMessagesExpired")
    with ExitStack() as stack:
        for _ in range(9):
            stack.enter_context(StompConnection(where[0], login))
        expect(lab, "ActiveMQConnectionsNearLimit")
    expect_cleared(lab, "ActiveMQConnectionsNearLimit", "ActiveMQMessagesExpired")
    fill(lab, "/queue/memory.full", {"persistent": "false"})
    expect(lab, "ActiveMQMemoryFilling")
    stomp_drain(where, "/queue/memory.full", login)
    expect_cleared(lab, "ActiveMQMemoryFilling")
    fill(lab, "/queue/orders.in", {})
    expect(lab, "ActiveMQStoreFilling", "ActiveMQStoreFull")
    stomp_drain(where, "/queue/orders.in", login)
    stomp_drain(where, "/queue/ActiveMQ.DLQ", login)
    expect_cleared(lab, "ActiveMQStoreFilling", "ActiveMQStoreFull")


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A directory whose name is short enough for the path of a socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        yield Path(directory)


@further
def test_an_agent_without_a_broker_and_one_that_is_gone(tmp_path: Path, lab_of: LabOf, sockets: Path) -> None:
    socket = {"socket": str(sockets / "kiosk.sock")}
    own = {"username": "kiosk", "password": "s3cret-kiosk", "topics": ["orders/#"], "options": socket}
    agent = {f"activemq_agent_{name}": value for name, value in own.items()}
    inventory = write_inventory(tmp_path / "more", ["kiosk.example.com"])
    content = json.loads(inventory.read_text())
    content["all"]["hosts"]["kiosk.example.com"] = agent
    content["all"]["children"] = {"activemq_agents": {"hosts": {"kiosk.example.com": {}}}}
    inventory.write_text(json.dumps(content))
    lab = lab_with_prometheus(lab_of, tmp_path, (A, B), more=inventory)
    with Agent(lab, "kiosk.example.com") as kiosk:
        panels = [(title, text) for name, title, text in queries() if name == "activemq-agents"]
        until(lambda: not empty_panels(lab, panels), 60, lambda: f"panels without data: {empty_panels(lab, panels)}")
        lab.kill(B)
        lab.kill(A)
        subprocess.run([PROGRAM, "--config", str(kiosk.config), "publish", "orders/one", "{}"], check=True, timeout=60)
        expect(lab, "ActiveMQAgentOutboxAging")
        lab.start(A)
        expect_cleared(lab, "ActiveMQAgentOutboxAging")
        kiosk.kill()
        expect(lab, "ActiveMQAgentSilent")
        kiosk.start()
        expect_cleared(lab, "ActiveMQAgentSilent")


@further
def test_a_certificate_near_its_end(tmp_path: Path, lab_of: LabOf) -> None:
    key = tmp_path / "broker.p12"
    make_key(key, days=5)
    tls = {name: str(key) for name in ("keystore", "truststore")}
    tls |= {f"{name}_password": "changeit" for name in ("keystore", "truststore")}
    lab = lab_with_prometheus(lab_of, tmp_path, (A,), ha="none", tls=tls)
    with watched(lab, A):
        expect(lab, "ActiveMQCertificateEnds")
    make_key(key, days=400)
    lab.stop(A)
    lab.start(A)
    with watched(lab, A):
        expect_cleared(lab, "ActiveMQCertificateEnds")


def make_key(path: Path, *, days: int) -> None:
    path.unlink(missing_ok=True)
    words = ["-genkeypair", "-keyalg", "RSA", "-dname", "CN=broker", "-validity", str(days), "-alias", "broker"]
    own = ["-keystore", str(path), "-storetype", "PKCS12", "-storepass", "changeit"]
    subprocess.run(["keytool", *words, *own], check=True, capture_output=True)


def brokers_with(lab: Lab, **variables: Any) -> Iterator[str]:
    """Yield the fingerprint of each broker's configuration with other variables than it has."""
    hosts = {name: {**own, **{f"activemq_{key}": value for key, value in variables.items()}}
             for name, own in lab._hosts.lab.hosts.items()}  # fmt: skip
    for broker in build_fleet(hosts, {}).brokers:
        yield fingerprint(render(broker))


def fill(lab: Lab, destination: str, headers: dict[str, str]) -> None:
    """Send messages of a megabyte until the broker holds the producer back."""
    where, login = lab.addresses(A, "stomp")[0], lab.credentials(A)
    with StompConnection(where, login, timeout=5) as producer, suppress(StompTimeout):
        for _ in range(200):
            producer.send(destination, "x" * (1 << 20), headers)


@contextmanager
def watched(lab: Lab, host: str) -> Iterator[None]:
    """A watchdog beside a broker, which writes its metrics where the lab's node exporter looks."""
    broker = lab.fleet.broker(host)
    base = Path(paths(broker).base)
    run = base.parent / "activemq-watchdog"
    run.mkdir(exist_ok=True)
    words = ["--base", str(base), "--unit", "x.service", "--ha", broker.settings.ha, "--every", "1"]
    words += ["--metrics", str(run / "metrics.prom")]
    words += [word for name, value in broker.labels.items() for word in ("--label", f"{name}={value}")]
    program = tmp = run / "watchdog"
    tmp.write_bytes(pack(sys.executable))
    with subprocess.Popen([sys.executable, str(program), *words, "warn"], stdout=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()
