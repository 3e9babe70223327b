# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Explains why an account is denied access to a path: the first directory or file whose owner and mode exclude it."""

from __future__ import annotations

import grp
import os
import shlex
import stat

from ..files.untrusted_paths import account_name
from .system_accounts import SystemAccount

_SEARCH_BIT, _ALL_BITS = 0o1, 0o7
_READ_AND_WRITE_BITS = 0o6


def describe_denied_path_access(account: SystemAccount, *paths: str, root: str = "") -> str:
    """Describe in one line why an account is denied access to paths, with the remedy.

    It names the first part that it cannot use, and its owner. ``account`` is the account of the broker. ``root`` is put
    before each path that is inspected, to inspect paths of another mount namespace. Where owners and modes permit the
    access, the text names other possible reasons.
    """
    for path in paths:
        for part in _path_parts(path):
            try:
                status = os.stat(root + part)
            except OSError:
                break
            required = _SEARCH_BIT
            if part == path:
                required = _ALL_BITS if stat.S_ISDIR(status.st_mode) else _READ_AND_WRITE_BITS
            if _permitted_bits(status, account) & required != required:
                return _describe_denial(part, status, account, part == path)
    return (
        f"the broker runs as {account.name}, and cannot use {paths[0]}, although owner and mode permit it: check "
        "the access lists of the file system (getfacl) and the export options of the share"
    )


def _path_parts(path: str) -> list[str]:
    """Return the directories above a path, from the root on, and the path."""
    names = [name for name in path.split("/") if name]
    return ["/", *("/" + "/".join(names[:count]) for count in range(1, len(names))), path]


def _permitted_bits(status: os.stat_result, account: SystemAccount) -> int:
    """Return the permission bits rwx that owner, group and mode of a file give to an account."""
    if account.uid == 0:
        return _ALL_BITS
    if status.st_uid == account.uid:
        return status.st_mode >> 6 & _ALL_BITS
    if status.st_gid in (account.gid, *account.groups):
        return status.st_mode >> 3 & _ALL_BITS
    return status.st_mode & _ALL_BITS


def _describe_denial(path: str, status: os.stat_result, account: SystemAccount, is_last: bool) -> str:
    group, mode = _group_name(account.gid), stat.S_IMODE(status.st_mode)
    owner = f"{account_name(status.st_uid)}:{_group_name(status.st_gid)}"
    remedy = f"run chmod a+x {shlex.quote(path)}"
    if is_last:
        sufficient_mode = "750" if stat.S_ISDIR(status.st_mode) else "640"
        user = account.name if " " not in account.name else account.uid
        new_owner, file = shlex.quote(f"{user}:{group}"), shlex.quote(path)
        remedy = f"run chown {new_owner} {file} and chmod {sufficient_mode} {file}"
    return (
        f"the broker runs as {account.name}, and cannot use {path}, which belongs to {owner} (mode {mode:04o}): "
        f"{remedy}"
    )


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
