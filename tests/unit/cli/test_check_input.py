"""``check``: inventories that the ``site`` playbook refuses, and unusable input, in every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from lxml import etree

from activemq_fleet.cli import warnings_and_schemas as shared
from activemq_fleet.cli.main import main
from activemq_fleet.deployment import agent_facts
from activemq_fleet.schema import XmlDocument
from activemq_fleet.site_refusals import site_playbook_refusal_findings
from activemq_fleet.topology import build_fleet
from tests.unit.fleets import hosts

REPOSITORY = Path(__file__).resolve().parents[3]
SHA512 = "ab" * 64
PAIR = ["orders-mq01-a.example.com", "orders-mq01-b.example.com"]


class AcceptingSchema:
    def is_valid(self, document: XmlDocument) -> bool:
        return bool(document.content)


@pytest.fixture(autouse=True)
def use_accepting_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "load_schema", lambda release, **options: AcceptingSchema())


def write_inventory(directory: Path, host_settings: dict[str, dict[str, Any]] | None = None, **variables: Any) -> Path:
    """Write the inventory of a pair; ``host_settings`` contains further settings of single hosts."""
    inventory = hosts("orders-mq01", users=[{"name": "app", "password": "a secret"}], **variables)
    for host, settings in (host_settings or {}).items():
        inventory[f"{host}.example.com"] |= {f"activemq_{name}": value for name, value in settings.items()}
    path = directory / "hosts.yml"
    path.write_text(json.dumps({"all": {"hosts": inventory}}))
    return path


def run_check(*arguments: object) -> int:
    return main(["check", *(str(argument) for argument in arguments)])


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({}, "activemq_archive and activemq_archive_sha512 are not set"),
        ({"archive": "/srv/activemq.tar.gz"}, "activemq_archive_sha512 is not set"),
        ({"install": "jars"}, "activemq_install is jars, but activemq_archive is not set"),
        ({"install": "jars", "archive": "https://example.com/jars"}, "activemq_archive is a URL"),
        ({"install": "jars", "archive": {"5.18.3": "https://example.com/jars"}}, "activemq_archive is a URL"),
        (
            {"archive": "/srv/apache-activemq-5.18.4-bin.tar.gz", "archive_sha512": SHA512},
            "an archive of release 5.18.4, but activemq_release is 5.18.3",
        ),
        ({"install": "none", "network_password": None}, "activemq_network_password is not"),
        (
            {"install": "jars", "archive": "jars", "fence": "guard", "service": "none"},
            "which requires activemq_service: systemd",
        ),
    ],
)
def test_check_warns_for_each_host_that_site_playbook_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], variables: dict[str, Any], reason: str
) -> None:
    assert run_check("-i", write_inventory(tmp_path, **variables), "--select", "T030", "--format", "json") == 0
    report = json.loads(capsys.readouterr().out)
    assert [finding["host"] for finding in report["findings"]] == PAIR
    assert report["counts"]["warning"] == 1
    for finding in report["findings"]:
        assert finding["severity"] == "warning"
        assert finding["message"].endswith(", so the `site` playbook will fail")
        assert reason in finding["message"]


def test_inventory_that_site_playbook_accepts_has_no_refusal_finding() -> None:
    for variables in (
        {"archive": "/srv/activemq.tar.gz", "archive_sha512": SHA512},
        {"archive": {"5.18.3": "/srv/activemq.tar.gz"}, "archive_sha512": {"5.18.3": SHA512}},
        {"install": "jars", "archive": "/srv/jars"},
        {"install": "jars", "archive": {"5.18.3": "/srv/jars"}},
        {"install": "package"},
        {"install": "none"},
    ):
        assert not list(site_playbook_refusal_findings(build_fleet(hosts("orders-mq01", **variables), {})))


@pytest.mark.parametrize(
    ("package", "refused"),
    [
        (None, False),
        ("/srv/wheels", False),
        ("wheels", False),
        ("activemq-fleet[agent]==1.0", False),
        ("activemq_fleet [agent] == 1.0", True),  # the role accepts no space before the extras
        ("activemq-fleet[agent] @ https://example.com/x.whl", False),
        ("activemq-fleet===1.0+local", False),
        ("activemq-fleet==1.*", True),
        ("activemq-fleet", True),
        ("Activemq_Fleet", True),
        ("activemq-fleet ; python_version > '3'", True),
        ("activemq-agent==1.0", False),
        ("activemq-fleet[agent]", True),
        ("dist/activemq_agent-1.0-py3-none-any.whl", False),
        ("dist/activemq_fleet-1.0-py3-none-any.whl", True),
        ("activemq-fleet>=1.0", True),
    ],
)
def test_agent_package_is_refused_without_exact_version_or_agent_extra(package: str | None, refused: bool) -> None:
    agent = {"activemq_agent_username": "web", "activemq_agent_password": "x", "activemq_agent_package": package}
    fleet = build_fleet(hosts("orders-mq01", install="none") | {"web1": agent}, {"activemq_agents": ["web1"]})
    assert bool([finding for finding in site_playbook_refusal_findings(fleet) if finding.host == "web1"]) is refused
    # The role installs only those packages as requirements that are accepted as requirements of an exact version.
    is_requirement = not refused and any(sign in str(package) for sign in "=@")
    assert agent_facts(fleet.agents[0])["is_requirement"] is is_requirement


def test_agent_role_takes_kind_of_agent_package_from_library() -> None:
    variables = yaml.safe_load((REPOSITORY / "roles/agent/vars/main.yml").read_text())
    assert variables["__activemq_agent_is_requirement"] == "{{ __activemq_agent.is_requirement }}"


@pytest.mark.parametrize(("install", "name"), [("jars", "jars"), ("archive", "activemq.tar.gz")])
def test_activemq_archive_missing_on_this_machine_is_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], install: str, name: str
) -> None:
    archive = tmp_path / name
    inventory = write_inventory(tmp_path, install=install, archive=str(archive), archive_sha512=SHA512)
    assert run_check("-i", inventory, "--select", "T031", "--format", "json") == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    message = f"activemq_archive is the file {archive}, which does not exist on the machine where this check runs"
    assert [(finding["host"], finding["message"]) for finding in findings] == [(host, message) for host in PAIR]
    archive.mkdir()
    assert run_check("-i", inventory, "--select", "T031", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []


@pytest.mark.parametrize("install", ["none", "package"])
def test_activemq_archive_that_install_mode_ignores_is_reported_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], install: str
) -> None:
    inventory = write_inventory(tmp_path, install=install, archive="/srv/a.tar.gz", archive_sha512=SHA512)
    assert run_check("-i", inventory, "--select", "T042") == 0
    printed = capsys.readouterr().out
    assert printed.count("warning T042") == 1
    assert f"activemq_archive and activemq_archive_sha512 are set, but activemq_install is {install}, so" in printed
    assert "set activemq_install: archive. Otherwise remove activemq_archive and activemq_archive_sha512" in printed


@pytest.mark.parametrize("variables", [{"install": "none"}, {"archive": "/srv/a.tar.gz", "archive_sha512": SHA512}])
def test_activemq_archive_that_site_installs_is_not_reported_as_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], variables: dict[str, Any]
) -> None:
    assert run_check("-i", write_inventory(tmp_path, **variables), "--select", "T042", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []


def test_activemq_archive_with_url_or_relative_path_is_not_reported_as_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for archive in ("https://example.com/activemq.tar.gz", "files/activemq.tar.gz"):
        assert run_check("-i", write_inventory(tmp_path, archive=archive), "--select", "T031", "--format", "json") == 0
        assert json.loads(capsys.readouterr().out)["findings"] == []


WRONG = {"orders-mq01-a": {"relase": "5.18.3", "port_offset": "many"}, "orders-mq01-b": {"release": "4.1"}}
INPUT_ERRORS = ["activemq_relase is not a variable", "activemq_port_offset must be", "4.1"]


def test_all_errors_of_inventory_are_printed_together_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_check("-i", write_inventory(tmp_path, WRONG)) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert all(text in streams.err for text in INPUT_ERRORS)
    assert len(streams.err.splitlines()) == 3


@pytest.mark.parametrize("form", ["json", "sarif", "junit", "github"])
def test_all_errors_of_inventory_are_reported_in_every_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    assert run_check("-i", write_inventory(tmp_path, WRONG), "--format", form) == 2
    streams = capsys.readouterr()
    assert all(text in streams.out for text in INPUT_ERRORS)
    assert all(text in streams.err for text in INPUT_ERRORS)
    if form == "json":
        report = json.loads(streams.out)
        assert [finding["rule"] for finding in report["findings"]] == ["T000"] * 3
        assert report["findings"][0]["host"] == "orders-mq01-a.example.com"
        assert report["counts"]["error"] == 3
    if form == "sarif":
        assert len(json.loads(streams.out)["runs"][0]["results"]) == 3
    if form == "junit":
        assert etree.fromstring(streams.out).get("failures") == "3"
    if form == "github":
        assert len(streams.out.splitlines()) == 3


def test_all_failing_templates_of_inventory_are_reported_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host_settings = {
        "orders-mq01-a": {"heap": "{{ undefined_heap }}", "user": "{{ undefined_user }}"},
        "orders-mq01-b": {"heap": "{{ undefined_size }}"},
    }
    assert run_check("-i", write_inventory(tmp_path, host_settings), "--format", "json") == 2
    messages = [finding["message"] for finding in json.loads(capsys.readouterr().out)["findings"]]
    problems = [message.partition(" has no value")[0] for message in messages]
    assert problems == [f"the template in activemq_{name}" for name in ("heap", "user", "heap")]


def test_invalid_extra_files_and_fragments_are_reported_for_every_broker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host_settings = {
        "orders-mq01-a": {"extra_files": [{"path": "conf/activemq.xml", "content": "x"}]},
        "orders-mq01-b": {"xml_fragments": [{"parent": "broker", "xml": "<unclosed>"}]},
    }
    assert run_check("-i", write_inventory(tmp_path, host_settings)) == 2
    errors = capsys.readouterr().err
    assert "orders-mq01-a.example.com: activemq_extra_files[0].path" in errors
    assert "orders-mq01-b.example.com: in activemq_xml_fragments[0]" in errors


def test_all_unreadable_files_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / "one.xml", tmp_path / "two.xml"]
    assert run_check(*files, "--release", "5.18.3", "--format", "json") == 2
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [finding["file"] for finding in findings] == [str(path) for path in files]
    assert {finding["fix"] for finding in findings} == {"correct the path, or allow this account to read the file"}


UNREADABLE = (
    "this file of a broker's configuration cannot be read (No such file or directory), and its content was not checked"
)
CORRECT_PATH = "correct the path, or allow this account to read the file"


@pytest.mark.parametrize(
    ("words", "place", "message", "fix"),
    [
        (["nothere", "--release", "6.3.1"], "file=nothere,", UNREADABLE, CORRECT_PATH),
        (
            ["activemq.xml", "--release", "5.18"],
            "",
            "'5.18' is not a release number of three parts",
            "set a release such as 5.18.7",
        ),
        (
            ["-i", "nothere.yml"],
            "",
            "nothere.yml: this inventory file or directory does not exist",
            "correct the path. To name a single host, write a comma after its name",
        ),
    ],
)
def test_unusable_input_of_check_has_same_message_and_fix_in_every_format(
    words: list[str],
    place: str,
    message: str,
    fix: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("activemq.xml").write_text("<beans/>")
    printed = {}
    for form in ("github", "sarif", "codeclimate", "junit"):
        assert run_check(*words, "--format", form) == 2
        printed[form] = capsys.readouterr().out

    line = f"{message}. Fix: {fix}"
    assert printed["github"] == f"::error {place}title=T000::{line}\n"
    (result,) = json.loads(printed["sarif"])["runs"][0]["results"]
    assert result["message"]["text"] == line
    (issue,) = json.loads(printed["codeclimate"])
    assert issue["description"] == line
    (failure,) = etree.fromstring(printed["junit"]).iter("failure")
    assert failure.get("message") == message
    assert failure.text is not None
    assert failure.text.endswith(f"{message}\nfix: {fix}") or failure.text.endswith(
        f"{message}\nwhy: this error prevents all other checks\nfix: {fix}"
    )


def test_numeric_release_of_two_hosts_is_single_annotation_with_both_hosts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts.yml").write_text("all:\n  hosts: {web-mq01-a: , web-mq02-a: }\n  vars:\n    activemq_release: 6.3\n")
    assert run_check("-i", "hosts.yml", "--format", "github") == 2
    assert capsys.readouterr().out == (
        "::error file=hosts.yml,line=4,title=T000 web-mq01-a%2C web-mq02-a::in activemq_release, YAML reads the "
        "release 6.3 as a number. Fix: write all three parts of the release, such as 6.3.2\n"
    )


def test_vendor_build_as_release_has_fix_of_its_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text("<beans/>")
    assert run_check(path, "--release", "5.18.3-fuse", "--format", "json") == 2
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["message"] == "'5.18.3-fuse' is not a release number of Apache ActiveMQ"
    assert finding["fix"] == ("for a vendor's build, set the Apache release on which it is based, such as 5.18.7")


def test_json_names_every_host_of_wrong_variable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"orders-mq{number:02}-a" for number in range(1, 9)]
    path = tmp_path / "hosts.yml"
    path.write_text(json.dumps({"all": {"hosts": dict.fromkeys(names), "vars": {"activemq_relase": "6.3.1"}}}))
    assert run_check("-i", path, "--format", "json") == 2
    for finding in json.loads(capsys.readouterr().out)["findings"]:
        assert finding["hosts"] == names
        assert finding["host"] == names[0]


def test_json_names_file_and_line_of_undefined_template(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text("all:\n  hosts:\n    orders-mq01-a:\n      activemq_release: '{{ undefined_heap }}'\n")
    assert run_check("-i", path, "--format", "json") == 2
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["file"], finding["line"]) == (str(path), 4)


def test_waiver_of_one_host_keeps_refusal_of_other_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    waiver = {"rule": "T030", "hosts": [PAIR[0]], "reason": "installed by hand"}
    run_check("-i", write_inventory(tmp_path, waivers=[waiver]), "--select", "T030", "--format", "json")
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [(finding["host"], finding["waived"]) for finding in findings] == [
        (PAIR[0], "installed by hand"),
        (PAIR[1], None),
    ]


def test_text_report_shows_finding_of_whole_fleet_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {f"orders-mq{number:02}-{node}": None for number in range(1, 9) for node in "ab"}
    path = tmp_path / "hosts.yml"
    path.write_text(json.dumps({"all": {"hosts": names, "vars": {"activemq_release": "5.18.3"}}}))
    run_check("-i", path, "--select", "T030,L029")
    printed = capsys.readouterr().out
    assert printed.count("activemq_archive_sha512 are not set") == 1
    assert printed.count("activemq_fence is none") == 1
    assert "16 hosts: orders-mq01-a, orders-mq01-b, orders-mq02-a and 13 more" in printed


def test_github_report_has_one_annotation_for_both_hosts_of_pair(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_check("-i", write_inventory(tmp_path), "--select", "S002", "--format", "github")
    (annotation,) = capsys.readouterr().out.splitlines()
    assert f"title=S002 {PAIR[0]}%2C {PAIR[1]}::" in annotation


@pytest.mark.parametrize(("words", "code"), [([], 0), (["--strict"], 1), (["--strict", "--ignore", "T030,S"], 0)])
def test_check_with_option_strict_fails_for_warning(words: list[str], code: int, tmp_path: Path) -> None:
    assert run_check("-i", write_inventory(tmp_path), *words) == code


def test_text_shows_each_line_of_few_hosts_and_only_file_of_many(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "hosts.ini"
    for number, shown in ((1, f"{path}:1, {path}:2:"), (2, f"{path}:")):
        names = [f"orders-mq{pair:02}-{node}" for pair in range(1, number + 1) for node in "ab"]
        path.write_text("\n".join([*names, "[all:vars]", "activemq_release=5.18.3"]))
        run_check("-i", path, "--select", "T030")
        printed = " ".join(capsys.readouterr().out.split())
        assert f"warning T030 {shown} activemq_install is archive" in printed


def test_error_about_whole_inventory_has_no_hosts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(json.dumps({"all": {"hosts": {"web1": {}, "web2": {}}}}))

    assert run_check("-i", path, "--format", "json") == 2

    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["hosts"] == []
    assert finding["message"].startswith("no host of this inventory is a broker")


def test_error_about_host_names_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_inventory(tmp_path, {"orders-mq01-b": {"heap": "much"}})

    assert run_check("-i", path, "--format", "json") == 2

    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["hosts"] == [PAIR[1]]
    assert "activemq_heap" in finding["message"]
