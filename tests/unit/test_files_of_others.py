"""Links, FIFOs and other files that an account has put where root reads: nothing of them is read, and nobody waits."""

from __future__ import annotations

import os
import socket
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.node.collect.bundle import EvidenceArchive, open_matching_files
from activemq_fleet.node.collect.host_collection import write_evidence_archive
from activemq_fleet.node.config import vendor_files
from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.files.untrusted_paths import (
    UntrustedPathError,
    reopen_file_of_process,
)
from activemq_fleet.node.log import broker_log
from activemq_fleet.node.state import broker_state as state
from tests.unit.attackers import BROKER, STRANGER, common_directory, do_as, doing_as, needs_root, owned_directory
from tests.waiting import PATIENCE, within

pytestmark = needs_root
SECRET = "2026-01-01 00:00:00,001 | ERROR | root alone | org.apache.activemq.broker.BrokerService | main\n"
RECORD = SECRET.replace("root alone", "disk full")
XML = "<beans><broker/></beans>"


@pytest.fixture
def base() -> Iterator[Path]:
    """A broker's directory as ``configure`` makes it: root's, but for the data."""
    with common_directory() as place:
        base = place / "orders"
        (base / "versions/v/conf").mkdir(parents=True)
        (base / "versions/v/conf/activemq.xml").write_text(XML)
        (base / "current").symlink_to("versions/v")
        data = owned_directory(base / "data")
        do_as(BROKER, lambda: (data / "activemq.log").write_text(RECORD))
        (place / "secret").write_text(SECRET)
        (place / "secret").chmod(0o600)
        owned_directory(place / "agent-state", STRANGER)
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
def test_a_planted_log_holds_nobody_up_and_shows_nothing_of_roots(
    base: Path, plant: Callable[[Path], None], name: str
) -> None:
    do_as(BROKER, lambda: plant(base / "data" / name))
    phase = within(PATIENCE, lambda: broker_log.read_broker_phase(str(base / "data"), 0))
    assert "root alone" not in phase.message
    assert "root alone" not in within(PATIENCE, lambda: broker_log.last_logged_error(str(base / "data")))
    assert within(PATIENCE, lambda: state.gather_broker_state(str(base), None))["state"] == "stopped"


def test_a_hard_link_to_a_file_of_root_is_not_read_as_a_log(base: Path) -> None:
    """As where the kernel lets an account make one (fs.protected_hardlinks is 0)."""
    os.unlink(base / "data/activemq.log")
    os.link(base.parent / "secret", base / "data/activemq.log")
    assert broker_log.last_logged_error(str(base / "data")) == ""


def test_a_log_of_another_account_is_not_read(base: Path) -> None:
    os.chown(base / "data/activemq.log", STRANGER, STRANGER)
    assert broker_log.last_logged_error(str(base / "data")) == ""
    os.chown(base / "data/activemq.log", BROKER, BROKER)
    assert "disk full" in broker_log.last_logged_error(str(base / "data"))


def test_the_data_directory_as_a_link_of_the_account_is_not_followed(base: Path) -> None:
    """Of a broker that was not installed by us, whose whole directory belongs to its account."""
    os.chown(base, BROKER, BROKER)
    elsewhere = base.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "activemq.log").write_text(SECRET)

    def exchange() -> None:
        (base / "data").rename(base / "old")
        (base / "data").symlink_to(elsewhere)

    do_as(BROKER, exchange)
    assert broker_log.last_logged_error(str(base / "data")) == ""


def collected(base: Path) -> tuple[dict[str, bytes], dict[str, Any]]:
    archive = base.parent / f"out-{len(os.listdir(base.parent))}.tar.gz"
    parameters = {
        "archive": str(archive),
        "broker": {"base": str(base), "store": str(base / "data/kahadb"), "unit": None},
        "agent": {"config": str(base.parent / "agent.d"), "state": str(base.parent / "agent-state"), "unit": None},
        "megabytes": 10,
        "days": 1,
        "dumps": "never",
    }
    result = within(PATIENCE, lambda: write_evidence_archive(parameters))
    with tarfile.open(archive) as tar:
        files = {one.name: tar.extractfile(one).read() for one in tar if one.isfile()}  # type: ignore[union-attr]
    return files, result


