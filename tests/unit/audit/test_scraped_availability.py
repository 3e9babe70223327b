"""Availability by scrapes of metrics: active nodes, periods without an active node, and unexplained downtime."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from activemq_fleet.audit.evidence import Incident
from activemq_fleet.audit.report_figures import MAX_INCIDENTS, IncidentFigures
from activemq_fleet.audit.scraped_availability import (
    ActivePeriod,
    ScrapedAvailability,
    UnservedPeriod,
    incident_near_period,
    read_availability,
    unexplained_downtime_gaps,
)
from activemq_fleet.errors import InputError
from activemq_fleet.reports.audit_page import audit_html_page
from activemq_fleet.reports.drill_page import drill_html_page
from tests.support.report_inputs import NOON, make_incident, make_picture, make_result, time_after
from tests.unit.drilled import ACCOUNT, BEGAN, FAULT, A, B, result_of
from tests.unit.html_pages import EVIL

PAIR = "orders-mq01"


def range_query_response(series: dict[tuple[str, str], dict[float, int]]) -> str:
    """Return the response of Prometheus to a range query from the values of each pair and host."""
    series_of_result = [
        {"metric": {"pair": pair, "host": host}, "values": [[at, str(value)] for at, value in values.items()]}
        for (pair, host), values in series.items()
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series_of_result}})


def takeover_response(began: float) -> str:
    """Return a response in which A is active for 10 s, and B is active from second 14 on."""
    a = {began + at: int(at < 10) for at in range(20)}
    b = {began + at: int(at >= 14) for at in range(20)}
    return range_query_response({(PAIR, A): a, (PAIR, B): b})


def incident_figures(availability: ScrapedAvailability, incidents: list[Incident]) -> IncidentFigures:
    """Return the figures of the incidents, with those that explain the downtimes in the scrapes."""
    figures = IncidentFigures(availability.unserved)
    for incident in incidents:
        figures.count_incident(incident)
    return figures


def test_downtime_lasts_from_last_scrape_with_active_node_to_next_such_scrape() -> None:
    availability = read_availability(takeover_response(100), "f")
    assert availability.interval == 1
    assert availability.active == (ActivePeriod(PAIR, A, 100, 109), ActivePeriod(PAIR, B, 114, 119))
    assert availability.unserved == (UnservedPeriod(PAIR, 109, 114),)
    assert availability.longest_seconds_without_active_node(PAIR, after=105, until=112) == 5
    assert availability.longest_seconds_without_active_node(PAIR, after=115, until=119) == 0
    assert availability.longest_seconds_without_active_node(PAIR, after=90, until=200, ended_before=110) == 0
    assert availability.longest_seconds_without_active_node(PAIR, after=109.5, until=200, ended_before=110) == 5
    assert availability.longest_seconds_without_active_node("another", after=0, until=1000) is None


def test_period_without_prometheus_scrapes_is_neither_active_nor_downtime() -> None:
    values = dict.fromkeys((0.0, 1.0, 2.0, 60.0, 61.0), 1)
    availability = read_availability(range_query_response({(PAIR, A): values}), "f")
    assert availability.unserved == ()
    assert [(period.began, period.ended) for period in availability.active] == [(0, 2), (60, 61)]


def test_pair_that_was_never_active_has_downtime_during_all_scrapes() -> None:
    availability = read_availability(
        range_query_response({(PAIR, A): {0: 0, 15: 0, 30: 0}, (PAIR, B): {0: 0, 30: 0}}), "f"
    )
    assert availability.unserved == (UnservedPeriod(PAIR, 0, 30),)


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
def test_availability_file_that_is_no_prometheus_range_response_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="FILE is not the JSON answer of Prometheus to a range query"):
        read_availability(text, "FILE")


def test_only_scraped_downtime_without_incident_makes_audit_incomplete() -> None:
    availability = read_availability(takeover_response(NOON.timestamp() + 30), "f")
    incident = make_incident()
    assert incident_near_period(availability.unserved[0], [incident]) is incident
    explained = incident_figures(availability, [incident]).incident_by_unserved_period
    assert unexplained_downtime_gaps(availability, explained, NOON, time_after(90)) == []
    other_incidents = [replace(incident, pair="another"), make_incident(began=time_after(200), ended=time_after(201))]
    unexplained = incident_figures(availability, other_incidents).incident_by_unserved_period
    gaps = unexplained_downtime_gaps(availability, unexplained, NOON, time_after(90))
    assert [(gap.host, gap.weighs) for gap in gaps] == [(PAIR, True)]
    assert gaps[0].what.startswith("Prometheus shows no active node of the pair for 5.0 s from 2026-03-01 12:00:39 UTC")
    assert unexplained_downtime_gaps(availability, unexplained, NOON + timedelta(minutes=5), time_after(900)) == []


def test_incident_that_audit_report_does_not_list_explains_scraped_downtime() -> None:
    availability = read_availability(takeover_response(NOON.timestamp() + 30), "f")
    split_brains = [make_incident(number, "split_brain", pair="another") for number in range(MAX_INCIDENTS)]
    figures = incident_figures(availability, [*split_brains, make_incident()])
    assert {incident.kind for incident in figures.gravest_incidents_to_show} == {"split_brain"}

    gaps = unexplained_downtime_gaps(availability, figures.incident_by_unserved_period, NOON, time_after(90))
    page = audit_html_page(make_result(), replace(make_picture(), incidents=figures, scraped=availability))

    assert gaps == []
    assert ">takeover (in the dataset incidents)</td>" in page


def test_listed_incident_is_preferred_as_explanation_of_scraped_downtime() -> None:
    availability = read_availability(takeover_response(NOON.timestamp() + 30), "f")
    split_brains = [make_incident(number, "split_brain") for number in range(MAX_INCIDENTS)]
    earlier_takeover = make_incident(1, ended=time_after(41))
    figures = incident_figures(availability, [*split_brains, earlier_takeover])

    page = audit_html_page(make_result(), replace(make_picture(), incidents=figures, scraped=availability))

    assert ">1: split brain</td>" in page


def test_audit_report_names_incident_of_scraped_downtime() -> None:
    scraped = read_availability(takeover_response(NOON.timestamp() + 30), "f")
    page = audit_html_page(make_result(), replace(make_picture(), scraped=scraped))
    assert "Availability by Prometheus" in page
    assert "1: takeover" in page
    assert "Availability by Prometheus" not in audit_html_page(make_result(), make_picture())
    hostile_availability: Any = read_availability(range_query_response({(EVIL, EVIL): {0: 0, 1: 0}}), "f")
    assert EVIL not in audit_html_page(make_result(), replace(make_picture(), scraped=hostile_availability))


def test_drill_report_shows_scraped_availability_only_with_scrapes() -> None:
    scraped = read_availability(takeover_response(BEGAN), "f")
    drill_with_scrapes = result_of([replace(FAULT, unserved=5.0)], [ACCOUNT], scraped=scraped)
    assert "no active node, by scrapes" in drill_html_page(drill_with_scrapes)
    assert "by scrapes of the brokers" in drill_html_page(drill_with_scrapes)
    assert "scrapes" not in drill_html_page(result_of([FAULT], [ACCOUNT]))
    assert (
        type(drill_with_scrapes).from_dict(json.loads(json.dumps(drill_with_scrapes.to_dict()))) == drill_with_scrapes
    )
