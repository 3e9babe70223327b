"""Metrics on real hosts: the exporter and the watchdog's file, and a preflight that refuses a port that is taken."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.brokers import UNIT, wait_until
from tests.hosts.machines import Machine, Rack
from tests.hosts.playbooks import Controller, ended

SHARE = "/srv/activemq"
METRICS = "/run/activemq-watchdog/metrics.prom"


@pytest.fixture(scope="module")
def controller(rack: Rack, repository: Path) -> Controller:
    """Two hosts on which nothing is installed yet."""
    controller = Controller(repository, rack)
    controller.start_pair(share=SHARE)
    return controller


def variables(**more: Any) -> tuple[str, str]:
    return ("--extra-vars", json.dumps({"activemq_metrics": True, **more}))


def test_site_brings_metrics_and_refuses_a_port_that_another_has(controller: Controller) -> None:
    machine = controller.rack.machines[0]
    machine.run("systemd-run", "--unit=squatter", "python3", "-m", "http.server", "--bind", "127.0.0.1", "9404")
    wait_until(lambda: ":24BC" in machine.run("cat", "/proc/net/tcp"), "the port is taken", machine)
    refused = ended(controller.play("site", *variables()), 2)
    assert "V025" in refused
    assert "port 9404 of activemq_metrics_port is taken by another process" in refused
    assert machine.attempt("test", "-e", f"/etc/systemd/system/{UNIT}").returncode != 0
    machine.run("systemctl", "stop", "squatter")
    ended(controller.play("site", *variables()))
    for node in controller.rack.machines:
        text = node.run("python3", "-c", FETCH)
        assert "activemq_configuration_info{" in text
        wait_until(partial(has_metrics, node), METRICS, node)
        told = node.run("runuser", "-u", "nobody", "--", "cat", METRICS)
        assert 'activemq_watchdog_hung{host="' in told
        written = node.run("sh", "-c", "cat /run/activemq-fleet/*.prom")
        assert "activemq_operation_running{" in written
    assert "changed=0" in ended(controller.play("site", *variables()))


def has_metrics(machine: Machine) -> bool:
    return machine.attempt("test", "-e", METRICS).returncode == 0


FETCH = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:9404/metrics', timeout=20).read().decode())"
