"""Decide the next step of a migration: pure pairs are drained into new pairs, and then stopped.

The new pairs run in addition to the old ones and connect to the old masters over duplex links. Messages without a
consumer cross the link while the migration creates demand for them on the new side. Invariants: an old broker is
stopped only after two counts found no messages on it and no client is connected. Its slave is stopped first, so that
it is never promoted. The stores of both are kept. No link ever connects to a promoted slave.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from activemq_fleet.deployment import BrokerFacts, LinkFacts
from activemq_fleet.errors import InputError
from activemq_fleet.node.judge import SERVING
from activemq_fleet.node.printable import count_with_noun
from activemq_fleet.operations.operation_decisions import (
    Decision,
    OperationDecisionRequest,
    OperationStep,
    dataclass_instance_from_mapping,
    register_operation,
)
from activemq_fleet.profiles import PROFILES

MigrationPhase = Literal["prepared", "linked", "draining", "drained", "retired"]

STALLED = 4
"""Consecutive counts in which no message has left a broker, after which the migration gives up waiting."""
LINK_PATIENCE = 60
"""Seconds within which a link must be connected."""
_PAUSE = 5
_ILLEGAL_CHARACTERS = re.compile(r"[^A-Za-z0-9.-]")  # An old broker replaces these characters in the name of an MBean.


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerBacklogToMigrate:
    """What a migration has to move out of a broker's store before it can be stopped: messages, subscriptions, XA
    transactions, clients and bridges.

    ``subscriptions`` are (topic, client, name, messages); ``prepared`` is the number of XA transactions in doubt;
    ``clients`` are (client, address, connector); ``bridges`` are the names of the brokers at the far ends of its
    bridges. ``certain``: no subscription can be missing.
    """

    store: str
    queues: Mapping[str, int]
    subscriptions: Sequence[tuple[str, str, str, int]]
    prepared: int
    clients: Sequence[tuple[str, str, str]]
    bridges: Sequence[str]
    certain: bool
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationBrokerEvidence:
    """The evidence about one broker in a migration, of an old or a new pair: its state, links and message counts.

    ``broker_name`` is the broker's ``brokerName``. ``held`` is known of pure masters only; ``counts`` are the results
    of successive counts of its messages, oldest first.
    """

    host: str
    broker_name: str
    pair: str
    role: str
    ha: str
    state: str
    how: str = ""
    links: tuple[LinkFacts, ...] = ()
    held: BrokerBacklogToMigrate | None = None
    counts: tuple[int, ...] = ()

    @property
    def known_backlog_to_migrate(self) -> BrokerBacklogToMigrate:
        """The backlog (messages, subscriptions, transactions) that was counted in the store of a broker to be emptied.

        Raises InputError if they were not counted.
        """
        if self.held is None:
            raise InputError(
                f"{self.host}: the messages in the store of this broker were not counted (the broker is {self.state}), "
                "so the migration cannot continue. Correct the error that Ansible printed above, and run "
                "the playbook migrate again"
            )
        return self.held


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationStep(OperationStep):
    """A step of a migration from old pairs of brokers to new ones.

    It has the phase of the migration. ``want`` creates demand for ``queues`` on ``hosts``, ``stop`` stops the brokers
    of ``hosts``, ``wait`` and ``done`` do nothing. ``notes`` are warnings.
    """

    phase: MigrationPhase
    queues: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def own_pair_by_receiving_host(brokers: Mapping[str, BrokerFacts], old_pairs: Iterable[str]) -> dict[str, str]:
    """Return the pair of each host whose broker receives the messages of an old pair in a migration, by host name.

    A receiving broker has a link to an old pair, which moves the messages.
    """
    old_pair_names = set(old_pairs)
    return {
        host: broker.pair
        for host, broker in brokers.items()
        if not broker.ha_profile.replicates and any(link.target in old_pair_names for link in broker.links)
    }


def next_migration_step(
    evidence: Sequence[MigrationBrokerEvidence], old: Sequence[str], *, retire: bool = False, waited: float = 0
) -> MigrationStep:
    """Return the next step of a migration, which empties old pairs of brokers through network connectors of new ones.

    The pairs to empty are ``old``. ``evidence`` are those of their nodes and of the pairs that drain them. ``waited``:
    seconds since the last act. Raises InputError with one line that names the obstacle and what to do.
    """
    pairs = [_old_nodes(pair, [node for node in evidence if node.pair == pair]) for pair in old]
    masters, slaves = [master for master, _ in pairs], [slave for _, slave in pairs if slave]
    if all(node.state == "stopped" for node in (*masters, *slaves)):
        return _retired_step(masters)
    for master, slave in pairs:
        _check_running(master, slave)
    running = [master for master in masters if master.state == "active"]
    missing = [text for master in running for text in _missing_links(master, evidence)]
    if missing and waited < LINK_PATIENCE:
        message = f"the playbook waits until these links are connected: {', '.join(missing)}"
        return MigrationStep(act="wait", phase="prepared", say=message, seconds=_PAUSE)
    if missing:
        raise InputError(
            "the old brokers cannot be emptied, because these links (network connectors) to the old brokers are not "
            f"connected: {', '.join(missing)}. Check data/activemq.log of the new brokers for the reason, correct it, "
            "and run the playbook migrate again"
        )
    return _drain_step(running, evidence) or _drained_step(masters, slaves, evidence, retire=retire)


def _old_nodes(
    pair: str, nodes: Sequence[MigrationBrokerEvidence]
) -> tuple[MigrationBrokerEvidence, MigrationBrokerEvidence | None]:
    for node in nodes:
        if not PROFILES[node.ha].replicates:
            raise InputError(
                f"{node.host}: activemq_ha is {node.ha}, but the playbook migrate empties only pure pairs "
                "(activemq_ha: pure). Set -e activemq_target to an old group or pair of this kind"
            )
    master = next((node for node in nodes if node.role == "master"), None)
    if master is None:
        raise InputError(
            f"the preferred master of pair {pair} is not part of this run, so the pair cannot be emptied. Run the "
            "playbook migrate without --limit"
        )
    return master, next((node for node in nodes if node.role != "master"), None)


def _check_running(master: MigrationBrokerEvidence, slave: MigrationBrokerEvidence | None) -> None:
    if slave and slave.state in SERVING:
        raise InputError(
            f"{slave.host}: the preferred slave serves clients{_reason(slave)}, so its messages cannot be moved. A "
            "promoted slave treats each broker that connects to it as its own slave, so no bridge can connect. Run the "
            f"playbook resync for pair {master.pair}, then run the playbook migrate again"
        )
    if master.state == "stopped" and slave and slave.state == "stopped":
        _check_empty(master)  # An earlier run stopped this pair and left other pairs running.
    elif master.state != "active":
        raise InputError(
            f"{master.host}: the preferred master is {master.state}{_reason(master)}, but messages can be moved "
            f"only from an active master. Run the playbook resync for pair {master.pair} first"
        )


def _reason(node: MigrationBrokerEvidence) -> str:
    """Return the reason for a broker's state in parentheses; "" if none is known."""
    return f" ({node.how})" if node.how else ""


