"""Stores, runs and nodes of a pure pair, composed from records of store journals and runs of logs."""

from __future__ import annotations

from activemq_fleet.operations.resync import PurePairNode
from activemq_fleet.operations.resync_source_choice import LoggedBrokerRun, PurePairNodeStore

MASTER, SLAVE = "x-mq01-a", "x-mq01-b"
TRACE, ADD, REMOVE = 0, 1, 2
DAY = "2026-11-21"


def start_record(time: str) -> str:
    """Return the record of a store journal about a start at a time of the day."""
    return f"LOADED Sat Nov 21 {time} UTC 2026"


def broker_run(time: str, **fields: object) -> LoggedBrokerRun:
    """Return a run of a log that began at a time of the day."""
    return LoggedBrokerRun(f"{DAY} {time}" if time else "", **fields)  # type: ignore[arg-type]


RUN_OF_ATTACHED_SLAVE = broker_run("10:00:05", started=True, established=True)
RUN_OF_ACTIVE_SLAVE = broker_run("10:00:05", started=True, established=True, served=True)
RUN_OF_MASTER_WITH_SLAVE = broker_run("10:00:00", started=True, attached=1)


def node_store(
    role: str, words: str, *runs: LoggedBrokerRun, starts: tuple[str, ...] = (), cleaned: bool = False, damaged: int = 0
) -> PurePairNodeStore:
    """Return a store from words: ``1`` adds message 1, ``-1`` removes it, ``|`` is the start of a broker.

    By default the times of the starts are those of the runs.
    """
    operations, live_messages = [], {}
    for word in words.split():
        number = 0 if word == "|" else abs(int(word))
        kind = TRACE if word == "|" else REMOVE if word.startswith("-") else ADD
        operations.append((kind, number))
        if kind == ADD:
            live_messages[number] = number
        elif kind == REMOVE:
            live_messages.pop(number, None)
    times = starts or tuple(run.began.partition(" ")[2] for run in runs)
    return PurePairNodeStore(
        host=MASTER if role == "master" else SLAVE,
        role=role,
        order=tuple(operations),
        live=live_messages,
        state=" ".join(map(str, sorted(live_messages))),
        cleaned=cleaned,
        damaged=damaged,
        loads=tuple(start_record(time) for time in times if time),
        runs=runs,
    )


def master_store(words: str, *runs: LoggedBrokerRun, **fields: object) -> PurePairNodeStore:
    """Return the store of the master. By default its log has one run, to which a slave attached."""
    return node_store("master", words, *(runs or (RUN_OF_MASTER_WITH_SLAVE,)), **fields)  # type: ignore[arg-type]


def slave_store(words: str, *runs: LoggedBrokerRun, **fields: object) -> PurePairNodeStore:
    """Return the store of the slave. By default its log has one run, in which it was attached and never served."""
    return node_store("slave", words, *(runs or (RUN_OF_ATTACHED_SLAVE,)), **fields)  # type: ignore[arg-type]


def pair_node(store: PurePairNodeStore, state: str, **fields: object) -> PurePairNode:
    """Return a node with a store, in a state."""
    phases = {"active": "started", "standby": "attached", "starting": "starting", "stopped": "unknown"}
    return PurePairNode(store, state, **{"phase": phases.get(state, "unknown"), **fields})  # type: ignore[arg-type]
