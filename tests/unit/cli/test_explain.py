"""explain: what it prints, in which form, and how it ends for a host that nobody knows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from activemq_fleet.cli.main import main


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.yml"
    path.write_text(
        "all: {hosts: {a-mq01-a.example.com: , a-mq01-b.example.com: },\n"
        "      vars: {activemq_release: 5.18.3, activemq_network_username: net, activemq_network_password: s3cret}}\n"
    )
    return path


def test_it_prints_the_page_without_colours_where_there_is_no_terminal(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "-i", str(inventory), "a-mq01-a"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("a-mq01-a.example.com: preferred master of pair a-mq01 in group a, ActiveMQ\n")
    assert "\x1b" not in told
    assert "s3cret" not in told


def test_it_is_not_wider_than_a_narrow_terminal(
    inventory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    main(["explain", "-i", str(inventory), "a-mq01-a"])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80 and " " in line.strip()] == []


def test_json_is_for_programs(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "-i", str(inventory), "a-mq01-b", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["host"], told["kinds"]) == ("a-mq01-b.example.com", ["broker"])


def test_with_to_it_tells_the_way_of_a_message(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "-i", str(inventory), "a-mq01-a", "--to", "a-mq01-b", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["title"] == "a-mq01-a.example.com to a-mq01-b.example.com: reaches"


def test_a_destination_alone_is_refused(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "-i", str(inventory), "a-mq01-a", "--destination", "orders"]) == 2
    assert "--destination requires --to" in capsys.readouterr().err


def test_findings_of_rules_are_on_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(
        "all: {hosts: {a-mq01-a.example.com: , a-mq01-b.example.com: },\n"
        "      vars: {activemq_release: 5.18.3, activemq_network_username: net, activemq_network_password: s3cret,\n"
        "             activemq_broker_attributes: {deleteAllMessagesOnStartup: true}}}\n"
    )
    assert main(["explain", "-i", str(path), "a-mq01-a"]) == 0
    assert "error L020" in capsys.readouterr().out


def test_an_unknown_host_is_one_line_with_a_suggestion(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "-i", str(inventory), "a-mq1-a"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        "activemq-fleet: error: host a-mq1-a is not a broker, agent or load balancer of this inventory: "
        "did you mean a-mq01-a.example.com?\n"
    )
