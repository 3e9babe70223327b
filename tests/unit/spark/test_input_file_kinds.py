"""The kinds of collected files, by their names."""

from __future__ import annotations

import pytest

from activemq_fleet.logs.rolled_files import RolledFile, rolled_files_oldest_first
from activemq_fleet.spark.inputs import file_kind


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("activemq.log", "log"),
        ("activemq.log.2026-11-20.gz", "log"),
        ("activemq-2026-11-20-1.log", "log"),
        ("activemq-2026-11-20.log.gz", "log"),
        ("activemq_20261120.log", "log"),
        ("activemq.2026-11.log", "log"),
        ("activemq-1.log", "other"),
        ("activemq-2026-11-20-1.log.tmp", "other"),
        ("more/activemq-2026-11-20-1.log", "other"),
        ("activemq-audit.log", "other"),
    ],
)
def test_logs_of_broker_are_recognized_by_name(file: str, kind: str) -> None:
    assert file_kind(file) == kind


def test_logs_named_by_date_precede_current_log_in_order_of_time() -> None:
    rolls = [RolledFile("activemq.log", 30), RolledFile("activemq-2026-11-20-2.log", 20)]
    rolls.append(RolledFile("activemq-2026-11-20-1.log.gz", 10))
    assert [roll.first for roll in rolled_files_oldest_first(rolls)] == [10, 20, 30]
