"""The gaps of an audit's input that the collected files and host.json show, before a log is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from activemq_fleet.audit.omitted_files import HostLogFiles, MissingOrIncompleteFile
from activemq_fleet.node.collect.evidence_archive import NEWEST_ONLY
from activemq_fleet.spark.inputs import (
    AuditInputs,
    InputFile,
    add_hosts_and_list_input_gaps,
    file_kind,
    inputs_from_files,
)

HOST = "orders-mq01-a.example.com"


def input_file(file: str, size: int) -> InputFile:
    return InputFile(f"file:/x/{HOST}/{file}", HOST, file, file_kind(file), size, file.endswith(".gz"))


def inputs_with(files: Mapping[str, int], host_json: Mapping[str, Any]) -> AuditInputs:
    """Return the inputs of one host, given its files with their sizes and the content of host.json."""
    all_files = [input_file(file, size) for file, size in files.items()]
    content = json.dumps({"timezone": "UTC", "group": "g", **host_json}).encode()
    return inputs_from_files(
        "file:/x",
        tuple(file for file in all_files if file.size),
        {(HOST, "host.json"): content},
        None,
        tuple(file for file in all_files if not file.size),
    )


def gaps_with(files: Mapping[str, int], **host_json: Any) -> list[tuple[str | None, str, bool]]:
    _, gaps = add_hosts_and_list_input_gaps(inputs_with(files, host_json), None)
    return [(gap.file, gap.what, gap.weighs) for gap in gaps]


@pytest.mark.parametrize(
    ("path", "weighs"),
    [
        ("activemq.log.3", True),
        ("activemq-2026-11-30-1.log.gz", True),
        ("2026-11/activemq-2026-11-30-1.log.gz", True),
        ("2026-11/", True),
        ("archive/activemq.log.1", True),
        ("/srv/activemq/data", True),
        ("agent/", True),
        ("agent/journal-000000001.jsonl", True),
        ("journal/activemq.service.log", True),
        ("operations.jsonl", False),
        ("configuration/conf/activemq.xml", None),
        ("listing/data.txt", None),
        ("data.txt", None),
        ("more/audit.log", None),
        ("journal/activemq-watchdog.timer.log", None),
    ],
)
def test_file_that_collect_omitted_is_gap_if_audit_reads_it(path: str, weighs: bool | None) -> None:
    why = "the file does not fit into the limit activemq_collect_megabytes"
    gaps = gaps_with({"activemq.log": 9}, left_out=[{"path": path, "bytes": 7, "why": why}])
    expected = (path, f"the playbook collect did not bring this file, or not all of it: {why}", weighs)
    assert gaps == ([] if weighs is None else [expected])


@pytest.mark.parametrize("left_out", [None, "x", [None, 1, {}, {"path": 1, "why": 2}, {"path": "", "why": "x"}]])
def test_malformed_omitted_files_of_host_json_are_ignored(left_out: Any) -> None:
    assert gaps_with({"activemq.log": 9}, left_out=left_out) == []


def test_empty_gzip_files_and_unread_logs_are_gaps_that_weigh() -> None:
    files = {"activemq.log": 9, "activemq.log.1": 0, "activemq-2026-11-30.log.gz": 0, "agent/journal-1.jsonl.gz": 0}
    gaps = gaps_with(files | {"old/activemq.log": 7, "activemq-node1.log": 0})
    assert [(file, what.split(",")[0], weighs) for file, what, weighs in gaps] == [
        ("activemq-2026-11-30.log.gz", "the gzip file is empty", True),
        ("agent/journal-1.jsonl.gz", "the gzip file is empty", True),
        ("old/activemq.log", "the audit does not read this file", True),
    ]


def test_systemd_journal_that_is_too_large_to_be_read_is_gap() -> None:
    files = {"activemq.log": 9, "journal/a.service.log": 300 << 20, "journal/b.service.log": 9}
    assert [(file, what.split(". ")[0], weighs) for file, what, weighs in gaps_with(files)] == [
        ("journal/a.service.log", "the file is not read, because it has 300 MiB, more than 256 MiB", True)
    ]


def test_log_files_of_host_include_empty_and_omitted_ones() -> None:
    omission = {"path": "activemq.log.4", "bytes": 7, "why": NEWEST_ONLY}
    inputs = inputs_with(
        {"activemq.log": 9, "activemq.log.1": 0, "activemq.log.2.gz": 0, "more/audit.log": 3},
        {"left_out": [omission], "collected": "2026-11-30T10:00:00Z"},
    )
    assert inputs.log_files_by_host() == {
        HOST: HostLogFiles(
            ("activemq.log", "activemq.log.1", "activemq.log.2.gz", "activemq.log.4"),
            {"activemq.log.4": MissingOrIncompleteFile("activemq.log.4", NEWEST_ONLY)},
            ("activemq.log.2.gz",),
            is_listed=True,
        )
    }
