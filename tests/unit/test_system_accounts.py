"""A function that runs as another account, in a child that has given up root for good."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.files.untrusted_paths import UntrustedPathError
from activemq_fleet.node.process.system_accounts import (
    AccountError,
    SystemAccount,
    account_by_name,
    account_to_access_path_as,
    current_account,
    run_as,
)
from tests.unit.attackers import BROKER, common_directory, needs_root, owned_directory

ACCOUNT = SystemAccount(BROKER, BROKER)


@pytest.fixture
def common() -> Iterator[Path]:
    with common_directory() as directory:
        yield directory


def identity() -> list[Any]:
    return [os.getresuid(), os.getresgid(), os.getgroups(), os.getcwd()]


def raises(error: Exception) -> None:
    raise error


def test_a_function_of_the_own_account_runs_without_a_child() -> None:
    assert run_as(current_account(), os.getpid) == os.getpid()


@needs_root
def test_a_child_has_nothing_of_root_left() -> None:
    assert run_as(ACCOUNT, identity) == [[BROKER] * 3, [BROKER] * 3, [], "/"]
    assert os.geteuid() == 0


@needs_root
def test_a_child_cannot_get_root_back_nor_read_what_root_reads(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("root's")
    with pytest.raises(PermissionError):
        run_as(ACCOUNT, os.setuid, 0)
    with pytest.raises(PermissionError) as caught:
        run_as(ACCOUNT, lambda: (tmp_path / "secret").read_text())
    assert caught.value.filename == str(tmp_path / "secret")


@needs_root
def test_the_account_cannot_look_into_the_memory_of_the_child() -> None:
    """It was root's before it gave that up: the kernel lets nobody of the account trace it."""

    def other_of_the_account(pid: int) -> bool:
        try:
            os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY))
        except PermissionError:
            return True
        return False

    reading, writing = os.pipe()

    def child() -> None:
        os.write(writing, str(os.getpid()).encode())
        time.sleep(60)

    def run() -> None:
        with pytest.raises(AccountError, match="signal 9"):
            run_as(ACCOUNT, child)

    thread = threading.Thread(target=run)
    thread.start()
    pid = int(os.read(reading, 20))
    try:
        assert run_as(ACCOUNT, other_of_the_account, pid)
    finally:
        os.kill(pid, signal.SIGKILL)
        thread.join()
        os.close(reading)
        os.close(writing)


@needs_root
@pytest.mark.parametrize("error", [NodeError("one"), UntrustedPathError("two"), FileNotFoundError(2, "no", "/x")])
def test_an_error_of_the_child_is_the_caller_s(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        run_as(ACCOUNT, raises, error)
    assert type(caught.value) is type(error)
    assert str(caught.value) == str(error)


@needs_root
def test_an_error_of_another_kind_is_told() -> None:
    with pytest.raises(AccountError, match="ZeroDivisionError: why"):
        run_as(ACCOUNT, raises, ZeroDivisionError("why"))


@needs_root
def test_a_result_of_any_size_comes_back_whatever_it_prints() -> None:
    def large() -> list[str]:
        print("not a result")
        return ["é\udcff" * (4 << 20)]

    assert run_as(ACCOUNT, large) == ["é\udcff" * (4 << 20)]


def children() -> set[str]:
    """The process ids of this process's children; other tests may have left some, such as multiprocessing's tracker."""
    return {pid for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()}


@needs_root
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM])
def test_a_child_that_the_account_signals_is_told_and_reaped(number: signal.Signals) -> None:
    before = children()
    with pytest.raises(
        AccountError,
        match=r"as account 61616 returned no result, because (SIGSTOP stopped|signal \d+ terminated) the process",
    ):
        run_as(ACCOUNT, lambda: os.kill(os.getpid(), number))
    assert children() <= before


@needs_root
def test_a_child_that_takes_too_long_is_ended() -> None:
    with pytest.raises(AccountError, match=r"because the process did not end within 0\.2 s\. Run the command again"):
        run_as(ACCOUNT, time.sleep, 60, patience=0.2)


@needs_root
def test_root_acts_as_the_account_that_could_exchange_the_path(common: Path) -> None:
    data = owned_directory(common / "data")
    assert account_to_access_path_as(str(data / "kahadb")) == ACCOUNT
    assert account_to_access_path_as(str(common)).is_current_account
    assert account_to_access_path_as(str(data), "daemon") == account_by_name("daemon")
    with pytest.raises(AccountError, match="because a directory above it belongs to account"):
        account_to_access_path_as(str(data), "root")
    owned_directory(common / "shared", 0, 0o777)
    with pytest.raises(
        AccountError,
        match=r"is writable for accounts other than root \(namei -l .*In the inventory, set activemq_user",
    ):
        account_to_access_path_as(str(common / "shared" / "kahadb"))
    # Where root is told nothing, as by a share that squashes it, the account still is.
    assert account_to_access_path_as(str(data / "behind-a-share"), "daemon") == account_by_name("daemon")
    with pytest.raises(AccountError, match="the user missing-user does not exist"):
        account_to_access_path_as(str(data), "missing-user")


@needs_root
def test_who_is_not_root_acts_as_itself_and_as_nobody_else(common: Path) -> None:
    def attempt() -> list[Any]:
        assert account_to_access_path_as("/etc", "daemon").uid == os.geteuid()
        run_as(account_by_name("daemon"), os.getpid)
        return []

    with pytest.raises(AccountError, match="the task must run as root or as daemon"):
        run_as(ACCOUNT, attempt)
