"""Decide operations for playbooks: ``decide`` passes a request to the function that is registered for the operation.

A module that decides an operation registers a function for it with ``@register_operation(NAME)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypeVar

from activemq_fleet.become_failures import remedies_for_dropped_hosts
from activemq_fleet.deployment import BrokerFacts, FleetFacts
from activemq_fleet.errors import FleetError, InputError
from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.judge import SERVING
from activemq_fleet.node.printable import align_columns
from activemq_fleet.node.state.evidence import BrokerEvidence

Decision = dict[str, Any]
_Evidence = TypeVar("_Evidence")
_STOPPING_ACTS = frozenset({"restart", "upgrade"})
"""The acts that stop a broker, and interrupt its clients if it is active."""
_TABLE_HEAD = ("host", "before", "after", "gap", "changed")


class RefusalError(FleetError):
    """An error that refuses an operation on brokers, such as a restart or an upgrade.

    Nothing more is changed. ``problems`` has a line for each reason.
    """

    exit_code = 1

    def __init__(self, head: str, problems: Sequence[str]) -> None:
        self.head, self.problems = head, tuple(problems)
        super().__init__(f"{head} {'. '.join(problems)}")


@dataclass(frozen=True, slots=True)
class OperationStep:
    """A step of an operation on brokers: an act on hosts, a wait, or the end.

    It is an ``act`` on ``hosts``, or ``wait`` for ``seconds``, or ``done``. ``say`` describes the step in one line.
    """

    act: str
    say: str
    hosts: tuple[str, ...] = ()
    seconds: int = field(default=0, kw_only=True)

    def to_dict(self) -> dict[str, Any]:
        """Return a step of an operation on brokers (its act, text, hosts and pause) as a dictionary for playbooks.

        Tuples become lists.
        """
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def seconds_of_next_wait(waited: float, *, shortest: int) -> int:
    """Return the seconds of the next wait of an operation on brokers, which grow with those already waited, up to 10.

    So a long wait has few steps: the number of steps of a playbook is limited.
    """
    return max(shortest, min(10, int(waited / 3)))


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProgress:
    """The acts (such as restarts) that an operation on brokers has performed on a host, and the state before them.

    ``acted``: the acts on the host, oldest first. ``before``: its release and state before the first act, None before
    the first decision. ``counts``: numbers of messages that a migration has counted on it, oldest first.
    """

    acted: tuple[str, ...] = ()
    before: str | None = None
    counts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """The progress of an operation on brokers, such as a restart: the acts on each host, and the seconds waited.

    The seconds are those since the last act.
    """

    waited: float = 0.0
    hosts: Mapping[str, HostProgress] = field(default_factory=dict)

    @classmethod
    def progress_from_dict(cls, mapping: Mapping[str, Any]) -> RunProgress:
        """Return the progress of an operation on brokers from a dictionary that ``progress_as_dict`` returned.

        It has the acts by host and the seconds waited. An empty mapping is the start of a run.
        """
        return cls(
            waited=float(mapping.get("waited", 0.0)),
            hosts={
                host: HostProgress(
                    acted=tuple(record["acted"]), before=record["before"], counts=tuple(record["counts"])
                )
                for host, record in mapping.get("hosts", {}).items()
            },
        )

    def progress_as_dict(self) -> dict[str, Any]:
        """Return the progress of an operation on brokers (acts on each host, and seconds waited) as a dictionary.

        Playbooks keep the dictionary between two steps of an operation on brokers.
        """
        return {
            "waited": self.waited,
            "hosts": {
                host: {"acted": list(record.acted), "before": record.before, "counts": list(record.counts)}
                for host, record in self.hosts.items()
            },
        }

    def progress_of_host(self, host: str) -> HostProgress:
        """Return the acts (such as restarts) that an operation on brokers has performed on a host, as HostProgress.

        The result is empty for a host on which the operation has done nothing yet.
        """
        return self.hosts.get(host) or HostProgress()

    def hosts_acted_on(self, act: str | None = None) -> set[str]:
        """Return the hosts that the run of an operation on brokers has acted on, such as those that it has restarted.

        ``act`` limits them to one act; None matches any act.
        """
        return {host for host, record in self.hosts.items() if (act in record.acted if act else record.acted)}

    def progress_with_step_done(self, step: Mapping[str, Any], evidence: Mapping[str, BrokerEvidence]) -> RunProgress:
        """Return the progress of an operation after one more step: the acts done on each host, and the seconds waited.

        A step that fails ends the run, and the progress is not used.
        """
        waits, counts = step["act"] == "wait", step.get("counts") or {}
        hosts = {}
        for host in {**self.hosts, **evidence}:
            record = self.progress_of_host(host)
            hosts[host] = HostProgress(
                acted=(*record.acted, step["act"]) if host in step["hosts"] and not waits else record.acted,
                before=release_and_state_text(evidence.get(host)) if record.before is None else record.before,
                counts=tuple(counts.get(host, record.counts)),
            )
        return RunProgress(waited=self.waited + step["seconds"] if waits else 0.0, hosts=hosts)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationDecisionRequest:
    """A request to decide the next step of an operation on brokers, such as an upgrade.

    It has the fleet, what its hosts returned, and what the run has done so far. ``fleet``: what the module ``compile``
    computed. ``evidence``: by host the result of ``broker_info``, ``machine_info`` or ``store_marker``, depending on
    the operation; the functions of operations get it as typed objects. ``configured``: by host the result of
    ``configure``. ``target``: what the operation ``target`` returned. ``progress``: what the run has done so far.
    ``options``: the values that only one operation uses, by name. ``warn`` shows a line to the operator.
    ``release_archive_facts`` returns what the controller sees of the archive of a release, as the fields of
    ``ReleaseArchive``, or None if it cannot see the archive.
    """

    fleet: FleetFacts
    evidence: Mapping[str, Any] = field(default_factory=dict)
    configured: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    target: Mapping[str, Any] = field(default_factory=dict)
    progress: RunProgress = field(default_factory=RunProgress)
    options: Mapping[str, Any] = field(default_factory=dict)
    warn: Callable[[str], None] = print
    release_archive_facts: Callable[[str, str], Mapping[str, Any] | None] = lambda _path, _install: None

    @property
    def broker_facts_by_host(self) -> Mapping[str, BrokerFacts]:
        """The facts about every broker of the fleet from its inventory, by host."""
        return self.fleet.brokers

    def show_notes_and_serialize_step(self, step: OperationStep) -> Decision:
        """Show the notes of an operation's next step to the operator, and return {"step": the step as a dictionary}."""
        for note in getattr(step, "notes", ()):
            self.warn(note)
        return {"step": step.to_dict()}


