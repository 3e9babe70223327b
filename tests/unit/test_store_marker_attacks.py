"""Attacks by the broker's account on the marker of its store and on the directory of the store."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.fence import guard_cli
from activemq_fleet.node.files.untrusted_paths import UntrustedPathError
from activemq_fleet.node.host_paths import STORE_MARKER
from activemq_fleet.node.kahadb import store_marker
from activemq_fleet.node.process.denied_access import describe_denied_path_access
from activemq_fleet.node.process.system_accounts import SystemAccount
from tests.unit.attackers import BROKER, call_as, create_owned_directory, directory_for_all_accounts, requires_root

pytestmark = requires_root


@pytest.fixture
def common() -> Iterator[Path]:
    with directory_for_all_accounts() as directory:
        (directory / "secret").write_text("root's secret")
        (directory / "secret").chmod(0o600)
        yield directory


@pytest.fixture
def shared(common: Path) -> Path:
    return create_owned_directory(common / "store")


def test_store_marker_that_is_link_to_file_of_root_is_refused(common: Path, shared: Path) -> None:
    call_as(BROKER, lambda: (shared / STORE_MARKER).symlink_to(common / "secret"))
    with pytest.raises(UntrustedPathError, match="is a link, not a regular file"):
        store_marker.read_store_and_marker_state(str(shared))


def test_store_marker_that_is_hard_link_to_file_of_root_is_refused(common: Path, shared: Path) -> None:
    os.link(common / "secret", shared / STORE_MARKER)
    with pytest.raises(
        NodeError, match=r"runs as account 61616, and cannot use .*pair, which belongs to root:root \(mode 0600\): "
    ):
        store_marker.read_store_and_marker_state(str(shared))


def test_store_marker_that_is_fifo_is_refused(shared: Path) -> None:
    call_as(BROKER, lambda: os.mkfifo(shared / STORE_MARKER))
    with pytest.raises(UntrustedPathError, match="is a FIFO"):
        store_marker.read_store_and_marker_state(str(shared))


@pytest.mark.parametrize("text", ["\x1b[2J\nword\n", "x" * 300 + "\n", "a\rb\n", "\u202emq01\n"])
def test_invalid_name_in_store_marker_is_not_shown(shared: Path, text: str) -> None:
    call_as(BROKER, lambda: (shared / STORE_MARKER).write_text(text))
    assert (store_marker.read_store_and_marker_state(str(shared))["marked"] or [""])[0] == "(invalid name)"


def test_only_first_lines_of_large_store_marker_are_read(shared: Path) -> None:
    call_as(BROKER, lambda: (shared / STORE_MARKER).write_text("orders-mq01\nword\n" + "more\n" * (1 << 20)))
    assert store_marker.read_store_and_marker_state(str(shared))["marked"] == ["orders-mq01", "word"]


def test_store_marker_is_written_as_account_and_not_through_link(common: Path, shared: Path) -> None:
    assert store_marker.claim_empty_store(str(shared), "orders-mq01", "word")
    assert (shared / STORE_MARKER).stat().st_uid == BROKER
    assert store_marker.remove_marker_of_run(str(shared), "word")
    (shared / STORE_MARKER).symlink_to(common / "made")
    with pytest.raises(UntrustedPathError):
        store_marker.claim_empty_store(str(shared), "orders-mq01", "word")
    assert not (common / "made").exists()


def test_store_replaced_by_link_is_refused_and_link_target_is_unchanged(common: Path) -> None:
    mount = create_owned_directory(common / "mount")
    call_as(BROKER, lambda: (mount / "orders-mq01").symlink_to("/etc"))
    etc_before = os.stat("/etc")
    with pytest.raises(UntrustedPathError, match="is a symbolic link that belongs to account 61616"):
        store_marker.claim_empty_store(str(mount / "orders-mq01"), "orders-mq01", "word")
    etc_after = os.stat("/etc")
    assert (etc_after.st_uid, etc_after.st_mode) == (etc_before.st_uid, etc_before.st_mode)
    assert not Path("/etc", STORE_MARKER).exists()


def test_store_is_created_for_account_below_mount_point_of_root(common: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "ismount", lambda path: path == str(common))
    assert store_marker.claim_empty_store(str(common / "eu" / "orders-mq01"), "orders-mq01", "word", "daemon")
    store = common / "eu" / "orders-mq01"
    assert (store.owner(), store.stat().st_mode & 0o777, (store / STORE_MARKER).owner()) == (
        "daemon",
        0o750,
        "daemon",
    )
    assert (common / "eu").owner() == "root"


@pytest.mark.parametrize(("mode", "uid"), [(0o700, 0), (0o500, BROKER), (0o750, 0)])
def test_store_with_wrong_owner_or_mode_is_named_with_commands(common: Path, mode: int, uid: int) -> None:
    store = create_owned_directory(common / "store", uid, mode)
    account = SystemAccount(BROKER, BROKER)
    explanation = describe_denied_path_access(account, str(store))
    owner = "root:root" if uid == 0 else f"account {BROKER}:{BROKER}"
    assert explanation == (
        f"the broker runs as account {BROKER}, and cannot use {store}, which belongs to {owner} (mode {mode:04o}): "
        f"run chown {BROKER}:{BROKER} {store} and chmod 750 {store}"
    )


def test_inaccessible_directory_above_store_is_named(common: Path) -> None:
    store = create_owned_directory(create_owned_directory(common / "share", 0, 0o700) / "store")
    explanation = describe_denied_path_access(SystemAccount(BROKER, BROKER), str(store))
    assert f"cannot use {common}/share, which belongs to root:root (mode 0700): " in explanation
    assert explanation.endswith(f"run chmod a+x {common}/share")


def test_denied_access_that_owner_and_mode_permit_names_other_reasons(shared: Path) -> None:
    assert "check the access lists" in describe_denied_path_access(SystemAccount(BROKER, BROKER), str(shared))


def test_store_of_root_is_refused_for_account_of_broker(common: Path) -> None:
    store = create_owned_directory(common / "store", 0, 0o700)
    with pytest.raises(NodeError, match=r"the broker runs as nobody, and cannot use .*: run chown nobody:"):
        store_marker.read_store_and_marker_state(str(store), "nobody")


def test_guard_names_owner_and_mode_of_store_that_it_cannot_use(common: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, local = create_owned_directory(common / "store", 0, 0o700), create_owned_directory(common / "local")
    monkeypatch.setattr(sys, "argv", ["guard", f"--store={store}", "--mend"])
    monkeypatch.setattr(guard_cli, "print_to_unit_log", (local / "log").write_text)
    with pytest.raises(AssertionError, match="wait status 256"):  # the exit code 1 of the guard
        call_as(BROKER, guard_cli.main)
    guard_log = (local / "log").read_text()
    assert guard_log.startswith(
        f"the store {store} was not repaired completely: the broker runs as account {BROKER}, and cannot use {store},"
    )
