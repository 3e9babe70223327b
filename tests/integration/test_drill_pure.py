"""A drill of pure pairs of 5.5.1: a master dies, its slave delivers its messages, and a resync restores the pair.

KILLS sets the number of kills of a master. With less than 5 the test is skipped, because each takes some 20 s.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from activemq_fleet.lab.drill import DrillOptions, run_drill
from activemq_fleet.lab.lab import Lab
from tests.integration.labs import pair, write_inventory
from tests.integration.resyncing import Controller

KILLS = int(os.environ.get("KILLS", "1"))
RATE = 40.0


@pytest.mark.skipif(KILLS < 5, reason="KILLS is below 5: set KILLS=5 or more (each takes 20 s)")
@pytest.mark.timeout(600 + 120 * KILLS)
def test_repeated_kills_of_pure_masters_with_resync_lose_no_event(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = [*pair("orders", 1), *pair("orders", 2)]
    waivers = [{"rule": rule, "reason": "a lab"} for rule in ("S001", "S002")]
    network = {"network_username": "network", "network_password": "made-up-network"}
    inventory = write_inventory(tmp_path / "inventory", hosts, release="5.5.1", ha="pure", waivers=waivers, **network)
    with Lab.open([inventory], tmp_path / "lab") as lab:
        lab.up()

        def resync(name: str) -> None:
            pure = lab.fleet.pairs_by_name[name]
            Controller(lab, pure.preferred_master.host, pure.brokers_in_dialling_order[1].host).run()

        drill_result = run_drill(lab, DrillOptions(faults=KILLS, rate=RATE, seed=1, patience=300, resync=resync), print)
    takeovers = sorted(fault.takeover or 0 for fault in drill_result.faults_under_sufficient_load)
    recoveries = sorted(fault.back or 0 for fault in drill_result.faults_under_sufficient_load)
    interruptions = sorted(fault.silence or 0 for fault in drill_result.faults_under_sufficient_load)
    with capsys.disabled():
        print(
            f"\n{len(takeovers)} kills of pure masters in {drill_result.ended - drill_result.began:.0f} s; "
            f"{drill_result.event_counts_of_all_pairs}"
        )
        for label, seconds in (
            ("take-over", takeovers),
            ("no event handled", interruptions),
            ("both nodes running again", recoveries),
        ):
            print(f"{label}: {seconds[len(seconds) // 2]:.1f} s at the median, {seconds[-1]:.1f} s at most")
    assert drill_result.event_count_of_all_pairs("lost") == 0, drill_result.reasons
    assert drill_result.event_count_of_all_pairs("stuck") == 0, drill_result.reasons
    assert drill_result.event_count_of_all_pairs("indeterminate") == 0, drill_result.reasons
    assert not [fault.problem for fault in drill_result.faults if fault.problem]
    assert len(drill_result.faults_under_sufficient_load) == KILLS
