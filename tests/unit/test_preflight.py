"""What hosts show, as findings: from the text of a machine to the line that stops a run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from activemq_fleet.deployment import BrokerFacts, broker_facts
from activemq_fleet.node.state import machine
from activemq_fleet.node.state.evidence import MachineFacts
from activemq_fleet.topology import Broker
from activemq_fleet.validation import preflight_findings
from tests.unit.fleets import fleet

A, B = "orders-mq01-a.example.com", "orders-mq01-b.example.com"
STORE = "/srv/activemq/orders-mq01"
SERVER = "filer:/export/activemq /srv/activemq"


def brokers(**variables: Any) -> dict[str, BrokerFacts]:
    found: tuple[Broker, ...] = fleet("orders-mq01", **variables).brokers
    return {broker.host: broker_facts(broker) for broker in found}


def shown(mounts: str, **more: Any) -> MachineFacts:
    """The facts of a machine with these lines in /proc/self/mounts, as ``machine_info`` returns it."""
    found = machine.mount_of(STORE, f"/dev/sda1 / ext4 rw,relatime 0 0\n{mounts}")
    assert found is not None
    return MachineFacts.of({"store_filesystem": found.kind, "store_mount_options": list(found.options), **more})


def rules(look: MachineFacts, **variables: Any) -> list[str]:
    return [finding.rule for finding in preflight_findings(brokers(**variables), {A: look})]


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        (f"{SERVER} nfs4 rw,relatime,vers=4.2,hard,proto=tcp,local_lock=none,addr=10.0.0.9 0 0", []),
        (f"{SERVER} nfs rw,relatime,vers=3,hard,mountvers=3,local_lock=none,addr=10.0.0.9 0 0", ["L001"]),
        (f"{SERVER} nfs rw,relatime,vers=3,nolock,local_lock=all,addr=10.0.0.9 0 0", ["L001", "L002", "L002"]),
        (f"{SERVER} nfs4 rw,vers=4.1,local_lock=posix 0 0", ["L002"]),
        ("/dev/sdb1 /srv/activemq ocfs2 rw,_netdev,heartbeat=local 0 0", ["L002"]),
        ("//filer/activemq /srv/activemq cifs rw,vers=3.1.1 0 0", ["L002"]),
        ("filer:activemq /srv/activemq fuse.glusterfs rw 0 0", []),
        ("/dev/sdb1 /srv/activemq gfs2 rw,relatime 0 0", []),
    ],
)
def test_a_share_is_judged_by_its_line_among_the_mounts(mounts: str, expected: list[str]) -> None:
    assert rules(shown(mounts)) == expected


def test_a_share_that_is_not_mounted_shows_as_a_disk_of_one_host() -> None:
    looks = {A: shown("", boot="1"), B: shown(f"{SERVER} nfs4 rw,vers=4.2 0 0", boot="2")}
    (found,) = preflight_findings(brokers(), looks)
    assert (found.rule, found.host, found.severity) == ("L026", A, "warning")
    assert f"{STORE} is on ext4" in found.message


def test_two_nodes_on_one_machine_may_share_its_disk() -> None:
    assert preflight_findings(brokers(), {A: shown("", boot="1"), B: shown("", boot="1")}) == []


def test_a_store_that_outgrows_its_disk_and_a_lease_without_a_clock_are_told() -> None:
    assert rules(MachineFacts(store_capacity=5 << 30), store_limit="20 gb") == ["L025"]
    jdbc = {"url": "jdbc:x:y", "driver": "a.B", "jar": "/j.jar", "username": "u", "password": "p"}
    assert rules(MachineFacts(clock_synchronised=False), ha="shared-jdbc", jdbc=jdbc) == ["L011"]
    assert rules(MachineFacts(clock_synchronised=False)) == []


def test_a_finding_of_a_host_reads_like_every_other_and_is_waived_like_it() -> None:
    look = {A: shown(f"{SERVER} nfs rw,vers=3 0 0")}
    (found,) = preflight_findings(brokers(), look)
    assert found.blocks
    assert found.to_line().startswith(f"L001 {A}: ")
    assert json.loads(json.dumps(found.to_dict()))["rule"] == "L001"
    assert found.to_dict()["fix"]
    waiver = {"rule": "L001", "reason": "the server was replaced", "hosts": ["*"]}
    (waived,) = preflight_findings(brokers(), look, [waiver])
    assert not waived.blocks
    assert waived.to_dict()["waived"]
