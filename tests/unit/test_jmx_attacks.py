"""Responses of a hostile JVM, which must not exhaust the time or the memory of the reader of its MBeans."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from activemq_fleet.node.probe import jmx
from activemq_fleet.node.probe.java_objects import HEADER, JavaObject, ObjectReader
from tests.situations import some_situations
from tests.unit import hostile_jvm
from tests.unit.attackers import BROKER, create_owned_directory, directory_for_all_accounts, requires_root
from tests.unit.hostile_jvm import (
    HostileJvm,
    attribute,
    blocks,
    cyclic_superclass,
    long_text,
    nested_lists,
    set_of_names,
)

TIMEOUT = 30.0
"""Time limit of the reader in seconds, in tests where a limit other than the deadline must stop the reader."""
HANG_SECONDS = 60.0
"""Seconds after which a read that hangs fails the test."""


def query_outcome(jvm: HostileJvm, timeout: float = TIMEOUT) -> object:
    """Return what a query of all MBeans and their attributes returns, or the JmxError that it raises."""
    outcomes: list[object] = []

    def run() -> None:
        try:
            server = jmx.MBeanServerConnection(jvm.url, timeout)
            outcomes.append([server.mbean_attributes(name, ["QueueSize"]) for name in server.mbean_names("o:*")])
        except Exception as error:  # noqa: BLE001 -- the test compares the type of the error
            outcomes.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(HANG_SECONDS)
    assert jvm.queries > 0, "the attack did not reach the reader"
    assert outcomes, "the query of the MBeans timed out"
    return outcomes[0]


NAME = set_of_names(b"o:type=Queue")


@pytest.mark.parametrize(
    ("jvm", "reason"),
    [
        pytest.param(lambda: HostileJvm(drips=True), "no complete answer within", id="one byte at a time"),
        pytest.param(
            lambda: HostileJvm(cyclic_superclass()),
            "cannot be decoded (invalid superclass)",
            id="class that is its own superclass",
        ),
        pytest.param(
            lambda: HostileJvm(set_of_names(*[b"o:type=Queue"] * 10), attribute(long_text(b"x" * (15 << 20)))),
            "more than",
            id="15 MiB in each of several responses",
        ),
    ],
)
def test_jmx_reader_raises_error_for_hostile_response(jvm: Callable[[], HostileJvm], reason: str) -> None:
    outcome = query_outcome(jvm(), 1.0 if "no complete answer" in reason else TIMEOUT)
    assert isinstance(outcome, jmx.JmxError)
    assert reason in str(outcome)


def test_nested_lists_of_jmx_response_are_not_expanded() -> None:
    assert query_outcome(HostileJvm(NAME, nested_lists(20))) == [{"QueueSize": [None] * 10}]


def seconds_for(work: Callable[[], object]) -> float:
    """Return the shortest CPU time of three runs in this thread, in seconds."""
    durations = []
    for _ in range(3):
        start_time = time.thread_time()
        work()
        durations.append(time.thread_time() - start_time)
    return min(durations)


def read_blocks(count: int) -> None:
    stream_bytes = memoryview(HEADER + blocks(count))
    position = 0

    def take(size: int) -> bytes:
        nonlocal position
        position += size
        return bytes(stream_bytes[position - size : position])

    java_object = ObjectReader(take).read_value()
    assert isinstance(java_object, JavaObject)
    assert java_object.added == [b"A" * 255 * count]


@pytest.mark.parametrize(
    ("work", "size"),
    [
        pytest.param(lambda size: jmx.object_name_properties("o:" + "a" * size), 4_000, id="name without a value"),
        pytest.param(lambda size: jmx.object_name_properties("o:" + 'a="' * size), 5_000, id="name of open quotes"),
        pytest.param(read_blocks, 1_000, id="data in small blocks"),
    ],
)
def test_time_to_read_jmx_response_is_not_quadratic_in_its_length(work: Callable[[int], object], size: int) -> None:
    # An earlier version took 16 times the time for four times the length.
    assert seconds_for(lambda: work(4 * size)) < 9 * max(seconds_for(lambda: work(size)), 1e-3)


@contextmanager
def hostile_broker(base: Path, attack: str, report: Path) -> Iterator[None]:
    """Run a process of the broker's account with a broker's command line, log and attach socket."""
    program = Path(hostile_jvm.__file__).read_text()
    argument = f"{attack},{report},{BROKER}"
    started = "Apache ActiveMQ 5.18.3 (x, ID:x-1) started | org.apache.activemq.broker.BrokerService | main"
    with (base / "data/activemq.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", program, argument, f"-Dactivemq.base={base}", "start"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')},000 | INFO  | {started}\n")
            log.flush()
            yield
        finally:
            process.kill()
            process.wait()
            Path(f"/tmp/.java_pid{process.pid}").unlink(missing_ok=True)  # noqa: S108


def attack_reached(report: Path) -> bool:
    """Return whether the JVM counted a query. The JVM writes the count to ``report`` ten times per second."""
    deadline = time.monotonic() + HANG_SECONDS
    while int(report.read_text()) == 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    return int(report.read_text()) > 0


GATHER = """
import encodings.idna, json, sys  # The child of another account may have no permission to read this Python.
from activemq_fleet.node.state.broker_status import gather_broker_status
status = gather_broker_status(sys.argv[1], None)
print(json.dumps([status["state"], status["usage"], status["usage_error"]]))
"""


@some_situations(1)
@requires_root
@pytest.mark.parametrize("attack", list(hostile_jvm.ATTACKS))
def test_status_of_broker_with_hostile_jvm_is_active_without_usage(attack: str) -> None:
    with directory_for_all_accounts() as directory:
        base = directory / "orders"
        (base / "versions/v/conf").mkdir(parents=True)
        (base / "versions/v/conf/activemq.xml").write_text("<beans><broker/></beans>")
        (base / "current").symlink_to("versions/v")
        create_owned_directory(base / "data")
        report = base / "data/queries"
        with hostile_broker(base, attack, report):
            gather = subprocess.Popen(
                [sys.executable, "-c", GATHER, str(base)], stdout=subprocess.PIPE, text=True, start_new_session=True
            )
            try:
                printed, _ = gather.communicate(timeout=HANG_SECONDS)
            except subprocess.TimeoutExpired:
                pytest.fail(f"the status query timed out: the JVM received {report.read_text()} queries")
            finally:
                if gather.poll() is None:
                    os.killpg(gather.pid, signal.SIGKILL)
            assert attack_reached(report), f"the attack did not reach the reader: {printed}"
    state, usage, error = json.loads(printed)
    assert (state, usage) == ("active", {})
    assert error or attack == "names"
