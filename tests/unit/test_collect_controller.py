"""What ``collect`` does on the controller: a host's directory appears whole or not at all."""

from __future__ import annotations

import gzip
import io
import json
import os
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

from tests.unit.hostile_hosts import HostilePython

ROOT = Path(__file__).resolve().parents[2]
NODES = ("orders-mq01-a.example.com", "orders-mq01-b.example.com")


def archive(path: Path, files: Mapping[str, bytes], **changed: Any) -> str:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            for key, value in changed.items():
                setattr(member, key, value)
            tar.addfile(member, io.BytesIO(content))
    return str(path)


def land(directory: Path, packed: str, facts: Mapping[str, Any] | None = None) -> None:
    with collected.temporary_staging_directory(str(directory), "one") as place:
        collected.replace_evidence_from_archive(packed, facts or {}, place, str(directory / "one"), 1 << 20)


def test_a_directory_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()

    with pytest.raises(AnsibleActionFail, match="contains files that the playbook collect did not write"):
        collected.create_or_reuse_evidence_directory(str(tmp_path))

    assert os.listdir(tmp_path) == ["mine"]


def test_a_directory_of_an_earlier_run_is_taken_and_is_private(tmp_path: Path) -> None:
    path = collected.create_or_reuse_evidence_directory(str(tmp_path / "new"))
    (tmp_path / "new" / "one").mkdir()

    assert collected.create_or_reuse_evidence_directory(path) == path
    assert os.stat(path).st_mode & 0o777 == 0o700


def test_an_archive_becomes_the_hosts_directory(tmp_path: Path) -> None:
    packed = archive(tmp_path / "a.tar.gz", {"activemq.log": b"x\n", "agent/journal-1.jsonl": b"{}\n"})
    directory = tmp_path / "out"
    directory.mkdir()

    land(directory, packed, {"host": "one"})

    assert json.loads((directory / "one" / "host.json").read_text()) == {"host": "one"}
    assert (directory / "one" / "agent" / "journal-1.jsonl").read_bytes() == b"{}\n"
    assert os.listdir(directory) == ["one"]


def test_a_second_collection_takes_the_place_of_the_first(tmp_path: Path) -> None:
    directory = tmp_path / "out"
    directory.mkdir()
    land(directory, archive(tmp_path / "a.tar.gz", {"old": b"1"}))
    (directory / ".new-one-killed").mkdir()

    land(directory, archive(tmp_path / "b.tar.gz", {"new": b"2"}))

    assert sorted(os.listdir(directory / "one")) == ["host.json", "new"]
    assert os.listdir(directory) == ["one"]


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("../outside", {}),
        ("/etc/passwd", {}),
        ("a//b", {}),
        ("link", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd", "size": 0}),
        ("device", {"type": tarfile.CHRTYPE, "size": 0}),
        ("host.json", {}),
    ],
)
def test_an_archive_that_reaches_outside_changes_nothing(tmp_path: Path, name: str, changed: dict[str, Any]) -> None:
    directory = tmp_path / "out"
    directory.mkdir()
    land(directory, archive(tmp_path / "a.tar.gz", {"old": b"1"}))

    with pytest.raises(AnsibleActionFail, match="cannot be unpacked"):
        land(directory, archive(tmp_path / "b.tar.gz", {name: b"x"}, **changed))

    assert sorted(os.listdir(directory / "one")) == ["host.json", "old"]
    assert os.listdir(directory) == ["one"]


