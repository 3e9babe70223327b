"""adopt: the files and arguments that it accepts, writes, prints and refuses."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from activemq_fleet.cli import warnings_and_schemas as shared
from activemq_fleet.cli.main import main
from activemq_fleet.errors import SchemaUnavailableError
from activemq_fleet.inventory import load_fleet
from activemq_fleet.site_refusals import site_playbook_refusal_findings
from activemq_fleet.validation import check_fleet
from tests.unit.adopt_files import activemq_xml_by_host, document, write_files
from tests.unit.fleets import fleet

PATTERN = r"^(?P<group>[a-z]+)(?P<number>[0-9])(?P<node>[xy])"
HANDWRITTEN = document("", brokerName="hand")
LINES_IN_ORDER = (
    "adopt left out the attribute vmConnectorURI of <broker>",
    "only this node of pair",
    "the adopted files do not show the values of these variables, so their defaults apply",
    "beans/broker/@vmConnectorURI: rendered lacks",
    "with an effect on the broker:",
)
"""Lines of a report in order: losses, other notes, the list of changes, and additions."""


@pytest.fixture(autouse=True)
def _no_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(release: Any, **options: Any) -> Any:
        raise SchemaUnavailableError("there is no network in a unit test")

    monkeypatch.setattr(shared, "load_schema", load)


@pytest.fixture
def rendered_directory(tmp_path: Path) -> Path:
    """Return a directory with the rendered files of two pairs."""
    return write_files(tmp_path / "rendered", activemq_xml_by_host(fleet("o-mq1", "o-mq2")))


@pytest.fixture
def handwritten_file(tmp_path: Path) -> Path:
    """Return a handwritten file in a directory whose name contains no host."""
    path = tmp_path / "etc" / "broker.xml"
    path.parent.mkdir()
    path.write_bytes(HANDWRITTEN)
    return path


def run_adopt(*arguments: object) -> int:
    """Run adopt and return its exit status."""
    return main(["adopt", *map(str, arguments)])


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


class TestInventory:
    def test_adopted_inventory_renders_files_equivalent_to_original_files(
        self, rendered_directory: Path, tmp_path: Path, capsys: Any
    ) -> None:
        assert run_adopt(rendered_directory, "-o", tmp_path / "inventory") == 0

        assert activemq_xml_by_host(load_fleet([str(tmp_path / "inventory")])) == activemq_xml_by_host(
            fleet("o-mq1", "o-mq2")
        )
        assert "The inventory renders files that are equivalent to the original files." in capsys.readouterr().out

    def test_each_adopted_inventory_file_names_adopt_and_no_local_path(
        self, rendered_directory: Path, tmp_path: Path
    ) -> None:
        run_adopt(rendered_directory, "-o", tmp_path / "inventory")

        for content in snapshot(tmp_path / "inventory").values():
            assert content.removeprefix(b"---\n").startswith(b"# Adopted by activemq-fleet")
            assert str(tmp_path).encode() not in content

    def test_adopted_release_is_not_installed_by_site(
        self, handwritten_file: Path, tmp_path: Path, capsys: Any
    ) -> None:
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
        self, handwritten_file: Path, tmp_path: Path, capsys: Any
    ) -> None:
        run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", tmp_path / "inventory")

        assert "the file has no persistenceAdapter, so the store is" in capsys.readouterr().out

        handwritten_file.write_bytes(document("", brokerName="hand", persistent="false"))
        run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", tmp_path / "inventory")

        assert "the file has no persistenceAdapter" not in capsys.readouterr().out

    def test_git_ignores_passwords(self, rendered_directory: Path, tmp_path: Path) -> None:
        run_adopt(rendered_directory, "-o", tmp_path / "inventory")

        assert b".secrets/" in snapshot(tmp_path / "inventory")[".gitignore"].splitlines()

    def test_adopt_replaces_inventory_of_earlier_adopt(
        self, rendered_directory: Path, handwritten_file: Path, tmp_path: Path
    ) -> None:
        run_adopt(f"x-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", tmp_path / "inventory")

        assert run_adopt(rendered_directory, "-o", tmp_path / "inventory") == 0
        assert b"x-mq1-a" not in snapshot(tmp_path / "inventory")["hosts.yml"]

    @pytest.mark.parametrize("name", [".secrets/app", "group_vars/mine.yml", "README.md", ".git/HEAD"])
    def test_adopt_refuses_output_directory_with_foreign_file(
        self, name: str, rendered_directory: Path, tmp_path: Path, capsys: Any
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
        self, name: str, rendered_directory: Path, tmp_path: Path, capsys: Any
    ) -> None:
        run_adopt(rendered_directory, "-o", tmp_path / "inventory")
        path = tmp_path / "inventory" / name
        path.write_text(path.read_text().replace("sha256 ", "sha256 0") + "# by hand\n")

        assert run_adopt(rendered_directory, "-o", tmp_path / "inventory") == 2
        assert "files in this directory were changed after adopt wrote them" in capsys.readouterr().err

    def test_adopted_brokers_whose_names_have_no_node_are_single_brokers(self, tmp_path: Path, capsys: Any) -> None:
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

    @pytest.mark.parametrize("node", [(), ("--node", "a")])
    @pytest.mark.parametrize(
        "hosts", [("broker1",), ("activemq-prod",), ("10.0.0.1",), ("alpha", "beta"), ("q1", "q2")]
    )
    def test_command_line_in_error_of_adopt_adopts_files(
        self, hosts: tuple[str, ...], node: tuple[str, ...], handwritten_file: Path, tmp_path: Path, capsys: Any
    ) -> None:
        files = []
        for host in hosts:
            files.append(tmp_path / f"{host}.xml")
            files[-1].write_bytes(HANDWRITTEN)
        arguments = [f"{host}={file}" for host, file in zip(hosts, files, strict=True)]
        assert run_adopt(*arguments, *node, "--release", "5.18.3", "-o", tmp_path / "inventory") == 2
        error = capsys.readouterr().err

        words = shlex.split(error.rpartition("\n  activemq-fleet ")[2])
        assert main(words) == 0

        fleet = load_fleet([str(tmp_path / "inventory")])
        assert [broker.host for broker in fleet.brokers] == list(hosts)

    def test_adopt_error_for_paths_without_host_has_command_with_probable_hosts(
        self, tmp_path: Path, capsys: Any
    ) -> None:
        for host in ("north", "south"):
            (tmp_path / "collected" / host / "conf").mkdir(parents=True)
            (tmp_path / "collected" / host / "conf/activemq.xml").write_bytes(HANDWRITTEN)
        assert run_adopt(tmp_path / "collected", "--release", "5.18.3", "-o", tmp_path / "inventory") == 2

        words = shlex.split(capsys.readouterr().err.rpartition("\n  activemq-fleet ")[2])
        assert main(words) == 0
        fleet = load_fleet([str(tmp_path / "inventory")])
        assert [broker.host for broker in fleet.brokers] == ["north", "south"]

    def test_command_line_in_error_of_adopt_repeats_each_option(
        self, handwritten_file: Path, tmp_path: Path, capsys: Any
    ) -> None:
        values = tmp_path / "some values"
        values.write_text("NAME=value\n")
        options = ["--release", "broker1=5.18.3", "--address", "broker1=10.0.0.1", "--shared-store", "p"]
        options += ["--properties", str(values), "--format", "json"]
        assert (
            run_adopt(
                f"broker1={handwritten_file}", *options, "--no-color", "--node", "z", "-o", tmp_path / "an inventory"
            )
            == 2
        )

        words = shlex.split(capsys.readouterr().err.rpartition("\n  activemq-fleet ")[2])
        assert words[:2] == ["adopt", f"broker1={handwritten_file}"]
        suggested_options = list(zip(words[2::2], words[3::2], strict=True))
        for option, value in zip(options[::2], options[1::2], strict=True):
            assert (option, value) in suggested_options
        assert ("-o", str(tmp_path / "an inventory")) in suggested_options
        assert [value for option, value in suggested_options if option == "--node"] == ["a"]

    def test_command_line_in_error_of_adopt_has_placeholder_for_release(
        self, handwritten_file: Path, tmp_path: Path, capsys: Any
    ) -> None:
        assert run_adopt(f"broker1={handwritten_file}", "-o", tmp_path / "i") == 2

        assert capsys.readouterr().err.rstrip().endswith(f"--release RELEASE -o {tmp_path / 'i'}")

    def test_naming_pattern_for_any_name_does_not_match_directory_conf(self, tmp_path: Path) -> None:
        for host in ("alpha", "beta"):
            (tmp_path / "files" / host / "conf").mkdir(parents=True)
            (tmp_path / "files" / host / "conf/activemq.xml").write_bytes(HANDWRITTEN)
        options = ("--release", "5.18.3", "--naming-pattern", r"^(?P<pair>(?P<group>[^.]+))$", "--node", "a")

        assert run_adopt(tmp_path / "files", *options, "-o", tmp_path / "i") == 0
        assert [broker.host for broker in load_fleet([str(tmp_path / "i")]).brokers] == ["alpha", "beta"]

    def test_adopted_single_brokers_have_no_note_about_shared_store(self, tmp_path: Path, capsys: Any) -> None:
        store = '<persistenceAdapter><kahaDB directory="/data/kahadb"/></persistenceAdapter>'
        for host in ("broker1", "broker2"):
            (tmp_path / host).mkdir()
            (tmp_path / host / "activemq.xml").write_bytes(document(store, brokerName=host))
        pattern = r"^(?P<pair>(?P<group>broker)(?P<number>[0-9]+))$"
        assert (
            run_adopt(
                tmp_path, "--release=5.18.3", "--naming-pattern", pattern, "--node=a", "-o", tmp_path / "inventory"
            )
            == 0
        )

        assert "do not show that both nodes" not in capsys.readouterr().out

    def test_adopt_writes_naming_pattern_to_inventory(self, handwritten_file: Path, tmp_path: Path) -> None:
        file = f"shop1x={handwritten_file}"
        assert run_adopt(file, "--release", "5.18.3", "--naming-pattern", PATTERN, "-o", tmp_path / "inventory") == 0

        assert [broker.pair for broker in load_fleet([str(tmp_path / "inventory")]).brokers] == ["shop-mq1"]

    def test_adopt_waives_and_reports_blocking_finding_of_original_files(
        self, handwritten_file: Path, tmp_path: Path, capsys: Any
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

    def test_adopted_inventory_has_note_about_store_with_relative_path(
        self, handwritten_file: Path, tmp_path: Path
    ) -> None:
        store = '<persistenceAdapter><kahaDB directory="${activemq.data}/kahadb"/></persistenceAdapter>'
        handwritten_file.write_bytes(document(store, brokerName="hand"))
        inventory = tmp_path / "inventory"
        assert run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", inventory) == 0

        comment = " ".join((inventory / "group_vars/all.yml").read_text().replace("#", "").split())
        assert "Set activemq_store_directory to the absolute path of this directory on the host" in comment

    def test_adopted_inventory_of_file_with_startup_error_fails_check(
        self, handwritten_file: Path, tmp_path: Path, capsys: Any
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


class TestOutput:
    def test_adopt_writes_json_differences_to_stdout_and_notes_to_stderr(
        self, handwritten_file: Path, tmp_path: Path, capsys: Any
    ) -> None:
        assert (
            run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", tmp_path / "i", "--format", "json")
            == 0
        )

        output = capsys.readouterr()
        differences = json.loads(output.out)
        assert {tuple(difference) for difference in differences} == {
            ("host", "path", "direction", "original", "rendered")
        }
        assert {"beans/broker/@id", "beans/broker/systemUsage"} <= {difference["path"] for difference in differences}
        assert "note: o-mq1-a: only this node of pair o-mq1 was given" in output.err

    def test_adopt_json_output_without_differences_is_empty_list(
        self, rendered_directory: Path, tmp_path: Path, capsys: Any
    ) -> None:
        run_adopt(rendered_directory, "-o", tmp_path / "i", "--format", "json")

        assert json.loads(capsys.readouterr().out) == []

    def test_adopt_text_output_names_each_differing_place_once_with_its_hosts(
        self, handwritten_file: Path, tmp_path: Path, capsys: Any
    ) -> None:
        file_with_loss = document("", brokerName="hand", vmConnectorURI="vm://${x}")
        handwritten_file.write_bytes(file_with_loss)
        run_adopt(*(f"o-mq{n}-a={handwritten_file}" for n in (1, 2, 3, 4)), "--release", "5.18.3", "-o", tmp_path / "i")

        out = capsys.readouterr().out
        assert out.count("beans/broker/@vmConnectorURI: rendered lacks") == 1
        assert out.count("broker/@id\n") == 1
        assert "    hosts:    all 4" in out.splitlines()
        assert "and 1 more" not in out.partition("The rendered files differ")[2]

    def test_adopt_text_output_lists_all_hosts_of_difference(
        self, handwritten_file: Path, tmp_path: Path, capsys: Any
    ) -> None:
        handwritten_file.write_bytes(document("", brokerName="hand", vmConnectorURI="vm://${x}"))
        files = [f"o-mq{number}-a={handwritten_file}" for number in range(1, 6)]
        other_file = tmp_path / "other.xml"
        other_file.write_bytes(HANDWRITTEN)
        run_adopt(*files, f"o-mq6-a={other_file}", "--release", "5.18.3", "-o", tmp_path / "i")

        lines = capsys.readouterr().out.splitlines()
        position = lines.index("beans/broker/@vmConnectorURI: rendered lacks")
        assert lines[position + 1] == "    hosts:    o-mq1-a, o-mq2-a, o-mq3-a, o-mq4-a, o-mq5-a"

    def test_adopt_text_output_starts_with_losses_and_ends_with_additions(
        self, handwritten_file: Path, tmp_path: Path, capsys: Any
    ) -> None:
        handwritten_file.write_bytes(document("", brokerName="hand", vmConnectorURI="vm://${x}"))
        run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", tmp_path / "i")

        lines = capsys.readouterr().out.splitlines()
        positions = [next(n for n, line in enumerate(lines) if text in line) for text in LINES_IN_ORDER]
        assert positions == sorted(positions)
        assert lines[lines.index("Next:") - 1].startswith("read: o-mq1-a: ")

    def test_adopt_reports_limit_converted_to_percentage_in_single_line(
        self, handwritten_file: Path, tmp_path: Path, capsys: Any
    ) -> None:
        usage = (
            "<systemUsage><systemUsage><storeUsage><storeUsage limit='20 gb'/></storeUsage></systemUsage></systemUsage>"
        )
        handwritten_file.write_bytes(document(usage, brokerName="hand"))
        run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", tmp_path / "i")

        out = capsys.readouterr().out
        assert (
            "storeUsage/@limit: limit 20 gb becomes percentLimit 100 of total 20 gb (`activemq-fleet rule C012`" in out
        )
        assert "rendered lacks" not in out
        assert "/@percentLimit" not in out

    def test_adopt_shows_effect_of_addition_that_changes_behavior(
        self, handwritten_file: Path, tmp_path: Path, capsys: Any
    ) -> None:
        run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", tmp_path / "i")

        lines = capsys.readouterr().out.splitlines()
        effects = [line.partition(":")[2].strip() for line in lines if line.startswith("    effect:")]
        assert "the broker stops if the disk is full" in effects
        lines_of_other_additions = lines[next(n for n, line in enumerate(lines) if "other additions" in line) :]
        assert "    broker/@id" in lines_of_other_additions

    def test_adopt_names_variable_that_undoes_each_addition(
        self, handwritten_file: Path, tmp_path: Path, capsys: Any
    ) -> None:
        run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", tmp_path / "i")

        lines = capsys.readouterr().out.splitlines()
        undos = [line.partition("undo:")[2].strip() for line in lines if line.lstrip().startswith("undo:")]
        effects = [position for position, line in enumerate(lines) if line.startswith("    effect:")]
        assert len(effects) > 3
        assert all(lines[position + 1].startswith("    undo:") for position in effects)
        possible = [undo for undo in undos if not undo.startswith("not possible: ")]
        variables = [yaml.safe_load(part) for undo in possible for part in undo.split("; ")]
        assert {"activemq_broker_attributes": {"schedulePeriodForDiskUsageCheck": 0}} in variables
        policy = {"destination": ">", "kind": "topic", "topic_prefetch": 32766}
        assert {"activemq_destination_policies": [policy]} in variables

    def test_adopt_output_ends_with_steps_until_deployment(
        self, handwritten_file: Path, tmp_path: Path, capsys: Any
    ) -> None:
        inventory = str(tmp_path / "an inventory")
        run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", inventory)

        lines = capsys.readouterr().out.splitlines()
        steps = lines[lines.index("Next:") + 1 :]
        stop, *rollback_steps = (step for step in steps if step.startswith("     "))
        steps = [step for step in steps if not step.startswith("     ")]
        assert [step.split()[0] for step in steps] == ["1.", "2.", "3.", "4.", "5.", "6."]
        assert steps[0].endswith(f"{inventory}/group_vars/all.yml")
        commands = [shlex.split(step, comments=True)[1:] for step in (steps[1], steps[2], steps[4], steps[5])]
        site = ["ansible-playbook", "-i", inventory, "activemq.fleet.site"]
        assert commands == [
            ["activemq-fleet", "check", "-i", inventory],
            [*site, "--check", "--diff"],
            site,
            ["activemq-fleet", "status", "-i", inventory],
        ]
        assert "disable --now activemq" in stop
        rollback = " ".join(" ".join(rollback_steps).split())
        assert rollback.startswith("To return to the old broker after step 5, remove the new units")
        assert "restore the copy, and start the old unit (systemctl daemon-reload; systemctl enable --now" in rollback

    def test_adopted_inventory_has_comments_with_variables_missing_in_files(
        self, handwritten_file: Path, tmp_path: Path
    ) -> None:
        run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", tmp_path / "i")

        path = tmp_path / "i/group_vars/all.yml"
        group_variables = path.read_text()
        _, _, comments = group_variables.partition("# Before you deploy, uncomment these lines")
        lines = [line.removeprefix("# ") for line in comments.splitlines()[1:] if line.startswith("# ")]
        variables = yaml.safe_load("\n".join(line for line in lines if "  #" in line))
        assert variables == {
            "ansible_become": True,
            "activemq_home": "/opt/activemq",
            "activemq_user": "activemq",
            "activemq_store_directory": "/opt/activemq/data/kahadb",
            "activemq_heap": "512m",
        }
        path.write_text(group_variables + yaml.safe_dump(variables))
        (broker,) = load_fleet(tmp_path / "i").brokers
        assert broker.settings.store_directory == "/opt/activemq/data/kahadb"

    def test_comments_of_adopted_inventory_omit_store_whose_path_is_in_file(
        self, handwritten_file: Path, tmp_path: Path
    ) -> None:
        handwritten_file.write_bytes(
            document('<persistenceAdapter><kahaDB directory="/data/mq"/></persistenceAdapter>')
        )
        run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", tmp_path / "i")

        group_variables = (tmp_path / "i/group_vars/all.yml").read_text()
        assert "# activemq_user: activemq " in group_variables
        assert "# activemq_store_directory" not in group_variables

    def test_adopt_output_names_password_file_of_each_secret(
        self, rendered_directory: Path, tmp_path: Path, capsys: Any
    ) -> None:
        run_adopt(rendered_directory, "-o", tmp_path / "i")

        output = capsys.readouterr().out
        assert f"the password of the network user net from the file {tmp_path}/i/.secrets/net, which does" in output

    def test_site_refuses_adopted_inventory_without_password_file_and_creates_none(
        self, rendered_directory: Path, tmp_path: Path
    ) -> None:
        inventory = tmp_path / "i"
        run_adopt(rendered_directory, "-o", inventory)

        refusals = {finding.message for finding in site_playbook_refusal_findings(load_fleet(inventory))}
        (refusal,) = (message for message in refusals if "password" in message)
        assert "reads a password from .secrets/net in the directory of the inventory, but this file does not" in refusal
        assert not (inventory / ".secrets").exists()

        (inventory / ".secrets").mkdir(mode=0o700)
        (inventory / ".secrets" / "net").write_text("current-password\n")
        refusals = {finding.message for finding in site_playbook_refusal_findings(load_fleet(inventory))}
        assert not any("password" in message for message in refusals)


class TestHosts:
    def test_adopted_file_belongs_to_host_of_its_argument(self, handwritten_file: Path, tmp_path: Path) -> None:
        assert run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", tmp_path / "i") == 0

    @pytest.mark.parametrize("path", ["o-mq1-a.example.com/etc/activemq.xml", "o-mq1-a/broker.xml", "x/o-mq1-a.xml"])
    def test_adopted_file_belongs_to_host_in_its_path(self, path: str, tmp_path: Path) -> None:
        file = tmp_path / "files" / path
        file.parent.mkdir(parents=True)
        file.write_bytes(HANDWRITTEN)

        assert run_adopt(file, "--release", "5.18.3", "-o", tmp_path / "i") == 0
        assert [broker.pair for broker in load_fleet([str(tmp_path / "i")]).brokers] == ["o-mq1"]

    def test_adopt_address_option_resolves_target_of_bridge(self, tmp_path: Path, capsys: Any) -> None:
        uri = "masterslave:(tcp://10.0.0.1:61616,tcp://10.0.0.2:61616)"
        bridge = f'<networkConnectors><networkConnector name="up" uri="{uri}"/></networkConnectors>'
        port = '<transportConnectors><transportConnector name="o" uri="tcp://0.0.0.0:61616"/></transportConnectors>'
        store = '<persistenceAdapter><kahaDB directory="/mnt/{}"/></persistenceAdapter>'
        files = {f"o-mq1-{node}": document(bridge + store.format(1) + port, brokerName="one") for node in "ab"}
        files |= {f"o-mq2-{node}": document(store.format(2) + port, brokerName="two") for node in "ab"}
        write_files(tmp_path / "files", files)
        addresses = ["--address", "o-mq2-a=10.0.0.1", "--address", "o-mq2-b=10.0.0.2"]

        assert run_adopt(tmp_path / "files", "--release", "5.18.3", "-o", tmp_path / "i", *addresses) == 0
        fleet = load_fleet([str(tmp_path / "i")])
        assert [(link.name, link.target) for link in fleet.broker("o-mq1-a").links] == [("up", "o-mq2")]
        assert "adopt keeps the XML of this bridge" not in capsys.readouterr().out

    def test_line_break_in_adopted_file_name_does_not_leave_yaml_comment(self, tmp_path: Path) -> None:
        file = tmp_path / "o-mq1-a" / "x\n    evil:.xml"
        file.parent.mkdir()
        file.write_bytes(HANDWRITTEN)

        assert run_adopt(file, "--release", "5.18.3", "-o", tmp_path / "i") == 0
        assert [broker.host for broker in load_fleet([str(tmp_path / "i")]).brokers] == ["o-mq1-a"]

    def test_adopt_release_option_applies_to_one_host_or_all_hosts(
        self, handwritten_file: Path, tmp_path: Path
    ) -> None:
        files = [f"o-mq{number}-a={handwritten_file}" for number in (1, 2)]
        run_adopt(*files, "--release", "o-mq2-a=6.3.1", "--release", "5.18.3", "-o", tmp_path / "i")

        fleet = load_fleet([str(tmp_path / "i")])
        assert [broker.release.text for broker in fleet.brokers] == ["5.18.3", "6.3.1"]


class TestRefusals:
    @pytest.mark.parametrize(
        ("content", "expected"),
        [
            (b"<a>", "broker.xml:1:4: the file is not XML"),
            (b"", "the file is an empty file"),
            (b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>', "the file has a DOCTYPE"),
            (
                b"<beans/>",
                "<beans> has no namespace: set its attribute xmlns to http://www.springframework.org/schema/beans",
            ),
            (b'<beans xmlns="http://www.springframework.org/schema/beans"/>', "has no <broker>"),
            (
                HANDWRITTEN.replace(b"</beans>", b'<broker xmlns="http://activemq.apache.org/schema/core"/></beans>'),
                "2 <broker>",
            ),
            (HANDWRITTEN.replace(b'"hand"', '"\ue000"'.encode()), "U+E000"),
        ],
    )
    def test_adopt_refuses_file_that_is_no_activemq_xml(
        self, content: bytes, expected: str, handwritten_file: Path, tmp_path: Path, capsys: Any
    ) -> None:
        handwritten_file.write_bytes(content)

        assert run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", tmp_path / "i") == 2
        error = capsys.readouterr().err
        assert expected in error
        assert error.count("activemq-fleet: error: ") == 1
        assert all(line.startswith(("If the brokers are", "  activemq-fleet adopt")) for line in error.splitlines()[1:])
        assert not (tmp_path / "i").exists()

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (["{hand}", "--release", "5.18.3"], "because no part of its path matches the naming pattern"),
            (["o-mq1-a={hand}"], "--release o-mq1-a=RELEASE for this one"),
            (["o-mq1-a={hand}", "--release", "9.9.9"], "is not known"),
            (
                ["o-mq1-a={hand}", "--release", "o-mq2-a=5.5.1"],
                "o-mq2-a, but no file of this host was given",
            ),
            (["shop={hand}", "--release", "5.18.3"], "the host name shop does not match"),
            (["o-mq1-a={hand}", "o-mq1-a={other}", "--release", "5.18.3"], "was also given for host o-mq1-a"),
            (["web1={hand}", "web1={other}", "--release", "5.18.3"], "was also given for host web1"),
            (["o-mq1-a={hand}", "o-mq1-a.x={hand}", "--release", "5.18.3"], "are both node a of pair o-mq1"),
            (["o-mq1-a={hand}", "O-mq1-a={hand}", "--release", "5.18.3"], "would have the same inventory group"),
            (["o-mq1-a={empty}", "--release", "5.18.3"], "the directory contains no activemq.xml"),
            (["o-mq1-a=nosuch", "--release", "5.18.3"], "nosuch: there is no such file"),
            (["o-mq1-a=/dev/null", "--release", "5.18.3"], "is neither a file nor a directory"),
            (
                ["o-mq1-a={hand}", "--release", "5.18.3", "--address", "o-mq2-a=x"],
                "none of the given activemq.xml files belongs to the host 'o-mq2-a': use one of the hosts o-mq1-a",
            ),
            (
                ["o-mq1-a={hand}", "--release", "5.18.3", "--address", "10.0.0.1"],
                "the value of --address has no host: write HOST=ADDRESS, such as o-mq1-a=192.0.2.10",
            ),
            (["o-mq1-a={hand}", "--release", "5.18.3", "--address", "o-mq1-a=a_b"], "contains an underscore"),
            (["o mq={hand}", "--release", "5.18.3"], "is not a host name"),
            (["", "--release", "5.18.3"], "contains no path: write a file"),
            (["o-mq1-a=", "--release", "5.18.3"], "contains no path: write a file"),
            (["o-mq1-a={hand}", "--release", "5.18.3", "--naming-pattern", "("], "is not a valid regular expression"),
            ([], "Missing argument"),
        ],
    )
    def test_adopt_refuses_invalid_arguments(
        self, arguments: list[str], expected: str, handwritten_file: Path, tmp_path: Path, capsys: Any
    ) -> None:
        (tmp_path / "empty").mkdir()
        other_file = tmp_path / "other.xml"
        other_file.write_bytes(HANDWRITTEN)
        words = [word.format(hand=handwritten_file, other=other_file, empty=tmp_path / "empty") for word in arguments]

        assert run_adopt(*words, "-o", tmp_path / "i") == 2
        error = capsys.readouterr().err
        assert expected in error
        assert error.count("activemq-fleet: error: ") == 1
        assert all(line.startswith(("If the brokers are", "  activemq-fleet adopt")) for line in error.splitlines()[1:])
        assert not (tmp_path / "i").exists()

    def test_adopt_refuses_foreign_output_directory_before_it_reads_files(self, tmp_path: Path, capsys: Any) -> None:
        (tmp_path / "foreign").mkdir()
        (tmp_path / "foreign" / "hosts.yml").write_text("all: {}\n")

        assert run_adopt("nosuch", "-o", tmp_path / "foreign") == 2
        assert "contains hosts.yml" in capsys.readouterr().err
