"""Write docs/log-records.md from the kinds of log records; with --check, report whether it is up to date."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from activemq_fleet.audit.record_signs import incident_kinds_of_record_kind
from activemq_fleet.logs.harmless import harmless_record_kinds
from activemq_fleet.logs.kinds import log_message_kind, log_message_kind_ids
from scripts.generated_page import DOCS, write_or_check

PAGE = DOCS / "log-records.md"
_BAD = re.compile(r"\b(?:WARN|ERROR|EXC)\b")
_GROUP = re.compile(r"\(\?P<(\w+)>")

_HEAD = """\
<!-- Made by `make rules` from src/activemq_fleet/logs and src/activemq_fleet/audit/record_signs.py. -->
# Warnings and errors that an audit recognizes

[`activemq-fleet audit`](audit.md) judges each warning and error of a broker's log. A record is part of an incident, or
it is harmless for a reason that is listed here, or it is unexplained. `EXC` is the text of an exception. Records whose
id begins with `X-` are known from real logs.

## Harmless

A record of these kinds alone requires no action. An `OutOfMemoryError` or `Too many open files` in such a record is
still an incident.

| id | message | releases | source | reason |
|---|---|---|---|---|
"""
_PARTS = """
## Parts of incidents

[audit.md](audit.md#incidents) lists how many records of a kind are an incident.

| id | message | releases | incidents |
|---|---|---|---|
"""


def main(arguments: list[str]) -> int:
    """Write the page, or with --check return 1 if it is out of date."""
    return write_or_check(PAGE, "".join(_page()), "the kinds of log records", arguments)


def _page() -> Iterator[str]:
    yield _HEAD
    for record in harmless_record_kinds():
        source = ", ".join(record.source)
        yield f"| {record.id} | {_code(record.message)} | {record.releases} | {source} | {record.reason} |\n"
    yield _PARTS
    for name in log_message_kind_ids():
        incidents = incident_kinds_of_record_kind(name)
        kind = log_message_kind(name)
        if incidents and _BAD.search(kind.releases):
            yield f"| {name} | {_code(kind.regex.pattern)} | {kind.releases} | {', '.join(incidents)} |\n"


def _code(pattern: str) -> str:
    """Return a regular expression for a cell of a table, with the names of its groups alone."""
    return "`" + _GROUP.sub(r"(\1: ", pattern).replace("|", "\\|") + "`"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
