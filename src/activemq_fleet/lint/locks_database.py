"""Rules L about the lock of a store in a database."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.lint.clients_connectors import listener_uri
from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.locks_exception_handlers import (
    DEFAULT_HANDLER,
    JDBC_HANDLER,
    LEASE_HANDLER,
    configured_io_exception_handler,
)
from activemq_fleet.lint.shared_store_signs import (
    DATABASE_LOCKERS,
    FILE_STORES,
    data_source_bean,
    has_enabled_lock,
    jdbc_url_of,
    locker_of,
    message_store_elements,
    stores_with_database_lockers,
)
from activemq_fleet.node.protocols import protocol_name_of_scheme

_LEASE_LOCKER = "lease-database-locker"
_LOCKER_PART_FIXES = {
    "dataSource": 'add dataSource="#ID", with the id of a data source bean,',
    "statements": "add <statements><statements/></statements>",
}
_DATABASE_STORE_ELEMENTS = " ".join(("jdbcPersistenceAdapter", *sorted(DATABASE_LOCKERS)))
_JDBC_KEEP_ALIVE_MS = 30_000  # JDBCPersistenceAdapter of every release
_DEFAULT_LEASE_MS = 10_000  # AbstractLocker
_FIXED_LEASE_MS = 5000  # 5.7.0 resets the lease to this length
# A URL with several hosts, or with a driver that searches for another server.
_FAILOVER_URL = re.compile(
    r"//[^/?;]*,|failover|loadbalance|load_balance|replication:|multiSubnet|targetServerType|aurora|address_list",
    re.IGNORECASE,
)


@rule("L009", "error", releases="5.7.0", needs="lease-database-locker")
def lease_expires_before_renewal(document: Document) -> Iterator[Problem]:
    """A lease expires before its master renews it, or may expire after a short delay of the renewal.

    Why: lockAcquireSleepInterval of the locker is the length of the lease. lockKeepAlivePeriod of the store is the
        interval at which the master renews the lease. When the lease expires, the slave acquires it and opens the store
        while the master runs. If the interval is more than half of the lease, one late renewal suffices, such as after
        a pause of the JVM or a slow answer of the database. The finding is then a warning.
    Fix: set lockKeepAlivePeriod="5000" on the store and lockAcquireSleepInterval="10000" on <lease-database-locker> (in
        milliseconds). The renewal interval must be at most half of the lease. In 5.7, set lockKeepAlivePeriod="2000",
        because there a lease always lasts 5000 ms.
    Source: LeaseDatabaseLocker of the release tags; measured on 5.18.3

    Fires on 5.18.3::

        <jdbcPersistenceAdapter dataSource="#orders-db" lockKeepAlivePeriod="10000">
          <locker><lease-database-locker lockAcquireSleepInterval="5000"/></locker>
        </jdbcPersistenceAdapter>

    Fires on 5.18.3::

        <jdbcPersistenceAdapter dataSource="#orders-db">
          <locker><lease-database-locker/></locker>
        </jdbcPersistenceAdapter>

    Silent on 5.18.3::

        <jdbcPersistenceAdapter dataSource="#orders-db" lockKeepAlivePeriod="5000">
          <locker><lease-database-locker lockAcquireSleepInterval="10000"/></locker>
        </jdbcPersistenceAdapter>
    """
    for store in message_store_elements(document):
        locker = locker_of(store)
        if locker is None or locker.name != _LEASE_LOCKER or not has_enabled_lock(store):
            continue
        lease, interval = _lease_length(store, locker), _renewal_interval(store)
        if lease is None or interval is None or 0 < interval <= lease / 2:
            continue
        is_renewed_in_time = 0 < interval < lease
        default_note = "" if store.has_attribute("lockKeepAlivePeriod") else " by default"
        length = "" if locker.has_attribute("lockAcquireSleepInterval") else " (the default)"
        if not document.release.has_adjustable_lease:
            length = f" (which ActiveMQ {document.release.line} cannot change)"
        renewal = f"the master renews it only every {interval} ms" if interval > 0 else "the master never renews it"
        location = (store, "lockKeepAlivePeriod")
        if not store.has_attribute("lockKeepAlivePeriod"):
            location = (locker, "lockAcquireSleepInterval")
        fix = (
            f'set lockKeepAlivePeriod="5000" on <{store.name}> and lockAcquireSleepInterval="10000" on '
            f"<{_LEASE_LOCKER}>"
        )
        if not document.release.has_adjustable_lease:
            fix = f'set lockKeepAlivePeriod="2000" on <{store.name}>'
        effect = (
            f"a renewal that is {lease - interval} ms late lets the slave open the store while the master runs"
            if is_renewed_in_time
            else "the slave opens the store while the master runs"
        )
        yield location[0].problem(
            f"the database lease expires after {lease} ms{length}, but {renewal}{default_note} "
            f"(lockKeepAlivePeriod): {effect}",
            location[1],
            severity="warning" if is_renewed_in_time else None,
            fix=f"{fix}. The renewal interval must be at most half of the lease",
        )


def _lease_length(store: Element, locker: Element) -> int | None:
    """Return the length of the lease of a store's lock in ms; None if it is not known."""
    if not store.document.release.has_adjustable_lease:
        return _FIXED_LEASE_MS
    for node in (locker, store):
        if node.has_attribute("lockAcquireSleepInterval"):
            return node.integer_attribute("lockAcquireSleepInterval")
    return _DEFAULT_LEASE_MS


