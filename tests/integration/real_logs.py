"""Logs of real brokers with known incidents, laid down as ``collect`` lays them down.

One set a release: a pair that is taken over twice with a bridge that follows, a master that is demoted,
refused credentials, duplex links on both ends, a store with a missing file, and pure master/slave where
the release has it. ``python -m tests.integration.real_logs DIR RELEASE…`` makes them outside of the tests.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from activemq_fleet.artifacts import java_executable
from activemq_fleet.errors import LabError
from activemq_fleet.lab.stomp import Credentials, StompConnection
from activemq_fleet.releases import Release
from tests.integration.database import Database
from tests.integration.planted import OPENWIRE, STOMP, Ground, Planted, document, link, until
from tests.stomp_clients import stomp_send

RELEASES = ("5.5.1", "5.7.0", "5.8.0", "5.11.4", "5.16.7", "5.17.6", "5.18.3", "6.3.1")
PATIENCE = 120.0
SILENT = "one link's name on both ends, and no broker complains"
ROLLED = "8KB"
"""Size at which the logs of a busy broker are rolled, so that what happened spans files."""

_ACCOUNTS = (
    "<plugins><simpleAuthenticationPlugin><users>"
    '<authenticationUser username="net" password="right" groups="net"/>'
    "</users></simpleAuthenticationPlugin></plugins>"
)
_LOOK = 1000  # milliseconds between two looks of a standby at the lock


@dataclass(frozen=True, slots=True)
class Incident:
    """What was done: ``kind`` as in the dataset, where it must be found, and when, from ``began`` to ``ended``."""

    kind: str
    hosts: tuple[str, ...]
    began: str
    ended: str
    note: str = ""


@dataclass(slots=True)
class Made:
    """The logs of a release so far."""

    ground: Ground
    release: Release
    incidents: list[Incident] = field(default_factory=list)
    hosts: dict[str, dict[str, str | None]] = field(default_factory=dict)
    _next: int = 0

    def address(self) -> int:
        """A loopback address that no broker has yet."""
        self._next += 1
        return self._next

    def plant(
        self, name: str, document: str, *, pair: str | None = None, store: str | None = None, **how: object
    ) -> Planted:
        """A broker of the release, and what its host.json will say."""
        self.hosts[name] = {"group": pair or name, "pair": pair, "store": store}
        return self.ground.plant(name, self.release.text, document, **how)  # type: ignore[arg-type]

    def note(self, kind: str, hosts: Sequence[str], began: datetime, note: str = "") -> None:
        """That this was done from ``began`` until now."""
        ended = datetime.now(UTC)
        self.incidents.append(Incident(kind, tuple(hosts), began.isoformat(), ended.isoformat(), note))


def record_logs(directory: Path, release: str, ground: Ground) -> Path:
    """Logs of this release below ``directory``, which is returned; ``planted.json`` says what was done."""
    made = Made(ground, Release.of(release))
    steps: list[Callable[[Made], None]] = [taken_over, demoted, refused, both_ends, missing_file]
    if made.release.has_pure_master_slave:
        steps.append(pure)
    for step in steps:
        step(made)
    _lay_down(made, directory)
    return directory


# -- what is done ------------------------------------------------------------------------------


def taken_over(made: Made) -> None:
    """A pair whose master is killed, then its successor stopped; a bridge over failover follows."""
    numbers = made.address(), made.address(), made.address()
    a, b = (
        made.plant(name, document(name, made.ground.address(number), _shared(made)), pair="pair", store=_store(made))
        for name, number in zip(("pair-a", "pair-b"), numbers, strict=False)
    )
    uris = ",".join(f"nio://{made.ground.address(number)}:{OPENWIRE}" for number in numbers[:2])
    attempts = made.release.bridge_reconnect_attempts
    over = link(f"static:(failover:({uris})?randomize=false&amp;maxReconnectAttempts={attempts})", duplex="true")
    edge = made.plant("edge", document("edge", made.ground.address(numbers[2]), over), log_size=ROLLED)
    _boot(a)
    b.launch()
    _boot(edge)
    assert b.wait_for_phase("waiting"), b.output
    assert until(lambda: _peers(edge) == ["pair-a"], PATIENCE), edge.output
    began = _killed(a)
    _take_over(made, b, edge, ["pair-b"], began, "the master was killed")
    a.launch()
    assert a.wait_for_phase("waiting"), a.output
    began = datetime.now(UTC)
    b.stop()
    _take_over(made, a, edge, ["pair-a"], began, "the master was stopped")
    _stop(edge, a)


def demoted(made: Made) -> None:
    """A master loses its lock and steps down: its lock file is gone, or somebody else has its lease."""
    database: Database | None = None
    directory = made.ground.layout.directory / "demoted-store"
    if made.release.lock_keepalive_checks_file:
        store = _keepalive(directory)
    elif made.release.has_adjustable_lease:
        database, store = Database(made.ground, made.address()), _LEASE
    else:
        return  # a lock that nobody looks at cannot be taken away
    a, b = (
        made.plant(
            name,
            document(
                name, made.ground.address(made.address()), store, beans=database.bean("store") if database else ""
            ),
            pair="demoted",
            store="demoted",
            jars=[database.driver] if database else [],
        )
        for name in ("demoted-a", "demoted-b")
    )
    _boot(a)
    b.launch()
    assert b.wait_for_phase("waiting"), b.output
    began = datetime.now(UTC)
    if database:
        _steal_lease(database)
    else:
        (directory / "lock").unlink()
    assert a.wait_for_output("o longer able to keep the exclusive lock"), a.output
    made.note("demotion", ["demoted-a"], began, "the lock was taken from its master")
    # Which of the two has it next is a race: the old master restarts itself and waits like the other.
    assert until(lambda: "started" in (b.run_state.phase, a.run_state.phase), PATIENCE), b.output
    if b.run_state.phase == "started":
        made.note("takeover", ["demoted-b"], began, "the standby of the demoted master")
    _stop(b, a)


def refused(made: Made) -> None:
    """Clients and a bridge log in with a wrong password."""
    number, other = made.address(), made.address()
    guarded = made.plant("guarded", document("guarded", made.ground.address(number), _ACCOUNTS))
    over = link(f"static:(nio://{made.ground.address(number)}:{OPENWIRE})", userName="net", password="wrong")
    intruder = made.plant("intruder", document("intruder", made.ground.address(other), over))
    _boot(guarded)
    began = datetime.now(UTC)
    for _ in range(3):
        with suppress(LabError, OSError):
            StompConnection((made.ground.address(number), STOMP), Credentials("net", "wrong"), timeout=5).close()
    _boot(intruder)
    assert guarded.wait_for_output("User name", times=2), guarded.output
    # The bridge's own log tells of it too. Where it does not name the other end, both logs' incidents are true.
    named = until(lambda: any(one in intruder.output for one in ("(guarded)", "bridge to guarded")), PATIENCE)
    hosts = ["guarded"] if named else ["guarded", "intruder"]
    made.note("refused_credentials", hosts, began, "three clients, and the bridge of intruder")
    _stop(intruder, guarded)


def both_ends(made: Made) -> None:
    """A duplex link of one name on both ends: each throws the other out."""
    addresses = made.ground.address(made.address()), made.ground.address(made.address())
    links = [link(f"static:(nio://{address}:{OPENWIRE})", duplex="true") for address in addresses]
    south = made.plant("south", document("south", addresses[0], links[1]), log_size=ROLLED)
    north = made.plant("north", document("north", addresses[1], links[0]), log_size=ROLLED)
    began = datetime.now(UTC)
    _boot(south, north)
    until(lambda: _complaints(made, "south", "north") >= 4, 20)
    are_up = _peers(north) == ["south"] * 2 or _peers(south) == ["north"] * 2
    _stop(north, south)
    if _complaints(made, "south", "north"):
        made.note("duplicate_bridge", ["south", "north"], began, "one link's name on both ends")
    elif are_up:  # seen on 5.5.1: nobody complains, and both stay
        made.note("duplicate_bridge", ["south", "north"], began, SILENT)


def missing_file(made: Made) -> None:
    """A store that lacks a file of its journal: the broker does not start."""
    number = made.address()
    directory = made.ground.layout.directory / "broken-store"
    store = f'<persistenceAdapter><kahaDB directory="{directory}" journalMaxFileLength="1mb"/></persistenceAdapter>'
    broken = made.plant("broken", document("broken", made.ground.address(number), store), store=str(directory))
    _boot(broken)
    stomp_send([(made.ground.address(number), STOMP)], "/queue/kept", ["x" * 200_000] * 12)
    broken.stop()
    (directory / "db-2.log").unlink()
    began = datetime.now(UTC)
    assert broken.boot().fate == "refused", broken.output
    made.note("store_error", ["broken"], began, "db-2.log is missing")


def pure(made: Made) -> None:
    """Pure master/slave: the slave promotes itself when its master is killed."""
    numbers = made.address(), made.address()
    master = made.plant("pure-a", document("pure-a", made.ground.address(numbers[0]), waitForSlave="true"), pair="pure")
    services = f'<services><masterConnector remoteURI="nio://{made.ground.address(numbers[0])}:{OPENWIRE}"/></services>'
    slave = made.plant("pure-b", document("pure-b", made.ground.address(numbers[1]), services), pair="pure")
    master.launch()
    assert master.wait_for_output("Listening for connections at: stomp"), master.output
    slave.launch()
    assert slave.wait_for_phase("attached"), slave.output
    began = _killed(master)
    assert until(lambda: slave.run_state.promoted, PATIENCE), slave.output
    made.note("takeover", ["pure-b"], began, "the pure master was killed")
    slave.kill()


# -- how ---------------------------------------------------------------------------------------

_LEASE = (
    '<persistenceAdapter><jdbcPersistenceAdapter dataSource="#store" lockKeepAlivePeriod="700">'
    '<locker><lease-database-locker lockAcquireSleepInterval="2000"/></locker>'
    "</jdbcPersistenceAdapter></persistenceAdapter>"
)


def _store(made: Made) -> str:
    return str(made.ground.layout.directory / "pair-store")


def _shared(made: Made) -> str:
    directory = _store(made)
    if not made.release.has_lockers:
        wait = f'databaseLockedWaitDelay="{_LOOK}"'
        return f'<persistenceAdapter><kahaDB directory="{directory}" {wait}/></persistenceAdapter>'
    locker = f'<locker><shared-file-locker lockAcquireSleepInterval="{_LOOK}"/></locker>'
    return f'<persistenceAdapter><kahaDB directory="{directory}">{locker}</kahaDB></persistenceAdapter>'


def _keepalive(directory: Path) -> str:
    return (
        f'<persistenceAdapter><kahaDB directory="{directory}" lockKeepAlivePeriod="500">'
        f'<locker><shared-file-locker lockAcquireSleepInterval="{_LOOK}"/></locker></kahaDB></persistenceAdapter>'
    )


def _steal_lease(database: Database) -> None:
    """Another name in the lock's row, whose lease has run out: the standby may have it."""
    statement = "UPDATE ACTIVEMQ_LOCK SET BROKER_NAME = 'somebody', TIME = 0 WHERE ID = 1"
    shell = [
        str(java_executable(11)),
        "-cp",
        str(database.driver),
        "org.h2.tools.Shell",
        "-url",
        database.url,
        "-user",
        "sa",
    ]
    subprocess.run([*shell, "-sql", statement], check=True, capture_output=True, timeout=180)


