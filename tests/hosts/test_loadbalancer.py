"""Two load balancers for a real pair, installed by ``site``: the address moves, and clients reach the active node."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from activemq_fleet.artifacts import fetch_jar_directory
from activemq_fleet.releases import Release
from tests.hosts.brokers import wait_until
from tests.hosts.machines import Machine, Rack
from tests.hosts.playbooks import NODES, RELEASE, Controller, checked_output
from tests.situations import in_every_situation

BALANCERS = {"lb01.example.com": "10.77.0.41", "lb02.example.com": "10.77.0.42"}
VIP = "10.77.0.100"


# integration/test_loadbalancer.py runs the rendered HAProxy in front of a real pair.
pytestmark = in_every_situation


@dataclass(frozen=True, slots=True)
class Site:
    """Brokers and load balancers, and the controller that runs ``site`` for them."""

    controller: Controller
    rack: Rack
    inventory: Path

    def play(self, *arguments: str, code: int = 0, **variables: Any) -> str:
        extra = [f"--extra-vars={yaml.safe_dump(variables, default_flow_style=True)}"] if variables else []
        return checked_output(
            self.controller.run_playbook("site", f"--inventory={self.inventory}", *arguments, *extra), code
        )

    def play_for_balancers(self, *, code: int = 0, **variables: Any) -> str:
        """Run ``site`` for the load balancers only."""
        return self.play("--limit=activemq_loadbalancers", code=code, **variables)

    def status(self, to: Path, *, code: int, **variables: Any) -> dict[str, Any]:
        """Run the playbook ``status``; return the report that it writes to ``to``."""
        # A busy machine needs longer than the 20 s after which a host counts as unreachable by default.
        options = {"activemq_status_to": str(to), "activemq_status_timeout": 240, **variables}
        extra = yaml.safe_dump(options, default_flow_style=True, width=10_000)
        checked_output(
            self.controller.run_playbook("status", f"--inventory={self.inventory}", f"--extra-vars={extra}"), code
        )
        report: dict[str, Any] = json.loads(to.read_text())
        return report

    def holders(self) -> list[Machine]:
        """Return the load balancers whose network interface has the address."""
        running = [self.rack[name] for name in BALANCERS if self.rack[name].is_running()]
        return [machine for machine in running if f" {VIP}/" in machine.attempt("ip", "-o", "address", "show").stdout]

    def holder(self) -> Machine:
        """Return the only load balancer that has the address; wait while the address moves."""
        holders: list[Machine] = []

        def has_single_holder() -> bool:
            holders[:] = self.holders()
            return len(holders) == 1

        wait_until(has_single_holder, f"exactly one load balancer has {VIP}")
        return holders[0]

    def exchange_message(self) -> None:
        """Send a message through the address, and receive it."""
        self.controller.exchange("watch", VIP)


def main_pid(machine: Machine, unit: str) -> str:
    return machine.run("systemctl", "show", "--property=MainPID", "--value", unit).strip()


@pytest.fixture(scope="module")
def site(rack: Rack, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Install and start all hosts in one run. The tests are ordered: the last ones power machines off."""
    rack.up({**NODES, **BALANCERS}, shares=["/srv/activemq"], owner=os.getpid())
    rack.serve(fetch_jar_directory(Release.of(RELEASE)))
    connection_variables = {
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
        **{f"ansible_{program}_executable": f"{rack.state}/{program}" for program in ("ssh", "scp", "sftp")},
    }
    inventory = tmp_path_factory.mktemp("balancers") / "balancers.yml"
    inventory_data = {
        "all": {"vars": {"activemq_vip": VIP}},
        "activemq_loadbalancers": {
            "hosts": {
                name: {"ansible_host": address, "activemq_address": address} for name, address in BALANCERS.items()
            },
            "vars": connection_variables
            | {
                "activemq_vip_interface": "eth0",
                "activemq_vip_username": "look",
                "activemq_vip_password": "made-up-look-password",
            },
        },
    }
    inventory.write_text(yaml.safe_dump(inventory_data))
    site = Site(Controller(repository, rack), rack, inventory)
    site.play()
    return site


