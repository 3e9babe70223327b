"""Resolve the target of an operation: a pair, a group, one host or the whole fleet.

The target comes from the inventory, never from the hosts that are left in a play: a limit that contains only one node
of a pair would hide the state of the other node.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal

from activemq_fleet.errors import InputError
from activemq_fleet.naming import hosts_with_full_or_short_name
from activemq_fleet.operations.operation_decisions import Decision, OperationDecisionRequest, register_operation
from activemq_fleet.topology.named_hosts import (
    SelectableHost,
    find_named_hosts,
    only_host_with_name,
    similar_name_hint,
)

_COLLECTION_MINIMA = {"megabytes": 1, "timeout": 1, "days": 0}
_THREAD_DUMPS = ("hung", "always", "never")


@dataclass(frozen=True, slots=True)
class PossibleTargetHost:
    """A host on which an operation on brokers may act.

    It has its broker's pair, group and preferred role.
    """

    host: str
    pair: str
    group: str
    role: str


@dataclass(frozen=True, slots=True)
class TargetHostsAndPairs:
    """The target of an operation on brokers: the hosts and pairs on which it acts.

    ``hosts`` are all nodes of the target's pairs; evidence of each is required. ``chosen`` are the hosts that may be
    changed, which are fewer than ``hosts`` only if the target is a single host. ``pairs`` are sorted by name, each with
    the preferred master first. ``to`` maps pairs to the node that must become active.
    """

    kind: Literal["fleet", "group", "pair", "host"]
    name: str
    hosts: tuple[str, ...]
    chosen: tuple[str, ...]
    pairs: dict[str, tuple[str, ...]]
    to: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return the target of an operation as a dictionary for playbooks.

        It has lists of hosts by pair.
        """
        return asdict(self) | {"pairs": {pair: list(hosts) for pair, hosts in self.pairs.items()}}


def resolve_target(
    brokers: Sequence[PossibleTargetHost],
    name: str = "",
    node_to_activate: str = "",
    play_hosts: Collection[str] | None = None,
    *,
    other_hosts: Sequence[PossibleTargetHost] = (),
    option: str = "activemq_target",
) -> TargetHostsAndPairs:
    """Return the hosts and pairs on which an operation acts, given the names that the operator specified.

    ``name`` is ``activemq_target``; an empty name is the whole fleet. ``node_to_activate`` is ``activemq_to``, the node
    that must become active; it defaults to every pair's preferred master. ``find_named_hosts`` reads the names.
    ``play_hosts`` are the hosts of the play after ``--limit``; a limit that leaves out a node of the target is refused.
    ``other_hosts`` are hosts without a broker that may be named, too. ``option`` is the option that errors name.
    Raises InputError with one line: an unknown name (with the nearest one), an ambiguous one, a node that is not of the
    target, or a limit that cuts it.
    """
    fleet_hosts = (*brokers, *other_hosts)
    if not fleet_hosts:
        raise InputError(
            "the inventory has no brokers. Check that the host names match activemq_naming_pattern, and that -i names "
            "the directory with the hosts"
        )
    kind: Literal["fleet", "group", "pair", "host"] = "fleet"
    chosen = {entry.host for entry in fleet_hosts}
    if name:
        kind, named_hosts = find_named_hosts(name, _selectable(brokers), _selectable(other_hosts), option=option)
        chosen = set(named_hosts)
    pair_names = {entry.pair for entry in fleet_hosts if entry.host in chosen}
    pairs = {pair: _pair_hosts(fleet_hosts, pair) for pair in sorted(pair_names)}
    hosts = tuple(host for nodes in pairs.values() for host in nodes)
    if play_hosts is not None:
        _check_play_hosts(pairs, play_hosts, name)
    masters = {entry.pair: entry.host for entry in fleet_hosts if entry.role == "master" and entry.pair in pair_names}
    return TargetHostsAndPairs(
        kind=kind,
        name=name,
        hosts=hosts,
        chosen=tuple(host for host in hosts if host in chosen),
        pairs=pairs,
        to=_node_to_activate(fleet_hosts, pairs, node_to_activate) if node_to_activate else masters,
    )


def _node_to_activate(
    fleet_hosts: Sequence[PossibleTargetHost], pairs: Mapping[str, Sequence[str]], to: str
) -> dict[str, str]:
    known = {host for nodes in pairs.values() for host in nodes}
    matching_hosts = hosts_with_full_or_short_name(to, known)
    if matching_hosts:
        host = only_host_with_name(to, matching_hosts, "activemq_to")
        return {entry.pair: entry.host for entry in fleet_hosts if entry.host == host}
    if hosts_with_full_or_short_name(to, [entry.host for entry in fleet_hosts]):
        raise InputError(
            f"activemq_to is {to}, which is not a node of the pairs that activemq_target selects. Set activemq_to to "
            f"one of {', '.join(sorted(known))}"
        )
    raise InputError(
        f"activemq_to is {to}, which is not a broker of the inventory. "
        f"{similar_name_hint(to, known | {host.partition('.')[0] for host in known})}"
    )


