"""The playbooks with directories as hosts: refusals, and files on hosts and controller."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.situations import in_every_situation, some_situations
from tests.support.played_sites import KIOSK, RELEASE, A, B, LocalSite, make_local_site
from tests.waiting import wait_until


@pytest.fixture
def site(tmp_path: Path) -> LocalSite:
    return make_local_site(tmp_path)


@dataclass
class Deployed:
    """A fleet after a run of site, with the output of that run. Tests must not change it."""

    site: LocalSite
    output: str


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    site = make_local_site(tmp_path_factory.mktemp("site"))
    site.write_inventory(A, B, "web01", agents={"kiosk01": KIOSK})
    exit_code, output = site.play("site", "-vvv", "--diff")
    assert exit_code == 0, output
    return Deployed(site, output)


def test_site_recognizes_brokers_by_name_without_inventory_plugin(deployed: Deployed) -> None:
    assert sorted(path.name for path in deployed.site.hosts.iterdir()) == ["kiosk01", A, B]


def test_deployed_files_with_secrets_are_inaccessible_to_other_accounts(deployed: Deployed) -> None:
    files = [path for path in deployed.site.hosts.rglob("*") if path.is_file() and not path.is_symlink()]
    files_with_secret = [path for path in files if b"canary" in path.read_bytes()]
    assert len(files_with_secret) == 5  # credentials and console accounts of each broker, and the password of the agent
    assert all(path.stat().st_mode & 0o007 == 0 for path in files_with_secret)


def test_site_prints_no_secret(deployed: Deployed) -> None:
    assert "+++ after: conf/credentials.properties" in deployed.output
    assert "canary" not in deployed.output


def test_site_leaves_no_archive_on_controller(deployed: Deployed) -> None:
    assert deployed.site.temporary_files == []


def test_files_of_agent_are_deployed_through_symbolic_link(deployed: Deployed) -> None:
    link = deployed.site.hosts / "kiosk01" / "etc"
    assert link.is_symlink()
    assert f"mb.urls = {A}:1883,{B}:1883" in (link / "agent.conf").read_text()
    assert (link / "mb.password").read_text() == "canary-kiosk\n"
    assert [(link / name).stat().st_mode & 0o777 for name in ("agent.conf", "mb.password")] == [0o640, 0o640]


def test_site_ends_with_table_of_brokers(deployed: Deployed) -> None:
    summary = deployed.output[deployed.output.rindex("the playbook site is done on 2 brokers") :]
    assert re.search(r"host +before +after +gap +changed", summary)
    for host in (A, B):  # the brokers do not run, so they have no state
        assert re.search(rf"{host} +not known +not known +- +files", summary)


def test_second_run_of_site_changes_nothing(deployed: Deployed) -> None:
    assert set(re.findall(r"changed=\d+", deployed.site.play("site")[1])) == {"changed=0"}


def test_site_leaves_no_archive_after_failure_of_host(site: LocalSite) -> None:
    site.write_inventory(A, B)
    (site.hosts / B / "activemq").mkdir(parents=True)
    (site.hosts / B / "activemq" / "current").mkdir()
    exit_code, output = site.play("site")
    assert exit_code != 0
    assert "current is not a symbolic link to a configuration version" in output
    assert site.temporary_files == []


def test_interrupted_playbook_leaves_neither_archives_nor_compiled_fleet(site: LocalSite) -> None:
    playbook, marker = site.root / "slow.yml", site.root / "begun"
    tasks = [
        {"activemq.fleet.compile": None, "run_once": True},
        {"ansible.builtin.shell": f"touch {marker} && exec sleep 300", "run_once": True},
    ]
    playbook.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    site.write_inventory(A, B)
    process = site.start(str(playbook))
    wait_for(marker.exists)  # between two tasks Ansible may miss an interrupt
    archives = list((site.root / "ansible").rglob("*.tar"))
    assert archives
    assert all(path.stat().st_mode & 0o077 == 0 and path.parent.stat().st_mode & 0o077 == 0 for path in archives)
    (compiled,) = (site.root / "ansible").rglob("activemq-fleet.json")
    assert (compiled.stat().st_mode & 0o777, compiled.parent.stat().st_mode & 0o077) == (0o600, 0)
    assert A in compiled.read_text()
    assert "canary" not in compiled.read_text()
    interrupt(process)
    wait_for(lambda: not compiled.exists() and not list((site.root / "ansible").rglob("*.tar")))


def test_decision_without_compiled_fleet_is_error(site: LocalSite) -> None:
    tasks = [{"activemq.fleet.decide": {"operation": "target"}, "run_once": True}]
    (site.root / "play.yml").write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    site.write_inventory(A, B)
    process = site.start(str(site.root / "play.yml"))
    output, _ = process.communicate(timeout=500)
    assert process.returncode != 0
    assert "this playbook run has not computed the configuration of the brokers. Run a task with the" in " ".join(
        output.split()
    )


def test_next_decision_uses_progress_of_previous_decision(site: LocalSite) -> None:
    decision = {
        "operation": "drill",
        "evidence": {A: {"state": "active", "release": RELEASE}, B: {"state": "standby", "release": RELEASE}},
        "target": {"hosts": [A, B]},
    }
    options = {"faulted": [], "settle": 10}
    tasks = [
        {"activemq.fleet.compile": {"checked": False, "archives": False}, "run_once": True},
        {
            "activemq.fleet.decide": {**decision, "options": {**options, "due": "orders-mq01"}},
            "run_once": True,
            "register": "next",
        },
        {
            "activemq.fleet.decide": {
                **decision,
                "options": {**options, "due": None},
                "progress": "{{ next.progress }}",
            },
            "run_once": True,
            "register": "last",
        },
        {"ansible.builtin.debug": {"msg": "{{ last.table }}"}, "run_once": True},
    ]
    (site.root / "play.yml").write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    site.write_inventory(A, B)
    process = site.start(str(site.root / "play.yml"))
    output, _ = process.communicate(timeout=500)
    assert process.returncode == 0, output
    assert re.search(rf"{A} +{RELEASE} active +{RELEASE} active +- +inject", output)
    assert re.search(rf"{B} +{RELEASE} standby +{RELEASE} standby +- +no", output)


def interrupt(process: subprocess.Popen[str]) -> None:
    """Send SIGINT until ansible-playbook exits, at most 3 times.

    On a busy machine, the first signal may arrive while Ansible is between two waits. The pause before the next signal
    lets Ansible clean up, which a second signal would cut short. A worker in a separate session may outlive
    ansible-playbook and keep the pipe open, so this waits for the process and not for the end of its output.
    """
    for _ in range(3):
        os.killpg(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=60)
            return
    raise AssertionError("timed out: ansible-playbook did not exit after 3 signals SIGINT")


def wait_for(condition: Callable[[], bool]) -> None:
    wait_until(condition, "the condition holds", pause=0.05)


def test_site_reports_all_errors_of_fleet_and_writes_nothing(site: LocalSite) -> None:
    site.write_inventory(A, "orders-mq02-b.example.com", port_offset="many", relase="5.18.3")
    exit_code, output = site.play("site")
    assert exit_code != 0
    assert "activemq_relase is not a variable of activemq.fleet: did you mean activemq_release?" in output
    assert "activemq_port_offset must be" in output
    assert "Traceback" not in output
    assert not site.hosts.exists()


def test_playbooks_report_all_blocking_findings_and_write_nothing(site: LocalSite) -> None:
    site.write_inventory(A, "orders-mq02-b.example.com")
    for playbook in ("check", "site"):
        exit_code, output = site.play(playbook)
        assert exit_code != 0
        assert "orders-mq01" in output
        assert "orders-mq02" in output
        assert not site.hosts.exists()


def test_site_names_encrypted_variable_without_vault_password(site: LocalSite) -> None:
    site.write_inventory(A, B, network_username="net")
    arguments = [
        "ansible-vault",
        "encrypt_string",
        "--vault-id",
        "x@/dev/stdin",
        "-n",
        "activemq_network_password",
        "x",
    ]
    program = str(Path(sys.executable).with_name(arguments[0]))
    encrypted = subprocess.run([program, *arguments[1:]], input="key", capture_output=True, text=True, check=True)
    variables = site.root / "group_vars"
    variables.mkdir()
    (variables / "all.yml").write_text(encrypted.stdout)
    exit_code, output = site.play("site")
    assert exit_code != 0
    assert "activemq_network_password is encrypted, and no vault password decrypts it" in output
    assert not site.hosts.exists()


NO_LOCKS = "-Djava.nio.channels.FileLock.broken=true"


def test_site_changes_no_host_if_any_host_violates_requirements(site: LocalSite) -> None:
    site.write_inventory(A, B, java_options=[NO_LOCKS])
    exit_code, output = site.play("site")
    assert exit_code != 0
    assert "nothing was changed, because hosts do not meet the requirements" in output
    assert f"L006 {A}, {B}: " in output
    assert "Traceback" not in output
    assert not site.hosts.exists()


UNREACHABLE = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}


def set_host(site: LocalSite, host: str, group: str, variables: Mapping[str, object]) -> None:
    inventory = yaml.safe_load((site.root / "hosts.yml").read_text())
    inventory.setdefault(group, {"hosts": {}})["hosts"][host] = variables
    (site.root / "hosts.yml").write_text(yaml.safe_dump(inventory))


@some_situations(1)
@pytest.mark.parametrize(("host", "group"), [(B, "all"), ("lb02", "activemq_loadbalancers")])
def test_site_changes_no_host_if_any_host_is_unreachable(site: LocalSite, host: str, group: str) -> None:
    site.write_inventory(A, B, vip="192.0.2.9", vip_interface="eth0", vip_username="balancer", vip_password="made-up")
    set_host(site, "lb01", "activemq_loadbalancers", {})
    set_host(site, host, group, UNREACHABLE)
    exit_code, output = site.play("site")
    assert exit_code != 0
    assert f"nothing was changed, because these hosts failed or were not reached: {host}" in output
    assert f"add --limit 'all:!{host}'" in output
    assert not site.hosts.exists()


WITHOUT_SUDO = {"ansible_become": True, "ansible_become_user": "nobody"}


@some_situations(1)
@pytest.mark.parametrize(("host", "group"), [(B, "all"), ("lb02", "activemq_loadbalancers")])
def test_site_names_remedy_for_host_without_sudo(site: LocalSite, host: str, group: str) -> None:
    site.write_inventory(A, B, vip="192.0.2.9", vip_interface="eth0", vip_username="balancer", vip_password="made-up")
    set_host(site, "lb01", "activemq_loadbalancers", {})
    sudo = site.root / "sudo"
    sudo.write_text("#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
    sudo.chmod(0o755)
    set_host(site, host, group, {**WITHOUT_SUDO, "ansible_become_exe": str(sudo)})
    exit_code, output = site.play("site")
    assert exit_code != 0
    assert (
        f"nothing was changed, because these hosts failed or were not reached: {host}. Permit sudo without a password "
        f"for the SSH user on {host}, or add --ask-become-pass to ansible-playbook, and run the playbook again"
    ) in output
    assert not site.hosts.exists()


def test_site_deploys_reachable_hosts_if_limit_excludes_unreachable_host(site: LocalSite) -> None:
    site.write_inventory(A, B, "web01")
    set_host(site, B, "all", UNREACHABLE)
    exit_code, output = site.play("site", "--limit", f"all:!{B}")
    assert exit_code == 0, output
    assert list(site.hosts.rglob("activemq.xml"))


def test_site_continues_if_finding_of_host_is_waived(site: LocalSite) -> None:
    site.write_inventory(
        A, B, java_options=[NO_LOCKS], waivers=[{"rule": "L006", "reason": "the share has a lock manager"}]
    )
    exit_code, output = site.play("site")
    assert exit_code == 0, output
    assert "(waived: the share has a lock manager)" in output


def test_site_refuses_invalid_inventory_before_it_inspects_hosts(site: LocalSite) -> None:
    site.write_inventory(A, B, install="archive")
    exit_code, output = site.play("site")
    assert exit_code != 0
    assert "activemq_install is archive, but activemq_archive and activemq_archive_sha512 are not set" in output
    assert "TASK [Inspect the machine" not in output
    assert not site.hosts.exists()


def test_playbook_check_warns_of_finding_that_site_refuses(site: LocalSite) -> None:
    site.write_inventory(A, B, install="archive")
    exit_code, output = site.play("check")
    assert exit_code == 0
    assert "T030" in output
    assert "the `site` playbook will fail" in " ".join(output.split())


@some_situations(1)
@pytest.mark.parametrize("playbook", ["check", "site"])
def test_playbook_warns_of_unread_host_and_misspelled_prefix_with_lines(site: LocalSite, playbook: str) -> None:
    site.write_inventory(A, B, "mqhamburg2", service="none")
    hosts = site.root / "hosts.yml"
    hosts.write_text(hosts.read_text().replace("activemq_release:", "activemqq_heap: 1g\n    activemq_release:"))
    lines = hosts.read_text().split("\n")
    line_of_host, line_of_variable = (
        next(number for number, line in enumerate(lines, 1) if name in line)
        for name in ("mqhamburg2", "activemqq_heap")
    )

    exit_code, output = site.play(playbook)

    unwrapped_output = " ".join(output.split())
    assert exit_code == 0, output
    assert "T037 mqhamburg2: the host is not read as a broker" in unwrapped_output
    assert f"({hosts}:{line_of_host})" in unwrapped_output
    assert f"T036 mqhamburg2, {A}, {B}: the variable activemqq_heap has no effect" in unwrapped_output
    assert f"({hosts}:{line_of_variable})" in unwrapped_output


def test_site_refuses_structural_mistake_with_its_line(site: LocalSite) -> None:
    site.write_inventory(A, B)
    hosts = site.root / "hosts.yml"
    hosts.write_text(f"{hosts.read_text()}\norders:\n  host:\n    {A}:\n")
    line = hosts.read_text().count("\n") - 1

    exit_code, output = site.play("site")

    assert exit_code != 0
    assert f"T038 {hosts}:{line}: Ansible ignores the key host of group orders, because it is not" in output
    assert "Rename the key host to hosts" in output
    assert not site.hosts.exists()


@in_every_situation
def test_site_refuses_new_convention_unless_deployed_pair_keeps_its_name(site: LocalSite) -> None:
    site.write_inventory(A, B)
    exit_code, output = site.play("site")
    assert exit_code == 0, output
    deployed_before = {path: path.read_bytes() for path in site.hosts.rglob("activemq.xml")}
    pattern = r"^(?P<pair>(?P<group>orders)-mq)(?P<number>[0-9]+)-(?P<node>[ab])"

    site.write_inventory(A, B, naming_pattern=pattern)
    exit_code, output = site.play("site")
    assert exit_code != 0
    assert f"L034 {A}, {B}: " in output
    assert "To keep the pair and its messages, set activemq_pair: orders-mq01 on both nodes" in output
    assert {path: path.read_bytes() for path in site.hosts.rglob("activemq.xml")} == deployed_before

    site.write_inventory(A, B, naming_pattern=pattern, pair="orders-mq01")
    exit_code, output = site.play("site")
    assert exit_code == 0, output
    assert {path: path.read_bytes() for path in site.hosts.rglob("activemq.xml")} == deployed_before


def test_site_names_misspelled_required_variable(site: LocalSite) -> None:
    site.write_inventory(A, B)
    path = site.root / "hosts.yml"
    hosts_file = path.read_text().replace("activemq_release:", "active_mq_release:")
    path.write_text(hosts_file)
    line = hosts_file[: hosts_file.index("active_mq_release")].count("\n") + 1

    exit_code, output = site.play("site")

    assert exit_code != 0
    assert f"active_mq_release of host {A} is ignored: did you mean activemq_release? ({path}:{line})" in output
    assert not site.hosts.exists()
