"""Broker -> conf/activemq.xml: everything that the template writes is decided here.

Children of ``<broker>`` stand in alphabetical order: to 5.5 the schema is a sequence, later any
order is valid (AMQ-3570). The schemaLocation is the unversioned one, which every release maps to
the schema in its own jar; a versioned one would be downloaded where it is not listed.
"""

from __future__ import annotations

from typing import Any

from activemq_fleet import uris
from activemq_fleet.render.engine import render_template
from activemq_fleet.render.fragments import merge_fragments
from activemq_fleet.topology import Broker, Link

Attributes = list[tuple[str, object]]

NETWORK_PASSWORD = "${activemq.network.password}"  # noqa: S105 -- a reference, no password
_KEEP_WAITING = 86_400_000  # a day in ms: by default a master gives up its start after 600 s
_REPLAY_DELAY = 500  # ms, so that consumers that restart do not see messages go to and fro
_FIXED_LEASE = 5000  # ms
_HEAP_SHARE = 0.7
_UNITS = {"k": 1 / 1024, "m": 1, "g": 1024}


def activemq_xml(broker: Broker) -> bytes:
    """``conf/activemq.xml`` of a broker. Passwords are references into credentials.properties."""
    document = render_template("broker/activemq.xml.j2", **_context(broker))
    return merge_fragments(document, broker) if broker.settings.xml_fragments else document


def _context(broker: Broker) -> dict[str, Any]:
    settings, release = broker.settings, broker.release
    return {
        "title": _title(broker),
        "attributes": _attributes(broker),
        "data_source": _data_source(broker),
        "policy": _policy(broker),
        "exception_handler": _exception_handler(broker),
        "links": [_link(broker, link) for link in broker.links],
        "store": _store(broker),
        "accounts": [
            {"name": a.name, "password": f"${{{a.key}}}", "groups": ",".join(a.groups)} for a in broker.accounts
        ],
        "permissions": broker.permissions,
        "master_connector": _master_connector(broker),
        "closes_context": settings.console and release.has_restart_allowed,
        "tls": _tls(broker),
        "limits": {
            "memory": settings.memory_limit or memory_limit(settings.heap),
            "store": settings.store_limit,
            "temp": settings.temp_limit,
        },
        "connectors": [
            {
                "name": connector.name,
                "uri": uris.listen(connector.scheme, settings.bind, connector.port, connector.options),
                "discovery_uri": connector.discovery_uri,
            }
            for connector in broker.connectors
        ],
        "console_file": release.console_file if settings.console else None,
    }


def memory_limit(heap: str) -> str:
    """70 % of the heap: what a broker cuts a larger limit down to at its start."""
    return f"{max(1, int(int(heap[:-1]) * _UNITS[heap[-1].lower()] * _HEAP_SHARE))} mb"


def _title(broker: Broker) -> str:
    node, release = broker.identity.node, broker.release.text
    if broker.settings.ha == "none":
        return f"{broker.identity.host}: a broker on its own, group {broker.group}, release {release}"
    return f"{broker.identity.host}: node {node} (preferred {broker.role}) of pair {broker.pair}, release {release}"


def _attributes(broker: Broker) -> Attributes:
    release, pure = broker.release, broker.settings.ha == "pure"
    found: dict[str, object] = {"id": "broker", "brokerName": broker.broker_name, "dataDirectory": "${activemq.data}"}
    if release.has_network_start_async:
        found["networkConnectorStartAsync"] = True
    if pure and broker.role == "master":
        found |= {"waitForSlave": True, "waitForSlaveTimeout": _KEEP_WAITING, "shutdownOnSlaveFailure": False}
    return list((found | broker.settings.broker_attributes).items())


def _data_source(broker: Broker) -> dict[str, str] | None:
    jdbc = broker.settings.jdbc
    if broker.settings.ha != "shared-jdbc" or jdbc is None:
        return None
    return {
        "pool": broker.release.data_source_class,
        "driver": jdbc.driver,
        "url": jdbc.url,
        "username": jdbc.username,
        "password": "${activemq.jdbc.password}",
    }


