"""Compare the TLS settings and credentials of a client or bridge with the requirements of the listener.

Links, agents, lists of clients and load balancers share this comparison. ``connection_refusal`` checks one listener.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from activemq_fleet.node.protocols import protocol_name_of_scheme
from activemq_fleet.topology import Agent, Broker, Connector
from activemq_fleet.topology.brokers_by_address import BrokerListener

Kind = Literal["closed", "protocol", "clear", "tls", "certificate", "authority", "account"]
"""Why a listener refuses a connection.

``closed``: no connector has the port; ``protocol``: the listener supports another protocol; ``clear``: it requires TLS
and the client does not use it; ``tls``: the client uses TLS and the listener does not; ``certificate`` and
``account``: it requires one that the client does not have; ``authority``: the client trusts only the public authorities
of Java or of the system.
"""
_TRUST_OPTION, _KEY_OPTION = "-Djavax.net.ssl.trustStore=", "-Djavax.net.ssl.keyStore="


class ClientTlsSettings(NamedTuple):
    """The TLS settings of the client side of a connection to a broker.

    The settings are its trust store, and its certificate if it has one.
    """

    has_authority: bool
    has_certificate: bool


@dataclass(frozen=True, slots=True)
class ConnectionRefusal:
    """The reason why a broker's listener refuses a connection.

    The connection is that of a client or of another broker. ``name`` is the connector's name, "" for a closed port.
    """

    kind: Kind
    port: int
    name: str = ""
    user: str = ""

    @property
    def is_certain_to_fail(self) -> bool:
        """Whether the connection always fails for this reason, whatever certificate the listener has.

        It is True for each ``kind`` except ``authority``: a client without a trust store can still connect if a public
        authority has signed the listener's certificate.
        """
        return self.kind != "authority"

    def connection_refusal_sentence(self, connecting_host: str, refusing_host: str) -> str:
        """Return a sentence that explains why a broker's listener refuses a connection from another host.

        The sentence names both hosts.
        """
        listener = f"connector {self.name} of {refusing_host} (port {self.port})"
        account_text = f"the user {self.user}, which has no account on {refusing_host}" if self.user else "no userName"
        return {
            "closed": f"{connecting_host} connects to port {self.port} of {refusing_host}, which has no connector at "
            "this port",
            "protocol": f"{connecting_host} connects to {listener}, which does not support OpenWire",
            "clear": f"{connecting_host} connects without TLS to {listener}, which requires TLS",
            "tls": f"{connecting_host} connects with TLS to {listener}, which does not use TLS",
            "certificate": f"{listener} requires a client certificate, but {connecting_host} has none",
            "authority": f"{listener} uses TLS, but {connecting_host} has no trust store",
            "account": f"{listener} requires authentication, but {connecting_host} connects with {account_text}",
        }[self.kind]


def connection_refusal(
    client_tls: ClientTlsSettings,
    listener: BrokerListener,
    *,
    tls: bool,
    protocol: str = "openwire",
    user: str | None = None,
) -> ConnectionRefusal | None:
    """Return the reason why a broker's listener refuses a client's connection, or None if it accepts the connection.

    The first of several reasons is returned. ``client_tls`` has the client's TLS settings, and ``tls``: the client uses
    TLS. ``user`` is the name of its account, empty for none, and None where names and passwords of both ends are
    compared elsewhere (T008, T009, T015).
    """
    broker, connector = listener

    def refusal(kind: Kind) -> ConnectionRefusal:
        return ConnectionRefusal(kind, connector.port, connector.name, user or "")

    if not _accepts_protocol(connector, protocol):
        return refusal("protocol")
    if tls != connector.uses_tls:
        return refusal("tls" if tls else "clear")
    if tls and not client_tls.has_certificate and connector.refuses_clients_without_certificate(broker.release):
        return refusal("certificate")
    if user is not None and not _may_accept_user(broker, user):
        return refusal("account")
    if tls and not client_tls.has_authority:
        return refusal("authority")
    return None


def _accepts_protocol(connector: Connector, protocol: str) -> bool:
    return connector.scheme.startswith("auto") or protocol_name_of_scheme(connector.scheme) == protocol


def _may_accept_user(broker: Broker, user: str) -> bool:
    # The user's plugins and placeholders may accept names that are not in the model.
    has_plugin_fragment = any(
        "lugin" in fragment.xml or "lugin" in fragment.parent for fragment in broker.settings.xml_fragments
    )
    requires_login = broker.settings.authentication == "simple"
    return (
        has_plugin_fragment
        or not requires_login
        or "${" in user
        or any(account.name == user for account in broker.accounts)
    )


def outgoing_tls_settings(broker: Broker) -> ClientTlsSettings:
    """Return the TLS settings of a broker for its outgoing connections to other brokers.

    They are whether it has a trust store and a certificate.
    """
    settings = broker.settings
    if settings.tls or any("sslContext" in fragment.xml for fragment in settings.xml_fragments):
        return ClientTlsSettings(has_authority=True, has_certificate=True)
    options = settings.java_options
    return ClientTlsSettings(
        has_authority=any(option.startswith(_TRUST_OPTION) for option in options),
        has_certificate=any(option.startswith(_KEY_OPTION) for option in options),
    )


def tls_settings_of_agent(agent: Agent) -> ClientTlsSettings:
    """Return the TLS settings with which an agent connects to brokers.

    They are whether it has a separate authority, and a certificate.
    """
    return ClientTlsSettings(agent.settings.agent_tls_ca is not None, agent.settings.agent_tls_certificate is not None)
