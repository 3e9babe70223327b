"""Write docs/topology-errors.md from the rules about an inventory; with --check, report whether it is up to date."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from activemq_fleet.topology.inventory_rules import inventory_rules
from scripts.generated_page import DOCS, write_or_check

PAGE = DOCS / "topology-errors.md"

_HEAD = """\
<!-- Made by `make rules` from src/activemq_fleet/topology/inventory_rules.toml. -->
# Topology errors

`check`, `render`, `lab up` and `site` report these findings about an inventory before they change a host. Each finding
names the host and the variable. An error stops `render` and fails `check` (exit 1) unless `activemq_waivers` waives it:

```yaml
activemq_waivers:
  - {rule: T002, reason: node b arrives in May, hosts: [orders-mq01-*], until: 2027-05-31}
```

`activemq-fleet rule T002` prints one rule. Easily guessed passwords of the inventory are reported by
[S050](rules.md#s050) (accounts) and [S019](rules.md#s019) (key stores), as in files.
"""
_TABLE = """
| rule | severity | problem | why it matters | what to do |
|---|---|---|---|---|
"""
_ROUTES = """
An unknown variable, a value of the wrong type, a missing or unknown release, and an inventory without brokers are
invalid input. Every command prints one line for each of them, and exits with status 2. `check --format json` and the
other formats for programs list them as findings T000, which cannot be waived.

## Routes

These rules check whether messages reach their consumers over bridges, if all brokers are active and if any one broker
fails. The findings are warnings: every broker works, and messages wait. `explain HOST --to TARGET` shows a route,
bridge by bridge.
"""


def main(arguments: list[str]) -> int:
    """Write the page, or with --check return 1 if it is out of date."""
    return write_or_check(PAGE, "".join(_page()), "the rules", arguments)


def _page() -> Iterator[str]:
    yield _HEAD
    yield from _rows("T")
    yield _ROUTES
    yield from _rows("R")


def _rows(family: str) -> Iterator[str]:
    yield _TABLE
    for rule in inventory_rules():
        if rule.id.startswith(family):
            yield f"| {rule.id} | {rule.severity} | {rule.title} | {rule.why} | {rule.fix} |\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
