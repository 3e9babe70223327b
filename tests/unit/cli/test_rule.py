"""``rule``: the explanation of each rule, and the list of all rules."""

from __future__ import annotations

import json
import re

import pytest

from activemq_fleet.cli.main import main
from activemq_fleet.lint import rules_of_scope
from activemq_fleet.topology.inventory_rules import inventory_rules
from activemq_fleet.validation import lint_and_inventory_rules_by_id


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["rule", *arguments]) == 0
    return capsys.readouterr().out


def test_rule_command_explains_rule_with_every_part_and_both_examples(capsys: pytest.CaptureFixture[str]) -> None:
    rule = lint_and_inventory_rules_by_id()["N003"]
    explanation = output_of(capsys, "n003")
    assert " ".join(explanation.split()).startswith(f"N003 warning {rule.title} ")
    for label in (
        "Releases: before 5.6.0",
        "Why: ",
        "Fix: ",
        "Source: ",
        "Example that N003 reports on 5.5.1:",
        "Example that N003 does not report on 5.5.1:",
    ):
        assert f"\n{label}" in explanation
    assert "maxReconnectAttempts=0" in explanation.partition(" reports on")[2].partition(" does not report on")[0]


def test_rule_command_explains_topology_rule_with_severity_and_fix(capsys: pytest.CaptureFixture[str]) -> None:
    explanation = output_of(capsys, "T016")
    assert explanation.startswith(f"T016  warning\n{lint_and_inventory_rules_by_id()['T016'].title}\n")
    assert f"\nFix: {lint_and_inventory_rules_by_id()['T016'].fix}\n" in explanation


@pytest.mark.parametrize("rule", sorted(lint_and_inventory_rules_by_id()))
def test_explanation_of_rule_names_no_documentation_file_of_checkout(
    rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    explanation = output_of(capsys, rule)
    assert not re.search(r"docs/|\]\(", explanation)
    assert "\nWhy: " in explanation
    assert "\nFix: " in explanation


def test_rule_command_without_id_lists_every_rule_once(capsys: pytest.CaptureFixture[str]) -> None:
    rule_ids = re.findall(r"^([A-Z]\d{3})  (?:error|warning|info) ", output_of(capsys), re.MULTILINE)
    assert rule_ids == [*(rule.id for rule in rules_of_scope()), "T000", *(rule.id for rule in inventory_rules())]


def test_rule_command_with_letter_lists_only_rules_of_its_family(capsys: pytest.CaptureFixture[str]) -> None:
    families = re.findall(r"^([A-Z])\d{3}  ", output_of(capsys, "m"), re.MULTILINE)
    assert families
    assert set(families) == {"M"}


def test_json_output_of_rule_command_contains_examples(capsys: pytest.CaptureFixture[str]) -> None:
    (rule,) = json.loads(output_of(capsys, "N003", "--format", "json"))
    assert (rule["severity"], rule["releases"]) == ("warning", "before 5.6.0")
    assert rule["fires"][0]["release"] == "5.5.1"
    assert rule["fires"][0]["text"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [("NO03", "no rule has the id NO03: did you mean N003?"), ("frozen", "no rule has the id frozen: ")],
)
def test_rule_command_suggests_id_for_unknown_id(text: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", text]) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.endswith("`activemq-fleet rule` lists all rules\n")
