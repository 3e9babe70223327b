"""adopt: the inventory that it writes, and the output directories that it accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.cli.main import main
from activemq_fleet.inventory import load_fleet
from activemq_fleet.validation import check_fleet
from tests.unit.adopt_files import activemq_xml_by_host, document
from tests.unit.adopt_runs import HANDWRITTEN, run_adopt, snapshot
from tests.unit.fleets import fleet

pytestmark = pytest.mark.usefixtures("schemas_unavailable")
PATTERN = r"^(?P<group>[a-z]+)(?P<number>[0-9])(?P<node>[xy])"


def test_adopted_inventory_renders_files_equivalent_to_original_files(
    rendered_directory: Path, tmp_path: Path, capsys: Any
) -> None:
    assert run_adopt(rendered_directory, "-o", tmp_path / "inventory") == 0

    assert activemq_xml_by_host(load_fleet([str(tmp_path / "inventory")])) == activemq_xml_by_host(
        fleet("o-mq1", "o-mq2")
    )
    assert "The inventory renders files that are equivalent to the original files." in capsys.readouterr().out


def test_each_adopted_inventory_file_names_adopt_and_no_local_path(rendered_directory: Path, tmp_path: Path) -> None:
    run_adopt(rendered_directory, "-o", tmp_path / "inventory")

    for content in snapshot(tmp_path / "inventory").values():
        assert content.removeprefix(b"---\n").startswith(b"# Adopted by activemq-fleet")
        assert str(tmp_path).encode() not in content


def test_adopted_release_is_not_installed_by_site(handwritten_file: Path, tmp_path: Path, capsys: Any) -> None:
    assert run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", tmp_path / "inventory") == 0
    group_variables = (tmp_path / "inventory/group_vars/all.yml").read_text()
    assert (
        "# The playbook site does not install ActiveMQ: it uses the release in the directory activemq_home."
        in group_variables
    )
    assert "activemq_install, activemq_home" not in capsys.readouterr().out

    main(["check", "-i", str(tmp_path / "inventory")])
    assert "T030" not in capsys.readouterr().out


def test_adopt_prints_note_about_broker_without_store_in_its_file(
    handwritten_file: Path, tmp_path: Path, capsys: Any
) -> None:
    run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", tmp_path / "inventory")

    assert "the file has no persistenceAdapter, so the store is" in capsys.readouterr().out

    handwritten_file.write_bytes(document("", brokerName="hand", persistent="false"))
    run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", tmp_path / "inventory")

    assert "the file has no persistenceAdapter" not in capsys.readouterr().out


def test_git_ignores_passwords(rendered_directory: Path, tmp_path: Path) -> None:
    run_adopt(rendered_directory, "-o", tmp_path / "inventory")

    assert b".secrets/" in snapshot(tmp_path / "inventory")[".gitignore"].splitlines()


def test_adopt_replaces_inventory_of_earlier_adopt(
    rendered_directory: Path, handwritten_file: Path, tmp_path: Path
) -> None:
    run_adopt(f"x-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", tmp_path / "inventory")

    assert run_adopt(rendered_directory, "-o", tmp_path / "inventory") == 0
    assert b"x-mq1-a" not in snapshot(tmp_path / "inventory")["hosts.yml"]


@pytest.mark.parametrize("name", [".secrets/app", "group_vars/mine.yml", "README.md", ".git/HEAD"])
def test_adopt_refuses_output_directory_with_foreign_file(
    name: str, rendered_directory: Path, tmp_path: Path, capsys: Any
) -> None:
    run_adopt(rendered_directory, "-o", tmp_path / "inventory")
    (tmp_path / "inventory" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "inventory" / name).write_text("mine")
    files_before = snapshot(tmp_path / "inventory")

    assert run_adopt(rendered_directory, "-o", tmp_path / "inventory") == 2
    assert f"contains {name}, which adopt did not write" in capsys.readouterr().err
    assert snapshot(tmp_path / "inventory") == files_before


@pytest.mark.parametrize("name", ["hosts.yml", "group_vars/all.yml", "zz.activemq.yml"])
def test_adopt_refuses_output_directory_with_changed_file(
    name: str, rendered_directory: Path, tmp_path: Path, capsys: Any
) -> None:
    run_adopt(rendered_directory, "-o", tmp_path / "inventory")
    path = tmp_path / "inventory" / name
    path.write_text(path.read_text().replace("sha256 ", "sha256 0") + "# by hand\n")

    assert run_adopt(rendered_directory, "-o", tmp_path / "inventory") == 2
    assert "files in this directory were changed after adopt wrote them" in capsys.readouterr().err


def test_adopted_brokers_whose_names_have_no_node_are_single_brokers(tmp_path: Path, capsys: Any) -> None:
    for host in ("broker1", "broker2"):
        (tmp_path / "collected" / host / "conf").mkdir(parents=True)
        (tmp_path / "collected" / host / "conf/activemq.xml").write_bytes(HANDWRITTEN)
    pattern = r"^(?P<pair>(?P<group>[^.]+?)(?P<number>[0-9]+))(?:\.|$)"
    options = ("--release", "5.18.3", "--naming-pattern", pattern, "--node", "a", "-o", tmp_path / "inventory")

    assert run_adopt(tmp_path / "collected", *options) == 0
    assert "only this node of pair" not in capsys.readouterr().out
    fleet = load_fleet([str(tmp_path / "inventory")])
    assert [(broker.host, broker.pair, broker.settings.ha) for broker in fleet.brokers] == [
        ("broker1", "broker1", "none"),
        ("broker2", "broker2", "none"),
    ]


def test_naming_pattern_for_any_name_does_not_match_directory_conf(tmp_path: Path) -> None:
    for host in ("alpha", "beta"):
        (tmp_path / "files" / host / "conf").mkdir(parents=True)
        (tmp_path / "files" / host / "conf/activemq.xml").write_bytes(HANDWRITTEN)
    options = ("--release", "5.18.3", "--naming-pattern", r"^(?P<pair>(?P<group>[^.]+))$", "--node", "a")

    assert run_adopt(tmp_path / "files", *options, "-o", tmp_path / "i") == 0
    assert [broker.host for broker in load_fleet([str(tmp_path / "i")]).brokers] == ["alpha", "beta"]


def test_adopted_single_brokers_have_no_note_about_shared_store(tmp_path: Path, capsys: Any) -> None:
    store = '<persistenceAdapter><kahaDB directory="/data/kahadb"/></persistenceAdapter>'
    for host in ("broker1", "broker2"):
        (tmp_path / host).mkdir()
        (tmp_path / host / "activemq.xml").write_bytes(document(store, brokerName=host))
    pattern = r"^(?P<pair>(?P<group>broker)(?P<number>[0-9]+))$"
    assert (
        run_adopt(tmp_path, "--release=5.18.3", "--naming-pattern", pattern, "--node=a", "-o", tmp_path / "inventory")
        == 0
    )

    assert "do not show that both nodes" not in capsys.readouterr().out


def test_adopt_writes_naming_pattern_to_inventory(handwritten_file: Path, tmp_path: Path) -> None:
    file = f"shop1x={handwritten_file}"
    assert run_adopt(file, "--release", "5.18.3", "--naming-pattern", PATTERN, "-o", tmp_path / "inventory") == 0

    assert [broker.pair for broker in load_fleet([str(tmp_path / "inventory")]).brokers] == ["shop-mq1"]


def test_adopt_waives_and_reports_blocking_finding_of_original_files(
    handwritten_file: Path, tmp_path: Path, capsys: Any
) -> None:
    files = [f"o-mq1-{node}={handwritten_file}" for node in "ab"]
    xml = document('<persistenceAdapter><kahaDB directory="/mnt/nfs/x"/></persistenceAdapter>', brokerName="hand")
    handwritten_file.write_bytes(xml)
    assert (
        run_adopt(*files, "--release", "o-mq1-a=5.8.0", "--release", "o-mq1-b=5.18.3", "-o", tmp_path / "inventory")
        == 0
    )

    fleet = load_fleet([str(tmp_path / "inventory")])
    assert "T004" in {finding.rule for finding in fleet.findings if finding.waived}
    assert not fleet.blocking_findings
    assert "T004 (" in capsys.readouterr().out


def test_adopted_inventory_has_note_about_store_with_relative_path(handwritten_file: Path, tmp_path: Path) -> None:
    store = '<persistenceAdapter><kahaDB directory="${activemq.data}/kahadb"/></persistenceAdapter>'
    handwritten_file.write_bytes(document(store, brokerName="hand"))
    inventory = tmp_path / "inventory"
    assert run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", inventory) == 0

    comment = " ".join((inventory / "group_vars/all.yml").read_text().replace("#", "").split())
    assert "Set activemq_store_directory to the absolute path of this directory on the host" in comment


def test_adopted_inventory_of_file_with_startup_error_fails_check(
    handwritten_file: Path, tmp_path: Path, capsys: Any
) -> None:
    usage = '<storeUsage><storeUsage limit="20 gigabytes"/></storeUsage>'
    handwritten_file.write_bytes(
        document(f"<systemUsage><systemUsage>{usage}</systemUsage></systemUsage>", brokerName="hand")
    )
    inventory = tmp_path / "inventory"
    assert run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", inventory) == 0

    [note] = [line for line in capsys.readouterr().out.splitlines() if "V050" in line]
    assert "does not start with the original activemq.xml, because the file has the error V050 (" in note
    group_variables = (inventory / "group_vars/all.yml").read_text()
    # The inventory keeps the note, and has no waiver.
    assert "V050" in "".join(line for line in group_variables.splitlines() if line.startswith("#"))
    assert "V050" not in "".join(line for line in group_variables.splitlines() if not line.startswith("#"))
    findings = check_fleet(load_fleet([str(inventory)]), schema_of=None)
    assert {finding.rule for finding in findings if finding.blocks} == {"V050"}
