"""A log that tests read, and configurations that tests create."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from activemq_agent.config import Config
from activemq_agent.config_values import Endpoint


class RecordedLog:
    """A log that keeps its records as (level, event, fields)."""

    def __init__(self) -> None:
        self.records: list[tuple[str, str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.records.append(("info", event, fields))

    def warning(self, event: str, **fields: Any) -> None:
        self.records.append(("warning", event, fields))

    def error(self, event: str, **fields: Any) -> None:
        self.records.append(("error", event, fields))

    def events(self, level: str) -> list[str]:
        return [event for record_level, event, _ in self.records if record_level == level]


def make_config(directory: Path, **fields: Any) -> Config:
    """Return a configuration whose state is in a directory."""
    defaults: dict[str, Any] = {
        "urls": (Endpoint("127.0.0.1", 1),), "client_id": "agent-1", "state_directory": directory,
    }  # fmt: skip
    return Config(**(defaults | fields))
