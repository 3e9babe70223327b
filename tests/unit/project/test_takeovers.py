"""The program that measures takeovers: its directories and its termination."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from activemq_fleet.lab.lab import Lab
from scripts.attacks import takeovers

ONE_DRILL = ("--releases", "6.3.1", "--fence", "none", "--what", "kill", "--kills", "1")


def test_takeovers_creates_missing_directories(tmp_path: Path) -> None:
    results, labs, stores = tmp_path / "new/results.jsonl", tmp_path / "labs/new", tmp_path / "stores/new"
    results.parent.mkdir()
    drill_record = {
        "name": "6.3.1/10mb/none/kill/1",
        "release": "6.3.1",
        "megabytes": 10,
        "fence": "none",
        "what": "kill",
    }
    results.write_text(json.dumps(drill_record | {"takeovers": [], "silences": [], "accepted": 0, "lost": 0}) + "\n")
    arguments = ["--results", str(results), "--directory", str(labs), "--stores", str(stores), *ONE_DRILL]
    assert takeovers.main(arguments) == 0
    assert labs.is_dir()
    assert stores.is_dir()


def test_takeovers_closes_lab_after_sigterm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal arrives while a lab is open, in place of the start of its brokers."""
    closed = []
    close = Lab.__exit__

    def record_close(lab: Lab, *details: object) -> None:
        closed.append(lab)
        close(lab, *details)

    monkeypatch.setattr(Lab, "__exit__", record_close)
    monkeypatch.setattr(takeovers, "start_filled", lambda *_: signal.raise_signal(signal.SIGTERM))
    handler = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("the program does not handle SIGTERM"))
    try:
        assert takeovers.main(["--results", str(tmp_path / "results.jsonl"), *ONE_DRILL]) == 130
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert len(closed) == 1
    assert not list(tmp_path.glob("takeovers-*"))
