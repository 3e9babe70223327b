"""Determine the status of a fleet from the evidence of its hosts, which a lab or a playbook gathers."""

from __future__ import annotations

from activemq_fleet.status.conclusion import fleet_status
from activemq_fleet.status.model import FleetStatus, parse_states_and_findings
from activemq_fleet.status.nagios import nagios_line_and_exit_code

__all__ = ["FleetStatus", "fleet_status", "nagios_line_and_exit_code", "parse_states_and_findings"]
