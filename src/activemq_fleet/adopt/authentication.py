"""Propose the authentication of clients: with the broker's accounts, by an existing plugin, or none."""

from __future__ import annotations

from collections import defaultdict

from activemq_fleet.adopt.accounts_and_permissions import authentication_user_elements
from activemq_fleet.adopt.compared_element import ComparedElement
from activemq_fleet.adopt.network_connectors import network_connector_elements
from activemq_fleet.adopt.profiles import master_connector_element
from activemq_fleet.adopt.proposal import ProposedVariablesByHost, Variables
from activemq_fleet.adopt.sources import AdoptedDocument
from activemq_fleet.lint.security_authentication import ADMITS_ANYONE

_SIMPLE_PLUGIN = "simpleAuthenticationPlugin"


def propose_authentication(proposal: ProposedVariablesByHost) -> None:
    """Propose the authentication of every host's broker from its existing activemq.xml.

    The variable is ``activemq_authentication``. A file without any login stays without one, unless bridges of the fleet
    log in: those go on doing so.
    """
    bridges_log_in = any(
        node.get("userName")
        for document in proposal.documents
        for node in (*network_connector_elements(document), master_connector_element(document))
        if node
    )
    for document in proposal.documents:
        if authentication_user_elements(document):
            continue
        plugins = _login_plugin_names(document)
        if plugins == [_SIMPLE_PLUGIN]:
            continue
        proposal[document.host]["authentication"] = "custom" if plugins or bridges_log_in else "none"


def propose_custom_for_inexpressible_accounts(proposal: ProposedVariablesByHost) -> None:
    """Propose ``activemq_authentication: custom`` for each host whose accounts ``activemq_users`` cannot express.

    An example is an account ``${user}``.
    """
    for document in proposal.documents:
        variables = proposal[document.host]
        expressed = variables.get("users") or variables.get("network_username")
        if authentication_user_elements(document) and not expressed:
            variables["authentication"] = "custom"


def _login_plugin_names(document: AdoptedDocument) -> list[str]:
    """Return the names of the plugins in an activemq.xml that may require clients to log in."""
    return [node.name for node in _login_nodes(document)]


def _login_nodes(document: AdoptedDocument) -> list[ComparedElement]:
    return [node for node in document.broker.children_of_first_match("plugins") if node.name not in ADMITS_ANYONE]


def note_inexpressible_authentication(proposal: ProposedVariablesByHost) -> None:
    """Add a note for the operator to ``proposal`` for each kind of authentication that no variable expresses."""
    hosts_by_note: dict[str, list[str]] = defaultdict(list)
    for document in proposal.documents:
        variables = proposal[document.host]
        if "authentication" in variables:
            hosts_by_note[_authentication_note(document, variables)].append(document.host)
    for text, hosts in hosts_by_note.items():
        proposal.add_note(hosts, text)


def _authentication_note(document: AdoptedDocument, variables: Variables) -> str:
    if variables["authentication"] == "none":
        return (
            "the broker does not require authentication, as in its original file (activemq_authentication: none). To "
            "require it, set activemq_authentication: simple on all brokers of the network, and define activemq_users. "
            "For links, also set activemq_network_username and activemq_network_password"
        )
    if not _login_plugin_names(document):
        return (
            "the broker does not require authentication, but its bridges log in to other brokers. adopt set "
            "activemq_authentication: custom, which changes neither the broker nor its bridges: no action is necessary"
        )
    account_names = [name for name in (variables.get("network_username"),) if name]
    account_names += [user["name"] for user in variables.get("users", [])]
    bridges = f"bridges ({', '.join(account_names)}), " if account_names else ""
    return (
        f"adopt keeps {_login_elements_text(document)} in place of activemq_users (activemq_authentication: custom). "
        f"Check that this plugin, or the files that it reads, define the accounts of {bridges}your clients, agents and "
        "load balancers. Also define the account activemq-probe there, with the password activemq_probe_password: "
        "`status` and the playbooks log in with it"
    )


def _login_elements_text(document: AdoptedDocument) -> str:
    texts = []
    for node in _login_nodes(document):
        identifying_attribute = next(
            (f' {name}="{node.get(name)}"' for name in ("configuration", "id", "class") if node.get(name)), ""
        )
        texts.append(f"<{node.name}{identifying_attribute}>")
    return ", ".join(texts)
