"""Tests of pairs with a lease in a real PostgreSQL: killed nodes, faults of the database, clock differences, freezes.

``SITUATIONS=all`` tests each release that has a lease, and each fault.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from activemq_fleet.errors import LabError
from activemq_fleet.lab.database import LabDatabase, postgresql_program_path
from activemq_fleet.lab.drill import DrillOptions, run_drill
from activemq_fleet.lab.lab import Lab
from tests.integration.conftest import LabOf
from tests.integration.labs import write_inventory
from tests.integration.waiting import PATIENCE, until
from tests.situations import further, in_every_situation
from tests.stomp_clients import stomp_drain
from tests.support.jdbc_pairs import (
    FAKETIME,
    LEASE,
    OUTAGE,
    PAIR,
    RATE,
    A,
    B,
    assert_disconnected_node_steps_down,
    assert_lease_holds,
    assert_no_event_lost,
    shift_clock_of_standby,
    under_load,
)

KILLS = int(os.environ.get("KILLS", "1"))


@pytest.fixture(autouse=True, scope="module")
def _has_postgresql() -> None:
    try:
        postgresql_program_path("initdb")
    except LabError as error:
        pytest.skip(str(error))


@pytest.fixture
def lab_on_database(tmp_path: Path, lab_of: LabOf) -> Callable[[str], Lab]:
    """Return a function that starts a lab of one pair; its lease is four seconds on releases that can set it."""

    def make(release: str) -> Lab:
        lab = lab_of(
            write_inventory(
                tmp_path / "inventory",
                [A, B],
                release=release,
                ha="shared-jdbc",
                jdbc={
                    "url": "jdbc:postgresql://database.example.com/orders?socketTimeout=5&connectTimeout=5",
                    "driver": "org.postgresql.Driver",
                    "jar": "/usr/share/java/postgresql.jar",
                    "username": "orders",
                    "password": "s3cret-orders",
                },
                users=[{"name": "app", "password": "s3cret-app", "groups": ["apps"]}],
                lock_acquire_interval=int(LEASE * 1000),
                lock_keepalive_interval=1000,
            )
        )
        lab.up()
        return lab

    return make


def database_of(lab: Lab) -> LabDatabase:
    assert lab.database is not None
    return lab.database


def restart_database(database: LabDatabase) -> None:
    database.stop()
    database.start()


def kill_database(database: LabDatabase) -> None:
    database.kill()
    database.start()


def stop_database_for_a_while(database: LabDatabase) -> None:
    database.stop()
    time.sleep(OUTAGE)
    database.start()


def freeze_database(database: LabDatabase) -> None:
    server = database.process()
    assert server is not None
    processes = [server, *server.children(recursive=True)]
    for process in processes:
        process.suspend()
    time.sleep(OUTAGE)
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.resume()


def refuse_connections(database: LabDatabase) -> None:
    database._run_sql("ALTER ROLE activemq CONNECTION LIMIT 0")
    database._run_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'activemq'")
    time.sleep(OUTAGE)
    database._run_sql("ALTER ROLE activemq CONNECTION LIMIT -1")


def end_sessions_repeatedly(database: LabDatabase) -> None:
    """End the sessions again and again, as a firewall that forgets connections does."""
    for _ in range(int(OUTAGE)):
        database._run_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'activemq'")
        time.sleep(1)


@pytest.mark.timeout(600 + 120 * KILLS)
@pytest.mark.parametrize("release", ["6.3.1", *further("5.7.0", "5.8.0", "5.11.4", "5.18.3")])
def test_pair_on_postgresql_loses_no_message_when_active_node_is_killed(
    lab_on_database: Callable[[str], Lab], release: str
) -> None:
    drill_result = run_drill(lab_on_database(release), DrillOptions(faults=KILLS, rate=RATE, seed=1, patience=300))

    assert drill_result.verdict == "clean", (drill_result.reasons, drill_result.faults, drill_result.accounts)
    # The lease must expire, and the standby tries to acquire it at the same interval. Then the store and the
    # connectors open.
    assert all(
        fault.takeover is not None and fault.takeover < 2 * LEASE + 7
        for fault in drill_result.faults_under_sufficient_load
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize("release", ["6.3.1", *further("5.7.0", "5.8.0", "5.11.4", "5.18.3")])
@pytest.mark.parametrize(
    "fault",
    further(
        restart_database,
        kill_database,
        stop_database_for_a_while,
        freeze_database,
        refuse_connections,
        end_sessions_repeatedly,
    ),
)
def test_pair_on_postgresql_loses_no_message_through_fault_of_database(
    lab_on_database: Callable[[str], Lab], tmp_path: Path, release: str, fault: Callable[[LabDatabase], None]
) -> None:
    lab = lab_on_database(release)
    with under_load(lab, tmp_path) as load:
        fault(database_of(lab))

    assert_no_event_lost(load)
    assert load.most_active == 1


@pytest.mark.timeout(600)
@pytest.mark.parametrize("release", further("6.3.1"))
def test_node_without_connection_to_postgresql_steps_down(
    lab_on_database: Callable[[str], Lab], tmp_path: Path, release: str
) -> None:
    """The sessions stay open at the database, and the last writes arrive there when the network is repaired."""
    lab = lab_on_database(release)
    assert_disconnected_node_steps_down(lab, database_of(lab).listening_address, tmp_path)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("release", further("6.3.1", "5.7.0", "5.8.0", "5.11.4", "5.18.3"))
def test_pair_on_postgresql_loses_no_message_when_disk_of_database_is_full(
    lab_on_database: Callable[[str], Lab], tmp_path: Path, release: str
) -> None:
    lab = lab_on_database(release)
    database = database_of(lab)
    lab.stop(A)
    lab.stop(B)
    database.stop()
    with small_disk(database.directory) as disk:
        lab.start(A)
        lab.start(B)
        with under_load(lab, tmp_path) as load:
            filler = disk / "filler"
            with suppress(OSError), filler.open("wb") as file:
                while True:
                    file.write(bytes(1 << 20))
                    file.flush()
            time.sleep(OUTAGE)
            filler.unlink()
            database.start()  # a database without room for its recovery has stopped
        lab.stop(A)
        lab.stop(B)
        database.stop()
    assert_no_event_lost(load)


@contextmanager
def small_disk(directory: Path) -> Iterator[Path]:
    """Mount a file system of 200 MB over a directory, and copy the content of the directory to it."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk: run this test as root")
    original = directory.with_name("kept")
    directory.rename(original)
    directory.mkdir(mode=0o700)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200m,mode=700", "tmpfs", directory], check=False)
    if mounted.returncode:
        pytest.skip(
            "this environment does not permit the mount of a small disk: run this test where mounts are permitted"
        )
    try:
        shutil.copytree(original, directory, dirs_exist_ok=True)
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


