"""Store journals that no broker writes: the account of the store planted them, and root starts their readers."""

from __future__ import annotations

import faulthandler
import os
from pathlib import Path

import pytest

from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.files.untrusted_paths import UntrustedPathError
from activemq_fleet.node.kahadb import (
    content_hashes,
    journal,
    protocol_buffers,
    remaining_messages,
)
from activemq_fleet.node.process.system_accounts import (
    AccountError,
    SystemAccount,
    run_as,
)
from tests.unit.attackers import BROKER, create_owned_directory, directory_for_all_accounts, requires_root
from tests.unit.kahadb_journals import (
    add_record,
    audit_record,
    record_batch,
    remove_record,
    subscription_record,
    trace_record,
    write_data_file,
)
from tests.work import QUADRATIC, growth_of_time


def read_store(store: Path) -> None:
    remaining_messages.count_remaining_messages(str(store))
    content_hashes.compute_message_and_subscription_hashes(str(store))


def test_time_to_read_topic_with_many_subscribers_is_linear_in_store_journal(tmp_path: Path) -> None:
    def write_store(count: int) -> Path:
        messages = [add_record(f"m{number}", "topic/news") for number in range(count)]
        acknowledgements = [remove_record(f"m{number}", "topic/news", f"c:{number}") for number in range(count)]
        subscriptions = [subscription_record("news", f"c:{number}") for number in range(count)]
        write_data_file(tmp_path / f"{count}", *messages, *subscriptions, *acknowledgements, each=1000)
        return tmp_path / f"{count}"

    assert growth_of_time(read_store, write_store, 1000) < QUADRATIC


def test_store_journal_with_too_many_deliveries_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal stores one message repeatedly for many subscribers."""
    monkeypatch.setattr(content_hashes, "MAX_DELIVERIES", 10_000)
    write_data_file(
        tmp_path,
        *(subscription_record("news", f"c:{number}") for number in range(200)),
        *[add_record("m", "topic/news")] * 200,
    )
    with pytest.raises(NodeError, match="more than 10000 deliveries to durable subscribers"):
        content_hashes.compute_message_and_subscription_hashes(str(tmp_path))


@pytest.mark.parametrize(
    ("limit", "records"),
    [
        ("MAX_LIVE", [add_record(f"m{number}") for number in range(200)]),
        ("MAX_LIVE", [add_record("m", f"q{number}") for number in range(200)]),
        ("MAX_UNDECIDED", [add_record("m", transaction=1)] * 200),
    ],
)
def test_store_journal_with_more_records_than_memory_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, records: list[bytes]
) -> None:
    monkeypatch.setattr(content_hashes, limit, 100)
    monkeypatch.setattr(remaining_messages, "MAX_RECORDS", 100)
    write_data_file(tmp_path, *records)
    with pytest.raises(NodeError, match=r"(journal|store) has more than 100 "):
        content_hashes.compute_message_and_subscription_hashes(str(tmp_path))
    if limit == "MAX_LIVE":
        with pytest.raises(NodeError, match=r"(journal|store) has more than 100 "):
            remaining_messages.count_remaining_messages(str(tmp_path))


def test_trace_texts_of_store_journal_are_truncated_and_only_last_ones_are_kept(tmp_path: Path) -> None:
    write_data_file(tmp_path, *[trace_record("x" * 10_000)] * 3000, each=100)
    loads = content_hashes.compute_message_and_subscription_hashes(str(tmp_path))["loads"]
    assert len(loads) == 1000
    assert {len(load) for load in loads} == {200}


def test_sparse_file_of_store_journal_is_refused_or_counted_as_damage(tmp_path: Path) -> None:
    write_data_file(tmp_path, trace_record(), add_record("m"))
    os.truncate(write_data_file(tmp_path, add_record("m"), number=2), 8 << 40)
    with pytest.raises(NodeError, match="have a size of 8388608 MiB, but use only 0 MiB of the disk"):
        content_hashes.compute_message_and_subscription_hashes(str(tmp_path))
    os.truncate(tmp_path / "db-2.log", (4 << 30) + 1)
    assert content_hashes.compute_message_and_subscription_hashes(str(tmp_path))["damaged"] == 1
    with pytest.raises(NodeError, match=r"1 place of its journal cannot be read\. List the places"):
        remaining_messages.count_remaining_messages(str(tmp_path))


def test_journal_record_of_unknown_type_is_reported_as_of_newer_release(tmp_path: Path) -> None:
    path = write_data_file(tmp_path, add_record("m"), audit_record())
    record = audit_record()
    path.write_bytes(path.read_bytes().replace(record, record[:5] + b"\x63" + record[6:]))
    journal_end = journal.JournalEnd()
    list(journal.read_journal_commands_and_set_tail(str(tmp_path), journal_end))
    assert [place.reason for place in journal_end.places] == ["unknown record type 99, perhaps of a newer release"]
    with pytest.raises(NodeError, match=r"1 place of its journal cannot be read"):
        remaining_messages.count_remaining_messages(str(tmp_path))


def test_journal_record_with_name_of_megabytes_counts_as_damage(tmp_path: Path) -> None:
    write_data_file(tmp_path, trace_record(), add_record("m" * (protocol_buffers.MAX_NAME + 1)), add_record("m"))
    store_content = content_hashes.compute_message_and_subscription_hashes(str(tmp_path))
    assert (store_content["damaged"], store_content["messages"]) == (1, 1)


def test_journal_record_of_zero_length_ends_its_batch(tmp_path: Path) -> None:
    path = write_data_file(tmp_path, trace_record())
    path.write_bytes(record_batch(trace_record(), bytes(5) * 100) + record_batch(add_record("m")))
    store_content = content_hashes.compute_message_and_subscription_hashes(str(tmp_path))
    assert (store_content["damaged"], store_content["messages"]) == (1, 1)


@pytest.mark.parametrize("name", ["db-99999999999999999999999.log", "db-\u0661.log", "db-1.log.log", "db-.log"])
def test_file_with_number_in_unknown_format_is_no_file_of_store_journal(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    assert content_hashes.compute_message_and_subscription_hashes(str(tmp_path))["files"] == []


def test_store_journal_that_is_fifo_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "db-1.log")
    with pytest.raises(UntrustedPathError, match="is a FIFO, not a regular file"):
        remaining_messages.count_remaining_messages(str(tmp_path))


@requires_root
def test_journal_file_truncated_during_read_terminates_only_child_process() -> None:
    def read_truncated_file() -> None:
        faulthandler.disable()
        commands = journal.read_journal_commands_and_set_tail(str(store), journal.JournalEnd())
        next(commands)
        os.truncate(store / "db-1.log", 0)
        list(commands)

    with directory_for_all_accounts() as common:
        store = create_owned_directory(common / "kahadb")
        path = write_data_file(store, *(add_record(f"m{number}") for number in range(1000)), each=1000)
        os.chown(path, BROKER, BROKER)
        with pytest.raises(AccountError, match="signal 7 terminated the process"):
            run_as(SystemAccount(BROKER, BROKER), read_truncated_file)
