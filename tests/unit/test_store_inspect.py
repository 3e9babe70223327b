"""``activemq-fleet store inspect``: contents and damage of a store, read without a broker."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from activemq_fleet.errors import InputError
from activemq_fleet.node.fence.decision import StoreClaim
from activemq_fleet.node.fence.shared_store import SharedStore
from activemq_fleet.node.fence.store_inspection import JournalDamage, StoreInspection, inspect_store_journal
from tests.support.store_inspections import inspect_store
from tests.unit.kahadb_journals import (
    add_record,
    audit_record,
    index_content,
    remove_record,
    subscription_record,
    trace_record,
    update_record,
    write_data_file,
)

END_OF_FILE = b"-qMa4"


def change_byte(path: Path, searched: bytes, occurrence: int = 0) -> int:
    """Change the first byte of an occurrence of the bytes in a file; return its offset."""
    file_bytes, offset = bytearray(path.read_bytes()), -1
    for _ in range(occurrence + 1):
        offset = file_bytes.index(searched, offset + 1)
    file_bytes[offset] ^= 0xFF
    path.write_bytes(file_bytes)
    return offset


def test_inspection_of_undamaged_store_lists_files_and_remaining_messages(tmp_path: Path) -> None:
    write_data_file(
        tmp_path,
        trace_record(),
        subscription_record("events", "client:sub"),
        add_record("m1"),
        add_record("m2"),
        remove_record("m1"),
        audit_record(),
    )
    write_data_file(tmp_path, update_record("m2"), add_record("e1", "topic/events"), number=2)
    exit_code, report = inspect_store(tmp_path)
    assert exit_code == 0
    assert "  queue://work  1\n  topic://events  1 for client:sub\n" in report
    assert "db-2.log  " in report
    assert report.endswith("no damage was found\n")


def test_lost_messages_of_batch_with_wrong_checksum_are_named(tmp_path: Path) -> None:
    path = write_data_file(
        tmp_path,
        add_record("m1"),
        add_record("m2"),
        add_record("m3"),
        add_record("m4"),
        remove_record("m3"),
        checksum=True,
    )
    change_byte(path, b"\x08\x96\x01WRITE", 2)
    inspection = inspect_store_journal(str(tmp_path))
    assert inspection.batches == inspection.checked_batches == 3
    (damage,) = inspection.damages
    assert damage.messages == (("queue://work", "m4"),)
    assert damage.reason == "wrong checksum"
    exit_code, report = inspect_store(tmp_path)
    assert exit_code == 1
    place = f"db-1.log, byte {damage.start} to {damage.stop}"
    assert f"{place}: the store journal is damaged here (wrong checksum)\n" in report
    assert "    lost: queue://work  m4\n" in report


def test_wrong_checksum_of_acknowledgements_reports_possible_redelivery(tmp_path: Path) -> None:
    path = write_data_file(
        tmp_path, add_record("m1"), add_record("m2"), remove_record("m1"), remove_record("m2"), checksum=True
    )
    change_byte(path, b"m2", 1)
    assert inspect_store_journal(str(tmp_path)).damages[0].acknowledgements == 2
    assert (
        "lost: 2 acknowledgements of consumers: the broker delivers at most this number of messages again"
        in inspect_store(tmp_path)[1]
    )


def test_damaged_message_with_complete_later_record_is_not_lost(tmp_path: Path) -> None:
    path = write_data_file(
        tmp_path, add_record("m1"), add_record("m2"), update_record("m1"), update_record("m2"), checksum=True
    )
    change_byte(path, b"\x08\x96\x01WRITE")
    assert inspect_store_journal(str(tmp_path)).damages[0].messages == ()


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (b"WRITE BATCH", "no records"),
        (b"\x00\x00\x00\x21\x01\x01", "record length -16777183"),
    ],
)
def test_unreadable_bytes_are_reported_with_file_and_offset(tmp_path: Path, broken: bytes, reason: str) -> None:
    path = write_data_file(tmp_path, add_record("m1"), add_record("m2"), add_record("m3"), each=1)
    assert path.read_bytes().count(broken) == 3
    offset = change_byte(path, broken, 1)
    (damage,) = inspect_store_journal(str(tmp_path)).damages
    assert (damage.file, damage.is_known) == ("db-1.log", False)
    assert reason in damage.reason
    assert damage.start <= offset < damage.stop
    assert (
        f"lost: {damage.stop - damage.start} bytes of the store journal, whose content cannot be read"
        in inspect_store(tmp_path)[1]
    )


def test_end_of_complete_file_is_no_damage_and_incomplete_write_is_reported(tmp_path: Path) -> None:
    for number in (1, 3):
        path = write_data_file(tmp_path, add_record(f"m{number}"), number=number, reserved=0)
        path.write_bytes(path.read_bytes() + END_OF_FILE + bytes(40) + END_OF_FILE)
    inspection = inspect_store_journal(str(tmp_path))
    assert (inspection.damages, inspection.unfinished, inspection.missing) == ((), 0, (2,))
    (tmp_path / "db-3.log").write_bytes((tmp_path / "db-3.log").read_bytes() + b"\0\0\0\x21\x02WRITE BA")
    exit_code, report = inspect_store(tmp_path)
    assert exit_code == 0
    assert "db-2.log: these data files do not exist" in report
    assert "db-3.log ends with an incomplete write, as a killed broker leaves it" in report


def test_store_inspection_states_number_of_unlisted_missing_files(tmp_path: Path) -> None:
    for number in (1, 25):
        path = write_data_file(tmp_path, add_record(f"m{number}"), number=number, reserved=0)
        path.write_bytes(path.read_bytes() + END_OF_FILE + bytes(40) + END_OF_FILE)

    assert "db-21.log and 3 more: these data files do not exist" in inspect_store(tmp_path)[1]


def test_store_journal_without_records_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "db-1.log").write_bytes(b"-" * 5000)
    exit_code, report = inspect_store(tmp_path)
    assert exit_code == 1
    assert "db-1.log, byte 0 to 5000: the store journal is damaged here (no records)\n" in report


@pytest.mark.parametrize(
    ("content", "missing"),
    [
        (index_content(), ""),
        (index_content(last_update=1), ""),
        (index_content(last_update=7), "db-7.log"),
        (index_content(last_update=7, in_progress=1), ""),
        (index_content(last_update=1, in_progress=5), "db-5.log"),
        (index_content(last_update=1, audit=6), "db-6.log"),
        (index_content(last_update=9, audit=1, acks=8), "db-8.log, db-9.log"),
        (b"torn", ""),
    ],
)
def test_index_that_requires_missing_data_files_is_reported(tmp_path: Path, content: bytes, missing: str) -> None:
    for number in (1, 10):
        write_data_file(tmp_path, add_record("m1"), number=number)
    (tmp_path / "db.data").write_bytes(content)
    exit_code, report = inspect_store(tmp_path)
    assert exit_code == bool(missing)
    assert (f"requires these data files, which do not exist: {missing}" in report) == bool(missing)
    assert ("no damage was found" in report) == (not missing)


def test_json_of_store_inspection_contains_queues_damage_and_end(tmp_path: Path) -> None:
    path = write_data_file(tmp_path, add_record("m1"), add_record("m2"), checksum=True)
    change_byte(path, b"m2")
    exit_code, report_json = inspect_store(tmp_path, "--format", "json")
    report = json.loads(report_json)
    assert exit_code == report["damaged_places"] == 1
    assert report["queues"] == [{"name": "work", "messages": 2}]
    assert report["damages"][0]["messages"][0] == {"destination": "queue://work", "message": "m1"}
    assert report["end"]["file"] == report["files"][0]["name"] == "db-1.log"
    assert set(report["damages"][0]) == set(JournalDamage.__dataclass_fields__)


def test_inspection_of_fenced_store_reads_generation_in_force(tmp_path: Path) -> None:
    shared = SharedStore(str(tmp_path))
    shared.make_directories()
    for number, message in ((1, "old"), (2, "new")):
        claim = StoreClaim(number, "0a", f"{number}-0000000a")
        write_data_file(Path(shared.unclaimed_copy_path("0a")), add_record(message, f"of-{message}"))
        assert shared.create_claim(claim, {})
    shared.record_broker_dead(1)
    shared.write_uncopied_message_list(1, [{"message": "m"}])
    _, report = inspect_store(tmp_path)
    assert (
        "generation 1 (a copy of the store, made at a takeover): the broker of this copy has stopped, and only"
        in report
    )
    assert (
        "generation 2 (a copy of the store, made at a takeover): the pair uses this copy, which the following" in report
    )
    assert "queue://of-new  1" in report
    assert "of-old" not in report


def test_directory_without_store_is_refused_and_stores_below_it_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r": the directory contains no kahaDB store, because"):
        inspect_store(tmp_path)
    write_data_file(tmp_path / "queue#3a#2f#2forders", add_record("m1"))
    with pytest.raises(InputError, match="use one of its subdirectories queue#3a#2f#2forders"):
        inspect_store(tmp_path)


def test_inspection_does_not_change_store(tmp_path: Path) -> None:
    write_data_file(tmp_path, add_record("m1"))
    status_before = {path: path.stat() for path in (tmp_path, *tmp_path.iterdir())}
    inspect_store(tmp_path)
    status_after = {path: path.stat() for path in (tmp_path, *tmp_path.iterdir())}
    assert {path: (status.st_mtime_ns, status.st_size) for path, status in status_before.items()} == {
        path: (status.st_mtime_ns, status.st_size) for path, status in status_after.items()
    }


def test_name_chosen_by_client_adds_no_line_to_store_inspection(tmp_path: Path) -> None:
    name = "orders  1\nstore journal: 3 files, 812,004 records\nno damage was found\n\x1b[2J"
    write_data_file(
        tmp_path,
        subscription_record(name, f"client{name}:sub"),
        add_record("m1", name),
        add_record("m2", f"topic/{name}"),
    )

    exit_code, report = inspect_store(tmp_path)

    assert exit_code == 0
    assert r"  queue://orders  1\nstore journal: 3 files, 812,004 records\nno damage was found\n\u001b[2J  1" in report
    assert report.count("no damage was found\n") == 1
    assert "\nstore journal: 3 files" not in report


def count_inspection_calls(directory: Path, places: int) -> int:
    """Return how many functions an inspection calls for this number of damaged batches of acknowledgements."""
    records = [remove_record(f"m{number}") for number in range(10 * places)]
    path = write_data_file(directory, *records, each=10, checksum=True)
    path.write_bytes(path.read_bytes().replace(b"work", b"wurk"))
    inspections: list[StoreInspection] = []
    calls = count_calls(lambda: inspections.append(inspect_store_journal(str(directory))))
    assert inspections[0].damaged == places
    assert sum(damage.acknowledgements for damage in inspections[0].damages) == 10 * places
    return calls


def count_calls(act: Callable[[], object]) -> int:
    """Return how many Python functions are called while ``act`` runs."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


def test_work_of_store_inspection_grows_less_than_square_of_damaged_places(tmp_path: Path) -> None:
    small, large = (count_inspection_calls(tmp_path / str(places), places) for places in (40, 160))
    assert large < 6 * small
