"""Test of ``activemq_kahadb.by_destination`` on real brokers: the stores of messages, and all messages after kills."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.fence.store_inspection import inspect_store_as_dict
from tests.integration.conftest import LabOf
from tests.integration.labs import pair, write_inventory
from tests.situations import further, in_every_situation
from tests.stomp_clients import stomp_drain, stomp_send

A, B = pair("orders")
NETWORK = {"network_username": "network", "network_password": "s3cret-network"}
QUEUES = ("orders.eu", "orders.us", "news", "trades")


def store_settings(*, per_destination: bool) -> dict[str, Any]:
    """Return settings with one store for the queues of orders, and one store for all others or for each of them."""
    return {
        "journal_max_file_length": "1 mb",
        "transaction_journal": {"journal_max_file_length": "1 mb"},
        "by_destination": [
            {"destination": "orders.>", "kind": "queue", "cleanup_interval": 1000},
            {"per_destination": per_destination},
        ],
    }


@in_every_situation
@pytest.mark.parametrize(
    ("release", "ha", "per_destination"),
    [
        *further(("5.8.0", "none", False), ("5.13.5", "shared-file", False), ("5.18.3", "shared-file", False)),
        ("6.3.1", "shared-file", True),
    ],
)
def test_messages_are_in_stores_of_their_destinations_and_survive_kills(
    tmp_path: Path, lab_of: LabOf, release: str, ha: str, per_destination: bool
) -> None:
    hosts = (A, B) if ha == "shared-file" else (A,)
    kahadb = store_settings(per_destination=per_destination)
    lab = lab_of(write_inventory(tmp_path / "inventory", hosts, release=release, ha=ha, kahadb=kahadb, **NETWORK))
    states = [host.state for host in lab.up()]
    assert states == ["active", "standby"][: len(hosts)]

    login = lab.credentials(A)
    for queue in QUEUES:
        stomp_send(lab.addresses(A, "stomp"), f"/queue/{queue}", [f"to {queue}"], login)
    lab.kill(A)
    if ha == "shared-file":
        assert lab.wait_active("orders-mq01") == B
        lab.kill(B)

    store = Path(lab.fleet.broker(A).store_directory)
    counts_by_store = []
    for journal in store.glob("*/db-1.log"):
        if journal.parent.name != "txStore":
            queue_rows = inspect_store_as_dict(str(journal.parent))["queues"]
            counts_by_store += [sorted((row["name"], row["messages"]) for row in queue_rows)] if queue_rows else []
    other_queues = [("news", 1), ("trades", 1)]
    order_queues = [("orders.eu", 1), ("orders.us", 1)]
    expected = [order_queues, *([[queue_count] for queue_count in other_queues] if per_destination else [other_queues])]
    assert sorted(counts_by_store) == sorted(expected)
    with pytest.raises(NodeError, match="use one of its subdirectories"):
        inspect_store_as_dict(str(store))

    lab.start(A)
    for queue in QUEUES:
        bodies = stomp_drain(lab.addresses(A, "stomp"), f"/queue/{queue}", login, expected=1, timeout=180)
        assert bodies == [f"to {queue}"]
