"""The decisions of the operations ``jumps`` and ``upgrade`` from the evidence of hosts."""

from __future__ import annotations

import time
from typing import Any

import pytest

from activemq_fleet.deployment import BrokerFacts, FleetFacts, StoreFacts, broker_facts
from activemq_fleet.node.config.broker_configuration import (
    message_store_facts,
    read_deployed_broker_settings,
)
from activemq_fleet.node.config.versions import ConfigurationPaths
from activemq_fleet.operations import OperationDecisionRequest, RefusalError, decide_operation
from activemq_fleet.operations.operation_decisions import HostProgress, RunProgress
from activemq_fleet.render import render_broker
from tests.unit.fleets import fleet

A, B = "orders-mq01-a.example.com", "orders-mq01-b.example.com"
JDBC = {
    "ha": "shared-jdbc",
    "jdbc": {"url": "jdbc:h2:tcp://db/x", "driver": "org.h2.Driver", "username": "u", "password": "p"},
}


def facts_by_host(**variables: Any) -> dict[str, BrokerFacts]:
    """Return the facts of the brokers as ``compile`` computes them."""
    brokers = fleet("orders-mq01", **variables).brokers
    return {broker.host: broker_facts(broker, render_broker(broker)["conf/activemq.xml"]) for broker in brokers}


def broker_evidence(state: str, release: str, **overrides: Any) -> dict[str, Any]:
    """Return the evidence of a healthy broker as ``broker_info`` returns it."""
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
        **overrides,
    }


def decide_upgrade(
    operation: str,
    evidence: dict[str, dict[str, Any]],
    acted: dict[str, list[str]] | None = None,
    waited: float = 0,
    **variables: Any,
) -> Any:
    request = OperationDecisionRequest(
        fleet=FleetFacts(brokers=facts_by_host(**{"release": "6.3.1", **variables})),
        evidence=evidence,
        target={"since_epoch": time.time(), "chosen": [A, B]},
        progress=RunProgress(
            waited=waited, hosts={host: HostProgress(acted=tuple(acts)) for host, acts in (acted or {}).items()}
        ),
        options={"looked_at": time.time(), "settle": 10},
        warn=lambda _: None,
    )
    return decide_operation(operation, request)


def test_decision_jumps_reports_current_and_wanted_release_of_pair() -> None:
    jumps = decide_upgrade("jumps", {A: broker_evidence("active", "5.18.3"), B: broker_evidence("standby", "5.18.3")})[
        "jumps"
    ]
    assert list(jumps) == ["orders-mq01"]
    assert (jumps["orders-mq01"]["found"], jumps["orders-mq01"]["wanted"]) == ("5.18.3", "6.3.1")
    assert jumps["orders-mq01"]["back"] == "open"


def test_pair_with_wanted_release_has_no_jump() -> None:
    evidence = {A: broker_evidence("active", "6.3.1"), B: broker_evidence("standby", "6.3.1")}
    decision = decide_upgrade("jumps", evidence)
    assert (decision["jumps"], decision["step"]["act"]) == ({}, "done")
    assert decide_upgrade("upgrade", evidence)["step"]["act"] == "done"


def test_decision_jumps_waits_for_unhealthy_pair_and_then_refuses_it() -> None:
    evidence = {A: broker_evidence("hung", "5.18.3"), B: broker_evidence("standby", "5.18.3")}
    assert decide_upgrade("jumps", evidence)["step"]["act"] == "wait"
    with pytest.raises(RefusalError, match=f"{A}: the broker is hung .*; systemd then starts the broker again"):
        decide_upgrade("jumps", evidence, waited=60)


def test_only_first_upgrade_step_of_pair_allows_rollback() -> None:
    evidence = {A: broker_evidence("active", "5.11.4"), B: broker_evidence("standby", "5.11.4")}
    step = decide_upgrade("upgrade", evidence)["step"]
    assert (step["act"], step["hosts"], step["peer"]) == ("upgrade", [B], A)
    assert step["put_back"] is True
    evidence = {A: broker_evidence("standby", "5.11.4"), B: broker_evidence("active", "6.3.1")}
    step = decide_upgrade("upgrade", evidence)["step"]
    assert (step["act"], step["hosts"], step["peer"]) == ("upgrade", [A], B)
    assert step["put_back"] is False


def test_switchovers_are_counted_per_host() -> None:
    evidence = {A: broker_evidence("active", "5.18.3"), B: broker_evidence("standby", "6.3.1")}
    assert decide_upgrade("upgrade", evidence, {A: ["switch"], B: ["upgrade"]})["step"]["act"] == "switch"
    with pytest.raises(RefusalError, match="3 times, but each time this broker acquired the lock again"):
        decide_upgrade("upgrade", evidence, {A: ["switch"] * 3, B: ["upgrade"]})


def test_decision_jumps_refuses_pair_with_different_store_directory() -> None:
    evidence = {
        A: broker_evidence("active", "5.18.3", store="/elsewhere"),
        B: broker_evidence("standby", "5.18.3", store="/elsewhere"),
    }
    with pytest.raises(RefusalError, match="Set activemq_store_directory to /elsewhere"):
        decide_upgrade("jumps", evidence)


@pytest.mark.parametrize(
    ("variables", "kind", "pure", "database"),
    [
        ({}, "kahaDB", False, None),
        ({"fence": "guard", "uid": 990, "gid": 990}, "kahaDB", False, None),
        ({"ha": "pure", "release": "5.5.1"}, "kahaDB", True, None),
        (JDBC, "jdbcPersistenceAdapter", False, "jdbc:h2:tcp://db/x"),
    ],
)
def test_facts_of_rendered_broker_describe_its_store(
    variables: dict[str, Any], kind: str, pure: bool, database: str | None
) -> None:
    for facts in facts_by_host(**variables).values():
        assert facts.persistence == StoreFacts(kind, facts.directory, None, pure, database)


def test_facts_about_store_of_fragment_have_directory_of_fragment() -> None:
    store = {"parent": "broker/persistenceAdapter", "xml": '<kahaDB directory="${activemq.data}/other"/>'}
    for facts in facts_by_host(ha="none", xml_fragments=[store]).values():
        assert facts.persistence == StoreFacts("kahaDB", "/var/lib/activemq/activemq/data/other")


@pytest.mark.parametrize("variables", [{}, {"ha": "pure", "release": "5.5.1"}])
def test_inventory_and_deployed_configuration_have_same_store_directory(
    tmp_path: Any, variables: dict[str, Any]
) -> None:
    broker = fleet("orders-mq01", **variables).broker(A)
    facts = broker_facts(broker)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "activemq.xml").write_bytes(render_broker(broker)["conf/activemq.xml"])
    assert read_deployed_broker_settings(ConfigurationPaths(facts.base), str(tmp_path)).store == facts.directory


@pytest.mark.parametrize("kind", ["levelDB", "amqPersistenceAdapter", "mKahaDB"])
def test_kind_of_store_comes_from_its_xml_element(kind: str) -> None:
    store = f"<persistenceAdapter><{kind}/></persistenceAdapter>"
    document = f'<beans><broker xmlns="x" storeOpenWireVersion="6">{store}</broker></beans>'
    facts = message_store_facts(document.encode(), "/base")
    assert (facts["kind"], facts["openwire"], facts["pure"], facts["directory"]) == (kind, 6, False, None)


def test_configuration_without_store_has_no_kind() -> None:
    assert message_store_facts(b'<beans><broker persistent="false"/></beans>', "/base")["kind"] is None
