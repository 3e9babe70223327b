"""Tests of the plan of a component: it equals the plan of the whole fleet. Too large components are only listed."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from activemq_fleet.drift.file_records import collected_file_records
from activemq_fleet.planning.compute import PlanContext, component_fingerprint, plan_fleet_component
from tests.unit.planning.components import context_of, hosts_by_component, plan_components, rows_of
from tests.unit.planning.planned import (
    AGENT,
    VIP,
    Hosts,
    hosts_of_connected_groups,
    pairs,
    sorted_rows,
    whole_fleet_and_rows,
)

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


def test_plan_rows_of_components_equal_plan_rows_of_whole_fleet(context: PlanContext) -> None:
    plan = [*plan_components(HOSTS, context).values()]
    _, expected = whole_fleet_and_rows(HOSTS, {})

    for name, rows in expected.items():
        assert sorted_rows(rows_of(plan, name)) == sorted_rows(rows), name
    assert [component_rows.error for component_rows in plan] == [None, None, None]


def test_plan_rows_of_connected_groups_equal_plan_rows_of_whole_fleet() -> None:
    hosts, groups = hosts_of_connected_groups()
    plan = plan_components(hosts, context_of(hosts, groups), groups)
    fleet, expected = whole_fleet_and_rows(hosts, groups)

    assert len(plan) > 8
    for name in ("brokers", "links", "findings"):
        assert sorted_rows(rows_of([*plan.values()], name)) == sorted_rows(expected[name]), name
    assert sum(component_rows.blocking for component_rows in plan.values()) == len(fleet.blocking_findings)
    hosts_with_files = {row["host"] for row in rows_of([*plan.values()], "files")}
    components_without_errors = [component_rows for component_rows in plan.values() if not component_rows.blocking]
    assert {row["host"] for row in rows_of(components_without_errors, "brokers")} <= hosts_with_files
    assert sorted_rows(rows_of([*plan.values()], "files")) == sorted_rows(
        [
            row
            for row in expected["files"]
            if (row["host"] or row["path"].split("/")[1])
            in {*hosts_with_files, *client_groups_of(components_without_errors)}
        ]
    )


def client_groups_of(components: list[Any]) -> set[str]:
    return {row["path"].split("/")[1] for row in rows_of(components, "files") if row["host"] is None}


def test_plan_of_balancers_that_are_agents_equals_plan_of_whole_fleet() -> None:
    hosts = {**pairs("a-mq01", vip=VIP["activemq_vip"]), **{name: {**VIP, **AGENT} for name in ("lb1", "lb2", "lb3")}}
    for number in (1, 2):
        hosts[f"lb{number}"]["activemq_waivers"] = [{"rule": "S002", "reason": f"reason of lb{number}"}]
    groups = {"activemq_agents": ["lb2", "lb1"], "activemq_loadbalancers": ["lb3", "lb1", "lb2"]}
    plan = [*plan_components(hosts, context_of(hosts, groups), groups).values()]
    _, expected = whole_fleet_and_rows(hosts, groups)

    assert plan[0].error is None
    for name, rows in expected.items():
        assert sorted_rows(rows_of(plan, name)) == sorted_rows(rows), name
    priorities = {
        row["host"]: re.findall(r"priority (\d+)", row["content"])
        for row in rows_of(plan, "files")
        if row["path"] == "keepalived.conf"
    }
    assert priorities == {"lb3": ["200"], "lb1": ["190"], "lb2": ["180"]}


def test_hashes_of_planned_files_do_not_depend_on_option_content(context: PlanContext) -> None:
    files_with_content = rows_of([*plan_components(HOSTS, context).values()], "files")
    files_without_content = rows_of(
        [*plan_components(HOSTS, dataclasses.replace(context, content=False)).values()], "files"
    )

    assert {row["content"] for row in files_without_content} == {None}
    assert [row["sha256"] for row in files_without_content] == [row["sha256"] for row in files_with_content]


def test_hash_of_planned_file_without_content_is_that_of_its_collected_masked_file() -> None:
    hosts = pairs("a-mq01", java_options=["-Djavax.net.ssl.keyStorePassword=xyz"])
    context = context_of(hosts)
    plan = plan_components(hosts, context)
    plan_without_content = plan_components(hosts, dataclasses.replace(context, content=False))
    content_by_path = {
        f"{row['host']}/configuration/{row['path']}": row["content"] for row in rows_of([*plan.values()], "files")
    }

    collected_hashes = {
        path: [record.found_sha256 for record in collected_file_records(path, content.encode())]
        for path, content in content_by_path.items()
    }

    assert "xyz" in content_by_path["a-mq01-a.example.com/configuration/bin/env"]
    assert {
        f"{row['host']}/configuration/{row['path']}": [row["masked_sha256"]]
        for row in rows_of([*plan_without_content.values()], "files")
    } == collected_hashes


def test_plan_has_files_of_each_component_without_error() -> None:
    hosts = {**HOSTS, **pairs("d-mq01")}
    del hosts["d-mq01-b.example.com"]

    plan = plan_components(hosts, context_of(hosts))

    assert {name for name, component_rows in plan.items() if component_rows.rows["files"]} == {"a", "b", "c"}
    assert (plan["d"].blocking, plan["d"].withheld) == (1, 1)


def test_waiver_applies_only_to_its_hosts_in_plan_of_components() -> None:
    hosts = pairs(*(f"{name}-mq01" for name in "abcd"))
    for name in "abcd":
        del hosts[f"{name}-mq01-b.example.com"]
    hosts["a-mq01-a.example.com"]["activemq_waivers"] = [{"rule": "T002", "reason": "later", "hosts": ["c-*"]}]

    plan = plan_components(hosts, context_of(hosts))

    waivers = {row["host"][0]: row["waived"] for row in rows_of([*plan.values()], "findings") if row["rule"] == "T002"}
    assert waivers == {"a": None, "b": None, "c": "later", "d": None}
    assert {name for name, component_rows in plan.items() if component_rows.rows["files"]} == {"c"}


def test_too_large_component_of_plan_has_finding_and_lists_brokers(context: PlanContext) -> None:
    plan = plan_components(HOSTS, dataclasses.replace(context, largest=5))

    (finding,) = (row for row in plan["b"].rows["findings"] if row["rule"] == "T028")
    assert (finding["host"], finding["severity"]) == ("b-mq01-a.example.com", "error")
    assert "group b has 6 brokers, but the command plan accepts at most 5" in finding["message"]
    assert len(plan["b"].rows["brokers"]) == len(plan["b"].rows["components"]) == 6
    assert not plan["b"].rows["links"]
    assert not plan["b"].rows["files"]
    assert (plan["b"].blocking, plan["b"].withheld) == (1, 6)
    assert plan["a"].rows["files"]


def test_render_error_is_error_of_its_component_only() -> None:
    hosts = {**HOSTS, **pairs("e-mq01", xml_fragments=[{"parent": "broker", "xml": "<x>"}])}

    plan = plan_components(hosts, context_of(hosts))

    assert (plan["e"].error or "").startswith(
        "e-mq01-a.example.com: in activemq_xml_fragments[0], the value of xml is not well-formed XML"
    )
    assert not any(plan["e"].rows.values())
    assert plan["a"].error is None


def test_plan_reports_host_that_component_lists_twice_as_error(context: PlanContext) -> None:
    hosts = hosts_by_component(HOSTS, context)["a"]

    component_rows = plan_fleet_component("a", [hosts[0], *hosts], context)

    assert (component_rows.error or "").startswith("a-mq01-a.example.com: --hosts lists this host twice")


def test_fingerprint_of_component_changes_only_with_its_variables(context: PlanContext) -> None:
    fingerprints_before = fingerprints(HOSTS, context)
    changed_hosts = {host: dict(variables) for host, variables in HOSTS.items()}
    changed_hosts["b-mq01-a.example.com"]["activemq_heap"] = "1g"

    fingerprints_after = fingerprints(changed_hosts, context)

    assert {name for name in fingerprints_before if fingerprints_before[name] != fingerprints_after[name]} == {"b"}
    assert fingerprints(HOSTS, context) == fingerprints_before


@pytest.mark.parametrize(
    "change", [{"waivers": [{"rule": "T002", "reason": "x"}]}, {"links": [{"from": "a", "to": "a"}]}]
)
def test_fingerprint_of_component_changes_with_any_waiver_and_its_links(change: dict[str, Any]) -> None:
    fingerprints_before = fingerprints(HOSTS, context_of(HOSTS))
    changed_hosts = {**HOSTS, **pairs("z-mq01", **change)}
    fingerprints_after = fingerprints(changed_hosts, context_of(changed_hosts))

    assert {name for name in fingerprints_before if fingerprints_before[name] != fingerprints_after[name]} == (
        {*"abc"} if "waivers" in change else {"a"}
    )


def test_fingerprint_of_component_changes_with_option_content_and_xml_schema(context: PlanContext) -> None:
    fingerprints_before = fingerprints(HOSTS, context)
    context_with_other_schema = dataclasses.replace(context, schemas={**context.schemas, "5.5.1": b"another"})

    assert not {*fingerprints_before.values()} & {
        *fingerprints(HOSTS, dataclasses.replace(context, content=False)).values()
    }
    assert {
        name
        for name, fingerprint in fingerprints(HOSTS, context_with_other_schema).items()
        if fingerprint != fingerprints_before[name]
    } == {"c"}


def test_new_group_changes_fingerprint_of_components_with_agent_only() -> None:
    agents = {"activemq_agents": ["shop"]}
    hosts = {**HOSTS, "shop": AGENT | {"activemq_agent_group": "a"}}
    changed_hosts = {**hosts, **pairs("d-mq01")}
    plan_before, plan_after = (
        plan_components(fleet, context_of(fleet, agents), agents) for fleet in (hosts, changed_hosts)
    )

    changed_components = {
        name
        for name in plan_before
        if plan_before[name].rows["components"][0]["fingerprint"]
        != plan_after[name].rows["components"][0]["fingerprint"]
    }
    assert changed_components == {"a"}


def test_component_with_unchanged_fingerprint_is_not_planned_again(context: PlanContext) -> None:
    earlier_fingerprints = fingerprints(HOSTS, context)

    plan = plan_components(
        HOSTS, dataclasses.replace(context, earlier={"a": earlier_fingerprints["a"], "b": "another"})
    )

    assert (plan["a"].unchanged, any(plan["a"].rows.values())) == (True, False)
    assert {row["fingerprint"] for row in plan["b"].rows["components"]} == {earlier_fingerprints["b"]}
    assert plan["b"].rows["files"]
