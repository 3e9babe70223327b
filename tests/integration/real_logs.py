"""Logs of real brokers with known incidents, in the layout of ``collect``.

The logs of a release contain a pair with two takeovers and a bridge that follows, a master that is demoted, refused
credentials, a duplex link that both ends define, a store with a missing file, and pure master/slave if the release has
it. ``python -m tests.integration.real_logs DIR RELEASE…`` records them outside the tests.
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
from tests.integration.single_brokers import OPENWIRE, STOMP, BrokerSandbox, SandboxBroker, document, link, until
from tests.stomp_clients import stomp_send

RELEASES = ("5.5.1", "5.7.0", "5.8.0", "5.11.4", "5.16.7", "5.17.6", "5.18.3", "6.3.1")
PATIENCE = 120.0
SILENT = "one link's name on both ends, and no broker reports an error"
ROLLED = "8KB"
"""Size at which the logs of a busy broker are rolled, so that its incidents span several files."""

_ACCOUNTS = (
    "<plugins><simpleAuthenticationPlugin><users>"
    '<authenticationUser username="net" password="right" groups="net"/>'
    "</users></simpleAuthenticationPlugin></plugins>"
)
_LOCK_POLL = 1000  # milliseconds between two attempts of a standby to acquire the lock


@dataclass(frozen=True, slots=True)
class Incident:
    """A caused incident: ``kind`` as in the dataset, hosts that must report it, and times ``began`` and ``ended``."""

    kind: str
    hosts: tuple[str, ...]
    began: str
    ended: str
    note: str = ""


@dataclass(slots=True)
class Recording:
    """The brokers and incidents of a release so far."""

    sandbox: BrokerSandbox
    release: Release
    incidents: list[Incident] = field(default_factory=list)
    hosts: dict[str, dict[str, str | None]] = field(default_factory=dict)
    _next: int = 0

    def next_address(self) -> int:
        """Return the number of a loopback address that no broker has."""
        self._next += 1
        return self._next

    def add_broker(
        self, name: str, document: str, *, pair: str | None = None, store: str | None = None, **options: object
    ) -> SandboxBroker:
        """Return a broker of the release; record the content of its host.json."""
        self.hosts[name] = {"group": pair or name, "pair": pair, "store": store}
        return self.sandbox.add_broker(name, self.release.text, document, **options)  # type: ignore[arg-type]

    def note(self, kind: str, hosts: Sequence[str], began: datetime, note: str = "") -> None:
        """Record an incident that lasted from ``began`` until now."""
        ended = datetime.now(UTC)
        self.incidents.append(Incident(kind, tuple(hosts), began.isoformat(), ended.isoformat(), note))


def record_logs(directory: Path, release: str, sandbox: BrokerSandbox) -> Path:
    """Record the logs of a release and ``incidents.json``, its incidents, in ``directory``; return ``directory``."""
    logs = Recording(sandbox, Release.of(release))
    steps: list[Callable[[Recording], None]] = [
        take_over_twice,
        demote,
        refuse_credentials,
        link_both_ends,
        remove_store_file,
    ]
    if logs.release.has_pure_master_slave:
        steps.append(kill_pure_master)
    for step in steps:
        step(logs)
    _write_logs(logs, directory)
    return directory


# -- incidents ------------------------------------------------------------------------------


def take_over_twice(logs: Recording) -> None:
    """Kill the master of a pair, then stop its successor; a bridge over failover follows."""
    numbers = logs.next_address(), logs.next_address(), logs.next_address()
    a, b = (
        logs.add_broker(
            name,
            document(name, logs.sandbox.address(number), _shared_store(logs)),
            pair="pair",
            store=_store_directory(logs),
        )
        for name, number in zip(("pair-a", "pair-b"), numbers, strict=False)
    )
    uris = ",".join(f"nio://{logs.sandbox.address(number)}:{OPENWIRE}" for number in numbers[:2])
    attempts = logs.release.bridge_reconnect_attempts
    over = link(f"static:(failover:({uris})?randomize=false&amp;maxReconnectAttempts={attempts})", duplex="true")
    edge = logs.add_broker("edge", document("edge", logs.sandbox.address(numbers[2]), over), log_size=ROLLED)
    _boot(a)
    b.launch()
    _boot(edge)
    assert b.wait_for_phase("waiting"), b.output
    assert until(lambda: _peers(edge) == ["pair-a"], PATIENCE), edge.output
    began = _kill(a)
    _take_over(logs, b, edge, ["pair-b"], began, "the master was killed")
    a.launch()
    assert a.wait_for_phase("waiting"), a.output
    began = datetime.now(UTC)
    b.stop()
    _take_over(logs, a, edge, ["pair-a"], began, "the master was stopped")
    _stop(edge, a)


def demote(logs: Recording) -> None:
    """Take the lock from a master: remove its lock file, or give its lease to another name."""
    database: Database | None = None
    directory = logs.sandbox.lab_paths.directory / "demoted-store"
    if logs.release.lock_keepalive_checks_file:
        store = _store_with_keepalive(directory)
    elif logs.release.has_adjustable_lease:
        database, store = Database(logs.sandbox, logs.next_address()), _LEASE
    else:
        return  # a broker that does not check its lock does not notice its loss
    a, b = (
        logs.add_broker(
            name,
            document(
                name, logs.sandbox.address(logs.next_address()), store, beans=database.bean("store") if database else ""
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
    logs.note("demotion", ["demoted-a"], began, "the lock was taken from its master")
    # The next holder is a race: the old master restarts itself and waits like the standby.
    assert until(lambda: "started" in (b.run_state.phase, a.run_state.phase), PATIENCE), b.output
    if b.run_state.phase == "started":
        logs.note("takeover", ["demoted-b"], began, "the standby of the demoted master")
    _stop(b, a)


def refuse_credentials(logs: Recording) -> None:
    """Let clients and a bridge log in with a wrong password."""
    number, other_number = logs.next_address(), logs.next_address()
    guarded = logs.add_broker("guarded", document("guarded", logs.sandbox.address(number), _ACCOUNTS))
    over = link(f"static:(nio://{logs.sandbox.address(number)}:{OPENWIRE})", userName="net", password="wrong")
    intruder = logs.add_broker("intruder", document("intruder", logs.sandbox.address(other_number), over))
    _boot(guarded)
    began = datetime.now(UTC)
    for _ in range(3):
        with suppress(LabError, OSError):
            StompConnection((logs.sandbox.address(number), STOMP), Credentials("net", "wrong"), timeout=5).close()
    _boot(intruder)
    assert guarded.wait_for_output("User name", times=2), guarded.output
    # The log of the bridge also reports the refusal. If it does not name the other end, an incident of either is right.
    named = until(lambda: any(name in intruder.output for name in ("(guarded)", "bridge to guarded")), PATIENCE)
    hosts = ["guarded"] if named else ["guarded", "intruder"]
    logs.note("refused_credentials", hosts, began, "three clients, and the bridge of intruder")
    _stop(intruder, guarded)


def link_both_ends(logs: Recording) -> None:
    """Define a duplex link with one name on both ends: each broker closes the link of the other."""
    addresses = logs.sandbox.address(logs.next_address()), logs.sandbox.address(logs.next_address())
    links = [link(f"static:(nio://{address}:{OPENWIRE})", duplex="true") for address in addresses]
    south = logs.add_broker("south", document("south", addresses[0], links[1]), log_size=ROLLED)
    north = logs.add_broker("north", document("north", addresses[1], links[0]), log_size=ROLLED)
    began = datetime.now(UTC)
    _boot(south, north)
    until(lambda: _count_duplicates(logs, "south", "north") >= 4, 20)
    are_up = _peers(north) == ["south"] * 2 or _peers(south) == ["north"] * 2
    _stop(north, south)
    if _count_duplicates(logs, "south", "north"):
        logs.note("duplicate_bridge", ["south", "north"], began, "one link's name on both ends")
    elif are_up:  # seen on 5.5.1: no broker reports an error, and both links stay
        logs.note("duplicate_bridge", ["south", "north"], began, SILENT)


def remove_store_file(logs: Recording) -> None:
    """Remove a file of the store journal: the broker does not start."""
    number = logs.next_address()
    directory = logs.sandbox.lab_paths.directory / "broken-store"
    store = f'<persistenceAdapter><kahaDB directory="{directory}" journalMaxFileLength="1mb"/></persistenceAdapter>'
    broken = logs.add_broker("broken", document("broken", logs.sandbox.address(number), store), store=str(directory))
    _boot(broken)
    stomp_send([(logs.sandbox.address(number), STOMP)], "/queue/kept", ["x" * 200_000] * 12)
    broken.stop()
    (directory / "db-2.log").unlink()
    began = datetime.now(UTC)
    assert broken.boot().fate == "refused", broken.output
    logs.note("store_error", ["broken"], began, "db-2.log is missing")


def kill_pure_master(logs: Recording) -> None:
    """Kill a pure master: its slave promotes itself."""
    numbers = logs.next_address(), logs.next_address()
    master = logs.add_broker(
        "pure-a", document("pure-a", logs.sandbox.address(numbers[0]), waitForSlave="true"), pair="pure"
    )
    services = (
        f'<services><masterConnector remoteURI="nio://{logs.sandbox.address(numbers[0])}:{OPENWIRE}"/></services>'
    )
    slave = logs.add_broker("pure-b", document("pure-b", logs.sandbox.address(numbers[1]), services), pair="pure")
    master.launch()
    assert master.wait_for_output("Listening for connections at: stomp"), master.output
    slave.launch()
    assert slave.wait_for_phase("attached"), slave.output
    began = _kill(master)
    assert until(lambda: slave.run_state.promoted, PATIENCE), slave.output
    logs.note("takeover", ["pure-b"], began, "the pure master was killed")
    slave.kill()


# -- helpers ---------------------------------------------------------------------------------------

_LEASE = (
    '<persistenceAdapter><jdbcPersistenceAdapter dataSource="#store" lockKeepAlivePeriod="700">'
    '<locker><lease-database-locker lockAcquireSleepInterval="2000"/></locker>'
    "</jdbcPersistenceAdapter></persistenceAdapter>"
)


def _store_directory(logs: Recording) -> str:
    return str(logs.sandbox.lab_paths.directory / "pair-store")


def _shared_store(logs: Recording) -> str:
    directory = _store_directory(logs)
    if not logs.release.has_lockers:
        wait = f'databaseLockedWaitDelay="{_LOCK_POLL}"'
        return f'<persistenceAdapter><kahaDB directory="{directory}" {wait}/></persistenceAdapter>'
    locker = f'<locker><shared-file-locker lockAcquireSleepInterval="{_LOCK_POLL}"/></locker>'
    return f'<persistenceAdapter><kahaDB directory="{directory}">{locker}</kahaDB></persistenceAdapter>'


def _store_with_keepalive(directory: Path) -> str:
    return (
        f'<persistenceAdapter><kahaDB directory="{directory}" lockKeepAlivePeriod="500">'
        f'<locker><shared-file-locker lockAcquireSleepInterval="{_LOCK_POLL}"/></locker></kahaDB></persistenceAdapter>'
    )


def _steal_lease(database: Database) -> None:
    """Write another name and an expired lease into the row of the lock, so that the standby may acquire it."""
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


def _boot(*brokers: SandboxBroker) -> None:
    for broker in brokers:
        broker.launch()
    for broker in brokers:
        assert broker.settle(PATIENCE).fate == "started", broker.output


def _stop(*brokers: SandboxBroker) -> None:
    for broker in brokers:
        broker.stop()


def _kill(broker: SandboxBroker) -> datetime:
    began = datetime.now(UTC)
    broker.kill()
    return began


def _take_over(
    logs: Recording, node: SandboxBroker, edge: SandboxBroker, hosts: Sequence[str], began: datetime, note: str
) -> None:
    assert node.wait_for_phase("started"), node.output
    logs.note("takeover", hosts, began, note)
    if logs.release.forgets_early_bridge_failures:
        until(lambda: _peers(edge) == [hosts[0]], 10)  # a bridge that failed during its start never returns
    else:
        assert until(lambda: _peers(edge) == [hosts[0]], PATIENCE), edge.output


def _peers(broker: SandboxBroker) -> list[str]:
    return [bridge.peer for bridge in broker.run_state.currently_established_bridges]


def _count_duplicates(logs: Recording, *names: str) -> int:
    files = (
        path for name in names for path in (logs.sandbox.lab_paths.directory / name / "data").glob("activemq.log*")
    )
    return sum(path.read_text(errors="replace").count("already connected from") for path in files)


def _write_logs(logs: Recording, directory: Path) -> None:
    zone = datetime.now().astimezone().strftime("%z")
    for name, facts in logs.hosts.items():
        host_directory = directory / name
        host_directory.mkdir(parents=True, exist_ok=True)
        for path in (logs.sandbox.lab_paths.directory / name / "data").glob("activemq.log*"):
            shutil.copy2(path, host_directory)
        host_facts = {"host": name, "timezone": f"{zone[:3]}:{zone[3:]}", "release": logs.release.text, **facts}
        (host_directory / "host.json").write_text(json.dumps(host_facts, indent=1))
    incidents = [asdict(incident) for incident in logs.incidents]
    (directory / "incidents.json").write_text(json.dumps(incidents, indent=1))


def main(directory: Path, releases: Sequence[str]) -> None:
    """Record the logs of releases, each in a directory with its name."""
    for release in releases:
        began = time.monotonic()
        # Files of a failed run would add incidents.
        shutil.rmtree(directory / f".sandbox-{release}", ignore_errors=True)
        with BrokerSandbox(directory / f".sandbox-{release}") as sandbox:
            record_logs(directory / release, release, sandbox)
        shutil.rmtree(directory / f".sandbox-{release}")
        print(f"{release}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:] or RELEASES)
