"""``lab freeze``: its result and exit code after a takeover, without one, and with two masters."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from activemq_fleet.cli.main import main
from activemq_fleet.lab import freeze
from activemq_fleet.lab.lab import Lab
from tests.unit.fleets import fleet

HOST, PEER = "orders-mq01-a.example.com", "orders-mq01-b.example.com"
TWO_MASTERS = f"the brokers {HOST} and {PEER} can both write to the store"


@pytest.mark.parametrize(
    ("peer_state", "two_masters", "stops", "code", "sentence"),
    [
        ("active", "", True, 0, f"{HOST} stopped "),
        ("active", TWO_MASTERS, True, 1, f"after {HOST} resumed: {TWO_MASTERS}"),
        ("active", "", False, 1, f"{HOST} and {PEER} may both write to the store"),
        ("stopped", "", False, 1, f"no node took over while {HOST} was frozen"),
    ],
)
def test_exit_code_of_freeze_shows_takeover_and_whether_both_nodes_could_write(
    peer_state: str,
    two_masters: str,
    stops: bool,
    code: int,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    planned_fleet, calls = fleet("orders-mq01"), list[str]()
    lab: Any = SimpleNamespace(
        fleet=planned_fleet,
        state=lambda host: "active" if host == HOST else peer_state,
        pause=lambda _host: calls.append("pause"),
        resume=lambda _host: calls.append("resume"),
        describe_two_masters=lambda _pair: two_masters,
        is_alive=lambda _host: not stops,
    )
    monkeypatch.setattr(Lab, "open", lambda **_options: lab)
    monkeypatch.setattr(freeze, "replace_lock_file", lambda _path: calls.append("lock"))
    for name, seconds in (("_SETTLE_SECONDS", 0.0), ("_TAKEOVER_TIMEOUT", 0.05), ("_LOCK_CHECK_TIMEOUT", 0.05)):
        monkeypatch.setattr(freeze, name, seconds)

    words = ["lab", "freeze", HOST, "--dir", str(tmp_path), "--steal-lock", "--thaw-after", "0"]
    assert main(words) == code
    assert calls == ["pause", "lock", "resume"]
    assert sentence in capsys.readouterr().out
