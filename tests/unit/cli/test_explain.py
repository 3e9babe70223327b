"""``explain``: output, formats, and the error for an unknown host."""

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


def test_explain_prints_page_without_colors_or_secrets_in_pipe(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "-i", str(inventory), "a-mq01-a"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("a-mq01-a.example.com: preferred master of pair a-mq01 in group a, ActiveMQ\n")
    assert "\x1b" not in output
    assert "s3cret" not in output


def test_explain_wraps_at_80_columns_in_narrow_terminal(
    inventory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    main(["explain", "-i", str(inventory), "a-mq01-a"])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80 and " " in line.strip()] == []


def test_json_output_of_explain_contains_host_and_its_kinds(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "-i", str(inventory), "a-mq01-b", "--format", "json"]) == 0
    explanation = json.loads(capsys.readouterr().out)
    assert (explanation["host"], explanation["kinds"]) == ("a-mq01-b.example.com", ["broker"])


def test_explain_with_option_to_shows_route_of_message(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "-i", str(inventory), "a-mq01-a", "--to", "a-mq01-b", "--format", "json"]) == 0
    route = json.loads(capsys.readouterr().out)
    assert route["title"] == "a-mq01-a.example.com to a-mq01-b.example.com: reaches"


def test_explain_refuses_option_destination_without_to(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "-i", str(inventory), "a-mq01-a", "--destination", "orders"]) == 2
    assert "--destination requires --to" in capsys.readouterr().err


def test_explain_shows_findings_of_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(
        "all: {hosts: {a-mq01-a.example.com: , a-mq01-b.example.com: },\n"
        "      vars: {activemq_release: 5.18.3, activemq_network_username: net, activemq_network_password: s3cret,\n"
        "             activemq_broker_attributes: {deleteAllMessagesOnStartup: true}}}\n"
    )
    assert main(["explain", "-i", str(path), "a-mq01-a"]) == 0
    assert "error L020" in capsys.readouterr().out


def test_explain_of_unknown_host_is_single_error_line_with_suggestion(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "-i", str(inventory), "a-mq1-a"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == (
        "activemq-fleet: error: host a-mq1-a is not a broker, agent or load balancer of this inventory: "
        "did you mean a-mq01-a.example.com?\n"
    )