def _policy(broker: Broker) -> dict[str, object] | None:
    if not broker.networked or not broker.release.has_replay_when_no_consumers:
        return None
    # Before 5.9 the cursor takes a replayed message for a duplicate and keeps it until a restart.
    return {"audit_off": broker.release.replay_needs_audit_off, "replay_delay": _REPLAY_DELAY}


def _exception_handler(broker: Broker) -> dict[str, Any] | None:
    lease = broker.release.lease_exception_handler
    if broker.settings.ha == "shared-jdbc" and lease:
        return {"element": lease, "attributes": []}
    if broker.release.has_ignore_no_space_errors:
        # Measured on 5.17.2: with the default a full disk loses what was acknowledged.
        return {"element": "defaultIOExceptionHandler", "attributes": [("ignoreNoSpaceErrors", False)]}
    return None


def _link(broker: Broker, link: Link) -> dict[str, Any]:
    attributes: Attributes = [("duplex", link.duplex)]
    if link.network_ttl is not None:
        attributes.append(("networkTTL", link.network_ttl))
    else:
        attributes += [("consumerTTL", link.consumer_ttl), ("messageTTL", link.message_ttl)]
    attributes.append(("decreaseNetworkConsumerPriority", True))
    if broker.settings.network_username:
        attributes += [("userName", broker.settings.network_username), ("password", NETWORK_PASSWORD)]
    return {
        "name": link.name,
        "uri": link.uri,
        "attributes": attributes,
        "include": [_destination(text) for text in link.include],
        "exclude": [_destination(text) for text in link.exclude],
    }


def _destination(text: str) -> tuple[str, str]:
    kind, _, name = text.partition("://")
    return kind, name


def _store(broker: Broker) -> dict[str, Any]:
    settings, release = broker.settings, broker.release
    acquire = settings.lock_acquire_interval
    keep_alive = settings.lock_keepalive_interval
    stop = [("stopOnError", True)] if release.has_stop_on_error else []
    if settings.ha == "shared-jdbc":
        length = (acquire or 10_000) if release.has_adjustable_lease else _FIXED_LEASE
        # A lease that is renewed less than twice in its length runs out while its holder lives.
        keep_alive = keep_alive or min(5000, length // 2)
        lease: Attributes = [("lockAcquireSleepInterval", length), ("leaseHolderId", broker.identity.host)]
        return {
            "element": "jdbcPersistenceAdapter",
            "attributes": [("dataSource", "#store"), ("lockKeepAlivePeriod", keep_alive), *stop],
            "locker": {"element": "lease-database-locker", "attributes": lease},
        }
    directory: Attributes = [("directory", broker.store_directory)]
    if settings.ha != "shared-file":
        return {"element": "kahaDB", "attributes": directory, "locker": None}
    if not release.has_lockers:
        wait: Attributes = [("databaseLockedWaitDelay", acquire or 1000)] if release.has_lock_wait_delay else []
        return {"element": "kahaDB", "attributes": directory + wait, "locker": None}
    return {
        "element": "kahaDB",
        "attributes": [*directory, ("lockKeepAlivePeriod", keep_alive or 2000), *stop],
        "locker": {"element": "shared-file-locker", "attributes": [("lockAcquireSleepInterval", acquire or 1000)]},
    }


def _master_connector(broker: Broker) -> Attributes | None:
    if broker.settings.ha != "pure" or broker.role != "slave" or broker.peer_address is None:
        return None
    if not broker.release.has_pure_master_slave:
        return None  # T005 has said so; a complaint about the element would only repeat it
    attributes: Attributes = [("remoteURI", uris.replication(broker.peer_address))]
    if broker.settings.network_username:
        attributes += [("userName", broker.settings.network_username), ("password", NETWORK_PASSWORD)]
    return attributes


def _tls(broker: Broker) -> Attributes | None:
    tls = broker.settings.tls
    if tls is None:
        return None
    return [
        ("keyStore", f"file:{tls.keystore}"),
        ("keyStorePassword", "${activemq.tls.keystore.password}"),
        ("trustStore", f"file:{tls.truststore}"),
        ("trustStorePassword", "${activemq.tls.truststore.password}"),
    ]
