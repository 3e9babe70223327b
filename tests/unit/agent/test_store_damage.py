"""A damaged store opens, never delivers an altered payload, keeps what is readable and names the gaps."""

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
from activemq_agent.store import Store, damage, salvage
from activemq_agent.store.rows import has_valid_checksum
from activemq_agent.store.schema import FILE, PAGE, connect_to_database, create_tables
from tests.situations import some_situations
from tests.unit.agent.store_clock import accept_all, acknowledge, open_store, receive

FLIPS = 100
SEEDS = range(int(os.environ.get("FLIP_SEEDS", "6")))
WAL = f"{FILE}-wal"


@dataclass(frozen=True)
class Written:
    """State directories of one store, closed (``cold``) and as a kill leaves it (``hot``), and what is in them."""

    cold: Path
    hot: Path
    accepted: dict[str, bytes]
    outbox: dict[str, bytes]
    received: dict[str, bytes]
    inbox: dict[str, bytes]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    base, chance = tmp_path_factory.mktemp("written"), random.Random(7)
    outbox: dict[str, bytes] = {}
    accepted: dict[str, bytes] = {}
    received: dict[str, bytes] = {}
    inbox: dict[str, bytes] = {}
    with open_store(base / "live") as store:
        for turn in range(15):
            payloads = [chance.randbytes(chance.choice((10, 200, 300, 300, 9000))) for _ in range(60)]
            outbox |= dict(zip(accept_all(store, [("t", payload) for payload in payloads]), payloads, strict=True))
            accepted |= outbox
            done = store.outgoing_events(25)
            acknowledge(store, *[event.seq for event in done], proved=True)
            for event in done:
                del outbox[event.event_id]
            for number in range(20):
                payload = json.dumps({"eventId": f"e{turn}-{number}", "x": "x" * 200}).encode()
                received[f"e{turn}-{number}"] = payload
                rx = receive(store, "t", payload).rx
                if number % 2:
                    store.record_handled(rx)
                else:
                    inbox[f"e{turn}-{number}"] = payload
        shutil.copytree(base / "live", base / "hot")
    shutil.copytree(base / "live", base / "cold")
    return Written(base / "cold", base / "hot", accepted, outbox, received, inbox)


