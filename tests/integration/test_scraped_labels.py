"""Tests that the node exporter of a host changes only what Prometheus stores about that host (attack p22).

A real Prometheus runs with the rendered configuration. The tests are the exporter of each host.
"""

from __future__ import annotations

import http.server
import json
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.render.monitoring.prometheus import HOSTS, PrometheusSettings, prometheus_and_grafana_files
from activemq_fleet.topology import build_fleet
from tests.integration.monitored import has_prometheus as has_prometheus
from tests.integration.waiting import until

VICTIM, ATTACKER = "orders-mq01-a.example.com", "evil-mq01-a.example.com"
ABOUT_VICTIM = f'group="orders",pair="orders-mq01",host="{VICTIM}",node="a"'
ABOUT_ATTACKER = f'group="evil",pair="evil-mq01",host="{ATTACKER}",node="a"'
ALERT_TIMEOUT = 120.0
"""Seconds for an alert to fire. At the pace of a lab, an alert fires after some 3 s."""


class _Exporter(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        page_bytes = self.server.page().encode()  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(page_bytes)

    def log_message(self, *_arguments: Any) -> None:
        pass


@contextmanager
def serve_pages(pages: list[Callable[[], str]]) -> Iterator[list[int]]:
    """Serve each page on a separate port; yield the ports."""
    servers = []
    for page in pages:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Exporter)
        server.page = page  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
    try:
        yield [server.server_port for server in servers]
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


class Prometheus:
    """A Prometheus server on loopback."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1/"

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the samples of an expression; none while the server starts."""
        samples: list[dict[str, Any]] = self._get("query?" + urllib.parse.urlencode({"query": expression}))["result"]
        return samples

    def alerts_of(self, pair: str) -> set[str]:
        alerts = self._get("alerts")["alerts"]
        return {
            alert["labels"]["alertname"]
            for alert in alerts
            if alert["state"] == "firing" and alert["labels"].get("pair") == pair
        }

    def last_evaluation(self) -> str:
        """Return the time of the last evaluation of the alert rules."""
        groups = self._get("rules")["groups"]
        return max((group["lastEvaluation"] for group in groups if group["name"] == "activemq"), default="")

    def _get(self, path: str) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(self._url + path, timeout=30) as response:  # noqa: S310
                response_data: dict[str, Any] = json.load(response)["data"]
                return response_data
        except OSError:
            return {"result": [], "alerts": [], "groups": []}


def await_evaluation(prometheus: Prometheus) -> None:
    previous = prometheus.last_evaluation()
    until(lambda: prometheus.last_evaluation() > previous, ALERT_TIMEOUT, "timed out: no evaluation of the alert rules")


def attacker_page(lines: list[str]) -> str:
    return "\n".join([f"activemq_watchdog_hung{{{ABOUT_ATTACKER}}} 0", *lines, ""])


@pytest.fixture
def forged() -> list[str]:
    return []


