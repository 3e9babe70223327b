"""Read broker logs. Pure: text goes in, records come out; lab, resync, drills and audit use it."""

from __future__ import annotations

from activemq_fleet.logs.broker_run import BridgeUp, BrokerRun, Phase, last_error
from activemq_fleet.logs.grammar import Parser, Record, parse
from activemq_fleet.logs.kinds import Event, classify, kind

__all__ = ["BridgeUp", "BrokerRun", "Event", "Parser", "Phase", "Record", "classify", "kind", "last_error", "parse"]
