"""check: what ``site`` would refuse, and input that cannot be used, in every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from activemq_fleet.cli import findings as shared
from activemq_fleet.cli.main import main
from activemq_fleet.site_refusals import refusals_of
from activemq_fleet.topology import build_fleet
from tests.unit.fleets import hosts

SHA512 = "ab" * 64


class AnySchema:
    def is_valid(self, document: bytes) -> bool:
        return bool(document)


@pytest.fixture(autouse=True)
def no_schema_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "load_schema", lambda release, **options: AnySchema())


def lay(directory: Path, own: dict[str, dict[str, Any]] | None = None, **variables: Any) -> Path:
    inventory = hosts("orders-mq01", users=[{"name": "app", "password": "a secret"}], **variables)
    for host, more in (own or {}).items():
        inventory[f"{host}.example.com"] |= {f"activemq_{name}": value for name, value in more.items()}
    path = directory / "hosts.yml"
    path.write_text(json.dumps({"all": {"hosts": inventory}}))
    return path


def run(*arguments: object) -> int:
    return main(["check", *(str(argument) for argument in arguments)])


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "activemq_archive and activemq_archive_sha512 are not set"),
        ({"archive": "/srv/activemq.tar.gz"}, "activemq_archive_sha512 is not set"),
        ({"install": "jars"}, "activemq_install is jars, and activemq_archive is not set"),
        ({"install": "jars", "archive": "https://example.com/jars"}, "activemq_archive is a URL"),
        ({"install": "jars", "archive": {"5.18.3": "https://example.com/jars"}}, "activemq_archive is a URL"),
        ({"install": "none", "network_password": None}, "activemq_network_password is not"),
    ],
)
def test_what_site_refuses_is_a_warning_once_for_a_group(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], variables: dict[str, Any], said: str
) -> None:
    assert run("-i", lay(tmp_path, **variables), "--select", "T030", "--format", "json") == 0
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["severity"], finding["host"]) == ("warning", "orders-mq01-a.example.com")
    assert finding["message"].startswith("site will refuse it (and orders-mq01-b.example.com): ")
    assert said in finding["message"]


def test_what_site_takes_is_not_told() -> None:
    for variables in (
        {"archive": "/srv/activemq.tar.gz", "archive_sha512": SHA512},
        {"archive": {"5.18.3": "/srv/activemq.tar.gz"}, "archive_sha512": {"5.18.3": SHA512}},
        {"install": "jars", "archive": "/srv/jars"},
        {"install": "jars", "archive": {"5.18.3": "/srv/jars"}},
        {"install": "package"},
        {"install": "none"},
    ):
        assert not list(refusals_of(build_fleet(hosts("orders-mq01", **variables), {})))


@pytest.mark.parametrize(
    ("package", "refused"),
    [
        (None, False),
        ("/srv/wheels", False),
        ("wheels", False),
        ("activemq-fleet[agent]==1.0", False),
        ("activemq-fleet[agent]", True),
        ("activemq-fleet>=1.0", True),
    ],
)
def test_a_package_of_the_agent_says_one_version(package: str | None, refused: bool) -> None:
    agent = {"activemq_agent_username": "web", "activemq_agent_password": "x", "activemq_agent_package": package}
    fleet = build_fleet(hosts("orders-mq01", install="none") | {"web1": agent}, {"activemq_agents": ["web1"]})
    assert bool([finding for finding in refusals_of(fleet) if finding.host == "web1"]) is refused


WRONG = {"orders-mq01-a": {"relase": "5.18.3", "port_offset": "many"}, "orders-mq01-b": {"release": "4.1"}}
SAID = ["activemq_relase is not a variable", "activemq_port_offset must be", "4.1"]


def test_all_input_errors_are_told_at_once_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-i", lay(tmp_path, WRONG)) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert all(text in streams.err for text in SAID)
    assert len(streams.err.splitlines()) == 3


@pytest.mark.parametrize("form", ["json", "sarif", "junit", "github"])
def test_all_input_errors_are_told_in_every_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    assert run("-i", lay(tmp_path, WRONG), "--format", form) == 2
    streams = capsys.readouterr()
    assert all(text in streams.out for text in SAID)
    assert all(text in streams.err for text in SAID)
    if form == "json":
        found = json.loads(streams.out)
        assert [finding["rule"] for finding in found["findings"]] == ["T000"] * 3
        assert found["findings"][0]["host"] == "orders-mq01-a.example.com"
        assert found["counts"]["error"] == 3
    if form == "sarif":
        assert len(json.loads(streams.out)["runs"][0]["results"]) == 3
    if form == "junit":
        assert etree.fromstring(streams.out).get("failures") == "3"
    if form == "github":
        assert len(streams.out.splitlines()) == 3


def test_values_whose_template_fails_are_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {"orders-mq01-a": {"heap": "{{ nowhere }}", "user": "{{ nobody }}"}, "orders-mq01-b": {"heap": "{{ no }}"}}
    assert run("-i", lay(tmp_path, wrong), "--format", "json") == 2
    messages = [finding["message"] for finding in json.loads(capsys.readouterr().out)["findings"]]
    assert [message.partition(":")[0] for message in messages] == ["activemq_heap", "activemq_user", "activemq_heap"]


def test_what_no_file_can_hold_is_told_of_every_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {
        "orders-mq01-a": {"extra_files": [{"path": "conf/activemq.xml", "content": "x"}]},
        "orders-mq01-b": {"xml_fragments": [{"parent": "broker", "xml": "<unclosed>"}]},
    }
    assert run("-i", lay(tmp_path, wrong)) == 2
    said = capsys.readouterr().err
    assert "orders-mq01-a.example.com: activemq_extra_files[0].path" in said
    assert "orders-mq01-b.example.com: activemq_xml_fragments[0]" in said


def test_all_files_that_cannot_be_read_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / "one.xml", tmp_path / "two.xml"]
    assert run(*files, "--release", "5.18.3", "--format", "json") == 2
    messages = [finding["message"] for finding in json.loads(capsys.readouterr().out)["findings"]]
    assert [message.partition(": ")[0] for message in messages] == [str(path) for path in files]