def _renewal_interval(store: Element) -> int | None:
    """Return the interval in ms at which the lease of a store's lock is renewed.

    0 means never; None means not known.
    """
    if store.has_attribute("lockKeepAlivePeriod"):
        return store.integer_attribute("lockKeepAlivePeriod")
    return _JDBC_KEEP_ALIVE_MS if store.name == "jdbcPersistenceAdapter" else 0


@rule("L012", "warning", releases="5.7.0", needs=_DATABASE_STORE_ELEMENTS)
def jdbc_lock_held_by_transaction(document: Document) -> Iterator[Problem]:
    """A JDBC store uses the default lock: a database transaction that stays open.

    Why: a failover of the database releases the lock, and both nodes can become master. If a firewall closes the idle
        connection, the database may keep the lock of a failed master. Then no slave can acquire the lock.
    Fix: write <locker><lease-database-locker lockAcquireSleepInterval="10000"/></locker> in <jdbcPersistenceAdapter>,
        and set lockKeepAlivePeriod="5000" on <jdbcPersistenceAdapter>.
    Cannot see: the database and the network. The finding is a warning if the URL names several servers, and otherwise
        an info.
    Source: DefaultDatabaseLocker of the release tags; pluggable-lockers page

    Fires on 5.18.3::

        <bean id="orders-db" class="org.apache.commons.dbcp2.BasicDataSource">
          <property name="url" value="jdbc:mysql://db1,db2/activemq?failOverReadOnly=false"/>
        </bean>
        <jdbcPersistenceAdapter dataSource="#orders-db"/>

    Silent on 5.18.3::

        <jdbcPersistenceAdapter dataSource="#orders-db" lockKeepAlivePeriod="5000">
          <locker><lease-database-locker lockAcquireSleepInterval="10000"/></locker>
        </jdbcPersistenceAdapter>
    """
    for store, locker in stores_with_database_lockers(document):
        if store.name != "jdbcPersistenceAdapter" or (locker is not None and locker.name == _LEASE_LOCKER):
            continue
        source = data_source_bean(store)
        url = jdbc_url_of(source) if source else ""
        node = locker or store
        if _FAILOVER_URL.search(url):
            yield node.problem(
                f"the lock of the store is a database transaction that stays open: a failover of the database {url} "
                "releases the lock",
                why="after the failover, both nodes can acquire the lock and become master",
            )
        else:
            yield node.problem(
                "the lock of the store is a database transaction that stays open: a database failover or a closed idle "
                "connection releases the lock",
                severity="info",
            )


