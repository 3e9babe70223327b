"""The playbooks on hosts that are directories: what they refuse, and what they leave behind."""

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
from tests.support.played_sites import KIOSK, RELEASE, A, B, Place, make_place
from tests.waiting import wait_until


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


@dataclass
class Deployed:
    """A fleet after one run of site, and what that run said. Tests only look at it."""

    place: Place
    said: str


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    place = make_place(tmp_path_factory.mktemp("site"))
    place.lay(A, B, "web01", agents={"kiosk01": KIOSK})
    code, said = place.play("site", "-vvv", "--diff")
    assert code == 0, said
    return Deployed(place, said)


def test_brokers_are_found_by_their_names_without_the_inventory_plugin(deployed: Deployed) -> None:
    assert sorted(path.name for path in deployed.place.hosts.iterdir()) == ["kiosk01", A, B]


def test_secrets_on_disk_are_for_the_owner_and_the_group_only(deployed: Deployed) -> None:
    files = [path for path in deployed.place.hosts.rglob("*") if path.is_file() and not path.is_symlink()]
    holding = [path for path in files if b"canary" in path.read_bytes()]
    assert len(holding) == 5  # of each broker the credentials and the console's accounts, of the agent one
    assert all(path.stat().st_mode & 0o007 == 0 for path in holding)


def test_nothing_secret_is_said(deployed: Deployed) -> None:
    assert "+++ after: conf/credentials.properties" in deployed.said
    assert "canary" not in deployed.said


def test_no_archive_stays_on_the_controller(deployed: Deployed) -> None:
    assert deployed.place.temporary == []


def test_an_agent_gets_its_files_behind_one_link(deployed: Deployed) -> None:
    link = deployed.place.hosts / "kiosk01" / "etc"
    assert link.is_symlink()
    assert f"mb.urls = {A}:1883,{B}:1883" in (link / "agent.conf").read_text()
    assert (link / "mb.password").read_text() == "canary-kiosk\n"
    assert [(link / name).stat().st_mode & 0o777 for name in ("agent.conf", "mb.password")] == [0o640, 0o640]


def test_it_ends_with_a_table_of_the_brokers(deployed: Deployed) -> None:
    summary = deployed.said[deployed.said.rindex("the playbook site is done on 2 brokers") :]
    assert re.search(r"host +before +after +gap +changed", summary)
    for host in (A, B):  # nobody runs them, so there is no state
        assert re.search(rf"{host} +not known +not known +- +files", summary)


def test_a_second_run_changes_nothing(deployed: Deployed) -> None:
    assert set(re.findall(r"changed=\d+", deployed.place.play("site")[1])) == {"changed=0"}


def test_no_archive_stays_after_a_host_that_failed(place: Place) -> None:
    place.lay(A, B)
    (place.hosts / B / "activemq").mkdir(parents=True)
    (place.hosts / B / "activemq" / "current").mkdir()
    code, said = place.play("site")
    assert code != 0
    assert "current is not a symbolic link to a configuration version" in said
    assert place.temporary == []


def test_neither_archives_nor_the_compiled_fleet_stay_after_an_interrupt(place: Place) -> None:
    slow, begun = place.root / "slow.yml", place.root / "begun"
    tasks = [
        {"activemq.fleet.compile": None, "run_once": True},
        {"ansible.builtin.shell": f"touch {begun} && exec sleep 300", "run_once": True},
    ]
    slow.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    place.lay(A, B)
    process = place.start(str(slow))
    wait_for(begun.exists)  # between two tasks Ansible may miss an interrupt
    archives = list((place.root / "ansible").rglob("*.tar"))
    assert archives
    assert all(path.stat().st_mode & 0o077 == 0 and path.parent.stat().st_mode & 0o077 == 0 for path in archives)
    (compiled,) = (place.root / "ansible").rglob("activemq-fleet.json")
    assert (compiled.stat().st_mode & 0o777, compiled.parent.stat().st_mode & 0o077) == (0o600, 0)
    assert A in compiled.read_text()
    assert "canary" not in compiled.read_text()
    interrupt(process)
    wait_for(lambda: not compiled.exists() and not list((place.root / "ansible").rglob("*.tar")))


def test_decision_without_a_compiled_fleet_is_an_error(place: Place) -> None:
    tasks = [{"activemq.fleet.decide": {"operation": "target"}, "run_once": True}]
    (place.root / "play.yml").write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    place.lay(A, B)
    process = place.start(str(place.root / "play.yml"))
    said, _ = process.communicate(timeout=500)
    assert process.returncode != 0
    assert "this playbook run has not computed the configuration of the brokers. Run a task with the" in " ".join(
        said.split()
    )


