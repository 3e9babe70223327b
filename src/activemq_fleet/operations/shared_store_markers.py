"""Decide which shared stores may be used, and which may be marked as the store of a pair.

A share that is not mounted must never lead to two masters on two local directories. So each shared store holds a
marker file with the name of its pair, and the service unit starts the broker only if the marker exists. The marker is
written once, and only to an empty store that is proved to be shared: one node writes it with a random word, and the
other node must read the same word.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from activemq_fleet.node.host_paths import STORE_MARKER
from activemq_fleet.node.state.evidence import StoreMarkerEvidence
from activemq_fleet.operations.operation_decisions import (
    Decision,
    OperationDecisionRequest,
    RefusalError,
    register_operation,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStoreObservedOnHost:
    """A shared store of a pair, as observed on one of its hosts.

    ``marked`` holds the lines of the marker, None if the store has no marker. ``mounted`` is true if the directory, or
    a parent of it other than the root, is a mount point. ``fenced`` is true if the store holds generations (numbered
    copies that guards make); ``fence`` is the inventory's ``activemq_fence``. ``broker_pid`` is the process of the
    broker on the host, None if it does not run or is not known.
    """

    host: str
    pair: str
    directory: str
    exists: bool
    mounted: bool
    used: bool
    marked: tuple[str, ...] | None = None
    fenced: bool = False
    fence: str = "none"
    broker_pid: int | None = None


def hosts_of_unmarked_stores_by_pair(
    stores: Iterable[SharedStoreObservedOnHost], node_count_by_pair: Mapping[str, int]
) -> dict[str, tuple[str, ...]]:
    """Return, by pair, the hosts of each pair whose shared store lacks the marker file that assigns it to the pair.

    The first host of the tuple writes the marker file, and the others check that they find it in their store. Pairs
    whose store has a marker are left out. ``node_count_by_pair`` is the number of nodes of each pair. Raises
    RefusalError with one line for each pair whose store may not be used.
    """
    pairs = _stores_by_pair(stores)
    if problems := _problems_of_pairs(pairs, node_count_by_pair):
        raise RefusalError(
            "no broker is started, because a shared store cannot be used. Correct these errors, and run the playbook "
            "site again:",
            problems,
        )
    return {
        pair: tuple(store.host for store in pair_stores)
        for pair, pair_stores in pairs.items()
        if pair_stores[0].marked is None
    }


def _stores_by_pair(stores: Iterable[SharedStoreObservedOnHost]) -> dict[str, list[SharedStoreObservedOnHost]]:
    pairs: dict[str, list[SharedStoreObservedOnHost]] = defaultdict(list)
    for store in sorted(stores, key=lambda store: (store.pair, store.host)):
        pairs[store.pair].append(store)
    return pairs


def _problems_of_pairs(
    pairs: Mapping[str, Sequence[SharedStoreObservedOnHost]], node_count_by_pair: Mapping[str, int]
) -> list[str]:
    return [
        text
        for pair, pair_stores in pairs.items()
        if (text := _first_problem_of_pair(pair, pair_stores, node_count_by_pair[pair]))
    ]


def _first_problem_of_pair(pair: str, pair_stores: Sequence[SharedStoreObservedOnHost], node_count: int) -> str | None:
    marked = [store for store in pair_stores if store.marked is not None]
    for store in marked:
        if pair not in (store.marked or ()):
            owner = (store.marked or ("(no name)",))[0]
            return (
                f"{store.host}: directory {store.directory} contains the store of pair {owner}, not of pair {pair}. "
                f"Set activemq_store_directory of {pair} to a separate directory"
            )
    for store in pair_stores:
        if store.fenced and store.fence != "guard":
            return (
                f"{store.host}: the store in {store.directory} was made with activemq_fence: guard, so a broker "
                "without this setting waits indefinitely for its lock. Set activemq_fence to guard, or run the "
                f"playbook unfence for pair {pair} first"
            )
    # The second line of a marker is the id of the run that wrote it, so two stores of one pair have different markers.
    other = next((store for store in pair_stores if marked and store.marked != marked[0].marked), None)
    if other:
        return (
            f"{other.host}: directory {other.directory} is not the store of host {marked[0].host}, so both nodes could "
            "become active. Mount the same share on both nodes"
        )
    if marked:
        return None
    for store in pair_stores:
        if store.used:
            return (
                f"{store.host}: the store {store.directory} contains messages, but no file {STORE_MARKER} with the "
                f"name of its pair. If it is the store of pair {pair}, create {store.directory}/{STORE_MARKER} with "
                f"the text {pair}. If not, mount the store of pair {pair} there"
            )
        if _is_absent(store):
            hosts = [other.host for other in pair_stores if _is_absent(other) and other.directory == store.directory]
            return (
                f"{', '.join(hosts)}: the store directory {store.directory} does not exist, and it is not on a mounted "
                "file system. Mount the share, or create the directory on a file system that both nodes share"
            )
    for store in pair_stores:
        if store.broker_pid:
            return (
                f"{store.host}: the broker runs (process {store.broker_pid}), but the store {store.directory} is new. "
                "After a restart, clients would not receive the messages of the store that the broker uses now. Set "
                "activemq_store_directory to that store. To move it, stop the brokers of pair "
                f"{pair}, move the directory to {store.directory}, and run the playbook site again"
            )
    if len(pair_stores) < node_count:
        return (
            f"{pair_stores[0].host}: the store of pair {pair} is new. Only a run with both nodes can check that both "
            "nodes share it. Run the playbook site without --limit"
        )
    return None


def _is_absent(store: SharedStoreObservedOnHost) -> bool:
    return not store.exists and not store.mounted


@register_operation("stores", read=StoreMarkerEvidence.from_store_marker_result)
def decide_marker_writers_and_checkers(request: OperationDecisionRequest) -> Decision:
    """Return which hosts write a marker file into their pair's shared store, and which hosts check that they see it.

    A marker file assigns a store to its pair. The result has ``claims``, the list of checking hosts by writing host,
    and ``hosts``, all of them. Raises RefusalError for an unusable store.
    """
    claims = hosts_of_unmarked_stores_by_pair(
        _observed_stores(request, request.evidence, {}), _node_count_by_pair(request)
    ).values()
    firsts = {hosts[0]: list(hosts[1:]) for hosts in claims}
    return {"claims": firsts, "hosts": [host for hosts in claims for host in hosts]}


def unusable_shared_store_lines(
    request: OperationDecisionRequest,
    evidence: Mapping[str, StoreMarkerEvidence],
    broker_pids: Mapping[str, int | None],
) -> list[str]:
    """Return the problems of shared stores: a line for each pair whose store cannot be used.

    ``evidence`` and the processes of the brokers, ``broker_pids``, are by host.
    """
    return _problems_of_pairs(
        _stores_by_pair(_observed_stores(request, evidence, broker_pids)), _node_count_by_pair(request)
    )


def _node_count_by_pair(request: OperationDecisionRequest) -> Counter[str]:
    return Counter(broker.pair for broker in request.broker_facts_by_host.values())


def _observed_stores(
    request: OperationDecisionRequest,
    evidence: Mapping[str, StoreMarkerEvidence],
    broker_pids: Mapping[str, int | None],
) -> list[SharedStoreObservedOnHost]:
    brokers = request.broker_facts_by_host
    return [
        SharedStoreObservedOnHost(
            **vars(observed),
            host=host,
            pair=brokers[host].pair,
            directory=brokers[host].store or "",
            fence=brokers[host].fence,
            broker_pid=broker_pids.get(host),
        )
        for host, observed in evidence.items()
    ]
