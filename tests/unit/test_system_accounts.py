"""Functions that run as another account, in a child process that has permanently dropped root privileges."""

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
from tests.unit.attackers import BROKER, create_owned_directory, directory_for_all_accounts, requires_root

ACCOUNT = SystemAccount(BROKER, BROKER)


@pytest.fixture
def common() -> Iterator[Path]:
    with directory_for_all_accounts() as directory:
        yield directory


def ids_groups_and_directory() -> list[Any]:
    return [os.getresuid(), os.getresgid(), os.getgroups(), os.getcwd()]


def raise_error(error: Exception) -> None:
    raise error


def test_function_of_current_account_runs_without_child_process() -> None:
    assert run_as(current_account(), os.getpid) == os.getpid()


@requires_root
def test_child_process_has_no_ids_groups_or_directory_of_root() -> None:
    assert run_as(ACCOUNT, ids_groups_and_directory) == [[BROKER] * 3, [BROKER] * 3, [], "/"]
    assert os.geteuid() == 0


@requires_root
def test_child_process_cannot_regain_root_or_read_file_of_root(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("root's")
    with pytest.raises(PermissionError):
        run_as(ACCOUNT, os.setuid, 0)
    with pytest.raises(PermissionError) as caught:
        run_as(ACCOUNT, lambda: (tmp_path / "secret").read_text())
    assert caught.value.filename == str(tmp_path / "secret")


@requires_root
def test_account_cannot_open_memory_of_child_process() -> None:
    """The child process belonged to root before, so the kernel does not permit the account to trace it."""

    def is_memory_access_denied(pid: int) -> bool:
        try:
            os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY))
        except PermissionError:
            return True
        return False

    read_end, write_end = os.pipe()

    def child() -> None:
        os.write(write_end, str(os.getpid()).encode())
        time.sleep(60)

    def run_child() -> None:
        with pytest.raises(AccountError, match="signal 9"):
            run_as(ACCOUNT, child)

    thread = threading.Thread(target=run_child)
    thread.start()
    pid = int(os.read(read_end, 20))
    try:
        assert run_as(ACCOUNT, is_memory_access_denied, pid)
    finally:
        os.kill(pid, signal.SIGKILL)
        thread.join()
        os.close(read_end)
        os.close(write_end)


@requires_root
@pytest.mark.parametrize("error", [NodeError("one"), UntrustedPathError("two"), FileNotFoundError(2, "no", "/x")])
def test_error_of_child_process_is_raised_in_caller(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        run_as(ACCOUNT, raise_error, error)
    assert type(caught.value) is type(error)
    assert str(caught.value) == str(error)


@requires_root
def test_error_of_other_class_is_named_in_account_error() -> None:
    with pytest.raises(AccountError, match="ZeroDivisionError: why"):
        run_as(ACCOUNT, raise_error, ZeroDivisionError("why"))


@requires_root
def test_large_list_is_returned_although_function_prints() -> None:
    def print_and_return_large_list() -> list[str]:
        print("not a result")
        return ["é\udcff" * (4 << 20)]

    assert run_as(ACCOUNT, print_and_return_large_list) == ["é\udcff" * (4 << 20)]


def child_process_ids() -> set[str]:
    """Return the ids of the child processes; other tests may leave some, such as multiprocessing's tracker."""
    return {pid for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()}


@requires_root
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM])
def test_child_process_that_receives_signal_is_reported_and_reaped(number: signal.Signals) -> None:
    children_before = child_process_ids()
    with pytest.raises(
        AccountError,
        match=r"as account 61616 returned no result, because (SIGSTOP stopped|signal \d+ terminated) the process",
    ):
        run_as(ACCOUNT, lambda: os.kill(os.getpid(), number))
    assert child_process_ids() <= children_before


@requires_root
def test_child_process_that_exceeds_patience_is_reported() -> None:
    with pytest.raises(AccountError, match=r"because the process did not end within 0\.2 s\. Run the command again"):
        run_as(ACCOUNT, time.sleep, 60, patience=0.2)


@requires_root
def test_root_accesses_path_as_account_that_could_replace_it(common: Path) -> None:
    data_directory = create_owned_directory(common / "data")
    assert account_to_access_path_as(str(data_directory / "kahadb")) == ACCOUNT
    assert account_to_access_path_as(str(common)).is_current_account
    assert account_to_access_path_as(str(data_directory), "daemon") == account_by_name("daemon")
    with pytest.raises(AccountError, match="because a directory above it belongs to account"):
        account_to_access_path_as(str(data_directory), "root")
    create_owned_directory(common / "shared", 0, 0o777)
    with pytest.raises(
        AccountError,
        match=r"is writable for accounts other than root \(namei -l .*In the inventory, set activemq_user",
    ):
        account_to_access_path_as(str(common / "shared" / "kahadb"))
    # A share with root squash hides the path from root, but not from the account.
    assert account_to_access_path_as(str(data_directory / "behind-a-share"), "daemon") == account_by_name("daemon")
    with pytest.raises(AccountError, match="the user missing-user does not exist"):
        account_to_access_path_as(str(data_directory), "missing-user")


@requires_root
def test_process_without_root_runs_functions_only_as_its_account(common: Path) -> None:
    def access_as_daemon() -> list[Any]:
        assert account_to_access_path_as("/etc", "daemon").uid == os.geteuid()
        run_as(account_by_name("daemon"), os.getpid)
        return []

    with pytest.raises(AccountError, match="the task must run as root or as daemon"):
        run_as(ACCOUNT, access_as_daemon)
