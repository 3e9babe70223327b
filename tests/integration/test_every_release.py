"""Two linked pairs of a release: links carry messages before and after a kill of the active broker under load.

FAILOVER_RELEASES lists the releases, separated by spaces: none by default, because other tests show failovers of pairs
with links, and `all` for those of `releases_available_in_maven`. docs/releases.md has the measurements:
FLEET_GOLDEN=update writes the row of the release there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.drills.model import DrillResult
from activemq_fleet.lab.drill import DrillOptions, run_drill
from activemq_fleet.lab.lab import Lab
from activemq_fleet.releases import releases_available_in_maven
from tests.integration.labs import pair, processes_of, write_inventory
from tests.integration.traffic import numbered_bodies, send_across

PAGE = Path(__file__).resolve().parents[2] / "docs" / "releases.md"
HEAD = "| release | both pairs up | takeover | bridge back | accepted | lost | handled twice |"
FIRST, SECOND = "orders-mq01", "orders-mq02"
COUNT = 50


def _releases() -> Sequence[Any]:
    names = os.environ.get("FAILOVER_RELEASES", "")
    if not names:
        skip = pytest.mark.skip(reason="FAILOVER_RELEASES is not set: set FAILOVER_RELEASES=all for further releases")
        return [pytest.param("none", marks=skip)]
    return [str(release) for release in releases_available_in_maven()] if names == "all" else names.split()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("release", _releases())
def test_linked_pair_fails_over_without_loss_and_its_bridges_reconnect(release: str, tmp_path: Path) -> None:
    inventory = write_inventory(
        tmp_path / "inventory",
        [*pair("orders", 1), *pair("orders", 2)],
        release=release,
        network_username="network",
        network_password="s3cret-network",
    )
    directory = tmp_path / "lab"
    with Lab.open([inventory], directory) as lab:
        started_at = time.monotonic()
        lab.up()
        up_seconds = time.monotonic() - started_at
        _check_messages_cross_link(lab, "before")
        drill_result = run_drill(lab, DrillOptions(faults=1, rate=40.0, target=FIRST, seed=1, patience=300))
        bridged_at = _wait_bridged(lab)
        _check_messages_cross_link(lab, "after")
    assert not processes_of(directory)
    assert drill_result.event_count_of_all_pairs("lost") == 0, drill_result.reasons
    assert drill_result.verdict == "clean", drill_result.reasons
    if os.environ.get("FLEET_GOLDEN") == "update":
        _write_row(release, _row(release, up_seconds, drill_result, bridged_at))
    assert any(line.startswith(f"| {release} |") for line in PAGE.read_text().splitlines()), f"{PAGE} lacks {release}"


def _check_messages_cross_link(lab: Lab, tag: str) -> None:
    for source, target in ((FIRST, SECOND), (SECOND, FIRST)):
        queue = f"{tag}-{source}"
        received = send_across(lab, source, target, queue, COUNT)
        assert received == set(numbered_bodies(queue, COUNT)), (
            f"{len(received)} of {COUNT} messages crossed from {source} to {target} {tag} the kill"
        )


def _wait_bridged(lab: Lab) -> float | None:
    """Wait until the node that took over has bridges in both directions; return the time as seconds since the epoch.

    Return None for 5.3: its log does not name the peer of a bridge, so that only the messages show that it exists.
    """
    near, far = lab.wait_active(FIRST), lab.wait_active(SECOND)
    if lab.fleet.broker(near).release.line == "5.3":
        return None
    return max(lab.wait_bridge(near, far).since.timestamp(), lab.wait_bridge(far, near).since.timestamp())


def _row(release: str, up_seconds: float, result: DrillResult, bridged_at: float | None) -> str:
    (fault,) = result.faults_under_sufficient_load
    times = (up_seconds, fault.takeover, None if bridged_at is None else bridged_at - fault.at)
    seconds = " | ".join("–" if duration is None else f"{duration:.1f} s" for duration in times)
    counts = " | ".join(str(result.event_count_of_all_pairs(outcome)) for outcome in ("accepted", "lost", "duplicate"))
    return f"| {release} | {seconds} | {counts} |"


def _write_row(release: str, row: str) -> None:
    lines = PAGE.read_text().splitlines()
    first = lines.index(HEAD) + 2
    last = next((number for number in range(first, len(lines)) if not lines[number].startswith("|")), len(lines))
    rows = {line.split("|")[1].strip(): line for line in lines[first:last]} | {release: row}
    lines[first:last] = [rows[str(known)] for known in releases_available_in_maven() if str(known) in rows]
    PAGE.write_text("\n".join(lines) + "\n")
