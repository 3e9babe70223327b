"""Choose the node of a pure pair whose store a resync copies: the newer store by both store journals, not by clocks.

The behavior of 5.5.1 (read in its source and measured): the master sends every message and acknowledgement to its
slave before it stores them itself. So while both run, the slave has everything that the master ever acknowledged, and
messages that are still in flight. A master without a slave waits for it and stores nothing. A master whose slave dies
continues, and does not log that. A slave whose master dies, or that cannot connect to one, serves clients, and always
logs that.

Invariants: a store is overwritten only if the other store received every record that is still in it, or if the missing
records can only be those that the master had not acknowledged yet. A resync is refused in all other cases.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from activemq_fleet.errors import FleetError, InputError
from activemq_fleet.node.foreign_data import decompress_base64_to_bytes
from activemq_fleet.node.kahadb.content_hashes import LIMIT
from activemq_fleet.node.printable import count_with_noun
from activemq_fleet.operations.operation_decisions import dataclass_instance_from_mapping

_TRACE, _ADD, _REMOVE, _SUBSCRIPTION = 0, 1, 2, 7
_LARGEST_LIST = 16 * LIMIT
"""Bytes of a list of records that store_info returns."""
_MAX_IN_FLIGHT = 1000
"""One message a connection, and ``maximumConnections`` of them: more cannot be on its way to a master."""
_LOADED = re.compile(r"LOADED \w+ (\w+ +\d+ \d\d:\d\d:\d\d) \S+(?: \S+)? (\d{4})$")
_LONGEST_RECOVERY = timedelta(hours=1)
_SECOND = timedelta(seconds=1)
_SET_RESYNC_FROM = (
    "Check data/activemq.log of both hosts to find the broker that accepted clients last. A slave that took over from "
    "its master reports 'Master Failed' there. Run the playbook resync again with -e activemq_resync_from=HOST, where "
    "HOST is the host of the broker that accepted clients last. The playbook keeps a backup of the store that it "
    "replaces"
)


class ResyncRefusedError(FleetError):
    """An error that refuses a resync, which copies the store of one node of a pair to the other node.

    For instance it is not known which store is newer.
    """

    exit_code = 1


@dataclass(frozen=True, slots=True)
class LoggedBrokerRun:
    """A run of a broker process, as its log shows it.

    ``began`` is local time. ``served``: it served without its master. ``attached`` counts the slaves that a master saw;
    ``established``: a slave reached its master.
    """

    began: str
    started: bool = False
    attached: int = 0
    established: bool = False
    served: bool = False


@dataclass(frozen=True)
class PurePairNodeStore:
    """The message store of one node of a pure master/slave pair (5.5 to 5.7), as store journal and broker log show it.

    ``order`` is every record of the journal: kind and key, oldest first. ``live`` maps the key of each message or
    subscription that is still in the store to the key of the record which brought it. ``state`` is a hash of what the
    store holds. ``seen``: the journal was read. ``cleaned``: older records may be missing. ``damaged`` counts places
    in journal and index that cannot be read. ``loads`` are the journal's entries about starts of a broker, ``runs`` the
    log's.
    """

    host: str
    role: str
    order: tuple[tuple[int, int], ...] = field(default=(), repr=False)
    live: Mapping[int, int] = field(default_factory=dict, repr=False)
    state: str = ""
    seen: bool = True
    cleaned: bool = False
    damaged: int = 0
    loads: tuple[str, ...] = ()
    runs: tuple[LoggedBrokerRun, ...] = ()

    @classmethod
    def node_store_from_store_info(cls, host: str, role: str, store_info: Mapping[str, Any]) -> PurePairNodeStore:
        """Return the message store of a node of a pure master/slave pair, from the result of the module ``store_info``.

        ``store_info`` is this result.
        """
        numbers = [number for number, _ in store_info["files"]]
        return dataclass_instance_from_mapping(
            cls,
            store_info,
            host=host,
            role=role,
            order=tuple(struct.iter_unpack(">BQ", _decompress(host, store_info["order"]))),
            live=dict(struct.iter_unpack(">QQ", _decompress(host, store_info["live"]))),
            cleaned=not store_info["whole"] or numbers != list(range(1, len(numbers) + 1)),
            runs=[LoggedBrokerRun(**run) for run in store_info["runs"]],
        )

    @cached_property
    def message_and_subscription_keys_in_journal(self) -> frozenset[int]:
        """The 64-bit hashes (keys) of all messages and subscriptions that the journal of the node's store mentions."""
        return frozenset(key for kind, key in self.order if kind != _TRACE)

    @property
    def was_never_used(self) -> bool:
        """Whether a node's store was never used: it never held a message or a subscription.

        The store journal may not reach back to the beginning.
        """
        return not self.message_and_subscription_keys_in_journal and not self.cleaned

    @property
    def last_writer_run(self) -> LoggedBrokerRun | None:
        """The last run of the node's broker process in which it wrote to its message store.

        It is None if the log does not prove which run did. The journal names the start of each run by the same clock as
        the log does.
        """
        if not self.loads:
            # The journal file with the entry of the start was deleted. Each later start has its entry in a later file.
            return (
                self.runs[-1]
                if self.message_and_subscription_keys_in_journal and self.runs and self.runs[-1].began
                else None
            )
        moment = _parse_load_time(self.loads[-1])
        before = [run for run in self.runs if moment and run.began and _parse_time(run.began) <= moment + _SECOND]
        if moment is None or not before or moment - _parse_time(before[-1].began) > _LONGEST_RECOVERY:
            return None
        return before[-1]

    @property
    def last_serving_run(self) -> LoggedBrokerRun | None:
        """The last run of the node's broker process in which it served clients; None if this is not known.

        A run in which it was attached to its peer counts. The run began before the journal ends.
        """
        last = self.last_writer_run
        if last is None:
            return None
        runs = self.runs[: self.runs.index(last) + 1]
        return next((run for run in reversed(runs) if run.served or run.established or run.attached), None)

    @property
    def has_served_alone_since_last_attached(self) -> bool | None:
        """Whether the slave has served without its master since it was last attached.

        It is None if this is not proven.
        """
        if self.last_writer_run is None:
            return None
        service = self.last_serving_run
        return service is not None and service.served

    def first_journal_record_index_of_run(self, run: LoggedBrokerRun) -> int | None:
        """Return the index of the first record that a broker's run wrote to the KahaDB journal of a node's store.

        The index is 0 if the journal file with this record was deleted, None if unknown.
        """
        traces = [at for at, (kind, _) in enumerate(self.order) if kind == _TRACE]
        moments = [_parse_load_time(text) for text in self.loads[len(self.loads) - len(traces) :]]
        following = self.runs[self.runs.index(run) + 1 :]
        end = _parse_time(following[0].began) if following and following[0].began else datetime.max
        if not run.began or None in moments or len(moments) != len(traces):
            return None
        begins = _parse_time(run.began) - _SECOND
        run_traces = [at for at, moment in zip(traces, moments, strict=True) if moment and begins <= moment < end]
        if run_traces:
            return run_traces[0]
        return 0 if all(moment and moment >= end for moment in moments) else None

    def count_broker_runs_since_oldest_record(self, record_indices: Collection[int]) -> int:
        """Return how often a broker started with this store after the oldest of the given journal records was written.

        Records are given by index.
        """
        first = min(record_indices)
        return sum(1 for kind, _ in self.order[first:] if kind == _TRACE)

    def record_indices_in_journal(self, record_keys: Iterable[int]) -> list[int]:
        """Return, for each key, the index of the journal record that added the message or subscription, else -1."""
        last = {key: at for at, (kind, key) in enumerate(self.order) if kind in (_ADD, _SUBSCRIPTION)}
        return [last.get(key, -1) for key in record_keys]


