"""Drift of the files of a host, from its planned and collected records."""

from __future__ import annotations

import hashlib
import json

import pytest

from activemq_fleet.drift.file_records import FileRecord, collected_file_records, planned_file_record
from activemq_fleet.drift.host_drift import Row, drift_rows_of_host, planned_collected_or_both_word

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
    assert planned_collected_or_both_word(records) == side


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


EMPTY = hashlib.sha256(b"").hexdigest()


@pytest.mark.parametrize(
    ("planned", "manifest", "noted_status", "drift"),
    [
        ("<a/>\n", PLANNED.planned, "changed", ("changed", "by_hand", "-<a/>\n")),
        (None, None, "added", ("added", "by_hand", "")),
        ("", EMPTY, "same", ("same", None, "")),
        # Spark did not read the planned file, because it is empty.
        (None, EMPTY, "same", ("same", None, "")),
    ],
    ids=["emptied", "added", "planned by plan", "planned by render"],
)
def test_empty_collected_file_is_compared_although_spark_does_not_read_it(
    planned: str | None, manifest: str | None, noted_status: str, drift: tuple[str, str | None, str]
) -> None:
    records = [COLLECTED, *collected_records(".fleet-manifest.json", {"conf/a.xml": manifest} if manifest else {})]
    if planned is not None:
        records.append(planned_file_record("h", "conf/a.xml", planned, None))
    records += collected_records(".fleet-found.json", {"conf/a.xml": {"status": noted_status, "sha256": EMPTY}})
    row = drift_rows_by_path(*records)["conf/a.xml"]
    status, cause, diff = drift
    assert (row["status"], row["cause"], row["found_sha256"]) == (status, cause, EMPTY)
    assert diff in (row["diff"] or "")


def test_file_that_spark_does_not_read_is_compared_by_its_noted_hash() -> None:
    notes = collected_records(".fleet-found.json", {"conf/a._COPYING_": {"status": "added", "sha256": "ab" * 32}})
    row = drift_rows_by_path(COLLECTED, PLANNED, *notes)["conf/a._COPYING_"]
    assert (row["status"], row["cause"], row["diff"]) == ("added", "by_hand", None)


def test_planned_empty_file_that_was_filled_by_hand_has_diff() -> None:
    records = [COLLECTED, planned_file_record("h", "conf/a.xml", "", None), *collected_records("conf/a.xml", "<b/>\n")]
    assert "+<b/>\n" in (drift_rows_by_path(*records)["conf/a.xml"]["diff"] or "")
