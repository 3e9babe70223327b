"""Rules V and L about the stores of a pair or of two pairs, which require both nodes or the whole fleet."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from activemq_fleet.lint.document import Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.fleets import FleetView
from activemq_fleet.lint.shared_store_signs import locker_of, message_store_elements
from activemq_fleet.settings.host_settings import HostSettings
from activemq_fleet.topology import Broker

# The only release that changed the format of kahaDB within a release line.
_CHANGED_STORE_FORMAT = "5.4.2"


@rule("V018", "error", scope="fleet")
def pair_on_two_releases_of_one_line(view: FleetView) -> Iterator[Problem]:
    """The nodes of a pair run different releases of one release line.

    Why: after a failover or a rollback, the older release must read the data that the newer release wrote, and this is
        not tested. Inside a release line, the format of kahaDB changes only at 5.4.2.
    Fix: set activemq_release once, for the pair. To upgrade a pair, run `ansible-playbook -i INVENTORY
        activemq.fleet.upgrade -e activemq_target=PAIR`: it upgrades the standby, fails over, and then upgrades the
        former active node. To upgrade a pure pair, stop the slave and then the master, run the playbook site, and then
        the playbook resync.
    Cannot see: whether the older release reads the store. The finding is an error if only one of the releases is older
        than 5.4.2, and otherwise a warning. Rule T004 reports two release lines in one pair.
    Source: MessageDatabase.VERSION of all release tags

    Fires on 5.18.3::

        hosts:
          orders-mq01-a: {activemq_release: 5.18.3}
          orders-mq01-b: {activemq_release: 5.18.6}

    Silent on 5.18.3::

        hosts:
          orders-mq01-a: {activemq_release: 5.18.3}
          orders-mq01-b: {activemq_release: 5.18.3}
    """
    for node, peer in _node_pairs(view):
        first, second = node.release, peer.release
        if first is second or first.line != second.line:
            continue
        is_certain = first.is_within_span(_CHANGED_STORE_FORMAT) != second.is_within_span(_CHANGED_STORE_FORMAT)
        message = (
            f"activemq_release is {second} on {peer.host} but {first} on {node.host}, the other node of pair "
            f"{peer.pair}: the older release may fail to read the store"
        )
        yield Problem(message, host=peer.host, severity=None if is_certain else "warning")


@rule("L010", "error", scope="fleet", releases="5.7.0")
def same_lease_holder_id_on_both_nodes(view: FleetView) -> Iterator[Problem]:
    """Both nodes of a pair use the same lease holder id.

    Why: the lease is a row in the database that contains the id of its holder. A node treats a lease with its own id as
        its own lease, and serves clients.
    Fix: remove leaseHolderId from the fragment in activemq_xml_fragments, so that each node uses the name of its host.
    Source: LeaseDatabaseLocker.getLeaseHolderId; pluggable-lockers page

    Fires on 5.18.3::

        all:
          activemq_ha: shared-jdbc
          activemq_jdbc: {url: "jdbc:postgresql://db/orders", driver: org.postgresql.Driver, jar: /opt/pg.jar,
                          username: amq, password: hidden}
          activemq_xml_fragments:
            - parent: broker/persistenceAdapter/jdbcPersistenceAdapter/locker
              xml: <lease-database-locker leaseHolderId="orders"/>
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}}

    Silent on 5.18.3::

        all:
          activemq_ha: shared-jdbc
          activemq_jdbc: {url: "jdbc:postgresql://db/orders", driver: org.postgresql.Driver, jar: /opt/pg.jar,
                          username: amq, password: hidden}
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}}
    """
    hosts_with_user_xml = {broker.host for broker in view.brokers_with_user_xml}
    for node, peer in _node_pairs(view):
        if not hosts_with_user_xml & {node.host, peer.host}:
            continue
        holder_id = _lease_holder_id(view, node)
        if holder_id is not None and holder_id == _lease_holder_id(view, peer):
            message = (
                f'{node.host} and {peer.host} of pair {peer.pair} use the same lease holder id "{holder_id}": '
                "both nodes become master"
            )
            yield Problem(message, host=peer.host)


def _lease_holder_id(view: FleetView, broker: Broker) -> str | None:
    """Return the id under which a broker holds the lease of its store.

    The result is None without a lease, or if a placeholder determines the id.
    """
    document = view.broker_document(broker)
    if document is None:
        return None
    for store in message_store_elements(document):
        locker = locker_of(store)
        if locker is not None and locker.name == "lease-database-locker":
            if locker.has_attribute("leaseHolderId"):
                return locker.literal_value("leaseHolderId")
            broker_element = store.nearest_ancestor_with_tag_name("broker")
            return broker_element.literal_value("brokerName") if broker_element else None
    return None


@rule("L016", "warning", scope="fleet")
def shared_file_pair_without_common_store(view: FleetView) -> Iterator[Problem]:
    """The nodes of a shared-file pair do not use one common store.

    Why: the lock is a file in the store's directory. With two directories both nodes become master, each with a
        separate store.
    Fix: set activemq_store_directory to one path on the shared file system for both nodes, such as
        /srv/activemq/orders-mq01. Remove the directory attribute of the store from activemq_xml_fragments.
    Cannot see: mounts. They are checked when the broker starts: both nodes must find the same file .activemq-fleet-pair
        in the store.
    Source: SharedFileLocker of the release tags

    Fires on 5.18.3::

        all: {activemq_ha: shared-file, activemq_store_directory: /var/lib/activemq/activemq/data/kahadb}
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}}

    Fires on 5.18.3::

        hosts:
          orders-mq01-a: {}
          orders-mq01-b:
            activemq_xml_fragments: [{parent: broker/persistenceAdapter, xml: <kahaDB directory="/srv/other"/>}]

    Silent on 5.18.3::

        all: {activemq_store_directory: /srv/activemq/orders}
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}}
    """
    hosts_with_fragments = {broker.host for broker in view.brokers_with_user_xml if broker.settings.xml_fragments}
    for node, peer in _node_pairs(view):
        if node.shared_store_directory is None or peer.shared_store_directory is None:
            continue
        for broker in (node, peer):
            data_directory = f"{broker.settings.base.rstrip('/')}/{broker.settings.instance}/data"
            if f"{broker.store_directory}/".startswith(f"{data_directory}/"):
                text = (
                    f"activemq_store_directory {broker.store_directory} is below {data_directory}, "
                    "a local directory of the node: the two nodes have no common store"
                )
                fix = (
                    "set activemq_store_directory to one path on the shared file system for both nodes, such as "
                    f"/srv/activemq/{broker.pair}"
                )
                yield Problem(text, host=broker.host, fix=fix)
        if hosts_with_fragments & {node.host, peer.host}:
            first, second = _directory_in_document(view, node), _directory_in_document(view, peer)
            if (
                first
                and second
                and first.rstrip("/") != second.rstrip("/")
                and node.store_directory == peer.store_directory
            ):
                text = (
                    f"the store directory is {second} on {peer.host}, but {first} on {node.host}, the other node of "
                    "the pair: both nodes become master"
                )
                fix = (
                    "remove the directory attribute of the store from activemq_xml_fragments, so that "
                    "activemq_store_directory applies to both nodes"
                )
                yield Problem(text, host=peer.host, fix=fix)


def _directory_in_document(view: FleetView, broker: Broker) -> str | None:
    """Return the KahaDB directory in a broker's activemq.xml; None if a placeholder determines it."""
    document = view.broker_document(broker)
    if document is None:
        return None
    return next(
        (
            store.literal_value("directory")
            for store in message_store_elements(document)
            if store.name in ("kahaDB", "mKahaDB")
        ),
        None,
    )


