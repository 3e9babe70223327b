"""The tables of ``status`` on a terminal of 80 columns: every line fits, and every host name is unambiguous."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import click
import pytest

from activemq_fleet.cli import status as status_command
from activemq_fleet.cli import terminal
from activemq_fleet.status.host_evidence import BrokerStatistics
from activemq_fleet.status.model import AgentStatus, BalancerStatus, BrokerStatus, FleetStatus, LinkStatus
from activemq_fleet.status.text import AGENT_COLUMNS, BALANCER_COLUMNS, BROKER_COLUMNS, broker_cells
from tests.support.broker_evidence import NOW, usage_evidence

WIDTH = 80
COMPACT = ["host", "role", "state", "for", "store", "messages", "durable", "dlq", "bridges"]
DOMAIN = "eu-central-1.messaging.internal.example.com"


def names_in_same_domain(count: int) -> list[str]:
    return [f"customer-orders-mq{number:02}-a.{DOMAIN}" for number in range(1, count + 1)]


def names_in_many_domains(count: int) -> list[str]:
    """Return long names whose first label is the same on all hosts, without a common domain."""
    return [f"customer-orders-mq01-a.site-{number:02}.{DOMAIN}.country{number:02}" for number in range(1, count + 1)]


def names_with_common_suffix(count: int) -> list[str]:
    """Return long names whose first label is the same on all hosts, in domains below a common one."""
    return [f"customer-orders-mq01-a.site-{number:02}.{DOMAIN}" for number in range(1, count + 1)]


def names_without_domain(count: int) -> list[str]:
    return [f"customer-orders-production-messages-mq{number:02}-a" for number in range(1, count + 1)]


def addresses(count: int) -> list[str]:
    return [f"10.20.30.{number}" for number in range(1, count + 1)]


NAMES = [names_in_same_domain, names_in_many_domains, names_with_common_suffix, names_without_domain, addresses]


def status_of(hosts: Sequence[str]) -> FleetStatus:
    """Return the status of brokers with the longest cells of most columns, of an agent and of a load balancer."""
    brokers = tuple(
        BrokerStatus(
            host=host,
            group="customer-orders",
            pair=host.partition(".")[0],
            role="master",
            ha="shared-file",
            state="unreachable" if number % 2 else "active",
            since="2027-01-01T07:00:00Z",
            release="5.18.3",
            release_planned="5.19.10",
            version="abc",
            usage=BrokerStatistics(**usage_evidence(messages=123_456_789, dlq=1_234_567, store={"percent": 100})),
            links=(LinkStatus(link="to-customers", to=(hosts[0],), state="half"),),
        )
        for number, host in enumerate(hosts)
    )
    agent = AgentStatus(host=hosts[0], group="a", pair="a", state="running", publisher=hosts[0], subscriber=hosts[-1])
    balancer = BalancerStatus(host=hosts[-1], state="up", haproxy="up", keepalived="up", addresses={"a": True})
    return FleetStatus(time=NOW, seconds=2.0, brokers=brokers, agents=(agent,), balancers=(balancer,))


@pytest.fixture
def terminal_of_80(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setattr(terminal, "is_terminal", lambda _stream=None: True)


def tables_of(status: FleetStatus, *, wide: bool) -> list[list[str]]:
    """Return the lines of the tables for brokers, agents and balancers."""
    text = click.unstyle("\n".join(status_command._text_lines(status, wide=wide)))
    return [block.split("\n") for block in text.split("\n\n")[:3]]


def first_column_cells(table: list[str], title: str) -> Iterator[str]:
    """Yield the cells of a table's first column, whose parts may be on several lines."""
    width = re.search(r"\S+ +", table[0])
    assert width is not None
    assert table[0].startswith(title)
    cell = ""
    for line in table[1:]:
        is_begin = bool(line[width.end() :].strip().startswith(("master", "up", "running")))
        if is_begin and cell:
            yield cell
            cell = ""
        cell += line[: width.end()].strip()
    yield cell


