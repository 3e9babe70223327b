"""The messages that a broker of 5.3 to 5.7 still holds, from its management interface and its store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.node.config.configuration_archive import ConfigurationFile
from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.install.configuration_install import Owners, install_configuration
from activemq_fleet.node.probe import management
from activemq_fleet.node.process.proc import Process
from activemq_fleet.node.state import backlog
from tests.unit.kahadb_journals import add_record, write_data_file


def test_backlog_of_broker_without_deployed_configuration_names_adoption(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match=f"no configuration to {tmp_path}.* adopt its pair first, and start it with"):
        backlog.count_backlog(str(tmp_path))


def test_queue_removed_during_query_is_left_out_of_backlog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, store = tmp_path / "base", tmp_path / "store"
    xml = f'<beans><broker><persistenceAdapter><kahaDB directory="{store}"/></persistenceAdapter></broker></beans>'
    install_configuration(str(base), {"conf/activemq.xml": ConfigurationFile(xml.encode(), 0o640)}, Owners())
    store.mkdir()
    write_data_file(store, add_record("m1"))
    subscription = {"Type": "Subscription", "DestinationName": "prices", "ClientId": "c", "SubscriptionName": "daily"}
    mbeans: list[dict[str, Any]] = [
        {"Type": "Broker"},
        {"Type": "Queue", "Destination": "orders"},
        {"Type": "Queue", "Destination": "payments", "QueueSize": 2},
        {"Type": "Subscription", "ClientId": "c"},
        {**subscription, "PendingQueueSize": 3, "DispatchedQueueSize": 1},
    ]
    monkeypatch.setattr(management, "query_mbeans", lambda *_arguments: mbeans)
    monkeypatch.setattr(backlog, "find_broker_process", lambda _base: Process(1, 0.0, "S", ("java",)))

    counts = backlog.count_backlog(str(base))

    assert counts["queues"] == {"payments": 2, "work": 1}
    assert counts["subscriptions"] == [{"topic": "prices", "client": "c", "name": "daily", "messages": 4}]
