"""Rules L about the lock of a store in a shared directory, and about damage of its journal."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.locks_signs import FILE_STORES, is_embedded, is_locked, locker_of, sharing_of, stores

_SHORT_LIVED = re.compile(r"(?:file:(?://)?)?(/tmp|/var/tmp|/dev/shm|\$\{java\.io\.tmpdir\}|(?:\./)?target)(?:/|$)")


@rule("L003", "error", releases="5.9.0")
def lock_never_looked_at_again(document: Document) -> Iterator[Problem]:
    """A shared kahaDB does not check its lock again after it got it (lockKeepAlivePeriod is 0).

    Why: lockKeepAlivePeriod is 0 by default, so a master looks at its lock once, at its start. When the lock file is
        deleted, or the file server gives the lock to another, both brokers serve one store: in 55 of 55 looks two
        masters answered.
    Fix: set lockKeepAlivePeriod on the store, in ms: 2000 to 10000, such as lockKeepAlivePeriod="5000".
    Cannot see: whether another broker uses the directory. It counts as shared where the store has a <locker>,
        lockKeepAlivePeriod or databaseLockedWaitDelay, or where its path says so (shared, nfs, gfs2, …).
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
    for store, reason, certain in _shared(document):
        period = store.number("lockKeepAlivePeriod")
        if (period is None and store.has("lockKeepAlivePeriod")) or (period or 0) > 0:
            continue
        value = "is not set, so it is 0" if period is None else f"is {period}"
        yield store.problem(
            f"lockKeepAlivePeriod {value}: the broker never looks at its lock again; the store is shared: {reason}",
            "lockKeepAlivePeriod",
            severity=None if certain else "warning",
        )


@rule("L004", "warning", releases="5.3.0 !5.9.0")
def keep_alive_that_misses_a_deleted_lock_file(document: Document) -> Iterator[Problem]:
    """A shared store before 5.9 does not notice that its lock file was deleted.

    Why: before 5.7 there is no keep-alive, and on 5.7 and 5.8 the file locker says yes whatever happened to the file.
        When somebody deletes the lock file, the other node becomes master too and both write: on 5.5.1 all 2,765
        messages of a store were unreadable afterwards, on 5.7.0 1,848 of 2,311 were lost. No setting of these
        releases helps.
    Fix: run 5.12 or newer on a shared store. Until then let no job and no person delete files in the store's
        directory while a broker runs, and share it on a file system that keeps its locks (NFSv4, GFS2, GlusterFS).
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
    for store, reason, certain in _shared(document):
        has_keep_alive = document.release.supports(store.name, "lockKeepAlivePeriod")
        what = "the keep-alive" if has_keep_alive else "a broker"
        yield store.problem(
            f"{what} of {document.release.text} does not see a deleted or stolen lock file; "
            f"the store is shared: {reason}",
            "lockKeepAlivePeriod",
            severity=None if certain else "info",
        )


@rule("L005", "info", releases="5.9.0 !5.12.0")
def keep_alive_that_misses_a_new_lock_owner(document: Document) -> Iterator[Problem]:
    """A shared kahaDB on 5.9 to 5.11 does not notice that another broker owns its lock file.

    Why: another broker that wrote the file after it got the lock is noticed from 5.12 on, and only from then on a
        slave waits one keep-alive before it opens the store. No setting of these releases helps, which is why this
        is a hint.
    Fix: run 5.12 or newer on a shared store.
    Cannot see: whether another broker uses the directory, see L003.
    Source: AMQ-4705; LockFile of 5.9.0 and 5.12.0

    Fires on 5.11.4::

        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000"/>

    Silent on 5.12.3::

        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000"/>
    """
    for store, reason, _ in _shared(document):
        yield store.problem(
            f"the keep-alive of {document.release.text} does not see that another broker took the lock; "
            f"the store is shared: {reason}",
            "lockKeepAlivePeriod",
        )


@rule("L007", "error")
def lock_switched_off(document: Document) -> Iterator[Problem]:
    """A shared store has its lock switched off.

    Why: without useLock (useDatabaseLock on a JDBC store) nothing decides which node is master: both open the store,
        and each destroys what the other writes.
    Fix: take useLock="false" or useDatabaseLock="false" out.
    Cannot see: whether another broker uses the directory, see L003. A database counts as shared unless it is embedded.
    Source: LockableServiceSupport and JDBCPersistenceAdapter of the release tags

    Fires on 5.18.3::

        <kahaDB directory="/srv/shared/activemq" useLock="false"/>

    Fires on 5.5.1::

        <jdbcPersistenceAdapter dataSource="#orders-db" useDatabaseLock="false"/>

    Silent on 5.18.3::

        <kahaDB directory="${activemq.data}/kahadb" useLock="false"/>
    """
    for store in stores(document):
        why = sharing_of(store)
        for name in ("useLock", "useDatabaseLock"):
            if store.flag(name, True) is not False:
                continue
            if why is not None:
                text = f'{name}="false" on a store that is shared: {why.reason}'
                yield store.problem(text, name, severity=None if why.certain else "warning")
            elif store.name == "jdbcPersistenceAdapter" and not document.profile and not is_embedded(store):
                yield store.problem(f'{name}="false": nothing keeps a second broker out of the database', name)


@rule("L008", "warning", each="shared-file-locker", releases="5.7.0")
def slave_that_does_not_wait(locker: Element) -> Iterator[Problem]:
    """A file locker is set to fail instead of waiting for the lock.

    Why: with failIfLocked="true" a broker that finds the store locked ends its start instead of waiting as slave.
        After the master's death nobody takes over until something starts it again.
    Fix: take failIfLocked out, unless a cluster manager starts one node at a time.
    Cannot see: a cluster manager.
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
    if locker.flag("failIfLocked", False):
        yield locker.problem("the broker ends when the store is locked, instead of waiting", "failIfLocked")


