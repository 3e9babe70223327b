"""Messages that a client with publish access sends to a running agent: the agent drops them and continues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from activemq_agent.client import publish
from activemq_agent.config_values import Endpoint
from activemq_agent.connection_events import MessageReceived

from .service_runs import RunningAgent, wait_until
from .tiny_broker import TinyBroker


def urls(broker: TinyBroker) -> tuple[Endpoint, ...]:
    return (Endpoint("127.0.0.1", broker.port),)


def canary(broker: TinyBroker, role: str) -> tuple[str, bytes]:
    """Return topic and payload of the last canary of a connection, as a subscribed client receives them."""
    topic = f"__canary__/agent-1-{role}"
    wait_until(lambda: any(name == topic for name, _ in broker.published))
    return next(message for message in reversed(broker.published) if message[0] == topic)


def drop_counts(agent: RunningAgent, role: str) -> dict[str, int]:
    counts: dict[str, int] = agent.status()[role]["dropped"]
    return counts


def assert_works(agent: RunningAgent, broker: TinyBroker, event: str) -> None:
    """Assert that the agent publishes and handles events on its first connections."""
    publish(f"a/{event}", b"{}", socket=agent.socket)
    wait_until(lambda: any(topic == f"a/{event}" for topic, _ in broker.published))
    wait_until(lambda: agent.status()["handlers"]["without_handler"] >= 1)
    status = agent.status()
    assert (status["publisher"]["connections"], status["subscriber"]["connections"]) == (1, 1)


@pytest.mark.parametrize("role", ["publisher", "subscriber"])
@pytest.mark.parametrize("qos", [0, 1])
def test_agent_drops_canaries_with_invalid_numbers_and_continues(
    start_agent: Callable[..., RunningAgent], role: str, qos: int
) -> None:
    with TinyBroker() as broker:
        agent = start_agent(urls=urls(broker), topics=("a/#",), drain_seconds=0)
        topic, payload = canary(broker, role)
        head = payload.rpartition(b":")[0]
        for number in (b"9" * 5000, "\u00b2".encode(), "\u0661".encode() * 30, b"-1", b""):
            broker.send(topic, head + b":" + number, qos)
        wait_until(lambda: drop_counts(agent, role).get("test message (canary) of another sender") == 5)
        assert_works(agent, broker, "After")


def test_agent_drops_forged_barriers_and_records_valid_ones_of_both_forms(
    start_agent: Callable[..., RunningAgent],
) -> None:
    valid_barrier = b'{"eventId": "other.example:e1:7"}'
    with TinyBroker() as broker:
        agent = start_agent(urls=urls(broker), topics=("a/#",), drain_seconds=0)
        wait_until(lambda: agent.status()["subscriber"]["subscribed"])
        for payload in (
            b"[" * 512,
            b"{" * 500,
            b'{"eventId": ' + b"9" * 400 + b"}",
            b"\xff" * 80,
            b"",
            valid_barrier.ljust(513),
        ):
            broker.send("a/__barrier__/other_example", payload)
        broker.send("a/__barrier__/mallory", valid_barrier)
        broker.send("a/__barrier__", b" " * (1 << 19) + valid_barrier)
        wait_until(lambda: drop_counts(agent, "subscriber").get("barrier (test message) of another sender") == 8)
        broker.send("a/__barrier__/other_example", valid_barrier)
        broker.send("a/__barrier__", valid_barrier)
        assert_works(agent, broker, "After")
        agent.stop()
    lines = "".join(path.read_text() for path in (agent.directory / "state/agent").glob("*.jsonl"))
    assert lines.count('"other.example:e1:7"') == 2


def test_agent_drops_messages_outside_its_subscriptions_and_continues(start_agent: Callable[..., RunningAgent]) -> None:
    with TinyBroker() as broker:
        agent = start_agent(urls=urls(broker), topics=("a/#",), drain_seconds=0)
        wait_until(lambda: agent.status()["subscriber"]["subscribed"])
        for topic in ("b/E", "/".join("b" * 30_000), "a", "__canary__/agent-1-subscriber/x"):
            broker.force(topic, b"x")
        # a/# matches a, and a canary is not an event.
        wait_until(lambda: sum(drop_counts(agent, "subscriber").values()) == 2)
        wait_until(lambda: sum(drop_counts(agent, "publisher").values()) == 4)
        assert_works(agent, broker, "After")


def test_exception_during_processing_of_message_drops_only_that_message(
    start_agent: Callable[..., RunningAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    with TinyBroker() as broker:
        agent = start_agent(urls=urls(broker), topics=("a/#",), drain_seconds=0)
        wait_until(lambda: agent.status()["subscriber"]["subscribed"])
        assert agent.service.subscriber is not None
        process_message = agent.service.subscriber._process_message

        def fail(message: MessageReceived) -> None:
            if message.payload == b"planted":
                raise RuntimeError(message.payload)
            process_message(message)

        monkeypatch.setattr(agent.service.subscriber, "_process_message", fail)
        for _ in range(100):
            broker.send("a/E", b"planted")
        wait_until(lambda: drop_counts(agent, "subscriber").get("RuntimeError") == 100)
        assert_works(agent, broker, "After")
    drop_records: list[dict[str, Any]] = [
        fields for _, event, fields in agent.log.records if event == "received data dropped"
    ]
    assert [fields["reason"] for fields in drop_records] == ["RuntimeError"]