def test_next_decision_takes_the_progress_of_the_one_before(place: Place) -> None:
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
    (place.root / "play.yml").write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    place.lay(A, B)
    process = place.start(str(place.root / "play.yml"))
    said, _ = process.communicate(timeout=500)
    assert process.returncode == 0, said
    assert re.search(rf"{A} +{RELEASE} active +{RELEASE} active +- +inject", said)
    assert re.search(rf"{B} +{RELEASE} standby +{RELEASE} standby +- +no", said)


def interrupt(process: subprocess.Popen[str]) -> None:
    """Press Ctrl-C until it ends, as people do: on a busy machine the first may find Ansible between two waits.

    They wait long enough for it to clean up, which a second one would cut short. A worker in a session of its own
    may outlive ansible-playbook and keep the pipe open, so it is the process that counts and not the end of its output.
    """
    for _ in range(3):
        os.killpg(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=60)
            return
    raise AssertionError("ansible-playbook does not end when it is interrupted")


def wait_for(condition: Callable[[], bool]) -> None:
    wait_until(condition, "the condition holds", pause=0.05)


def test_all_errors_of_the_fleet_are_told_at_once_and_nothing_is_written(place: Place) -> None:
    place.lay(A, "orders-mq02-b.example.com", port_offset="many", relase="5.18.3")
    code, said = place.play("site")
    assert code != 0
    assert "activemq_relase is not a variable of activemq.fleet: did you mean activemq_release?" in said
    assert "activemq_port_offset must be" in said
    assert "Traceback" not in said
    assert not place.hosts.exists()


def test_all_findings_that_block_are_told_at_once_and_nothing_is_written(place: Place) -> None:
    place.lay(A, "orders-mq02-b.example.com")
    for playbook in ("check", "site"):
        code, said = place.play(playbook)
        assert code != 0
        assert "orders-mq01" in said
        assert "orders-mq02" in said
        assert not place.hosts.exists()


def test_a_vaulted_secret_that_cannot_be_opened_is_named(place: Place) -> None:
    place.lay(A, B, network_username="net")
    words = ["ansible-vault", "encrypt_string", "--vault-id", "x@/dev/stdin", "-n", "activemq_network_password", "x"]
    program = str(Path(sys.executable).with_name(words[0]))
    done = subprocess.run([program, *words[1:]], input="key", capture_output=True, text=True, check=True)
    variables = place.root / "group_vars"
    variables.mkdir()
    (variables / "all.yml").write_text(done.stdout)
    code, said = place.play("site")
    assert code != 0
    assert "activemq_network_password is encrypted, and no vault password decrypts it" in said
    assert not place.hosts.exists()


NO_LOCKS = "-Djava.nio.channels.FileLock.broken=true"


def test_a_host_that_is_not_fit_for_its_broker_stops_everything(place: Place) -> None:
    place.lay(A, B, java_options=[NO_LOCKS])
    code, said = place.play("site")
    assert code != 0
    assert "nothing was changed, because hosts do not meet the requirements" in said
    assert f"L006 {A}, {B}: " in said
    assert "Traceback" not in said
    assert not place.hosts.exists()


UNREACHABLE = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}


def set_host(place: Place, host: str, group: str, variables: Mapping[str, object]) -> None:
    inventory = yaml.safe_load((place.root / "hosts.yml").read_text())
    inventory.setdefault(group, {"hosts": {}})["hosts"][host] = variables
    (place.root / "hosts.yml").write_text(yaml.safe_dump(inventory))


@some_situations(1)
@pytest.mark.parametrize(("host", "group"), [(B, "all"), ("lb02", "activemq_loadbalancers")])
def test_site_changes_no_host_if_one_is_unreachable(place: Place, host: str, group: str) -> None:
    place.lay(A, B, vip="192.0.2.9", vip_interface="eth0", vip_username="balancer", vip_password="made-up")
    set_host(place, "lb01", "activemq_loadbalancers", {})
    set_host(place, host, group, UNREACHABLE)
    code, said = place.play("site")
    assert code != 0
    assert f"nothing was changed, because these hosts failed or were not reached: {host}" in said
    assert f"add --limit 'all:!{host}'" in said
    assert not place.hosts.exists()


WITHOUT_SUDO = {"ansible_become": True, "ansible_become_user": "nobody"}


