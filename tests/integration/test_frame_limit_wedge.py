"""The largest message that a client connector accepts crosses all links; a link that it blocks is reported."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.stomp import Credentials, StompConnection, StompError
from activemq_fleet.releases import Release
from tests.integration.labs import write_inventory
from tests.integration.waiting import PATIENCE, until
from tests.situations import further, in_every_situation

HOSTS = tuple(f"news-mq{number:02}-a" for number in (1, 2, 3))
SHOP = Credentials("shop", "aB3dE5fG7h")
LIMIT = 10_485_760
QUEUE, OTHER_QUEUE = "/queue/edge", "/queue/other"
VARIABLES: dict[str, Any] = {
    "ha": "none",
    "console": False,
    "topology": "chain",
    "network_username": "network",
    "network_password": "k3Tz8wQp1xx",
    "users": [{"name": SHOP.username, "password": SHOP.password, "groups": ["shops"]}],
}
HEADERS = {"destination": QUEUE, "persistent": "true", "receipt": "r1"}
"""Headers of the first message of a connection of the tests' client."""


def largest_body(limit: int) -> int:
    """Return the size of the largest body that a STOMP connector with the limit accepts (StompWireFormat, 5.12)."""
    return limit - len("SEND") - sum(len(f"{name}:{value}") for name, value in HEADERS.items())


def connect(lab: Lab, host: str) -> StompConnection:
    return StompConnection(lab.addresses(host, "stomp")[0], SHOP, timeout=PATIENCE)


def send(lab: Lab, host: str, body: str, queue: str = QUEUE) -> None:
    with connect(lab, host) as publisher:
        publisher.send(queue, body)


def status(lab: Lab) -> dict[str, Any]:
    command = [sys.executable, "-m", "activemq_fleet", "status", "--dir", str(lab.directory), "--format", "json"]
    completed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert completed.returncode in (0, 1), completed.stderr
    parsed: dict[str, Any] = json.loads(completed.stdout)
    return parsed


@in_every_situation
@pytest.mark.parametrize("release", [*further("5.5.1", "5.8.0", "5.11.4", "5.15.16", "5.18.3"), "6.3.1"])
def test_frame_limit_wedge_largest_stomp_message_passes_two_hops(tmp_path: Path, release: str) -> None:
    inventory = write_inventory(tmp_path, HOSTS, release=release, **VARIABLES)
    is_limited = Release.of(release).limits_client_frames
    size = largest_body(LIMIT) if is_limited else 2 * LIMIT
    with Lab.open([inventory], tmp_path / "lab", heap="512m") as lab:
        lab.up()
        with connect(lab, HOSTS[2]) as consumer, connect(lab, HOSTS[2]) as other_consumer:
            consumer.subscribe(QUEUE, ack="auto")
            other_consumer.subscribe(OTHER_QUEUE, ack="auto")
            if is_limited:
                with pytest.raises((StompError, OSError)):
                    send(lab, HOSTS[0], "x" * (size + 1))
            # On 6.3.1 the body of the second message is 50 % larger in OpenWire.
            bodies = ["x" * size, "\N{GRINNING FACE}" * (size // 4), "after"]
            for body in bodies:
                send(lab, HOSTS[0], body)
            send(lab, HOSTS[0], "other", OTHER_QUEUE)
            for body in bodies:
                frame = consumer.receive(PATIENCE)
                assert frame is not None, "the message did not arrive: timed out"
                assert frame.body == body
            assert other_consumer.receive(PATIENCE) is not None, (
                "the message of the other queue did not arrive: timed out"
            )
        assert [finding for finding in status(lab)["findings"] if finding["rule"].startswith("bridge")] == []


@in_every_situation
@pytest.mark.parametrize("release", [*further("5.8.0", "5.11.4", "6.3.1"), "5.18.3"])
def test_frame_limit_wedge_is_reported_by_check_and_status(tmp_path: Path, release: str) -> None:
    small = [
        {"name": "openwire", "scheme": "nio", "port": 61616, "options": {"wireFormat.maxFrameSize": LIMIT // 10}},
        {"name": "stomp", "scheme": "stomp+nio", "port": 61613},
    ]
    inventory = write_inventory(tmp_path, HOSTS[:2], release=release, **VARIABLES)
    inventory_data = json.loads(inventory.read_text())
    inventory_data["all"]["hosts"][HOSTS[1]] = {"activemq_connectors": small}
    inventory.write_text(json.dumps(inventory_data))
    command = [sys.executable, "-m", "activemq_fleet", "check", "-i", str(inventory)]
    completed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert re.search(rf"warning N048 \S+ link {HOSTS[0]}-to-{HOSTS[1]}", completed.stdout), completed.stdout
    with Lab.open([inventory], tmp_path / "lab", heap="512m") as lab:
        lab.up()
        with connect(lab, HOSTS[1]) as consumer:
            consumer.subscribe(QUEUE, ack="auto")
            send(lab, HOSTS[0], "before")
            assert consumer.receive(PATIENCE) is not None, "the message did not cross the link: timed out"
            send(lab, HOSTS[0], "x" * (LIMIT // 5))
            findings: list[dict[str, Any]] = []

            def is_reported() -> bool:
                findings[:] = [finding for finding in status(lab)["findings"] if finding["rule"] == "bridge-breaking"]
                return bool(findings)

            until(is_reported, PATIENCE, "status reports a finding bridge-breaking", pause=1.0)
            until(
                lambda: lab.status()[0].breaking == (HOSTS[1],),
                PATIENCE,
                "lab status reports the breaking bridge",
                pause=1.0,
            )
    (finding,) = findings
    assert finding["host"] == HOSTS[0]
    assert finding["severity"] == "error"
    assert "queue://edge" in finding["message"]
    assert "larger than max allowed" in finding["message"]
    assert "wireFormat.maxFrameSize" in finding["fix"]
