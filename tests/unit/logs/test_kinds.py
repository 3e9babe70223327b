"""Tests of the kinds of log messages, with the texts of releases."""

from __future__ import annotations

import pytest

from activemq_fleet.logs.kinds import log_message_kind, log_message_kind_ids

OLD_TEMP = "Temporary Store limit is 51200 mb, whilst the temporary data directory: /tmp only has 20 mb of usable space"
NEW_TEMP = (
    "Temporary Store limit is 51200 mb (current store usage is 0 mb). The data directory: /srv only has 49876 mb of "
    "usable space. - resetting to maximum available disk space: 49876 mb"
)
PERCENT = (
    "Temporary Store limit has been set to 50% (51200 mb) of the partition size but there is not enough usable space."
    "The current store limit (which may have been adjusted by a previous usage limit check) is set to (9 mb) but 1% "
    "(9 mb) is available - resetting limit"
)
SCHEDULER = "Store limit is 51200 mb, whilst the data directory: /srv/scheduler only has 20 mb of"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (OLD_TEMP, "X-LIMIT-TEMP"),
        (NEW_TEMP, "X-LIMIT-TEMP"),
        (NEW_TEMP.removeprefix("Temporary "), "LIMIT-STORE"),
        (PERCENT, "X-LIMIT-PERCENT"),
        (PERCENT.removeprefix("Temporary "), "X-LIMIT-PERCENT"),
        (f"Job Schedular {SCHEDULER} usable space", "X-LIMIT-SCHEDULER"),
        (f"Job Scheduler {SCHEDULER} usage space - resetting to 20 mb.", "X-LIMIT-SCHEDULER"),
        (
            "Usable disk space has been increased, attempting to regrow Store limit to 50% of the parition size",
            "X-LIMIT-REGROWN",
        ),
        ("storeUsage limit has been increase to 50% (51200 mb) of the partition size.", "X-LIMIT-REGROWN"),
        (
            "Temporary Store limit is 50 mb, whilst the max journal file size for the temporary store is: 60 mb, the "
            "temp store will not accept any data when used.",
            "LIMIT-TEMP-JOURNAL",
        ),
    ],
)
def test_log_message_about_too_small_disk_has_exactly_one_kind(message: str, expected: str) -> None:
    assert [kind_id for kind_id in log_message_kind_ids() if log_message_kind(kind_id).regex.search(message)] == [
        expected
    ]
