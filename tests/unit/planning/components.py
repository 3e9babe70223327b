"""What the job ``plan`` does, without Spark: hosts, their components, the rows of each."""

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
    fallback_naming_pattern,
)
from activemq_fleet.planning.compute import ComponentPlanRows, ConnectedComponentHost, PlanContext, plan_fleet_component
from activemq_fleet.planning.host_facts import HostFactsForSeparatePlanning, host_component_facts_and_variables
from activemq_fleet.planning.records import HostRecord
from activemq_fleet.releases import Release
from tests.unit.planning.planned import Groups, Hosts

NO_GROUPS: Groups = {}
TODAY = date(2026, 11, 23)

Facts = list[tuple[HostFactsForSeparatePlanning, str | None]]


def facts_of(hosts: Hosts, groups: Groups = NO_GROUPS) -> Facts:
    """The facts of every host, with its variables."""

    def read(pattern: str | None) -> Facts:
        return [
            host_component_facts_and_variables(
                HostRecord(host, variables, tuple(name for name in groups if host in groups[name])), 0, pattern
            )
            for host, variables in hosts.items()
        ]

    found = read(None)
    pattern = fallback_naming_pattern([facts for facts, _ in found])
    return found if pattern is None else read(pattern)


def divided(hosts: Hosts, groups: Groups = NO_GROUPS, today: date = TODAY) -> FleetDivision:
    return divide_into_components([facts for facts, _ in facts_of(hosts, groups)], today)


def context_of(hosts: Hosts, groups: Groups = NO_GROUPS, **more: Any) -> PlanContext:
    division = divided(hosts, groups)
    return PlanContext(
        division, {text: zlib.compress(schema_bytes(Release.of(text))) for text in division.releases}, **more
    )


def hosts_by_component(
    hosts: Hosts, context: PlanContext, groups: Groups = NO_GROUPS
) -> dict[str, list[ConnectedComponentHost]]:
    components: dict[str, list[ConnectedComponentHost]] = defaultdict(list)
    for facts, text in facts_of(hosts, groups):
        key = component_lookup_key(facts)
        if key is not None:
            host = ConnectedComponentHost(
                facts.host, text, facts.position, facts.broker, facts.agent, facts.balancer, facts.by_hand
            )
            components[context.division.component_of[key]].append(host)
    return {component: sorted(members) for component, members in components.items()}


def computed(hosts: Hosts, context: PlanContext, groups: Groups = NO_GROUPS) -> dict[str, ComponentPlanRows]:
    """The rows of every component, by its name."""
    members = hosts_by_component(hosts, context, groups)
    return {
        component: plan_fleet_component(component, component_hosts, context)
        for component, component_hosts in members.items()
    }


def rows_of(components: Sequence[ComponentPlanRows], dataset: str) -> list[dict[str, Any]]:
    return [row for component in components for row in component.rows[dataset]]
