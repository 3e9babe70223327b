"""Find errors about one broker by its settings, release and links: T005, T011 and T013."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from activemq_fleet.addresses import InvalidHostNameError, validated_host_name
from activemq_fleet.findings import Finding, error_finding
from activemq_fleet.settings.connectors_and_links import LinkSettings, SplitTtl, TransportConnectorSettings
from activemq_fleet.similar_names import most_similar_name

if TYPE_CHECKING:
    from activemq_fleet.topology.brokers import BrokerHost, BrokerListeners
    from activemq_fleet.topology.model.broker import Broker, Link

MAX_PORT = 65535
"""The largest number of a port."""

_VALID_PUNCTUATION_REMOVED = str.maketrans("", "", "-_.")


def unsupported_connector_and_port_findings(broker_host: BrokerHost, listeners: BrokerListeners) -> Iterator[Finding]:
    """Yield findings about unknown URI schemes, unsupported attributes of connectors, and ports above 65535 (T011)."""
    for unknown in listeners.unknown:
        yield _unknown_scheme_finding(broker_host, *unknown)
    for variable, name in unsupported_connector_attributes(broker_host):
        yield _unsupported_attribute_finding(broker_host, variable, name)
    for name, port in listeners.ports.items():
        if port > MAX_PORT:
            yield _unsupported_finding(
                broker_host,
                f"port {port} of the listener {name} is above {MAX_PORT}",
                f"set a lower activemq_port_offset, or a lower port for the listener {name}",
            )


def unsupported_connector_attributes(broker_host: BrokerHost) -> Iterator[tuple[str, str]]:
    """Yield (variable, attribute) of each attribute of a connector that the broker's release does not have."""
    for position, connector in enumerate(broker_host.settings.connectors or ()):
        for name, _ in connector.attributes:
            if not broker_host.release.supports("transportConnector", name):
                yield f"activemq_connectors[{position}].attributes", name


def _unsupported_attribute_finding(broker: Broker | BrokerHost, variable: str, name: str) -> Finding:
    return _unsupported_finding(
        broker,
        f"{variable} sets {name}, but release {broker.release.text} has no such attribute",
        f"remove {name} from {variable}",
    )


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


def invalid_broker_name_findings(broker_host: BrokerHost) -> Iterator[Finding]:
    """Yield an error for a host name that is invalid as brokerName, or as the address of its broker (T013)."""
    label = broker_host.identity.short_host_name
    if _is_ipv6_address(label):
        yield error_finding(
            "T013",
            broker_host.host,
            "the host name is an IPv6 address, whose colons are not valid in a broker name",
            "name the host in the inventory with letters, digits and hyphens, and set its ansible_host and "
            "activemq_address to the address",
            why="the broker replaces the colons, so the name of the broker differs from the name of the host",
        )
    # The label has a dot only if it is an IPv4 address. A dot is valid in a broker name.
    elif not label.isascii() or not label.translate(_VALID_PUNCTUATION_REMOVED).isalnum():
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


