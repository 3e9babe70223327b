"""What the tail of ``audit --follow`` reads, while files grow, are rolled, packed, copied and cut."""

from __future__ import annotations

import gzip
import random
import shutil
from pathlib import Path

import pytest

from activemq_fleet.errors import InputError
from activemq_fleet.spark.follow import advance
from activemq_fleet.spark.follow.advance import HOLD
from activemq_fleet.spark.follow.places import Offset
from tests.unit.pipeline.tailing import Stream, record

LOG = "activemq.log"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    directory = tmp_path / "mq01a"
    (directory / "agent").mkdir(parents=True)
    return directory


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(tmp_path)


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def pack(path: Path) -> None:
    with gzip.open(f"{path}.gz", "wb") as file:
        file.write(path.read_bytes())
    path.unlink()


def test_the_last_record_waits_for_the_next(host: Path, stream: Stream) -> None:
    append(host / LOG, record(1) + record(2))
    stream.batch()
    assert stream.texts() == {("mq01a", LOG): record(1)}
    append(host / LOG, record(3))
    stream.batch()
    assert stream.texts() == {("mq01a", LOG): record(1) + record(2)}


def test_the_last_record_waits_no_longer_than_the_time_of_holding(host: Path, stream: Stream) -> None:
    append(host / LOG, record(1) + record(2))
    stream.batch()
    stream.clock.now += HOLD - 0.1
    assert not stream.batch()
    stream.clock.now += 0.1
    assert stream.batch()
    assert stream.texts() == {("mq01a", LOG): record(1) + record(2)}


def test_a_record_that_goes_on_after_it_was_read_is_read_again(host: Path, stream: Stream) -> None:
    append(host / LOG, record(1) + record(2))
    stream.run()
    append(host / LOG, "\tat org.example.Main\n" + record(3))
    stream.run()
    assert stream.texts() == {("mq01a", LOG): record(1) + record(2, "\tat org.example.Main") + record(3)}


def test_half_a_line_of_a_journal_is_held_back(host: Path, stream: Stream) -> None:
    journal = host / "agent" / "journal-000000001.jsonl"
    append(journal, '{"jseq":1}\n{"jse')
    stream.batch()
    assert stream.texts() == {("mq01a", "agent/journal-000000001.jsonl"): '{"jseq":1}\n'}
    append(journal, 'q":2}\n')
    stream.batch()
    assert stream.texts() == {("mq01a", "agent/journal-000000001.jsonl"): '{"jseq":1}\n{"jseq":2}\n'}


def test_half_a_line_that_the_agent_takes_back_is_taken_back(host: Path, stream: Stream) -> None:
    journal = host / "agent" / "journal-000000001.jsonl"
    append(journal, '{"jseq":1}\n{"jse')
    stream.run()
    with journal.open("r+") as file:
        file.truncate(len('{"jseq":1}\n'))
    stream.run()
    assert stream.texts() == {("mq01a", "agent/journal-000000001.jsonl"): '{"jseq":1}\n'}
    append(journal, '{"jseq":2}\n')
    stream.run()
    assert stream.texts() == {("mq01a", "agent/journal-000000001.jsonl"): '{"jseq":1}\n{"jseq":2}\n'}


def test_a_renamed_file_is_not_read_again(host: Path, stream: Stream) -> None:
    append(host / LOG, record(1) + record(2))
    stream.batch()
    (host / LOG).rename(host / "activemq.log.1")
    append(host / LOG, record(3) + record(4))
    stream.run()
    assert stream.texts() == {
        ("mq01a", "activemq.log.1"): record(1) + record(2),
        ("mq01a", LOG): record(3) + record(4),
    }


def test_a_packed_file_is_not_read_again_and_its_rest_is(host: Path, stream: Stream) -> None:
    append(host / LOG, record(1) + record(2))
    stream.batch()
    append(host / LOG, record(3))
    (host / LOG).rename(host / "activemq.log.1")
    pack(host / "activemq.log.1")
    stream.run()
    assert stream.texts() == {("mq01a", "activemq.log.1.gz"): record(1) + record(2) + record(3)}


