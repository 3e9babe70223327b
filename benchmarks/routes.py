"""Measure ``routes`` of fleets: every ordered pair of units, with all brokers up and with each broker down.

The measured time does not include the generation of the fleets.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from activemq_fleet.routes import route_findings, routes_without_refused_links
from activemq_fleet.topology import Fleet, build_fleet
from benchmarks.measure import print_progress

VARIABLES = {
    "activemq_release": "5.18.3",
    "activemq_network_username": "network",
    "activemq_network_password": "only-measured-with",
}


@dataclass(frozen=True, slots=True)
class RouteFigures:
    """Figures of a fleet: CPU seconds for all routes and findings."""

    name: str
    brokers: int
    seconds: float
    findings: int


def measure() -> list[RouteFigures]:
    """Measure groups of 250 pairs and of 100 single brokers in each topology, and fleets of groups of 4 pairs."""
    figures = []
    for topology in ("mesh", "hub", "ring", "chain"):
        figures.append(_figures(f"a group of 250 pairs, {topology}", _group(250, "ab", topology=topology)))
        single = _group(100, "a", topology=topology, ha="none")
        figures.append(_figures(f"a group of 100 single brokers, {topology}", single))
    return [*figures, *(_figures("groups of four pairs, mesh", _groups(groups)) for groups in (125, 1250))]


def _figures(name: str, fleet: Fleet) -> RouteFigures:
    print_progress(f"routes: {name}")
    began = time.process_time()
    findings = route_findings(routes_without_refused_links(fleet))
    return RouteFigures(name, len(fleet.brokers), time.process_time() - began, len(findings))


def _group(pairs: int, nodes: str, **variables: Any) -> Fleet:
    common = VARIABLES | {f"activemq_{name}": value for name, value in variables.items()}
    return build_fleet({f"o-mq{number}-{node}": dict(common) for number in range(pairs) for node in nodes}, {})


def _groups(groups: int) -> Fleet:
    names = (f"fleet{group}-mq{pair}-{node}" for group in range(groups) for pair in range(4) for node in "ab")
    return build_fleet({name: dict(VARIABLES) for name in names}, {})


def table(figures: list[RouteFigures]) -> str:
    """Return the figures as a Markdown table."""
    lines = ["| fleet | brokers | routes and findings | per broker | findings |", "|---|---|---|---|---|"]
    lines += [
        f"| {fleet.name} | {fleet.brokers:,} | {fleet.seconds:.2f} s "
        f"| {fleet.seconds / fleet.brokers * 1000:.3f} ms | {fleet.findings} |"
        for fleet in figures
    ]
    return "\n".join(lines) + "\n"
