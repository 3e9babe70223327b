"""A component alone gives the rows that it has in the whole fleet; one that is too large is only listed."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from activemq_fleet.planning.compute import PlanContext, component_fingerprint, plan_fleet_component
from tests.unit.planning.components import computed, context_of, hosts_by_component, rows_of
from tests.unit.planning.planned import AGENT, Hosts, in_order, pairs, tangled, whole

HOSTS = {
    **pairs("a-mq01", "a-mq02", ha="shared-file"),
    **pairs("b-mq01", "b-mq02", "b-mq03", topology="ring"),
    **pairs("c-mq01", release="5.5.1", ha="pure"),
}


@pytest.fixture(scope="module")
def context() -> PlanContext:
    return context_of(HOSTS)


def fingerprints(hosts: Hosts, context: PlanContext) -> dict[str, str]:
    members = hosts_by_component(hosts, context)
    return {
        component: component_fingerprint(component, component_hosts, context)
        for component, component_hosts in members.items()
    }


def test_rows_of_components_are_those_of_the_whole(context: PlanContext) -> None:
    found = [*computed(HOSTS, context).values()]
    _, wanted = whole(HOSTS, {})

    for name, rows in wanted.items():
        assert in_order(rows_of(found, name)) == in_order(rows), name
    assert [one.error for one in found] == [None, None, None]


def test_a_tangled_fleet_is_computed_as_the_whole_is() -> None:
    hosts, groups = tangled()
    found = computed(hosts, context_of(hosts, groups), groups)
    fleet, wanted = whole(hosts, groups)

    assert len(found) > 8
    for name in ("brokers", "links", "findings"):
        assert in_order(rows_of([*found.values()], name)) == in_order(wanted[name]), name
    assert sum(one.blocking for one in found.values()) == len(fleet.blocking_findings)
    written = {row["host"] for row in rows_of([*found.values()], "files")}
    sound = [one for one in found.values() if not one.blocking]
    assert {row["host"] for row in rows_of(sound, "brokers")} <= written
    assert in_order(rows_of([*found.values()], "files")) == in_order(
        [row for row in wanted["files"] if (row["host"] or row["path"].split("/")[1]) in {*written, *clients_of(sound)}]
    )


def clients_of(components: list[Any]) -> set[str]:
    return {row["path"].split("/")[1] for row in rows_of(components, "files") if row["host"] is None}


def test_without_content_hashes_and_paths_are_the_same(context: PlanContext) -> None:
    with_content = rows_of([*computed(HOSTS, context).values()], "files")
    without = rows_of([*computed(HOSTS, dataclasses.replace(context, content=False)).values()], "files")

    assert {row["content"] for row in without} == {None}
    assert [row["sha256"] for row in without] == [row["sha256"] for row in with_content]


def test_a_component_with_an_error_has_no_files_and_the_others_have() -> None:
    hosts = {**HOSTS, **pairs("d-mq01")}
    del hosts["d-mq01-b.example.com"]

    found = computed(hosts, context_of(hosts))

    assert {name for name, one in found.items() if one.rows["files"]} == {"a", "b", "c"}
    assert (found["d"].blocking, found["d"].withheld) == (1, 1)


def test_a_waiver_by_name_is_for_that_name_only() -> None:
    hosts = pairs(*(f"{name}-mq01" for name in "abcd"))
    for name in "abcd":
        del hosts[f"{name}-mq01-b.example.com"]
    hosts["a-mq01-a.example.com"]["activemq_waivers"] = [{"rule": "T002", "reason": "later", "hosts": ["c-*"]}]

    found = computed(hosts, context_of(hosts))

    told = {row["host"][0]: row["waived"] for row in rows_of([*found.values()], "findings") if row["rule"] == "T002"}
    assert told == {"a": None, "b": None, "c": "later", "d": None}
    assert {name for name, one in found.items() if one.rows["files"]} == {"c"}


def test_a_component_that_is_too_large_is_a_finding_and_its_brokers_are_listed(context: PlanContext) -> None:
    found = computed(HOSTS, dataclasses.replace(context, largest=5))

    (large,) = (row for row in found["b"].rows["findings"] if row["rule"] == "T028")
    assert (large["host"], large["severity"]) == ("b-mq01-a.example.com", "error")
    assert "group b has 6 brokers, but the command plan accepts at most 5" in large["message"]
    assert len(found["b"].rows["brokers"]) == len(found["b"].rows["components"]) == 6
    assert not found["b"].rows["links"]
    assert not found["b"].rows["files"]
    assert (found["b"].blocking, found["b"].withheld) == (1, 6)
    assert found["a"].rows["files"]


def test_what_the_core_refuses_is_the_error_of_its_component() -> None:
    hosts = {**HOSTS, **pairs("e-mq01", xml_fragments=[{"parent": "broker", "xml": "<x>"}])}

    found = computed(hosts, context_of(hosts))

    assert (found["e"].error or "").startswith(
        "e-mq01-a.example.com: in activemq_xml_fragments[0], the value of xml is not well-formed XML"
    )
    assert not any(found["e"].rows.values())
    assert found["a"].error is None


def test_the_same_host_twice_is_refused(context: PlanContext) -> None:
    hosts = hosts_by_component(HOSTS, context)["a"]

    rows = plan_fleet_component("a", [hosts[0], *hosts], context)

    assert (rows.error or "").startswith("a-mq01-a.example.com: --hosts lists this host twice")


def test_a_fingerprint_changes_with_its_component_and_with_nothing_else(context: PlanContext) -> None:
    before = fingerprints(HOSTS, context)
    changed = {host: dict(variables) for host, variables in HOSTS.items()}
    changed["b-mq01-a.example.com"]["activemq_heap"] = "1g"

    after = fingerprints(changed, context)

    assert {name for name in before if before[name] != after[name]} == {"b"}
    assert fingerprints(HOSTS, context) == before


@pytest.mark.parametrize(
    "change", [{"waivers": [{"rule": "T002", "reason": "x"}]}, {"links": [{"from": "a", "to": "a"}]}]
)
def test_a_fingerprint_changes_with_waivers_of_all_and_with_links_of_the_component(change: dict[str, Any]) -> None:
    before = fingerprints(HOSTS, context_of(HOSTS))
    more = {**HOSTS, **pairs("z-mq01", **change)}
    after = fingerprints(more, context_of(more))

    assert {name for name in before if before[name] != after[name]} == ({*"abc"} if "waivers" in change else {"a"})


def test_a_fingerprint_changes_with_content_and_schema(context: PlanContext) -> None:
    before = fingerprints(HOSTS, context)
    other = dataclasses.replace(context, schemas={**context.schemas, "5.5.1": b"another"})

    assert not {*before.values()} & {*fingerprints(HOSTS, dataclasses.replace(context, content=False)).values()}
    assert {name for name, mark in fingerprints(HOSTS, other).items() if mark != before[name]} == {"c"}


def test_another_group_changes_the_fingerprint_of_components_with_an_agent_only() -> None:
    agents = {"activemq_agents": ["shop"]}
    hosts = {**HOSTS, "shop": AGENT | {"activemq_agent_group": "a"}}
    more = {**hosts, **pairs("d-mq01")}
    before, after = (computed(fleet, context_of(fleet, agents), agents) for fleet in (hosts, more))

    changed = {
        name
        for name in before
        if before[name].rows["components"][0]["fingerprint"] != after[name].rows["components"][0]["fingerprint"]
    }
    assert changed == {"a"}


def test_a_component_with_the_earlier_fingerprint_is_not_computed_again(context: PlanContext) -> None:
    marks = fingerprints(HOSTS, context)

    found = computed(HOSTS, dataclasses.replace(context, earlier={"a": marks["a"], "b": "another"}))

    assert (found["a"].unchanged, any(found["a"].rows.values())) == (True, False)
    assert {row["fingerprint"] for row in found["b"].rows["components"]} == {marks["b"]}
    assert found["b"].rows["files"]
