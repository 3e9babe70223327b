"""The watch of a pair: the address that answers at each time, and the duration of interruptions."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.probe import connector_probe
from activemq_fleet.node.probe.pair_watch import (
    PairProbeRound,
    summarize_answers_and_interruptions,
    watch_which_address_answers,
)
from tests.waiting import wait_until

A, B = "tcp://a:61616", "tcp://b:61616"


def probe_rounds(*answers: str | None) -> list[PairProbeRound]:
    """Return one round per second, each with a duration of 0.5 s."""
    return [PairProbeRound(1000.0 + second, 1000.5 + second, answer) for second, answer in enumerate(answers)]


def test_broker_watch_of_pair_that_always_answers_has_no_downtime() -> None:
    summary = summarize_answers_and_interruptions(probe_rounds(A, A, A))
    assert (summary["trips"], summary["gaps"], summary["longest"]) == (3, [], 0.0)
    assert [(span["address"], span["trips"]) for span in summary["spans"]] == [(A, 3)]


def test_downtime_lasts_from_last_response_to_first_response_after_it() -> None:
    summary = summarize_answers_and_interruptions(probe_rounds(A, None, None, B, B))
    (interruption,) = summary["gaps"]
    assert (interruption["seconds"], interruption["before"], interruption["after"]) == (3.0, A, B)
    assert interruption["began"] == "1970-01-01T00:16:40.500Z"
    assert [span["address"] for span in summary["spans"]] == [A, B]


def test_takeover_between_two_round_trips_is_no_downtime() -> None:
    summary = summarize_answers_and_interruptions(probe_rounds(A, B))
    assert summary["gaps"] == []
    assert [span["address"] for span in summary["spans"]] == [A, B]


def test_downtime_without_end_lasts_until_last_round() -> None:
    (interruption,) = summarize_answers_and_interruptions(probe_rounds(A, None, None))["gaps"]
    assert (interruption["seconds"], interruption["after"]) == (2.0, None)


def test_watched_downtime_before_first_response_starts_with_watch() -> None:
    summary = summarize_answers_and_interruptions(probe_rounds(None, None, B))
    (interruption,) = summary["gaps"]
    assert (interruption["seconds"], interruption["before"], interruption["after"]) == (2.5, None, B)
    assert summarize_answers_and_interruptions([])["gaps"] == []


@contextmanager
def scripted_broker(greeting: threading.Event) -> Iterator[int]:
    """Yield a port that sends an OpenWire greeting while ``greeting`` is set, and otherwise closes connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        stop_requested = threading.Event()

        def serve() -> None:
            while not stop_requested.is_set():
                with suppress(OSError):
                    connection = server.accept()[0]
                    with connection:
                        if greeting.is_set():
                            connection.sendall(b"\0\0\0\x50\x01ActiveMQ" + bytes(67))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            stop_requested.set()
            thread.join()


def test_broker_watch_lasts_from_first_answer_to_first_answer_after_flag_file(tmp_path: Path) -> None:
    flag, greeting = tmp_path / "flag", threading.Event()
    summary: dict[str, object] = {}
    with scripted_broker(greeting) as port:
        address = f"nio://127.0.0.1:{port}"
        watching = threading.Thread(
            target=lambda: summary.update(watch_which_address_answers([address], None, 60, 0.01, 5.0, str(flag))),
            daemon=True,
        )
        watching.start()
        greeting.set()
        wait_for(flag.exists)
        greeting.clear()
        time.sleep(1)
        flag.unlink()
        time.sleep(0.3)
        assert watching.is_alive(), (
            "the watch ended during an interruption, before the first answer after the flag was removed"
        )
        greeting.set()
        watching.join(60)
    assert summary["spans"][-1]["address"] == address  # type: ignore[index]
    assert summary["gaps"][-1]["after"] == address  # type: ignore[index]
    assert summary["longest"] >= 0.5  # type: ignore[operator]


def wait_for(condition: Callable[[], object]) -> None:
    wait_until(condition, "the condition holds", pause=0.01)


def test_broker_watch_refuses_existing_flag_file_and_keeps_it(tmp_path: Path) -> None:
    flag, greeting = tmp_path / "flag", threading.Event()
    flag.touch()
    greeting.set()
    with scripted_broker(greeting) as port, pytest.raises(FileExistsError):
        watch_which_address_answers([f"nio://127.0.0.1:{port}"], None, 60, 0.01, 5.0, str(flag))
    assert flag.exists()


def test_broker_watch_without_flag_file_ends_after_its_duration() -> None:
    greeting = threading.Event()
    with scripted_broker(greeting) as port:
        watch_result = watch_which_address_answers([f"nio://127.0.0.1:{port}"], None, 0.2, 0.01, 5.0, None)
    assert watch_result["trips"] == 0
    assert watch_result["last"]


def test_broker_watch_without_first_answer_fails_with_last_answers(tmp_path: Path) -> None:
    flag, greeting = tmp_path / "flag", threading.Event()
    unknown = "nio://no-such-host.invalid:61616"
    with scripted_broker(greeting) as port, pytest.raises(NodeError) as caught:
        watch_which_address_answers(
            [f"nio://127.0.0.1:{port}", unknown], None, 60, 0.01, 0.1, str(flag), first_within=0.3
        )
    assert str(caught.value).startswith(
        "no node completed a round trip of a test message within 0.3 s (nio://127.0.0.1:"
    )
    assert f"; {unknown}: the host name no-such-host.invalid cannot be resolved" in str(caught.value)
    assert not flag.exists()


def test_broker_watch_masks_secrets_in_last_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    detail = "the broker rejects the STOMP frame CONNECT of the test connection: jdbc:oracle:thin:amq/Canary99@db1"
    answer = connector_probe.ProbeAnswer(False, None, detail)
    monkeypatch.setattr(connector_probe, "probe_connector", lambda *_unused, **_unused_options: answer)
    outcome = watch_which_address_answers(["stomp://127.0.0.1:1"], None, 0.01, 0.01, 0.01, None)
    assert "jdbc:oracle:thin:amq/" in outcome["last"]["stomp://127.0.0.1:1"]
    assert "Canary99" not in outcome["last"]["stomp://127.0.0.1:1"]


def test_broker_watch_with_first_answer_continues_after_time_of_first_within(tmp_path: Path) -> None:
    greeting = threading.Event()
    greeting.set()
    with scripted_broker(greeting) as port:
        watch_result = watch_which_address_answers(
            [f"nio://127.0.0.1:{port}"], None, 0.5, 0.01, 5.0, None, first_within=30
        )
    assert watch_result["trips"] > 0


@pytest.mark.parametrize("text", ["orders-mq01-a:1883", "mqtt://a", "mqtt://a:b", "mqtt://:1883", "mqtt://a:1883b"])
def test_broker_watch_rejects_invalid_address(text: str) -> None:
    with pytest.raises(NodeError, match="is not an address: write it like"):
        watch_which_address_answers([text], None, 1, 0.1, 1.0, None)
