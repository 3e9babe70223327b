"""A damaged store opens, never delivers an altered payload, keeps readable rows and names the gaps."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from activemq_agent.agent_errors import AgentError
from activemq_agent.store import Store, StoreLimits, damage, inbox, salvage
from activemq_agent.store.rows import has_valid_checksum
from activemq_agent.store.schema import FILE, PAGE, connect_to_database, create_tables
from tests.situations import some_situations
from tests.unit.agent.store_clock import SimulatedClock, accept_all, acknowledge, open_store, receive

FLIPS = 100
SEEDS = range(int(os.environ.get("FLIP_SEEDS", "6")))
WAL = f"{FILE}-wal"


@dataclass(frozen=True)
class WrittenStore:
    """State directories of a store, closed (``cold``) and after a kill (``hot``), and their contents."""

    cold: Path
    hot: Path
    accepted: dict[str, bytes]
    outbox: dict[str, bytes]
    received: dict[str, bytes]
    inbox: dict[str, bytes]


@pytest.fixture(scope="module")
def written_store(tmp_path_factory: pytest.TempPathFactory) -> WrittenStore:
    base, generator = tmp_path_factory.mktemp("written"), random.Random(7)
    outbox: dict[str, bytes] = {}
    accepted: dict[str, bytes] = {}
    received: dict[str, bytes] = {}
    inbox: dict[str, bytes] = {}
    with open_store(base / "live") as store:
        for batch in range(15):
            payloads = [generator.randbytes(generator.choice((10, 200, 300, 300, 9000))) for _ in range(60)]
            outbox |= dict(zip(accept_all(store, [("t", payload) for payload in payloads]), payloads, strict=True))
            accepted |= outbox
            sent_events = store.outgoing_events(25)
            acknowledge(store, *[event.seq for event in sent_events], proved=True)
            for event in sent_events:
                del outbox[event.event_id]
            for number in range(20):
                payload = json.dumps({"eventId": f"e{batch}-{number}", "x": "x" * 200}).encode()
                received[f"e{batch}-{number}"] = payload
                rx = receive(store, "t", payload).rx
                if number % 2:
                    store.record_handled(rx)
                else:
                    inbox[f"e{batch}-{number}"] = payload
        shutil.copytree(base / "live", base / "hot")
    shutil.copytree(base / "live", base / "cold")
    return WrittenStore(base / "cold", base / "hot", accepted, outbox, received, inbox)


def flip_bits(source: Path, target: Path, seed: int, flips: int = FLIPS) -> dict[str, set[int]]:
    """Copy a state directory, flip random bits of its database, and return the offsets of changed bytes by file."""
    shutil.copytree(source, target)
    generator = random.Random(seed)
    contents = {path.name: bytearray(path.read_bytes()) for path in (target / FILE, target / WAL) if path.exists()}
    changed_offsets: dict[str, set[int]] = {name: set() for name in contents}
    for name in generator.choices(list(contents), [len(content) for content in contents.values()], k=flips):
        bit = generator.randrange(len(contents[name]) * 8)
        contents[name][bit // 8] ^= 1 << bit % 8
        changed_offsets[name].add(bit // 8)
    for name, content in contents.items():
        (target / name).write_bytes(content)
    return changed_offsets


def outgoing_payloads(store: Store) -> dict[str, bytes]:
    return {event.event_id: event.payload for event in store.outgoing_events(100_000)}


def ids_selected_by_sqlite(path: Path, last: int) -> set[str]:
    """Return the ids of the undamaged outbox rows that SQLite selects.

    Each place has a separate query, so that damage in other places does not matter.
    """
    event_ids: set[str] = set()
    with contextlib.closing(sqlite3.connect(path)) as db:
        for place in range(1, last + 1):
            with contextlib.suppress(sqlite3.DatabaseError):
                rows = db.execute("SELECT * FROM outbox WHERE place = ?", (place,)).fetchall()
                event_ids |= {row[1] for row in rows if has_valid_checksum("outbox", row)}
    return event_ids


def place_of(event_id: str) -> int:
    """Return the place in the outbox of an event of ``written_store``. The agent generated all its ids."""
    return int(event_id.rpartition(":")[2])


def named_places(store: Store) -> set[int]:
    """Return the places of the outbox in the gaps that the store reports."""
    assert store.damage is not None
    return {place for gap in store.damage.gaps for place in range(gap.first, gap.last + 1)}


@some_situations(4)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["cold", "hot"])
def test_damaged_agent_store_delivers_no_altered_payload_and_reports_gaps(
    written_store: WrittenStore, tmp_path: Path, kind: str, seed: int
) -> None:
    flip_bits(getattr(written_store, kind), tmp_path / "state", seed)
    with open_store(tmp_path / "state") as store:
        outgoing = outgoing_payloads(store)
        assert outgoing.items() <= written_store.accepted.items()
        # Two flips in one frame may restore an older copy of a page: the agent sends its events a second time.
        assert len(outgoing.keys() - written_store.outbox.keys()) <= (0 if kind == "cold" else 12)
        pending = {message.event_id: message.payload for message in store.pending_messages("t", 100_000)}
        assert {name: written_store.received[str(name)] for name in pending} == pending
        assert len(pending.keys() - written_store.inbox.keys()) <= (0 if kind == "cold" else 12)
        missing = {place_of(event_id) for event_id in written_store.outbox.keys() - outgoing.keys()}
        if missing:
            assert store.damage is not None
            assert missing <= named_places(store)
            assert store.damage.missing in (None, len(missing))
            assert (store.damage.directory / FILE).exists()


@pytest.mark.parametrize("seed", SEEDS)
def test_event_that_sqlite_still_selects_from_damaged_store_is_kept(
    written_store: WrittenStore, tmp_path: Path, seed: int
) -> None:
    flip_bits(written_store.cold, tmp_path / "state", seed)
    shutil.copytree(tmp_path / "state", tmp_path / "read_by_sqlite")
    selected = ids_selected_by_sqlite(tmp_path / "read_by_sqlite" / FILE, len(written_store.accepted))
    with open_store(tmp_path / "state") as store:
        assert selected & written_store.outbox.keys() <= outgoing_payloads(store).keys()


def pages_of_type(content: bytes, kind: int) -> list[int]:
    """Return the offsets of the pages of a type in a database file (0x0d: leaf, 0x05: interior page of a table)."""
    return [at for at in range(PAGE, len(content), PAGE) if content[at] == kind]


@pytest.mark.parametrize("seed", SEEDS)
def test_event_in_undamaged_page_of_damaged_store_is_kept(
    written_store: WrittenStore, tmp_path: Path, seed: int
) -> None:
    undamaged = (written_store.cold / FILE).read_bytes()
    shutil.copytree(written_store.cold, tmp_path / "state")
    damaged_content, generator = bytearray(undamaged), random.Random(seed)
    interior = {*pages_of_type(undamaged, 0x05), *pages_of_type(undamaged, 0x02)}
    flipped_bit_by_page = {
        bit // 8 // PAGE * PAGE: bit for bit in generator.choices(range(len(undamaged) * 8), k=FLIPS)
    }
    for page, bit in flipped_bit_by_page.items():
        if page not in interior:
            damaged_content[bit // 8] ^= 1 << bit % 8
    (tmp_path / "state" / FILE).write_bytes(damaged_content)
    with open_store(tmp_path / "state") as store:
        outgoing = outgoing_payloads(store)
    checked = 0
    for event_id, payload in written_store.outbox.items():
        payload_offset = undamaged.find(payload)  # a payload within one page
        if (
            200 <= len(payload) <= 300
            and payload_offset >= 0
            and payload_offset // PAGE == (payload_offset + len(payload)) // PAGE
        ):
            assert event_id in outgoing or payload_offset // PAGE * PAGE in flipped_bit_by_page
            checked += event_id in outgoing
    assert checked > 100


def test_bit_flip_in_database_page_loses_no_events_of_other_pages(written_store: WrittenStore, tmp_path: Path) -> None:
    leaves = pages_of_type((written_store.cold / FILE).read_bytes(), 0x0D)
    generator = random.Random(3)
    for number, at in enumerate((0, 0, 3, 4, 5, 6, 7, 8, 9, 20)):
        state = tmp_path / str(number)
        shutil.copytree(written_store.cold, state)
        content = bytearray((state / FILE).read_bytes())
        page = generator.choice(leaves)
        in_page = {event_id for event_id in written_store.outbox if event_id.encode() in content[page : page + PAGE]}
        content[page + at] ^= 1 << generator.randrange(8)
        (state / FILE).write_bytes(content)
        with open_store(state) as store:
            assert written_store.outbox.keys() - outgoing_payloads(store).keys() <= in_page


@pytest.mark.parametrize("seed", range(4))
def test_events_between_zeroed_leaf_pages_are_kept_and_lost_ones_are_reported(
    written_store: WrittenStore, tmp_path: Path, seed: int
) -> None:
    """A third of the outbox's leaf pages is zeroed; with seed 0 the first and the last, with seed 1 all but three."""
    undamaged = (written_store.cold / FILE).read_bytes()
    shutil.copytree(written_store.cold, tmp_path / "state")
    ids_by_page = {
        page: {
            event_id for event_id in written_store.outbox if f"{event_id}t".encode() in undamaged[page : page + PAGE]
        }
        for page in pages_of_type(undamaged, 0x0D)
    }
    pages = sorted(
        (page for page, event_ids in ids_by_page.items() if event_ids),
        key=lambda page: min(map(place_of, ids_by_page[page])),
    )
    generator = random.Random(seed)
    zeroed = {0: {pages[0], pages[-1]}, 1: set(pages) - set(generator.sample(pages, 3))}.get(
        seed, set(generator.sample(pages, len(pages) // 3))
    )
    content = bytearray(undamaged)
    for page in zeroed:
        content[page : page + PAGE] = bytes(PAGE)
    (tmp_path / "state" / FILE).write_bytes(content)
    lost = set[str]().union(*(ids_by_page[page] for page in zeroed))
    with open_store(tmp_path / "state") as store:
        assert outgoing_payloads(store).keys() == written_store.outbox.keys() - lost
        assert set(map(place_of, lost)) <= named_places(store)
        assert store.damage is not None
        assert store.damage.missing == len(lost)


def test_unreadable_events_of_damaged_store_are_accepted_again_with_same_ids(tmp_path: Path) -> None:
    payloads = {f"order-{number}": b'{"n":%d,"x":"%s"}' % (number, b"y" * 900) for number in range(60)}
    with open_store(tmp_path) as store:
        for event_id, payload in payloads.items():
            store.accept_event("t", payload, event_id=event_id)
    content = bytearray((tmp_path / FILE).read_bytes())
    page = content.index(payloads["order-30"]) // PAGE * PAGE
    content[page : page + PAGE] = bytes(PAGE)
    (tmp_path / FILE).write_bytes(content)
    with open_store(tmp_path) as store:
        assert store.damage is not None
        assert store.damage.missing == 60 - len(outgoing_payloads(store)) > 0
        assert "publish these events again, with the ids that their publishers chose" in str(store.damage)
        for event_id, payload in payloads.items():
            assert store.accept_event("t", payload, event_id=event_id) == event_id
        assert [event.event_id for event in store.outgoing_events(1000)].count("order-1") == 1
        assert outgoing_payloads(store) == payloads


def test_id_of_delivered_event_is_accepted_again_after_event_was_unreadable(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.accept_event("t", b"x", event_id="delivered")
        acknowledge(store, 1, proved=True)
        store.accept_event("t", b"unreadable" * 20)
    content = bytearray((tmp_path / FILE).read_bytes())
    content[content.index(b"unreadable")] ^= 1
    (tmp_path / FILE).write_bytes(content)
    with open_store(tmp_path) as store:
        assert "accepts the ids of delivered events again, and sends such an event a second time" in str(store.damage)
        store.accept_event("t", b"x", event_id="delivered")
        assert [event.event_id for event in store.outgoing_events(9)] == ["delivered"]


def test_damage_outside_of_outbox_keeps_ids_of_acknowledged_events(tmp_path: Path) -> None:
    """No event is unreadable, so the ids of delivered events are still known, and they are not sent again."""
    with open_store(tmp_path) as store:
        store.accept_event("t", b"x", event_id="mine")
        acknowledge(store, 1, proved=True)
        receive(store, "t", b"payload of inbox" * 20)
    content = bytearray((tmp_path / FILE).read_bytes())
    content[content.index(b"payload of inbox")] ^= 1
    (tmp_path / FILE).write_bytes(content)
    with open_store(tmp_path) as store:
        assert store.damage is not None
        assert store.damage.missing == 0
        store.accept_event("t", b"x", event_id="mine")
        assert store.outgoing_events(9) == []


def test_tables_of_used_agent_store_have_root_pages_of_new_store(written_store: WrittenStore, tmp_path: Path) -> None:
    """The salvage replaces the first page of a damaged store with that of a new store, which lists all root pages."""
    shutil.copytree(written_store.cold, tmp_path / "used")
    query = "SELECT name, rootpage FROM sqlite_master ORDER BY name"
    with (
        contextlib.closing(connect_to_database(tmp_path / "new.db")) as new_database,
        contextlib.closing(connect_to_database(tmp_path / "used" / FILE)) as used_database,
    ):
        create_tables(new_database)
        assert used_database.execute(query).fetchall() == new_database.execute(query).fetchall()


@some_situations(2)
@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_agent_store_accepts_events_and_assigns_no_event_id_twice(
    written_store: WrittenStore, tmp_path: Path, seed: int
) -> None:
    flip_bits(written_store.hot, tmp_path / "state", seed)
    with open_store(tmp_path / "state") as store:
        earlier_ids = set(outgoing_payloads(store)) | set(written_store.outbox)
        new_ids = accept_all(store, [("t", b"new")] * 50)
        assert not earlier_ids & set(new_ids)
        assert [event.event_id for event in store.outgoing_events(100_000)][-50:] == new_ids
        numbers = [json.loads(r.line)["jseq"] for r in store.oldest_journal_records(10**6) if store.epoch in r.line]
        assert len(numbers) == len(set(numbers))
    with open_store(tmp_path / "state") as store:
        assert store.damage is None


def test_undamaged_agent_store_keeps_all_events_after_stop_and_after_kill(
    written_store: WrittenStore, tmp_path: Path
) -> None:
    for kind in (written_store.cold, written_store.hot):
        shutil.copytree(kind, tmp_path / kind.name)
        with open_store(tmp_path / kind.name) as store:
            assert store.damage is None
            assert outgoing_payloads(store) == written_store.outbox
            assert {message.event_id for message in store.pending_messages("t", 10**6)} == set(written_store.inbox)


def test_transactions_after_damaged_wal_frame_are_kept(tmp_path: Path) -> None:
    with open_store(tmp_path / "live") as store:
        ids = [store.accept_event("t", b"%d" % number) for number in range(50)]
        shutil.copytree(tmp_path / "live", tmp_path / "state")
    content = bytearray((tmp_path / "state" / WAL).read_bytes())
    content[32 + 24 + 3000 + 10 * (PAGE + 24)] ^= 1
    (tmp_path / "state" / WAL).write_bytes(content)
    with open_store(tmp_path / "state") as store:
        assert store.damage is not None
        assert store.damage.epoch == store.epoch
        assert [event.event_id for event in store.outgoing_events(99)] == ids


def test_incomplete_last_wal_frame_is_not_reported_as_damage(tmp_path: Path) -> None:
    with open_store(tmp_path / "live") as store:
        ids = [store.accept_event("t", b"%d" % number) for number in range(50)]
        shutil.copytree(tmp_path / "live", tmp_path / "state")
    content = (tmp_path / "state" / WAL).read_bytes()
    (tmp_path / "state" / WAL).write_bytes(content[:-100])
    with open_store(tmp_path / "state") as store:
        assert store.damage is None
        assert [event.event_id for event in store.outgoing_events(99)] == ids[:-1]


def zero_first_page(state: Path) -> None:
    content = (state / FILE).read_bytes()
    (state / FILE).write_bytes(bytes(PAGE) + content[PAGE:])


def zero_interior_pages(state: Path) -> None:
    content = bytearray((state / FILE).read_bytes())
    for at in range(PAGE, len(content), PAGE):
        if content[at] == 0x05:
            content[at : at + PAGE] = bytes(PAGE)
    (state / FILE).write_bytes(content)


def flip_bit_in_wal_frame(state: Path) -> None:
    """Flip a bit in the tenth frame of the write-ahead file: SQLite ignores all transactions from there on."""
    content = bytearray((state / WAL).read_bytes())
    content[32 + 24 + 3000 + 9 * (PAGE + 24)] ^= 1
    (state / WAL).write_bytes(content)


@pytest.mark.parametrize(("kind", "damage_files"), [("cold", zero_first_page), ("hot", flip_bit_in_wal_frame)])
def test_events_that_sqlite_cannot_select_from_damaged_store_are_kept(
    written_store: WrittenStore, tmp_path: Path, kind: str, damage_files: Callable[[Path], None]
) -> None:
    for name in ("read_by_sqlite", "state"):
        shutil.copytree(getattr(written_store, kind), tmp_path / name)
        damage_files(tmp_path / name)
    selected = ids_selected_by_sqlite(tmp_path / "read_by_sqlite" / FILE, len(written_store.accepted))
    with open_store(tmp_path / "state") as store:
        kept = outgoing_payloads(store).keys() & written_store.outbox.keys()
    assert len(written_store.outbox) - len(selected & written_store.outbox.keys()) > 100
    assert len(written_store.outbox) - len(kept) <= 1


def test_events_below_zeroed_interior_pages_are_reported_as_lost(written_store: WrittenStore, tmp_path: Path) -> None:
    for name in ("read_by_sqlite", "state"):
        shutil.copytree(written_store.cold, tmp_path / name)
        zero_interior_pages(tmp_path / name)
    selected = ids_selected_by_sqlite(tmp_path / "read_by_sqlite" / FILE, len(written_store.accepted))
    with open_store(tmp_path / "state") as store:
        kept = outgoing_payloads(store).keys()
        lost = written_store.outbox.keys() - kept
        assert kept == selected & written_store.outbox.keys()
        assert set(map(place_of, lost)) <= named_places(store)
        assert store.damage is not None
        assert store.damage.missing == len(lost) > 100


@pytest.mark.parametrize("content", [b"", b"x", b"not a database at all" * 1000, bytes(PAGE * 3)])
def test_agent_store_file_that_is_no_database_is_set_aside(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with open_store(tmp_path) as store:
        assert store.damage is None if not content else store.damage is not None
        assert store.accept_event("t", b"x") == f"a1:{store.epoch}:1"
    if content:
        assert next(tmp_path.glob("set-aside-*")).joinpath(FILE).read_bytes() == content


def test_event_journal_that_cannot_continue_ends_with_skipped_record_numbers(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        epoch = store.epoch
        store.accept_event("t", b"x")
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("UPDATE counters SET seq = 7")
    db.close()
    with open_store(tmp_path) as store:
        records = [json.loads(record.line) for record in store.oldest_journal_records(99)]
        assert store.epoch != epoch
        assert [record["jseq"] for record in records if record["epoch"] == epoch] == [1, 1 + salvage.JSEQ_GAP]


def test_damaged_counters_of_agent_store_do_not_change_age_of_events_and_ids(tmp_path: Path) -> None:
    clock, limits = SimulatedClock(), StoreLimits(timeout=100, remember=100, filters=("t",))
    with open_store(tmp_path, clock, limits) as store:
        clock.pass_time(1000)
        ids = accept_all(store, [("t", b"1"), ("t", b"2")])
        receive(store, "t", b'{"eventId": "e"}')
        store.record_handled(1)
        clock.pass_time(50)
    damage_counters(tmp_path)
    with open_store(tmp_path, clock, limits) as store:
        clock.pass_time(99)
        assert count_forgotten_and_expired(store) == (0, 0)
        assert [event.event_id for event in store.outgoing_events(9)] == ids
        assert receive(store, "t", b'{"eventId": "e"}').duplicate
    with open_store(tmp_path, clock, limits) as store:
        clock.pass_time(1)
        assert count_forgotten_and_expired(store) == (1, 2)


@pytest.mark.parametrize("state", ["expired", "unconfirmed", "quarantined", "delivered"])
def test_damaged_counters_of_agent_store_do_not_set_elapsed_time_back(tmp_path: Path, state: str) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock, StoreLimits(timeout=100)) as store:
        clock.pass_time(1000)
        if state == "quarantined":
            receive(store, "t", b"1")
            store.quarantine(1, "reason")
        else:
            store.accept_event("t", b"1", event_id="mine")
        if state in ("unconfirmed", "delivered"):
            acknowledge(store, 1, proved=state == "delivered")
        clock.pass_time(100)
        store.move_or_drop_expired_events()
    damage_counters(tmp_path)
    with open_store(tmp_path, clock) as store:
        assert store._writer.elapsed.seconds_since_outbox_creation() == 1000


def damage_counters(directory: Path) -> None:
    """Give the row of a store's counters an invalid checksum."""
    with contextlib.closing(sqlite3.connect(directory / FILE)) as db, db:
        db.execute("UPDATE counters SET sum = zeroblob(8)")


def count_forgotten_and_expired(store: Store) -> tuple[int, int]:
    """Delete old event ids and remove expired events, and return the numbers of both."""
    return store._writer.submit(inbox.delete_old_event_ids).result(), store.move_or_drop_expired_events()


def execute_sql(store: Store, sql: str) -> None:
    store._writer.submit(lambda turn: turn.db.execute(sql)).result()


def test_event_altered_in_store_while_agent_runs_is_not_delivered(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        accept_all(store, [("t", b"one"), ("t", b"two")])
        receive(store, "t", b"in")
        for table in ("outbox", "inbox"):
            update = f"UPDATE {table} SET payload = CAST('bad' AS BLOB) WHERE payload IN (x'6f6e65', x'696e')"  # noqa: S608
            execute_sql(store, update)
        assert [event.payload for event in store.outgoing_events(1)] == [b"two"]
        assert store.pending_messages("t") == []
        assert store.row_and_byte_counts().damaged == 2
    with open_store(tmp_path) as store:
        assert store.damage is not None
        assert [(gap.first, gap.last) for gap in store.damage.gaps] == [(1, 1)]


@some_situations(2)
@pytest.mark.parametrize("moves", range(5))
def test_crash_while_damaged_store_is_set_aside_loses_no_further_events(
    written_store: WrittenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: int
) -> None:
    """The rename after ``moves`` others fails, as if the machine had stopped there."""
    state = tmp_path / "state"
    flip_bits(written_store.hot, state, seed=1, flips=30)
    rename, renamed = Path.rename, 0

    def rename_or_fail(path: Path, target: Path) -> Path:
        nonlocal renamed
        if renamed == moves:
            raise OSError(5, "stopped here")
        renamed += 1
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", rename_or_fail)
        try:
            open_store(state).close()
        except AgentError:
            assert renamed == moves
    with open_store(state) as store:
        assert len(written_store.outbox) - len(outgoing_payloads(store)) <= 30


def test_store_created_by_newer_agent_is_refused_and_not_set_aside(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    db = sqlite3.connect(tmp_path / FILE)
    db.execute("PRAGMA user_version = 0x02020202")
    db.close()
    with pytest.raises(AgentError, match="a newer release of activemq-agent created this store"):
        open_store(tmp_path)
    assert not list(tmp_path.glob("set-aside-*"))


def test_agent_store_without_read_permission_is_not_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(tmp_path).close()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(damage, "read_wal", lambda _: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    with pytest.raises(AgentError, match="Permission denied"):
        open_store(tmp_path)
    assert not list(tmp_path.glob("set-aside-*"))
