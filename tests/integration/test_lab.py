"""The lab itself: up, status, kill, freeze, down, and what it leaves behind."""

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


def orders(tmp_path: Path, release: str = "6.3.1", **variables: object) -> Path:
    return write_inventory(tmp_path / "inventory", (A, B), release=release, **NETWORK, **variables)


@in_every_situation
@pytest.mark.parametrize("release", [*further("5.5.1", "5.18.3"), "6.3.1"])
def test_a_pair_that_shares_a_store_takes_over_and_comes_back(tmp_path: Path, lab_of: LabOf, release: str) -> None:
    lab = lab_of(orders(tmp_path, release))

    up = lab.up()
    assert [(host.host, host.role, host.state) for host in up] == [(A, "master", "active"), (B, "slave", "standby")]
    assert all(host.pid and host.uptime is not None for host in up)

    stomp_send(lab.addresses("orders-mq01", "stomp"), "/queue/q", ["kept"], lab.credentials("orders-mq01"))
    lab.kill(A)
    assert lab.state(A) == "stopped"
    assert lab.wait_active("orders-mq01") == B
    lab.start(A)
    assert lab.state(A) == "standby"
    got = stomp_drain(lab.addresses("orders-mq01", "stomp"), "/queue/q", lab.credentials(B), expected=1, timeout=180)
    assert got == ["kept"]

    assert lab.down() == 2
    assert processes_of(lab.directory) == []
    assert {host.state for host in lab.status()} == {"stopped"}


