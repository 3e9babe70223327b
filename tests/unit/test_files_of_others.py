"""Links, FIFOs and other files that an account plants where root reads: root reads none of them and never blocks."""

from __future__ import annotations

import os
import socket
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.node.collect.evidence_archive import EvidenceArchive, open_matching_files
from activemq_fleet.node.collect.host_collection import write_evidence_archive
from activemq_fleet.node.config import vendor_files
from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.files.untrusted_paths import (
    UntrustedPathError,
    reopen_file_of_process,
)
from activemq_fleet.node.log import broker_log
from activemq_fleet.node.state import broker_state as state
from tests.unit.attackers import (
    BROKER,
    STRANGER,
    call_as,
    create_owned_directory,
    directory_for_all_accounts,
    repeat_as,
    requires_root,
)
from tests.waiting import PATIENCE, within

pytestmark = requires_root
SECRET = "2026-01-01 00:00:00,001 | ERROR | root alone | org.apache.activemq.broker.BrokerService | main\n"
RECORD = SECRET.replace("root alone", "disk full")
XML = "<beans><broker/></beans>"


@pytest.fixture
def base() -> Iterator[Path]:
    """Yield a broker's directory as ``configure`` creates it: root owns everything except the data."""
    with directory_for_all_accounts() as place:
        base = place / "orders"
        (base / "versions/v/conf").mkdir(parents=True)
        (base / "versions/v/conf/activemq.xml").write_text(XML)
        (base / "current").symlink_to("versions/v")
        data_directory = create_owned_directory(base / "data")
        call_as(BROKER, lambda: (data_directory / "activemq.log").write_text(RECORD))
        (place / "secret").write_text(SECRET)
        (place / "secret").chmod(0o600)
        create_owned_directory(place / "agent-state", STRANGER)
        yield base


