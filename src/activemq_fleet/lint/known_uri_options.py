"""List the options that ActiveMQ's URIs support, by scheme and release.

Source: the public setters of the classes below, in every tag from 5.3.0 to 6.3.1, and the options that
TransportFactory, TcpTransportFactory, FailoverTransportFactory and TcpTransportServer remove from the query.
``IntrospectionSupport`` requires the exact name, except for the case of its first letter. The options of connections
were measured, each on a separate link, on 5.5.1, 5.8.0, 5.11.4, 5.15.16, 5.18.3 and 6.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from activemq_fleet.releases import Release
from activemq_fleet.schema import sole_similar_name, split_name_into_words
from activemq_fleet.similar_names import most_similar_name

_Since = Mapping[str, str]

DIALLED = frozenset({"tcp", "nio", "ssl", "nio+ssl"})
"""Transports whose options are all known here."""
LISTENING = DIALLED | {
    protocol + form for protocol in ("stomp", "mqtt", "amqp", "auto") for form in ("", "+nio", "+ssl", "+nio+ssl")
}
"""Listeners that are a TcpTransportServer; those of ws and http are Jetty's."""

# TcpTransport, and the options that its factory removes from the query.
_CONNECTION: _Since = {
    "5.3.0": "closeAsync connectionTimeout daemon dynamicManagement ioBufferSize jmxPort keepAlive logWriterName "
    "minmumWireFormatVersion soTimeout socketBufferSize stackSize startLogging tcpNoDelay trace useLocalHost "
    "wireFormat",
    "5.4.0": "diffServ typeOfService",
    "5.6.0": "soLinger",
}
# InactivityMonitor, WireFormatNegotiator, WriteTimeoutFilter. Up to 5.5 ssl: passes no options to them.
_FILTERS: _Since = {
    "5.3.0": "keepAliveResponseRequired negotiateTimeout soWriteTimeout useInactivityMonitor",
    "5.3.1": "ignoreRemoteWireFormat",
    "5.4.0": "useKeepAlive",
    "5.4.1": "initialDelayTime readCheckTime",
    "5.6.0": "ignoreAllWireFormatInfo writeCheckTime",
    "5.12.0": "connectAttemptTimeout",
}
_SSL_HAS_FILTERS = "5.6.0"
# SslTransport and NIOSSLTransport.
_TLS: _Since = {
    "5.3.0": "needClientAuth wantClientAuth",
    "5.6.0": "enabledCipherSuites",
    "5.11.0": "enabledProtocols",
    "5.15.6": "verifyHostName",
}
_TLS_OUTGOING: Mapping[str, _Since] = {
    "ssl": {"5.15.6": "verifyHostName"},
    "nio+ssl": {
        "5.6.0": "enabledCipherSuites needClientAuth wantClientAuth",
        "5.11.0": "enabledProtocols",
        "5.15.6": "verifyHostName",
    },
}
# OpenWireFormatFactory.
_WIRE_FORMAT: _Since = {
    "5.3.0": "cacheEnabled cacheSize maxInactivityDuration maxInactivityDurationInitalDelay sizePrefixDisabled "
    "stackTraceEnabled tcpNoDelayEnabled tightEncodingEnabled version",
    "5.6.0": "maxFrameSize",
    "5.9.1": "host",
    "5.14.0": "platformDetails providerName providerVersion",
    "5.15.3": "includePlatformDetails",
    "5.16.4": "maxFrameSizeEnabled",
}
# The factories of STOMP, MQTT and AMQP. A listener also receives the options of OpenWire, see rule N008.
_WIRE_FORMAT_LISTENING: _Since = {
    "5.3.0": "allowNonSaslConnections connectAttemptTimeout connectionAttemptTimeout encodingEnabled idelTimeout "
    "idleTimeout maxAmqpFrameSize maxDataLength producerCredit stompVersion transformer",
}
# The filters that STOMP, MQTT and AMQP add to a connection.
_TRANSPORT_LISTENING: _Since = {
    "5.3.0": "activeMQSubscriptionPrefetch defaultHeartBeat defaultKeepAlive hbGracePeriodMultiplier maxDataLength "
    "maxFrameSize prefetch producerCredit publishDollarTopics readGraceTime readKeepAliveTime subscriptionStrategy "
    "transformer threadName reuseAddress receiveBufferSize enabledProtocols verifyHostName enabledCipherSuites "
    "useClientMode enableSessionCreation maxInactivityDuration maxInactivityDurationInitalDelay",
}
# java.net.Socket and javax.net.ssl.SSLSocket.
_SOCKET: _Since = {
    "5.3.0": "keepAlive OOBInline receiveBufferSize reuseAddress sendBufferSize soTimeout tcpNoDelay trafficClass "
    "enableSessionCreation enabledCipherSuites enabledProtocols needClientAuth wantClientAuth useClientMode",
    "5.15.6": "verifyHostName",
}
# FailoverTransport.
_FAILOVER: _Since = {
    "5.3.0": "backup backupPoolSize initialReconnectDelay maxCacheSize maxReconnectAttempts maxReconnectDelay "
    "randomize reconnectDelay reconnectDelayExponent startupMaxReconnectAttempts timeout trackMessages "
    "useExponentialBackOff",
    "5.3.1": "trackTransactionProducers",
    "5.4.0": "rebalanceUpdateURIs reconnectSupported updateURIsSupported updateURIsURL",
    "5.6.0": "priorityBackup priorityURIs",
    "5.9.0": "nestedExtraQueryOptions",
    "5.9.1": "warnAfterReconnectAttempts",
}
# SimpleDiscoveryAgent, from which MasterSlaveDiscoveryAgent inherits, and MulticastDiscoveryAgent.
_STATIC: _Since = {
    "5.3.0": "backOffMultiplier initialReconnectDelay maxReconnectAttempts maxReconnectDelay minConnectTime "
    "services useExponentialBackOff",
}
_MULTICAST: _Since = {
    "5.3.0": "backOffMultiplier group initialReconnectDelay interface keepAliveInterval loopBackMode "
    "maxReconnectAttempts maxReconnectDelay networkInterface timeToLive useExponentialBackOff",
    "5.4.0": "joinNetworkInterface",
}
_AGENTS: Mapping[str, _Since] = {
    "static": _STATIC,
    "simple": _STATIC,
    "masterslave": _STATIC,
    "multicast": _MULTICAST,
}
# TcpTransportServer and the classes it inherits from; the auto listeners.
_SERVER: _Since = {
    "5.3.0": "backlog connectionTimeout daemon dynamicManagement joinOnStop logWriterName maxInactivityDuration "
    "maxInactivityDurationInitalDelay maximumConnections minmumWireFormatVersion needClientAuth soTimeout "
    "socketBufferSize stackSize startLogging trace useQueueForAccept wantClientAuth wireFormat",
    "5.9.1": "allowLinkStealing",
    "5.15.0": "jmxPort",
}
_AUTO_SERVER: _Since = {"5.13.0": "maxConnectionThreadPoolSize protocolDetectionTimeOut"}


