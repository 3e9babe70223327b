"""Brings what the brokers of the examples are made of into the cache, with progress.

    python -m scripts.prefetch demo|tests

``demo`` takes the releases of the demo's example, ``tests`` those of all examples and the ones that
the tests change an example to. What is cached already costs nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from activemq_fleet.artifacts import fetch_and_unpack_distribution, fetch_jar_directory, schema_bytes
from activemq_fleet.errors import FleetError
from activemq_fleet.inventory import load_fleet
from activemq_fleet.releases import Release

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
DEMO = ("shared-store",)
# The tests boot an example with these in the place of its own release.
TESTED = ("5.5.1", "5.18.3", "6.3.1")
# Those that tests boot from jars with files of their own; a database and an old Java go with them.
PLANTED = ("5.5.1", "5.6.0", "5.7.0", "5.8.0", "5.11.4", "5.15.16", "5.17.6", "5.18.3", "6.3.1")


def main(arguments: Sequence[str]) -> int:
    """Fetch; exit 1 with one line for what cannot be had."""
    if list(arguments) == ["demo"]:
        names: Iterable[str] = DEMO
        releases = set[str]()
    elif list(arguments) == ["tests"]:
        names = sorted(path.parent.name for path in EXAMPLES.glob("*/hosts.yml"))
        releases = set(TESTED)
    else:
        print("usage: python -m scripts.prefetch demo|tests", file=sys.stderr)
        return 2
    try:
        for name in names:
            releases |= {str(broker.release) for broker in load_fleet([str(EXAMPLES / name)]).brokers}
        # Two at once: one waits for the network while the other unpacks.
        with ThreadPoolExecutor(max_workers=2) as pool:
            for done in pool.map(fetch, sorted(releases)):
                print(done, flush=True)
            if list(arguments) == ["tests"]:
                from tests.integration.database import driver  # the demo needs no tests
                from tests.integration.java_clients import compiler_jar
                from tests.integration.old_java import java_11

                list(pool.map(fetch_jars, PLANTED))
                driver()
                java_11()
                compiler_jar()
    except FleetError as error:
        print(f"prefetch: error: {error}", file=sys.stderr)
        return 1
    return 0


def fetch(text: str) -> str:
    """Have one release in the cache: its distribution, or else its jars, and its schema."""
    release = Release.of(text)
    began = time.monotonic()
    kind = "distribution" if fetch_and_unpack_distribution(release, progress=_tell) else "jars"
    if kind == "jars":
        fetch_jar_directory(release, progress=_tell)
    schema_bytes(release, progress=_tell)
    return f"==> ActiveMQ {release}: {kind} and schema in the cache ({time.monotonic() - began:.0f} s)"


def fetch_jars(text: str) -> None:
    """Have the jars of one release in the cache, whether or not its distribution is there."""
    fetch_jar_directory(Release.of(text), progress=_tell)


def _tell(line: str) -> None:
    print(f"==> {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