def test_a_pure_pair_starts_in_order_and_its_slave_is_promoted(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_of(orders(tmp_path, "5.5.1", ha="pure"))
    assert [host.state for host in lab.up()] == ["active", "standby"]

    lab.kill(A)
    lab.wait_state(B, "active")

    with pytest.raises(LabError, match=r"stop \S+, and start \S+ first"):
        lab.start(A)
    with pytest.raises(LabError, match="--fresh"):
        lab.up()
    lab.down()
    with pytest.raises(LabError, match="--fresh"):
        lab.up()
    assert [host.state for host in lab.up(fresh=True)] == ["active", "standby"]


@in_every_situation
def test_a_pure_pair_that_was_taken_down_whole_comes_up_again_with_its_messages(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_of(orders(tmp_path, "5.5.1", ha="pure"))
    lab.up()
    stomp_send(lab.addresses(A, "stomp"), "/queue/q", ["kept"], lab.credentials(A))
    lab.down()
    lab.up()
    lab.wait_state(A, "active")
    lab.wait_state(B, "standby")
    got = stomp_drain(lab.addresses(A, "stomp"), "/queue/q", lab.credentials(A), expected=1, timeout=180)
    assert got == ["kept"]


def test_a_frozen_broker_hangs_until_it_goes_on(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_of(orders(tmp_path))
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
def test_what_a_lab_does_itself_is_planned_and_what_is_done_to_it_is_not(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_of(orders(tmp_path))
    lab.up()
    moments = []
    for stopped, successor in ((A, B), (B, A), (A, B)):
        lab.stop(stopped)
        lab.wait_state(successor, "active")
        moments.append((successor, lab.started_at(successor) or 0))
        lab.start(stopped)
    at = lab.kill(B)
    lab.wait_state(A, "active")
    killed = A, lab.started_at(A) or 0
    collect_logs(lab, {}, tmp_path / "collected")
    operations, problems = parse_planned_operations(A, (tmp_path / "collected" / A / "operations.jsonl").read_bytes())
    assert problems == ()
    assert [operation.operation for operation in operations] == ["lab up", *["lab stop", "lab start"] * 3]
    for host, moment in moments:
        assert is_planned(tmp_path / "collected", host, moment)
    assert killed[1] >= at
    assert not is_planned(tmp_path / "collected", *killed)


def is_planned(collected: Path, host: str, moment: float) -> bool:
    """Whether the lab was at work when a host became active, as the host has it."""
    operations, _ = parse_planned_operations(host, (collected / host / "operations.jsonl").read_bytes())
    return any(operation.began.timestamp() <= moment <= operation.ended.timestamp() for operation in operations)


@in_every_situation
def test_a_durable_mqtt_session_follows_its_pair(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_of(orders(tmp_path))
    lab.up()
    addresses, who = lab.addresses("orders-mq01", "mqtt"), lab.credentials("orders-mq01")
    with (
        MqttSubscriber(addresses, ["events/#"], who, client_id="agent") as subscriber,
        MqttPublisher(addresses, who) as publisher,
    ):
        publisher.publish("events/1", "before")
        lab.kill(A)
        publisher.publish("events/2", "after")
        assert set(subscriber.wait(2, 120)) == {"before", "after"}


@in_every_situation
def test_two_labs_run_side_by_side(tmp_path: Path, lab_of: LabOf) -> None:
    inventory = orders(tmp_path)
    first, second = lab_of(inventory), lab_of(inventory)
    first.up()
    second.up()
    addresses = {host.address for lab in (first, second) for host in lab.status()}
    assert len(addresses) == 4
    first.down()
    assert [host.state for host in second.status()] == ["active", "standby"]


def test_a_changed_inventory_restarts_what_it_changes(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_of(orders(tmp_path))
    before = {host.host: host.pid for host in lab.up()}
    assert {host.host: host.pid for host in lab.up()} == before

    orders(tmp_path, memory_limit="64 mb", acl=[{"destination": "orders", "kind": "queue", "read": "ops"}])
    after = lab.up()
    assert {host.state for host in after} == {"active", "standby"}
    assert not {host.pid for host in after} & set(before.values())


@in_every_situation
def test_acls_do_not_keep_the_lab_from_seeing_that_a_broker_is_ready(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_of(orders(tmp_path, acl=[{"destination": "orders", "kind": "queue", "read": "ops"}]))
    assert [host.state for host in lab.up()] == ["active", "standby"]


def test_a_broker_that_does_not_start_takes_everything_down_and_says_why(tmp_path: Path, lab_of: LabOf) -> None:
    # Valid for the schema, refused by the broker: there is no such class.
    hook = '<bean xmlns="http://www.springframework.org/schema/beans" class="no.such.Hook"/>'
    bad = f"<shutdownHooks>{hook}</shutdownHooks>"
    other = pair("billing")
    inventory = orders(tmp_path)
    content = json.loads(inventory.read_text())
    content["all"]["hosts"] |= {other[0]: {}, other[1]: {"activemq_xml_fragments": [{"xml": bad}]}}
    inventory.write_text(json.dumps(content))
    lab = lab_of(inventory)

    with pytest.raises(LabError) as failure:
        lab.up()

    assert str(failure.value).startswith(f"{other[1]}: the broker stopped while it was starting. Its last error is: ")
    assert "no.such.Hook" in str(failure.value)
    assert str(lab.log(other[1])) in str(failure.value)
    assert processes_of(lab.directory) == []


LATE_BEAN = """<bean xmlns="http://www.springframework.org/schema/beans" id="late" class="java.util.Date">
  <property name="noSuchProperty" value="50"/>
</bean>"""


@in_every_situation
@pytest.mark.parametrize("release", [*further("5.5.1", "6.3.1"), "5.18.3"])
def test_up_refuses_broker_with_late_bean_that_fails_crash_loop_late_bean(
    tmp_path: Path, lab_of: LabOf, release: str
) -> None:
    fragments = [{"parent": "beans", "xml": LATE_BEAN}]
    lab = lab_of(orders(tmp_path, release, xml_fragments=fragments, ha="none" if release == "5.5.1" else "shared-file"))
    with pytest.raises(LabError) as raised:
        lab.up()
    assert f"{A}: the broker stopped while it was starting. Its last error is: " in str(raised.value)
    assert "Invalid property 'noSuchProperty' of bean class [java.util.Date]" in str(raised.value)
    assert "run the command again" in str(raised.value)
    assert processes_of(lab.directory) == []
    log = (lab.directory / "hosts" / A / "activemq/data/activemq.log").read_text()
    assert "JMS Message Broker" in log or ") started |" in log, "the broker never served: not the case that is meant"


def test_a_port_that_somebody_has_is_told_before_anything_starts(tmp_path: Path, lab_of: LabOf) -> None:
    lab = lab_of(orders(tmp_path))
    lab.prepare()
    address = lab.addresses(B, "stomp")[0]
    with socket.create_server(address), pytest.raises(LabError) as failure:
        lab.up()
    expected = f"{B}: the broker cannot use port {address[1]} (stomp) on {address[0]}, because another program uses it"
    assert str(failure.value).startswith(expected)
    assert processes_of(lab.directory) == []


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "activemq_fleet", "lab", *map(str, words)]


@in_every_situation
def test_brokers_outlive_the_command_that_started_them(tmp_path: Path, lab_of: LabOf) -> None:
    inventory = orders(tmp_path)
    lab = lab_of(inventory)
    named = ("-i", inventory, "--dir", lab.directory)
    subprocess.run(command("up", *named), check=True, timeout=300)
    told = subprocess.run(command("status", *named, "--format", "json"), check=True, capture_output=True, timeout=120)
    assert [host["state"] for host in json.loads(told.stdout)] == ["active", "standby"]
    subprocess.run(command("kill", "orders-mq01-a", *named), check=True, timeout=120)
    assert lab.wait_active("orders-mq01") == B
    subprocess.run(command("down", *named), check=True, timeout=120)
    assert processes_of(lab.directory) == []


def starting(lab: Lab, inventory: Path) -> subprocess.Popen[bytes]:
    """A command that brings a lab up, and has started a broker."""
    started = subprocess.Popen(command("up", "-i", inventory, "--dir", lab.directory))
    try:
        until(lambda: processes_of(lab.directory), PATIENCE, "a broker is started", pause=0.05)
    except BaseException:
        started.kill()
        raise
    return started


@pytest.mark.parametrize("number", [signal.SIGINT, *further(signal.SIGTERM)])
def test_an_interrupted_up_leaves_nothing_running(tmp_path: Path, lab_of: LabOf, number: signal.Signals) -> None:
    inventory = orders(tmp_path)
    lab = lab_of(inventory)
    started = starting(lab, inventory)
    os.kill(started.pid, number)
    assert started.wait(120) == 130
    assert processes_of(lab.directory) == []


def test_what_a_killed_up_left_running_is_taken_down(tmp_path: Path, lab_of: LabOf) -> None:
    inventory = orders(tmp_path)
    lab = lab_of(inventory)
    started = starting(lab, inventory)
    started.kill()
    started.wait(120)
    assert lab.down() >= 1
    assert processes_of(lab.directory) == []


def test_a_lab_in_the_foreground_ends_with_its_command(tmp_path: Path, lab_of: LabOf) -> None:
    inventory = orders(tmp_path)
    lab = lab_of(inventory)
    started = subprocess.Popen(
        command("up", "-i", inventory, "--dir", lab.directory, "--foreground"), stderr=subprocess.PIPE, text=True
    )
    assert started.stderr is not None
    assert any("Ctrl-C" in line for line in started.stderr)
    assert len(processes_of(lab.directory)) == 2
    os.kill(started.pid, signal.SIGINT)
    assert started.wait(120) == 130
    assert processes_of(lab.directory) == []


def test_leaving_a_lab_takes_it_down_whatever_happened(tmp_path: Path) -> None:
    lab = Lab.open(orders(tmp_path), tmp_path / "lab")

    def fail() -> None:
        with lab:
            lab.up()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert processes_of(tmp_path / "lab") == []
