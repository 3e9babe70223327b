"""Two balancers before a real pair, installed by ``site``: the address moves, and clients find the active node."""

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
from tests.hosts.playbooks import NODES, RELEASE, Controller, ended
from tests.situations import in_every_situation

BALANCERS = {"lb01.example.com": "10.77.0.41", "lb02.example.com": "10.77.0.42"}
VIP = "10.77.0.100"


# integration/test_loadbalancer.py runs the rendered HAProxy in front of a real pair.
pytestmark = in_every_situation


@dataclass(frozen=True, slots=True)
class Site:
    """Brokers, balancers, and whoever plays ``site`` for them."""

    controller: Controller
    rack: Rack
    inventory: Path

    def play(self, *arguments: str, code: int = 0, **variables: Any) -> str:
        extra = [f"--extra-vars={yaml.safe_dump(variables, default_flow_style=True)}"] if variables else []
        return ended(self.controller.play("site", f"--inventory={self.inventory}", *arguments, *extra), code)

    def balance(self, *, code: int = 0, **variables: Any) -> str:
        """``site`` for the balancers alone."""
        return self.play("--limit=activemq_loadbalancers", code=code, **variables)

    def status(self, to: Path, *, code: int, **variables: Any) -> dict[str, Any]:
        """What the playbook ``status`` writes."""
        # A busy machine needs longer than the 20 s after which a host counts as unreachable by default.
        options = {"activemq_status_to": str(to), "activemq_status_timeout": 240, **variables}
        extra = yaml.safe_dump(options, default_flow_style=True, width=10_000)
        ended(self.controller.play("status", f"--inventory={self.inventory}", f"--extra-vars={extra}"), code)
        found: dict[str, Any] = json.loads(to.read_text())
        return found

    def holders(self) -> list[Machine]:
        """The balancers that have the address on their network card."""
        running = [self.rack[name] for name in BALANCERS if self.rack[name].is_running()]
        return [each for each in running if f" {VIP}/" in each.attempt("ip", "-o", "address", "show").stdout]

    def holder(self) -> Machine:
        """The one balancer that has it; waits while it moves."""
        found: list[Machine] = []

        def is_one() -> bool:
            found[:] = self.holders()
            return len(found) == 1

        wait_until(is_one, f"{VIP} is with one balancer, and not with {[each.name for each in found]}")
        return found[0]

    def served(self) -> None:
        """A message goes through the address and comes back."""
        self.controller.exchange("watch", VIP)


def pid(machine: Machine, unit: str) -> str:
    return machine.run("systemctl", "show", "--property=MainPID", "--value", unit).strip()


@pytest.fixture(scope="module")
def site(rack: Rack, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """All of it installed and started by one run. Tests go from mild to rough."""
    rack.up({**NODES, **BALANCERS}, shares=["/srv/activemq"], owner=os.getpid())
    rack.serve(fetch_jar_directory(Release.of(RELEASE)))
    reached = {
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
        **{f"ansible_{program}_executable": f"{rack.state}/{program}" for program in ("ssh", "scp", "sftp")},
    }
    inventory = tmp_path_factory.mktemp("balancers") / "balancers.yml"
    content = {
        "all": {"vars": {"activemq_vip": VIP}},
        "activemq_loadbalancers": {
            "hosts": {
                name: {"ansible_host": address, "activemq_address": address} for name, address in BALANCERS.items()
            },
            "vars": reached
            | {
                "activemq_vip_interface": "eth0",
                "activemq_vip_username": "look",
                "activemq_vip_password": "made-up-look-password",
            },
        },
    }
    inventory.write_text(yaml.safe_dump(content))
    site = Site(Controller(repository, rack), rack, inventory)
    site.play()
    return site


def test_one_balancer_has_the_address_and_clients_find_the_active_broker_there(site: Site) -> None:
    site.holder()
    site.served()


def test_nobody_but_root_reads_the_login_and_no_broker_refused_it(site: Site) -> None:
    for name in BALANCERS:
        found = site.rack[name].run("stat", "--dereference", "--format=%a %U", "/etc/activemq-loadbalancer/haproxy.cfg")
        assert found == "640 root\n"
    refused = site.rack["orders-mq01-a.example.com"].attempt("journalctl", "--unit=activemq", "--grep=is invalid")
    assert "is invalid" not in refused.stdout


def test_a_second_run_changes_nothing(site: Site) -> None:
    pids = {(name, unit): pid(site.rack[name], unit) for name in BALANCERS for unit in ("haproxy", "keepalived")}
    said = site.balance()
    assert said.count("changed=0") == said.count("changed=")
    assert pids == {key: pid(site.rack[key[0]], key[1]) for key in pids}


def test_status_shows_brokers_balancers_and_who_has_the_address(site: Site, tmp_path: Path) -> None:
    holder = site.holder()
    found = site.status(tmp_path / "status.json", code=0)
    assert sorted(row["state"] for row in found["brokers"]) == ["active", "standby"]
    assert {row["release"] for row in found["brokers"]} == {RELEASE}
    assert {row["configuration"] for row in found["brokers"]} == {"planned"}
    assert {row["host"]: (row["state"], *row["addresses"].values()) for row in found["balancers"]} == {
        name: ("up", name == holder.name) for name in BALANCERS
    }


def test_changed_files_are_loaded_without_a_restart(site: Site) -> None:
    holder = site.holder()
    before = pid(holder, "haproxy"), pid(holder, "keepalived")
    site.balance(activemq_vip_check_port=8406)
    assert (pid(holder, "haproxy"), pid(holder, "keepalived")) == before
    ask = "exec 3<>/dev/tcp/127.0.0.1/8406; echo -e 'GET / HTTP/1.0\\n' >&3; cat <&3"
    wait_until(lambda: "200" in holder.run("bash", "-c", ask), "HAProxy says on its new port that it is well")
    site.served()


def test_a_file_that_keepalived_refuses_changes_nothing(site: Site) -> None:
    in_force = {name: site.rack[name].run("readlink", "/etc/activemq-loadbalancer") for name in BALANCERS}
    said = site.balance(code=2, activemq_vip_interface="nope0")
    assert "the check program /usr/sbin/keepalived rejects the new configuration files" in said
    assert in_force == {name: site.rack[name].run("readlink", "/etc/activemq-loadbalancer") for name in BALANCERS}
    site.served()


def test_the_address_leaves_a_balancer_whose_haproxy_ends(site: Site) -> None:
    first = site.holder()
    first.run("systemctl", "stop", "haproxy")
    wait_until(
        lambda: [each.name for each in site.holders()] not in ([first.name], []),
        f"{VIP} leaves {first.name} for another",
    )
    site.served()
    first.run("systemctl", "start", "haproxy")


def test_the_address_leaves_a_balancer_that_dies_which_costs_one_row_of_the_status(site: Site, tmp_path: Path) -> None:
    dead = site.holder()
    dead.power_off()
    assert site.holder().name != dead.name
    site.served()
    fleet_status = site.status(tmp_path / "status.json", code=2, activemq_status_timeout=60)
    assert [finding["host"] for finding in fleet_status["findings"] if finding["rule"] == "unreachable"] == [dead.name]
    assert sorted(row["state"] for row in fleet_status["brokers"]) == ["active", "standby"]
    assert [row["host"] for row in fleet_status["balancers"] if row["state"] == "unreachable"] == [dead.name]


def test_clients_find_the_other_node_when_the_active_one_is_killed(site: Site) -> None:
    site.rack["orders-mq01-a.example.com"].power_off()
    site.served()
