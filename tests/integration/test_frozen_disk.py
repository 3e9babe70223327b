"""A pair whose file system is frozen with fsfreeze, as for a snapshot: no accepted event is lost.

The store is on a separate ext4 image, so the test requires root and a loop device.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from activemq_fleet.drills.model import PairEventCounts
from activemq_fleet.errors import LabError
from activemq_fleet.lab.drill_files import pair_outcomes_and_faults
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.load_process import make_load_generator
from activemq_fleet.lab.load_spec import make_load_spec, supports_mqtt_agents
from tests.integration.conftest import LabOf
from tests.integration.labs import pair, write_inventory
from tests.integration.waiting import PATIENCE, until
from tests.situations import further

A, B = pair("orders")
PAIR = "orders-mq01"
RATE = 40.0
FROZEN = 30.0

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/loop-control"), reason="the test requires root and loop devices"
)


@contextmanager
def mounted_image(directory: Path) -> Iterator[None]:
    """Mount an ext4 file system of 300 MB at a directory; thaw and unmount it at the end."""
    image = directory.with_suffix(".image")
    with image.open("wb") as file:
        file.truncate(300 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    directory.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-o", "loop", image, directory], check=True)
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", directory], check=False, capture_output=True)
        subprocess.run(["umount", "--lazy", directory], check=True)
        image.unlink()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("release", "fence"), further(("6.3.1", "none"), ("6.3.1", "guard"), ("5.18.3", "none"), ("5.5.1", "none"))
)
def test_disk_frozen_for_30_s_loses_and_duplicates_no_event(
    tmp_path: Path, lab_of: LabOf, release: str, fence: str
) -> None:
    lab = lab_of(
        write_inventory(
            tmp_path / "inventory",
            [A, B],
            release=release,
            fence=fence,
            users=[{"name": "app", "password": "s3cret-app", "groups": ["apps"]}],
            network_username="network",
            network_password="s3cret-network",
        )
    )
    stores = lab.directory / "stores"
    lab.prepare()
    with mounted_image(stores):
        lab.up()
        account, observed_states = freeze_under_load(lab, stores, tmp_path)
        lab.down()
    print(f"{release}, {fence}: {account}; states during and after the freeze: {observed_states}")
    assert account.lost == 0, account
    assert account.stuck == 0, account
    assert account.duplicate == 0, account
    assert account.accepted == account.handled > 0
    assert max(list(states.values()).count("active") for states in observed_states) <= 1


def freeze_under_load(lab: Lab, stores: Path, directory: Path) -> tuple[PairEventCounts, list[dict[str, str]]]:
    """Freeze the stores' file system under load; return the event counts and the observed states, without repetitions.

    Start a stopped broker again, as systemd does.
    """
    fleet, observed_states = lab.client_fleet, list[dict[str, str]]()
    sockets = directory / "s"
    sockets.mkdir()

    def observe() -> dict[str, str]:
        states = dict[str, str]()
        with suppress(LabError):
            states = {status.host.partition(".")[0]: str(status.state) for status in lab.status()}
            if not observed_states or observed_states[-1] != states:
                observed_states.append(states)
            for host in (A, B):
                if states[host.partition(".")[0]] == "stopped":
                    lab.start(host, wait=False)
        return states

    with make_load_generator(
        make_load_spec(fleet, fleet.pairs_by_name[PAIR], RATE), directory / "load", sockets
    ) as generator:
        generator.start_load(PATIENCE)
        until(generator.has_stable_connections, PATIENCE, "publisher and subscriber have stable connections")
        subprocess.run(["fsfreeze", "--freeze", stores], check=True)
        thaw_at = time.monotonic() + FROZEN
        while time.monotonic() < thaw_at:
            observe()
            time.sleep(1)
        subprocess.run(["fsfreeze", "--unfreeze", stores], check=True)
        since = time.time()

        def is_recovered() -> bool:
            return sorted(observe().values()) == ["active", "standby"] and generator.last_handled_time() > since + 1

        until(
            is_recovered,
            2 * PATIENCE,
            lambda: f"both nodes run and events are handled again: {observed_states[-3:]}",
            pause=1,
        )
        print(f"both nodes run again {time.time() - since:.1f} s after the thaw")
        generator.finish_load()
    protocol = "MQTT" if supports_mqtt_agents(fleet.pairs_by_name[PAIR]) else "STOMP"
    return pair_outcomes_and_faults(directory / "load", PAIR, protocol, [])[0], observed_states
