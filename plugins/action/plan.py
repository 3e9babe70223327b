# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.plan``: asks the library what comes next, from what the hosts have shown.

Each question is one function below and one line in ``_QUESTIONS``; what it needs beside
``brokers``, ``looks`` and ``target`` comes in ``options``. A question that is asked once a step
answers with ``step``, as ``playbooks/tasks/steps.yml`` says.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.activemq.fleet.plugins.plugin_utils import migration, resync
from ansible_collections.activemq.fleet.plugins.plugin_utils.library import library
from ansible_collections.activemq.fleet.plugins.plugin_utils.release_archives import look_into

_ARGUMENTS = {
    "question": {"type": "str", "required": True},
    "brokers": {"type": "dict", "required": True},
    "looks": {"type": "dict", "default": {}},
    "configured": {"type": "dict", "default": {}},
    "waivers": {"type": "list", "elements": "dict", "default": []},
    "target": {"type": "dict", "default": {}},
    "options": {"type": "dict", "default": {}},
}
Arguments = Mapping[str, Any]


class ActionModule(ActionBase):
    """One plan for all hosts of the play, so it runs once."""

    BYPASS_HOST_LOOP = True
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        arguments = self.validate_argument_spec(_ARGUMENTS)[1]
        answer = _QUESTIONS.get(arguments["question"])
        if answer is None:
            raise AnsibleActionFail(f"question must be one of {', '.join(_QUESTIONS)}, not {arguments['question']!r}")
        unseen = sorted(arguments["looks"].keys() - arguments["brokers"].keys())
        if unseen:
            raise AnsibleActionFail(f"{', '.join(unseen)}: not a broker of this fleet")
        try:
            given = {**arguments, "find": self._find}
            return {"changed": False, **_with_table(arguments, answer(given, self._display.warning))}
        except library("operate").RefusalError as error:
            raise AnsibleActionFail("\n".join([error.head, *error.problems])) from None
        except library("errors").FleetError as error:
            raise AnsibleActionFail(str(error)) from None

    def _find(self, path: str) -> str | None:
        """The file on the controller that ``copy`` takes for a relative path; None where there is none."""
        try:
            return str(self._find_needle("files", path))
        except AnsibleError:
            return None


def _preflight(arguments: Arguments, warn: Callable[[str], None]) -> dict[str, Any]:
    findings = library("validation").preflight(arguments["brokers"], arguments["looks"], arguments["waivers"])
    blocking = [finding.to_line() for finding in findings if finding.blocks]
    if blocking:
        raise AnsibleActionFail("\n".join(["nothing was changed, because of what the hosts show:", *blocking]))
    for finding in findings:
        if finding.severity != "info":
            warn(finding.to_line())
    return {"findings": [finding.to_dict() for finding in findings]}


def _lines(arguments: Arguments, _warn: Callable[[str], None]) -> dict[str, Any]:
    brokers = arguments["brokers"]
    # The release of a system's package is the business of whoever installs that.
    hosts = [host for host in arguments["looks"] if brokers[host].get("install") != "package"]
    running = {host: arguments["looks"][host].get("release") for host in hosts}
    changes = library("operate").line_changes(running, {host: brokers[host]["release"] for host in running})
    if changes:
        raise AnsibleActionFail("\n".join(["nothing was changed:", *changes]))
    return {}


def _releases(arguments: Arguments, _warn: Callable[[str], None]) -> dict[str, Any]:
    """``options``: ``upgrades``, whether directories are replaced from which brokers run."""
    operate, brokers = library("operate"), arguments["brokers"]
    homes = [operate.home_of(host, brokers[host], look) for host, look in arguments["looks"].items()]
    seen = {
        path: look_into(path, install, arguments["find"])
        for path, install in {(home.archive, home.install) for home in homes if home.needs_archive and home.archive}
    }
    archives = {path: operate.Archive(**found) for path, found in seen.items() if found is not None}
    sums = {host: broker["archive_sha512"] for host, broker in brokers.items()}
    problems = operate.wrong_releases(homes, archives, sums, upgrades=bool(arguments["options"].get("upgrades")))
    if problems:
        raise AnsibleActionFail("\n".join(["nothing was changed:", *problems]))
    return {}


