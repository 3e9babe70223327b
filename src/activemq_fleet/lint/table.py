"""List all rules by id; importing this module loads the families."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from activemq_fleet.lint.engine import RULES, Rule, Scope

# Subject and scope decide where a rule stands; its letter is its family in docs/rules.md.
_MODULES = (
    "versions",
    "versions_files",
    "versions_names",
    "schema_locations",
    "spring_beans",
    "templates",
    "versions_placeholders",
    "locks",
    "locks_database",
    "locks_standby",
    "locks_directories",
    "pure",
    "bridges",
    "bridges_options",
    "network",
    "network_policies",
    "network_demand",
    "network_listening",
    "multicast",
    "clients",
    "clients_limits",
    "clients_housekeeping",
    "security",
    "security_access",
    "security_accounts",
    "security_console",
    "security_jolokia",
    "security_releases",
    "security_secrets",
    "security_tls",
    "fleet_stores",
    "fleet_pure",
    "fleet_network",
    "fleet_network_pairs",
    "fleet_clients",
    "fleet_dialling",
    "host_rules",
)


@cache
def rules(scope: Scope | None = None) -> tuple[Rule, ...]:
    """Return every rule, or the rules of a scope, sorted by id."""
    for module in _MODULES:
        import_module(f"activemq_fleet.lint.{module}")
    return tuple(RULES[name] for name in sorted(RULES) if scope in (None, RULES[name].scope))
