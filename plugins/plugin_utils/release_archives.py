# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Inspects, on the controller, the archives and directories that releases are installed from."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Any

from ansible_collections.activemq.fleet.plugins.plugin_utils.library import import_module_of_node_package

NodeError = import_module_of_node_package("errors").NodeError
releases_in_archive = import_module_of_node_package("install.jars").releases_in_archive
releases_in_directory = import_module_of_node_package("install.jars").releases_in_directory

_CHUNK = 1 << 20


def release_archive_facts(
    path: str, install_method: str, find_on_controller: Callable[[str], str | None]
) -> dict[str, Any] | None:
    """Return facts about an archive from which ActiveMQ is installed: the releases in it and its SHA-512.

    The archive may also be a directory. The facts are a dictionary of the fields of ``operations.ReleaseArchive``:
    ``releases``, ``sha512`` and ``is_directory``, or ``problem``, a sentence about the error; None for a URL.
    ``install_method`` is ``archive`` or ``jars``. ``find_on_controller`` returns the file to which Ansible resolves a
    relative path, None if it does not exist.
    """
    if "://" in path:
        return None
    file = os.path.expanduser(path)
    if not os.path.isabs(file) and not (install_method == "jars" and os.path.isdir(file)):
        controller_file = find_on_controller(file)
        if controller_file is None:
            problem = (
                f"the file {path} does not exist on the controller. Ansible searches relative paths next to the "
                "playbook. Copy the file there, or set an absolute path"
            )
            return {"problem": problem}
        file = controller_file
    if not os.path.exists(file):
        return {"problem": f"the file {path} does not exist on the controller. Copy it there, or correct the path"}
    if os.path.isdir(file) and install_method == "jars":
        return _directory_facts(file)
    sha512 = _sha512(file)
    try:
        return {
            "releases": tuple(releases_in_archive(file, is_distribution=install_method != "jars")),
            "sha512": sha512,
        }
    except NodeError as error:
        return {"problem": str(error), "sha512": sha512}


def _directory_facts(directory: str) -> dict[str, Any]:
    try:
        return {"releases": tuple(releases_in_directory(directory)), "is_directory": True}
    except OSError as error:
        problem = (
            f"the directory {directory} on the controller cannot be read: {error.strerror}. Give the account that runs "
            "the playbook access to it, or correct the path"
        )
        return {"problem": problem}


def _sha512(file: str) -> str | None:
    """Return the SHA-512 of a file in hexadecimal; None if it cannot be read."""
    digest = hashlib.sha512()
    try:
        with open(file, "rb") as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
    except OSError:
        return None
    return digest.hexdigest()