def flipped(source: Path, target: Path, seed: int, flips: int = FLIPS) -> dict[str, set[int]]:
    """Copy a state directory and flip random bits of its database; returns the offsets of bytes hit, by file."""
    shutil.copytree(source, target)
    chance = random.Random(seed)
    contents = {path.name: bytearray(path.read_bytes()) for path in (target / FILE, target / WAL) if path.exists()}
    hit: dict[str, set[int]] = {name: set() for name in contents}
    for name in chance.choices(list(contents), [len(content) for content in contents.values()], k=flips):
        bit = chance.randrange(len(contents[name]) * 8)
        contents[name][bit // 8] ^= 1 << bit % 8
        hit[name].add(bit // 8)
    for name, content in contents.items():
        (target / name).write_bytes(content)
    return hit


def everything_outgoing(store: Store) -> dict[str, bytes]:
    return {event.event_id: event.payload for event in store.outgoing_events(100_000)}


def selected_one_by_one(path: Path, last: int) -> set[str]:
    """Ids of the undamaged rows of the outbox that SQLite itself finds, asked for place by place so that damage
    elsewhere does not matter.
    """
    event_ids: set[str] = set()
    with contextlib.closing(sqlite3.connect(path)) as db:
        for place in range(1, last + 1):
            with contextlib.suppress(sqlite3.DatabaseError):
                rows = db.execute("SELECT * FROM outbox WHERE place = ?", (place,)).fetchall()
                event_ids |= {row[1] for row in rows if has_valid_checksum("outbox", row)}
    return event_ids


def place_of(event_id: str) -> int:
    """The place in the outbox of an event of ``written``, where all ids are the agent's own."""
    return int(event_id.rpartition(":")[2])


def named_places(store: Store) -> set[int]:
    """The places of the outbox that lie in the gaps that the store reports."""
    assert store.damage is not None
    return {place for gap in store.damage.gaps for place in range(gap.first, gap.last + 1)}


@some_situations(4)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["cold", "hot"])
def test_no_altered_payload_is_delivered_and_gaps_are_named(
    written: Written, tmp_path: Path, kind: str, seed: int
) -> None:
    flipped(getattr(written, kind), tmp_path / "state", seed)
    with open_store(tmp_path / "state") as store:
        found = everything_outgoing(store)
        assert found.items() <= written.accepted.items()
        # Two flips in one frame may leave an older copy of a page in its place: its events are sent once more.
        assert len(found.keys() - written.outbox.keys()) <= (0 if kind == "cold" else 12)
        pending = {message.event_id: message.payload for message in store.pending_messages("t", 100_000)}
        assert {name: written.received[str(name)] for name in pending} == pending
        assert len(pending.keys() - written.inbox.keys()) <= (0 if kind == "cold" else 12)
        missing = {place_of(event_id) for event_id in written.outbox.keys() - found.keys()}
        if missing:
            assert store.damage is not None
            assert missing <= named_places(store)
            assert store.damage.missing in (None, len(missing))
            assert (store.damage.directory / FILE).exists()


@pytest.mark.parametrize("seed", SEEDS)
def test_event_that_sqlite_selects_by_its_place_is_kept(written: Written, tmp_path: Path, seed: int) -> None:
    flipped(written.cold, tmp_path / "state", seed)
    shutil.copytree(tmp_path / "state", tmp_path / "asked")
    selected = selected_one_by_one(tmp_path / "asked" / FILE, len(written.accepted))
    with open_store(tmp_path / "state") as store:
        assert selected & written.outbox.keys() <= everything_outgoing(store).keys()


def pages_of_type(content: bytes, kind: int) -> list[int]:
    """The offsets of a database file's pages with a type: 0x0d leaf, 0x05 interior page of a table."""
    return [at for at in range(PAGE, len(content), PAGE) if content[at] == kind]


@pytest.mark.parametrize("seed", SEEDS)
def test_row_is_kept_if_no_flip_has_hit_its_page_or_an_interior_page(
    written: Written, tmp_path: Path, seed: int
) -> None:
    whole = (written.cold / FILE).read_bytes()
    shutil.copytree(written.cold, tmp_path / "state")
    content, chance = bytearray(whole), random.Random(seed)
    interior = {*pages_of_type(whole, 0x05), *pages_of_type(whole, 0x02)}
    hit = {bit // 8 // PAGE * PAGE: bit for bit in chance.choices(range(len(whole) * 8), k=FLIPS)}
    for page, bit in hit.items():
        if page not in interior:
            content[bit // 8] ^= 1 << bit % 8
    (tmp_path / "state" / FILE).write_bytes(content)
    with open_store(tmp_path / "state") as store:
        found = everything_outgoing(store)
    checked = 0
    for event_id, payload in written.outbox.items():
        at = whole.find(payload)  # a payload that lies in one page
        if 200 <= len(payload) <= 300 and at >= 0 and at // PAGE == (at + len(payload)) // PAGE:
            assert event_id in found or at // PAGE * PAGE in hit
            checked += event_id in found
    assert checked > 100


def test_one_flip_in_each_part_of_a_page_leaves_every_row_of_other_pages(written: Written, tmp_path: Path) -> None:
    leaves = pages_of_type((written.cold / FILE).read_bytes(), 0x0D)
    chance = random.Random(3)
    for number, at in enumerate((0, 0, 3, 4, 5, 6, 7, 8, 9, 20)):
        state = tmp_path / str(number)
        shutil.copytree(written.cold, state)
        content = bytearray((state / FILE).read_bytes())
        page = chance.choice(leaves)
        in_page = {event_id for event_id in written.outbox if event_id.encode() in content[page : page + PAGE]}
        content[page + at] ^= 1 << chance.randrange(8)
        (state / FILE).write_bytes(content)
        with open_store(state) as store:
            assert written.outbox.keys() - everything_outgoing(store).keys() <= in_page


@pytest.mark.parametrize("seed", range(4))
def test_rows_between_zeroed_leaf_pages_are_kept_and_the_rest_is_named(
    written: Written, tmp_path: Path, seed: int
) -> None:
    """A third of the outbox's leaf pages is zeroed; with seed 0 the first and the last, with seed 1 all but three."""
    whole = (written.cold / FILE).read_bytes()
    shutil.copytree(written.cold, tmp_path / "state")
    ids_by_page = {
        page: {event_id for event_id in written.outbox if f"{event_id}t".encode() in whole[page : page + PAGE]}
        for page in pages_of_type(whole, 0x0D)
    }
    pages = sorted(
        (page for page, event_ids in ids_by_page.items() if event_ids),
        key=lambda page: min(map(place_of, ids_by_page[page])),
    )
    chance = random.Random(seed)
    zeroed = {0: {pages[0], pages[-1]}, 1: set(pages) - set(chance.sample(pages, 3))}.get(
        seed, set(chance.sample(pages, len(pages) // 3))
    )
    content = bytearray(whole)
    for page in zeroed:
        content[page : page + PAGE] = bytes(PAGE)
    (tmp_path / "state" / FILE).write_bytes(content)
    lost = set[str]().union(*(ids_by_page[page] for page in zeroed))
    with open_store(tmp_path / "state") as store:
        assert everything_outgoing(store).keys() == written.outbox.keys() - lost
        assert set(map(place_of, lost)) <= named_places(store)
        assert store.damage is not None
        assert store.damage.missing == len(lost)


def test_tables_of_a_used_store_begin_at_the_pages_of_a_new_one(written: Written, tmp_path: Path) -> None:
    """The first page of a damaged store is replaced by that of a new one, which says where each table begins."""
    shutil.copytree(written.cold, tmp_path / "used")
    query = "SELECT name, rootpage FROM sqlite_master ORDER BY name"
    with (
        contextlib.closing(connect_to_database(tmp_path / "new.db")) as new,
        contextlib.closing(connect_to_database(tmp_path / "used" / FILE)) as used,
    ):
        create_tables(new)
        assert used.execute(query).fetchall() == new.execute(query).fetchall()


@some_situations(2)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_store_works_on_and_gives_no_id_twice(written: Written, tmp_path: Path, seed: int) -> None:
    flipped(written.hot, tmp_path / "state", seed)
    with open_store(tmp_path / "state") as store:
        before = set(everything_outgoing(store)) | set(written.outbox)
        new = accept_all(store, [("t", b"new")] * 50)
        assert not before & set(new)
        assert [event.event_id for event in store.outgoing_events(100_000)][-50:] == new
        numbers = [json.loads(r.line)["jseq"] for r in store.oldest_journal_records(10**6) if store.epoch in r.line]
        assert len(numbers) == len(set(numbers))
    with open_store(tmp_path / "state") as store:
        assert store.damage is None


def test_an_undamaged_store_is_left_alone(written: Written, tmp_path: Path) -> None:
    for kind in (written.cold, written.hot):
        shutil.copytree(kind, tmp_path / kind.name)
        with open_store(tmp_path / kind.name) as store:
            assert store.damage is None
            assert everything_outgoing(store) == written.outbox
            assert {message.event_id for message in store.pending_messages("t", 10**6)} == set(written.inbox)


def test_transactions_behind_a_bad_frame_are_not_forgotten(tmp_path: Path) -> None:
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


def test_a_last_frame_that_a_crash_has_torn_is_no_damage(tmp_path: Path) -> None:
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


def flip_a_frame(state: Path) -> None:
    """The tenth frame of the write-ahead file: SQLite forgets every transaction from there on."""
    content = bytearray((state / WAL).read_bytes())
    content[32 + 24 + 3000 + 9 * (PAGE + 24)] ^= 1
    (state / WAL).write_bytes(content)


@pytest.mark.parametrize(("kind", "harm"), [("cold", zero_first_page), ("hot", flip_a_frame)])
def test_events_are_kept_that_sqlite_itself_no_longer_finds(
    written: Written, tmp_path: Path, kind: str, harm: Callable[[Path], None]
) -> None:
    for name in ("asked", "state"):
        shutil.copytree(getattr(written, kind), tmp_path / name)
        harm(tmp_path / name)
    selected = selected_one_by_one(tmp_path / "asked" / FILE, len(written.accepted))
    with open_store(tmp_path / "state") as store:
        kept = everything_outgoing(store).keys() & written.outbox.keys()
    assert len(written.outbox) - len(selected & written.outbox.keys()) > 100
    assert len(written.outbox) - len(kept) <= 1


def test_events_below_zeroed_interior_pages_are_reported_as_lost(written: Written, tmp_path: Path) -> None:
    for name in ("asked", "state"):
        shutil.copytree(written.cold, tmp_path / name)
        zero_interior_pages(tmp_path / name)
    selected = selected_one_by_one(tmp_path / "asked" / FILE, len(written.accepted))
    with open_store(tmp_path / "state") as store:
        kept = everything_outgoing(store).keys()
        lost = written.outbox.keys() - kept
        assert kept == selected & written.outbox.keys()
        assert set(map(place_of, lost)) <= named_places(store)
        assert store.damage is not None
        assert store.damage.missing == len(lost) > 100


@pytest.mark.parametrize("content", [b"", b"x", b"not a database at all" * 1000, bytes(PAGE * 3)])
def test_a_file_that_is_no_database_is_set_aside(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with open_store(tmp_path) as store:
        assert store.damage is None if not content else store.damage is not None
        assert store.accept_event("t", b"x") == f"a1:{store.epoch}:1"
    if content:
        assert next(tmp_path.glob("set-aside-*")).joinpath(FILE).read_bytes() == content


def test_a_journal_that_cannot_go_on_ends_with_a_gap(tmp_path: Path) -> None:
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


def alter(store: Store, sql: str) -> None:
    store._writer.submit(lambda turn: turn.db.execute(sql)).result()


def test_a_row_altered_while_the_agent_runs_is_never_handed_out(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        accept_all(store, [("t", b"one"), ("t", b"two")])
        receive(store, "t", b"in")
        for table in ("outbox", "inbox"):
            alter(store, f"UPDATE {table} SET payload = CAST('bad' AS BLOB) WHERE payload IN (x'6f6e65', x'696e')")  # noqa: S608
        assert [event.payload for event in store.outgoing_events(1)] == [b"two"]
        assert store.pending_messages("t") == []
        assert store.row_and_byte_counts().damaged == 2
    with open_store(tmp_path) as store:
        assert store.damage is not None
        assert [(gap.first, gap.last) for gap in store.damage.gaps] == [(1, 1)]


@some_situations(2)
@pytest.mark.parametrize("moves", range(5))
def test_a_crash_while_setting_aside_loses_nothing(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: int
) -> None:
    """The rename that is reached after ``moves`` others does not happen, as if the machine had stopped there."""
    state = tmp_path / "state"
    flipped(written.hot, state, seed=1, flips=30)
    rename, done = Path.rename, 0

    def counted(path: Path, target: Path) -> Path:
        nonlocal done
        if done == moves:
            raise OSError(5, "stopped here")
        done += 1
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", counted)
        try:
            open_store(state).close()
        except AgentError:
            assert done == moves
    with open_store(state) as store:
        assert len(written.outbox) - len(everything_outgoing(store)) <= 30


def test_a_newer_agents_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    db = sqlite3.connect(tmp_path / FILE)
    db.execute("PRAGMA user_version = 0x02020202")
    db.close()
    with pytest.raises(AgentError, match="a newer release of activemq-agent created this store"):
        open_store(tmp_path)
    assert not list(tmp_path.glob("set-aside-*"))


def test_a_file_that_may_not_be_read_is_not_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(tmp_path).close()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(damage, "read_wal", lambda _: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    with pytest.raises(AgentError, match="Permission denied"):
        open_store(tmp_path)
    assert not list(tmp_path.glob("set-aside-*"))
