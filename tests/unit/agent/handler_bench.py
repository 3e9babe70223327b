"""A store with handlers, on which tests of handlers receive messages and wait until these are handled."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from activemq_agent.config import Config
from activemq_agent.executable_handlers import HandlerEvent
from activemq_agent.handling import MessageHandlerRunner
from activemq_agent.store import Store, StoreLimits
from tests.waiting import wait_until

from .logged import RecordedLog, make_config
from .store_clock import receive

TOPICS = ("a/#", "b/#", "a/b/#")


class HandlerBench:
    """A store, its handlers, and messages for them."""

    def __init__(self, directory: Path, programs: Path) -> None:
        self.directory, self.programs = directory, programs
        self.log = RecordedLog()
        self.store = self.open()
        self.handlers: MessageHandlerRunner | None = None
        programs.mkdir(mode=0o755)

    def open(self, topics: tuple[str, ...] = TOPICS) -> Store:
        return Store.open(self.directory / "state", agent="a", limits=StoreLimits(filters=topics))

    def receive(self, topic: str, payload: bytes = b"{}") -> int:
        rx = receive(self.store, topic, payload, conn=1).rx
        if self.handlers:
            self.handlers.wake(topic.split("/")[0] + "/#")
        return rx

    def start(
        self, installed: dict[str, list[Callable[[HandlerEvent], object]]] | None = None, **fields: Any
    ) -> MessageHandlerRunner:
        defaults: dict[str, Any] = {
            "topics": TOPICS, "handler_pause": 0.01, "handlers": self.programs, "handler_timeout": 20,
        }  # fmt: skip
        config: Config = make_config(self.directory, **(defaults | fields))
        self.handlers = MessageHandlerRunner(config, self.store, log=self.log, installed=installed or {})
        self.handlers.start()
        return self.handlers

    def write_program(self, name: str, script: str, mode: int = 0o755) -> Path:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(mode)
        return path

    def wait_until(self, done: Callable[[], bool], seconds: float = 60.0) -> None:
        wait_until(done, "the condition holds", seen=lambda: self.log.records, patience=seconds, pause=0.01)

    def wait_empty(self) -> None:
        self.wait_until(lambda: self.store.row_and_byte_counts().inbox_rows == 0)
        # Waits for the writer's next transaction, which commits its counts.
        self.store.move_or_drop_expired_events()

    def journal(self, kind: str) -> list[dict[str, Any]]:
        records = [json.loads(record.line) for record in self.store.oldest_journal_records(1000)]
        return [record for record in records if record["kind"] == kind]
