"""Prometheus and Alertmanager with real brokers: alerts fire while their cause exists, and clear after it has ended.

``ALERTS=all`` tests every alert, and further releases. Without it, the tests only kill the active node.
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
from activemq_fleet.node.watchdog.watchdog_installation import watchdog_program_content as pack
from activemq_fleet.render import render_broker
from activemq_fleet.render.broker_paths import METRICS, paths_of_broker
from activemq_fleet.render.jmx_exporter import broker_configuration_fingerprint
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
    query_prometheus,
)
from tests.integration.waiting import until
from tests.stomp_clients import stomp_drain, stomp_send
from tests.support.dashboard_queries import dashboard_panel_queries

__all__ = ["has_prometheus"]
C, D = pair("orders", 2)
FIRST, SECOND = "orders-mq01", "orders-mq02"


def listening_addresses(pids: Collection[int]) -> set[tuple[str, int]]:
    """Return the addresses and ports on which the processes listen."""
    return {
        (connection.laddr.ip.removeprefix("::ffff:"), connection.laddr.port)
        for pid in pids
        for connection in psutil.Process(pid).net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }


def test_kill_of_active_node_fires_alerts_in_order_and_every_panel_has_data(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_with_prometheus(lab_of, tmp_path, (A, B, C, D), topology="mesh")
    stomp_send(lab.addresses(A, "stomp"), "/queue/orders.in", ["one", "two"], lab.credentials(A))
    two_messages = f'activemq_destination_messages{{host="{A}",destination="orders.in"}} == 2'
    until(lambda: query_prometheus(lab, two_messages), 20, two_messages)
    assert not firing(lab)
    with running_watchdog(lab, A) as watchdog:
        until(
            lambda: "activemq_watchdog_hung" in node_exporter_metrics(lab),
            30,
            "the node exporter has the metrics of the watchdog",
        )
        assert not listening_addresses([watchdog])
        check_only_known_ports_listen(lab)
        check_metrics_contain_no_secret(lab)
    # Rates exist from the second scrape on.
    panels = [
        (title, text) for name, title, text in dashboard_panel_queries(host=A, pair=FIRST) if name != "activemq-agents"
    ]
    until(
        lambda: not empty_panels(lab, panels),
        30,
        lambda: f"all panels have data, except for {empty_panels(lab, panels)}",
    )
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
    """Return the titles of the panels whose query returns no series."""
    return [title for title, text in panels if not query_prometheus(lab, text)]


def check_only_known_ports_listen(lab: Lab) -> None:
    """Check that the lab's processes listen only on ports of the inventory or of the lab."""
    known_addresses = {
        (lab._hosts.loopback_address(broker.host), port)
        for broker in lab.fleet.brokers
        for port in broker.ports.values()
    } | {lab.monitoring.program_address(name) for name in ("prometheus", "alertmanager", "node-exporter")}
    assert listening_addresses(processes_of(lab.directory)) <= known_addresses


def check_metrics_contain_no_secret(lab: Lab) -> None:
    """Check that metrics require the login, and that no scrape and no page of Prometheus contains a secret."""
    manager = urllib.request.HTTPPasswordMgrWithDefaultRealm()
    exporters = [f"http://{lab._hosts.loopback_address(broker.host)}:9404/metrics" for broker in lab.fleet.brokers]
    for url in exporters:
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(url, timeout=10)  # noqa: S310 -- an address of the lab
        manager.add_password(None, url, LOGIN, SECRET)
    opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(manager))
    pages = [f"{lab.monitoring.program_url()}/api/v1/{page}" for page in ("status/config", "targets", "rules")]
    texts = {"node exporter, with the watchdog's file": node_exporter_metrics(lab)}
    for url in (*exporters, *pages):
        with opener.open(url, timeout=10) as response:
            texts[url] = response.read().decode()
        assert "activemq_configuration_info{" in texts[url] if url in exporters else "activemq" in texts[url]
    assert not [(source, secret) for secret in secrets_of(lab) for source, text in texts.items() if secret in text]


