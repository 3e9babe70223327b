from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activemq_fleet.node.log.log_records import IncrementalLogParser, Record, parse_log

PLAIN = (
    "2026-03-01 10:00:00,123 | INFO  | Connector stomp started | org.apache.activemq.broker.TransportConnector | main"
)
ERROR_WITH_STACK = """\
2026-03-01 10:00:01,000 | ERROR | Failed to load: URL [file:/x.xml], reason: first
second line of the message | org.apache.activemq.xbean.XBeanBrokerFactory | main
java.io.IOException: outer
\tat some.Place.method(Place.java:1)
Caused by: java.net.BindException: Address already in use
"""


def test_plain_log_line_is_single_record() -> None:
    (record,) = parse_log(PLAIN)
    assert record == Record(
        line=1,
        time=datetime(2026, 3, 1, 10, 0, 0, 123000),
        level="INFO",
        message="Connector stomp started",
        logger="org.apache.activemq.broker.TransportConnector",
        thread="main",
    )


def test_multiline_log_message_ends_at_logger_and_thread() -> None:
    (record,) = parse_log(ERROR_WITH_STACK)
    assert record.message.endswith("reason: first\nsecond line of the message")
    assert record.thread == "main"


def test_lines_after_complete_log_record_are_its_stack() -> None:
    (record,) = parse_log(ERROR_WITH_STACK)
    assert record.stack.splitlines()[0] == "java.io.IOException: outer"
    assert record.stack.splitlines()[-1].startswith("Caused by: java.net.BindException")


def test_next_log_record_begins_only_at_date() -> None:
    records = list(parse_log(f"{ERROR_WITH_STACK}{PLAIN}\n"))
    assert [record.line for record in records] == [1, 6]


def test_thread_of_log_record_may_contain_spaces_colons_and_slashes() -> None:
    line = PLAIN.removesuffix("main") + "ActiveMQ Transport: tcp:///127.0.0.1:47178@61616, localBroker= vm://a#0"
    (record,) = parse_log(line)
    assert record.thread == "ActiveMQ Transport: tcp:///127.0.0.1:47178@61616, localBroker= vm://a#0"


def test_log_message_may_contain_separator() -> None:
    (record,) = parse_log("2026-03-01 10:00:00,123 | WARN  | a | b.C | d | org.x.Y | main")
    assert record.message == "a | b.C | d"


def test_continuation_of_log_record_in_earlier_file_is_omitted() -> None:
    (record,) = parse_log(f"\tat some.Place.method(Place.java:1)\n{PLAIN}")
    assert (record.line, record.message) == (2, "Connector stomp started")


def test_truncated_log_record_keeps_its_level_and_message() -> None:
    truncated_record, next_record = parse_log(f"2026-03-01 10:00:00,000 | INFO  | Connector st\n{PLAIN}")
    assert (truncated_record.level, truncated_record.message, truncated_record.logger) == ("INFO", "Connector st", "")
    assert next_record.message == "Connector stomp started"


def test_invalid_date_begins_no_log_record() -> None:
    assert list(parse_log("2026-13-41 10:00:00,000 | INFO  | m | l | t")) == []


def test_carriage_return_is_no_part_of_thread_of_log_record() -> None:
    (record,) = parse_log(f"{PLAIN}\r\n")
    assert record.thread == "main"


def test_log_parser_without_stacks_returns_record_before_next_record() -> None:
    assert [record.message for record in IncrementalLogParser(stacks=False).feed(f"{PLAIN}\n")] == [
        "Connector stomp started"
    ]


def test_log_parser_without_stacks_omits_stack_and_continues() -> None:
    records = IncrementalLogParser(stacks=False).feed(f"{ERROR_WITH_STACK}{PLAIN}\n")
    assert [(record.level, record.stack) for record in records] == [("ERROR", ""), ("INFO", "")]


def test_log_parser_without_stacks_returns_truncated_record_with_next_record() -> None:
    records = IncrementalLogParser(stacks=False).feed(f"2026-03-01 10:00:00,000 | INFO  | Conn\n{PLAIN}\n")
    assert [record.message for record in records] == ["Conn", "Connector stomp started"]


@given(st.lists(st.integers(min_value=0, max_value=len(ERROR_WITH_STACK) + len(PLAIN)), max_size=8))
def test_chunks_of_log_give_same_records_as_complete_log(cuts: list[int]) -> None:
    log = f"{ERROR_WITH_STACK}{PLAIN}\n"
    parser, records, last = IncrementalLogParser(), [], 0
    for cut in [*sorted(cuts), len(log)]:
        records += parser.feed(log[last:cut])
        last = cut
    assert [*records, *parser.finish_parsing()] == list(parse_log(log))


@given(st.text())
def test_log_parser_accepts_any_text(text: str) -> None:
    assert all(isinstance(record, Record) for record in parse_log(text))


@pytest.mark.parametrize("text", ["", "\n", "no record at all\n"])
def test_text_without_log_record_has_no_records(text: str) -> None:
    assert list(parse_log(text)) == []
