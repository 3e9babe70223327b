"""The stream's own look at DIR: what the batch's readers list, and no more."""

from __future__ import annotations

import json
from pathlib import Path

from activemq_fleet.spark.follow.listing import listed


def test_logs_journals_and_descriptions_are_listed_as_the_readers_of_the_batch_list_them(tmp_path: Path) -> None:
    host = tmp_path / "mq01a"
    told = {"host": "mq01a", "timezone": "Europe/Berlin", "release": "5.18.3", "pair": "mq01"}
    for name, text in {
        "activemq.log": "a line\n",
        "activemq.log.1.gz": "packed",
        "activemq.log.2": "",
        "agent/shop-000000001.jsonl": "{}\n",
        "agent/.shop.jsonl.swp": "an editor's",
        "agent/_work/shop.jsonl": "hidden with its directory",
        "data/other.jsonl": "no agent's",
        "wrapper.log": "another program's",
        "host.json": json.dumps(told),
    }.items():
        (host / name).parent.mkdir(parents=True, exist_ok=True)
        (host / name).write_text(text)
    found = listed(str(tmp_path), None)
    assert {file.file: (file.kind, file.compressed) for file in found.files} == {
        "activemq.log": ("log", False),
        "activemq.log.1.gz": ("log", True),
        "agent/shop-000000001.jsonl": ("journal", False),
        "data/other.jsonl": ("other", False),
        "host.json": ("host", False),
    }
    assert (found.hosts["mq01a"].timezone, found.hosts["mq01a"].pair) == ("Europe/Berlin", "mq01")


def test_a_file_that_is_renamed_while_it_is_listed_is_left_to_the_next_look(tmp_path: Path) -> None:
    (tmp_path / "mq01a").mkdir()
    (tmp_path / "mq01a" / "activemq.log.1").symlink_to("gone meanwhile")
    (tmp_path / "mq01a" / "activemq.log").write_text("a line\n")
    assert [file.file for file in listed(str(tmp_path), None).files] == ["activemq.log"]


def test_a_file_about_a_host_that_is_too_large_to_be_read_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "mq01a").mkdir()
    (tmp_path / "mq01a" / "activemq.log").write_text("a line\n")
    with (tmp_path / "mq01a" / "operations.jsonl").open("wb") as file:
        file.truncate((16 << 20) + 1)
    assert (
        "mq01a: operations.jsonl has 16 MiB, and a file of more than 16 is not read; the planned work on it is not "
        "known: keep the newest lines, tail -n 4000 operations.jsonl"
    ) in listed(str(tmp_path), None).problems
