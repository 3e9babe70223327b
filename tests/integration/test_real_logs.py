"""The logs of real brokers are read whole, and nearly every record has a kind."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from activemq_fleet.audit.evidence import Incident, LogRecordEvidence, PairNode
from activemq_fleet.audit.log_evidence import evidence_in_log
from activemq_fleet.audit.pair_findings import FleetLogEvidence, incidents_of_pair, pair_findings_of_logs
from activemq_fleet.logs.classifier import UNKNOWN
from activemq_fleet.logs.event_batches import SCHEMA, LogReleaseAndTimeZone, LogScanner
from tests.integration.planted import Ground
from tests.integration.real_logs import RELEASES, SILENT, record_logs
from tests.log_reading import Row
from tests.situations import further, in_every_situation
from tests.support.recorded_logs import log_records

CHOSEN = RELEASES if os.environ.get("RELEASES") == "all" else ("6.3.1", *further("5.5.1"))
UNKNOWN_SHARE = 0.02


@pytest.fixture(scope="module", params=CHOSEN)
def logs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs that one release wrote through a series of incidents."""
    directory = tmp_path_factory.mktemp("real")
    with Ground(directory / "ground") as ground:
        return record_logs(directory / "logs", request.param, ground)


def rows_of(logs: Path) -> list[Row]:
    rows: list[Row] = []
    for path in sorted(logs.glob("*/activemq.log*")):
        release = json.loads((path.parent / "host.json").read_text())["release"]
        batches = LogScanner(LogReleaseAndTimeZone(release)).scan_into_record_batches(path.read_bytes())
        rows += pa.Table.from_batches(batches, schema=SCHEMA).to_pylist()
    return rows


@in_every_situation
@pytest.mark.timeout(400)
def test_no_record_is_unparsed_and_hardly_one_is_unknown(logs: Path) -> None:
    rows = rows_of(logs)
    assert [row for row in rows if not row["parsed"] or row["problem"]] == []
    unknown = Counter(re.sub(r"\d+", "#", row["message"])[:120] for row in rows if row["kind"] == UNKNOWN)
    assert sum(unknown.values()) <= UNKNOWN_SHARE * len(rows), unknown


@in_every_situation
def test_what_was_done_to_the_brokers_is_told_by_kinds(logs: Path) -> None:
    kinds = {row["kind"] for row in rows_of(logs)}
    planted = json.loads((logs / "planted.json").read_text())
    done = {incident["kind"] for incident in planted if incident["note"] != SILENT}
    evidence_in = {
        "takeover": {"LIFE-STARTED", "LIFE-STARTED-OLD"},
        "demotion": {"LOCK-LOST"},
        "store_error": {"KDB-MISSING", "LIFE-START-FAILED"},
        "duplicate_bridge": {"NET-DUP-CLIENT", "NET-DUPLEX-REPLACED", "TR-ADD-FAILED"},
        "refused_credentials": {"TR-ADD-FAILED", "X-PROTOCOL-ERROR"},
    }
    assert done >= {"takeover", "store_error", "refused_credentials"}
    assert [kind for kind in done if not evidence_in[kind] & kinds] == []


def incidents_of(logs: Path) -> list[Incident]:
    """What the audit makes of the logs, pair by pair, without Spark."""
    nodes: dict[str, list[PairNode]] = {}
    evidence: dict[str, list[LogRecordEvidence]] = {}
    for home in sorted({path.parent for path in logs.glob("*/activemq.log")}):
        about = json.loads((home / "host.json").read_text())
        group, pair, store = (about.get(name) or None for name in ("group", "pair", "store"))
        node = PairNode(home.name, group, pair, store)
        nodes.setdefault(node.pair or node.host, []).append(node)
        evidence.setdefault(node.pair or node.host, []).extend(evidence_in_log(seen_of(home, about.get("release"))))
    findings_of_pairs = [pair_findings_of_logs(nodes[pair], evidence[pair]) for pair in nodes]
    fleet = FleetLogEvidence(
        frozenset(name for findings in findings_of_pairs for name in findings.names_of_brokers_reporting_refusals)
    )
    return [incident for findings in findings_of_pairs for incident in incidents_of_pair(findings, (), fleet=fleet)]


def seen_of(home: Path, release: str | None) -> list[LogRecordEvidence]:
    """A host's records that matter; of several files the one that begins first comes first."""
    batches = [
        list(LogScanner(LogReleaseAndTimeZone(release)).scan_into_record_batches(path.read_bytes()))
        for path in home.glob("activemq.log*")
    ]
    tables = [pa.Table.from_batches(found, schema=SCHEMA).to_pylist() for found in batches if found]
    ordered = [row for rows in sorted(tables, key=lambda rows: str(rows[0]["time"])) for row in rows]
    return list(log_records(home.name, ordered))


@in_every_situation
def test_every_planted_incident_is_found_and_none_is_invented(logs: Path) -> None:
    planted = [(one["kind"], set(one["hosts"])) for one in json.loads((logs / "planted.json").read_text())]
    found = [(incident.kind, incident.host) for incident in incidents_of(logs)]

    missed = [(kind, hosts) for kind, hosts in planted if not any(k == kind and h in hosts for k, h in found)]
    # A demotion's consequence: whether the other node gets the lock first is a race.
    races = {("takeover", host) for kind, hosts in planted if kind == "demotion" for host in ("demoted-a", "demoted-b")}
    # On 5.5.1 chance decides which of a link's two bridges is left, and both may have been up for a moment.
    if not any(kind == "duplicate_bridge" for kind, _ in planted):
        races |= {("duplicate_bridge", host) for host in ("north", "south")}
    invented = [(k, h) for k, h in found if not any(k == kind and h in hosts for kind, hosts in planted)]

    assert missed == []
    assert [one for one in invented if one not in races] == []
    assert [kind for kind, _ in found].count("store_error") == 1
