"""Inventories in code, for tests of the core."""

from __future__ import annotations

from typing import Any

from activemq_fleet.topology import Fleet, build_fleet

NETWORK = {"activemq_network_username": "net", "activemq_network_password": "a secret"}


def hosts(*pairs: str, nodes: str = "ab", domain: str = "example.com", **variables: Any) -> dict[str, dict[str, Any]]:
    """Return the hosts of each pair with the credentials of the network; ``variables`` have no prefix."""
    settings = NETWORK | {f"activemq_{name}": value for name, value in variables.items()}
    settings.setdefault("activemq_release", "5.18.3")
    suffix = f".{domain}" if domain else ""
    return {f"{pair}-{node}{suffix}": dict(settings) for pair in pairs for node in nodes}


def fleet(*pairs: str, **variables: Any) -> Fleet:
    """Return a fleet of pairs that share all variables."""
    return build_fleet(hosts(*pairs, **variables), {})


def rules_of_findings(checked_fleet: Fleet) -> list[str]:
    """Return the rules of the findings, in order."""
    return [finding.rule for finding in checked_fleet.findings]
