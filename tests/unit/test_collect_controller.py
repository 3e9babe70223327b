"""Unpacking of collected evidence on the controller: the directory of a host is replaced atomically."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleActionFail
from ansible_collections.activemq.fleet.plugins.action.collect import ActionModule
from ansible_collections.activemq.fleet.plugins.plugin_utils import collected, host_archive
from jinja2.nativetypes import NativeEnvironment

from tests.unit.hostile_hosts import HostilePython

ROOT = Path(__file__).resolve().parents[2]
NODES = ("orders-mq01-a.example.com", "orders-mq01-b.example.com")


def write_archive(path: Path, files: Mapping[str, bytes], **attributes: Any) -> str:
    """Write an archive whose members have other attributes; return its path."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            for key, value in attributes.items():
                setattr(member, key, value)
            tar.addfile(member, io.BytesIO(content))
    return str(path)


def unpack_evidence(directory: Path, archive_path: str, facts: Mapping[str, Any] | None = None) -> None:
    """Unpack an archive to the directory of host ``one``."""
    with collected.temporary_staging_directory(str(directory), "one") as staging_directory:
        collected.replace_evidence_from_archive(
            archive_path, facts or {}, staging_directory, str(directory / "one"), 1 << 20
        )


def test_evidence_directory_with_foreign_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()

    with pytest.raises(AnsibleActionFail, match="contains files that the playbook collect did not write"):
        collected.create_or_reuse_evidence_directory(str(tmp_path))

    assert os.listdir(tmp_path) == ["mine"]


def test_collection_of_host_removes_only_its_own_leftovers(tmp_path: Path) -> None:
    for name in (".new-one-abc_1234", ".old-one-abc_1234", ".old-one-standby-abc_1234"):
        (tmp_path / name / "tree").mkdir(parents=True)
    with (
        collected.temporary_staging_directory(str(tmp_path), "one-standby") as staging_of_other_host,
        collected.temporary_staging_directory(str(tmp_path), "one"),
    ):
        assert os.path.isdir(staging_of_other_host)
    assert os.listdir(tmp_path) == []


def test_evidence_directory_of_earlier_run_is_reused_and_private(tmp_path: Path) -> None:
    path = collected.create_or_reuse_evidence_directory(str(tmp_path / "new"))
    (tmp_path / "new" / "one").mkdir()

    assert collected.create_or_reuse_evidence_directory(path) == path
    assert os.stat(path).st_mode & 0o777 == 0o700


def test_evidence_archive_is_unpacked_to_directory_of_its_host(tmp_path: Path) -> None:
    archive_path = write_archive(tmp_path / "a.tar.gz", {"activemq.log": b"x\n", "agent/journal-1.jsonl": b"{}\n"})
    directory = tmp_path / "out"
    directory.mkdir()

    unpack_evidence(directory, archive_path, {"host": "one"})

    assert json.loads((directory / "one" / "host.json").read_text()) == {"host": "one"}
    assert (directory / "one" / "agent" / "journal-1.jsonl").read_bytes() == b"{}\n"
    assert os.listdir(directory) == ["one"]


def test_facts_with_name_that_is_not_utf_8_are_written(tmp_path: Path) -> None:
    archive_path, facts = write_archive(tmp_path / "a.tar.gz", {}), {"drift": ["conf/caf\udce9.xml was added by hand"]}
    unpack_evidence(tmp_path, archive_path, facts)
    assert json.loads((tmp_path / "one" / "host.json").read_text()) == facts


def test_second_evidence_archive_of_host_replaces_first(tmp_path: Path) -> None:
    directory = tmp_path / "out"
    directory.mkdir()
    unpack_evidence(directory, write_archive(tmp_path / "a.tar.gz", {"old": b"1"}))
    (directory / ".new-one-abc_1234").mkdir()

    unpack_evidence(directory, write_archive(tmp_path / "b.tar.gz", {"new": b"2"}))

    assert sorted(os.listdir(directory / "one")) == ["host.json", "new"]
    assert os.listdir(directory) == ["one"]


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("../outside", {}),
        ("/etc/passwd", {}),
        ("a//b", {}),
        ("link", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd", "size": 0}),
        ("device", {"type": tarfile.CHRTYPE, "size": 0}),
        ("host.json", {}),
    ],
)
def test_evidence_archive_with_invalid_member_changes_nothing(
    tmp_path: Path, name: str, attributes: dict[str, Any]
) -> None:
    directory = tmp_path / "out"
    directory.mkdir()
    unpack_evidence(directory, write_archive(tmp_path / "a.tar.gz", {"old": b"1"}))

    with pytest.raises(AnsibleActionFail, match="cannot be unpacked"):
        unpack_evidence(directory, write_archive(tmp_path / "b.tar.gz", {name: b"x"}, **attributes))

    assert sorted(os.listdir(directory / "one")) == ["host.json", "old"]
    assert os.listdir(directory) == ["one"]


