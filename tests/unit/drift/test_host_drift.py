"""What is said of one host's files, from the records of both sides."""

from __future__ import annotations

import json

import pytest

from activemq_fleet.drift.host_drift import Row, drift_rows_of_host, planned_found_or_both_word
from activemq_fleet.drift.records import FileRecord, collected_file_records, planned_file_record

PLANNED = planned_file_record("h", "conf/a.xml", "<a/>\n", None)
COLLECTED = FileRecord("h", "", collected=True)


def found(path: str, content: object) -> list[FileRecord]:
    text = content if isinstance(content, str) else json.dumps(content)
    return list(collected_file_records(f"h/configuration/{path}", text.encode()))


def drift(*records: FileRecord) -> dict[str | None, Row]:
    return {row["path"]: row for row in drift_rows_of_host(records)}


@pytest.mark.parametrize(
    ("records", "side"),
    [
        ((PLANNED, COLLECTED), "both"),
        ((PLANNED,), "planned"),
        ((COLLECTED,), "found"),
        # A directory that collect has not finished, of a host that nobody planned.
        (tuple(found("conf/a.xml", "<a/>\n")), None),
    ],
)
def test_a_host_is_on_the_sides_that_tell_of_it(records: tuple[FileRecord, ...], side: str | None) -> None:
    assert planned_found_or_both_word(records) == side


def test_records_of_one_file_are_put_together() -> None:
    deployed = found(".fleet-manifest.json", {"conf/a.xml": PLANNED.planned})
    noted = found(".fleet-found.json", {"conf/a.xml": {"status": "changed"}})
    rows = drift(PLANNED, COLLECTED, *found("conf/a.xml", "<b/>\n"), *deployed, *noted)
    assert (rows["conf/a.xml"]["status"], rows["conf/a.xml"]["cause"]) == ("changed", "by_hand")
    assert "-<a/>\n+<b/>\n" in (rows["conf/a.xml"]["diff"] or "")


def test_a_file_that_was_deployed_once_and_is_on_neither_side_is_not_told() -> None:
    rows = drift(PLANNED, COLLECTED, *found(".fleet-manifest.json", {"conf/gone.xml": "abc"}))
    assert list(rows) == ["conf/a.xml"]
    assert (rows["conf/a.xml"]["status"], rows["conf/a.xml"]["cause"]) == ("removed", "out_of_date")
