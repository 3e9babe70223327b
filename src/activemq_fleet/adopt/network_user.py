"""Propose the account with which bridges authenticate, from the links and accounts of all files."""

from __future__ import annotations

from collections import Counter

from activemq_fleet.adopt.accounts_and_permissions import authentication_user_elements, user_group_names_in_attribute
from activemq_fleet.adopt.network_connectors import network_connector_elements
from activemq_fleet.adopt.profiles import master_connector_element
from activemq_fleet.adopt.proposal import ProposedVariablesByHost
from activemq_fleet.topology.access import NETWORK_GROUP

NEW_USER = "network"
"""The account that is proposed if the existing bridges have none."""


def propose_network_user(proposal: ProposedVariablesByHost) -> bool:
    """Propose the network user (``activemq_network_username``) from the logins of existing bridges.

    Return True where bridges exist and neither they nor the accounts name a user, so that a new user was proposed.
    """
    connecting_nodes = [
        node
        for document in proposal.documents
        for node in (*network_connector_elements(document), master_connector_element(document))
        if node
    ]
    names = Counter(node.get("userName") for node in connecting_nodes if node.get("userName"))
    users = [account for document in proposal.documents for account in authentication_user_elements(document)]
    if not names:
        names.update(
            account.get("username") for account in users if NETWORK_GROUP in user_group_names_in_attribute(account)
        )
    if not (names or connecting_nodes):
        return False
    name = names.most_common(1)[0][0] if names else NEW_USER
    passwords = Counter(
        node.get("password")
        for document in proposal.documents
        for node in (*network_connector_elements(document), *authentication_user_elements(document))
        if name in (node.get("userName"), node.get("username"))
    )
    value = passwords.most_common(1)[0][0] if passwords else ""
    secret = proposal.secrets.secret_file_reference_for(name, value, f"password of the network user {name}")
    for document in proposal.documents:
        if proposal.propose_value_if_valid(document.host, "network_username", name):
            proposal[document.host]["network_password"] = secret
    return not names


def withdraw_unneeded_network_users(proposal: ProposedVariablesByHost) -> None:
    """Remove the proposed user for network bridges from the proposal for each broker whose bridges do not log in.

    Their rendered files do not contain it. They have no links and no such account in their file, or they have no
    authentication: no bridge then logs in.
    """
    fleet = proposal.build_proposed_fleet()
    for document in proposal.documents:
        broker = fleet.broker(document.host)
        name = broker.settings.network_username
        is_needed = broker.networked or broker.links or broker.ha_profile.replicates
        if broker.settings.authentication == "none":
            is_needed = False
        if broker.settings.authentication == "custom":
            is_needed = any(node.get("userName") for node in network_connector_elements(document))
        if not is_needed and name not in {
            account.get("username") for account in authentication_user_elements(document)
        }:
            proposal[document.host].pop("network_username", None)
            proposal[document.host].pop("network_password", None)