def test_truncated_evidence_archive_changes_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "out"
    directory.mkdir()
    archive_content = Path(write_archive(tmp_path / "a.tar.gz", {"log": os.urandom(100_000)})).read_bytes()
    (tmp_path / "half").write_bytes(archive_content[: len(archive_content) // 2])

    with pytest.raises(AnsibleActionFail, match="cannot be unpacked"):
        unpack_evidence(directory, str(tmp_path / "half"))

    assert os.listdir(directory) == []


def test_error_about_full_disk_of_controller_names_path_of_evidence(small_disk: Path, tmp_path: Path) -> None:
    archive_path = write_archive(tmp_path / "a.tar.gz", {"log": b"x" * 200_000})
    with pytest.raises(
        AnsibleActionFail, match=f"cannot be written to {small_disk}/one on the controller .No space left on device"
    ):
        unpack_evidence(small_disk, archive_path)
    with pytest.raises(
        AnsibleActionFail, match=f"cannot be written to {small_disk}/one on the controller .No space left on device"
    ):
        unpack_evidence(small_disk, write_archive(tmp_path / "b.tar.gz", {"log": b"x"}), {"note": "x" * 200_000})
    assert os.listdir(small_disk) == []


def test_evidence_archive_above_size_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collected, "_SLACK", 0)

    with pytest.raises(AnsibleActionFail, match="contains more than 1048576 bytes"):
        unpack_evidence(tmp_path, write_archive(tmp_path / "a.tar.gz", {"log": b"x" * ((1 << 20) + 1)}))


def write_archive_with_pax_header(path: Path, records: bytes, size: int) -> str:
    """Write an archive of one file after a PAX header with a declared size of ``size`` bytes; return its path."""
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, size
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(header.tobuf(tarfile.USTAR_FORMAT))
        zeros = bytes(1 << 20)
        file.write(records)
        for _ in range(size >> 20):
            file.write(zeros)
        file.write(tarfile.TarInfo("activemq.log").tobuf(tarfile.USTAR_FORMAT) + bytes(1024))
    return str(path)


def test_evidence_archive_with_long_header_is_refused_before_header_is_read(tmp_path: Path) -> None:
    """Attack p07: a compressed header of 150 MiB has 150 kB. One of 1.5 GiB used 3 GB of the controller's memory."""
    archive_path = write_archive_with_pax_header(tmp_path / "a.tar.gz", b"", 150 << 20)
    assert os.path.getsize(archive_path) < 1 << 20

    tracemalloc.start()
    try:
        with pytest.raises(
            AnsibleActionFail,
            match="unpacked on the controller: the archive of collected files that the host sent contains a tar header "
            "of 157286400 bytes",
        ):
            unpack_evidence(tmp_path, archive_path)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_evidence_archive_with_too_many_empty_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack p07: files without content did not count toward the limit."""
    monkeypatch.setattr(host_archive, "MAX_FILES", 100)
    with gzip.open(tmp_path / "a.tar.gz", "wb", compresslevel=1) as file:
        for number in range(101):
            file.write(tarfile.TarInfo(f"agent/{number}").tobuf(tarfile.USTAR_FORMAT))
        file.write(bytes(1024))

    with pytest.raises(AnsibleActionFail, match="contains more than 100 files"):
        unpack_evidence(tmp_path, str(tmp_path / "a.tar.gz"))

    assert not (tmp_path / "one").exists()


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"pax_headers": {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}}, "is not a regular file"),
        ({"pax_headers": {"mtime": "1e300"}}, "has the modification time"),
        ({"pax_headers": {"mtime": "nan"}}, "has the modification time"),
        ({"type": tarfile.GNUTYPE_SPARSE}, "is not a regular file"),
        ({"type": tarfile.GNUTYPE_LONGNAME}, "is not a regular file"),
        ({"type": tarfile.XGLTYPE}, "is not a regular file"),
    ],
)
def test_evidence_archive_with_unsupported_headers_is_refused(
    tmp_path: Path, attributes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(AnsibleActionFail, match=reason):
        unpack_evidence(tmp_path, write_archive(tmp_path / "a.tar.gz", {"log": b"x"}, **attributes))


@pytest.mark.parametrize("name", ["a/" * 9 + "log", "x" * 1100, "agent/\udcff"])
def test_evidence_archive_with_overlong_file_name_is_refused(tmp_path: Path, name: str) -> None:
    archive_path = write_archive(tmp_path / "a.tar.gz", {name: b"x"})
    if "\udcff" in name:
        unpack_evidence(tmp_path, archive_path)
    else:
        with pytest.raises(AnsibleActionFail, match="is longer than any name that the module collect writes"):
            unpack_evidence(tmp_path, archive_path)


def test_evidence_archive_above_unpacked_size_limit_is_refused(tmp_path: Path) -> None:
    """Zeros after the end of the archive and padding count toward the limit, too."""
    with gzip.open(tmp_path / "a.tar.gz", "wb", compresslevel=1) as file:
        for name in ("one", "two"):
            info = tarfile.TarInfo(name)
            info.size = 60 << 20
            file.write(info.tobuf(tarfile.USTAR_FORMAT))
            for _ in range(60):
                file.write(bytes(1 << 20))

    with pytest.raises(AnsibleActionFail, match=f"contains more than {65 << 20} bytes"):
        unpack_evidence(tmp_path, str(tmp_path / "a.tar.gz"))


def test_endless_evidence_archive_is_truncated_during_transfer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collected, "_SLACK", 0)
    with open("/dev/zero", "rb") as endless, open(tmp_path / "archive", "wb", buffering=0) as target:
        with pytest.raises(OSError, match="File too large"), collected.limit_file_size_temporarily(1 << 20):
            shutil.copyfileobj(endless, target, 1 << 16)
        target.write(b"x" * 8)  # the limit no longer applies

    assert os.path.getsize(tmp_path / "archive") == (1 << 20) + 8


FORGED = {
    "facts": {
        "broker": {"state": "active"},
        "host": "orders-mq01-c.example.com",
        "pair": "orders-mq01",
        "group": "orders",
        "role": "master",
        "release": "5.18.3",
        "left_out": "nothing",
        "kernel": "6.1",
    },
    "left_out": [],
    "notes": [],
}


def test_inventory_overrides_facts_that_host_reports_to_collect() -> None:
    """Attack p16: the host became a node of another pair, and its records declared outages of that pair as planned."""
    inventory_facts = {"group": "kiosks", "pair": "kiosks-mq09", "role": "slave", "ha": "none", "release": "5.5.1"}

    facts = ActionModule._host_facts(None, "kiosks-mq09-a.example.com", inventory_facts, FORGED)

    assert {name: facts[name] for name in ("host", "group", "pair", "role", "peer", "ha")} == {
        "host": "kiosks-mq09-a.example.com", "group": "kiosks", "pair": "kiosks-mq09", "role": "slave", "peer": None,
        "ha": "none",
    }  # fmt: skip
    assert (facts["release"], facts["left_out"], facts["kernel"]) == ("5.5.1", [], "6.1")


def run_collect_playbook(
    directory: Path, *options: str, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """Run the playbook on two hosts that are directories and one unreachable host."""
    local = {"ansible_connection": "local", "ansible_python_interpreter": python}
    unreachable = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_ssh_common_args": "-o ConnectTimeout=1"}
    common = {
        "activemq_release": "5.18.3",
        "activemq_base": f"{directory}/hosts/{{{{ inventory_hostname }}}}",
        "activemq_install": "none",
        "activemq_service": "none",
        # The playbook requires no vault password, and a finding that stops site does not stop it.
        "activemq_store_limit": "1 kb",
    }
    hosts = {NODES[0]: local, NODES[1]: unreachable}
    agents = {"kiosk-1.example.com": {**local, "activemq_agent_config": f"{directory}/etc"}}
    inventory = {"all": {"hosts": hosts, "vars": common}, "activemq_agents": {"hosts": agents}}
    (directory / "hosts.yml").write_text(yaml.safe_dump(inventory))
    environment = os.environ | {
        "ANSIBLE_HOME": str(directory / "ansible"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".ansible/collections"),
        "ANSIBLE_NOCOLOR": "1",
    }
    program = Path(sys.executable).with_name("ansible-playbook")
    return subprocess.run(
        [str(program), "-i", str(directory / "hosts.yml"), "activemq.fleet.collect", *options],
        env=environment,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def test_collect_names_unreachable_host_and_collects_other_hosts(tmp_path: Path) -> None:
    """The reachable host is hostile: its notes contain control characters (attack p14)."""
    python = HostilePython(tmp_path / "hostile", {'"notes": [': '"notes": ["\\u001b]0;PWNED\\u0007\\u001b[2J", '})
    base = tmp_path / "hosts" / NODES[0] / "activemq"
    (base / "conf").mkdir(parents=True)
    (base / "conf" / "activemq.xml").write_text('<beans><broker><x password="canary"/></broker></beans>')
    (base / "data").mkdir()
    (base / "data" / "activemq.log").write_text("nio://net:canary@other:61616\n")

    process = run_collect_playbook(tmp_path, "-e", "activemq_collect_to=out", "-vvv", python=str(python.path))

    assert python.edits_made() == 2
    assert "\x1b" not in process.stdout
    assert f"{NODES[0]}: \\u001b]0;PWNED\\u0007\\u001b[2J" in process.stdout.replace("\n", " ")
    assert process.returncode == 4, process.stdout
    assert (
        "2 of 3 hosts. These hosts were not collected: orders-mq01-b.example.com. Correct the errors" in process.stdout
    )
    assert "canary" not in process.stdout
    assert sorted(path.name for path in (tmp_path / "out").iterdir() if path.is_dir()) == [
        "kiosk-1.example.com",
        NODES[0],
    ]
    facts = json.loads((tmp_path / "out" / NODES[0] / "host.json").read_text())
    assert (facts["host"], facts["pair"], facts["release"], facts["state"]) == (
        NODES[0],
        "orders-mq01",
        "5.18.3",
        "stopped",
    )
    assert (tmp_path / "out" / NODES[0] / "activemq.log").read_text() == "nio://net:@secret@@other:61616\n"


def test_collect_also_collects_in_check_mode(tmp_path: Path) -> None:
    (tmp_path / "hosts" / NODES[0] / "activemq" / "data").mkdir(parents=True)
    (tmp_path / "hosts" / NODES[0] / "activemq" / "data" / "activemq.log").write_text("a line\n")

    process = run_collect_playbook(
        tmp_path, "-e", "activemq_collect_to=out", "--check", "--limit", f"{NODES[0]},kiosk-1.example.com"
    )

    assert process.returncode == 0, process.stdout
    assert (tmp_path / "out" / NODES[0] / "activemq.log").read_text() == "a line\n"


def test_collect_refuses_directory_with_foreign_files_before_any_host(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()

    process = run_collect_playbook(tmp_path, "-e", "activemq_collect_to=out")

    assert process.returncode == 2
    assert "contains files that the playbook collect did not write" in " ".join(process.stdout.split())
    assert "TASK [Collect the evidence of the host]" not in process.stdout


@pytest.mark.parametrize(
    ("variable", "value", "error"),
    [
        ("activemq_collect_megabytes", "abc", "is 'abc'. Set it to a whole number of 1 or more"),
        ("activemq_collect_dumps", "some", "is 'some'. Set it to hung, always or never"),
    ],
)
def test_collect_refuses_invalid_variable_once_before_any_host(
    variable: str, value: str, error: str, tmp_path: Path
) -> None:
    process = run_collect_playbook(tmp_path, "-e", "activemq_collect_to=out", "-e", f"{variable}={value}")
    assert process.returncode == 2
    assert re.findall(r'FAILED! => .*"msg": "(.*)"}', process.stdout) == [f"{variable} {error}"]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "variable", "default"),
    [
        ("days", "activemq_collect_days", 7),
        ("megabytes", "activemq_collect_megabytes", 200),
        ("seconds", "activemq_collect_timeout", 600),
    ],
)
def test_playbook_collect_passes_limit_0_on_and_has_defaults(option: str, variable: str, default: int) -> None:
    plays = yaml.safe_load((ROOT / "playbooks/collect.yml").read_text())
    task = next(task for task in plays[1]["tasks"] if task["name"] == "Collect the evidence of the host")
    template = NativeEnvironment().from_string(task["activemq.fleet.collect"][option])
    values: list[Any] = [template.render({variable: value}) for value in (0, None)]
    assert [*values, template.render()] == [0, default, default]
