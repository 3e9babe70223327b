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
def claims(tmp_path: Path) -> AddressBlockReservations:
    return AddressBlockReservations(tmp_path / "claims")


def lab(tmp_path: Path, name: str) -> Path:
    directory = tmp_path / name
    directory.mkdir(exist_ok=True)
    return directory


def test_two_labs_have_different_blocks(tmp_path: Path, claims: AddressBlockReservations) -> None:
    assert claims.reserve_address_block_number(lab(tmp_path, "a")) != claims.reserve_address_block_number(
        lab(tmp_path, "b")
    )


def test_a_lab_keeps_its_block(tmp_path: Path, claims: AddressBlockReservations) -> None:
    mine = lab(tmp_path, "a")
    assert claims.reserve_address_block_number(mine) == claims.reserve_address_block_number(mine)


def test_a_lab_gets_the_block_that_it_wants_where_it_is_free(tmp_path: Path, claims: AddressBlockReservations) -> None:
    assert claims.reserve_address_block_number(lab(tmp_path, "a"), 200) == 200


def test_a_lab_gets_another_block_where_the_wanted_one_is_taken(
    tmp_path: Path, claims: AddressBlockReservations
) -> None:
    claims.reserve_address_block_number(lab(tmp_path, "a"), 200)
    assert claims.reserve_address_block_number(lab(tmp_path, "b"), 200) != 200


def test_a_released_block_is_free(tmp_path: Path, claims: AddressBlockReservations) -> None:
    claims.reserve_address_block_number(lab(tmp_path, "a"), 200)
    claims.release_address_block(lab(tmp_path, "a"))
    assert claims.reserve_address_block_number(lab(tmp_path, "b"), 200) == 200


def test_a_claim_ends_with_its_directory(tmp_path: Path, claims: AddressBlockReservations) -> None:
    gone = lab(tmp_path, "gone")
    claims.reserve_address_block_number(gone, 200)
    gone.rmdir()
    assert claims.reserve_address_block_number(lab(tmp_path, "b"), 200) == 200


def test_a_block_in_which_somebody_listens_is_not_taken(tmp_path: Path, claims: AddressBlockReservations) -> None:
    with socket.create_server(("127.201.3.4", 0)):
        assert claims.reserve_address_block_number(lab(tmp_path, "a"), 201) != 201


def test_when_all_are_claimed_the_longest_idle_gives_way(
    tmp_path: Path, claims: AddressBlockReservations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LAST", module.FIRST + 1)
    first = claims.reserve_address_block_number(lab(tmp_path, "a"))
    claims.reserve_address_block_number(lab(tmp_path, "b"))
    assert claims.reserve_address_block_number(lab(tmp_path, "c")) == first


def test_a_lab_that_comes_back_is_not_the_longest_idle(
    tmp_path: Path, claims: AddressBlockReservations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LAST", module.FIRST + 1)
    first = claims.reserve_address_block_number(lab(tmp_path, "a"))
    second = claims.reserve_address_block_number(lab(tmp_path, "b"))
    assert claims.reserve_address_block_number(lab(tmp_path, "a"), first) == first
    assert claims.reserve_address_block_number(lab(tmp_path, "c")) == second


def test_two_labs_have_different_blocks_whatever_their_temporary_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = lab(tmp_path, "a"), lab(tmp_path, "b")
    try:
        block = AddressBlockReservations().reserve_address_block_number(a)
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        monkeypatch.setattr(tempfile, "tempdir", None)
        assert AddressBlockReservations().reserve_address_block_number(b, block) != block
    finally:
        AddressBlockReservations().release_address_block(a)
        AddressBlockReservations().release_address_block(b)


def test_when_all_are_alive_it_says_so(
    tmp_path: Path, claims: AddressBlockReservations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LAST", module.FIRST)
    claims.reserve_address_block_number(lab(tmp_path, "a"))
    with (
        socket.create_server((f"127.{module.FIRST}.3.4", 0)),
        pytest.raises(LabError, match="stop one of the labs with `lab down`"),
    ):
        claims.reserve_address_block_number(lab(tmp_path, "b"))


def test_a_lab_keeps_its_block_where_the_wanted_one_is_taken(tmp_path: Path, claims: AddressBlockReservations) -> None:
    claims.reserve_address_block_number(lab(tmp_path, "a"), 200)
    claims.reserve_address_block_number(lab(tmp_path, "b"), 201)
    assert claims.reserve_address_block_number(lab(tmp_path, "b"), 200) == 201


def test_everyone_may_claim(tmp_path: Path, claims: AddressBlockReservations) -> None:
    number = claims.reserve_address_block_number(lab(tmp_path, "a"))
    directory = tmp_path / "claims"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o1777
    assert stat.S_IMODE((directory / f"127.{number}").stat().st_mode) == 0o666


def test_a_link_in_place_of_a_claim_is_not_followed(tmp_path: Path, claims: AddressBlockReservations) -> None:
    claims.reserve_address_block_number(lab(tmp_path, "a"), 17)
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "claims" / "127.200").symlink_to(precious)
    with pytest.raises(LabError, match=r"127\.200"):
        claims.reserve_address_block_number(lab(tmp_path, "b"), 200)
    assert precious.read_text() == "mine"


@pytest.mark.parametrize("content", ["", "null", "{", '{"directory": 1}', "\0\0"])
def test_a_claim_that_cannot_be_read_is_none(tmp_path: Path, claims: AddressBlockReservations, content: str) -> None:
    claims.reserve_address_block_number(lab(tmp_path, "a"), 17)
    (tmp_path / "claims" / "127.200").write_text(content)
    assert claims.reserve_address_block_number(lab(tmp_path, "b"), 200) == 200


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_stale_claim_of_another_user_is_taken_over() -> None:
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from activemq_fleet.lab.address_reservation import AddressBlockReservations\n"
        # What is imported late may be closed to others.
        "AddressBlockReservations(Path(sys.argv[3])).reserve_address_block_number(Path(sys.argv[3]), 200)\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "print(AddressBlockReservations(Path(sys.argv[1])).reserve_address_block_number(Path(sys.argv[2]), 200))\n"
    )
    with tempfile.TemporaryDirectory() as name:  # pytest's own directories are closed to others
        shared = Path(name)
        shared.chmod(0o755)
        AddressBlockReservations(shared / "claims").reserve_address_block_number(shared / "gone", 200)
        arguments = [str(path) for path in (shared / "claims", shared, shared / "rehearsal")]
        done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "200", done.stderr
