"""Agents that publish and handle events during a scenario, and the outcome of each event.

    start DIR --rack STATE --username U --password P PAIR=ADDRESS,ADDRESS...
    begin DIR NAME          wait until all pairs are under load, before an action.
    end DIR NAME            wait until events are handled again; count the interruptions since ``begin``.
    settle DIR              stop the load; check the journals for lost events.
    stop DIR                stop the load without a check.

Each command prints one JSON object, or the error in one line on stderr (exit 1). Only losses and too many
interruptions are errors. If a machine is too slow for the rate, ``begin`` waits and then prints a warning. If a wait
timed out, or the load stopped unexpectedly, the outcome of the events is unknown (exit 4).

An interruption lasts from the time at which the first of a pair's two agents loses its connection until both are
connected.
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
"""Events per second and pair."""
MIN_RATE = 25.0
"""Events per second and pair that a fault requires to prove anything; with two pairs 50 in total."""
MAX_INTERRUPTIONS = 2
PATIENCE = 240.0
# Long intervals, so that a busy machine is not taken for a hung broker.
_LONG_INTERVALS = {
    "connecting.canary.interval": "15",
    "connecting.canary.timeout": "15",
    "connecting.canary.misses": "6",
    "connecting.keepalive": "60",
    "connecting.connack.timeout": "20",
}
_LONGEST = 3600


WRONG, LATE = 1, 4
"""Exit codes: an invalid outcome of events, and a wait that timed out and proves nothing."""


class LoadError(Exception):
    """An invalid outcome of events."""

    code = WRONG


class LateLoadError(LoadError):
    """A wait that timed out, or a load that stopped."""

    code = LATE


def start(options: argparse.Namespace) -> dict[str, Any]:
    """Start the load generators, detached, inside the machines' network."""
    options.directory.mkdir(parents=True)
    pairs = dict(pair.split("=", 1) for pair in options.arguments)
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
    _wait(options.directory, "the load has started", lambda: (options.directory / "ready").exists())
    return {"pairs": list(pairs)}


