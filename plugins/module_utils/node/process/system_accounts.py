# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a function as another account, in a child process that permanently drops root privileges.

Invariants:
- The child has only the account's uid, gid and groups, and cannot become root again: it tries, and exits if it can.
  The kernel does not allow processes of that account to trace it or to read its memory (a process that changes its uid
  is not dumpable), so no data of root is exposed.
- The child returns JSON, which is never executed: like the files that the child reads, it may be forged by the account.
- The parent never waits indefinitely for a child that was stopped, killed or ran out of memory, and leaves no zombie.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import resource
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors import NodeError
from ..files.untrusted_paths import UntrustedPathError, account_name, open_directory, owner_of_first_untrusted_directory

_T = TypeVar("_T")
PATIENCE = 4 * 3600.0
"""Timeout in seconds of a function that runs as another account: its file system may block it."""
_CHECK_INTERVAL = 1.0
"""Seconds between two checks whether a silent child was stopped."""


class AccountError(NodeError):
    """An error of an operating-system account: it does not exist, or a function could not run as this account.

    Its process may also have ended without a result.
    """


@dataclass(frozen=True)
class SystemAccount:
    """An operating-system account: numeric ids and supplementary groups.

    ``run_as`` runs a function as such an account.
    """

    uid: int
    gid: int
    groups: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The name of the operating-system account; ``account UID`` where it has none."""
        name: str = account_name(self.uid)
        return name

    @property
    def is_current_account(self) -> bool:
        """Whether an operating-system account is the one as which this process already runs."""
        return self.uid == os.geteuid()


def current_account() -> SystemAccount:
    """Return the account as which this process runs: its effective user, group and supplementary groups."""
    return SystemAccount(os.geteuid(), os.getegid(), tuple(os.getgroups()))


def account_by_name(name: str) -> SystemAccount:
    """Return the operating-system account with a name, with its groups.

    Raises AccountError if it does not exist.
    """
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise AccountError(
            f"the user {name} does not exist on this host: create the account, or correct activemq_user "
            "(activemq_agent_user for the agent)"
        ) from None
    return SystemAccount(entry.pw_uid, entry.pw_gid, tuple(os.getgrouplist(name, entry.pw_gid)))


def is_existing_account(name: str) -> bool:
    """Return whether an operating-system account with a name exists on this host."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def account_to_access_path_as(path: str, user: str | None = None) -> SystemAccount:
    """Return the operating-system account as which this process must read or write a path: never None.

    For a process of root it is ``user``, the broker's account in the inventory. Without ``user`` it is the account that
    can change a directory above the path, or root if no other account can. For a process of another account it is its
    own account, whatever ``user`` is. Raises AccountError if root would have to use a path that others can change, or
    if ``user`` does not exist; OSError, UntrustedPathError.
    """
    if os.geteuid() != 0:
        return current_account()
    account = account_by_name(user) if user else None
    if account is not None and account.uid != 0:
        # Whether root can reach the path is not checked: a share may deny access only to root.
        return account
    foreign = owner_of_first_untrusted_directory(path)
    if account is None:
        account = _account_by_ids(*foreign) if foreign else current_account()
    if account.uid == 0 and foreign is not None:
        owner = f"belongs to {account_name(foreign[0])}" if foreign[0] else "is writable for accounts other than root"
        raise AccountError(
            f"root must not use {path}, because a directory above it {owner} (namei -l {path} lists the owners). In "
            "the inventory, set activemq_user to the broker's account, and run the playbook again. In a shell, run "
            "the command as the broker's account: runuser -u ACCOUNT -- COMMAND"
        )
    return account


def account_for_renames_in_directory(directory: str, default_account: SystemAccount) -> SystemAccount:
    """Return the account for renaming files in a directory: this process's if only it can write there, else the given.

    ``default_account`` is also returned for a directory that is missing or denies access.
    """
    try:
        with open_directory(directory) as opened:
            return current_account() if opened.is_trusted_directory else default_account
    except (FileNotFoundError, PermissionError):
        return default_account


def _account_by_ids(uid: int, gid: int) -> SystemAccount:
    try:
        return account_by_name(pwd.getpwuid(uid).pw_name)
    except KeyError:
        return SystemAccount(uid, gid)


def run_as(
    account: SystemAccount,
    function: Callable[..., _T],
    *arguments: Any,
    patience: float = PATIENCE,
    in_child: bool = False,
) -> _T:
    """Run a function as another operating-system account, and return its result.

    It runs in a child process. Its result must be JSON. Tuples become lists.

    If this process already runs as that account, the function is called directly, without a child and without a
    timeout, unless ``in_child`` is set. ``patience``: seconds after which the child is killed. Output of the child is
    discarded.

    Raises AccountError if the process cannot change to the account, if the child ends without a result, or for an
    unknown kind of exception; NodeError, UntrustedPathError and OSError as the function raised them.
    """
    if account.is_current_account and not in_child:
        return function(*arguments)
    if os.geteuid() != 0 and not account.is_current_account:
        raise AccountError(
            f"the task must run as root or as {account.name}, but runs as {current_account().name}: set become: "
            "true for the task"
        )
    if account.uid == 0 and not account.is_current_account:
        raise AccountError(
            f"the account {account.name} has the user id 0 (root), but neither broker nor agent may run as root: "
            "set activemq_user (activemq_agent_user for the agent) to a different account"
        )
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        _run_in_child(account, lambda: function(*arguments), write_end)
    os.close(write_end)
    try:
        answer = _read_answer(read_end, child, patience)
    except BaseException as error:
        _kill_and_reap(child)
        if isinstance(error, TimeoutError):
            raise AccountError(
                f"the helper process that this command started as {account.name} returned no result, because {error}. "
                "Run the command again. If this occurs again, check whether a file system of this host hangs"
            ) from None
        raise
    finally:
        os.close(read_end)
    status = _kill_and_reap(child) if answer is None else os.waitpid(child, 0)[1]
    if answer is None:
        raise AccountError(
            f"the helper process that this command started as {account.name} returned no result, because "
            f"{_describe_end(status)}. Run the command again"
        )
    if "error" in answer:
        raise _restore_exception(answer)
    result: _T = answer["result"]
    return result


