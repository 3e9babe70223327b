"""Tests of pairs with a lease in a real MariaDB: a killed node, a killed database, a disconnected node, clocks.

The database of a lab is PostgreSQL. Here, the pair of the lab uses a MariaDB that the test starts. All tests require
``SITUATIONS=all``.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.artifacts import _maven
from activemq_fleet.artifacts._cache import ensure_cached, log_software_fetch_progress
from activemq_fleet.lab import loopback_overlay
from activemq_fleet.lab.drill import DrillOptions, run_drill
from activemq_fleet.lab.lab import Lab
from tests.integration.conftest import LabOf
from tests.integration.labs import write_inventory
from tests.integration.waiting import PATIENCE, until
from tests.situations import further
from tests.support.jdbc_pairs import (
    FAKETIME,
    LEASE,
    RATE,
    A,
    B,
    assert_disconnected_node_steps_down,
    assert_lease_holds,
    assert_no_event_lost,
    shift_clock_of_standby,
    under_load,
)

_VERSION = "2.7.12"
_USER, _PASSWORD, _DATABASE = "orders", "s3cret-orders", "orders"
RELEASES = further("6.3.1", "5.18.3")


def driver() -> Path:
    """Return the jar of MariaDB's driver, from the cache."""

    def make(part: Path) -> None:
        part.mkdir()
        _maven.copy_artifact(f"org.mariadb.jdbc:mariadb-java-client:{_VERSION}", part)

    cached = ensure_cached(f"drivers/mariadb-{_VERSION}", make, progress=log_software_fetch_progress)
    return cached / f"mariadb-java-client-{_VERSION}.jar"


class MariaDb:
    """A MariaDB server on loopback, with one database and one account."""

    def __init__(self, directory: Path) -> None:
        self._data = directory / "mariadb"
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._port = listener.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        command = ["mariadb-install-db", "--no-defaults", f"--datadir={self._data}", "--user=root", "--skip-test-db"]
        subprocess.run(command, check=True, capture_output=True)
        self._init = directory / "init.sql"
        self._init.write_text(
            f"CREATE DATABASE IF NOT EXISTS {_DATABASE};\n"
            f"CREATE USER IF NOT EXISTS {_USER}@'%' IDENTIFIED BY '{_PASSWORD}';\n"
            f"GRANT ALL ON {_DATABASE}.* TO {_USER}@'%';\n"
        )

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", self._port)

    @property
    def settings(self) -> dict[str, Any]:
        """Return ``activemq_jdbc`` for this server."""
        return {
            "url": f"jdbc:mariadb://127.0.0.1:{self._port}/{_DATABASE}?socketTimeout=5000&connectTimeout=5000",
            "driver": "org.mariadb.jdbc.Driver",
            "jar": str(driver()),
            "username": _USER,
            "password": _PASSWORD,
        }

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        log = self._data / "console.log"
        options = [f"--datadir={self._data}", f"--socket={self._data.parent}/m.sock", f"--init-file={self._init}"]
        network = ["--bind-address=127.0.0.1", f"--port={self._port}", "--user=root", "--skip-name-resolve"]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                ["mariadbd", "--no-defaults", *options, *network], stdout=output, stderr=output
            )
        until(lambda: "ready for connections" in log.read_text(errors="replace"), PATIENCE, log.read_text)
        log.unlink()

    def stop(self, termination: signal.Signals) -> None:
        """Stop the server by a signal: SIGTERM shuts it down in order, SIGKILL kills it."""
        assert self._process is not None
        self._process.send_signal(termination)
        self._process.wait(60)


@pytest.fixture
def mariadb(tmp_path: Path) -> Iterator[MariaDb]:
    if not shutil.which("mariadbd"):
        pytest.skip("no mariadbd: SITUATIONS=all scripts/setup.sh --database installs Debian's package mariadb-server")
    server = MariaDb(tmp_path)
    server.start()
    yield server
    server.stop(signal.SIGKILL)


@pytest.fixture
def shifted_clock(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shift the clock of node B of a lab that starts after this fixture."""
    shift_clock_of_standby(tmp_path, monkeypatch, request.param)


@pytest.fixture
def lab(
    request: pytest.FixtureRequest, tmp_path: Path, lab_of: LabOf, mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> Lab:
    """Start a pair on the MariaDB, with a lease of four seconds."""
    monkeypatch.setattr(loopback_overlay, "_jdbc_variables", lambda _broker, _jdbc, _state: mariadb.settings)
    lab = lab_of(
        write_inventory(
            tmp_path / "inventory",
            [A, B],
            release=request.param,
            ha="shared-jdbc",
            jdbc=mariadb.settings,
            users=[{"name": "app", "password": "s3cret-app", "groups": ["apps"]}],
            lock_acquire_interval=int(LEASE * 1000),
            lock_keepalive_interval=1000,
        )
    )
    lab.up()
    return lab


@pytest.mark.timeout(600)
@pytest.mark.parametrize("lab", RELEASES, indirect=True)
def test_pair_on_mariadb_loses_no_message_when_active_node_is_killed(lab: Lab) -> None:
    drill_result = run_drill(lab, DrillOptions(faults=2, rate=RATE, seed=1, patience=300))

    print(drill_result.event_counts_of_all_pairs, [fault.takeover for fault in drill_result.faults])
    assert drill_result.verdict == "clean", (drill_result.reasons, drill_result.faults, drill_result.accounts)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("lab", RELEASES, indirect=True)
@pytest.mark.parametrize("termination", [signal.SIGTERM, signal.SIGKILL])
def test_pair_on_mariadb_loses_no_message_when_database_stops_and_starts(
    lab: Lab, mariadb: MariaDb, tmp_path: Path, termination: signal.Signals
) -> None:
    with under_load(lab, tmp_path) as load:
        mariadb.stop(termination)
        mariadb.start()

    print(load.account)
    assert_no_event_lost(load)
    assert load.most_active == 1


@pytest.mark.timeout(600)
@pytest.mark.parametrize("lab", RELEASES, indirect=True)
def test_node_without_connection_to_mariadb_steps_down(lab: Lab, mariadb: MariaDb, tmp_path: Path) -> None:
    assert_disconnected_node_steps_down(lab, mariadb.address, tmp_path)


@pytest.mark.timeout(600)
@pytest.mark.skipif(FAKETIME is None, reason="no libfaketime: Debian's package of this name shifts a clock")
@pytest.mark.usefixtures("shifted_clock")
@pytest.mark.parametrize("shifted_clock", ["+40s", "-40s"], indirect=True)
@pytest.mark.parametrize("lab", RELEASES, indirect=True)
def test_clock_difference_of_nodes_does_not_move_lease_in_mariadb(lab: Lab) -> None:
    assert_lease_holds(lab)
