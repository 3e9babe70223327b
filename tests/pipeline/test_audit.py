"""The audit as one job: logs and journals laid down as collect does, and every dataset, verdict and page from them."""

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
from activemq_fleet.node.watchdog.hang_detection import hung_broker_message
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
STANDS_BY = ("5 chosen", "6 wait", "1:10 opened", "1:10 unclean", "1:11 starting", "1:12 started")
NEIGHBOUR = ("0 chosen", "1 dial", "1 connector", "2 started", "3 bridge up", "1:08.5 bridge lost", "1:13 bridge up b")


UNIT: dict[str, Any] = {"broker": {"unit": {"Id": "activemq.service"}}}
AT_RISK = "reporting:daily of topic://prices (at most 2 messages)"


def moment(text: str) -> datetime:
    minutes, _, seconds = text.rpartition(":")
    return NOON + timedelta(minutes=int(minutes or 0), seconds=float(seconds))


def lines(*said: str) -> list[str]:
    """Lines as a broker writes them."""
    found = []
    for line in said:
        when, _, what = line.partition(" ")
        stamp = moment(when).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
        found.append(f"{stamp} | INFO  | {MESSAGES[what]} | {logger_of(MESSAGES[what])} | main\n")
    return found


def lay(root: Path, host: str, about: Mapping[str, Any] | None, files: Mapping[str, str]) -> None:
    home = root / host
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    if about is not None:
        (home / "host.json").write_text(json.dumps({"host": host, "timezone": "UTC", **about}))


