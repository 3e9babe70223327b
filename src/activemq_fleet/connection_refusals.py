"""Compare the TLS settings and credentials of a client or bridge with the requirements of the listener.

Links, agents, lists of clients and load balancers share this comparison. ``connection_refusal`` checks one listener;
``ListenersByAddress`` finds the listener at a host and port.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from activemq_fleet.addresses import Address
from activemq_fleet.node.protocols import protocol_name_of_scheme
from activemq_fleet.topology import Agent, Broker, Connector

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


class BrokerListener(NamedTuple):
    """A listener of a broker: a transport connector that accepts connections on a port.

    It is a transport connector, and has the broker that it belongs to.
    """

    broker: Broker
    connector: Connector


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
        """Whether this problem makes the connection fail in every case, not only with some certificates.

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
    """Return the reason why a broker's listener refuses a connection, or None if it accepts.

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


class ListenersByAddress:
    """A lookup of brokers' listeners by address (host and port).

    A host is known by address and inventory name, and by its first label unless several hosts of the fleet share the
    label: then the label names none of them. Brokers of one address share its ports.
    """

    def __init__(self, brokers: Iterable[Broker]) -> None:
        self._brokers_by_name: dict[str, list[Broker]] = {}
        by_label: dict[str, list[Broker]] = {}
        for broker in brokers:
            for name in {broker.address.lower(), broker.host.lower()}:
                self._brokers_by_name.setdefault(name, []).append(broker)
            by_label.setdefault(broker.identity.short_host_name.lower(), []).append(broker)
        for label, named_brokers in by_label.items():
            if len({broker.address.lower() for broker in named_brokers}) == 1:
                self._brokers_by_name.setdefault(label, named_brokers)
        self._listeners_by_address: dict[Address, BrokerListener] = {}
        for name, named_brokers in self._brokers_by_name.items():
            for broker in named_brokers:
                for connector in broker.connectors:
                    if connector.name != "replication":
                        self._listeners_by_address.setdefault((name, connector.port), BrokerListener(broker, connector))

    def listener_at(self, host: str, port: int) -> BrokerListener | None:
        """Return the broker's listener at an address (host and port), or None."""
        return self._listeners_by_address.get((host.lower(), port))

    def broker_without_listener_at(self, host: str, port: int) -> Broker | None:
        """Return the broker at a host name if none of its connectors listens on a given port, else None.

        None is also returned where the broker may listen at the port.
        """
        brokers = self._brokers_by_name.get(host.lower(), [])
        if not brokers or self.listener_at(host, port) or any(_may_listen(broker, port) for broker in brokers):
            return None
        return brokers[0]


def _may_listen(broker: Broker, port: int) -> bool:
    """Return whether a broker may have a listener at a port that is not in its connectors."""
    has_connector_fragment = any(
        "transportConnector" in f.xml or "Connectors" in f.parent for f in broker.settings.xml_fragments
    )
    return has_connector_fragment or port == broker.ports.get("replication")
