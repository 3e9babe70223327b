"""Causes of differences between planned and collected files, and their diffs."""

from __future__ import annotations

import hashlib
import json

import pytest

from activemq_fleet.drift.differences import drift_status_and_cause, unified_diff_text
from activemq_fleet.drift.file_records import FileRecord, collected_file_records, planned_file_record
from activemq_fleet.errors import InputError

_FILE = ("host", "conf/a.xml")


@pytest.mark.parametrize(
    ("evidence", "installed", "status_and_cause"),
    [
        (FileRecord(*_FILE, "a", "a", "a", "same"), True, ("same", None)),
        # The file is as planned, although it was not deployed so: no action is necessary.
        (FileRecord(*_FILE, "a", "a", "b", "changed"), True, ("same", None)),
        (FileRecord(*_FILE, "a", "b", "a", "changed"), True, ("changed", "by_hand")),
        (FileRecord(*_FILE, "a", "b", "b", "same"), True, ("changed", "out_of_date")),
        # Both the plan and the file were changed: the manual change is the cause.
        (FileRecord(*_FILE, "a", "c", "b", "changed"), True, ("changed", "by_hand")),
        (FileRecord(*_FILE, "a", "b", None, "unknown"), False, ("changed", "unknown")),
        (FileRecord(*_FILE, "a", "b", None, "added"), True, ("changed", "by_hand")),
        (FileRecord(*_FILE, None, "b", None, "added"), True, ("added", "by_hand")),
        (FileRecord(*_FILE, None, "b", "b", "same"), True, ("added", "out_of_date")),
        (FileRecord(*_FILE, None, "c", "b", "changed"), True, ("added", "by_hand")),
        (FileRecord(*_FILE, None, "b", None, "unknown"), False, ("added", "unknown")),
        (FileRecord(*_FILE, "a", None, "a", "removed"), True, ("removed", "by_hand")),
        (FileRecord(*_FILE, "a", None, None, None), True, ("removed", "out_of_date")),
        (FileRecord(*_FILE, "a", None, None, None), False, ("removed", "unknown")),
        (FileRecord(*_FILE, "a", None, "a", "unreadable"), True, ("changed", "unknown")),
    ],
)
def test_status_and_cause_of_drift_follow_from_checksums_and_manifest(
    evidence: FileRecord, installed: bool, status_and_cause: tuple[str, str | None]
) -> None:
    assert drift_status_and_cause(evidence, installed=installed) == status_and_cause


def test_drift_diff_names_planned_and_found_file() -> None:
    diff = unified_diff_text("conf/a.xml", "one\ntwo\n", "one\nthree\n")
    assert diff.splitlines() == [
        "--- planned/conf/a.xml",
        "+++ found/conf/a.xml",
        "@@ -1,2 +1,2 @@",
        " one",
        "-two",
        "+three",
    ]


def test_missing_planned_file_is_dev_null_in_drift_diff() -> None:
    assert unified_diff_text("a", None, "x").splitlines()[:2] == ["--- /dev/null", "+++ found/a"]


def test_drift_diff_shows_missing_line_feed_at_end_of_file() -> None:
    assert "\\ No newline at end of file" in unified_diff_text("a", "x\n", "x")


def test_long_drift_diff_is_truncated_with_count_of_omitted_lines() -> None:
    diff = unified_diff_text("a", None, "".join(f"{number}\n" for number in range(1000)))
    assert len(diff.splitlines()) == 201
    assert diff.endswith("… 803 more lines\n")


def test_drift_diff_of_very_long_files_is_omitted() -> None:
    assert (
        unified_diff_text("a", "x\n" * 5000, "y\n" * 5000)
        == "the diff is not shown, because the files are too long: the planned file has 5000 lines, and the collected "
        "file has 5000\n"
    )


def test_changed_secret_is_masked_in_drift_diff() -> None:
    planned = planned_file_record("h", "conf/credentials.properties", "activemq.password=@activemq_password@\n", None)
    (collected,) = collected_file_records(
        "h/configuration/conf/credentials.properties", b"activemq.password=hunter22\n"
    )
    assert collected.found_sha256 != planned.planned
    diff = unified_diff_text(planned.path, planned.planned_text, collected.found_text)
    assert "@secret@" in diff
    assert "hunter22" not in diff


def test_planned_and_collected_file_have_hash_of_masked_text() -> None:
    text = "activemq.password=@activemq_password@\n"
    planned = planned_file_record("h", "conf/credentials.properties", text, None)
    (collected,) = collected_file_records("h/configuration/conf/credentials.properties", text.encode())
    assert planned.planned == collected.found_sha256 == hashlib.sha256(text.encode()).hexdigest()


def test_planned_file_without_content_uses_hash_of_plan() -> None:
    assert planned_file_record("h", "conf/a.xml", None, "abc").planned == "abc"


def test_collected_key_store_is_compared_by_hash() -> None:
    record = {"conf/broker.ks": {"status": "added", "sha256": "abc", "why": "a key store"}}
    (collected,) = collected_file_records("h/configuration/.fleet-found.json", json.dumps(record).encode())
    assert (collected.found_sha256, collected.noted_status, collected.why) == ("abc", "added", "a key store")


def test_file_too_large_to_collect_is_drift_with_unknown_cause() -> None:
    record = {"conf/big.xml": {"status": "same", "why": "larger than 1 MiB"}}
    (collected,) = collected_file_records("h/configuration/.fleet-found.json", json.dumps(record).encode())
    assert drift_status_and_cause(collected._replace(planned="a", manifest="b"), installed=True) == (
        "changed",
        "unknown",
    )


@pytest.mark.parametrize("content", [b"", b"[]", b'{"a":', b"\xff"])
def test_error_of_damaged_manifest_names_its_host(content: bytes) -> None:
    with pytest.raises(
        InputError,
        match=r"^h: the collected file configuration/\.fleet-manifest\.json is damaged, because it is not a JSON",
    ):
        list(collected_file_records("h/configuration/.fleet-manifest.json", content))


@pytest.mark.parametrize(
    ("file", "note"),
    [
        (".fleet-manifest.json", {"sha256": "abc"}),
        (".fleet-manifest.json", None),
        (".fleet-found.json", 1),
        (".fleet-found.json", {"status": 3}),
        (".fleet-found.json", {"status": "same", "sha256": ["abc"]}),
        (".fleet-found.json", {"status": "same", "why": {}}),
    ],
)
def test_error_of_collected_note_with_wrong_type_names_its_host_file_and_entry(file: str, note: object) -> None:
    content = json.dumps({"conf/a.xml": note})
    with pytest.raises(
        InputError,
        match=rf"^h: the collected file configuration/\{file} is damaged, because its entry 'conf/a\.xml' has a value",
    ):
        list(collected_file_records(f"h/configuration/{file}", content.encode()))