def node_exporter_metrics(lab: Lab) -> str:
    """Return the metrics of the lab's node exporter, with the files of watchdogs and of planned work."""
    url = f"{lab.monitoring.program_url('node-exporter')}/metrics"
    with urllib.request.urlopen(url, timeout=10) as response:  # noqa: S310 -- an address of the lab
        return str(response.read().decode())


def secrets_of(lab: Lab) -> set[str]:
    """Return all secrets in the variables of the lab's brokers."""

    def secrets_in(value: Any) -> Iterator[str]:
        if isinstance(value, SecretStr):
            yield value.get_secret_value()
        elif isinstance(value, dict | list | tuple):
            for child in value.values() if isinstance(value, dict) else value:
                yield from secrets_in(child)

    secrets = {secret for broker in lab.fleet.brokers for secret in secrets_in(broker.settings.model_dump())}
    assert {SECRET, "s3cret-net", "s3cret-app"} <= secrets
    return secrets


@further
def test_alerts_of_inactive_pair_down_bridge_and_hung_broker_fire_and_clear(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_with_prometheus(lab_of, tmp_path, (A, B, C, D))
    lab.kill(B)
    lab.kill(A)
    expect(lab, "ActiveMQNoActiveNode", "ActiveMQBridgeDown")
    lab.start(A)
    lab.start(B)
    expect_cleared(lab, "ActiveMQNoActiveNode", "ActiveMQBridgeDown")
    with running_watchdog(lab, C):
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
    sent, received, forwarded = (
        times.format(name) for name in ("enqueued_sent", "dequeued_broker_in", "dequeued_broker_out")
    )
    recent = f'time() - {sent}{{host="{A}",destination="orders.in"}} < 600'
    until(lambda: query_prometheus(lab, recent), 20, recent)
    waited = f'{forwarded}{{host="{A}",destination="orders.in"}} - {received} >= 0'
    until(lambda: query_prometheus(lab, waited), 20, waited)
    # The bridge between C and A ends with A, and C's link counts this exception.
    lab.kill(A)
    counted = f'activemq_link_remote_exceptions_total{{host="{C}"}} > 0'
    until(lambda: query_prometheus(lab, counted), 60, counted)


@further
def test_alert_of_half_duplex_link_fires_and_clears(tmp_path: Path, lab_of: LabOf) -> None:
    shop = "shop-mq01-a.example.com"
    inventory = write_inventory(tmp_path / "more", [shop])
    inventory_data = json.loads(inventory.read_text())
    releases = {"old-mq01-a.example.com": "5.5.1", "new-mq01-a.example.com": "5.18.3", shop: "5.5.1"}
    inventory_data["all"]["hosts"] = {
        host: {"activemq_release": release, "activemq_ha": "none"} for host, release in releases.items()
    }
    inventory.write_text(json.dumps(inventory_data))
    ends = [("shop", "orders"), ("orders", "old"), ("orders", "new")]
    links = [{"from": source, "to": target, "duplex": True} for source, target in ends]
    lab = lab_with_prometheus(lab_of, tmp_path, (A, B), more=inventory, release="6.3.1", topology="none", links=links)
    # Both ends of each bridge report it, on all releases.
    both_ends = "count(activemq_bridge_responder == 0) == 3 and count(activemq_bridge_responder == 1) == 3"
    until(lambda: query_prometheus(lab, both_ends), 30, both_ends)
    assert "ActiveMQHalfDuplexLink" not in firing(lab)
    # 5.5.1 is frozen while the far end restarts within its process: the new bridge of 5.5.1 then has no responder.
    lab.pause(shop)
    frozen_at = time.time()
    (lab.directory / "stores" / FIRST / "lock").unlink()
    until(
        lambda: max(lab.started_at(host) or 0.0 for host in (A, B)) > frozen_at,
        60,
        "a broker of the pair has restarted within its process",
    )
    lab.resume(shop)
    expect(lab, "ActiveMQHalfDuplexLink")
    lab.stop(shop)
    lab.start(shop)
    expect_cleared(lab, "ActiveMQHalfDuplexLink")


@further
def test_alert_of_failing_metrics_fires_and_clears(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_with_prometheus(lab_of, tmp_path, (A,), ha="none")
    assert "ActiveMQMetricsFailing" not in firing(lab)
    # The exporter reads its configuration again when the file changes: the test adds a group that the pattern lacks.
    rules = Path(paths_of_broker(lab.fleet.broker(A)).base, "current", METRICS)
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
def test_alert_of_configuration_drift_fires_and_clears(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_with_prometheus(lab_of, tmp_path, (A, B))
    planned = lab.directory / "prometheus/rules/activemq-planned.yml"
    deployed = planned.read_text()
    newer = next(fingerprints_with(lab, store_limit="3 gb"))
    older = next(fingerprints_with(lab))
    planned.write_text(deployed.replace(older, newer))
    lab.monitoring.reload_prometheus()
    expect(lab, "ActiveMQConfigurationDrift")
    planned.write_text(deployed)
    lab.monitoring.reload_prometheus()
    expect_cleared(lab, "ActiveMQConfigurationDrift")


@further
def test_alert_of_two_active_nodes_fires_and_clears(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_with_prometheus(lab_of, tmp_path, (A, B), release="5.5.1")
    (lab.directory / "stores" / FIRST / "lock").unlink()
    expect(lab, "ActiveMQTwoActiveNodes")
    lab.kill(A)
    expect_cleared(lab, "ActiveMQTwoActiveNodes")


@further
@pytest.mark.parametrize("release", ["5.18.3", "6.3.1"])
def test_alerts_of_destinations_and_limits_fire_and_clear(tmp_path: Path, lab_of: LabOf, release: str) -> None:
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
    addresses, login = lab.addresses(A, "stomp"), lab.credentials(A)
    for number in range(40):  # a growing backlog without a consumer
        stomp_send(addresses, "/queue/orders.in", [f"{number}"], login)
        if "ActiveMQBacklogWithoutConsumers" in firing(lab):
            break
        time.sleep(0.5)
    expect(lab, "ActiveMQBacklogWithoutConsumers")
    stomp_drain(addresses, "/queue/orders.in", login)
    expect_cleared(lab, "ActiveMQBacklogWithoutConsumers")
    stomp_send(addresses, "/queue/ActiveMQ.DLQ", ["dead"], login)
    expect(lab, "ActiveMQDeadLetters")
    stomp_drain(addresses, "/queue/ActiveMQ.DLQ", login)
    expect_cleared(lab, "ActiveMQDeadLetters")
    with StompConnection(addresses[0], login) as producer:
        producer.send("/queue/orders.in", "late", {"expires": str(int(time.time() * 1000) + 300)})
    time.sleep(1)
    stomp_drain(addresses, "/queue/orders.in", login)
    expect(lab, "ActiveMQMessagesExpired")
    with ExitStack() as stack:
        for _ in range(9):
            stack.enter_context(StompConnection(addresses[0], login))
        expect(lab, "ActiveMQConnectionsNearLimit")
    expect_cleared(lab, "ActiveMQConnectionsNearLimit", "ActiveMQMessagesExpired")
    fill(lab, "/queue/memory.full", {"persistent": "false"})
    expect(lab, "ActiveMQMemoryFilling")
    stomp_drain(addresses, "/queue/memory.full", login)
    expect_cleared(lab, "ActiveMQMemoryFilling")
    fill(lab, "/queue/orders.in", {})
    expect(lab, "ActiveMQStoreFilling", "ActiveMQStoreFull")
    stomp_drain(addresses, "/queue/orders.in", login)
    stomp_drain(addresses, "/queue/ActiveMQ.DLQ", login)
    expect_cleared(lab, "ActiveMQStoreFilling", "ActiveMQStoreFull")


@pytest.fixture
def sockets() -> Iterator[Path]:
    """Yield a directory whose name is short enough for the path of a socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        yield Path(directory)


@further
def test_alerts_of_aging_outbox_and_silent_agent_fire_and_clear(tmp_path: Path, lab_of: LabOf, sockets: Path) -> None:
    socket = {"socket": str(sockets / "kiosk.sock")}
    settings = {"username": "kiosk", "password": "s3cret-kiosk", "topics": ["orders/#"], "options": socket}
    agent = {f"activemq_agent_{name}": value for name, value in settings.items()}
    inventory = write_inventory(tmp_path / "more", ["kiosk.example.com"])
    inventory_data = json.loads(inventory.read_text())
    inventory_data["all"]["hosts"]["kiosk.example.com"] = agent
    inventory_data["all"]["children"] = {"activemq_agents": {"hosts": {"kiosk.example.com": {}}}}
    inventory.write_text(json.dumps(inventory_data))
    lab = lab_with_prometheus(lab_of, tmp_path, (A, B), more=inventory)
    with Agent(lab, "kiosk.example.com") as kiosk:
        panels = [(title, text) for name, title, text in dashboard_panel_queries() if name == "activemq-agents"]
        until(
            lambda: not empty_panels(lab, panels),
            60,
            lambda: f"all panels have data, except for {empty_panels(lab, panels)}",
        )
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
def test_alert_of_expiring_certificate_fires_and_clears(tmp_path: Path, lab_of: LabOf) -> None:
    key = tmp_path / "broker.p12"
    make_key(key, days=5)
    tls = {name: str(key) for name in ("keystore", "truststore")}
    tls |= {f"{name}_password": "changeit" for name in ("keystore", "truststore")}
    lab = lab_with_prometheus(lab_of, tmp_path, (A,), ha="none", tls=tls)
    with running_watchdog(lab, A):
        expect(lab, "ActiveMQCertificateEnds")
    make_key(key, days=400)
    lab.stop(A)
    lab.start(A)
    with running_watchdog(lab, A):
        expect_cleared(lab, "ActiveMQCertificateEnds")


def fingerprints_with(lab: Lab, **variables: Any) -> Iterator[str]:
    """Yield the fingerprint of each broker's configuration with additional or changed variables."""
    hosts = {name: {**settings, **{f"activemq_{key}": value for key, value in variables.items()}}
             for name, settings in lab._hosts.lab.hosts.items()}  # fmt: skip
    for broker in build_fleet(hosts, {}).brokers:
        yield broker_configuration_fingerprint(render_broker(broker))


def fill(lab: Lab, destination: str, headers: dict[str, str]) -> None:
    """Send messages of 1 MiB until the broker blocks the producer."""
    address, login = lab.addresses(A, "stomp")[0], lab.credentials(A)
    with StompConnection(address, login, timeout=5) as producer, suppress(StompTimeout):
        for _ in range(200):
            producer.send(destination, "x" * (1 << 20), headers)


@contextmanager
def running_watchdog(lab: Lab, host: str) -> Iterator[int]:
    """Run a watchdog for a broker and yield its process ID; it writes its metrics for the lab's node exporter."""
    broker = lab.fleet.broker(host)
    base = Path(paths_of_broker(broker).base)
    run_directory = base.parent / "activemq-watchdog"
    run_directory.mkdir(exist_ok=True)
    arguments = ["--base", str(base), "--unit", "x.service", "--ha", broker.settings.ha, "--every", "1"]
    arguments += ["--metrics", str(run_directory / "metrics.prom")]
    arguments += [
        argument for name, value in broker.metric_labels.items() for argument in ("--label", f"{name}={value}")
    ]
    program = run_directory / "watchdog"
    program.write_bytes(pack(sys.executable))
    with subprocess.Popen([sys.executable, str(program), *arguments, "warn"], stdout=subprocess.DEVNULL) as process:
        try:
            yield process.pid
        finally:
            process.kill()
