"""Explain the clients of a broker: accounts by name, addresses for clients, agents and balancers."""

from __future__ import annotations

from collections.abc import Sequence

from activemq_fleet import uris
from activemq_fleet.addresses import format_mb_urls_value_of_agent_conf
from activemq_fleet.explain.explanation import ExplanationSection, HostStatement, variable_entry
from activemq_fleet.node.config.probe_account import PROBE_USER
from activemq_fleet.settings.host_settings import PREFIX
from activemq_fleet.topology import Account, Agent, Broker, Fleet, Pair, Permission
from activemq_fleet.topology.access import AGENT_GROUP, NETWORK_GROUP

MAX_AGENTS = 12


def accounts_section(fleet: Fleet, broker: Broker) -> ExplanationSection:
    """Return the section of the output of the command ``explain`` about a broker's accounts.

    It shows names, groups and rights, and never contains passwords.
    """
    rights = [_permission_entry(permission) for permission in broker.permissions]
    if not rights:
        client = "any client" if broker.settings.authentication == "none" else "any client that logs in"
        rights = [variable_entry(broker.settings, "acl", "rights", f"{client} has all rights on all destinations")]
    return ExplanationSection("accounts", "Accounts and permissions", (*_login_entries(broker), *rights))


def _login_entries(broker: Broker) -> list[HostStatement]:
    """Return the entries that explain how clients log in: without an account, by a plugin, or by which accounts."""
    settings = broker.settings
    if settings.authentication == "none":
        return [variable_entry(settings, "authentication", "login", "the broker accepts any client without a login")]
    accounts = [_account_entry(account, broker) for account in broker.accounts]
    if settings.authentication == "custom":
        text = "a plugin of activemq_xml_fragments decides which clients can log in"
        return [variable_entry(settings, "authentication", "login", text), *accounts]
    return accounts or [HostStatement("none", "no client can log in, because the broker has no account")]


def _account_entry(account: Account, broker: Broker) -> HostStatement:
    groups = ", ".join(account.groups)
    reason = ""
    is_derived = account.name == PROBE_USER and broker.settings.probe_password is None
    if NETWORK_GROUP in account.groups:
        reason = "both brokers of a bridge log in with this account"
    elif AGENT_GROUP in account.groups:
        reason = f"failover agents of group {broker.group} log in with this account"
    elif account.name == PROBE_USER:
        reason = "health probes log in with this account"
        reason += "; the password of the account is derived from activemq_network_password" if is_derived else ""
    return HostStatement(
        account.name,
        f"in the user groups {groups}" if groups else "in no user group",
        why=reason,
        variable=account.variable if account.variable.startswith(PREFIX) and not is_derived else "",
        origin=None if is_derived else "inventory",
        data={"name": account.name, "groups": list(account.groups)},
    )


def _permission_entry(permission: Permission) -> HostStatement:
    rights = (("read", permission.read), ("write", permission.write), ("admin", permission.admin))
    granted = "; ".join(f"{right} {', '.join(groups)}" for right, groups in rights if groups)
    data = {right: list(groups) for right, groups in rights}
    return HostStatement(
        f"{permission.kind} {permission.destination}", granted or "no group", variable=PREFIX + "acl", data=data
    )


def addresses_for_clients_section(fleet: Fleet, broker: Broker) -> ExplanationSection:
    """Return the section of the output of ``explain`` about the addresses to which clients of a broker connect."""
    unit = _pair_of_broker(fleet, broker)
    jndi = HostStatement(
        "jndi", f"clients/{broker.group}/jndi.properties lists every broker of the group", why="render"
    )
    return ExplanationSection(
        "clients",
        f"Client addresses of {unit.name}",
        (_java_clients_entry(unit), _mqtt_clients_entry(unit), jndi),
        stacked=True,
    )


def _pair_of_broker(fleet: Fleet, broker: Broker) -> Pair:
    """Return the broker's pair, or the broker as a pair of one where its profile has no peer."""
    if not broker.ha_profile.has_peer:
        return Pair(broker.name_in_links, broker.group, (broker,))
    return fleet.pairs_by_name[broker.pair]


def _java_clients_entry(unit: Pair) -> HostStatement:
    client_uris = [
        uris.connection_uri((b.address, b.openwire.port), b.openwire.scheme)
        for b in unit.brokers_in_dialling_order
        if b.openwire
    ]
    uri = uris.failover_uri_from_uris(client_uris) if client_uris else None
    return HostStatement(
        "Java", uri or f"none: no node of {unit.name} has an OpenWire connector", data={"failover": uri}
    )


def _mqtt_clients_entry(unit: Pair) -> HostStatement:
    urls, release = mb_urls_value_for_agent_conf(unit), unit.preferred_master.release
    if urls:
        reason = "for agent.conf of failover agents, with the preferred master first"
    elif release.supports_agents:
        reason = f"no node of {unit.name} has an MQTT connector"
    else:
        reason = f"failover agents cannot use MQTT of ActiveMQ {release.text}"
    return HostStatement("mb.urls", urls or "none", why=reason, data={"mb_urls": urls or None})


def mb_urls_value_for_agent_conf(pair: Pair) -> str:
    """Return the MQTT URLs of a pair's brokers as the value of ``mb.urls`` in a failover agent's agent.conf.

    The result is "" if the pair serves no agent.
    """
    listening = [
        (b.address, c)
        for b in pair.brokers_in_dialling_order
        if b.release.supports_agents and (c := b.connector("mqtt"))
    ]
    return format_mb_urls_value_of_agent_conf(
        [(address, connector.port) for address, connector in listening],
        tls=any(connector.uses_tls for _, connector in listening),
    )


def agents_with_home_pair_of_broker(fleet: Fleet, broker: Broker) -> Sequence[Agent]:
    """Return the failover agents that are assigned to the pair of a broker (their home pair)."""
    return [agent for agent in fleet.agents if agent.pair == broker.pair]


def agents_and_balancers_section(fleet: Fleet, broker: Broker) -> ExplanationSection | None:
    """Return the section of the output of ``explain`` about a broker's agents and the load balancers.

    The result is None without any.
    """
    entries = []
    agents = agents_with_home_pair_of_broker(fleet, broker)
    for agent in agents[:MAX_AGENTS]:
        variable = f"{PREFIX}agent_pair" if agent.settings.agent_pair else ""
        reason = "" if variable else "a stable hash of the agent's host name selects the pair"
        text = f"home pair {agent.pair}"
        entries.append(
            HostStatement(agent.host, text, why=reason, variable=variable, origin="inventory" if variable else None)
        )
    if len(agents) > MAX_AGENTS:
        entries.append(HostStatement("agents", f"and {len(agents) - MAX_AGENTS} more agents, {len(agents)} in total"))
    if broker.settings.vip:
        reason = f"a load balancer serves group {broker.group} at this address"
        entries.append(variable_entry(broker.settings, "vip", "virtual address", broker.settings.vip, why=reason))
    for balancer in fleet.balancers:
        text = "load balancer"
        if broker.ha_profile.replicates:
            text = "this load balancer forwards clients only to preferred masters"
        if broker.is_replication_slave:
            text = (
                f"this load balancer does not forward clients to {broker.host}, because a slave with activemq_ha: pure "
                "accepts no clients"
            )
        entries.append(HostStatement(balancer.host, text))
    return ExplanationSection("pointing", "Agents and load balancers", tuple(entries)) if entries else None
