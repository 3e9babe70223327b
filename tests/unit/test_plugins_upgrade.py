"""From what a host shows to the decision of the operations ``jumps`` and ``upgrade``."""

from __future__ import annotations

import time
from typing import Any

import pytest

from activemq_fleet.deployment import BrokerFacts, FleetFacts, StoreFacts, broker_facts
from activemq_fleet.node.config.broker_configuration import (
    message_store_facts,
    read_deployed_configuration,
)
from activemq_fleet.node.config.versions import ConfigurationPaths
from activemq_fleet.operations import OperationDecisionRequest, RefusalError, decide_operation
from activemq_fleet.operations.requests import HostProgress, RunProgress
from activemq_fleet.render import render_broker
from tests.unit.fleets import fleet

A, B = "orders-mq01-a.example.com", "orders-mq01-b.example.com"
JDBC = {
    "ha": "shared-jdbc",
    "jdbc": {"url": "jdbc:h2:tcp://db/x", "driver": "org.h2.Driver", "username": "u", "password": "p"},
}


def brokers(**variables: Any) -> dict[str, BrokerFacts]:
    """As ``compile`` computes them."""
    found = fleet("orders-mq01", **variables).brokers
    return {broker.host: broker_facts(broker, render_broker(broker)["conf/activemq.xml"]) for broker in found}


def look(state: str, release: str, **more: Any) -> dict[str, Any]:
    """As ``broker_info`` returns it of a broker that is well."""
    return {
        "state": state,
        "how": "seen",
        "pid": 7,
        "age": 1000.0,
        "release": release,
        "version": "v1",
        "restart_required": False,
        "previous": None,
        "unit": {"ActiveState": "active", "MainPID": "7"},
        "store": "/srv/activemq/orders-mq01",
        "store_marker": ["orders-mq01"],
        "persistence": {"kind": "kahaDB", "openwire": None, "pure": False},
        **more,
    }


def ask(
    operation: str,
    looks: dict[str, dict[str, Any]],
    acted: dict[str, list[str]] | None = None,
    waited: float = 0,
    **more: Any,
) -> Any:
    request = OperationDecisionRequest(
        fleet=FleetFacts(brokers=brokers(**{"release": "6.3.1", **more})),
        evidence=looks,
        target={"since_epoch": time.time(), "chosen": [A, B]},
        progress=RunProgress(
            waited=waited, hosts={host: HostProgress(acted=tuple(acts)) for host, acts in (acted or {}).items()}
        ),
        options={"looked_at": time.time(), "settle": 10},
        warn=lambda _: None,
    )
    return decide_operation(operation, request)


def test_the_way_of_a_pair_is_told_before_anything_is_touched() -> None:
    told = ask("jumps", {A: look("active", "5.18.3"), B: look("standby", "5.18.3")})["jumps"]
    assert list(told) == ["orders-mq01"]
    assert (told["orders-mq01"]["found"], told["orders-mq01"]["wanted"]) == ("5.18.3", "6.3.1")
    assert told["orders-mq01"]["back"] == "open"


def test_a_pair_that_has_no_way_to_go_is_told_nothing() -> None:
    looks = {A: look("active", "6.3.1"), B: look("standby", "6.3.1")}
    found = ask("jumps", looks)
    assert (found["jumps"], found["step"]["act"]) == ({}, "done")
    assert ask("upgrade", looks)["step"]["act"] == "done"


def test_a_pair_that_is_ill_is_waited_for_or_refused_before_anything_is_installed() -> None:
    looks = {A: look("hung", "5.18.3"), B: look("standby", "5.18.3")}
    assert ask("jumps", looks)["step"]["act"] == "wait"
    with pytest.raises(RefusalError, match=f"{A}: the broker is hung .*; systemd then starts the broker again"):
        ask("jumps", looks, waited=60)


def test_a_step_says_whether_the_old_release_may_come_back() -> None:
    first = ask("upgrade", {A: look("active", "5.11.4"), B: look("standby", "5.11.4")})["step"]
    assert (first["act"], first["hosts"], first["peer"], first["put_back"]) == ("upgrade", [B], A, True)
    last = ask("upgrade", {A: look("standby", "5.11.4"), B: look("active", "6.3.1")})["step"]
    assert (last["act"], last["hosts"], last["peer"], last["put_back"]) == ("upgrade", [A], B, False)


def test_switch_overs_are_counted_by_host() -> None:
    looks = {A: look("active", "5.18.3"), B: look("standby", "6.3.1")}
    assert ask("upgrade", looks, {A: ["switch"], B: ["upgrade"]})["step"]["act"] == "switch"
    with pytest.raises(RefusalError, match="3 times, but each time this broker acquired the lock again"):
        ask("upgrade", looks, {A: ["switch"] * 3, B: ["upgrade"]})


def test_a_store_that_runs_elsewhere_is_refused() -> None:
    looks = {A: look("active", "5.18.3", store="/elsewhere"), B: look("standby", "5.18.3", store="/elsewhere")}
    with pytest.raises(RefusalError, match="Set activemq_store_directory to /elsewhere"):
        ask("jumps", looks)


@pytest.mark.parametrize(
    ("variables", "kind", "pure"),
    [
        ({}, "kahaDB", False),
        ({"ha": "pure", "release": "5.5.1"}, "kahaDB", True),
        (JDBC, "jdbcPersistenceAdapter", False),
    ],
)
def test_what_we_render_says_where_its_messages_are(variables: dict[str, Any], kind: str, pure: bool) -> None:
    for facts in brokers(**variables).values():
        assert facts.persistence == StoreFacts(kind, facts.directory, None, pure)


@pytest.mark.parametrize("variables", [{}, {"ha": "pure", "release": "5.5.1"}])
def test_the_inventory_and_the_host_name_one_directory(tmp_path: Any, variables: dict[str, Any]) -> None:
    broker = fleet("orders-mq01", **variables).broker(A)
    facts = broker_facts(broker)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "activemq.xml").write_bytes(render_broker(broker)["conf/activemq.xml"])
    assert read_deployed_configuration(ConfigurationPaths(facts.base), str(tmp_path)).store == facts.directory


@pytest.mark.parametrize("kind", ["levelDB", "amqPersistenceAdapter", "mKahaDB"])
def test_another_store_is_known_by_its_element(kind: str) -> None:
    store = f"<persistenceAdapter><{kind}/></persistenceAdapter>"
    document = f'<beans><broker xmlns="x" storeOpenWireVersion="6">{store}</broker></beans>'
    assert message_store_facts(document.encode()) == {"kind": kind, "openwire": 6, "pure": False}


def test_a_configuration_without_a_store_has_none() -> None:
    assert message_store_facts(b'<beans><broker persistent="false"/></beans>')["kind"] is None
