"""An input directory that another person has packed: links out of it are refused and named."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from activemq_fleet.errors import InputError
from activemq_fleet.spark.event_cache import file_fingerprints
from activemq_fleet.spark.input_directory import check_no_outside_links


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Return a directory as ``collect`` writes it for one host; next to it is a secret file."""
    host = tmp_path / "logs/mq01a"
    (host / "agent").mkdir(parents=True)
    (host / "activemq.log").write_text("2026-01-01 00:00:00,001 | INFO  | text | logger | main\n")
    (host / "host.json").write_text("{}")
    (tmp_path / "secret").write_text("root alone\n")
    return tmp_path / "logs"


@pytest.mark.parametrize("name", ["activemq.log.1", "agent/journal.jsonl", "host.json", "agent/x\x1b[2J.jsonl", ".x"])
@pytest.mark.parametrize("target", ["../../secret", "{root}/secret", "../../logs-elsewhere", "/dev/null"])
def test_link_out_of_input_directory_is_refused_and_named(logs: Path, name: str, target: str) -> None:
    link = logs / "mq01a" / name
    link.unlink(missing_ok=True)
    depth = "../" * name.count("/")
    link.symlink_to(target.format(root=logs.parent) if target[0] in "{/" else f"{depth}{target}")
    with pytest.raises(InputError, match="leads out of the input directory") as raised:
        check_no_outside_links(str(logs))
    assert "\x1b" not in str(raised.value)
    assert name.rpartition("/")[2].replace("\x1b", "\\u001b") in str(raised.value)


def test_directory_link_and_chain_of_links_out_of_input_directory_are_refused(logs: Path) -> None:
    (logs.parent / "elsewhere").mkdir()
    (logs / "mq02a").symlink_to("../elsewhere")
    with pytest.raises(InputError, match="mq02a leads out of the input directory"):
        check_no_outside_links(str(logs))
    (logs / "mq02a").unlink()
    (logs / "mq01a/one").symlink_to("two")
    (logs / "mq01a/two").symlink_to("../../secret")
    with pytest.raises(InputError, match="leads out of the input directory"):
        check_no_outside_links(str(logs))


def test_adjacent_directory_with_same_prefix_is_outside(logs: Path) -> None:
    (logs.parent / "logs-other").mkdir()
    (logs.parent / "logs-other/activemq.log").write_text("x")
    (logs / "mq01a/activemq.log.1").symlink_to("../../logs-other/activemq.log")
    with pytest.raises(InputError, match="out of the input directory"):
        check_no_outside_links(str(logs))


def test_fifo_and_socket_in_input_directory_are_refused(logs: Path) -> None:
    os.mkfifo(logs / "mq01a/activemq.log.1")
    with pytest.raises(InputError, match=r"activemq.log.1 is a FIFO, not a regular file: remove it"):
        check_no_outside_links(str(logs))
    (logs / "mq01a/activemq.log.1").unlink()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(logs / "mq01a/s.jsonl"))
        with pytest.raises(InputError, match="is a socket"):
            check_no_outside_links(str(logs))


def test_links_inside_input_directory_are_accepted_and_link_cycle_is_refused(logs: Path) -> None:
    (logs / "mq01a/activemq.log.1").symlink_to("activemq.log")
    (logs / "mq01a/activemq.log.2").symlink_to("gone meanwhile")
    (logs / "mq01a/activemq.log.3").symlink_to("activemq.log.3")
    (logs / "mq01b").symlink_to("mq01a")
    check_no_outside_links(str(logs))
    check_no_outside_links(f"file://{logs}")
    (logs / "mq01a/again").symlink_to("../mq01a")
    with pytest.raises(InputError, match="again is below another symbolic link to a directory"):
        check_no_outside_links(str(logs))


def test_input_directory_itself_may_be_a_link(logs: Path) -> None:
    (logs.parent / "named").symlink_to("logs")
    check_no_outside_links(str(logs.parent / "named"))


def test_audit_that_follows_logs_refuses_outside_link_that_appears_later(logs: Path) -> None:
    fingerprints = file_fingerprints(logs)
    assert sorted(fingerprints) == ["mq01a/activemq.log", "mq01a/host.json"]
    (logs / "mq01a/activemq.log.1").symlink_to("../../secret")
    with pytest.raises(InputError, match="out of the input directory"):
        file_fingerprints(logs)


def test_audit_that_follows_logs_refuses_fifo_without_waiting(logs: Path) -> None:
    os.mkfifo(logs / "mq01a/activemq.log.1")
    with pytest.raises(InputError, match="is a FIFO"):
        file_fingerprints(logs)
