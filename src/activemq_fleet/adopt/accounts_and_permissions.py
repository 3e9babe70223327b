"""Propose ``activemq_users`` and ``activemq_acl`` from the accounts and rights in activemq.xml files."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from typing import Any

from activemq_fleet.adopt.compared_element import ComparedElement
from activemq_fleet.adopt.proposal import ProposedVariablesByHost, is_valid_value
from activemq_fleet.adopt.sources import AdoptedDocument
from activemq_fleet.node.config.probe_account import PROBE_GROUP, PROBE_USER
from activemq_fleet.topology.access import AGENT_GROUP, NETWORK_GROUP, user_group_of_agent


def authentication_user_elements(document: AdoptedDocument) -> list[ComparedElement]:
    """Return every authenticationUser element of an activemq.xml."""
    return document.broker.find_all("plugins/simpleAuthenticationPlugin/users/authenticationUser")


def user_group_names_in_attribute(node: ComparedElement, attribute: str = "groups") -> list[str]:
    """Return the names of user groups that an XML attribute lists.

    The attribute is that of an authenticationUser, or a right of an authorizationEntry. The group of the probe account
    is left out: the account and its rights are rendered for every broker.
    """
    groups = [group.strip() for group in node.get(attribute).split(",") if group.strip()]
    return [group for group in groups if group != PROBE_GROUP]


def propose_users(proposal: ProposedVariablesByHost) -> None:
    """Propose ``activemq_users`` from the accounts in activemq.xml files.

    The network user is left out.
    """
    agents: dict[str, None] = {}
    agent_accounts = _adopted_agent_accounts(proposal)
    for document in proposal.documents:
        users = []
        names = Counter(account.get("username") for account in authentication_user_elements(document))
        for account in authentication_user_elements(document):
            name, groups = account.get("username"), user_group_names_in_attribute(account)
            if name in (proposal[document.host].get("network_username"), PROBE_USER) or names[name] > 1:
                continue
            is_agents = groups in ([AGENT_GROUP], [AGENT_GROUP, user_group_of_agent(name)])
            if is_agents and name in agent_accounts.get(document.identity.group, ()):
                continue
            secret = proposal.secrets.secret_file_reference_for(
                name, account.get("password"), f"password of user {name}"
            )
            user: dict[str, Any] = {"name": name, "password": secret} | ({"groups": groups} if groups else {})
            if is_valid_value("users", [user]):
                users.append(user)
            if is_agents:
                agents[name] = None
        if users:
            proposal[document.host]["users"] = users
    if agents:
        proposal.notes.append(
            f"{', '.join(agents)}: adopt put these accounts of agents into activemq_users. Add the hosts of the agents "
            "to the group activemq_agents instead, each with activemq_agent_username and activemq_agent_password"
        )


def _adopted_agent_accounts(proposal: ProposedVariablesByHost) -> dict[str, set[str | None]]:
    """Return, by group, the account names of adopted agents, which need no entry in ``activemq_users``."""
    accounts: dict[str, set[str | None]] = defaultdict(set)
    for agent in proposal.build_proposed_fleet().agents if proposal.agents else ():
        accounts[agent.group].add(agent.settings.agent_username)
    return accounts


def propose_acl(proposal: ProposedVariablesByHost) -> None:
    """Propose ``activemq_acl`` from the access rights (authorizationEntry elements) in existing activemq.xml files.

    Rights that the network user, agents and advisory topics get by default are left out.
    """
    path = "plugins/authorizationPlugin/map/authorizationMap/authorizationEntries/authorizationEntry"
    entries_by_host: dict[str, list[dict[str, Any]]] = {}
    agents: set[str] = set()
    for document in proposal.documents:
        agents |= {
            user_group_of_agent(name)
            for account in authentication_user_elements(document)
            if (name := account.get("username"))
        }
        entries = [entry for node in document.broker.find_all(path) if (entry := _acl_entry(node))]
        if entries:
            entries_by_host[document.host] = entries
    if not entries_by_host:
        return
    default_groups = {NETWORK_GROUP, AGENT_GROUP, *agents}
    reduced_by_host = {
        host: _remove_default_groups(entries, default_groups) for host, entries in entries_by_host.items()
    }
    complete_fleet = proposal.proposed_fleet_with_host_overrides(lambda host: {"acl": entries_by_host.get(host)})
    reduced_fleet = proposal.proposed_fleet_with_host_overrides(
        lambda host: {"acl": reduced_by_host.get(host) or entries_by_host.get(host)}
    )
    for host, entries in entries_by_host.items():
        is_same = complete_fleet.broker(host).permissions == reduced_fleet.broker(host).permissions
        proposal[host]["acl"] = reduced_by_host[host] if reduced_by_host[host] and is_same else entries


def _acl_entry(node: ComparedElement) -> dict[str, Any] | None:
    kinds = [kind for kind in ("queue", "topic") if kind in node.attributes]
    if len(kinds) != 1:
        return None
    entry: dict[str, Any] = {"destination": node.get(kinds[0]), "kind": kinds[0]}
    for right in ("read", "write", "admin"):
        if groups := user_group_names_in_attribute(node, right):
            entry[right] = groups
    has_rights = len(entry) > 2 or PROBE_GROUP not in "".join(node.attributes.values())
    return entry if has_rights and is_valid_value("acl", [entry]) else None


def _remove_default_groups(entries: Sequence[Mapping[str, Any]], default_groups: Set[str]) -> list[dict[str, Any]]:
    reduced_entries = []
    for entry in entries:
        rights = {
            right: [group for group in entry[right] if group not in default_groups]
            for right in ("read", "write", "admin")
            if right in entry
        }
        remaining_rights = {right: groups for right, groups in rights.items() if groups}
        if remaining_rights and entry["destination"] != "ActiveMQ.Advisory.>":
            reduced_entries.append({"destination": entry["destination"], "kind": entry["kind"], **remaining_rights})
    return reduced_entries
