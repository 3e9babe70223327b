"""The report of a drill: one page that needs nothing else, and whose charts show every fault."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from activemq_fleet.drills.model import DrillResult, FaultyEvent
from activemq_fleet.reports.drill_page import drill_html_page
from tests.unit.drilled import ACCOUNT, FAULT, many, result_of
from tests.unit.html_pages import Page, assert_whole_and_obeys_nothing, with_evil_texts


def page_of(result: DrillResult) -> Page:
    return Page(drill_html_page(result))


def test_the_page_is_whole_and_loads_nothing() -> None:
    assert_whole_and_obeys_nothing(drill_html_page(many(20)))


def test_every_fault_has_a_line_a_number_a_gap_and_three_dots() -> None:
    page = page_of(many(20))

    assert len(page.elements("line", "fault-line")) == 20
    assert sorted(map(int, page.of("fault-number"))) == list(range(1, 21))
    assert len(page.elements("rect", "silence")) == 20 + 1  # and one in the legend
    assert len(page.elements("circle", "dot")) == 60


def test_numbers_that_would_overlap_are_left_out_and_the_lines_are_not() -> None:
    page = page_of(many(400, ["orders-mq01"]))

    assert len(page.elements("line", "fault-line")) == 400
    numbers = page.elements("text", "fault-number")
    places = sorted(float(one["x"] or 0) for one in numbers)
    assert 20 < len(places) < 100
    assert min(b - a for a, b in pairwise(places)) >= 11  # as wide as a number of one digit, with room


@pytest.mark.parametrize("count", [1, 20, 200])
def test_nothing_is_drawn_outside_the_picture(count: int) -> None:
    for _, attributes in page_of(many(count)).tags:
        for name in ("x", "x1", "x2", "cx"):
            if attributes.get(name):
                assert 0 <= float(attributes[name] or 0) <= 1000
        if attributes.get("width") and attributes.get("x"):
            assert float(attributes["x"] or 0) + float(attributes["width"] or 0) <= 1000.1


def test_dots_that_are_equal_stand_above_each_other() -> None:
    same = [replace(FAULT, number=number, at=FAULT.at + 15 * number) for number in range(1, 6)]

    dots = page_of(result_of(same, [ACCOUNT])).elements("circle", "dot")

    assert len({(dot["cx"], dot["cy"]) for dot in dots}) == len(dots) == 15


def test_the_verdict_stands_at_the_top_with_its_reasons() -> None:
    units = (FaultyEvent("shop:e:7", "lost", "acknowledged, and the subscriber received a later barrier without it"),)
    page = page_of(result_of([FAULT], [replace(ACCOUNT, lost=1, handled=999, units=units)]))

    assert page.elements("header", "findings")
    assert ("", "1 event lost: 1 fault, 1,000 events accepted.") in page.texts
    assert page.of("id") == ["event", "shop:e:7"] or "shop:e:7" in page.of("id")


def test_void_fault_is_in_parentheses_with_its_reason() -> None:
    void = replace(FAULT, void="31 events per second before the fault, and 50 are required")
    page = page_of(result_of([void, replace(FAULT, at=FAULT.at + 30)], [ACCOUNT]))

    assert page.of("void-number") == ["(1)"]
    assert any("not counted, repeated: 31 events per second" in text for _, text in page.texts)


def test_no_text_of_strangers_is_obeyed() -> None:
    void, bad = replace(FAULT, void="too little"), replace(FAULT, number=2, problem="lost", note="late")
    account = replace(ACCOUNT, lost=1, handled=999, units=(FaultyEvent("e:7", "lost", "it is gone"),))
    result = result_of([void, bad], [account])
    conditions = replace(result.conditions, notes=("a note",))

    text = drill_html_page(
        with_evil_texts(replace(result, conditions=conditions), kept=["what", "where", "state", "verdict"])
    )

    assert_whole_and_obeys_nothing(text)
    assert text.count("&lt;script&gt;") > 20
    assert "\\u0000" in text


def test_a_drill_in_which_nothing_was_measured_has_a_report_too() -> None:
    nothing = replace(FAULT, takeover=None, silence=None, silent_from=None, publish_gap=None, back=None, successor=None)

    page = page_of(result_of([replace(nothing, problem="no node took over")], [replace(ACCOUNT, handled=0)]))

    assert page.texts.count(("small", "not measured")) == 3
    assert page_of(result_of([], [])).open == []


def test_a_result_survives_json() -> None:
    result = many(3)

    assert DrillResult.from_dict(json.loads(json.dumps(result.to_dict()))) == result


def test_the_time_line_groups_hosts_by_their_pair_whatever_the_hosts_are_called() -> None:
    fault = replace(FAULT, pair="north", host="kestrel.example.com", successor="merlin.example.com")
    result = result_of([fault], [replace(ACCOUNT, pair="north")])

    page = page_of(result)

    assert [span.pair for span in result.spans] == ["north"] * len(result.spans)
    assert {"kestrel", "merlin"} <= set(page.of("host"))
    assert page.elements("rect", "s-active")
