"""The agent's log: one line per event on standard error, as JSON or as text, and counters of dropped messages."""

from __future__ import annotations

import contextlib
import sys
import time
from collections import Counter
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import structlog

if TYPE_CHECKING:
    from activemq_agent.config import Config

LOG_EVERY = 60.0
"""Seconds between two lines about the same reason."""
LONGEST_VALUE = 200
"""Characters of a value that are logged; the sender of a message chooses the length of its values."""


class LogInterface(Protocol):
    """The interface of an agent's log: the methods of a structlog logger that the agent calls."""

    def info(self, event: str, **fields: Any) -> Any: ...
    def warning(self, event: str, **fields: Any) -> Any: ...
    def error(self, event: str, **fields: Any) -> Any: ...


class _LogStream:
    """The output stream of an agent's log, which ignores errors, such as a closed pipe."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def msg(self, message: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(f"{message}\n")
            self._stream.flush()

    debug = info = warning = error = critical = msg


def make_log(config: Config, stream: TextIO | None = None) -> structlog.typing.FilteringBoundLogger:
    """Return a structlog logger for an agent, with the level and the format of the agent's configuration.

    These are ``log.level`` and ``log.format``. The log is for any thread.
    """
    render = structlog.processors.JSONRenderer(default=str) if config.log_format == "json" else _render_text
    log: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        _LogStream(sys.stderr if stream is None else stream),
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


def _render_text(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    fields = dict(event)
    prefix = f"{fields.pop('ts')} {fields.pop('level'):7} {fields.pop('event')}"
    return " ".join([prefix, *(f"{key}={_quote_value(value)}" for key, value in fields.items())])


def _quote_value(value: Any) -> str:
    """Return a value as one word, quoted with ``repr`` where it has spaces, quotes, ``=`` or unprintable characters."""
    text = str(value)
    return text if text and text.isprintable() and not set(text) & set(" =\"'") else repr(text)


class DroppedMqttMessageCounters:
    """Counters of the received MQTT messages that an agent dropped, by reason.

    A reason is one of the texts in this program, and never a text from a message.
    """

    def __init__(self, log: LogInterface, clock: Callable[[], float] = time.monotonic) -> None:
        self.counts: Counter[str] = Counter()
        self._log, self._clock = log, clock
        self._logged_at: dict[str, float] = {}

    def count_dropped_message(self, reason: str, **fields: Any) -> None:
        """Count a received message that the agent dropped, by its reason.

        Log it with ``fields`` unless ``reason`` was logged within the last minute.
        """
        self.counts[reason] += 1
        now = self._clock()
        if now - self._logged_at.get(reason, -LOG_EVERY) >= LOG_EVERY:
            self._logged_at[reason] = now
            shortened = {name: str(value)[:LONGEST_VALUE] for name, value in fields.items()}
            self._log.warning("received data dropped", reason=reason, so_far=self.counts[reason], **shortened)
