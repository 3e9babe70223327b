"""The names of files that are parts of a broker's log."""

from __future__ import annotations

import pytest

from activemq_fleet.node.log.log_file_names import is_broker_log_path, is_similar_to_broker_log


@pytest.mark.parametrize(
    "path",
    [
        # Configurations of releases, and of this project.
        "activemq.log",
        "activemq.log.1",
        "activemq.log.12.gz",
        # DatePattern of log4j 1, as its documentation lists them.
        "activemq.log.2026-11",
        "activemq.log.2026-48",
        "activemq.log.2026-11-30",
        "activemq.log.2026-11-30-AM",
        "activemq.log.2026-11-30-23",
        "activemq.log.2026-11-30-23-59",
        "activemq.log.2026-11-30.log",
        # filePattern of log4j 2.
        "activemq.log.2026-11-30.1",
        "activemq.log-20261130.gz",
        "activemq-2026-11-30.log",
        "activemq-2026-11-30-1.log.gz",
        "activemq-11-30-2026-1.log.gz",
        "activemq.2026-11-30.2.log",
        "activemq_20261130.log",
        "activemq-2026-11-30T23-59.log",
        "activemq.30-Nov.log.gz",
        "activemq-1.log.gz",
        "2026-11/activemq-11-30-2026-1.log.gz",
        "2026/11/30/activemq-3.log",
        "2026-11-30/activemq.log.1",
    ],
)
def test_names_of_shipped_and_usual_patterns_are_broker_logs(path: str) -> None:
    assert is_broker_log_path(path)
    assert not is_similar_to_broker_log(path)


@pytest.mark.parametrize(
    ("path", "is_similar"),
    [
        ("activemq-node1.log", True),
        ("activemq-2026-11-30.log.zip", True),
        ("activemq.log.1.zip", True),
        ("activemq.log.2026-11-30.bz2", True),
        ("archive/activemq.log.1", True),
        ("kahadb/activemq.log", True),
        ("orders-activemq.log", True),
        ("activemq-2026-11-30-1.log.tmp", False),
        ("activemq.log.1.lck", False),
        ("activemq-audit.log", False),
        ("audit.log", False),
        ("activemq-watchdog.service.log", False),
        ("activemq.logging.properties", False),
        ("activemq.xml", False),
        ("kahadb/db-1.log", False),
        ("wrapper.log", False),
    ],
)
def test_other_names_are_no_broker_logs_and_similar_ones_are_recognized(path: str, is_similar: bool) -> None:
    assert not is_broker_log_path(path)
    assert is_similar_to_broker_log(path) == is_similar
