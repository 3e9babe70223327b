"""Judge a change of release: whether the store survives it, what the operator must do, and the way back.

Measured on real brokers of thirteen releases (docs/proofs.md, ``tests/integration/test_jumps.py``): every
release reads the KahaDB stores of all older ones, so no stop-over is ever needed. The way back is
another matter: the index of a store bears a number (``Release.kahadb_version``), and a broker before
5.12 does not go on with an index of a newer number, which is written as soon as a newer broker has
had the store open for some seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from activemq_fleet.deployment import Persistence
from activemq_fleet.releases import Release

Back = Literal["open", "rebuilds", "closed"]

_KAHADB = ("kahaDB", "mKahaDB")
_JDBC = "jdbcPersistenceAdapter"
# Stores that some releases have no more, and which do is asked of Release.supports; told are the best known ones.
_TOLD = ("amqPersistenceAdapter", "kahaPersistenceAdapter", "levelDB", "journaledJDBC")
_REMOVED = (
    *_TOLD,
    "amqPersistenceAdapterFactory",
    "journalPersistenceAdapter",
    "journalPersistenceAdapterFactory",
    "replicatedLevelDB",
)


@dataclass(frozen=True, slots=True)
class ReleaseChange:
    """The consequences for a pair of a change from one release to another.

    ``found`` and ``wanted`` are the releases before and after. ``refusal`` says in one line why the upgrade is refused,
    with the remedy; empty when nothing is against it.
    ``changes`` are shown to the operator before it. ``back`` is whether the old release can use the store after the new
    release has opened it, and ``way_back`` says how to return and until when.
    """

    found: str
    wanted: str
    refusal: str
    changes: tuple[str, ...]
    back: Back
    way_back: str

    def to_dict(self) -> dict[str, Any]:
        """Return the release change as the dictionary that playbooks read: all fields but ``refusal``."""
        names = ("found", "wanted", "back", "way_back")
        return {"changes": list(self.changes), **{name: getattr(self, name) for name in names}}


def judge_release_change(
    old_release: Release, wanted: Release, now: Persistence, then: Persistence, *, holder: Release | None = None
) -> ReleaseChange:
    """Return the consequences of changing a pair from ``old_release`` (store ``now``) to ``wanted`` (store ``then``).

    ``holder`` is the release that has the store open, which of the two nodes of a pair is the active
    one's (a standby has opened nothing); without it, ``old_release``.
    """
    holder = holder or old_release
    back = judge_downgrade(old_release, wanted, now, then)
    return ReleaseChange(
        old_release.text,
        wanted.text,
        next(_refusals(holder, wanted, now, then), ""),
        tuple(_changes(old_release, wanted)),
        back,
        _told(old_release, wanted, back, is_closed=back == "closed" and holder is wanted),
    )


def judge_downgrade(old_release: Release, wanted: Release, now: Persistence, then: Persistence) -> Back:
    """Return whether a pair can go back from release ``wanted`` to ``old_release`` with its store: ``open`` (as it is),
    ``rebuilds`` (with a new index) or ``closed`` (not with this store).

    A store of JDBC has no index: its rows are read as long as both use one OpenWire version.
    """
    if now.kind == _JDBC:
        return "open" if _openwire(old_release, now) == _openwire(wanted, then) else "closed"
    if now.kind not in _KAHADB or old_release.kahadb_reads < wanted.kahadb_version:
        return "closed"
    return "rebuilds" if old_release.kahadb_version < wanted.kahadb_version else "open"


def _refusals(holder: Release, wanted: Release, now: Persistence, then: Persistence) -> Iterator[str]:
    if now.pure and then.pure:
        yield (
            "is one of a pure pair, where nobody could go on with the other's store: stop the slave, then the "
            f"master, run the playbook site, which installs {wanted}, and then the playbook resync"
        )
    elif now.pure:
        yield f"is one of a pure pair, and {wanted} is not to be: each of its nodes has a store of its own; {_MIGRATE}"
    if now.kind in _REMOVED and not wanted.supports(now.kind):
        yield f"keeps its messages in {now.kind}, which {wanted} does not have: {_MIGRATE}"
    if now.kind is not None and now.kind != then.kind:
        yield (
            f"keeps its messages in {now.kind}, and would look for them in {then.kind}: they would stay behind; "
            f"{_MIGRATE}"
        )
    if now.kind == then.kind == "mKahaDB" and holder.mkahadb_rest != wanted.mkahadb_rest:
        yield (
            f"keeps messages in {holder.mkahadb_rest} below its store, and {wanted} looks for them in "
            f"{wanted.mkahadb_rest} (AMQ-5450): stop both nodes, rename that directory and run the playbook site as "
            f"{wanted}; with per_destination there is none, and nothing to rename"
        )
    if now.directory and then.directory and now.directory != then.directory:
        yield (
            f"keeps its messages in {now.directory}, and would look for them in {then.directory}: set "
            f"activemq_store_directory to {now.directory}, an upgrade moves no store"
        )
    if now.kind == _JDBC and (version := _openwire(holder, now)) != _openwire(wanted, then):
        yield (
            f"wrote its rows in OpenWire {version}, and {wanted} would read them as {_openwire(wanted, then)} and not "
            f'start (measured): set activemq_broker_attributes to {{storeOpenWireVersion: "{version}"}}'
        )
    if now.kind in _KAHADB and wanted.kahadb_reads < holder.kahadb_version:
        yield (
            f"has the store open as {holder}, and {wanted} cannot go on with what it wrote: go back with the copy of "
            f"the store from before the upgrade: stop both nodes, put it in place, run the playbook site as {wanted}"
        )


_MIGRATE = "run the playbook migrate, which drains it into a new pair"


def _openwire(release: Release, persistence: Persistence) -> int:
    return persistence.openwire or release.store_openwire


def _changes(old_release: Release, wanted: Release) -> Iterator[str]:
    """Yield what the operator must take care of; the rendered files follow the release by themselves."""
    if old_release.java_minimum != wanted.java_minimum:
        yield f"Java {wanted.java_minimum} or later is needed, in place of {old_release.java_minimum}"
    if old_release.log_file_name != wanted.log_file_name:
        yield (
            f"logging is set by {wanted.log_file_name} in place of {old_release.log_file_name}: port loggers of your "
            "own"
        )
    if old_release.environment_file != wanted.environment_file:
        yield f"the start script reads {wanted.environment_file} in place of {old_release.environment_file}"
    if (old_release.console_file, old_release.console_accounts) != (wanted.console_file, wanted.console_accounts):
        yield f"the console is set by {wanted.console_file}, its accounts by {_ACCOUNTS[wanted.console_accounts]}"
    if old_release.jms_package != wanted.jms_package:
        yield (
            f"plugins and Java clients that use the release's own jars need {wanted.jms_package} in place of "
            f"{old_release.jms_package}; the wire protocol is the same, other clients need nothing"
        )
    if old_release.jmx_names != wanted.jmx_names:
        yield f"MBeans have {wanted.jmx_names} names: monitoring that reads them must follow"
    if old_release.mqtt_swaps_dots != wanted.mqtt_swaps_dots:
        yield "MQTT's a.b/c becomes another topic than before: MQTT sessions with such topics begin anew"
    if old_release.has_pure_master_slave and not wanted.has_pure_master_slave:
        yield "waitForSlave and its like are accepted and do nothing any more"
    gone = [kind for kind in _TOLD if old_release.supports(kind) and not wanted.supports(kind)]
    if gone:
        yield f"{', '.join(gone)} are gone" if len(gone) > 1 else f"{gone[0]} is gone"
    if wanted.kahadb_version < old_release.kahadb_version:
        yield (
            f"{wanted} builds the index of a KahaDB store anew from the journal when it opens what {old_release} wrote"
        )
    if wanted.decreases_network_priority and not old_release.decreases_network_priority:
        yield "consumers behind a bridge come after local ones, also on links of your own (AMQ-5137)"


_ACCOUNTS = {"realm": "jetty-realm.properties", "jaas": "users.properties and groups.properties"}


def _told(old_release: Release, wanted: Release, back: Back, *, is_closed: bool) -> str:
    again = f"set activemq_release to {old_release} again and run the playbook upgrade"
    if back == "open":
        return f"the way back is open: {old_release} goes on with what {wanted} wrote; {again}"
    if back == "rebuilds":
        return (
            f"the way back is open: {again}; {old_release} cannot read the index of {wanted} and builds it anew from "
            "the journal, which takes as long as reading all of the journal"
        )
    copy = "only a copy of the store from before leads back, with both nodes stopped, and what came since is not in it"
    if is_closed:
        return f"the way back is closed: {wanted} has the store open, and {old_release} cannot go on with it: {copy}"
    return (
        f"the way back closes for a pair as soon as {wanted} opens its store, which is its switch over: {old_release} "
        f"cannot go on with what {wanted} wrote. Until then: {again}. After that {copy}: make one first (a snapshot)"
    )
