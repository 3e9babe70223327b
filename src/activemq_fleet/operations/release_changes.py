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
# Stores that some releases do not support; ``Release.supports`` decides which. The names are the best known ones.
_TOLD = ("amqPersistenceAdapter", "kahaPersistenceAdapter", "levelDB", "journaledJDBC")
_REMOVED = (
    *_TOLD,
    "amqPersistenceAdapterFactory",
    "journalPersistenceAdapter",
    "journalPersistenceAdapterFactory",
    "replicatedLevelDB",
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
        next(_refusals(holder, new_release, old_store, new_store), ""),
        tuple(_changes(old_release, new_release)),
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


def _refusals(holder: Release, wanted: Release, now: StoreFacts, then: StoreFacts) -> Iterator[str]:
    if now.pure and then.pure:
        yield (
            "the playbook upgrade cannot change a pure pair, whose nodes do not share a store. Stop the slave, then "
            f"the master. Run the playbook site, which installs {wanted}, and then the playbook resync"
        )
    elif now.pure:
        yield (
            f"the broker belongs to a pure pair, whose nodes do not share a store, but with {wanted} the pair would "
            "not be pure. Restore the previous values of activemq_ha and activemq_release of this pair, and add a new "
            "pair. Run the playbook migrate, which moves the messages to the new pair"
        )
    if now.kind in _REMOVED and not wanted.supports(now.kind):
        yield (
            f"the broker stores its messages in {now.kind}, which {wanted} does not support. Add a new pair, move the "
            "clients to it, and let consumers receive the messages of the old pair"
        )
    if now.kind is not None and now.kind != then.kind:
        yield (
            f"the broker stores its messages in {now.kind}, but with {wanted} it would use {then.kind} without these "
            f"messages. Set activemq_ha, activemq_kahadb and activemq_jdbc so that the broker uses {now.kind} again. "
            "Or add a new pair, move the clients to it, and let consumers receive the messages of the old pair"
        )
    if now.kind == then.kind == "mKahaDB" and holder.mkahadb_rest != wanted.mkahadb_rest:
        yield (
            f"the broker stores messages in the directory {holder.mkahadb_rest} of its mKahaDB store, but {wanted} "
            f"would read them from the directory {wanted.mkahadb_rest}, and find none. Stop both nodes. If the "
            f"directory {holder.mkahadb_rest} exists, rename it to {wanted.mkahadb_rest}. If activemq_kahadb sets "
            f"per_destination, it does not exist. Then run the playbook site with activemq_release {wanted}"
        )
    if now.directory and then.directory and now.directory != then.directory:
        yield (
            f"the broker stores its messages in {now.directory}, but after the upgrade it would read them from "
            f"{then.directory}. An upgrade does not move the store. Set activemq_store_directory to {now.directory}"
        )
    if now.kind == _JDBC and (version := _openwire(holder, now)) != _openwire(wanted, then):
        yield (
            f"the messages in the database have OpenWire version {version}. {wanted} would read version "
            f"{_openwire(wanted, then)}, and would not start. Set activemq_broker_attributes to "
            f'{{storeOpenWireVersion: "{version}"}}'
        )
    if now.kind in _KAHADB and wanted.kahadb_reads < holder.kahadb_version:
        yield (
            f"the broker runs {holder} and has changed the store, which {wanted} therefore cannot read. Stop both "
            "nodes, restore the copy of the store from before the upgrade, and run the playbook site with "
            f"activemq_release {wanted}"
        )


def _openwire(release: Release, persistence: StoreFacts) -> int:
    return persistence.openwire or release.store_openwire


def _changes(old_release: Release, wanted: Release) -> Iterator[str]:
    """Yield the consequences that the operator must handle; the rendered files are adapted to the release anyway."""
    if old_release.java_minimum != wanted.java_minimum:
        yield f"{wanted} requires Java {wanted.java_minimum} or later instead of Java {old_release.java_minimum}"
    if old_release.log_file_name != wanted.log_file_name:
        yield (
            f"with {wanted}, {wanted.log_file_name} configures logging instead of {old_release.log_file_name}. Add "
            "your loggers to the new file"
        )
    if old_release.environment_file != wanted.environment_file:
        yield (
            f"with {wanted}, the start script reads the settings in {wanted.environment_file} instead of "
            f"{old_release.environment_file}"
        )
    if (old_release.console_file, old_release.console_accounts) != (wanted.console_file, wanted.console_accounts):
        yield (
            f"with {wanted}, {wanted.console_file} configures the web console, and "
            f"{_ACCOUNTS[wanted.console_accounts]} defines its accounts"
        )
    if old_release.jms_package != wanted.jms_package:
        yield (
            f"plugins and Java clients that use the jars of {wanted} must import {wanted.jms_package} instead of "
            f"{old_release.jms_package}. Other clients require no change, because the wire protocol is the same"
        )
    if old_release.jmx_names != wanted.jmx_names:
        yield (
            f"with {wanted}, the broker's MBeans have {wanted.jmx_names} names, because the names changed in 5.8. "
            "Adapt monitoring that reads MBeans"
        )
    if old_release.mqtt_swaps_dots != wanted.mqtt_swaps_dots:
        yield (
            f"with {wanted}, MQTT topics that contain a dot, such as a.b/c, map to different topics of the broker than "
            f"with {old_release}. MQTT sessions that subscribe to them start without their stored messages"
        )
    if old_release.has_pure_master_slave and not wanted.has_pure_master_slave:
        yield f"{wanted} ignores waitForSlave and the other attributes of pure master/slave pairs"
    gone = [kind for kind in _TOLD if old_release.supports(kind) and not wanted.supports(kind)]
    if gone:
        yield f"{wanted} does not support {' and '.join(gone)}"
    if wanted.kahadb_version < old_release.kahadb_version:
        yield f"{wanted} rebuilds the index of a KahaDB store from the journal when it opens a store of {old_release}"
    if wanted.decreases_network_priority and not old_release.decreases_network_priority:
        yield (
            f"with {wanted}, the broker sends messages over links only if its local consumers cannot accept more. The "
            "attribute decreaseNetworkConsumerPriority, now true by default, gives links a lower priority"
        )


_ACCOUNTS = {"realm": "jetty-realm.properties", "jaas": "users.properties and groups.properties"}


def _rollback_text(old_release: Release, wanted: Release, back: Back, *, is_closed: bool) -> str:
    again = f"set activemq_release to {old_release} again, and run the playbook upgrade"
    if back == "open":
        return f"rollback is possible, because {old_release} can read the store of {wanted}. To roll back, {again}"
    if back == "rebuilds":
        return (
            f"rollback is possible. To roll back, {again}. {old_release} cannot read the index of {wanted}, and "
            "rebuilds it from the journal, which takes as long as reading the whole journal"
        )
    if is_closed:
        return (
            f"rollback is not possible, because {wanted} has opened the store, and {old_release} cannot read it. To "
            f"return to {old_release}, stop both nodes and restore a copy of the store from before the upgrade. Later "
            "messages are lost"
        )
    return (
        f"rollback is possible until the switchover of a pair, when {wanted} opens its store. Make a copy of the store "
        f"first (a snapshot). To roll back before the switchover, {again}. Later, {old_release} cannot read the store: "
        "stop both nodes and restore the copy. Messages from after the copy are lost"
    )
