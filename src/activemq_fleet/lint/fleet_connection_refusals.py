"""Rules N and C about links, agents and clients that a listener rejects; ``connection_refusals`` compares both ends."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Literal

from activemq_fleet.addresses import is_loopback
from activemq_fleet.connection_refusals import (
    ClientTlsSettings,
    ConnectionRefusal,
    connection_refusal,
    tls_settings_of_agent,
)
from activemq_fleet.findings import Severity
from activemq_fleet.lint.document import Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.fleet_clients import client_failover_uris
from activemq_fleet.lint.fleets import FleetView
from activemq_fleet.lint.link_connections import plugins_that_reject_links_without_user_name
from activemq_fleet.node.protocols import protocol_name_of_scheme
from activemq_fleet.routes.bridges import NetworkConnectorRefusedByTarget, has_network_connector_fragments
from activemq_fleet.topology import Agent, Balancer, VirtualAddressPort
from activemq_fleet.topology.brokers_by_address import BrokerListener
from activemq_fleet.uris import is_openwire

_MAX_LISTED_LINKS = 3
_UNAVAILABLE = "the load balancer reports this broker as unavailable and sends no client to it"
_PERMISSIVE_CLIENT_TLS = ClientTlsSettings(has_authority=True, has_certificate=True)
_LINK_FIXES = {
    "closed": "in the URI of the link, write a port on which {peer} listens. To list these ports, run "
    "`activemq-fleet explain {peer}`",
    "protocol": "in the URI of the link, write the port of the OpenWire connector of {peer}",
    "clear": "use ssl:// in the URI of the link, or define the link in activemq_links instead",
    "tls": "use tcp:// in the URI of the link, or define the link in activemq_links instead",
    "certificate": "set activemq_tls on {host}, with a key store that contains a client certificate, or set "
    "activemq_tls.client_auth: false on {peer}",
    "authority": "set activemq_tls on {host}, with a trust store that contains the certificate authority of {peer}",
    "account": "set userName and password of the link to an account that {peer} has, such as "
    "activemq_network_username and activemq_network_password",
}
_SAME_TLS_FIX = "set activemq_tls for all nodes of {unit}, or for none of them"
_INVENTORY_LINK_FIXES = _LINK_FIXES | {
    "clear": _SAME_TLS_FIX,
    "tls": _SAME_TLS_FIX,
    "account": "set activemq_network_username and activemq_network_password of {host} to an account that {peer} has. "
    "If activemq_authentication of {host} is none, set it to simple, because links then use this account",
}
_ADDRESSES_LINK_FIXES = _INVENTORY_LINK_FIXES | {
    "closed": "in addresses of the link in activemq_links, write a port on which {peer} listens. To list these ports, "
    "run `activemq-fleet explain {peer}`. If a program outside the inventory listens at this port, add a waiver of "
    "N045 to activemq_waivers",
    "protocol": "in addresses of the link in activemq_links, write the port of the OpenWire connector of {peer}",
    "clear": "write ssl:// before the address of {peer} in addresses of the link in activemq_links, or replace "
    "addresses by `to: {unit}`",
    "tls": "remove ssl:// from addresses of the link in activemq_links, or set activemq_tls for {peer}",
}
_Origin = Literal["fragment", "inventory", "addresses"]
_FIXES_BY_ORIGIN: dict[_Origin, dict[str, str]] = {
    "fragment": _LINK_FIXES,
    "inventory": _INVENTORY_LINK_FIXES,
    "addresses": _ADDRESSES_LINK_FIXES,
}
_CLIENT_FIXES = {
    "clear": "write ssl:// in the failover list of the client",
    "tls": "write tcp:// or nio:// in the failover list of the client, or set activemq_tls for {peer}",
    "closed": "in the failover list of the client, write a port on which {peer} listens. To list these ports, run "
    "`activemq-fleet explain {peer}`",
    "protocol": "in the failover list of the client, write the port of the OpenWire connector of {peer}",
}


@rule("N045", "error", scope="fleet")
def link_cannot_connect_to_target_broker(view: FleetView) -> Iterator[Problem]:
    """A broker rejects a link, because TLS, the scheme, the port or the account of the two brokers do not match.

    Why: the bridge is never established. The sending broker retries every few seconds, and keeps the messages.
    Fix: set activemq_tls on both brokers or on neither. If the link has its own URI or addresses, use the scheme and
        the port of a connector of the target broker. Set userName and password of the link to an account of the target
        broker.
    Cannot see: which authority signed a certificate, and links to brokers outside the inventory. If a link with
        addresses leads to a port at which no broker of the inventory listens, the finding is a warning, because a
        program outside the inventory may listen there.
    Source: measured on 5.18.3: Empty client certificate chain; TcpTransportServer

    Fires on 5.18.3::

        all:
          activemq_links: [{from: north, to: south}]
        hosts:
          north-mq01-a: {activemq_ha: none}
          south-mq01-a:
            activemq_ha: none
            activemq_tls:
              {keystore: /k, keystore_password: x, truststore: /t, truststore_password: x, client_auth: true}

    Silent on 5.18.3::

        all:
          activemq_links: [{from: north, to: south}]
          activemq_tls: {keystore: /k, keystore_password: x, truststore: /t, truststore_password: x, client_auth: true}
        hosts:
          north-mq01-a: {activemq_ha: none}
          south-mq01-a: {activemq_ha: none}
    """
    yield from _refused_link_problems(view, certain=True)


@rule("N046", "warning", scope="fleet")
def tls_link_without_trust_store(view: FleetView) -> Iterator[Problem]:
    """A broker without a configured trust store opens a link over TLS.

    Why: without a trust store, Java trusts only public certificate authorities. The bridge is not established if a
        private authority signed the other broker's certificate.
    Fix: set activemq_tls on both brokers: its option truststore configures the trust store. If a public authority
        signed the other broker's certificate, add a waiver of N046 to activemq_waivers.
    Source: JSSE: without a trust store only the authorities of Java are trusted

    Fires on 5.18.3::

        all:
          activemq_links: [{from: north, to: south}]
        hosts:
          north-mq01-a: {activemq_ha: none}
          south-mq01-a:
            activemq_ha: none
            activemq_tls: {keystore: /k, keystore_password: x, truststore: /t, truststore_password: x}

    Silent on 5.18.3::

        all:
          activemq_links: [{from: north, to: south}]
          activemq_tls: {keystore: /k, keystore_password: x, truststore: /t, truststore_password: x}
        hosts:
          north-mq01-a: {activemq_ha: none}
          south-mq01-a: {activemq_ha: none}
    """
    yield from _refused_link_problems(view, certain=False)


def _refused_link_problems(view: FleetView, *, certain: bool) -> Iterator[Problem]:
    """Yield a problem for each pair or broker and each reason for which its network links are refused.

    Links with their own URI or addresses, whose fix is a different one for each target, have a problem for each target.
    """
    refusals: dict[tuple[str, str, _Origin, tuple[str, int] | None], list[NetworkConnectorRefusedByTarget]] = {}
    for refused_link in view.refused_links:
        if refused_link.refusal.is_certain_to_fail == certain and not _is_missing_user_reported_elsewhere(
            view, refused_link
        ):
            refusal, origin = refused_link.refusal, _origin_of_link(view, refused_link)
            target = None if origin == "inventory" else (refused_link.peer.name_in_links, refusal.port)
            refusals.setdefault((refused_link.unit, refusal.kind, origin, target), []).append(refused_link)
    for (_, kind, origin, _), links in refusals.items():
        first = links[0]
        broker = view.fleet.broker(first.host)
        names = list(dict.fromkeys(refused_link.connector.name for refused_link in links))
        listed_names = ", ".join(names[:_MAX_LISTED_LINKS]) + (
            f" and {len(names) - _MAX_LISTED_LINKS} more" if len(names) > _MAX_LISTED_LINKS else ""
        )
        subject = "links" if len(names) > 1 else "link"
        may_be_outside = origin == "addresses" and kind == "closed"
        verb = "cannot connect" if certain and not may_be_outside else "possibly cannot connect"
        message = (
            f"{subject} {listed_names} {verb}: {first.refusal.connection_refusal_sentence(first.host, first.peer.host)}"
        )
        document = view.broker_document(broker) if has_network_connector_fragments(broker) else None
        node = (
            next((node for node in document.network_connectors if node.get("name") == names[0]), None)
            if document
            else None
        )
        fix = _FIXES_BY_ORIGIN[origin][kind].format(
            host=first.host, peer=first.peer.host, unit=first.peer.name_in_links
        )
        severity: Severity | None = "warning" if may_be_outside else None
        yield Problem(message, node=node, attribute="uri", fix=fix, host=broker.host, severity=severity)


def _origin_of_link(view: FleetView, refused_link: NetworkConnectorRefusedByTarget) -> _Origin:
    """Return whether a link is a fragment of the user, or of the inventory, with or without ``addresses``."""
    for link in view.fleet.broker(refused_link.host).links:
        if link.name == refused_link.connector.name:
            is_to_addresses = link.kind != "multicast" and link.target not in view.brokers_by_pair
            return "addresses" if is_to_addresses else "inventory"
    return "fragment"


def _is_missing_user_reported_elsewhere(view: FleetView, refused_link: NetworkConnectorRefusedByTarget) -> bool:
    """Return whether another rule reports that a link without a user name cannot connect.

    T009 reports links whose target is in the inventory, except those with ``addresses``. T008 and N036 report links of
    a broker that itself requires a login.
    """
    if refused_link.refusal.kind != "account" or refused_link.refusal.user:
        return False
    broker = view.fleet.broker(refused_link.host)
    document = view.broker_document(broker)
    peer = refused_link.peer
    return any(
        link.name == refused_link.connector.name and link.target in (peer.name_in_links, peer.group)
        for link in broker.links
    ) or (document is not None and any(map(plugins_that_reject_links_without_user_name, document.brokers)))


@rule("C020", "error", scope="fleet")
def client_or_agent_cannot_connect(view: FleetView) -> Iterator[Problem]:
    """An agent, load balancer or client cannot connect: TLS, certificate, scheme, port or bind do not match.

    Why: the broker closes each connection before the client can use it.
    Fix: set activemq_tls on all brokers of a pair or group, or on none. If activemq_tls.client_auth is true, set
        activemq_agent_tls_certificate and activemq_agent_tls_key. In the failover: URI of a client, use the scheme and
        the port of a connector of the broker.
    Cannot see: clients outside the inventory. Of clients, the rule checks only the failover: URIs in
        activemq_xml_fragments, activemq_extra_files and activemq_java_options of brokers. T027 reports a load balancer
        without a certificate.
    Source: measured on 5.18.3: Empty client certificate chain; agent/tls.py

    Fires on 5.18.3::

        all:
          activemq_tls: {keystore: /k, keystore_password: x, truststore: /t, truststore_password: x, client_auth: true}
          activemq_agent_username: web
          activemq_agent_password: a secret
          activemq_agent_tls_ca: /etc/ssl/fleet.pem
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}, web1: {}}
        groups: {activemq_agents: [web1]}

    Fires on 5.18.3::

        hosts:
          orders-mq01-a.example.com:
            activemq_extra_files:
              - path: conf/camel.properties
                content: "broker=failover:(ssl://orders-mq01-a.example.com:61616,ssl://orders-mq01-b.example.com:61616)?timeout=3000"
          orders-mq01-b.example.com:

    Silent on 5.18.3::

        all:
          activemq_tls: {keystore: /k, keystore_password: x, truststore: /t, truststore_password: x, client_auth: true}
          activemq_agent_username: web
          activemq_agent_password: a secret
          activemq_agent_tls_ca: /etc/ssl/fleet.pem
          activemq_agent_tls_certificate: /etc/ssl/web1.pem
          activemq_agent_tls_key: /etc/ssl/web1.key
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}, web1: {}}
        groups: {activemq_agents: [web1]}
    """
    for agent in view.fleet.agents:
        refused = next(
            (agent_refusal for agent_refusal in _refusals_of_agent(view, agent) if agent_refusal[1].is_certain_to_fail),
            None,
        )
        if refused:
            fix = (
                "set activemq_agent_tls_certificate and activemq_agent_tls_key, or activemq_tls.client_auth: false "
                "for the brokers"
                if refused[1].kind == "certificate"
                else f"set activemq_tls on all brokers of pair {agent.pair}, to which the agent connects, or on none "
                "of them"
            )
            message = f"the agent cannot connect: {_refusal_sentence(refused, 'the agent')}"
            why = "the agent never connects to the broker, and keeps all messages on the disk of its host"
            yield Problem(message, host=agent.host, fix=fix, why=why)
    for balancer in view.fleet.balancers:
        yield from _balancer_problems(view, balancer)
    yield from _client_list_problems(view)


_RefusedListener = tuple[BrokerListener, ConnectionRefusal]


def _refusal_sentence(refused_listener: _RefusedListener, client_host: str) -> str:
    return refused_listener[1].connection_refusal_sentence(client_host, refused_listener[0].broker.host)


def _refusals_of_agent(view: FleetView, agent: Agent) -> Iterator[_RefusedListener]:
    client_tls = tls_settings_of_agent(agent)
    for url in agent.urls:
        listener = view.brokers_by_address.listener_at(*url)
        refusal = connection_refusal(client_tls, listener, tls=agent.tls, protocol="mqtt") if listener else None
        if listener and refusal:
            yield listener, refusal


def _balancer_problems(view: FleetView, balancer: Balancer) -> Iterator[Problem]:
    """Yield problems for each address of a load balancer whose brokers do not accept the balancer's connections.

    They are the first broker with other TLS or another protocol than clients of the address use, and the first broker
    that listens only on a loopback address.
    """
    for address in balancer.addresses:
        listeners = [
            (front, listener)
            for front in address.fronts
            for backend in front.backends
            for server in backend.servers
            if (listener := view.brokers_by_address.listener_at(*server.address))
        ]
        reasons = (_different_tls_or_protocol(front, listener, address.group) for front, listener in listeners)
        for reason, fix in [*islice(filter(None, reasons), 1)]:
            message = f"the load balancer cannot connect to a broker of group {address.group}: {reason}"
            yield Problem(message, host=balancer.host, fix=fix, why=_UNAVAILABLE)
        for broker, connector in (listener for _, listener in listeners):
            bind = connector.bind or broker.settings.bind
            if is_loopback(bind) and not is_loopback(broker.address):
                message = (
                    f"the load balancer cannot connect to connector {connector.name} of {broker.host} (port "
                    f"{connector.port}), which listens only on {bind}"
                )
                fix = (
                    f"set {'bind of the connector' if connector.bind else 'activemq_bind'} on {broker.host} to an "
                    "address that the load balancer reaches. If only local clients use the connector, add a waiver of "
                    "C020 to activemq_waivers"
                )
                yield Problem(message, host=balancer.host, fix=fix, why=_UNAVAILABLE, severity="warning")
                break


def _different_tls_or_protocol(
    front: VirtualAddressPort, listener: BrokerListener, group: str
) -> tuple[str, str] | None:
    """Return why clients of a port of a virtual address cannot use a broker's listener, and the fix; None if they can.

    Clients of the port would need both TLS and plain connections, or two protocols.
    """
    connector = listener.connector
    if connector.uses_tls != front.tls:
        refusal = ConnectionRefusal("tls" if front.tls else "clear", connector.port, connector.name)
        return (
            _refusal_sentence((listener, refusal), "the load balancer"),
            f"set activemq_tls for all brokers of group {group}",
        )
    protocol = protocol_name_of_scheme(connector.scheme)
    if protocol != front.protocol and not connector.scheme.startswith("auto"):
        return (
            f"connector {connector.name} of {listener.broker.host} (port {connector.port}) uses {protocol}, but the "
            f"connector of this name on other brokers uses {front.protocol}",
            f"in activemq_connectors of all brokers of group {group}, set the same protocol for the connector "
            f"{connector.name}, or rename the connectors that use another protocol",
        )
    return None


def _client_list_problems(view: FleetView) -> Iterator[Problem]:
    for client in client_failover_uris(view):
        for transport in client.uri.transport_uris:
            if not is_openwire(transport.scheme):  # only clients of OpenWire are checked
                continue
            refusal = _certain_refusal(view, transport.host, transport.port, "ssl" in transport.scheme)
            if refusal:
                message = (
                    f"a client cannot connect with its failover list {client.uri.text}: "
                    f"{refusal[1].connection_refusal_sentence('the client', refusal[0])}"
                )
                fix = _CLIENT_FIXES.get(refusal[1].kind, _LINK_FIXES[refusal[1].kind])
                yield client.problem_at_failover_uri(message, fix.format(host="the client", peer=refusal[0]))
                break


def _certain_refusal(view: FleetView, host: str, port: int, tls: bool) -> tuple[str, ConnectionRefusal] | None:
    """Return the host that certainly refuses a client, and the refusal; otherwise None.

    Only the URI of the client is known.
    """
    listener = view.brokers_by_address.listener_at(host, port)
    if listener is None:
        broker = view.brokers_by_address.broker_without_listener_at(host, port) if port else None
        return (broker.host, ConnectionRefusal("closed", port)) if broker else None
    refusal = connection_refusal(_PERMISSIVE_CLIENT_TLS, listener, tls=tls)
    return (listener.broker.host, refusal) if refusal else None


@rule("C021", "warning", scope="fleet")
def agent_tls_without_ca(view: FleetView) -> Iterator[Problem]:
    """An agent uses TLS without activemq_agent_tls_ca.

    Why: the agent then trusts only the public certificate authorities of its host. It disconnects from every broker
        whose certificate a private authority signed.
    Fix: set activemq_agent_tls_ca to a PEM file on the agent's host. If a public authority signed the certificates,
        add a waiver of C021 to activemq_waivers.
    Source: agent/tls.py: without tls.ca only the authorities of the system are trusted

    Fires on 5.18.3::

        all:
          activemq_tls: {keystore: /k, keystore_password: x, truststore: /t, truststore_password: x}
          activemq_agent_username: web
          activemq_agent_password: a secret
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}, web1: {}}
        groups: {activemq_agents: [web1]}

    Silent on 5.18.3::

        all:
          activemq_tls: {keystore: /k, keystore_password: x, truststore: /t, truststore_password: x}
          activemq_agent_username: web
          activemq_agent_password: a secret
          activemq_agent_tls_ca: /etc/ssl/fleet.pem
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}, web1: {}}
        groups: {activemq_agents: [web1]}
    """
    for agent in view.fleet.agents:
        refused_listener = next(_refusals_of_agent(view, agent), None)
        if refused_listener and not refused_listener[1].is_certain_to_fail:
            name, pair = refused_listener[1].name, agent.pair
            message = (
                f"activemq_agent_tls_ca is not set, but connector {name} of pair {pair}, to which this agent connects, "
                "uses TLS: the agent rejects a certificate of a private authority"
            )
            yield Problem(message, host=agent.host)


@rule("C022", "info", scope="fleet")
def java_clients_need_trust_store(view: FleetView) -> Iterator[Problem]:
    """Java clients need a trust store, and in some cases a client certificate, to connect with TLS.

    Why: jndi.properties contains ssl:// URIs, but it cannot contain the trust store and the key store of a client.
        Without these stores, Java trusts only public certificate authorities and presents no client certificate. The
        broker and the client then never connect.
    Fix: start clients with -Djavax.net.ssl.trustStore and -Djavax.net.ssl.trustStorePassword. If a broker requires a
        certificate, add -Djavax.net.ssl.keyStore and -Djavax.net.ssl.keyStorePassword.
    Cannot see: how clients are started, so the finding remains after the fix. Then add a waiver of C022 to
        activemq_waivers.
    Source: JSSE; ActiveMQConnectionFactory of the release tags

    Fires on 5.18.3::

        all:
          activemq_tls: {keystore: /k, keystore_password: x, truststore: /t, truststore_password: x}
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}}

    Silent on 5.18.3::

        hosts: {orders-mq01-a: {}, orders-mq01-b: {}}
    """
    for group in view.fleet.groups:
        tls_listeners = [(b, b.openwire) for b in group.brokers if b.openwire and b.openwire.uses_tls]
        if tls_listeners:
            broker, connector = tls_listeners[0]
            needs_certificate = any(
                listener.refuses_clients_without_certificate(b.release) for b, listener in tls_listeners
            )
            required_files = "a trust store and a certificate" if needs_certificate else "a trust store"
            message = f"Java clients of group {group.name} need {required_files}: connector {connector.name} uses TLS"
            fix = "start the clients with -Djavax.net.ssl.trustStore=FILE -Djavax.net.ssl.trustStorePassword=PASSWORD"
            if needs_certificate:
                message += " and requires a client certificate"
                fix += " -Djavax.net.ssl.keyStore=FILE -Djavax.net.ssl.keyStorePassword=PASSWORD"
            yield Problem(message, host=broker.host, fix=fix)
