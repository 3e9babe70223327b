"""Messages of the roles, each a single line: a folded YAML text keeps the line breaks before indented lines."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.situations import some_situations

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = sorted([*REPOSITORY.glob("roles/*/tasks/*.yml"), *REPOSITORY.glob("playbooks/**/*.yml")])


def task_messages(node: Any) -> Iterator[str]:
    """Yield the texts of the messages of tasks, including tasks in blocks."""
    if isinstance(node, list):
        for child in node:
            yield from task_messages(child)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key in ("msg", "fail_msg", "success_msg") and isinstance(value, str):
                yield value
            else:
                yield from task_messages(value)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(REPOSITORY)))
def test_role_message_contains_line_break_only_inside_expression(file: Path) -> None:
    texts = [
        re.sub(r"\{\{.*?\}\}", "", text, flags=re.DOTALL) for text in task_messages(yaml.safe_load(file.read_text()))
    ]
    assert [text for text in texts if "\n" in text.strip()] == []


@some_situations(1)
@pytest.mark.parametrize(
    ("changed_by_host", "message"),
    [
        ({"a1": ["a1", "a2"], "a2": ["a1", "a2"], "b2": []}, "keep the new configuration: a1, a2. The rollback"),
        ({"b2": []}, "No other broker was started or restarted. The rollback failed on these hosts, which still have"),
    ],
)
def test_failed_site_reports_brokers_that_were_changed_before(
    tmp_path: Path, changed_by_host: dict[str, list[str]], message: str
) -> None:
    tasks = yaml.safe_load((REPOSITORY / "roles/broker/tasks/rollback_site.yml").read_text())
    hosts: dict[str, dict[str, object]] = {
        host: {"__activemq_next_step": {"progress": {"done": changed}}} for host, changed in changed_by_host.items()
    }
    failing: dict[str, object] = {
        "__activemq_first_failure": "its port is taken",
        "__activemq_site": {"brokers": {}},
        "__activemq_restored_versions": {"b1": "1a2b"},
        "__activemq_rollbacks": {
            "results": [
                {"unreachable": True, "item": {"key": "c1", "value": {"pid": None}}},
                {"skipped": True, "item": {"key": "a1", "value": {"pid": 7}}},
                {"version": "1a2b", "item": {"key": "b1", "value": {"pid": None}}},
            ]
        },
        "__activemq_state_after_rollback": {"state": "active"},
        "__activemq_planned_starts": {"hosts": ["a1", "a2", "b1", "b2", "c1"]},
        "__activemq_next_step": {"progress": {"done": []}},
    }
    variables_by_host = {
        host: {"ansible_connection": "local", **facts} for host, facts in {**hosts, "b1": failing}.items()
    }
    inventory, play = tmp_path / "inventory.yml", tmp_path / "play.yml"
    inventory.write_text(
        yaml.safe_dump({"all": {"hosts": {"a1": {}, "a2": {}, "b2": {}, "c1": {}} | variables_by_host}})
    )
    play.write_text(yaml.safe_dump([{"hosts": "b1", "gather_facts": False, "tasks": tasks[-1:]}]))
    completed = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", "-i", inventory, play],
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 2
    assert message in completed.stdout
    assert "at the next start: c1. Do not start these brokers before" in completed.stdout
    assert "configuration 1a2b again, and is active" in completed.stdout


@some_situations(1)
@pytest.mark.parametrize(
    ("failed_result", "message"),
    [
        (
            {"msg": "timed out"},
            "timed out (check /srv/orders/data/activemq.log and journalctl -u orders.service). No rollback",
        ),
        (
            {"msg": "the broker is stopped (check /srv/orders/data/activemq.log)", "data": "/srv/orders/data"},
            "the broker is stopped (check /srv/orders/data/activemq.log). No rollback",
        ),
    ],
)
def test_failed_start_of_broker_names_its_logs_once(
    tmp_path: Path, failed_result: dict[str, str], message: str
) -> None:
    tasks = yaml.safe_load((REPOSITORY / "roles/broker/tasks/rollback_site.yml").read_text())
    variables = {
        "ansible_connection": "local",
        "ansible_failed_result": failed_result,
        "__activemq_site": {"brokers": {"a1": {"base": "/srv/orders", "instance": "orders"}}},
        "__activemq_broker_state": {"pid": 7, "previous": None},
        "__activemq_next_step": {"progress": {"done": []}},
        "__activemq_planned_starts": {"hosts": ["a1"]},
    }
    inventory, play = tmp_path / "inventory.yml", tmp_path / "play.yml"
    inventory.write_text(yaml.safe_dump({"all": {"hosts": {"a1": variables}}}))
    role_variables = str(REPOSITORY / "roles/broker/vars/main.yml")
    play.write_text(
        yaml.safe_dump([{"hosts": "a1", "gather_facts": False, "vars_files": [role_variables], "tasks": tasks}])
    )
    completed = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", "-i", inventory, play],
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 2
    assert f"a1 did not become ready: {message} was done" in completed.stdout


RECORDS = {
    "roles/agent/tasks/prepare.yml": "Read the installed configuration",
    "roles/agent/tasks/software.yml": "Check what is installed",
    "roles/agent/tasks/start.yml": "Check which configuration the agent has read",
    "roles/loadbalancer/tasks/service.yml": "Check which configuration they have read",
}


@some_situations(2)
@pytest.mark.parametrize(("record", "fails"), [("missing", False), ("directory", True)])
@pytest.mark.parametrize("file", RECORDS)
def test_only_missing_record_of_last_run_is_no_error(file: str, record: str, fails: bool, tmp_path: Path) -> None:
    """A record that exists and cannot be read would restart the service in every run."""
    tasks = yaml.safe_load((REPOSITORY / file).read_text())
    task = next(task for task in tasks if task["name"] == RECORDS[file])
    (tmp_path / "directory").mkdir()
    task["ansible.builtin.slurp"]["path"] = str(tmp_path / record)
    play = tmp_path / "play.yml"
    play.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": [task]}]))
    program = Path(sys.executable).with_name("ansible-playbook")
    options = ["-i", "localhost,", "-c", "local", "-e", f"ansible_python_interpreter={sys.executable}"]

    completed = subprocess.run([str(program), *options, str(play)], capture_output=True, text=True, check=False)

    assert (completed.returncode != 0) == fails, completed.stdout


SWITCHOVER_FAILURES: dict[str, tuple[dict[str, Any], str, str]] = {
    "no broker was stopped": ({}, "the watch gets no answer", "the watch gets no answer"),
    "the job that stops the broker did not start": (
        {"__activemq_return_job_start": {"failed": True}},
        "no job",
        "no job",
    ),
    "the old node did not become standby": (
        {"__activemq_return_job_start": {"failed": False}, "__activemq_takeover": {"state": "active"}},
        "the broker is hung",
        "the switchover from a1 to b1 did not complete: the broker is hung. b1 serves clients with release 5.18.3, "
        "without a standby, so no rollback was done. No further host is changed. Correct the cause on a1, and run the "
        "same command again",
    ),
    "the peer did not take over": (
        {"__activemq_return_job_start": {"failed": False}, "__activemq_takeover": {"state": "stopped"}},
        "b1 is stopped",
        "b1 is rolled back",
    ),
    "the state of the peer is not known": (
        {"__activemq_return_job_start": {"failed": False}, "__activemq_takeover": {"failed": True}},
        "b1 sends nothing",
        "b1 is rolled back",
    ),
}


@some_situations(1)
@pytest.mark.parametrize("case", SWITCHOVER_FAILURES)
def test_upgrade_rolls_back_peer_only_if_it_did_not_take_over(tmp_path: Path, case: str) -> None:
    registered, failure, message = SWITCHOVER_FAILURES[case]
    tasks = yaml.safe_load((REPOSITORY / "roles/broker/tasks/upgrade_act.yml").read_text())
    fail = "ansible.builtin.fail"
    (tmp_path / "switchover_act.yml").write_text(yaml.safe_dump([{fail: {"msg": failure}}]))
    (tmp_path / "rollback_peer.yml").write_text(yaml.safe_dump([{fail: {"msg": "b1 is rolled back"}}]))
    variables = {
        "__activemq_step": {"act": "switch", "peer": "b1"},
        "__activemq_site": {"brokers": {"b1": {"release": "5.18.3"}}},
        **registered,
    }
    play = tmp_path / "play.yml"
    role_variables = str(REPOSITORY / "roles/broker/vars/main.yml")
    play.write_text(
        yaml.safe_dump([{"hosts": "a1", "gather_facts": False, "vars_files": [role_variables], "tasks": tasks[-1:]}])
    )
    program = Path(sys.executable).with_name("ansible-playbook")
    options = ["-i", "a1,", "-c", "local", "-e", json.dumps(variables)]

    completed = subprocess.run([str(program), *options, str(play)], capture_output=True, text=True, check=False)

    assert completed.returncode == 2
    assert re.findall(r'FAILED! => .*"msg": "(.*)"}', completed.stdout)[-1] == message


def test_upgrade_does_not_roll_back_if_link_to_release_fails() -> None:
    tasks = yaml.safe_load((REPOSITORY / "roles/broker/tasks/upgrade_act.yml").read_text())
    (upgrade,) = [task for task in tasks if task["name"] == "Upgrade it, or roll back"]
    assert upgrade["rescue"]
    assert all("ansible.builtin.file" not in task for task in upgrade["block"])
    (link,) = [task for task in tasks if "ansible.builtin.file" in task]
    assert link["ansible.builtin.file"]["dest"] == "{{ __activemq_broker.home_link }}"


@some_situations(1)
@pytest.mark.parametrize(
    ("done", "message"),
    [
        (["b1"], "Earlier, this run restarted its peer b1, which keeps its present configuration."),
        ([], "This run did not change its peer b1, which serves alone."),
    ],
)
def test_failed_restart_reports_whether_peer_was_restarted_before(
    tmp_path: Path, done: list[str], message: str
) -> None:
    tasks = yaml.safe_load((REPOSITORY / "roles/broker/tasks/rollback_restart.yml").read_text())
    variables = {
        "__activemq_failure_with_logs": "its port is taken",
        "__activemq_broker_state": {"previous": "1a2b"},
        "__activemq_state_after_rollback": {"state": "standby"},
        "__activemq_step": {"peer": "b1"},
        "__activemq_next_step": {"progress": {"done": done}},
        "__activemq_target": {"since": "2026-11-21T13:45:00Z"},
    }
    play = tmp_path / "play.yml"
    play.write_text(yaml.safe_dump([{"hosts": "a1", "gather_facts": False, "tasks": tasks[-1:]}]))
    program = Path(sys.executable).with_name("ansible-playbook")
    options = ["-i", "a1,", "-c", "local", "-e", json.dumps(variables)]

    completed = subprocess.run([str(program), *options, str(play)], capture_output=True, text=True, check=False)

    assert completed.returncode == 2
    assert f"again, and is standby. {message} Correct the cause. When a1" in completed.stdout
