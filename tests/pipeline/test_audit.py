"""Tests of the audit as one job: datasets, verdicts and pages from logs and journals in the layout of ``collect``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from activemq_fleet.audit.scraped_availability import ScrapedAvailability, read_availability
from activemq_fleet.errors import InputError
from activemq_fleet.node.watchdog.hang_detection import format_hung_broker_message
from activemq_fleet.spark.audit_job import audit
from activemq_fleet.spark.inputs import AuditedHost
from activemq_fleet.spark.schemas import SCHEMAS
from activemq_fleet.spark.settings import temporary_settings
from tests.log_reading import logger_of
from tests.pipeline.job_counts import counted_jobs
from tests.unit.audit.broker_logs import MESSAGES, NOON, PAIR, STORE, A, B, C

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AGENT = "shop01.example.com"
MASTER = ("0 chosen", "1 opened", "1 starting", "2 started", "60 client refused", "65 client refused")
STANDBY = ("5 chosen", "6 wait", "1:10 opened", "1:10 unclean", "1:11 starting", "1:12 started")
NEIGHBOR = ("0 chosen", "1 dial", "1 connector", "2 started", "3 bridge up", "1:08.5 bridge lost", "1:13 bridge up b")


UNIT: dict[str, Any] = {"broker": {"unit": {"Id": "activemq.service"}}}
AT_RISK = "reporting:daily of topic://prices (at most 2 messages)"


def moment(text: str) -> datetime:
    minutes, _, seconds = text.rpartition(":")
    return NOON + timedelta(minutes=int(minutes or 0), seconds=float(seconds))


def log_lines(*events: str) -> list[str]:
    """Return the log lines of events such as ``1:06 stopped``."""
    lines = []
    for event in events:
        when, _, what = event.partition(" ")
        stamp = moment(when).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
        lines.append(f"{stamp} | INFO  | {MESSAGES[what]} | {logger_of(MESSAGES[what])} | main\n")
    return lines


def write_host(root: Path, host: str, facts: Mapping[str, Any] | None, files: Mapping[str, str]) -> None:
    """Write the files of a host, and its host.json unless ``facts`` is None."""
    home = root / host
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    if facts is not None:
        (home / "host.json").write_text(json.dumps({"host": host, "timezone": "UTC", **facts}))


def agent_journal(events: int) -> str:
    """Return the journal of an agent that publishes and handles its own events, and loses its broker in between."""
    records: list[dict[str, Any]] = [{"kind": "started"}, {"kind": "connected", "broker": f"{A}:1883", "conn": 1}]
    records.append({"kind": "subscribed", "filters": ["events/#"], "broker": f"{A}:1883", "conn": 1})
    seconds = ["9", "10", "11"]
    for number in range(1, events + 1):
        known = {"event_id": f"shop:e:{number}", "topic": "events/shop/OrderEvent"}
        kinds = ("accepted", "sent", "acknowledged", "received", "handling", "handled")
        records += [{"kind": kind, **known} for kind in kinds]
        seconds += ["20"] * len(kinds)
    records += [
        {"kind": "connection_lost", "broker": f"{A}:1883", "conn": 1, "reason": "the connection was closed"},
        {"kind": "connected", "broker": f"{B}:1883", "conn": 2},
        {"kind": "connection_lost", "broker": f"{B}:1883", "conn": 2, "reason": "stopped"},
        {"kind": "stopped"},
    ]
    seconds += ["1:08.2", "1:14", "2:00", "2:01"]
    journal_lines = []
    for number, (record, at) in enumerate(zip(records, seconds, strict=True), 1):
        record_head = {
            "v": 1,
            "agent": "shop",
            "epoch": "e",
            "jseq": number,
            "ts": f"{moment(at):%Y-%m-%dT%H:%M:%S.%fZ}",
        }
        journal_lines.append(json.dumps({**record_head, **record}) + "\n")
    return "".join(journal_lines)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a pair whose master was killed, rolled logs, a neighbor with a bridge to the pair, and an agent."""
    root = tmp_path_factory.mktemp("collected")
    about = {"group": "orders", "pair": PAIR, "store": STORE, "release": "5.18.3"}
    master, standby = log_lines(*MASTER), log_lines(*STANDBY)
    write_host(root, A, about, {"activemq.log.1": "".join(master[:4]), "activemq.log": "".join(master[4:])})
    risk_record = {"time": moment("1:11").timestamp(), "path": f"{STORE}/at-risk/1-2.json", "description": AT_RISK}
    write_host(root, B, about | {"risk_records": [risk_record]}, {"activemq.log": "".join(standby)})
    write_host(root, C, {"group": "billing", "pair": "billing-mq01"}, {"activemq.log": "".join(log_lines(*NEIGHBOR))})
    write_host(root, AGENT, {"group": "orders", "pair": PAIR}, {"agent/journal-000000001.jsonl": agent_journal(3)})
    return root