def _option_names(since: _Since, release: Release) -> frozenset[str]:
    return frozenset(
        name
        for first_release, names in since.items()
        if release.is_within_span(first_release)
        for name in names.split()
    )


@cache
def connection_uri_options(scheme: str, release: Release) -> frozenset[str]:
    """Return the names of the options that the URI of an outgoing connection, such as ``tcp:``, may have in a release.

    Any other option makes the connection fail.
    """
    names = _option_names(_CONNECTION, release) | _option_names(_TLS_OUTGOING.get(scheme, {}), release)
    if scheme != "ssl" or release.is_within_span(_SSL_HAS_FILTERS):
        names |= _option_names(_FILTERS, release)
    return names | {f"wireFormat.{name}" for name in _option_names(_WIRE_FORMAT, release)}


@cache
def connection_uri_options_of_all_schemes(release: Release) -> frozenset[str]:
    """Return the names of all options that URIs of outgoing connections have in a release, over all schemes."""
    return connection_uri_options("ssl", release) | connection_uri_options("nio+ssl", release)


@cache
def failover_options(release: Release) -> frozenset[str]:
    """Return the names of the options that a ``failover:`` URI may have in a release.

    Any other option makes the connection fail.
    """
    return _option_names(_FAILOVER, release)


@cache
def discovery_agent_options(scheme: str, release: Release) -> frozenset[str] | None:
    """Return the names of the options that a discovery agent has in a release.

    The agent ignores any other option. The result is None for an unknown agent.
    """
    return _option_names(_AGENTS[scheme], release) if scheme in _AGENTS else None


