"""Log of the agent."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from activemq_agent.logs import make_log

from .logged import make_config


def test_agent_log_line_is_json_by_default(tmp_path: Path) -> None:
    stream = io.StringIO()
    make_log(make_config(tmp_path), stream).warning("connection lost", broker="b:1", path=tmp_path)
    line = json.loads(stream.getvalue())
    assert line.pop("ts").endswith("Z")
    assert line == {"event": "connection lost", "level": "warning", "broker": "b:1", "path": str(tmp_path)}


def test_agent_log_record_with_line_break_is_one_line_in_text_format(tmp_path: Path) -> None:
    stream = io.StringIO()
    make_log(make_config(tmp_path, log_format="text"), stream).error("alarm", reason="two\nlines = bad", broker="b:1")
    (line,) = stream.getvalue().splitlines()
    assert line.endswith(r"error   alarm reason='two\nlines = bad' broker=b:1")


@pytest.mark.parametrize(("level", "line_count"), [("debug", 3), ("info", 3), ("warning", 2), ("error", 1)])
def test_agent_log_omits_records_below_log_level(tmp_path: Path, level: str, line_count: int) -> None:
    stream = io.StringIO()
    log = make_log(make_config(tmp_path, log_level=level), stream)
    for write_record in (log.info, log.warning, log.error):
        write_record("x")
    assert len(stream.getvalue().splitlines()) == line_count


def test_agent_log_ignores_closed_output_stream(tmp_path: Path) -> None:
    stream = io.StringIO()
    stream.close()
    make_log(make_config(tmp_path), stream).info("x")
