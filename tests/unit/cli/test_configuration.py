"""Settings of a project: the inventory of ansible.cfg, and activemq-fleet.toml or pyproject.toml for ``check``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.cli import warnings_and_schemas as shared
from activemq_fleet.cli.main import main
from activemq_fleet.schema import SchemaProblem
from tests.hostile_files import document

LINK = '<networkConnectors><networkConnector uri="masterslave:(tcp://a:61616)"/></networkConnectors>'
HOSTS = "all: {hosts: {orders-mq01-a: , orders-mq01-b: }, vars: {activemq_release: 6.3.1}}\n"


class AcceptingSchema:
    def find_problems(self, document: bytes) -> tuple[SchemaProblem, ...]:
        return ()


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the directory of a project, and make it the working directory."""
    monkeypatch.setattr(shared, "load_schema", lambda release, **options: AcceptingSchema())
    for name in ("ANSIBLE_INVENTORY", "ANSIBLE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    directory = tmp_path / "project"
    (directory / "conf").mkdir(parents=True)
    (directory / "conf" / "activemq.xml").write_bytes(document(LINK))
    monkeypatch.chdir(directory)
    return directory


def unwaived_findings(capsys: pytest.CaptureFixture[str], *words: str, code: int = 1) -> list[dict[str, Any]]:
    """Return the findings of ``check`` that are not waived."""
    assert main(["check", "--format", "json", "--file", "conf/activemq.xml", *words]) == code
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return [finding for finding in report["findings"] if finding["waived"] is None]


def rule_ids_of(findings: list[dict[str, Any]]) -> set[str]:
    return {finding["rule"] for finding in findings}


@pytest.mark.parametrize("source", ["environment", "ansible.cfg"])
def test_commands_read_inventory_configured_for_ansible(
    source: str, project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "hosts.yml").write_text(HOSTS)
    if source == "environment":
        monkeypatch.setenv("ANSIBLE_INVENTORY", "hosts.yml")
    else:
        (project / "ansible.cfg").write_text("[defaults]\ninventory = hosts.yml\n")
    assert main(["explain", "orders-mq01-a"]) == 0
    assert main(["names"]) == 0
    assert "orders-mq01-b" in capsys.readouterr().out


def test_inventory_option_overrides_configured_inventory(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "hosts.yml").write_text(HOSTS)
    monkeypatch.setenv("ANSIBLE_INVENTORY", str(project / "nowhere.yml"))
    assert main(["explain", "orders-mq01-a", "-i", "hosts.yml"]) == 0
    capsys.readouterr()
    assert main(["explain", "orders-mq01-a"]) == 2
    assert "nowhere.yml: this inventory file or directory does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["explain", "a"], ["render", "-o", "out"], ["graph", "-o", "f.svg"], ["lab", "up"]])
def test_command_without_inventory_explains_how_to_set_it(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert (
        "Missing option '-i': set an inventory with -i, with the environment variable ANSIBLE_INVENTORY"
        in capsys.readouterr().err
    )


def test_check_of_files_ignores_configured_inventory(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSIBLE_INVENTORY", "/nowhere")
    assert "N001" in rule_ids_of(unwaived_findings(capsys, "--release", "5.18.3"))


FILES = {
    "activemq-fleet.toml": "",
    "pyproject.toml": "[tool.activemq-fleet]\n",
}


@pytest.mark.parametrize(("name", "head"), FILES.items(), ids=FILES)
@pytest.mark.parametrize("place", ["project", "parent"])
def test_check_uses_settings_file_of_project_or_its_parent_directory(
    name: str, head: str, place: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = project if place == "project" else project.parent
    (directory / name).write_text(f'{head}select = ["N"]\nignore = ["N019"]\nreleases = {{"conf/*.xml" = "5.18.3"}}\n')
    rule_ids = rule_ids_of(unwaived_findings(capsys))
    assert "N001" in rule_ids
    assert {rule[0] for rule in rule_ids} == {"N"}
    assert "N019" not in rule_ids


def test_check_option_overrides_setting_of_project(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "activemq-fleet.toml").write_text('select = ["L"]\nreleases = {"*.xml" = "5.5.1"}\n')
    assert rule_ids_of(unwaived_findings(capsys, "--select", "N001", "--release", "5.18.3")) == {"N001"}


def test_no_config_option_ignores_settings_file(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "activemq-fleet.toml").write_text("nonsense =\n")
    assert "N001" in rule_ids_of(unwaived_findings(capsys, "--no-config", "--release", "5.18.3"))


def test_check_uses_baseline_of_project_settings_and_can_rewrite_it(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "activemq-fleet.toml").write_text('select = ["N001"]\nbaseline = "known.json"\n')
    words = ["check", "--file", "conf/activemq.xml", "--release", "5.18.3"]
    for _ in range(2):
        assert main([*words, "--write-baseline", "known.json"]) == 0
        assert len(json.loads((project / "known.json").read_text())["findings"]) == 1
    assert main(words) == 0
    assert "in the baseline" in capsys.readouterr().out


def test_unknown_rule_in_second_setting_is_reported_with_its_line(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "activemq-fleet.toml").write_text("select = ['N']\nignore = ['Q']")

    assert main(["check", "--file", "conf/activemq.xml", "--release", "5.18.3"]) == 2
    assert "activemq-fleet.toml:2: ignore Q: no rule has an id that begins with Q" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("selct = []", "selct is not a setting of activemq-fleet: did you mean select?"),
        ("colour = 1", "a setting of activemq-fleet: remove it, or use one of select, ignore, baseline, releases"),
        ('select = "N"', "`select` must be a list of rule IDs or of their first letters"),
        ("releases = ['5.18.3']", "`releases` must be a table"),
        ("releases = {'*' = 5.18}", "`releases` must be a table"),
        ("baseline = ''", "`baseline` must be the path of a file"),
        ("select = [", "the file is not valid TOML ("),
        ("select = ['Q']", "activemq-fleet.toml:1: select Q: no rule has an id that begins with Q"),
    ],
)
def test_wrong_project_setting_is_single_error_that_names_file(
    content: str, reason: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "activemq-fleet.toml").write_text(content)
    assert main(["check", "--file", "conf/activemq.xml", "--release", "5.18.3"]) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1
    assert "activemq-fleet.toml:1: " in error


@pytest.mark.parametrize("name", ["activemq-fleet.toml", "pyproject.toml"])
def test_deeply_nested_project_settings_are_single_error_that_names_file(
    name: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / name).write_text(f"x = {'[' * 100_000}")
    assert main(["check", "--file", "conf/activemq.xml", "--release", "5.18.3"]) == 2
    assert f"{name}: a value of the file is nested too deeply: remove it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        (
            "activemq-fleet.toml",
            "# rules\n\nselect = ['N']\nignore = 3\n",
            "activemq-fleet.toml:4: the setting `ignore` must be",
        ),
        ("activemq-fleet.toml", "select = ['N']\nignore = [\n", "activemq-fleet.toml:2: the file is not valid TOML"),
        ("activemq-fleet.toml", "\n[check]\nselect = []\n", "activemq-fleet.toml:2: check is not a setting"),
        ("activemq-fleet.toml", "[releases]\n'*' = 5.18\n", "activemq-fleet.toml:1: the setting `releases` must be"),
        (
            "pyproject.toml",
            "[tool.a]\nselect = 1\n[tool.activemq-fleet]\nselect = 2\n",
            "pyproject.toml:4: the setting `select`",
        ),
        ("pyproject.toml", "[tool]\nactivemq-fleet = 1\n", "pyproject.toml:2: tool.activemq-fleet must be a table"),
    ],
)
def test_error_of_wrong_project_setting_names_its_line(
    name: str, content: str, place: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / name).write_text(content)
    assert main(["check", "--file", "conf/activemq.xml", "--release", "5.18.3"]) == 2
    assert place in capsys.readouterr().err


