"""A hostile host.json invalidates the description of its host, and does not stop the audit (attack p15)."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from activemq_fleet.spark.inputs import AuditedHost, AuditInputs, InputFile, inputs_from_files

HOST = "orders-mq01-a.example.com"
PEER = "orders-mq01-b.example.com"


def inputs_with(
    content: bytes,
    of_peer: bytes = b'{"pair": "orders-mq01", "timezone": "UTC"}',
    inventory_hosts: Mapping[str, AuditedHost] | None = None,
) -> AuditInputs:
    """Return inputs of two hosts, of which the first has this content of host.json."""
    files = tuple(
        InputFile(f"file:/x/{host}/{name}", host, name, kind, 10, False)  # type: ignore[arg-type]
        for host in (HOST, PEER)
        for name, kind in (("activemq.log", "log"), ("host.json", "host"))
    )
    contents = {(HOST, "host.json"): content, (PEER, "host.json"): of_peer}
    return inputs_from_files("file:/x", files, contents, inventory_hosts)


@pytest.mark.parametrize(
    "content",
    [
        b'{"generations":[{"number":1,"made":1' + b"0" * 400 + b"}]}",
        b'{"generations":[{"number":1,"made":NaN}]}',
        b'{"generations":[{"number":1,"made":1e999}]}',
        b"[" * 200_000,
        b'{"x":"\xff"}',
        b"[]",
    ],
)
def test_unusable_host_json_is_reported_and_host_json_of_peer_is_read(content: bytes) -> None:
    inputs = inputs_with(content)

    assert inputs.hosts[HOST] == AuditedHost(HOST, pair="orders-mq01", problems=inputs.hosts[HOST].problems)
    assert f"{HOST}: the file host.json cannot be used (" in inputs.problems[0]
    assert inputs.hosts[PEER].pair == "orders-mq01"


@pytest.mark.parametrize(
    ("content", "of_peer", "pairs"),
    [
        (b"{broken", b'{"timezone": "UTC"}', ("orders-mq01", "orders-mq01")),
        (b"{broken", b'{"group": "g", "pair": "other"}', ("other", "other")),
        (b"{broken", b'{"group": "g", "pair": null}', (None, None)),
        (b'{"group": "g"}', b'{"group": "g"}', (None, None)),
    ],
)
def test_host_json_without_group_and_pair_leaves_pair_to_host_names(
    content: bytes, of_peer: bytes, pairs: tuple[str | None, str | None]
) -> None:
    hosts = inputs_with(content, of_peer).hosts
    assert (hosts[HOST].pair, hosts[PEER].pair) == pairs


def test_pair_of_inventory_precedes_pair_of_host_names() -> None:
    hosts = inputs_with(b"{broken", b"{}", {HOST: AuditedHost(HOST, group="g")}).hosts
    assert (hosts[HOST].pair, hosts[PEER].pair) == (None, None)


@pytest.mark.parametrize("zone", ["../../../../etc/passwd", "x" * 100_000, "a\0b", "\ud800"])
def test_invalid_time_zone_in_host_json_counts_as_utc(zone: str) -> None:
    inputs = inputs_with(
        json.dumps({"timezone": zone, "pair": "a\ud800b", "generations": [1, {"number": "x"}]}).encode()
    )

    assert (inputs.hosts[HOST].timezone, inputs.hosts[HOST].pair) == ("UTC", "a\\ud800b")


def test_records_of_subscriptions_at_risk_in_host_json_are_typed_and_bounded() -> None:
    valid = {"time": 1_700_000_000, "path": "/store/at-risk/1.json", "description": "x" * 5000 + "\x1b[2J"}
    invalid_records = [
        *(valid | {name: value} for name in valid for value in (None, [1], {"a": 1}, 1e18, -1e18)),
        {},
        "a",
        None,
    ]
    inputs = inputs_with(json.dumps({"timezone": "UTC", "risk_records": [*invalid_records, *[valid] * 1000]}).encode())
    assert len(inputs.hosts[HOST].risks) == 100
    assert {len(risk.description) for risk in inputs.hosts[HOST].risks} == {1000}
    for records in (None, 1, "x", {"a": 1}, invalid_records):
        content = json.dumps({"timezone": "UTC", "risk_records": records}).encode()
        assert inputs_with(content).hosts[HOST].risks == ()
