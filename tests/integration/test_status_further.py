"""Wrong states of real brokers beside those of test_status.py: ``SITUATIONS=all`` makes each, and status names it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from activemq_fleet.errors import LabError
from activemq_fleet.lab.freeze import lock_file_path, replace_lock_file
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.stomp import StompConnection, StompTimeout
from activemq_fleet.node.judge import SERVING
from tests.hosts.machines.cgroups import find_hierarchies
from tests.integration.conftest import LabOf
from tests.integration.labs import pair, write_inventory
from tests.integration.monitored import make_key
from tests.integration.waiting import PATIENCE, until
from tests.situations import in_every_situation
from tests.stomp_clients import stomp_send
from tests.support.lab_status import finding_rules, read_lab_status

pytestmark = in_every_situation
A, B = pair("orders")
PAIR = "orders-mq01"
NETWORK = {"network_username": "network", "network_password": "s3cret-network"}
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def fill(lab: Lab, destination: str) -> None:
    """Send messages of a megabyte that are not persistent until the broker holds the producer back."""
    where, login = lab.addresses(A, "stomp")[0], lab.credentials(A)
    with StompConnection(where, login, timeout=5) as producer, suppress(StompTimeout):
        for _ in range(200):
            producer.send(destination, "x" * (1 << 20), {"persistent": "false"})


@pytest.mark.parametrize("release", ["5.5.1", "5.18.3", "6.3.1"])
@pytest.mark.parametrize("what", ["memory", "temp"])
def test_a_broker_that_holds_producers_back_serves_and_its_limit_is_named(
    tmp_path: Path, lab_of: LabOf, release: str, what: str
) -> None:
    cursor = {"memory": "vm", "temp": "file"}[what]
    policy = {"destination": "full.>", "kind": "queue", "pending_queue_policy": cursor}
    lab = lab_of(
        write_inventory(
            tmp_path / "inventory",
            [A],
            release=release,
            ha="none",
            memory_limit="20 mb",
            temp_limit="40 mb",
            destination_policies=[policy],
            **NETWORK,
        )
    )
    lab.up()
    fill(lab, f"/queue/full.{what}")
    fleet_status = read_lab_status(lab)
    # unhealthy where the limit holds the message of the probe back, too
    assert fleet_status.states_by_host[A] in SERVING
    assert (f"{what}-full", A) in {(finding.rule, finding.host) for finding in fleet_status.findings}


@as_root
def test_a_disk_without_room_a_backlog_and_a_hung_broker(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_of(write_inventory(tmp_path / "inventory", [A, B], release="6.3.1", **NETWORK))
    lab.prepare()
    stores = lab.directory / "stores"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200m,mode=700", "tmpfs", stores], check=True)
    try:
        lab.prepare()
        lab.up()
        assert {("disk-full", A), ("disk-full", B)} == finding_rules(lab)

        stomp_send(lab.addresses(A, "stomp"), "/queue/backlog", ["one", "two"], lab.credentials(A))
        assert [row.usage.get("messages") for row in read_lab_status(lab).brokers] == [2, None]

        with standing_still(lab, A):
            fleet_status = read_lab_status(lab)
        assert fleet_status.states_by_host == {A: "hung", B: "standby"}
        assert {("hung", A), ("no-active", A)} <= {(finding.rule, finding.host) for finding in fleet_status.findings}
        until(lambda: lab.state(A) == "active", PATIENCE, "A goes on")
        lab.down()
    finally:
        subprocess.run(["umount", "--lazy", stores], check=True)


@contextmanager
def standing_still(lab: Lab, host: str) -> Iterator[None]:
    """Freeze a broker by its control group: no signal has stopped it, its ports are open, and it says nothing."""
    unified = find_hierarchies().unified
    group, back = unified / f"status-{os.getpid()}", unified / "cgroup.procs"
    process = lab._hosts.require_running_process(lab.fleet.broker(host))
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(str(process.pid))
        (group / "cgroup.freeze").write_text("1")
        until(lambda: "frozen 1" in (group / "cgroup.events").read_text(), 30, "it stands still")
        yield
    finally:
        (group / "cgroup.freeze").write_text("0")
        back.write_text(str(process.pid))
        group.rmdir()


@pytest.mark.parametrize("release", ["5.18.3", "6.3.1"])
def test_a_node_with_a_generation_that_is_not_in_force_is_named(tmp_path: Path, lab_of: LabOf, release: str) -> None:
    lab = lab_of(write_inventory(tmp_path / "inventory", [A, B], release=release, fence="guard", **NETWORK))
    lab.up()
    assert finding_rules(lab) == set()
    lab.pause(A)
    try:
        replace_lock_file(lock_file_path(lab.fleet.broker(A)))
        until(lambda: lab.state(B) == "active", PATIENCE, "B active")
        assert {("frozen", A), ("stale-generation", A), ("standby-missing", A)} == finding_rules(lab)
    finally:
        lab.resume(A)
    until(lambda: read_lab_status(lab).states_by_host[A] in ("stopped", "standby"), PATIENCE, "A gives up")


def test_a_certificate_that_has_ended_is_named(tmp_path: Path, lab_of: LabOf) -> None:
    key = tmp_path / "broker.p12"
    make_key(key, days=5, ago=20)
    tls = {name: str(key) for name in ("keystore", "truststore")}
    tls |= {f"{name}_password": "changeit" for name in ("keystore", "truststore")}
    lab = lab_of(write_inventory(tmp_path / "inventory", [A], release="6.3.1", ha="none", tls=tls, **NETWORK))
    with suppress(LabError):  # no client that checks the certificate gets in
        lab.up()
    assert ("certificate-ended", A) in finding_rules(lab)
