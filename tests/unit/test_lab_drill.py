"""Parts of a drill in the lab: load generators and their accounts, states over time, event journals on disk."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.audit.scraped_availability import ActivePeriod, ScrapedAvailability, UnservedPeriod
from activemq_fleet.drills.accounting import AgentJournal, count_event_outcomes
from activemq_fleet.drills.model import BrokerStateSpan, Fault
from activemq_fleet.errors import InputError
from activemq_fleet.lab.agent_load_generator import TwoAgentLoadSpec
from activemq_fleet.lab.drill_files import (
    broker_state_changes_since,
    fault_with_scraped_downtime,
    pair_outcomes_and_faults,
    read_agent_journal,
    state_spans,
)
from activemq_fleet.lab.load_process import specs_from_json, specs_to_json
from activemq_fleet.lab.load_spec import make_load_spec, supports_mqtt_agents
from activemq_fleet.lab.stomp_load_generator import StompLoadSpec
from activemq_fleet.topology import Fleet, build_fleet
from tests.support.drilled_pair import A, B
from tests.unit.fleets import hosts

SHOP = "shop01.example.com"
RESTRICTED_ACL = {"destination": "secret.>", "kind": "topic", "read": ["boss"], "write": ["boss"], "admin": ["boss"]}

PAIR = "orders-mq01"


def fleet_of(agent: dict[str, Any] | None = None, **variables: Any) -> Fleet:
    host_variables = hosts("orders-mq01", network_username="network", network_password="s3cret-n", **variables)
    if agent is not None:
        agent_settings = {"username": "shop01", "password": "s3cret-a", **agent}
        host_variables[SHOP] = {f"activemq_agent_{name}": value for name, value in agent_settings.items()}
        return build_fleet(host_variables, {"activemq_agents": [SHOP]})
    return build_fleet(host_variables, {})


def spec_of(fleet: Fleet) -> TwoAgentLoadSpec:
    spec = make_load_spec(fleet, fleet.pairs_by_name["orders-mq01"], 100)
    assert isinstance(spec, TwoAgentLoadSpec)
    return spec


def test_drill_load_has_account_of_brokers_if_pair_has_no_agents() -> None:
    spec = spec_of(fleet_of())

    assert spec.publisher["mb.username"] == "network"
    assert spec.topic == "fleet/lab/drill/orders-mq01/DrillEvent"
    assert spec.filters == ("fleet/lab/drill/orders-mq01/#",)


def test_drill_load_has_only_account_and_connection_options_of_agent() -> None:
    agent_settings = {"topics": ["events/#"], "handlers": "/srv/handlers.d", "metrics_address": "127.0.0.1:9000"}
    spec = spec_of(fleet_of({**agent_settings, "options": {"connecting.keepalive": "7"}}))

    assert spec.publisher["mb.username"] == "shop01"
    assert spec.publisher["mb.password"] == "s3cret-a"
    assert spec.publisher["connecting.keepalive"] == "7"
    assert not spec.publisher.keys() & {"handlers", "topics", "metrics.address", "state.directory", "mb.password.file"}
    assert spec.publisher["client.id"] != spec.subscriber["client.id"]
    assert SHOP not in (spec.publisher["client.id"], spec.subscriber["client.id"])


def test_drill_events_have_prefix_that_acls_permit_agent_to_publish_and_receive() -> None:
    agent_settings = {"topics": ["orders/Created", "events/+/#"], "publish_prefixes": ["elsewhere", "events/+/drill"]}
    spec = spec_of(fleet_of(agent_settings, acl=[RESTRICTED_ACL]))

    assert spec.topic == "events/drill/drill/DrillEvent"
    assert spec.filters == ("events/drill/drill/#",)
    assert spec.publisher["agent.name"] == SHOP


def test_drill_load_has_account_of_brokers_if_acls_permit_agent_no_prefix() -> None:
    spec = spec_of(fleet_of({"topics": ["events/#"]}, acl=[RESTRICTED_ACL]))

    assert spec.publisher["mb.username"] == "network"
    assert spec.topic == "fleet/lab/drill/orders-mq01/DrillEvent"


def test_drill_refuses_mqtt_over_tls_without_certificates_of_agent() -> None:
    tls = {"keystore": "/k", "keystore_password": "s3cret-k", "truststore": "/t", "truststore_password": "s3cret-t"}
    with pytest.raises(InputError, match="accepts MQTT only over TLS"):
        spec_of(fleet_of(tls=tls))


def test_release_without_usable_mqtt_gets_drill_load_over_stomp() -> None:
    assert supports_mqtt_agents(fleet_of().pairs_by_name["orders-mq01"])
    old_fleet = fleet_of(release="5.5.1")
    assert not supports_mqtt_agents(old_fleet.pairs_by_name["orders-mq01"])
    spec = make_load_spec(old_fleet, old_fleet.pairs_by_name["orders-mq01"], 100)
    assert isinstance(spec, StompLoadSpec)
    assert spec.addresses == ((A, 61613), (B, 61613))


def test_printed_load_spec_contains_no_password() -> None:
    assert "s3cret" not in repr(spec_of(fleet_of()))


def test_load_specs_of_both_protocols_are_restored_from_json() -> None:
    old_fleet = fleet_of(release="5.5.1")
    specs = [spec_of(fleet_of()), make_load_spec(old_fleet, old_fleet.pairs_by_name["orders-mq01"], 50)]

    assert specs_from_json(specs_to_json(specs)) == specs


def test_spans_of_broker_states_cover_drill_without_interruption() -> None:
    changes = [(14.0, "stopped"), (12.0, "hung"), (20.0, "standby"), (30.0, "active")]

    spans = state_spans(PAIR, A, "active", changes, 10.0, 25.0)  # type: ignore[arg-type]

    assert spans == [
        BrokerStateSpan(PAIR, A, "active", 10.0, 12.0),
        BrokerStateSpan(PAIR, A, "hung", 12.0, 14.0),
        BrokerStateSpan(PAIR, A, "stopped", 14.0, 20.0),
        BrokerStateSpan(PAIR, A, "standby", 20.0, 25.0),
    ]


def test_broker_state_that_did_not_change_has_single_span() -> None:
    assert state_spans(PAIR, A, "active", [(12.0, "active")], 10.0, 25.0) == [
        BrokerStateSpan(PAIR, A, "active", 10.0, 25.0)
    ]


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


def test_broker_log_has_time_of_each_state_change() -> None:
    changes = broker_state_changes_since(LOG, 0.0)

    assert [state for _, state in changes] == ["starting", "standby", "starting", "active"]
    assert changes[3][0] - changes[1][0] == pytest.approx(9.25)
    assert broker_state_changes_since(LOG, changes[2][0] + 0.1) == changes[3:]


def journal_line(jseq: int, kind: str, ts: str = "2026-11-21T13:00:00.000000Z", **fields: Any) -> str:
    return json.dumps({"agent": "shop", "epoch": "e", "jseq": jseq, "ts": ts, "kind": kind, **fields})


def test_event_journal_is_read_from_all_files_and_torn_line_is_reported(tmp_path: Path) -> None:
    directory = tmp_path / "agent"
    directory.mkdir()
    (directory / "journal-000000001.jsonl").write_text(
        f"{journal_line(1, 'started')}\n{journal_line(2, 'connected')}\n"
    )
    (directory / "journal-000000002.jsonl").write_text(
        f"{journal_line(3, 'received')[:30]}\n{journal_line(4, 'stopped')}\n"
    )

    journal = read_agent_journal(tmp_path, "the subscriber")

    assert [line.kind for line in journal.lines] == ["started", "connected", "stopped"]
    outcomes = count_event_outcomes("orders-mq01", "MQTT", AgentJournal("the publisher"), journal, [])
    assert (
        "the event journal of the subscriber lacks the records 3 to 3 of epoch e (an epoch begins when the agent "
        "creates its store)"
    ) in outcomes.gaps


def write_journal_of_event(directory: Path, agent: str, kinds: tuple[str, ...], times: list[float]) -> None:
    """Write an agent's event journal with records of these kinds for one event at each of these epoch seconds."""
    lines = [
        journal_line(number, kind, ts=datetime.fromtimestamp(at, UTC).isoformat(), event_id=f"shop:e:{at}", topic="a/b")
        for number, (at, kind) in enumerate(((at, kind) for at in times for kind in kinds), 1)
    ]
    path = directory / PAIR / agent / "agent" / "journal.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(lines))


def test_fault_without_takeover_has_no_effects_of_next_fault(tmp_path: Path) -> None:
    moments = [9.5, 10.0, 40.0, 40.5, 54.5, 55.0, 87.0, 87.5]
    write_journal_of_event(tmp_path, "publisher", ("accepted", "acknowledged"), moments)
    write_journal_of_event(tmp_path, "subscriber", ("handled",), moments)
    faults = [Fault(number=number, what="pause", pair=PAIR, host=A, at=at) for number, at in ((1, 10.25), (2, 55.25))]
    availability = ScrapedAvailability(
        1.0, (ActivePeriod(PAIR, A, 0, 100),), (UnservedPeriod(PAIR, 10, 41), UnservedPeriod(PAIR, 55, 88))
    )

    _, measured = pair_outcomes_and_faults(tmp_path, PAIR, "MQTT", faults)
    measured = [fault_with_scraped_downtime(fault, availability, faults) for fault in measured]

    effects = [(fault.silent_from, fault.silence, fault.publish_gap, fault.unserved) for fault in measured]
    assert effects == [(10.0, 30.0, 30.0, 31.0), (55.0, 32.0, 32.0, 33.0)]
