"""The agent's configuration: INI, section ``[agent]``, keys in lower case with dots.

``KEYS`` is the table of all keys. A relative path counts from the directory of the file; a key without a value has
its default.
"""

from __future__ import annotations

import dataclasses
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic.fields import FieldInfo

from activemq_agent.addresses import join, parse_listening, parse_url
from activemq_agent.connecting import Policy
from activemq_agent.store import Limits

YEAR = 31_536_000
DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Broker:
    """One entry of ``mb.urls``."""

    host: str
    port: int
    tls: bool = False

    def __str__(self) -> str:
        return ("ssl://" if self.tls else "") + join(self.host, self.port)


@dataclass(frozen=True, slots=True)
class CertificateName:
    """One entry of ``tls.names``: the name that the certificate of ``host`` must hold, as in ``mb.urls``."""

    host: str
    name: str

    def __str__(self) -> str:
        return f"{self.host}={self.name}"


@dataclass(frozen=True, slots=True)
class Key:
    """How a field stands in the file, and what it means."""

    name: str
    what: str


def words(value: Any) -> Any:
    """A comma-separated text as a tuple; anything else as it is."""
    return tuple(word.strip() for word in value.split(",") if word.strip()) if isinstance(value, str) else value


def _brokers(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    found = tuple(Broker(*address, tls) for address, tls in map(parse_url, words(value)))
    if not found:
        raise ValueError("is empty: list the brokers, host:1883,host:1883")
    again = next((broker for number, broker in enumerate(found) if broker in found[:number]), None)
    if again is not None:
        raise ValueError(f"names {again} twice")
    return found


def _certificate_names(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    pairs = [entry.partition("=") for entry in words(value)]
    if not all(host and name for host, _, name in pairs):
        raise ValueError("must be HOST=NAME,HOST=NAME")
    return tuple(CertificateName(host, name) for host, _, name in pairs)


def _address(value: Any) -> Any:
    return parse_listening(value) if isinstance(value, str) else value


def check_filter(text: str) -> str:
    """An MQTT topic filter. Raises ValueError with the reason (MQTT 3.1.1, section 4.7)."""
    levels = text.split("/")
    if not text or len(text.encode()) > 65535 or not text.isprintable():
        raise ValueError(f"{text[:80]!r} is no topic filter: 1 to 65535 bytes, printable")
    if any("#" in level and (level != "#" or number < len(levels) - 1) for number, level in enumerate(levels)):
        raise ValueError(f"{text!r} is no topic filter: # stands alone, and at the end")
    if any("+" in level and level != "+" for level in levels):
        raise ValueError(f"{text!r} is no topic filter: + stands alone between slashes")
    return text


def _filters(value: tuple[str, ...]) -> tuple[str, ...]:
    again = next((one for number, one in enumerate(value) if one in value[:number]), None)
    if again is not None:
        raise ValueError(f"names {again} twice")
    return value


def _name(text: str) -> str:
    if not text.isprintable() or not text.isascii() or any(c in text for c in " /+#\"'"):
        raise ValueError(f"{text!r} is no name here: ASCII letters, digits and . _ : - are")
    return text


Seconds = Annotated[float, Field(gt=0, le=YEAR, allow_inf_nan=False)]
Rows = Annotated[int, Field(ge=1, le=1 << 40)]
Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_name)]

_FROZEN = ConfigDict(frozen=True, extra="forbid")
_LIMITS = Limits()


class Tls(BaseModel):
    """Files in PEM. Host names are always checked, and nothing below TLS 1.2 is spoken."""

    model_config = _FROZEN

    ca: Annotated[Path | None, Key("tls.ca", "authorities of brokers' certificates; the system's without it")] = None
    certificate: Annotated[Path | None, Key("tls.certificate", "the agent's own certificate, with its chain")] = None
    key: Annotated[Path | None, Key("tls.key", "the key of that certificate, without a passphrase")] = None
    names: Annotated[
        tuple[CertificateName, ...],
        BeforeValidator(_certificate_names),
        Key("tls.names", "`HOST=NAME`, with commas: the name that the certificate of a host of `mb.urls` must hold"),
    ] = ()


