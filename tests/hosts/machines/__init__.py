"""Systemd hosts for tests, in containers of the project; they change nothing outside.

>>> from tests.hosts.machines import Rack, probe                       # doctest: +SKIP
"""

from __future__ import annotations

from .errors import MachinesError, UnsupportedError
from .kernel import probe
from .machine import Machine
from .rack import Rack, remove_orphaned_racks

__all__ = ["Machine", "MachinesError", "Rack", "UnsupportedError", "probe", "remove_orphaned_racks"]
