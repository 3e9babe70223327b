"""A simulated clock, and a store that uses it and removes expired rows only when a test calls for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from activemq_agent.store import InboxStorageOutcome, IncomingMessage, MachineClocks, SentEvent, Store, StoreLimits


@dataclass
class SimulatedClock(MachineClocks):
    """A clock whose seconds since boot, wall clock error and boot id tests set."""

    seconds: float = 1000.0
    wall_error: float = 0.0
    boot: str = "boot-1"
    booted: float = 0.0

    def seconds_since_boot(self) -> float:
        return self.seconds - self.booted

    def utc_now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds + self.wall_error)

    def boot_id(self) -> str:
        return self.boot

    def pass_time(self, seconds: float) -> None:
        self.seconds += seconds

    def reboot(self, takes: float = 0.0) -> None:
        self.seconds += takes
        self.booted = self.seconds
        self.boot += "'"


def open_store(directory: Path, clock: SimulatedClock | None = None, limits: StoreLimits | None = None) -> Store:
    # Unit tests check the behavior of the store. tests/integration checks that the disk keeps its content.
    return Store.open(
        directory, agent="a1", limits=limits, clock=clock or SimulatedClock(), synchronous="OFF", sweep=None
    )


def accept_all(store: Store, events: list[tuple[str, bytes]]) -> list[str]:
    """Accept (topic, payload) events in their order, in few transactions; return their event ids."""
    return [future.result() for future in [store.accept_event_later(topic, payload) for topic, payload in events]]


def acknowledge(store: Store, *places: int, proved: bool, conn: int = 0, mid: int = 1) -> None:
    """Record that the events at these places of the outbox were acknowledged."""
    store.queue_removal_of_acknowledged_events([SentEvent(place, conn, mid, "b") for place in places], proved).result()


def receive(store: Store, topic: str, payload: bytes, *, conn: int = 1) -> InboxStorageOutcome:
    """Store a message and return the outcome."""
    return store.queue_message_for_inbox(topic, payload, broker="b", conn=conn).result()


def pending_messages_of_all_lanes(store: Store) -> list[IncomingMessage]:
    """Return the messages of all lanes in the order of receipt."""
    return sorted(
        message for lane in store.row_and_byte_counts().lanes for message in store.pending_messages(lane, 10**6)
    )
