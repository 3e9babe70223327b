"""Elapsed time: measured by the monotonic clock within a boot, and by the wall clock across a reboot."""

from __future__ import annotations

from pathlib import Path

import pytest

from activemq_agent.store import Store, StoreLimits, inbox
from tests.unit.agent.store_clock import SimulatedClock, open_store, receive


def count_expired_after_restart(tmp_path: Path, clock: SimulatedClock, timeout: float) -> int:
    with open_store(tmp_path, clock, StoreLimits(timeout=timeout)) as store:
        return store.move_or_drop_expired_events()


@pytest.fixture
def clock(tmp_path: Path) -> SimulatedClock:
    """Return the clock of a store that accepted an event with a timeout of 100 s."""
    clock = SimulatedClock()
    with open_store(tmp_path, clock, StoreLimits(timeout=100)) as store:
        store.accept_event("t", b"x")
    return clock


@pytest.mark.parametrize(("seconds", "expired"), [(99, 0), (100, 1)])
def test_time_while_agent_is_stopped_counts_toward_event_timeout(
    tmp_path: Path, clock: SimulatedClock, seconds: float, expired: int
) -> None:
    clock.pass_time(seconds)
    assert count_expired_after_restart(tmp_path, clock, 100) == expired


@pytest.mark.parametrize(("seconds", "expired"), [(99, 0), (100, 1)])
def test_age_of_event_across_reboot_is_measured_by_wall_clock(
    tmp_path: Path, clock: SimulatedClock, seconds: float, expired: int
) -> None:
    clock.reboot(takes=seconds)
    assert count_expired_after_restart(tmp_path, clock, 100) == expired


@pytest.mark.parametrize("step", [-1e6, 1e6])
def test_step_of_wall_clock_without_reboot_does_not_age_events_and_is_logged(
    tmp_path: Path, clock: SimulatedClock, step: float, caplog: pytest.LogCaptureFixture
) -> None:
    clock.wall_error += step
    clock.pass_time(99)
    assert count_expired_after_restart(tmp_path, clock, 100) == 0
    assert "The agent does not count this change as elapsed time" in caplog.text


def test_wall_clock_drift_of_less_than_1_minute_is_not_logged(
    tmp_path: Path, clock: SimulatedClock, caplog: pytest.LogCaptureFixture
) -> None:
    clock.wall_error += 59
    count_expired_after_restart(tmp_path, clock, 100)
    assert not caplog.text


def test_step_of_wall_clock_before_reboot_does_not_age_events_after_reboot(
    tmp_path: Path, clock: SimulatedClock
) -> None:
    with Store.open(tmp_path, agent="a1", clock=clock, synchronous="OFF", sweep=0.01) as store:
        clock.wall_error += 1e6
        while store._writer.elapsed.has_wall_clock_stepped():  # the writer thread also reads and stores the clocks
            store.row_and_byte_counts()
    clock.reboot(takes=50)
    assert count_expired_after_restart(tmp_path, clock, 100) == 0


def test_wall_clock_set_back_across_reboot_does_not_age_events_and_is_logged(
    tmp_path: Path, clock: SimulatedClock, caplog: pytest.LogCaptureFixture
) -> None:
    clock.wall_error -= 1e6
    clock.reboot(takes=99)
    assert count_expired_after_restart(tmp_path, clock, 100) == 0
    assert "behind the time that the agent recorded before the reboot" in caplog.text
    clock.pass_time(100)
    assert count_expired_after_restart(tmp_path, clock, 100) == 1, "the store must count the time since this boot"


def test_event_ids_are_deleted_seven_days_after_handling(tmp_path: Path) -> None:
    clock = SimulatedClock()
    day = 86400.0
    with open_store(tmp_path, clock) as store:
        receive(store, "t", b'{"eventId":"e"}')
        clock.pass_time(3 * day)
        store.record_handled(1)
        clock.pass_time(7 * day - 1)
        delete_old_event_ids(store)
        assert receive(store, "t", b'{"eventId":"e"}').duplicate
        clock.pass_time(1)
        delete_old_event_ids(store)
        assert not receive(store, "t", b'{"eventId":"e"}').duplicate


def delete_old_event_ids(store: Store) -> None:
    store._writer.submit(inbox.delete_old_event_ids).result()