def plant_fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def plant_link(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(path.parents[2] / "secret")


def plant_device(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def plant_socket(path: Path) -> None:
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def plant_directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


PLANTS: list[Callable[[Path], None]] = [plant_fifo, plant_link, plant_device, plant_socket, plant_directory]


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("name", ["activemq.log", "activemq.log.1"])
def test_planted_log_neither_blocks_root_nor_reveals_its_file(
    base: Path, plant: Callable[[Path], None], name: str
) -> None:
    call_as(BROKER, lambda: plant(base / "data" / name))
    phase = within(PATIENCE, lambda: broker_log.read_broker_phase(str(base / "data"), 0))
    assert "root alone" not in phase.message
    assert "root alone" not in within(PATIENCE, lambda: broker_log.last_logged_error(str(base / "data")))
    assert within(PATIENCE, lambda: state.gather_broker_state(str(base), None))["state"] == "stopped"


def test_hard_link_to_file_of_root_is_not_read_as_log(base: Path) -> None:
    """The kernel permits such links if fs.protected_hardlinks is 0."""
    os.unlink(base / "data/activemq.log")
    os.link(base.parent / "secret", base / "data/activemq.log")
    assert broker_log.last_logged_error(str(base / "data")) == ""


def test_log_of_another_account_is_not_read(base: Path) -> None:
    os.chown(base / "data/activemq.log", STRANGER, STRANGER)
    assert broker_log.last_logged_error(str(base / "data")) == ""
    os.chown(base / "data/activemq.log", BROKER, BROKER)
    assert "disk full" in broker_log.last_logged_error(str(base / "data"))


def test_data_directory_that_account_replaced_with_link_is_not_followed(base: Path) -> None:
    """The collection did not install this broker, and its account owns the whole directory."""
    os.chown(base, BROKER, BROKER)
    elsewhere = base.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "activemq.log").write_text(SECRET)

    def replace_with_link() -> None:
        (base / "data").rename(base / "old")
        (base / "data").symlink_to(elsewhere)

    call_as(BROKER, replace_with_link)
    assert broker_log.last_logged_error(str(base / "data")) == ""


def collect_evidence(base: Path) -> tuple[dict[str, bytes], dict[str, Any]]:
    archive = base.parent / f"out-{len(os.listdir(base.parent))}.tar.gz"
    parameters = {
        "archive": str(archive),
        "broker": {"base": str(base), "store": str(base / "data/kahadb"), "unit": None},
        "agent": {"config": str(base.parent / "agent.d"), "state": str(base.parent / "agent-state"), "unit": None},
        "megabytes": 10,
        "days": 1,
        "dumps": "never",
    }
    report = within(PATIENCE, lambda: write_evidence_archive(parameters))
    with tarfile.open(archive) as tar:
        files = {file.name: tar.extractfile(file).read() for file in tar if file.isfile()}  # type: ignore[union-attr]
    return files, report


def test_collect_lists_planted_files_and_does_not_copy_them(base: Path) -> None:
    plants = dict(zip(("activemq.log.1", "activemq.log.2", "hs_err_pid1.log", "audit.log"), PLANTS, strict=False))
    for name, plant in plants.items():
        call_as(BROKER, lambda name=name, plant=plant: plant(base / "data" / name))  # type: ignore[misc]
    (base.parent / "root-journals").mkdir()
    (base.parent / "root-journals/secret.jsonl").write_text('{"secret": "root alone"}\n')
    call_as(STRANGER, lambda: (base.parent / "agent-state/agent").symlink_to(base.parent / "root-journals"))
    call_as(BROKER, lambda: (base / "data/kahadb").symlink_to("/root"))

    files, report = collect_evidence(base)

    assert b"disk full" in files["activemq.log"]
    assert not any(b"root alone" in content for content in files.values())
    left_out = {entry["path"] for entry in report["left_out"]}
    assert {*plants} - {"hs_err_pid1.log", "audit.log"} <= left_out
    assert {"more/hs_err_pid1.log", "more/audit.log", "agent/"} <= left_out
    assert "listing/store.txt" not in files or files["listing/store.txt"].count(b"\n") == 2


def test_log_that_account_repeatedly_replaces_with_link_is_never_followed(base: Path, tmp_path: Path) -> None:
    data_directory = base / "data"
    call_as(BROKER, lambda: (data_directory / "a").write_text("own\n"))
    call_as(BROKER, lambda: (data_directory / "b").symlink_to(base.parent / "secret"))

    def replace_log() -> None:
        for name in ("a", "b"):
            os.link(data_directory / name, data_directory / "new", follow_symlinks=False)
            os.rename(data_directory / "new", data_directory / "activemq.log.3")

    bundle = EvidenceArchive(str(tmp_path / "out"), 1 << 20)
    with repeat_as(BROKER, replace_log):
        for _ in range(300):
            for opened in open_matching_files(str(data_directory), lambda name: name == "activemq.log.3", "", bundle):
                with opened.file as file:
                    assert file.read() == b"own\n"
    bundle.close()


def test_planted_link_in_files_of_distribution_is_not_copied_into_configuration(base: Path) -> None:
    """The account unpacked the distribution. Root copies its files to a directory that the account can read."""
    home = create_owned_directory(base.parent / "home", mode=0o755)
    call_as(BROKER, (home / "conf").mkdir)
    call_as(BROKER, lambda: (home / "conf/jetty.xml").write_text("<own/>"))
    call_as(BROKER, lambda: (home / "conf/planted.xml").symlink_to(base.parent / "secret"))
    call_as(BROKER, lambda: os.mkfifo(home / "conf/fifo.xml"))
    assert [*within(PATIENCE, lambda: vendor_files.shipped_configuration_files(str(home)))] == ["conf/jetty.xml"]
    os.link(base.parent / "secret", home / "conf/hard.xml")
    with pytest.raises(NodeError, match=r"hard\.xml was not opened, because it has a second hard link"):
        vendor_files.shipped_configuration_files(str(home))
    (home / "conf/hard.xml").unlink()
    call_as(BROKER, lambda: (home / "conf").rename(home / "old"))
    call_as(BROKER, lambda: (home / "conf").symlink_to("/root"))
    with pytest.raises(NodeError, match="was not followed"):
        vendor_files.shipped_configuration_files(str(home))


def test_output_of_process_is_not_reopened_if_it_is_fifo_or_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "out")
    for path in (tmp_path / "out", Path("/dev/zero")):
        with (
            open(os.open(path, os.O_RDWR | os.O_NONBLOCK), "rb", buffering=0) as file,
            pytest.raises(UntrustedPathError, match="not a regular file"),
        ):
            reopen_file_of_process(f"/proc/self/fd/{file.fileno()}")


def test_pending_restart_file_that_is_fifo_does_not_block(base: Path) -> None:
    os.mkfifo(base / ".fleet-pending.json")
    broker_state = within(PATIENCE, lambda: state.gather_broker_state(str(base), None))
    assert broker_state["restart_reasons"] == []


def test_root_reads_log_of_account_in_directory_that_operator_linked(base: Path) -> None:
    (base / "data").rename(base.parent / "moved")
    (base / "data").symlink_to("../moved")
    assert "disk full" in broker_log.last_logged_error(str(base / "data"))