@pytest.mark.usefixtures("terminal_of_80")
@pytest.mark.parametrize("count", [1, 8, 40])
@pytest.mark.parametrize("names", NAMES, ids=lambda names: names.__name__)
def test_status_fits_80_columns_with_compact_columns(names: Callable[[int], list[str]], count: int) -> None:
    brokers, agents, balancers = tables_of(status_of(names(count)), wide=False)
    for table in (brokers, agents, balancers):
        assert max(map(len, table)) <= WIDTH, table
    assert brokers[0].split() == COMPACT
    for word in ("active", "123456789", "1234567", "100 %"):
        assert any(word in line for line in brokers), word
    assert agents[0].startswith("agent")
    assert balancers[0].split() == list(BALANCER_COLUMNS)


@pytest.mark.usefixtures("terminal_of_80")
@pytest.mark.parametrize("count", [1, 8, 40])
@pytest.mark.parametrize("names", NAMES, ids=lambda names: names.__name__)
def test_hosts_of_status_are_unambiguous_in_80_columns(names: Callable[[int], list[str]], count: int) -> None:
    hosts = names(count)
    status = status_of(hosts)
    cells = list(first_column_cells(tables_of(status, wide=False)[0], "host"))
    assert len(set(cells)) == len(hosts)
    note = "\n".join(status_command._text_lines(status, wide=False))
    match = re.search(r"host names omit (\S+);", note)
    assert [cell + (match[1] if match else "") for cell in cells] == hosts


@pytest.mark.usefixtures("terminal_of_80")
@pytest.mark.parametrize("count", [1, 8, 40])
@pytest.mark.parametrize("names", NAMES, ids=lambda names: names.__name__)
def test_wide_status_has_all_columns_and_line_for_each_host(names: Callable[[int], list[str]], count: int) -> None:
    hosts = names(count)
    brokers, agents, balancers = tables_of(status_of(hosts), wide=True)
    assert brokers[0].split() == list(BROKER_COLUMNS)
    assert re.split(r" {2,}", agents[0]) == list(AGENT_COLUMNS)
    assert balancers[0].split() == list(BALANCER_COLUMNS)
    assert [line.split()[0] for line in brokers[1:]] == hosts


@pytest.mark.usefixtures("terminal_of_80")
def test_status_has_no_column_without_value() -> None:
    status = status_of(names_in_same_domain(2))
    brokers = tuple(replace(broker, links=(), since=None) for broker in status.brokers)
    balancers = tuple(replace(balancer, addresses={}) for balancer in status.balancers)

    tables = tables_of(replace(status, brokers=brokers, balancers=balancers), wide=False)

    assert tables[0][0].split() == ["host", "role", "state", "store", "messages", "durable", "dlq"]
    assert re.split(r" {2,}", tables[1][0].strip()) == ["agent", "state", "connected to"]
    assert tables[2][0].split() == ["balancer", "state", "haproxy", "keepalived"]
    assert tables_of(status, wide=True)[0][0].split() == list(BROKER_COLUMNS)


@pytest.mark.usefixtures("terminal_of_80")
@pytest.mark.parametrize(("durable", "is_shown"), [(20, True), (0, False)])
def test_status_table_has_column_durable_only_if_durable_messages_exist(durable: int, is_shown: bool) -> None:
    status = status_of(names_in_same_domain(2))
    usage = BrokerStatistics(**usage_evidence(durable=durable))
    brokers = tuple(replace(broker, usage=usage) for broker in status.brokers)

    tables = tables_of(replace(status, brokers=brokers), wide=False)

    assert ("durable" in tables[0][0].split()) is is_shown


def test_single_broker_has_no_preferred_role_in_table() -> None:
    status = status_of(["a-mq01-a"])
    [broker] = status.brokers
    assert broker_cells(broker, 0.0)[:2] == ("a-mq01-a", "master")
    assert broker_cells(replace(broker, ha="none"), 0.0)[:2] == ("a-mq01-a", "single")
