"""The keys of agent.conf: INI, section ``[agent]``, keys in lower case with dots.

``KEYS`` is the table of all keys. A relative path counts from the directory of the file; a key without a value has
its default.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from activemq_agent.addresses import join, parse_listening, parse_url
from activemq_agent.config import Broker, CertificateName, Config, Secret, Tls

YEAR = 31_536_000


# -- a key's text -> its value; ValueError with the reason -------------------------------------------


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _refuse_twice(values: tuple[Any, ...]) -> None:
    again = next((value for number, value in enumerate(values) if value in values[:number]), None)
    if again is not None:
        raise ValueError(f"names {again} twice")


def _brokers(text: str) -> tuple[Broker, ...]:
    found = tuple(Broker(*address, tls) for address, tls in map(parse_url, _words(text)))
    if not found:
        raise ValueError("is empty: list the brokers, host:1883,host:1883")
    _refuse_twice(found)
    return found


def _certificate_names(text: str) -> tuple[CertificateName, ...]:
    pairs = [entry.partition("=") for entry in _words(text)]
    if not all(host and name for host, _, name in pairs):
        raise ValueError("must be HOST=NAME,HOST=NAME")
    return tuple(CertificateName(host, name) for host, _, name in pairs)


def _check_filter(text: str) -> None:
    """Raise ValueError with the reason if a text is no MQTT topic filter (MQTT 3.1.1, section 4.7)."""
    levels = text.split("/")
    if not text or len(text.encode()) > 65535 or not text.isprintable():
        raise ValueError(f"{text[:80]!r} is no topic filter: 1 to 65535 bytes, printable")
    if any("#" in level and (level != "#" or number < len(levels) - 1) for number, level in enumerate(levels)):
        raise ValueError(f"{text!r} is no topic filter: # stands alone, and at the end")
    if any("+" in level and level != "+" for level in levels):
        raise ValueError(f"{text!r} is no topic filter: + stands alone between slashes")


def _filters(text: str) -> tuple[str, ...]:
    found = _words(text)
    for one in found:
        _check_filter(one)
    _refuse_twice(found)
    return found


def _name(text: str) -> str:
    if len(text) > 200:
        raise ValueError("must have at most 200 characters")
    if not text.isprintable() or not text.isascii() or any(c in text for c in " /+#\"'"):
        raise ValueError(f"{text!r} is no name here: ASCII letters, digits and . _ : - are")
    return text


def _truth(text: str) -> bool:
    word = text.lower()
    if word in ("true", "t", "yes", "y", "on", "1"):
        return True
    if word in ("false", "f", "no", "n", "off", "0"):
        return False
    raise ValueError("must be true or false")


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            *others, last = map(repr, words)
            raise ValueError(f"must be {', '.join(others)} or {last}")
        return text

    return parse


def _number(text: str) -> float:
    try:
        value = float(text) if text.isascii() else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError("must be a number")
    return value


def _integer(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+(_[0-9]+)*(\.0+)?", text):
        raise ValueError("must be a whole number")
    if len(text) > 100:
        raise ValueError("is too large")
    return int(text.partition(".")[0])


def _up_to(most: int, *, above: int | None = None) -> Callable[[str], float]:
    """Return a parser of numbers from 0 (or above ``above``) to ``most``; it raises ValueError with the reason."""

    def parse(text: str) -> float:
        value = _number(text)
        if above is not None and value <= above:
            raise ValueError(f"must be above {above}")
        if value < 0:
            raise ValueError("must be at least 0")
        if value > most:
            raise ValueError(f"must be at most {most}")
        return value

    return parse


def _whole_number(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = _integer(text)
        if value < least:
            raise ValueError(f"must be at least {least}")
        if value > most:
            raise ValueError(f"must be at most {most}")
        return value

    return parse


def _refuse_out_of_range(*values: float) -> None:
    """Raise ValueError if a number of the ``connecting.*`` keys is not above 0 and at most 86400."""
    if not all(0 < value <= 86_400 for value in values):
        raise ValueError("must be above 0 and at most 86400")


def _pause(text: str) -> float:
    value = _number(text)
    _refuse_out_of_range(value)
    return value


def _count(text: str) -> int:
    value = _integer(text)
    _refuse_out_of_range(value)
    return value


def _pauses(text: str) -> tuple[float, float]:
    try:
        shortest, longest = map(_number, _words(text))
    except ValueError:
        raise ValueError("must be two numbers: the shortest pause, the longest") from None
    _refuse_out_of_range(shortest, longest)
    return shortest, longest


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key of agent.conf. ``what`` describes it, ``parse`` turns its text into the value or raises ValueError.

    ``path`` holds the names of the attributes that lead to the value in ``Config``; ``default`` is None if there is no
    default.
    """

    name: str
    path: tuple[str, ...]
    parse: Callable[[str], Any]
    what: str
    default: Any