def _shared(document: Document) -> Iterator[tuple[Element, str, bool]]:
    """Yield stores in a shared directory with a file lock: (store, why it counts as shared, whether certain)."""
    for store in stores(document):
        locker = locker_of(store)
        if store.name not in FILE_STORES or store.has("locker"):
            continue
        if not is_locked(store) and not store.has("lockKeepAlivePeriod"):
            continue  # L007 has more to say
        why = sharing_of(store)
        if why is not None and (locker is None or locker.name == "shared-file-locker"):
            yield store, why.reason, why.certain


@rule("L028", "warning")
def store_that_does_not_last(document: Document) -> Iterator[Problem]:
    """The store, or the broker's data, lies below /tmp or a build's target directory.

    Why: the system empties /tmp at a restart or after days without use, mvn clean removes target: persistent messages
        and the lock of the store go with it.
    Fix: write a directory that only the broker uses, such as ${activemq.data}/kahadb.
    Source: 20 of 275 files of public repositories; tmpfiles.d(5)

    Fires on 5.18.3::

        <kahaDB directory="/tmp/activemq/kahadb"/>

    Fires on 5.18.3::

        <broker dataDirectory="target/activemq-data"/>

    Silent on 5.18.3::

        <kahaDB directory="${activemq.data}/kahadb"/>
    """
    short_lived: list[tuple[Element, str, str]] = []
    for node in (*document.brokers, *document.stores):
        if node.name == "broker" and node.flag("persistent", True) is False:
            continue
        for attribute in ("directory", "dataDirectory", "directoryArchive"):
            match = _SHORT_LIVED.match(node.get(attribute))
            if match is not None:
                short_lived.append((node, attribute, match[1]))
    if short_lived:
        (node, attribute, parent), *others = short_lived
        also = "".join(f"; so is {other_attribute} of <{other.name}> in line {other.position(other_attribute)[0]}"
                       for other, other_attribute, _ in others)  # fmt: skip
        yield node.problem(f"{attribute} is below {parent}, which other programs empty{also}", attribute)


@rule("L033", "warning", each="kahaDB", releases="5.9.0")
def journal_without_checksums(store: Element) -> Iterator[Problem]:
    """A kahaDB writes its journal without checksums.

    Why: with checksumJournalFiles="false" nothing can tell a damaged message from a sound one: it is delivered as it
        is. Neither checkForCorruptJournalFiles nor activemq-fleet store inspect finds it.
    Fix: take checksumJournalFiles="false" out: from 5.9 on checksums are written by default.
    Source: a flipped body on 5.5.1 and 5.8.0, which write none by default, came to its consumer

    Fires on 6.3.1::

        <kahaDB directory="${activemq.data}/kahadb" checksumJournalFiles="false"/>

    Silent on 6.3.1::

        <kahaDB directory="${activemq.data}/kahadb"/>
    """
    if store.flag("checksumJournalFiles", True) is False:
        yield store.problem("damage of a message is not noticed: it is delivered damaged", "checksumJournalFiles")
