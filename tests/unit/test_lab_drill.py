"""What a drill in the lab is made of: load generators and their accounts, states over time, journals read from disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.drills.accounting import AgentJournal, count_event_outcomes
from activemq_fleet.drills.model import StateSpan
from activemq_fleet.errors import LabError
from activemq_fleet.lab.agent_load_generator import TwoAgentLoadSpec
from activemq_fleet.lab.drill_files import broker_state_changes_since, read_agent_journal, state_spans
from activemq_fleet.lab.load_process import specs_from_json, specs_to_json
from activemq_fleet.lab.load_spec import make_load_spec, supports_mqtt_agents
from activemq_fleet.lab.stomp_load_generator import StompLoadSpec
from activemq_fleet.topology import Fleet, build_fleet
from tests.support.drilled_pair import A, B
from tests.unit.fleets import hosts

SHOP = "shop01.example.com"
BOSS = {"destination": "secret.>", "kind": "topic", "read": ["boss"], "write": ["boss"], "admin": ["boss"]}

PAIR = "orders-mq01"


def fleet_of(agent: dict[str, Any] | None = None, **variables: Any) -> Fleet:
    found = hosts("orders-mq01", network_username="network", network_password="s3cret-n", **variables)
    if agent is not None:
        own = {"username": "shop01", "password": "s3cret-a", **agent}
        found[SHOP] = {f"activemq_agent_{name}": value for name, value in own.items()}
        return build_fleet(found, {"activemq_agents": [SHOP]})
    return build_fleet(found, {})


def spec_of(fleet: Fleet) -> TwoAgentLoadSpec:
    spec = make_load_spec(fleet, fleet.pairs_by_name["orders-mq01"], 100)
    assert isinstance(spec, TwoAgentLoadSpec)
    return spec


def test_without_agents_an_account_of_the_brokers_is_lent() -> None:
    spec = spec_of(fleet_of())

    assert spec.publisher["mb.username"] == "network"
    assert spec.topic == "fleet/lab/drill/orders-mq01/DrillEvent"
    assert spec.filters == ("fleet/lab/drill/orders-mq01/#",)


def test_an_agent_of_the_pair_lends_its_account_and_its_times_and_nothing_of_its_own() -> None:
    own = {"topics": ["events/#"], "handlers": "/srv/handlers.d", "metrics_address": "127.0.0.1:9000"}
    spec = spec_of(fleet_of({**own, "options": {"connecting.keepalive": "7"}}))

    assert spec.publisher["mb.username"] == "shop01"
    assert spec.publisher["mb.password"] == "s3cret-a"
    assert spec.publisher["connecting.keepalive"] == "7"
    assert not spec.publisher.keys() & {"handlers", "topics", "metrics.address", "state.directory", "mb.password.file"}
    assert spec.publisher["client.id"] != spec.subscriber["client.id"]
    assert SHOP not in (spec.publisher["client.id"], spec.subscriber["client.id"])


def test_events_use_prefix_that_acls_let_agent_publish_and_receive() -> None:
    own = {"topics": ["orders/Created", "events/+/#"], "publish_prefixes": ["elsewhere", "events/+/drill"]}
    spec = spec_of(fleet_of(own, acl=[BOSS]))

    assert spec.topic == "events/drill/drill/DrillEvent"
    assert spec.filters == ("events/drill/drill/#",)
    assert spec.publisher["agent.name"] == SHOP


def test_where_there_are_acls_and_no_such_prefix_an_account_of_the_brokers_is_lent() -> None:
    spec = spec_of(fleet_of({"topics": ["events/#"]}, acl=[BOSS]))

    assert spec.publisher["mb.username"] == "network"
    assert spec.topic == "fleet/lab/drill/orders-mq01/DrillEvent"


def test_mqtt_over_tls_without_an_agents_certificates_is_refused() -> None:
    tls = {"keystore": "/k", "keystore_password": "s3cret-k", "truststore": "/t", "truststore_password": "s3cret-t"}
    with pytest.raises(LabError, match="accepts MQTT only over TLS"):
        spec_of(fleet_of(tls=tls))


def test_a_release_without_a_usable_mqtt_takes_its_load_over_stomp() -> None:
    assert supports_mqtt_agents(fleet_of().pairs_by_name["orders-mq01"])
    old = fleet_of(release="5.5.1")
    assert not supports_mqtt_agents(old.pairs_by_name["orders-mq01"])
    spec = make_load_spec(old, old.pairs_by_name["orders-mq01"], 100)
    assert isinstance(spec, StompLoadSpec)
    assert spec.addresses == ((A, 61613), (B, 61613))


def test_no_password_shows_where_a_spec_is_printed() -> None:
    assert "s3cret" not in repr(spec_of(fleet_of()))


def test_specs_of_both_protocols_survive_json() -> None:
    old = fleet_of(release="5.5.1")
    specs = [spec_of(fleet_of()), make_load_spec(old, old.pairs_by_name["orders-mq01"], 50)]

    assert specs_from_json(specs_to_json(specs)) == specs


def test_states_have_no_hole_from_the_beginning_to_the_end() -> None:
    changes = [(14.0, "stopped"), (12.0, "hung"), (20.0, "standby"), (30.0, "active")]

    found = state_spans(PAIR, A, "active", changes, 10.0, 25.0)  # type: ignore[arg-type]

    assert found == [
        StateSpan(PAIR, A, "active", 10.0, 12.0),
        StateSpan(PAIR, A, "hung", 12.0, 14.0),
        StateSpan(PAIR, A, "stopped", 14.0, 20.0),
        StateSpan(PAIR, A, "standby", 20.0, 25.0),
    ]


def test_a_state_that_did_not_change_is_one_span() -> None:
    assert state_spans(PAIR, A, "active", [(12.0, "active")], 10.0, 25.0) == [StateSpan(PAIR, A, "active", 10.0, 25.0)]


LOG = """\
2026-11-21 13:00:00,000 | INFO  | Using Persistence Adapter: KahaDBPersistenceAdapter[/s] \
| org.apache.activemq.broker.BrokerService | main
2026-11-21 13:00:01,500 | INFO  | Database /s/lock is locked by another server. This broker is now in slave mode \
waiting a lock to be acquired | org.apache.activemq.store.SharedFileLocker | main
2026-11-21 13:00:09,250 | INFO  | Apache ActiveMQ 6.3.1 (orders-mq01, ID:x) is starting \
| org.apache.activemq.broker.BrokerService | main
2026-11-21 13:00:10,750 | INFO  | Apache ActiveMQ 6.3.1 (orders-mq01, ID:x) started \
| org.apache.activemq.broker.BrokerService | main
"""


def test_a_log_tells_when_a_broker_came_into_which_state() -> None:
    changes = broker_state_changes_since(LOG, 0.0)

    assert [state for _, state in changes] == ["starting", "standby", "starting", "active"]
    assert changes[3][0] - changes[1][0] == pytest.approx(9.25)
    assert broker_state_changes_since(LOG, changes[2][0] + 0.1) == changes[3:]


def line(jseq: int, kind: str, **more: Any) -> str:
    return json.dumps(
        {"agent": "shop", "epoch": "e", "jseq": jseq, "ts": "2026-11-21T13:00:00.000000Z", "kind": kind, **more}
    )


def test_a_journal_is_read_over_its_files_and_a_torn_line_leaves_a_gap(tmp_path: Path) -> None:
    directory = tmp_path / "agent"
    directory.mkdir()
    (directory / "journal-000000001.jsonl").write_text(f"{line(1, 'started')}\n{line(2, 'connected')}\n")
    (directory / "journal-000000002.jsonl").write_text(f"{line(3, 'received')[:30]}\n{line(4, 'stopped')}\n")

    journal = read_agent_journal(tmp_path, "the subscriber")

    assert [line.kind for line in journal.lines] == ["started", "connected", "stopped"]
    found = count_event_outcomes("orders-mq01", "MQTT", AgentJournal("the publisher"), journal, [])
    assert (
        "the event journal of the subscriber lacks the records 3 to 3 of epoch e (an epoch begins when the agent "
        "creates its store)"
    ) in found.gaps
