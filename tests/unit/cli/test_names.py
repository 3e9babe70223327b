"""``activemq-fleet names``: the parts of host names, and proposed naming conventions."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.cli.main import main
from activemq_fleet.naming import Naming
from tests.conventions import PARITY, PUBLIC


def table_rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_names_command_shows_parts_of_host_name_and_their_origins(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["names", "orders-mq01-a.example.com"]) == 0
    heading, row = table_rows(capsys.readouterr().out)
    assert heading == ["host", "group", "number", "node", "pair", "role", "because"]
    assert row[:6] == ["orders-mq01-a.example.com", "orders", "01", "a", "orders-mq01", "master"]
    assert " ".join(row[6:]) == "group, pair, node from the host name"


def test_naming_convention_is_proposed_for_unrecognized_host_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["names", *PARITY.hosts]) == 1
    printed_text = capsys.readouterr().out
    assert "ffm1amq001.example.com: not a broker: the name does not match activemq_naming_pattern" in printed_text
    assert "With these variables set for all hosts, 4 names are recognized as nodes of pairs:" in printed_text
    assert "activemq_naming_parity: odd-even\n" in printed_text


def test_proposed_naming_convention_recognizes_host_names(capsys: pytest.CaptureFixture[str]) -> None:
    main(["names", *PARITY.hosts, "--format", "json"])
    proposal: dict[str, Any] = json.loads(capsys.readouterr().out)["proposal"]
    options = [
        f"--{name.removeprefix('activemq_').replace('_', '-')}={value}" for name, value in proposal["variables"].items()
    ]

    assert main(["names", *PARITY.hosts, *options, "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["proposal"] is None
    assert [row["pair"] for row in report["hosts"]] == [row["pair"] for row in proposal["hosts"]]
    assert report["hosts"][0]["origins"] == {"group": "name", "pair": "parity", "node": "parity"}


def test_proposed_naming_convention_recognizes_single_brokers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["names", "broker1", "broker2", "broker3"]) == 1
    assert (
        "With these variables set for all hosts, 3 names are recognized as single brokers:" in capsys.readouterr().out
    )

    main(["names", "broker1", "broker2", "broker3", "--format", "json"])
    variables: dict[str, Any] = json.loads(capsys.readouterr().out)["alone"]["variables"]
    options = [f"--naming-pattern={variables['activemq_naming_pattern']}", f"--node={variables['activemq_node']}"]
    assert main(["names", "broker1", "broker2", "broker3", *options]) == 0
    assert [row[4] for row in table_rows(capsys.readouterr().out)[1:]] == ["broker1", "broker2", "broker3"]


@pytest.mark.parametrize(
    "hosts", [["broker1"], ["activemq-prod"], ["10.0.0.1"], ["mq.a.com", "mq.b.com"], PARITY.hosts]
)
def test_output_of_names_command_ends_with_command_line_of_adopt(
    hosts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["names", *hosts]) == 1
    command = shlex.split(capsys.readouterr().out.splitlines()[-1])

    assert command[:2] == ["activemq-fleet", "adopt"]
    pattern = command[command.index("--naming-pattern") + 1]
    naming = Naming(pattern, stated={"node": "a"})
    assert all(naming.matches_pattern(host) for host in hosts)


def test_names_command_proposes_single_brokers_for_inventory_without_brokers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("all: {hosts: {alpha: , beta: }}\n")
    main(["names", "-i", str(inventory)])

    assert (
        "With these variables set for all hosts, 2 names are recognized as single brokers:" in capsys.readouterr().out
    )


def test_names_command_reads_inventory_with_its_variables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inventory = str(PUBLIC.write(tmp_path, release="6.3.1"))
    assert main(["names", "-i", inventory]) == 0
    printed_text = capsys.readouterr().out
    assert "group from activemq_group; pair from activemq_pair; node from activemq_node" in printed_text

    assert main(["names", "-i", inventory, PUBLIC.hosts[0], "-e", "activemq_node=standby"]) == 0
    assert table_rows(capsys.readouterr().out)[1][3:6] == ["standby", "edi-fra-mq1", "slave"]


def test_names_command_reports_contradicting_and_missing_parts_of_host_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hosts.ini").write_text("orders-mq01-a activemq_node=b\nhal1 activemq_node=a\n")
    assert main(["names", "-i", str(tmp_path)]) == 1
    printed_text = capsys.readouterr().out
    assert "the name contains a different node: a" in printed_text
    assert (
        "the group and pair of the broker are unknown, because the host name does not match activemq_naming_pattern"
        in printed_text
    )


def test_names_command_without_names_or_with_invalid_pattern_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["names"]) == 2
    assert main(["names", "x", "--naming-pattern", "("]) == 2
    assert "activemq_naming_pattern is not a valid regular expression" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "advice"),
    [
        (
            "ip-10-0-1-15 ip-10-0-2-16",
            "any known naming convention of pairs: set --naming-pattern. For a host whose name lacks",
        ),
        (
            "amq-p-001 amq-p-002 amq-t-001",
            "1 name is not recognized as nodes of pairs. For a host whose name lacks its group, pair or node, set",
        ),
        (
            "mq-eu-1 mq-eu-2 mq-us-1 mq-us-2",
            "also matches these names, but forms different pairs. To show those pairs, add",
        ),
    ],
)
def test_names_command_prints_advice_for_host_names_without_clear_convention(
    names: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["names", *names.split()]) == 1
    assert advice in capsys.readouterr().out


@pytest.mark.parametrize(
    ("names", "first", "second"),
    [
        ("mq1 mq2 mq3", "mq1, mq2, mq3 each as a single broker:", "mq1, mq2 as nodes of pairs:"),
        ("mq1 mq2", "mq1, mq2 as nodes of pairs:", "mq1, mq2 each as a single broker:"),
    ],
)
def test_names_command_prints_adopt_command_for_most_hosts_first(
    names: str, first: str, second: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["names", *names.split()])

    lines = capsys.readouterr().out.splitlines()
    labels = [line.removeprefix("To adopt ") for line in lines if line.startswith("To adopt ") and line.endswith(":")]
    assert labels == [first, second]


@pytest.mark.parametrize("hosts", [PARITY.hosts, ("prod-alpha", "prod-beta"), ("orders-mq01-a", "orders-mq01-b")])
def test_names_command_prints_table_without_empty_columns(
    capsys: pytest.CaptureFixture[str], hosts: tuple[str, ...]
) -> None:
    main(["names", *hosts])
    blocks = capsys.readouterr().out.split("\n\n")
    (lines,) = (block.splitlines() for block in blocks if block.startswith("host "))
    starts = [match.start() for match in re.finditer(r"\S+", lines[0])]

    assert len(lines) == len(hosts) + 1
    assert lines[0].split()[-1] == "because"
    for begin, end in itertools.pairwise([*starts, None]):
        assert [line for line in lines[1:] if not line[begin:end].strip()] != lines[1:], lines[0][begin:end]
    assert all(" from " in line[starts[-1] :] for line in lines[1:])


def test_naming_pattern_option_overrides_different_values_of_hosts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    patterns = {"a1": r"(?P<group>\w)(?P<node>1)", "a2": r"(?P<group>\w)(?P<node>2)"}
    path = tmp_path / "hosts.yml"
    path.write_text(
        json.dumps({"all": {"hosts": {host: {"activemq_naming_pattern": text} for host, text in patterns.items()}}})
    )

    assert main(["names", "-i", str(path)]) == 2
    assert "has different values on different hosts" in capsys.readouterr().err
    assert main(["names", "-i", str(path), "--naming-pattern", r"(?P<group>[a-z])(?P<node>[12])"]) == 0
    assert [row[:4] for row in table_rows(capsys.readouterr().out)[1:]] == [
        ["a1", "a", "1", "a"],
        ["a2", "a", "2", "a"],
    ]
