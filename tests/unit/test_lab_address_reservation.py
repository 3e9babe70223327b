from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from activemq_fleet.errors import LabError
from activemq_fleet.lab import address_reservation as module
from activemq_fleet.lab.address_reservation import AddressBlockReservations


@pytest.fixture
def reservations(tmp_path: Path) -> AddressBlockReservations:
    return AddressBlockReservations(tmp_path / "reservations")


def lab_directory(tmp_path: Path, name: str) -> Path:
    directory = tmp_path / name
    directory.mkdir(exist_ok=True)
    return directory


def test_two_labs_have_different_address_blocks(tmp_path: Path, reservations: AddressBlockReservations) -> None:
    assert reservations.reserve_address_block_number(
        lab_directory(tmp_path, "a")
    ) != reservations.reserve_address_block_number(lab_directory(tmp_path, "b"))


def test_lab_keeps_its_address_block(tmp_path: Path, reservations: AddressBlockReservations) -> None:
    directory = lab_directory(tmp_path, "a")
    assert reservations.reserve_address_block_number(directory) == reservations.reserve_address_block_number(directory)


def test_lab_gets_preferred_address_block_if_it_is_free(tmp_path: Path, reservations: AddressBlockReservations) -> None:
    assert reservations.reserve_address_block_number(lab_directory(tmp_path, "a"), 200) == 200


def test_lab_gets_different_address_block_if_preferred_block_is_reserved(
    tmp_path: Path, reservations: AddressBlockReservations
) -> None:
    reservations.reserve_address_block_number(lab_directory(tmp_path, "a"), 200)
    assert reservations.reserve_address_block_number(lab_directory(tmp_path, "b"), 200) != 200


def test_released_address_block_is_free(tmp_path: Path, reservations: AddressBlockReservations) -> None:
    reservations.reserve_address_block_number(lab_directory(tmp_path, "a"), 200)
    reservations.release_address_block(lab_directory(tmp_path, "a"))
    assert reservations.reserve_address_block_number(lab_directory(tmp_path, "b"), 200) == 200


def test_address_reservation_ends_with_removal_of_its_lab_directory(
    tmp_path: Path, reservations: AddressBlockReservations
) -> None:
    removed_directory = lab_directory(tmp_path, "removed")
    reservations.reserve_address_block_number(removed_directory, 200)
    removed_directory.rmdir()
    assert reservations.reserve_address_block_number(lab_directory(tmp_path, "b"), 200) == 200


def test_address_block_with_listening_process_is_not_reserved(
    tmp_path: Path, reservations: AddressBlockReservations
) -> None:
    with socket.create_server(("127.201.3.4", 0)):
        assert reservations.reserve_address_block_number(lab_directory(tmp_path, "a"), 201) != 201


def test_longest_idle_reservation_is_replaced_if_all_address_blocks_are_reserved(
    tmp_path: Path, reservations: AddressBlockReservations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LAST", module.FIRST + 1)
    first_block = reservations.reserve_address_block_number(lab_directory(tmp_path, "a"))
    reservations.reserve_address_block_number(lab_directory(tmp_path, "b"))
    assert reservations.reserve_address_block_number(lab_directory(tmp_path, "c")) == first_block


def test_lab_that_reserves_address_block_again_is_not_longest_idle(
    tmp_path: Path, reservations: AddressBlockReservations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LAST", module.FIRST + 1)
    first_block = reservations.reserve_address_block_number(lab_directory(tmp_path, "a"))
    second_block = reservations.reserve_address_block_number(lab_directory(tmp_path, "b"))
    assert reservations.reserve_address_block_number(lab_directory(tmp_path, "a"), first_block) == first_block
    assert reservations.reserve_address_block_number(lab_directory(tmp_path, "c")) == second_block


def test_labs_with_different_temporary_directories_have_different_address_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = lab_directory(tmp_path, "a"), lab_directory(tmp_path, "b")
    try:
        block = AddressBlockReservations().reserve_address_block_number(a)
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        monkeypatch.setattr(tempfile, "tempdir", None)
        assert AddressBlockReservations().reserve_address_block_number(b, block) != block
    finally:
        AddressBlockReservations().release_address_block(a)
        AddressBlockReservations().release_address_block(b)


def test_address_reservation_is_refused_if_all_blocks_are_in_use(
    tmp_path: Path, reservations: AddressBlockReservations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LAST", module.FIRST)
    reservations.reserve_address_block_number(lab_directory(tmp_path, "a"))
    with (
        socket.create_server((f"127.{module.FIRST}.3.4", 0)),
        pytest.raises(LabError, match="stop one of the labs with `lab down`"),
    ):
        reservations.reserve_address_block_number(lab_directory(tmp_path, "b"))


def test_lab_keeps_its_address_block_if_preferred_block_is_reserved(
    tmp_path: Path, reservations: AddressBlockReservations
) -> None:
    reservations.reserve_address_block_number(lab_directory(tmp_path, "a"), 200)
    reservations.reserve_address_block_number(lab_directory(tmp_path, "b"), 201)
    assert reservations.reserve_address_block_number(lab_directory(tmp_path, "b"), 200) == 201


def test_every_user_can_write_address_reservations(tmp_path: Path, reservations: AddressBlockReservations) -> None:
    number = reservations.reserve_address_block_number(lab_directory(tmp_path, "a"))
    directory = tmp_path / "reservations"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o1777
    assert stat.S_IMODE((directory / f"127.{number}").stat().st_mode) == 0o666


def test_link_in_place_of_address_reservation_is_not_followed(
    tmp_path: Path, reservations: AddressBlockReservations
) -> None:
    reservations.reserve_address_block_number(lab_directory(tmp_path, "a"), 17)
    private_file = tmp_path / "private"
    private_file.write_text("content")
    (tmp_path / "reservations" / "127.200").symlink_to(private_file)
    with pytest.raises(LabError, match=r"127\.200"):
        reservations.reserve_address_block_number(lab_directory(tmp_path, "b"), 200)
    assert private_file.read_text() == "content"


@pytest.mark.parametrize("content", ["", "null", "{", '{"directory": 1}', "\0\0", "[" * 100_000])
def test_invalid_address_reservation_is_ignored(
    tmp_path: Path, reservations: AddressBlockReservations, content: str
) -> None:
    reservations.reserve_address_block_number(lab_directory(tmp_path, "a"), 17)
    (tmp_path / "reservations" / "127.200").write_text(content)
    assert reservations.reserve_address_block_number(lab_directory(tmp_path, "b"), 200) == 200


@pytest.mark.skipif(os.geteuid() != 0, reason="the test must run as root, because it changes its user")
def test_stale_address_reservation_of_other_user_is_replaced() -> None:
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from activemq_fleet.lab.address_reservation import AddressBlockReservations\n"
        # The other user may have no permission to import modules later.
        "AddressBlockReservations(Path(sys.argv[3])).reserve_address_block_number(Path(sys.argv[3]), 200)\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "print(AddressBlockReservations(Path(sys.argv[1])).reserve_address_block_number(Path(sys.argv[2]), 200))\n"
    )
    with tempfile.TemporaryDirectory() as name:  # Other users cannot access the directories of pytest.
        shared = Path(name)
        shared.chmod(0o755)
        AddressBlockReservations(shared / "reservations").reserve_address_block_number(shared / "removed", 200)
        arguments = [str(path) for path in (shared / "reservations", shared, shared / "rehearsal")]
        completed = subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
        )
    assert completed.stdout.strip() == "200", completed.stderr
