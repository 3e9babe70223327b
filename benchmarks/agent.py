"""The agent's durable outbox against plain paho: the same broker, window and payload, in the same run."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from activemq_agent.config import Config
from activemq_agent.config_values import Endpoint, Password
from activemq_agent.publishing import Publisher
from activemq_agent.store import Store
from activemq_fleet.addresses import Address
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.stomp import Credentials
from benchmarks.measure import BenchmarkError, print_progress
from tests.mqtt_clients import MqttSubscriber

WINDOWS = (20, 200)
REQUIRED_RATIO = {20: 0.5, 200: 0.75}
"""The required ratio of the agent's rate to the rate of plain paho, by window."""
EVENTS = int(os.environ.get("BENCH_EVENTS", "4000"))
ROUNDS = 4
SIZE = 256
TOPIC = "bench/status/Event"
TIMEOUT = 120.0


@dataclass(frozen=True, slots=True)
class Pace:
    """Events per second with a publisher window: the medians of both clients, and the median ratio of the rounds.

    ``stored``: the topic has a durable subscriber, so that the broker writes every event to its disk, as it does
    for agents. Without a durable subscriber, the broker acknowledges the event and drops it.
    """

    stored: bool
    window: int
    paho: float
    agent: float
    ratio: float

    @property
    def is_fast_enough(self) -> bool:
        return self.ratio >= REQUIRED_RATIO[self.window]


def fsync_rate(directory: Path, seconds: float = 1.0) -> float:
    """Return the number of writes of 4 KiB with an fdatasync that the disk completes per second."""
    path = directory / "fsync"
    block, count = os.urandom(4096), 0
    with path.open("wb", buffering=0) as file:
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            file.write(block)
            os.fdatasync(file.fileno())
            count += 1
        took = time.perf_counter() - began
    path.unlink()
    return count / took


def payloads() -> list[bytes]:
    """Return events as agents publish them: JSON objects of 256 bytes."""
    return [json.dumps({"number": n, "pad": "x" * SIZE}).encode()[: SIZE - 2] + b'"}' for n in range(EVENTS)]


def paho_rate(address: Address, credentials: Credentials | None, window: int) -> float:
    """Return the rate of plain paho with QoS 1, ``window`` unacknowledged messages and no outbox."""
    from paho.mqtt.client import Client, MQTTv311
    from paho.mqtt.enums import CallbackAPIVersion

    client = Client(CallbackAPIVersion.VERSION2, client_id="bench-paho", protocol=MQTTv311)
    if credentials:
        client.username_pw_set(credentials.username, credentials.password)
    client.max_inflight_messages_set(window)
    connected, done, count = threading.Event(), threading.Event(), itertools.count(1)
    room = threading.Semaphore(window)

    def on_publish(*_: Any) -> None:
        room.release()
        if next(count) == EVENTS:
            done.set()

    client.on_connect = lambda *_: connected.set()
    client.on_publish = on_publish
    client.connect(*address, keepalive=10)
    client.loop_start()
    try:
        if not connected.wait(TIMEOUT):
            raise BenchmarkError(f"paho did not connect to the broker within {TIMEOUT:g} s")
        events = payloads()
        began = time.perf_counter()
        for event in events:
            room.acquire()
            client.publish(TOPIC, event, 1)
        if not done.wait(TIMEOUT):
            raise BenchmarkError(f"the broker did not acknowledge all events of paho within {TIMEOUT:g} s")
        return EVENTS / (time.perf_counter() - began)
    finally:
        client.disconnect()
        client.loop_stop()


