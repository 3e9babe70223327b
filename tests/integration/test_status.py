"""The status of real brokers: each wrong state is made, and named."""

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
from activemq_fleet.render.broker_paths import broker_directory_paths
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


def inventory(path: Path, release: str = "6.3.1") -> Path:
    """A pair with a small store, to which a pair of 5.5.1 dials a duplex link."""
    orders = {"activemq_release": release, "activemq_store_limit": "1 mb"}
    shop = {"activemq_release": "5.5.1"}
    hosts = {A: orders, B: orders, SHOP_A: shop, SHOP_B: shop}
    path.mkdir(exist_ok=True)
    (path / "hosts.yml").write_text(json.dumps({"all": {"hosts": hosts, "vars": COMMON}}))
    return path


def shown(lab: Lab, source: Path, *more: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "activemq_fleet", "status", "-i", str(source), "--dir", str(lab.directory), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


def link_state(lab: Lab) -> str | None:
    links = [link.state for row in read_lab_status(lab).brokers if row.host == SHOP_A for link in row.links]
    return links[0] if links else None


def both_states(lab: Lab) -> tuple[dict[str, str], dict[str, str]]:
    """What ``lab status`` and ``status --dir`` show."""
    return {row.host: row.state for row in lab.status()}, dict(read_lab_status(lab).states_by_host)


def comes_up_without_half_link(lab: Lab) -> bool:
    """Start the fleet with empty stores; where its link came up half, as any start of 5.5.1 may leave it, end it again.

    A second start would fill the store of 1 MB beyond the warning.
    """
    lab.up(fresh=True)
    if link_state(lab) != "half":
        return True
    lab.down()
    return False


def provoke_half_link(lab: Lab) -> bool:
    """Start the far end again while the dialler is frozen, let it go on, and look at its link once it is there.

    Which of the dialler's two answers to its broken connection comes first is left to its threads.
    """
    lab.pause(SHOP_A)
    remove_lock(lab, "orders-mq01")  # 6.3.1 notices, and starts again within its process
    began = time.time()
    until(lambda: _started(lab) > began, PATIENCE, "a new start within the process")
    lab.resume(SHOP_A)
    with suppress(LateError):
        until(lambda: link_state(lab) in ("half", "up"), 15, "a link")
    time.sleep(2)  # what a link was before its dialler noticed may show for a moment
    return link_state(lab) == "half"


def remove_lock(lab: Lab, pair_name: str) -> None:
    (lab.directory / "stores" / pair_name / "lock").unlink()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return inventory(tmp_path / "inventory")


def test_each_wrong_state_of_a_fleet_is_named(source: Path, lab_of: LabOf) -> None:
    lab = lab_of(source)
    until(lambda: comes_up_without_half_link(lab), PATIENCE, "a start without a half link")
    code, text = shown(lab, source, "--format", "json")
    found: dict[str, Any] = json.loads(text)
    assert code == 0, found["findings"]
    assert [row["state"] for row in found["brokers"]] == ["active", "standby", "active", "standby"]
    assert [row["release"] for row in found["brokers"]] == ["6.3.1", "6.3.1", "5.5.1", "5.5.1"]
    assert found["brokers"][2]["links"][0]["state"] == "up"
    of_lab, of_status = both_states(lab)
    assert of_lab == of_status

    # A master is killed: the status is right as soon as the other node has taken over.
    lab.kill(A)
    until(lambda: lab.active("orders-mq01") == B, PATIENCE, "B active")
    found_now = read_lab_status(lab)
    assert found_now.states_by_host == {A: "stopped", B: "active", SHOP_A: "active", SHOP_B: "standby"}
    assert ("standby-missing", A) in {(finding.rule, finding.host) for finding in found_now.findings}
    lab.start(A)

    # The store is full: 1 MB of it, by messages of 200 kB.
    with suppress(LabError):
        addresses = lab.addresses(B, "stomp")
        stomp_send(addresses, "/queue/big", ["x" * 200_000] * 12, lab.credentials(B), timeout=4)
    assert ("store-full", B) in finding_rules(lab)

    # Another release is planned than runs.
    inventory(source, "5.18.3")
    lab.prepare()
    assert {("wrong-release", A), ("wrong-release", B), ("not-deployed", B)} <= finding_rules(lab)
    code, line = shown(lab, source, "orders-mq01-a", "--format", "nagios")
    assert code == 2
    assert line.startswith(f"ACTIVEMQ CRITICAL - {A} is standby; wrong-release: the broker runs release 6.3.1")
    inventory(source)
    lab.prepare()

    # A master is frozen. Its link mostly comes up half when it goes on after the far end was started again.
    lab.pause(SHOP_A)
    assert {("frozen", SHOP_A), ("no-active", SHOP_A)} <= finding_rules(lab)
    of_lab, of_status = both_states(lab)
    assert (of_lab[SHOP_A], of_lab) == ("hung", of_status)
    until(lambda: provoke_half_link(lab), PATIENCE, lambda: f"a half link: {link_state(lab)}")
    assert ("bridge-half", SHOP_A) in finding_rules(lab)

    # 5.5.1 does not notice that its lock was removed: its peer takes a new one.
    remove_lock(lab, "shop-mq01")
    lost = {("lock-lost", SHOP_A), ("two-active", SHOP_A)}
    until(lambda: lost <= finding_rules(lab), PATIENCE, lambda: f"a lost lock, and two masters: {finding_rules(lab)}")


@in_every_situation
def test_further_wrong_states_are_named(tmp_path: Path, lab_of: LabOf) -> None:
    """Dead letters, a file changed by hand, a link whose login is refused, and a certificate near its end."""
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

    # Somebody changes the password of the network by hand: after a restart its link is refused.
    credentials = Path(broker_directory_paths(lab.fleet.broker(SHOP_A)).base, "current/conf/credentials.properties")
    credentials.chmod(0o600)
    credentials.write_text(credentials.read_text().replace("s3cret-network", "another"))
    lab.stop(SHOP_A)
    lab.start(SHOP_A)
    wanted = {("changed-by-hand", SHOP_A), ("bridge-down", SHOP_A)}
    until(lambda: wanted <= finding_rules(lab), PATIENCE, lambda: f"a refused link: {finding_rules(lab)}")


def _started(lab: Lab) -> float:
    return max(lab.started_at(host) or 0.0 for host in (A, B))
