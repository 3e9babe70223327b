"""Rules C and L about the files of a store: their directory, and the settings of the store journal."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.lint.document import Document, Element, Problem, other_lines_suffix
from activemq_fleet.lint.engine import rule

_SHORT_LIVED = re.compile(r"(?:file:(?://)?)?(/tmp|/var/tmp|/dev/shm|\$\{java\.io\.tmpdir\}|(?:\./)?target)(?:/|$)")
_SYNC_DEFAULT = "By default the broker syncs each write to the disk before it acknowledges the message"


@rule("C042", "info", each="broker")
def relative_data_or_store_directory(broker: Element) -> Iterator[Problem]:
    """The data directory or the store directory is relative to the directory in which the broker is started.

    Why: a broker that is started in another directory, manually or by a new service unit, creates an empty store there.
        It then serves clients without the messages of the previous store. The lock of the new store does not prevent a
        second broker from using the previous store.
    Fix: write an absolute path, such as /var/lib/activemq, or a path that begins with ${activemq.data}.
    Cannot see: the working directory that a service unit sets.
    Source: BrokerService.setDataDirectory and KahaDBPersistenceAdapter.setDirectory of the release tags; measured on
        5.18.3

    Fires on 5.18.3::

        <broker dataDirectory="data">
          <persistenceAdapter><kahaDB directory="data/kahadb"/></persistenceAdapter>
        </broker>

    Silent on 5.18.3::

        <broker dataDirectory="/var/lib/activemq">
          <persistenceAdapter><kahaDB directory="${activemq.data}/kahadb"/></persistenceAdapter>
        </broker>
    """
    if broker.document.broker is not None or broker.boolean_attribute("persistent", True) is False:
        return
    stores = [store for container in broker.children("persistenceAdapter", "persistenceFactory")
              for store in container.children()]  # fmt: skip
    nodes_and_attributes = [(broker, "dataDirectory"), *((store, "directory") for store in stores)]
    relative_directories = [
        (node, attribute)
        for node, attribute in nodes_and_attributes
        if _is_relative(node.literal_value(attribute) or "")
    ]
    if relative_directories:
        node, attribute = relative_directories[0]
        text = (
            f'{attribute}="{node.get(attribute)}" is relative to the directory in which the broker is started: '
            "a start in another directory creates an empty store"
        )
        yield node.problem(
            text + other_lines_suffix((other for other, _ in relative_directories), line=node.position(attribute)[0]),
            attribute,
        )


def _is_relative(directory: str) -> bool:
    absolute = directory.startswith(("/", "\\", "~")) or directory[1:2] == ":" or ":/" in directory
    return bool(directory) and not absolute and "target" not in directory.split("/")  # rule L028 reports target


@rule("L028", "warning")
def store_in_tmp_or_build_directory(document: Document) -> Iterator[Problem]:
    """The store, or the broker's data, is below /tmp or a build's target directory.

    Why: the system empties /tmp at a restart or after days without use, and `mvn clean` removes target. The persistent
        messages and the lock of the store are then lost.
    Fix: stop the broker, move the directory to a place that only the broker uses, such as ${activemq.data}/kahadb, and
        set directory of the store, or dataDirectory of <broker>, to the new path.
    Source: 20 of 275 files of public repositories; tmpfiles.d(5)

    Fires on 5.18.3::

        <kahaDB directory="/tmp/activemq/kahadb"/>

    Fires on 5.18.3::

        <broker dataDirectory="target/activemq-data"/>

    Silent on 5.18.3::

        <kahaDB directory="${activemq.data}/kahadb"/>
    """
    short_lived: list[tuple[Element, str, str]] = []
    for node in (*document.brokers, *document.store_elements):
        if node.name == "broker" and node.boolean_attribute("persistent", True) is False:
            continue
        for attribute in ("directory", "dataDirectory", "directoryArchive"):
            match = _SHORT_LIVED.match(node.get(attribute))
            if match is not None:
                short_lived.append((node, attribute, match[1]))
    if short_lived:
        (node, attribute, parent), *others = short_lived
        others_text = "".join(
            f"; {name} of <{other.name}> in line {other.position(name)[0]} is also in {directory}"
            for other, name, directory in others
        )
        emptied_by = "`mvn clean`" if parent.endswith("target") else "the operating system"
        text = (
            f"{attribute} of <{node.name}> is in {parent}, which {emptied_by} empties: persistent messages are then "
            f"lost{others_text}"
        )
        why = f"the operating system empties {parent} at a restart, or deletes files that were not used for days"
        if parent.endswith("target"):
            why = "`mvn clean` removes the directory target with the persistent messages and the lock of the store"
        example = "${activemq.data}" if node.name == "broker" else "${activemq.data}/kahadb"
        fix = f'set {attribute} of <{node.name}> to a directory that only the broker uses, such as "{example}"'
        yield node.problem(text, attribute, why=why, fix=fix)


@rule("L033", "warning", each="kahaDB", releases="5.9.0", needs="@checksumJournalFiles")
def journal_without_checksums(store: Element) -> Iterator[Problem]:
    """A kahaDB writes its journal without checksums.

    Why: without checksums, the broker delivers damaged messages to consumers. checkForCorruptJournalFiles and
        `activemq-fleet store inspect` cannot detect the damage either.
    Fix: remove checksumJournalFiles="false", so that the broker writes checksums, as by default.
    Source: a flipped body on 5.5.1 and 5.8.0, which write none by default, came to its consumer

    Fires on 6.3.1::

        <kahaDB directory="${activemq.data}/kahadb" checksumJournalFiles="false"/>

    Silent on 6.3.1::

        <kahaDB directory="${activemq.data}/kahadb"/>
    """
    if store.boolean_attribute("checksumJournalFiles", True) is False:
        yield store.problem(
            "checksumJournalFiles is false: the broker cannot detect damaged messages and delivers them to consumers",
            "checksumJournalFiles",
        )


@rule("L024", "warning", each="kahaDB", needs="@ignoreMissingJournalfiles")
def damaged_journal_messages_dropped(store: Element) -> Iterator[Problem]:
    """A kahaDB drops messages of missing or damaged journal files without an error.

    Why: the broker starts despite the damage and logs only an INFO line for each dropped message. The messages of a
        file that was missing at one start are lost permanently: 40 of 400 in a measurement.
    Fix: remove ignoreMissingJournalfiles="true". To repair a store, set ignoreMissingJournalfiles="true" for one start
        only (docs/shared-stores.md).
    Source: MessageDatabase of the release tags; measured on 5.17.2, 5.18.3 and 6.3.1

    Fires on 5.18.3::

        <kahaDB directory="${activemq.data}/kahadb" ignoreMissingJournalfiles="true"
                checkForCorruptJournalFiles="true"/>

    Silent on 5.18.3::

        <kahaDB directory="${activemq.data}/kahadb" checkForCorruptJournalFiles="true"/>
    """
    if store.boolean_attribute("ignoreMissingJournalfiles", False):
        drops_damaged_files = store.boolean_attribute("checkForCorruptJournalFiles", False)
        files_text = "missing or damaged" if drops_damaged_files else "missing"
        yield store.problem(
            f"ignoreMissingJournalfiles is true: the broker drops the messages of {files_text} journal files without "
            "an error",
            "ignoreMissingJournalfiles",
        )


@rule("C017", "warning", each="kahaDB", needs="@enableJournalDiskSyncs @journalDiskSyncStrategy")
def acknowledged_before_disk_sync(store: Element) -> Iterator[Problem]:
    """A kahaDB acknowledges messages before they are on disk.

    Why: a producer's message is acknowledged while it is only in the host's memory. If the host fails, the message is
        lost, and a node that takes over a shared store does not have it.
    Fix: remove enableJournalDiskSyncs="false" and journalDiskSyncStrategy, whichever is set, so that the broker syncs
        each write to the disk before it acknowledges the message.
    Source: Journal and DataFileAppender of the release tags

    Fires on 5.18.3::

        <persistenceAdapter><kahaDB directory="/srv/a" journalDiskSyncStrategy="periodic"/></persistenceAdapter>

    Fires on 5.8.0::

        <persistenceAdapter><kahaDB directory="/srv/a" enableJournalDiskSyncs="false"/></persistenceAdapter>

    Silent on 5.18.3::

        <persistenceAdapter><kahaDB directory="/srv/a" journalDiskSyncStrategy="always"/></persistenceAdapter>
    """
    if store.boolean_attribute("enableJournalDiskSyncs", True) is False:
        yield store.problem(
            "enableJournalDiskSyncs is false: the broker acknowledges messages before they are on disk",
            "enableJournalDiskSyncs",
            fix=f'remove enableJournalDiskSyncs="false". {_SYNC_DEFAULT}',
        )
    strategy = store.get("journalDiskSyncStrategy", "always").strip().lower()
    if strategy in ("periodic", "never"):
        message = f"journalDiskSyncStrategy is {strategy}: the broker acknowledges messages before they are on disk"
        fix = f'remove journalDiskSyncStrategy="{strategy}". {_SYNC_DEFAULT}'
        yield store.problem(message, "journalDiskSyncStrategy", fix=fix)
