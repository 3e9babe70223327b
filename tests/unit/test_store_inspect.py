"""``activemq-fleet store inspect``: what a store holds and what is damaged, read without a broker."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from activemq_fleet.cli.store import store_command
from activemq_fleet.errors import InputError
from activemq_fleet.node.fence.decision import StoreClaim
from activemq_fleet.node.fence.shared_store import SharedStore
from activemq_fleet.node.fence.store_inspection import JournalDamage, StoreInspection, inspect_store_journal
from tests.unit.kahadb_journals import add, audit, index, remove, subscribe, trace, update, write

END_OF_FILE = b"-qMa4"


def flip(path: Path, what: bytes, occurrence: int = 0) -> int:
    """Change the first byte of the text in a file; return its offset."""
    data, at = bytearray(path.read_bytes()), -1
    for _ in range(occurrence + 1):
        at = data.index(what, at + 1)
    data[at] ^= 0xFF
    path.write_bytes(data)
    return at


def shown(store: Path, *options: str) -> tuple[int, str]:
    result = CliRunner().invoke(store_command, ["inspect", str(store), *options], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.return_value, result.output


def test_a_sound_store_shows_files_and_waiting_messages(tmp_path: Path) -> None:
    write(tmp_path, trace(), subscribe("events", "client:sub"), add("m1"), add("m2"), remove("m1"), audit())
    write(tmp_path, update("m2"), add("e1", "topic/events"), number=2)
    code, text = shown(tmp_path)
    assert code == 0
    assert "  queue://work  1\n  topic://events  1 for client:sub\n" in text
    assert "db-2.log  " in text
    assert text.endswith("no damage was found\n")


def test_a_wrong_checksum_names_the_messages_that_wait(tmp_path: Path) -> None:
    path = write(tmp_path, add("m1"), add("m2"), add("m3"), add("m4"), remove("m3"), checksum=True)
    flip(path, b"\x08\x96\x01WRITE", 2)
    inspection = inspect_store_journal(str(tmp_path))
    assert inspection.batches == inspection.checked_batches == 3
    (damage,) = inspection.damages
    assert damage.messages == (("queue://work", "m4"),)
    assert damage.reason == "wrong checksum"
    code, text = shown(tmp_path)
    assert code == 1
    place = f"db-1.log, byte {damage.start} to {damage.stop}"
    assert f"{place}: the store journal is damaged here (wrong checksum)\n" in text
    assert "    lost: queue://work  m4\n" in text


def test_a_wrong_checksum_over_acknowledgements_says_that_messages_may_come_again(tmp_path: Path) -> None:
    path = write(tmp_path, add("m1"), add("m2"), remove("m1"), remove("m2"), checksum=True)
    flip(path, b"m2", 1)
    assert inspect_store_journal(str(tmp_path)).damages[0].acknowledgements == 2
    assert (
        "lost: 2 acknowledgements of consumers: the broker delivers at most this number of messages again"
        in shown(tmp_path)[1]
    )


def test_a_message_that_a_later_record_holds_whole_is_not_lost(tmp_path: Path) -> None:
    path = write(tmp_path, add("m1"), add("m2"), update("m1"), update("m2"), checksum=True)
    flip(path, b"\x08\x96\x01WRITE")
    assert inspect_store_journal(str(tmp_path)).damages[0].messages == ()


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (b"WRITE BATCH", "no records"),
        (b"\x00\x00\x00\x21\x01\x01", "record length -16777183"),
    ],
)
def test_what_cannot_be_read_is_told_by_file_and_offset(tmp_path: Path, broken: bytes, reason: str) -> None:
    path = write(tmp_path, add("m1"), add("m2"), add("m3"), each=1)
    assert path.read_bytes().count(broken) == 3
    at = flip(path, broken, 1)
    (damage,) = inspect_store_journal(str(tmp_path)).damages
    assert (damage.file, damage.is_known) == ("db-1.log", False)
    assert reason in damage.reason
    assert damage.start <= at < damage.stop
    assert (
        f"lost: {damage.stop - damage.start} bytes of the store journal, whose content cannot be read"
        in shown(tmp_path)[1]
    )


def test_the_end_of_a_whole_file_is_no_damage_and_a_torn_one_says_so(tmp_path: Path) -> None:
    for number in (1, 3):
        path = write(tmp_path, add(f"m{number}"), number=number, reserved=0)
        path.write_bytes(path.read_bytes() + END_OF_FILE + bytes(40) + END_OF_FILE)
    inspection = inspect_store_journal(str(tmp_path))
    assert (inspection.damages, inspection.unfinished, inspection.missing) == ((), 0, (2,))
    (tmp_path / "db-3.log").write_bytes((tmp_path / "db-3.log").read_bytes() + b"\0\0\0\x21\x02WRITE BA")
    code, text = shown(tmp_path)
    assert code == 0
    assert "db-2.log: these data files do not exist" in text
    assert "db-3.log ends with an incomplete write of a killed broker" in text


def test_a_journal_that_no_broker_wrote_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "db-1.log").write_bytes(b"-" * 5000)
    code, text = shown(tmp_path)
    assert code == 1
    assert "db-1.log, byte 0 to 5000: the store journal is damaged here (no records)\n" in text


@pytest.mark.parametrize(
    ("content", "missing"),
    [
        (index(), ""),
        (index(last_update=1), ""),
        (index(last_update=7), "db-7.log"),
        (index(last_update=7, in_progress=1), ""),
        (index(last_update=1, in_progress=5), "db-5.log"),
        (index(last_update=1, audit=6), "db-6.log"),
        (index(last_update=9, audit=1, acks=8), "db-8.log, db-9.log"),
        (b"torn", ""),
    ],
)
def test_an_index_that_no_broker_starts_with_is_told(tmp_path: Path, content: bytes, missing: str) -> None:
    write(tmp_path, add("m1"))
    (tmp_path / "db.data").write_bytes(content)
    code, text = shown(tmp_path)
    assert code == bool(missing)
    assert (f"requires these data files, which do not exist: {missing}" in text) == bool(missing)
    assert ("no damage was found" in text) == (not missing)


def test_json_says_the_same(tmp_path: Path) -> None:
    path = write(tmp_path, add("m1"), add("m2"), checksum=True)
    flip(path, b"m2")
    code, text = shown(tmp_path, "--format", "json")
    report = json.loads(text)
    assert code == report["damaged_places"] == 1
    assert report["queues"] == [{"name": "work", "messages": 2}]
    assert report["damages"][0]["messages"][0] == {"destination": "queue://work", "message": "m1"}
    assert report["end"]["file"] == report["files"][0]["name"] == "db-1.log"
    assert set(report["damages"][0]) == set(JournalDamage.__dataclass_fields__)


def test_of_a_fenced_store_the_generation_in_force_is_read(tmp_path: Path) -> None:
    shared = SharedStore(str(tmp_path))
    shared.make_directories()
    for number, message in ((1, "old"), (2, "new")):
        claim = StoreClaim(number, "0a", f"{number}-0000000a")
        write(Path(shared.unclaimed_copy_path("0a")), add(message, f"of-{message}"))
        assert shared.create_claim(claim, {})
    shared.record_broker_dead(1)
    shared.write_uncopied_message_list(1, [{"message": "m"}])
    _, text = shown(tmp_path)
    assert (
        "generation 1 (a copy of the store, made at a takeover): the broker of this copy has stopped, and only" in text
    )
    assert (
        "generation 2 (a copy of the store, made at a takeover): the pair uses this copy, which the following" in text
    )
    assert "queue://of-new  1" in text
    assert "of-old" not in text


def test_a_directory_without_a_store_is_refused_and_one_of_stores_names_them(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r": the directory contains no kahaDB store, because"):
        shown(tmp_path)
    write(tmp_path / "queue#3a#2f#2forders", add("m1"))
    with pytest.raises(InputError, match="use one of its subdirectories queue#3a#2f#2forders"):
        shown(tmp_path)


def test_nothing_is_written(tmp_path: Path) -> None:
    write(tmp_path, add("m1"))
    before = {path: path.stat() for path in (tmp_path, *tmp_path.iterdir())}
    shown(tmp_path)
    after = {path: path.stat() for path in (tmp_path, *tmp_path.iterdir())}
    assert {path: (one.st_mtime_ns, one.st_size) for path, one in before.items()} == {
        path: (one.st_mtime_ns, one.st_size) for path, one in after.items()
    }


def test_a_name_that_a_client_chose_makes_no_line_of_the_report(tmp_path: Path) -> None:
    name = "orders  1\nstore journal: 3 files, 812,004 records\nno damage was found\n\x1b[2J"
    write(tmp_path, subscribe(name, f"client{name}:sub"), add("m1", name), add("m2", f"topic/{name}"))

    code, text = shown(tmp_path)

    assert code == 0
    assert r"  queue://orders  1\nstore journal: 3 files, 812,004 records\nno damage was found\n\u001b[2J  1" in text
    assert text.count("no damage was found\n") == 1
    assert "\nstore journal: 3 files" not in text


def inspected_damage(directory: Path, places: int) -> int:
    """How many functions are called to inspect a store with so many damaged batches of acknowledgements."""
    records = [remove(f"m{number}") for number in range(10 * places)]
    path = write(directory, *records, each=10, checksum=True)
    path.write_bytes(path.read_bytes().replace(b"work", b"wurk"))
    inspections: list[StoreInspection] = []
    calls = count_calls(lambda: inspections.append(inspect_store_journal(str(directory))))
    assert inspections[0].damaged == places
    assert sum(damage.acknowledgements for damage in inspections[0].damages) == 10 * places
    return calls


def count_calls(act: Callable[[], object]) -> int:
    """How many Python functions are called while ``act`` runs."""
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


def test_work_of_an_inspection_grows_with_damaged_places_and_not_with_their_square(tmp_path: Path) -> None:
    small, large = (inspected_damage(tmp_path / str(places), places) for places in (40, 160))
    assert large < 6 * small
