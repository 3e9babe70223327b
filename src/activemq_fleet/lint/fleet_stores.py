"""Rules V and L about the stores of a pair or of two pairs, which need both nodes or the whole fleet."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from activemq_fleet.lint.document import Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.fleets import FleetView
from activemq_fleet.lint.locks_signs import locker_of, stores
from activemq_fleet.settings.broker import Settings
from activemq_fleet.topology import Broker

# The one release at which the format of kahaDB changed inside a line.
_NEW_STORE_IN_LINE = "5.4.2"


@rule("V018", "error", scope="fleet")
def two_releases_in_a_pair(view: FleetView) -> Iterator[Problem]:
    """The nodes of a pair run different releases of one line.

    Why: what the newer node writes must be readable for the older one, which is not tested by anybody. The format of
        kahaDB changes between lines, and inside one only at 5.4.2; so this is an error there and a warning elsewhere.
        Two lines in one pair are T004.
    Fix: set activemq_release once for the pair. To upgrade, stop and upgrade the slave first, then fail over once.
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
        unreadable = first.within(_NEW_STORE_IN_LINE) != second.within(_NEW_STORE_IN_LINE)
        message = f"activemq_release is {second}, and {first} on {node.host}, the other node of pair {peer.pair}"
        yield Problem(message, host=peer.host, severity=None if unreadable else "warning")


@rule("L010", "error", scope="fleet", releases="5.7.0")
def one_lease_holder_on_two_nodes(view: FleetView) -> Iterator[Problem]:
    """Both nodes of a pair use the same lease holder id.

    Why: the row of the lease says who holds it. Two brokers of one leaseHolderId, which is the brokerName where none
        is set, both find their own name there, renew it, and both are master.
    Fix: give each node its own leaseHolderId; without a fragment of yours it is the host's name.
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
    changed = {broker.host for broker in view.changed_by_hand}
    for node, peer in _node_pairs(view):
        if not changed & {node.host, peer.host}:
            continue
        holder = _lease_holder(view, node)
        if holder is not None and holder == _lease_holder(view, peer):
            message = f'"{holder}" holds the lease on both nodes of pair {peer.pair}: {node.host} as well'
            yield Problem(message, host=peer.host)


def _lease_holder(view: FleetView, broker: Broker) -> str | None:
    """Return the name that holds the lease; None without a lease, or where a placeholder decides the name."""
    document = view.document(broker)
    if document is None:
        return None
    for store in stores(document):
        locker = locker_of(store)
        if locker is not None and locker.name == "lease-database-locker":
            if locker.has("leaseHolderId"):
                return locker.known_value("leaseHolderId")
            above = store.ancestor("broker")
            return above.known_value("brokerName") if above else None
    return None


@rule("L016", "warning", scope="fleet")
def two_stores_in_a_pair(view: FleetView) -> Iterator[Problem]:
    """The nodes of a shared-file pair do not use one common store.

    Why: the lock is a file in the store's directory. Two directories are two locks, so both nodes become master, each
        with a store of its own. A directory below a node's own data directory is another one on each of them.
    Fix: set activemq_store_directory to one path on the share for both nodes, such as /srv/activemq/orders-mq01, and
        set no other directory in fragments. Where the variable differs between the nodes, T009 says so.
    Cannot see: what is mounted where; the start of the broker looks for a marker file in the store.
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
    changed = {broker.host for broker in view.changed_by_hand if broker.settings.xml_fragments}
    for node, peer in _node_pairs(view):
        if node.shared_directory is None or peer.shared_directory is None:
            continue
        for broker in (node, peer):
            data_directory = f"{broker.settings.base.rstrip('/')}/{broker.settings.instance}/data"
            if f"{broker.store_directory}/".startswith(f"{data_directory}/"):
                text = (
                    f"activemq_store_directory {broker.store_directory} lies in {data_directory}, "
                    "the node's own data directory"
                )
                yield Problem(text, host=broker.host)
        if changed & {node.host, peer.host}:
            first, second = _directory_in_document(view, node), _directory_in_document(view, peer)
            if (
                first
                and second
                and first.rstrip("/") != second.rstrip("/")
                and node.store_directory == peer.store_directory
            ):
                text = f"the store of {peer.host} is {second} and that of {node.host} is {first}: no common lock"
                yield Problem(text, host=peer.host)


def _directory_in_document(view: FleetView, broker: Broker) -> str | None:
    """Return the KahaDB directory of a broker's document; None where a placeholder decides it."""
    document = view.document(broker)
    if document is None:
        return None
    return next(
        (store.known_value("directory") for store in stores(document) if store.name in ("kahaDB", "mKahaDB")), None
    )


