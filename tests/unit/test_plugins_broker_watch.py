"""Who served when, and how long nobody did."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.probe.round_trips import (
    PairProbeRound,
    summarize_answers_and_interruptions,
    watch_which_address_answers,
)
from tests.waiting import wait_until

A, B = "tcp://a:61616", "tcp://b:61616"


def tries(*answers: str | None) -> list[PairProbeRound]:
    """One a second, each lasting half of it."""
    return [PairProbeRound(1000.0 + second, 1000.5 + second, answer) for second, answer in enumerate(answers)]


def test_a_pair_that_always_serves_has_no_gap() -> None:
    summary = summarize_answers_and_interruptions(tries(A, A, A))
    assert (summary["trips"], summary["gaps"], summary["longest"]) == (3, [], 0.0)
    assert [(span["address"], span["trips"]) for span in summary["spans"]] == [(A, 3)]


def test_a_gap_lasts_from_the_last_answer_to_the_first_one_after() -> None:
    summary = summarize_answers_and_interruptions(tries(A, None, None, B, B))
    (gap,) = summary["gaps"]
    assert (gap["seconds"], gap["before"], gap["after"]) == (3.0, A, B)
    assert gap["began"] == "1970-01-01T00:16:40.500Z"
    assert [span["address"] for span in summary["spans"]] == [A, B]


def test_who_takes_over_between_two_round_trips_leaves_no_gap() -> None:
    summary = summarize_answers_and_interruptions(tries(A, B))
    assert summary["gaps"] == []
    assert [span["address"] for span in summary["spans"]] == [A, B]


def test_a_gap_that_does_not_end_is_one() -> None:
    (gap,) = summarize_answers_and_interruptions(tries(A, None, None))["gaps"]
    assert (gap["seconds"], gap["after"]) == (2.0, None)


def test_without_any_answer_all_of_the_time_is_a_gap() -> None:
    summary = summarize_answers_and_interruptions(tries(None, None, B))
    (gap,) = summary["gaps"]
    assert (gap["seconds"], gap["before"], gap["after"]) == (2.5, None, B)
    assert summarize_answers_and_interruptions([])["gaps"] == []


@contextmanager
def broker(greets: threading.Event) -> Iterator[int]:
    """A port that speaks OpenWire as long as ``greets`` is set, and else closes at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        ends = threading.Event()

        def serve() -> None:
            while not ends.is_set():
                with suppress(OSError):
                    connection = server.accept()[0]
                    with connection:
                        if greets.is_set():
                            connection.sendall(b"\0\0\0\x50\x01ActiveMQ" + bytes(67))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            ends.set()
            thread.join()


def test_watch_begins_with_first_answer_and_ends_with_first_after_flag(tmp_path: Path) -> None:
    flag, greets = tmp_path / "flag", threading.Event()
    found: dict[str, object] = {}
    with broker(greets) as port:
        address = f"nio://127.0.0.1:{port}"
        watching = threading.Thread(
            target=lambda: found.update(watch_which_address_answers([address], None, 60, 0.01, 5.0, str(flag))),
            daemon=True,
        )
        watching.start()
        greets.set()
        wait_for(flag.exists)
        greets.clear()
        time.sleep(1)
        flag.unlink()
        time.sleep(0.3)
        assert watching.is_alive(), "it ended in a gap"
        greets.set()
        watching.join(60)
    assert found["spans"][-1]["address"] == address  # type: ignore[index]
    assert found["gaps"][-1]["after"] == address  # type: ignore[index]
    assert found["longest"] >= 0.5  # type: ignore[operator]


def wait_for(condition: Callable[[], object]) -> None:
    wait_until(condition, "the condition holds", pause=0.01)


def test_a_flag_that_is_there_already_is_somebody_elses(tmp_path: Path) -> None:
    flag, greets = tmp_path / "flag", threading.Event()
    flag.touch()
    greets.set()
    with broker(greets) as port, pytest.raises(FileExistsError):
        watch_which_address_answers([f"nio://127.0.0.1:{port}"], None, 60, 0.01, 5.0, str(flag))
    assert flag.exists()


def test_without_a_flag_it_ends_after_its_time() -> None:
    greets = threading.Event()
    with broker(greets) as port:
        watch_result = watch_which_address_answers([f"nio://127.0.0.1:{port}"], None, 0.2, 0.01, 5.0, None)
    assert watch_result["trips"] == 0
    assert watch_result["last"]


def test_watch_without_a_first_answer_fails_with_the_last_answers(tmp_path: Path) -> None:
    flag, greets = tmp_path / "flag", threading.Event()
    unknown = "nio://no-such-host.invalid:61616"
    with broker(greets) as port, pytest.raises(NodeError) as caught:
        watch_which_address_answers(
            [f"nio://127.0.0.1:{port}", unknown], None, 60, 0.01, 0.1, str(flag), first_within=0.3
        )
    assert str(caught.value).startswith(
        "no node completed a round trip of a test message within 0.3 s (nio://127.0.0.1:"
    )
    assert f"; {unknown}: the host name no-such-host.invalid cannot be resolved" in str(caught.value)
    assert not flag.exists()


def test_watch_with_a_first_answer_continues_after_the_time_for_it(tmp_path: Path) -> None:
    greets = threading.Event()
    greets.set()
    with broker(greets) as port:
        watch_result = watch_which_address_answers(
            [f"nio://127.0.0.1:{port}"], None, 0.5, 0.01, 5.0, None, first_within=30
        )
    assert watch_result["trips"] > 0


@pytest.mark.parametrize("text", ["orders-mq01-a:1883", "mqtt://a", "mqtt://a:b", "mqtt://:1883", "mqtt://a:1883b"])
def test_what_is_no_address_is_said(text: str) -> None:
    with pytest.raises(NodeError, match="is not an address: write it like"):
        watch_which_address_answers([text], None, 1, 0.1, 1.0, None)