def _roll(arguments: Arguments, warn: Callable[[str], None]) -> dict[str, Any]:
    operate, brokers, looks = library("operate"), arguments["brokers"], dict(arguments["looks"])
    # In check mode the hosts cannot know what the files that were not installed would need.
    owing = {host for host, result in arguments["configured"].items() if result["restart_required"]}
    for host in owing & looks.keys():
        looks[host] = {**looks[host], "restart_required": True}
    seen = [
        operate.Look(
            host=host,
            **{key: brokers[host][key] for key in ("pair", "role", "ha")},
            **{key: look[key] for key in ("state", "how", "restart_required", "store_used")},
        )
        for host, look in looks.items()
    ]
    plan = operate.plan_roll(seen)
    for note in plan.notes:
        warn(note)
    return {
        "order": [step.host for step in plan.steps],
        "steps": {step.host: step.to_dict() for step in plan.steps},
        "notes": list(plan.notes),
    }


def _stores(arguments: Arguments, _warn: Callable[[str], None]) -> dict[str, Any]:
    operate, brokers = library("operate"), arguments["brokers"]
    seen = [
        operate.StoreLook(
            host=host,
            pair=brokers[host]["pair"],
            directory=brokers[host]["store"],
            marked=None if look["marked"] is None else tuple(look["marked"]),
            **{key: look[key] for key in ("exists", "mounted", "used")},
        )
        for host, look in arguments["looks"].items()
    ]
    plan = operate.plan_stores(seen, Counter(broker["pair"] for broker in brokers.values()))
    if plan.problems:
        raise AnsibleActionFail("\n".join(["no broker is started, because of a shared store:", *plan.problems]))
    firsts = {hosts[0]: list(hosts[1:]) for hosts in plan.claims.values()}
    return {"claims": firsts, "hosts": [host for hosts in plan.claims.values() for host in hosts]}


def _target(arguments: Arguments, _warn: Callable[[str], None]) -> dict[str, Any]:
    """``options``: ``name``, ``to``, ``since`` and ``reach``, the hosts of the play."""
    operate, options = library("operate"), arguments["options"]
    places = [
        operate.Place(host, **{key: broker[key] for key in ("pair", "group", "role")})
        for host, broker in arguments["brokers"].items()
    ]
    reach = options.get("reach")
    target = operate.resolve_target(places, options.get("name") or "", options.get("to") or "", reach)
    return {"target": target.to_dict() | operate.read_since(options.get("since"), time.time())}


def _collect(arguments: Arguments, _warn: Callable[[str], None]) -> dict[str, Any]:
    """``options``: ``name`` and ``agents``. Every broker and agent that is meant; a limit may cut anything."""
    operate, options = library("operate"), arguments["options"]
    named = {**(options.get("agents") or {}), **arguments["brokers"]}
    places = [
        operate.Place(host, pair=node["pair"], group=node["group"], role=node.get("role", "agent"))
        for host, node in named.items()
    ]
    target = operate.resolve_target(places, options.get("name") or "")
    return {"hosts": list(target.chosen), "time": time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())}


def _rolling(arguments: Arguments, act: str, **more: Any) -> tuple[list[Any], Any]:
    """The evidence of every host, and the run so far, for the questions that are asked before every step."""
    operate, options = library("operate"), arguments["options"]
    nodes = [operate.node_of(host, arguments["brokers"][host], look) for host, look in arguments["looks"].items()]
    acted = {host for host, acts in options["acted"].items() if act in acts}
    since, looked_at = float(arguments["target"]["since_epoch"]), float(options["looked_at"])
    done = {node.host for node in nodes if not node.restart_required and operate.started_since(node, since, looked_at)}
    run = operate.Run(
        act=act,
        chosen=arguments["target"]["chosen"],
        acted=acted,
        waited=float(options["waited"]),
        window=time.time() - looked_at,
        settle=float(options["settle"]),
        **{"done": done | acted, **more},
    )
    return nodes, run


def _restart(arguments: Arguments, warn: Callable[[str], None]) -> dict[str, Any]:
    return _step(library("operate").next_restart(*_rolling(arguments, "restart")), warn)


def _switchover(arguments: Arguments, warn: Callable[[str], None]) -> dict[str, Any]:
    if arguments["target"]["kind"] == "host":
        # Whoever names a host may well mean that it shall become active: the preferred one would.
        raise AnsibleActionFail("activemq_target is a host: name the PAIR, and the host with -e activemq_to=HOST")
    nodes, run = _rolling(arguments, "switch")
    return _step(library("operate").next_switchover(nodes, arguments["target"]["to"], run), warn)