def journal(events: int) -> str:
    """An agent that publishes and handles its own events, and loses its broker in between."""
    said: list[dict[str, Any]] = [{"kind": "started"}, {"kind": "connected", "broker": f"{A}:1883", "conn": 1}]
    said.append({"kind": "subscribed", "filters": ["events/#"], "broker": f"{A}:1883", "conn": 1})
    seconds = ["9", "10", "11"]
    for number in range(1, events + 1):
        known = {"event_id": f"shop:e:{number}", "topic": "events/shop/OrderEvent"}
        kinds = ("accepted", "sent", "acknowledged", "received", "handling", "handled")
        said += [{"kind": kind, **known} for kind in kinds]
        seconds += ["20"] * len(kinds)
    said += [
        {"kind": "connection_lost", "broker": f"{A}:1883", "conn": 1, "reason": "the connection was closed"},
        {"kind": "connected", "broker": f"{B}:1883", "conn": 2},
        {"kind": "connection_lost", "broker": f"{B}:1883", "conn": 2, "reason": "stopped"},
        {"kind": "stopped"},
    ]
    seconds += ["1:08.2", "1:14", "2:00", "2:01"]
    found = []
    for number, (one, at) in enumerate(zip(said, seconds, strict=True), 1):
        head = {"v": 1, "agent": "shop", "epoch": "e", "jseq": number, "ts": f"{moment(at):%Y-%m-%dT%H:%M:%S.%fZ}"}
        found.append(json.dumps({**head, **one}) + "\n")
    return "".join(found)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pair whose master was killed, rolled logs, a neighbour with a bridge to it, an agent."""
    root = tmp_path_factory.mktemp("collected")
    about = {"group": "orders", "pair": PAIR, "store": STORE, "release": "5.18.3"}
    master, other = lines(*MASTER), lines(*STANDS_BY)
    lay(root, A, about, {"activemq.log.1": "".join(master[:4]), "activemq.log": "".join(master[4:])})
    shared = {"time": moment("1:11").timestamp(), "path": f"{STORE}/at-risk/1-2.json", "description": AT_RISK}
    lay(root, B, about | {"risk_records": [shared]}, {"activemq.log": "".join(other)})
    lay(root, C, {"group": "billing", "pair": "billing-mq01"}, {"activemq.log": "".join(lines(*NEIGHBOUR))})
    lay(root, AGENT, {"group": "orders", "pair": PAIR}, {"agent/journal-000000001.jsonl": journal(3)})
    return root


@pytest.fixture(scope="module")
def out(spark: SparkSession, logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("audited") / "out"
    result = audit(spark, str(logs), str(out))
    assert result.exit_code == 1
    return out


def rows(out: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(out / name).to_pylist()
    return found


def test_every_planted_incident_is_found_and_none_invented(out: Path) -> None:
    found = {(row["kind"], row["host"]): row for row in rows(out, "incidents")}

    assert set(found) == {("takeover", B), ("refused_credentials", A), ("subscriptions_at_risk", B)}
    assert AT_RISK in found["subscriptions_at_risk", B]["cause"]
    takeover = found["takeover", B]
    assert (takeover["began_from"], takeover["seconds"], takeover["certainty"]) == ("agent", 3.8, "proved")
    assert (takeover["group"], takeover["pair"], takeover["final"]) == ("orders", PAIR, True)


def operations(host: str, began: str, ended: str) -> str:
    """What a restart by the playbook leaves on a node."""
    about = {"v": 1, "run": "1f0c", "operation": "restart", "by": "ops@controller", "host": host}
    times = (("begin", began), ("end", ended))
    return "".join(json.dumps({**about, "kind": kind, "ts": moment(at).isoformat()}) + "\n" for kind, at in times)


@pytest.mark.parametrize(("ended", "verdict", "planned"), [("1:30", "clean", True), ("1:02", "findings", False)])
def test_planned_take_overs_alone_leave_the_verdict_clean(
    spark: SparkSession, tmp_path: Path, ended: str, verdict: str, planned: bool
) -> None:
    about = {"group": "orders", "pair": PAIR, "store": STORE, "release": "5.18.3"}
    restarted = ("0 chosen", "1 opened", "1 starting", "2 started", "1:05 stopping", "1:06 stopped", "1:20 chosen")
    for host, said in ((A, (*restarted, "1:21 wait")), (B, STANDS_BY)):
        files = {"activemq.log": "".join(lines(*said)), "operations.jsonl": operations(host, "1:00", ended)}
        lay(tmp_path / "logs", host, about, files)

    result = audit(spark, str(tmp_path / "logs"), str(tmp_path / "out"), scraped=scrapes(ended="1:10"))

    assert [(row["kind"], row["planned"]) for row in rows(tmp_path / "out", "incidents")] == [("takeover", planned)]
    assert (result.verdict, result.exit_code, result.counts.planned) == (verdict, int(not planned), int(planned))
    page = (tmp_path / "out" / "report.html").read_text()
    assert ("1 takeover, 1 planned" in page) is planned
    assert "Availability by Prometheus" in page


def test_systemd_journals_explain_takeover_after_hung_broker(spark: SparkSession, tmp_path: Path) -> None:
    about = {"group": "orders", "pair": PAIR, "store": STORE, "release": "5.18.3", **UNIT}
    frozen = "process 812 was stopped by a signal, and its log reports: Apache ActiveMQ 5.18.3 (x, ID:x) started"
    hung = hung_broker_message(frozen, action="kill", ha="shared-file", unit="activemq.service", seconds=12, kills=True)
    exited = "activemq.service: Main process exited, code=exited, status=137/n/a"
    hung_node = {
        "activemq.log": "".join(lines(*MASTER)),
        "journal/activemq-watchdog.service.log": f"{moment('1:08').isoformat()} mq01-a activemq-watchdog[77]: {hung}\n",
        "journal/activemq.service.log": f"{moment('1:09').isoformat()} mq01-a systemd[1]: {exited}\n",
    }
    lay(tmp_path / "logs", A, about, hung_node)
    lay(tmp_path / "logs", B, about, {"activemq.log": "".join(lines(*STANDS_BY))})

    audit(spark, str(tmp_path / "logs"), str(tmp_path / "out"))

    incidents = {row["kind"]: row for row in rows(tmp_path / "out", "incidents")}
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
    killed_node = {"activemq.log": "".join(lines(*MASTER[:4])), "journal/activemq.service.log": journal}
    lay(tmp_path / "logs", A, about, killed_node)
    lay(tmp_path / "logs", B, about, {"activemq.log": "".join(lines(*STANDS_BY))})

    audit(spark, str(tmp_path / "logs"), str(tmp_path / "out"))

    (takeover,) = rows(tmp_path / "out", "incidents")
    assert (takeover["began_from"], takeover["seconds"]) == ("systemd", 3.0)
    assert "the kernel killed the broker of orders-mq01-a" in takeover["cause"]


def test_a_gap_that_no_log_tells_of_makes_it_incomplete(spark: SparkSession, tmp_path: Path) -> None:
    about = {"group": "orders", "pair": PAIR, "store": STORE}
    lay(tmp_path / "in", A, about, {"activemq.log": "".join(lines(*MASTER[:4], "8:00 client refused"))})

    result = audit(spark, str(tmp_path / "in"), str(tmp_path / "out"), scraped=scrapes(ended="2:00"))

    assert (result.verdict, [gap.host for gap in result.gaps]) == ("incomplete", [PAIR])
    assert "shows no active node of the pair for 54.0 s" in (tmp_path / "out" / "audit.json").read_text()


def scrapes(ended: str) -> ScrapedAvailability:
    """What Prometheus saw of the pair: active until 1:06, and again from a moment on."""
    seconds = [(moment(text).timestamp(), value) for text, value in (("1:06", 1), ("1:07", 0), (ended, 1))]
    series = {"metric": {"pair": PAIR, "host": A}, "values": [[at, str(value)] for at, value in seconds]}
    return read_availability(json.dumps({"data": {"result": [series]}}), "f")


def test_the_bridge_over_the_failover_was_rebuilt(out: Path) -> None:
    first, second = sorted(rows(out, "bridges"), key=lambda row: str(row["began"]))

    assert (first["host"], first["link"], first["state"], first["rebuilt"]) == (C, "to-orders", "down", True)
    assert (second["state"], second["peer"]) == ("up", "orders-mq01-b")


def test_each_dataset_has_its_columns(out: Path) -> None:
    for name in ("events", "incidents", "bridges", "messages", "deliveries"):
        assert pq.read_table(out / name).schema.names == SCHEMAS[name].names


def test_the_verdict_and_the_counts_are_in_audit_json(out: Path) -> None:
    told = json.loads((out / "audit.json").read_text())

    assert told["verdict"] == "findings", told["gaps"]
    assert told["counts"]["incidents"] == {"refused_credentials": 1, "subscriptions_at_risk": 1, "takeover": 1}
    assert told["counts"]["messages"] == {"delivered": 3}
    assert told["counts"]["events"] == len(MASTER) + len(STANDS_BY) + len(NEIGHBOUR)


def test_the_report_is_there_and_names_what_happened(out: Path) -> None:
    page = (out / "report.html").read_text()

    assert (
        "None of 3 events lost; 1 refusal of credentials, 1 broker start that put durable subscriptions at risk, 1"
        in page
    )
    assert "orders-mq01-a ended" in page or "orders-mq01-a stopped logging" in page


def test_what_is_missing_makes_it_incomplete(spark: SparkSession, logs: Path, tmp_path: Path) -> None:
    """No journals, no incident: only a broker that the inventory has, and a log that is cut off."""
    about = {"group": "orders", "pair": PAIR, "store": STORE}
    whole = "".join(lines("0 chosen", "1 opened", "1 starting", "2 started"))
    lay(tmp_path / "in", A, about, {"activemq.log": whole + whole[: len(whole) // 3]})

    hosts = {host: AuditedHost(host, group="orders", pair=PAIR) for host in (A, B)}
    result = audit(spark, str(tmp_path / "in"), str(tmp_path / "out"), inventory_hosts=hosts)

    assert result.verdict == "incomplete"
    assert {gap.host for gap in result.gaps if gap.weighs} == {A, B}


def test_a_planted_log_that_is_a_link_to_a_file_elsewhere_is_refused_and_not_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    lay(tmp_path / "in", A, None, {"activemq.log": "".join(lines("2 started"))})
    (tmp_path / "secret").write_text("root alone\n")
    (tmp_path / "in" / A / "activemq.log.1").symlink_to("../../secret")
    with pytest.raises(InputError, match=r"activemq\.log\.1 leads out of the input directory"):
        audit(spark, str(tmp_path / "in"), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_an_audit_of_a_few_logs_is_few_jobs_of_spark(spark: SparkSession, logs: Path, tmp_path: Path) -> None:
    with temporary_settings(spark, {"spark.sql.shuffle.partitions": "200"}), counted_jobs(spark) as jobs:
        audit(spark, str(logs), str(tmp_path / "out"))

    # Files; events; journals; bridges, incidents; records in order, what reached whom, verdicts; lines of the chart.
    assert len(jobs) == 9
