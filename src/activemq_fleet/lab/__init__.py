"""Run a fleet on loopback addresses: real brokers, one address for each host, without root or another network.

``Lab`` is the interface, also for users' own tests. It is imported on first use: ``activemq-fleet status`` needs only
the directory of a lab.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from activemq_fleet.lab.lab import Lab

__all__ = ["Lab"]

if not TYPE_CHECKING:  # A type checker would accept every name of a module with __getattr__.

    def __getattr__(name):
        """Import ``Lab`` on first use."""
        if name != "Lab":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from activemq_fleet.lab.lab import Lab

        return Lab
