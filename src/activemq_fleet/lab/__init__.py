"""The fleet on loopback: real brokers, each host on an address of its own, no root, no network.

``Lab`` is all that most need; ``clients`` has small MQTT and STOMP clients that fail over.
"""

from __future__ import annotations

from activemq_fleet.host.judge import STATES, BrokerState
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.loopback_overlay import Substitution
from activemq_fleet.lab.status import Bridge, HostStatus
from activemq_fleet.lab.stomp import Credentials

__all__ = ["STATES", "Bridge", "BrokerState", "Credentials", "HostStatus", "Lab", "Substitution"]
