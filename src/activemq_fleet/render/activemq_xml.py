"""Render conf/activemq.xml of a broker; this module decides everything that the template writes.

Children of ``<broker>`` are in alphabetical order: to 5.5 the schema is a sequence, later any order is valid
(AMQ-3570). The schemaLocation has no version, because every release maps that one to the schema in its own jar; a
broker would download a schema with a version that its jar does not list.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from activemq_fleet import uris
from activemq_fleet.render import elements
from activemq_fleet.render.broker_paths import kahadb_directory_in_xml
from activemq_fleet.render.engine import render_template
from activemq_fleet.render.fragments import merge_xml_fragments
from activemq_fleet.render.jmx_access import management_context_values
from activemq_fleet.settings.xml_beans import XmlElement
from activemq_fleet.topology import Broker, Link

Attributes: TypeAlias = tuple[tuple[str, object], ...]

NETWORK_PASSWORD = "${activemq.network.password}"  # noqa: S105 -- a reference, no password
_LOCK_WAIT_MILLISECONDS = "86400000"  # one day: by default, a master cancels its start after 600 s
_FIXED_LEASE_MILLISECONDS = 5000  # ms
_DISK_CHECK_MILLISECONDS = "60000"  # ms
_REGROW_THRESHOLD = str(32 << 20)  # bytes: space for one journal file justifies a log record
_HEAP_SHARE = 0.4
"""The share of the heap that messages may have. G1 gives an object above half a region whole regions, so that a message
takes up to twice its size: under 70 % of 512 MB a broker of 5.18.3 stopped with 266 MB of messages of 550 kB."""
_MEBIBYTES_BY_UNIT = {"k": 1 / 1024, "m": 1, "g": 1024}


class _Store(NamedTuple):
    element: str
    attributes: Attributes
    locker: XmlElement | None = None
    adapter: str | None = None
    parts: tuple[XmlElement, ...] = ()


# A release finds the dialect of a database by the name that the driver gives itself, and knows few: 5.7 to 5.11 take
# today's PostgreSQL driver for an unknown one and cannot make their tables ("type blob does not exist").
_ADAPTERS = {
    "postgresql": "postgresql-jdbc-adapter",
    "mysql": "mysql-jdbc-adapter",
    "mariadb": "mysql-jdbc-adapter",
}
_CLOCK_DIFFERENCE_MILLISECONDS = (
    "1000"  # ms by which a node's clock may differ from the database's before it goes by that one
)


def render_activemq_xml_bytes(broker: Broker) -> bytes:
    """Return the content of a broker's activemq.xml as bytes, without its extra files.

    ``render_activemq_xml_document`` returns it as an XML document. Passwords are placeholders that
    credentials.properties fills.
    """
    document = render_template("broker/activemq.xml.j2", **_template_variables(broker))
    return merge_xml_fragments(document, broker) if broker.settings.xml_fragments else document


def _template_variables(broker: Broker) -> dict[str, Any]:
    settings, release, plugins = broker.settings, broker.release, elements.plugin_elements(broker)
    return {
        "tree": elements.elements_to_text,
        "title": _title(broker),
        "attributes": _attributes(broker, plugins),
        "jdbc": settings.jdbc if broker.ha_profile.has_database_lease else None,
        "data_source_class": release.data_source_class,
        "virtual_destinations": elements.virtual_destination_elements(broker),
        "policies": elements.destination_policy_elements(broker),
        "destinations": elements.startup_destination_elements(broker),
        "exception_handler": _exception_handler(broker),
        "links": [(link, _link_attributes(broker, link), _link_destinations(link)) for link in broker.links],
        "store": _store_elements(broker),
        "plugins": plugins,
        "asks_for_login": settings.authentication == "simple",
        "accounts": broker.accounts,
        "permissions": broker.permissions,
        "runtime_configuration": _reloads_configuration(broker),
        "master_connector": _master_connector(broker),
        "management": management_context_values(broker),
        "shutdown_hooks": _shutdown_hooks(broker),
        "log_query_class": release.log_query_class if settings.log_query else None,
        "imports": settings.imports,
        "tls": settings.tls,
        "system_usage": elements.system_usage_element(
            broker,
            memory=default_memory_limit_text(settings.heap),
            raises_store_limit_again=_raises_store_limit_after_start(broker),
        ),
        "connectors": [
            (
                connector,
                uris.listener_uri(connector.scheme, connector.bind or settings.bind, connector.port, connector.options),
            )
            for connector in broker.connectors
        ],
        "console_file": release.console_file if settings.console else None,
    }


def default_memory_limit_text(heap: str) -> str:
    """Return the default memoryLimit of a broker as text, for a given Java heap."""
    return f"{max(1, int(int(heap[:-1]) * _MEBIBYTES_BY_UNIT[heap[-1].lower()] * _HEAP_SHARE))} mb"


def _reloads_configuration(broker: Broker) -> bool:
    """Return whether a broker reloads its configuration (activemq.xml) when the file changes.

    It has the runtimeConfigurationPlugin then.
    """
    return broker.settings.runtime_configuration and broker.release.has_runtime_configuration


def _raises_store_limit_after_start(broker: Broker) -> bool:
    """Return whether a broker raises its store limit again after it had to lower the limit at its start.

    A broker lowers any limit to the room that the disk has, which may be none, and raises only a limit in percent again
    (BrokerService.checkUsageLimit of the tags). Measured on 5.15.16, 5.18.3 and 6.3.1: started on a full disk that was
    emptied afterwards, a broker with a limit in bytes acknowledges no message until it is restarted.
    """
    return not broker.ha_profile.has_database_lease and broker.release.supports("storeUsage", "total")


def _title(broker: Broker) -> str:
    node, release = broker.identity.node, broker.release.text
    if not broker.ha_profile.has_peer:
        return f"{broker.identity.short_host_name}: a single broker of group {broker.group}, release {release}"
    host = broker.identity.short_host_name
    return f"{host}: node {node} (preferred {broker.role}) of pair {broker.pair}, release {release}"


def _attributes(broker: Broker, plugins: tuple[XmlElement, ...]) -> Attributes:
    release = broker.release
    attributes: dict[str, object] = {
        "id": "broker",
        "brokerName": broker.broker_name,
        "dataDirectory": "${activemq.data}",
    }
    if release.has_network_start_async:
        attributes["networkConnectorStartAsync"] = "true"
    if _raises_store_limit_after_start(broker):
        attributes["schedulePeriodForDiskUsageCheck"] = _DISK_CHECK_MILLISECONDS
        attributes["diskUsageCheckRegrowThreshold"] = _REGROW_THRESHOLD
    if _reloads_configuration(broker):
        # The command starts the broker, not Spring, because an earlier plugin cannot determine its own file (measured).
        attributes["start"] = "false"
    if broker.ha_profile.replicates and broker.role == "master":
        attributes |= {
            "waitForSlave": "true",
            "waitForSlaveTimeout": _LOCK_WAIT_MILLISECONDS,
            "shutdownOnSlaveFailure": "false",
        }
    if elements.removes_inactive_destinations(broker):
        attributes["schedulePeriodForDestinationPurge"] = elements.PURGE_PERIOD
    attributes |= elements.scheduler_attributes(broker)
    if any(plugin.name == "redeliveryPlugin" for plugin in plugins):
        attributes["schedulerSupport"] = "true"  # The plugin does not start without this attribute.
    attributes |= broker.settings.broker_attributes
    return tuple(attributes.items())


_CONTEXT_HOOK = "org.apache.activemq.hooks.SpringContextHook"


def _shutdown_hooks(broker: Broker) -> tuple[str, ...]:
    """Return the classes of shutdown hooks: of a console, which must let go of its port when a demoted master restarts
    inside its process, and those of ``activemq_shutdown_hooks``.
    """
    closes_context = broker.settings.console and broker.release.has_restart_allowed
    return tuple(dict.fromkeys(((_CONTEXT_HOOK,) if closes_context else ()) + broker.settings.shutdown_hooks))


def _exception_handler(broker: Broker) -> XmlElement | None:
    lease = broker.release.lease_exception_handler
    if broker.ha_profile.has_database_lease and lease:
        # With the default a database without room is passed over, because its message has "space", and MQTT clients
        # get an acknowledgement for what was not stored: 477 of 980 events lost on 6.3.1 with PostgreSQL.
        return XmlElement(lease, (("ignoreNoSpaceErrors", "false"),))
    if broker.release.has_ignore_no_space_errors:
        # Measured on 5.17.2: with the default a full disk loses what was acknowledged.
        return XmlElement("defaultIOExceptionHandler", (("ignoreNoSpaceErrors", "false"),))
    return None


def _link_attributes(broker: Broker, link: Link) -> Attributes:
    attributes: Attributes = (("duplex", "true" if link.duplex else "false"),)
    if link.network_ttl is not None:
        attributes += (("networkTTL", link.network_ttl),)
    else:
        attributes += (("consumerTTL", link.consumer_ttl), ("messageTTL", link.message_ttl))
    if link.destination_filter:
        attributes += (("destinationFilter", link.destination_filter),)
    attributes = (*attributes, ("decreaseNetworkConsumerPriority", "true"), *_network_user(broker))
    return tuple({**dict(attributes), **dict(link.attributes)}.items())


def _network_user(broker: Broker) -> Attributes:
    name = broker.settings.network_username
    logs_in = name and broker.settings.authentication != "none"
    return (("userName", name), ("password", NETWORK_PASSWORD)) if logs_in else ()


def _link_destinations(link: Link) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the elements that list the destinations of a link, each with (kind, name) of its destinations."""
    listed_destinations = (
        ("dynamicallyIncludedDestinations", link.include),
        ("excludedDestinations", link.exclude),
        ("staticallyIncludedDestinations", link.static_include),
    )
    return [(element, _destinations(texts)) for element, texts in listed_destinations if texts]