def test_one_of_balancers_has_address_that_leads_clients_to_active_broker(site: Site) -> None:
    site.holder()
    site.exchange_message()


def test_only_root_reads_login_of_balancer_and_brokers_accept_it(site: Site) -> None:
    for name in BALANCERS:
        file = "/etc/activemq-loadbalancer/haproxy.cfg"
        assert site.rack[name].run("stat", "--dereference", "--format=%a %U", file) == "640 root\n"
    refusals = site.rack["orders-mq01-a.example.com"].attempt("journalctl", "--unit=activemq", "--grep=is invalid")
    assert "is invalid" not in refusals.stdout


def test_second_run_of_site_does_not_change_or_restart_balancers(site: Site) -> None:
    pids = {(name, unit): main_pid(site.rack[name], unit) for name in BALANCERS for unit in ("haproxy", "keepalived")}
    output = site.play_for_balancers()
    assert output.count("changed=0") == output.count("changed=")
    assert pids == {key: main_pid(site.rack[key[0]], key[1]) for key in pids}


def test_status_shows_brokers_balancers_and_holder_of_address(site: Site, tmp_path: Path) -> None:
    holder = site.holder()
    report = site.status(tmp_path / "status.json", code=0)
    assert sorted(row["state"] for row in report["brokers"]) == ["active", "standby"]
    assert {row["release"] for row in report["brokers"]} == {RELEASE}
    assert {row["configuration"] for row in report["brokers"]} == {"planned"}
    assert {row["host"]: (row["state"], *row["addresses"].values()) for row in report["balancers"]} == {
        name: ("up", name == holder.name) for name in BALANCERS
    }


def test_site_loads_changed_files_of_balancer_without_restart(site: Site) -> None:
    holder = site.holder()
    processes_before = main_pid(holder, "haproxy"), main_pid(holder, "keepalived")
    site.play_for_balancers(activemq_vip_check_port=8406)
    assert (main_pid(holder, "haproxy"), main_pid(holder, "keepalived")) == processes_before
    request = "exec 3<>/dev/tcp/127.0.0.1/8406; echo -e 'GET / HTTP/1.0\\n' >&3; cat <&3"
    wait_until(lambda: "200" in holder.run("bash", "-c", request), "HAProxy reports on its new port that it is healthy")
    site.exchange_message()


def test_site_changes_nothing_when_keepalived_rejects_file(site: Site) -> None:
    links = {name: site.rack[name].run("readlink", "/etc/activemq-loadbalancer") for name in BALANCERS}
    output = site.play_for_balancers(code=2, activemq_vip_interface="nope0")
    assert "the check program /usr/sbin/keepalived rejects the new configuration files" in output
    assert links == {name: site.rack[name].run("readlink", "/etc/activemq-loadbalancer") for name in BALANCERS}
    site.exchange_message()


def test_virtual_address_leaves_balancer_whose_haproxy_stops(site: Site) -> None:
    first_holder = site.holder()
    first_holder.run("systemctl", "stop", "haproxy")
    wait_until(
        lambda: [machine.name for machine in site.holders()] not in ([first_holder.name], []),
        f"{VIP} moves from {first_holder.name} to the other load balancer",
    )
    site.exchange_message()
    first_holder.run("systemctl", "start", "haproxy")


def test_virtual_address_leaves_dead_balancer_that_status_reports_unreachable(site: Site, tmp_path: Path) -> None:
    dead = site.holder()
    dead.power_off()
    assert site.holder().name != dead.name
    site.exchange_message()
    fleet_status = site.status(tmp_path / "status.json", code=2, activemq_status_timeout=60)
    assert [finding["host"] for finding in fleet_status["findings"] if finding["rule"] == "unreachable"] == [dead.name]
    assert sorted(row["state"] for row in fleet_status["brokers"]) == ["active", "standby"]
    assert [row["host"] for row in fleet_status["balancers"] if row["state"] == "unreachable"] == [dead.name]


def test_clients_reach_other_node_after_active_node_is_killed(site: Site) -> None:
    site.rack["orders-mq01-a.example.com"].power_off()
    site.exchange_message()
