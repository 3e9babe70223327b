"""Prometheus and Alertmanager beside real brokers: alerts fire while their cause is made, and clear when it is gone.

``ALERTS=all`` does so for every alert and on further releases; without it a death of the active node stands for all.
"""

from __future__ import annotations

import json
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
from pydantic import SecretStr

from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.stomp import StompConnection, StompTimeout
from activemq_fleet.node.watchdog.program import watchdog_program as pack
from activemq_fleet.render import render_broker
from activemq_fleet.render.broker_paths import METRICS, broker_directory_paths
from activemq_fleet.render.jmx_exporter import broker_configuration_fingerprint
from activemq_fleet.render.monitoring.dashboards import dashboard_panel_queries
from activemq_fleet.topology import build_fleet
from tests.integration.agents import PROGRAM, Agent
from tests.integration.conftest import LabOf
from tests.integration.labs import pair, processes_of, write_inventory
from tests.integration.monitored import (
    LOGIN,
    SECRET,
    A,
    B,
    expect,
    expect_cleared,
    firing,
    further,
    has_prometheus,
    lab_with_prometheus,
    make_key,
)
from tests.integration.waiting import until
from tests.stomp_clients import stomp_drain, stomp_send

__all__ = ["has_prometheus"]
C, D = pair("orders", 2)
FIRST, SECOND = "orders-mq01", "orders-mq02"


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
    with watched(lab, A) as watchdog:
        until(lambda: "activemq_watchdog_hung" in told_of_hosts(lab), 30, "metrics of the watchdog")
        assert not listening([watchdog])
        check_nothing_else_listens(lab)
        check_no_secret_is_told(lab)
    # From the second scrape on there are rates.
    shown = [
        (title, text) for name, title, text in dashboard_panel_queries(host=A, pair=FIRST) if name != "activemq-agents"
    ]
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
        (lab._hosts.loopback_address(broker.host), port)
        for broker in lab.fleet.brokers
        for port in broker.ports.values()
    } | {lab.monitoring.program_address(name) for name in ("prometheus", "alertmanager", "node-exporter")}
    assert listening(processes_of(lab.directory)) <= wanted


def check_no_secret_is_told(lab: Lab) -> None:
    """Metrics need the login; no scrape, and no page of Prometheus, holds a secret of the inventory."""
    manager = urllib.request.HTTPPasswordMgrWithDefaultRealm()
    exporters = [f"http://{lab._hosts.loopback_address(broker.host)}:9404/metrics" for broker in lab.fleet.brokers]
    for url in exporters:
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(url, timeout=10)  # noqa: S310 -- an address of the lab
        manager.add_password(None, url, LOGIN, SECRET)
    opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(manager))
    shown = [f"{lab.monitoring.program_url()}/api/v1/{page}" for page in ("status/config", "targets", "rules")]
    told = {"node exporter, with the watchdog's file": told_of_hosts(lab)}
    for url in (*exporters, *shown):
        with opener.open(url, timeout=10) as answer:
            told[url] = answer.read().decode()
        assert "activemq_configuration_info{" in told[url] if url in exporters else "activemq" in told[url]
    assert not [(who, secret) for secret in secrets_of(lab) for who, text in told.items() if secret in text]


def told_of_hosts(lab: Lab) -> str:
    """Return what the lab's node exporter says: the files of watchdogs and of planned work."""
    with urllib.request.urlopen(f"{lab.monitoring.program_url('node-exporter')}/metrics", timeout=10) as answer:  # noqa: S310
        return str(answer.read().decode())


def secrets_of(lab: Lab) -> set[str]:
    """Return every secret among the variables of the lab's brokers."""

    def secrets(value: Any) -> Iterator[str]:
        if isinstance(value, SecretStr):
            yield value.get_secret_value()
        elif isinstance(value, dict | list | tuple):
            for one in value.values() if isinstance(value, dict) else value:
                yield from secrets(one)

    found = {secret for broker in lab.fleet.brokers for secret in secrets(broker.settings.model_dump())}
    assert {SECRET, "s3cret-net", "s3cret-app"} <= found
    return found


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
def test_message_times_and_exceptions_of_links_are_scraped(tmp_path: Path, lab_of: LabOf) -> None:
    policy = {"kind": "queue", "destination": "orders.>", "advanced_message_statistics_enabled": True}
    lab = lab_with_prometheus(
        lab_of, tmp_path, (A, B, C, D), topology="mesh", release="6.3.1", destination_policies=[policy]
    )
    stomp_send(lab.addresses(A, "stomp"), "/queue/orders.in", ["one", "two"], lab.credentials(A))
    stomp_drain(lab.addresses(A, "stomp"), "/queue/orders.in", lab.credentials(A))
    times = "activemq_destination_last_{}_timestamp_seconds"
    sent, arrived, left = (
        times.format(name) for name in ("enqueued_sent", "dequeued_broker_in", "dequeued_broker_out")
    )
    recent = f'time() - {sent}{{host="{A}",destination="orders.in"}} < 600'
    until(lambda: lab.monitoring.query_prometheus(recent), 20, recent)
    waited = f'{left}{{host="{A}",destination="orders.in"}} - {arrived} >= 0'
    until(lambda: lab.monitoring.query_prometheus(waited), 20, waited)
    # The bridge between C and A ends with A, and C's link counts that.
    lab.kill(A)
    counted = f'activemq_link_remote_exceptions_total{{host="{C}"}} > 0'
    until(lambda: lab.monitoring.query_prometheus(counted), 60, counted)


