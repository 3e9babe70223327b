"""Rules V about elements and attributes that a release rejects or ignores."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule


@rule("V001", "error", each="broker", releases="5.4.0 !5.6.0", refuses=True)
def broker_children_unsorted_or_repeated(broker: Element) -> Iterator[Problem]:
    """Children of <broker> are not in alphabetical order, or occur more than once.

    Why: up to 5.5 the schema is a sequence of all children in alphabetical order, each at most once, and a broker
        with another order does not start.
    Fix: sort the children of <broker> by name, and merge duplicates. From 5.6 on any order is valid.
    Source: the XSDs of 5.4 and 5.5; AMQ-3570; measured on 5.5.1 and 5.6.0

    Fires on 5.5.1::

        <broker>
          <transportConnectors>
            <transportConnector name="openwire" uri="tcp://0.0.0.0:61616"/>
          </transportConnectors>
          <persistenceAdapter>
            <kahaDB directory="${activemq.data}/kahadb"/>
          </persistenceAdapter>
        </broker>

    Silent on 5.5.1::

        <broker>
          <persistenceAdapter>
            <kahaDB directory="${activemq.data}/kahadb"/>
          </persistenceAdapter>
          <transportConnectors>
            <transportConnector name="openwire" uri="tcp://0.0.0.0:61616"/>
          </transportConnectors>
        </broker>
    """
    last: Element | None = None
    names: set[str] = set()
    for child in broker.children():
        if child.name == "bean":  # the order does not apply to elements of Spring's namespace
            continue
        if child.name in names:
            yield child.problem(
                f"<broker> contains a second <{child.name}>, but ActiveMQ {broker.document.release.line} accepts only "
                "one: the broker does not start"
            )
        elif last is not None and child.name < last.name:
            yield child.problem(
                f"<{child.name}> is after <{last.name}>, but ActiveMQ {broker.document.release.line} requires the "
                "children of <broker> in alphabetical order: the broker does not start"
            )
        names.add(child.name)
        if last is None or child.name > last.name:
            last = child


@rule("V002", "error", refuses=True)
def element_or_attribute_not_in_schema(document: Document) -> Iterator[Problem]:
    """The file has an element or attribute that the release's schema does not have, or is not XML.

    Why: the broker checks activemq.xml against its schema when it starts, and does not start with such a file.
    Fix: remove the element or attribute, correct its spelling, or run a release that has it. If the file is not XML,
        correct its syntax in the line that the finding names.
    Source: the XSD in the release's own jar; measured

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://south:61616)" networkTll="2"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://south:61616)" networkTTL="2"/>
    """
    # files.file_findings reports this, by validation against the schema.
    yield from ()


@rule("V003", "error", releases="5.8.0", refuses=True)
def removed_master_connector(document: Document) -> Iterator[Problem]:
    """The file has a masterConnector, but the release no longer has pure master/slave.

    Why: 5.8.0 removed pure master/slave from schema and code; the broker does not start, not even with
        validate=false.
    Fix: remove masterConnector or masterConnectorURI, and configure both nodes with the same <kahaDB> directory on a
        shared file system. The lock of the store then decides which node is active. In the links of other brokers to
        this pair, write masterslave:(URI,URI). In a fleet, set activemq_ha to shared-file.
    Source: AMQ-4165; measured on 5.8.0, 5.18.3 and 6.3.1

    Fires on 5.8.0::

        <masterConnector remoteURI="nio://orders-mq01-a:61618"/>

    Fires on 5.18.3::

        <broker masterConnectorURI="tcp://orders-mq01-a:61616"/>

    Silent on 5.18.3::

        <kahaDB directory="${activemq.data}/kahadb" lockKeepAlivePeriod="2000">
          <locker><shared-file-locker lockAcquireSleepInterval="1000"/></locker>
        </kahaDB>
    """
    release = document.release.text
    reason = "pure master/slave was removed in 5.8.0"
    for connector in document.elements_with_tag_name("masterConnector"):
        yield connector.problem(f"ActiveMQ {release} does not support <masterConnector>: {reason}")
    for broker in document.brokers:
        if broker.has_attribute("masterConnectorURI"):
            yield broker.problem(
                f"ActiveMQ {release} does not support masterConnectorURI: {reason}", "masterConnectorURI"
            )


@rule("V004", "error", each="broker", releases="5.8.0")
def ignored_pure_master_slave_attribute(broker: Element) -> Iterator[Problem]:
    """The release accepts an attribute of pure master/slave, but ignores it.

    Why: since 5.8.0 the broker ignores the attributes of pure master/slave, and starts without the intended protection.
    Fix: remove the attribute. On this release a standby protects messages if both nodes have the same <kahaDB>
        directory on a shared file system, or the same database.
    Source: BrokerService of the release tags; measured on 5.8.0, 5.18.3 and 6.3.1

    Fires on 5.18.3::

        <broker waitForSlave="true" shutdownOnSlaveFailure="true"/>

    Silent on 5.7.0::

        <broker waitForSlave="true" waitForSlaveTimeout="86400000" shutdownOnSlaveFailure="true"/>
    """
    for name in broker.attributes:
        if name in broker.document.release.dead_attributes:
            yield broker.problem(
                f'{name}="{broker.get(name)}" has no effect on ActiveMQ {broker.document.release.text}',
                name,
                # the attribute is off or sets only a time, so its lack of effect is harmless
                severity="info" if name.endswith("Timeout") or broker.boolean_attribute(name, False) is False else None,
            )


@rule("V005", "error", each="levelDB replicatedLevelDB", releases="5.14.2", refuses=True)
def level_db_store(store: Element) -> Iterator[Problem]:
    """The broker uses a LevelDB store, which the release no longer has or supports.

    Why: 5.14.2 ended the support of LevelDB, and 5.17.0 removed it. From 5.17.0 on, a broker with a LevelDB store does
        not start.
    Fix: drain the queues, and then change to a kahaDB or JDBC store. Or add a new pair with a kahaDB or JDBC store, and
        drain the old pair.
    Source: AMQ-7502; the XSDs of 5.16.6 and 5.17.0; measured on 5.17.6

    Fires on 5.17.6::

        <levelDB directory="${activemq.data}/leveldb"/>

    Fires on 5.18.3::

        <replicatedLevelDB directory="${activemq.data}/leveldb" zkAddress="zoo:2181" zkPath="/activemq" replicas="3"/>

    Silent on 5.18.3::

        <kahaDB directory="${activemq.data}/kahadb"/>
    """
    if store.document.release.supports(store.name):
        text = f"<{store.name}> is unsupported since 5.14.2: no release from 5.17.0 on can read this store"
        yield store.problem(text, severity="warning")
    else:
        yield store.problem(
            f"release {store.document.release.text} does not support <{store.name}>: the broker does not start"
        )


@rule(
    "V006",
    "error",
    each="amqPersistenceAdapter amqPersistenceAdapterFactory kahaPersistenceAdapter",
    releases="5.9.0",
    refuses=True,
)
def store_removed_after_5_8(store: Element) -> Iterator[Problem]:
    """The broker uses a store of 5.8 and older: amqPersistenceAdapter or kahaPersistenceAdapter.

    Why: 5.9.0 removed amqPersistenceAdapter and kahaPersistenceAdapter, so a broker that uses one does not start, and
        no newer release can read their files.
    Fix: drain the queues with the old release, then start the new release with an empty <kahaDB directory="…"/>.
    Source: the XSDs of 5.8.0 and 5.9.0; measured on 5.11.4 and 5.18.3

    Fires on 5.11.4::

        <amqPersistenceAdapter directory="${activemq.data}/amq"/>

    Fires on 5.18.3::

        <kahaPersistenceAdapter directory="${activemq.data}/kaha"/>

    Silent on 5.18.3::

        <kahaDB directory="${activemq.data}/kahadb"/>
    """
    release = store.document.release.text
    yield store.problem(
        f"release {release} does not support <{store.name}> (removed in 5.9.0): the broker does not start"
    )


@rule("V007", "error", releases="5.3.0 !5.7.0", refuses=True)
def locker_before_5_7(document: Document) -> Iterator[Problem]:
    """The file of a broker before 5.7 has a <locker>, useLock, or lockKeepAlivePeriod on a kahaDB.

    Why: lockers were added in 5.7.0; an older broker rejects these settings and does not start.
    Fix: on a kahaDB, remove <locker>, useLock and lockKeepAlivePeriod. From 5.4 on, set databaseLockedWaitDelay (in ms)
        on <kahaDB>: the interval at which a standby tries to acquire the lock. On a JDBC store, write <databaseLocker>
        in place of <locker>, and useDatabaseLock in place of useLock. Before 5.7, kahaDB acquires its lock at the start
        and never checks it again: upgrade to 5.12 or later for a shared store.
    Source: the XSDs of 5.6.0 and 5.7.0; measured on 5.5.1, 5.6.0 and 5.7.0

    Fires on 5.6.0::

        <kahaDB directory="${activemq.data}/kahadb" lockKeepAlivePeriod="2000"/>

    Fires on 5.5.1::

        <kahaDB directory="${activemq.data}/kahadb">
          <locker><shared-file-locker lockAcquireSleepInterval="1000"/></locker>
        </kahaDB>

    Silent on 5.6.0::

        <kahaDB directory="${activemq.data}/kahadb" databaseLockedWaitDelay="1000"/>
    """
    if document.ha_profile and document.ha_profile.has_database_lease:
        return  # rule T011 rejects the profile on these releases
    for locker in document.elements_with_tag_name("locker"):
        yield locker.problem(_too_old_message("<locker>", document), fix=_fix_of_lock(locker.parent, "<locker>"))
    for store in document.store_elements:
        for name in ("locker", "useLock"):
            if store.has_attribute(name):
                yield store.problem(_too_old_message(name, document), name, fix=_fix_of_lock(store, name))
    for store in document.elements_with_tag_name("kahaDB", "mKahaDB"):
        if store.has_attribute("lockKeepAlivePeriod"):
            name = "lockKeepAlivePeriod"
            message = _too_old_message(f"{name} on <{store.name}>", document)
            yield store.problem(message, name, fix=_fix_of_lock(store, name))


def _too_old_message(subject: str, document: Document) -> str:
    return f"{subject} requires 5.7.0 or later, but the release is {document.release.text}: the broker does not start"


def _fix_of_lock(store: Element | None, name: str) -> str:
    """Return the replacement for a setting of a store's lock before 5.7; "" if the fix of the rule applies."""
    if store is not None and store.name == "jdbcPersistenceAdapter":
        return "write <databaseLocker> in place of <locker>, and useDatabaseLock in place of useLock"
    if store is not None and store.name == "kahaDB" and store.document.release.is_within_span("5.4.0"):
        if name == "useLock":
            return "remove useLock, or upgrade to 5.7.0 or later"
        return (
            f"remove {name}, and set databaseLockedWaitDelay (in ms) on <kahaDB>. Before 5.7, kahaDB acquires its lock "
            "at the start and never checks it again, so use 5.12 or later for a shared store"
        )
    if name == "lockKeepAlivePeriod":
        return "remove lockKeepAlivePeriod. If several nodes share the store, upgrade to 5.12 or later instead"
    return ""