class Config(BaseModel):
    """What an agent runs on. Times are in seconds, sizes in bytes of topics and payloads."""

    model_config = _FROZEN

    urls: Annotated[
        tuple[Broker, ...],
        BeforeValidator(_brokers),
        Key("mb.urls", "brokers in the order in which they are tried: `host:port` or `ssl://host:port`, with commas"),
    ]
    username: Annotated[str | None, Key("mb.username", "user of the broker")] = None
    password: Annotated[SecretStr | None, Key("mb.password", "its password; better in a file of its own")] = None
    password_file: Annotated[
        Path | None,
        Key(
            "mb.password.file",
            "file that holds only the password; the systemd credential `mb.password` is read without being named",
        ),
    ] = None
    publisher_timeout: Annotated[
        Seconds, Key("mb.publisher.timeout", "seconds from acceptance until an event that was not sent expires")
    ] = 900.0
    publisher_window: Annotated[
        int, Field(ge=1, le=10_000), Key("mb.publisher.window", "publishes that wait for their PUBACK at most")
    ] = 100
    publisher_envelope: Annotated[
        bool, Key("publisher.envelope", "wrap payloads that are no JSON objects, so that they carry an id")
    ] = False
    drop_expired: Annotated[
        bool, Key("publisher.drop.expired", "drop expired events, which is losing them, instead of keeping them apart")
    ] = False
    barrier: Annotated[bool, Key("publisher.barrier", "send a barrier every minute, not only when stopping")] = False
    topics: Annotated[
        tuple[Annotated[str, AfterValidator(check_filter)], ...],
        BeforeValidator(words),
        AfterValidator(_filters),
        Key("topics", "topic filters to subscribe to, with commas; each has its own worker and bound"),
    ] = ()
    client_id: Annotated[
        Name, Key("client.id", "names the durable session: stable, and used by no other client of the brokers")
    ] = Field(default_factory=socket.gethostname)
    agent: Annotated[Name, Key("agent.name", "AGENT in event ids and in the journal")] = Field(
        default_factory=lambda before: before["client_id"]
    )
    state_directory: Annotated[Path, Key("state.directory", "outbox, inbox, journal and socket; one agent each")] = (
        Path("/var/lib/activemq-agent")
    )
    socket: Annotated[Path, Key("socket", "where the running agent answers `publish` and `status`")] = Field(
        default_factory=lambda before: before["state_directory"] / "agent.sock"
    )
    tls: Tls = Tls()
    outbox_rows: Annotated[Rows, Key("outbox.rows", "events that may wait to be sent; more are refused")] = (
        _LIMITS.outbox_rows
    )
    outbox_bytes: Annotated[Rows, Key("outbox.bytes", "the same in bytes")] = _LIMITS.outbox_bytes
    inbox_rows: Annotated[Rows, Key("inbox.rows", "messages that may wait to be handled; the broker keeps more")] = (
        _LIMITS.inbox_rows
    )
    inbox_bytes: Annotated[Rows, Key("inbox.bytes", "the same in bytes")] = _LIMITS.inbox_bytes
    topic_rows: Annotated[Rows, Key("topic.rows", "the same for each topic filter")] = _LIMITS.topic_rows
    packet_bytes: Annotated[
        int,
        Field(ge=4096, le=268_435_455),
        Key("packet.bytes", "the largest MQTT packet that is received; larger messages stay with the broker"),
    ] = 1 << 20
    handlers: Annotated[Path | None, Key("handlers", "directory of executables, one named as each event")] = None
    handler_timeout: Annotated[Seconds, Key("handler.timeout", "seconds that a handler may run")] = 60.0
    handler_attempts: Annotated[
        int, Field(ge=1, le=1000), Key("handler.attempts", "runs of a handler before its event goes into quarantine")
    ] = 6
    handler_pause: Annotated[
        Seconds, Key("handler.pause", "seconds before the second run; doubled before each more")
    ] = 1.0
    dedupe_days: Annotated[
        float, Field(gt=0, le=3650, allow_inf_nan=False), Key("dedupe.days", "days that handled ids are remembered")
    ] = 7.0
    offline_limit: Annotated[
        Seconds,
        Key(
            "subscription.offline.limit",
            "seconds that brokers keep the subscription of an agent that is away "
            "(`offlineDurableSubscriberTimeout`): `check` compares `dedupe.days` with it",
        ),
    ] = 6 * DAY
    drain_seconds: Annotated[
        float,
        Field(ge=0, le=3600, allow_inf_nan=False),
        Key("drain.seconds", "seconds to empty the outbox on stopping"),
    ] = 20.0
    ready: Annotated[
        Literal["outbox", "subscription"],
        Key("ready.when", "when systemd hears that the agent is ready: with the outbox, or once subscribed"),
    ] = "outbox"
    metrics_address: Annotated[
        tuple[str, int] | None,
        BeforeValidator(_address),
        Key("metrics.address", "host:port for Prometheus; a port alone is on 127.0.0.1"),
    ] = None
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Key("log.level", "the least that is told")] = (
        "info"
    )
    log_format: Annotated[Literal["json", "text"], Key("log.format", "lines of JSON, or for people")] = "json"
    policy: Policy = Policy()

    @property
    def limits(self) -> Limits:
        """The bounds of the store."""
        return Limits(
            outbox_rows=self.outbox_rows,
            outbox_bytes=self.outbox_bytes,
            inbox_rows=self.inbox_rows,
            inbox_bytes=self.inbox_bytes,
            topic_rows=self.topic_rows,
            filters=self.topics,
            timeout=self.publisher_timeout,
            drop_expired=self.drop_expired,
            remember=self.dedupe_days * DAY,
        )