def _draining_nodes(
    master: MigrationBrokerEvidence, evidence: Sequence[MigrationBrokerEvidence]
) -> dict[str, tuple[LinkFacts, MigrationBrokerEvidence]]:
    """Return the draining pairs of an old master, each with its link and its active node."""
    links = [
        (link, node)
        for node in evidence
        for link in node.links
        if link.target == master.pair and not PROFILES[node.ha].replicates
    ]
    drainers = {node.pair: (link, node) for link, node in links if node.state == "active"}
    for link, node in links:
        if not link.duplex:
            raise InputError(
                f"{node.host}: link {link.name} is not duplex, so it receives no messages from pair {master.pair}. Set "
                "duplex: true for it in activemq_links, and run the playbook site"
            )
    for _, node in links:
        if node.pair not in drainers:
            raise InputError(
                f"the new pair {node.pair} has no active node, so it cannot receive the messages of pair "
                f"{master.pair}. Its host {node.host} is {node.state}{_reason(node)}. Run the playbook site"
            )
    if not links:
        raise InputError(
            f"no new pair has a link to the old pair {master.pair}, so nothing can receive its messages. "
            "Add {from: NEW_GROUP, to: OLD_GROUP, duplex: true} to activemq_links for all hosts, and run the playbook "
            "site"
        )
    return drainers