@pytest.fixture(scope="module")
def out(spark: SparkSession, logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("audited") / "out"
    audit_result = audit(spark, str(logs), str(out))
    assert audit_result.exit_code == 1
    return out


def read_rows(out: Path, name: str) -> list[dict[str, Any]]:
    dataset_rows: list[dict[str, Any]] = pq.read_table(out / name).to_pylist()
    return dataset_rows


def test_audit_reports_every_planted_incident_and_no_other(out: Path) -> None:
    incidents = {(row["kind"], row["host"]): row for row in read_rows(out, "incidents")}

    assert set(incidents) == {("takeover", B), ("refused_credentials", A), ("subscriptions_at_risk", B)}
    assert AT_RISK in incidents["subscriptions_at_risk", B]["cause"]
    takeover = incidents["takeover", B]
    assert (takeover["began_from"], takeover["seconds"], takeover["certainty"]) == ("agent", 3.8, "proved")
    assert (takeover["group"], takeover["pair"], takeover["final"]) == ("orders", PAIR, True)


def operation_records(host: str, began: str, ended: str) -> str:
    """Return the records that a restart by the playbook writes on a node."""
    about = {"v": 1, "run": "1f0c", "operation": "restart", "by": "ops@controller", "host": host}
    times = (("begin", began), ("end", ended))
    return "".join(json.dumps({**about, "kind": kind, "ts": moment(at).isoformat()}) + "\n" for kind, at in times)


@pytest.mark.parametrize(("ended", "verdict", "planned"), [("1:30", "clean", True), ("1:02", "findings", False)])
def test_verdict_of_audit_is_clean_only_if_operation_explains_takeover(
    spark: SparkSession, tmp_path: Path, ended: str, verdict: str, planned: bool
) -> None:
    about = {"group": "orders", "pair": PAIR, "store": STORE, "release": "5.18.3"}
    restarted = ("0 chosen", "1 opened", "1 starting", "2 started", "1:05 stopping", "1:06 stopped", "1:20 chosen")
    for host, events in ((A, (*restarted, "1:21 wait")), (B, STANDBY)):
        files = {
            "activemq.log": "".join(log_lines(*events)),
            "operations.jsonl": operation_records(host, "1:00", ended),
        }
        write_host(tmp_path / "logs", host, about, files)

    audit_result = audit(
        spark, str(tmp_path / "logs"), str(tmp_path / "out"), scraped=scraped_availability(ended="1:10")
    )

    assert [(row["kind"], row["planned"]) for row in read_rows(tmp_path / "out", "incidents")] == [
        ("takeover", planned)
    ]
    assert (audit_result.verdict, audit_result.exit_code, audit_result.counts.planned) == (
        verdict,
        int(not planned),
        int(planned),
    )
    page = (tmp_path / "out" / "report.html").read_text()
    assert ("1 takeover, 1 planned" in page) is planned
    assert "Availability by Prometheus" in page


def test_systemd_journals_explain_takeover_after_hung_broker(spark: SparkSession, tmp_path: Path) -> None:
    about = {"group": "orders", "pair": PAIR, "store": STORE, "release": "5.18.3", **UNIT}
    frozen = "process 812 was stopped by a signal, and its log reports: Apache ActiveMQ 5.18.3 (x, ID:x) started"
    hung = format_hung_broker_message(
        frozen, action="kill", ha="shared-file", unit="activemq.service", seconds=12, kills=True
    )
    exited = "activemq.service: Main process exited, code=exited, status=137/n/a"
    hung_node = {
        "activemq.log": "".join(log_lines(*MASTER)),
        "journal/activemq-watchdog.service.log": f"{moment('1:08').isoformat()} mq01-a activemq-watchdog[77]: {hung}\n",
        "journal/activemq.service.log": f"{moment('1:09').isoformat()} mq01-a systemd[1]: {exited}\n",
    }
    write_host(tmp_path / "logs", A, about, hung_node)
    write_host(tmp_path / "logs", B, about, {"activemq.log": "".join(log_lines(*STANDBY))})

    audit(spark, str(tmp_path / "logs"), str(tmp_path / "out"))

    incidents = {row["kind"]: row for row in read_rows(tmp_path / "out", "incidents")}
    assert set(incidents) == {"takeover", "hung_broker", "refused_credentials"}
    takeover = incidents["takeover"]
    assert (takeover["began_from"], takeover["began"]) == ("watchdog", moment("1:08") - timedelta(seconds=12))
    assert "orders-mq01-a hung (process 812 was stopped by a signal), and its watchdog killed it" in takeover["cause"]
    assert (takeover["seconds"], takeover["downtime_min"], takeover["downtime_max"]) == (16.0, 15.5, 70.0)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "a watchdog&#39;s journal" in page
    assert "between 15.5 and 70.0 s" in page


def test_systemd_explains_takeover_after_kill_without_watchdog(spark: SparkSession, tmp_path: Path) -> None:
    about = {"group": "orders", "pair": PAIR, "store": STORE, **UNIT}
    oom = "activemq.service: A process of this unit has been killed by the OOM killer."
    journal = f"{moment('1:09').isoformat()} mq01-a systemd[1]: {oom}\n"
    killed_node = {"activemq.log": "".join(log_lines(*MASTER[:4])), "journal/activemq.service.log": journal}
    write_host(tmp_path / "logs", A, about, killed_node)
    write_host(tmp_path / "logs", B, about, {"activemq.log": "".join(log_lines(*STANDBY))})

    audit(spark, str(tmp_path / "logs"), str(tmp_path / "out"))

    (takeover,) = read_rows(tmp_path / "out", "incidents")
    assert (takeover["began_from"], takeover["seconds"]) == ("systemd", 3.0)
    assert "the kernel killed the broker of orders-mq01-a" in takeover["cause"]


def test_downtime_that_no_log_explains_makes_audit_incomplete(spark: SparkSession, tmp_path: Path) -> None:
    about = {"group": "orders", "pair": PAIR, "store": STORE}
    write_host(tmp_path / "in", A, about, {"activemq.log": "".join(log_lines(*MASTER[:4], "8:00 client refused"))})

    audit_result = audit(spark, str(tmp_path / "in"), str(tmp_path / "out"), scraped=scraped_availability(ended="2:00"))

    assert (audit_result.verdict, [gap.host for gap in audit_result.gaps]) == ("incomplete", [PAIR])
    assert "shows no active node of the pair for 54.0 s" in (tmp_path / "out" / "audit.json").read_text()


def scraped_availability(ended: str) -> ScrapedAvailability:
    """Return what Prometheus recorded about the pair: active until 1:06, and again from ``ended`` on."""
    seconds = [(moment(text).timestamp(), value) for text, value in (("1:06", 1), ("1:07", 0), (ended, 1))]
    series = {"metric": {"pair": PAIR, "host": A}, "values": [[at, str(value)] for at, value in seconds]}
    return read_availability(json.dumps({"data": {"result": [series]}}), "f")


def test_audit_reports_bridge_as_rebuilt_after_failover(out: Path) -> None:
    first_bridge, second_bridge = sorted(read_rows(out, "bridges"), key=lambda row: str(row["began"]))

    assert (first_bridge["host"], first_bridge["link"], first_bridge["state"], first_bridge["rebuilt"]) == (
        C,
        "to-orders",
        "down",
        True,
    )
    assert (second_bridge["state"], second_bridge["peer"]) == ("up", "orders-mq01-b")


def test_each_dataset_of_audit_has_columns_of_its_schema(out: Path) -> None:
    for name in ("events", "incidents", "bridges", "messages", "deliveries"):
        assert pq.read_table(out / name).schema.names == SCHEMAS[name].names


def test_audit_json_has_verdict_and_counts(out: Path) -> None:
    summary = json.loads((out / "audit.json").read_text())

    assert summary["verdict"] == "findings", summary["gaps"]
    assert summary["counts"]["incidents"] == {"refused_credentials": 1, "subscriptions_at_risk": 1, "takeover": 1}
    assert summary["counts"]["messages"] == {"delivered": 3}
    assert summary["counts"]["events"] == len(MASTER) + len(STANDBY) + len(NEIGHBOR)


def test_audit_report_names_incidents_and_their_causes(out: Path) -> None:
    page = (out / "report.html").read_text()

    assert (
        "None of 3 events lost; 1 refusal of credentials, 1 broker start that put durable subscriptions at risk, 1"
        in page
    )
    assert "orders-mq01-a ended" in page or "orders-mq01-a stopped logging" in page


def test_missing_host_and_truncated_log_make_audit_incomplete(spark: SparkSession, logs: Path, tmp_path: Path) -> None:
    """There is no journal and no incident: the inventory has a broker without a log, and a log is truncated."""
    about = {"group": "orders", "pair": PAIR, "store": STORE}
    log_text = "".join(log_lines("0 chosen", "1 opened", "1 starting", "2 started"))
    write_host(tmp_path / "in", A, about, {"activemq.log": log_text + log_text[: len(log_text) // 3]})

    hosts = {host: AuditedHost(host, group="orders", pair=PAIR) for host in (A, B)}
    audit_result = audit(spark, str(tmp_path / "in"), str(tmp_path / "out"), inventory_hosts=hosts)

    assert audit_result.verdict == "incomplete"
    assert {gap.host for gap in audit_result.gaps if gap.weighs} == {A, B}


def test_audit_refuses_log_that_links_to_file_outside_input_directory(spark: SparkSession, tmp_path: Path) -> None:
    write_host(tmp_path / "in", A, None, {"activemq.log": "".join(log_lines("2 started"))})
    (tmp_path / "secret").write_text("root alone\n")
    (tmp_path / "in" / A / "activemq.log.1").symlink_to("../../secret")
    with pytest.raises(InputError, match=r"activemq\.log\.1 leads out of the input directory"):
        audit(spark, str(tmp_path / "in"), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_audit_of_few_logs_runs_nine_spark_jobs(spark: SparkSession, logs: Path, tmp_path: Path) -> None:
    with temporary_settings(spark, {"spark.sql.shuffle.partitions": "200"}), counted_jobs(spark) as jobs:
        audit(spark, str(logs), str(tmp_path / "out"))

    # Files; events; journals; bridges, incidents; ordered records, deliveries, verdicts; lines of the chart.
    assert len(jobs) == 9


def test_logs_named_by_date_are_read_in_order_and_missing_ones_make_audit_incomplete(
    spark: SparkSession, tmp_path: Path
) -> None:
    lines = log_lines("0 chosen", "1 opened", "1 starting", "2 started", "1:00 client refused", "2:00 client refused")
    about = {"group": "orders", "pair": PAIR, "collected": "2026-11-30T10:00:00Z", "left_out": []}
    logs = {
        "2026-02/activemq-2026-02-28-1.log": "".join(lines[:3]),
        "2026-03/activemq-2026-03-01-1.log": "".join(lines[3:5]),
        "2026-03/activemq-2026-03-01-2.log": "".join(lines[5:]),
    }
    for host in (A, "quiet", "listed", "omitted", "empty", "unread"):
        write_host(tmp_path / "logs", host, about, logs)
    write_host(
        tmp_path / "logs", "omitted", about | {"left_out": [{"path": "activemq.log", "bytes": 1, "why": "w"}]}, {}
    )
    write_host(tmp_path / "logs", "empty", about, {"2026-03/activemq-2026-03-01-3.log.gz": ""})
    write_host(tmp_path / "logs", "unread", about, {"old/activemq.log": "x"})
    (tmp_path / "logs/quiet/2026-03/activemq-2026-03-01-1.log").unlink()
    (tmp_path / "logs/listed/host.json").unlink()

    result = audit(spark, str(tmp_path / "logs"), str(tmp_path / "out"))

    rows = pq.read_table(tmp_path / "out/events").to_pylist()
    of_host = [row for row in rows if row["host"] == A]
    assert [row["time"] for row in of_host] == sorted(row["time"] for row in rows if row["host"] == A)
    first, second, third = logs
    assert [row["file"] for row in of_host] == [first, first, first, second, second, third]
    assert (result.verdict, len(rows)) == ("incomplete", 6 * 6 - 2)
    assert {(gap.host, gap.file, gap.what.split(",")[0]) for gap in result.gaps if gap.weighs} == {
        ("empty", "2026-03/activemq-2026-03-01-3.log.gz", "the gzip file is empty"),
        ("listed", None, "the log file activemq.log is missing"),
        ("omitted", "activemq.log", "the playbook collect did not bring this file"),
        ("quiet", None, "the log file 2026-03/activemq-2026-03-01-1.log is missing"),
        ("unread", "old/activemq.log", "the audit does not read this file"),
    }
