"""The lab: up, status, kill, freeze and down, and its remaining processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from activemq_fleet.audit.operation_records import parse_planned_operations
from activemq_fleet.errors import LabError
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.log_collection import collect_logs
from tests.integration.conftest import LabOf
from tests.integration.labs import pair, processes_of, write_inventory
from tests.integration.waiting import PATIENCE, until
from tests.mqtt_clients import MqttPublisher, MqttSubscriber, mqtt_round_trip
from tests.situations import further, in_every_situation
from tests.stomp_clients import stomp_drain, stomp_round_trip, stomp_send

A, B = pair("orders")
NETWORK = {"network_username": "network", "network_password": "s3cret-network"}


def write_orders_inventory(tmp_path: Path, release: str = "6.3.1", **variables: object) -> Path:
    return write_inventory(tmp_path / "inventory", (A, B), release=release, **NETWORK, **variables)


@in_every_situation
@pytest.mark.parametrize("release", [*further("5.5.1", "5.18.3"), "6.3.1"])
def test_shared_store_pair_takes_over_and_restarted_node_is_standby(
    tmp_path: Path, lab_of: LabOf, release: str
) -> None:
    lab = lab_of(write_orders_inventory(tmp_path, release))

    up = lab.up()
    assert [(host.host, host.role, host.state) for host in up] == [(A, "master", "active"), (B, "slave", "standby")]
    assert all(host.pid and host.uptime is not None for host in up)

    stomp_send(lab.addresses("orders-mq01", "stomp"), "/queue/q", ["kept"], lab.credentials("orders-mq01"))
    lab.kill(A)
    assert lab.state(A) == "stopped"
    assert lab.wait_active("orders-mq01") == B
    lab.start(A)
    assert lab.state(A) == "standby"
    received = stomp_drain(
        lab.addresses("orders-mq01", "stomp"), "/queue/q", lab.credentials(B), expected=1, timeout=180
    )
    assert received == ["kept"]

    assert lab.down() == 2
    assert processes_of(lab.directory) == []
    assert {host.state for host in lab.status()} == {"stopped"}


def test_pure_pair_starts_in_order_and_its_slave_is_promoted(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_of(write_orders_inventory(tmp_path, "5.5.1", ha="pure"))
    assert [host.state for host in lab.up()] == ["active", "standby"]

    lab.kill(A)
    lab.wait_state(B, "active")

    with pytest.raises(LabError, match=rf"^{A}: .* may differ .* `lab up --fresh`"):
        lab.start(A)
    with pytest.raises(LabError, match="--fresh"):
        lab.up()
    lab.down()
    with pytest.raises(LabError, match="all brokers of the pair have stopped"):
        lab.wait_active("orders-mq01")
    with pytest.raises(LabError, match="--fresh"):
        lab.up()
    assert [host.state for host in lab.up(fresh=True)] == ["active", "standby"]


@in_every_situation
def test_stopped_pure_pair_starts_again_with_its_messages(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_of(write_orders_inventory(tmp_path, "5.5.1", ha="pure"))
    lab.up()
    stomp_send(lab.addresses(A, "stomp"), "/queue/q", ["kept"], lab.credentials(A))
    lab.down()
    lab.up()
    lab.wait_state(A, "active")
    lab.wait_state(B, "standby")
    received = stomp_drain(lab.addresses(A, "stomp"), "/queue/q", lab.credentials(A), expected=1, timeout=180)
    assert received == ["kept"]


def test_frozen_broker_is_hung_until_it_resumes(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_of(write_orders_inventory(tmp_path))
    lab.up()

    lab.pause(A)
    assert lab.state(A) == "hung"
    with pytest.raises(TimeoutError):
        mqtt_round_trip(lab.addresses(A, "mqtt")[0], lab.credentials(A), "x", timeout=0.5)
    with pytest.raises(LabError, match="before the timeout"):
        stomp_round_trip(lab.addresses(A, "stomp")[0], lab.credentials(A), "x", timeout=0.5)
    lab.resume(A)
    lab.wait_state(A, "active")

    lab.pause(B)
    assert lab.state(B) == "hung"
    lab.stop(B)
    assert lab.state(B) == "stopped"


@in_every_situation
def test_stops_by_lab_are_planned_operations_and_kills_are_not(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_of(write_orders_inventory(tmp_path))
    lab.up()
    starts = []
    for stopped, successor in ((A, B), (B, A), (A, B)):
        lab.stop(stopped)
        lab.wait_state(successor, "active")
        starts.append((successor, lab.started_at(successor) or 0))
        lab.start(stopped)
    killed_at = lab.kill(B)
    lab.wait_state(A, "active")
    start_after_kill = A, lab.started_at(A) or 0
    collect_logs(lab, {}, tmp_path / "collected")
    operations, problems = parse_planned_operations(A, (tmp_path / "collected" / A / "operations.jsonl").read_bytes())
    assert problems == ()
    assert [operation.operation for operation in operations] == ["lab up", *["lab stop", "lab start"] * 3]
    for host, moment in starts:
        assert is_planned(tmp_path / "collected", host, moment)
    assert start_after_kill[1] >= killed_at
    assert not is_planned(tmp_path / "collected", *start_after_kill)


def is_planned(collected: Path, host: str, moment: float) -> bool:
    """Return whether a recorded operation of the lab was running when a host became active."""
    operations, _ = parse_planned_operations(host, (collected / host / "operations.jsonl").read_bytes())
    return any(operation.began.timestamp() <= moment <= operation.ended.timestamp() for operation in operations)


@in_every_situation
def test_durable_mqtt_session_continues_after_takeover(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_of(write_orders_inventory(tmp_path))
    lab.up()
    addresses, credentials = lab.addresses("orders-mq01", "mqtt"), lab.credentials("orders-mq01")
    with (
        MqttSubscriber(addresses, ["events/#"], credentials, client_id="agent") as subscriber,
        MqttPublisher(addresses, credentials) as publisher,
    ):
        publisher.publish("events/1", "before")
        lab.kill(A)
        publisher.publish("events/2", "after")
        assert set(subscriber.wait(2, 120)) == {"before", "after"}


@in_every_situation
def test_two_labs_of_same_inventory_run_at_same_time(tmp_path: Path, lab_of: LabOf) -> None:
    inventory = write_orders_inventory(tmp_path)
    first_lab, second_lab = lab_of(inventory), lab_of(inventory)
    first_lab.up()
    second_lab.up()
    addresses = {host.address for lab in (first_lab, second_lab) for host in lab.status()}
    assert len(addresses) == 4
    first_lab.down()
    assert [host.state for host in second_lab.status()] == ["active", "standby"]


def test_lab_up_restarts_brokers_with_changed_settings_only(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_of(write_orders_inventory(tmp_path))
    pids = {host.host: host.pid for host in lab.up()}
    assert {host.host: host.pid for host in lab.up()} == pids

    write_orders_inventory(
        tmp_path, memory_limit="64 mb", acl=[{"destination": "orders", "kind": "queue", "read": "ops"}]
    )
    status = lab.up()
    assert {host.state for host in status} == {"active", "standby"}
    assert not {host.pid for host in status} & set(pids.values())


@in_every_situation
def test_lab_detects_readiness_of_broker_with_acls(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_of(write_orders_inventory(tmp_path, acl=[{"destination": "orders", "kind": "queue", "read": "ops"}]))
    assert [host.state for host in lab.up()] == ["active", "standby"]


def test_broker_that_fails_to_start_stops_lab_and_error_has_reason(tmp_path: Path, lab_of: LabOf) -> None:
    # The element is valid for the schema, and the broker refuses it because the class does not exist.
    hook = '<bean xmlns="http://www.springframework.org/schema/beans" class="no.such.Hook"/>'
    invalid_hook = f"<shutdownHooks>{hook}</shutdownHooks>"
    billing = pair("billing")
    inventory = write_orders_inventory(tmp_path)
    inventory_data = json.loads(inventory.read_text())
    inventory_data["all"]["hosts"] |= {billing[0]: {}, billing[1]: {"activemq_xml_fragments": [{"xml": invalid_hook}]}}
    inventory.write_text(json.dumps(inventory_data))
    lab = lab_of(inventory)

    with pytest.raises(LabError) as failure:
        lab.up()

    assert str(failure.value).startswith(f"{billing[1]}: the broker stopped while it was starting. Its last error is: ")
    assert "no.such.Hook" in str(failure.value)
    assert str(lab.log(billing[1])) in str(failure.value)
    assert processes_of(lab.directory) == []


LATE_BEAN = """<bean xmlns="http://www.springframework.org/schema/beans" id="late" class="java.util.Date">
  <property name="noSuchProperty" value="50"/>
