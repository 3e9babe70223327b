"""Run a fleet on loopback addresses: real brokers, one address for each host, without root or another network.

``Lab`` is the interface; the other names are types that its methods return.
"""

from __future__ import annotations

from activemq_fleet.host.judge import STATES, BrokerState
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.loopback_overlay import Substitution
from activemq_fleet.lab.status import Bridge, HostStatus
from activemq_fleet.lab.stomp import Credentials

__all__ = ["STATES", "Bridge", "BrokerState", "Credentials", "HostStatus", "Lab", "Substitution"]