@pytest.fixture
def prometheus(tmp_path: Path, forged: list[str]) -> Iterator[Prometheus]:
    """Start Prometheus for two pairs without an active node; ``forged`` are lines in the file of the attacker."""
    common = {
        "activemq_release": "5.18.3",
        "activemq_network_username": "network",
        "activemq_network_password": "s3cret-network",
        "activemq_metrics": True,
        "activemq_ha": "shared-file",
    }
    hosts = {
        f"{group}-mq01-{node}.example.com": {**common, "activemq_store_directory": f"/srv/{group}"}
        for group in ("orders", "evil")
        for node in "ab"
    }
    fleet = build_fleet(hosts, {})
    settings = PrometheusSettings(interval="1s", pace=0.05, alertmanager="127.0.0.1:1")
    files = prometheus_and_grafana_files(fleet, {broker.host: "0" * 12 for broker in fleet.brokers}, settings)
    with serve_pages([lambda: "jvm_x 1\n", lambda: "", lambda: attacker_page(forged)]) as ports:
        for path, content in files.items():
            target = tmp_path / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.startswith("prometheus/targets/"):
                target_entries = json.loads(content)
                for target_entry in target_entries:
                    kind = (2 if target_entry["labels"]["host"] == ATTACKER else 1) if HOSTS in path else 0
                    target_entry["targets"] = [f"127.0.0.1:{ports[kind]}"]
                content = json.dumps(target_entries).encode()
            target.write_bytes(content)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        command = [
            "prometheus",
            f"--config.file={tmp_path}/prometheus/prometheus.yml",
            f"--storage.tsdb.path={tmp_path}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with open(tmp_path / "console", "wb") as console:
            process = subprocess.Popen(command, stdout=console, stderr=console)
        try:
            yield Prometheus(port)
        finally:
            process.kill()
            process.wait()


def test_metrics_of_host_do_not_change_data_of_another_pair(prometheus: Prometheus, forged: list[str]) -> None:
    until(
        lambda: "ActiveMQNoActiveNode" in prometheus.alerts_of("orders-mq01"),
        ALERT_TIMEOUT,
        lambda: "timed out: " + str(prometheus.query("up")),
    )

    moment = time.time()
    operation = f'{{{ABOUT_VICTIM},operation="upgrade"}}'
    forged[:] = [
        f"activemq_operation_running{operation} 1",
        f"activemq_operation_changed_timestamp_seconds{operation} {moment}",
        'activemq_operation_running{pair="orders-mq01",operation="half"} 1',
        f'activemq_broker_messages{{{ABOUT_VICTIM},job="activemq-brokers"}} 0',
        f'activemq_broker_messages{{{ABOUT_ATTACKER},job="activemq-brokers"}} 0',
        f'activemq_watchdog_hung{{{ABOUT_VICTIM}}} 1',
        f'activemq_watchdog_kills_total{{{ABOUT_ATTACKER},job="activemq-brokers",severity="none"}} 7',
    ]  # fmt: skip
    until(
        lambda: any(sample["value"][1] == "7" for sample in prometheus.query("activemq_watchdog_kills_total")),
        ALERT_TIMEOUT,
        lambda: "timed out: the forged lines were not scraped",
    )
    for _ in range(2):  # the evaluation after the next one certainly began after the scrape
        await_evaluation(prometheus)

    assert "ActiveMQNoActiveNode" in prometheus.alerts_of("orders-mq01")
    assert prometheus.query("activemq:operation") == []
    (kills,) = prometheus.query("activemq_watchdog_kills_total")
    assert kills["metric"] == {
        "__name__": "activemq_watchdog_kills_total", "job": HOSTS, "instance": kills["metric"]["instance"],
        "group": "evil", "pair": "evil-mq01", "host": ATTACKER, "node": "a",
    }  # fmt: skip
    assert prometheus.query('{__name__=~"activemq_(operation|broker).*"}') == []
    assert [sample["metric"]["host"] for sample in prometheus.query("activemq_watchdog_hung")] == [ATTACKER]


def test_metrics_of_host_are_stored_for_its_pair(prometheus: Prometheus, forged: list[str]) -> None:
    operation = f'{{{ABOUT_ATTACKER},operation="upgrade"}}'
    forged[:] = [
        f"activemq_operation_running{operation} 1",
        f"activemq_operation_changed_timestamp_seconds{operation} {time.time()}",
        f'activemq_certificate_expiry_timestamp_seconds{{{ABOUT_ATTACKER},connector="ssl"}} 2',
    ]

    until(
        lambda: bool(prometheus.query("activemq:operation")),
        ALERT_TIMEOUT,
        lambda: "timed out: no operation is recorded",
    )

    assert [sample["metric"]["pair"] for sample in prometheus.query("activemq:operation")] == ["evil-mq01"]
    (running,) = prometheus.query("activemq_operation_running")
    assert (running["metric"]["host"], running["metric"]["operation"]) == (ATTACKER, "upgrade")
    (expiry,) = prometheus.query("activemq_certificate_expiry_timestamp_seconds")
    assert expiry["metric"]["connector"] == "ssl"
