"""Agents that publish and handle events for as long as a scenario lasts, and what became of every event.

    start DIR --rack STATE --username U --password P PAIR=ADDRESS,ADDRESS...
    begin DIR NAME          wait until all pairs are under load: what is done next begins
    end DIR NAME            events flow again; how often they did not since ``begin``
    settle DIR              end it: nothing lost, by the journals
    stop DIR                end it, whatever comes of it

Each prints one JSON object, and says in one line on stderr what is wrong (exit 1). Only a loss and
too many gaps are wrong: a machine that is too slow for the rate is waited for, and then told. Where a wait ran
out, or the load ended by itself, nothing is known of the events (exit 4).

A gap is a time without a connection: from the first of a pair's two agents that lost its own until
both have one again.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from activemq_fleet.drills.accounting import count_event_outcomes
from activemq_fleet.lab.agent_load_generator import TwoAgentLoadSpec
from activemq_fleet.lab.drill_files import read_agent_journal
from activemq_fleet.lab.load_process import specs_to_json
from tests.hosts.machines import Rack

RATE = 60.0
"""Events a second and pair that are handed over."""
LOWEST = 25.0
"""Of them, what must flow for a fault to prove anything: with two pairs 50 a second."""
MOST_GAPS = 2
PATIENCE = 240.0
# A busy machine must not look like a broker that hangs.
_CALM = {
    "connecting.canary.interval": "15",
    "connecting.canary.timeout": "15",
    "connecting.canary.misses": "6",
    "connecting.keepalive": "60",
    "connecting.connack.timeout": "20",
}
_LONGEST = 3600


WRONG, LATE = 1, 4
"""Exit codes: for what became of events, and for what has not come in time and proves nothing either way."""


class LoadError(Exception):
    """What is wrong, in one line."""

    code = WRONG


class LateLoadError(LoadError):
    """What has not come in time, or could not go on."""

    code = LATE


def start(options: argparse.Namespace) -> dict[str, Any]:
    """Start the load generators, detached, inside the machines' network."""
    options.directory.mkdir(parents=True)
    pairs = dict(pair.split("=", 1) for pair in options.words)
    specs = [_spec(pair, addresses, options) for pair, addresses in pairs.items()]
    descriptor = os.open(options.directory / "load.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(specs_to_json(specs))
    (options.directory / "pairs").write_text("\n".join(pairs))
    owner = [os.environ["FLEET_RACK_OWNER"]] if os.environ.get("FLEET_RACK_OWNER") else []
    command = [sys.executable, "-m", "activemq_fleet.lab.load_process", str(options.directory), str(_LONGEST), *owner]
    with (options.directory / "output").open("ab") as output:
        process = subprocess.Popen(
            Rack(options.rack).lan.inside(*command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    (options.directory / "pid").write_text(str(process.pid))
    _wait(options.directory, "ready", lambda: (options.directory / "ready").exists())
    return {"pairs": list(pairs)}


def _spec(pair: str, addresses: str, options: argparse.Namespace) -> TwoAgentLoadSpec:
    def keys(role: str) -> dict[str, str]:
        return {
            "mb.urls": ",".join(f"{address}:1883" for address in addresses.split(",")),
            "mb.username": options.username,
            "mb.password": options.password,
            "client.id": f"load-{pair}-{role}",
            **_CALM,
        }

    topic = f"load/{pair}"
    return TwoAgentLoadSpec(
        name=pair,
        topic=f"{topic}/LoadEvent",
        filters=(f"{topic}/#",),
        rate=RATE,
        publisher=keys("publisher"),
        subscriber=keys("subscriber"),
    )


def begin(options: argparse.Namespace) -> dict[str, Any]:
    """Wait until every pair's agents are settled and fast enough, and note the time."""
    name, where = options.words[0], options.directory
    deadline = time.monotonic() + PATIENCE
    while not _is_under_load(status := _status(where)) and time.monotonic() < deadline:
        _check(where)
        time.sleep(0.5)
    void = not _is_under_load(status)
    noted = {"at": time.time(), "void": void, "rates": {pair: said["handled"] for pair, said in status.items()}}
    (where / f"begun-{name}").write_text(json.dumps(noted))
    if void:
        print(f"VOID: {name} proves little, {noted['rates']} events a second flow", file=sys.stderr)
    return noted


def _is_under_load(status: dict[str, Any]) -> bool:
    return bool(status) and all(
        said["steady"] and min(said["accepted"], said["handled"]) >= LOWEST for said in status.values()
    )


def end(options: argparse.Namespace) -> dict[str, Any]:
    """Wait until events are handled after now; count the gaps since ``begin``."""
    name, where = options.words[0], options.directory
    begun = json.loads((where / f"begun-{name}").read_text())
    now = time.time()
    _wait(where, "events are handled", lambda: all(s["last"] > now for s in _status(where).values()))
    found = {pair: gaps(where / pair, begun["at"]) for pair in _pairs(where)}
    result = {
        "gaps": {pair: [round(seconds, 2) for _, seconds in lost] for pair, lost in found.items()},
        "seconds": round(now - begun["at"], 1),
        "void": begun["void"],
    }
    many = {pair: seconds for pair, seconds in result["gaps"].items() if len(seconds) > MOST_GAPS}
    if many:
        raise LoadError(f"{name}: more than {MOST_GAPS} gaps: {many}")
    return result


def gaps(pair: Path, since: float) -> list[tuple[float, float]]:
    """Times without a connection of either of a pair's two agents, by their journals: begin and seconds."""
    outages: list[tuple[float, float]] = []
    for role in ("publisher", "subscriber"):
        lost: float | None = None
        for kind, at in _connections(pair / role):
            if kind == "connection_lost" and at >= since:
                lost = lost or at
            elif kind == "connected" and lost is not None:
                outages.append((lost, at))
                lost = None
    return merged(outages)


def _connections(agent: Path) -> Iterator[tuple[str, float]]:
    """When an agent got and lost its connections, in order."""
    for path in sorted((agent / "agent").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            if line.endswith("}") and "connect" in line:
                record = json.loads(line)
                yield record["kind"], datetime.fromisoformat(record["ts"]).timestamp()


def merged(outages: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Outages that overlap, or nearly, as one: begin and seconds."""
    found: list[list[float]] = []
    for began, ended in sorted(outages):
        if found and began <= found[-1][1] + 1:
            found[-1][1] = max(found[-1][1], ended)
        else:
            found.append([began, ended])
    return [(began, ended - began) for began, ended in found]


def settle(options: argparse.Namespace) -> dict[str, Any]:
    """End the load and settle every event; a loss is wrong, and so is one that was handled twice."""
    where = options.directory
    (where / "stop").touch()
    _wait(where, "the load ends", lambda: (where / "done").exists(), 600)
    accounts = []
    for pair in _pairs(where):
        publisher, subscriber = (read_agent_journal(where / pair / role, role) for role in ("publisher", "subscriber"))
        promised = [line.partition(" ")[2] for line in (where / pair / "promised").read_text().splitlines()]
        accounts.append(count_event_outcomes(pair, "mqtt", publisher, subscriber, promised))
    numbers = ("accepted", "handled", "lost", "duplicate", "stuck", "indeterminate", "copies")
    result = {one.pair: {key: value for key, value in asdict(one).items() if key in numbers} for one in accounts}
    wrong = [f"{unit.event_id} {unit.verdict}: {unit.reason}" for one in accounts for unit in one.units]
    wrong += [gap for one in accounts for gap in one.gaps]
    wrong += [f"no event of {one.pair} was accepted" for one in accounts if not one.accepted]
    if wrong:
        surely = any(one.lost or one.duplicate or one.gaps for one in accounts)
        raise (LoadError if surely else LateLoadError)(f"{result}; {'; '.join(wrong[:5])}")
    return result


def stop(options: argparse.Namespace) -> dict[str, Any]:
    """End the processes, if there are any: the load generators end their agents."""
    own = _processes(options.directory)
    for sent, seconds in ((signal.SIGINT, 30), (signal.SIGKILL, 10)):
        for pid in own:
            with suppress(ProcessLookupError):
                os.kill(pid, sent)
        deadline = time.monotonic() + seconds
        while (own := _processes(options.directory)) and time.monotonic() < deadline:
            time.sleep(0.1)
    return {"left": own}


def _processes(directory: Path) -> list[int]:
    """Processes other than this whose command line names a path below the directory, or the directory itself."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            if any(word == str(directory) or word.startswith(f"{directory}/") for word in words):
                found.append(int(path.parent.name))
    return [pid for pid in found if pid not in (os.getpid(), os.getppid())]


def _pairs(directory: Path) -> list[str]:
    return (directory / "pairs").read_text().split()


def _status(directory: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((directory / "status.json").read_text())
    except FileNotFoundError:
        return {}
    return found


def _wait(directory: Path, what: str, holds: Any, timeout: float = PATIENCE) -> None:
    deadline = time.monotonic() + timeout
    while not holds():
        _check(directory)
        if time.monotonic() > deadline:
            raise LateLoadError(f"{what}: not within {timeout:g} s: {_status(directory)}")
        time.sleep(0.3)


def _check(directory: Path) -> None:
    if (directory / "failed").exists():
        raise LateLoadError((directory / "failed").read_text().strip())
    pid = (directory / "pid").read_text()
    if not Path(f"/proc/{pid}").exists() and not (directory / "done").exists():
        raise LateLoadError(f"the load has ended: {(directory / 'output').read_text()[-500:]}")


def main(arguments: Sequence[str] | None = None) -> int:
    acts = {act.__name__: act for act in (start, begin, end, settle, stop)}
    parser = argparse.ArgumentParser(prog="load")
    parser.add_argument("act", choices=sorted(acts))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rack", type=Path)
    parser.add_argument("--username", default="")
    parser.add_argument("--password", default="")
    parser.add_argument("words", nargs="*")
    options = parser.parse_intermixed_args(arguments)
    try:
        print(json.dumps(acts[options.act](options)))
    except LoadError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
