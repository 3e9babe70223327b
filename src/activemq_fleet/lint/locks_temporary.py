"""Rules L about the temporary storage of brokers that share a store."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass

from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.shared_store_signs import (
    FILE_STORES,
    LOCAL_DIRECTORIES,
    SharingReason,
    message_store_elements,
    sharing_reason_of_directory,
    sharing_reason_of_store,
)

_DIRECTORY_ATTRIBUTES = ("tmpDataDirectory", "dataDirectory", "dataDirectoryFile")
_FILE_URI = re.compile(r"file:(//)?(?=[/$.])")
_REPEATED_SLASHES = re.compile("/{2,}")
_WHY_FILES_REMAIN = "no node deletes the files of a <tempDataStore> that a failed node wrote"


@dataclass(frozen=True, slots=True)
class _DirectorySetting:
    """The directory of a broker's temporary storage as written in the file, and the attribute that sets it."""

    node: Element
    attribute: str
    directory: str
    is_defined_store: bool = False
    """Whether the file defines the temporary store itself: no broker then deletes its directory."""


@rule("L040", "error", releases="5.3.0 !5.13.1")
def temporary_storage_on_shared_directory(document: Document) -> Iterator[Problem]:
    """The temporary storage of a pair is on a shared file system: each node that starts deletes it.

    Why: before 5.13.1 a node that starts deletes the temporary storage before it has the lock of the store. This
        destroys non-persistent messages of the active node. In one measurement, 400 of 3,500 messages arrived, and in
        another none of 3,000.
    Fix: set dataDirectory (and tmpDataDirectory, if it is set) to a local directory of the node, and keep only the
        store on the shared file system. Or upgrade to 5.13.1 or later.
    Cannot see: mounts, and whether the nodes have the same brokerName. The brokerName is a part of the path unless
        tmpDataDirectory is set. The finding is an error if the temporary directory is inside the store directory or the
        reverse, or if a word in the path, such as nfs or shared, indicates a shared file system. The finding is a
        warning if the path only may be on a shared file system.
    Source: AMQ-6005, BrokerService.getTempDataStore of the release tags; measured on 5.10.2

    Fires on 5.10.2::

        <broker dataDirectory="/srv/orders/activemq"/>
        <kahaDB directory="/srv/orders/activemq/kahadb" lockKeepAlivePeriod="5000"/>

    Fires on 5.10.2::

        <broker dataDirectory="${activemq.data}" tmpDataDirectory="/srv/shared/tmp"/>
        <kahaDB directory="/srv/shared/kahadb" lockKeepAlivePeriod="5000"/>

    Silent on 5.10.2::

        <broker dataDirectory="${activemq.data}"/>
        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000"/>

    Silent on 5.14.0::

        <broker dataDirectory="/srv/orders/activemq"/>
        <kahaDB directory="/srv/orders/activemq/kahadb" lockKeepAlivePeriod="5000"/>
    """
    for store in message_store_elements(document):
        broker = store.nearest_ancestor_with_tag_name("broker")
        sharing = sharing_reason_of_store(store)
        if store.name == "levelDB":
            continue  # a levelDB store is also the temporary store
        if broker is None or sharing is None or broker.boolean_attribute("persistent", default=True) is False:
            continue
        setting = _temporary_directory_setting(broker)
        directory_sharing = _sharing_reason_of_setting(setting, store) if setting else None
        if setting is None or directory_sharing is None:
            continue
        effect = "a standby that starts deletes the messages of the active node in this directory"
        if setting.is_defined_store:
            effect = "the files of a failed node stay in this directory and count against tempUsage"
        subject = "<tempDataStore>" if setting.is_defined_store else setting.attribute
        text = (
            f"{subject} puts the temporary storage into {setting.directory} ({directory_sharing.reason}), which both "
            f"nodes of the pair use: {effect}"
        )
        is_certain = directory_sharing.certain and sharing.certain and not setting.is_defined_store
        yield setting.node.problem(
            text,
            setting.attribute,
            severity=None if is_certain else "warning",
            fix=f"set {'the directory of <tempDataStore>' if setting.is_defined_store else setting.attribute} to a "
            "local directory of the node, and keep only the store on the shared file system. Or upgrade to 5.13.1 or "
            "later",
            why=_WHY_FILES_REMAIN if setting.is_defined_store else "",
        )


def _temporary_directory_setting(broker: Element) -> _DirectorySetting | None:
    """Return the setting of the directory of a broker's temporary storage; None if it is not known.

    The result is also None for the default directory.
    """
    if broker.has_attribute("tempDataStore") or broker.first_child("tempDataStore"):
        return next(_directory_settings_of_defined_store(broker), None)
    if any(usage.has_attribute("store") or usage.first_child("store") for usage in broker.descendants("tempUsage")):
        return None  # the broker then does not delete the directory at its start
    for name in _DIRECTORY_ATTRIBUTES:
        if broker.has_attribute(name):
            return _DirectorySetting(broker, name, broker.get(name))
    return None


def _directory_settings_of_defined_store(broker: Element) -> Iterator[_DirectorySetting]:
    """Yield the directory settings of the temporary store that an activemq.xml defines as an element or as a bean."""
    name = broker.get("tempDataStore").removeprefix("#")
    container = broker.first_child("tempDataStore")
    nested = container.children() if container else []
    named = [node for node in broker.document.nodes if name and name in (node.get("id"), node.get("name"))]
    for node in (*nested, *named):
        if node.has_attribute("directory"):
            yield _DirectorySetting(node, "directory", node.get("directory"), is_defined_store=True)
        for bean_property in node.children("property"):
            if bean_property.get("name") == "directory" and bean_property.has_attribute("value"):
                yield _DirectorySetting(bean_property, "value", bean_property.get("value"), is_defined_store=True)


def _sharing_reason_of_setting(setting: _DirectorySetting, store: Element) -> SharingReason | None:
    """Return the reason why both nodes of a pair use the directory of a temporary storage; None without one."""
    directory = _normalized_directory(setting.directory)
    if store.name in FILE_STORES and store.has_attribute("directory"):
        shared = _normalized_directory(store.get("directory"))
        if _is_below(directory, shared) or _is_below(shared, directory):
            return SharingReason(f"the shared store is {shared}", certain="${" not in directory)
        parent = posixpath.dirname(shared)
        if parent.count("/") > 1 and _is_below(directory, parent):
            return SharingReason(f"the shared store is {shared}", certain=False)
    sharing = sharing_reason_of_directory(setting.directory)
    is_fleet = store.document.broker is not None
    if sharing is None and is_fleet and directory.startswith("/") and not directory.startswith(LOCAL_DIRECTORIES):
        return SharingReason("it may be on the shared file system", certain=False)
    return sharing


def _normalized_directory(directory: str) -> str:
    """Return a directory path without ``file:``, doubled slashes, dots and a slash at the end."""
    return posixpath.normpath(_REPEATED_SLASHES.sub("/", _FILE_URI.sub("", directory.strip())))


def _is_below(directory: str, other: str) -> bool:
    """Return whether a directory is another one or below it."""
    return f"{directory}/".startswith(f"{other.rstrip('/')}/")
