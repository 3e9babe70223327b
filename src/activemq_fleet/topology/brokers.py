"""Build a broker from one host and its settings, without its links."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from activemq_fleet import uris
from activemq_fleet.addresses import Address
from activemq_fleet.findings import Finding
from activemq_fleet.naming import Identity
from activemq_fleet.node.protocols import PROTOCOLS, protocol_name_of_scheme
from activemq_fleet.releases import Release
from activemq_fleet.settings.connectors_and_links import TransportConnectorSettings, default_connector_options
from activemq_fleet.settings.host_settings import HostSettings
from activemq_fleet.topology.model.broker import (
    Broker,
    Connector,
    bridge_discovery_method_of_broker,
    multicast_uri_of_group,
)
from activemq_fleet.topology.single_broker_problems import (
    MAX_PORT,
    invalid_broker_name_findings,
    unsupported_connector_and_port_findings,
    unsupported_connector_attributes,
    unsupported_element_findings,
    variables_unsupported_by_broker_findings,
)

_DEFAULT_CONNECTORS = (
    TransportConnectorSettings(name="openwire", scheme="nio", port=PROTOCOLS["openwire"].port),
    TransportConnectorSettings(name="stomp", scheme="stomp+nio", port=PROTOCOLS["stomp"].port),
    TransportConnectorSettings(name="mqtt", scheme="mqtt+nio", port=PROTOCOLS["mqtt"].port),
)
_UNLIMITED = ("stomp", "mqtt", "ws")
"""Protocols whose frames releases before 5.12 do not limit."""
_NO_OPTIONS: dict[str, str] = {}
# Measured on 5.5.1, 5.8.0, 5.11.4, 5.18.3 and 6.3.1, each TLS listener there is. Without "transport."
# ws, https, AMQP and auto over NIO, and MQTT over NIO to 5.12, accept clients without a certificate.
_ASKS_FOR_CERTIFICATE = "transport.needClientAuth"


@dataclass(frozen=True)
class BrokerHost:
    """A host that runs a broker, with its identity (group, pair, node), settings and release."""

    identity: Identity
    settings: HostSettings
    release: Release

    @property
    def host(self) -> str:
        """The inventory name of the host."""
        return self.identity.name

    @property
    def address(self) -> str:
        """The host name or IP address at which other hosts connect to the broker."""
        return self.settings.address or self.identity.name

    @cached_property
    def listeners(self) -> BrokerListeners:
        """The listeners of the host's broker: its connectors and ports."""
        return _listen(self)


def build_brokers_without_links_or_accounts(broker_hosts: Sequence[BrokerHost]) -> tuple[list[Broker], list[Finding]]:
    """Build the brokers of all hosts without links, accounts and permissions, and return (brokers, findings).

    The findings need only the settings of one host.
    """
    nodes: dict[str, list[BrokerHost]] = defaultdict(list)
    for broker_host in broker_hosts:
        nodes[broker_host.identity.pair].append(broker_host)
    brokers: list[Broker] = []
    findings: list[Finding] = []
    for broker_host in broker_hosts:
        peers = (node for node in nodes[broker_host.identity.pair] if node.identity.node != broker_host.identity.node)
        broker, broker_findings = build_broker_without_links_or_accounts(broker_host, next(peers, None))
        brokers.append(broker)
        findings += broker_findings
    return _with_shared_short_host_names(brokers), findings


def _with_shared_short_host_names(brokers: Sequence[Broker]) -> list[Broker]:
    """Return the brokers, with those marked that share their short host name with another broker without a peer."""
    numbers = Counter(broker.identity.short_host_name for broker in brokers if not broker.ha_profile.has_peer)
    return [
        replace(broker, shares_short_host_name=True)
        if not broker.ha_profile.has_peer and numbers[broker.identity.short_host_name] > 1
        else broker
        for broker in brokers
    ]


def build_broker_without_links_or_accounts(
    broker_host: BrokerHost, peer: BrokerHost | None = None
) -> tuple[Broker, list[Finding]]:
    """Build the broker of a host without links, accounts and permissions, and return (broker, findings).

    ``peer`` is the other node of the pair. The findings T005, T011 and T013 need only this host's settings.
    """
    identity, settings, release = broker_host.identity, broker_host.settings, broker_host.release
    listeners = broker_host.listeners
    findings: list[Finding] = []
    if not listeners.sound:
        findings += [
            *variables_unsupported_by_broker_findings(broker_host),
            *unsupported_connector_and_port_findings(broker_host, listeners),
        ]
    findings += unsupported_element_findings(broker_host)
    broker = Broker(
        host=identity.name,
        identity=identity,
        settings=settings,
        release=release,
        address=broker_host.address,
        broker_name=settings.broker_name
        or (identity.pair if settings.ha_profile.shares_store else identity.short_host_name),
        store_directory=store_directory_of(broker_host),
        ports=listeners.ports,
        connectors=listeners.connectors,
        peer=peer.host if peer and settings.ha_profile.has_peer else None,
        peer_address=_peer_address(broker_host, peer) if peer else None,
    )
    return broker, [*findings, *invalid_broker_name_findings(broker_host)]


def _peer_address(broker_host: BrokerHost, peer: BrokerHost) -> Address | None:
    profile = broker_host.settings.ha_profile
    if not profile.has_peer:
        return None
    listeners = peer.listeners
    port = listeners.ports.get("replication") if profile.replicates else None
    if port is None and listeners.openwire:
        port = listeners.openwire.port
    return (peer.address, port) if port else None


