"""A small fleet whose logs and journals are written, rolled, compressed and delivered late, one step at a time.

The events are invented, in messages of real brokers: takeovers of a pair, a bridge that loses the pair, an agent.
"""

from __future__ import annotations

import gzip
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.log_reading import logger_of

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
A, B, C, LATE = "orders-mq01-a", "orders-mq01-b", "billing-mq01-a", "archive-mq01-a"
_NAME = "Apache ActiveMQ 5.18.3 (orders-mq01, ID:x-1-1-0:1)"
RUN = [
    "Using Persistence Adapter: KahaDBPersistenceAdapter[/srv/activemq/orders-mq01]",
    "KahaDB is version 7",
    f"{_NAME} is starting",
    f"{_NAME} started",
]
WAIT = (
    "Database /srv/activemq/orders-mq01/lock is locked by another server. "
    "This broker is now in slave mode waiting a lock to be acquired"
)
LOST = "orders-mq01, no longer able to keep the exclusive lock so giving up being a master"
_STACK = ["java.io.IOException: the disk is away", "\tat org.example.Store.write(Store.java:10)", "\t... 7 more"]

BRIDGE = [
    "Establishing network connection from vm://billing-mq01 to "
    "masterslave:(tcp://orders-mq01-a:61616,tcp://orders-mq01-b:61616)",
    "Network Connector DiscoveryNetworkConnector:to-orders:BrokerService[billing-mq01] started",
    "Network connection between vm://billing-mq01#0 and "
    "tcp://orders-mq01-a/10.0.0.1:61616@50000 (orders-mq01-a) has been established.",
    "Network connection between vm://billing-mq01#0 and unconnected "
    "shutdown due to a remote error: java.io.EOFException",
    "billing-mq01 bridge to orders-mq01-a stopped",
]

Step = Callable[[], None]


