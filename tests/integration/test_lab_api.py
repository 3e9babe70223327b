"""Use of the lab in tests of users: a pair of real brokers from a fleet, by name, and no remaining process."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from activemq_fleet import Fleet, build_fleet
from activemq_fleet.lab import Lab
from tests.integration.labs import pair, processes_of
from tests.stomp_clients import stomp_drain, stomp_send

A, B = pair("orders")


def make_fleet() -> Fleet:
    variables = {
        "activemq_release": "6.3.1",
        "activemq_ha": "shared-file",
        "activemq_store_directory": "/mnt/activemq/kahadb",
        "activemq_users": [{"name": "shop", "password": "s3cret-shop"}],
    }
    return build_fleet({A: variables, B: variables})


def test_lab_api_takes_over_named_pair_and_stops_it_after_exception(tmp_path: Path) -> None:
    pids: list[int] = []

    def use_lab() -> None:
        with Lab.of_fleet(make_fleet(), tmp_path / "lab") as lab:
            lab.up()
            pids.extend(host.pid for host in lab.status() if host.pid)
            assert lab.active("orders-mq01") == A
            first_uri, second_uri = lab.uris("orders-mq01")
            assert [first_uri, second_uri] == [
                f"tcp://{address}:{port}" for address, port in lab.addresses("orders-mq01", "openwire")
            ]
            assert lab.uris(A) == (first_uri,)
            assert (lab.configuration_directory(A) / "activemq.xml").is_file()
            assert lab.log(A).parent == lab.data_directory(A)
            assert lab.store_directory(A) == lab.store_directory(B)
            assert (lab.store_directory(A) / "db.data").is_file()
            assert tmp_path in lab.store_directory(A).parents

            stomp_send(lab.addresses("orders-mq01", "stomp"), "/queue/q", ["kept"], lab.credentials(A))
            lab.kill("orders-mq01-a")
            assert lab.wait_active("orders-mq01") == B
            addresses = lab.addresses("orders-mq01", "stomp")
            assert stomp_drain(addresses, "/queue/q", lab.credentials(B), expected=1, timeout=180) == ["kept"]
            lab.pause("orders-mq01-b")
            assert lab.state(B) == "hung"
            raise RuntimeError("the test of a user fails while a broker is frozen")

    with pytest.raises(RuntimeError, match="while a broker is frozen"):
        use_lab()
    assert len(pids) == 2
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert processes_of(tmp_path / "lab") == []
