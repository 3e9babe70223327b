"""Labs with Prometheus beside them, and waiting for alerts to fire and clear."""

from __future__ import annotations

import os
import subprocess
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
"""Seconds for an alert to fire or clear; the lab's alerts wait some 3 s, on a machine that has other work, too."""
further = pytest.mark.skipif(
    os.environ.get("ALERTS") != "all", reason="every alert by its cause: ALERTS=all, as make test-full has it"
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
    return {labels["alertname"] for labels in lab.monitoring.active_alert_labels()}


def expect(lab: Lab, *alerts: str) -> None:
    until(lambda: set(alerts) <= firing(lab), FIRES, lambda: f"{alerts} do not fire, but {firing(lab)}")


def expect_cleared(lab: Lab, *alerts: str) -> None:
    def clear() -> bool:
        # A command of the lab mutes for a while: that is no end of the cause.
        return not lab.monitoring.query_prometheus("activemq:operation") and not set(alerts) & firing(lab)

    until(clear, CLEARS, lambda: f"of {alerts} {firing(lab)} do not clear")


def make_key(path: Path, *, days: int, ago: int = 0, names: Collection[str] = ()) -> None:
    """Write a keystore with a key and its certificate for so many days, from so many days ago on; ``names`` as keytool
    takes them (``ip:…``).
    """
    path.unlink(missing_ok=True)
    words = ["-genkeypair", "-keyalg", "RSA", "-dname", "CN=broker", "-validity", str(days), "-alias", "broker"]
    words += ["-startdate", f"-{ago}d"] if ago else []
    words += ["-ext", f"san={','.join(names)}"] if names else []
    own = ["-keystore", str(path), "-storetype", "PKCS12", "-storepass", "changeit"]
    subprocess.run(["keytool", *words, *own], check=True, capture_output=True)
