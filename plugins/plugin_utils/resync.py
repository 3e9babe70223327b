# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The question of the playbook ``resync`` for ``activemq.fleet.plan``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.activemq.fleet.plugins.plugin_utils.library import library

Arguments = Mapping[str, Any]


def resync(arguments: Arguments, warn: Callable[[str], None]) -> dict[str, Any]:
    """The next step. ``options``: ``stores`` by host, ``chosen``, ``restart``, ``check``, ``looked_at``, ``waited``."""
    brokers, options = arguments["brokers"], arguments["options"]
    operate = library("operate.resync")
    pure, others = {}, []
    for pair, hosts in arguments["target"]["pairs"].items():
        if brokers[hosts[0]]["ha"] != "pure":
            others.append(pair)
        elif len(hosts) == 2:
            pure[pair] = tuple(_node(arguments, host, peer) for host, peer in (hosts, hosts[::-1]))
        else:
            raise AnsibleActionFail(f"{pair} has {len(hosts)} node: a pure pair is two")
    # The playbook restart has restarted the others before.
    if pure and others and not options["restart"] and not any(options["acted"].values()):
        warn(f"{', '.join(others)}: not pure, so there is nothing to resync")
    older = float(options["looked_at"]) - arguments["target"]["since_epoch"]
    step = operate.plan_resync(
        pure,
        chosen=options["chosen"],
        owed=operate.Owed(older=older if options["restart"] else None),
        waited=float(options["waited"]),
    )
    if options["check"] and step.act != "done":
        return {"step": {"act": "done", "hosts": [], "say": f"nothing was touched; what would be next: {step.say}"}}
    return {"step": step.to_dict()}


def _node(arguments: Arguments, host: str, peer: str) -> Any:
    broker, stores = arguments["brokers"][host], arguments["options"]["stores"]
    if broker["service"] != "systemd":
        raise AnsibleActionFail(
            f"{host}: activemq_service is {broker['service']}, and resync stops and starts by systemd"
        )
    store = library("operate.recency").Store.of(host, broker["role"], stores[host])
    node: Any = library("operate.resync").Node.of(
        store, arguments["looks"][host], stores[host], stores[peer]["allocated"]
    )
    return node
