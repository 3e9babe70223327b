"""Tests of a pair on one machine: takeover by the slave, and the failover URL and the connectors that clients use."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from activemq_fleet.artifacts import fetch_and_unpack_distribution, java_executable
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.stomp import Credentials
from tests.integration import traffic
from tests.integration.waiting import PATIENCE, until
from tests.mqtt_clients import mqtt_round_trip
from tests.situations import in_every_situation
from tests.stomp_clients import stomp_round_trip

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "single-machine"
MASTER, SLAVE = "office-mq01-a", "office-mq01-b"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab.open([EXAMPLE], tmp_path_factory.mktemp("office") / "lab") as lab:
        lab.up()
        yield lab


def _account(lab: Lab, name: str) -> Credentials:
    users = {user.name: user for user in lab.fleet.broker(MASTER).settings.users}
    password = users[name].password
    return Credentials(name, password.get_secret_value())  # type: ignore[union-attr]


def _provider_url(lab: Lab) -> str:
    """Return the generated failover URL, as a Java client reads it from jndi.properties."""
    lines = (lab.directory / "clients" / "office" / "jndi.properties").read_text().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith("java.naming.provider.url="))


def _run_java_consumer(lab: Lab, url: str, queue: str) -> str:
    release = lab.fleet.broker(MASTER).release
    home = fetch_and_unpack_distribution(release)
    assert home is not None
    app = _account(lab, "app")
    command = [str(java_executable()), f"-Dactivemq.home={home}", "-jar", str(home / release.start_jar), "consumer"]
    options = {
        "--brokerUrl": url,
        "--user": app.username,
        "--password": app.password,
        "--destination": f"queue://{queue}",
        "--messageCount": "1",
    }
    command += [word for option in options.items() for word in option]
    consumer = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return consumer.stdout + consumer.stderr


@in_every_situation
def test_java_client_with_generated_url_consumes_messages_of_killed_master(lab: Lab) -> None:
    ports = dict(lab.fleet.broker(SLAVE).ports)
    address = lab.addresses(SLAVE, "stomp")[0][0]
    assert ports == {"openwire": 61626, "amqp": 5682, "stomp": 61623, "mqtt": 1893, "ws": 61624, "console": 8171}
    assert [name for name, port in ports.items() if traffic.is_open((address, port))] == []
    traffic.send(lab, MASTER, "left", ["left on the master"])

    lab.kill(MASTER)
    lab.wait_state(SLAVE, "active")

    assert "Received left on the master" in _run_java_consumer(lab, _provider_url(lab), "left")


def test_all_connectors_and_console_respond_after_takeover(lab: Lab) -> None:
    if lab.active("office-mq01") != lab.fleet.broker(SLAVE).host:
        lab.kill(MASTER)
    active = lab.wait_active("office-mq01")
    address = lab.addresses(active, "stomp")[0][0]
    ports = lab.fleet.broker(active).ports
    app, operator = _account(lab, "app"), _account(lab, "operator")

    # The console starts last, and the first login may have to wait until classes are loaded.
    until(lambda: traffic.is_open((address, ports["console"])), PATIENCE, lambda: lab.log(active).read_text()[-2000:])
    stomp_round_trip((address, ports["stomp"]), app, "answers", timeout=60)
    mqtt_round_trip((address, ports["mqtt"]), app, "answers", timeout=60)
    assert traffic.serves_openwire((address, ports["openwire"]))
    assert traffic.serves_amqp((address, ports["amqp"]))
    assert traffic.serves_websocket((address, ports["ws"]))
    assert traffic.console_status((address, ports["console"]), "/admin/") == 401
    assert traffic.console_status((address, ports["console"]), "/admin/", operator) == 200
    assert traffic.console_status((address, ports["console"]), "/api/jolokia/") == 401
