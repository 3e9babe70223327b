"""Systemd hosts for tests, in containers of the project's own; nothing outside is touched.

>>> from tests.hosts.machines import Rack, probe                       # doctest: +SKIP
"""

from __future__ import annotations

from .errors import MachinesError, UnsupportedError
from .kernel import probe
from .machine import Machine
from .rack import Rack, sweep

__all__ = ["Machine", "MachinesError", "Rack", "UnsupportedError", "probe", "sweep"]
