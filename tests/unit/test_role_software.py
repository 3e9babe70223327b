"""The tasks that install and remove ActiveMQ, the agent and load balancers, run on this machine."""

from __future__ import annotations

import base64
import os
import pwd
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from tests.unit.release_jars import create_release_directory

REPOSITORY = Path(__file__).resolve().parents[2]


def tasks_by_name(file: str) -> dict[str, dict[str, Any]]:
    """Return the tasks of a file of a role by their names; the tasks of a block take its place."""
    tasks = yaml.safe_load((REPOSITORY / file).read_text())
    return {task["name"]: task for outer in tasks for task in outer.get("block", [outer])}


def run_tasks(
    directory: Path, tasks: Sequence[dict[str, Any]], variables: dict[str, Any], *options: str, umask: int = 0o022
) -> subprocess.CompletedProcess[str]:
    """Run tasks on this machine with variables that override those of the roles."""
    play, values = directory / "play.yml", directory / "variables.yml"
    files = [str(REPOSITORY / "roles" / role / "vars/main.yml") for role in ("broker", "agent")]
    play.write_text(
        yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "vars_files": files, "tasks": list(tasks)}])
    )
    values.write_text(yaml.safe_dump({"ansible_python_interpreter": sys.executable, **variables}))
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    command = [program, "-i", "localhost,", "-c", "local", "-e", f"@{values}", *options, str(play)]
    return subprocess.run(command, capture_output=True, text=True, check=False, umask=umask)


def unreadable_files(directory: Path) -> list[str]:
    """Return the files and directories in a directory that an account other than their owner cannot use."""
    return [
        f"{path.relative_to(directory)} {path.stat().st_mode & 0o777:o}"
        for path in sorted([directory, *directory.rglob("*")])
        if (path.stat().st_mode & 0o005) != 0o005 and (path.is_dir() or not path.stat().st_mode & 0o004)
    ]


def test_unpacked_release_is_readable_for_all_accounts_under_umask_077(tmp_path: Path) -> None:
    release = create_release_directory(tmp_path / "apache-activemq-5.18.3", "5.18.3")
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        archive.add(release, arcname=release.name)
    home = tmp_path / "home.new"
    home.mkdir(mode=0o755)
    task = tasks_by_name("roles/broker/tasks/unpack.yml")["Unpack"]
    for option in ("owner", "group"):  # only root can set them
        del task["ansible.builtin.unarchive"][option]
    completed = run_tasks(
        tmp_path,
        [task],
        {
            "__activemq_broker": {"home": str(tmp_path / "home")},
            "__activemq_archive_file": str(tmp_path / "x.tar.gz"),
            "__activemq_unpack_subdirectory": "",
            "__activemq_strip_components": 1,
        },
        umask=0o077,
    )
    assert completed.returncode == 0, completed.stdout
    assert list((home / "lib").glob("*.jar"))
    assert unreadable_files(home) == []


@pytest.mark.parametrize(
    ("installed", "state", "user", "message"),
    [
        ("state", "state", "", ""),
        ("state", "state", "daemon", "but {state} belongs to {user} (uid {uid})"),
        ("old", "state", "", "but the events of the installed agent are in {old}: the agent would not send them"),
        ("moved", "state", "", ""),
        ("moved", "state", "daemon", "but {state} belongs to {user} (uid {uid})"),
        (None, "state", "daemon", ""),
    ],
)
def test_agent_keeps_state_directory_and_owner_of_installed_agent(
    tmp_path: Path, installed: str | None, state: str, user: str, message: str
) -> None:
    (tmp_path / "config").mkdir()
    for name in ("state", "old"):
        (tmp_path / name).mkdir()
    if os.getuid() == 0:
        os.chown(tmp_path / "state", 65534, -1)
    owner = pwd.getpwuid((tmp_path / "state").stat().st_uid)
    if installed:
        (tmp_path / "config/agent.conf").write_text(
            f"[agent]\nx = 1\nstate.directory = {tmp_path / installed}\ny = 2\n"
        )
    tasks = tasks_by_name("roles/agent/tasks/prepare.yml")
    agent = {"config": str(tmp_path / "config"), "state": str(tmp_path / state), "user": user or owner.pw_name}
    names = list(tasks)
    completed = run_tasks(
        tmp_path, [tasks[name] for name in names[: names.index("Create the group")]], {"__activemq_agent": agent}
    )
    assert (completed.returncode == 0) == (not message), completed.stdout
    expected = message.format(state=agent["state"], old=tmp_path / "old", user=owner.pw_name, uid=owner.pw_uid)
    assert expected in completed.stdout


