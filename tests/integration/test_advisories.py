"""Advisories, which control bridges: applications receive and cause them, and cannot send them."""

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
"""Releases that authorize a list of destinations if one of them is authorized; no ACL entry can change that."""


def inventory(directory: Path, release: str) -> Path:
    acl = [
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
        acl=acl,
    ).parent


def java_client(lab: Lab, release: str, directory: Path) -> dict[str, str]:
    """Return the result of each action of a client with the jars of the release at A: ``ok``, or the error."""
    (address,) = lab.addresses(A, "openwire")
    url = f"tcp://{address[0]}:{address[1]}?jms.watchTopicAdvisories=true"
    completed = subprocess.run(
        [*compile_client("AdvisoryClient", Release.of(release), directory), url, APP.username, APP.password],
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
        check=False,
    )
    results = dict(line.split("\t", 1) for line in completed.stdout.splitlines() if "\t" in line)
    assert len(results) == 16, completed.stdout + completed.stderr
    return results


def bodies_over_bridge(lab: Lab) -> set[str]:
    """Return the bodies that a consumer at B receives of a message that is sent at A."""
    with StompConnection(lab.addresses(B, "stomp")[0], APP, timeout=PATIENCE) as consumer:
        consumer.subscribe("/queue/app.crossing", ack="auto")
        stomp_send(lab.addresses(A, "stomp"), "/queue/app.crossing", ["over the bridge"], APP)
        frame = consumer.receive(PATIENCE)
    return {frame.body} if frame else set()


@in_every_situation
@pytest.mark.parametrize("release", [*further("5.5.1", "5.8.0", "5.18.3"), "6.3.1"])
def test_application_cannot_send_advisories_and_can_use_its_destinations(
    tmp_path: Path, lab_of: LabOf, release: str
) -> None:
    lab = lab_of(inventory(tmp_path / "inventory", release))
    lab.up()

    results = java_client(lab, release, tmp_path)
    forged = {action: result for action, result in results.items() if action.startswith("forged")}
    among_others = forged.pop("forged among others")
    assert {action: result for action, result in results.items() if action not in forged and result != "ok"} in (
        {},
        {"forged among others": among_others},
    )
    assert all("not authorized to write" in error for error in forged.values()), forged
    assert (among_others == "ok") is (release in UNCHECKED_COMPOSITES)

    (stomp,) = lab.addresses(A, "stomp")
    stomp_round_trip(stomp, APP, "app.stomp", timeout=PATIENCE)
    with pytest.raises(StompError, match="not authorized to write"), StompConnection(stomp, APP) as client:
        client.send("/topic/ActiveMQ.Advisory.Consumer.Queue.app.never", "forged")
    if Release.of(release).has_usable_mqtt:
        (mqtt,) = lab.addresses(A, "mqtt")
        mqtt_round_trip(mqtt, APP, "app/mqtt", timeout=PATIENCE)

    assert bodies_over_bridge(lab) == {"over the bridge"}
