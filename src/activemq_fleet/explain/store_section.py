"""Explain where a broker keeps its messages, and what prevents two brokers from writing to one store at once.

Numbers are read from the rendered activemq.xml, which is what the broker obeys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from activemq_fleet import uris
from activemq_fleet.explain.explanation import ExplanationSection, HostStatement, variable_entry
from activemq_fleet.naming import PREFIX
from activemq_fleet.node.host_paths import STORE_MARKER
from activemq_fleet.schema import CORE, XmlDocument
from activemq_fleet.settings.java_memory_options import heap_variable_and_size
from activemq_fleet.topology import Broker

_CORE = {"c": CORE}


def lock_settings_of(document: XmlDocument) -> dict[str, int | str]:
    """Return the lock settings of a broker's message store, read from the broker's activemq.xml.

    The settings are acquire interval and keep-alive period (ms), and the lease's holder. Only settings that are set are
    returned, as ``acquire``, ``keepalive`` and ``holder``. An interval that is no number, such as a placeholder in an
    XML fragment, is returned as its text.
    """
    store = document.root.find(".//c:persistenceAdapter/*", _CORE)
    settings: dict[str, int | str] = {}
    if store is None:
        return settings
    locker = store.find("c:locker/*", _CORE)
    configured = {
        "acquire": store.get("databaseLockedWaitDelay") if locker is None else locker.get("lockAcquireSleepInterval"),
        "keepalive": store.get("lockKeepAlivePeriod"),
    }
    settings |= {
        name: int(value) if value.isascii() and value.isdigit() else value
        for name, value in configured.items()
        if value
    }
    if locker is not None and locker.get("leaseHolderId"):
        settings["holder"] = locker.get("leaseHolderId", "")
    return settings


def _number_or_none(value: int | str | None) -> int | None:
    """Return a lock setting if it is a number; otherwise None."""
    return value if isinstance(value, int) else None


def store_section(broker: Broker, document: XmlDocument) -> ExplanationSection:
    """Return the section of the output of the command ``explain`` about a broker's message store.

    It shows the lock or lease, and the limits, too.
    """
    return ExplanationSection(
        "store", "Store and lock", (*_store_entries(broker, document), *_limit_entries(broker, document))
    )


_FENCES = {
    "guard": "the guard (the program that starts the broker) continues the store in new files after each takeover. "
    "Therefore a node that resumes after a freeze cannot damage the store",
    "command": "a node serves clients only after one of these proves that the other node has stopped: the record of "
    "its stop in the store, the success of activemq_fence_command, or the confirmation of an operator",
}


def _store_entries(broker: Broker, document: XmlDocument) -> Iterable[HostStatement]:
    if broker.ha_profile.has_database_lease:
        return _shared_jdbc_entries(broker, lock_settings_of(document))
    if broker.ha_profile.shares_store_directory:
        return _shared_file_entries(broker, lock_settings_of(document))
    return (
        _pure_entries(broker)
        if broker.ha_profile.replicates
        else [_directory_entry(broker, "kahaDB, used by this broker only")]
    )


def _directory_entry(broker: Broker, reason: str, *details: str) -> HostStatement:
    data = {"directory": broker.store_directory}
    return variable_entry(
        broker.settings, "store_directory", "directory", broker.store_directory, why=reason, details=details, data=data
    )


def _shared_file_entries(broker: Broker, locking: Mapping[str, int | str]) -> Iterator[HostStatement]:
    yield _directory_entry(broker, "kahaDB, the same directory for both nodes")
    marker = (
        f"the file {STORE_MARKER} in the store directory must contain {broker.pair}. Otherwise the service unit does "
        "not start the broker"
    )
    yield HostStatement(
        "marker", marker, why="each node would create a separate store if the store directory were not mounted"
    )
    if broker.has_guard:
        yield variable_entry(broker.settings, "fence", "fence", _FENCES[broker.settings.fence])
    acquire = locking.get("acquire")
    tried = (
        f"a standby tries to acquire the lock of the store every {acquire} ms"
        if acquire
        else "a standby tries repeatedly to acquire the lock of the store"
    )
    yield variable_entry(
        broker.settings, "lock_acquire_interval", "lock", tried, data={"acquire_ms": _number_or_none(acquire)}
    )
    keepalive = locking.get("keepalive")
    if keepalive:
        text = f"the active node checks its lock every {keepalive} ms, and stops if it has lost the lock"
        data = {"keepalive_ms": _number_or_none(keepalive)}
        yield variable_entry(broker.settings, "lock_keepalive_interval", "keep-alive", text, data=data)
    else:
        yield HostStatement(
            "keep-alive",
            f"the active node never checks its lock, because ActiveMQ {broker.release.text} has no <locker>",
            data={"keepalive_ms": None},
        )


def _shared_jdbc_entries(broker: Broker, locking: Mapping[str, int | str]) -> Iterator[HostStatement]:
    jdbc = broker.settings.jdbc
    if jdbc:
        # The URL is not shown, because some drivers read the password from it.
        kind = re.match(r"jdbc:([a-z0-9]+)", jdbc.url)
        text = f"{kind[1] if kind else 'jdbc'} through the driver {jdbc.driver}, with the user {jdbc.username}"
        yield variable_entry(broker.settings, "jdbc", "database", text, why="both nodes use this database")
    yield variable_entry(
        broker.settings,
        "lock_acquire_interval",
        "lease",
        f"the lease lasts {locking.get('acquire')} ms, and has the holder id {locking.get('holder')}",
        data={"acquire_ms": _number_or_none(locking.get("acquire")), "holder": locking.get("holder")},
    )
    yield variable_entry(
        broker.settings,
        "lock_keepalive_interval",
        "keep-alive",
        f"the active node renews the lease every {locking.get('keepalive')} ms",
        why="the interval is at most half of the lease, so that a single late renewal does not lose the lease",
        data={"keepalive_ms": _number_or_none(locking.get("keepalive"))},
    )


def _pure_entries(broker: Broker) -> Iterator[HostStatement]:
    yield _directory_entry(broker, "kahaDB, used by this node only; the other node has a copy")
    if broker.role == "slave" and broker.peer_address:
        master_uri = uris.master_connector_uri(broker.peer_address)
        yield HostStatement(
            "copies from",
            master_uri,
            why="the URI has no failover:, because a slave with a failover: URI never takes over",
        )
    elif broker.role == "master" and broker.peer:
        text = f"{broker.host} waits until its slave {broker.peer} connects to port {broker.ports.get('replication')}"
        yield HostStatement("copied by", text, why="waitForSlave")
    yield HostStatement(
        "lock",
        "no lock exists, because each node has a separate store: both nodes can become active in a network partition",
    )


def _limit_entries(broker: Broker, document: XmlDocument) -> Iterator[HostStatement]:
    root, settings = document.root, broker.settings
    memory = root.find(".//c:memoryUsage/c:memoryUsage", _CORE)
    if settings.usage:
        for name, label in (("store", "room"), ("memory", "memory")):
            limit = root.find(f".//c:{name}Usage/c:{name}Usage", _CORE)
            text = " ".join(map(str, chain(*limit.items()))) if limit is not None else ""
            yield variable_entry(settings, "usage", label, text)
        return
    yield variable_entry(settings, "store_limit", "room", f"{settings.store_limit} for messages on disk")
    if memory is not None:
        variable, heap = heap_variable_and_size(settings)
        name = "memory_limit" if settings.memory_limit else variable.removeprefix(PREFIX)
        reason = "" if settings.memory_limit else f"40 % of the Java heap of {heap}"
        yield variable_entry(settings, name, "memory", f"{memory.get('limit')} for messages", why=reason)
