"""Whose doing a difference is, and how it is shown."""

from __future__ import annotations

import hashlib
import json

import pytest

from activemq_fleet.drift.differences import drift_status_and_cause, unified_diff_text
from activemq_fleet.drift.records import FileRecord, collected_file_records, planned_file_record
from activemq_fleet.errors import InputError

_FILE = ("host", "conf/a.xml")


@pytest.mark.parametrize(
    ("evidence", "installed", "judgement"),
    [
        (FileRecord(*_FILE, "a", "a", "a", "same"), True, ("same", None)),
        # As planned, although nobody deployed it so: there is nothing to do.
        (FileRecord(*_FILE, "a", "a", "b", "changed"), True, ("same", None)),
        (FileRecord(*_FILE, "a", "b", "a", "changed"), True, ("changed", "by_hand")),
        (FileRecord(*_FILE, "a", "b", "b", "same"), True, ("changed", "out_of_date")),
        # Planned anew and changed by hand as well: what nobody planned counts.
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
def test_the_manifest_tells_whose_doing_it_is(
    evidence: FileRecord, installed: bool, judgement: tuple[str, str | None]
) -> None:
    assert drift_status_and_cause(evidence, installed=installed) == judgement


def test_a_difference_names_both_sides() -> None:
    shown = unified_diff_text("conf/a.xml", "one\ntwo\n", "one\nthree\n")
    assert shown.splitlines() == [
        "--- planned/conf/a.xml",
        "+++ found/conf/a.xml",
        "@@ -1,2 +1,2 @@",
        " one",
        "-two",
        "+three",
    ]


def test_a_file_that_is_not_there_is_dev_null() -> None:
    assert unified_diff_text("a", None, "x").splitlines()[:2] == ["--- /dev/null", "+++ found/a"]


def test_a_missing_last_line_feed_shows() -> None:
    assert "\\ No newline at end of file" in unified_diff_text("a", "x\n", "x")


def test_a_long_difference_is_cut_and_the_rest_is_counted() -> None:
    shown = unified_diff_text("a", None, "".join(f"{number}\n" for number in range(1000)))
    assert len(shown.splitlines()) == 201
    assert shown.endswith("… 803 more lines\n")


def test_a_file_of_many_lines_is_not_compared_line_by_line() -> None:
    assert (
        unified_diff_text("a", "x\n" * 5000, "y\n" * 5000)
        == "the diff is not shown, because the files are too long: the planned file has 5000 lines, and the collected "
        "file has 5000\n"
    )


def test_a_changed_secret_shows_without_its_value() -> None:
    planned = planned_file_record("h", "conf/credentials.properties", "activemq.password=@activemq_password@\n", None)
    (found,) = collected_file_records("h/configuration/conf/credentials.properties", b"activemq.password=hunter22\n")
    assert found.found_sha256 != planned.planned
    shown = unified_diff_text(planned.path, planned.planned_text, found.found_text)
    assert "@secret@" in shown
    assert "hunter22" not in shown


def test_both_sides_hash_what_is_masked() -> None:
    text = "activemq.password=@activemq_password@\n"
    planned = planned_file_record("h", "conf/credentials.properties", text, None)
    (found,) = collected_file_records("h/configuration/conf/credentials.properties", text.encode())
    assert planned.planned == found.found_sha256 == hashlib.sha256(text.encode()).hexdigest()


def test_a_plan_without_contents_is_compared_by_its_hashes() -> None:
    assert planned_file_record("h", "conf/a.xml", None, "abc").planned == "abc"


def test_a_key_store_counts_by_its_hash() -> None:
    record = {"conf/broker.ks": {"status": "added", "sha256": "abc", "why": "a key store"}}
    (known,) = collected_file_records("h/configuration/.fleet-found.json", json.dumps(record).encode())
    assert (known.found_sha256, known.noted_status, known.why) == ("abc", "added", "a key store")


def test_a_file_too_large_to_be_collected_is_there_and_not_compared() -> None:
    record = {"conf/big.xml": {"status": "same", "why": "larger than 1 MiB"}}
    (known,) = collected_file_records("h/configuration/.fleet-found.json", json.dumps(record).encode())
    assert drift_status_and_cause(known._replace(planned="a", manifest="b"), installed=True) == ("changed", "unknown")


@pytest.mark.parametrize("content", [b"", b"[]", b'{"a":', b"\xff"])
def test_a_damaged_record_names_its_host(content: bytes) -> None:
    with pytest.raises(
        InputError,
        match=r"^h: the collected file configuration/\.fleet-manifest\.json is damaged, because it is not a JSON",
    ):
        list(collected_file_records("h/configuration/.fleet-manifest.json", content))
