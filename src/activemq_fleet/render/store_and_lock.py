"""Render the store of a broker in activemq.xml, its lock or lease, and the handler of its errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from activemq_fleet.releases import Release
from activemq_fleet.render.broker_paths import kahadb_directory_in_xml
from activemq_fleet.settings.xml_beans import XmlElement, bean_to_xml
from activemq_fleet.topology import Broker

Attributes: TypeAlias = tuple[tuple[str, object], ...]

JDBC_DATA_SOURCE_ID = "store"
"""The id of the data source bean of ``activemq_jdbc``."""
_FIXED_LEASE_MILLISECONDS = 5000  # ms
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
_GATE_INTERVAL = 50
_LOGGED_GATE_INTERVAL = 500
"""Milliseconds between two tries at a guard's gate, and where each try is a line of the log."""
_GATE_KEEP_ALIVE = 100
"""Milliseconds. The time that an admitted broker sleeps before it serves, on 5.12 and later."""


class StoreXmlElement(NamedTuple):
    """The XML element of a broker's store: its name, attributes, and the elements below it."""

    element: str
    attributes: Attributes
    locker: XmlElement | None = None
    adapter: str | None = None
    parts: tuple[XmlElement, ...] = ()


def store_xml_element_with_lock(broker: Broker) -> StoreXmlElement:
    """Return the store of a broker with its lock or lease, as elements and attributes of activemq.xml."""
    settings, release = broker.settings, broker.release
    # With a guard, the broker's lock is on the host's own disk.
    default_acquire, default_keep_alive = (
        default_guarded_broker_lock_intervals_ms(release) if broker.has_guard else (None, None)
    )
    acquire = settings.lock_acquire_interval or default_acquire
    keep_alive = settings.lock_keepalive_interval or default_keep_alive
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
        return StoreXmlElement(
            "jdbcPersistenceAdapter",
            (("dataSource", f"#{JDBC_DATA_SOURCE_ID}"), ("lockKeepAlivePeriod", keep_alive), *stop),
            XmlElement("lease-database-locker", lease),
            _ADAPTERS.get(url.split(":")[1]) if url else None,
        )
    stores = _multi_kahadb_element(broker)
    name, parts = (stores.name, stores.children) if stores else ("kahaDB", ())
    store_attributes = stores.attributes if stores else _kahadb_attributes(broker)
    directory: Attributes = (("directory", kahadb_directory_in_xml(broker)), *store_attributes)
    if not broker.ha_profile.shares_store_directory:
        return StoreXmlElement(name, directory, parts=parts)
    wait = acquire or 1000
    if not release.supports(name, "locker"):
        has_delay = release.has_lock_wait_delay and not stores
        delay: Attributes = (("databaseLockedWaitDelay", wait),) if has_delay else ()
        return StoreXmlElement(name, directory + delay, parts=parts)
    return StoreXmlElement(
        name,
        (*directory, ("lockKeepAlivePeriod", keep_alive or 2000), *stop),
        XmlElement("shared-file-locker", (("lockAcquireSleepInterval", str(wait)),)),
        parts=parts,
    )


def default_guarded_broker_lock_intervals_ms(release: Release) -> tuple[int, int]:
    """Return the default lock intervals of a broker with a guard, in milliseconds.

    They are the defaults of ``activemq_lock_acquire_interval`` and ``activemq_lock_keepalive_interval``.
    """
    return _GATE_INTERVAL if release.logs_lock_wait_once else _LOGGED_GATE_INTERVAL, _GATE_KEEP_ALIVE


def io_exception_handler_element(broker: Broker) -> XmlElement | None:
    """Return the activemq.xml element that handles I/O errors of a broker's store; None for the default."""
    lease = broker.release.lease_exception_handler
    if broker.ha_profile.has_database_lease and lease:
        # With the default a database without room is passed over, because its message has "space", and MQTT clients
        # get an acknowledgement for what was not stored: 477 of 980 events lost on 6.3.1 with PostgreSQL.
        return XmlElement(lease, (("ignoreNoSpaceErrors", "false"),))
    if broker.release.has_ignore_no_space_errors:
        # Measured on 5.17.2: with the default a full disk loses what was acknowledged.
        return XmlElement("defaultIOExceptionHandler", (("ignoreNoSpaceErrors", "false"),))
    return None


def _kahadb_attributes(broker: Broker) -> tuple[tuple[str, str], ...]:
    """Return the attributes of a broker's kahaDB element.

    ``activemq_kahadb`` sets them.
    """
    element = broker.settings.kahadb and bean_to_xml(broker.settings.kahadb, broker.release)
    return element.attributes if element else ()


def _multi_kahadb_element(broker: Broker) -> XmlElement | None:
    """Return the mKahaDB element of a broker, or None for a single store.

    It has no directory and lock.
    """
    settings = broker.settings.kahadb
    stores = settings and settings.mkahadb_bean()
    element = bean_to_xml(stores, broker.release) if stores else None
    if element is None or settings is None:
        return None
    journal = settings.transaction_journal and bean_to_xml(settings.transaction_journal, broker.release)
    store_element = _with_defaults(element, dict(_kahadb_attributes(broker)))
    return replace(store_element, attributes=journal.attributes) if journal else store_element


def _with_defaults(element: XmlElement, defaults: Mapping[str, str]) -> XmlElement:
    """Return an element whose kahaDB elements have the attributes ``defaults`` where they do not set them."""
    attributes = {**defaults, **dict(element.attributes)} if element.name == "kahaDB" else dict(element.attributes)
    children = tuple(_with_defaults(child, defaults) for child in element.children)
    return replace(element, attributes=tuple(attributes.items()), children=children)
