# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Loads modules of the library ``activemq_fleet`` for plugins, and turns the library's errors into Ansible's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

from ansible.errors import AnsibleError, AnsibleFilterError

_INSTALL = "run `make package` in a checkout, and there: pip install dist/activemq_fleet-*.whl"


def api(name: str) -> Any:
    """Return a function or class of the library's public API. Raises AnsibleError if the library is not installed."""
    with _import_errors():
        return getattr(import_module("activemq_fleet"), name)


def library(module: str) -> ModuleType:
    """Import and return a module of the library activemq_fleet. Raises AnsibleError if it is not installed."""
    with _import_errors():
        return import_module(f"activemq_fleet.{module}")


@contextmanager
def _import_errors() -> Iterator[None]:
    """Context manager: turn an ImportError into an AnsibleError that names the Python and what to install."""
    try:
        yield
    except ImportError as error:
        what = "does not have" if error.name == "activemq_fleet" else f"cannot load ({error})"
        raise AnsibleError(
            f"the collection activemq.fleet needs its library, which this Python ({sys.executable}) {what}: {_INSTALL}"
        ) from None


def node_module(name: str) -> ModuleType:
    """Import and return a module of the package ``node``: that of the library, or where none is installed, our own.

    So no process imports one file under two names, with two sets of classes.
    """
    try:
        return import_module(f"activemq_fleet.node.{name}")
    except ModuleNotFoundError as error:
        if error.name != "activemq_fleet":
            raise
        return import_module(f"ansible_collections.activemq.fleet.plugins.module_utils.node.{name}")


@contextmanager
def filter_errors(plugin: str, value: object) -> Iterator[None]:
    """Context manager: turn the library's errors into an AnsibleFilterError that names plugin and input."""
    fleet_error: type[Exception] = api("FleetError")
    try:
        yield
    except (fleet_error, ValueError, TypeError) as error:
        raise AnsibleFilterError(f"activemq.fleet.{plugin}: {error} (input: {str(value)[:200]!r})") from None
