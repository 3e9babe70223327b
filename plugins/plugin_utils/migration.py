# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The questions of the playbook ``migrate`` for ``activemq.fleet.plan``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.activemq.fleet.plugins.plugin_utils.library import library

Arguments = Mapping[str, Any]


def migration(arguments: Arguments, _warn: Callable[[str], None]) -> dict[str, Any]:
    """The target, whose hosts are then those of the pairs that drain it too. ``options``: ``reach``."""
    target, brokers = arguments["target"], arguments["brokers"]
    if not target["name"]:
        raise AnsibleActionFail("say which group or pair is to be emptied: -e activemq_target=OLD_GROUP")
    others = library("operate.migrate").draining_pairs(brokers, target["pairs"])
    lost = sorted(set(others) - set(arguments["options"].get("reach") or others))
    if lost:
        raise AnsibleActionFail(f"--limit leaves out {', '.join(lost)}, which drain {target['name']}: run without it")
    return {"target": {**target, "hosts": [*target["hosts"], *sorted(set(others) - set(target["hosts"]))]}}


def migrate(arguments: Arguments, warn: Callable[[str], None]) -> dict[str, Any]:
    """The next step. ``options``: ``held`` and ``counts`` by host, ``retire``, ``waited``."""
    operate, brokers, options = library("operate.migrate"), arguments["brokers"], arguments["options"]
    looks = [
        operate.MigrationLook(
            host=host,
            name=brokers[host]["broker_name"],
            **{key: brokers[host][key] for key in ("pair", "role", "ha")},
            **{key: look[key] for key in ("state", "how")},
            links=tuple(
                operate.MigrationLink(link["name"], link["target"], link["duplex"]) for link in brokers[host]["links"]
            ),
            held=_held(options["held"].get(host)),
            counts=tuple(options["counts"].get(host) or ()),
        )
        for host, look in arguments["looks"].items()
    ]
    step = operate.plan_migration(
        looks, sorted(arguments["target"]["pairs"]), retire=options["retire"], waited=float(options["waited"])
    )
    for note in step.notes:
        warn(note)
    return {"step": step.to_dict()}


def _held(found: Mapping[str, Any] | None) -> Any:
    if not found or "messages" not in found:
        return None
    return library("operate.migrate").Held(
        **{key: found[key] for key in ("running", "store", "queues", "prepared", "bridges", "certain", "messages")},
        subscriptions=[(one["topic"], one["client"], one["name"], one["messages"]) for one in found["subscriptions"]],
        clients=[(one["client"], one["address"], one["connector"]) for one in found["clients"]],
    )
