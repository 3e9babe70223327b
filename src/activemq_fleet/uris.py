"""Build every URI of a fleet: for listeners, bridges, discovery and clients. No other module does so.

The options that a release supports come from :class:`Release`. ``settings.variable_types`` has validated hosts, ports
and options, so that no value can add a part to a URI.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from activemq_fleet.addresses import Address, join_host_port
from activemq_fleet.errors import InputError
from activemq_fleet.node.protocols import is_encrypted, protocol_name_of_scheme
from activemq_fleet.releases import Release

# The longest delay between two attempts to reconnect a lost bridge, in ms. The discovery agent's default delay grows to
# 30 s, so a bridge could be down for 30 s after the failover of its peer.
BRIDGE_OPTIONS = (("maxReconnectDelay", "2000"),)
# The default delays of a Java client's failover transport, in ms. The transport's own delays double up to 30 s: a
# failover of 3.2 s blocked a client of 5.18.3 for 6.5 s.
_CLIENT_DELAYS = {"initialReconnectDelay": 100, "maxReconnectDelay": 2000}
# The delay between the two rounds of a bridge's first connection, in ms, for releases that forget early failures.
_STARTUP_PAUSE = 500
BRIDGE_KINDS = ("masterslave", "failover", "static")


def listener_uri(scheme: str, bind: str, port: int, options: Mapping[str, str] | None = None) -> str:
    """Return the URI that a transportConnector listens on.

    An example is ``nio://0.0.0.0:61616?maximumConnections=1000``.
    """
    return f"{scheme}://{join_host_port(bind, port)}{_query(options or {})}"


def connection_uri(address: Address, scheme: str = "tcp") -> str:
    """Return the URI with which a client or bridge connects to a broker's address.

    It is ``tcp://host:61616``, or ``ssl://`` for a TLS listener.
    """
    return f"{'ssl' if is_encrypted(scheme) else 'tcp'}://{join_host_port(*address)}"


def is_openwire(scheme: str) -> bool:
    """Return whether a URI scheme is one of OpenWire.

    Bridges can connect to such a listener.
    """
    return protocol_name_of_scheme(scheme) == "openwire"


def bridge_uri(
    addresses: Sequence[Address],
    release: Release,
    kind: str | None = None,
    *,
    scheme: str = "tcp",
    options: Iterable[tuple[str, str]] = BRIDGE_OPTIONS,
) -> str:
    """Return the URI of a bridge: that of a networkConnector to one broker or a pair.

    The preferred master is first. ``kind`` is masterslave (from 5.6; the default there), failover or static. A failover
    transport must give up after one round, else it reconnects beneath the bridge, which keeps the identity of the dead
    peer (AMQ-3542); the number for this changed in 5.6. To 5.7 a broker records a bridge only after its start (source:
    DiscoveryNetworkConnector.onServiceAdd), and never reconnects a bridge that fails before: in these releases, the
    first connection makes two rounds, half a second apart. Measured on 5.5.1: without it, 5 of 20 bridges did not
    reconnect after a failover. A single broker needs none of this. ``options`` are those of the discovery agent. Raises
    InputError for no address, an unknown kind, or masterslave before 5.6 (AMQ-3564).
    """
    kind = kind or ("masterslave" if release.has_masterslave_discovery else "failover")
    if not addresses:
        raise InputError(
            "bridge_uri cannot build the URI of a network connector without a broker: pass at least one broker"
        )
    if kind not in BRIDGE_KINDS:
        raise InputError(
            f"bridge_uri cannot build a URI of the kind {kind}: set the parameter kind to one of "
            f"{', '.join(BRIDGE_KINDS)}"
        )
    if kind == "masterslave" and not release.has_masterslave_discovery:
        raise InputError(
            f"ActiveMQ {release.text} does not support masterslave: URIs (requires 5.6): set the argument kind to "
            "failover"
        )
    peers = ",".join(connection_uri(address, scheme) for address in addresses)
    tail = _query(dict(options))
    if kind == "static" or len(addresses) == 1:
        return f"static:({peers}){tail}"
    if kind == "masterslave":
        return f"masterslave:({peers}){tail}"
    nested = {"randomize": "false", "maxReconnectAttempts": str(release.bridge_reconnect_attempts)}
    if release.forgets_early_bridge_failures:
        nested |= {"startupMaxReconnectAttempts": "2", "initialReconnectDelay": str(_STARTUP_PAUSE)}
    return f"static:(failover:({peers}){_query(nested)}){tail}"


def multicast_discovery_uri(endpoint: str, group: str, interface: str | None = None) -> str:
    """Return a URI of ActiveMQ's multicast discovery, such as ``multicast://224.1.2.3:6255?group=orders``.

    With an interface both ``networkInterface`` and ``joinNetworkInterface`` are set: on a machine
    with only a loopback interface a broker does not start without them (measured on 6.3.1).
    """
    options = {"group": group}
    if interface:
        options |= {"networkInterface": interface, "joinNetworkInterface": interface}
    return f"multicast://{endpoint}{_query(options)}"


def master_connector_uri(master_address: Address) -> str:
    """Return the ``masterConnector`` URI with which the slave of a replicating (``pure``) pair connects to its master.

    It is ``nio://host:port``. Never ``failover:``: with it the slave attaches and never takes over (measured on 5.5.1
    and 5.7.0).
    """
    return f"nio://{join_host_port(*master_address)}"


def failover_uri(
    addresses: Iterable[Address], options: Mapping[str, object] | None = None, *, scheme: str = "tcp"
) -> str:
    """Return the failover URI with which a Java client connects to brokers.

    An example is ``failover:(tcp://a:61616,tcp://b:61616)?initialReconnectDelay=100``. By default
    ``initialReconnectDelay`` is 100 and ``maxReconnectDelay`` 2000 ms; ``options`` of the failover transport replace
    both.
    """
    return failover_uri_from_uris([connection_uri(address, scheme) for address in addresses], options)


def failover_uri_from_uris(uris: Sequence[str], options: Mapping[str, object] | None = None) -> str:
    """Return a failover URI made of the URIs of several brokers.

    Each of these starts with ``tcp://`` or ``ssl://``.
    """
    if not uris:
        raise InputError("failover_uri cannot build a failover URI without a broker: pass at least one broker")
    option_texts = {name: str(value) for name, value in (options or _CLIENT_DELAYS).items()}
    return f"failover:({','.join(uris)}){_query(option_texts)}"


def _query(options: Mapping[str, str]) -> str:
    return "?" + "&".join(f"{name}={value}" for name, value in options.items()) if options else ""
