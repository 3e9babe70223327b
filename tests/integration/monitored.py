"""Labs with Prometheus, and waits for alerts that fire and clear."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.errors import LabError
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.monitoring import check_monitoring_programs_installed
from tests.integration.conftest import LabOf
from tests.integration.labs import pair, write_inventory
from tests.integration.waiting import until

A, B = pair("orders")
LOGIN, SECRET = "prom", "s3cret-of-metrics"
FIRES, CLEARS = 60.0, 90.0
"""Seconds for an alert to fire or clear; alerts of the lab wait about 3 s on an idle machine."""
further = pytest.mark.skipif(
    os.environ.get("ALERTS") != "all", reason="the test of each alert takes long: set ALERTS=all"
)


@pytest.fixture(autouse=True, scope="module")
def has_prometheus() -> None:
    """Skip a module's tests where Prometheus is not installed."""
    try:
        check_monitoring_programs_installed()
    except LabError as error:
        pytest.skip(str(error))


def lab_with_prometheus(
    lab_of: LabOf, directory: Path, hosts: Collection[str], more: Path | None = None, **variables: Any
) -> Lab:
    """Return a running lab with Prometheus, whose brokers all have the queue orders.in."""
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
    # A command of the lab mutes alerts for a while. Prometheus gets the first metrics in this time.
    ready = "up == 1 unless on () activemq:operation"
    until(lambda: query_prometheus(lab, ready), 60, lambda: str(query_prometheus(lab, "up")))
    return lab


def query_prometheus(lab: Lab, promql: str) -> list[dict[str, Any]]:
    """Run a PromQL instant query on the lab's Prometheus, and return the result series.

    Each has ``metric`` (labels) and ``value`` (time, text).
    """
    query = urllib.parse.urlencode({"query": promql})
    series: list[dict[str, Any]] = _json_page(lab, "prometheus", f"/api/v1/query?{query}")["data"]["result"]
    return series


def firing(lab: Lab) -> set[str]:
    alerts = _json_page(lab, "alertmanager", "/api/v2/alerts?active=true")
    return {alert["labels"]["alertname"] for alert in alerts}


def _json_page(lab: Lab, program: str, path: str) -> Any:
    url = lab.monitoring.program_url(program) + path
    with urllib.request.urlopen(url, timeout=10) as response:  # noqa: S310 -- an address of the lab
        return json.load(response)


def expect(lab: Lab, *alerts: str) -> None:
    until(lambda: set(alerts) <= firing(lab), FIRES, lambda: f"not all of {alerts} fire: {firing(lab)} fire")


def expect_cleared(lab: Lab, *alerts: str) -> None:
    def clear() -> bool:
        # A command of the lab mutes alerts for a while, although their cause still exists.
        return not query_prometheus(lab, "activemq:operation") and not set(alerts) & firing(lab)

    until(clear, CLEARS, lambda: f"not all of {alerts} clear: {firing(lab)} fire")


def make_key(path: Path, *, days: int, ago: int = 0, names: Collection[str] = ()) -> None:
    """Write a keystore with a key and a certificate, valid for ``days`` days from ``ago`` days ago.

    ``names`` have the format of keytool (``ip:…``).
    """
    path.unlink(missing_ok=True)
    words = ["-genkeypair", "-keyalg", "RSA", "-dname", "CN=broker", "-validity", str(days), "-alias", "broker"]
    words += ["-startdate", f"-{ago}d"] if ago else []
    words += ["-ext", f"san={','.join(names)}"] if names else []
    keystore = ["-keystore", str(path), "-storetype", "PKCS12", "-storepass", "changeit"]
    subprocess.run(["keytool", *words, *keystore], check=True, capture_output=True)
