"""adopt: what it prints, and the comments that it writes for the operator."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from activemq_fleet.inventory import load_fleet
from activemq_fleet.site_refusals import site_playbook_refusal_findings
from tests.unit.adopt_files import activemq_xml_by_host, document, write_files
from tests.unit.adopt_runs import HANDWRITTEN, run_adopt
from tests.unit.fleets import fleet

pytestmark = pytest.mark.usefixtures("schemas_unavailable")
LINES_IN_ORDER = (
    "adopt left out the attribute vmConnectorURI of <broker>",
    "only this node of pair",
    "the adopted files do not show the values of these variables, so their defaults apply",
    "beans/broker/@vmConnectorURI: rendered lacks",
    "with an effect on the broker:",
)
"""Lines of a report in order: losses, other notes, the list of changes, and additions."""


def test_adopt_writes_json_differences_to_stdout_and_notes_to_stderr(
    handwritten_file: Path, tmp_path: Path, capsys: Any
) -> None:
    assert (
        run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", tmp_path / "i", "--format", "json") == 0
    )

    output = capsys.readouterr()
    differences = json.loads(output.out)
    assert {tuple(difference) for difference in differences} == {("host", "path", "direction", "original", "rendered")}
    assert {"beans/broker/@id", "beans/broker/systemUsage"} <= {difference["path"] for difference in differences}
    assert "note: o-mq1-a: only this node of pair o-mq1 was given" in output.err


def test_adopt_json_output_without_differences_is_empty_list(
    rendered_directory: Path, tmp_path: Path, capsys: Any
) -> None:
    run_adopt(rendered_directory, "-o", tmp_path / "i", "--format", "json")

    assert json.loads(capsys.readouterr().out) == []


def test_adopt_text_output_names_each_differing_place_once_with_its_hosts(
    handwritten_file: Path, tmp_path: Path, capsys: Any
) -> None:
    file_with_loss = document("", brokerName="hand", vmConnectorURI="vm://${x}")
    handwritten_file.write_bytes(file_with_loss)
    run_adopt(*(f"o-mq{n}-a={handwritten_file}" for n in (1, 2, 3, 4)), "--release", "5.18.3", "-o", tmp_path / "i")

    out = capsys.readouterr().out
    assert out.count("beans/broker/@vmConnectorURI: rendered lacks") == 1
    assert out.count("broker/@id\n") == 1
    assert "    hosts:    all 4" in out.splitlines()
    assert "and 1 more" not in out.partition("The rendered files differ")[2]


def test_adopt_text_output_lists_all_hosts_of_difference(handwritten_file: Path, tmp_path: Path, capsys: Any) -> None:
    handwritten_file.write_bytes(document("", brokerName="hand", vmConnectorURI="vm://${x}"))
    files = [f"o-mq{number}-a={handwritten_file}" for number in range(1, 6)]
    other_file = tmp_path / "other.xml"
    other_file.write_bytes(HANDWRITTEN)
    run_adopt(*files, f"o-mq6-a={other_file}", "--release", "5.18.3", "-o", tmp_path / "i")

    lines = capsys.readouterr().out.splitlines()
    position = lines.index("beans/broker/@vmConnectorURI: rendered lacks")
    assert lines[position + 1] == "    hosts:    o-mq1-a, o-mq2-a, o-mq3-a, o-mq4-a, o-mq5-a"


def test_adopt_text_output_starts_with_losses_and_ends_with_additions(
    handwritten_file: Path, tmp_path: Path, capsys: Any
) -> None:
    handwritten_file.write_bytes(document("", brokerName="hand", vmConnectorURI="vm://${x}"))
    run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", tmp_path / "i")

    lines = capsys.readouterr().out.splitlines()
    positions = [next(n for n, line in enumerate(lines) if text in line) for text in LINES_IN_ORDER]
    assert positions == sorted(positions)
    assert lines[lines.index("Next:") - 1].startswith("read: o-mq1-a: ")


def test_adopt_reports_limit_converted_to_percentage_in_single_line(
    handwritten_file: Path, tmp_path: Path, capsys: Any
) -> None:
    usage = "<systemUsage><systemUsage><storeUsage><storeUsage limit='20 gb'/></storeUsage></systemUsage></systemUsage>"
    handwritten_file.write_bytes(document(usage, brokerName="hand"))
    run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", tmp_path / "i")

    out = capsys.readouterr().out
    assert "storeUsage/@limit: limit 20 gb becomes percentLimit 100 of total 20 gb (`activemq-fleet rule C012`" in out
    assert "rendered lacks" not in out
    assert "/@percentLimit" not in out


def test_adopt_shows_effect_of_addition_that_changes_behavior(
    handwritten_file: Path, tmp_path: Path, capsys: Any
) -> None:
    run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", tmp_path / "i")

    lines = capsys.readouterr().out.splitlines()
    effects = [line.partition(":")[2].strip() for line in lines if line.startswith("    effect:")]
    assert "the broker stops if the disk is full" in effects
    lines_of_other_additions = lines[next(n for n, line in enumerate(lines) if "other additions" in line) :]
    assert "    broker/@id" in lines_of_other_additions


def test_adopt_names_variable_that_undoes_each_addition(handwritten_file: Path, tmp_path: Path, capsys: Any) -> None:
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


def test_adopt_output_ends_with_steps_until_deployment(handwritten_file: Path, tmp_path: Path, capsys: Any) -> None:
    inventory = str(tmp_path / "an inventory")
    run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", inventory)

    lines = capsys.readouterr().out.splitlines()
    steps = lines[lines.index("Next:") + 1 :]
    drop_ins, stop, *rollback_steps = (step for step in steps if step.startswith("     "))
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
    assert "move /etc/systemd/system/activemq.service.d away" in drop_ins
    assert "disable --now activemq" in stop
    rollback = " ".join(" ".join(rollback_steps).split())
    assert rollback.startswith("To return to the old broker after step 5, remove the new units")
    assert "rm -f /etc/systemd/system/activemq.service /etc/systemd/system/activemq-watchdog.service" in rollback
    assert rollback.endswith(
        "the copy, and start the old unit (systemctl daemon-reload; systemctl enable --now activemq)."
    )


def test_adopt_steps_name_service_of_unit_file_that_was_read(tmp_path: Path, capsys: Any) -> None:
    for name, text in {
        "conf/activemq.xml": document("").decode(),
        "systemd/amq-broker.service": "[Service]\nExecStart=/opt/activemq/bin/activemq start\n",
        "systemd/amq-broker-watchdog.service": "[Service]\nExecStart=/usr/local/bin/watch-activemq\n",
        "systemd/other.service": "[Service]\nExecStart=/usr/sbin/other\n",
    }.items():
        path = tmp_path / "o-mq1-a" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    run_adopt(tmp_path / "o-mq1-a", "--release", "5.18.3", "-o", tmp_path / "i")

    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if line.startswith("systemctl disable")] == [
        "systemctl disable --now amq-broker  # the downtime begins"
    ]
    assert "(systemctl daemon-reload; systemctl enable --now amq-broker)." in lines


def test_adopt_steps_of_pure_pair_stop_slave_first_and_run_resync(tmp_path: Path, capsys: Any) -> None:
    pure_fleet = fleet("o-mq1", "o-mq2", domain="", ha="pure", release="5.5.1")
    rendered = write_files(tmp_path / "rendered", activemq_xml_by_host(pure_fleet))
    inventory = str(tmp_path / "i")
    run_adopt(rendered, "-o", inventory)

    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    resync = f"ansible-playbook -i {inventory} activemq.fleet.resync -e activemq_target="
    assert [line.partition("  #")[0] for line in lines if "activemq.fleet.resync" in line] == [
        f"{resync}o-mq1",
        f"{resync}o-mq2",
    ]
    assert any(line.endswith("stop the old slave first, then the old master. Otherwise the") for line in lines)
    (site,) = [line for line in lines if line.startswith("5. ")]
    assert site.endswith("except pure pairs")


def test_adopted_inventory_has_comments_with_variables_missing_in_files(handwritten_file: Path, tmp_path: Path) -> None:
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


def test_comments_of_adopted_inventory_omit_store_whose_path_is_in_file(handwritten_file: Path, tmp_path: Path) -> None:
    handwritten_file.write_bytes(document('<persistenceAdapter><kahaDB directory="/data/mq"/></persistenceAdapter>'))
    run_adopt(f"o-mq1-a={handwritten_file}", "--release", "5.18.3", "-o", tmp_path / "i")

    group_variables = (tmp_path / "i/group_vars/all.yml").read_text()
    assert "# activemq_user: activemq " in group_variables
    assert "# activemq_store_directory" not in group_variables


def test_adopt_output_names_password_file_of_each_secret(rendered_directory: Path, tmp_path: Path, capsys: Any) -> None:
    run_adopt(rendered_directory, "-o", tmp_path / "i")

    output = capsys.readouterr().out
    assert f"the password of the network user net from the file {tmp_path}/i/.secrets/net, which does" in output


def test_site_refuses_adopted_inventory_without_password_file_and_creates_none(
    rendered_directory: Path, tmp_path: Path
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
