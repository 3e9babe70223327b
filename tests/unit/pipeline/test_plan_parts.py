"""A component alone gives the rows that it has in the whole; what is too large is told."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pyarrow as pa
import pytest

from activemq_fleet.naming import DEFAULT_PATTERN
from activemq_fleet.spark.plan import context as contexts
from activemq_fleet.spark.plan.components import united
from activemq_fleet.spark.plan.context import Context
from activemq_fleet.spark.plan.packing import TABLES, compact, packed, unpacked
from activemq_fleet.spark.plan.parts import compute, fingerprints
from activemq_fleet.spark.plan.records import text_of
from activemq_fleet.spark.plan.rows import COLUMNS, HOST, Row
from activemq_fleet.topology.model import KnownGroups
from tests.unit.pipeline import planned
from tests.unit.pipeline.planned import Agreeable, Hosts, in_order, pairs, whole


@pytest.fixture(autouse=True)
def schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "_compiled", lambda _: Agreeable())
    monkeypatch.setattr(planned, "schema_of", lambda _: Agreeable())


CONTEXT = Context(DEFAULT_PATTERN, KnownGroups((), 9), schemas={"5.18.3": b"", "5.5.1": b""})


def batch(hosts: Hosts) -> pa.RecordBatch:
    """The rows of a part: each group a component of its own."""
    rows = [
        Row(host.partition("-")[0], HOST, host, text_of(variables), 0, broker=True)
        for host, variables in sorted(hosts.items())
    ]
    return pa.RecordBatch.from_pylist([dataclasses.asdict(row) for row in rows])


def computed(hosts: Hosts, context: Context = CONTEXT) -> tuple[dict[str, list[dict[str, Any]]], list[dict[str, Any]]]:
    packs = list(compute([batch(hosts)], context=context))
    rows = {name: [row for part in unpacked(packs, name=name) for row in part.to_pylist()] for name in TABLES}
    for row in rows["brokers"]:
        row["ports"] = dict(row["ports"])
    return rows, [row for pack in packs for row in pack.to_pylist()]


def marks(hosts: Hosts, context: Context = CONTEXT) -> dict[str, str]:
    found = [row for part in fingerprints([batch(hosts)], context=context) for row in part.to_pylist()]
    return {row["component"]: row["fingerprint"] for row in found}


HOSTS = {
    **pairs("a-mq01", "a-mq02", ha="shared-file"),
    **pairs("b-mq01", "b-mq02", "b-mq03", topology="ring"),
    **pairs("c-mq01", release="5.5.1", ha="pure"),
}


def test_rows_of_components_are_those_of_the_whole() -> None:
    found, packs = computed(HOSTS)
    _, wanted = whole(HOSTS, {})

    for name, rows in wanted.items():
        assert in_order(found[name]) == in_order(rows), name
    assert [pack["error"] for pack in packs] == [None]


def test_without_content_hashes_and_paths_are_the_same() -> None:
    with_content, _ = computed(HOSTS)
    without, _ = computed(HOSTS, dataclasses.replace(CONTEXT, content=False))

    assert {row["content"] for row in without["files"]} == {None}
    assert [row["sha256"] for row in without["files"]] == [row["sha256"] for row in with_content["files"]]


def test_a_component_with_an_error_has_no_files_and_the_others_have() -> None:
    hosts = {**HOSTS, **pairs("d-mq01")}
    del hosts["d-mq01-b.example.com"]

    found, packs = computed(hosts)

    assert {row["host"].partition("-")[0] for row in found["files"] if row["host"]} == {"a", "b", "c"}
    assert [row["path"].split("/")[1] for row in found["files"] if not row["host"]] == ["a", "b", "c"]
    assert (packs[0]["blocking"], packs[0]["withheld"]) == (1, 1)


def test_a_waiver_by_name_is_for_that_name_only() -> None:
    hosts = pairs(*(f"{name}-mq01" for name in "abcd"))
    for name in "abcd":
        del hosts[f"{name}-mq01-b.example.com"]
    waiver = '{"rule": "T002", "reason": "bought later", "hosts": ["c-*"]}'

    found, packs = computed(hosts, dataclasses.replace(CONTEXT, waivers=(waiver,)))

    told = {row["host"].partition("-")[0]: row["waived"] for row in found["findings"] if row["rule"] == "T002"}
    assert told == {"a": None, "b": None, "c": "bought later", "d": None}
    assert sum(pack["blocking"] for pack in packs) == 3
    assert {row["host"].partition("-")[0] for row in found["files"] if row["host"]} == {"c"}


def test_a_component_that_is_too_large_is_told_and_its_brokers_listed() -> None:
    found, packs = computed(HOSTS, dataclasses.replace(CONTEXT, largest=5))

    told = [row for row in found["findings"] if row["rule"] == "T028"]
    assert [(row["host"], row["severity"]) for row in told] == [("b-mq01-a.example.com", "error")]
    assert "group b has 6 brokers, more than the 5" in told[0]["message"]
    assert len(found["brokers"]) == len(HOSTS) == len(found["components"])
    assert not [row for row in (*found["links"], *found["files"]) if (row["host"] or "").startswith("b-")]
    assert sum(pack["blocking"] for pack in packs) == 1
    assert sum(pack["withheld"] for pack in packs) == 6


def test_what_the_core_refuses_is_the_error_of_its_pack() -> None:
    hosts = {**HOSTS, **pairs("e-mq01", xml_fragments=[{"parent": "broker", "xml": "<x>"}])}

    _, packs = computed(hosts)

    assert packs[0]["error"].startswith("e-mq01-a.example.com: activemq_xml_fragments[0].xml is not well-formed XML")


def test_the_same_host_twice_is_refused() -> None:
    twice = pa.Table.from_batches([batch(HOSTS), batch(HOSTS)]).sort_by([(name, "ascending") for name in COLUMNS[:3]])

    (pack,) = compute(twice.to_batches(), context=CONTEXT)

    assert pack.to_pylist()[0]["error"].startswith("a-mq01-a.example.com: --hosts has it twice")


def test_a_fingerprint_changes_with_its_component_and_with_nothing_else() -> None:
    before = marks(HOSTS)
    changed = {host: dict(variables) for host, variables in HOSTS.items()}
    changed["b-mq01-a.example.com"]["activemq_heap"] = "1g"

    after = marks(changed)

    assert {name for name in before if before[name] != after[name]} == {"b"}
    assert {name for name, mark in marks(HOSTS).items() if before[name] != mark} == set()


@pytest.mark.parametrize("change", [{"waivers": ('{"rule": "T002", "reason": "x"}',)}, {"content": False}])
def test_a_fingerprint_changes_with_what_all_components_follow_from(change: dict[str, Any]) -> None:
    before, after = marks(HOSTS), marks(HOSTS, dataclasses.replace(CONTEXT, **change))

    assert all(before[name] != after[name] for name in before)


def test_another_group_changes_no_fingerprint_of_brokers() -> None:
    more = dataclasses.replace(CONTEXT, groups=KnownGroups((), 10))

    assert marks(HOSTS, more) == marks(HOSTS)


def test_fingerprints_are_those_that_the_work_writes_down() -> None:
    found, _ = computed(HOSTS)

    assert {row["component"]: row["fingerprint"] for row in found["components"]} == marks(HOSTS)


def test_united_names_are_those_that_edges_lead_to_each_other() -> None:
    dice = random.Random(3)
    for _ in range(50):
        names = [f"n{number}" for number in range(dice.randint(2, 12))]
        edges = [(dice.choice(names), dice.choice(names)) for _ in range(dice.randint(0, 14))]
        found = united(edges)
        for one in found:
            reached = {one}
            for _ in names:
                reached |= {b for a, b in edges if a in reached} | {a for a, b in edges if b in reached}
            assert found[one] == min(reached)


def test_a_table_comes_out_of_its_pack_as_it_went_in() -> None:
    rows: dict[str, list[Any]] = {
        "host": ["a", None, "a"],
        "path": ["x", "y", "z"],
        "sha256": ["1", "2", "1"],
        "content": [b"same", b"other", b"same"],
    }
    pack = pa.RecordBatch.from_pylist([{"files": packed([compact("files", rows)])}, {"files": None}])

    (found,) = unpacked([pack], name="files")

    assert found.to_pydict() == {**rows, "content": ["same", "other", "same"]}
