"""The report of the audit: a self-contained page that shows all findings and escapes the texts of logs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from activemq_fleet.audit.aggregates import DurationHistogram
from activemq_fleet.audit.deliveries import EventOutcome
from activemq_fleet.audit.gaps import MAX_GAPS, gaps_from_incomplete_log_files
from activemq_fleet.audit.log_summaries import LogFileSummary
from activemq_fleet.audit.report_figures import (
    MAX_HOSTS,
    MAX_INCIDENTS,
    AuditReportData,
    BridgeFigures,
    EventFigures,
    IncidentFigures,
    LogLineFigures,
    ReportPeriod,
    TimeLineHost,
    time_line_hosts,
)
from activemq_fleet.audit.result import (
    AuditCounts,
    AuditInputSummary,
    AuditResult,
    InputGap,
    audit_headline,
    audit_outcome,
)
from activemq_fleet.audit.scraped_availability import UnservedPeriod
from activemq_fleet.audit.state_spans import MAX_SPANS, HostStateSpan
from activemq_fleet.reports.audit_page import audit_html_page
from tests.support.report_inputs import NOON, make_incident, make_picture, make_result, time_after
from tests.unit.html_pages import EVIL, Page, assert_well_formed_and_inert, with_evil_texts


def test_audit_report_is_well_formed_and_self_contained() -> None:
    assert_well_formed_and_inert(audit_html_page(make_result(), make_picture()))


def test_audit_report_escapes_texts_of_its_inputs() -> None:
    report_data = make_picture(EVIL, hosts=2)
    report_data.incidents.count_incident(with_evil_texts(make_incident(2), kept=["kind"]))

    page = audit_html_page(with_evil_texts(make_result(), kept=["verdict"]), report_data)

    assert_well_formed_and_inert(page)
    assert page.count("&lt;script&gt;") > 30
    assert "\\u0000" in page


def test_last_time_label_of_chart_in_audit_report_is_within_page() -> None:
    page = Page(audit_html_page(make_result(), make_picture(seconds=2 * 86400)))

    label_positions = [
        float(label["x"] or 0) for label in page.elements("text", "small") if label.get("text-anchor") == "middle"
    ]
    assert 900 < max(label_positions) <= 1000 - 36  # half of the label "03 Mar 12:00" is 36 wide


def test_audit_report_has_dark_and_print_styles() -> None:
    page = audit_html_page(make_result(), make_picture())

    assert "prefers-color-scheme:dark" in page
    assert "@media print" in page


def test_audit_report_shows_cause_remedy_rule_and_duration_of_incident() -> None:
    page = audit_html_page(make_result(), make_picture("a was killed"))

    for phrase in ("a was killed", "start it again", "activemq-fleet rule L022", "3.9 s", "an agent&#39;s journal"):
        assert phrase in page, f"the report does not contain {phrase}"


def test_audit_report_names_missing_inputs_at_top() -> None:
    top = audit_html_page(make_result("gone"), make_picture()).partition("<section>")[0]

    assert "cut-gone" in top
    assert "incomplete" in top


def test_audit_report_of_large_fleet_is_smaller_than_3_megabytes() -> None:
    spans = tuple(
        HostStateSpan("h" * 60, "active" if n % 2 else "standby", time_after(n), time_after(n + 1)) for n in range(80)
    )
    report_data = make_picture("x" * 200, incidents=300, seconds=240)
    for number in range(240):
        report_data.events.count_event(
            EventOutcome("e", "t", "delivered", "handled", NOON, time_after(number), ["s"]), []
        )
        report_data.bridges.links.add_items_keeping_smallest_keys(
            *report_data.bridges.links.items_with_smallest_keys()[:1]
        )
    hosts = [TimeLineHost(f"host-{n}.example.com", f"p{n // 2}", spans) for n in range(160)]
    data_with_hosts = replace(report_data, hosts=hosts)

    assert len(audit_html_page(make_result(), data_with_hosts)) < 3_000_000


def test_headline_of_audit_report_starts_with_number_of_lost_events() -> None:
    assert audit_headline(make_result()).startswith("1 event of 8 lost; 1 takeover")
    assert audit_headline(make_result(delivered=8)).startswith("None of 8 events lost")
    assert "1 of 8 events are stuck" in audit_headline(make_result(delivered=7, stuck=1))
    assert "the delivery of 1 event is indeterminate" in audit_headline(make_result(delivered=7, indeterminate=1))


def test_audit_report_without_data_is_well_formed() -> None:
    times = ReportPeriod(NOON, time_after(1))
    hosts: list[TimeLineHost] = []
    picture = AuditReportData(
        times, IncidentFigures(), hosts, 0, BridgeFigures(), LogLineFigures(times), EventFigures(times)
    )
    result = AuditResult("clean", AuditInputSummary("file:/x", 1, 1, 0, 1), (), AuditCounts(), "out")

    assert Page(audit_html_page(result, picture)).open == []


@pytest.mark.parametrize(
    ("gaps", "counts", "verdict"),
    [
        ((), AuditCounts(messages={"delivered": 3}, bridges={"up": 2, "down": 1}), "clean"),
        ((InputGap("h", "few records", weighs=False),), AuditCounts(), "clean"),
        ((), AuditCounts(incidents={"takeover": 1}), "findings"),
        ((), AuditCounts(incidents={"takeover": 3, "flapping": 1}, planned=4), "clean"),
        ((), AuditCounts(incidents={"takeover": 3, "flapping": 1}, planned=3), "findings"),
        ((), AuditCounts(messages={"delivered": 3, "lost": 1}), "findings"),
        ((), AuditCounts(messages={"stuck": 1}), "findings"),
        ((), AuditCounts(messages={"duplicate": 1}), "findings"),
        ((), AuditCounts(bridges={"not rebuilt": 1}), "findings"),
        ((), AuditCounts(bridges={"failed": 1}), "findings"),
        ((), AuditCounts(messages={"indeterminate": 1}), "incomplete"),
        ((InputGap("h", "cut off"),), AuditCounts(), "incomplete"),
        ((InputGap("h", "cut off"),), AuditCounts(messages={"lost": 1}), "incomplete"),
    ],
)
def test_verdict_of_audit_depends_on_input_gaps_and_counts(
    gaps: tuple[InputGap, ...], counts: AuditCounts, verdict: str
) -> None:
    assert audit_outcome(gaps, counts) == verdict


def test_quantiles_of_handling_durations_are_computed_from_histogram() -> None:
    histogram = DurationHistogram()
    for count, seconds in ((50, 0.008), (49, 0.016), (1, 4.1), (2, -0.1)):
        for _ in range(count):
            histogram.count_duration(seconds)

    assert ([histogram.quantile_seconds(share) for share in (0.5, 0.99, 1)], histogram.backwards) == (
        [0.008, 0.016, 4.1],
        2,
    )
    assert histogram.duration_counts_by_power_of_two_ms == {3: 50, 4: 49, 12: 1}


def test_sum_of_partial_event_figures_equals_figures_of_all_events() -> None:
    first_half, second_half, both = (EventFigures(ReportPeriod(NOON, time_after(90))) for _ in range(3))
    for number in range(200):
        handled = time_after(number * 0.45) if number % 7 else None
        outcome = EventOutcome(f"{number}", "t", "stuck" if number % 5 else "delivered", "", time_after(0), handled, [])
        for figures in (first_half if number % 3 else second_half, both):
            figures.count_event(outcome, [])
    first_half.add_event_figures(second_half)

    assert (
        first_half.messages,
        first_half.worst.items_with_smallest_keys(),
        first_half.worst.items_left_out,
    ) == (
        both.messages,
        both.worst.items_with_smallest_keys(),
        100,
    )
    assert [
        (n.began, n.handled, n.handling_times.duration_counts_by_power_of_two_ms)
        for n in first_half.time_slices_with_handled_events
    ] == [
        (n.began, n.handled, n.handling_times.duration_counts_by_power_of_two_ms)
        for n in both.time_slices_with_handled_events
    ]
    medians = [part.handling_duration_histogram.quantile_seconds(0.5) for part in (first_half, both)]
    assert medians[0] == medians[1]


def make_picture_with_unlisted_takeovers() -> AuditReportData:
    """Return a report whose 301 split brains displace two takeovers, of 50 s and of 4 s, from its list."""
    picture = make_picture(incidents=0)
    for number in range(MAX_INCIDENTS + 1):
        picture.incidents.count_incident(make_incident(number, "split_brain", seconds=900.0, downtime_min=1.0))
    picture.incidents.count_incident(make_incident(1, seconds=50.0, downtime_min=60.0, downtime_max=70.0))
    picture.incidents.count_incident(make_incident(2, seconds=4.0, downtime_min=5.0, downtime_max=6.0))
    return picture


def test_audit_report_tiles_include_takeovers_that_it_does_not_list() -> None:
    picture = make_picture_with_unlisted_takeovers()
    tiles = audit_html_page(make_result(), picture).partition("<section>")[0]

    assert {incident.kind for incident in picture.incidents.gravest_incidents_to_show} == {"split_brain"}
    assert "<b>50.0 s</b><span>longest takeover</span>" in tiles
    assert "<b>between 60.0 and 70.0 s</b><span>longest downtime of a pair at a takeover</span>" in tiles


def test_audit_report_states_number_of_takeovers_that_chart_does_not_mark() -> None:
    note = "The chart does not mark 2 takeovers that this report does not list."

    assert note in audit_html_page(make_result(), make_picture_with_unlisted_takeovers())
    assert "The chart does not mark" not in audit_html_page(make_result(), make_picture())


def test_unlisted_takeover_ends_active_span_of_old_node_in_audit_timeline() -> None:
    picture = make_picture_with_unlisted_takeovers()
    a, b = "orders-mq01-a.example.com", "orders-mq01-b.example.com"
    hosts = [TimeLineHost(host, "orders-mq01", (HostStateSpan(host, "active", NOON, None),)) for host in (a, b)]

    page = audit_html_page(make_result(), replace(picture, hosts=hosts))

    assert f"{a}: active from 01 Mar 12:00:00 to 01 Mar 12:00:40<" in page
    assert f"{b}: active from 01 Mar 12:00:00<" in page


def test_audit_timeline_note_states_limit_only_if_host_reached_it() -> None:
    spans = tuple(HostStateSpan("h", "active", time_after(n), time_after(n + 1)) for n in range(MAX_SPANS))
    notes = [
        audit_html_page(make_result(), replace(make_picture(), hosts=[TimeLineHost("h", "p", shown_spans)]))
        for shown_spans in (spans, spans[1:])
    ]

    assert ["Bars show only the newest 80 states of a broker." in note for note in notes] == [True, False]


def test_sum_of_partial_incident_figures_equals_figures_of_all_incidents() -> None:
    periods = [
        UnservedPeriod(pair, time_after(at).timestamp(), time_after(at + 2).timestamp())
        for pair, at in (("orders-mq01", 41), ("orders-mq01", 4000), ("shop-mq01", 41))
    ]
    first_half, second_half, both = (IncidentFigures(periods) for _ in range(3))
    for number in range(2 * MAX_INCIDENTS):
        kind = "takeover" if number % 5 == 0 else "split_brain" if number % 2 else "slow_store"
        began, seconds = time_after(number), None if number % 3 else number / 10
        incident = make_incident(number, kind, began=began, ended=time_after(number + 1), seconds=seconds)
        incident = replace(incident, host=f"h{number % 4}", downtime_min=seconds, downtime_max=seconds)
        for figures in (first_half if number % 7 else second_half, both):
            figures.count_incident(incident)
    first_half.merge_incident_figures(second_half)

    for figures in (first_half, both):
        assert figures.longest_takeover_seconds == 58.5
        assert figures.longest_downtime_bounds == (58.5, 58.5)
        assert figures.period_bounds == (NOON, time_after(2 * MAX_INCIDENTS))
        assert figures.hosts == {"h0", "h1", "h2", "h3"}
        assert figures.newest_takeover_times("h3")[:2] == [time_after(595), time_after(575)]
        explanations = figures.incident_by_unserved_period
        assert {period: incident.recorded for period, incident in explanations.items()} == {periods[0]: time_after(10)}
    assert first_half.counts == both.counts
    assert first_half.gravest_incidents_to_show == both.gravest_incidents_to_show


def test_only_newest_takeover_times_of_host_are_kept() -> None:
    figures = IncidentFigures()
    for number in range(3 * MAX_SPANS):
        figures.count_incident(make_incident(number, host="a", began=time_after(number)))

    expected_times = [time_after(number) for number in reversed(range(2 * MAX_SPANS, 3 * MAX_SPANS))]
    assert figures.newest_takeover_times("a") == expected_times
    assert figures.newest_takeover_times("b") == []


def test_audit_timeline_prefers_hosts_of_listed_incidents_then_of_other_incidents() -> None:
    figures = IncidentFigures()
    for number in range(MAX_INCIDENTS):
        figures.count_incident(make_incident(number, "split_brain", host="z"))
    figures.count_incident(make_incident(host="y"))
    names = [*(f"a{number:03}" for number in range(MAX_HOSTS)), "y", "z"]

    hosts, left = time_line_hosts(dict.fromkeys(names), dict.fromkeys(names), [], figures)

    assert ([host.host for host in hosts], left) == ([*names[: MAX_HOSTS - 2], "y", "z"], 2)


def test_audit_json_lists_gaps_that_weigh_first() -> None:
    gaps = tuple(InputGap(f"h{number}", "few records", weighs=number == 1000) for number in range(1001))
    listed_gaps = replace(make_result(), gaps=gaps).to_dict()["gaps"]

    assert len(listed_gaps) == 1000
    assert [gap["host"] for gap in listed_gaps[:2]] == ["h1000", "h0"]


@pytest.mark.parametrize(
    ("problem", "text", "weighs"),
    [
        ("N invalid bytes", "some invalid bytes", False),
        ("the log is cut off", "the log is cut off", True),
        (
            "N invalid bytes; the rest of the gzip file cannot be unpacked (Error -N while decompressing data)",
            "some invalid bytes; the rest of the gzip file cannot be unpacked (Error -N while decompressing data)",
            True,
        ),
    ],
)
def test_gap_weighs_if_bytes_of_log_file_are_missing(problem: str, text: str, weighs: bool) -> None:
    (gap,) = gaps_from_incomplete_log_files([LogFileSummary("h", "a.log", 0, rows=9, problems={problem})], {})

    assert (gap.what, gap.weighs) == (text, weighs)


def test_gap_of_unreadable_log_file_is_kept_among_gaps_of_large_files() -> None:
    large_files = [LogFileSummary(f"h{number}", "a.log", 0, rows=10_000, unread=90) for number in range(MAX_GAPS)]
    unreadable_file = LogFileSummary("z", "a.log", 0, rows=10, unread=10, first_unread=1)
    gaps = gaps_from_incomplete_log_files([*large_files, unreadable_file], {})

    assert (len(gaps), [gap.host for gap in gaps if gap.weighs]) == (MAX_GAPS, ["z"])