class Fleet:
    """A fleet below ``root``. The steps of ``steps`` must all be run, in their order."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._seconds = 0
        self._jseq = {"shop": 0, "stock": 0}
        self._event = 0
        self._late = 0
        for host in (A, B, C):
            (root / host / "agent").mkdir(parents=True)
        self.describe(A, "orders", "orders-mq01")

    def steps(self, rounds: int) -> Iterator[Step]:
        """Yield the steps, each one change of the files; ``rounds`` is how often the nodes of the pair alternate."""
        for number in range(rounds):
            master, standby = (A, B) if number % 2 == 0 else (B, A)
            yield lambda m=master: self.append_records(m, *RUN)  # type: ignore[misc]
            yield lambda o=standby: self.append_records(o, RUN[0], WAIT)  # type: ignore[misc]
            yield lambda: self.append_records(C, *BRIDGE)
            yield from [self.publish] * 3
            yield lambda m=master: self._append_first_half(m)  # type: ignore[misc]
            yield lambda m=master: self._append_second_half(m)  # type: ignore[misc]
            yield self.handle
            yield lambda m=master, o=standby: self.append_records(m, "a line", stack=_STACK)  # type: ignore[misc]
            yield lambda m=master: self.append_records(m, LOST)  # type: ignore[misc]
            yield lambda o=standby, n=number: self.roll(o, by_copy=n % 3 == 0)  # type: ignore[misc]
            yield lambda o=standby: self.compress(o)  # type: ignore[misc]
            if number == rounds // 2:
                yield self.describe_late
                yield self.add_old_logs
            yield self.handle
            yield lambda: self._roll_journal()
        yield lambda: self.append_records(C, "the last line of all")

    def append_records(
        self, host: str, *messages: str, stack: list[str] | None = None, back: timedelta = timedelta(0)
    ) -> None:
        """Append records to the log of a host, one second apart."""
        with (self.root / host / "activemq.log").open("a") as file:
            file.write(self._records(messages, stack or [], back))

    def publish(self) -> None:
        """Record an event of the publisher from its acceptance to its acknowledgement; each fifth one is a barrier."""
        self._event += 1
        kinds = ("barrier",) if self._event % 5 == 0 else ("accepted", "sent", "acknowledged")
        topic = "orders/new/barrier" if self._event % 5 == 0 else "orders/new"
        for kind in kinds:
            self._journal("shop", kind, event_id=f"shop:e1:{self._event}", topic=topic)

    def handle(self) -> None:
        """Record that the subscriber receives the latest events, except every seventh one."""
        if not self._jseq["stock"]:
            self._journal("stock", "subscribed", filters=["orders/#"])
        for number in range(max(1, self._event - 2), self._event + 1):
            if number % 7:
                is_barrier = number % 5 == 0
                kinds = ("barrier",) if is_barrier else ("received", "handled")
                topic = "orders/new/barrier" if is_barrier else "orders/new"
                for kind in kinds:
                    self._journal("stock", kind, event_id=f"shop:e1:{number}", topic=topic, broker=A)

    def roll(self, host: str, *, by_copy: bool) -> None:
        """Roll the log of a host as log4j does, or by copy as logrotate's copytruncate does."""
        log = self.root / host / "activemq.log"
        for number in range(40, 0, -1):
            for suffix in ("", ".gz"):
                rotated_log = Path(f"{log}.{number}{suffix}")
                if rotated_log.exists():
                    rotated_log.rename(f"{log}.{number + 1}{suffix}")
        if by_copy:
            shutil.copy(log, f"{log}.1")
            log.write_text("")
        else:
            log.rename(f"{log}.1")
            # The end of a record that begins in the previous file.
            log.write_text("\tat org.example.Late.line(Late.java:1)\n")

    def compress(self, host: str) -> None:
        """Compress the newest rolled file as gzip does: to a new file first."""
        rolled = self.root / host / "activemq.log.1"
        with gzip.open(f"{rolled}.gz", "wb") as file:
            file.write(rolled.read_bytes())
        rolled.unlink()

    def describe_late(self) -> None:
        """Write host.json files after many records were read: another time zone, another pair."""
        self.describe(B, "orders", "orders-mq01")
        self.describe(C, "billing", None, "Europe/Berlin")

    def add_old_logs(self) -> None:
        """Add logs that are one day old: a log of a new host, and an older file of a known host."""
        day = timedelta(days=1)
        (self.root / LATE).mkdir()
        self.append_records(LATE, *RUN, "a line", LOST, *RUN, back=day)
        self._late = self._seconds + len(RUN) + 1
        (self.root / C / "activemq.log.7").write_text(self._records([*RUN, LOST], _STACK, day))

    def continue_after_a_week(self) -> None:
        """Append records of a week later to all logs, so that all earlier incidents are final."""
        self.pass_minutes(8 * 24 * 60)
        for host in (A, B, C):
            self.append_records(host, "a line", "another line")
        self.publish()
        self.handle()

    def add_late_evidence(self) -> None:
        """Add evidence that is days late: a broker that started again, and another subscriber of the first event."""
        back = timedelta(days=1, seconds=self._seconds - self._late)
        (self.root / C / "activemq.log.6").write_text(self._records(RUN, [], back))
        self._journal("ledger", "subscribed", at=NOON, filters=["orders/#"])
        for kind in ("received", "handled"):
            self._journal("ledger", kind, at=NOON + timedelta(minutes=1), event_id="shop:e1:1", topic="orders/new")

    def pass_minutes(self, minutes: int) -> None:
        """Let time pass without any record."""
        self._seconds += 60 * minutes

    def _append_first_half(self, host: str) -> None:
        self._split_record = self._records(["a line that comes in two halves"], [], timedelta(0))
        with (self.root / host / "activemq.log").open("a") as file:
            file.write(self._split_record[:40])

    def _append_second_half(self, host: str) -> None:
        with (self.root / host / "activemq.log").open("a") as file:
            file.write(self._split_record[40:])

    def _records(self, messages: tuple[str, ...] | list[str], stack: list[str], back: timedelta) -> str:
        lines = []
        for message in messages:
            self._seconds += 1
            moment = NOON + timedelta(seconds=self._seconds) - back
            written = f"{moment:%Y-%m-%d %H:%M:%S},123 | INFO  | {message} | {logger_of(message)} | main"
            lines += [written, *stack]
        return "\n".join([*lines, ""])

    def _journal(self, agent: str, kind: str, *, at: datetime | None = None, **members: object) -> None:
        """Append a record to the journal of an agent, with the current or another time."""
        self._jseq[agent] = self._jseq.get(agent, 0) + 1
        self._seconds += at is None
        moment = at or NOON + timedelta(seconds=self._seconds)
        record_head = {"v": 1, "agent": agent, "epoch": "e1" if agent == "shop" else "e2", "jseq": self._jseq[agent]}
        line = json.dumps({**record_head, "ts": f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}", "kind": kind, **members})
        with (self.root / C / "agent" / f"{agent}-000000001.jsonl").open("a") as file:
            file.write(f"{line}\n")

    def _roll_journal(self) -> None:
        journal = self.root / C / "agent" / "shop-000000001.jsonl"
        if journal.stat().st_size > 4000:
            number = len(list(journal.parent.glob("shop-*"))) + 1
            journal.rename(journal.with_name(f"shop-{number:09}.jsonl"))

    def describe(self, host: str, group: str, pair: str | None, zone: str = "UTC") -> None:
        """Write a host.json."""
        facts = {"host": host, "timezone": zone, "release": "5.18.3", "group": group, "pair": pair}
        (self.root / host / "host.json").write_text(json.dumps(facts))


class Writer(threading.Thread):
    """A thread that runs the steps of a fleet, ``pause`` seconds apart, in equal ``shares``, each after ``grant``."""

    def __init__(self, fleet: Fleet, rounds: int, pause: float, shares: int) -> None:
        super().__init__(name="writer", daemon=True)
        self._steps = list(fleet.steps(rounds))
        self._share = -(-len(self._steps) // shares)
        self._granted = threading.Semaphore(0)
        self._pause = pause
        self.stop_requested = threading.Event()
        self.error: Exception | None = None

    def grant(self) -> None:
        """Permit the next share: a reader that waits for new records receives them, regardless of its speed."""
        self._granted.release(self._share)

    def run(self) -> None:
        try:
            for step in self._steps:
                while not self._granted.acquire(timeout=0.5):
                    if self.stop_requested.is_set():
                        return
                step()
                if self.stop_requested.wait(self._pause):
                    return
        except Exception as error:  # noqa: BLE001 -- the test asserts that there is none
            self.error = error