def _run_in_child(account: SystemAccount, function: Callable[[], Any], write_end: int) -> None:
    """Run the function in the child process, write its result as JSON to ``write_end``, and never return."""
    status = 1
    try:
        _close_standard_streams()
        os.chdir("/")
        os.umask(0o077)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            if not account.is_current_account:
                _drop_root(account)
            text = json.dumps({"result": function()})
        except Exception as error:  # noqa: BLE001 -- the parent raises every error again
            text = json.dumps(_describe_exception(error))
        unwritten = memoryview(text.encode() + b"\n")
        while unwritten:
            unwritten = unwritten[os.write(write_end, unwritten[: 1 << 20]) :]
        status = 0
    finally:
        os._exit(status)


def _close_standard_streams() -> None:
    """Close standard input, output and error, on which Ansible may wait or from which it reads the result."""
    null_device = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null_device, descriptor)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def _drop_root(account: SystemAccount) -> None:
    """Change this process to an account's ids permanently.

    Raises AccountError if the process could become root again.
    """
    os.setgroups(list(account.groups))
    os.setresgid(account.gid, account.gid, account.gid)
    os.setresuid(account.uid, account.uid, account.uid)
    has_ids = os.getresuid() == (account.uid,) * 3 and os.getresgid() == (account.gid,) * 3
    with contextlib.suppress(PermissionError):
        os.setresuid(-1, 0, -1)
        has_ids = False
    if not has_ids:
        raise AccountError(
            f"a process of root could not change to the account {account.name}: check whether the security "
            "settings of this host (capabilities, seccomp) let root change its user id"
        )


def _describe_exception(error: Exception) -> dict[str, Any]:
    names = [kind.__name__ for kind in type(error).__mro__]
    description: dict[str, Any] = {"error": names, "message": str(error)}
    if isinstance(error, OSError) and error.errno is not None:
        description.update(errno=error.errno, strerror=error.strerror, filename=_decode_name(error.filename))
    return description


def _decode_name(name: object) -> str | None:
    return os.fsdecode(name) if isinstance(name, (str, bytes)) else None


def _restore_exception(answer: dict[str, Any]) -> Exception:
    """Return the exception that a child process reported, as the first of its base classes that is defined here."""
    class_by_name: dict[str, type[Exception]] = {
        kind.__name__: kind for kind in (UntrustedPathError, AccountError, NodeError)
    }
    message = str(answer.get("message"))
    if answer.get("errno") is not None:
        return OSError(int(answer["errno"]), str(answer.get("strerror")), answer.get("filename"))
    for name in answer["error"]:
        if name in class_by_name:
            return class_by_name[name](message)
    return AccountError(f"{answer['error'][0]}: {message}")


def _read_answer(descriptor: int, child: int, patience: float) -> dict[str, Any] | None:
    """Return the answer of a child process; None if it ended without one.

    Raises TimeoutError for a child that was stopped or does not answer within ``patience`` seconds.
    """
    parts, deadline = [], time.monotonic() + patience
    while True:
        timeout = min(_CHECK_INTERVAL, max(0.0, deadline - time.monotonic()))
        if select.select([descriptor], [], [], timeout)[0]:
            part = os.read(descriptor, 1 << 20)
            if not part:
                break
            parts.append(part)
        elif _is_stopped(child):
            raise TimeoutError("SIGSTOP stopped the process")
        if time.monotonic() >= deadline:
            raise TimeoutError(f"the process did not end within {patience:g} s")
    data = b"".join(parts)
    if not data.endswith(b"\n"):
        return None
    answer: dict[str, Any] = json.loads(data)
    return answer


def _is_stopped(child: int) -> bool:
    with open(f"/proc/{child}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t")


def _kill_and_reap(child: int) -> int:
    """Kill and reap a child process; return its wait status, or 0 for one that hangs in the kernel."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    # A process that waits for an unreachable share cannot be killed; it ends when the server responds again.
    deadline = time.monotonic() + _CHECK_INTERVAL
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        time.sleep(0.01)
    return 0


def _describe_end(status: int) -> str:
    if os.WIFSIGNALED(status):
        return (
            f"signal {os.WTERMSIG(status)} terminated the process (after signal 9, check whether the host "
            "ran out of memory)"
        )
    return f"the process exited with status {os.WEXITSTATUS(status) if os.WIFEXITED(status) else status}"