def test_what_was_planted_is_named_and_not_collected(base: Path) -> None:
    plants = dict(zip(("activemq.log.1", "activemq.log.2", "hs_err_pid1.log", "audit.log"), PLANTS, strict=False))
    for name, plant in plants.items():
        do_as(BROKER, lambda name=name, plant=plant: plant(base / "data" / name))  # type: ignore[misc]
    (base.parent / "root-journals").mkdir()
    (base.parent / "root-journals/secret.jsonl").write_text('{"secret": "root alone"}\n')
    do_as(STRANGER, lambda: (base.parent / "agent-state/agent").symlink_to(base.parent / "root-journals"))
    do_as(BROKER, lambda: (base / "data/kahadb").symlink_to("/root"))

    files, result = collected(base)

    assert b"disk full" in files["activemq.log"]
    assert not any(b"root alone" in content for content in files.values())
    named = {entry["path"] for entry in result["left_out"]}
    assert {*plants} - {"hs_err_pid1.log", "audit.log"} <= named
    assert {"more/hs_err_pid1.log", "more/audit.log", "agent/"} <= named
    assert "listing/store.txt" not in files or files["listing/store.txt"].count(b"\n") == 2


def test_a_log_that_is_exchanged_for_a_link_all_the_time_is_never_followed(base: Path, tmp_path: Path) -> None:
    data = base / "data"
    do_as(BROKER, lambda: (data / "a").write_text("own\n"))
    do_as(BROKER, lambda: (data / "b").symlink_to(base.parent / "secret"))

    def exchange() -> None:
        for one in ("a", "b"):
            os.link(data / one, data / "new", follow_symlinks=False)
            os.rename(data / "new", data / "activemq.log.3")

    bundle = EvidenceArchive(str(tmp_path / "out"), 1 << 20)
    with doing_as(BROKER, exchange):
        for _ in range(300):
            for opened in open_matching_files(str(data), lambda name: name == "activemq.log.3", "", bundle):
                with opened.file as file:
                    assert file.read() == b"own\n"
    bundle.close()


def test_a_planted_link_in_the_vendors_files_is_not_copied_into_a_version(base: Path) -> None:
    """Of a distribution that its account has unpacked: root copies its files to where that account can read."""
    home = owned_directory(base.parent / "home", mode=0o755)
    do_as(BROKER, (home / "conf").mkdir)
    do_as(BROKER, lambda: (home / "conf/jetty.xml").write_text("<own/>"))
    do_as(BROKER, lambda: (home / "conf/planted.xml").symlink_to(base.parent / "secret"))
    do_as(BROKER, lambda: os.mkfifo(home / "conf/fifo.xml"))
    assert [*within(PATIENCE, lambda: vendor_files.shipped_configuration_files(str(home)))] == ["conf/jetty.xml"]
    os.link(base.parent / "secret", home / "conf/hard.xml")
    with pytest.raises(NodeError, match=r"hard\.xml was not opened, because it has a second hard link"):
        vendor_files.shipped_configuration_files(str(home))
    (home / "conf/hard.xml").unlink()
    do_as(BROKER, lambda: (home / "conf").rename(home / "old"))
    do_as(BROKER, lambda: (home / "conf").symlink_to("/root"))
    with pytest.raises(NodeError, match="was not followed"):
        vendor_files.shipped_configuration_files(str(home))


def test_a_process_that_prints_into_a_fifo_or_a_device_holds_no_thread_dump_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "out")
    for path in (tmp_path / "out", Path("/dev/zero")):
        with (
            open(os.open(path, os.O_RDWR | os.O_NONBLOCK), "rb", buffering=0) as file,
            pytest.raises(UntrustedPathError, match="not a regular file"),
        ):
            reopen_file_of_process(f"/proc/self/fd/{file.fileno()}")


def test_a_pending_restart_that_is_a_fifo_is_owed_and_not_waited_for(base: Path) -> None:
    os.mkfifo(base / ".fleet-pending.json")
    found = within(PATIENCE, lambda: state.gather_broker_state(str(base), None))
    assert found["restart_reasons"] == []


def test_root_reads_log_of_account_in_directory_that_operator_linked(base: Path) -> None:
    (base / "data").rename(base.parent / "moved")
    (base / "data").symlink_to("../moved")
    assert "disk full" in broker_log.last_logged_error(str(base / "data"))