def _missing_links(master: MigrationBrokerEvidence, evidence: Sequence[MigrationBrokerEvidence]) -> Iterator[str]:
    bridges = master.known_backlog_to_migrate.bridges
    for link, receiver in _draining_nodes(master, evidence).values():
        if receiver.broker_name not in bridges:
            yield f"link {link.name} of {receiver.host} to {master.host}"


def _belongs_to_link(client: str, link: str) -> bool:
    """Return whether a client connection of a broker belongs to a network link.

    Its client id is then the link's name, and more after an underscore.
    """
    return client.startswith((f"{link}_", f"{_ILLEGAL_CHARACTERS.sub('_', link)}_"))


def _drain_step(
    masters: Sequence[MigrationBrokerEvidence], evidence: Sequence[MigrationBrokerEvidence]
) -> MigrationStep | None:
    """Return the step that creates demand on the new pairs for queues that hold messages; None where none does."""
    nonempty_masters = [master for master in masters if master.known_backlog_to_migrate.queues]
    if not nonempty_masters:
        _check_leftovers(masters, evidence)
        return None
    queues = {master.host: master.known_backlog_to_migrate.queues for master in nonempty_masters}
    for master in nonempty_masters:
        if _is_stalled(master):
            remaining = ", ".join(f"{queue} ({number})" for queue, number in sorted(queues[master.host].items()))
            raise InputError(
                f"{master.host}: the playbook cannot move the remaining messages of this old broker to the new pair. "
                f"Their number did not decrease in {STALLED} consecutive counts. The queues still hold: {remaining}. "
                "Check that the link in activemq_links does not exclude these queues. Check whether a consumer holds "
                "messages without acknowledging them, and whether the new store is full. Correct the cause, and run "
                "the playbook migrate again"
            )
    hosts = sorted(
        {receiver.host for master in nonempty_masters for _, receiver in _draining_nodes(master, evidence).values()}
    )
    queues_to_drain = sorted({queue for counts in queues.values() for queue in counts})
    totals = ", ".join(f"{sum(counts.values())} on {host}" for host, counts in queues.items())
    return MigrationStep(
        act="want",
        phase="draining",
        say=(
            f"the playbook creates temporary consumers on the new brokers {', '.join(hosts)}, so the links transfer "
            f"the messages of the old brokers ({totals}, in {count_with_noun(len(queues_to_drain), 'queue')}) to them"
        ),
        hosts=tuple(hosts),
        queues=tuple(queues_to_drain),
    )


def _is_stalled(master: MigrationBrokerEvidence) -> bool:
    recent = master.counts[-STALLED:]
    # Messages that arrive at an empty broker are not stalled yet. Producers can add messages while the link is down.
    return len(recent) == STALLED and recent[0] > 0 and all(earlier <= later for earlier, later in pairwise(recent))


def _check_leftovers(masters: Iterable[MigrationBrokerEvidence], evidence: Sequence[MigrationBrokerEvidence]) -> None:
    """Raise InputError for a backlog that no link can move: of durable subscriptions, or transactions in doubt."""
    links = {link.name for node in evidence for link in node.links}
    for master in masters:
        backlog = master.known_backlog_to_migrate
        if backlog.prepared:
            raise InputError(
                f"{master.host}: the broker has {count_with_noun(backlog.prepared, 'prepared XA transaction')}, which "
                "no link can "
                "transfer. Commit or roll back each of them with its transaction manager, and run the playbook migrate "
                "again"
            )
        waiting = [subscription for subscription in backlog.subscriptions if subscription[3]]
        bridged = [
            subscription for subscription in waiting if any(_belongs_to_link(subscription[1], link) for link in links)
        ]
        if waiting and len(bridged) < len(waiting):
            subscriptions_text = "; ".join(
                f"{name} of client {client} on {topic}: {n}" for topic, client, name, n in waiting
            )
            raise InputError(
                f"{master.host}: the broker holds messages for durable subscriptions, which no link can transfer: "
                f"{subscriptions_text}. Let each client connect to {master.host} once more and receive its messages, "
                "or delete the subscription on the page Subscribers of the web console. Then run the playbook migrate "
                "again"
            )
        if bridged and _is_stalled(master):
            _, link, _, remaining = bridged[0]
            raise InputError(
                f"{master.host}: the playbook cannot move the remaining messages of this old broker to the new pair. "
                f"Their number did not decrease in {STALLED} consecutive counts. The old broker still holds "
                f"{count_with_noun(remaining, 'message')} for the link {link} (a network connector of a new broker). "
                "Check in data/activemq.log of the new broker whether this link is connected and whether the store is "
                "full. Correct the cause, and run the playbook migrate again"
            )