</bean>"""


@in_every_situation
@pytest.mark.parametrize("release", [*further("5.5.1", "6.3.1"), "5.18.3"])
def test_lab_up_fails_if_late_bean_of_broker_fails_crash_loop_late_bean(
    tmp_path: Path, lab_of: LabOf, release: str
) -> None:
    fragments = [{"parent": "beans", "xml": LATE_BEAN}]
    lab = lab_of(
        write_orders_inventory(
            tmp_path, release, xml_fragments=fragments, ha="none" if release == "5.5.1" else "shared-file"
        )
    )
    with pytest.raises(LabError) as raised:
        lab.up()
    assert f"{A}: the broker stopped while it was starting. Its last error is: " in str(raised.value)
    assert "Invalid property 'noSuchProperty' of bean class [java.util.Date]" in str(raised.value)
    assert "run the command again" in str(raised.value)
    assert processes_of(lab.directory) == []
    log = (lab.directory / "hosts" / A / "activemq/data/activemq.log").read_text()
    assert "JMS Message Broker" in log or ") started |" in log, (
        "the broker did not serve before it stopped, so the test does not prove its case"
    )


def test_lab_up_names_occupied_port_before_any_broker_starts(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_of(write_orders_inventory(tmp_path))
    lab.prepare()
    address = lab.addresses(B, "stomp")[0]
    with socket.create_server(address), pytest.raises(LabError) as failure:
        lab.up()
    expected = f"{B}: the broker cannot use port {address[1]} (stomp) on {address[0]}, because another program uses it"
    assert str(failure.value).startswith(expected)
    assert processes_of(lab.directory) == []


def lab_command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "activemq_fleet", "lab", *map(str, words)]


@in_every_situation
def test_brokers_survive_end_of_command_that_started_them(tmp_path: Path, lab_of: LabOf) -> None:
    inventory = write_orders_inventory(tmp_path)
    lab = lab_of(inventory)
    arguments = ("-i", inventory, "--dir", lab.directory)
    subprocess.run(lab_command("up", *arguments), check=True, timeout=300)
    completed = subprocess.run(
        lab_command("status", *arguments, "--format", "json"), check=True, capture_output=True, timeout=120
    )
    assert [host["state"] for host in json.loads(completed.stdout)] == ["active", "standby"]
    subprocess.run(lab_command("kill", "orders-mq01-a", *arguments), check=True, timeout=120)
    assert lab.wait_active("orders-mq01") == B
    subprocess.run(lab_command("down", *arguments), check=True, timeout=120)
    assert processes_of(lab.directory) == []


def begin_lab_up(lab: Lab, inventory: Path) -> subprocess.Popen[bytes]:
    """Run ``lab up`` and return its process after it has started a broker."""
    process = subprocess.Popen(lab_command("up", "-i", inventory, "--dir", lab.directory))
    try:
        until(lambda: processes_of(lab.directory), PATIENCE, "a broker process runs", pause=0.05)
    except BaseException:
        process.kill()
        raise
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, *further(signal.SIGTERM)])
def test_interrupted_lab_up_leaves_no_process(tmp_path: Path, lab_of: LabOf, number: signal.Signals) -> None:
    inventory = write_orders_inventory(tmp_path)
    lab = lab_of(inventory)
    process = begin_lab_up(lab, inventory)
    os.kill(process.pid, number)
    assert process.wait(120) == 130
    assert processes_of(lab.directory) == []


def test_lab_down_stops_brokers_of_killed_lab_up(tmp_path: Path, lab_of: LabOf) -> None:
    inventory = write_orders_inventory(tmp_path)
    lab = lab_of(inventory)
    process = begin_lab_up(lab, inventory)
    process.kill()
    process.wait(120)
    assert lab.down() >= 1
    assert processes_of(lab.directory) == []


def test_foreground_lab_stops_with_its_command(tmp_path: Path, lab_of: LabOf) -> None:
    inventory = write_orders_inventory(tmp_path)
    lab = lab_of(inventory)
    process = subprocess.Popen(
        lab_command("up", "-i", inventory, "--dir", lab.directory, "--foreground"), stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert any("Ctrl-C" in line for line in process.stderr)
    assert len(processes_of(lab.directory)) == 2
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(120) == 130
    assert processes_of(lab.directory) == []


def test_lab_context_stops_brokers_after_exception(tmp_path: Path) -> None:
    lab = Lab.open(write_orders_inventory(tmp_path), tmp_path / "lab")

    def fail() -> None:
        with lab:
            lab.up()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert processes_of(tmp_path / "lab") == []
