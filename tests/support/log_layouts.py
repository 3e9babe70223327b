"""Logs of the default layout converted to other layouts of log4j, as other appenders write the same records."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from activemq_fleet.node.log.log_records import Record, parse_log

SUMMER = timezone(timedelta(hours=2))


def time_with_comma(record: Record) -> str:
    return f"{record.time:%Y-%m-%d %H:%M:%S},{record.time.microsecond // 1000:03}"


def iso_time(record: Record) -> str:
    return time_with_comma(record).replace(" ", "T")


def time_with_dot(record: Record) -> str:
    return time_with_comma(record).replace(",", ".")


def time_with_offset(record: Record) -> str:
    """Return the time of a broker whose host uses UTC, with a time zone offset."""
    local = record.time.replace(tzinfo=UTC).astimezone(SUMMER)
    return f"{local:%Y-%m-%dT%H:%M:%S},{local.microsecond // 1000:03}+02:00"


def utc_time(record: Record) -> str:
    return f"{time_with_dot(record).replace(' ', 'T')}Z"


def epoch_milliseconds(record: Record) -> float:
    return (record.time.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1)


def text_writer(template: str) -> Callable[[Record], str]:
    """Return a function that writes records by a template with the names of their parts."""

    def write(record: Record) -> str:
        times = {
            "comma": time_with_comma(record),
            "iso": iso_time(record),
            "dot": time_with_dot(record),
            "offset": time_with_offset(record),
        }
        parts = {"level": record.level, "message": record.message, "logger": record.logger, "thread": record.thread}
        return template.format(**times, **parts) + (f"\n{record.stack}" if record.stack else "")

    return write


def json_writer(make: Callable[[Record], dict[str, Any]]) -> Callable[[Record], str]:
    """Return a function that writes each record as a JSON object on one line."""
    return lambda record: json.dumps({key: value for key, value in make(record).items() if value != ""})


def json_layout(record: Record) -> dict[str, Any]:
    """Return a record of JsonLayout with compact, eventEol and stacktraceAsString."""
    milliseconds = int(epoch_milliseconds(record))
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
    return {"timeMillis": int(epoch_milliseconds(record)), **fields}


def ecs(record: Record) -> dict[str, Any]:
    """Return a record of JsonTemplateLayout with EcsLayout.json, its default."""
    return {
        "@timestamp": utc_time(record),
        "ecs.version": "1.2.0",
        "log.level": record.level,
        "message": record.message,
        "process.thread.name": record.thread,
        "log.logger": record.logger,
        "error.stack_trace": record.stack,
    }


def logstash(record: Record) -> dict[str, Any]:
    """Return a record of JsonTemplateLayout with LogstashJsonEventLayoutV1.json, as Logstash for log4j 1 writes it."""
    return {
        "@version": 1,
        "source_host": "mq01",
        "message": record.message,
        "thread_name": record.thread,
        "@timestamp": utc_time(record).replace("Z", "+0000"),
        "level": record.level,
        "logger_name": record.logger,
        "exception": {"stacktrace": record.stack} if record.stack else "",
    }


def gelf(record: Record) -> dict[str, Any]:
    """Return a record of JsonTemplateLayout with GelfLayout.json."""
    return {
        "version": "1.1",
        "host": "mq01",
        "short_message": record.message,
        "full_message": record.stack,
        "timestamp": epoch_milliseconds(record) / 1000,
        "level": {"FATAL": 2, "ERROR": 3, "WARN": 4, "INFO": 6, "DEBUG": 7, "TRACE": 7}[record.level],
        "_logger": record.logger,
        "_thread": record.thread,
    }


def gcp(record: Record) -> dict[str, Any]:
    """Return a record of JsonTemplateLayout with GcpLayout.json."""
    return {
        "timestamp": utc_time(record),
        "severity": {"WARN": "WARNING"}.get(record.level, record.level),
        "message": f"{record.message} {record.stack.strip()}" if record.stack else record.message,
        "_exception": {"stackTrace": record.stack} if record.stack else "",
        "_thread": record.thread,
        "_logger": record.logger,
    }


WITH_THREADS = {
    "ISO date with bars": text_writer("{iso} | {level:<5} | {message} | {logger} | {thread}"),
    "zone with bars": text_writer("{offset} | {level:<5} | {message} | {logger} | {thread}"),
    "dot with bars": text_writer("{dot} | {level:<5} | {message} | {logger} | {thread}"),
    "level in brackets": text_writer("{comma} | [{level:<5}] | {message} | {logger} | {thread}"),
    "date and level in brackets": text_writer("[{dot}] | [{level}] | {message} | {logger} | {thread}"),
    "thread first": text_writer("{comma} [{thread}] {level:<5} {logger} - {message}"),
    "thread first, ISO date": text_writer("{iso} [{thread}] {level:<5} {logger} - {message}"),
    "thread first, level in brackets": text_writer("[{dot}] [{thread}] [{level:<5}] {logger}: {message}"),
    "level first": text_writer("{offset} {level:<5} [{thread}] {logger} - {message}"),
    "class in brackets": text_writer("{comma} {level:<5} [{logger}] ({thread}) {message}"),
    "class before thread": text_writer("{dot} {level:<5} {logger} [{thread}] - {message}"),
    "JsonLayout": json_writer(json_layout),
    "JsonLayout of log4j 2.8": json_writer(json_layout_of_2_8),
    "ECS": json_writer(ecs),
    "Logstash": json_writer(logstash),
    "GELF": json_writer(gelf),
    "GCP": json_writer(gcp),
}
"""The layouts whose records contain all parts of the default layout, by name."""
WITHOUT_THREADS = {
    "log4j's example": text_writer("{comma} {level:<5} {logger} - {message}"),
    "class in brackets without thread": text_writer("{iso} [{level}] [{logger}] {message}"),
}


def log_in_layout(log: bytes, write: Callable[[Record], str]) -> bytes:
    """Return a log of the default layout in another layout."""
    return "".join(f"{write(record)}\n" for record in parse_log(log.decode())).encode()
