"""Decide operations for playbooks: ``decide`` passes a request to the function that is registered for the operation.

A module that decides an operation registers a function for it with ``@operation(NAME)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

from activemq_fleet.deployment import BrokerFacts
from activemq_fleet.errors import FleetError, InputError
from activemq_fleet.node.printable import aligned

Decision = dict[str, Any]
_Evidence = TypeVar("_Evidence")
_TABLE_HEAD = ("host", "before", "after", "gap", "changed")


class RefusalError(FleetError):
    """An error by which an operation refuses to change anything (more); ``problems`` has a line for each reason."""

    exit_code = 1

    def __init__(self, head: str, problems: Sequence[str]) -> None:
        self.head, self.problems = head, tuple(problems)
        super().__init__(f"{head} {'; '.join(problems)}")


@dataclass(frozen=True, slots=True)
class Step:
    """The next step of an operation: an ``act`` on ``hosts``, or ``wait`` for ``seconds``, or ``done``.

    ``say`` describes the step in one line.
    """

    act: str
    say: str
    hosts: tuple[str, ...] = ()
    seconds: int = field(default=0, kw_only=True)

    def to_dict(self) -> dict[str, Any]:
        """Return the step as the dictionary that playbooks read; tuples become lists."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The input of an operation's decision.

    ``brokers``: by host the facts that the module ``compile`` computed. ``evidence``: by host the result of
    ``broker_info``, ``machine_info`` or ``store_marker``, whichever the operation is decided on. ``configured``: by
    host the result of ``configure``. ``target``: what the operation ``target`` returned. ``options``: what one
    operation needs alone. ``warn`` shows a line to the operator. ``inspect_release_archive`` returns what the
    controller sees of the archive of a release, as the fields of ``Archive``, or None for one that it cannot see.
    """

    brokers: Mapping[str, BrokerFacts]
    evidence: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    configured: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    waivers: Sequence[Mapping[str, Any]] = ()
    target: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    warn: Callable[[str], None] = print
    inspect_release_archive: Callable[[str, str], Mapping[str, Any] | None] = lambda _path, _install: None

    def step(self, step: Step) -> Decision:
        """Return a step as the operation's decision, together with the step's notes for the operator."""
        for note in getattr(step, "notes", ()):
            self.warn(note)
        return {"step": step.to_dict()}


_OPERATIONS: dict[str, Callable[[Request], Decision]] = {}
_WITHOUT_TABLE: set[str] = set()


def operation(
    name: str, *, has_table: bool = True
) -> Callable[[Callable[[Request], Decision]], Callable[[Request], Decision]]:
    """Return a decorator that registers the function which decides the operation ``name``.

    ``has_table``: the last decision of the operation carries a table of what was done.
    """

    def register(function: Callable[[Request], Decision]) -> Callable[[Request], Decision]:
        _OPERATIONS[name] = function
        if not has_table:
            _WITHOUT_TABLE.add(name)
        return function

    return register


def decide(name: str, request: Request) -> Decision:
    """Return the decision of operation ``name``: its next ``step``, and with the last step a ``table`` of what was
    done.

    Raises InputError for an unknown operation or a host that is no broker, RefusalError with one line for each problem
    that keeps the operation from going on, and other FleetError for what the inventory says wrong.
    """
    function = _OPERATIONS.get(name)
    if function is None:
        raise InputError(f"operation must be one of {', '.join(sorted(_OPERATIONS))}, not {name!r}")
    if unknown := sorted(request.evidence.keys() - request.brokers.keys()):
        raise InputError(f"{', '.join(unknown)}: not a broker of this fleet")
    decision, options = function(request), request.options
    if decision.get("step", {}).get("act") != "done" or "before" not in options or name in _WITHOUT_TABLE:
        return decision
    before = {host: evidence for host, evidence in options["before"].items() if evidence}
    gaps = {host: gap for host, gap in options["gaps"].items() if gap not in (None, "")}
    table = outcome_table(request.target["hosts"], before, request.evidence, options["acted"], gaps)
    return {**decision, "table": table}


def from_mappings(kind: type[_Evidence], *mappings: Mapping[str, Any], **values: Any) -> _Evidence:
    """Return a dataclass of type ``kind``, its fields taken from ``values`` and else from the mappings.

    A field takes the value of its name in the first mapping that has it, else its default. Lists become tuples.
    """
    names = {known.name for known in fields(kind)}  # type: ignore[arg-type]
    given = {name: mapping[name] for mapping in reversed(mappings) for name in names & mapping.keys()} | values
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})


def outcome_table(
    hosts: Iterable[str],
    before: Mapping[str, Mapping[str, Any]],
    after: Mapping[str, Mapping[str, Any]],
    acted: Mapping[str, Sequence[str]],
    gaps: Mapping[str, float | None],
) -> list[str]:
    """Return the lines of a table of what an operation did, one for each host after the head.

    ``before`` and ``after``: by host the result of ``broker_info`` at the begin and the end. ``acted``: what was done
    to each. ``gaps``: seconds without an answer that clients had when a host handed over, None where not measured.
    """
    rows = [_TABLE_HEAD]
    for host in hosts:
        now, gap = after.get(host, {}), gaps.get(host)
        # What was not acted upon was not looked at before anything else.
        states = _release_and_state(before.get(host) or now), _release_and_state(now)
        acts = ", ".join(dict.fromkeys(acted.get(host, ()))) or "no"
        rows.append((host, *states, "-" if gap is None else f"{float(gap):.1f} s", acts))
    return aligned(rows)


def _release_and_state(evidence: Mapping[str, Any]) -> str:
    return " ".join(str(evidence[key]) for key in ("release", "state") if evidence.get(key)) or "not known"
