"""The report of a drill: a self-contained page with charts that show every fault."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from activemq_fleet.drills.model import DrillResult, FaultyEvent
from activemq_fleet.node.state.fault_kinds import FAULT_KINDS, FaultKind
from activemq_fleet.reports.drill_page import drill_html_page
from tests.unit.drilled import ACCOUNT, FAULT, drill_with_faults, result_of
from tests.unit.html_pages import Page, assert_well_formed_and_inert, with_evil_texts


def parse_page(result: DrillResult) -> Page:
    return Page(drill_html_page(result))


def test_drill_report_is_well_formed_page_that_loads_no_resource() -> None:
    assert_well_formed_and_inert(drill_html_page(drill_with_faults(20)))


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_drill_report_describes_every_kind_of_fault(kind: FaultKind) -> None:
    result = drill_with_faults(2)
    page = drill_html_page(replace(result, conditions=replace(result.conditions, what=kind)))
    assert any(f"{signal})" in page for signal in ("SIGKILL", "to the Java process only", "SIGSTOP", "SIGTERM"))


def test_fault_in_drill_chart_has_line_number_interruption_and_three_dots() -> None:
    page = parse_page(drill_with_faults(20))

    assert len(page.elements("line", "fault-line")) == 20
    assert sorted(map(int, page.texts_of_class("fault-number"))) == list(range(1, 21))
    assert len(page.elements("rect", "silence")) == 20 + 1  # one more is in the legend
    assert len(page.elements("circle", "dot")) == 60


def test_overlapping_fault_numbers_of_drill_chart_are_omitted_but_lines_remain() -> None:
    page = parse_page(drill_with_faults(400, ["orders-mq01"]))

    assert len(page.elements("line", "fault-line")) == 400
    numbers = page.elements("text", "fault-number")
    positions = sorted(float(number["x"] or 0) for number in numbers)
    assert 20 < len(positions) < 100
    assert min(b - a for a, b in pairwise(positions)) >= 11  # the width of a number with one digit, plus space


@pytest.mark.parametrize("count", [1, 20, 200])
def test_all_elements_of_drill_chart_are_inside_it(count: int) -> None:
    for _, attributes in parse_page(drill_with_faults(count)).tags:
        for name in ("x", "x1", "x2", "cx"):
            if attributes.get(name):
                assert 0 <= float(attributes[name] or 0) <= 1000
        if attributes.get("width") and attributes.get("x"):
            assert float(attributes["x"] or 0) + float(attributes["width"] or 0) <= 1000.1


def test_dots_of_equal_values_do_not_overlap_in_drill_chart() -> None:
    faults = [replace(FAULT, number=number, at=FAULT.at + 15 * number) for number in range(1, 6)]

    dots = parse_page(result_of(faults, [ACCOUNT])).elements("circle", "dot")

    assert len({(dot["cx"], dot["cy"]) for dot in dots}) == len(dots) == 15


def test_header_of_drill_report_has_verdict_with_reasons() -> None:
    units = (FaultyEvent("shop:e:7", "lost", "acknowledged, and the subscriber received a later barrier without it"),)
    page = parse_page(result_of([FAULT], [replace(ACCOUNT, lost=1, handled=999, units=units)]))

    assert page.elements("header", "findings")
    assert ("", "1 event lost: 1 fault, 1,000 events accepted.") in page.texts
    assert page.texts_of_class("id") == ["event", "shop:e:7"] or "shop:e:7" in page.texts_of_class("id")


def test_drill_report_lists_worst_events_first_and_number_of_all_others() -> None:
    duplicates = tuple(FaultyEvent(f"orders:e:{n}", "duplicate", "handled twice") for n in range(100))
    lost = (FaultyEvent("shop:e:7", "lost", "acknowledged, and not received"),)
    accounts = [
        replace(ACCOUNT, duplicate=700, units=duplicates),
        replace(ACCOUNT, pair="shop-mq01", lost=1, units=lost),
    ]
    page = drill_html_page(result_of([FAULT], accounts))

    assert "… and 681 more; the JSON result of the drill lists up to 100 per pair." in page
    assert Page(page).texts_of_class("id")[:3] == ["event", "shop:e:7", "orders:e:0"]


def test_drill_report_states_number_of_reasons_that_it_does_not_list() -> None:
    failed_faults = [replace(FAULT, number=number, problem="no takeover") for number in range(1, 11)]

    assert "<li>… and 2 more</li>" in drill_html_page(result_of(failed_faults, [ACCOUNT]))


def test_void_fault_in_drill_report_is_in_parentheses_with_reason() -> None:
    void_fault = replace(FAULT, void="31 events per second before the fault, and 50 are required")
    page = parse_page(result_of([void_fault, replace(FAULT, at=FAULT.at + 30)], [ACCOUNT]))

    assert page.texts_of_class("void-number") == ["(1)"]
    assert any("not counted, repeated: 31 events per second" in text for _, text in page.texts)


def test_hostile_texts_are_escaped_in_drill_report() -> None:
    void_fault, failed_fault = (
        replace(FAULT, void="too little"),
        replace(FAULT, number=2, problem="lost", note="late"),
    )
    account = replace(ACCOUNT, lost=1, handled=999, units=(FaultyEvent("e:7", "lost", "it was lost"),))
    drill_result = result_of([void_fault, failed_fault], [account])
    conditions = replace(drill_result.conditions, notes=("a note",))

    report_page = drill_html_page(
        with_evil_texts(replace(drill_result, conditions=conditions), kept=["what", "where", "state", "verdict"])
    )

    assert_well_formed_and_inert(report_page)
    assert report_page.count("&lt;script&gt;") > 20
    assert "\\u0000" in report_page


def test_drill_without_measurements_has_report() -> None:
    unmeasured_fault = replace(
        FAULT, takeover=None, silence=None, silent_from=None, publish_gap=None, back=None, successor=None
    )

    page = parse_page(
        result_of([replace(unmeasured_fault, problem="no node took over")], [replace(ACCOUNT, handled=0)])
    )

    assert page.texts.count(("small", "not measured")) == 3
    assert parse_page(result_of([], [])).open == []


def test_drill_result_survives_json_round_trip() -> None:
    drill_result = drill_with_faults(3)

    assert DrillResult.from_dict(json.loads(json.dumps(drill_result.to_dict()))) == drill_result


def test_timeline_of_drill_groups_hosts_by_pair_regardless_of_host_names() -> None:
    fault = replace(FAULT, pair="north", host="kestrel.example.com", successor="merlin.example.com")
    drill_result = result_of([fault], [replace(ACCOUNT, pair="north")])

    page = parse_page(drill_result)

    assert [span.pair for span in drill_result.spans] == ["north"] * len(drill_result.spans)
    assert {"kestrel", "merlin"} <= set(page.texts_of_class("host"))
    assert page.elements("rect", "s-active")
