"""The agent's log: one line per event on standard error, as JSON or as text."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog

from activemq_agent.config import Config


class _Lines:
    """The log's output stream; errors of the stream (its reader went away) are ignored."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def msg(self, message: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(f"{message}\n")
            self._stream.flush()

    debug = info = warning = error = critical = msg


def make_log(config: Config, stream: TextIO | None = None) -> structlog.typing.FilteringBoundLogger:
    """Return a logger for any thread, with the configuration's ``log.level`` and ``log.format``."""
    render = structlog.processors.JSONRenderer(default=str) if config.log_format == "json" else _as_text
    log: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        _Lines(sys.stderr if stream is None else stream),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
            structlog.processors.format_exc_info,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(config.log_level),
        cache_logger_on_first_use=True,
    )
    return log


def _as_text(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    fields = dict(event)
    head = f"{fields.pop('ts')} {fields.pop('level'):7} {fields.pop('event')}"
    return " ".join([head, *(f"{key}={_word(value)}" for key, value in fields.items())])


def _word(value: Any) -> str:
    """Return a value as one word, quoted with ``repr`` where it has spaces, quotes, ``=`` or unprintable characters."""
    text = str(value)
    return text if text and text.isprintable() and not set(text) & set(" =\"'") else repr(text)
