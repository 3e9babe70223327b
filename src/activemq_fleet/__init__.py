"""activemq.fleet: turns host names into tested, highly available fleets of ActiveMQ Classic brokers."""

from __future__ import annotations

__version__ = "0.1.0"
