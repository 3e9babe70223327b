# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Loads modules of the library ``activemq_fleet`` for plugins, and turns the library's errors into Ansible's."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from ansible.errors import AnsibleError, AnsibleFilterError
from ansible.release import __version__ as release

COLLECTION_VERSION = "0.1.0"
"""The version in galaxy.yml, which an installed collection does not contain; ``scripts.set_version`` writes both."""
OLDEST_ANSIBLE = (2, 19)
"""The oldest ansible-core whose templates the library can evaluate, as in meta/runtime.yml."""
_INSTALL_HINT = (
    "install the wheel of a release (`make package` builds it in a checkout): pip install dist/activemq_fleet-*.whl"
)


class LibraryError(AnsibleError):
    """An error for a library activemq_fleet that is not installed or has a wrong version."""


def import_from_public_api(name: str) -> Any:
    """Import and return a function or class of the public API of the library activemq_fleet.

    Raises LibraryError without a usable library.
    """
    check_library()
    with _import_errors():
        return getattr(import_module("activemq_fleet"), name)


def import_library_module(module: str) -> ModuleType:
    """Import and return a module of the library activemq_fleet.

    Raises LibraryError without a usable library.
    """
    check_library()
    with _import_errors():
        return import_module(f"activemq_fleet.{module}")


def check_library() -> None:
    """Check that the library activemq_fleet is installed in the right version, and raise LibraryError otherwise.

    An ansible-core that is too old is also an error. It is reported first, because the library cannot be installed next
    to it.
    """
    _refuse_old_ansible()
    with _import_errors():
        package = import_module("activemq_fleet")
    version = getattr(package, "__version__", "unknown")
    if version != COLLECTION_VERSION:
        raise LibraryError(
            f"the collection activemq.fleet has version {COLLECTION_VERSION} ({_collection_directory()}), but the "
            f"library activemq-fleet has version {version} ({Path(package.__file__ or '').parent}). Their versions "
            f"must be equal. To use version {version}, remove {_collection_directory()}: Ansible then uses the "
            f"collection in the wheel of the library. To use version {COLLECTION_VERSION}, {_INSTALL_HINT}"
        )


def _collection_directory() -> Path:
    return Path(__file__).parents[2]


@contextmanager
def _import_errors() -> Iterator[None]:
    """Context manager: turn an ImportError into a LibraryError that names the Python and what to install."""
    try:
        yield
    except ImportError as error:
        problem = "does not have it" if error.name == "activemq_fleet" else f"cannot load it ({error})"
        raise LibraryError(
            "the collection activemq.fleet requires the Python library activemq-fleet, but the Python of Ansible "
            f"({sys.executable}) {problem}. To correct this, {_INSTALL_HINT}"
        ) from None


def _refuse_old_ansible() -> None:
    if tuple(int(number) for number in re.findall(r"\d+", release)[:2]) < OLDEST_ANSIBLE:
        oldest = ".".join(map(str, OLDEST_ANSIBLE))
        raise LibraryError(
            f"the collection activemq.fleet requires ansible-core {oldest} or later, but the Python of Ansible "
            f"({sys.executable}) has ansible-core {release}. Install a newer ansible-core, with Python 3.11 or "
            f"later: pip install 'ansible-core>={oldest}'"
        )


def import_module_of_node_package(name: str) -> ModuleType:
    """Import and return a host module, a module of the package ``node`` that programs on hosts use.

    It is that of the library, or if none is installed, that of the collection. So no process imports one file under two
    names, with two sets of classes. Raises LibraryError if the library has another version than this collection.
    """
    if importlib.util.find_spec("activemq_fleet") is None:
        return import_module(f"ansible_collections.activemq.fleet.plugins.module_utils.node.{name}")
    check_library()
    return import_module(f"activemq_fleet.node.{name}")


@contextmanager
def translate_errors_to_filter_error(plugin: str, value: object) -> Iterator[None]:
    """Translate the library's errors in a ``with`` block to AnsibleFilterError.

    The error names the filter and its input.
    """
    fleet_error: type[Exception] = import_from_public_api("FleetError")
    try:
        yield
    except (fleet_error, ValueError, TypeError) as error:
        raise AnsibleFilterError(f"activemq.fleet.{plugin}: {error} (input: {str(value)[:200]!r})") from None
