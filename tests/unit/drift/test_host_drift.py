"""Drift of the files of a host, from its planned and collected records."""

from __future__ import annotations

import json

import pytest

from activemq_fleet.drift.file_records import FileRecord, collected_file_records, planned_file_record
from activemq_fleet.drift.host_drift import Row, drift_rows_of_host, planned_found_or_both_word

PLANNED = planned_file_record("h", "conf/a.xml", "<a/>\n", None)
COLLECTED = FileRecord("h", "", collected=True)


def collected_records(path: str, content: object) -> list[FileRecord]:
    text = content if isinstance(content, str) else json.dumps(content)
    return list(collected_file_records(f"h/configuration/{path}", text.encode()))


def drift_rows_by_path(*records: FileRecord) -> dict[str | None, Row]:
    return {row["path"]: row for row in drift_rows_of_host(records)}


@pytest.mark.parametrize(
    ("records", "side"),
    [
        ((PLANNED, COLLECTED), "both"),
        ((PLANNED,), "planned"),
        ((COLLECTED,), "found"),
        # An incomplete directory of collect, for a host without a plan.
        (tuple(collected_records("conf/a.xml", "<a/>\n")), None),
    ],
)
def test_host_is_planned_found_or_both_according_to_its_file_records(
    records: tuple[FileRecord, ...], side: str | None
) -> None:
    assert planned_found_or_both_word(records) == side


def test_planned_and_collected_records_of_same_file_are_combined() -> None:
    manifest = collected_records(".fleet-manifest.json", {"conf/a.xml": PLANNED.planned})
    notes = collected_records(".fleet-found.json", {"conf/a.xml": {"status": "changed"}})
    row_by_path = drift_rows_by_path(PLANNED, COLLECTED, *collected_records("conf/a.xml", "<b/>\n"), *manifest, *notes)
    assert (row_by_path["conf/a.xml"]["status"], row_by_path["conf/a.xml"]["cause"]) == ("changed", "by_hand")
    assert "-<a/>\n+<b/>\n" in (row_by_path["conf/a.xml"]["diff"] or "")


def test_drift_omits_file_only_in_manifest_and_reports_missing_planned_file() -> None:
    row_by_path = drift_rows_by_path(
        PLANNED, COLLECTED, *collected_records(".fleet-manifest.json", {"conf/gone.xml": "abc"})
    )
    assert list(row_by_path) == ["conf/a.xml"]
    assert (row_by_path["conf/a.xml"]["status"], row_by_path["conf/a.xml"]["cause"]) == ("removed", "out_of_date")
