"""Run load generators of a drill in a separate process, which outlives the task that started it.

``python -m activemq_fleet.lab.load_process DIRECTORY`` starts the generators of ``DIRECTORY/load.json`` and keeps their
pairs under load until a file ``stop`` appears in the directory. A file ``burst-NAME`` requests many events at once from
the generator NAME. The results are journals, ``NAME/publisher/agent/*.jsonl`` and ``NAME/subscriber/agent/*.jsonl``,
and the event ids that agents returned, ``NAME/promised``. The process holds a lock on the file ``lock`` while it runs.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter

from activemq_agent.agent_errors import AgentError
from activemq_fleet import atomic_files
from activemq_fleet.errors import LabError
from activemq_fleet.lab.agent_load_generator import TwoAgentLoadGenerator
from activemq_fleet.lab.load_generator import LoadGenerator
from activemq_fleet.lab.load_spec import LoadSpec
from activemq_fleet.lab.stomp_load_generator import StompLoadGenerator, StompLoadSpec

_PATIENCE = 300.0  # Seconds. On an idle machine, the start takes a few seconds.
_POLL = 0.05
_PARENT_POLL = 0.5
_STATUS_EVERY = 0.5
_WINDOW = 5.0  # Seconds over which rates are measured.
_LAG = 1.0  # Seconds until an action of an agent is in its journal.
_LOCK = "lock"


def make_load_generator(spec: LoadSpec, directory: Path, sockets: Path) -> LoadGenerator:
    """Make a load generator from its settings, without starting it.

    ``sockets`` is a directory with a short path.
    """
    if isinstance(spec, StompLoadSpec):
        return StompLoadGenerator(spec, directory)
    return TwoAgentLoadGenerator(spec, directory, sockets)


def specs_to_json(specs: Sequence[LoadSpec]) -> str:
    """Return the settings of load generators as the text of a JSON list with one object for each generator.

    It is the content of ``load.json``, and holds passwords.
    """
    return json.dumps([asdict(spec) for spec in specs])


def specs_from_json(text: str) -> list[LoadSpec]:
    """Return the settings of load generators from JSON text.

    ``specs_to_json`` returned the JSON.
    """
    return TypeAdapter(list[LoadSpec]).validate_json(text)


@contextmanager
def hold_load_lock(directory: Path) -> Iterator[None]:
    """Hold a file lock, which shows that the load generators of a drill run, while the ``with`` block runs.

    ``directory`` is the drill's. The kernel releases the lock however the process ends, also after SIGKILL.
    """
    with (directory / _LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_load_running(directory: Path) -> bool:
    """Return whether a drill's load generators run: their process locks a file in the drill's ``directory``."""
    try:
        with (directory / _LOCK).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False


def _run_load_generators(directory: Path, longest: float, parent: int | None = None) -> None:
    """Run the load generators of a drill (faults injected under load) until the drill ends.

    The drill's directory has their settings. They run until a file ``stop`` appears there, or for ``longest`` seconds.
    The run ends as well when the process ``parent`` is gone. Files report the progress: ``ready`` once all generators
    run, ``done`` at the end, ``failed`` with the reason for an end before ``stop``. Raises AgentError or LabError when
    a generator fails.
    """
    specs = specs_from_json((directory / "load.json").read_text())
    (directory / "load.json").unlink()  # The file contains passwords.
    stop_file, deadline = directory / "stop", time.monotonic() + longest
    with tempfile.TemporaryDirectory(prefix="load-") as sockets:
        generators = [make_load_generator(spec, directory, Path(sockets)) for spec in specs]
        try:
            with _interrupt_if_process_ends(parent):
                for generator in generators:
                    generator.start_load(_PATIENCE)
            (directory / "ready").touch()
            last_status_at = 0.0
            while not stop_file.exists() and time.monotonic() < deadline and _is_process_alive(parent):
                _start_requested_bursts(directory, generators)
                if time.monotonic() - last_status_at >= _STATUS_EVERY:
                    write_load_generator_status(directory, generators)
                    last_status_at = time.monotonic()
                time.sleep(_POLL)
            if time.monotonic() >= deadline and not stop_file.exists():
                # The file is written before the generators finish, because that takes minutes without load.
                (directory / "failed").write_text(f"the load reached its time limit of {longest:g} s\n")
            for generator in generators:
                generator.finish_load()
                generator.delete_durable_session()
            (directory / "done").touch()
        except (AgentError, LabError) as error:
            with suppress(OSError):
                (directory / "failed").write_text(f"{error}\n")
            raise
        except KeyboardInterrupt:
            for generator in generators:
                generator.__exit__()
            if not _is_process_alive(parent):
                for generator in generators:
                    generator.delete_durable_session()
            raise
        finally:
            for generator in generators:
                generator.__exit__()


@contextmanager
def _interrupt_if_process_ends(process: int | None) -> Iterator[None]:
    """Interrupt this process, as Ctrl-C does, if another process ends while the ``with`` block runs."""
    is_block_done = threading.Event()

    def watch() -> None:
        while not is_block_done.wait(_PARENT_POLL):
            if not _is_process_alive(process):
                os.kill(os.getpid(), signal.SIGINT)
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_block_done.set()


def _start_requested_bursts(directory: Path, generators: Iterable[LoadGenerator]) -> None:
    for generator in generators:
        request_file = directory / f"burst-{generator.name}"
        if request_file.exists():
            generator.start_publishing_burst()
            request_file.unlink()


def _is_process_alive(process: int | None) -> bool:
    return process is None or Path(f"/proc/{process}").exists()


def write_load_generator_status(directory: Path, generators: Iterable[LoadGenerator]) -> None:
    """Write the status of load generators, such as their message rates, to the file ``status.json``.

    The statuses are by name. The file is replaced atomically. A status has the rates in events per second, whether the
    load is steady, the time of the last handled event and the time of the status, both in seconds since the epoch.
    """
    now = time.time()
    states = {}
    for generator in generators:
        generator.raise_if_ended()
        accepted, handled = generator.accepted_and_handled_rates(now - _LAG, _WINDOW)
        states[generator.name] = {
            "steady": generator.has_stable_connections(),
            "accepted": accepted,
            "handled": handled,
            "last": generator.last_handled_time(),
            "at": now,
        }
    atomic_files.write_file_atomically(directory / "status.json", json.dumps(states).encode())


def main(arguments: Sequence[str]) -> int:
    """Run load generators in a process, as its command-line arguments specify, and return the exit code.

    The arguments are ``DIRECTORY [SECONDS [PARENT]]``. The exit code is 0 when all ended well, 1 on an error, 130 when
    interrupted.
    """
    directory = Path(arguments[0])
    longest, parent = [*arguments[1:3], "", ""][:2]
    # A shell without job control ignores SIGINT in its background processes, and a drill there would pass that on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with hold_load_lock(directory):
            _run_load_generators(directory, float(longest or 3600), int(parent) if parent else None)
    except (AgentError, LabError) as error:
        print(f"load: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        if parent and not _is_process_alive(int(parent)):
            # No process reads this file any more, and it contains passwords.
            shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