def _drained_step(
    masters: Sequence[MigrationBrokerEvidence],
    slaves: Sequence[MigrationBrokerEvidence],
    evidence: Sequence[MigrationBrokerEvidence],
    *,
    retire: bool,
) -> MigrationStep:
    running = [master for master in masters if master.state == "active"]
    for master in running:
        if master.counts[-2:] != (0, 0):
            message = f"{master.host} holds no messages: the playbook counts its messages a second time"
            return MigrationStep(act="wait", phase="draining", say=message, seconds=_PAUSE)
        if not master.known_backlog_to_migrate.certain:
            raise InputError(
                f"{master.host}: it is not known whether this broker still holds messages. The playbook found no "
                "process of the broker, so it counted the messages only in the store journal, which may not list all "
                f"durable subscriptions. Start the broker on {master.host}, and run the playbook migrate again"
            )
    connected = [text for master in running for text in _connected_clients(master, evidence)]
    names = ", ".join(master.host for master in running)
    if not retire:
        message = (
            f"the old brokers are empty: two counts found no messages on {names}. When no client uses them, run the "
            "playbook migrate again with -e activemq_retire=true, which stops them"
        )
        notes = (
            (f"clients are still connected to the old brokers: {', '.join(connected)}. Move them to the new pairs",)
            if connected
            else ()
        )
        return MigrationStep(act="done", phase="drained", say=message, notes=notes)
    if connected:
        raise InputError(
            "the old brokers are empty, but they are not stopped, because clients are still connected: "
            f"{', '.join(connected)}. Move these clients to the new pairs, and run the playbook migrate again"
        )
    running_slaves = [slave for slave in slaves if slave.state != "stopped"]
    hosts = tuple(node.host for node in running_slaves or running)
    roles = "slaves" if running_slaves else "masters"
    message = f"the old brokers are empty: the playbook stops the preferred {roles} {', '.join(hosts)}"
    return MigrationStep(act="stop", phase="drained", say=message, hosts=hosts)


def _connected_clients(master: MigrationBrokerEvidence, evidence: Sequence[MigrationBrokerEvidence]) -> Iterator[str]:
    """Yield a description of each client connection to an old broker that is neither a link's nor the slave's."""
    links = [link.name for node in evidence for link in node.links]
    for client, address, connector in master.known_backlog_to_migrate.clients:
        if connector != "replication" and not any(_belongs_to_link(client, link) for link in links):
            yield f"{client} from {address} to {master.host} ({connector})"


def _check_empty(master: MigrationBrokerEvidence) -> None:
    backlog = master.known_backlog_to_migrate
    if backlog.messages or backlog.prepared:
        parts = [f"queue {queue}: {number}" for queue, number in sorted(backlog.queues.items())]
        parts += [f"{name} of client {client} on {topic}: {n}" for topic, client, name, n in backlog.subscriptions if n]
        if backlog.prepared:
            parts.append(count_with_noun(backlog.prepared, "prepared XA transaction"))
        raise InputError(
            f"{master.host}: the broker is stopped, but its store {backlog.store} still holds messages or transactions "
            f"({'; '.join(parts)}). Start the pair with the playbook resync for pair {master.pair}, then run the "
            "playbook migrate again"
        )


