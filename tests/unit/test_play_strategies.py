"""Strategies of the plays: a strategy in the configuration of Ansible does not apply to the playbooks."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support.played_sites import A, make_local_site

PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"


def test_each_play_sets_strategy() -> None:
    """Most plays decide once for all hosts, which Ansible supports only with ``linear``."""
    strategies = {
        f"{file.relative_to(PLAYBOOKS)}: {play['name']}": play.get("strategy")
        for file in PLAYBOOKS.rglob("*.yml")
        if file.parent.name != "vars"
        for play in yaml.safe_load(file.read_text(encoding="utf-8"))
        if "hosts" in play
    }
    assert len(strategies) > 30
    assert {name: strategy for name, strategy in strategies.items() if strategy != "linear"} == {
        "status.yml: Gather": "free"
    }


@pytest.mark.parametrize("strategy", ["free", "host_pinned"])
def test_playbook_runs_with_other_strategy_in_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    monkeypatch.setenv("ANSIBLE_STRATEGY", strategy)
    site = make_local_site(tmp_path)
    site.write_inventory(A, ha="none", topology="none")
    status, output = site.play("check")
    assert status == 0, output