def test_installed_agent_is_executable_for_all_accounts_under_umask_077(tmp_path: Path) -> None:
    wheel = tmp_path / "activemq_agent-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("activemq_agent.py", "def main(): pass\n")
        archive.writestr(
            "activemq_agent-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: activemq-agent\nVersion: 1.0\n"
        )
        archive.writestr(
            "activemq_agent-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(
            "activemq_agent-1.0.dist-info/entry_points.txt", "[console_scripts]\nactivemq-agent = activemq_agent:main\n"
        )
        archive.writestr("activemq_agent-1.0.dist-info/RECORD", "")
    tasks = tasks_by_name("roles/agent/tasks/pip.yml")
    home = tmp_path / "agent"
    completed = run_tasks(
        tmp_path,
        [tasks["Create the virtual environment"], tasks["Install the agent"]],
        {
            "__activemq_agent": {"home": str(home), "python": sys.executable},
            "__activemq_agent_source": "wheel",
            "__activemq_agent_pip_arguments": {"wheel": ["--no-index", "--no-deps", str(wheel)]},
        },
        umask=0o077,
    )
    assert completed.returncode == 0, completed.stdout
    assert (home / "bin/activemq-agent").stat().st_mode & 0o777 == 0o755
    assert unreadable_files(home) == []


_FAKE_PYTHON = """#!/bin/sh
case "$*" in
    *"-m venv --clear"*) rm -r "$4"/*; mkdir "$4/bin"; echo new >"$4/bin/pip" ;;
    *"import pip"*) {import_pip} && echo "{version}" ;;
    *) echo "{version}" ;;
esac
"""


@pytest.mark.parametrize(
    ("version", "import_pip", "is_created_again"),
    [("(3, 13)", "true", False), ("(3, 11)", "true", True), ("(3, 13)", "false", True)],
)
def test_environment_of_agent_is_created_again_if_it_does_not_work(
    tmp_path: Path, version: str, import_pip: str, is_created_again: bool
) -> None:
    home, python = tmp_path / "agent", tmp_path / "python3"
    (home / "bin").mkdir(parents=True)
    (home / "bin/pip").write_text("old\n")
    for path, *values in ((python, "(3, 13)", "false"), (home / "bin/python", version, import_pip)):
        path.write_text(_FAKE_PYTHON.format(version=values[0], import_pip=values[1]))
        path.chmod(0o755)
    software, pip = (tasks_by_name(f"roles/agent/tasks/{name}.yml") for name in ("software", "pip"))
    install = software["Install it"]
    names = ("Remove pip from a virtual environment that does not work", "Create the virtual environment")
    completed = run_tasks(
        tmp_path,
        [
            software["Check whether the virtual environment works, with the version of the configured interpreter"],
            *({**pip[name], "when": [install["when"], pip[name].get("when", True)]} for name in names),
        ],
        {
            "__activemq_agent": {"home": str(home), "python": str(python)},
            "__activemq_installed_agent_package": {"content": base64.b64encode(b"1").decode()},
            "__activemq_agent_package_identity": "1",
        },
    )
    assert completed.returncode == 0, completed.stdout
    assert (home / "bin/pip").read_text() == ("new\n" if is_created_again else "old\n")


def test_check_mode_shows_installation_of_directory_of_jars(tmp_path: Path) -> None:
    jars = create_release_directory(tmp_path / "jars", "5.18.3") / "lib"
    (tmp_path / "run").mkdir()
    tasks = tasks_by_name("roles/broker/tasks/install_jars.yml")
    selected = [tasks["Pack the directory of jars"], tasks["Copy the jars from the controller"]]
    for option in ("owner", "group"):  # only root can set them
        del selected[1]["ansible.builtin.copy"][option]
    completed = run_tasks(
        tmp_path,
        selected,
        {
            "__activemq_broker": {"archive": str(jars), "home": str(tmp_path / "home")},
            "__activemq_jars_archive": str(tmp_path / "run/x.jars.tar"),
        },
        "--check",
    )
    assert completed.returncode == 0, completed.stdout
    assert completed.stdout.count("changed: [localhost]") == 2
    assert not (tmp_path / "home.archive").exists()


