"""Find links that cannot connect or log in, by the settings of the brokers at their ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from activemq_fleet.findings import Finding, error_finding
from activemq_fleet.topology.links import PlannedNetwork
from activemq_fleet.topology.model.broker import Broker
from activemq_fleet.topology.model.fleet import PairOrSingleBroker
from activemq_fleet.topology.unequal_settings import EqualSetting, unequal_setting_findings

_TOPOLOGY = "activemq_topology"
_MAX_NAMED = 4
_SAME_LOGIN = "a bridge logs in to the brokers at both of its ends with the same account"
_AUTHENTICATION: tuple[EqualSetting, ...] = (
    (
        "activemq_authentication",
        lambda b: "none" if b.settings.authentication == "none" else None,
        "bridges of a broker without authentication do not log in, and brokers with authentication reject them",
    ),
)
_CREDENTIALS: tuple[EqualSetting, ...] = (
    (
        "activemq_network_username",
        lambda b: b.settings.network_username,
        _SAME_LOGIN,
    ),
    (
        "activemq_network_password",
        lambda b: b.settings.network_password,
        _SAME_LOGIN,
    ),
)


def _any_broker_links_to_its_peer(brokers: Sequence[Broker]) -> bool:
    """Return whether one of the brokers has a link to the other node of its pair."""
    return any(broker.settings.pair_links == "static" and broker.peer_address for broker in brokers)


def _link_definitions_by_unit(network: PlannedNetwork) -> dict[str, tuple[str, ...]]:
    """Return the settings that define the links of each unit (a pair or single broker), by name of the unit.

    Each is the name of a variable, with its value if it has a default.
    """
    definitions: dict[str, set[str]] = {name: set() for name in network.units}
    topologies: dict[str, str] = {}
    for unit in network.units.values():
        settings = unit.brokers[0].settings
        default = "" if "topology" in settings.model_fields_set else " (the default)"
        topologies.setdefault(unit.group, f"{_TOPOLOGY}: {settings.topology}{default}")
        if unit.group in network.multicast_groups:
            definitions[unit.name].add("activemq_discovery: multicast")
        if _any_broker_links_to_its_peer(unit.brokers):
            definitions[unit.name].add("activemq_pair_links: static")
    for plan in (plan for plans in network.plans.values() for plan in plans):
        for name in (plan.source, plan.target):
            if name in definitions:
                definitions[name].add("activemq_links" if plan.entry else topologies[network.units[name].group])
    return {name: tuple(sorted(variables)) for name, variables in definitions.items()}


def _missing_link_user_or_password_findings(
    brokers: Sequence[Broker], definitions: Mapping[str, Sequence[str]]
) -> Iterator[Finding]:
    """Yield an error for each broker with links, but without a user name or password for them (T008).

    ``definitions`` is the result of ``_link_definitions_by_unit``.
    """
    for broker in brokers:
        if broker.ha_profile.has_peer and broker.peer is None:
            continue  # T002 reports the incomplete pair, and its links can change with it
        settings = broker.settings
        if settings.authentication != "simple" and settings.network_username is None:
            continue
        missing = [
            variable
            for variable, value in (
                ("activemq_network_username", settings.network_username),
                ("activemq_network_password", settings.network_password),
            )
            if value is None
        ]
        if missing:
            yield _missing_login_finding(broker.host, missing, definitions[broker.name_in_links])


def _missing_login_finding(host: str, missing: Sequence[str], definitions: Sequence[str]) -> Finding:
    by_topology_only = len(definitions) == 1 and definitions[0].startswith(_TOPOLOGY)
    alternative = f". If the group requires no links, set {_TOPOLOGY}: none instead" if by_topology_only else ""
    return error_finding(
        "T008",
        host,
        f"{' and '.join(definitions)} {'defines' if len(definitions) == 1 else 'define'} links of the broker, but "
        f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set",
        f"set {' and '.join(missing)} for all brokers of the network, such as in group_vars, and encrypt the "
        f"password with ansible-vault{alternative}",
        why="a broker that requires authentication rejects a link without a user name and password, and the link "
        "tries again every few seconds",
    )


def link_login_and_listener_findings(network: PlannedNetwork) -> Iterator[Finding]:
    """Yield the findings about credentials and listeners at the two ends of planned links (T008, T009, T014).

    The listener is one for OpenWire.
    """
    for plan in (plan for plans in network.plans.values() for plan in plans):
        if not plan.leads_outside_inventory:
            yield from _undialled_link_findings(plan.name, network.units[plan.target])
    definitions = _link_definitions_by_unit(network)
    for units in network.components:
        brokers = [broker for unit in units for broker in unit.brokers]
        has_links_inside_inventory = (
            len(units) > 1 or units[0].group in network.multicast_groups or _any_broker_links_to_its_peer(brokers)
        )
        if has_links_inside_inventory or network.plans.get(units[0].name):
            yield from _missing_link_user_or_password_findings(brokers, definitions)
        if not has_links_inside_inventory:
            continue
        names = sorted({unit.group for unit in units})
        where = f"group {names[0]}" if len(names) == 1 else f"the network of {', '.join(names[:_MAX_NAMED])}"
        where = where if len(units) > 1 else f"pair {brokers[0].pair}"
        yield from unequal_setting_findings(brokers, _AUTHENTICATION, where)
        brokers_with_login = [broker for broker in brokers if broker.settings.authentication == "simple"]
        yield from unequal_setting_findings(brokers_with_login, _CREDENTIALS, where) if brokers_with_login else ()


def _undialled_link_findings(name: str, target: PairOrSingleBroker) -> Iterator[Finding]:
    if not target.openwire_addresses_for_bridges:
        broker = target.brokers[0]
        yield error_finding(
            "T014",
            broker.host,
            f"the link {name} cannot connect to the broker, because activemq_connectors has no OpenWire connector",
            "add a connector with the scheme nio or tcp to activemq_connectors",
            why="a link uses the OpenWire protocol, so without an OpenWire port on this broker it carries no messages",
        )
