"""What scrapes of metrics show of a fleet: who was active, when nobody was, and which gap no log tells of."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from activemq_fleet.audit.scraped_availability import (
    ActivePeriod,
    UnservedPeriod,
    incident_near_period,
    read_availability,
    unexplained_downtime_gaps,
)
from activemq_fleet.errors import InputError
from activemq_fleet.reports.audit import audit_html_page
from activemq_fleet.reports.drill_page import drill_html_page
from tests.support.report_inputs import NOON, make_incident, make_picture, make_result, time_after
from tests.unit.drilled import ACCOUNT, BEGAN, FAULT, A, B, result_of
from tests.unit.html_pages import EVIL

PAIR = "orders-mq01"


def answer(series: dict[tuple[str, str], dict[float, int]]) -> str:
    """Prometheus' answer to a range query, by pair and host of each series."""
    found = [
        {"metric": {"pair": pair, "host": host}, "values": [[at, str(value)] for at, value in values.items()]}
        for (pair, host), values in series.items()
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": found}})


def taken_over(began: float) -> str:
    """A is active for 10 s and then cannot be scraped; B is from second 14 on."""
    a = {began + at: int(at < 10) for at in range(20)}
    b = {began + at: int(at >= 14) for at in range(20)}
    return answer({(PAIR, A): a, (PAIR, B): b})


def test_a_gap_lasts_from_the_last_scrape_with_an_active_node_to_the_next() -> None:
    found = read_availability(taken_over(100), "f")
    assert found.interval == 1
    assert found.active == (ActivePeriod(PAIR, A, 100, 109), ActivePeriod(PAIR, B, 114, 119))
    assert found.unserved == (UnservedPeriod(PAIR, 109, 114),)
    assert found.longest_seconds_without_active_node(PAIR, after=105, until=112) == 5
    assert found.longest_seconds_without_active_node(PAIR, after=115, until=119) == 0
    assert found.longest_seconds_without_active_node("another", after=0, until=1000) is None


def test_nothing_is_known_of_a_time_without_scrapes() -> None:
    values = dict.fromkeys((0.0, 1.0, 2.0, 60.0, 61.0), 1)
    found = read_availability(answer({(PAIR, A): values}), "f")
    assert found.unserved == ()
    assert [(one.began, one.ended) for one in found.active] == [(0, 2), (60, 61)]


def test_a_pair_that_was_never_active_is_unserved_as_long_as_it_was_looked_at() -> None:
    found = read_availability(answer({(PAIR, A): {0: 0, 15: 0, 30: 0}, (PAIR, B): {0: 0, 30: 0}}), "f")
    assert found.unserved == (UnservedPeriod(PAIR, 0, 30),)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[]",
        '{"data": 1}',
        '{"data": {"result": [{"metric": {}, "values": []}]}}',
        '{"data": {"result": [{"metric": {"pair": "p", "host": "h"}, "value": [1, "1"]}]}}',
        '{"data": {"result": [{"metric": {"pair": "p", "host": "h"}, "values": [[1e300, "1"]]}]}}',
        '{"data": {"result": [{"metric": {"pair": "p", "host": "h"}, "values": [["NaN", "1"]]}]}}',
        "[" * 100_000,
    ],
)
def test_another_text_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(InputError, match="FILE is not the JSON answer of Prometheus to a range query"):
        read_availability(text, "FILE")


def test_only_a_gap_that_no_incident_tells_of_makes_an_audit_incomplete() -> None:
    found = read_availability(taken_over(NOON.timestamp() + 30), "f")
    known = make_incident()
    assert incident_near_period(found.unserved[0], [known]) is known
    assert unexplained_downtime_gaps(found, [known], NOON, time_after(90)) == []
    elsewhere = [replace(known, pair="another"), make_incident(began=time_after(200), ended=time_after(201))]
    gaps = unexplained_downtime_gaps(found, elsewhere, NOON, time_after(90))
    assert [(gap.host, gap.weighs) for gap in gaps] == [(PAIR, True)]
    assert gaps[0].what.startswith("Prometheus shows no active node of the pair for 5.0 s from 2026-03-01 12:00:39 UTC")
    assert unexplained_downtime_gaps(found, elsewhere, NOON + timedelta(minutes=5), time_after(900)) == []


def test_the_report_of_an_audit_names_the_incident_of_each_gap() -> None:
    scraped = read_availability(taken_over(NOON.timestamp() + 30), "f")
    text = audit_html_page(make_result(), replace(make_picture(), scraped=scraped))
    assert "Availability by Prometheus" in text
    assert "1: takeover" in text
    assert "Availability by Prometheus" not in audit_html_page(make_result(), make_picture())
    evil: Any = read_availability(answer({(EVIL, EVIL): {0: 0, 1: 0}}), "f")
    assert EVIL not in audit_html_page(make_result(), replace(make_picture(), scraped=evil))


def test_the_report_of_a_drill_has_what_scrapes_saw_only_where_there_were_any() -> None:
    scraped = read_availability(taken_over(BEGAN), "f")
    seen = result_of([replace(FAULT, unserved=5.0)], [ACCOUNT], scraped=scraped)
    assert "no active node, by scrapes" in drill_html_page(seen)
    assert "by scrapes of the brokers" in drill_html_page(seen)
    assert "scrapes" not in drill_html_page(result_of([FAULT], [ACCOUNT]))
    assert type(seen).from_dict(json.loads(json.dumps(seen.to_dict()))) == seen
