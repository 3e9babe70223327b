"""A log that tests read, and configurations in code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from activemq_agent.config import Config
from activemq_agent.config_values import Endpoint


class RecordedLog:
    """Keeps what is logged: (level, event, fields)."""

    def __init__(self) -> None:
        self.records: list[tuple[str, str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.records.append(("info", event, fields))

    def warning(self, event: str, **fields: Any) -> None:
        self.records.append(("warning", event, fields))

    def error(self, event: str, **fields: Any) -> None:
        self.records.append(("error", event, fields))

    def events(self, level: str) -> list[str]:
        return [event for one, event, _ in self.records if one == level]


def make_config(directory: Path, **fields: Any) -> Config:
    """A configuration whose state is in a directory."""
    defaults: dict[str, Any] = {
        "urls": (Endpoint("127.0.0.1", 1),), "client_id": "agent-1", "state_directory": directory,
    }  # fmt: skip
    return Config(**(defaults | fields))