@rule("L017", "error", scope="fleet")
def same_store_for_two_pairs(view: FleetView) -> Iterator[Problem]:
    """Brokers of different pairs use the same store.

    Why: only one broker acquires the lock. All others wait as slaves indefinitely, and their clients cannot connect.
    Fix: remove activemq_store_directory, so that its default applies, /srv/activemq/PAIR. Or set it separately for each
        pair. With shared-jdbc, set a different database in activemq_jdbc for each pair.
    Cannot see: mounts. Pairs that mount different volumes at one path are correct. For such pairs, add a waiver of L017
        to activemq_waivers. Or include the pair's name in each mount point: then a wrong mount is detected.
    Source: SharedFileLocker and JDBCPersistenceAdapter; measured on 5.17.2

    Fires on 5.18.3::

        all: {activemq_ha: shared-file, activemq_store_directory: /srv/activemq/kahadb}
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}, orders-mq02-a: {}, orders-mq02-b: {}}

    Silent on 5.18.3::

        all: {activemq_ha: shared-file}
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}, orders-mq02-a: {}, orders-mq02-b: {}}
    """
    owners: dict[tuple[str, ...], str] = dict(view.fleet.rest.stores) if view.fleet.rest else {}
    reported: set[str] = set()
    for broker in view.brokers:
        store = store_identity_key(broker.settings, broker.address, broker.store_directory)
        owner = owners.setdefault(store, broker.name_in_links)
        if owner != broker.name_in_links and broker.name_in_links not in reported:
            reported.add(broker.name_in_links)
            message = (
                f"the brokers of {broker.name_in_links} and {owner} use the same store, {store[-1]}: only one "
                "broker can serve clients, the others wait indefinitely"
            )
            yield Problem(message, host=broker.host, fix=_fix_of_common_store(store[0], broker, owner))


