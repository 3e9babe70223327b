"""Write GALAXY.md, the README of the collection on Galaxy; with --check, report whether it is up to date.

Galaxy shows only this file, so it contains no relative links. The texts of roles and plugins come from their
documentation.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from activemq_fleet import __version__
from scripts.check_ansible_doc import COLLECTION, documented_plugins
from scripts.docsite.ansible_pages import markdown
from scripts.generated_page import write_or_check

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "GALAXY.md"
PLAYBOOKS = {
    "site": "install, start and restart brokers, one node of a pair at a time",
    "check": "check the inventory, without contact to the hosts",
    "status": "show the state of each broker, agent and load balancer, and what is wrong",
    "restart": "restart brokers, the standby of each pair first",
    "switchover": "move the active role to a node",
    "upgrade": "install another release, with rollback of a node that does not become healthy",
    "resync": "copy the newer store of a pure pair to its other node, and start both",
    "migrate": "move messages from pure pairs to pairs with a shared store",
    "unfence": "convert the store of a fenced pair to a store without generations",
    "drill": "inject faults into active brokers under load, and account for every event",
    "collect": "copy logs, journals and configuration from the hosts, with secrets masked",
}
INTERNAL = (
    "broker_fault",
    "compile",
    "configure",
    "decide",
    "drill",
    "fleet_status",
    "machine_info",
    "operation_record",
    "release_tree",
    "rollback",
    "store_info",
    "store_marker",
)
"""Modules that only the playbooks of the collection use."""
_HEAD = """\
<!-- Made by `make rules` from galaxy.yml and the documentation of the plugins. -->
# activemq.fleet

`activemq.fleet` generates, verifies and operates highly available ActiveMQ Classic brokers (5.5 to 6.3) from an Ansible
inventory.

## Requirements

- ansible-core 2.19 or later, on Python 3.11 or later.
- The Python library `activemq-fleet` of version {version}, in the environment of Ansible. Its wheel is one of the files
  of a release, which `make package` builds in a checkout of the project. No public index contains it.
- Managed hosts: Linux with systemd, Python 3.9 or later, and the Java that the release of ActiveMQ requires.

## Installation

In the directory with the files of a release:

<!-- not executed: the tests run the same commands from docs/install.md -->

```sh
pip install --require-hashes --requirement requirements.txt
ansible-galaxy collection install --offline --force activemq-fleet-{version}.tar.gz
```

`requirements.txt` pins the library and all packages with their hashes. The wheel of the library contains the
collection, too, so that the first command is sufficient. The second one requires `--force` for this reason.

## Use cases

Write an inventory. The host names decide which hosts are a pair:

{inventory}
Mount a shared file system with locks at `/srv/activemq` on both hosts. Then install the pair, and move the active role
between its nodes:

```sh
ansible-playbook -i hosts.yml activemq.fleet.site --check --diff
ansible-playbook -i hosts.yml activemq.fleet.site
ansible-playbook -i hosts.yml activemq.fleet.switchover -e activemq_target=orders-mq01
```

"""
_TAIL = """\
## Testing

The tests start real brokers of 22 releases on loopback addresses, kill and freeze them under load, and run the
playbooks against hosts with systemd (Debian 12). ansible-lint runs with the production profile. `make test` in a
checkout runs all tests.

## Support

The documentation is part of the project: `make docs-serve` in a checkout shows it with search, and
`activemq-fleet help TOPIC` prints its pages. `activemq-fleet rule ID` explains a finding. The file SECURITY.md of the
collection describes how to report a vulnerability.

## Release notes

The file CHANGELOG.md of the collection lists the changes of each version. `changelogs/changelog.yaml` contains the same
for programs.

## License

Apache-2.0, see the file LICENSE.
"""


def main(arguments: list[str]) -> int:
    """Write the page, or with --check return 1 if it is out of date."""
    return write_or_check(PAGE, "".join(_page()), "the documentation of the plugins", arguments)


def _page() -> Iterator[str]:
    documented = documented_plugins()
    yield _HEAD.format(version=__version__, inventory=_tested_inventory())
    yield "## Content\n\n| playbook | purpose |\n|---|---|\n"
    yield from (f"| `{COLLECTION}.{name}` | {purpose} |\n" for name, purpose in _playbooks().items())
    yield "\n| role | purpose |\n|---|---|\n"
    for name, role in sorted(documented["role"].items()):
        yield f"| `{name}` | {markdown(role['entry_points']['main']['short_description'])} |\n"
    for kind, title in (
        ("module", "public module"),
        ("filter", "filter"),
        ("test", "test"),
        ("inventory", "inventory plugin"),
    ):
        yield f"\n| {title} | purpose |\n|---|---|\n"
        yield from _plugins(documented[kind])
    yield "\n`ansible-doc` documents each of them: `ansible-doc -t role activemq.fleet.broker`.\n\n"
    yield _TAIL


def _tested_inventory() -> str:
    """Return the inventory of the tutorial, which the host tests install, as a block of Markdown."""
    page = (ROOT / "docs" / "first-pair.md").read_text("utf-8")
    block = re.search(r'(?ms)^```yaml title="hosts.yml"\n.*?^```\n', page)
    if block is None:
        sys.exit("galaxy_page: error: docs/first-pair.md has no block with the title hosts.yml")
    return block[0]


def _playbooks() -> Mapping[str, str]:
    files = {path.stem for path in (ROOT / "playbooks").glob("*.yml")}
    if files != PLAYBOOKS.keys():
        sys.exit(
            f"galaxy_page: error: PLAYBOOKS and the directory playbooks differ: {sorted(files ^ PLAYBOOKS.keys())}"
        )
    return PLAYBOOKS


def _plugins(plugins: Mapping[str, Any]) -> Iterator[str]:
    for name, plugin in sorted(plugins.items()):
        if name.removeprefix(f"{COLLECTION}.") not in INTERNAL:
            yield f"| `{name}` | {markdown(plugin['doc']['short_description'])} |\n"


if __name__ == "__main__":
    if yaml.safe_load((ROOT / "galaxy.yml").read_text())["readme"] != PAGE.name:
        sys.exit(f"galaxy_page: error: galaxy.yml names a different readme: set it to {PAGE.name}")
    sys.exit(main(sys.argv[1:]))
