"""What playbooks ask about an operation, and the table of who answers: ``decide`` is the one way in.

A module that decides an operation registers a function for it with ``@operation(NAME)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from activemq_fleet.errors import FleetError, InputError
from activemq_fleet.operations.table import outcome_table

Decision = dict[str, Any]


class RefusalError(FleetError):
    """An operation refuses to change anything (further); ``problems`` holds one line for each reason."""

    exit_code = 1

    def __init__(self, head: str, problems: Sequence[str]) -> None:
        self.head, self.problems = head, tuple(problems)
        super().__init__(f"{head} {'; '.join(problems)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The input of every decision, in the plain values that Ansible hands on.

    ``brokers``: by host what the module ``compile`` returned. ``evidence``: by host the result of ``broker_info``,
    ``machine_info`` or ``store_marker``, whichever the operation is decided on. ``configured``: by host the result of
    ``configure``. ``target``: what the operation ``target`` returned. ``options``: what one operation needs alone.
    ``warn`` shows a line to the operator. ``inspect_release_archive`` returns what the controller sees of the archive
    of a release, as the fields of ``Archive``, or None for one that it cannot see.
    """

    brokers: Mapping[str, Mapping[str, Any]]
    evidence: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    configured: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    waivers: Sequence[Mapping[str, Any]] = ()
    target: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    warn: Callable[[str], None] = print
    inspect_release_archive: Callable[[str, str], Mapping[str, Any] | None] = lambda _path, _install: None

    def step(self, step: Any) -> Decision:
        """Return a step as the decision, after its notes were shown."""
        for note in step.notes:
            self.warn(note)
        return {"step": step.to_dict()}


_OPERATIONS: dict[str, Callable[[Request], Decision]] = {}
_WITHOUT_TABLE: set[str] = set()


def operation(
    name: str, *, has_table: bool = True
) -> Callable[[Callable[[Request], Decision]], Callable[[Request], Decision]]:
    """Register a function as what decides the operation ``name``; ``has_table``: a table of what was done ends it."""

    def register(function: Callable[[Request], Decision]) -> Callable[[Request], Decision]:
        if name in _OPERATIONS:
            raise ValueError(f"two functions decide {name}")
        _OPERATIONS[name] = function
        if not has_table:
            _WITHOUT_TABLE.add(name)
        return function

    return register


def decide(name: str, request: Request) -> Decision:
    """Return the decision of an operation, such as its next step; with ``table`` once the operation is done.

    Raises InputError for an unknown operation or a host that is no broker, RefusalError with one line for each problem
    that keeps the operation from going on, and other FleetError for what the inventory says wrong.
    """
    function = _OPERATIONS.get(name)
    if function is None:
        raise InputError(f"operation must be one of {', '.join(sorted(_OPERATIONS))}, not {name!r}")
    if unknown := sorted(request.evidence.keys() - request.brokers.keys()):
        raise InputError(f"{', '.join(unknown)}: not a broker of this fleet")
    return _with_table(name, request, function(request))


def _with_table(name: str, request: Request, decision: Decision) -> Decision:
    options = request.options
    if decision.get("step", {}).get("act") != "done" or "before" not in options or name in _WITHOUT_TABLE:
        return decision
    before = {host: evidence for host, evidence in options["before"].items() if evidence}
    gaps = {host: gap for host, gap in options["gaps"].items() if gap not in (None, "")}
    table = outcome_table(request.target["hosts"], before, request.evidence, options["acted"], gaps)
    return {**decision, "table": table}
