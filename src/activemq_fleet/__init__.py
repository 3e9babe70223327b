"""activemq.fleet: host names into proven, highly available fleets of ActiveMQ Classic brokers."""

from __future__ import annotations

__version__ = "0.1.0"
