"""The agent with all its parts against a small broker: delivery of events and messages, start and stop."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from activemq_agent.agent_errors import AgentError
from activemq_agent.client import Client, publish
from activemq_agent.config_values import Endpoint
from activemq_agent.service import Service
from activemq_agent.store import Store, outbox
from tests.situations import some_situations

from .logged import RecordedLog, make_config
from .service_runs import RunningAgent, accepts_connections, wait_until
from .tiny_broker import TinyBroker


def outbox_payloads(directory: Path) -> list[bytes]:
    """Return the payloads in the outbox of a stopped agent."""
    with Store.open(directory / "state", agent="agent-1") as store:
        return [event.payload for event in store.outgoing_events(100)]


def test_published_event_is_delivered_and_removed_from_outbox(start_agent: Callable[..., RunningAgent]) -> None:
    with TinyBroker() as broker:
        agent = start_agent(urls=(Endpoint("127.0.0.1", broker.port),))
        event_id = publish("a/b", b'{"n": 1}', socket=agent.socket)
        wait_until(lambda: any(topic == "a/b" for topic, _ in broker.published))
        (payload,) = (json.loads(body) for topic, body in broker.published if topic == "a/b")
        assert payload == {"eventId": event_id, "n": 1}
        wait_until(lambda: agent.status()["store"]["outbox_rows"] == 0)
        assert agent.stop() == 0


def test_message_on_subscribed_topic_starts_its_handler_program(
    start_agent: Callable[..., RunningAgent], tmp_path: Path, trusted_directory: Path
) -> None:
    program = trusted_directory / "handlers.d" / "Started"
    program.parent.mkdir(mode=0o755)
    program.write_text(f"#!/bin/sh\ncat >> {tmp_path}/seen\n")
    program.chmod(0o755)
    with TinyBroker() as broker:
        agent = start_agent(urls=(Endpoint("127.0.0.1", broker.port),), topics=("t/#",), handlers=program.parent)
        wait_until(lambda: agent.status()["subscriber"]["subscribed"] == ["t/#"])
        broker.send("t/Started", b'{"eventId": "e1"}')
        wait_until(lambda: agent.status()["handlers"]["handled"] == 1)
    assert json.loads((tmp_path / "seen").read_text())["event_id"] == "e1"


def test_agent_sends_all_events_of_outbox_before_it_stops(start_agent: Callable[..., RunningAgent]) -> None:
    with TinyBroker() as broker:
        agent = start_agent(urls=(Endpoint("127.0.0.1", broker.port),), drain_seconds=20)
        for number in range(50):
            publish("a/b", str(number), socket=agent.socket)
        assert agent.stop() == 0
        assert [body for topic, body in broker.published if topic == "a/b"] == [b"%d" % n for n in range(50)]
    assert outbox_payloads(agent.directory) == []


def test_unsent_event_stays_in_outbox_when_drain_time_of_stop_ends(start_agent: Callable[..., RunningAgent]) -> None:
    agent = start_agent(drain_seconds=0.5)  # no server listens
    publish("a/b", "kept", socket=agent.socket)
    assert agent.stop() == 0
    assert outbox_payloads(agent.directory)[0] == b"kept"
    assert (
        "the agent stops before it has sent all events and handled all messages. It sends and handles the rest after "
        "its next start" in agent.log.events("warning")
    )


def test_stop_does_not_wait_for_expired_events_that_stay_in_outbox(
    start_agent: Callable[..., RunningAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "_places_of_events_to_expire", lambda *_: [])  # no more can be kept separately
    agent = start_agent(drain_seconds=600)  # no server listens
    with Client(agent.socket) as client:
        client.publish("a/b", "kept", timeout=0.01)
    wait_until(lambda: agent.service.store.outgoing_events(1) == [])
    assert agent.stop() == 0
    with Store.open(agent.directory / "state", agent="agent-1") as store:
        assert store.row_and_byte_counts().outbox_rows == 1


def test_systemd_is_notified_of_ready_watchdog_and_stopping_in_this_order(
    start_agent: Callable[..., RunningAgent],
) -> None:
    with TinyBroker() as broker:
        agent = start_agent(urls=(Endpoint("127.0.0.1", broker.port),), drain_seconds=0)
        wait_until(lambda: agent.read_notifications().count("WATCHDOG=1") >= 3)
        agent.stop()
    notifications = [line for line in agent.notifications if not line.startswith("STATUS=")]
    assert (notifications[0], notifications[1], notifications[-1]) == ("READY=1", "WATCHDOG=1", "STOPPING=1")
    assert f"STATUS=connected to 127.0.0.1:{broker.port}" in agent.notifications


def test_systemd_is_not_notified_of_ready_before_subscription_if_configured(
    start_agent: Callable[..., RunningAgent],
) -> None:
    agent = start_agent(topics=("t/#",), ready="subscription", drain_seconds=0)  # no server listens
    wait_until(lambda: "WATCHDOG=1" in agent.read_notifications())
    time.sleep(1.5)
    assert "READY=1" not in agent.read_notifications()


@some_situations(1)
@pytest.mark.parametrize("part", ["publisher", "store", "handlers"])
def test_systemd_watchdog_is_not_notified_while_agent_thread_makes_no_progress(
    start_agent: Callable[..., RunningAgent], monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    agent = start_agent(drain_seconds=0)
    wait_until(lambda: "WATCHDOG=1" in agent.read_notifications())
    loop_starts = agent.service.last_loop_starts
    name = "storage" if part == "store" else part
    frozen_start = loop_starts()[name]
    monkeypatch.setattr(agent.service, "last_loop_starts", lambda: loop_starts() | {name: frozen_start})
    time.sleep(1.2)
    agent.read_notifications()
    notified = agent.notifications.count("WATCHDOG=1")
    time.sleep(2.0)
    assert agent.read_notifications().count("WATCHDOG=1") <= notified + 1
    assert any(event.startswith("threads of the agent make no progress") for event in agent.log.events("error"))


def test_agent_stops_with_error_if_publisher_loop_fails(
    start_agent: Callable[..., RunningAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = start_agent()

    def fail(*_: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(agent.service.publisher, "run_once", fail)
    agent.thread.join(60)
    assert agent.code == 1
    (fields,) = (fields for level, event, fields in agent.log.records if event.startswith("the agent stops, because"))
    assert fields == {"reason": "publisher: RuntimeError: planted"}


def test_agent_stops_with_error_if_handler_worker_fails(
    start_agent: Callable[..., RunningAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    with TinyBroker() as broker:
        agent = start_agent(urls=(Endpoint("127.0.0.1", broker.port),), topics=("t/#",))
        wait_until(lambda: agent.status()["subscriber"]["subscribed"])

        def fail(*_: object, **__: object) -> None:
            raise RuntimeError("planted")

        monkeypatch.setattr(agent.service.store, "pending_messages", fail)
        broker.send("t/E", b"{}")
        agent.thread.join(60)
    assert agent.code == 1
    assert any(
        level == "error"
        and event.startswith("a worker thread of the agent failed")
        and fields == {"part": "handler t/#", "reason": "RuntimeError: planted"}
        for level, event, fields in agent.log.records
    )


def test_agent_stops_with_error_if_writer_of_store_fails(start_agent: Callable[..., RunningAgent]) -> None:
    agent = start_agent()
    wait_until(lambda: "READY=1" in agent.read_notifications())
    agent.service.store._writer._queue.put("no job")  # type: ignore[arg-type]
    agent.thread.join(60)
    assert (agent.code, agent.error) == (1, None)
    assert "store: the writer thread ended" in str(agent.log.records)


def test_second_agent_with_same_state_directory_is_refused(start_agent: Callable[..., RunningAgent]) -> None:
    agent = start_agent(drain_seconds=0)
    second_agent = Service(make_config(agent.directory, state_directory=agent.directory / "state"), log=RecordedLog())
    with pytest.raises(AgentError, match="another agent"):
        second_agent.run()
    assert agent.status()["agent"] == "agent-1"


def test_agent_metrics_contain_samples_of_each_component(start_agent: Callable[..., RunningAgent]) -> None:
    port = next(port for port in range(23_000, 24_000) if _is_free(port))
    with TinyBroker() as broker:
        urls = (Endpoint("127.0.0.1", broker.port),)
        agent = start_agent(urls=urls, topics=("t/#",), metrics_address=Endpoint("127.0.0.1", port), drain_seconds=0)
        publish("a/b", "x", socket=agent.socket)
        wait_until(lambda: agent.status()["subscriber"]["subscribed"])
        broker.send("t/E", b"{}")
        wait_until(lambda: agent.status()["handlers"]["without_handler"] == 1)
        wait_until(lambda: agent.status()["publisher"]["acknowledged"] >= 1)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
            metrics_text = response.read().decode()
    samples = dict(line.rsplit(" ", 1) for line in metrics_text.splitlines() if not line.startswith("#"))
    prefix, url = "activemq_agent_", f"127.0.0.1:{broker.port}"
    assert samples[f'{prefix}active_broker{{broker="{url}",connection="publisher"}}'] == "1.0"
    assert samples[f'{prefix}active_broker{{broker="{url}",connection="subscriber"}}'] == "1.0"
    assert float(samples[f"{prefix}without_handler_total"]) == 1
    assert float(samples[f"{prefix}acknowledged_total"]) >= 1
    for name in ("outbox_events", "outbox_bytes", "outbox_oldest_age_seconds", "expired_events", "quarantined_events"):
        assert f"{prefix}{name}" in samples


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


class TestProcess:
    """Processes of the command, stopped by signals."""

    def start(self, directory: Path, *lines: str) -> subprocess.Popen[str]:
        path = directory / "agent.conf"
        configuration = "\n".join(["[agent]", "client.id = agent-1", f"state.directory = {directory}/state", *lines])
        path.write_text(f"{configuration}\n")
        process = subprocess.Popen(
            [sys.executable, "-m", "activemq_agent", "--config", str(path), "run"],
            stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": "src"},
        )  # fmt: skip
        wait_until(lambda: accepts_connections(directory / "state/agent.sock") or process.poll() is not None)
        return process

    def test_sigterm_stops_agent_with_status_0_and_keeps_events(self, tmp_path: Path) -> None:
        process = self.start(tmp_path, "mb.urls = 127.0.0.1:1", "drain.seconds = 0")
        event_id = publish("a/b", "kept", socket=tmp_path / "state/agent.sock")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0
        assert [json.loads(line)["event"] for line in errors.splitlines()][-1] == "stopped"
        assert not (tmp_path / "state/agent.sock").exists()
        with Store.open(tmp_path / "state", agent="agent-1") as store:
            assert store.outgoing_events(1)[0].event_id == event_id

    def test_second_sigterm_stops_agent_immediately(self, tmp_path: Path) -> None:
        process = self.start(tmp_path, "mb.urls = 127.0.0.1:1", "drain.seconds = 600")
        publish("a/b", "kept", socket=tmp_path / "state/agent.sock")
        process.send_signal(signal.SIGTERM)
        with Client(tmp_path / "state/agent.sock") as client:
            wait_until(lambda: client.status()["stopping"])
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGTERM
        assert outbox_payloads(tmp_path)[0] == b"kept"

    def test_stopped_agent_has_exported_all_journal_records(self, tmp_path: Path) -> None:
        process = self.start(tmp_path, "mb.urls = 127.0.0.1:1", "topics = a/#,b/E", "drain.seconds = 0")
        event_id = publish("a/b", "x", socket=tmp_path / "state/agent.sock")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        (path,) = (tmp_path / "state/agent").glob("*.jsonl")
        records = [json.loads(line) for line in path.read_text().splitlines()]
        assert [
            (record["kind"], record.get("filters")) for record in records if record["kind"] in ("started", "stopped")
        ] == [("started", ["a/#", "b/E"]), ("stopped", None)]
        assert event_id in [record.get("event_id") for record in records if record["kind"] == "accepted"]
        assert [record["jseq"] for record in records] == list(range(1, len(records) + 1))
