"""``render``, ``check`` and ``graph``: written files, refused input, and exit status."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from activemq_fleet.cli import warnings_and_schemas as shared
from activemq_fleet.cli.main import main
from activemq_fleet.errors import SchemaUnavailableError
from activemq_fleet.schema import SchemaProblem, XmlDocument

NETWORK = "activemq_network_username: net, activemq_network_password: s3cret"

# Findings of every fleet: vulnerabilities of its release, and defaults without fence, archive, access rights and TLS.
RULES_OF_EVERY_FLEET = {"L029", "S002", "S015", "S016", "T030"}


class FakeSchema:
    """A schema that accepts each document without the attribute ``nosuch``."""

    def is_valid(self, document: XmlDocument) -> bool:
        return b"nosuch" not in document.content

    def find_problems(self, document: XmlDocument) -> tuple[SchemaProblem, ...]:
        return (SchemaProblem(12, 34, "beans/broker", "<broker> has no attribute nosuch"),)


@pytest.fixture(autouse=True)
def requested_releases(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace the function that loads schemas, and return the releases for which it is called."""
    releases: list[str] = []

    def load(release: Any, **options: Any) -> FakeSchema:
        releases.append(release.text)
        return FakeSchema()

    monkeypatch.setattr(shared, "load_schema", load)
    return releases


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.yml"
    path.write_text(
        "all: {hosts: {a-mq01-a.example.com: , a-mq01-b.example.com: ,\n"
        "              a-mq02-a.example.com: , a-mq02-b.example.com: },\n"
        f"      vars: {{activemq_release: 6.3.1, {NETWORK}}}}}\n"
    )
    return path


