"""Results of drills for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from activemq_fleet.drills.drill_verdict import drill_verdict_and_reasons
from activemq_fleet.drills.model import BrokerStateSpan, DrillResult, DrillSettingsAndMachine, Fault, PairEventCounts
from activemq_fleet.lab.drill_files import state_spans

BEGAN = 1_795_269_479.0
A, B = "orders-mq01-a.example.com", "orders-mq01-b.example.com"
FAULT = Fault(
    number=1,
    what="kill",
    pair="orders-mq01",
    host=A,
    at=BEGAN + 10,
    successor=B,
    takeover=3.5,
    back=8.0,
    silence=4.5,
    silent_from=BEGAN + 10,
    publish_gap=4.0,
    rate_accepted=101.0,
    rate_handled=99.0,
    in_flight=3,
)
ACCOUNT = PairEventCounts(pair="orders-mq01", protocol="MQTT", accepted=1000, acknowledged=1000, handled=1000)


def result_of(faults: Sequence[Fault], accounts: Sequence[PairEventCounts], **changed: Any) -> DrillResult:
    """Return the result of a drill, with the verdict that follows from these faults and accounts."""
    wanted = len({(fault.pair, fault.number) for fault in faults})
    verdict, reasons = drill_verdict_and_reasons(faults, accounts, wanted)
    pairs = {account.pair: "6.3.1" for account in accounts}
    conditions = DrillSettingsAndMachine(
        where="lab",
        what="kill",
        wanted=wanted,
        rate=100,
        seed=7,
        target="the whole fleet",
        releases=pairs,
        profiles=dict.fromkeys(pairs, "shared-file"),
        protocols=dict.fromkeys(pairs, "MQTT"),
        machine={"processors": "2"},
    )
    ended = max([fault.at for fault in faults], default=BEGAN) + 20
    content = {"faults": tuple(faults), "accounts": tuple(accounts), "spans": tuple(_spans(faults, ended))}
    return DrillResult(
        verdict=verdict, reasons=reasons, began=BEGAN, ended=ended, conditions=conditions, **{**content, **changed}
    )


def _spans(faults: Sequence[Fault], ended: float) -> list[BrokerStateSpan]:
    changes: dict[str, list[tuple[float, Any]]] = {}
    for fault in faults:
        changes.setdefault(fault.host, []).append((fault.at, "stopped"))
        changes[fault.host].append((fault.at + (fault.back or 9), "standby"))
        successor = fault.successor or B
        changes.setdefault(successor, []).append((fault.at + (fault.takeover or 5), "active"))
    pair_of = {host: fault.pair for fault in faults for host in (fault.host, fault.successor or B)}
    first_state_by_host = {host: "active" if host.partition(".")[0].endswith("a") else "standby" for host in changes}
    return [
        span
        for host in sorted(changes)
        for span in state_spans(pair_of[host], host, first_state_by_host[host], changes[host], BEGAN, ended)  # type: ignore[arg-type]
    ]


def drill_with_faults(count: int, pairs: Sequence[str] = ("orders-mq01", "orders-mq02", "billing-mq01")) -> DrillResult:
    """Return a drill with this many successive faults, whose downtimes are similar and sometimes equal."""
    faults = []
    for number in range(1, count + 1):
        pair = pairs[number % len(pairs)]
        nodes = [f"{pair}-a.example.com", f"{pair}-b.example.com"]
        victim = nodes[(number // len(pairs)) % 2]
        at = BEGAN + 5 + 15 * number
        length = 3 + (number * 7 % 10) / 4
        faults.append(
            Fault(
                number=number,
                what="kill",
                pair=pair,
                host=victim,
                at=at,
                successor=next(node for node in nodes if node != victim),
                takeover=length,
                back=length + 4,
                silence=length + 0.6,
                silent_from=at,
                publish_gap=length + 0.4,
                rate_accepted=100,
                rate_handled=100,
            )
        )
    accounts = [PairEventCounts(pair=p, protocol="MQTT", accepted=9000, acknowledged=9000, handled=9000) for p in pairs]
    return result_of(faults, accounts)