def _upgrading(arguments: Arguments) -> tuple[list[Any], dict[str, Any], Any]:
    operate, brokers, looks = library("operate"), arguments["brokers"], arguments["looks"]
    nodes, run = _rolling(arguments, "upgrade", done=set(), upgrade=True)
    stores = {
        host: operate.Stores(
            now=operate.Persistence(**look["persistence"], directory=look["store"]),
            then=operate.Persistence(**brokers[host]["persistence"], directory=brokers[host]["directory"]),
            install=brokers[host]["install"],
        )
        for host, look in looks.items()
    }
    return nodes, stores, run


def _jumps(arguments: Arguments, warn: Callable[[str], None]) -> dict[str, Any]:
    """What the upgrade means for each pair that has one to make, as soon as every pair is well."""
    step, jumps = library("operate").check_upgrade(*_upgrading(arguments))
    return {**_step(step, warn), "jumps": {pair: jump.to_dict() for pair, jump in jumps.items()}}


def _upgrade(arguments: Arguments, warn: Callable[[str], None]) -> dict[str, Any]:
    """``put_back`` in the step: whether the host may get its old release back when the new one does not come up."""
    operate = library("operate")
    nodes, stores, run = _upgrading(arguments)
    switched = {host: acts.count("switch") for host, acts in arguments["options"]["acted"].items()}
    step = operate.next_upgrade(nodes, stores, run, switched)
    may = step.act != "upgrade" or operate.may_put_back(step.hosts[0], nodes, stores)
    return {"step": {**_step(step, warn)["step"], "put_back": may}}


def _step(step: Any, warn: Callable[[str], None]) -> dict[str, Any]:
    for note in step.notes:
        warn(note)
    return {"step": step.to_dict()}


def _drill(arguments: Arguments, _warn: Callable[[str], None]) -> dict[str, Any]:
    """``options``: what the action ``drill`` said of its state: ``turn``, the pair to be struck, and ``struck``."""
    drill, options, brokers = library("operate.drill"), arguments["options"], arguments["brokers"]
    seen = [
        drill.Seen(host=host, pair=brokers[host]["pair"], state=look["state"], how=look["how"])
        for host, look in arguments["looks"].items()
    ]
    step = drill.decide(
        dict.fromkeys(node.pair for node in seen),
        seen,
        options["turn"],
        options["struck"],
        waited=float(options["waited"]),
        settle=float(options["settle"]),
    )
    return {"step": step.to_dict()}


def _outcome(arguments: Arguments, _warn: Callable[[str], None]) -> dict[str, Any]:
    """The table of ``site``; ``looks`` are those before the first start.

    ``options``: ``after``, by host the results of later looks, the last first; ``rolled``, the hosts that were
    started or restarted; ``steps``, as V(roll) answered.
    """
    operate, options, configured = library("operate"), arguments["options"], arguments["configured"]
    after = {host: next((look for look in looks if look.get("state")), {}) for host, looks in options["after"].items()}
    acts = {
        host: [
            *(["files"] if result.get("changed") else []),
            *([options["steps"][host]["act"]] if host in options["rolled"] else []),
        ]
        for host, result in configured.items()
    }
    say = f"site is done on {library('printable').counted(len(configured), 'broker')}"
    return {"say": say, "table": operate.outcome_table(configured, arguments["looks"], after, acts, {})}


def _with_table(arguments: Arguments, answer: dict[str, Any]) -> dict[str, Any]:
    """With ``table``, the lines that say what was done to each host, where an operation is done."""
    options = arguments["options"]
    if answer.get("step", {}).get("act") != "done" or "before" not in options or arguments["question"] == "jumps":
        return answer
    target = arguments["target"]["hosts"]
    before = {host: look for host, look in options["before"].items() if look}
    gaps = {host: gap for host, gap in options["gaps"].items() if gap not in (None, "")}
    looks, acted = arguments["looks"], options["acted"]
    return {**answer, "table": library("operate").outcome_table(target, before, looks, acted, gaps)}


_QUESTIONS: dict[str, Callable[[Arguments, Callable[[str], None]], dict[str, Any]]] = {
    "collect": _collect,
    "drill": _drill,
    "lines": _lines,
    "outcome": _outcome,
    "migrate": migration.migrate,
    "migration": migration.migration,
    "jumps": _jumps,
    "preflight": _preflight,
    "releases": _releases,
    "roll": _roll,
    "stores": _stores,
    "target": _target,
    "restart": _restart,
    "resync": resync.resync,
    "switchover": _switchover,
    "upgrade": _upgrade,
}