@pytest.mark.parametrize(
    ("variables", "releases"),
    [
        ({}, ["/opt/activemq", "/opt/activemq-6.3.1"]),
        ({"activemq_install": "jars", "activemq_home": "/srv/x"}, ["/srv/x", "/srv/x-6.3.1"]),
        ({"activemq_install": "none", "activemq_home": "/opt/activemq"}, []),
        ({"activemq_install": "package"}, []),
    ],
)
def test_molecule_destroy_removes_only_releases_that_site_installed(
    variables: dict[str, str], releases: list[str]
) -> None:
    loader = DataLoader()
    kit = loader.load_from_file(str(REPOSITORY / "extensions/molecule_kit/hosts/vars.yml"), trusted_as_template=True)
    templar = Templar(loader, variables={"activemq_release": "6.3.1", **kit, **variables})
    paths = templar.template(trust_as_template("{{ fleet_paths }}"))
    assert paths == [*releases, "/var/lib/activemq/activemq"]


@pytest.mark.parametrize(("loaded_version", "state"), [("1a2b", "reloaded"), ("3c4d", "started")])
def test_systemd_reads_drop_in_of_load_balancer_that_this_or_an_earlier_run_changed(
    loaded_version: str, state: str
) -> None:
    loader = DataLoader()
    role = loader.load_from_file(str(REPOSITORY / "roles/loadbalancer/vars/main.yml"), trusted_as_template=True)
    variables = {
        "__activemq_balancer_links": {"changed": False},
        "__activemq_balancer_loaded_version": {"content": base64.b64encode(loaded_version.encode()).decode()},
        "__activemq_installed_balancer_files": {"version": "3c4d"},
    }
    task = tasks_by_name("roles/loadbalancer/tasks/service.yml")["Start them, or let them load changed files"]
    options = task["ansible.builtin.systemd_service"]
    templar = Templar(loader, variables={**role, **variables})
    assert options["daemon_reload"] is True
    assert templar.template(trust_as_template(options["state"])) == state


@pytest.mark.parametrize(("answer", "code"), [("0123456789ab", 0), ("ba9876543210", 2)])
def test_site_fails_unless_haproxy_uses_installed_configuration(answer: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "configuration").write_text(answer)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path)))
    tasks = tasks_by_name("roles/loadbalancer/tasks/service.yml")
    query = {**tasks["Query which configuration HAProxy uses"], "retries": 1, "delay": 0}
    balancer = {
        "config": "/etc/lb",
        "check_port": server.server_port,
        "haproxy_configuration_id": "0123456789ab",
    }
    with server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        completed = run_tasks(
            tmp_path,
            [query, tasks["Check that HAProxy uses the installed configuration"]],
            {"__activemq_balancer": balancer},
        )
        server.shutdown()
        thread.join()
    assert completed.returncode == code, completed.stdout
    assert ("does not use the installed file /etc/lb/haproxy.cfg" in completed.stdout) == bool(code)


def test_marker_of_new_store_is_read_again_while_nfs_client_remembers_its_absence(tmp_path: Path) -> None:
    task = tasks_by_name("roles/broker/tasks/mark_store.yml")["Check that the store has the marker of the other node"]
    assert task["retries"] * task["delay"] > 60  # seconds: acdirmax of NFS
    attempts = tmp_path / "attempts"
    del task["activemq.fleet.store_marker"], task["when"]
    task["ansible.builtin.shell"] = f"echo >> {attempts}; test $(wc -l < {attempts}) = 3"
    completed = run_tasks(tmp_path, [{**task, "delay": 0}], {})
    assert completed.returncode == 0, completed.stdout
    assert attempts.read_text() == "\n" * 3


def test_removal_of_fence_stops_before_decision_if_guard_does_not_run(tmp_path: Path) -> None:
    tasks = tasks_by_name("roles/broker/tasks/remove_fence.yml")
    names = list(tasks)
    check = names[1 : names.index("Decide which brokers must be stopped")]
    variables = {
        "__activemq_broker": {"store": "/srv/x", "user": "root", "instance": "missing", "pair": "orders-mq01"},
        "__activemq_target": {"pairs": {"orders-mq01": ["localhost", "b"]}},
    }
    completed = run_tasks(
        tmp_path, [tasks[name] for name in check], {**variables, "__activemq_shared_store_state": {"fenced": True}}
    )
    assert completed.returncode == 2
    assert "localhost: the program /usr/local/sbin/missing-guard, which removes the fence, does not run: runuser: " in (
        completed.stdout
    )
    completed = run_tasks(
        tmp_path, [tasks[name] for name in check], {**variables, "__activemq_shared_store_state": {"fenced": False}}
    )
    assert completed.returncode == 0, completed.stdout
