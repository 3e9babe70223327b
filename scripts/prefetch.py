"""Download the distributions, jars and schemas of ActiveMQ's releases to the cache, and print the progress.

    python -m scripts.prefetch demo|tests

``demo`` downloads the releases of the demo, ``tests`` those of all examples and of all tests. Files that the cache
contains are not downloaded again.
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
# Tests start an example with these releases instead of its release.
TESTED = ("5.5.1", "5.18.3", "6.3.1")
# Tests start these releases from jars with their own files; these tests also require a database driver and an old Java.
STARTED_FROM_JARS = ("5.5.1", "5.6.0", "5.7.0", "5.8.0", "5.11.4", "5.15.16", "5.17.6", "5.18.3", "6.3.1")


def main(arguments: Sequence[str]) -> int:
    """Download the files; print an error and exit 1 if a download fails."""
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
        # Two downloads at a time, so that one waits for the network while the other one unpacks.
        with ThreadPoolExecutor(max_workers=2) as pool:
            for message in pool.map(fetch, sorted(releases)):
                print(message, flush=True)
            if list(arguments) == ["tests"]:
                from tests.integration.database import driver  # imported here, because the demo requires no tests
                from tests.integration.java_clients import compiler_jar
                from tests.integration.old_java import java_11

                list(pool.map(fetch_jars, STARTED_FROM_JARS))
                driver()
                java_11()
                compiler_jar()
    except FleetError as error:
        print(f"prefetch: error: {error}", file=sys.stderr)
        return 1
    return 0


def fetch(text: str) -> str:
    """Download a release, if the cache lacks it: its distribution, or else its jars, and its schema."""
    release = Release.of(text)
    began = time.monotonic()
    kind = "distribution" if fetch_and_unpack_distribution(release, progress=_print_progress) else "jars"
    if kind == "jars":
        fetch_jar_directory(release, progress=_print_progress)
    schema_bytes(release, progress=_print_progress)
    return f"==> ActiveMQ {release}: {kind} and schema in the cache ({time.monotonic() - began:.0f} s)"


def fetch_jars(text: str) -> None:
    """Download the jars of a release, also if the cache contains its distribution."""
    fetch_jar_directory(Release.of(text), progress=_print_progress)


def _print_progress(line: str) -> None:
    print(f"==> {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
