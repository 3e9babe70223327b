"""Evidence that ``collect`` takes from a host: the required files within the limits, and no secret."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from activemq_fleet.deployment import files_to_deploy
from activemq_fleet.node import masking
from activemq_fleet.node.collect import evidence_archive, host_collection, thread_dumps
from activemq_fleet.node.collect.evidence_archive import EvidenceArchive, open_matching_files
from activemq_fleet.node.config.configuration_archive import ConfigurationFile
from activemq_fleet.node.config.versions import ConfigurationPaths
from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.files.untrusted_paths import Directory
from activemq_fleet.node.install.configuration_install import Owners, install_configuration
from activemq_fleet.node.process.proc import read_process
from tests.unit.fleets import fleet
from tests.work import QUADRATIC, growth_of_time

KNOWN, FOREIGN = "canary-Known1", "canary-Foreign2"
LINE = "2026-11-21 05:22:44,001 | INFO  | {} | org.apache.activemq.broker.BrokerService | main\n"


class Host:
    """Directories of a managed host: the base of a broker, and the configuration and state of an agent."""

    def __init__(self, root: Path) -> None:
        self.root, self.base = root, root / "broker"
        self.data, self.state = self.base / "data", root / "state"
        broker = fleet("o-mq01", users=[{"name": "till", "password": KNOWN, "groups": ["admins"]}]).brokers[0]
        self.tree = {
            path: ConfigurationFile(file.content, file.mode, file.masked)
            for path, file in {**files_to_deploy(broker)}.items()
        }  # fmt: skip
        install_configuration(str(self.base), self.tree, Owners())
        agent = {
            "agent.conf": ConfigurationFile(b"mb.urls = a:1883\n", 0o640, "mb.urls = a:1883\n"),
            "mb.password": ConfigurationFile(f"{KNOWN}-agent\n".encode(), 0o640, "@activemq_agent_password@\n"),
        }
        install_configuration(ConfigurationPaths(f"{root}/etc.d", f"{root}/etc", ""), agent, Owners())
        (self.state / "agent").mkdir(parents=True)
        self.data.mkdir(exist_ok=True)

    @property
    def conf(self) -> Path:
        return self.base / "current" / "conf"

    def collect(self, **overrides: Any) -> tuple[dict[str, bytes], dict[str, Any]]:
        """Collect the evidence; return the files of the archive and the result of the module."""
        archive = self.root / f"evidence-{time.monotonic_ns()}.tar.gz"
        parameters = {
            "archive": str(archive),
            "broker": {"base": str(self.base), "unit": None, "store": str(self.data)},
            "agent": {"config": f"{self.root}/etc", "state": str(self.state), "unit": None},
            "megabytes": 4, "days": 1, "dumps": "hung",
        }  # fmt: skip
        module_result: dict[str, Any] = host_collection.write_evidence_archive(parameters | overrides)
        with tarfile.open(archive) as members:
            files = {member.name: members.extractfile(member).read() for member in members}  # type: ignore[union-attr]
        return files, module_result


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_collected_evidence_contains_logs_journals_configuration_and_listing(host: Host) -> None:
    (host.data / "activemq.log").write_text(LINE.format("one"))
    (host.data / "activemq.log.1").write_text(LINE.format("two"))
    (host.data / "activemq.log.2.gz").write_bytes(gzip.compress(LINE.format("three").encode()))
    (host.data / "hs_err_pid1.log").write_text("a crash\n")
    (host.data / "db-1.log").write_text("messages of customers")
    (host.state / "agent" / "journal-000000001.jsonl").write_text('{"v":1}\n')

    files, module_result = host.collect()

    assert files["activemq.log"].decode() == LINE.format("one")
    assert files["activemq.log.1"].decode() == LINE.format("two")
    assert gzip.decompress(files["activemq.log.2.gz"]).decode() == LINE.format("three")
    assert files["more/hs_err_pid1.log"] == b"a crash\n"
    assert files["agent/journal-000000001.jsonl"] == b'{"v":1}\n'
    assert files["configuration/agent.conf"] == b"mb.urls = a:1883\n"
    assert "db-1.log" in files["listing/data.txt"].decode()
    assert not any(b"customers" in content for content in files.values())
    assert module_result["facts"]["broker"]["state"] == "stopped"
    assert module_result["left_out"] == []


def test_operation_records_of_lab_are_collected_with_broker(host: Host) -> None:
    (host.base.parent / "operations.jsonl").write_text('{"v":1}\n')
    assert host.collect()[0]["operations.jsonl"] == b'{"v":1}\n'


def test_collected_configuration_is_rendered_configuration_with_masks(host: Host) -> None:
    files, _ = host.collect()

    manifest = json.loads(files["configuration/.fleet-manifest.json"])
    file_states = json.loads(files["configuration/.fleet-found.json"])
    for path, file in host.tree.items():
        rendered = file.content.decode() if file.masked is None else file.masked
        shown = files[f"configuration/{path}"].decode()
        assert shown == masking.mask_configuration_file_text(path, rendered)
        assert manifest[path] == file_states[path]["sha256"] == hashlib.sha256(shown.encode()).hexdigest()
        assert file_states[path]["status"] == "same"


def test_collected_evidence_contains_no_secret(host: Host) -> None:
    """Every file that is read contains a canary: known and foreign secrets, each in the syntax of the file."""
    for secret in (KNOWN, FOREIGN):
        uri = f"nio://net:{secret}@other:61616?jms.password={secret}"
        with (host.data / "activemq.log").open("a") as log:
            log.write(LINE.format(f"could not connect to {uri}"))
        (host.data / "activemq.log.1.gz").write_bytes(gzip.compress(LINE.format(uri).encode()))
        (host.data / f"hs_err_pid{len(secret)}.log").write_text(f"java_command: -Dkey.password={secret} start\n")
        (host.state / "agent" / f"journal-{len(secret):09}.jsonl").write_text(f'{{"reason":"{uri}"}}\n')
        (host.conf / f"users-{len(secret)}.properties").write_text(f"admin={secret}\n")
        (host.conf / f"more-{len(secret)}.xml").write_text(f'<x><y name="password" value="{secret}"/></x>')
        (host.conf / f"{len(secret)}.properties").write_text(f"#db.password={secret}\n")
        (host.conf / f"{len(secret)}.ks").write_text(secret)
        (host.conf / f"{len(secret)}.key").write_text(secret)
        (host.conf / f"{len(secret)}.bin").write_bytes(secret.encode() + b"\0")
    (host.conf / "jetty-realm.properties").write_text(f"till: {KNOWN}, admin\nnew: {FOREIGN}, admin\n")
    (host.root / "etc" / "mb.password").write_text(f"{FOREIGN}\n")
    (host.data / "activemq.log.2").write_text(f"a known secret without a key: {KNOWN}\n")

    files, module_result = host.collect()

    for name, content in files.items():
        unpacked = gzip.decompress(content) if name.endswith(".gz") else content
        assert b"canary" not in unpacked, name
    assert "canary" not in json.dumps(module_result)
    assert files["activemq.log.2"] == b"a known secret without a key: @activemq_users[0].password@\n"
    assert {omission["why"] for omission in module_result["left_out"]} == {
        "the file is a keystore",
        "the file is a private key or a certificate",
        "the file is not text",
    }


def test_secret_changed_by_hand_is_reported_as_changed(host: Host) -> None:
    path = host.conf / "credentials.properties"
    path.write_text(path.read_text().replace(KNOWN, FOREIGN))

    files, _ = host.collect()

    file_state = json.loads(files["configuration/.fleet-found.json"])["conf/credentials.properties"]
    manifest = json.loads(files["configuration/.fleet-manifest.json"])
    credentials = files["configuration/conf/credentials.properties"].decode()
    assert file_state["status"] == "changed"
    assert manifest["conf/credentials.properties"] != file_state["sha256"]
    assert "activemq.user.till.password=@secret@" in credentials
    assert "activemq.network.password=@activemq_network_password@" in credentials


def test_line_added_to_file_of_secrets_keeps_masks_of_known_secrets(host: Host) -> None:
    path = host.conf / "credentials.properties"
    path.write_text(path.read_text() + "# by hand\n")

    files, _ = host.collect()

    masked = host.tree["conf/credentials.properties"].masked
    assert files["configuration/conf/credentials.properties"].decode() == f"{masked}# by hand\n"


def test_collected_file_of_release_has_status_shipped_until_it_changes(host: Host) -> None:
    tree = {**host.tree, "conf/login.config": ConfigurationFile(b"activemq {};\n", 0o644, shipped=True)}
    install_configuration(str(host.base), tree, Owners())
    path = "conf/login.config"

    assert json.loads(host.collect()[0]["configuration/.fleet-found.json"])[path]["status"] == "shipped"

    (host.conf / "login.config").write_text("another {};\n")
    assert json.loads(host.collect()[0]["configuration/.fleet-found.json"])[path]["status"] == "changed"


def test_collect_reports_configuration_files_removed_and_added_by_hand(host: Host) -> None:
    (host.conf / "groups.properties").write_text("x=y\n")
    (host.base / "current" / "bin" / "setenv").unlink(missing_ok=True)
    (host.base / "current" / "bin" / "env").unlink(missing_ok=True)

    file_states = json.loads(host.collect()[0]["configuration/.fleet-found.json"])

    assert file_states["conf/groups.properties"]["status"] in ("added", "changed")
    assert "removed" in {state["status"] for path, state in file_states.items() if path.startswith("bin/")}


def test_configuration_without_manifest_is_masked_by_rule(tmp_path: Path) -> None:
    base = tmp_path / "old"
    (base / "conf").mkdir(parents=True)
    (base / "conf" / "activemq.xml").write_text(f'<beans><broker><x password="{FOREIGN}"/></broker></beans>')

    archive = tmp_path / "x.tar.gz"
    broker = {"base": str(base), "unit": None, "store": None}
    host_collection.write_evidence_archive(
        {"archive": str(archive), "broker": broker, "agent": None, "megabytes": 1, "days": 1, "dumps": "hung"}
    )

    with tarfile.open(archive) as members:
        activemq_xml = members.extractfile("configuration/conf/activemq.xml").read().decode()  # type: ignore[union-attr]
    assert activemq_xml == '<beans><broker><x password="@secret@"/></broker></beans>'


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can collect for another account: run the test as root")
def test_evidence_archive_belongs_to_owner_of_its_directory(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    archive = tmp_path / "x.tar.gz"
    host_collection.write_evidence_archive(
        {"archive": str(archive), "broker": None, "agent": None, "megabytes": 1, "days": 1, "dumps": "hung"}
    )
    assert (archive.stat().st_uid, oct(archive.stat().st_mode & 0o777)) == (65534, "0o600")


def test_newest_logs_have_priority_at_size_limit_and_omitted_logs_are_named(host: Host) -> None:
    for age in range(6):
        path = host.data / f"activemq.log{f'.{age}' if age else ''}"
        path.write_text(f"{age} {'x' * 97}\n" * 3000)  # 300 kB each
        os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))

    files, module_result = host.collect(megabytes=1)

    complete = [name for name, content in files.items() if name.startswith("activemq.log") and len(content) == 300_000]
    truncated = files["activemq.log.3"].decode()
    assert sorted(complete) == ["activemq.log", "activemq.log.1", "activemq.log.2"]
    assert truncated.startswith("3 x")
    assert truncated.endswith("x\n")
    assert [omission["path"] for omission in module_result["left_out"]] == [
        "activemq.log.3",
        "activemq.log.4",
        "activemq.log.5",
    ]
    assert sum(map(len, files.values())) <= 1 << 20


def test_compressed_log_above_limit_after_unpacking_is_left_out(host: Host) -> None:
    (host.data / "activemq.log.1.gz").write_bytes(gzip.compress(b"x\n" * (3 << 20)))

    files, module_result = host.collect(megabytes=1)

    assert "activemq.log.1.gz" not in files
    assert (
        module_result["left_out"][0]["why"]
        == "the unpacked log does not fit into the limit activemq_collect_megabytes. Increase this variable to collect "
        "the log"
    )


def test_dated_logs_are_collected_also_from_directories_of_dates(host: Host) -> None:
    logs = {
        name: LINE.format(name).encode()
        for name in ("activemq.log.2026-11-28", "activemq-2026-11-30-1.log", "2026-11/activemq-2026-11-29-1.log")
    }
    for name, content in logs.items():
        (host.data / name).parent.mkdir(exist_ok=True)
        (host.data / name).write_bytes(content)
    (host.data / "2026-10").mkdir()
    (host.data / "2026-10/db-1.log").write_text("messages of customers")

    files, module_result = host.collect()

    assert {name: content for name, content in files.items() if "activemq" in name and "2026" in name} == logs
    assert module_result["left_out"] == []


def test_logs_with_unread_names_and_empty_gzip_logs_are_listed_as_omitted(host: Host) -> None:
    (host.data / "activemq.log").write_text("here\n")
    (host.data / "activemq.log.1.gz").touch()
    (host.data / "activemq-node1.log").write_text("there\n")
    (host.data / "archive").mkdir()
    (host.data / "archive/activemq.log.1").write_text("there\n")

    files, module_result = host.collect()

    omitted = {row["path"]: (row["bytes"], row["why"].split(",")[0]) for row in module_result["left_out"]}
    similar = "the name of the file is similar to that of a broker log"
    assert omitted == {
        "activemq.log.1.gz": (0, "the gzip file is empty"),
        "activemq-node1.log": (6, similar),
        "archive/activemq.log.1": (6, similar),
    }
    assert not {*omitted} & {*files}


def test_compressed_log_with_unread_name_is_omitted_with_advice_to_unpack_it(host: Host) -> None:
    (host.data / "activemq.log.1.zip").write_bytes(b"PK")
    (host.data / "activemq.log.2.tmp").write_text("unfinished\n")

    (row,) = host.collect()[1]["left_out"]

    assert row["path"] == "activemq.log.1.zip"
    assert "is compressed, unpack it, or pack it with gzip. Rename it to activemq.log.NUMBER" in row["why"]


def test_only_100_logs_with_unread_names_are_listed_as_omitted(host: Host) -> None:
    for number in range(103):
        (host.data / f"activemq-node{number:03}.log").write_text("there\n")

    rows = [(row["path"], row["bytes"]) for row in host.collect()[1]["left_out"]]

    assert rows[:100] == [(f"activemq-node{number:03}.log", 6) for number in range(100)]
    assert rows[100:] == [("and 3 more files", 18)]


def test_only_newest_250_logs_are_opened_and_older_ones_are_listed_as_omitted(host: Host) -> None:
    """A process may open fewer files than a broker has logs."""
    for age in range(400):
        path = host.data / f"activemq.log.{age}"
        path.write_text("here\n")
        os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (350, hard_limit))
    try:
        files, module_result = host.collect()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft_limit, hard_limit))

    assert {name for name in files if "activemq.log" in name} == {f"activemq.log.{age}" for age in range(250)}
    assert [(row["path"], row["bytes"]) for row in module_result["left_out"]] == [
        (f"activemq.log.{age}", 5) for age in range(250, 400)
    ]
    assert "only the newest 250 files" in module_result["left_out"][0]["why"]


def test_unreadable_directory_of_dated_logs_is_listed_and_other_logs_are_collected(host: Host) -> None:
    (host.data / "activemq.log").write_text("here\n")
    (host.data / "2026-11").mkdir()
    open_subdirectory = Directory.open_subdirectory

    def refuse(directory: Directory, name: str) -> Directory:
        if name == "2026-11":
            raise PermissionError(13, "Permission denied")
        return open_subdirectory(directory, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Directory, "open_subdirectory", refuse)
        files, module_result = host.collect()

    assert files["activemq.log"] == b"here\n"
    assert [(row["path"], "Permission denied" in row["why"]) for row in module_result["left_out"]] == [
        ("2026-11/", True)
    ]


def test_log_rolled_into_directory_of_date_while_it_is_opened_is_collected_once(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    (host.data / "activemq.log").write_text("old\n")
    (host.data / "2026-11").mkdir()
    open_file = evidence_archive.open_collected_file_with_size_and_time

    def roll_then_open(directory: Any, name: str, archive_name: str) -> Any:
        if archive_name == "activemq.log" and not any((host.data / "2026-11").iterdir()):
            (host.data / "activemq.log").rename(host.data / "2026-11/activemq-2026-11-30-1.log")
            (host.data / "activemq.log").write_text("new\n")
        return open_file(directory, name, archive_name)

    monkeypatch.setattr(evidence_archive, "open_collected_file_with_size_and_time", roll_then_open)
    files, _ = host.collect()

    assert files["activemq.log"] == b"new\n"
    assert files["2026-11/activemq-2026-11-30-1.log"] == b"old\n"


def test_result_of_collection_is_utf_8_if_name_of_configuration_file_is_not(host: Host) -> None:
    Path(os.fsdecode(bytes(host.conf) + b"/caf\xe9.xml")).write_text("<beans/>\n")

    _, module_result = host.collect()

    json.dumps(module_result, ensure_ascii=False).encode()
    assert module_result["facts"]["broker"]["drift"] == [r"conf/caf\udce9.xml was added by hand"]


@pytest.mark.parametrize("damage", [lambda packed: packed[:-12], lambda packed: packed[:10] + b"\xff" + packed[11:]])
def test_damaged_compressed_log_does_not_affect_other_logs(host: Host, damage: Callable[[bytes], bytes]) -> None:
    (host.data / "activemq.log.1.gz").write_bytes(damage(gzip.compress(b"x\n" * 1000, mtime=0)))
    (host.data / "activemq.log").write_text("here\n")

    files, module_result = host.collect()

    assert files["activemq.log"] == b"here\n"
    assert "cannot be read" in module_result["left_out"][0]["why"]


def test_binary_content_of_log_is_unchanged_except_secrets(host: Host) -> None:
    log_content = b"\xff\xfe caf\xe9 password=" + FOREIGN.encode() + b"\n\x00rest"
    (host.data / "activemq.log").write_bytes(log_content)

    assert host.collect()[0]["activemq.log"] == log_content.replace(FOREIGN.encode(), b"@secret@")


def test_very_long_line_of_log_is_truncated_without_secret(host: Host) -> None:
    size = 3 << 20
    (host.data / "activemq.log").write_bytes(b"password=" + FOREIGN.encode() * (size // len(FOREIGN)) + b"\nlast\n")

    files, module_result = host.collect(megabytes=8)

    assert files["activemq.log"].startswith(b"password=@secret@ [")
    assert files["activemq.log"].endswith(b" more characters of this line were left out]\nlast\n")
    assert module_result["left_out"][0]["why"] == (
        "the collected copy of this log contains only the beginning of very long lines. Read the log on the host for "
        "the complete lines"
    )
    assert module_result["left_out"][0]["bytes"] > size // 2


def test_time_to_mask_hostile_text_grows_less_than_quadratically(host: Host) -> None:
    def write(repetitions: int) -> str:
        return "password" * repetitions + "\n" + '<property name="password"' + " " * 480 + "\n"

    def collect(text: str) -> None:
        (host.data / "activemq.log").write_text(text)
        files, _ = host.collect()
        assert "activemq.log" in files

    assert growth_of_time(collect, write, 4096) < QUADRATIC


def test_files_omitted_at_deadline_of_collect_are_named(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    (host.data / "activemq.log").write_text(LINE.format("one") * 30_000)
    (host.data / "activemq.log.1.gz").write_bytes(gzip.compress(LINE.format("two").encode()))
    os.utime(host.data / "activemq.log.1.gz", (1, 1))
    clock = [100.0]
    mask_text = masking.mask_text

    def pass_time_and_mask(text: str, known: masking.KnownSecrets = masking.NO_SECRETS) -> str:
        clock[0] += 2.1 if len(text) > 1 << 20 else 0
        return mask_text(text, known)

    monkeypatch.setattr(masking, "mask_text", pass_time_and_mask)
    monkeypatch.setattr(evidence_archive, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    files, module_result = host.collect(seconds=2, megabytes=8)

    omitted_bytes = {
        omission["path"]: omission["bytes"] for omission in module_result["left_out"] if "time" in omission["why"]
    }
    assert omitted_bytes.keys() == {"activemq.log", "activemq.log.1.gz"}
    assert 0 < omitted_bytes["activemq.log"] < len(LINE.format("one")) * 30_000
    assert files["activemq.log"].startswith(LINE.format("one").encode())


def test_incomplete_record_of_event_journal_is_not_collected(host: Host) -> None:
    (host.state / "agent" / "journal-000000001.jsonl").write_bytes(b'{"a":1}\n{"b"')

    assert host.collect()[0]["agent/journal-000000001.jsonl"] == b'{"a":1}\n'


def test_symlink_of_another_account_and_fifo_are_not_read(host: Host) -> None:
    if os.geteuid():
        pytest.skip("only root can read /etc/shadow: run the test as root")
    (host.data / "activemq.log.9").symlink_to("/etc/shadow")
    os.lchown(host.data / "activemq.log.9", 12345, 12345)
    os.mkfifo(host.data / "activemq.log.8")

    files, module_result = host.collect()

    assert not {"activemq.log.8", "activemq.log.9"} & files.keys()
    assert len(module_result["left_out"]) == 2


def test_log_rotated_during_collection_is_neither_lost_nor_duplicated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "activemq.log").write_text("first\n")
    bundle = EvidenceArchive(str(tmp_path / "out"), 1 << 20)
    real_open = os.open
    rotated: list[Any] = []

    def open_and_rotate(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        descriptor = real_open(path, flags, *rest, **more)
        if not rotated and str(path).endswith("activemq.log"):
            rotated.append(path)
            os.rename(tmp_path / "activemq.log", tmp_path / "activemq.log.1")
            (tmp_path / "activemq.log").write_text("second\n")
        return descriptor

    monkeypatch.setattr("os.open", open_and_rotate)
    logs = open_matching_files(str(tmp_path), lambda name: name.startswith("activemq.log"), "", bundle)

    assert {log.name: log.file.read() for log in logs} == {"activemq.log": b"second\n", "activemq.log.1": b"first\n"}


@pytest.fixture
def jvm_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that writes a thread dump to a file on SIGQUIT, as a JVM does."""
    monkeypatch.setattr(thread_dumps, "_POLL_SECONDS", 0.1)
    script = (
        "import signal, time, sys\n"
        "def dump(*_): print('Full thread dump\\n\"main\" waits\\nJNI global refs: 1', flush=True)\n"
        "signal.signal(signal.SIGQUIT, dump)\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(60)\n"
    )
    path = tmp_path / "console.log"
    with path.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-c", script], stdout=output)
    while b"ready" not in path.read_bytes():
        time.sleep(0.02)
    yield process
    process.kill()
    process.wait()