@further
def test_a_link_that_carries_messages_one_way(tmp_path: Path, lab_of: LabOf) -> None:
    shop = "shop-mq01-a.example.com"
    inventory = write_inventory(tmp_path / "more", [shop])
    content = json.loads(inventory.read_text())
    others = {"old-mq01-a.example.com": "5.5.1", "new-mq01-a.example.com": "5.18.3", shop: "5.5.1"}
    content["all"]["hosts"] = {
        host: {"activemq_release": release, "activemq_ha": "none"} for host, release in others.items()
    }
    inventory.write_text(json.dumps(content))
    ends = [("shop", "orders"), ("orders", "old"), ("orders", "new")]
    links = [{"from": dialler, "to": dialled, "duplex": True} for dialler, dialled in ends]
    lab = lab_with_prometheus(lab_of, tmp_path, (A, B), more=inventory, release="6.3.1", topology="none", links=links)
    # Each bridge is seen at both of its ends, whatever the release there.
    both = "count(activemq_bridge_responder == 0) == 3 and count(activemq_bridge_responder == 1) == 3"
    until(lambda: lab.monitoring.query_prometheus(both), 30, both)
    assert "ActiveMQHalfDuplexLink" not in firing(lab)
    # 5.5.1 is frozen while the far end starts anew in its process: the bridge that it builds then has no other half.
    lab.pause(shop)
    began = time.time()
    (lab.directory / "stores" / FIRST / "lock").unlink()
    until(lambda: max(lab.started_at(host) or 0.0 for host in (A, B)) > began, 60, "a new start within the process")
    lab.resume(shop)
    expect(lab, "ActiveMQHalfDuplexLink")
    lab.stop(shop)
    lab.start(shop)
    expect_cleared(lab, "ActiveMQHalfDuplexLink")


@further
def test_metrics_that_cannot_be_read(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_with_prometheus(lab_of, tmp_path, (A,), ha="none")
    assert "ActiveMQMetricsFailing" not in firing(lab)
    # The exporter reads its configuration anew when the file changes: by hand a rule gets a group that it has not.
    rules = Path(broker_directory_paths(lab.fleet.broker(A)).base, "current", METRICS)
    deployed, mode = rules.read_text(), rules.stat().st_mode
    rules.chmod(0o600)
    name = "name: activemq_broker_uptime_seconds\n"
    assert name in deployed
    rules.write_text(deployed.replace(name, name.replace("\n", "$9\n")))
    expect(lab, "ActiveMQMetricsFailing")
    rules.write_text(deployed)
    rules.chmod(mode)
    expect_cleared(lab, "ActiveMQMetricsFailing")


@further
def test_a_configuration_that_was_not_deployed(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_with_prometheus(lab_of, tmp_path, (A, B))
    planned = lab.directory / "prometheus/rules/activemq-planned.yml"
    deployed = planned.read_text()
    newer = next(brokers_with(lab, store_limit="3 gb"))
    older = next(brokers_with(lab))
    planned.write_text(deployed.replace(older, newer))
    lab.monitoring.reload_prometheus()
    expect(lab, "ActiveMQConfigurationDrift")
    planned.write_text(deployed)
    lab.monitoring.reload_prometheus()
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
        panels = [(title, text) for name, title, text in dashboard_panel_queries() if name == "activemq-agents"]
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


def brokers_with(lab: Lab, **variables: Any) -> Iterator[str]:
    """Yield the fingerprint of each broker's configuration with other variables than it has."""
    hosts = {name: {**own, **{f"activemq_{key}": value for key, value in variables.items()}}
             for name, own in lab._hosts.lab.hosts.items()}  # fmt: skip
    for broker in build_fleet(hosts, {}).brokers:
        yield broker_configuration_fingerprint(render_broker(broker))


def fill(lab: Lab, destination: str, headers: dict[str, str]) -> None:
    """Send messages of a megabyte until the broker holds the producer back."""
    where, login = lab.addresses(A, "stomp")[0], lab.credentials(A)
    with StompConnection(where, login, timeout=5) as producer, suppress(StompTimeout):
        for _ in range(200):
            producer.send(destination, "x" * (1 << 20), headers)


@contextmanager
def watched(lab: Lab, host: str) -> Iterator[int]:
    """A watchdog beside a broker, which writes its metrics where the lab's node exporter looks; yields its pid."""
    broker = lab.fleet.broker(host)
    base = Path(broker_directory_paths(broker).base)
    run = base.parent / "activemq-watchdog"
    run.mkdir(exist_ok=True)
    words = ["--base", str(base), "--unit", "x.service", "--ha", broker.settings.ha, "--every", "1"]
    words += ["--metrics", str(run / "metrics.prom")]
    words += [word for name, value in broker.metric_labels.items() for word in ("--label", f"{name}={value}")]
    program = tmp = run / "watchdog"
    tmp.write_bytes(pack(sys.executable))
    with subprocess.Popen([sys.executable, str(program), *words, "warn"], stdout=subprocess.DEVNULL) as process:
        try:
            yield process.pid
        finally:
            process.kill()
