"""Inventories in code, for tests of the core."""

from __future__ import annotations

from typing import Any

from activemq_fleet.topology import Fleet, build_fleet

NETWORK = {"activemq_network_username": "net", "activemq_network_password": "a secret"}


def hosts(*pairs: str, nodes: str = "ab", domain: str = "example.com", **variables: Any) -> dict[str, dict[str, Any]]:
    """Both nodes of each pair, with the network's credentials; variables without their prefix."""
    mine = NETWORK | {f"activemq_{name}": value for name, value in variables.items()}
    mine.setdefault("activemq_release", "5.18.3")
    suffix = f".{domain}" if domain else ""
    return {f"{pair}-{node}{suffix}": dict(mine) for pair in pairs for node in nodes}


def fleet(*pairs: str, **variables: Any) -> Fleet:
    """A fleet of pairs that share all variables."""
    return build_fleet(hosts(*pairs, **variables), {})


def rules(found: Fleet) -> list[str]:
    """The names of the rules that fired, in order."""
    return [finding.rule for finding in found.findings]
