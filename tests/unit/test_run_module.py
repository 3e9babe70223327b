"""A module on a host whose Python is too old says so, and does nothing."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from activemq_fleet.node import run_module


@pytest.mark.parametrize(("version", "runs"), [((3, 8, 18), False), ((3, 9, 0), True)])
def test_an_old_python_is_refused_before_anything_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], version: tuple[int, ...], *, runs: bool
) -> None:
    monkeypatch.setattr(sys, "version_info", version)
    done = []

    def act(_parameters: dict[str, Any], _check: bool) -> dict[str, Any]:
        done.append(True)
        return {}

    with patch_module_args(), pytest.raises(SystemExit):
        run_module.run_module({}, act)
    said = json.loads(capsys.readouterr().out)
    assert bool(done) is runs
    assert ("but activemq.fleet requires Python 3.9 or later. Install it" in said.get("msg", "")) is not runs