def _destinations(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Return (kind, name) of destinations such as ``queue://NAME``."""
    parts = (text.partition("://") for text in texts)
    return [(kind, name) for kind, _, name in parts]


_GATE_INTERVAL = 50
_LOGGED_GATE_INTERVAL = 500
"""Milliseconds between two tries at a guard's gate, and where each try is a line of the log."""
_GATE_KEEP_ALIVE = 100
"""Milliseconds. The time that an admitted broker sleeps before it serves, on 5.12 and later."""


def _store_elements(broker: Broker) -> _Store:
    settings, release = broker.settings, broker.release
    # With a guard, the broker's lock is on the host's own disk.
    gate = _GATE_INTERVAL if release.logs_lock_wait_once else _LOGGED_GATE_INTERVAL
    acquire = settings.lock_acquire_interval or (gate if broker.has_guard else None)
    keep_alive = settings.lock_keepalive_interval or (_GATE_KEEP_ALIVE if broker.has_guard else None)
    stop: Attributes = (("stopOnError", "true"),) if release.has_stop_on_error else ()
    if broker.ha_profile.has_database_lease:
        length = (acquire or 10_000) if release.has_adjustable_lease else _FIXED_LEASE_MILLISECONDS
        # A lease that is renewed less than twice in its duration can expire while its holder runs.
        keep_alive = keep_alive or min(5000, length // 2)
        clock = (
            (("maxAllowableDiffFromDBTime", _CLOCK_DIFFERENCE_MILLISECONDS),) if release.goes_by_database_clock else ()
        )
        lease: tuple[tuple[str, str], ...] = (
            ("lockAcquireSleepInterval", str(length)),
            ("leaseHolderId", broker.identity.short_host_name),
            *clock,
        )
        url = settings.jdbc.url if settings.jdbc else ""
        return _Store(
            "jdbcPersistenceAdapter",
            (("dataSource", "#store"), ("lockKeepAlivePeriod", keep_alive), *stop),
            XmlElement("lease-database-locker", lease),
            _ADAPTERS.get(url.split(":")[1]) if url else None,
        )
    stores = elements.multi_kahadb_element(broker)
    name, parts = (stores.name, stores.children) if stores else ("kahaDB", ())
    store_attributes = stores.attributes if stores else elements.kahadb_attributes(broker)
    directory: Attributes = (("directory", kahadb_directory_in_xml(broker)), *store_attributes)
    if not broker.ha_profile.shares_store_directory:
        return _Store(name, directory, parts=parts)
    wait = acquire or 1000
    if not release.supports(name, "locker"):
        has_delay = release.has_lock_wait_delay and not stores
        delay: Attributes = (("databaseLockedWaitDelay", wait),) if has_delay else ()
        return _Store(name, directory + delay, parts=parts)
    return _Store(
        name,
        (*directory, ("lockKeepAlivePeriod", keep_alive or 2000), *stop),
        XmlElement("shared-file-locker", (("lockAcquireSleepInterval", str(wait)),)),
        parts=parts,
    )


def _master_connector(broker: Broker) -> Attributes | None:
    if not broker.is_replication_slave or broker.peer_address is None:
        return None
    if not broker.release.has_pure_master_slave:
        return None  # T005 reports this, so another finding about the element would be redundant
    return (("remoteURI", uris.master_connector_uri(broker.peer_address)), *_network_user(broker))