def test_a_file_that_is_copied_and_cut_goes_on_in_its_copy(host: Path, stream: Stream) -> None:
    append(host / LOG, record(1) + record(2))
    stream.batch()
    append(host / LOG, record(3))
    shutil.copy(host / LOG, host / "activemq.log.1")
    stream.batch()
    (host / LOG).write_text(record(4))
    stream.run()
    assert stream.texts() == {
        ("mq01a", "activemq.log.1"): record(1) + record(2) + record(3),
        ("mq01a", LOG): record(4),
    }


def test_half_a_copy_is_no_file_of_its_own(host: Path, stream: Stream) -> None:
    text = "".join(record(number) for number in range(50))
    append(host / LOG, text)
    stream.run()
    stream.restart()
    (host / "activemq.log.1").write_text(text[:1500])
    stream.batch()
    (host / "activemq.log.1").write_text(text)
    (host / LOG).write_text(record(99))
    stream.run()
    assert stream.texts() == {("mq01a", "activemq.log.1"): text, ("mq01a", LOG): record(99)}


def test_half_a_packed_file_is_left_alone_until_it_is_whole(host: Path, stream: Stream) -> None:
    text = "".join(record(number) for number in range(500))
    packed = gzip.compress(text.encode())
    (host / "activemq.log.2.gz").write_bytes(packed[: len(packed) // 2])
    stream.batch()
    assert stream.texts() == {}
    (host / "activemq.log.2.gz").write_bytes(packed)
    stream.run()
    assert stream.texts() == {("mq01a", "activemq.log.2.gz"): text}


def test_a_log_that_begins_with_the_same_thousand_bytes_is_another_one(host: Path, stream: Stream) -> None:
    banner = "".join(record(number) for number in range(30))
    append(host / LOG, banner + record(50))
    stream.run()
    (host / LOG).write_text(banner + record(60) + record(61))
    stream.run()
    assert stream.texts() == {("mq01a", LOG): banner + record(60) + record(61)}
    assert stream.gone() == [banner + record(50)]


def test_a_deleted_file_stays_read_and_is_said_to_be_gone(host: Path, stream: Stream) -> None:
    append(host / LOG, record(1))
    stream.run()
    (host / LOG).unlink()
    stream.run()
    assert (stream.texts(), stream.gone()) == ({}, [record(1)])


def test_a_file_that_comes_back_is_not_read_again(host: Path, stream: Stream) -> None:
    append(host / LOG, record(1) + record(2))
    stream.run()
    (host / LOG).rename(host / "away")
    stream.run()
    (host / "away").rename(host / "activemq.log.3")
    stream.run()
    assert (stream.texts(), stream.gone()) == ({("mq01a", "activemq.log.3"): record(1) + record(2)}, [])


def test_that_a_host_is_described_otherwise_is_news(host: Path, stream: Stream) -> None:
    append(host / LOG, record(1) + record(2))
    stream.run()
    (host / "host.json").write_text('{"timezone": "Europe/Berlin"}')
    assert stream.batch()
    assert not stream.batch()


def test_what_else_results_depend_on_is_news_when_it_changes(host: Path, stream: Stream) -> None:
    append(host / LOG, record(1) + record(2))
    stream.run()
    stream.tail.salt = "another inventory"
    assert stream.batch()
    assert not stream.batch()


def test_a_file_that_cannot_be_read_is_named(host: Path, stream: Stream) -> None:
    (host / LOG).mkdir()
    (host / "activemq.log.1").symlink_to("activemq.log.1")
    append(host / "activemq.log.2", record(1))
    with pytest.raises(InputError, match=r"activemq\.log\.1"):
        stream.batch()


def test_a_file_renamed_between_planning_and_reading_is_found(host: Path, stream: Stream) -> None:
    append(host / LOG, record(1) + record(2))

    def roll() -> None:
        (host / LOG).rename(host / "activemq.log.1")
        append(host / LOG, record(3))

    stream.batch(roll)
    assert list(stream.texts().values()) == [record(1)]


def test_a_batch_takes_about_as_much_as_it_may(host: Path, stream: Stream) -> None:
    text = "".join(record(number) for number in range(1000))
    append(host / LOG, text)
    stream.most = 10_000
    stream.batch()
    assert 5_000 < len(stream.texts()["mq01a", LOG]) < 20_000
    stream.run(times=20)
    assert stream.texts() == {("mq01a", LOG): text}


def test_a_record_larger_than_a_batch_is_read_as_one(host: Path, stream: Stream) -> None:
    text = record(1, *["\tat org.example.Main"] * 5000) + record(2)
    append(host / LOG, text)
    stream.most = 100
    stream.run()
    assert stream.texts() == {("mq01a", LOG): text}


def test_a_line_without_end_is_not_held_back_for_ever(
    host: Path, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advance, "LONGEST", 1000)
    text = record(1)
    append(host / LOG, text)
    for _ in range(40):
        append(host / LOG, "x" * 200)
        text += "x" * 200
        stream.batch()
        held = len(text) - len(stream.texts().get(("mq01a", LOG), ""))
        assert held <= 1000 + 200
    append(host / LOG, "\n" + record(2) + record(3))
    stream.run()
    assert stream.texts() == {("mq01a", LOG): text + "\n" + record(2) + record(3)}


@pytest.mark.parametrize("version", [1, 3])
def test_an_offset_of_another_version_is_refused(version: int) -> None:
    with pytest.raises(ValueError, match=f"version {version}"):
        Offset.from_json({"v": version, "hosts": {}})


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_to_files_every_byte_is_read_once(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, seed)
    stream = Stream(tmp_path, most=random.Random(seed).choice([None, 700, 5000]))
    for _ in range(120):
        world.step()
        stream.clock.now += world.random.choice([0.1, 1.0, HOLD])
        if world.random.random() < 0.1:
            stream.restart()
        if world.random.random() < 0.7:
            stream.batch(world.step if world.random.random() < 0.3 else lambda: None)
    world.end()
    stream.run()
    assert stream.texts() == world.texts()


class World:
    """A host whose log and journal somebody writes, rolls, packs and copies, a step at a time."""

    def __init__(self, root: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.host = root / "mq01a"
        (self.host / "agent").mkdir(parents=True)
        self.number = 0
        self.copied: Path | None = None

    def step(self) -> None:
        """One change."""
        if self.copied:
            # The second half of a copy-truncate: nothing is written in between, as that would be lost.
            self.copied = None
            (self.host / LOG).write_text("")
            return
        choice = self.random.random()
        if choice < 0.6:
            self.write()
        elif choice < 0.75:
            self.journal()
        elif choice < 0.87:
            self.roll()
        elif choice < 0.95:
            self.pack()
        else:
            self.late()

    def end(self) -> None:
        """Leave nothing half done."""
        if self.copied:
            self.step()

    def write(self) -> None:
        for _ in range(self.random.randrange(1, 8)):
            self.number += 1
            more = ["\tat org.example.Main"] * self.random.choice([0, 0, 0, 1, 30])
            append(self.host / LOG, record(self.number, *more))
        if self.random.random() < 0.3:
            append(self.host / LOG, "\tat org.example.Late\n")

    def journal(self) -> None:
        self.number += 1
        line = f'{{"jseq": {self.number}}}\n'
        append(self.host / "agent" / "journal-000000001.jsonl", line)

    def roll(self) -> None:
        log = self.host / LOG
        if not log.exists() or not log.stat().st_size:
            return
        for number in range(30, 0, -1):
            for end in ("", ".gz"):
                old = self.host / f"{LOG}.{number}{end}"
                if old.exists():
                    old.rename(self.host / f"{LOG}.{number + 1}{end}")
        if self.random.random() < 0.5:
            log.rename(self.host / f"{LOG}.1")
            if self.random.random() < 0.5:
                self.number += 1
                append(log, f"\tat org.example.TheEndOfTheRecordBefore({self.number})\n")
        else:
            self.copied = self.host / f"{LOG}.1"
            shutil.copy(log, self.copied)

    def pack(self) -> None:
        rolled = [path for path in self.host.glob(f"{LOG}.*") if path.suffix != ".gz"]
        if rolled:
            pack(self.random.choice(sorted(rolled)))

    def late(self) -> None:
        self.number += 1
        text = "".join(record(self.number * 100 + number) for number in range(20))
        (self.host / f"{LOG}.{100 + self.number}").write_text(text)

    def texts(self) -> dict[tuple[str, str], str]:
        """Every file as it is now."""
        found = {}
        for path in [*self.host.glob(f"{LOG}*"), *self.host.glob("agent/*")]:
            data = path.read_bytes()
            text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
            if text:
                found["mq01a", str(path.relative_to(self.host))] = text
        return found
