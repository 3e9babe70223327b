"""Write the output of the commands for many inputs to a directory, so that ``diff -r`` compares two commits.

``python -m scripts.record_behavior OUT`` runs ``render``, ``check --format json``, ``explain --format json`` and
``graph`` for the example inventories and for random fleets. The random fleets depend on ``--seed`` alone. ``--files
DIR`` adds ``check`` of every configuration below a directory; ``--logs DIR`` adds ``audit`` of every
directory ``logs`` below a directory. The commands run in one process, so ``PYTHONPATH`` selects the commit.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from activemq_fleet.cli.main import main as run_command

ROOT = Path(__file__).resolve().parent.parent
RELEASES = (
    "5.5.1",
    "5.6.0",
    "5.7.0",
    "5.8.0",
    "5.11.4",
    "5.14.5",
    "5.15.16",
    "5.16.7",
    "5.17.6",
    "5.18.3",
    "6.1.6",
    "6.3.1",
)
PURE_RELEASES = ("5.5.1", "5.6.0", "5.7.0")
JDBC = {
    "url": "jdbc:postgresql://db.example.com/activemq",
    "username": "activemq",
    "password": "not-a-secret",
    "driver": "org.postgresql.Driver",
}
TLS = {
    "keystore": "/etc/activemq/broker.ks",
    "keystore_password": "not-a-secret",
    "truststore": "/etc/activemq/broker.ts",
    "truststore_password": "not-a-secret",
}
POLICY = {"kind": "queue", "destination": "orders.>", "memory_limit": "64 mb", "producer_flow_control": False}
OPTIONAL: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("activemq_topology", ("mesh", "ring", "hub", "chain", "none")),
    ("activemq_discovery", ("masterslave", "failover", "static", "multicast")),
    ("activemq_pair_links", ("none", "static")),
    ("activemq_network_ttl", (1, 2, 5, -1)),
    ("activemq_network_attributes", ({"conduitSubscriptions": "false"}, {"prefetchSize": "10"})),
    ("activemq_network_options", ({}, {"maxReconnectDelay": "500"})),
    (
        "activemq_connectors",
        (
            [{"name": "openwire", "scheme": "tcp", "port": 61616}, {"name": "stomp", "scheme": "stomp", "port": 61613}],
            [
                {"name": "openwire", "scheme": "tcp", "port": 61616},
                {"name": "mqtt", "scheme": "mqtt+nio", "port": 1883},
            ],
        ),
    ),
    ("activemq_port_offset", (0, 100)),
    ("activemq_bind", ("0.0.0.0", "127.0.0.1")),  # noqa: S104 -- an address to render
    ("activemq_console", (True, False)),
    ("activemq_metrics", (True, False)),
    ("activemq_runtime_configuration", (True, False)),
    ("activemq_authentication", ("simple", "none")),
    ("activemq_tls", (TLS,)),
    ("activemq_fence", ("guard", "none")),
    ("activemq_heap", ("256m", "2g")),
    ("activemq_memory_limit", ("100 mb",)),
    ("activemq_store_limit", ("1 gb",)),
    ("activemq_scheduler", (True,)),
    ("activemq_destination_policies", ([POLICY],)),
    ("activemq_destinations", (["queue://orders.new", "topic://prices"],)),
    (
        "activemq_kahadb",
        ({"journal_max_file_length": "16mb"}, {"by_destination": [{"kind": "queue", "destination": "big.>"}, {}]}),
    ),
    ("activemq_broker_attributes", ({"useJmx": "false"}, {"schedulePeriodForDestinationPurge": "10000"})),
    ("activemq_waivers", ([{"rule": "S002", "reason": "measured apart"}],)),
    (
        "activemq_acl",
        ([{"kind": "queue", "destination": "orders.>", "read": ["apps"], "write": ["apps"], "admin": ["admins"]}],),
    ),
    ("activemq_java_options", (["-Dfile.encoding=UTF-8"],)),
    ("activemq_install", ("archive", "package", "none")),
    ("activemq_watchdog", ("off", "kill")),
)


def random_fleet(dice: random.Random) -> dict[str, Any]:
    """Return a random Ansible inventory with groups of pairs, group variables and links; it can contain errors."""
    release = dice.choice(RELEASES)
    group_names = dice.sample(["orders", "billing", "hub", "shop", "stock", "web"], dice.randint(1, 4))
    variables: dict[str, Any] = {
        "activemq_release": release,
        "activemq_network_username": "network",
        "activemq_network_password": "not-a-secret",
        "activemq_users": [{"name": "app", "password": "not-a-secret", "groups": ["apps"]}],
    }
    kinds = ["shared-file", "shared-file", "none", "shared-jdbc"]
    if release in PURE_RELEASES:
        kinds.append("pure")
    variables["activemq_ha"] = dice.choice(kinds)
    if variables["activemq_ha"] == "shared-jdbc":
        variables["activemq_jdbc"] = JDBC
    for name, choices in dice.sample(OPTIONAL, dice.randint(0, 7)):
        variables[name] = dice.choice(choices)
    if len(group_names) > 1 and dice.random() < 0.7:
        variables["activemq_links"] = [
            {"from": group_names[number], "to": dice.choice(group_names), **dice.choice(LINK_FORMS)}
            for number in range(dice.randint(1, len(group_names)))
        ]
    children: dict[str, Any] = {}
    for name in group_names:
        nodes = "ab" if variables["activemq_ha"] != "none" or dice.random() < 0.3 else "a"
        hosts = [
            f"{name}-mq{number:02d}-{node}.example.com" for number in range(1, dice.randint(1, 3) + 1) for node in nodes
        ]
        settings: dict[str, Any] = {}
        if dice.random() < 0.3:
            option, choices = dice.choice(OPTIONAL)
            settings[option] = dice.choice(choices)
        children[f"{name}_brokers"] = {"hosts": dict.fromkeys(hosts), "vars": settings}
    if dice.random() < 0.3:
        children["agents"] = {
            "hosts": {f"device{number}.example.com": {"activemq_group": group_names[0]} for number in (1, 2)}
        }
    return {"all": {"vars": variables, "children": children}}


LINK_FORMS: tuple[dict[str, Any], ...] = (
    {},
    {"duplex": True},
    {"ttl": 3},
    {"include": ["queue://orders.>"]},
    {"exclude": ["topic://prices"]},
    {"static_include": ["queue://orders.new"]},
)


def write_inventory(directory: Path, inventory: dict[str, Any]) -> None:
    """Write an inventory directory with the inventory plugin that creates its groups."""
    directory.mkdir(parents=True)
    (directory / "hosts.json").write_text(json.dumps(inventory, indent=1))
    (directory / "zz.activemq.yml").write_text("plugin: activemq.fleet.topology\n")


def captured(arguments: Sequence[str]) -> str:
    """Run a command in this process; return its arguments, its exit code and both outputs as a text."""
    output, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        try:
            code: object = run_command(list(arguments))
        except SystemExit as system_exit:
            code = system_exit.code
        except Exception as error:  # noqa: BLE001 -- a traceback is behavior that the comparison shows
            code = f"{type(error).__name__}: {error}"
    return f"$ {' '.join(arguments)}\nexit {code}\n{output.getvalue()}\n--- stderr\n{errors.getvalue()}"


def record_inventory(name: str, output: Path) -> None:
    """Write the output of the commands for the inventory directory ``name`` of the working directory."""
    output.mkdir(parents=True)
    written = output / "rendered"
    texts = {
        "render": captured(["render", "-i", name, "-o", str(written)]),
        "check": captured(["check", "-i", name, "--format", "json"]),
        "graph": captured(["graph", "-i", name, "--format", "mermaid"]),
    }
    for host in sorted({path.parent.parent.name for path in written.glob("hosts/*/conf/activemq.xml")})[:4]:
        texts[f"explain-{host}"] = captured(["explain", "-i", name, host, "--format", "json"])
    for label, text in texts.items():
        (output / f"{label}.txt").write_text(text.replace(str(output), "OUT"))


def inventories(work: Path, count: int, seed: int) -> Iterator[str]:
    """Create the inventory directories below ``work``; yield their names."""
    for example in sorted((ROOT / "examples").iterdir()):
        if (example / "hosts.yml").exists():
            shutil.copytree(example, work / example.name, ignore=shutil.ignore_patterns(".secrets"))
            yield example.name
    for number in range(count):
        name = f"random-{number:02d}"
        write_inventory(work / name, random_fleet(random.Random(f"{seed}-{number}")))  # noqa: S311 -- no secret
        yield name


def main() -> int:
    """Write the output directory of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("output", type=Path)
    parser.add_argument("--fleets", type=int, default=50, help="number of random fleets")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--files", type=Path, help="directory of configuration files to check and to adopt")
    parser.add_argument("--logs", type=Path, help="directory of directories `logs` to audit")
    options = parser.parse_args()
    output = options.output.resolve()
    output.mkdir(parents=True)
    files = options.files and options.files.resolve()
    logs = options.logs and options.logs.resolve()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        os.chdir(work)
        for name in inventories(work, options.fleets, options.seed):
            record_inventory(name, output / name)
        for path in sorted(files.rglob("*.xml")) if files else ():
            shutil.copy(path, work / path.name)
            (output / "files").mkdir(exist_ok=True)
            text = captured(["check", "--file", path.name, "--release", "5.18.3", "--format", "json"])
            (output / "files" / f"{path.name}.check.txt").write_text(text)
        for path in sorted(logs.rglob("logs")) if logs else ():
            case = path.parent.name
            (output / "audits").mkdir(exist_ok=True)
            text = captured(["audit", "--logs", str(path), "-o", f"audit-{case}", "--format", "json"])
            (output / "audits" / f"{case}.txt").write_text(text.replace(str(path), "LOGS").replace(str(work), "WORK"))
        os.chdir("/")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