_DEFAULTS = Config(urls=())
_MADE = {
    "mb.urls": None,
    "client.id": "the host's name",
    "agent.name": "client.id",
    "socket": "agent.sock in state.directory",
}
_SECONDS = _up_to(YEAR, above=0)
_ROWS = _whole_number(1, 1 << 40)


def _at(config: Config, path: tuple[str, ...]) -> Any:
    value: Any = config
    for name in path:
        value = getattr(value, name)
    return value


def _key(name: str, field: str, parse: Callable[[str], Any], what: str) -> ConfigKey:
    path = tuple(field.split("."))
    return ConfigKey(name, path, parse, what, _MADE[name] if name in _MADE else _at(_DEFAULTS, path))


KEYS: tuple[ConfigKey, ...] = (
    _key(
        "mb.urls",
        "urls",
        _brokers,
        "brokers in the order in which they are tried: `host:port` or `ssl://host:port`, with commas",
    ),
    _key("mb.username", "username", str, "user of the broker"),
    _key("mb.password", "password", Secret, "its password; better in a file of its own"),
    _key(
        "mb.password.file",
        "password_file",
        Path,
        "file that holds only the password; the systemd credential `mb.password` is read without being named",
    ),
    _key(
        "mb.publisher.timeout",
        "publisher_timeout",
        _SECONDS,
        "seconds from acceptance until an event that was not sent expires",
    ),
    _key(
        "mb.publisher.window",
        "publisher_window",
        _whole_number(1, 10_000),
        "publishes that wait for their PUBACK at most",
    ),
    _key(
        "publisher.envelope",
        "publisher_envelope",
        _truth,
        "wrap payloads that are no JSON objects, so that they carry an id",
    ),
    _key(
        "publisher.drop.expired",
        "drop_expired",
        _truth,
        "drop expired events, which is losing them, instead of keeping them apart",
    ),
    _key("publisher.barrier", "barrier", _truth, "send a barrier every minute, not only when stopping"),
    _key("topics", "topics", _filters, "topic filters to subscribe to, with commas; each has its own worker and bound"),
    _key(
        "client.id", "client_id", _name, "names the durable session: stable, and used by no other client of the brokers"
    ),
    _key("agent.name", "agent", _name, "AGENT in event ids and in the journal"),
    _key("state.directory", "state_directory", Path, "outbox, inbox, journal and socket; one agent each"),
    _key("socket", "socket", Path, "where the running agent answers `publish` and `status`"),
    _key("outbox.rows", "outbox_rows", _ROWS, "events that may wait to be sent; more are refused"),
    _key("outbox.bytes", "outbox_bytes", _ROWS, "the same in bytes"),
    _key("inbox.rows", "inbox_rows", _ROWS, "messages that may wait to be handled; the broker keeps more"),
    _key("inbox.bytes", "inbox_bytes", _ROWS, "the same in bytes"),
    _key("topic.rows", "topic_rows", _ROWS, "the same for each topic filter"),
    _key(
        "packet.bytes",
        "packet_bytes",
        _whole_number(4096, 268_435_455),
        "the largest MQTT packet that is received; larger messages stay with the broker",
    ),
    _key("handlers", "handlers", Path, "directory of executables, one named as each event"),
    _key("handler.timeout", "handler_timeout", _SECONDS, "seconds that a handler may run"),
    _key(
        "handler.attempts",
        "handler_attempts",
        _whole_number(1, 1000),
        "runs of a handler before its event goes into quarantine",
    ),
    _key("handler.pause", "handler_pause", _SECONDS, "seconds before the second run; doubled before each more"),
    _key("dedupe.days", "dedupe_days", _up_to(3650, above=0), "days that handled ids are remembered"),
    _key(
        "subscription.offline.limit",
        "offline_limit",
        _SECONDS,
        "seconds that brokers keep the subscription of an agent that is away "
        "(`offlineDurableSubscriberTimeout`): `check` compares `dedupe.days` with it",
    ),
    _key("drain.seconds", "drain_seconds", _up_to(3600), "seconds to empty the outbox on stopping"),
    _key(
        "ready.when",
        "ready",
        _one_of("outbox", "subscription"),
        "when systemd hears that the agent is ready: with the outbox, or once subscribed",
    ),
    _key(
        "metrics.address", "metrics_address", parse_listening, "host:port for Prometheus; a port alone is on 127.0.0.1"
    ),
    _key("log.level", "log_level", _one_of("debug", "info", "warning", "error"), "the least that is told"),
    _key("log.format", "log_format", _one_of("json", "text"), "lines of JSON, or for people"),
    _key("tls.ca", "tls.ca", Path, "authorities of brokers' certificates; the system's without it"),
    _key("tls.certificate", "tls.certificate", Path, "the agent's own certificate, with its chain"),
    _key("tls.key", "tls.key", Path, "the key of that certificate, without a passphrase"),
    _key(
        "tls.certificate.names",
        "tls.names",
        _certificate_names,
        "`HOST=NAME`, with commas: the name that the certificate of a host of `mb.urls` must hold",
    ),
    _key("connecting.connack.timeout", "policy.connack_timeout", _pause, "seconds that a broker has for CONNACK"),
    _key(
        "connecting.fast.phase",
        "policy.fast_phase",
        _pause,
        "seconds after a loss in which rounds follow each other quickly",
    ),
    _key(
        "connecting.hung.phase",
        "policy.hung_phase",
        _pause,
        "the same at most, while a broker opens connections and says nothing",
    ),
    _key("connecting.fast.pause", "policy.fast_pause", _pauses, "shortest and longest pause between those rounds"),
    _key("connecting.base", "policy.base", _pause, "first longest pause after that; it doubles"),
    _key("connecting.cap", "policy.cap", _pause, "longest pause of all"),
    _key(
        "connecting.steady", "policy.steady", _pause, "shortest share of the longest pause, once an agent has its place"
    ),
    _key("connecting.refused.pause", "policy.refused_pause", _pause, "pause after refused credentials"),
    _key("connecting.keepalive", "policy.keepalive", _count, "MQTT keep-alive"),
    _key("connecting.canary.interval", "policy.canary_interval", _pause, "seconds between round trips"),
    _key("connecting.canary.timeout", "policy.canary_timeout", _pause, "seconds until one that is not back is a miss"),
    _key("connecting.canary.misses", "policy.canary_misses", _count, "misses in a row that end a connection"),
    _key("connecting.stable", "policy.stable", _pause, "seconds after which the growth of pauses is forgotten"),
    _key("connecting.puback.timeout", "policy.puback_timeout", _pause, "seconds that a broker has for PUBACK"),
)
"""Every key of the file."""


def parse_tls(texts: Mapping[str, str]) -> Tls:
    """Return the TLS settings that the ``tls.*`` keys among ``texts`` give; relative paths stay relative.

    Raises ValueError with the reason for a value that cannot be used.
    """
    given = {key.path[1]: key.parse(texts[key.name]) for key in KEYS if key.path[0] == "tls" and texts.get(key.name)}
    return Tls(**given)


def value_of(config: Config, key: ConfigKey) -> Any:
    """Return the value that a key of agent.conf has in a configuration."""
    return _at(config, key.path)


def format_value(value: Any) -> str:
    """Return a configuration value as agent.conf spells it: secrets as asterisks, None as the empty string."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}"
        case Secret():
            return "********"
        case (str() as host, int() as port):
            return join(host, port)
        case tuple():
            return ",".join(map(format_value, value))
    return str(value)
