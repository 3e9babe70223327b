"""What two nodes of a pure pair show, made up from journals' records and logs' runs."""

from __future__ import annotations

from activemq_fleet.operations.recency import LoggedBrokerRun, PurePairNodeStore
from activemq_fleet.operations.resync import PurePairNode

MASTER, SLAVE = "x-mq01-a", "x-mq01-b"
TRACE, ADD, REMOVE = 0, 1, 2
DAY = "2026-11-21"


def loaded(time: str) -> str:
    """What a journal says of a start at this time of the day."""
    return f"LOADED Sat Nov 21 {time} UTC 2026"


def run(time: str, **more: object) -> LoggedBrokerRun:
    """One run of a log; it began at this time of the day."""
    return LoggedBrokerRun(f"{DAY} {time}" if time else "", **more)  # type: ignore[arg-type]


ATTACHED = run("10:00:05", started=True, established=True)
SERVED = run("10:00:05", started=True, established=True, served=True)
SAW_SLAVE = run("10:00:00", started=True, attached=1)


def store(
    role: str, words: str, *runs: LoggedBrokerRun, starts: tuple[str, ...] = (), cleaned: bool = False, damaged: int = 0
) -> PurePairNodeStore:
    """A store by words: ``1`` adds message 1, ``-1`` removes it, ``|`` is the start of a broker.

    Starts are at the times of the runs unless told otherwise.
    """
    order, live = [], {}
    for word in words.split():
        number = 0 if word == "|" else abs(int(word))
        kind = TRACE if word == "|" else REMOVE if word.startswith("-") else ADD
        order.append((kind, number))
        if kind == ADD:
            live[number] = number
        elif kind == REMOVE:
            live.pop(number, None)
    times = starts or tuple(run.began.partition(" ")[2] for run in runs)
    return PurePairNodeStore(
        host=MASTER if role == "master" else SLAVE,
        role=role,
        order=tuple(order),
        live=live,
        state=" ".join(map(str, sorted(live))),
        cleaned=cleaned,
        damaged=damaged,
        loads=tuple(loaded(time) for time in times if time),
        runs=runs,
    )


def master(words: str, *runs: LoggedBrokerRun, **more: object) -> PurePairNodeStore:
    """The master's; without runs, one in which a slave was attached."""
    return store("master", words, *(runs or (SAW_SLAVE,)), **more)  # type: ignore[arg-type]


def slave(words: str, *runs: LoggedBrokerRun, **more: object) -> PurePairNodeStore:
    """The slave's; without runs, one in which it was attached and never served."""
    return store("slave", words, *(runs or (ATTACHED,)), **more)  # type: ignore[arg-type]


def node(store: PurePairNodeStore, state: str, **more: object) -> PurePairNode:
    """A node with this store, in this state."""
    phases = {"active": "started", "standby": "attached", "starting": "starting", "stopped": "unknown"}
    return PurePairNode(store, state, **{"phase": phases.get(state, "unknown"), **more})  # type: ignore[arg-type]