@rule(
    "L013",
    "error",
    releases="5.7.0",
    refuses=True,
    needs="database-locker lease-database-locker transact-database-locker",
)
def kahadb_database_locker_without_database(document: Document) -> Iterator[Problem]:
    """A kahaDB has a database locker without a database.

    Why: a kahaDB has no database, so its locker must name one. Otherwise the start of the broker fails with a
        NullPointerException. Before 5.9 a locker cannot name a database.
    Fix: add dataSource="#ID", with the id of a data source bean, and <statements><statements/></statements> to the
        locker. Before 5.9 use <shared-file-locker>.
    Source: AbstractJDBCLocker of the release tags; measured on six releases

    Fires on 5.18.3::

        <kahaDB directory="${activemq.data}/kahadb" lockKeepAlivePeriod="5000">
          <locker><lease-database-locker lockAcquireSleepInterval="10000"/></locker>
        </kahaDB>

    Fires on 5.8.0::

        <kahaDB directory="${activemq.data}/kahadb" lockKeepAlivePeriod="5000">
          <locker><lease-database-locker lockAcquireSleepInterval="10000"/></locker>
        </kahaDB>

    Silent on 5.18.3::

        <kahaDB directory="${activemq.data}/kahadb" lockKeepAlivePeriod="5000">
          <locker><shared-file-locker lockAcquireSleepInterval="1000"/></locker>
        </kahaDB>
    """
    for store in message_store_elements(document):
        locker = locker_of(store)
        if store.name not in FILE_STORES or locker is None or locker.name not in DATABASE_LOCKERS:
            continue
        if not document.release.supports(_LEASE_LOCKER, "dataSource"):
            yield locker.problem(
                f"<{locker.name}> cannot be used with <{store.name}> on ActiveMQ {document.release.text}: "
                "the broker does not start",
                fix=f"use <shared-file-locker> instead of <{locker.name}>, or upgrade to 5.9 or later",
                why=f"a locker of {document.release.text} uses the database of its store, and <{store.name}> has none",
            )
            continue
        missing = [
            name
            for name in ("dataSource", "statements")
            if not locker.has_attribute(name) and not locker.first_child(name)
        ]
        if missing:
            yield locker.problem(
                f"<{locker.name}> in <{store.name}> has no {' and no '.join(missing)}: the broker does not start",
                fix=f"{' and '.join(_LOCKER_PART_FIXES[name] for name in missing)} to <{locker.name}>",
                why=f"<{store.name}> has no database, so the locker itself needs the connection to one. Without it, "
                "the broker does not start (NullPointerException)",
            )


@rule("L014", "warning", releases="5.7.0", needs=_DATABASE_STORE_ELEMENTS)
def jdbc_store_without_stopping_handler(document: Document) -> Iterator[Problem]:
    """A JDBC store has no ioExceptionHandler that stops the broker when the database fails.

    Why: the default handler ignores SQL exceptions. A master that cannot reach the database keeps its connectors open
        although another node may hold the lock.
    Fix: add <ioExceptionHandler><leaseLockerIOExceptionHandler/></ioExceptionHandler> to <broker>. Before 5.11, use
        <jDBCIOExceptionHandler/> instead of <leaseLockerIOExceptionHandler/>.
    Source: DefaultIOExceptionHandler and LeaseLockerIOExceptionHandler of the release tags

    Fires on 5.18.3::

        <jdbcPersistenceAdapter dataSource="#orders-db" lockKeepAlivePeriod="5000">
          <locker><lease-database-locker lockAcquireSleepInterval="10000"/></locker>
        </jdbcPersistenceAdapter>

    Silent on 5.18.3::

        <leaseLockerIOExceptionHandler/>
        <jdbcPersistenceAdapter dataSource="#orders-db" lockKeepAlivePeriod="5000">
          <locker><lease-database-locker lockAcquireSleepInterval="10000"/></locker>
        </jdbcPersistenceAdapter>
    """
    required_handler = document.release.lease_exception_handler
    for store, locker in stores_with_database_lockers(document):
        broker = store.nearest_ancestor_with_tag_name("broker")
        if broker is None:
            continue
        handler = configured_io_exception_handler(broker)
        node = locker or store
        if handler is None:
            yield node.problem(
                "the broker has no ioExceptionHandler: a master that cannot reach the database of its lock continues "
                "to serve",
                fix=f"add <ioExceptionHandler><{required_handler}/></ioExceptionHandler> to <broker>",
            )
        elif handler.kind and handler.boolean_handler_setting(
            "ignoreSQLExceptions", default=handler.kind == DEFAULT_HANDLER
        ):
            message = (
                "this ioExceptionHandler ignores SQL exceptions: a master that cannot reach the database of its lock "
                "continues to serve"
            )
            yield handler.node.problem(
                message,
                fix=f"write <{required_handler}/> in place of this ioExceptionHandler, or set "
                'ignoreSQLExceptions="false" on it',
            )
        elif required_handler and handler.kind == JDBC_HANDLER and handler.kind != required_handler:
            text = f"<{JDBC_HANDLER}> is deprecated since 5.11: a later release may not start with it"
            is_renaming_sufficient = store.name == "jdbcPersistenceAdapter" and handler.node.name == JDBC_HANDLER
            edits = handler.node.rename_edits(required_handler) if is_renaming_sufficient else ()
            fix = f"write <{required_handler}/> instead of <{JDBC_HANDLER}>"
            why = f"<{required_handler}> does the same, and replaces <{JDBC_HANDLER}> from 5.11 on"
            yield handler.node.problem(text, severity="info", edits=edits, fix=fix, why=why)


