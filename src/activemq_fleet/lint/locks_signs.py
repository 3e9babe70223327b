"""Decide from one activemq.xml whether another broker shares its store, and what protects the lock.

A file names a directory or a database, and not the other brokers that use it. So a store counts as shared only if the
file shows it (by a locker, by settings that only a waiting broker needs, by the name of its directory), or if the
fleet's profile shares a store.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from activemq_fleet.lint.document import Document, Element, once_per_document

FILE_STORES = frozenset({"kahaDB", "mKahaDB", "levelDB"})
DATABASE_LOCKERS = frozenset({"database-locker", "lease-database-locker", "transact-database-locker"})
_CLUSTERED = frozenset({"gfs", "gfs2", "gpfs", "ceph", "cephfs", "gluster", "glusterfs", "lustre", "ocfs2"})
_SHARE = _CLUSTERED | {"share", "shared", "nfs", "nfs3", "nfs4", "efs", "netapp"}
_MAY_BE_SHARE = frozenset({"mnt", "san", "nas", "cluster", "ha", "drbd", "iscsi"})
_WORD = re.compile(r"[a-z0-9]+")
# PREFIX/share holds the data of installed programs: hier(7), and the prefixes of package managers.
_DATA_OF_PROGRAMS = re.compile(r"(?:^|(?<=/))(?:usr|local|\.local|pkg|opt|sw|homebrew|\.?linuxbrew)/share(?![^/])")
_EMBEDDED_URL = re.compile(r"jdbc:(derby:(?!//)|h2:(?!tcp:|ssl:)|hsqldb:(?!hsqls?:|https?:)|sqlite:)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SharingReason:
    """The reason why a store is considered shared by brokers; ``certain`` is False if only a directory name suggests
    it.
    """

    reason: str
    certain: bool = True


@once_per_document
def message_stores(document: Document) -> Iterator[Element]:
    """Yield the message store elements of the brokers in an activemq.xml, without stores inside an mKahaDB."""
    return (store for broker in document.brokers for store in _stores_of(broker))


def _stores_of(broker: Element) -> list[Element]:
    return [
        store for holder in broker.children("persistenceAdapter", "persistenceFactory") for store in holder.children()
    ]


def locker_of(store: Element) -> Element | None:
    """Return the locker element inside a store, such as ``<shared-file-locker>``, or None."""
    holders = store.children("locker", "databaseLocker")
    return next((locker for holder in holders for locker in holder.children()), None)


def sharing_of(store: Element) -> SharingReason | None:
    """Return the reason why a store is considered shared with another broker; None without any sign."""
    profile = store.document.profile
    if profile:
        return SharingReason(f"activemq_ha is {profile.name}") if profile.shares_store else None
    locker = locker_of(store)
    if locker is not None:
        return SharingReason(f"regarded as shared because it has a <{locker.name}>")
    if store.name == "jdbcPersistenceAdapter":
        lock_attributes = [name for name in ("lockKeepAlivePeriod", "lockAcquireSleepInterval") if store.has(name)]
        return _sharing_by_attribute(lock_attributes[0]) if lock_attributes and not is_embedded(store) else None
    if store.name not in FILE_STORES:
        return None
    waiting = [name for name in ("lockKeepAlivePeriod", "databaseLockedWaitDelay") if store.has(name)]
    return _sharing_by_attribute(waiting[0]) if waiting else sharing_by_directory(store.get("directory"))


def _sharing_by_attribute(name: str) -> SharingReason:
    return SharingReason(f"regarded as shared because it sets {name}")


def sharing_by_directory(directory: str) -> SharingReason | None:
    """Return why a directory is considered shared, by the words in its path; None without such a word."""
    words = set(_WORD.findall(_DATA_OF_PROGRAMS.sub("", directory.lower())))
    if words & _SHARE or directory.startswith(("//", "\\\\")):
        return SharingReason(f"{directory} appears to be a share", certain="${" not in directory)
    if words & _MAY_BE_SHARE and directory.startswith("/"):
        return SharingReason(f"{directory} may be a share", certain=False)
    return None


def shared_store(document: Document) -> list[tuple[Element, Element, str]]:
    """Return [(broker, store, reason)] of the first store that counts as shared; [] without such a store."""
    both = ((broker, store) for broker in document.brokers for store in _stores_of(broker))
    shared = ((broker, store, why.reason) for broker, store in both if (why := sharing_of(store)))
    return list(islice(shared, 1))


def is_locked(store: Element) -> bool:
    """Return whether a message store's lock is switched on; False where a placeholder decides."""
    return bool(store.flag("useLock", True) and store.flag("useDatabaseLock", True))


def database_stores(document: Document) -> Iterator[tuple[Element, Element | None]]:
    """Yield (store, locker) of stores whose lock is in a database that other machines can reach.

    The locker is None for a JDBC store without a locker element, which has the default locker.
    """
    for store in message_stores(document):
        locker = locker_of(store)
        if not is_locked(store) or store.has("locker") or store.has("databaseLocker"):
            continue
        if locker is not None and locker.name in DATABASE_LOCKERS:
            yield store, locker
        elif locker is None and store.name == "jdbcPersistenceAdapter" and not is_embedded(store):
            yield store, None


def is_embedded(store: Element) -> bool:
    """Return whether a JDBC store's database runs inside the broker: Derby without a dataSource, H2 in a file."""
    if not store.has("dataSource") and store.child("dataSource") is None:
        return True
    source = data_source(store)
    if source is None:
        return False
    return "Embedded" in source.get("class") or _EMBEDDED_URL.match(jdbc_url_of(source)) is not None


def data_source(store: Element) -> Element | None:
    """Return the Spring bean that a store's ``dataSource`` names, or None where the same file does not hold it."""
    wanted = store.get("dataSource").removeprefix("#")
    beans = store.document.elements_named("bean")
    return next((bean for bean in beans if wanted and wanted in (bean.get("id"), bean.get("name"))), None)


def jdbc_url_of(source: Element) -> str:
    """Return the JDBC URL of a data source's Spring bean; "" where it has none of the usual properties."""
    for item in source.children("property"):
        if item.get("name").lower() in ("url", "jdbcurl", "serverurl"):
            value = item.child("value")
            return item.get("value") or (value.text if value else "")
    return ""
