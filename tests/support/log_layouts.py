"""Logs of the default layout, written in other layouts of log4j: the same records as other appenders write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from activemq_fleet.node.log.log_records import Record, parse_log

SUMMER = timezone(timedelta(hours=2))


def comma(record: Record) -> str:
    return f"{record.time:%Y-%m-%d %H:%M:%S},{record.time.microsecond // 1000:03}"


def iso(record: Record) -> str:
    return comma(record).replace(" ", "T")


def dot(record: Record) -> str:
    return comma(record).replace(",", ".")


def offset(record: Record) -> str:
    """A time with a zone, of a broker whose host has UTC."""
    local = record.time.replace(tzinfo=UTC).astimezone(SUMMER)
    return f"{local:%Y-%m-%dT%H:%M:%S},{local.microsecond // 1000:03}+02:00"


def utc(record: Record) -> str:
    return f"{dot(record).replace(' ', 'T')}Z"


def epoch(record: Record) -> float:
    return (record.time.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1)


def pattern(text: str) -> Callable[[Record], str]:
    """Return a writer of records by a text with the names of a record's parts."""

    def write(record: Record) -> str:
        times = {"comma": comma(record), "iso": iso(record), "dot": dot(record), "offset": offset(record)}
        parts = {"level": record.level, "message": record.message, "logger": record.logger, "thread": record.thread}
        return text.format(**times, **parts) + (f"\n{record.stack}" if record.stack else "")

    return write


def objects(make: Callable[[Record], dict[str, Any]]) -> Callable[[Record], str]:
    """Return a writer of records as JSON objects in a line each."""
    return lambda record: json.dumps({key: value for key, value in make(record).items() if value != ""})


def json_layout(record: Record) -> dict[str, Any]:
    """JsonLayout with compact, eventEol and stacktraceAsString."""
    milliseconds = int(epoch(record))
    return {
        "instant": {"epochSecond": milliseconds // 1000, "nanoOfSecond": milliseconds % 1000 * 1_000_000},
        "thread": record.thread,
        "level": record.level,
        "loggerName": record.logger,
        "message": record.message,
        "thrown": {"commonElementCount": 0, "extendedStackTrace": record.stack} if record.stack else "",
        "endOfBatch": False,
        "loggerFqcn": "org.apache.logging.slf4j.Log4jLogger",
    }


def json_layout_of_2_8(record: Record) -> dict[str, Any]:
    fields = json_layout(record)
    del fields["instant"]
    return {"timeMillis": int(epoch(record)), **fields}


def ecs(record: Record) -> dict[str, Any]:
    """JsonTemplateLayout with EcsLayout.json, its default."""
    return {
        "@timestamp": utc(record),
        "ecs.version": "1.2.0",
        "log.level": record.level,
        "message": record.message,
        "process.thread.name": record.thread,
        "log.logger": record.logger,
        "error.stack_trace": record.stack,
    }


def logstash(record: Record) -> dict[str, Any]:
    """JsonTemplateLayout with LogstashJsonEventLayoutV1.json, and the layout of Logstash for log4j 1."""
    return {
        "@version": 1,
        "source_host": "mq01",
        "message": record.message,
        "thread_name": record.thread,
        "@timestamp": utc(record).replace("Z", "+0000"),
        "level": record.level,
        "logger_name": record.logger,
        "exception": {"stacktrace": record.stack} if record.stack else "",
    }


def gelf(record: Record) -> dict[str, Any]:
    """JsonTemplateLayout with GelfLayout.json."""
    return {
        "version": "1.1",
        "host": "mq01",
        "short_message": record.message,
        "full_message": record.stack,
        "timestamp": epoch(record) / 1000,
        "level": {"FATAL": 2, "ERROR": 3, "WARN": 4, "INFO": 6, "DEBUG": 7, "TRACE": 7}[record.level],
        "_logger": record.logger,
        "_thread": record.thread,
    }


def gcp(record: Record) -> dict[str, Any]:
    """JsonTemplateLayout with GcpLayout.json."""
    return {
        "timestamp": utc(record),
        "severity": {"WARN": "WARNING"}.get(record.level, record.level),
        "message": f"{record.message} {record.stack.strip()}" if record.stack else record.message,
        "_exception": {"stackTrace": record.stack} if record.stack else "",
        "_thread": record.thread,
        "_logger": record.logger,
    }


WITH_THREADS = {
    "ISO date with bars": pattern("{iso} | {level:<5} | {message} | {logger} | {thread}"),
    "zone with bars": pattern("{offset} | {level:<5} | {message} | {logger} | {thread}"),
    "dot with bars": pattern("{dot} | {level:<5} | {message} | {logger} | {thread}"),
    "level in brackets": pattern("{comma} | [{level:<5}] | {message} | {logger} | {thread}"),
    "date and level in brackets": pattern("[{dot}] | [{level}] | {message} | {logger} | {thread}"),
    "thread first": pattern("{comma} [{thread}] {level:<5} {logger} - {message}"),
    "thread first, ISO date": pattern("{iso} [{thread}] {level:<5} {logger} - {message}"),
    "thread first, level in brackets": pattern("[{dot}] [{thread}] [{level:<5}] {logger}: {message}"),
    "level first": pattern("{offset} {level:<5} [{thread}] {logger} - {message}"),
    "class in brackets": pattern("{comma} {level:<5} [{logger}] ({thread}) {message}"),
    "class before thread": pattern("{dot} {level:<5} {logger} [{thread}] - {message}"),
    "JsonLayout": objects(json_layout),
    "JsonLayout of log4j 2.8": objects(json_layout_of_2_8),
    "ECS": objects(ecs),
    "Logstash": objects(logstash),
    "GELF": objects(gelf),
    "GCP": objects(gcp),
}
"""The layouts whose records hold all that the default layout has, by a name."""
WITHOUT_THREADS = {
    "log4j's example": pattern("{comma} {level:<5} {logger} - {message}"),
    "class in brackets without thread": pattern("{iso} [{level}] [{logger}] {message}"),
}


def in_layout(log: bytes, write: Callable[[Record], str]) -> bytes:
    """Return a log of the default layout in another one."""
    return "".join(f"{write(record)}\n" for record in parse_log(log.decode())).encode()
