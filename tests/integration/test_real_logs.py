"""The logs of real brokers are read whole, and nearly every record has a kind."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from activemq_fleet.logs.columns import SCHEMA, Scanner, Source
from activemq_fleet.logs.dispatch import UNKNOWN
from tests.integration.planted import Ground
from tests.integration.real_logs import RELEASES, make
from tests.log_reading import Row

CHOSEN = RELEASES if os.environ.get("RELEASES") == "all" else ("5.5.1", "6.3.1")
UNKNOWN_SHARE = 0.02


@pytest.fixture(scope="module", params=CHOSEN)
def logs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs that one release wrote through a series of incidents."""
    directory = tmp_path_factory.mktemp("real")
    with Ground(directory / "ground") as ground:
        return make(directory / "logs", request.param, ground)


def rows_of(logs: Path) -> list[Row]:
    rows: list[Row] = []
    for path in sorted(logs.glob("*/activemq.log*")):
        release = json.loads((path.parent / "host.json").read_text())["release"]
        batches = Scanner(Source(release)).scan(path.read_bytes())
        rows += pa.Table.from_batches(batches, schema=SCHEMA).to_pylist()
    return rows


@pytest.mark.timeout(400)
def test_no_record_is_unparsed_and_hardly_one_is_unknown(logs: Path) -> None:
    rows = rows_of(logs)
    assert [row for row in rows if not row["parsed"] or row["problem"]] == []
    unknown = Counter(re.sub(r"\d+", "#", row["message"])[:120] for row in rows if row["kind"] == UNKNOWN)
    assert sum(unknown.values()) <= UNKNOWN_SHARE * len(rows), unknown


def test_what_was_done_to_the_brokers_is_told_by_kinds(logs: Path) -> None:
    kinds = {row["kind"] for row in rows_of(logs)}
    done = {incident["kind"] for incident in json.loads((logs / "planted.json").read_text())}
    signs = {
        "takeover": {"LIFE-STARTED", "LIFE-STARTED-OLD"},
        "demotion": {"LOCK-LOST"},
        "store_error": {"KDB-MISSING", "LIFE-START-FAILED"},
        "duplicate_bridge": {"NET-DUP-CLIENT", "NET-DUPLEX-REPLACED", "TR-ADD-FAILED"},
        "refused_credentials": {"TR-ADD-FAILED", "X-PROTOCOL-ERROR"},
    }
    assert done >= {"takeover", "store_error", "refused_credentials"}
    assert [kind for kind in done if not signs[kind] & kinds] == []
