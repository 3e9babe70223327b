"""What is said of a network that is known under another name is what the core says of it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given, reject, settings
from hypothesis import strategies as st

from activemq_fleet.errors import FleetError
from activemq_fleet.findings import Finding
from activemq_fleet.naming import DEFAULT_PATTERN
from activemq_fleet.pipeline.plan import context as contexts
from activemq_fleet.pipeline.plan import core, outcome, recurring
from activemq_fleet.pipeline.plan.components import united
from activemq_fleet.pipeline.plan.context import Context
from activemq_fleet.pipeline.plan.outcome import Tables
from activemq_fleet.pipeline.plan.parts import computed
from activemq_fleet.pipeline.plan.records import text_of
from activemq_fleet.pipeline.plan.recurring import Recurring, Rows
from activemq_fleet.pipeline.plan.renaming import Form
from activemq_fleet.pipeline.plan.rows import HOST, LINK, Row
from activemq_fleet.render import ACTIVEMQ_XML, render_hosts
from activemq_fleet.schema import SchemaProblem
from activemq_fleet.topology import build_fleet
from activemq_fleet.topology.model import KnownGroups
from benchmarks.plan_fleet import RELEASES, records
from tests.unit import fuzz_inputs as inputs
from tests.unit.pipeline.planned import Agreeable, Hosts, in_order, pairs
from tests.unit.sound_variables import JDBC, SOUND, any_of

CONTEXT = Context(
    DEFAULT_PATTERN,
    KnownGroups((), 9),
    schemas=dict.fromkeys(RELEASES, b""),
)
Told = tuple[dict[str, list[str]], int, int]


@pytest.fixture(autouse=True)
def schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "_compiled", lambda _: Agreeable())
    contexts._proof.cache_clear()


class Counted(Recurring):
    """Tells how often something was known."""

    def __init__(self, most: int = 1 << 27) -> None:
        super().__init__(most)
        self.found = 0
        self.learned = 0

    def rows(self, form: Form) -> Rows | None:
        found = super().rows(form)
        self.found += found is not None
        return found

    def learn(self, form: Form, rows: Rows) -> None:
        self.learned += 1
        super().learn(form, rows)


def with_memory(context: Context, known: Recurring) -> Context:
    fresh = dataclasses.replace(context)
    fresh.__dict__["recurring"] = known
    return fresh


def told(hosts: Mapping[str, Mapping[str, Any]], known: Recurring, context: Context = CONTEXT) -> Told:
    """All rows that come of hosts, in an order of their own; what blocks and what is withheld."""
    table = pa.Table.from_pylist([dataclasses.asdict(row) for row in in_parts(hosts)])
    results: list[Tables] = list(computed(table.to_batches(max_chunksize=50), with_memory(context, known)))
    assert [tables.error for tables in results if tables.error] == []
    rows: dict[str, list[Any]] = {}
    for tables in results:
        for name, batch in tables.batches(content=context.content):
            rows.setdefault(name, []).extend(batch.to_pylist())
    return (
        {name: in_order(found) for name, found in rows.items()},
        sum(tables.blocking for tables in results),
        sum(tables.withheld for tables in results),
    )


def in_parts(hosts: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """Rows as the layout gives them: links once, with what they join."""
    home = {host: host.rpartition("-mq")[0] for host in hosts}
    links = {
        json.dumps(link): (host, place, link)
        for host, variables in sorted(hosts.items(), reverse=True)
        for place, link in enumerate(variables.get("activemq_links", ()))
    }
    component = united([(link["from"], link["to"]) for _, _, link in links.values()])
    rows = [
        Row(component.get(home[host], home[host]), HOST, host, text_of(said), 0, broker=True, home=home[host])
        for host, said in hosts.items()
    ]
    for text, (host, place, link) in links.items():
        first = min(link["from"], link["to"])
        rows.append(Row(component[first], LINK, host, text, place, home=first))
    return sorted(rows, key=lambda row: (row.component, row.kind, row.host, row.place))


def agree(hosts: Mapping[str, Mapping[str, Any]], context: Context = CONTEXT) -> Counted:
    """With and without memory the same is told."""
    known = Counted()
    assert told(hosts, known, context) == told(hosts, Recurring(most=0), context)
    return known


def of_fleet(records: Iterable[Mapping[str, Any]]) -> Hosts:
    return {record["host"]: record["variables"] for record in records}


NAMED = {
    '"one"': '"one-shop10"', "ann": "shop10", "bob@x": "shop10@x", '"x"': '"shop10"', "/srv/x": "/srv/shop10/x",
    "mq.example.com": "mq.shop10.example.com", "a.>": "shop10.>", "useJmx": "shop10", "-Da=b": "-Da=shop10",
    "a<b>&": "a<shop10>&%shop10&", "/home/x": "/home/shop10", "jdbc:x://db": "jdbc:x://shop10",
}  # fmt: skip
"""What users say, and how they may name a group in it."""


@st.composite
def alike(draw: st.DrawFn) -> Hosts:
    """Networks of one group or two, whose variables were set at random, under three numbers."""
    names = draw(any_of(("shop10-mq01",), ("shop10-mq01", "shop10-mq02"), ("shop10-mq01", "desk10-mq01")))
    hosts = inputs.pairs(*names)
    said = {"release": draw(any_of(*RELEASES)), "ha": draw(any_of("pure", "shared-file", "shared-jdbc", "none"))}
    said |= {"jdbc": JDBC, **{name: draw(SOUND[name]) for name in draw(st.sets(any_of(*sorted(SOUND)), max_size=8))}}
    said["links"] = [{"from": "desk10", "to": "shop10-mq01"}] if len({name[:4] for name in names}) > 1 else []
    for found in hosts.values():
        found |= {f"activemq_{name}": value for name, value in said.items()}
    own = draw(any_of(*sorted(SOUND.keys() - {"links"})))
    hosts["shop10-mq01-b.example.com"][f"activemq_{own}"] = draw(SOUND[own])
    if draw(st.booleans()):
        del hosts["shop10-mq01-b.example.com"]
    text = json.dumps(hosts)
    for word in draw(st.sets(any_of(*NAMED))):
        text = text.replace(word, NAMED[word])
    copies = (text.replace("shop10", f"shop{n}").replace("desk10", f"desk{n}") for n in (10, 47, 99))
    return {host: found for copy in copies for host, found in json.loads(copy).items()}


@given(alike())
def test_whatever_users_say_networks_under_other_names_are_the_same(hosts: Hosts) -> None:
    try:
        fleet = build_fleet(hosts, {})
        render_hosts(fleet)
    except FleetError:
        reject()
    known = agree(hosts)
    event(f"{known.found} known, {fleet.brokers[0].settings.ha}, {bool(fleet.blocking)}")


@settings(max_examples=12)
@given(st.integers(0, 1 << 30), st.integers(1, 6), st.booleans())
def test_a_fleet_of_few_kinds_of_groups_is_the_same(seed: int, kinds: int, content: bool) -> None:
    agree(of_fleet(records(150, seed, kinds=kinds)), dataclasses.replace(CONTEXT, content=content))


def test_networks_of_one_kind_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "_TOGETHER", 4)
    hosts = {host: said for n in range(10, 30) for host, said in pairs(f"shop-{n}-mq01", f"shop-{n}-mq02").items()}

    known = agree(hosts)

    assert (known.learned, known.found) == (1, 19)


def test_within_one_call_too() -> None:
    hosts = {host: said for n in range(10, 30) for host, said in pairs(f"shop-{n}-mq01").items()}

    known = agree(hosts)

    assert (known.learned, known.found) == (1, 19)


def test_linked_groups_are_known_together() -> None:
    hosts: Hosts = {}
    for n in range(10, 20):
        link = {"from": f"shop{n}", "to": f"store{n}", "include": [f"queue://shop{n}.>"]}
        hosts |= {**pairs(f"shop{n}-mq01", links=[link]), **pairs(f"store{n}-mq01", heap="2g")}

    assert agree(hosts).found == 9


def test_names_in_what_a_user_writes_are_replaced_too() -> None:
    hosts: Hosts = {}
    for n in range(10, 16):
        name = f"shop{n}"
        said: dict[str, Any] = {
            "users": [{"name": f"app-{name}", "password": "long enough", "groups": ["admins", name]}],
            "acl": [{"destination": f"{name}.in.>", "kind": "queue", "read": [name], "write": [name, "admins"]}],
            "extra_files": [{"path": f"conf/{name}.txt", "content": f"{name}\nis 100 % {name}\n"}],
            "tls": {
                "keystore": f"/etc/{name}.ks",
                "keystore_password": "long enough and closed",
                "truststore": f"/etc/{name}.ts",
                "truststore_password": "long enough and closed",
            },
        }
        hosts |= pairs(f"{name}-mq01", f"{name}-mq02", **said)

    assert agree(hosts).found == 5


def test_what_blocks_is_told_of_each_and_its_files_are_withheld() -> None:
    hosts: Hosts = {}
    for n in range(10, 14):
        hosts |= pairs(f"shop{n}-mq01", f"shop{n}-mq02")
        del hosts[f"shop{n}-mq02-b.example.com"]

    assert agree(hosts).found == 3
    rows, blocking, withheld = told(hosts, Counted())
    assert (blocking, withheld) == (4, 12)
    assert "files" not in rows


def test_a_waiver_by_name_is_for_that_name_only() -> None:
    hosts: Hosts = {}
    for n in range(10, 14):
        hosts |= pairs(f"shop{n}-mq01")
        del hosts[f"shop{n}-mq01-b.example.com"]
    waiver = '{"rule": "T002", "reason": "bought later", "hosts": ["shop12*"]}'

    known = agree(hosts, dataclasses.replace(CONTEXT, waivers=(waiver,)))

    rows, blocking, _ = told(hosts, Counted(), dataclasses.replace(CONTEXT, waivers=(waiver,)))
    assert (known.found, blocking) == (2, 3)
    assert sum("bought later" in row for row in rows["findings"]) == 1


def test_what_another_group_says_of_a_link_is_not_kept() -> None:
    link = {"from": "shop10", "to": "shop11"}
    hosts = {
        **pairs("shop10-mq01"),
        **pairs("shop11-mq01"),
        **pairs("desk10-mq01", links=[link]),
        **pairs("desk11-mq01"),
        **pairs("desk12-mq01"),
    }

    known = agree(hosts)

    # Only the desk that waited for another, and was computed without who speaks of the shops.
    assert (known.learned, known.found) == (1, 0)


def test_a_connector_with_the_group_s_name_is_not_kept() -> None:
    hosts: Hosts = {}
    for n in range(10, 13):
        hosts |= pairs(f"shop{n}-mq01", connectors=[{"name": f"shop{n}", "scheme": "nio", "port": 61616}])

    known = agree(hosts)

    assert known.found == 0


def test_contexts_do_not_share_what_they_know() -> None:
    hosts = pairs("shop10-mq01")
    known = Counted()
    told(hosts, known)

    del hosts["shop10-mq01-b.example.com"]
    told(hosts, known)
    told(hosts, known, dataclasses.replace(CONTEXT, waivers=('{"rule": "T002", "reason": "bought later"}',)))

    assert (known.found, known.learned) == (0, 3)


def test_what_was_not_asked_for_longest_is_forgotten() -> None:
    known = Counted(most=1)
    hosts = {**pairs("shop10-mq01"), **pairs("desk10-mq01", heap="2g")}
    told(hosts, known)

    assert known._size == 0
    assert not known._known

    some = Counted(most=60_000)
    for n in range(40):
        told(pairs(f"shop{n:02d}-mq01", heap=f"{n + 1}g"), some)
    assert 0 < some._size <= 60_000
    assert some._size == sum(network.size for network in some._known.values())
    told(pairs("shop99-mq01", heap="40g"), some)
    told(pairs("shop98-mq01", heap="1g"), some)
    assert some.found == 1


def test_documents_of_known_networks_are_validated_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurring, "_SAMPLED", "8")  # every other one
    asked: list[bytes] = []
    monkeypatch.setattr(Agreeable, "is_valid", lambda _, document: not asked.append(document))  # type: ignore[func-returns-value]
    hosts = {host: said for n in range(10, 50) for host, said in pairs(f"shop{n}-mq01").items()}

    rows, _, _ = told(hosts, Counted())

    documents = [json.loads(row) for row in rows["files"]]
    wanted = {row["content"].encode() for row in documents if row["path"] == ACTIVEMQ_XML and row["sha256"] < "8"}
    assert wanted <= set(asked) < {row["content"].encode() for row in documents}
    assert 20 < len(wanted) < 60


def test_an_invalid_one_makes_all_be_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurring, "_SAMPLED", "g")  # every one
    monkeypatch.setattr(core, "_TOGETHER", 2)
    invalid = SchemaProblem(1, 1, "", "not this one")
    monkeypatch.setattr(Agreeable, "is_valid", lambda _, document: b"shop12" not in document)
    monkeypatch.setattr(Agreeable, "explain", lambda _, data: [invalid] if b"shop12" in data else [], raising=False)
    hosts = {host: said for n in range(10, 15) for host, said in pairs(f"shop{n}-mq01").items()}

    rows, blocking, withheld = told(hosts, Counted())

    assert (blocking, withheld) == (2, 2)
    assert sum("not this one" in row and "shop12" in row for row in rows["findings"]) == 2


def test_what_is_said_with_a_number_of_its_own_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Counted()
    told(pairs("shop10-mq01"), known)
    assert len(known._known) == 1

    put = outcome.Lists.findings
    finding = Finding(rule="X001", severity="info", host="shop11-mq01-a.example.com", message="shop7", fix="")
    monkeypatch.setattr(outcome.Lists, "findings", lambda rows, found: put(rows, [*found, finding]))
    known.forget()
    told(pairs("shop11-mq01"), known)
    assert not known._known
