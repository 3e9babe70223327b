from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activemq_fleet.node.log.log_records import IncrementalLogParser, Record, parse_log

PLAIN = (
    "2026-03-01 10:00:00,123 | INFO  | Connector stomp started | org.apache.activemq.broker.TransportConnector | main"
)
BROKEN = """\
2026-03-01 10:00:01,000 | ERROR | Failed to load: URL [file:/x.xml], reason: first
second line of the message | org.apache.activemq.xbean.XBeanBrokerFactory | main
java.io.IOException: outer
\tat some.Place.method(Place.java:1)
Caused by: java.net.BindException: Address already in use
"""


def test_a_plain_line_is_one_record() -> None:
    (record,) = parse_log(PLAIN)
    assert record == Record(
        line=1,
        time=datetime(2026, 3, 1, 10, 0, 0, 123000),
        level="INFO",
        message="Connector stomp started",
        logger="org.apache.activemq.broker.TransportConnector",
        thread="main",
    )


def test_a_message_of_several_lines_ends_where_logger_and_thread_stand() -> None:
    (record,) = parse_log(BROKEN)
    assert record.message.endswith("reason: first\nsecond line of the message")
    assert record.thread == "main"


def test_what_follows_a_whole_record_is_its_stack() -> None:
    (record,) = parse_log(BROKEN)
    assert record.stack.splitlines()[0] == "java.io.IOException: outer"
    assert record.stack.splitlines()[-1].startswith("Caused by: java.net.BindException")


def test_the_next_record_begins_only_at_a_date() -> None:
    records = list(parse_log(f"{BROKEN}{PLAIN}\n"))
    assert [record.line for record in records] == [1, 6]


def test_a_thread_may_hold_spaces_colons_and_slashes() -> None:
    line = PLAIN.removesuffix("main") + "ActiveMQ Transport: tcp:///127.0.0.1:47178@61616, localBroker= vm://a#0"
    (record,) = parse_log(line)
    assert record.thread == "ActiveMQ Transport: tcp:///127.0.0.1:47178@61616, localBroker= vm://a#0"


def test_a_message_may_hold_the_separator() -> None:
    (record,) = parse_log("2026-03-01 10:00:00,123 | WARN  | a | b.C | d | org.x.Y | main")
    assert record.message == "a | b.C | d"


def test_the_rest_of_a_record_that_an_earlier_file_holds_is_left_out() -> None:
    (record,) = parse_log(f"\tat some.Place.method(Place.java:1)\n{PLAIN}")
    assert (record.line, record.message) == (2, "Connector stomp started")


def test_a_record_torn_off_by_a_crash_keeps_what_it_has() -> None:
    first, second = parse_log(f"2026-03-01 10:00:00,000 | INFO  | Connector st\n{PLAIN}")
    assert (first.level, first.message, first.logger) == ("INFO", "Connector st", "")
    assert second.message == "Connector stomp started"


def test_a_date_that_does_not_exist_begins_nothing() -> None:
    assert list(parse_log("2026-13-41 10:00:00,000 | INFO  | m | l | t")) == []


def test_windows_line_ends_are_no_part_of_the_thread() -> None:
    (record,) = parse_log(f"{PLAIN}\r\n")
    assert record.thread == "main"


def test_a_watcher_gets_a_record_without_waiting_for_the_next() -> None:
    assert [record.message for record in IncrementalLogParser(stacks=False).feed(f"{PLAIN}\n")] == [
        "Connector stomp started"
    ]


def test_a_watcher_sees_no_stack_and_goes_on_after_it() -> None:
    records = IncrementalLogParser(stacks=False).feed(f"{BROKEN}{PLAIN}\n")
    assert [(record.level, record.stack) for record in records] == [("ERROR", ""), ("INFO", "")]


def test_a_watcher_gets_a_torn_record_together_with_the_next() -> None:
    records = IncrementalLogParser(stacks=False).feed(f"2026-03-01 10:00:00,000 | INFO  | Conn\n{PLAIN}\n")
    assert [record.message for record in records] == ["Conn", "Connector stomp started"]


@given(st.lists(st.integers(min_value=0, max_value=len(BROKEN) + len(PLAIN)), max_size=8))
def test_how_the_text_is_cut_makes_no_difference(cuts: list[int]) -> None:
    text = f"{BROKEN}{PLAIN}\n"
    parser, records, last = IncrementalLogParser(), [], 0
    for cut in [*sorted(cuts), len(text)]:
        records += parser.feed(text[last:cut])
        last = cut
    assert [*records, *parser.finish_parsing()] == list(parse_log(text))


@given(st.text())
def test_no_text_makes_it_fail(text: str) -> None:
    assert all(isinstance(record, Record) for record in parse_log(text))


@pytest.mark.parametrize("text", ["", "\n", "no record at all\n"])
def test_a_text_without_a_record_has_none(text: str) -> None:
    assert list(parse_log(text)) == []
