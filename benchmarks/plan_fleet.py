"""Generate a fleet of any size from a seed: all profiles and releases, groups of 1 to 100 brokers, many shapes.

Large fleets have kinds of sites. By default, the fleet has 300 kinds, each with its release, profile, size and
settings; sites of a kind differ only in the name of the group. Without ``kinds``, every site has different settings,
which is the worst case.

The fleet has many small groups and few large groups: the logarithm of their size is uniform. Up to 12 pairs form a
mesh. More pairs form a hub, a ring or a chain, because a mesh of 50 pairs would have 2,450 bridges. 1 of 20 kinds of
sites has a second group that is linked to the first group.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from activemq_fleet.releases import Release

SEED = 20_261_121
RELEASES = (
    "5.5.1", "5.7.0", "5.8.0", "5.11.4", "5.15.16", "5.16.7", "5.17.6", "5.18.3", "5.18.6", "6.0.1", "6.1.6", "6.3.1"
)  # fmt: skip
KINDS = 300
LARGEST = 100
_LINKED = 0.05
_MESH = 12
_NETWORK = {"activemq_network_username": "network", "activemq_network_password": "only-measured-with-network"}
_TLS = {
    "keystore": "/etc/tls/broker.ks",
    "keystore_password": "only-measured-with-tls",
    "truststore": "/etc/tls/broker.ts",
    "truststore_password": "only-measured-with-tls",
}

Record = dict[str, Any]


def records(brokers: int, seed: int = SEED, *, kinds: int | None = KINDS) -> Iterator[Record]:
    """Yield ``{host, variables}`` of a number of brokers, plus 1 if the last pair would be incomplete."""
    left, number = brokers, 0
    while left > 0:
        dice = random.Random(f"{seed}/{number}")
        if kinds:
            dice = random.Random(f"{seed}/kind/{dice.randrange(kinds)}")
        names = [f"fleet{number:06d}"]
        if dice.random() < _LINKED:
            names.append(f"fleet{number + 1:06d}")
        for index, name in enumerate(names):
            for record in _group(dice, name, left, names[:index]):
                left -= 1
                yield record
        number += len(names)


def write_fleet(path: Path, brokers: int, seed: int = SEED, *, kinds: int | None = KINDS) -> Path:
    """Write the fleet as JSON lines, and return the path."""
    with path.open("w") as file:
        for record in records(brokers, seed, kinds=kinds):
            file.write(json.dumps(record) + "\n")
    return path


def write_inventory(path: Path, brokers: int, seed: int = SEED) -> Path:
    """Write the fleet as an Ansible inventory in JSON for ``render``, and return the path."""
    hosts = {record["host"]: record["variables"] for record in records(brokers, seed)}
    path.write_text(json.dumps({"all": {"hosts": hosts}}))
    return path


def _group(dice: random.Random, name: str, left: int, linked: Sequence[str]) -> Iterator[Record]:
    size = max(1, min(left, round(math.exp(dice.uniform(0, math.log(LARGEST))))))
    release = dice.choice(RELEASES)
    variables = _variables(dice, release, name, size)
    for linked_name in linked:
        link: Record = {"from": name, "to": linked_name}
        if dice.random() < 0.5:
            link["include"] = [f"queue://{name}.>"]
        variables["activemq_links"] = [link]
    has_single_brokers = variables["activemq_ha"] == "none"
    labels = (
        [f"{name}-mq{unit:02d}-a" for unit in range(1, size + 1)]
        if has_single_brokers
        else [f"{name}-mq{unit:02d}-{node}" for unit in range(1, -(-size // 2) + 1) for node in "ab"]
    )
    for label in labels:
        jdbc = {"activemq_jdbc": _jdbc(label.rpartition("-")[0])} if variables["activemq_ha"] == "shared-jdbc" else {}
        yield {"host": f"{label}.example.com", "variables": variables | jdbc}


def _variables(dice: random.Random, release: str, name: str, size: int) -> Record:
    features = _release(release)
    profiles = ["shared-file", "shared-file", "none"]
    profiles += ["pure"] if features.has_pure_master_slave else []
    profiles += ["shared-jdbc"] if features.has_lockers else []
    ha = "none" if size == 1 else dice.choice(profiles)
    units = size if ha == "none" else -(-size // 2)
    variables: Record = {
        **_NETWORK,
        "activemq_release": release,
        "activemq_ha": ha,
        "activemq_topology": "mesh" if units <= _MESH else dice.choice(["hub", "ring", "chain"]),
        "activemq_users": [
            {"name": f"app-{name}-{user}", "password": f"only-measured-with-{user}", "groups": ["admins"]}
            for user in range(dice.randint(1, 3))
        ],
        "activemq_heap": dice.choice(["512m", "1g", "4g"]),
        "activemq_console": dice.random() < 0.7,
    }
    if dice.random() < 0.2 and ha != "pure":
        variables["activemq_tls"] = _TLS
    if dice.random() < 0.2:
        variables["activemq_acl"] = [
            {"destination": f"{name}.{topic}.>", "kind": "queue", "read": ["admins"], "write": ["admins"]}
            for topic in range(dice.randint(1, 3))
        ]
    if dice.random() < 0.1:
        variables["activemq_broker_attributes"] = {"useJmx": "true"}
    if dice.random() < 0.1:
        variables["activemq_extra_files"] = [{"path": "conf/motd", "content": f"{name}\n"}]
    return variables


@cache
def _release(text: str) -> Release:
    return Release.of(text)


def _jdbc(pair: str) -> Record:
    return {
        "url": f"jdbc:postgresql://db/{pair}",
        "driver": "org.postgresql.Driver",
        "jar": "/opt/pg.jar",
        "username": "amq",
        "password": "only-measured-with-jdbc",
    }
