"""Build a broker from one host and its settings, without its links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from activemq_fleet import uris
from activemq_fleet.addresses import Address, InvalidHostNameError, validated_host_name
from activemq_fleet.findings import Finding, error_finding
from activemq_fleet.naming import Identity
from activemq_fleet.node.protocols import PROTOCOLS, protocol_name_of_scheme
from activemq_fleet.releases import Release
from activemq_fleet.settings.host_settings import HostSettings
from activemq_fleet.settings.network import SplitTtl, TransportConnectorSettings, default_connector_options
from activemq_fleet.similar_names import most_similar_name
from activemq_fleet.topology.model.broker import Broker, Connector, discovery_method_of, multicast_uri_of_group

_DEFAULT_CONNECTORS = (
    TransportConnectorSettings(name="openwire", scheme="nio", port=PROTOCOLS["openwire"].port),
    TransportConnectorSettings(name="stomp", scheme="stomp+nio", port=PROTOCOLS["stomp"].port),
    TransportConnectorSettings(name="mqtt", scheme="mqtt+nio", port=PROTOCOLS["mqtt"].port),
)
_UNLIMITED = ("stomp", "mqtt", "ws")
"""Protocols whose frames releases before 5.12 do not limit."""
_NO_OPTIONS: dict[str, str] = {}
_MAX_PORT = 65535
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
    return brokers, findings


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
        findings += [*_check_profile(broker_host), *_check_ports(broker_host, listeners)]
    findings += [*_check_ttl(broker_host), *_check_elements(broker_host)]
    broker = Broker(
        host=identity.name,
        identity=identity,
        settings=settings,
        release=release,
        address=settings.address or identity.name,
        broker_name=settings.broker_name
        or (identity.pair if settings.ha_profile.shares_store else identity.short_host_name),
        store_directory=store_directory_of(broker_host),
        ports=listeners.ports,
        connectors=listeners.connectors,
        peer=peer.host if peer and settings.ha_profile.has_peer else None,
        peer_address=_peer_address(broker_host, peer) if peer else None,
    )
    return broker, [*findings, *_check_name(broker_host)]


def _peer_address(broker_host: BrokerHost, peer: BrokerHost) -> Address | None:
    profile = broker_host.settings.ha_profile
    if not profile.has_peer:
        return None
    listeners = peer.listeners
    port = listeners.ports.get("replication") if profile.replicates else None
    if port is None and listeners.openwire:
        port = listeners.openwire.port
    return (peer.settings.address or peer.host, port) if port else None


@dataclass(frozen=True, slots=True)
class BrokerListeners:
    """The listeners of one broker: its connectors and ports.

    They are computed from its settings and release alone. ``ports`` maps names of connectors, ``console``, ``metrics``
    and ``replication`` to ports. ``unknown`` are configured connectors with a scheme that the release does not have,
    each with its position. ``openwire`` is the first OpenWire connector. ``sound`` is True if neither the connectors
    nor the profile cause a finding.
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
    known = all(broker_host.release.supports(element, name) for _, element, name in _set_attributes(broker_host))
    if broker_host.settings.jmx:
        ports["jmx"] = broker_host.settings.jmx.port + broker_host.settings.port_offset
    sound = (
        not unknown and known and max(ports.values(), default=0) <= _MAX_PORT and not any(_check_profile(broker_host))
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
    announced = discovery_method_of(settings, release) != "multicast" or any(
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


def _check_ports(broker_host: BrokerHost, listeners: BrokerListeners) -> Iterator[Finding]:
    for unknown in listeners.unknown:
        yield _unknown_scheme_finding(broker_host, *unknown)
    for variable, element, name in _set_attributes(broker_host):
        if not broker_host.release.supports(element, name):
            yield _unsupported_finding(
                broker_host,
                f"{variable} sets {name}, but release {broker_host.release.text} has no such attribute",
                f"remove {name} from {variable}",
            )
    for name, port in listeners.ports.items():
        if port > _MAX_PORT:
            yield _unsupported_finding(
                broker_host,
                f"port {port} of the listener {name} is above {_MAX_PORT}",
                f"set a lower activemq_port_offset, or a lower port for the listener {name}",
            )


def _set_attributes(broker_host: BrokerHost) -> Iterator[tuple[str, str, str]]:
    """Yield (variable, element, attribute) of every attribute that the settings give to a connector or link."""
    settings = broker_host.settings
    for position, connector in enumerate(settings.connectors or ()):
        for name, _ in connector.attributes:
            yield f"activemq_connectors[{position}].attributes", "transportConnector", name
    for name, _ in settings.network_attributes:
        yield "activemq_network_attributes", "networkConnector", name
    for position, link in enumerate(settings.links):
        for name, _ in (
            link.attributes if link.source in (broker_host.identity.group, broker_host.identity.pair) else ()
        ):
            yield f"activemq_links[{position}].attributes", "networkConnector", name


def _unknown_scheme_finding(broker_host: BrokerHost, position: int, connector: TransportConnectorSettings) -> Finding:
    where = f"activemq_connectors[{position}].scheme" if broker_host.settings.connectors is not None else "activemq_tls"
    release, needs_tls = broker_host.release, broker_host.settings.tls is not None and connector.tls
    known = sorted(name for name in release.schemes - {"vm"} if not needs_tls or release.tls_scheme(name))
    near = most_similar_name(connector.scheme, known, certain=True)
    listed = ", ".join(known)
    with_tls = " with TLS" if needs_tls else ""
    return _unsupported_finding(
        broker_host,
        f"{where} is {connector.scheme!r}, but release {release.text} cannot listen with this scheme{with_tls}"
        if where != "activemq_tls"
        else f"activemq_tls is set, but release {release.text} cannot listen with the scheme {connector.scheme!r}"
        f"{with_tls}",
        f"write the scheme {near}, or another supported scheme" if near else f"use a supported scheme: {listed}",
    )


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


def _check_name(broker_host: BrokerHost) -> Iterator[Finding]:
    label = broker_host.identity.short_host_name
    if not label.isascii() or not label.replace("-", "").replace("_", "").isalnum():
        yield error_finding(
            "T013",
            broker_host.host,
            f"the first label {label!r} of the host name contains a character that is not valid in a broker name",
            "rename the host: use only letters, digits and hyphens",
            why="the broker replaces the character, so the name of the broker differs from the name of the host",
        )
    elif broker_host.settings.address is None:
        try:
            validated_host_name(broker_host.host)
        except InvalidHostNameError as reason:
            fix = "set activemq_address to a name or IP address that clients can connect to, or rename the host"
            why = "other brokers and clients connect to the host name, because activemq_address is not set"
            message = f"clients cannot connect to the broker: {reason.problem}"
            yield error_finding("T013", broker_host.host, message, fix, why)


def _check_profile(broker_host: BrokerHost) -> Iterator[Finding]:
    settings, release = broker_host.settings, broker_host.release
    needed = settings.ha_profile.release_requirement
    if needed and not needed.is_met_by(release):
        message = needed.message.format(release=release.text)
        yield error_finding(needed.rule, broker_host.host, message, needed.fix, needed.why)
    if settings.ha_profile.replicates and settings.tls:
        yield _unsupported_finding(
            broker_host,
            f"activemq_tls is set, but with activemq_ha {settings.ha}, release {release.text} cannot encrypt the "
            "replication from master to slave",
            "set activemq_ha: shared-file. If only trusted hosts can read the traffic between the two nodes, you can "
            "add a waiver of T011 to activemq_waivers instead",
            # Measured on 5.5.1 and 5.7.0 with an ssl: URI: the slave does not attach, and starts as a second master.
            why="the replication uses unencrypted TCP, so any host that can read this traffic can read all messages",
        )
    yield from _check_release(broker_host)


def _check_release(broker_host: BrokerHost) -> Iterator[Finding]:
    settings, release = broker_host.settings, broker_host.release
    if settings.runtime_configuration and not release.has_runtime_configuration:
        yield _unsupported_finding(
            broker_host,
            f"activemq_runtime_configuration is set, but release {release.text} does not support it (requires 5.16.1 "
            "or later)",
            "upgrade the broker, or remove activemq_runtime_configuration",
        )
    elif settings.runtime_configuration and settings.install in ("package", "jars"):
        yield _unsupported_finding(
            broker_host,
            f"activemq_runtime_configuration is set, but activemq_install: {settings.install} does not install "
            "the classes that it requires",
            "set activemq_install: archive, or remove activemq_runtime_configuration",
        )
    if settings.log_query and not release.log_query_class:
        yield _unsupported_finding(
            broker_host,
            f"activemq_log_query is set, but release {release.text} does not support it (requires 5.9 to 5.16)",
            "remove activemq_log_query",
        )
    yield from _check_management(broker_host)
    if settings.discovery == "masterslave" and not release.has_masterslave_discovery:
        yield _unsupported_finding(
            broker_host,
            f"activemq_discovery is masterslave, but release {release.text} does not support it (requires 5.6 or "
            "later)",
            "set activemq_discovery: failover",
        )


def _check_management(broker_host: BrokerHost) -> Iterator[Finding]:
    settings, release = broker_host.settings, broker_host.release
    if (
        settings.jmx
        and (settings.jmx.users or settings.jmx.tls)
        and not release.supports("managementContext", "environment")
    ):
        yield _unsupported_finding(
            broker_host,
            f"activemq_jmx has users or tls, but release {release.text} does not support them (requires 5.4.2 or "
            "later)",
            "remove activemq_jmx, or upgrade the broker",
        )
    if settings.jmx and settings.jmx.tls and not release.supports_jmx_tls:
        yield _unsupported_finding(
            broker_host,
            f"activemq_jmx.tls is true, but release {release.text} cannot encrypt the JMX port (only 5.4.2 to 5.15.11 "
            "can)",
            "set activemq_jmx.tls to false and use an SSH tunnel for JMX clients, or remove activemq_jmx",
        )


def _check_ttl(broker_host: BrokerHost) -> Iterator[Finding]:
    ttls = {f"activemq_links[{number}].ttl": link.ttl for number, link in enumerate(broker_host.settings.links)}
    ttls["activemq_network_ttl"] = broker_host.settings.network_ttl
    for name, ttl in ttls.items():
        if not broker_host.release.has_consumer_ttl and (ttl == -1 or isinstance(ttl, SplitTtl)):
            kind = "a mapping" if isinstance(ttl, SplitTtl) else "-1"
            yield _unsupported_finding(
                broker_host,
                f"{name} is {kind}, but release {broker_host.release.text} requires a whole number of 1 or more (5.9 "
                f"and later support {kind})",
                f"set {name} to a whole number of 1 or more, or upgrade the broker",
            )


def _check_elements(broker_host: BrokerHost) -> Iterator[Finding]:
    for key, name, releases in broker_host.settings.xml_features_missing_in_release(broker_host.release):
        yield _unsupported_finding(
            broker_host,
            f"{key} sets {name}, but release {broker_host.release.text} does not support it (only {releases} do)",
            f"remove {key}, or use a release that supports {name}",
            why=f"the rendered files omit {name}, so the broker does not behave as configured",
        )


def _unsupported_finding(
    broker_host: BrokerHost,
    message: str,
    fix: str,
    why: str = "the broker would not start, or would ignore the setting",
) -> Finding:
    """Return the finding that the broker's release or profile cannot do what a variable requires."""
    return error_finding("T011", broker_host.host, message, fix, why)
