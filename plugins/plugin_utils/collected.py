# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The directory on the controller into which ``activemq.fleet.collect`` unpacks what hosts have sent."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.activemq.fleet.plugins.plugin_utils.host_archive import read_host_archive

MARK = ".activemq-fleet-collected"
HOST = "host.json"
# The maximum that a compromised host can send in addition to logs, whose size is limited.
_SLACK = 64 << 20
_RANDOM_SUFFIX = "[a-z0-9_]{8}"
"""The regular expression of the suffix that ``tempfile.mkdtemp`` gives to a directory."""


def create_or_reuse_evidence_directory(path: str) -> str:
    """Create or reuse the controller's directory for evidence collected from hosts, and return its absolute path.

    A new directory is private to its owner. Raises AnsibleActionFail for a directory that holds anything else.
    """
    path = os.path.abspath(os.path.expanduser(path))
    marker_path = os.path.join(path, MARK)
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        if os.listdir(path) and not os.path.isfile(marker_path):
            raise AnsibleActionFail(
                f"nothing was collected, because the directory {path} on the controller contains files that the "
                "playbook collect did not write. Set a new directory with -e activemq_collect_to=DIR"
            )
        with open(marker_path, "a", encoding="utf-8"):
            pass
    except OSError as error:
        raise AnsibleActionFail(
            f"nothing was collected, because the directory {path} on the controller cannot be used "
            f"({error.strerror}). Set another directory with -e activemq_collect_to=DIR"
        ) from None
    return path


@contextmanager
def temporary_staging_directory(directory: str, host: str) -> Iterator[str]:
    """Create a staging directory for a host's collected evidence, yield its path, and remove it after the block.

    The evidence is unpacked into it. It also removes what killed runs have left of this host.
    """
    if host.startswith(".") or "/" in host:
        raise AnsibleActionFail(
            f"the host name {host!r} contains / or begins with a dot, so no directory can have this name. Rename the "
            "host in the inventory"
        )
    for name in os.listdir(directory):
        if re.fullmatch(rf"\.(?:new|old)-{re.escape(host)}-{_RANDOM_SUFFIX}", name):
            shutil.rmtree(os.path.join(directory, name), ignore_errors=True)
    staging_directory = tempfile.mkdtemp(prefix=f".new-{host}-", dir=directory)
    try:
        yield staging_directory
    finally:
        shutil.rmtree(staging_directory, ignore_errors=True)


def replace_evidence_from_archive(
    archive: str, facts: Mapping[str, Any], staging: str, target: str, limit: int
) -> None:
    """Replace the content of a host's evidence directory by the files of an archive that the host sent.

    The archive is unpacked in the directory ``staging``; ``target`` is the host's directory. Adds ``host.json``. Raises
    AnsibleActionFail for an archive that ``read_host_archive`` refuses, or that holds far more than ``limit`` bytes,
    and for a disk that has no room for them.
    """
    tree = os.path.join(staging, "tree")
    host = os.path.basename(target)
    try:
        os.mkdir(tree, 0o700)
        _unpack(archive, tree, limit + _SLACK)
        # The escape of a name that is not UTF-8 is valid JSON.
        with open(os.path.join(tree, HOST), "w", encoding="utf-8", errors="backslashreplace") as file:
            json.dump(facts, file, indent=1, sort_keys=True, ensure_ascii=False)
            file.write("\n")
    except (tarfile.TarError, OSError) as error:
        if isinstance(error, OSError) and error.strerror:
            raise AnsibleActionFail(
                f"the files that were collected from {host} cannot be written to {target} on the controller "
                f"({error.strerror}). Correct this error, and run the playbook collect again"
            ) from None
        raise AnsibleActionFail(
            f"the files that were collected from {host} cannot be unpacked on the controller, because their archive "
            f"is damaged ({error}). Run the playbook collect again"
        ) from None
    except ValueError as error:  # The error is a sentence with the remedy.
        raise AnsibleActionFail(
            f"the files that were collected from {host} cannot be unpacked on the controller: {error}"
        ) from None
    if os.path.lexists(target):
        old_directory = tempfile.mkdtemp(prefix=f".old-{os.path.basename(target)}-", dir=os.path.dirname(target))
        os.rename(target, os.path.join(old_directory, "tree"))
        os.rename(tree, target)
        shutil.rmtree(old_directory, ignore_errors=True)
    else:
        os.rename(tree, target)


def _unpack(archive: str, tree: str, limit: int) -> None:
    for file in read_host_archive(archive, limit):
        if file.name == HOST:
            raise ValueError(
                f"the archive of collected files that the host sent contains a file {HOST}, which the module collect "
                "never adds. Run the playbook collect again. If this error occurs again, check whether the host is "
                "compromised"
            )
        path = os.path.join(tree, *file.name.split("/"))
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
            target.writelines(file.chunks)
        os.utime(path, (file.mtime, file.mtime))


@contextmanager
def limit_file_size_temporarily(limit: int) -> Iterator[None]:
    """Limit the size of each file that this process writes within a ``with`` block.

    The limit also counts for its child processes. ``limit`` is in bytes; some slack is added. A host that lies may send
    a file without end, and connection plugins of Ansible have no limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size_limit = limit + _SLACK
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (size_limit if hard == resource.RLIM_INFINITY else min(size_limit, hard), hard)
    )
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