def _fix_of_common_store(kind: str, broker: Broker, owner: str) -> str:
    """Return an instruction to give two pairs or brokers separate stores.

    ``kind`` is that of ``store_identity_key``.
    """
    if kind == "machine":
        return f"set a different activemq_store_directory for {broker.name_in_links} and for {owner}"
    if kind == "database":
        return f"set the url of activemq_jdbc to a different database for {broker.name_in_links} and for {owner}"
    return (
        f"remove activemq_store_directory of {broker.name_in_links} and of {owner}, so that each gets a directory "
        "with its name. Or set a different activemq_store_directory for each"
    )


@rule("L029", "info", scope="fleet")
def shared_store_without_a_fence(view: FleetView) -> Iterator[Problem]:
    """A pair shares a store without a fence: a frozen node that resumes can still write to the store.

    Why: a frozen node, such as a paused virtual machine, loses its lock without detecting it. When it resumes, it
        writes to the store while the other node serves. In measurements with 6.3.1, 6 of 6 stores lost most of their
        messages.
    Fix: set activemq_fence to guard, so that a program of this collection protects the store. Then run the playbook
        site, and restart the nodes one after the other. Or set activemq_fence to command, and activemq_fence_command to
        a program that stops the other node. If neither is possible, from 5.14 on, set activemq_kahadb to
        {enable_ack_compaction: false}: otherwise a broker that is killed seconds after its takeover can lose messages.
    Cannot see: an external fence, such as that of a cluster manager. In this case add a waiver of L029 to
        activemq_waivers.
    Source: measured on 5.5.1, 5.10.2, 5.11.4, 5.14.5, 5.18.3 and 6.3.1 (docs/shared-stores.md)

    Fires on 5.18.3::

        all: {activemq_ha: shared-file}
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}}

    Silent on 5.18.3::

        all: {activemq_ha: shared-file, activemq_fence: guard}
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}}
    """
    for node, _ in _node_pairs(view):
        if node.ha_profile.shares_store_directory and not node.has_guard:
            text = (
                "activemq_fence is none: a node of the pair that freezes and resumes can write to the shared store of "
                "the active node and destroy it"
            )
            fix = (
                "set activemq_fence to guard, so that a program of this collection protects the store. Then run the "
                "playbook site, and restart the nodes one after the other. Or set activemq_fence to command, and "
                "activemq_fence_command to a program that stops the other node"
            )
            if node.release.is_within_span("5.14.0"):
                fix += (
                    ". If neither is possible, set activemq_kahadb to {enable_ack_compaction: false}, so that a broker "
                    "killed seconds after its takeover loses no messages"
                )
            yield Problem(text, host=node.host, fix=fix)


