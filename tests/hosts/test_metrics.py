"""Metrics on real hosts: the exporter, the file of the watchdog, and the preflight check of a port in use."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.hosts.brokers import UNIT, wait_until
from tests.hosts.machines import Rack
from tests.hosts.playbooks import NODES, Controller, checked_output
from tests.situations import in_every_situation

SHARE = "/srv/activemq"
METRICS = "/run/activemq-watchdog/metrics.prom"
VARIABLES = ("--extra-vars", json.dumps({"activemq_metrics": True, "activemq_ha": "none"}))


@pytest.fixture(scope="module")
def controller(rack: Rack, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Controller:
    """Return a controller of one host without installed software; both hosts of a pair would show the same."""
    inventory = tmp_path_factory.mktemp("one") / "inventory"
    shutil.copytree(repository / "molecule/pair/inventory", inventory)
    host, address = next(iter(NODES.items()))
    inventory_data = {"all": {"children": {"orders": {"hosts": {host: {"ansible_host": address}}}}}}
    (inventory / "hosts.yml").write_text(json.dumps(inventory_data))
    controller = Controller(repository, rack, nodes={host: address}, inventory=inventory)
    controller.start_pair(share=SHARE)
    return controller


@in_every_situation
def test_site_refuses_metrics_port_in_use_and_installs_metrics(controller: Controller) -> None:
    machine = controller.rack.machines[0]
    machine.run("systemd-run", "--unit=squatter", "python3", "-m", "http.server", "--bind", "127.0.0.1", "9404")
    wait_until(lambda: ":24BC" in machine.run("cat", "/proc/net/tcp"), "the port is in use", machine)
    output = checked_output(controller.run_playbook("site", *VARIABLES), 2)
    assert "V025" in output
    assert "port 9404 of activemq_metrics_port is in use by python3, pid " in output
    assert machine.attempt("test", "-e", f"/etc/systemd/system/{UNIT}").returncode != 0
    machine.run("systemctl", "stop", "squatter")
    checked_output(controller.run_playbook("site", *VARIABLES))
    assert "activemq_configuration_info{" in machine.run("python3", "-c", FETCH)
    wait_until(lambda: machine.attempt("test", "-e", METRICS).returncode == 0, METRICS, machine)
    watchdog_metrics = machine.run("runuser", "-u", "nobody", "--", "cat", METRICS)
    assert 'activemq_watchdog_hung{host="' in watchdog_metrics
    operation_metrics = machine.run("sh", "-c", "cat /run/activemq-fleet/*.prom")
    assert "activemq_operation_running{" in operation_metrics
    assert "changed=0" in checked_output(controller.run_playbook("site", *VARIABLES))


FETCH = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:9404/metrics', timeout=20).read().decode())"
