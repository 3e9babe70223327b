"""Releases that are refused before anything is installed: from what hosts and the controller show to the refusal."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.playbook import Playbook
from ansible_collections.activemq.fleet.plugins.action import decide as decide_action
from ansible_collections.activemq.fleet.plugins.module_utils.node.install.jars import processes_with_open_files_below
from ansible_collections.activemq.fleet.plugins.modules import machine_info
from ansible_collections.activemq.fleet.plugins.plugin_utils.release_archives import release_archive_facts

from activemq_fleet.deployment import FleetFacts, broker_facts
from activemq_fleet.node.state.evidence import MachineFacts
from activemq_fleet.operations import OperationDecisionRequest, RefusalError
from activemq_fleet.operations.preflight import host_rule_findings, raise_for_mismatched_release_files
from tests.unit.fleets import fleet
from tests.unit.release_jars import jar, lay_out, pack

A, B = "orders-mq01-a.example.com", "orders-mq01-b.example.com"
UNUSABLE = "these release archives cannot be installed. Correct these errors, and run the playbook again:"
OTHER_RELEASE = (
    "the brokers of these hosts would start with another release than activemq_release. Correct these errors, and run "
    "the playbook again:"
)
NOTHING: dict[str, Any] = {"home_exists": False, "home_releases": [], "home_processes": [], "pid": None}


def distribution(path: Path, inside: str) -> Path:
    return pack(path, {f"apache-activemq-5.18.6/lib/activemq-broker-{inside}.jar": jar(record=inside)})


def nowhere(_: str) -> None:
    """No file of a relative path."""


def ask(
    archive: object, look: dict[str, Any] | None = None, upgrades: bool = False, find: Any = nowhere, **more: Any
) -> None:
    settings = {"release": "5.18.6", "archive": archive, **more}
    brokers = {broker.host: broker_facts(broker) for broker in fleet("orders-mq01", **settings).brokers}
    looks = dict.fromkeys([A, B], look or NOTHING)
    request = OperationDecisionRequest(
        fleet=FleetFacts(brokers=brokers),
        evidence={host: MachineFacts.from_machine_info_result(look) for host, look in looks.items()},
        options={"upgrades": upgrades},
        release_archive_facts=lambda path, install: release_archive_facts(path, install, find),
    )
    raise_for_mismatched_release_files(request)


def refusal(*words: Any, **more: Any) -> str:
    with pytest.raises(RefusalError) as caught:
        ask(*words, **more)
    text = "\n".join(caught.value.problems)
    is_other_release = "but activemq_release is" in text
    reason = OTHER_RELEASE if is_other_release else UNUSABLE
    assert caught.value.head == f"nothing was changed, because {reason}"
    return text


def test_the_archive_of_another_release_is_refused_in_one_line_for_all_hosts(tmp_path: Path) -> None:
    archive = distribution(tmp_path / "x.tar.gz", "5.18.3")
    assert refusal(str(archive)) == (
        f"{A}, {B}: activemq_archive: {archive} contains ActiveMQ 5.18.3, but activemq_release is 5.18.6. Set "
        "activemq_archive to the archive of release 5.18.6"
    )


def test_preflight_reports_releases_stores_and_rules_in_one_error() -> None:
    brokers = {broker.host: broker_facts(broker) for broker in fleet("orders-mq01", install="none").brokers}
    facts = {
        host: MachineFacts.from_machine_info_result({**NOTHING, "java_failure": "No such file or directory"})
        for host in (A, B)
    }
    store = {"exists": False, "mounted": False, "used": False}
    request = OperationDecisionRequest(
        fleet=FleetFacts(brokers=brokers), evidence=facts, options={"stores": dict.fromkeys([A, B], store)}
    )
    with pytest.raises(RefusalError) as caught:
        host_rule_findings(request)
    assert caught.value.head.startswith("nothing was changed, because hosts do not meet the requirements")
    home, shared, *rules = caught.value.problems
    assert f"{A}, {B}: the directory /opt/activemq (activemq_home) does not exist" in home
    assert shared.startswith(
        f"{A}, {B}: the store directory /srv/activemq/orders-mq01 does not exist, and it is not on a "
    )
    assert any("V061" in rule for rule in rules)


def test_the_archive_of_the_release_is_taken_from_a_mapping(tmp_path: Path) -> None:
    archives = {inside: str(distribution(tmp_path / inside, inside)) for inside in ("5.18.3", "5.18.6")}
    ask(archives)
    ask({**archives, "5.18.3": "/nowhere"})
    assert "/nowhere does not exist on the controller" in refusal({**archives, "5.18.6": "/nowhere"})


def test_an_archive_with_another_checksum_is_refused_before_it_is_copied(tmp_path: Path) -> None:
    archive = distribution(tmp_path / "x.tar.gz", "5.18.6")
    digest = hashlib.sha512(archive.read_bytes()).hexdigest()
    ask(str(archive), archive_sha512=digest.upper())
    assert f"the SHA-512 of {archive} is " in refusal(str(archive), archive_sha512="0" * 128)


def test_a_url_is_left_to_the_host() -> None:
    ask("https://example.com/apache-activemq-5.18.3-bin.tar.gz")


def test_a_path_of_the_home_directory_is_looked_for() -> None:
    inspection = release_archive_facts("~/files/x.tar.gz", "archive", nowhere)
    assert inspection
    assert inspection["problem"].startswith("the file ~/files/x.tar.gz does not exist on the controller")


def found_from(playbook: Path, name: str) -> str | None:
    """What the action finds for a relative path in a task of a playbook."""
    playbook.write_text("- hosts: localhost\n  tasks: [{activemq.fleet.decide: {operation: preflight}}]\n")
    loader = DataLoader()
    loader.set_basedir(str(playbook.parent))
    (task,) = Playbook.load(str(playbook), loader=loader).get_plays()[0].get_tasks()[0]
    found: str | None = decide_action.ActionModule(task, None, None, loader, None, None)._find(name)
    return found


def test_a_relative_archive_is_the_one_that_copy_takes(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    distribution(tmp_path / "files" / "x.tar.gz", "5.18.3")

    def find(name: str) -> str | None:
        return found_from(tmp_path / "site.yml", name)

    assert find("x.tar.gz") == find("files/x.tar.gz") == str(tmp_path / "files" / "x.tar.gz")
    assert "activemq_archive: x.tar.gz contains ActiveMQ 5.18.3" in refusal("x.tar.gz", find=find)
    assert "y.tar.gz does not exist on the controller. Ansible searches relative" in refusal("y.tar.gz", find=find)


def test_jars_may_be_a_directory_or_an_archive(tmp_path: Path) -> None:
    jars = lay_out(tmp_path / "home", "5.18.3") / "lib"
    assert release_archive_facts(str(jars), "jars", nowhere) == {"found": ("5.18.3",)}
    packed = pack(tmp_path / "jars.tar.gz", {"./activemq-broker-5.18.6.jar": jar(record="5.18.6")})
    found = release_archive_facts(str(packed), "jars", nowhere)
    assert found
    assert found["found"] == ("5.18.6",)
    directory = release_archive_facts(str(jars), "archive", nowhere)
    assert directory
    assert "cannot be read as a tar archive: Is a directory" in directory["problem"]


def test_a_broker_that_runs_from_the_directory_of_another_release_is_left_to_upgrade(tmp_path: Path) -> None:
    look = {"home_exists": True, "home_releases": ["5.18.3"], "home_processes": [7], "pid": 7, "release": "5.18.3"}
    archive = str(distribution(tmp_path / "x.tar.gz", "5.18.6"))
    assert "Run the playbook upgrade, which replaces the release node by node" in refusal(archive, look)
    ask(archive, look, upgrades=True)
    assert "Stop the broker" in refusal(archive, look, upgrades=True, service="none")


def test_a_machine_shows_what_the_directory_of_the_release_holds(tmp_path: Path) -> None:
    home = lay_out(tmp_path / "activemq-5.18.6", "5.18.3", name="5.18.6")
    paths = {"home": str(home), "base": str(tmp_path / "base"), "directory": None}
    given: dict[str, Any] = {**paths, "java": "/nowhere", "user": "nobody", "listeners": [], "files": [], "names": []}
    given |= {"uid": None, "gid": None}
    with (home / "lib/activemq-broker-5.18.6.jar").open():
        shown = machine_info.gather_machine_facts(given)
        assert shown["home_processes"] == processes_with_open_files_below(str(home)) != []
    assert (shown["home_exists"], shown["home_releases"], shown["pid"]) == (True, ["5.18.3"], None)
    shown = machine_info.gather_machine_facts({**given, "home": str(tmp_path / "none")})
    assert (shown["home_exists"], shown["home_releases"], shown["home_processes"]) == (False, [], [])