@rule("L017", "error", scope="fleet")
def two_pairs_in_one_store(view: FleetView) -> Iterator[Problem]:
    """Brokers of different pairs use the same store.

    Why: one lock, one master: all others wait for it as slaves for ever, without being meant to, and what their
        clients send goes nowhere.
    Fix: give each pair a store of its own: leave activemq_store_directory out (/srv/activemq/PAIR), or set it for each
        pair; with shared-jdbc one database or schema a pair.
    Cannot see: what is mounted where. Pairs that mount different volumes at one path are not wrong: waive L017 for
        them, or better, give each mount the pair's name, so that a wrong mount can be told.
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
        store = store_key(broker.settings, broker.address, broker.store_directory)
        owner = owners.setdefault(store, broker.unit)
        if owner != broker.unit and broker.unit not in reported:
            reported.add(broker.unit)
            message = f"{store[-1]} is the store of {owner} too: one of the two waits for ever"
            yield Problem(message, host=broker.host)


@rule("L029", "info", scope="fleet")
def shared_store_without_a_fence(view: FleetView) -> Iterator[Problem]:
    """A pair shares a store without a fence, so that a frozen node that resumes can still write into it.

    Why: a node that stands still (a paused virtual machine, a store that does not answer) loses its lock without
        knowing. When it goes on while the other node serves, it writes before it looks at its lock: of 6 stores of
        6.3.1 that met this, 6 lost most of their messages. Up to 5.13 a node that takes over from one killed just
        after a clean-up may also fail, and then serve without the messages of the last seconds; from 5.14 on one that
        is killed seconds after it took over may leave messages behind moved acknowledgements, where they are lost.
    Fix: set activemq_fence to guard: site takes the store over at the next restart of its nodes. Or to command, with a
        program of your own that ends the other node. Without either set, from 5.14 on, activemq_kahadb to
        {enable_ack_compaction: false}.
    Cannot see: a fence outside, such as that of a cluster manager. Waive L029 then, with that as the reason.
    Source: measured on 5.5.1, 5.10.2, 5.11.4, 5.14.5, 5.18.3 and 6.3.1 (docs/shared-stores.md)

    Fires on 5.18.3::

        all: {activemq_ha: shared-file}
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}}

    Silent on 5.18.3::

        all: {activemq_ha: shared-file, activemq_fence: guard}
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}}
    """
    for node, _ in _node_pairs(view):
        if node.profile.shares_store_directory and not node.has_guard:
            text = f"activemq_fence is none: when a node of {node.pair} freezes and goes on, it destroys the store"
            yield Problem(text, host=node.host)


@rule("L030", "warning", scope="fleet")
def guard_without_a_watchdog_that_kills(view: FleetView) -> Iterator[Problem]:
    """A broker has a guard and no watchdog that kills it when it hangs.

    Why: a guard keeps the pair's lock as long as its broker's process is there. When Java hangs, nobody takes over
        until that process is killed, and behind a guard killing it loses nothing.
    Fix: leave activemq_watchdog out, or set it to kill: so it is by default where activemq_fence is guard or command.
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
            text = f"activemq_watchdog is {broker.settings.watchdog}: nobody takes over from a broker that hangs"
            yield Problem(text, host=broker.host)


@rule("L032", "warning", scope="fleet", releases="5.7.0 !5.8.0")
def node_that_keeps_serving_without_its_lease(view: FleetView) -> Iterator[Problem]:
    """A 5.7 broker that froze and lost its lease keeps serving as a second active node.

    Why: after the freeze no lease is looked at any more. Both nodes take clients, both write messages under the same
        numbers, which the database refuses, and clients go from one to the other until somebody ends the first node.
    Fix: go to 5.8 or later, whose nodes step down within seconds. Until then restart a node that stood still longer
        than its lease of 5 s.
    Source: measured on 5.7.0, and on 5.8.0, 5.11.4, 5.18.3 and 6.3.1, which step down (docs/shared-databases.md)

    Fires on 5.7.0::

        all:
          activemq_ha: shared-jdbc
          activemq_jdbc: {url: "jdbc:postgresql://db/orders", driver: org.postgresql.Driver, jar: /opt/pg.jar,
            username: orders, password: s3cret-orders}
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}}

    Silent on 5.8.0::

        all:
          activemq_ha: shared-jdbc
          activemq_jdbc: {url: "jdbc:postgresql://db/orders", driver: org.postgresql.Driver, jar: /opt/pg.jar,
            username: orders, password: s3cret-orders}
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}}
    """
    for node, _ in _node_pairs(view):
        if node.profile.has_database_lease:
            text = f"a node of {node.pair} that froze and lost its lease goes on serving: two are active then"
            yield Problem(text, host=node.host)


def store_key(settings: Settings, address: str, directory: str) -> tuple[str, ...]:
    """Return a key that is equal for equal stores: a directory of the share, a database, or a machine's directory."""
    if settings.profile.has_database_lease and settings.jdbc is not None:
        return "database", settings.jdbc.username, settings.jdbc.url
    if settings.profile.shares_store_directory:
        return "share", directory.rstrip("/")
    return "machine", address.lower(), directory.rstrip("/")


def _node_pairs(view: FleetView) -> Iterator[tuple[Broker, Broker]]:
    """Yield the two nodes of each pair, preferred master first."""
    for pair in view.fleet.pairs.values():
        if pair.profile.has_peer:
            yield from pairwise(pair.in_order)