@rule("L031", "warning", releases="5.6.0", needs=_DATABASE_STORE_ELEMENTS)
def mqtt_acknowledges_messages_rejected_by_database(document: Document) -> Iterator[Problem]:
    """MQTT clients get acknowledgements for messages that the database rejects because its disk is full.

    Why: by default, the ioExceptionHandler ignores exceptions whose text contains "space". The broker continues, and
        acknowledges each MQTT message that the database rejects. These messages are lost: 477 of 980 in a measurement
        on 6.3.1 with PostgreSQL.
    Fix: set ignoreNoSpaceErrors="false" on the handler in <ioExceptionHandler>, such as
        <leaseLockerIOExceptionHandler ignoreNoSpaceErrors="false"/>. Before 5.11 use <jDBCIOExceptionHandler>.
    Source: DefaultIOExceptionHandler and MQTTProtocolConverter of 6.3; measured on 6.3.1

    Fires on 5.18.3::

        <leaseLockerIOExceptionHandler/>
        <transportConnector uri="mqtt+nio://0.0.0.0:1883"/>
        <jdbcPersistenceAdapter dataSource="#orders-db" lockKeepAlivePeriod="5000">
          <locker><lease-database-locker lockAcquireSleepInterval="10000"/></locker>
        </jdbcPersistenceAdapter>

    Silent on 5.18.3::

        <leaseLockerIOExceptionHandler ignoreNoSpaceErrors="false"/>
        <transportConnector uri="mqtt+nio://0.0.0.0:1883"/>
        <jdbcPersistenceAdapter dataSource="#orders-db" lockKeepAlivePeriod="5000">
          <locker><lease-database-locker lockAcquireSleepInterval="10000"/></locker>
        </jdbcPersistenceAdapter>

    Silent on 5.18.3::

        <leaseLockerIOExceptionHandler/>
        <transportConnector uri="nio://0.0.0.0:61616"/>
        <jdbcPersistenceAdapter dataSource="#orders-db" lockKeepAlivePeriod="5000">
          <locker><lease-database-locker lockAcquireSleepInterval="10000"/></locker>
        </jdbcPersistenceAdapter>
    """
    for store, _ in stores_with_database_lockers(document):
        broker = store.nearest_ancestor_with_tag_name("broker")
        connectors = document.elements_with_tag_name("transportConnector")
        if broker is None or not any(
            protocol_name_of_scheme(listener_uri(connector).scheme) == "mqtt" for connector in connectors
        ):
            continue
        handler = configured_io_exception_handler(broker)
        if handler is None or handler.boolean_handler_setting("ignoreNoSpaceErrors", default=True):
            node = handler.node if handler else store
            yield node.problem(
                'ignoreNoSpaceErrors="false" is not set: while the database is full, the broker acknowledges MQTT '
                "messages that it cannot store",
                fix=f"write <ioExceptionHandler><{document.release.lease_exception_handler or JDBC_HANDLER} "
                'ignoreNoSpaceErrors="false"/></ioExceptionHandler> in <broker>',
            )


@rule("L015", "warning", releases="5.15.13", needs=_DATABASE_STORE_ELEMENTS)
def database_keep_alive_failure_only_logged(document: Document) -> Iterator[Problem]:
    """A broker that cannot renew its database lock only logs the failure, and does not stop.

    Why: if the database does not answer, another node can acquire the lock. Without stopOnError both nodes are then
        master.
    Fix: set stopOnError="true" on the store.
    Source: LockableServiceSupport of 5.15.13 and later

    Fires on 5.18.3::

        <jdbcPersistenceAdapter dataSource="#orders-db"/>

    Silent on 5.18.3::

        <jdbcPersistenceAdapter dataSource="#orders-db" lockKeepAlivePeriod="5000" stopOnError="true">
          <locker><lease-database-locker lockAcquireSleepInterval="10000"/></locker>
        </jdbcPersistenceAdapter>
    """
    for store, _ in stores_with_database_lockers(document):
        if store.boolean_attribute("stopOnError", False) is not False:
            continue
        broker = store.nearest_ancestor_with_tag_name("broker")
        handler = configured_io_exception_handler(broker) if broker else None
        # these handlers close the connectors until the broker has verified that it holds the lock
        has_closing_handler = handler is not None and handler.kind in (LEASE_HANDLER, JDBC_HANDLER)
        message = 'stopOnError="true" is not set: a master that cannot renew its lock only logs the error and continues'
        fix = f'set stopOnError="true" on <{store.name}>'
        yield store.problem(message, "stopOnError", severity="info" if has_closing_handler else None, fix=fix)