def agent_rate(address: Address, credentials: Credentials | None, window: int, directory: Path) -> float:
    """Return the rate of the agent, from the first accepted event until its durable outbox is empty."""
    shutil.rmtree(directory, ignore_errors=True)
    config = Config(
        urls=(Endpoint(*address),),
        client_id="bench-agent",
        publisher_window=window,
        state_directory=directory,
        username=credentials.username if credentials else None,
        password=Password(credentials.password) if credentials else None,
    )
    stop = threading.Event()
    with Store.open(directory, agent="bench-agent", limits=config.store_limits) as store:
        publisher = Publisher(config, store, log=structlog.get_logger())
        loop = threading.Thread(target=publisher.run, args=(stop,), daemon=True)
        loop.start()
        try:
            _await(lambda: publisher.link.broker is not None)
            store.accept_event(TOPIC, b"{}")  # the first event verifies the prefix, as in a running agent
            _await(lambda: store.row_and_byte_counts().outbox_rows == 0)
            events = payloads()
            began = time.perf_counter()
            _accept(store, events)
            _await(lambda: store.row_and_byte_counts().outbox_rows == 0)
            return EVENTS / (time.perf_counter() - began)
        finally:
            stop.set()
            loop.join(10)


def _accept(store: Store, events: list[bytes]) -> None:
    """Accept events as concurrent callers do: some wait for their event ID while others submit events."""
    waiting: list[Future[str]] = []
    for event in events:
        waiting.append(store.accept_event_later(TOPIC, event))
        if len(waiting) >= 100:
            waiting[0].result(TIMEOUT)
            waiting = [future for future in waiting if not future.done()]
    for future in waiting:
        future.result(TIMEOUT)


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > deadline:
            raise BenchmarkError(f"the agent did not connect, or did not empty its outbox, within {TIMEOUT:g} s")
        time.sleep(0.005)


def measure(work: Path) -> tuple[list[Pace], float]:
    """Measure paho and the agent alternately with each window on a 5.18.3 broker, and the disk's fdatasync rate."""
    inventory = work / "agent-inventory" / "hosts.yml"
    inventory.parent.mkdir(parents=True, exist_ok=True)
    login = {"activemq_network_username": "network", "activemq_network_password": "s3cret-network"}
    hosts: dict[str, dict[str, str]] = {f"bench-mq01-{node}.example.com": {} for node in "ab"}
    inventory.write_text(json.dumps({"all": {"hosts": hosts, "vars": {"activemq_release": "5.18.3", **login}}}))
    directory = work / "agent-lab"
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with Lab.open([inventory.parent], directory) as lab:
        lab.up(fresh=True)
        active = lab.wait_active("bench-mq01")
        (address,), broker_credentials = lab.addresses(active, "mqtt"), lab.credentials(active)
        paces = []
        for stored in (False, True):
            if stored:
                with MqttSubscriber([address], ["bench/#"], broker_credentials, client_id="bench-durable"):
                    pass  # the broker keeps the session of this subscriber
            paces += [_pace(address, broker_credentials, window, stored, work / "agent-state") for window in WINDOWS]
        return paces, fsync_rate(work)


def _pace(address: Address, credentials: Credentials | None, window: int, stored: bool, state: Path) -> Pace:
    """Measure all rounds with a window. The first round warms up the broker and the disk, and is discarded."""
    plain, durable = [], []
    for number in range(ROUNDS + 1):
        plain.append(paho_rate(address, credentials, window))
        durable.append(agent_rate(address, credentials, window, state))
        label = f"{'stored' if stored else 'not stored'}, window {window}, round {number}"
        print_progress(f"{label}: paho {plain[-1]:,.0f}/s, agent {durable[-1]:,.0f}/s")
    ratios = [agent_speed / paho_speed for agent_speed, paho_speed in zip(durable[1:], plain[1:], strict=True)]
    return Pace(stored, window, statistics.median(plain[1:]), statistics.median(durable[1:]), statistics.median(ratios))


def table(paces: list[Pace], fsyncs: float) -> str:
    """Return the figures as a Markdown table."""
    lines = [
        f"QoS 1, {SIZE} bytes, {EVENTS} events, broker 5.18.3 on loopback; the disk takes {fsyncs:,.0f} fdatasync/s.\n",
        "| broker stores events | window | plain paho, events/s | agent with its outbox, events/s | ratio | required |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {'yes' if pace.stored else 'no'} | {pace.window} | {pace.paho:,.0f} | {pace.agent:,.0f} | "
        f"{pace.ratio:.0%} | {REQUIRED_RATIO[pace.window]:.0%}{'' if pace.is_fast_enough else ', missed'} |"
        for pace in paces
    ]
    return "\n".join([*lines, ""])
