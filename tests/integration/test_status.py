"""Tests of the status of real brokers: it reports each faulty state that a test causes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.errors import LabError
from activemq_fleet.lab.lab import Lab
from activemq_fleet.render.broker_paths import paths_of_broker
from tests.integration.conftest import LabOf
from tests.integration.labs import pair
from tests.integration.monitored import make_key
from tests.integration.waiting import PATIENCE, until
from tests.situations import in_every_situation
from tests.stomp_clients import stomp_send
from tests.support.lab_status import finding_rules, read_lab_status
from tests.waiting import LateError

A, B = pair("orders")
SHOP_A, SHOP_B = pair("shop")
LINK = [{"from": "shop", "to": "orders", "duplex": True}]
COMMON = {
    "activemq_network_username": "network",
    "activemq_network_password": "s3cret-network",
    "activemq_topology": "none",
    "activemq_links": LINK,
}


def write_inventory(path: Path, release: str = "6.3.1") -> Path:
    """Write an inventory: a pair with a small store, to which a pair of 5.5.1 opens a duplex link."""
    orders = {"activemq_release": release, "activemq_store_limit": "1 mb"}
    shop = {"activemq_release": "5.5.1"}
    hosts = {A: orders, B: orders, SHOP_A: shop, SHOP_B: shop}
    path.mkdir(exist_ok=True)
    (path / "hosts.yml").write_text(json.dumps({"all": {"hosts": hosts, "vars": COMMON}}))
    return path


def run_status(lab: Lab, source: Path, *more: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "activemq_fleet", "status", "-i", str(source), "--dir", str(lab.directory), *more]
    status_command = subprocess.run(command, capture_output=True, text=True, check=False)
    assert status_command.stderr == ""
    return status_command.returncode, status_command.stdout


def link_state(lab: Lab) -> str | None:
    links = [link.state for row in read_lab_status(lab).brokers if row.host == SHOP_A for link in row.links]
    return links[0] if links else None


def both_states(lab: Lab) -> tuple[dict[str, str], dict[str, str]]:
    """Return the states that ``lab status`` and ``status --dir`` show."""
    return {row.host: row.state for row in lab.status()}, dict(read_lab_status(lab).states_by_host)


def starts_without_half_link(lab: Lab) -> bool:
    """Start the fleet with empty stores. If its link is half up, which any start of 5.5.1 may cause, stop the fleet.

    A second start would fill the store of 1 MB beyond the warning.
    """
    lab.up(fresh=True)
    if link_state(lab) != "half":
        return True
    lab.down()
    return False


def provoke_half_link(lab: Lab) -> bool:
    """Restart the far end while the connecting broker is frozen, resume that broker, and check its link.

    The order of that broker's two reactions to its broken connection depends on its threads.
    """
    lab.pause(SHOP_A)
    remove_lock(lab, "orders-mq01")  # 6.3.1 notices, and starts again within its process
    began = time.time()
    until(lambda: _last_start_time(lab) > began, PATIENCE, "a new start within the process")
    lab.resume(SHOP_A)
    with suppress(LateError):
        until(lambda: link_state(lab) in ("half", "up"), 15, "a link")
    time.sleep(2)  # the former state of the link may be shown for a moment
    return link_state(lab) == "half"


def remove_lock(lab: Lab, pair_name: str) -> None:
    (lab.directory / "stores" / pair_name / "lock").unlink()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_inventory(tmp_path / "inventory")


def test_status_reports_each_faulty_state_of_fleet(source: Path, lab_of: LabOf) -> None:
    lab = lab_of(source)
    until(lambda: starts_without_half_link(lab), PATIENCE, "a start without a half link")
    code, status_json = run_status(lab, source, "--format", "json")
    report: dict[str, Any] = json.loads(status_json)
    assert code == 0, report["findings"]
    assert [row["state"] for row in report["brokers"]] == ["active", "standby", "active", "standby"]
    assert [row["release"] for row in report["brokers"]] == ["6.3.1", "6.3.1", "5.5.1", "5.5.1"]
    assert report["brokers"][2]["links"][0]["state"] == "up"
    of_lab, of_status = both_states(lab)
    assert of_lab == of_status

    # A master is killed. The status is correct as soon as the other node has taken over.
    lab.kill(A)
    until(lambda: lab.active("orders-mq01") == B, PATIENCE, "B active")
    status_after_kill = read_lab_status(lab)
    assert status_after_kill.states_by_host == {A: "stopped", B: "active", SHOP_A: "active", SHOP_B: "standby"}
    assert ("standby-missing", A) in {(finding.rule, finding.host) for finding in status_after_kill.findings}
    lab.start(A)

    # The store is full: 1 MB of it, by messages of 200 kB.
    with suppress(LabError):
        addresses = lab.addresses(B, "stomp")
        stomp_send(addresses, "/queue/big", ["x" * 200_000] * 12, lab.credentials(B), timeout=4)
    assert ("store-full", B) in finding_rules(lab)

    # The planned release differs from the running release.
    write_inventory(source, "5.18.3")
    lab.prepare()
    assert {("wrong-release", A), ("wrong-release", B), ("not-deployed", B)} <= finding_rules(lab)
    code, line = run_status(lab, source, "orders-mq01-a", "--format", "nagios")
    assert code == 2
    assert line.startswith(f"ACTIVEMQ CRITICAL - {A} is standby; wrong-release: the broker runs release 6.3.1")
    write_inventory(source)
    lab.prepare()

    # A master is frozen. Usually, its link is half up when it resumes after the far end was restarted.
    lab.pause(SHOP_A)
    assert {("frozen", SHOP_A), ("no-active", SHOP_A)} <= finding_rules(lab)
    of_lab, of_status = both_states(lab)
    assert of_lab[SHOP_A] == "hung"
    assert of_lab == of_status
    until(lambda: provoke_half_link(lab), PATIENCE, lambda: f"a half link: {link_state(lab)}")
    assert ("bridge-half", SHOP_A) in finding_rules(lab)

    # 5.5.1 does not detect that its lock was removed. Its peer acquires a new one.
    remove_lock(lab, "shop-mq01")
    expected = {("lock-lost", SHOP_A), ("two-active", SHOP_A)}
    until(
        lambda: expected <= finding_rules(lab), PATIENCE, lambda: f"a lost lock, and two masters: {finding_rules(lab)}"
    )


@in_every_situation
def test_status_reports_dead_letters_changed_file_refused_link_and_certificate(tmp_path: Path, lab_of: LabOf) -> None:
    """The states are dead letters, a file changed by hand, a link with a refused login, and an expiring certificate."""
    key = tmp_path / "broker.p12"
    make_key(key, days=5)
    tls = {name: str(key) for name in ("keystore", "truststore")}
    tls |= {f"{name}_password": "changeit" for name in ("keystore", "truststore")}
    variables = {**COMMON, "activemq_ha": "none"}
    hosts = {
        A: {"activemq_release": "6.3.1"},
        SHOP_A: {"activemq_release": "5.18.3"},
        "safe-mq01-a.example.com": {"activemq_release": "6.3.1", "activemq_tls": tls},
    }
    source = tmp_path / "hosts.yml"
    source.write_text(json.dumps({"all": {"hosts": hosts, "vars": variables}}))
    lab = lab_of(source)
    lab.up()
    assert {rule for rule, _ in finding_rules(lab)} == {"certificate-near-end"}

    stomp_send(lab.addresses(A, "stomp"), "/queue/ActiveMQ.DLQ", ["dead"], lab.credentials(A))
    assert ("dlq", A) in finding_rules(lab)

    # An operator changes the password of the network by hand. After a restart, its link is refused.
    credentials = Path(paths_of_broker(lab.fleet.broker(SHOP_A)).base, "current/conf/credentials.properties")
    credentials.chmod(0o600)
    credentials.write_text(credentials.read_text().replace("s3cret-network", "another"))
    lab.stop(SHOP_A)
    lab.start(SHOP_A)
    expected = {("changed-by-hand", SHOP_A), ("bridge-down", SHOP_A)}
    until(lambda: expected <= finding_rules(lab), PATIENCE, lambda: f"a refused link: {finding_rules(lab)}")


def _last_start_time(lab: Lab) -> float:
    return max(lab.started_at(host) or 0.0 for host in (A, B))
