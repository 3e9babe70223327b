"""Read a broker's ioExceptionHandler, and rules L about handlers that do not fit the store or its lock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.shared_store_signs import (
    FILE_STORES,
    has_enabled_lock,
    locker_of,
    message_store_elements,
    sharing_reason_of_store,
)
from activemq_fleet.spring_values import spring_boolean

DEFAULT_HANDLER = "defaultIOExceptionHandler"
JDBC_HANDLER = "jDBCIOExceptionHandler"
LEASE_HANDLER = "leaseLockerIOExceptionHandler"
_LEASE_LOCKER = "lease-database-locker"
_KINDS_BY_CLASS = {
    "org.apache.activemq.util.DefaultIOExceptionHandler": DEFAULT_HANDLER,
    "org.apache.activemq.store.jdbc.JDBCIOExceptionHandler": JDBC_HANDLER,
    "org.apache.activemq.util.LeaseLockerIOExceptionHandler": LEASE_HANDLER,
}


@dataclass(frozen=True, slots=True)
class IoExceptionHandler:
    """The ioExceptionHandler of a broker, an element of ActiveMQ or a Spring bean.

    ``kind`` is the name of ActiveMQ's element for it; "" for a class that is not ActiveMQ's.
    """

    node: Element
    kind: str

    def boolean_handler_setting(self, name: str, *, default: bool) -> bool | None:
        """Return an attribute or property of a broker's ioExceptionHandler as a boolean.

        The result is ``default`` if it is absent, and None for a value that is not a boolean.
        """
        if self.node.name != "bean":
            return self.node.boolean_attribute(name, default)
        for node in self.node.children("property"):
            if node.get("name") == name:
                value = node.first_child("value")
                return spring_boolean(node.get("value") or (value.leading_text if value else ""))
        return default

    @property
    def closes_connectors_until_store_answers(self) -> bool:
        """Whether an ioExceptionHandler closes the broker's connectors until the store answers.

        Otherwise it stops the broker.
        """
        return bool(
            self.boolean_handler_setting("stopStartConnectors", default=self.kind in (JDBC_HANDLER, LEASE_HANDLER))
        )


def configured_io_exception_handler(broker: Element) -> IoExceptionHandler | None:
    """Return the ioExceptionHandler that the configuration of a broker sets, or None if it sets none.

    The handler's ``kind`` is "" if the broker refers to a bean that the file does not define.
    """
    if broker.has_attribute("ioExceptionHandler"):
        name = broker.get("ioExceptionHandler").removeprefix("#")
        return _handler_with_id(broker, name)
    container = broker.first_child("ioExceptionHandler")
    node = next(iter(container.children()), None) if container else None
    if node is None:
        return None
    if node.name == "ref":
        return _handler_with_id(node, node.get("bean") or node.get("local"))
    return _handler_of(node)


def _handler_with_id(referring_node: Element, name: str) -> IoExceptionHandler:
    named = (node for node in referring_node.document.nodes if name and name in (node.get("id"), node.get("name")))
    node = next(named, None)
    return IoExceptionHandler(referring_node, "") if node is None else _handler_of(node)


def _handler_of(node: Element) -> IoExceptionHandler:
    if node.name == "bean":
        return IoExceptionHandler(node, _KINDS_BY_CLASS.get(node.get("class"), ""))
    return IoExceptionHandler(node, node.name if node.name in _KINDS_BY_CLASS.values() else "")


@rule("L042", "warning", releases="5.5.0")
def io_exception_handler_unsuited_to_store(document: Document) -> Iterator[Problem]:
    """The ioExceptionHandler does not suit the store: two nodes may become active, or no node takes over.

    Why: while the store fails, the handler closes the connectors, but the process keeps running. With a kahaDB, the
        process keeps the lock, and the other node never takes over. With a lock in a database, the other node can
        acquire the lock. If the handler is <defaultIOExceptionHandler stopStartConnectors="true"/>, this node later
        opens its connectors again without a check of the lock: both nodes are then active.
    Fix: for a kahaDB, use <defaultIOExceptionHandler ignoreNoSpaceErrors="false"/> without stopStartConnectors: it
        stops the broker. For a lock in a database, use <leaseLockerIOExceptionHandler/>, or <jDBCIOExceptionHandler/>
        before 5.11.
    Cannot see: whether another broker uses the store (L003 lists the indications). If nothing indicates that a kahaDB
        is shared, the finding is an info.
    Source: DefaultIOExceptionHandler.handle, JDBCIOExceptionHandler, LeaseLockerIOExceptionHandler of the release tags;
        measured on 5.18.3

    Fires on 5.18.3::

        <jDBCIOExceptionHandler/>
        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000"/>

    Fires on 5.18.3::

        <defaultIOExceptionHandler ignoreSQLExceptions="false" stopStartConnectors="true"/>
        <jdbcPersistenceAdapter dataSource="#orders-db" lockKeepAlivePeriod="5000">
          <locker><lease-database-locker lockAcquireSleepInterval="10000"/></locker>
        </jdbcPersistenceAdapter>

    Silent on 5.18.3::

        <defaultIOExceptionHandler ignoreNoSpaceErrors="false"/>
        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000"/>

    Silent on 5.18.3::

        <leaseLockerIOExceptionHandler/>
        <jdbcPersistenceAdapter dataSource="#orders-db" lockKeepAlivePeriod="5000">
          <locker><lease-database-locker lockAcquireSleepInterval="10000"/></locker>
        </jdbcPersistenceAdapter>
    """
    for store, handler in _stores_with_handler(document):
        if not handler.closes_connectors_until_store_answers:
            continue
        locker = locker_of(store)
        is_shared = sharing_reason_of_store(store) is not None
        if store.name in FILE_STORES:
            if handler.kind == LEASE_HANDLER and locker is not None and locker.name == _LEASE_LOCKER:
                continue
            if handler.kind == DEFAULT_HANDLER and not is_shared:
                continue  # this handler suits a broker without a peer
            text = (
                f"when <{store.name}> fails, <{handler.kind}> closes the connectors but keeps the lock of the store: "
                "no other node takes over"
            )
            is_leased = locker is not None and locker.name == _LEASE_LOCKER
            fix = f'use <{DEFAULT_HANDLER} ignoreNoSpaceErrors="false"/>, which stops the broker'
            if is_leased and document.release.lease_exception_handler == LEASE_HANDLER:
                fix = f"use <{LEASE_HANDLER}/>, which checks the lease in the database"
            why = "the broker process keeps the lock while it runs, but it accepts no clients while its store fails"
            yield handler.node.problem(text, severity=None if is_shared else "info", fix=fix, why=why)
        elif store.name == "jdbcPersistenceAdapter" and handler.kind == DEFAULT_HANDLER and has_enabled_lock(store):
            text = (
                f"after a failure of the database, <{handler.kind}> opens the connectors without a check of the lock: "
                "two nodes may then be active"
            )
            fix = f"use <{document.release.lease_exception_handler or JDBC_HANDLER}/> instead of <{handler.kind}>"
            why = "while the database does not answer, the other node can acquire the lock and become active"
            yield handler.node.problem(text, fix=fix, why=why)


@rule("L043", "warning", releases="5.5.0")
def io_handler_ignores_all_store_failures(document: Document) -> Iterator[Problem]:
    """The ioExceptionHandler ignores all failures of the store (ignoreAllErrors).

    Why: the broker logs the failure, and continues with a store that it cannot read or write. Messages that it could
        not store are lost. The broker keeps the lock, and no standby takes over.
    Fix: remove ignoreAllErrors, and set ignoreNoSpaceErrors="false".
    Source: DefaultIOExceptionHandler.handle of the release tags; measured on 5.18.3

    Fires on 5.18.3::

        <defaultIOExceptionHandler ignoreAllErrors="true"/>

    Silent on 5.18.3::

        <defaultIOExceptionHandler ignoreNoSpaceErrors="false"/>
    """
    for store, handler in _stores_with_handler(document):
        if handler.boolean_handler_setting("ignoreAllErrors", default=False):
            text = f'with ignoreAllErrors="true" the broker continues and loses messages when its <{store.name}> fails'
            yield handler.node.problem(text, "ignoreAllErrors")


def _stores_with_handler(document: Document) -> Iterator[tuple[Element, IoExceptionHandler]]:
    """Yield (store, ioExceptionHandler) for each store on a disk or in a database.

    The handler is of ActiveMQ's classes.
    """
    for store in message_store_elements(document):
        broker = store.nearest_ancestor_with_tag_name("broker")
        handler = configured_io_exception_handler(broker) if broker else None
        if broker is None or handler is None or not handler.kind or store.name == "memoryPersistenceAdapter":
            continue
        if broker.boolean_attribute("persistent", default=True) is not False:
            yield store, handler
