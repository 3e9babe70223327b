"""Rules L about the lock of a store in a shared directory."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.lint.document import Document, Element, Problem, once_per_document
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.shared_store_signs import (
    FILE_STORES,
    has_embedded_database,
    has_enabled_lock,
    locker_of,
    message_store_elements,
    sharing_reason_of_store,
)


@rule("L003", "error", releases="5.9.0")
def shared_kahadb_never_rechecks_lock(document: Document) -> Iterator[Problem]:
    """A shared kahaDB never checks its lock again after it acquires it (lockKeepAlivePeriod is 0).

    Why: with the default of 0, a master checks its lock only at its start. If the lock file is deleted, or the file
        server grants the lock to another node, both brokers serve one store: two masters answered in 55 of 55
        measurements.
    Fix: set lockKeepAlivePeriod="5000" on the store, in milliseconds. Use a value from 2000 to 10000.
    Cannot see: whether another broker uses the directory. A store counts as shared if it has a <locker>,
        lockKeepAlivePeriod or databaseLockedWaitDelay, or if its path indicates it (shared, nfs, gfs2, …).
    Source: LockableServiceSupport and LockFile; measured on 5.17.2, 5.18.3 and 6.3.1

    Fires on 5.18.3::

        <kahaDB directory="/srv/shared/activemq">
          <locker><shared-file-locker lockAcquireSleepInterval="1000"/></locker>
        </kahaDB>

    Fires on 5.18.3::

        <kahaDB directory="/srv/orders/kahadb" lockKeepAlivePeriod="0"/>

    Silent on 5.18.3::

        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000">
          <locker><shared-file-locker lockAcquireSleepInterval="1000"/></locker>
        </kahaDB>

    Silent on 5.18.3::

        <kahaDB directory="${activemq.data}/kahadb"/>
    """
    for store, reason, certain in _shared_stores(document):
        period = store.integer_attribute("lockKeepAlivePeriod")
        if store.is_positive("lockKeepAlivePeriod"):
            continue
        value = "not set (default 0)" if period is None else period
        yield store.problem(
            f"lockKeepAlivePeriod of this shared store ({reason}) is {value}: a broker that loses its lock continues "
            "to write to the store",
            "lockKeepAlivePeriod",
            severity=None if certain else "warning",
            fix=f'set lockKeepAlivePeriod="5000" on <{store.name}>, in milliseconds. Use a value from 2000 to 10000',
        )


@rule("L004", "warning", releases="5.3.0 !5.9.0")
def deleted_lock_file_undetected_before_5_9(document: Document) -> Iterator[Problem]:
    """A broker before 5.9 does not detect that the lock file of its shared store was deleted.

    Why: if the lock file is deleted, the other node becomes master too, and both write to the store. In measurements,
        all 2,765 messages of a store of 5.5.1 were then unreadable, and 1,848 of 2,311 messages of a store of 5.7.0
        were lost.
    Fix: upgrade to 5.12 or later; no setting of a release before 5.9 helps. Until then, delete no files in the store's
        directory while a broker runs.
    Cannot see: whether another broker uses the directory, see L003.
    Source: SharedFileLocker and LockFile of 5.7.0 and 5.8.0; lock files deleted on 5.5.1, 5.6.0, 5.7.0 and 5.8.0

    Fires on 5.5.1::

        <kahaDB directory="/srv/shared/activemq" databaseLockedWaitDelay="1000"/>

    Fires on 5.8.0::

        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000"/>

    Silent on 5.12.3::

        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000"/>

    Silent on 5.5.1::

        <kahaDB directory="${activemq.data}/kahadb"/>
    """
    for store, reason, certain in _shared_stores(document):
        yield store.problem(
            f"ActiveMQ {document.release.text} does not detect that the lock file of this shared store ({reason}) was "
            "deleted: two brokers can then write to the store",
            "lockKeepAlivePeriod",
            severity=None if certain else "info",
            fix=f"upgrade to 5.12 or later; no setting of {document.release.text} helps. Until then, delete no files "
            "in the store's directory while a broker runs",
        )


@rule("L005", "info", releases="5.9.0 !5.12.0")
def new_lock_owner_undetected_5_9_to_5_11(document: Document) -> Iterator[Problem]:
    """A broker of 5.9 to 5.11 does not detect that another broker acquired the lock of its shared kahaDB.

    Why: two brokers then write to the store and damage it. From 5.12 on, a master detects that another broker wrote the
        lock file, and stops. No setting of 5.9 to 5.11 has this effect.
    Fix: upgrade to 5.12 or later.
    Cannot see: whether another broker uses the directory, see L003. The severity is only info, because only an
        upgrade helps, not a setting.
    Source: AMQ-4705; LockFile of 5.9.0 and 5.12.0

    Fires on 5.11.4::

        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000"/>

    Silent on 5.12.3::

        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000"/>
    """
    for store, reason, _ in _shared_stores(document):
        yield store.problem(
            f"ActiveMQ {document.release.text} does not detect that another broker acquired the lock of this shared "
            f"store ({reason}): two brokers can then write to the store",
            "lockKeepAlivePeriod",
        )


@rule("L007", "error", needs="@useLock @useDatabaseLock")
def shared_store_lock_disabled(document: Document) -> Iterator[Problem]:
    """The lock of a shared store is disabled.

    Why: without the lock both nodes open the store, and each overwrites the data of the other.
    Fix: remove useLock="false" or useDatabaseLock="false".
    Cannot see: whether another broker uses the directory, see L003. A database counts as shared unless it is embedded.
    Source: LockableServiceSupport and JDBCPersistenceAdapter of the release tags

    Fires on 5.18.3::

        <kahaDB directory="/srv/shared/activemq" useLock="false"/>

    Fires on 5.5.1::

        <jdbcPersistenceAdapter dataSource="#orders-db" useDatabaseLock="false"/>

    Silent on 5.18.3::

        <kahaDB directory="${activemq.data}/kahadb" useLock="false"/>
    """
    for store in message_store_elements(document):
        sharing = sharing_reason_of_store(store)
        for name in ("useLock", "useDatabaseLock"):
            if store.boolean_attribute(name, True) is not False:
                continue
            if sharing is not None:
                text = (
                    f'{name}="false" disables the lock of this shared store '
                    f"({sharing.reason}): two brokers can open the store"
                )
                yield store.problem(
                    text, name, severity=None if sharing.certain else "warning", fix=f'remove {name}="false"'
                )
            elif (
                store.name == "jdbcPersistenceAdapter" and not document.ha_profile and not has_embedded_database(store)
            ):
                text = (
                    f'{name}="false" disables the lock of the store: a second '
                    "broker can use the database at the same time"
                )
                yield store.problem(text, name, fix=f'remove {name}="false"')


@rule("L008", "warning", each="shared-file-locker", releases="5.7.0", needs="@failIfLocked")
def file_locker_set_to_fail_if_locked(locker: Element) -> Iterator[Problem]:
    """A file locker is set to fail instead of waiting for the lock.

    Why: with failIfLocked="true" a broker that finds the store locked stops instead of waiting as slave. After the
        master fails, no node takes over until a supervisor starts the broker again.
    Fix: remove failIfLocked="true". If a cluster manager starts one node at a time, keep failIfLocked="true" and
        suppress L008. In a file, write <!-- activemq-fleet: disable=L008 REASON --> before the locker. In a fleet, add
        a waiver of L008 to activemq_waivers.
    Cannot see: whether a cluster manager starts the nodes.
    Source: SharedFileLocker of the release tags; measured on 5.17.2

    Fires on 5.18.3::

        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000">
          <locker><shared-file-locker failIfLocked="true"/></locker>
        </kahaDB>

    Silent on 5.18.3::

        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000">
          <locker><shared-file-locker lockAcquireSleepInterval="1000"/></locker>
        </kahaDB>
    """
    if locker.boolean_attribute("failIfLocked", False):
        yield locker.problem(
            'failIfLocked="true" stops a broker that finds the store locked: the pair has no standby that waits for '
            "the lock",
            "failIfLocked",
        )


@once_per_document
def _shared_stores(document: Document) -> Iterator[tuple[Element, str, bool]]:
    """Yield (store, reason, certainty) for each store in a shared directory with a file lock.

    The reason is why the store counts as shared.
    """
    for store in message_store_elements(document):
        locker = locker_of(store)
        if store.name not in FILE_STORES or store.has_attribute("locker"):
            continue
        if not has_enabled_lock(store) and not store.has_attribute("lockKeepAlivePeriod"):
            continue  # rule L007 reports the disabled lock
        sharing = sharing_reason_of_store(store)
        if sharing is not None and (locker is None or locker.name == "shared-file-locker"):
            yield store, sharing.reason, sharing.certain