def test_half_an_archive_changes_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "out"
    directory.mkdir()
    whole = Path(archive(tmp_path / "a.tar.gz", {"log": os.urandom(100_000)})).read_bytes()
    (tmp_path / "half").write_bytes(whole[: len(whole) // 2])

    with pytest.raises(AnsibleActionFail, match="cannot be unpacked"):
        land(directory, str(tmp_path / "half"))

    assert os.listdir(directory) == []


def test_a_controller_without_room_is_told_where(small_disk: Path, tmp_path: Path) -> None:
    packed = archive(tmp_path / "a.tar.gz", {"log": b"x" * 200_000})
    with pytest.raises(
        AnsibleActionFail, match=f"cannot be written to {small_disk}/one on the controller .No space left on device"
    ):
        land(small_disk, packed)
    with pytest.raises(
        AnsibleActionFail, match=f"cannot be written to {small_disk}/one on the controller .No space left on device"
    ):
        land(small_disk, archive(tmp_path / "b.tar.gz", {"log": b"x"}), {"note": "x" * 200_000})
    assert os.listdir(small_disk) == []


def test_more_than_may_come_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collected, "_SLACK", 0)

    with pytest.raises(AnsibleActionFail, match="contains more than 1048576 bytes"):
        land(tmp_path, archive(tmp_path / "a.tar.gz", {"log": b"x" * ((1 << 20) + 1)}))


def packed_pax(path: Path, records: bytes, size: int) -> str:
    """Write an archive of one file behind a PAX header that says that it has ``size`` bytes; return its path."""
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


def test_an_archive_with_a_long_header_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """Attack p07: a header of 150 MiB is 150 kB on the wire. Of 1.5 GiB it took 3 GB of the controller's memory."""
    archive_path = packed_pax(tmp_path / "a.tar.gz", b"", 150 << 20)
    assert os.path.getsize(archive_path) < 1 << 20

    tracemalloc.start()
    try:
        with pytest.raises(
            AnsibleActionFail,
            match="unpacked on the controller: the archive of collected files that the host sent contains a tar header "
            "of 157286400 bytes",
        ):
            land(tmp_path, archive_path)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_an_archive_of_countless_empty_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack p07: files without content counted nothing."""
    monkeypatch.setattr(host_archive, "MOST_FILES", 100)
    with gzip.open(tmp_path / "a.tar.gz", "wb", compresslevel=1) as file:
        for number in range(101):
            file.write(tarfile.TarInfo(f"agent/{number}").tobuf(tarfile.USTAR_FORMAT))
        file.write(bytes(1024))

    with pytest.raises(AnsibleActionFail, match="contains more than 100 files"):
        land(tmp_path, str(tmp_path / "a.tar.gz"))

    assert not (tmp_path / "one").exists()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"pax_headers": {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}}, "is not a regular file"),
        ({"pax_headers": {"mtime": "1e300"}}, "has the modification time"),
        ({"pax_headers": {"mtime": "nan"}}, "has the modification time"),
        ({"type": tarfile.GNUTYPE_SPARSE}, "is not a regular file"),
        ({"type": tarfile.GNUTYPE_LONGNAME}, "is not a regular file"),
        ({"type": tarfile.XGLTYPE}, "is not a regular file"),
    ],
)
def test_an_archive_of_another_kind_is_refused(tmp_path: Path, changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(AnsibleActionFail, match=reason):
        land(tmp_path, archive(tmp_path / "a.tar.gz", {"log": b"x"}, **changed))


@pytest.mark.parametrize("name", ["a/" * 9 + "log", "x" * 1100, "agent/\udcff"])
def test_names_of_files_are_bounded(tmp_path: Path, name: str) -> None:
    packed = archive(tmp_path / "a.tar.gz", {name: b"x"})
    if "\udcff" in name:
        land(tmp_path, packed)
    else:
        with pytest.raises(AnsibleActionFail, match="is longer than any name that the module collect writes"):
            land(tmp_path, packed)


def test_gzip_data_that_unpack_to_more_than_may_come_are_refused(tmp_path: Path) -> None:
    """Zeros behind the end of the archive, and padding, count, too."""
    with gzip.open(tmp_path / "a.tar.gz", "wb", compresslevel=1) as file:
        for name in ("one", "two"):
            info = tarfile.TarInfo(name)
            info.size = 60 << 20
            file.write(info.tobuf(tarfile.USTAR_FORMAT))
            for _ in range(60):
                file.write(bytes(1 << 20))

    with pytest.raises(AnsibleActionFail, match=f"contains more than {65 << 20} bytes"):
        land(tmp_path, str(tmp_path / "a.tar.gz"))


def test_a_file_without_end_is_cut_while_it_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collected, "_SLACK", 0)
    with open("/dev/zero", "rb") as endless, open(tmp_path / "archive", "wb", buffering=0) as target:
        with pytest.raises(OSError, match="File too large"), collected.limit_file_size_temporarily(1 << 20):
            shutil.copyfileobj(endless, target, 1 << 16)
        target.write(b"x" * 8)  # the limit is gone

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


def test_the_inventory_outranks_what_a_host_says_of_itself() -> None:
    """Attack p16: the host became a node of another pair, whose outages its own records planned away."""
    about = {"group": "kiosks", "pair": "kiosks-mq09", "role": "slave", "ha": "none", "release": "5.5.1"}

    facts = ActionModule._facts(None, "kiosks-mq09-a.example.com", about, FORGED)

    assert {name: facts[name] for name in ("host", "group", "pair", "role", "peer", "ha")} == {
        "host": "kiosks-mq09-a.example.com", "group": "kiosks", "pair": "kiosks-mq09", "role": "slave", "peer": None,
        "ha": "none",
    }  # fmt: skip
    assert (facts["release"], facts["left_out"], facts["kernel"]) == ("5.5.1", [], "6.1")


def play(place: Path, *options: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    """The playbook, on two hosts that are directories and one that cannot be reached."""
    here = {"ansible_connection": "local", "ansible_python_interpreter": python}
    gone = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_ssh_common_args": "-o ConnectTimeout=1"}
    common = {
        "activemq_release": "5.18.3",
        "activemq_base": f"{place}/hosts/{{{{ inventory_hostname }}}}",
        "activemq_install": "none",
        "activemq_service": "none",
        # No vault password is needed, and a finding that stops site does not stop this.
        "activemq_store_limit": "1 kb",
    }
    hosts = {NODES[0]: here, NODES[1]: gone}
    agents = {"kiosk-1.example.com": {**here, "activemq_agent_config": f"{place}/etc"}}
    inventory = {"all": {"hosts": hosts, "vars": common}, "activemq_agents": {"hosts": agents}}
    (place / "hosts.yml").write_text(yaml.safe_dump(inventory))
    environment = os.environ | {
        "ANSIBLE_HOME": str(place / "ansible"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".ansible/collections"),
        "ANSIBLE_NOCOLOR": "1",
    }
    program = Path(sys.executable).with_name("ansible-playbook")
    return subprocess.run(
        [str(program), "-i", str(place / "hosts.yml"), "activemq.fleet.collect", *options],
        env=environment,
        cwd=place,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def test_a_host_that_is_away_is_named_and_the_others_are_collected(tmp_path: Path) -> None:
    """The host that answers is hostile, too: control characters in what it notes (attack p14)."""
    python = HostilePython(tmp_path / "hostile", {'"notes": [': '"notes": ["\\u001b]0;PWNED\\u0007\\u001b[2J", '})
    base = tmp_path / "hosts" / NODES[0] / "activemq"
    (base / "conf").mkdir(parents=True)
    (base / "conf" / "activemq.xml").write_text('<beans><broker><x password="canary"/></broker></beans>')
    (base / "data").mkdir()
    (base / "data" / "activemq.log").write_text("nio://net:canary@other:61616\n")

    done = play(tmp_path, "-e", "activemq_collect_to=out", "-vvv", python=str(python.path))

    assert python.edits_made() == 2
    assert "\x1b" not in done.stdout
    assert f"{NODES[0]}: \\u001b]0;PWNED\\u0007\\u001b[2J" in done.stdout.replace("\n", " ")
    assert done.returncode == 4, done.stdout
    assert "2 of 3 hosts. These hosts were not collected: orders-mq01-b.example.com. Correct the errors" in done.stdout
    assert "canary" not in done.stdout
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


def test_a_foreign_directory_is_refused_before_any_host_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()

    done = play(tmp_path, "-e", "activemq_collect_to=out")

    assert done.returncode == 2
    assert "contains files that the playbook collect did not write" in " ".join(done.stdout.split())
    assert "TASK [Collect the evidence of the host]" not in done.stdout
