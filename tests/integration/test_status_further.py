"""Tests of further faulty states of real brokers, in addition to test_status.py: ``SITUATIONS=all`` causes each."""

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
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts and control groups require root: run this test as root")


def fill_broker(lab: Lab, destination: str) -> None:
    """Send non-persistent messages of a megabyte until the broker blocks the producer."""
    address, credentials = lab.addresses(A, "stomp")[0], lab.credentials(A)
    with StompConnection(address, credentials, timeout=5) as producer, suppress(StompTimeout):
        for _ in range(200):
            producer.send(destination, "x" * (1 << 20), {"persistent": "false"})


@pytest.mark.parametrize("release", ["5.5.1", "5.18.3", "6.3.1"])
@pytest.mark.parametrize("limit", ["memory", "temp"])
def test_status_reports_full_limit_of_broker_that_blocks_producers(
    tmp_path: Path, lab_of: LabOf, release: str, limit: str
) -> None:
    cursor = {"memory": "vm", "temp": "file"}[limit]
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
    fill_broker(lab, f"/queue/full.{limit}")
    fleet_status = read_lab_status(lab)
    # The broker is unhealthy if the limit also blocks the message of the probe.
    assert fleet_status.states_by_host[A] in SERVING
    assert (f"{limit}-full", A) in {(finding.rule, finding.host) for finding in fleet_status.findings}


@as_root
def test_status_reports_full_disk_backlog_and_hung_broker(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_of(write_inventory(tmp_path / "inventory", [A, B], release="6.3.1", **NETWORK))
    lab.prepare()
    stores = lab.directory / "stores"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200m,mode=700", "tmpfs", stores], check=True)
    try:
        lab.prepare()
        lab.up()
        assert {("disk-full", A), ("disk-full", B)} == finding_rules(lab)

        stomp_send(lab.addresses(A, "stomp"), "/queue/backlog", ["one", "two"], lab.credentials(A))
        assert [row.usage and row.usage.messages for row in read_lab_status(lab).brokers] == [2, None]

        with freeze_broker(lab, A):
            fleet_status = read_lab_status(lab)
        assert fleet_status.states_by_host == {A: "hung", B: "standby"}
        assert {("hung", A), ("no-active", A)} <= {(finding.rule, finding.host) for finding in fleet_status.findings}
        until(lambda: lab.state(A) == "active", PATIENCE, "A is active again")
        lab.down()
    finally:
        subprocess.run(["umount", "--lazy", stores], check=True)


@contextmanager
def freeze_broker(lab: Lab, host: str) -> Iterator[None]:
    """Freeze a broker by its control group: no signal stopped it, its ports are open, and it sends nothing."""
    unified = find_hierarchies().unified
    group, root_processes = unified / f"status-{os.getpid()}", unified / "cgroup.procs"
    process = lab._hosts.require_running_process(lab.fleet.broker(host))
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(str(process.pid))
        (group / "cgroup.freeze").write_text("1")
        until(lambda: "frozen 1" in (group / "cgroup.events").read_text(), 30, "the control group is frozen")
        yield
    finally:
        (group / "cgroup.freeze").write_text("0")
        root_processes.write_text(str(process.pid))
        group.rmdir()


@pytest.mark.parametrize("release", ["5.18.3", "6.3.1"])
def test_status_reports_node_with_stale_generation(tmp_path: Path, lab_of: LabOf, release: str) -> None:
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
    until(lambda: read_lab_status(lab).states_by_host[A] in ("stopped", "standby"), PATIENCE, "A steps down")


def test_status_reports_expired_certificate(tmp_path: Path, lab_of: LabOf) -> None:
    key = tmp_path / "broker.p12"
    make_key(key, days=5, ago=20)
    tls = {name: str(key) for name in ("keystore", "truststore")}
    tls |= {f"{name}_password": "changeit" for name in ("keystore", "truststore")}
    lab = lab_of(write_inventory(tmp_path / "inventory", [A], release="6.3.1", ha="none", tls=tls, **NETWORK))
    with suppress(LabError):  # no client that verifies the certificate can connect
        lab.up()
    assert ("certificate-ended", A) in finding_rules(lab)