@cache
def socket_options(release: Release) -> frozenset[str]:
    """Return the names of the options that may follow ``socket.`` in a URI in a release.

    Any other option is ignored.
    """
    return _option_names(_SOCKET, release)


@cache
def listener_options(scheme: str, release: Release) -> frozenset[str]:
    """Return the names of the options that a transportConnector's URI with a scheme supports in a release.

    The options of ``auto`` are included only for schemes that begin with ``auto``. All other schemes have the same
    names: the options of all protocols, such as STOMP and MQTT. A listener ignores any other option.
    """
    server = _option_names(_SERVER, release)
    if scheme.startswith("auto"):
        server |= _option_names(_AUTO_SERVER, release)
    transport = frozenset[str]().union(
        *(_option_names(since, release) for since in (_CONNECTION, _FILTERS, _TLS, _TRANSPORT_LISTENING))
    )
    formats = _option_names(_WIRE_FORMAT, release) | _option_names(_WIRE_FORMAT_LISTENING, release)
    return server | {f"transport.{name}" for name in transport} | {f"wireFormat.{name}" for name in formats}


def is_known_option(name: str, known: frozenset[str]) -> bool:
    """Return whether the name of a URI option is among the known names of options.

    The first letter after a prefix may have either case.
    """
    prefix, dot, last = name.rpartition(".")
    return name in known or (last != "" and f"{prefix}{dot}{last[0].lower()}{last[1:]}" in known)


def nearest_option(name: str, known: frozenset[str]) -> str | None:
    """Return the known URI option that a misspelled option probably means, or None.

    The names may differ by case, by prefix or by a typing error.
    """
    by_lowercase = {option.lower(): option for option in sorted(known)}
    if name.lower() in by_lowercase:
        return by_lowercase[name.lower()]
    for prefix in ("wireFormat.", "transport."):
        if f"{prefix}{name}".lower() in by_lowercase:
            return by_lowercase[f"{prefix}{name}".lower()]
    return most_similar_name(name, known, certain=True)


def sole_similar_option(name: str, known: frozenset[str]) -> str | None:
    """Return the only known URI option that a misspelled option can mean, or None.

    The result is None if no option, or more than one, is similar.
    """
    prefixed = {f"{prefix}{name}".lower() for prefix in ("wireFormat.", "transport.")}
    candidates = [option for option in known if option.lower() in prefixed]
    if name.lower() not in map(str.lower, known) and candidates:
        return candidates[0] if len(candidates) == 1 else None
    return sole_similar_name(name, sorted(known), _words_in_option_names()) or None


@cache
def _words_in_option_names() -> frozenset[str]:
    """Return the words of all options, so that an option with one of them does not count as a misspelled other one.

    The word "initial" is not included, because ActiveMQ has ``maxInactivityDurationInitalDelay``.
    """
    tables = (
        *(_CONNECTION, _FILTERS, _TLS, _WIRE_FORMAT, _WIRE_FORMAT_LISTENING, _TRANSPORT_LISTENING, _SOCKET),
        *(_FAILOVER, _STATIC, _MULTICAST, _SERVER, _AUTO_SERVER),
    )
    names = (name for table in tables for line in table.values() for name in line.split())
    return frozenset({"minimum"}).union(*map(split_name_into_words, names)) - {"initial"}
