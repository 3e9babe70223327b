"""``activemq-fleet names``: how names are read, and what convention is proposed."""

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


def table(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_a_name_is_shown_with_its_parts_and_what_decided_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["names", "orders-mq01-a.example.com"]) == 0
    heading, row = table(capsys.readouterr().out)
    assert heading == ["host", "group", "number", "node", "pair", "role", "because"]
    assert row[:6] == ["orders-mq01-a.example.com", "orders", "01", "a", "orders-mq01", "master"]
    assert " ".join(row[6:]) == "group, pair, node from the host name"


def test_a_convention_is_proposed_for_names_that_are_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["names", *PARITY.hosts]) == 1
    text = capsys.readouterr().out
    assert "ffm1amq001.example.com: not a broker: the name does not match activemq_naming_pattern" in text
    assert "With these variables set for all hosts, 4 names are recognized as nodes of pairs:" in text
    assert "activemq_naming_parity: odd-even\n" in text


def test_a_proposal_reads_the_names_when_it_is_given_back(capsys: pytest.CaptureFixture[str]) -> None:
    main(["names", *PARITY.hosts, "--format", "json"])
    proposal: dict[str, Any] = json.loads(capsys.readouterr().out)["proposal"]
    options = [
        f"--{name.removeprefix('activemq_').replace('_', '-')}={value}" for name, value in proposal["variables"].items()
    ]

    assert main(["names", *PARITY.hosts, *options, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["proposal"] is None
    assert [row["pair"] for row in found["hosts"]] == [row["pair"] for row in proposal["hosts"]]
    assert found["hosts"][0]["origins"] == {"group": "name", "pair": "parity", "node": "parity"}


def test_names_of_brokers_that_stand_alone_are_read_as_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["names", "broker1", "broker2", "broker3"]) == 1
    assert (
        "With these variables set for all hosts, 3 names are recognized as single brokers:" in capsys.readouterr().out
    )

    main(["names", "broker1", "broker2", "broker3", "--format", "json"])
    alone: dict[str, Any] = json.loads(capsys.readouterr().out)["alone"]["variables"]
    options = [f"--naming-pattern={alone['activemq_naming_pattern']}", f"--node={alone['activemq_node']}"]
    assert main(["names", "broker1", "broker2", "broker3", *options]) == 0
    assert [row[4] for row in table(capsys.readouterr().out)[1:]] == ["broker1", "broker2", "broker3"]


@pytest.mark.parametrize(
    "hosts", [["broker1"], ["activemq-prod"], ["10.0.0.1"], ["mq.a.com", "mq.b.com"], PARITY.hosts]
)
def test_output_ends_with_a_command_line_of_adopt(hosts: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["names", *hosts]) == 1
    command = shlex.split(capsys.readouterr().out.splitlines()[-1])

    assert command[:2] == ["activemq-fleet", "adopt"]
    pattern = command[command.index("--naming-pattern") + 1]
    naming = Naming(pattern, stated={"node": "a"})
    assert all(naming.matches_pattern(host) for host in hosts)


def test_inventory_without_any_broker_gets_a_convention_for_single_brokers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("all: {hosts: {alpha: , beta: }}\n")
    main(["names", "-i", str(inventory)])

    assert (
        "With these variables set for all hosts, 2 names are recognized as single brokers:" in capsys.readouterr().out
    )


def test_an_inventory_is_read_with_its_variables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inventory = str(PUBLIC.write(tmp_path, release="6.3.1"))
    assert main(["names", "-i", inventory]) == 0
    text = capsys.readouterr().out
    assert "group from activemq_group; pair from activemq_pair; node from activemq_node" in text

    assert main(["names", "-i", inventory, PUBLIC.hosts[0], "-e", "activemq_node=standby"]) == 0
    assert table(capsys.readouterr().out)[1][3:6] == ["standby", "edi-fra-mq1", "slave"]


def test_a_difference_and_a_missing_part_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hosts.ini").write_text("orders-mq01-a activemq_node=b\nhal1 activemq_node=a\n")
    assert main(["names", "-i", str(tmp_path)]) == 1
    text = capsys.readouterr().out
    assert "the name contains a different node: a" in text
    assert (
        "the group and pair of the broker are unknown, because the host name does not match activemq_naming_pattern"
        in text
    )


def test_nothing_to_read_and_a_pattern_that_is_none_are_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["names"]) == 2
    assert main(["names", "x", "--naming-pattern", "("]) == 2
    assert "activemq_naming_pattern is not a valid regular expression" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "said"),
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
def test_what_no_convention_decides_is_one_sentence_with_what_to_do(
    names: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["names", *names.split()]) == 1
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("names", "first", "second"),
    [
        ("mq1 mq2 mq3", "mq1, mq2, mq3 each as a single broker:", "mq1, mq2 as nodes of pairs:"),
        ("mq1 mq2", "mq1, mq2 as nodes of pairs:", "mq1, mq2 each as a single broker:"),
    ],
)
def test_each_command_line_of_adopt_is_labeled_and_the_one_with_most_hosts_is_first(
    names: str, first: str, second: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["names", *names.split()])

    lines = capsys.readouterr().out.splitlines()
    labels = [line.removeprefix("To adopt ") for line in lines if line.startswith("To adopt ") and line.endswith(":")]
    assert labels == [first, second]


@pytest.mark.parametrize("hosts", [PARITY.hosts, ("prod-alpha", "prod-beta"), ("orders-mq01-a", "orders-mq01-b")])
def test_no_table_of_names_has_an_empty_column(capsys: pytest.CaptureFixture[str], hosts: tuple[str, ...]) -> None:
    main(["names", *hosts])
    blocks = capsys.readouterr().out.split("\n\n")
    (lines,) = (block.splitlines() for block in blocks if block.startswith("host "))
    starts = [match.start() for match in re.finditer(r"\S+", lines[0])]

    assert len(lines) == len(hosts) + 1
    assert lines[0].split()[-1] == "because"
    for begin, end in itertools.pairwise([*starts, None]):
        assert [line for line in lines[1:] if not line[begin:end].strip()] != lines[1:], lines[0][begin:end]
    assert all(" from " in line[starts[-1] :] for line in lines[1:])
