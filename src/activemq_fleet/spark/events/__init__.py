"""Broker logs -> the dataset ``events``, on Spark."""

from __future__ import annotations

from activemq_fleet.spark.events.build import events, gaps
from activemq_fleet.spark.events.parse import EVENTS

__all__ = ["EVENTS", "events", "gaps"]
