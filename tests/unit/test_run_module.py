"""Modules on a host whose Python version is too old: they report it and change nothing."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from activemq_fleet.node import run_module


@pytest.mark.parametrize(("version", "runs"), [((3, 8, 18), False), ((3, 9, 0), True)])
def test_module_refuses_old_python_before_it_acts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], version: tuple[int, ...], *, runs: bool
) -> None:
    monkeypatch.setattr(sys, "version_info", version)
    calls = []

    def record_call(_parameters: dict[str, Any], _check: bool) -> dict[str, Any]:
        calls.append(True)
        return {}

    with patch_module_args(), pytest.raises(SystemExit):
        run_module.run_module({}, record_call)
    output = json.loads(capsys.readouterr().out)
    assert bool(calls) is runs
    assert ("but activemq.fleet requires Python 3.9 or later. Install it" in output.get("msg", "")) is not runs
