"""Brokers of a lab for unit tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from activemq_fleet.lab.lab_brokers import LabBrokers
from activemq_fleet.lab.loopback_overlay import loopback_variables, variables_with_overlay
from tests.unit.lab_fleets import fleet_of, lab_paths_and_state, variables


def make_lab_hosts(tmp_path: Path, *, is_full_distribution: bool = False, **values: Any) -> LabBrokers:
    hosts = variables(**values)
    fleet = fleet_of(hosts)
    lab_paths, state = lab_paths_and_state(fleet, tmp_path / "lab", is_full_distribution=is_full_distribution)
    return LabBrokers(
        lab_paths,
        replace(state, hosts=variables_with_overlay(hosts, loopback_variables(fleet, hosts, lab_paths, state))),
    )