def _check_play_hosts(pairs: Mapping[str, Sequence[str]], play_hosts: Collection[str], name: str) -> None:
    """Raise InputError if a limit leaves out a node: its state is unknown, so its peer must not be changed."""
    excluded_hosts = [host for nodes in pairs.values() for host in nodes if host not in play_hosts]
    if not excluded_hosts:
        return
    partial_pair = next(
        (pair for pair, nodes in pairs.items() if 0 < sum(host in excluded_hosts for host in nodes) < len(nodes)), None
    )
    target = f"pair {partial_pair}" if partial_pair else f"the target ({name or 'the whole fleet'})"
    raise InputError(
        f"nothing was changed, because --limit excludes these hosts of {target}: {', '.join(excluded_hosts)}. Run the "
        "playbook without --limit, and set the target with -e activemq_target=PAIR, GROUP or HOST"
    )


def _pair_hosts(fleet_hosts: Sequence[PossibleTargetHost], pair: str) -> tuple[str, ...]:
    nodes = [entry for entry in fleet_hosts if entry.pair == pair]
    return tuple(entry.host for entry in sorted(nodes, key=lambda entry: (entry.role != "master", entry.host)))


def _selectable(fleet_hosts: Sequence[PossibleTargetHost]) -> list[SelectableHost]:
    return [SelectableHost(entry.host, entry.pair, entry.group) for entry in fleet_hosts]


def operation_start_time_as_text_and_epoch(since: object, now: float) -> dict[str, Any]:
    """Return when an operation, or its interrupted earlier run, began: ``{"since": text, "since_epoch": seconds}``.

    It is ``since`` (``activemq_since``), the start of an interrupted run, or else ``now``, in seconds since the epoch.
    The text is RFC 3339 in UTC with whole seconds. Raises InputError for text that is no such time, or one that has yet
    to come.
    """
    if not since:
        moment = datetime.fromtimestamp(int(now), UTC)
    else:
        try:
            moment = since if isinstance(since, datetime) else datetime.fromisoformat(str(since))
        except ValueError:
            raise InputError(
                f"activemq_since is {since!r}, which is not a time. Set it to the time that the interrupted run "
                "of the playbook printed, such as 2026-11-21T13:45:00Z"
            ) from None
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    if moment.timestamp() > now + 1:
        raise InputError(
            f"activemq_since is {since}, which is in the future. Set it to the time that the interrupted run of the "
            "playbook printed"
        )
    return {"since": moment.strftime("%Y-%m-%dT%H:%M:%SZ"), "since_epoch": moment.timestamp()}


@register_operation("target")
def decide_target_hosts_and_pairs(request: OperationDecisionRequest) -> Decision:
    """Return the target of an operation, the hosts and pairs that it acts on, as ``{"target": target}``.

    The target has the start of the run, too. ``options``: ``name``, ``to``, ``since`` and ``reach``, the hosts of the
    play.
    """
    options = request.options
    fleet_hosts = [
        PossibleTargetHost(host, broker.pair, broker.group, broker.role)
        for host, broker in request.broker_facts_by_host.items()
    ]
    target = resolve_target(fleet_hosts, options.get("name") or "", options.get("to") or "", options.get("reach"))
    needs_resync = [host for host in target.hosts if request.broker_facts_by_host[host].needs_resync]
    since = operation_start_time_as_text_and_epoch(options.get("since"), time.time())
    return {"target": {**target.to_dict(), **since, "needs_resync": needs_resync}}


@register_operation("collect")
def decide_log_collection_hosts_and_current_time(request: OperationDecisionRequest) -> Decision:
    """Return ``{"hosts": names, "time": text}``: the hosts whose logs the playbook ``collect`` copies, and the time.

    The time is UTC in the form 20240131T235959Z; it names the directory of the collection. ``options["name"]`` is the
    host, pair or group to collect from; an empty name is the whole fleet. The other options are the variables
    ``activemq_collect_…`` of this name, if they are set. Raises InputError for an invalid value.
    """
    _check_collection_options(request.options)
    agent_hosts = [
        PossibleTargetHost(host, agent.pair or "", agent.group or "", "agent")
        for host, agent in request.fleet.agents.items()
        if host not in request.broker_facts_by_host
    ]
    brokers = [
        PossibleTargetHost(host, broker.pair, broker.group, broker.role)
        for host, broker in request.broker_facts_by_host.items()
    ]
    target = resolve_target(brokers, request.options.get("name") or "", other_hosts=agent_hosts)
    return {"hosts": list(target.chosen), "time": time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())}


def _check_collection_options(options: Mapping[str, Any]) -> None:
    """Raise InputError for a value that the module ``collect`` would reject on each host."""
    for name, minimum in _COLLECTION_MINIMA.items():
        value = options.get(name)
        if value is not None and _whole_number(value) < minimum:
            raise InputError(
                f"activemq_collect_{name} is {str(value)[:60]!r}. Set it to a whole number of {minimum} or more"
            )
    dumps = options.get("dumps") or _THREAD_DUMPS[0]
    if dumps not in _THREAD_DUMPS:
        raise InputError(
            f"activemq_collect_dumps is {str(dumps)[:60]!r}. Set it to {', '.join(_THREAD_DUMPS[:-1])} or "
            f"{_THREAD_DUMPS[-1]}"
        )


def _whole_number(value: object) -> Decimal:
    """Return the whole number that a variable contains, or -1 for another value.

    As in modules of Ansible, a number may have decimal places that are zero, such as 200.0.
    """
    try:
        number = Decimal(str(value))
        return number if number.is_finite() and number == number.to_integral_value() else Decimal(-1)
    except ArithmeticError:
        return Decimal(-1)
