"""Rules L about a broker with a shared store during its start, during a takeover, and as standby."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.shared_store_signs import (
    FILE_STORES,
    LOCAL_DIRECTORIES,
    first_shared_store_with_broker_and_reason,
    locker_of,
    message_store_elements,
    sharing_reason_of_directory,
    sharing_reason_of_store,
)

_LONG_INTERVAL_MS = 30_000
_VARIABLE = re.compile(r"\$\{[^}]*\}")
_FILE_SCHEME = re.compile(r"\Afile:/+")


@rule("L018", "warning", releases="5.4.0", needs="@schedulerSupport")
def delayed_messages_in_local_directory(document: Document) -> Iterator[Problem]:
    """Delayed messages are in a local directory of the node although its store is shared.

    Why: with schedulerSupport the broker keeps delayed messages below schedulerDirectory or dataDirectory, not in its
        store. The delayed messages of a failed master stay on its disk until it restarts.
    Fix: set schedulerDirectory on <broker> to a directory on the shared file system, and the same brokerName on both
        nodes. In an inventory, set activemq_scheduler.directory.
    Cannot see: the value of ${activemq.data}. The rule regards this directory as local, unless the store is also below
        it. The rule also cannot see mounts: it reports no directory whose path contains a word such as shared or nfs,
        or, outside of directories that are usually local, such as mnt or cluster. If the store is a database, it
        reports no schedulerDirectory with an absolute path, unless the directory is below a directory that is usually
        local, such as /var.
    Source: BrokerService of the release tags; shared-file-system-master-slave page

    Fires on 5.18.3::

        <broker schedulerSupport="true" dataDirectory="${activemq.data}"/>
        <kahaDB directory="/srv/shared/activemq/kahadb" lockKeepAlivePeriod="5000"/>

    Silent on 5.18.3::

        <broker schedulerSupport="true" schedulerDirectory="/srv/shared/activemq/scheduler"/>
        <kahaDB directory="/srv/shared/activemq/kahadb" lockKeepAlivePeriod="5000"/>

    Silent on 5.18.3::

        <broker schedulerSupport="true" schedulerDirectory="/mnt/nfs/scheduler"/>
        <kahaDB directory="/srv/shared/activemq/kahadb" lockKeepAlivePeriod="5000"/>
    """
    for broker, store, reason in first_shared_store_with_broker_and_reason(document):
        has_scheduler_store = broker.has_attribute("jobSchedulerStore") or broker.first_child("jobSchedulerStore")
        if has_scheduler_store or not broker.boolean_attribute("schedulerSupport", False):
            return
        names = ("schedulerDirectory", "schedulerDirectoryFile", "dataDirectory", "dataDirectoryFile")
        name = next((name for name in names if broker.has_attribute(name)), "schedulerSupport")
        directory = broker.get(name) if name != "schedulerSupport" else "activemq-data"
        if not _may_be_shared_with_store(directory, name, store):
            yield broker.problem(
                f"delayed messages are in {directory}, outside of the shared store ({reason}): after a failover, the "
                "other node may not find them",
                name,
                fix=(
                    "set activemq_scheduler.directory to a directory on the shared file system"
                    if document.broker is not None
                    else "set schedulerDirectory on <broker> to a directory on the shared file system, and the same "
                    "brokerName on both nodes"
                ),
            )


def _may_be_shared_with_store(directory: str, attribute: str, store: Element) -> bool:
    """Return whether the directory of delayed messages, set by an attribute of <broker>, may be shared as the store."""
    path = _FILE_SCHEME.sub("/", directory)
    is_usually_local = path.startswith(LOCAL_DIRECTORIES)
    sharing = sharing_reason_of_directory(path)
    if sharing is not None and (sharing.certain or not is_usually_local):
        return True
    if store.name in FILE_STORES:
        return _share_root(directory) == _share_root(store.get("directory", "activemq-data"))
    return attribute.startswith("schedulerDirectory") and path.startswith("/") and not is_usually_local


def _share_root(directory: str) -> tuple[str, ...]:
    """Return the beginning of a directory's path that identifies its share: a variable, or two path parts.

    Directories of one share have the same beginning.
    """
    variable = _VARIABLE.match(directory)
    if variable:
        return (variable[0],)
    return tuple(part for part in directory.removeprefix("file:").split("/") if part)[:2]


@rule("L045", "error", releases="5.10.1", needs="@indexDirectory")
def shared_store_has_index_in_local_directory(document: Document) -> Iterator[Problem]:
    """The index of a shared kahaDB is in a local directory of the node (indexDirectory).

    Why: after a takeover the node reads its own index, which does not contain the changes that the other node wrote to
        the store. The start fails with "Could not locate data file" for a journal file that the other node removed. No
        node then serves the stored messages.
    Fix: remove indexDirectory, so that the index is in the directory of the store. If this directory contains the file
        db.data of an earlier configuration, stop both nodes and delete db.data and db.redo before the next start: the
        broker then builds the index from the journal.
    Cannot see: mounts. The finding is an error if indexDirectory is below a directory that is usually local, such as
        /var or /opt. The finding is a warning for other paths outside the share, for a placeholder, and if only the
        path of the store indicates that it may be shared. The rule reports no index whose path has the same first two
        parts as the store, such as /var/lib/index for a store in the mount /var/lib/activemq.
    Source: MessageDatabase.createPageFile of the release tags; measured on 5.18.3

    Fires on 5.18.3::

        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000" indexDirectory="/var/lib/activemq/index"/>

    Silent on 5.18.3::

        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000" indexDirectory="/srv/shared/index"/>

    Silent on 5.18.3::

        <kahaDB directory="${activemq.data}/kahadb" indexDirectory="/var/lib/activemq/index"/>
    """
    if document.broker is not None and document.broker.has_guard:
        return  # T032 reports indexDirectory of a store that a guard protects
    for shared_store in message_store_elements(document):
        sharing = sharing_reason_of_store(shared_store)
        if sharing is None:
            continue
        for store in [shared_store] if shared_store.name == "kahaDB" else shared_store.descendants("kahaDB"):
            index_directory = store.get("indexDirectory")
            store_directory = store.get("directory") or shared_store.get("directory", "activemq-data")
            if (
                not index_directory
                or _share_root(index_directory) == _share_root(store_directory)
                or sharing_reason_of_directory(index_directory) is not None
            ):
                continue
            is_local = index_directory.removeprefix("file:").startswith(LOCAL_DIRECTORIES)
            is_outside = is_local and "${" not in index_directory
            is_certain = sharing.certain and is_outside
            store_noun = "shared store" if sharing.certain else "possibly shared store"
            if is_certain:
                location = "outside of the share:"
            elif is_outside:
                location = "which is a local directory. If the store is shared,"
            else:
                location = "which may be outside of the share. If it is,"
            yield store.problem(
                f"the index of this {store_noun} ({sharing.reason}) is in {index_directory}, {location} the other "
                "node reads an outdated index after a failover, and may not start",
                "indexDirectory",
                severity=None if is_certain else "warning",
            )


@rule("L019", "warning", needs="@persistent")
def non_persistent_broker_with_shared_store(document: Document) -> Iterator[Problem]:
    """persistent="false" makes the broker ignore a store that two nodes share.

    Why: the broker keeps messages in memory and ignores the store and its lock: both nodes are masters, and the
        messages of a stopped node are lost.
    Fix: remove persistent="false". If the broker is to keep no messages, remove the store instead.
    Source: BrokerService of the release tags; measured on 5.5.1, 5.18.3 and 6.3.1

    Fires on 5.18.3::

        <broker persistent="false"/>
        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000"/>

    Silent on 5.18.3::

        <broker persistent="false"/>
        <kahaDB directory="${activemq.data}/kahadb"/>
    """
    for broker, store, reason in first_shared_store_with_broker_and_reason(document):
        if broker.boolean_attribute("persistent", True) is False:
            message = (
                f'persistent="false" disables the shared store <{store.name}> '
                f"({reason}) and its lock: both nodes are masters"
            )
            yield broker.problem(message, "persistent")


@rule("L020", "error", needs="@deleteAllMessagesOnStartup")
def persistent_store_emptied_at_start(document: Document) -> Iterator[Problem]:
    """A broker with a persistent store sets deleteAllMessagesOnStartup.

    Why: the broker empties its store at each start. On a shared store, a slave empties the store when it takes over,
        and all messages of the master are lost.
    Fix: remove deleteAllMessagesOnStartup.
    Cannot see: whether another broker uses the store (L003 lists the indications). If nothing indicates this, the
        finding is a warning.
    Source: BrokerService of the release tags

    Fires on 5.18.3::

        <broker deleteAllMessagesOnStartup="true"/>
        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000"/>

    Silent on 5.18.3::

        <broker deleteAllMessagesOnStartup="false"/>
        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000"/>
    """
    reasons = {broker: reason for broker, _, reason in first_shared_store_with_broker_and_reason(document)}
    for broker in document.brokers:
        if not broker.boolean_attribute("deleteAllMessagesOnStartup", False):
            continue
        if broker in reasons:
            message = (
                f"deleteAllMessagesOnStartup deletes all messages of this shared store ({reasons[broker]}) at a "
                "failover"
            )
            yield broker.problem(message, "deleteAllMessagesOnStartup")
        elif broker.boolean_attribute("persistent", True) is not False and not _starts_empty(broker):
            text = "deleteAllMessagesOnStartup deletes all messages of the store at every start"
            yield broker.problem(text, "deleteAllMessagesOnStartup", severity="warning")


def _starts_empty(broker: Element) -> bool:
    """Return whether a broker has no messages to lose at its start.

    A pure slave must start without messages, and a memory store always does.
    """
    is_slave = broker.has_attribute("masterConnectorURI") or bool(broker.descendants("masterConnector"))
    has_pure_slaves = broker.document.release.has_pure_master_slave
    return (is_slave and has_pure_slaves) or bool(broker.descendants("memoryPersistenceAdapter"))


@rule("L021", "warning", releases="5.9.0", needs="@restartAllowed @systemExitOnShutdown")
def master_stays_down_after_lock_loss(document: Document) -> Iterator[Problem]:
    """A master does not start again after it lost its lock.

    Why: by default, a master that loses its lock restarts inside its process as slave. Without this restart the pair
        has no standby.
    Fix: remove restartAllowed="false" and systemExitOnShutdown="true". Or let a supervisor restart the broker after
        each exit, such as systemd with Restart=always.
    Cannot see: a supervisor. For the brokers of a fleet the finding is an info, because their service unit restarts
        them.
    Source: AMQ-4526; LockableServiceSupport of the release tags; measured on 5.17.2

    Fires on 5.18.3::

        <broker restartAllowed="false"/>
        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000"/>

    Silent on 5.18.3::

        <broker restartAllowed="false"/>
        <kahaDB directory="${activemq.data}/kahadb"/>
    """
    is_supervised = document.broker is not None and document.broker.settings.service != "none"
    for broker, _, _ in first_shared_store_with_broker_and_reason(document):
        for name, default in (("restartAllowed", True), ("systemExitOnShutdown", False)):
            if broker.boolean_attribute(name, default) is (not default):
                text = f'with {name}="{broker.get(name)}", a master that loses its lock does not restart as slave'
                fix = (
                    f'remove {name}="{broker.get(name)}". Or let a supervisor restart the broker after each exit, such '
                    "as systemd with Restart=always"
                )
                yield broker.problem(text, name, severity="info" if is_supervised else None, fix=fix)


@rule("L022", "info", needs="@lockAcquireSleepInterval @databaseLockedWaitDelay")
def lock_acquire_interval_too_long(document: Document) -> Iterator[Problem]:
    """A slave tries to acquire the lock only every 30 s or less often.

    Why: after the master fails, no node serves clients for up to this interval, plus the time that the store needs to
        start.
    Fix: set the attribute that the finding names to 1000, in milliseconds. For a lease in a database, set
        lockAcquireSleepInterval="10000", which is also the length of the lease, with lockKeepAlivePeriod="5000".
    Source: AbstractLocker and MessageDatabase of the release tags

    Fires on 5.18.3::

        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000">
          <locker><shared-file-locker lockAcquireSleepInterval="60000"/></locker>
        </kahaDB>

    Silent on 5.18.3::

        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000">
          <locker><shared-file-locker lockAcquireSleepInterval="1000"/></locker>
        </kahaDB>
    """
    for store in message_store_elements(document):
        locker = locker_of(store)
        interval_attribute = "lockAcquireSleepInterval"
        locations: list[tuple[Element, str]] = [(locker, interval_attribute)] if locker is not None else []
        locations.append(
            (store, interval_attribute if store.name == "jdbcPersistenceAdapter" else "databaseLockedWaitDelay")
        )
        for node, name in locations:
            interval = node.integer_attribute(name)
            if interval is not None and interval >= _LONG_INTERVAL_MS:
                text = f"{name} is {interval} ms: a slave takes over up to {interval // 1000} s after the master fails"
                fix = f'set {name}="1000", in milliseconds'
                if locker is not None and locker.name == "lease-database-locker":
                    fix = f'set {name}="10000" on <{node.name}> and lockKeepAlivePeriod="5000" on <{store.name}>'
                yield node.problem(text, name, fix=fix)


@rule("L023", "info", releases="5.7.0")
def console_closed_on_waiting_slave(document: Document) -> Iterator[Problem]:
    """The web console is closed on a slave that waits for the lock.

    Why: Spring creates the beans after <broker> only when the broker has started, and a slave starts when it acquires
        the lock. Until then the port of the console and of Jolokia is closed.
    Fix: check the log or the lock of a slave instead of its console. From 5.19.6, 6.2.5 or 6.3.0 on, startAsync="true"
        on <broker> opens the console on a slave.
    Cannot see: whether any client queries a slave's console.
    Source: BrokerService and the default jetty.xml; measured on 5.17.2

    Fires on 5.18.3::

        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000"/>
        <import resource="jetty.xml"/>

    Silent on 5.18.3::

        <broker startAsync="true"/>
        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000"/>
        <import resource="jetty.xml"/>
    """
    if document.broker is not None:
        return  # the checks of a fleet read logs and locks instead
    for broker, _, _ in first_shared_store_with_broker_and_reason(document):
        if broker.boolean_attribute("startAsync", False) is not False:
            return
        for node in document.elements_with_tag_name("import"):
            if "jetty" in node.get("resource") and node.position() > broker.position():
                yield node.problem(
                    "a slave opens this web console only when it becomes master: HTTP health checks of a slave fail",
                    "resource",
                )


@rule("L041", "warning", releases="5.8.0 !5.19.6 6.0.0 !6.2.5", needs="@startAsync @start")
def console_of_a_slave_shows_an_error(document: Document) -> Iterator[Problem]:
    """With startAsync="true" or start="false", the web console of a slave answers with an error page.

    Why: startAsync="true" and start="false" open the console on a slave. The pages of the console require a started
        broker, and return status 500 on a slave. A health check of the port only, such as that of a load balancer,
        finds an open port on both nodes.
    Fix: remove startAsync="true" or start="false", and check the log or the lock of a slave instead of its console. Or
        upgrade to 5.19.6, 6.2.5, 6.3.0 or later, whose console works on a slave.
    Cannot see: whether a program checks the console of a slave. In a fleet, activemq_runtime_configuration sets
        start="false", and the finding is then an info.
    Source: apache/activemq#1920, ApplicationContextFilter of the release tags; both measured on 5.18.3

    Fires on 6.2.4::

        <broker startAsync="true"/>
        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000"/>
        <import resource="jetty.xml"/>

    Fires on 5.18.3::

        <broker start="false"/>
        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000"/>
        <import resource="jetty.xml"/>

    Silent on 6.2.5::

        <broker startAsync="true"/>
        <kahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000"/>
        <import resource="jetty.xml"/>

    Silent on 6.2.4::

        <broker startAsync="true"/>
        <import resource="jetty.xml"/>
    """
    for broker, _, reason in first_shared_store_with_broker_and_reason(document):
        starts_early = {
            "startAsync": broker.boolean_attribute("startAsync", False),
            "start": broker.boolean_attribute("start", True) is False,
        }
        attribute = next((name for name, is_early in starts_early.items() if is_early), "")
        if not attribute or not _has_console(document):
            continue
        text = (
            f'with {attribute}="{broker.get(attribute)}", the web console shows an error page while this broker is '
            f"slave of its shared store ({reason})"
        )
        is_planned = attribute == "start" and document.broker is not None
        fix = (
            f'remove {attribute}="{broker.get(attribute)}", and check the log or the lock of a slave instead of its '
            "console. Or upgrade to 5.19.6, 6.2.5 or 6.3.0, whose console works on a slave"
        )
        yield broker.problem(text, attribute, severity="info" if is_planned else None, fix=fix)


def _has_console(document: Document) -> bool:
    """Return whether an activemq.xml has a web console.

    It imports Jetty's file, or has Jetty's beans.
    """
    classes = (bean.get("class") for bean in document.elements_with_tag_name("bean"))
    imports = (node.get("resource") for node in document.elements_with_tag_name("import"))
    return any("jetty" in resource for resource in imports) or any(".jetty." in name for name in classes)
