"""Run a fleet on loopback addresses: real brokers, one address for each host, without root or another network.

``Lab`` is the interface; the other names are types that its methods return.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from activemq_fleet.host.judge import STATES, BrokerState

if TYPE_CHECKING:
    from activemq_fleet.lab.lab import Lab
    from activemq_fleet.lab.loopback_overlay import Substitution
    from activemq_fleet.lab.status import Bridge, HostStatus
    from activemq_fleet.lab.stomp import Credentials

__all__ = ["STATES", "Bridge", "BrokerState", "Credentials", "HostStatus", "Lab", "Substitution"]

_MODULES = {
    **dict.fromkeys(("Bridge", "HostStatus"), "status"),
    **{"Lab": "lab", "Substitution": "loopback_overlay", "Credentials": "stomp"},
}


def __getattr__(name: str) -> Any:
    """Import a name when it is asked for first: ``activemq-fleet status --lab`` needs no more than where a lab is."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
