# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""How plugins reach the library, and how its errors reach the user of Ansible."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from ansible.errors import AnsibleError, AnsibleFilterError

_INSTALL = "pip install activemq-fleet"


def library(module: str) -> ModuleType:
    """The module ``activemq_fleet.MODULE``. Raises AnsibleError with the line to run."""
    try:
        return import_module(f"activemq_fleet.{module}")
    except ImportError as error:
        what = "does not have" if error.name == "activemq_fleet" else f"cannot load ({error})"
        raise AnsibleError(
            f"the collection activemq.fleet needs its library, which this Python ({sys.executable}) {what}: {_INSTALL}"
        ) from None


@contextmanager
def speaking(plugin: str, value: object) -> Iterator[None]:
    """Turn what the library refuses into one AnsibleFilterError that names plugin and input."""
    fleet_error: type[Exception] = library("errors").FleetError
    try:
        yield
    except (fleet_error, ValueError, TypeError) as error:
        raise AnsibleFilterError(f"activemq.fleet.{plugin}: {error} (input: {str(value)[:200]!r})") from None