def run_command(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def contents_below(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


class TestRender:
    def test_render_writes_tree_of_every_host(
        self, inventory: Path, tmp_path: Path, requested_releases: list[str]
    ) -> None:
        assert run_command("render", "-i", inventory, "-o", tmp_path / "out") == 0
        files = contents_below(tmp_path / "out")
        fleet = json.loads(files["fleet.json"])
        hosts = [broker["host"] for broker in fleet["brokers"]]
        assert hosts == [f"a-mq0{n}-{node}.example.com" for n in "12" for node in "ab"]
        assert all(f"hosts/{host}/conf/activemq.xml" in files for host in hosts)
        assert etree.fromstring(files["fleet.svg"]).tag == "{http://www.w3.org/2000/svg}svg"
        assert "clients/a/jndi.properties" in files
        assert requested_releases == ["6.3.1"]

    def test_render_counts_load_balancers_if_fleet_has_any(
        self, inventory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run_command("render", "-i", inventory, "-o", tmp_path / "out")
        assert ": 4 brokers, 0 agents, " in capsys.readouterr().out

        balancers = tmp_path / "balancers.yml"
        balancers.write_text("activemq_loadbalancers: {hosts: {lb01.example.com: {activemq_address: 10.0.0.41}}}\n")
        address = "activemq_vip=10.0.0.100 activemq_vip_interface=eth0"
        assert run_command("render", "-i", inventory, "-i", balancers, "-e", address, "-o", tmp_path / "balanced") == 0
        assert ": 4 brokers, 0 agents, 1 load balancer, " in capsys.readouterr().out

    def test_fleet_json_has_checksum_of_every_other_file(self, inventory: Path, tmp_path: Path) -> None:
        run_command("render", "-i", inventory, "-o", tmp_path / "out")
        files = contents_below(tmp_path / "out")
        expected = json.loads(files.pop("fleet.json"))["files"]
        files.pop("fleet.svg")
        assert {name: hashlib.sha256(content).hexdigest() for name, content in files.items()} == expected

    def test_render_writes_no_secret(self, inventory: Path, tmp_path: Path) -> None:
        run_command("render", "-i", inventory, "-o", tmp_path / "out")
        files = contents_below(tmp_path / "out")
        assert not any(b"s3cret" in content for content in files.values())
        assert b"@activemq_network_password@" in files["hosts/a-mq01-a.example.com/conf/credentials.properties"]

    def test_second_render_writes_same_bytes(self, inventory: Path, tmp_path: Path) -> None:
        for name in ("one", "two"):
            run_command("render", "-i", inventory, "-o", tmp_path / name)
        assert contents_below(tmp_path / "one") == contents_below(tmp_path / "two")

    def test_render_removes_files_of_removed_host(self, inventory: Path, tmp_path: Path) -> None:
        run_command("render", "-i", inventory, "-o", tmp_path / "out")
        inventory.write_text(inventory.read_text().replace("a-mq02-a.example.com: , a-mq02-b.example.com: ", ""))
        assert run_command("render", "-i", inventory, "-o", tmp_path / "out") == 0
        assert sorted(os.listdir(tmp_path / "out" / "hosts")) == ["a-mq01-a.example.com", "a-mq01-b.example.com"]

    def test_render_writes_nothing_for_error_finding(
        self, inventory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        inventory.write_text(inventory.read_text().replace("a-mq02-b.example.com: ", ""))
        assert run_command("render", "-i", inventory, "-o", tmp_path / "out") == 1
        assert os.listdir(tmp_path) == ["hosts.yml"]
        out, err = capsys.readouterr()
        assert out == ""
        assert "T002" in err

    def test_render_lists_waived_error(self, inventory: Path, tmp_path: Path) -> None:
        inventory.write_text(inventory.read_text().replace("a-mq02-b.example.com: ", ""))
        waiver = '{"activemq_waivers": [{"rule": "T002", "reason": "its peer comes next week"}]}'
        assert run_command("render", "-i", inventory, "-e", waiver, "-o", tmp_path / "out") == 0
        fleet = json.loads((tmp_path / "out" / "fleet.json").read_text())
        assert [
            (finding["rule"], finding["waived"])
            for finding in fleet["findings"]
            if finding["rule"] not in RULES_OF_EVERY_FLEET
        ] == [("T002", "its peer comes next week")]
        assert [waiver["rule"] for waiver in fleet["waivers"]] == ["T002"]

    def test_render_writes_nothing_for_document_that_schema_rejects(
        self, inventory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        extra = '{"activemq_broker_attributes": {"nosuch": "1"}}'
        assert run_command("render", "-i", inventory, "-e", extra, "-o", tmp_path / "out") == 1
        assert os.listdir(tmp_path) == ["hosts.yml"]
        assert "V002 conf/activemq.xml:12:34: <broker> has no attribute nosuch" in capsys.readouterr().err

    def test_render_lists_waived_schema_finding(self, inventory: Path, tmp_path: Path) -> None:
        extra = (
            '{"activemq_broker_attributes": {"nosuch": "1"}, "activemq_waivers": [{"rule": "V002", "reason": "mine"}]}'
        )
        assert run_command("render", "-i", inventory, "-e", extra, "-o", tmp_path / "out") == 0
        fleet = json.loads((tmp_path / "out" / "fleet.json").read_text())
        assert {
            (finding["rule"], finding["line"], finding["waived"])
            for finding in fleet["findings"]
            if finding["rule"] not in RULES_OF_EVERY_FLEET
        } == {("V002", 12, "mine")}

    def test_render_exits_with_2_for_unavailable_schema(
        self, inventory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def unavailable(release: Any, **options: Any) -> FakeSchema:
            raise SchemaUnavailableError("6.3.1: its schema is not available")

        monkeypatch.setattr(shared, "load_schema", unavailable)
        assert run_command("render", "-i", inventory, "-o", tmp_path / "out") == 2
        assert os.listdir(tmp_path) == ["hosts.yml"]
        assert capsys.readouterr() == ("", "activemq-fleet: error: 6.3.1: its schema is not available\n")

    def test_render_refuses_foreign_directory_before_reading_inventory(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "mine").write_text("")
        assert run_command("render", "-i", "/nowhere", "-o", tmp_path) == 2
        assert "this directory contains files that `render` did not write" in capsys.readouterr().err

    def test_render_warns_of_unknown_patch_release(
        self, inventory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run_command("render", "-i", inventory, "-e", "activemq_release=5.18.99", "-o", tmp_path / "out") == 0
        assert capsys.readouterr().err.startswith("warning: ")


class TestCheck:
    def test_check_of_fleet_without_findings_exits_with_0(
        self, inventory: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run_command("check", "-i", inventory, "--ignore", ",".join(RULES_OF_EVERY_FLEET)) == 0
        assert capsys.readouterr().out == "4 hosts: 0 errors, 0 warnings, 0 info\n"

    def test_check_reports_topology_and_schema_errors_together(
        self, inventory: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        inventory.write_text(inventory.read_text().replace("a-mq02-b.example.com: ", ""))
        extra = '{"activemq_broker_attributes": {"nosuch": "1"}}'
        assert run_command("check", "-i", inventory, "-e", extra, "--format", "json") == 1
        findings = json.loads(capsys.readouterr().out)["findings"]
        assert {finding["rule"] for finding in findings} - RULES_OF_EVERY_FLEET == {"T002", "V002"}

    def test_check_of_inventory_writes_no_file(self, inventory: Path, tmp_path: Path) -> None:
        run_command("check", "-i", inventory)
        assert os.listdir(tmp_path) == ["hosts.yml"]

    @pytest.mark.parametrize(
        ("extra", "message"),
        [
            (
                "activemq_relaese=6.3.1",
                "activemq_relaese is not a variable of activemq.fleet: did you mean activemq_release?",
            ),
            ("activemq_release=1.2.3", "activemq_release"),
            ('{"activemq_heap": [1]}', "activemq_heap must be"),
        ],
    )
    def test_check_of_unusable_variable_prints_single_line_and_exits_with_2(
        self, inventory: Path, capsys: pytest.CaptureFixture[str], extra: str, message: str
    ) -> None:
        assert run_command("check", "-i", inventory, "-e", extra) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        assert message in err


class TestGraph:
    @pytest.mark.parametrize("name", ["fleet.svg", "fleet.mmd"])
    def test_graph_format_follows_file_suffix(self, inventory: Path, tmp_path: Path, name: str) -> None:
        assert run_command("graph", "-i", inventory, "-o", tmp_path / name) == 0
        text = (tmp_path / name).read_text()
        assert "a-mq01" in text
        assert ("<svg" in text) == name.endswith(".svg")

    def test_graph_exits_with_2_for_unknown_suffix(
        self, inventory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run_command("graph", "-i", inventory, "-o", tmp_path / "fleet.png") == 2
        assert "must end in .svg (SVG image) or .mmd (Mermaid text)" in capsys.readouterr().err
        assert os.listdir(tmp_path) == ["hosts.yml"]

    def test_graph_draws_fleet_with_errors(self, inventory: Path, tmp_path: Path) -> None:
        inventory.write_text(inventory.read_text().replace("a-mq02-b.example.com: ", ""))
        assert run_command("graph", "-i", inventory, "-o", tmp_path / "fleet.svg") == 0
