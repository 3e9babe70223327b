"""Judge a change of release: whether the new release can use the store, what the operator must do, and the rollback.

Measured on brokers of 13 releases (docs/proofs.md, ``tests/integration/test_jumps.py``): every release reads the
KahaDB stores of all older releases, so an upgrade needs no intermediate release. Rollback is limited: the index of a
store has a version number (``Release.kahadb_version``), and a broker before 5.12 cannot use an index with a higher
number. A newer broker writes the higher number within seconds of opening the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from activemq_fleet.deployment import StoreFacts
from activemq_fleet.releases import Release

Back = Literal["open", "rebuilds", "closed"]

_KAHADB = ("kahaDB", "mKahaDB")
_JDBC = "jdbcPersistenceAdapter"
# Files of the newer release must not remain: guards continue with the newest generation, and brokers read newer data
# files of the journal.
_RESTORE = (
    "stop both nodes, move all contents of the store directory away, and restore the copy of the store from before the "
    "upgrade into the empty directory (activemq-fleet help operations)"
)
# Stores that some releases do not support; ``Release.supports`` decides which. The names are the best known ones.
_REPORTED_STORES = ("amqPersistenceAdapter", "kahaPersistenceAdapter", "levelDB", "journaledJDBC")
_REMOVED_STORES = (
    *_REPORTED_STORES,
    "amqPersistenceAdapterFactory",
    "journalPersistenceAdapter",
    "journalPersistenceAdapterFactory",
    "replicatedLevelDB",
)

_WITHOUT_MESSAGES = (
    "To continue without these messages, stop every broker that uses the store, and run the playbook site"
)


@dataclass(frozen=True, slots=True)
class ReleaseChangeEffects:
    """The effects of a change of a pair's ActiveMQ release: why it is refused, what changes, and how to roll back.

    ``found`` and ``wanted`` are the releases before and after the change. ``refusal`` is one line with the reason why
    the upgrade is refused, and the remedy; it is empty if the upgrade is possible. The operator sees ``changes`` before
    the upgrade. ``back`` is whether the old release can use the store after the new release has opened it; ``way_back``
    describes how to roll back, and until when.
    """

    found: str
    wanted: str
    refusal: str
    changes: tuple[str, ...]
    back: Back
    way_back: str

    def to_dict(self) -> dict[str, Any]:
        """Return the effects of a change of the ActiveMQ release on a pair of brokers as a dictionary for playbooks.

        The dictionary has all fields but ``refusal``.
        """
        names = ("found", "wanted", "back", "way_back")
        return {"changes": list(self.changes), **{name: getattr(self, name) for name in names}}


def release_change_effects(
    old_release: Release,
    new_release: Release,
    old_store: StoreFacts,
    new_store: StoreFacts,
    *,
    holder: Release | None = None,
) -> ReleaseChangeEffects:
    """Return the effects of a change of a pair's ActiveMQ release: why it is refused, what changes, how to roll back.

    ``old_store`` and ``new_store`` are the stores before and after the change. ``holder`` is the release that has the
    store open, which of the two nodes of a pair is the active one's (a standby has opened nothing); without it,
    ``old_release``.
    """
    holder = holder or old_release
    back = store_downgrade_possibility(old_release, new_release, old_store, new_store)
    return ReleaseChangeEffects(
        old_release.text,
        new_release.text,
        next(_refusal_reasons(holder, new_release, old_store, new_store), ""),
        tuple(_operator_changes(old_release, new_release)),
        back,
        _rollback_text(old_release, new_release, back, is_closed=back == "closed" and holder is new_release),
    )


def store_downgrade_possibility(
    old_release: Release, new_release: Release, old_store: StoreFacts, new_store: StoreFacts
) -> Back:
    """Return whether the old release can use the message store again after the new release has written to it.

    The result is ``open`` (the old release uses the store as it is), ``rebuilds`` (it uses the store with a new index)
    or ``closed`` (it cannot use the store). A store of JDBC has no index: its rows are read as long as both use one
    OpenWire version.
    """
    if old_store.kind == _JDBC:
        return "open" if _openwire(old_release, old_store) == _openwire(new_release, new_store) else "closed"
    if old_store.kind not in _KAHADB or old_release.kahadb_reads < new_release.kahadb_version:
        return "closed"
    return "rebuilds" if old_release.kahadb_version < new_release.kahadb_version else "open"


def _refusal_reasons(
    holder: Release, new_release: Release, old_store: StoreFacts, new_store: StoreFacts
) -> Iterator[str]:
    """Yield the reasons against an upgrade."""
    if old_store.pure and new_store.pure:
        yield (
            "the playbook upgrade cannot change a pure pair, whose nodes do not share a store. Stop the slave, then "
            f"the master. Run the playbook site, which installs {new_release}, and then the playbook resync"
        )
    elif old_store.pure:
        yield (
            f"the broker belongs to a pure pair, whose nodes do not share a store, but with {new_release} the pair "
            "would not be pure. Restore the previous values of activemq_ha and activemq_release of this pair, and add "
            "a new pair. Run the playbook migrate, which moves the messages to the new pair"
        )
    yield from store_change_reasons(holder, new_release, old_store, new_store)


def store_change_reasons(
    holder: Release, new_release: Release, old_store: StoreFacts, new_store: StoreFacts
) -> Iterator[str]:
    """Yield the reasons why a restarted broker would not have the messages of its store, each with the remedy.

    ``old_store`` is the store with which it runs, ``new_store`` that of the inventory. An unknown kind, directory or
    database of ``old_store`` is not compared. ``holder`` is the release that has the store open.
    """
    if old_store.kind in _REMOVED_STORES and not new_release.supports(old_store.kind):
        yield (
            f"the broker stores its messages in {old_store.kind}, which {new_release} does not support. Add a new "
            "pair, move the clients to it, and let consumers receive the messages of the old pair"
        )
    if old_store.kind is not None and old_store.kind != new_store.kind:
        yield (
            f"the broker stores its messages in {old_store.kind}, but with the settings of the inventory it would use "
            f"{new_store.kind or 'no store'} without these messages. Set activemq_ha, activemq_kahadb and "
            f"activemq_jdbc so that the broker uses {old_store.kind} again. Or add a new pair, move the clients to it, "
            f"and let consumers receive the messages of the old pair. {_WITHOUT_MESSAGES}"
        )
    if old_store.kind == new_store.kind == "mKahaDB" and holder.mkahadb_rest != new_release.mkahadb_rest:
        yield (
            f"the broker stores messages in the directory {holder.mkahadb_rest} of its mKahaDB store, but "
            f"{new_release} would read them from the directory {new_release.mkahadb_rest}, and find none. Stop both "
            f"nodes. If the directory {holder.mkahadb_rest} exists, rename it to {new_release.mkahadb_rest}. If "
            "activemq_kahadb sets per_destination, it does not exist. Then run the playbook site with activemq_release "
            f"{new_release}"
        )
    if old_store.directory and new_store.directory and old_store.directory != new_store.directory:
        yield (
            f"the broker stores its messages in {old_store.directory}, but with the settings of the inventory it would "
            f"read them from {new_store.directory}. The playbook does not move the store. Set activemq_store_directory "
            f"to {old_store.directory}. To move the store, stop every broker that uses it, move the directory to "
            f"{new_store.directory}, and run the playbook site"
        )
    if old_store.database and new_store.database and old_store.database != new_store.database:
        yield (
            f"the broker stores its messages in the database {old_store.database}, but with the settings of the "
            f"inventory it would use {new_store.database}. The playbook does not move messages. Set activemq_jdbc.url "
            "to the URL of the first database. If both URLs lead to the same database, or to move the tables, stop "
            "every broker that uses the database, move the tables, and run the playbook site"
        )
    if old_store.kind == new_store.kind == "mKahaDB" and old_store.stores != new_store.stores:
        yield (
            f"the broker stores its messages in stores for {old_store.stores}, but with the settings of the inventory "
            f"it would use stores for {new_store.stores}, and not deliver the messages of destinations whose store "
            "changes. Set by_destination of activemq_kahadb to the first list. Or add a new pair, move the clients to "
            f"it, and let consumers receive the messages of the old pair. {_WITHOUT_MESSAGES}"
        )
    if old_store.kind == _JDBC and (version := _openwire(holder, old_store)) != _openwire(new_release, new_store):
        yield (
            f"the messages in the database have OpenWire version {version}. {new_release} would read version "
            f"{_openwire(new_release, new_store)}, and would not start. Set activemq_broker_attributes to "
            f'{{storeOpenWireVersion: "{version}"}}'
        )
    if old_store.kind in _KAHADB and new_release.kahadb_reads < holder.kahadb_version:
        yield (
            f"the broker runs {holder} and has changed the store, which {new_release} therefore cannot read. "
            f"{_RESTORE[0].upper()}{_RESTORE[1:]}, and run the playbook site with activemq_release {new_release}"
        )


def _openwire(release: Release, persistence: StoreFacts) -> int:
    return persistence.openwire or release.store_openwire


def _operator_changes(old_release: Release, new_release: Release) -> Iterator[str]:
    """Yield the consequences that the operator must handle; the rendered files are adapted to the release anyway."""
    if old_release.java_minimum != new_release.java_minimum:
        yield (
            f"{new_release} requires Java {new_release.java_minimum} or later instead of Java "
            f"{old_release.java_minimum}"
        )
    if old_release.log_file_name != new_release.log_file_name:
        yield (
            f"with {new_release}, {new_release.log_file_name} configures logging instead of "
            f"{old_release.log_file_name}. Add your loggers to the new file"
        )
    if old_release.environment_file != new_release.environment_file:
        yield (
            f"with {new_release}, the start script reads the settings in {new_release.environment_file} instead of "
            f"{old_release.environment_file}"
        )
    if (old_release.console_file, old_release.console_accounts) != (
        new_release.console_file,
        new_release.console_accounts,
    ):
        yield (
            f"with {new_release}, {new_release.console_file} configures the web console, and "
            f"{_ACCOUNTS[new_release.console_accounts]} defines its accounts"
        )
    if old_release.jms_package != new_release.jms_package:
        yield (
            f"plugins and Java clients that use the jars of {new_release} must import {new_release.jms_package} "
            f"instead of {old_release.jms_package}. Other clients require no change, because the wire protocol is the "
            "same"
        )
    if old_release.jmx_names != new_release.jmx_names:
        yield (
            f"with {new_release}, the broker's MBeans have {new_release.jmx_names} names, because the names changed in "
            "5.8. Adapt monitoring that reads MBeans"
        )
    if old_release.mqtt_swaps_dots != new_release.mqtt_swaps_dots:
        yield (
            f"with {new_release}, MQTT topics that contain a dot, such as a.b/c, map to different topics of the broker "
            f"than with {old_release}. MQTT sessions that subscribe to them start without their stored messages"
        )
    if old_release.has_pure_master_slave and not new_release.has_pure_master_slave:
        yield f"{new_release} ignores waitForSlave and the other attributes of pure master/slave pairs"
    removed_kinds = [kind for kind in _REPORTED_STORES if old_release.supports(kind) and not new_release.supports(kind)]
    if removed_kinds:
        yield f"{new_release} does not support {' and '.join(removed_kinds)}"
    if new_release.kahadb_version < old_release.kahadb_version:
        yield (
            f"{new_release} rebuilds the index of a KahaDB store from the journal when it opens a store of "
            f"{old_release}"
        )
    if new_release.decreases_network_priority and not old_release.decreases_network_priority:
        yield (
            f"with {new_release}, the broker sends messages over links only if its local consumers cannot accept more. "
            "The attribute decreaseNetworkConsumerPriority, now true by default, gives links a lower priority"
        )


_ACCOUNTS = {"realm": "jetty-realm.properties", "jaas": "users.properties and groups.properties"}


def _rollback_text(old_release: Release, new_release: Release, back: Back, *, is_closed: bool) -> str:
    downgrade = f"set activemq_release to {old_release} again, and run the playbook upgrade"
    if back == "open":
        return (
            f"rollback is possible, because {old_release} can read the store of {new_release}. To roll back, "
            f"{downgrade}"
        )
    if back == "rebuilds":
        return (
            f"rollback is possible. To roll back, {downgrade}. {old_release} cannot read the index of {new_release}, "
            "and rebuilds it from the journal, which takes as long as reading the whole journal"
        )
    if is_closed:
        return (
            f"rollback is not possible, because {new_release} has opened the store, and {old_release} cannot read it. "
            f"To return to {old_release}, {_RESTORE}. Later messages are lost"
        )
    return (
        f"rollback is possible until the switchover of a pair, when {new_release} opens its store. Make a copy of the "
        f"store first (a snapshot). To roll back before the switchover, {downgrade}. Later, {old_release} cannot read "
        f"the store: {_RESTORE}. Messages from after the copy are lost"
    )
