"""The refusal of unsuitable releases before installation, from the facts of hosts and controller to the message."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.playbook import Playbook
from ansible_collections.activemq.fleet.plugins.action import decide as decide_action
from ansible_collections.activemq.fleet.plugins.module_utils.node.install.jars import pids_with_open_files_below
from ansible_collections.activemq.fleet.plugins.modules import machine_info
from ansible_collections.activemq.fleet.plugins.plugin_utils.release_archives import release_archive_facts

from activemq_fleet.deployment import FleetFacts, broker_facts
from activemq_fleet.node.state.evidence import MachineFacts
from activemq_fleet.operations import OperationDecisionRequest, RefusalError
from activemq_fleet.operations.preflight import host_rule_findings
from activemq_fleet.operations.release_and_archive_preflight import refusal_for_unusable_or_wrong_release_files
from tests.unit.fleets import fleet
from tests.unit.release_jars import create_release_directory, jar_content, write_archive

A, B = "orders-mq01-a.example.com", "orders-mq01-b.example.com"
UNUSABLE = "these release archives cannot be installed. Correct these errors, and run the playbook again:"
OTHER_RELEASE = (
    "the brokers of these hosts would start with another release than activemq_release. Correct these errors, and run "
    "the playbook again:"
)
NO_RELEASE: dict[str, Any] = {"home_exists": False, "home_releases": [], "home_processes": [], "pid": None}


def pack_distribution(path: Path, release: str) -> Path:
    return write_archive(
        path, {f"apache-activemq-5.18.6/lib/activemq-broker-{release}.jar": jar_content(record=release)}
    )


def find_nothing(_: str) -> None:
    """Find no file for a relative path."""


def check_release_files(
    archive: object,
    facts: dict[str, Any] | None = None,
    upgrades: bool = False,
    find: Any = find_nothing,
    **variables: Any,
) -> None:
    settings = {"release": "5.18.6", "archive": archive, **variables}
    brokers = {broker.host: broker_facts(broker) for broker in fleet("orders-mq01", **settings).brokers}
    facts_by_host = dict.fromkeys([A, B], facts or NO_RELEASE)
    request = OperationDecisionRequest(
        fleet=FleetFacts(brokers=brokers),
        evidence={
            host: MachineFacts.from_machine_info_result(host_facts) for host, host_facts in facts_by_host.items()
        },
        options={"upgrades": upgrades},
        release_archive_facts=lambda path, install: release_archive_facts(path, install, find),
    )
    if refusal := refusal_for_unusable_or_wrong_release_files(request):
        raise refusal


def refusal_message(*arguments: Any, **options: Any) -> str:
    with pytest.raises(RefusalError) as caught:
        check_release_files(*arguments, **options)
    message = "\n".join(caught.value.problems)
    is_other_release = "but activemq_release is" in message
    expected_cause = OTHER_RELEASE if is_other_release else UNUSABLE
    assert caught.value.head == f"nothing was changed, because {expected_cause}"
    return message


def test_archive_of_different_release_is_refused_in_single_line_for_all_hosts(tmp_path: Path) -> None:
    archive = pack_distribution(tmp_path / "x.tar.gz", "5.18.3")
    assert refusal_message(str(archive)) == (
        f"{A}, {B}: activemq_archive: {archive} contains ActiveMQ 5.18.3, but activemq_release is 5.18.6. Set "
        "activemq_archive to the archive of release 5.18.6"
    )


def test_preflight_reports_releases_stores_and_rules_in_single_error() -> None:
    brokers = {broker.host: broker_facts(broker) for broker in fleet("orders-mq01", install="none").brokers}
    facts = {
        host: MachineFacts.from_machine_info_result({**NO_RELEASE, "java_failure": "No such file or directory"})
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


def test_release_archive_comes_from_entry_of_mapping(tmp_path: Path) -> None:
    archives = {release: str(pack_distribution(tmp_path / release, release)) for release in ("5.18.3", "5.18.6")}
    check_release_files(archives)
    check_release_files({**archives, "5.18.3": "/nowhere"})
    assert "/nowhere does not exist on the controller" in refusal_message({**archives, "5.18.6": "/nowhere"})


def test_release_archive_with_different_checksum_is_refused(tmp_path: Path) -> None:
    archive = pack_distribution(tmp_path / "x.tar.gz", "5.18.6")
    digest = hashlib.sha512(archive.read_bytes()).hexdigest()
    check_release_files(str(archive), archive_sha512=digest.upper())
    assert f"the SHA-512 of {archive} is " in refusal_message(str(archive), archive_sha512="0" * 128)


def test_directory_at_path_of_link_to_release_is_refused() -> None:
    facts = {"home_exists": True, "home_releases": ["5.18.6"], "has_home_link_conflict": True}
    with pytest.raises(RefusalError) as caught:
        check_release_files(None, facts)
    assert caught.value.problems == (
        f"{A}, {B}: /opt/activemq (activemq_home) exists and is not a symbolic link, so the playbook cannot link it to "
        "/opt/activemq-5.18.6. Set activemq_home to a path that does not exist. Or stop all processes that run from "
        "/opt/activemq, and rename it",
    )
    check_release_files(None, {**facts, "has_home_link_conflict": False})


@pytest.mark.parametrize(
    ("variables", "home_and_link"),
    [
        ({"install": "package"}, ("/usr/share/activemq", "/usr/share/activemq")),
        ({"install": "package", "home": "/srv/activemq"}, ("/srv/activemq", "/srv/activemq")),
        ({"install": "none"}, ("/opt/activemq", "/opt/activemq")),
        ({"install": "jars"}, ("/opt/activemq-5.18.6", "/opt/activemq")),
    ],
)
def test_only_release_that_role_unpacks_has_link(variables: dict[str, Any], home_and_link: tuple[str, str]) -> None:
    for broker in fleet("orders-mq01", release="5.18.6", **variables).brokers:
        facts = broker_facts(broker)
        assert (facts.home, facts.home_link) == home_and_link


def test_url_of_release_archive_is_not_checked_on_controller() -> None:
    check_release_files("https://example.com/apache-activemq-5.18.3-bin.tar.gz")


def test_missing_release_archive_in_home_directory_is_reported() -> None:
    archive_facts = release_archive_facts("~/files/x.tar.gz", "archive", find_nothing)
    assert archive_facts
    assert archive_facts["problem"].startswith("the file ~/files/x.tar.gz does not exist on the controller")


def path_from_playbook(playbook: Path, name: str) -> str | None:
    """Return the file that the action finds for a relative path in a task of a playbook."""
    playbook.write_text("- hosts: localhost\n  tasks: [{activemq.fleet.decide: {operation: preflight}}]\n")
    loader = DataLoader()
    loader.set_basedir(str(playbook.parent))
    (task,) = Playbook.load(str(playbook), loader=loader).get_plays()[0].get_tasks()[0]
    path: str | None = decide_action.ActionModule(task, None, None, loader, None, None)._find_on_controller(name)
    return path


def test_relative_path_of_release_archive_is_resolved_as_by_copy_module(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    pack_distribution(tmp_path / "files" / "x.tar.gz", "5.18.3")

    def find(name: str) -> str | None:
        return path_from_playbook(tmp_path / "site.yml", name)

    assert find("x.tar.gz") == find("files/x.tar.gz") == str(tmp_path / "files" / "x.tar.gz")
    assert "activemq_archive: x.tar.gz contains ActiveMQ 5.18.3" in refusal_message("x.tar.gz", find=find)
    assert "y.tar.gz does not exist on the controller. Ansible searches relative" in refusal_message(
        "y.tar.gz", find=find
    )


def test_releases_of_jars_come_from_directory_or_archive(tmp_path: Path) -> None:
    jars = create_release_directory(tmp_path / "home", "5.18.3") / "lib"
    assert release_archive_facts(str(jars), "jars", find_nothing) == {
        "releases": ("5.18.3",),
        "is_directory": True,
    }
    packed = write_archive(tmp_path / "jars.tar.gz", {"./activemq-broker-5.18.6.jar": jar_content(record="5.18.6")})
    archive_facts = release_archive_facts(str(packed), "jars", find_nothing)
    assert archive_facts
    assert archive_facts["releases"] == ("5.18.6",)
    directory_facts = release_archive_facts(str(jars), "archive", find_nothing)
    assert directory_facts
    assert "cannot be read as a tar archive: Is a directory" in directory_facts["problem"]


def test_directory_of_jars_with_checksum_is_refused(tmp_path: Path) -> None:
    jars = str(create_release_directory(tmp_path / "home", "5.18.6") / "lib")
    check_release_files(jars, install="jars")
    assert refusal_message(jars, install="jars", archive_sha512="0" * 128) == (
        f"{A}, {B}: activemq_archive: {jars} is a directory of jars, so activemq_archive_sha512 cannot be compared "
        "with it. Remove activemq_archive_sha512 (or set it to null for these hosts), or set activemq_archive to a tar "
        "archive with this checksum"
    )


def test_unreadable_directory_of_jars_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny_access(path: str) -> list[str]:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr("os.listdir", deny_access)
    assert refusal_message(str(tmp_path), install="jars") == (
        f"{A}, {B}: activemq_archive: the directory {tmp_path} on the controller cannot be read: Permission denied. "
        "Give the account that runs the playbook access to it, or correct the path"
    )


def test_broker_that_runs_different_release_is_refused_except_by_upgrade(tmp_path: Path) -> None:
    facts = {"home_exists": True, "home_releases": ["5.18.3"], "home_processes": [7], "pid": 7, "release": "5.18.3"}
    archive = str(pack_distribution(tmp_path / "x.tar.gz", "5.18.6"))
    assert "Run the playbook upgrade, which replaces the release node by node" in refusal_message(archive, facts)
    check_release_files(archive, facts, upgrades=True)
    assert "Stop the broker" in refusal_message(archive, facts, upgrades=True, service="none")


def test_machine_facts_include_releases_and_processes_of_home(tmp_path: Path) -> None:
    home = create_release_directory(tmp_path / "activemq-5.18.6", "5.18.3", name="5.18.6")
    paths = {"home": str(home), "base": str(tmp_path / "base"), "directory": None}
    parameters: dict[str, Any] = {
        **paths,
        "java": "/nowhere",
        "user": "nobody",
        "listeners": [],
        "files": [],
        "names": [],
    }
    parameters |= {"uid": None, "gid": None, "home_link": None}
    with (home / "lib/activemq-broker-5.18.6.jar").open():
        facts = machine_info.gather_machine_facts(parameters)
        assert facts["home_processes"] == pids_with_open_files_below(str(home)) != []
        assert facts["replaced_brokers"] == []
    assert (facts["home_exists"], facts["home_releases"], facts["pid"]) == (True, ["5.18.3"], None)
    facts = machine_info.gather_machine_facts({**parameters, "home": str(tmp_path / "none")})
    assert (facts["home_exists"], facts["home_releases"], facts["home_processes"]) == (False, [], [])
    link = tmp_path / "activemq"
    parameters["home_link"] = str(link)
    assert machine_info.gather_machine_facts(parameters)["has_home_link_conflict"] is False
    link.symlink_to(home)
    assert machine_info.gather_machine_facts(parameters)["has_home_link_conflict"] is False
    parameters["home_link"] = str(home)
    assert machine_info.gather_machine_facts(parameters)["has_home_link_conflict"] is True