def _spec(pair: str, addresses: str, options: argparse.Namespace) -> TwoAgentLoadSpec:
    def keys(role: str) -> dict[str, str]:
        return {
            "mb.urls": ",".join(f"{address}:1883" for address in addresses.split(",")),
            "mb.username": options.username,
            "mb.password": options.password,
            "client.id": f"load-{pair}-{role}",
            **_LONG_INTERVALS,
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
    """Wait until the agents of every pair are connected and fast enough, and record the time."""
    action, directory = options.arguments[0], options.directory
    deadline = time.monotonic() + PATIENCE
    while not _is_under_load(status := _status(directory)) and time.monotonic() < deadline:
        _check(directory)
        time.sleep(0.5)
    is_void = not _is_under_load(status)
    record = {
        "at": time.time(),
        "void": is_void,
        "rates": {pair: pair_status["handled"] for pair, pair_status in status.items()},
    }
    (directory / f"begun-{action}").write_text(json.dumps(record))
    if is_void:
        print(f"VOID: {action} proves little, because the load is {record['rates']} events per second", file=sys.stderr)
    return record


def _is_under_load(status: dict[str, Any]) -> bool:
    return bool(status) and all(
        pair_status["steady"] and min(pair_status["accepted"], pair_status["handled"]) >= MIN_RATE
        for pair_status in status.values()
    )


def end(options: argparse.Namespace) -> dict[str, Any]:
    """Wait until events are handled again; count the interruptions since ``begin``."""
    action, directory = options.arguments[0], options.directory
    start_record = json.loads((directory / f"begun-{action}").read_text())
    now = time.time()
    _wait(directory, "events are handled", lambda: all(s["last"] > now for s in _status(directory).values()))
    interruptions_by_pair = {pair: interruptions(directory / pair, start_record["at"]) for pair in _pairs(directory)}
    result = {
        "interruptions": {
            pair: [round(seconds, 2) for _, seconds in times] for pair, times in interruptions_by_pair.items()
        },
        "seconds": round(now - start_record["at"], 1),
        "void": start_record["void"],
    }
    excessive = {pair: seconds for pair, seconds in result["interruptions"].items() if len(seconds) > MAX_INTERRUPTIONS}
    if excessive:
        raise LoadError(f"{action}: more than {MAX_INTERRUPTIONS} interruptions (seconds): {excessive}")
    return result


def interruptions(pair: Path, since: float) -> list[tuple[float, float]]:
    """Return when either of the two agents of a pair had no connection, by their journals: start and seconds."""
    outages: list[tuple[float, float]] = []
    for role in ("publisher", "subscriber"):
        lost: float | None = None
        for kind, at in _connections(pair / role):
            if kind == "connection_lost" and at >= since:
                lost = lost or at
            elif kind == "connected" and lost is not None:
                outages.append((lost, at))
                lost = None
    return merge_overlapping(outages)


def _connections(agent: Path) -> Iterator[tuple[str, float]]:
    """Yield when an agent connected and lost its connection, in order."""
    for path in sorted((agent / "agent").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            if line.endswith("}") and "connect" in line:
                record = json.loads(line)
                yield record["kind"], datetime.fromisoformat(record["ts"]).timestamp()


def merge_overlapping(outages: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Merge outages that are less than a second apart; return start and seconds of each."""
    merged: list[list[float]] = []
    for began, ended in sorted(outages):
        if merged and began <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], ended)
        else:
            merged.append([began, ended])
    return [(began, ended - began) for began, ended in merged]


def settle(options: argparse.Namespace) -> dict[str, Any]:
    """Stop the load and check the outcome of every event; raise an error for lost and duplicate events."""
    directory = options.directory
    (directory / "stop").touch()
    _wait(directory, "the load has stopped", lambda: (directory / "done").exists(), 600)
    accounts = []
    for pair in _pairs(directory):
        publisher, subscriber = (
            read_agent_journal(directory / pair / role, role) for role in ("publisher", "subscriber")
        )
        accepted_ids = [line.partition(" ")[2] for line in (directory / pair / "promised").read_text().splitlines()]
        accounts.append(count_event_outcomes(pair, "mqtt", publisher, subscriber, accepted_ids))
    numbers = ("accepted", "handled", "lost", "duplicate", "stuck", "indeterminate", "copies")
    result = {
        account.pair: {key: value for key, value in asdict(account).items() if key in numbers} for account in accounts
    }
    problems = [f"{unit.event_id} {unit.verdict}: {unit.reason}" for account in accounts for unit in account.units]
    problems += [gap for account in accounts for gap in account.gaps]
    problems += [f"no event of {account.pair} was accepted" for account in accounts if not account.accepted]
    if problems:
        is_certain = any(account.lost or account.duplicate or account.gaps for account in accounts)
        raise (LoadError if is_certain else LateLoadError)(f"{result}; {'; '.join(problems[:5])}")
    return result


def stop(options: argparse.Namespace) -> dict[str, Any]:
    """Stop the load generators, which stop their agents."""
    processes = _processes(options.directory)
    for signal_number, seconds in ((signal.SIGINT, 30), (signal.SIGKILL, 10)):
        for pid in processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal_number)
        deadline = time.monotonic() + seconds
        while (processes := _processes(options.directory)) and time.monotonic() < deadline:
            time.sleep(0.1)
    return {"left": processes}


def _processes(directory: Path) -> list[int]:
    """Return the processes, except this one, whose command line contains the directory or a path below it."""
    processes = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            if any(word == str(directory) or word.startswith(f"{directory}/") for word in words):
                processes.append(int(path.parent.name))
    return [pid for pid in processes if pid not in (os.getpid(), os.getppid())]


def _pairs(directory: Path) -> list[str]:
    return (directory / "pairs").read_text().split()


def _status(directory: Path) -> dict[str, Any]:
    try:
        status: dict[str, Any] = json.loads((directory / "status.json").read_text())
    except FileNotFoundError:
        return {}
    return status


def _wait(directory: Path, what: str, condition: Any, timeout: float = PATIENCE) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        _check(directory)
        if time.monotonic() > deadline:
            raise LateLoadError(f"timed out after {timeout:g} s: {what}: not yet: {_status(directory)}")
        time.sleep(0.3)


def _check(directory: Path) -> None:
    if (directory / "failed").exists():
        raise LateLoadError((directory / "failed").read_text().strip())
    pid = (directory / "pid").read_text()
    if not Path(f"/proc/{pid}").exists() and not (directory / "done").exists():
        raise LateLoadError(f"the load has stopped unexpectedly: {(directory / 'output').read_text()[-500:]}")


def main(arguments: Sequence[str] | None = None) -> int:
    commands = {command.__name__: command for command in (start, begin, end, settle, stop)}
    parser = argparse.ArgumentParser(prog="load")
    parser.add_argument("command", choices=sorted(commands))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rack", type=Path)
    parser.add_argument("--username", default="")
    parser.add_argument("--password", default="")
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_intermixed_args(arguments)
    try:
        print(json.dumps(commands[options.command](options)))
    except LoadError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