def test_pyproject_without_table_of_activemq_fleet_is_ignored(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "pyproject.toml").write_text("[tool.other]\nselect = 1\n")
    (project.parent / "activemq-fleet.toml").write_text('select = ["N001"]\n')
    assert rule_ids_of(unwaived_findings(capsys, "--release", "5.18.3")) == {"N001"}


@pytest.mark.parametrize(
    ("content", "warning"),
    [
        (
            'releases = {"conf/*.xml" = "5.18.3", "old/*.xml" = "5.5.1"}',
            "file name patterns in the table `releases` match none of the checked files: old/*.xml",
        ),
        (
            '[releases]\n"conf/*.xml" = "5.18.3"\n"/srv/none/*" = "5.5.1"',
            "match none of the checked files: /srv/none/*",
        ),
        (
            'select = ["L", "N"]\nignore = ["N"]',
            "1: the setting `select` has no effect on the rules N, because the setting `ignore`",
        ),
        (
            'select = ["N"]\nignore = ["S002", "N019"]',
            "2: the setting `ignore` has no effect on the rules S002, because the setting `select`",
        ),
    ],
)
def test_project_setting_without_effect_is_single_warning_with_file_and_key(
    content: str, warning: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "activemq-fleet.toml").write_text(f"{content}\n")
    main(["check", "--file", "conf/activemq.xml", "--release", "5.18.3"])
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "activemq-fleet.toml" in line]
    assert line.startswith(f"warning: {project / 'activemq-fleet.toml'}:")
    assert warning in line


@pytest.mark.parametrize(
    "content",
    [
        'releases = {"conf/*.xml" = "5.18.3", "other/*.xml" = "5.5.1"}',
        'releases = {"*/conf/activemq.xml" = "5.18.3"}',
        'select = ["N", "errors-that-stop-a-broker"]\nignore = ["N019", "V002"]',
        'select = ["N019"]\nignore = ["N"]',
        'ignore = ["T", "S002"]',
    ],
)
def test_setting_with_effect_on_any_project_file_gives_no_warning(
    content: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "other").mkdir()
    (project / "other" / "activemq.xml").write_bytes(document(LINK))
    (project / "activemq-fleet.toml").write_text(f"{content}\n")
    main(["check", "--file", "conf/activemq.xml", "--release", "5.18.3"])
    assert "activemq-fleet.toml" not in capsys.readouterr().err


def test_missing_baseline_of_project_is_error_at_its_line(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "activemq-fleet.toml").write_text('select = ["N"]\nbaseline = "known.json"\n')
    assert main(["check", "--file", "conf/activemq.xml", "--release", "5.18.3"]) == 2
    error = capsys.readouterr().err
    assert f"{project / 'activemq-fleet.toml'}:2: baseline {project / 'known.json'} does not exist" in error