def take_thread_dumps_of(process: subprocess.Popen[bytes]) -> thread_dumps.ThreadDumps:
    while (jvm := read_process(process.pid)) is None:  # between fork and exec the process has no command line
        time.sleep(0.02)
    dumps: thread_dumps.ThreadDumps = thread_dumps.take_thread_dumps(jvm, pause=0.1)
    return dumps


def test_responding_jvm_gives_three_thread_dumps(jvm_process: subprocess.Popen[bytes]) -> None:
    dumps = take_thread_dumps_of(jvm_process)

    assert len(dumps.texts) == 3
    assert all(text.startswith("Full thread dump") for text in dumps.texts)
    assert dumps.notes == []


def test_frozen_jvm_gives_note_instead_of_thread_dumps(jvm_process: subprocess.Popen[bytes]) -> None:
    jvm_process.send_signal(signal.SIGSTOP)
    while (process := read_process(jvm_process.pid)) is not None and process.state != "T":
        time.sleep(0.02)

    dumps = take_thread_dumps_of(jvm_process)

    assert dumps.texts == []
    assert "SIGCONT" in dumps.notes[0]
    assert str(jvm_process.pid) in thread_dumps.os_thread_states_text(jvm_process.pid)


def test_process_without_sigquit_handler_gets_no_signal() -> None:
    with subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL) as process:
        try:
            dumps = take_thread_dumps_of(process)
            assert process.poll() is None
            assert "does not catch SIGQUIT" in dumps.notes[0]
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("option", "value", "variable"),
    [
        ("megabytes", 0, "activemq_collect_megabytes"),
        ("seconds", 0, "activemq_collect_timeout"),
        ("days", -1, "activemq_collect_days"),
    ],
)
def test_collect_refuses_limit_that_is_too_small(host: Host, option: str, value: int, variable: str) -> None:
    with pytest.raises(NodeError, match=rf"{option} of the module collect is {value}, .*: correct {variable}"):
        host.collect(**{option: value})
