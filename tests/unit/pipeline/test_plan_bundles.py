"""A group's row says of its hosts what the row of each of them would say."""

from __future__ import annotations

import dataclasses
import json
import random
from collections import defaultdict
from collections.abc import Iterable
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest

from activemq_fleet.naming import DEFAULT_PATTERN
from activemq_fleet.spark.plan.bundles import MEMBERS, SCHEMA, apart, bundles, in_order, members
from activemq_fleet.spark.plan.digest import Digest
from activemq_fleet.spark.plan.facts import facts_of
from activemq_fleet.spark.plan.records import Record, text_of
from activemq_fleet.spark.plan.rows import HOST, LINK, Row, rows_of
from tests.unit.pipeline.planned import Groups, Hosts, pairs, tangled

JDBC = {"driver": "org.x.Driver", "username": "amq", "password": "only-jdbc"}


def fleet() -> tuple[Hosts, Groups]:
    hosts, groups = tangled()
    for number in (1, 2, 3):
        hosts |= pairs(f"base-mq{number:02d}", ha="shared-jdbc", jdbc=JDBC | {"url": f"jdbc:x://db/{number % 2}"})
    hosts |= pairs("dials-mq01", "dials-mq02", java_options=["-Dx=north-mq01-a:1"], environment="test")
    hosts |= pairs("early-mq01") | pairs("early-mq02", release="5.5.1", ha="pure")
    hosts |= pairs("wrong-mq09", heap=3) | {"nothing-mq01-a.example.com": {}, "no one": {}}
    return hosts, groups


def batches(records: Iterable[Record], size: int) -> list[pa.RecordBatch]:
    lines = [
        json.dumps({"host": one.host, "variables": json.loads(text_of(one.variables)), "groups": list(one.groups)})
        for one in records
    ]
    whole = pa.RecordBatch.from_pydict({"text": lines})
    return [whole.slice(start, size) for start in range(0, len(lines), size)]


def records_of(hosts: Hosts, groups: Groups) -> list[Record]:
    member = {host: tuple(name for name, found in groups.items() if host in found) for host in hosts}
    return [Record(host, hosts[host], member[host]) for host in hosts]


Both = tuple[dict[str, dict[str, Any]], list[dict[str, Any]], Digest]


@pytest.fixture(params=[(7, 3), (11, 1000), (13, 1)], scope="module")
def both(request: pytest.FixtureRequest) -> Both:
    """What is known of each host, and the rows of bundles, of hosts in any order, in batches and tasks of any size."""
    seed, size = request.param
    records = records_of(*fleet())
    random.Random(seed).shuffle(records)
    every = batches(records, size)
    tasks = [every[::2], every[1::2]]
    found = [row for task in tasks for part in bundles(task, form="line", pattern=None) for row in part.to_pylist()]
    digests = [Digest.unpacked(row["digest"]) for row in found if row["digest"] is not None]
    assert len(digests) == len(tasks)
    facts = {record.host: facts_of(record, None, None) for record in records}
    return facts, [row for row in found if row["digest"] is None], reduce(Digest.and_also, digests)


def texts(row: dict[str, Any]) -> list[tuple[str, str]]:
    return list(apart(row["host"], row["variables"])) if row["variables"] else [(row["host"], row["variables"])]


def test_each_host_with_a_role_is_in_one_row_with_what_it_says(both: Both) -> None:
    facts, rows, _ = both
    found = sorted((one for row in rows for one in texts(row)), key=str)

    roles = ("broker", "agent", "balancer", "by_hand", "nearly")
    wanted = [(host, fact.get("variables")) for host, fact in facts.items() if any(fact[name] for name in roles)]
    assert found == sorted(wanted, key=str)


def test_columns_are_those_of_every_host_in_the_row(both: Both) -> None:
    facts, rows, _ = both
    names = {*SCHEMA.names} - {"host", "variables", "place", "points", "digest"}
    for row in rows:
        for host, _text in texts(row):
            assert {name: row[name] for name in names} == {name: facts[host].get(name) for name in names}, host


def test_points_are_those_of_all_hosts_of_a_group(both: Both) -> None:
    facts, rows, _ = both
    found, wanted = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for row in rows:
        found[row["group"]].update(row["points"] or ())
    for fact in facts.values():
        wanted[fact.get("group", "")].update(fact.get("points") or ())

    assert {group: points for group, points in found.items() if points} == {
        group: points for group, points in wanted.items() if points
    }


def test_the_digest_counts_hosts_and_what_they_say(both: Both) -> None:
    facts, _, digest = both
    every = facts.values()

    assert digest.numbers["rows"] == len(facts)
    for name in ("broker", "agent", "balancer", "by_hand", "nearly"):
        assert digest.numbers[name] == sum(fact[name] for fact in every) > 0, name
    for name in ("address", "points", "problems"):
        assert digest.numbers[name] > 0
    assert digest.numbers["pattern"] == 0
    for name, kind in (("groups", "group"), ("releases", "release"), ("patterns", "pattern")):
        assert {*getattr(digest, name)} == {fact[kind] for fact in every if fact.get(kind) is not None}
    assert digest.nearly == sorted(host for host, fact in facts.items() if fact["nearly"])[:3]


