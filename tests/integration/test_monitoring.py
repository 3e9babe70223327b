"""Prometheus and Alertmanager beside real brokers: alerts fire while their cause is made, and clear when it is gone.

``ALERTS=all`` does so for every alert and on further releases; without it a death of the active node stands for all.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from activemq_fleet.errors import LabError
from activemq_fleet.lab import Lab
from activemq_fleet.lab.monitoring import find_programs
from activemq_fleet.render.monitoring.dashboards import queries
from tests.integration.conftest import LabOf
from tests.integration.labs import pair, processes_of, write_inventory
from tests.integration.waiting import until
from tests.stomp_clients import stomp_send

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


def lab_with_prometheus(lab_of: LabOf, directory: Path, hosts: Collection[str], **variables: Any) -> Lab:
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
    lab = lab_of(write_inventory(directory / "inventory", list(hosts), **{**common, **variables}))
    lab.up(prometheus=True)
    # What a lab command did mutes alerts for a while; the metrics of the first scrapes come meanwhile.
    ready = "up == 1 unless on () activemq:operation"
    until(lambda: lab.monitoring.query(ready), 60, lambda: str(lab.monitoring.query("up")))
    return lab


def firing(lab: Lab) -> set[str]:
    return {labels["alertname"] for labels in lab.monitoring.alerts()}


def expect(lab: Lab, *alerts: str) -> None:
    until(lambda: set(alerts) <= firing(lab), FIRES, lambda: f"{alerts} do not fire, but {firing(lab)}")


def expect_cleared(lab: Lab, *alerts: str) -> None:
    until(lambda: not set(alerts) & firing(lab), CLEARS, lambda: f"of {alerts} {firing(lab)} do not clear")


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
    until(lambda: lab.monitoring.query(two), 20, two)
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
    return [title for title, text in panels if not lab.monitoring.query(text)]


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


Cause = Callable[[Lab], None]