@rule("L030", "warning", scope="fleet")
def guard_fence_without_kill_watchdog(view: FleetView) -> Iterator[Problem]:
    """A broker with activemq_fence: guard has no watchdog that kills it when it hangs.

    Why: with activemq_fence: guard, a program of this collection keeps the pair's lock as long as the broker process
        exists. If Java hangs, no node takes over until that process is killed.
    Fix: set activemq_watchdog to kill. Or remove it, because kill is the default with activemq_fence: guard.
    Source: measured on 6.3.1 (docs/watchdog.md)

    Fires on 5.18.3::

        all: {activemq_ha: shared-file, activemq_fence: guard, activemq_watchdog: warn}
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}}

    Silent on 5.18.3::

        all: {activemq_ha: shared-file, activemq_fence: guard}
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}}
    """
    for broker in view.brokers:
        if broker.has_guard and broker.settings.watchdog != "kill":
            text = (
                f"activemq_watchdog is {broker.settings.watchdog}: if this broker hangs, the other node does not take "
                "over"
            )
            yield Problem(text, host=broker.host)


@rule("L032", "warning", scope="fleet", releases="5.7.0 !5.9.0")
def node_serves_after_losing_lease_up_to_5_8(view: FleetView) -> Iterator[Problem]:
    """A 5.7 or 5.8 broker that froze and lost its lease serves clients again, and messages are lost.

    Why: on 5.7, the broker never checks its lease again after the freeze. The database rejects messages of both nodes,
        because they use the same message numbers, until an operator stops the node that was frozen. On 5.8, the broker
        stops within seconds, but it acknowledges messages until then. Those with numbers that the other node has used
        are lost. The others are delivered after the next restart of the active node.
    Fix: upgrade to 5.9 or later, where such a node acknowledges no message. Until then, set a longer lease than any
        freeze that you expect. On 5.7, restart each node that was frozen for more than 5 s.
    Source: measured on 5.7.0, and on 5.8.0, where 50 of 215 to 300 acknowledged messages were lost in each of five
        runs. On 5.9.1, 5.11.4, 5.18.3 and 6.3.1, no message was acknowledged after the freeze
        (docs/shared-databases.md)

    Fires on 5.8.0::

        all:
          activemq_ha: shared-jdbc
          activemq_jdbc: {url: "jdbc:postgresql://db/orders", driver: org.postgresql.Driver, jar: /opt/pg.jar,
            username: orders, password: s3cret-orders}
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}}

    Silent on 5.9.1::

        all:
          activemq_ha: shared-jdbc
          activemq_jdbc: {url: "jdbc:postgresql://db/orders", driver: org.postgresql.Driver, jar: /opt/pg.jar,
            username: orders, password: s3cret-orders}
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}}
    """
    for node, _ in _node_pairs(view):
        if node.ha_profile.has_database_lease:
            consequence = (
                "it continues to serve when it resumes: both nodes are then active"
                if node.release.is_within_span("5.7.0 !5.8.0")
                else "it acknowledges messages for some seconds after it resumes, and some of them are lost"
            )
            text = f"if a node of the pair freezes and loses its database lease, {consequence}"
            yield Problem(text, host=node.host)


def store_identity_key(settings: HostSettings, address: str, directory: str) -> tuple[str, ...]:
    """Return a key that identifies a broker's message store, so that equal keys mean the same store.

    The key describes a directory of the share, a database, or a directory of one machine.
    """
    if settings.ha_profile.has_database_lease and settings.jdbc is not None:
        return "database", settings.jdbc.username, settings.jdbc.url
    if settings.ha_profile.shares_store_directory:
        return "share", directory.rstrip("/")
    return "machine", address.lower(), directory.rstrip("/")


def _node_pairs(view: FleetView) -> Iterator[tuple[Broker, Broker]]:
    """Yield the two nodes of each pair, preferred master first."""
    for pair in view.fleet.pairs_by_name.values():
        if pair.ha_profile.has_peer:
            yield from pairwise(pair.brokers_in_dialling_order)