def _decompress(host: str, text: str) -> bytes:
    try:
        return decompress_base64_to_bytes(text, _LARGEST_LIST) if text else b""
    except ValueError as error:
        raise InputError(
            f"{host}: the playbook cannot read the description of the store that this host returned ({error}). Run "
            "the playbook again with -vvv, which prints what the host returned"
        ) from None


def _parse_time(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S")


def _parse_load_time(text: str) -> datetime | None:
    match = _LOADED.match(text)
    return datetime.strptime(f"{match[1]} {match[2]}", "%b %d %H:%M:%S %Y") if match else None


@dataclass(frozen=True, slots=True)
class StoreChoice:
    """The choice of the store that a resync of a pair uses for both nodes.

    It has reasons. The host is ``winner``; ``equal``: both stores hold the same.
    """

    winner: str
    equal: bool
    reasons: tuple[str, ...]


def choose_store_to_keep(master: PurePairNodeStore, slave: PurePairNodeStore, chosen: str | None = None) -> StoreChoice:
    """Choose which message store of a pure (replicating) pair a resync keeps, and return the choice with its reasons.

    ``chosen`` is the operator's own decision.

    Raises ResyncRefusedError, with what to check, when the evidence is not sufficient.
    """
    for store in (master, slave):
        if not store.seen:
            raise ResyncRefusedError(
                f"{store.host}: the playbook did not read the store of this broker, so it cannot determine which store "
                "of the pair is newer. Run the playbook resync again"
            )
    if master.state == slave.state:
        number = count_with_noun(len(master.live), "message or subscription", "messages and subscriptions")
        same = f"both stores hold the same {number}"
        return StoreChoice(chosen or master.host, True, (same,))
    if chosen:
        return _judge_operator_choice(master, slave, chosen)
    for store in (master, slave):
        if store.damaged:
            raise ResyncRefusedError(
                f"{store.host}: the store has {count_with_noun(store.damaged, 'damaged place')} in its journal or "
                "index, which activemq-fleet store inspect lists. So the playbook cannot determine whether this host "
                f"has the newer store. {_SET_RESYNC_FROM}"
            )
    if master.was_never_used or slave.was_never_used:
        return _judge_empty_stores(master, slave)
    return _judge_contents(master, slave)


def store_difference_sentence(master: PurePairNodeStore, slave: PurePairNodeStore) -> str:
    """Return a sentence on how the stores of a master and its slave differ.

    It is empty for an exact copy. A message on its way is no difference: the slave has it first. Neither is what the
    master took after the slave's evidence was collected. The evidence may be of different moments.
    """
    only_master, _ = _keys_never_received(master, slave)
    only_slave, _ = _keys_never_received(slave, master)
    last_received = max(
        (
            at
            for at, (kind, key) in enumerate(master.order)
            if kind == _ADD and key in slave.message_and_subscription_keys_in_journal
        ),
        default=-1,
    )
    missed_count = sum(1 for at in master.record_indices_in_journal(only_master) if 0 <= at < last_received)
    starts = [at for at, (kind, _) in enumerate(slave.order) if kind == _TRACE]
    stored_alone_count = sum(1 for at in slave.record_indices_in_journal(only_slave) if starts and 0 <= at < starts[-1])
    clauses = []
    if missed_count:
        clauses.append(
            f"{slave.host} never received {count_with_noun(missed_count, 'message')} that {master.host} holds"
        )
    if stored_alone_count:
        clauses.append(
            f"{slave.host} holds {count_with_noun(stored_alone_count, 'message')} that it stored before it connected "
            f"to {master.host}, and that {master.host} never received"
        )
    return " and ".join(clauses)


def _judge_operator_choice(master: PurePairNodeStore, slave: PurePairNodeStore, chosen: str) -> StoreChoice:
    winner, loser = (master, slave) if chosen == master.host else (slave, master)
    if winner.was_never_used:
        raise ResyncRefusedError(
            f"{chosen}: activemq_resync_from names this host, but the store of {chosen} is missing or empty. Restore "
            f"this store from a backup, or run the playbook resync with -e activemq_resync_from={loser.host}"
        )
    lost_keys, _ = _keys_never_received(loser, winner)
    backup_note = ""
    if lost_keys:
        count = count_with_noun(len(lost_keys), "message")
        backup_note = f"; then the backup of the store of {loser.host} has the only copy of {count}"
    return StoreChoice(chosen, False, (f"activemq_resync_from is {chosen}{backup_note}",))


def _judge_empty_stores(master: PurePairNodeStore, slave: PurePairNodeStore) -> StoreChoice:
    if slave.was_never_used:
        return StoreChoice(master.host, False, (f"the store of {slave.host} never held messages",))
    if slave.has_served_alone_since_last_attached:
        return StoreChoice(slave.host, False, (f"the store of {master.host} never held messages",))
    raise ResyncRefusedError(
        f"{master.host}: the store of this broker is empty, and no log shows that {slave.host} was active after "
        f"{master.host} stopped. So the store of {slave.host} may be older than the store that {master.host} lost. "
        f"{_SET_RESYNC_FROM}"
    )


def _judge_contents(master: PurePairNodeStore, slave: PurePairNodeStore) -> StoreChoice:
    only_master, cleaned_slave = _keys_never_received(master, slave)
    only_slave, cleaned_master = _keys_never_received(slave, master)
    delivered_by_master = _delivered_message_count(master, slave) + cleaned_master
    delivered_by_slave = _delivered_message_count(slave, master) + cleaned_slave
    served = slave.has_served_alone_since_last_attached
    m, s = master.host, slave.host
    if not only_slave and not (delivered_by_slave and (only_master or delivered_by_master)):
        if only_master or delivered_by_master:
            return StoreChoice(m, False, _surplus_reasons(m, s, len(only_master), delivered_by_master))
        return StoreChoice(s, False, _surplus_reasons(s, m, 0, delivered_by_slave))
    if not only_master and not delivered_by_master:
        return StoreChoice(s, False, _surplus_reasons(s, m, len(only_slave), delivered_by_slave))
    if served is False and _is_in_flight(master, slave, only_slave):
        attached_reason = (
            f"{s} was a slave of {m} until {s} stopped, and never served clients, so {m} has every acknowledged message"
        )
        return StoreChoice(m, False, (attached_reason, *_surplus_reasons(m, s, len(only_master), delivered_by_master)))
    if served and not only_master:
        alone_reason = (
            f"{s} was a slave of {m}, then served clients without {m}, and received every message that {m} still has"
        )
        return StoreChoice(s, False, (alone_reason, *_surplus_reasons(s, m, len(only_slave), delivered_by_slave)))
    differences = [
        (len(only_master), f"{m} has {count_with_noun(len(only_master), 'message')} that {s} never received"),
        (len(only_slave), f"{s} has {count_with_noun(len(only_slave), 'message')} that {m} never received"),
        (delivered_by_master, f"{m} delivered {count_with_noun(delivered_by_master, 'message')} that {s} still has"),
        (delivered_by_slave, f"{s} delivered {count_with_noun(delivered_by_slave, 'message')} that {m} still has"),
    ]
    facts = [text for count, text in differences if count]
    periods = {
        True: f"{s} served clients without {m}",
        False: f"{s} never served clients without {m}",
        None: f"no log shows whether {s} served clients without {m}",
    }
    facts.append(periods[served])
    raise ResyncRefusedError(
        f"{m} and {s}: the playbook cannot determine which store is newer: {'; '.join(facts)}. {_SET_RESYNC_FROM}"
    )


def _surplus_reasons(winner: str, loser: str, surplus_count: int, delivered_count: int) -> tuple[str, ...]:
    return (
        f"{winner} has {count_with_noun(surplus_count, 'message')} that {loser} never received, "
        f"and delivered {count_with_noun(delivered_count, 'message')} that {loser} still has",
    )


def _keys_never_received(store: PurePairNodeStore, other: PurePairNodeStore) -> tuple[list[int], int]:
    """Return the keys of the live records of a store that the other store never received.

    The second value is the number of records left out because the other node must have delivered and removed them: it
    has a later message of the same run, during which the slave was attached once.
    """
    missing = [
        record_key
        for key, record_key in store.live.items()
        if key not in other.message_and_subscription_keys_in_journal
        and record_key not in other.message_and_subscription_keys_in_journal
    ]
    if not missing or not other.cleaned:
        return missing, 0
    first, last = _shared_record_range(store, other)
    indices = store.record_indices_in_journal(missing)
    never_received = [record_key for record_key, at in zip(missing, indices, strict=True) if not first <= at < last]
    return never_received, len(missing) - len(never_received)


def _shared_record_range(store: PurePairNodeStore, other: PurePairNodeStore) -> tuple[int, int]:
    """Return the first and last index of a store's records that the other store once had, too."""
    service = store.last_serving_run
    start = store.first_journal_record_index_of_run(service) if service else None
    if service is None or start is None or (store.role == "master" and service.attached != 1):
        return (0, 0)
    last = max(
        (
            at
            for at, (kind, key) in enumerate(store.order)
            if kind == _ADD and key in other.message_and_subscription_keys_in_journal
        ),
        default=0,
    )
    return (start, last)


def _delivered_message_count(store: PurePairNodeStore, other: PurePairNodeStore) -> int:
    """Return the number of messages that one store has delivered and the other store still has."""
    return sum(
        1
        for key, record_key in other.live.items()
        if key not in store.live
        and (
            key in store.message_and_subscription_keys_in_journal
            or record_key in store.message_and_subscription_keys_in_journal
        )
    )


def _is_in_flight(master: PurePairNodeStore, slave: PurePairNodeStore, only_slave: Collection[int]) -> bool:
    """Return whether messages that only the slave of a pure pair has can be in flight.

    The slave is attached, and its master has not acknowledged them yet.
    """
    service = master.last_serving_run
    if service is None or not service.attached:
        return False
    indices = slave.record_indices_in_journal(only_slave)
    return not indices or (
        min(indices) >= 0
        and slave.count_broker_runs_since_oldest_record(indices) == 0
        and len(indices) <= _MAX_IN_FLIGHT
    )
