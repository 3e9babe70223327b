"""Advisories are what bridges act upon: applications hear them, cause them, and cannot send them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.stomp import Credentials, StompConnection, StompError
from activemq_fleet.releases import Release
from tests.integration.conftest import LabOf
from tests.integration.java_clients import compile_client
from tests.integration.labs import pair, write_inventory
from tests.integration.waiting import PATIENCE
from tests.mqtt_clients import mqtt_round_trip
from tests.situations import further, in_every_situation
from tests.stomp_clients import stomp_round_trip, stomp_send

A, B = (pair("orders", number)[0] for number in (1, 2))
APP = Credentials("app", "made-up-app")
UNCHECKED_COMPOSITES = ("5.5.1",)
"""A list of destinations is allowed there as soon as one of them is: no entry of ours can change that."""


def inventory(directory: Path, release: str) -> Path:
    rights = [
        {"destination": "app.>", "kind": kind, "read": "apps", "write": "apps", "admin": "apps"}
        for kind in ("queue", "topic")
    ]
    return write_inventory(
        directory,
        (A, B),
        release=release,
        ha="none",
        network_username="network",
        network_password="made-up-network",
        users=[{"name": APP.username, "password": APP.password, "groups": "apps"}],
        acl=rights,
    ).parent


def java_client(lab: Lab, release: str, directory: Path) -> dict[str, str]:
    """What a client of the release's own jars may do at A: ``ok``, or what it was told."""
    (address,) = lab.addresses(A, "openwire")
    url = f"tcp://{address[0]}:{address[1]}?jms.watchTopicAdvisories=true"
    done = subprocess.run(
        [*compile_client("AdvisoryClient", Release.of(release), directory), url, APP.username, APP.password],
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
        check=False,
    )
    found = dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)
    assert len(found) == 16, done.stdout + done.stderr
    return found


def crossing(lab: Lab) -> set[str]:
    """What a consumer at B gets of a message that is sent at A."""
    with StompConnection(lab.addresses(B, "stomp")[0], APP, timeout=PATIENCE) as consumer:
        consumer.subscribe("/queue/app.crossing", ack="auto")
        stomp_send(lab.addresses(A, "stomp"), "/queue/app.crossing", ["over the bridge"], APP)
        frame = consumer.receive(PATIENCE)
    return {frame.body} if frame else set()


@in_every_situation
@pytest.mark.parametrize("release", [*further("5.5.1", "5.8.0", "5.18.3"), "6.3.1"])
def test_an_application_cannot_forge_what_bridges_act_upon_and_works_as_before(
    tmp_path: Path, lab_of: LabOf, release: str
) -> None:
    lab = lab_of(inventory(tmp_path / "inventory", release))
    lab.up()

    found = java_client(lab, release, tmp_path)
    forged = {what: told for what, told in found.items() if what.startswith("forged")}
    among_others = forged.pop("forged among others")
    assert {what: told for what, told in found.items() if what not in forged and told != "ok"} in (
        {},
        {"forged among others": among_others},
    )
    assert all("not authorized to write" in told for told in forged.values()), forged
    assert (among_others == "ok") is (release in UNCHECKED_COMPOSITES)

    (stomp,) = lab.addresses(A, "stomp")
    stomp_round_trip(stomp, APP, "app.stomp", timeout=PATIENCE)
    with pytest.raises(StompError, match="not authorized to write"), StompConnection(stomp, APP) as client:
        client.send("/topic/ActiveMQ.Advisory.Consumer.Queue.app.never", "forged")
    if Release.of(release).has_usable_mqtt:
        (mqtt,) = lab.addresses(A, "mqtt")
        mqtt_round_trip(mqtt, APP, "app/mqtt", timeout=PATIENCE)

    assert crossing(lab) == {"over the bridge"}
