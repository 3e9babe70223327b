"""The grammar of broker logs. Pure: text in, records out; lab, resync, drill and audit read it."""

from __future__ import annotations

from activemq_fleet.logs.grammar import Parser, Record, parse
from activemq_fleet.logs.kinds import Event, Kind, classify, kind
from activemq_fleet.logs.story import BridgeUp, Phase, Story, last_error

__all__ = ["BridgeUp", "Event", "Kind", "Parser", "Phase", "Record", "Story", "classify", "kind", "last_error", "parse"]