def _boot(*brokers: Planted) -> None:
    for broker in brokers:
        broker.launch()
    for broker in brokers:
        assert broker.settle(PATIENCE).fate == "started", broker.output


def _stop(*brokers: Planted) -> None:
    for broker in brokers:
        broker.stop()


def _killed(broker: Planted) -> datetime:
    began = datetime.now(UTC)
    broker.kill()
    return began


def _take_over(made: Made, node: Planted, edge: Planted, hosts: Sequence[str], began: datetime, note: str) -> None:
    assert node.wait_for_phase("started"), node.output
    made.note("takeover", hosts, began, note)
    if made.release.forgets_early_bridge_failures:
        until(lambda: _peers(edge) == [hosts[0]], 10)  # a bridge that failed as it started stays away for good
    else:
        assert until(lambda: _peers(edge) == [hosts[0]], PATIENCE), edge.output


def _peers(broker: Planted) -> list[str]:
    return [bridge.peer for bridge in broker.run_state.established_bridges]


def _complaints(made: Made, *names: str) -> int:
    logs = (path for name in names for path in (made.ground.layout.directory / name / "data").glob("activemq.log*"))
    return sum(path.read_text(errors="replace").count("already connected from") for path in logs)


def _lay_down(made: Made, directory: Path) -> None:
    zone = datetime.now().astimezone().strftime("%z")
    for name, about in made.hosts.items():
        place = directory / name
        place.mkdir(parents=True, exist_ok=True)
        for path in (made.ground.layout.directory / name / "data").glob("activemq.log*"):
            shutil.copy2(path, place)
        told = {"host": name, "timezone": f"{zone[:3]}:{zone[3:]}", "release": made.release.text, **about}
        (place / "host.json").write_text(json.dumps(told, indent=1))
    incidents = [asdict(incident) for incident in made.incidents]
    (directory / "planted.json").write_text(json.dumps(incidents, indent=1))


def main(directory: Path, releases: Sequence[str]) -> None:
    """Make the logs of these releases, each below a directory of its name."""
    for release in releases:
        began = time.monotonic()
        # What is left of a run that failed would be more incidents.
        shutil.rmtree(directory / f".ground-{release}", ignore_errors=True)
        with Ground(directory / f".ground-{release}") as ground:
            record_logs(directory / release, release, ground)
        shutil.rmtree(directory / f".ground-{release}")
        print(f"{release}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:] or RELEASES)
