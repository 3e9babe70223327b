"""A broker that accepts every client and rejects every message: no command reports it as active."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from pydantic import SecretStr

from activemq_fleet.addresses import Address
from activemq_fleet.errors import LabError
from activemq_fleet.lab.polling import poll_for_true_result
from activemq_fleet.node.config.probe_account import Login
from activemq_fleet.node.probe.connector_probe import ProbeAnswer, probe_connector
from activemq_fleet.node.state.broker_state import gather_broker_state
from activemq_fleet.topology.access import probe_password_of
from tests.integration.conftest import LabOf
from tests.integration.labs import write_inventory
from tests.integration.single_brokers import BrokerSandbox, document
from tests.integration.waiting import PATIENCE
from tests.situations import in_every_situation
from tests.support.watched_labs import watched_broker

HOST = "till-mq01-a.example.com"
NULL_TRANSACTION = 'Cannot invoke "org.apache.activemq.transaction.Transaction.size()" because "transaction" is null'


@in_every_situation
def test_max_uncommitted_network_is_unhealthy_with_reason_of_broker(sandbox: BrokerSandbox) -> None:
    broker = sandbox.add_broker(
        "uncommitted", "6.1.8", document("uncommitted", sandbox.address(1), maxUncommittedCount="5000")
    )
    assert broker.boot().fate == "started", broker.output
    watchdog = watched_broker(broker)

    state = gather_broker_state(str(broker.data.parent), None)
    for _ in range(3):
        watchdog.check_broker()

    assert state["state"] == "unhealthy", state
    assert NULL_TRANSACTION in state["how"]
    assert watchdog._streak.kind == "odd"
    assert broker.settle(0.1).exit_code is None


@in_every_situation
@pytest.mark.timeout(600)
def test_lab_of_max_uncommitted_network_does_not_come_up(lab_of: LabOf, tmp_path: Path) -> None:
    lab = lab_of(
        write_inventory(
            tmp_path / "inventory",
            [HOST],
            release="6.1.8",
            ha="none",
            network_username="network",
            network_password="k3Tz8wQp1xx",
            users=[{"name": "shop", "password": "aB3dE5fG7h", "groups": ["shops"]}],
            broker_attributes={"maxUncommittedCount": 5000},
        )
    )
    lab.prepare()
    password = probe_password_of(lab.fleet.broker(HOST).settings)
    assert isinstance(password, SecretStr)
    login = Login("activemq-probe", password.get_secret_value())
    # The lab stops a broker that does not become ready, so the test probes the broker while the lab waits.
    with ThreadPoolExecutor(max_workers=1) as pool:
        lab_start = pool.submit(lab.up, timeout=60)
        answers = {
            protocol: poll_for_true_result(
                partial(probe_if_greeted, protocol, lab.addresses(HOST, protocol)[0], login), PATIENCE
            )
            for protocol in ("stomp", "mqtt")
        }
        with pytest.raises(LabError, match="unhealthy") as refusal:
            lab_start.result()
    assert NULL_TRANSACTION in str(refusal.value)
    details = {protocol: answer.detail for protocol, answer in answers.items() if answer}
    assert NULL_TRANSACTION in details["stomp"]
    assert "and then sends no data" in details["mqtt"]
    assert [(answer.answered, answer.returned) for answer in answers.values() if answer] == [(False, False)] * 2


def probe_if_greeted(protocol: str, address: Address, login: Login) -> ProbeAnswer | None:
    """Return the outcome of a probe if the broker sends a greeting; return None if it does not do so yet."""
    probe_answer = probe_connector(protocol, address, login)
    return probe_answer if probe_answer.greeted else None