@dataclass(frozen=True, slots=True)
class BrokerListeners:
    """The listeners of one broker: its connectors and ports.

    They are computed from its settings and release alone. ``ports`` maps names of connectors, ``console``, ``metrics``,
    ``jmx``, ``jmx_rmi`` and ``replication`` to ports. ``unknown`` are configured connectors with a scheme that the
    release does not have, each with its position. ``openwire`` is the first OpenWire connector. ``sound`` is True if
    neither the connectors nor the profile cause a finding.
    """

    connectors: tuple[Connector, ...]
    ports: Mapping[str, int]
    unknown: tuple[tuple[int, TransportConnectorSettings], ...]
    openwire: Connector | None
    sound: bool


def _listen(broker_host: BrokerHost) -> BrokerListeners:
    connectors, unknown = _connectors(broker_host)
    ports = {connector.name: connector.port for connector in connectors}
    if broker_host.settings.console:
        ports["console"] = broker_host.settings.console_port + broker_host.settings.port_offset
    if broker_host.settings.metrics:
        ports["metrics"] = broker_host.settings.metrics_port + broker_host.settings.port_offset
    jmx = broker_host.settings.jmx
    if jmx:
        ports["jmx"] = jmx.port + broker_host.settings.port_offset
        if jmx.rmi_port and jmx.rmi_port != jmx.port:
            ports["jmx_rmi"] = jmx.rmi_port + broker_host.settings.port_offset
    sound = (
        not unknown
        and not any(unsupported_connector_attributes(broker_host))
        and max(ports.values(), default=0) <= MAX_PORT
        and not any(variables_unsupported_by_broker_findings(broker_host))
    )
    openwire = next((connector for connector in connectors if uris.is_openwire(connector.scheme)), None)
    return BrokerListeners(connectors, ports, unknown, openwire, sound)


def _connectors(
    broker_host: BrokerHost,
) -> tuple[tuple[Connector, ...], tuple[tuple[int, TransportConnectorSettings], ...]]:
    """Return the connectors of a broker, and the configured ones of an unknown scheme, each with its position."""
    settings, release = broker_host.settings, broker_host.release
    replicates = settings.ha_profile.replicates
    if replicates and broker_host.identity.role == "slave":
        return (), ()
    connectors: list[Connector] = []
    unknown: list[tuple[int, TransportConnectorSettings]] = []
    wanted = settings.connectors if settings.connectors is not None else _default_connectors(release)
    # Only one connector announces the broker: a second announcement would be a second bridge.
    announced = bridge_discovery_method_of_broker(settings, release) != "multicast" or any(
        name == "discoveryUri" for connector in wanted for name, _ in connector.attributes
    )
    is_limited = release.limits_client_frames or not any(
        protocol_name_of_scheme(c.scheme) in _UNLIMITED for c in wanted
    )
    for position, connector in enumerate(wanted):
        scheme = _connector_scheme(broker_host, connector)
        if scheme is None:
            unknown.append((position, connector))
            continue
        discovery = dict(connector.attributes).get("discoveryUri")
        if not announced and uris.is_openwire(scheme):
            discovery, announced = multicast_uri_of_group(broker_host.identity.group, settings), True
        options = connector.options
        if "options" not in connector.model_fields_set:
            options = default_connector_options(scheme, limits_client_frames=is_limited)
        if settings.connectors is None and not release.has_max_frame_size:
            options = {name: value for name, value in options.items() if name != "wireFormat.maxFrameSize"}
        if settings.tls and settings.tls.client_auth and connector.tls:
            options = {**options, _ASKS_FOR_CERTIFICATE: "true"}
        port = connector.port + settings.port_offset
        attributes = tuple(attribute for attribute in connector.attributes if attribute[0] != "discoveryUri")
        connectors.append(Connector(connector.name, scheme, port, options, discovery, connector.bind, attributes))
        if replicates and position == 0:
            connectors.append(_replication_connector(broker_host))
    if replicates and not wanted:
        connectors.append(_replication_connector(broker_host))
    return tuple(connectors), tuple(unknown)


def _replication_connector(broker_host: BrokerHost) -> Connector:
    port = broker_host.settings.replication_port + broker_host.settings.port_offset
    return Connector("replication", "nio", port, _NO_OPTIONS)


def _default_connectors(release: Release) -> tuple[TransportConnectorSettings, ...]:
    return _DEFAULT_CONNECTORS if release.has_usable_mqtt else _DEFAULT_CONNECTORS[:2]


def _connector_scheme(broker_host: BrokerHost, connector: TransportConnectorSettings) -> str | None:
    release, tls, scheme = broker_host.release, broker_host.settings.tls, connector.scheme
    if scheme not in release.schemes or scheme == "vm":
        return None
    if tls is None or not connector.tls:
        return scheme
    tls_scheme = release.tls_scheme(scheme)
    accepts_all_clients = tls.client_auth and not release.has_nio_client_auth
    if tls_scheme and (accepts_all_clients or (scheme != tls_scheme and not release.reads_on_after_nio_handshake)):
        return tls_scheme.replace("nio+ssl", "ssl")
    return tls_scheme


def store_directory_of(broker_host: BrokerHost) -> str:
    """Return the path of a broker's store directory.

    It is ``activemq_store_directory`` where it is set, else a default from its profile and pair.
    """
    settings = broker_host.settings
    if settings.store_directory:
        return settings.store_directory
    if settings.ha_profile.shares_store_directory:
        return f"/srv/activemq/{broker_host.identity.pair}"
    return f"{settings.base.rstrip('/')}/{settings.instance}/data/kahadb"
