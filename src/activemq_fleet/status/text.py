"""Format the rows of a status as text: the cells of its tables, and one line per row."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from activemq_fleet.node.printable import align_columns, count_with_noun, escape_unprintable
from activemq_fleet.profiles import PROFILES
from activemq_fleet.status.model import AgentStatus, BalancerStatus, BrokerStatus, Certificate, FleetStatus

BROKER_COLUMNS = (
    *("host", "role", "state", "for", "release", "configuration", "store", "messages", "durable", "dlq"),
    *("bridges", "certificate", "restart"),
)
AGENT_COLUMNS = ("agent", "state", "connected to", "outbox", "oldest", "inbox", "certificate")
BALANCER_COLUMNS = ("balancer", "state", "haproxy", "keepalived", "holds")
COMPACT_COLUMNS = frozenset({
    *("host", "role", "state", "for", "store", "messages", "durable", "dlq", "bridges"),
    *("agent", "connected to", "outbox", "oldest", "inbox"),
    *("balancer", "haproxy", "keepalived", "holds"),
})  # fmt: skip
"""The columns that fit a terminal with a width of 80; problems in the other columns are also reported as findings."""
_NONE = "-"
_EMPTY_CELLS = {"durable": (_NONE, "0")}
"""The cells that count as without a value, by the title of their column; in other columns only a dash does."""


def broker_cells(row: BrokerStatus, now: float) -> tuple[str, ...]:
    """Return the cells (texts) of a broker's row in the status table.

    There is one for each of ``BROKER_COLUMNS``; a dash is for what is unknown.
    """
    usage = row.usage
    release = row.release or _NONE
    if row.release and row.release != row.release_planned:
        release = f"{row.release}, not {row.release_planned}"
    percent = usage.store.percent if usage else None
    return (
        row.host,
        row.role if PROFILES[row.ha].has_peer else "single",
        "frozen" if row.frozen else "not installed" if row.is_not_installed else row.state,
        _age_text(row.since, now),
        release,
        row.configuration_state,
        _NONE if percent is None else f"{percent} %",
        *((str(usage.messages), str(usage.durable), str(usage.dlq)) if usage else [_NONE] * 3),
        _bridges_text(row),
        _certificate_days_text(row.certificates),
        "required" if row.restart else _NONE,
    )


def _agent_cells(row: AgentStatus) -> tuple[str, ...]:
    """Return the cells (texts) of an agent's row in the status table.

    There is one for each of ``AGENT_COLUMNS``.
    """
    connected = ", ".join(dict.fromkeys(name for name in (row.publisher, row.subscriber) if name))
    counts = (_NONE if value is None else str(value) for value in (row.outbox, row.inbox))
    outbox, inbox = counts
    oldest = _NONE if row.oldest is None else f"{row.oldest:.0f} s"
    return row.host, row.state, connected or _NONE, outbox, oldest, inbox, _certificate_days_text(row.certificates)


def _balancer_cells(row: BalancerStatus) -> tuple[str, ...]:
    """Return the cells (texts) of a load balancer's row in the status table.

    There is one for each of ``BALANCER_COLUMNS``.
    """
    held_groups = ", ".join(group for group, holds in row.addresses.items() if holds)
    return row.host, row.state, row.haproxy or _NONE, row.keepalived or _NONE, held_groups or _NONE


def status_table_titles_and_rows(status: FleetStatus) -> list[tuple[Sequence[str], list[tuple[str, ...]]]]:
    """Return the tables of brokers, agents and load balancers in a fleet's status, with texts as cells.

    Each is (column titles, rows); a table without rows is left out.
    """
    tables: list[tuple[Sequence[str], list[tuple[str, ...]]]] = [
        (BROKER_COLUMNS, [broker_cells(row, status.time) for row in status.brokers]),
        (AGENT_COLUMNS, [_agent_cells(row) for row in status.agents]),
        (BALANCER_COLUMNS, [_balancer_cells(row) for row in status.balancers]),
    ]
    return [(titles, rows) for titles, rows in tables if rows]


def status_tables_without_empty_columns(status: FleetStatus) -> list[tuple[Sequence[str], list[tuple[str, ...]]]]:
    """Return the tables of a fleet's status in compact form: only columns with a value, and short host names.

    The tables are those of ``status_table_titles_and_rows`` without less important columns; hosts are without their
    common domain. A column is left out where every row has a dash, and ``durable`` where no message waits for a durable
    subscription.
    """
    domain = common_domain(status)
    tables: list[tuple[Sequence[str], list[tuple[str, ...]]]] = []
    for titles, rows in status_table_titles_and_rows(status):
        kept_positions = [
            position
            for position, title in enumerate(titles)
            if title in COMPACT_COLUMNS and any(row[position] not in _EMPTY_CELLS.get(title, (_NONE,)) for row in rows)
        ]
        tables.append((
            [titles[position] for position in kept_positions],
            [tuple(_without_domain(row[position], domain) for position in kept_positions) for row in rows],
        ))  # fmt: skip
    return tables


def common_domain(status: FleetStatus) -> str:
    """Return the DNS domain that all hosts of a status have in common; an empty text if there is none.

    It begins with a dot, such as ``.example.com``.
    """
    domains = [host.split(".")[1:] for host in status.states_by_host]
    common: list[str] = []
    for labels in zip(*map(reversed, domains), strict=False):
        if len(set(labels)) > 1:
            break
        common.insert(0, labels[0])
    return f".{'.'.join(common)}" if common and not common[-1].isdigit() else ""


def _without_domain(text: str, domain: str) -> str:
    """Return a text in which the names of hosts are without their DNS domain."""
    return ", ".join(word.removesuffix(domain) for word in text.split(", ")) if domain else text


def table_lines(status: FleetStatus) -> list[str]:
    """Return the tables of a fleet's status as lines of text.

    Columns are padded.
    """
    tables = status_table_titles_and_rows(status)
    printable_tables = (
        [titles, *([escape_unprintable(cell) for cell in row] for row in rows)] for titles, rows in tables
    )
    return [line for rows in printable_tables for line in align_columns(rows)]


def status_headline(status: FleetStatus) -> str:
    """Return one sentence that summarizes a fleet's status.

    It has the numbers of queried hosts, of errors and of warnings.
    """
    numbers = status.summary_counts
    checked_counts = [count_with_noun(len(rows), noun) for rows, noun in _rows_and_nouns(status) if rows]
    if not status.exit_code:
        starting = sum(row.state == "starting" for row in status.brokers)
        starting_note = f", and {count_with_noun(starting, 'broker')} still starting" if starting else ""
        return (
            f"{' and '.join(checked_counts) or 'no host was checked'}: "
            f"{'no problem' if starting else 'all is well'}{starting_note}"
        )
    problems = [count_with_noun(numbers[f"{word}s"], word) for word in ("error", "warning") if numbers[f"{word}s"]]
    return f"{' and '.join(checked_counts)}: {' and '.join(problems)}"


def _rows_and_nouns(status: FleetStatus) -> list[tuple[Sequence[object], str]]:
    return [(status.brokers, "broker"), (status.agents, "agent"), (status.balancers, "balancer")]


def _bridges_text(row: BrokerStatus) -> str:
    if not row.links:
        return _NONE
    up = sum(link.state == "up" for link in row.links)
    half = sum(link.state == "half" for link in row.links)
    return f"{up} of {len(row.links)}" + (f", {half} half" if half else "")


def _certificate_days_text(certificates: Sequence[Certificate]) -> str:
    days = [(certificate.days, certificate.days_text) for certificate in certificates if certificate.days is not None]
    return f"{min(days)[1]} d" if days else _NONE


def _age_text(since: str | None, now: float) -> str:
    if since is None:
        return _NONE
    seconds = max(0, int(now - datetime.fromisoformat(since).timestamp()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
