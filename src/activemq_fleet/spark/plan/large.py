"""A component that has more brokers than one task may hold: told, and its brokers listed. Pure.

What its links, its routes and its files would be is known only when all of it is looked at together.
So nothing of that is claimed, and the finding blocks as an error does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from activemq_fleet.errors import FleetError
from activemq_fleet.findings import Finding, error
from activemq_fleet.naming import Naming
from activemq_fleet.spark.plan.context import Context
from activemq_fleet.spark.plan.outcome import Lists, Tables
from activemq_fleet.spark.plan.saying import said
from activemq_fleet.topology.brokers import Member, build_broker
from activemq_fleet.topology.build import waive

if TYPE_CHECKING:
    from activemq_fleet.spark.plan.rows import Fingerprint, Row

_AT_ONCE = 2000
_MOST_NAMED = 4
_HOST = 3


class LargeComponent:
    """Takes the rows of a component one by one, and keeps only what is told of them."""

    def __init__(self, name: str, context: Context) -> None:
        self._name = name
        self._context = context
        self._hosts: list[tuple[str, str | None]] = []
        self._groups: dict[str, None] = {}
        self._brokers = 0

    def add(self, row: Row) -> None:
        """One more row, in order."""
        if row.kind != _HOST:
            return
        self._hosts.append((row.host, row.text if row.broker else None))
        self._brokers += row.broker

    def results(self, mark: Fingerprint) -> Iterator[Tables]:
        """Its brokers in portions, without links; the finding comes last."""
        fingerprint = mark.value
        for start in range(0, len(self._hosts), _AT_ONCE):
            hosts = self._hosts[start : start + _AT_ONCE]
            tables, rows = Tables(), Lists()
            tables.component(self._name, fingerprint, [host for host, _ in hosts])
            try:
                for host, text in hosts:
                    if text is not None:
                        self._list(host, text, rows)
            except FleetError as problem:
                tables.error = str(problem)
            tables.add(rows.tables(), rows.blocking)
            yield tables
        last, rows = Tables(), Lists()
        rows.findings(waive([self._finding()], self._context.waived))
        last.add(rows.tables(), rows.blocking, self._brokers)
        yield last

    def _list(self, host: str, text: str, rows: Lists) -> None:
        found = said(text)
        assert found.settings is not None  # noqa: S101 -- mistakes of variables have ended the run before this
        assert found.release is not None  # noqa: S101
        identity = Naming(self._context.pattern, found.settings.master_node).identify(host)
        if identity is not None:
            self._groups.setdefault(identity.group)
            broker, findings = build_broker(Member(identity, found.settings, found.release))
            rows.brokers([broker])
            rows.findings(waive(findings, self._context.waived))

    def _finding(self) -> Finding:
        groups = list(self._groups)
        named = ", ".join(groups[:_MOST_NAMED])
        more = f" and {len(groups) - _MOST_NAMED} more" if len(groups) > _MOST_NAMED else ""
        what = f"group {named} has" if len(groups) == 1 else f"groups {named}{more} are one network of"
        return error(
            "T028",
            self._hosts[0][0],
            f"{what} {self._brokers} brokers, more than the {self._context.largest} that plan looks at together: "
            "their links, routes and files are not planned",
            f"raise --largest to {self._brokers} where workers have the memory, or look why so many belong together "
            "(activemq_links, one activemq_address of many)",
            why="who reaches whom is known only of a whole network",
        )
