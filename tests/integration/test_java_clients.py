"""A Java client with the rendered, unchanged jndi.properties loses no message in a take-over."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from activemq_fleet.lab.drill_files import broker_state_changes_since
from activemq_fleet.releases import Release
from tests.integration.conftest import LabOf
from tests.integration.java_clients import compile_client
from tests.integration.labs import pair, write_inventory
from tests.situations import further, in_every_situation
from tests.stomp_clients import stomp_drain

A, B = pair("orders")
COUNT = 200
KILLED_AFTER = 50


@in_every_situation
@pytest.mark.parametrize("release", ["6.3.1", *further("5.5.1", "5.18.3")])
def test_java_client_with_rendered_uri_list_loses_no_message_in_takeover(
    tmp_path: Path, lab_of: LabOf, release: str
) -> None:
    secrets = {"network_username": "network", "network_password": "s3cret-network"}
    lab = lab_of(write_inventory(tmp_path / "inventory", (A, B), release=release, **secrets))
    command = compile_client("SendThroughTakeOver", Release.of(release), tmp_path)
    lab.up()
    credentials = lab.credentials("orders-mq01")
    assert credentials is not None
    environment = {**os.environ, "BROKER_USERNAME": credentials.username, "BROKER_PASSWORD": credentials.password}
    jndi = lab.directory / "clients" / "orders" / "jndi.properties"

    with subprocess.Popen(
        [*command, str(jndi), "sent", str(COUNT)], stdout=subprocess.PIPE, text=True, env=environment
    ) as client:
        assert client.stdout is not None
        send_times = [int(client.stdout.readline().split()[1]) for _ in range(KILLED_AFTER)]
        killed_at = time.time()
        lab.kill(A)
        send_times += [int(line.split()[1]) for line in client.stdout]
    assert client.returncode == 0

    changes = broker_state_changes_since(lab.log(B).read_text(errors="replace"), killed_at)
    takeover = next(at for at, state in changes if state == "active") - killed_at
    received = stomp_drain(
        lab.addresses("orders-mq01", "stomp"), "/queue/sent", credentials, expected=COUNT, timeout=120
    )
    assert set(received) == {f"message {number}" for number in range(COUNT)}
    print(f"{release}: the longest send took {max(send_times)} ms, the takeover {takeover:.1f} s")
