"""The agent's log."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from activemq_agent.logs import make_log

from .logged import make_config


def test_a_line_is_json(tmp_path: Path) -> None:
    out = io.StringIO()
    make_log(make_config(tmp_path), out).warning("connection lost", broker="b:1", path=tmp_path)
    line = json.loads(out.getvalue())
    assert line.pop("ts").endswith("Z")
    assert line == {"event": "connection lost", "level": "warning", "broker": "b:1", "path": str(tmp_path)}


def test_a_line_for_people_stays_one_line(tmp_path: Path) -> None:
    out = io.StringIO()
    make_log(make_config(tmp_path, log_format="text"), out).error("alarm", reason="two\nlines = bad", broker="b:1")
    (line,) = out.getvalue().splitlines()
    assert line.endswith(r"error   alarm reason='two\nlines = bad' broker=b:1")


@pytest.mark.parametrize(("level", "told"), [("debug", 3), ("info", 3), ("warning", 2), ("error", 1)])
def test_what_is_below_the_level_is_not_told(tmp_path: Path, level: str, told: int) -> None:
    out = io.StringIO()
    log = make_log(make_config(tmp_path, log_level=level), out)
    for say in (log.info, log.warning, log.error):
        say("x")
    assert len(out.getvalue().splitlines()) == told


def test_a_reader_that_went_away_ends_nothing(tmp_path: Path) -> None:
    out = io.StringIO()
    out.close()
    make_log(make_config(tmp_path), out).info("x")
