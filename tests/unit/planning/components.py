"""The steps of the job ``plan`` without Spark: hosts, their components, and the rows of each component."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from typing import Any

from activemq_fleet.artifacts import schema_bytes
from activemq_fleet.planning.components import (
    FleetDivision,
    component_lookup_key,
    divide_into_components,
    naming_pattern_set_by_other_hosts,
)
from activemq_fleet.planning.compute import ComponentPlanRows, ConnectedComponentHost, PlanContext, plan_fleet_component
from activemq_fleet.planning.host_facts import HostFactsForSeparatePlanning, host_component_facts_and_variables
from activemq_fleet.planning.host_records import HostRecord, positions_by_host_and_role_group
from activemq_fleet.releases import Release
from tests.unit.planning.planned import Groups, Hosts

NO_GROUPS: Groups = {}
TODAY = date(2026, 11, 23)

Facts = list[tuple[HostFactsForSeparatePlanning, str | None]]


def facts_of(hosts: Hosts, groups: Groups = NO_GROUPS) -> Facts:
    """Return the facts of every host, with its variables."""
    positions = positions_by_host_and_role_group(groups)

    def read_facts(pattern: str | None) -> Facts:
        return [
            host_component_facts_and_variables(HostRecord(host, variables, positions.get(host, {})), pattern)
            for host, variables in hosts.items()
        ]

    host_facts = read_facts(None)
    pattern = naming_pattern_set_by_other_hosts([facts for facts, _ in host_facts])
    return host_facts if pattern is None else read_facts(pattern)


def divide_fleet(hosts: Hosts, groups: Groups = NO_GROUPS, today: date = TODAY) -> FleetDivision:
    return divide_into_components([facts for facts, _ in facts_of(hosts, groups)], today)


def context_of(hosts: Hosts, groups: Groups = NO_GROUPS, **options: Any) -> PlanContext:
    division = divide_fleet(hosts, groups)
    return PlanContext(
        division, {text: zlib.compress(schema_bytes(Release.of(text))) for text in division.releases}, **options
    )


def hosts_by_component(
    hosts: Hosts, context: PlanContext, groups: Groups = NO_GROUPS
) -> dict[str, list[ConnectedComponentHost]]:
    components: dict[str, list[ConnectedComponentHost]] = defaultdict(list)
    for facts, text in facts_of(hosts, groups):
        key = component_lookup_key(facts)
        if key is not None:
            host = ConnectedComponentHost(
                facts.host,
                text,
                facts.agent_position,
                facts.balancer_position,
                facts.broker,
                facts.agent,
                facts.balancer,
                facts.by_hand,
            )
            components[context.division.component_of[key]].append(host)
    return {component: sorted(members) for component, members in components.items()}


def plan_components(hosts: Hosts, context: PlanContext, groups: Groups = NO_GROUPS) -> dict[str, ComponentPlanRows]:
    """Return the rows of every component, by its name."""
    members = hosts_by_component(hosts, context, groups)
    return {
        component: plan_fleet_component(component, component_hosts, context)
        for component, component_hosts in members.items()
    }


def rows_of(components: Sequence[ComponentPlanRows], dataset: str) -> list[dict[str, Any]]:
    return [row for component in components for row in component.rows[dataset]]
