"""``help``: usage of commands, pages of the documentation, and references in messages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from activemq_fleet import documentation_links
from activemq_fleet.cli.help_pages import help_page_names, read_help_page, replace_page_links_and_remove_pictures
from activemq_fleet.cli.main import COMMANDS, main
from activemq_fleet.render.monitoring.alerts import ALERTS
from activemq_fleet.render.monitoring.prometheus import alert_and_recording_rules_yaml

ROOT = Path(__file__).resolve().parents[3]
_REFERENCE = re.compile(r"activemq-fleet help (?:activemq-fleet )?([a-z-]+)(?: ([A-Z][a-z]+(?: [a-z]+)*))?")


def test_help_lists_every_command_and_topic(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    help_text = capsys.readouterr().out
    assert all(
        re.search(rf"^  {re.escape(name)} ", help_text, re.MULTILINE) for name in (*COMMANDS, *help_page_names())
    )


def test_help_of_subcommand_is_its_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "lab", "up"]) == 0
    assert capsys.readouterr().out.startswith("Usage: activemq-fleet lab up ")


def test_help_of_command_with_page_prints_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "status"]) == 0
    help_text = capsys.readouterr().out
    assert help_text.startswith("Usage: activemq-fleet status ")
    assert "\n# " in help_text


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["alerts", "ActiveMQBrokerHung"], "## ActiveMQBrokerHung"),
        (["status", "frozen"], "a signal stopped the process"),
        (["command-line", "exit", "codes"], "| 2 | Wrong usage, such as an option that has no effect"),
    ],
)
def test_help_prints_requested_section_of_page(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", *words]) == 0
    help_text = capsys.readouterr().out
    assert text in help_text
    assert len(help_text.splitlines()) < 40


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["chekc"], "no command or topic has the name chekc: did you mean check?"),
        (["lab", "upp"], "lab has no subcommand upp: `activemq-fleet help lab` lists them"),
        (
            ["rule", "N003"],
            "`rule` has no subcommands: `activemq-fleet help rule` shows its arguments. To run it, write",
        ),
        (["alerts", "ActiveMQBrokerHang"], "has no section ActiveMQBrokerHang: did you mean 'ActiveMQBrokerHung'?"),
    ],
)
def test_help_for_unknown_topic_prints_suggestion(
    words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["help", *words]) == 2
    assert reason in capsys.readouterr().err


PLAYBOOKS = [path.stem for path in sorted((ROOT / "playbooks").glob("*.yml"))]


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_help_of_playbook_prints_text_about_it(playbook: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", playbook]) == 0
    assert playbook in capsys.readouterr().out.lower()


def test_help_of_rollback_prints_its_section(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "rollback"]) == 0
    assert capsys.readouterr().out.startswith("### Roll back a release")


@pytest.mark.parametrize("name", help_page_names())
def test_help_page_links_only_to_urls(name: str) -> None:
    targets = re.findall(r"\]\(([^)\s]*)\)", replace_page_links_and_remove_pictures(read_help_page(name).text))
    assert [target for target in targets if "://" not in target] == []


@pytest.mark.parametrize("alert", [alert.name for alert in ALERTS])
def test_every_prometheus_alert_names_help_command_that_prints_its_section(
    alert: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (rule,) = (
        r for r in yaml.safe_load(alert_and_recording_rules_yaml(None))["groups"][0]["rules"] if r.get("alert") == alert
    )
    assert "runbook_url" not in rule["annotations"]
    program, *words = rule["annotations"]["runbook"].split()
    assert program == "activemq-fleet"
    assert main(words) == 0
    assert f"## {alert}" in capsys.readouterr().out


def test_prometheus_alerts_link_to_documentation_site_if_it_has_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documentation_links, "SITE", "https://docs.example.com")
    rules = yaml.safe_load(alert_and_recording_rules_yaml(None))["groups"][0]["rules"]
    addresses = [rule["annotations"]["runbook_url"] for rule in rules if "alert" in rule]
    assert addresses == [f"https://docs.example.com/alerts.html#{alert.documentation_anchor}" for alert in ALERTS]


def test_every_help_topic_that_messages_name_has_page() -> None:
    topics = [
        match.groups()
        for directory in ("src", "plugins", "roles", "playbooks", "templates")
        for path in (ROOT / directory).rglob("*")
        if path.suffix in (".py", ".toml", ".yml", ".j2")
        for match in _REFERENCE.finditer(" ".join(path.read_text("utf-8").split()))
    ]
    assert len(topics) > 5
    for topic, section in topics:
        assert topic in (*help_page_names(), *COMMANDS), topic
        assert not section or read_help_page(topic).find_section(section)


def test_no_message_names_documentation_file_of_checkout() -> None:
    """No message refers to a file of the documentation, except comments and docstrings: their readers have a checkout.

    For rules, the command ``rule`` replaces the page.
    """
    messages = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for directory in ("src/activemq_fleet", "plugins", "roles", "templates")
        for path in (ROOT / directory).rglob("*")
        if path.suffix in (".py", ".toml", ".yml", ".j2") and path.is_file()
        for line in path.read_text("utf-8").splitlines()
        if re.search(r"""["'].*\bdocs/[a-z-]+\.md.*["']|C\(docs/""", line)
        and not line.lstrip().startswith(("#", '"""'))
    ]
    assert messages == []