@dataclass(frozen=True, slots=True)
class _Operation:
    """A registered operation: its function, the reader of its evidence, and whether it ends with a table."""

    decide: Callable[[OperationDecisionRequest], Decision]
    read: Callable[[Mapping[str, Any]], Any]
    has_table: bool


_OPERATIONS: dict[str, _Operation] = {}


def register_operation(
    operation_name: str,
    *,
    read: Callable[[Mapping[str, Any]], Any] = BrokerEvidence.from_broker_info_result,
    has_table: bool = True,
) -> Callable[[Callable[[OperationDecisionRequest], Decision]], Callable[[OperationDecisionRequest], Decision]]:
    """Return a decorator that registers the function that decides the next step of an operation on brokers.

    ``read`` types the result of the module that its evidence comes from. ``has_table``: the last decision of the
    operation carries a table of what was done.
    """

    def register(
        function: Callable[[OperationDecisionRequest], Decision],
    ) -> Callable[[OperationDecisionRequest], Decision]:
        _OPERATIONS[operation_name] = _Operation(function, read, has_table)
        return function

    return register


def read_evidence_by_host(
    returned: Mapping[str, Mapping[str, Any]], read: Callable[[Mapping[str, Any]], _Evidence]
) -> dict[str, _Evidence]:
    """Return the result of an Ansible module on each host, converted by the function ``read``, as a dictionary by host.

    Raises InputError, which names the host, for a result that ``read`` rejects with NodeError.
    """
    typed = {}
    for host, result_of_host in returned.items():
        try:
            typed[host] = read(result_of_host)
        except NodeError as error:
            raise InputError(
                f"{host}: the playbook cannot read the broker state that this host returned ({error}). Run the "
                "playbook again with -vvv, which prints what the host returned"
            ) from None
    return typed