def test_the_digest_has_links_and_waivers_with_who_says_them_first(both: Both) -> None:
    facts, _, digest = both
    links, waivers = dict[str, Any](), dict[str, Any]()
    for host, fact in facts.items():
        if fact.get("links"):
            links[fact["links"]] = min((host, fact["group"]), links.get(fact["links"], ("~", "")))
        if fact.get("waivers"):
            waivers[fact["waivers"]] = 0, 0, host

    assert digest.links == links
    assert digest.waivers == waivers
    assert len(links) > 1


def test_the_digest_has_the_stores_that_hosts_say_with_all_who_use_them(both: Both) -> None:
    facts, _, digest = both
    wanted = defaultdict[str, list[tuple[str, str, str]]](list)
    for host, fact in facts.items():
        if fact.get("own_store") and fact["store"]:
            wanted[fact["store"]].append((host, fact["unit"], fact["group"]))

    assert digest.stores == {
        store: (*min(using)[:2], min(units), max(units), tuple(sorted({group for _, _, group in using})))
        for store, using in wanted.items()
        for units in [[unit for _, unit, _ in using]]
    }
    assert any(using.least != using.greatest for using in digest.stores.values())
    assert digest.numbers["own_directory"] > 0


def test_digests_of_no_host_and_of_other_letters_come_as_they_went() -> None:
    digest = Digest()
    assert Digest.unpacked(digest.packed()) == digest
    digest.add({"host": "x-mq\ud800", "rows": 1, "nearly": True, "pattern": "gr\u00fcn", "problems": ["1x"]})

    assert Digest.unpacked(digest.packed()) == digest
    assert digest.nearly == ["x-mq\\ud800"]


def test_of_waivers_those_of_brokers_come_first_then_of_agents_by_their_place() -> None:
    digest = Digest()
    rows = [("c", False, True, 1), ("b", False, True, 0), ("z", True, True, 9), ("a", False, False, 0)]
    for text in ("same", "own"):
        for host, broker, agent, place in rows if text == "same" else rows[:1]:
            digest.add({"host": host, "rows": 1, "broker": broker, "agent": agent, "place": place, "waivers": text})

    assert digest.waivers == {"same": (0, 0, "z"), "own": (1, 1, "c")}


def test_members_of_rows_are_what_is_known_of_each_broker(both: Both) -> None:
    facts, rows, _ = both
    packed = pa.RecordBatch.from_pylist([row for row in rows if row["group"]], SCHEMA)
    (found,) = members([packed], pattern=DEFAULT_PATTERN)

    told = {row["host"]: row | {"names": set(row["names"])} for row in found.to_pylist()}
    wanted = {host: fact for host, fact in facts.items() if fact.get("group")}
    assert told.keys() == wanted.keys()
    for host, row in told.items():
        assert row == {name: wanted[host][name] for name in MEMBERS.names} | {"names": set(wanted[host]["names"])}


def test_hosts_of_a_group_that_say_the_same_are_one_row() -> None:
    hosts = pairs("orders-mq01", "orders-mq02", "orders-mq03")
    found, _digest = bundles(batches(records_of(hosts, {}), 100), form="line", pattern=None)

    assert found.num_rows == 1
    assert found["variables"][0].as_py().count("activemq_release") == 1


def test_rows_come_apart_in_order_of_hosts_with_the_very_same_text() -> None:
    hosts = pairs(*(f"orders-mq{number:02d}" for number in range(30))) | pairs("orders-mq77", heap="2g")
    records = records_of(hosts, {})
    random.Random(3).shuffle(records)
    *found, _digest = bundles(batches(records, 16), form="line", pattern=None)
    found = [row for batch in found for row in batch.to_pylist()]
    rows = [Row("orders", HOST, row["host"], row["variables"], 0, broker=True) for row in found]
    rows += [Row("orders", LINK, "zz", "{}", 3), Row("paid", HOST, "paid-mq01-a", "{}", 0, broker=True)]
    rows.sort(key=lambda row: (row.component, row.kind, row.host))

    told = list(rows_of([pa.RecordBatch.from_pylist([dataclasses.asdict(row) for row in rows])]))

    assert [(row.component, row.kind) for row in told] == [("orders", LINK), *[("orders", HOST)] * 62, ("paid", HOST)]
    assert [row.host for row in told[1:-1]] == sorted(hosts)
    assert all(row.text == text_of(hosts[row.host]) for row in told[1:-1])
    assert len({id(row.text) for row in told[1:-1]}) <= 2 * len(found)


def test_a_host_that_comes_twice_stays_twice() -> None:
    rows = [("x", HOST, "a", "{}\na\nc", 0), ("x", HOST, "a", "{}\na\nb", 0), ("x", HOST, "b", None, 0)]

    assert [row[2] for row in in_order(rows)] == ["a", "a", "b", "b", "c"]
