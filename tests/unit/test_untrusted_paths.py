"""Attacks by an account in its directories on a process with more privileges that opens paths there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from activemq_fleet.node.files import untrusted_paths
from activemq_fleet.node.files.untrusted_paths import (
    Directory,
    UntrustedPathError,
    open_directory,
    open_file,
    open_file_owned_by_directory_owner_or_root,
    owner_of_first_untrusted_directory,
    read_file,
)
from activemq_fleet.node.log.broker_log import read_log_records
from tests.unit.attackers import (
    BROKER,
    STRANGER,
    call_as,
    create_owned_directory,
    directory_for_all_accounts,
    repeat_as,
    requires_root,
)
from tests.waiting import PATIENCE, wait_until, within

pytestmark = requires_root


@pytest.fixture
def common() -> Iterator[Path]:
    with directory_for_all_accounts() as directory:
        (directory / "secret").mkdir(mode=0o700)
        (directory / "secret" / "file").write_text("root's secret")
        yield directory


@pytest.fixture
def data(common: Path) -> Path:
    """Return a directory of the broker's account below directories of root."""
    return create_owned_directory(common / "data")


def read_as_account(path: Path) -> bytes:
    file_content: bytes = read_file(str(path), 100, owners={BROKER})
    return file_content


PLANTED: dict[str, Callable[[Path, Path], object]] = {
    "link to file of root": lambda path, secret: path.symlink_to(secret),
    "dangling link": lambda path, secret: path.symlink_to(f"{secret}-nowhere"),
    "directory": lambda path, secret: path.mkdir(),
    "FIFO": lambda path, secret: os.mkfifo(path),
    "socket": lambda path, secret: socket.socket(socket.AF_UNIX).bind(str(path)),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_planted_path_that_is_not_regular_file_is_refused(common: Path, data: Path, kind: str) -> None:
    path = data / "file"
    call_as(BROKER, lambda: PLANTED[kind](path, common / "secret" / "file"))
    with pytest.raises(UntrustedPathError, match=f"{path} is .*, not a regular file"):
        read_as_account(path)


def test_device_in_place_of_file_is_refused(data: Path) -> None:
    os.mknod(data / "file", 0o666 | 0o020000, os.makedev(1, 5))
    with pytest.raises(UntrustedPathError, match="is a device"):
        read_as_account(data / "file")


def test_hard_link_to_file_of_other_account_is_refused(common: Path, data: Path) -> None:
    # Without fs.protected_hardlinks, the account could create this link.
    os.link(common / "secret" / "file", data / "file")
    with pytest.raises(UntrustedPathError, match="belongs to root, not to account 61616"):
        read_as_account(data / "file")


def test_file_with_second_hard_link_is_refused_if_single_name_is_required(data: Path) -> None:
    def plant() -> None:
        (data / "file").write_text("own")
        os.link(data / "file", data / "other")

    call_as(BROKER, plant)
    assert read_as_account(data / "file") == b"own"
    with open_directory(str(data)) as directory, pytest.raises(UntrustedPathError, match="hard link"):
        directory.read_file("file", 10, owners={BROKER}, single_name=True)


def test_file_with_lease_of_other_process_is_refused_without_wait(data: Path) -> None:
    def hold_lease() -> None:
        descriptor = os.open(data / "file", os.O_RDWR | os.O_CREAT)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        (data / "held").touch()
        time.sleep(PATIENCE)

    with repeat_as(BROKER, hold_lease):
        wait_until((data / "held").exists, "the account holds a lease", pause=0.01)
        with pytest.raises(UntrustedPathError, match="another process holds a lease"):
            within(PATIENCE / 2, lambda: read_as_account(data / "file"))


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_directory_replaced_by_link_is_refused_at_any_depth(common: Path, data: Path, depth: int) -> None:
    names = ["a", "b", "c"]
    call_as(BROKER, lambda: (data / "a" / "b" / "c").mkdir(parents=True))
    target = common / "elsewhere"
    (target / "b" / "c").mkdir(parents=True)
    (target / "c").mkdir()
    victim = data.joinpath(*names[: depth + 1])

    def replace_by_link() -> None:
        victim.rename(f"{victim}-away")
        victim.symlink_to(target)

    call_as(BROKER, replace_by_link)
    with pytest.raises(UntrustedPathError, match=f"{victim} is a symbolic link that belongs to account 61616"):
        open_directory(str(data / "a" / "b" / "c"))


def test_link_of_root_in_directory_of_root_is_followed(common: Path, data: Path) -> None:
    (common / "link").symlink_to("data")
    (common / "absolute").symlink_to(common / "link")
    with open_directory(str(common / "absolute")) as directory:
        assert directory.path == str(data)


def test_link_of_root_in_directory_of_other_account_is_refused(common: Path, data: Path) -> None:
    (data / "link").symlink_to(common / "secret")
    with pytest.raises(UntrustedPathError, match="in a directory that other accounts can write"):
        open_directory(str(data / "link"))


def test_circular_symbolic_links_are_refused(common: Path) -> None:
    (common / "one").symlink_to("two")
    (common / "two").symlink_to("one")
    with pytest.raises(UntrustedPathError, match="more than 16 symbolic links"):
        open_directory(str(common / "one"))


def read_through_link(path: Path) -> bytes:
    with open_directory(str(path.parent)) as directory:
        descriptor = open_file_owned_by_directory_owner_or_root(directory, path.name, check_link_targets=True)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def test_file_is_read_through_two_links_of_root(common: Path) -> None:
    (common / "live").mkdir()
    (common / "live" / "certificate").symlink_to("../secret/file")
    (common / "link").symlink_to(common / "live" / "certificate")
    assert read_through_link(common / "link") == b"root's secret"


def test_second_link_to_file_in_directory_of_other_account_is_refused(common: Path, data: Path) -> None:
    (data / "link").symlink_to(common / "secret" / "file")
    (common / "link").symlink_to(data / "link")
    with pytest.raises(UntrustedPathError, match=f"{data}/link is a link, not a regular file"):
        read_through_link(common / "link")


def test_file_through_link_of_root_has_owner_of_its_directory(common: Path, data: Path) -> None:
    (data / "file").write_text("certificate")
    os.chown(data / "file", BROKER, BROKER)
    (common / "link").symlink_to(data / "file")
    assert read_through_link(common / "link") == b"certificate"
    os.chown(data / "file", STRANGER, STRANGER)
    with pytest.raises(UntrustedPathError, match=f"{data}/file belongs to "):
        read_through_link(common / "link")


def test_log_through_link_may_have_other_owner_and_hard_link(common: Path) -> None:
    logs = common / "logs"
    logs.mkdir()
    os.chown(logs, 0, BROKER)
    logs.chmod(0o2775)
    (logs / "activemq.log").write_text("2026-11-30 12:00:00,000 | INFO  | started | Broker | main\n")
    os.chown(logs / "activemq.log", BROKER, BROKER)
    (logs / "copy").hardlink_to(logs / "activemq.log")
    (common / "activemq.log").symlink_to(logs / "activemq.log")

    def assert_log_is_read() -> None:
        assert [record.message for record in read_log_records(str(common), 0)] == ["started"]

    assert_log_is_read()
    call_as(BROKER, assert_log_is_read)


def test_circular_links_to_file_are_refused(common: Path) -> None:
    (common / "one").symlink_to("two")
    (common / "two").symlink_to("one")
    with pytest.raises(UntrustedPathError, match="more than 16 symbolic links"):
        read_through_link(common / "one")


def test_file_name_that_leads_out_of_directory_is_refused(data: Path) -> None:
    with open_directory(str(data)) as directory:
        for name in ("..", ".", "", "../secret/file", "/etc/passwd", "a\0b"):
            with pytest.raises(UntrustedPathError, match="is not a file name: use the name of a single file"):
                directory.open_file(name)


def test_repeated_swaps_with_link_never_expose_file_of_root(common: Path, data: Path) -> None:
    """The account swaps a directory and a link as fast as it can, and also a file and a link in the directory."""

    def plant() -> None:
        (data / "real").mkdir()
        (data / "real" / "file").write_text("harmless")

    def swap() -> None:
        os.rename(data / "real", data / "store")
        os.rename(data / "store" / "file", data / "store" / "kept")
        os.symlink(common / "secret" / "file", data / "store" / "file")
        os.unlink(data / "store" / "file")
        os.rename(data / "store" / "kept", data / "store" / "file")
        os.rename(data / "store", data / "real")
        os.symlink(common / "secret", data / "store")
        os.unlink(data / "store")

    call_as(BROKER, plant)
    read_contents = set()
    with repeat_as(BROKER, swap):
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            with contextlib.suppress(UntrustedPathError, FileNotFoundError):
                read_contents.add(read_file(str(data / "store" / "file"), 100))
    assert read_contents == {b"harmless"}


def test_repeated_swaps_with_link_never_create_file_in_directory_of_root(common: Path, data: Path) -> None:
    secret = common / "secret"
    call_as(BROKER, lambda: (data / "real").mkdir())

    def swap() -> None:
        os.rename(data / "real", data / "store")
        os.rename(data / "store", data / "real")
        os.symlink(secret, data / "store")
        os.unlink(data / "store")

    successes = 0
    with repeat_as(BROKER, swap):
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            with (
                contextlib.suppress(UntrustedPathError, FileNotFoundError),
                open_directory(str(data / "store")) as directory,
            ):
                directory.write_new_file("new", b"x")
                directory.create_and_open_directory("below").close()
                directory.remove_tree_or_file("below")
                directory.rename("new", "other")
                directory.remove_file_or_link("other")
                successes += 1
    assert successes
    assert os.listdir(secret) == ["file"]


def test_planted_link_is_not_followed_by_writes(common: Path, data: Path) -> None:
    call_as(BROKER, lambda: (data / "new").symlink_to(common / "secret" / "made"))
    with open_directory(str(data)) as directory:
        with pytest.raises(FileExistsError):
            directory.write_new_file("new", b"x")
        with pytest.raises(FileExistsError):
            directory.create_and_open_directory("new")
        directory.replace_file("new", b"x")
    assert (data / "new").read_bytes() == b"x"
    assert not (common / "secret" / "made").exists()


def test_removal_of_tree_removes_planted_link_but_not_its_target(common: Path, data: Path) -> None:
    def plant() -> None:
        (data / "tree" / "below").mkdir(parents=True)
        (data / "tree" / "below" / "link").symlink_to(common / "secret")
        os.mkfifo(data / "tree" / "fifo")

    call_as(BROKER, plant)
    with open_directory(str(data)) as directory:
        directory.remove_tree_or_file("tree")
        assert directory.entry_names() == []
    assert (common / "secret" / "file").exists()


def test_directory_tree_that_is_too_deep_is_refused(data: Path) -> None:
    def nest() -> None:
        os.chdir(data)
        for _ in range(200):
            os.mkdir("d")
            os.chdir("d")

    call_as(BROKER, nest)
    with open_directory(str(data)) as directory:
        with pytest.raises(UntrustedPathError, match="directories deep"):
            list(directory.walk_files_and_links())
        with pytest.raises(UntrustedPathError, match="directories deep"):
            directory.remove_tree_or_file("d")


def test_rename_does_not_replace_existing_directory(data: Path) -> None:
    for name in ("one", "two"):
        create_owned_directory(data / name)
    with open_directory(str(data)) as directory, pytest.raises(FileExistsError):
        directory.rename("one", "two")


def test_first_account_that_can_replace_path_is_reported(common: Path, data: Path) -> None:
    call_as(BROKER, lambda: (data / "store").mkdir())
    assert owner_of_first_untrusted_directory(str(common)) is None
    assert owner_of_first_untrusted_directory(str(data / "store" / "not-there" / "yet")) == (BROKER, BROKER)
    # The owner of a directory cannot hide the owner of a directory above it.
    os.chown(data / "store", STRANGER, STRANGER)
    assert owner_of_first_untrusted_directory(str(data / "store")) == (BROKER, BROKER)
    os.chown(data / "store", 0, 0)
    assert owner_of_first_untrusted_directory(str(data / "store")) == (BROKER, BROKER)
    (common / "link").symlink_to(data / "store")
    assert owner_of_first_untrusted_directory(str(common / "link")) == (BROKER, BROKER)


def test_directory_of_root_that_group_can_write_is_untrusted(common: Path) -> None:
    create_owned_directory(common / "shared", 0, 0o775)
    assert owner_of_first_untrusted_directory(str(common / "shared")) == (0, 0)


def test_path_is_opened_below_given_root(common: Path, data: Path) -> None:
    """Absolute links are resolved below the given root, as for a process in another mount namespace."""
    (data / "file").write_text("own")
    (common / "link").symlink_to("/data")
    root = os.open(common, os.O_PATH)
    try:
        os.close(open_file("/link/file", root=root))
        with pytest.raises(FileNotFoundError):
            open_file(str(data / "file"), root=root)
    finally:
        os.close(root)


def test_path_that_only_root_can_write_is_opened(common: Path) -> None:
    assert read_file(str(common / "secret" / "file"), 4, owners={0}) == b"root"
    with open_directory("/") as directory:
        assert isinstance(directory, Directory)
        assert "proc" in directory.entry_names()
    assert untrusted_paths.account_name(0) == "root"
