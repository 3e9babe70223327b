"""``plan`` writes the same rows as the core computes for the complete fleet, initially and after each change."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import write_csv
from pyspark.sql import SparkSession

from activemq_fleet.errors import FleetError
from activemq_fleet.inventory import read_inventory
from activemq_fleet.spark.earlier_plan import reusable_plan_path
from activemq_fleet.spark.plan_inputs import host_records_of_inventory, read_hosts
from activemq_fleet.spark.plan_job import PlanJobOptions, PlanResult, plan
from tests.conventions import DRILLED, Convention
from tests.pipeline.job_counts import counted_jobs
from tests.unit.planning.planned import (
    AGENT,
    BASE,
    VIP,
    Groups,
    Hosts,
    Rows,
    hosts_of_connected_groups,
    inventory_json_lines,
    pairs,
    sorted_rows,
    whole_fleet_and_rows,
)

EDITINGS = int(os.environ.get("PLAN_EDITINGS", "1"))
# With so few rows, the compilation of plans takes longer than their execution.
SMALL_DATA_SETTINGS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.adaptive.enabled": "false"}


@pytest.fixture(autouse=True, scope="module")
def spark_settings_for_small_data(spark: SparkSession) -> Iterator[None]:
    settings_before = {name: spark.conf.get(name, None) for name in SMALL_DATA_SETTINGS}
    for name, value in SMALL_DATA_SETTINGS.items():
        spark.conf.set(name, value)
    yield
    for name, earlier_value in settings_before.items():
        if earlier_value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, earlier_value)


@pytest.fixture(scope="module")
def work_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plan")


def run_plan(
    spark: SparkSession, work_directory: Path, hosts: Hosts, groups: Groups, out: str = "out", **options: Any
) -> PlanResult:
    """Run a plan that writes to ``out``, with the existing output as earlier plan."""
    (work_directory / "hosts.jsonl").write_text(inventory_json_lines(hosts, groups))
    output_directory = str(work_directory / out)
    source = read_hosts(spark, str(work_directory / "hosts.jsonl"))
    options.setdefault("since", reusable_plan_path(spark, output_directory, None))
    return plan(
        spark, source, output_directory, PlanJobOptions(**options), report_progress=lambda _: None, warn=lambda _: None
    )


def dataset_rows(output_directory: Path, name: str) -> list[dict[str, Any]]:
    table_rows: list[dict[str, Any]] = pq.read_table(output_directory / name).to_pylist()
    return [row | {"ports": dict(row["ports"])} if "ports" in row else row for row in table_rows]


def assert_same_rows(output_directory: Path, expected_rows: Rows, blocking: set[str]) -> None:
    """Assert that all rows are those of the complete fleet, without files of components with a blocking finding."""
    for name in ("brokers", "links", "findings"):
        assert sorted_rows(dataset_rows(output_directory, name)) == sorted_rows(expected_rows[name]), name
    members = {row["host"]: row["component"] for row in dataset_rows(output_directory, "components")}
    refused = {members[host] for host in blocking}
    group = {row["group"]: members[row["host"]] for row in expected_rows["brokers"]}
    components = [
        members[row["host"]] if row["host"] else group[row["path"].split("/")[1]] for row in expected_rows["files"]
    ]
    expected = [
        row for row, component in zip(expected_rows["files"], components, strict=True) if component not in refused
    ]
    assert sorted_rows(dataset_rows(output_directory, "files")) == sorted_rows(expected)


def assert_plan_is_complete(output_directory: Path, hosts: Hosts, groups: Groups, result: PlanResult) -> None:
    fleet, expected_rows = whole_fleet_and_rows(hosts, groups)
    assert_same_rows(output_directory, expected_rows, {finding.host for finding in fleet.blocking_findings})
    assert result.blocking == len(fleet.blocking_findings)


def test_plan_of_connected_fleet_and_of_changes_equals_complete_plan(spark: SparkSession, work_directory: Path) -> None:
    hosts, groups = hosts_of_connected_groups()
    assert_plan_is_complete(work_directory / "out", hosts, groups, run_plan(spark, work_directory, hosts, groups))
    components = {row["component"] for row in dataset_rows(work_directory / "out", "components")}
    assert len(components) > 8  # unconnected pairs are planned separately

    del hosts["clash-mq01-a.example.com"], hosts["clash-mq01-b.example.com"]  # the pair with the same name is valid now
    hosts |= pairs("nroth-mq01")  # the target of a link exists now
    for node in "ab":
        del hosts[f"east-mq01-{node}.example.com"]["activemq_links"][2]  # this network has no error now
        hosts[f"pure-mq01-{node}.example.com"]["activemq_heap"] = "1g"
    hosts["sharing-mq01-a.example.com"]["activemq_store_directory"] = "/srv/own"
    hosts["wrong-mq01-b.example.com"]["activemq_users"] = [{"name": "new", "password": "long enough"}]
    files_before = {(row["host"], row["path"]): row["sha256"] for row in dataset_rows(work_directory / "out", "files")}
    assert_plan_is_complete(work_directory / "out", hosts, groups, run_plan(spark, work_directory, hosts, groups))

    files_after = {(row["host"], row["path"]): row["sha256"] for row in dataset_rows(work_directory / "out", "files")}
    operations = {(row["host"], row["path"]): row["op"] for row in dataset_rows(work_directory / "out", "changes")}
    assert operations == changes(files_before, files_after)
    assert set(operations.values()) == {"added", "removed", "changed"}


def test_plan_runs_two_spark_jobs(spark: SparkSession, work_directory: Path) -> None:
    with counted_jobs(spark) as jobs:
        run_plan(
            spark, work_directory, pairs("a-mq01", links=[{"from": "a", "to": "b"}]) | pairs("b-mq01"), {}, out="few"
        )

    # The facts, and all rows, which tasks write.
    assert len(jobs) == 2


@pytest.mark.parametrize("convention", DRILLED, ids=lambda convention: convention.name)
def test_plan_with_other_naming_convention_equals_complete_plan(
    spark: SparkSession, work_directory: Path, convention: Convention
) -> None:
    hosts = {host: {**BASE, **variables} for host, variables in convention.variables_by_host().items()}
    hosts["hal1"] = {**BASE, **convention.variables, "activemq_node": "a"}  # no variable sets its group and its pair
    plan_result = run_plan(spark, work_directory, hosts, {}, out=convention.name)

    assert_plan_is_complete(work_directory / convention.name, hosts, {}, plan_result)
    assert {row["pair"] for row in dataset_rows(work_directory / convention.name, "brokers")} == set(convention.pairs)
    (unclear,) = [row for row in dataset_rows(work_directory / convention.name, "findings") if row["rule"] == "T001"]
    assert unclear["host"] == "hal1"


def test_naming_pattern_of_single_host_applies_to_all_hosts(spark: SparkSession, work_directory: Path) -> None:
    hosts = {f"b{number}{node}": dict(BASE) for number in (1, 2) for node in "ab"}
    hosts["b2b"]["activemq_naming_pattern"] = r"^(?P<group>b)(?P<number>\d)(?P<node>[ab])"

    assert_plan_is_complete(
        work_directory / "pattern", hosts, {}, run_plan(spark, work_directory, hosts, {}, out="pattern")
    )

    assert len(dataset_rows(work_directory / "pattern", "brokers")) == len(hosts)


def test_plan_reads_hosts_from_every_file_format_with_wildcards_in_name(
    spark: SparkSession, work_directory: Path
) -> None:
    hosts, groups = hosts_of_connected_groups()
    records = [json.loads(line) for line in inventory_json_lines(hosts, groups).splitlines()]
    table = pa.table({"host": [*hosts], "variables": [json.dumps(record["variables"]) for record in records]})
    table = table.append_column("groups", pa.array([",".join(record["groups"]) for record in records]))
    pq.write_table(table, work_directory / "hosts[1]*.parquet")
    write_csv(table, work_directory / "hosts[1]*.csv")
    variables = {record["host"]: record["variables"] for record in records}
    listing = {"_meta": {"hostvars": variables}, **{name: {"hosts": members} for name, members in groups.items()}}
    (work_directory / "hosts[1]*.json").write_text(json.dumps(listing))

    for name in ("hosts[1]*.parquet", "hosts[1]*.csv", "hosts[1]*.json"):
        output_directory = work_directory / name.replace(".", "_")
        source = read_hosts(spark, str(work_directory / name))
        plan_result = plan(
            spark, source, str(output_directory), PlanJobOptions(), report_progress=lambda _: None, warn=lambda _: None
        )
        assert_plan_is_complete(output_directory, hosts, groups, plan_result)


def test_plan_of_inventory_and_of_its_list_equals_rendered_fleet(spark: SparkSession, work_directory: Path) -> None:
    hosts = {**pairs("orders-mq01", vip=VIP["activemq_vip"]), **{name: {**VIP, **AGENT} for name in ("lb1", "lb2")}}
    groups = {
        "activemq_agents": {"hosts": {"lb1": {}, "lb2": {}}},
        "activemq_loadbalancers": {"children": {"site_b": {"hosts": {"lb2": {}}}, "site_a": {"hosts": {"lb1": {}}}}},
    }
    inventory, listing = work_directory / "inventory.json", work_directory / "list.json"
    inventory.write_text(json.dumps({"all": {"hosts": hosts, "children": groups}}))
    program = Path(sys.executable).with_name("ansible-inventory")
    with listing.open("wb") as output:
        subprocess.run([program, "-i", inventory, "--list"], stdout=output, check=True)
    data = read_inventory([str(inventory)])
    assert data.groups["activemq_loadbalancers"] == ["lb2", "lb1"]

    sources = {"i": host_records_of_inventory(spark, data), "list": read_hosts(spark, str(listing))}
    for name, source in sources.items():
        out = work_directory / f"of-{name}"
        result = plan(spark, source, str(out), PlanJobOptions(), report_progress=lambda _: None, warn=lambda _: None)
        assert not result.blocking
        assert_plan_is_complete(out, data.hosts, data.groups, result)


@pytest.mark.parametrize("column", ["note", "my\nnote", 'my ""best""\nnote'])
def test_column_name_with_line_break_in_csv_keeps_later_columns(
    spark: SparkSession, work_directory: Path, column: str
) -> None:
    path = work_directory / "line-break.csv"
    path.write_text(f'\nhost,"{column}",variables\nx-mq01-a,"a\nb","{{""a"": 1}}"\n')
    records = [json.loads(row["text"]) for row in read_hosts(spark, str(path)).frame.collect()]
    assert records == [{"host": "x-mq01-a", column.replace('""', '"'): "a\nb", "variables": '{"a": 1}'}]


def test_plan_refuses_unpaired_surrogate_in_host_name(spark: SparkSession, work_directory: Path) -> None:
    (work_directory / "half.jsonl").write_text('{"host": "x-mq01-a\\ud800"}\n{"host": "\\ud800-mq01-a"}\n')

    with pytest.raises(FleetError, match="cannot be the name of a host"):
        plan(
            spark,
            read_hosts(spark, str(work_directory / "half.jsonl")),
            str(work_directory / "half"),
            PlanJobOptions(),
            report_progress=lambda _: None,
            warn=lambda _: None,
        )


def changes(before: dict[Any, str], after: dict[Any, str]) -> dict[Any, str]:
    operations = {}
    for key in before.keys() | after.keys():
        if before.get(key) != after.get(key):
            operations[key] = "added" if key not in before else "removed" if key not in after else "changed"
    return operations


def test_plan_after_random_edits_equals_complete_plan(spark: SparkSession, work_directory: Path) -> None:
    dice = random.Random(7)
    hosts: Hosts = {}
    for number in range(8):
        hosts |= pairs(f"g{number}-mq01", f"g{number}-mq02", topology=dice.choice(["mesh", "ring", "none"]))
    run_plan(spark, work_directory, hosts, {}, out="edited")
    for _ in range(EDITINGS):
        for _ in range(dice.randint(2, 5)):
            apply_random_edit(dice, hosts)
        assert_plan_is_complete(
            work_directory / "edited", hosts, {}, run_plan(spark, work_directory, hosts, {}, out="edited")
        )


def apply_random_edit(dice: random.Random, hosts: Hosts) -> None:
    """Apply a random change to the hosts."""
    groups = sorted({host.partition("-")[0] for host in hosts})
    group = dice.choice(groups)
    group_hosts = [host for host in hosts if host.startswith(f"{group}-")]
    kind = dice.choice(["remove", "link", "variable", "add", "waive"])
    if kind == "remove" and len(groups) > 4:
        for host in group_hosts:
            del hosts[host]
    elif kind == "link":
        for host in group_hosts:
            hosts[host]["activemq_links"] = [{"from": group, "to": dice.choice(groups)}]
    elif kind == "variable":
        for host in group_hosts:
            hosts[host]["activemq_heap"] = dice.choice(["1g", "2g"])
    elif kind == "add":
        hosts.update(pairs(f"n{dice.randint(0, 99)}-mq01"))
    else:
        hosts[group_hosts[0]]["activemq_waivers"] = [
            {"rule": "S002", "reason": f"{dice.randint(0, 9)}", "hosts": [f"{group}*"]}
        ]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"activemq_port_ofset": 3}, "a-mq01-a.example.com: activemq_port_ofset is not a variable of activemq.fleet"),
        (
            {"activemq_console": "perhaps"},
            "a-mq01-a.example.com: activemq_console must be true or false, not 'perhaps'",
        ),
        ({"activemq_release": "5.2"}, "a-mq01-a.example.com: in activemq_release, "),
    ],
)
def test_plan_refuses_invalid_variable_and_writes_nothing(
    spark: SparkSession, work_directory: Path, change: dict[str, Any], text: str
) -> None:
    hosts = pairs("a-mq01")
    hosts["a-mq01-a.example.com"].update(change)

    with pytest.raises(FleetError) as error:
        run_plan(spark, work_directory, hosts, {}, out="wrong", since=None)

    assert str(error.value).startswith(text)
    assert not (work_directory / "wrong").exists()
