"""Determine from one activemq.xml whether another broker shares its store, and how its lock is protected.

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
_CLUSTER_FILE_SYSTEMS = frozenset({"gfs", "gfs2", "gpfs", "ceph", "cephfs", "gluster", "glusterfs", "lustre", "ocfs2"})
_SHARE_WORDS = _CLUSTER_FILE_SYSTEMS | {"share", "shared", "nfs", "nfs3", "nfs4", "efs", "netapp"}
_POSSIBLE_SHARE_WORDS = frozenset({"mnt", "san", "nas", "cluster", "ha", "drbd", "iscsi"})
_WORD = re.compile(r"[a-z0-9]+")
# PREFIX/share contains the data of installed programs: hier(7), and the prefixes of package managers.
_PROGRAM_DATA_DIRECTORY = re.compile(
    r"(?:^|(?<=/))(?:usr|local|\.local|pkg|opt|sw|homebrew|\.?linuxbrew)/share(?![^/])"
)
LOCAL_DIRECTORIES = ("/var/", "/opt/", "/home/", "/usr/", "/tmp/", "/run/", "/root/")  # noqa: S108 -- compared only
"""Directories that hosts usually do not mount from a shared file system."""
_EMBEDDED_URL = re.compile(r"jdbc:(derby:(?!//)|h2:(?!tcp:|ssl:)|hsqldb:(?!hsqls?:|https?:)|sqlite:)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SharingReason:
    """The reason why a message store is considered shared by several brokers.

    ``certain`` is False if only a directory name suggests it.
    """

    reason: str
    certain: bool = True


@once_per_document
def message_store_elements(document: Document) -> Iterator[Element]:
    """Yield the message store elements of the brokers in an activemq.xml.

    Stores inside an mKahaDB are omitted.
    """
    return (store for broker in document.brokers for store in _store_elements(broker))


def _store_elements(broker: Element) -> list[Element]:
    return [
        store
        for container in broker.children("persistenceAdapter", "persistenceFactory")
        for store in container.children()
    ]


def locker_of(store: Element) -> Element | None:
    """Return the locker element inside a message store, such as ``<shared-file-locker>``, or None."""
    containers = store.children("locker", "databaseLocker")
    return next((locker for container in containers for locker in container.children()), None)


def sharing_reason_of_store(store: Element) -> SharingReason | None:
    """Return the reason why a message store is considered shared with another broker, or None."""
    profile = store.document.ha_profile
    if profile:
        return SharingReason(f"activemq_ha is {profile.name}") if profile.shares_store else None
    locker = locker_of(store)
    if locker is not None:
        return SharingReason(f"regarded as shared because it has a <{locker.name}>")
    if store.name == "jdbcPersistenceAdapter":
        lock_attributes = [
            name for name in ("lockKeepAlivePeriod", "lockAcquireSleepInterval") if store.has_attribute(name)
        ]
        return (
            _sharing_by_attribute(lock_attributes[0]) if lock_attributes and not has_embedded_database(store) else None
        )
    if store.name not in FILE_STORES:
        return None
    waiting_attributes = [
        name for name in ("lockKeepAlivePeriod", "databaseLockedWaitDelay") if store.has_attribute(name)
    ]
    return (
        _sharing_by_attribute(waiting_attributes[0])
        if waiting_attributes
        else sharing_reason_of_directory(store.get("directory"))
    )


def _sharing_by_attribute(name: str) -> SharingReason:
    return SharingReason(f"regarded as shared because it sets {name}")


def sharing_reason_of_directory(directory: str) -> SharingReason | None:
    """Return the reason to assume, from its path, that several brokers share a store directory, or None.

    The reason is a word in the path, or two slashes or backslashes at its beginning.
    """
    words = set(_WORD.findall(_PROGRAM_DATA_DIRECTORY.sub("", directory.lower())))
    if words & _SHARE_WORDS or directory.startswith(("//", "\\\\")):
        return SharingReason(f"{directory} appears to be on a shared file system", certain="${" not in directory)
    if words & _POSSIBLE_SHARE_WORDS and directory.startswith("/"):
        return SharingReason(f"{directory} may be on a shared file system", certain=False)
    return None


def first_shared_store_with_broker_and_reason(document: Document) -> list[tuple[Element, Element, str]]:
    """Return [(broker, store, reason)] of the first message store that is considered shared, or [] if none is.

    The result is a list for use in a loop. Several brokers use a shared store. ``broker`` and ``store`` are elements of
    the activemq.xml.
    """
    brokers_and_stores = ((broker, store) for broker in document.brokers for store in _store_elements(broker))
    shared = (
        (broker, store, sharing.reason)
        for broker, store in brokers_and_stores
        if (sharing := sharing_reason_of_store(store))
    )
    return list(islice(shared, 1))


def has_enabled_lock(store: Element) -> bool:
    """Return whether the lock of a message store is enabled.

    The result is False if a placeholder determines this.
    """
    return bool(store.boolean_attribute("useLock", True) and store.boolean_attribute("useDatabaseLock", True))


def stores_with_database_lockers(document: Document) -> Iterator[tuple[Element, Element | None]]:
    """Yield (store, locker) for each store whose lock is in a database.

    Other machines can reach the database. The locker is None for a JDBC store without a locker element, which has the
    default locker.
    """
    for store in message_store_elements(document):
        locker = locker_of(store)
        if not has_enabled_lock(store) or store.has_attribute("locker") or store.has_attribute("databaseLocker"):
            continue
        if locker is not None and locker.name in DATABASE_LOCKERS:
            yield store, locker
        elif locker is None and store.name == "jdbcPersistenceAdapter" and not has_embedded_database(store):
            yield store, None


def has_embedded_database(store: Element) -> bool:
    """Return whether the database of a JDBC store runs inside the broker process.

    Such a database is Derby without a dataSource, or H2 in a file.
    """
    if not store.has_attribute("dataSource") and store.first_child("dataSource") is None:
        return True
    source = data_source_bean(store)
    if source is None:
        return False
    return "Embedded" in source.get("class") or _EMBEDDED_URL.match(jdbc_url_of(source)) is not None


def data_source_bean(store: Element) -> Element | None:
    """Return the Spring bean that the ``dataSource`` attribute of a store names, or None.

    The result is None if the file does not define the bean.
    """
    bean_name = store.get("dataSource").removeprefix("#")
    beans = store.document.elements_with_tag_name("bean")
    return next((bean for bean in beans if bean_name and bean_name in (bean.get("id"), bean.get("name"))), None)


def jdbc_url_of(bean: Element) -> str:
    """Return the JDBC URL in the Spring bean of a data source, or "" if none of the usual properties contains it.

    These properties are url, jdbcUrl and serverUrl, in any case.
    """
    for bean_property in bean.children("property"):
        if bean_property.get("name").lower() in ("url", "jdbcurl", "serverurl"):
            value = bean_property.first_child("value")
            return bean_property.get("value") or (value.leading_text if value else "")
    return ""