def _is_ipv6_address(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def variables_unsupported_by_broker_findings(broker_host: BrokerHost) -> Iterator[Finding]:
    """Yield the findings about variables that a broker's release or profile does not support (T005, T011)."""
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
    yield from _release_findings(broker_host)


def _release_findings(broker_host: BrokerHost) -> Iterator[Finding]:
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
    yield from _jmx_findings(broker_host)


def _jmx_findings(broker_host: BrokerHost) -> Iterator[Finding]:
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


def unsupported_network_ttl_findings(broker: Broker) -> Iterator[Finding]:
    """Yield the finding about an ``activemq_network_ttl`` that a broker's release does not support (T011).

    The broker has a link for which ``activemq_links`` sets no TTL, so it uses the variable.
    """
    ttl = broker.settings.network_ttl
    if _is_unsupported_ttl(broker, ttl):
        yield _unsupported_ttl_finding(broker, "activemq_network_ttl", ttl)


def unsupported_network_setting_findings(broker: Broker, links: Sequence[Link]) -> Iterator[Finding]:
    """Yield the findings about variables for all links of a broker that its release does not support (T011).

    These are ``activemq_network_attributes`` and ``activemq_discovery``. ``links`` are the links that the broker opens:
    a variable that none of them uses is not reported.
    """
    settings, release = broker.settings, broker.release
    if links:
        for name in _unsupported_link_attributes(broker, settings.network_attributes):
            yield _unsupported_attribute_finding(broker, "activemq_network_attributes", name)
    # Without this discovery, a link with several addresses is planned as failover.
    if settings.discovery == "masterslave" and any(link.kind == "failover" for link in links):
        yield _unsupported_finding(
            broker,
            f"activemq_discovery is masterslave, but release {release.text} does not support it (requires 5.6 or "
            "later)",
            "set activemq_discovery: failover",
        )


def unsupported_link_ttl_findings(
    broker: Broker, entry: LinkSettings, entry_host: str, entry_position: int
) -> Iterator[Finding]:
    """Yield the finding about the TTL of a link that the release of the broker that opens it does not support (T011).

    ``entry_host`` and ``entry_position``: where ``activemq_links`` has the entry, if not in the broker's own variables.
    """
    if _is_unsupported_ttl(broker, entry.ttl):
        name = _variable_of_link_key(broker, "ttl", entry, entry_host, entry_position)
        yield _unsupported_ttl_finding(broker, name, entry.ttl)


def unsupported_link_attribute_findings(
    broker: Broker, entry: LinkSettings, entry_host: str, entry_position: int
) -> Iterator[Finding]:
    """Yield the findings about attributes of a link that the release of the broker that opens it does not have (T011).

    ``entry_host`` and ``entry_position``: where ``activemq_links`` has the entry, if not in the broker's own variables.
    """
    for name in _unsupported_link_attributes(broker, entry.attributes):
        variable = _variable_of_link_key(broker, "attributes", entry, entry_host, entry_position)
        yield _unsupported_attribute_finding(broker, variable, name)


def _variable_of_link_key(broker: Broker, key: str, entry: LinkSettings, entry_host: str, entry_position: int) -> str:
    """Return the text that names a key of an entry of ``activemq_links``; it names the host if another one has it."""
    links = broker.settings.links
    if entry in links:
        return f"activemq_links[{links.index(entry)}].{key}"
    return f"activemq_links[{entry_position}].{key} of {entry_host}"


def _unsupported_link_attributes(broker: Broker, attributes: Iterable[tuple[str, str]]) -> list[str]:
    return [name for name, _ in attributes if not broker.release.supports("networkConnector", name)]


def _is_unsupported_ttl(broker: Broker, ttl: int | SplitTtl | None) -> bool:
    return not broker.release.has_consumer_ttl and (ttl == -1 or isinstance(ttl, SplitTtl))


def _unsupported_ttl_finding(broker: Broker, name: str, ttl: int | SplitTtl | None) -> Finding:
    kind = "a mapping" if isinstance(ttl, SplitTtl) else "-1"
    return _unsupported_finding(
        broker,
        f"{name} is {kind}, but release {broker.release.text} requires a whole number of 1 or more (5.9 and later "
        f"support {kind})",
        f"set {name} to a whole number of 1 or more, or upgrade the broker",
    )


def unsupported_element_findings(broker_host: BrokerHost) -> Iterator[Finding]:
    """Yield the findings about elements and attributes that a broker's release does not have (T011)."""
    for key, name, releases in broker_host.settings.xml_features_missing_in_release(broker_host.release):
        yield _unsupported_finding(
            broker_host,
            f"{key} sets {name}, but release {broker_host.release.text} does not support it (only {releases} do)",
            f"remove {key}, or use a release that supports {name}",
            why=f"the rendered files omit {name}, so the broker does not behave as configured",
        )


def _unsupported_finding(
    broker_host: Broker | BrokerHost,
    message: str,
    fix: str,
    why: str = "the broker would not start, or would ignore the setting",
) -> Finding:
    """Return the finding that the broker's release or profile cannot do what a variable requires."""
    return error_finding("T011", broker_host.host, message, fix, why)