@some_situations(1)
@pytest.mark.parametrize(("host", "group"), [(B, "all"), ("lb02", "activemq_loadbalancers")])
def test_site_names_remedy_for_host_without_sudo(place: Place, host: str, group: str) -> None:
    place.lay(A, B, vip="192.0.2.9", vip_interface="eth0", vip_username="balancer", vip_password="made-up")
    set_host(place, "lb01", "activemq_loadbalancers", {})
    sudo = place.root / "sudo"
    sudo.write_text("#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
    sudo.chmod(0o755)
    set_host(place, host, group, {**WITHOUT_SUDO, "ansible_become_exe": str(sudo)})
    code, output = place.play("site")
    assert code != 0
    assert (
        f"nothing was changed, because these hosts failed or were not reached: {host}. Permit sudo without a password "
        f"for the SSH user on {host}, or add --ask-become-pass to ansible-playbook, and run the playbook again"
    ) in output
    assert not place.hosts.exists()


def test_site_deploys_reachable_hosts_if_the_limit_excludes_the_others(place: Place) -> None:
    place.lay(A, B, "web01")
    set_host(place, B, "all", UNREACHABLE)
    code, said = place.play("site", "--limit", f"all:!{B}")
    assert code == 0, said
    assert list(place.hosts.rglob("activemq.xml"))


def test_a_waiver_lets_a_finding_about_a_host_pass(place: Place) -> None:
    place.lay(A, B, java_options=[NO_LOCKS], waivers=[{"rule": "L006", "reason": "the share locks by itself"}])
    code, said = place.play("site")
    assert code == 0, said
    assert "(waived: the share locks by itself)" in said


def test_site_refuses_wrong_inventory_before_it_touches_a_host(place: Place) -> None:
    place.lay(A, B, install="archive")
    code, said = place.play("site")
    assert code != 0
    assert "activemq_install is archive, but activemq_archive and activemq_archive_sha512 are not set" in said
    assert "TASK [Inspect the machine" not in said
    assert not place.hosts.exists()


def test_the_playbook_check_warns_of_what_site_refuses(place: Place) -> None:
    place.lay(A, B, install="archive")
    code, said = place.play("check")
    assert code == 0
    assert "T030" in said
    assert "the `site` playbook will fail" in " ".join(said.split())


@some_situations(1)
@pytest.mark.parametrize("playbook", ["check", "site"])
def test_playbook_warns_of_unread_host_and_misspelt_prefix_with_their_lines(place: Place, playbook: str) -> None:
    place.lay(A, B, "mqhamburg2", service="none")
    hosts = place.root / "hosts.yml"
    hosts.write_text(hosts.read_text().replace("activemq_release:", "activemqq_heap: 1g\n    activemq_release:"))
    lines = hosts.read_text().split("\n")
    of_host, of_variable = (
        next(number for number, line in enumerate(lines, 1) if word in line)
        for word in ("mqhamburg2", "activemqq_heap")
    )

    code, output = place.play(playbook)

    words = " ".join(output.split())
    assert code == 0, output
    assert "T037 mqhamburg2: the host is not read as a broker" in words
    assert f"({hosts}:{of_host})" in words
    assert f"T036 mqhamburg2, {A}, {B}: the variable activemqq_heap has no effect" in words
    assert f"({hosts}:{of_variable})" in words


def test_playbook_refuses_mistake_in_structure_at_its_line(place: Place) -> None:
    place.lay(A, B)
    hosts = place.root / "hosts.yml"
    hosts.write_text(f"{hosts.read_text()}\norders:\n  host:\n    {A}:\n")
    line = hosts.read_text().count("\n") - 1

    code, output = place.play("site")

    assert code != 0
    assert f"T038 {hosts}:{line}: Ansible ignores the key host of group orders, because it is not" in output
    assert "Rename the key host to hosts" in output
    assert not place.hosts.exists()


@in_every_situation
def test_a_deployed_pair_keeps_its_name_whatever_the_convention(place: Place) -> None:
    place.lay(A, B)
    code, said = place.play("site")
    assert code == 0, said
    before = {path: path.read_bytes() for path in place.hosts.rglob("activemq.xml")}
    pattern = r"^(?P<pair>(?P<group>orders)-mq)(?P<number>[0-9]+)-(?P<node>[ab])"

    place.lay(A, B, naming_pattern=pattern)
    code, said = place.play("site")
    assert code != 0
    assert f"L034 {A}, {B}: " in said
    assert "To keep the pair and its messages, set activemq_pair: orders-mq01 on both nodes" in said
    assert {path: path.read_bytes() for path in place.hosts.rglob("activemq.xml")} == before

    place.lay(A, B, naming_pattern=pattern, pair="orders-mq01")
    code, said = place.play("site")
    assert code == 0, said
    assert {path: path.read_bytes() for path in place.hosts.rglob("activemq.xml")} == before


def test_site_names_misspelt_variable_that_is_required(place: Place) -> None:
    place.lay(A, B)
    path = place.root / "hosts.yml"
    text = path.read_text().replace("activemq_release:", "active_mq_release:")
    path.write_text(text)
    line = text[: text.index("active_mq_release")].count("\n") + 1

    code, output = place.play("site")

    assert code != 0
    assert f"active_mq_release of host {A} is ignored: did you mean activemq_release? ({path}:{line})" in output
    assert not place.hosts.exists()