def decide_operation(name: str, request: OperationDecisionRequest) -> Decision:
    """Return an operation's decision, such as the next step of an upgrade of brokers, as a dictionary for playbooks.

    ``name`` is the operation. With the last step, the decision has a ``table`` of what was done.

    Raises InputError for an unknown operation or a host that is no broker, RefusalError with one line for each problem
    that stops the operation, and other kinds of FleetError for errors in the inventory.
    """
    operation = _OPERATIONS.get(name)
    if operation is None:
        raise InputError(
            f"the option operation of activemq.fleet.decide is {name!r}, which is not an operation. Set one of "
            f"{', '.join(sorted(_OPERATIONS))}"
        )
    if unknown := sorted(request.evidence.keys() - request.broker_facts_by_host.keys()):
        raise InputError(
            f"the playbook inspected hosts that are not brokers in the inventory: {', '.join(unknown)}. Correct the "
            "inventory or the names of these hosts (activemq-fleet names -i INVENTORY shows how they are read), and "
            "run the playbook again"
        )
    _refuse_lost_hosts(request)
    request = replace(request, evidence=read_evidence_by_host(request.evidence, operation.read))
    decision = operation.decide(request)
    if "step" not in decision:
        return decision
    progress = request.progress.progress_with_step_done(decision["step"], request.evidence)
    done = sorted(request.progress.hosts_acted_on())
    decision = {**decision, "progress": {**progress.progress_as_dict(), "done": done}}
    if decision["step"]["act"] != "done" or "hosts" not in request.target or not operation.has_table:
        return decision
    hosts = request.target["hosts"]
    records = {host: request.progress.progress_of_host(host) for host in hosts}
    observed = request.options.get("switched") or {}
    gaps = {host: observed[host].get("longest") for host in observed if "switch" in records[host].acted}
    acted = {host: record.acted for host, record in records.items()}
    before = {host: record.before for host, record in records.items()}
    return {**decision, "table": outcome_table_lines(hosts, before, request.evidence, acted, gaps)}


def _refuse_lost_hosts(request: OperationDecisionRequest) -> None:
    """Raise InputError for hosts of the target that are no longer ``alive`` in the play, where the options name those.

    A play that loses a host continues with the others, regardless of any_errors_fatal and max_fail_percentage (ansible
    issue 82834), so this is checked before every act.
    """
    if "alive" not in request.options:
        return
    if lost_hosts := [host for host in request.target["hosts"] if host not in request.options["alive"]]:
        remedy = remedies_for_dropped_hosts(
            lost_hosts, [request.evidence], "correct the errors that Ansible printed for them above"
        )
        raise InputError(
            f"{', '.join(lost_hosts)} failed or was not reached, so no further host is changed. {remedy}, "
            f"and run {request.options['same_command']}. To work on other pairs only, add "
            "the option -e activemq_target=PAIR"
        )


def dataclass_instance_from_mapping(kind: type[_Evidence], mapping: Mapping[str, Any], **values: Any) -> _Evidence:
    """Return an instance of the dataclass ``kind``, with the values that a mapping has for the names of its fields.

    ``values`` take precedence over the mapping. A field in neither takes its default. Other keys of the mapping are
    ignored. Lists become tuples.
    """
    names = {known.name for known in fields(kind)}  # type: ignore[arg-type]
    field_values = {name: mapping[name] for name in names & mapping.keys()} | values
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in field_values.items()})


def outcome_table_lines(
    hosts: Iterable[str],
    before: Mapping[str, str | None],
    after: Mapping[str, BrokerEvidence | None],
    acted: Mapping[str, Sequence[str]],
    gaps: Mapping[str, float | None],
) -> list[str]:
    """Return the lines of a table with each host's release, state, downtime and acts (such as a restart).

    There is one line for each host after the head. ``before``: by host its release and state at the begin. ``after``:
    by host the evidence at the end. ``acted``: what was done to each. ``gaps``: seconds without an answer that clients
    had when a host handed over, None where not measured.
    """
    rows = [_TABLE_HEAD]
    for host in hosts:
        evidence, gap = after.get(host), gaps.get(host)
        # The record of a host that was not changed has no release and state from before the run.
        states = before.get(host) or release_and_state_text(evidence), release_and_state_text(evidence)
        acts = ", ".join(dict.fromkeys(acted.get(host, ()))) or "no"
        rows.append((host, *states, _downtime_text(gap, states[0], acted.get(host, ())), acts))
    return align_columns(rows)


def _downtime_text(gap: float | None, before: str, acted: Sequence[str]) -> str:
    """Return the downtime of a host in an operation's table; "-" if the operation did not interrupt its clients."""
    if gap is not None:
        return f"{float(gap):.1f} s"
    return "not measured" if _STOPPING_ACTS.intersection(acted) and before.endswith(SERVING) else "-"


def release_and_state_text(evidence: BrokerEvidence | None) -> str:
    """Return a broker's release and state as one text, such as ``5.18.3 active``, for an operation's table."""
    if evidence is None:
        return "not known"
    return f"{evidence.release} {evidence.state}" if evidence.release else evidence.state