def _retired_step(masters: Sequence[MigrationBrokerEvidence]) -> MigrationStep:
    for master in masters:
        _check_empty(master)
    stores = ", ".join(f"{master.host}:{master.known_backlog_to_migrate.store}" for master in masters)
    uncertain_hosts = [master.host for master in masters if not master.known_backlog_to_migrate.certain]
    note = (
        f"{', '.join(uncertain_hosts)}: this run could not check that the store is empty, because the store of a "
        "stopped broker may not list every durable subscription. The run that stopped the broker counted no messages"
    )
    message = f"the old brokers are retired: they are stopped and hold no messages. Their stores are kept: {stores}"
    return MigrationStep(act="done", phase="retired", say=message, notes=(note,) if uncertain_hosts else ())


@register_operation("migration")
def migration_target_with_receiving_hosts(request: OperationDecisionRequest) -> Decision:
    """Return the target of a migration, with the hosts of the new pairs that receive the messages of the old pairs.

    The migration acts on these hosts, and on those of the old pairs. The result is ``{"target": target}``.
    ``options["reach"]`` lists the hosts that the run may change (all, if it is missing). Raises InputError if no target
    is set, or if the run excludes a host that drains the target.
    """
    target, brokers = request.target, request.broker_facts_by_host
    if not target["name"]:
        raise InputError(
            "activemq_target is not set, but the playbook migrate empties only the pairs that this variable names. Set "
            "the old group or pair with -e activemq_target=OLD_GROUP"
        )
    receiving_hosts = own_pair_by_receiving_host(brokers, target["pairs"])
    if excluded_hosts := sorted(set(receiving_hosts) - set(request.options.get("reach") or receiving_hosts)):
        raise InputError(
            f"--limit excludes hosts that receive the messages of {target['name']}: {', '.join(excluded_hosts)}. Run "
            "the playbook without --limit"
        )
    return {"target": {**target, "hosts": [*target["hosts"], *sorted(set(receiving_hosts) - set(target["hosts"]))]}}


@register_operation("migrate")
def decide_migration_step(request: OperationDecisionRequest) -> Decision:
    """Return the next step of the playbook ``migrate``, which empties old brokers, as ``{"step": dictionary}``.

    A migration moves the messages of old pairs of brokers to new ones. ``options["held"]`` maps hosts to the messages,
    subscriptions and clients that their brokers hold, as far as these are known. ``options["retire"]`` is True if empty
    old brokers are to be retired. The step has the ``counts`` of messages by host that the run has seen while all links
    were connected; the records of the hosts keep them for the next decision.
    """
    brokers, options = request.broker_facts_by_host, request.options
    backlogs = {host: _read_backlog(options["held"].get(host)) for host in request.evidence}
    counts = {
        host: [*request.progress.progress_of_host(host).counts, *([backlog.messages] if backlog else [])]
        for host, backlog in backlogs.items()
    }
    evidence = [
        MigrationBrokerEvidence(
            state=observed.state,
            how=observed.how,
            host=host,
            broker_name=brokers[host].broker_name,
            pair=brokers[host].pair,
            role=brokers[host].role,
            ha=brokers[host].ha,
            links=brokers[host].links,
            held=backlogs[host],
            counts=tuple(counts[host]),
        )
        for host, observed in request.evidence.items()
    ]
    pairs = sorted(request.target["pairs"])
    step = next_migration_step(evidence, pairs, retire=options["retire"], waited=request.progress.waited)
    # No message leaves an old broker in a wait for links, so a count before such a wait does not show that it stalls.
    # The earlier counts are kept: a link that reconnects repeatedly does not hide the stalled messages of another pair.
    new_counts = {} if step.phase == "prepared" else counts
    return {"step": {**request.show_notes_and_serialize_step(step)["step"], "counts": new_counts}}


def _read_backlog(backlog: Mapping[str, Any] | None) -> BrokerBacklogToMigrate | None:
    if not backlog or "messages" not in backlog:
        return None
    return dataclass_instance_from_mapping(
        BrokerBacklogToMigrate,
        backlog,
        subscriptions=[(row["topic"], row["client"], row["name"], row["messages"]) for row in backlog["subscriptions"]],
        clients=[(client["client"], client["address"], client["connector"]) for client in backlog["clients"]],
    )