_POLICY = {
    "connack_timeout": "seconds that a broker has for CONNACK",
    "fast_phase": "seconds after a loss in which rounds follow each other quickly",
    "hung_phase": "the same at most, while a broker opens connections and says nothing",
    "fast_pause": "shortest and longest pause between those rounds",
    "base": "first longest pause after that; it doubles",
    "cap": "longest pause of all",
    "steady": "shortest share of the longest pause, once an agent has its place",
    "refused_pause": "pause after refused credentials",
    "keepalive": "MQTT keep-alive",
    "canary_interval": "seconds between round trips",
    "canary_timeout": "seconds until one that is not back is a miss",
    "canary_misses": "misses in a row that end a connection",
    "working": "seconds after which a connection has worked",
    "stable": "seconds after which the growth of pauses is forgotten",
    "puback_timeout": "seconds that a broker has for PUBACK",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the table of keys: ``path`` leads to the value in ``Config``; ``default`` is None for none."""

    name: str
    path: tuple[str, ...]
    default: Any
    what: str


_MADE = {"client_id": "the host's name", "agent": "client.id", "socket": "agent.sock in state.directory"}


def _default(info: FieldInfo) -> Any:
    return None if info.is_required() else info.default


def _entries(model: type[BaseModel], prefix: tuple[str, ...] = ()) -> list[Entry]:
    return [
        Entry(key.name, (*prefix, field), _MADE.get(field, _default(info)), key.what)
        for field, info in model.model_fields.items()
        for key in info.metadata
        if isinstance(key, Key)
    ]


KEYS: tuple[Entry, ...] = (
    *_entries(Config),
    *_entries(Tls, ("tls",)),
    *(
        Entry(f"connecting.{one.name.replace('_', '.')}", ("policy", one.name), one.default, _POLICY[one.name])
        for one in dataclasses.fields(Policy)
    ),
)
"""Every key of the file."""


def value_of(config: Config, entry: Entry) -> Any:
    """The value that a key has in a configuration."""
    value: Any = config
    for name in entry.path:
        value = getattr(value, name)
    return value


def spell(value: Any) -> str:
    """A value as it stands in the file, secrets masked; nothing for None."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}"
        case SecretStr():
            return "********"
        case (str() as host, int() as port):
            return join(host, port)
        case tuple():
            return ",".join(map(spell, value))
    return str(value)