@in_every_situation
@pytest.mark.timeout(600)
@pytest.mark.parametrize("release", ["6.3.1", *further("5.8.0", "5.9.1", "5.11.4", "5.18.3")])
def test_frozen_node_that_resumes_after_end_of_its_database_lease_steps_down(
    lab_on_database: Callable[[str], Lab], tmp_path: Path, release: str
) -> None:
    """A client stays connected to the frozen node, and its messages wait in the socket until the node resumes."""
    lab = lab_on_database(release)
    frozen_node = lab.wait_active(PAIR)
    successor = B if frozen_node == A else A
    with connect_client(lab, frozen_node) as client:
        client.sendall(b"".join(map(encode_send_frame, range(20))))
        assert count_receipts(client, 20) == 20
        lab.pause(frozen_node)
        client.sendall(b"".join(map(encode_send_frame, range(20, 320))))
        lab.wait_state(successor, "active")
        with connect_client(lab, successor) as successor_client:
            successor_client.sendall(b"".join(map(encode_send_frame, range(1000, 1050))))
            assert count_receipts(successor_client, 50) == 50
        lab.resume(frozen_node)
        acknowledged = 20 + count_receipts(client, 300)
    until(lambda: lab.state(frozen_node) in ("standby", "stopped"), PATIENCE, "the resumed node steps down")

    bodies = stomp_drain(
        lab.addresses(successor, "stomp"), "/queue/T", lab.credentials(successor), expected=370, timeout=15
    )
    numbers = {int(body) for body in bodies}
    # 5.8 acknowledges messages after the freeze that the database has rejected (L032).
    acknowledged_before = 20 if release == "5.8.0" else acknowledged
    assert numbers >= {*range(acknowledged_before), *range(1000, 1050)}
    assert lab.state(successor) == "active"


@contextmanager
def connect_client(lab: Lab, host: str) -> Iterator[socket.socket]:
    credentials = lab.credentials(host)
    assert credentials is not None
    [address] = lab.addresses(host, "stomp")
    with socket.create_connection(address, 10) as client:
        client.sendall(
            f"CONNECT\naccept-version:1.1\nhost:x\nlogin:{credentials.username}\npasscode:{credentials.password}\n\n\0".encode()
        )
        assert client.recv(1000).startswith(b"CONNECTED")
        yield client


def encode_send_frame(number: int) -> bytes:
    return f"SEND\ndestination:/queue/T\npersistent:true\nreceipt:r{number}\n\n{number}\0".encode()


def count_receipts(client: socket.socket, expected: int) -> int:
    """Return how many of ``expected`` messages are acknowledged before the connection closes, or is idle for 10 s."""
    received = b""
    with suppress(OSError):
        while received.count(b"receipt-id:r") < expected and (received_bytes := client.recv(65536)):
            received += received_bytes
    return received.count(b"receipt-id:r")


@pytest.mark.timeout(600)
@pytest.mark.skipif(FAKETIME is None, reason="no libfaketime: Debian's package of this name shifts a clock")
@pytest.mark.parametrize("release", [*further("5.11.4", "5.18.3", "6.3.1")])
@pytest.mark.parametrize("shift", ["+40s", "-40s"])
def test_clock_difference_of_nodes_does_not_move_lease_in_postgresql(
    lab_on_database: Callable[[str], Lab], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, shift: str
) -> None:
    """The clock of the standby is 40 s off. The standby uses the clock of the database, and the lease holds."""
    shift_clock_of_standby(tmp_path, monkeypatch, shift)
    assert_lease_holds(lab_on_database(release))
