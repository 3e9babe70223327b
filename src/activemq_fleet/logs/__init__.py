"""Read broker logs. Pure: text goes in, records come out; lab, resync, drills and audit use it."""

from __future__ import annotations

from activemq_fleet.logs.broker_run import BridgeUp, BrokerRun, Phase, last_error
from activemq_fleet.logs.grammar import ParsedRecord, Parser, parse
from activemq_fleet.logs.kinds import LogEvent, classify, kind

__all__ = [
    "BridgeUp",
    "BrokerRun",
    "LogEvent",
    "ParsedRecord",
    "Parser",
    "Phase",
    "classify",
    "kind",
    "last_error",
    "parse",
]
