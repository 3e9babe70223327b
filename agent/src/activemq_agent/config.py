"""The agent's configuration as data classes, each field with its key of agent.conf; ``config_parser`` reads the file.

agent.conf is an INI file with the section ``[agent]``, keys in lower case with dots. A relative path counts from the
directory of the file; a key without a value has its default.
"""

# ruff: noqa: RUF009 -- _key_field returns a field, as dataclasses.field does

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from activemq_agent import config_values as values
from activemq_agent.config_values import Endpoint, HostAndExpectedCertificateName, Password
from activemq_agent.connecting import ConnectionSettings
from activemq_agent.store import StoreLimits

DAY = 86_400.0
YEAR = 31_536_000

_DEFAULT_LIMITS = StoreLimits()
_parse_seconds = values.number_parser(YEAR, above=0)
_parse_limit = values.integer_parser(1, 1 << 40)


def _key_field(name: str, parse: Callable[[str], Any], default: Any = None, **options: Any) -> Any:
    """Return a data class's field with the key of agent.conf that sets it.

    ``parse`` turns the key's text into the value, or raises ValueError with the reason.
    """
    if "default_factory" not in options:
        options["default"] = default
    return field(**options, metadata={"key": name, "parse": parse})


@dataclass(frozen=True, slots=True)
class AgentTlsSettings:
    """The TLS settings of an agent.

    These are PEM files of authorities, certificate and key; ``names`` are the expected certificate names. Host names
    are always checked, and TLS versions before 1.2 are rejected.
    """

    ca: Path | None = _key_field("tls.ca", Path)
    certificate: Path | None = _key_field("tls.certificate", Path)
    key: Path | None = _key_field("tls.key", Path)
    names: tuple[HostAndExpectedCertificateName, ...] = _key_field(
        "tls.certificate.names", values.parse_hosts_and_certificate_names, ()
    )


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration of an agent.

    Times are in seconds, sizes in bytes of topics and payloads.
    """

    urls: tuple[Endpoint, ...] = _key_field("mb.urls", values.parse_brokers, ())
    username: str | None = _key_field("mb.username", str)
    password: Password | None = _key_field("mb.password", Password)
    password_file: Path | None = _key_field("mb.password.file", Path)
    publisher_timeout: float = _key_field("mb.publisher.timeout", _parse_seconds, 900.0)
    publisher_window: int = _key_field("mb.publisher.window", values.integer_parser(1, 10_000), 100)
    publisher_envelope: bool = _key_field("publisher.envelope", values.parse_boolean, False)
    drop_expired: bool = _key_field("publisher.drop.expired", values.parse_boolean, False)
    barrier: bool = _key_field("publisher.barrier", values.parse_boolean, False)
    topics: tuple[str, ...] = _key_field("topics", values.parse_topic_filters, ())
    client_id: str = _key_field("client.id", values.parse_client_or_agent_name, default_factory=socket.gethostname)
    agent: str = _key_field("agent.name", values.parse_client_or_agent_name, "")
    """The agent's name in event ids and in the journal; ``client_id`` if empty."""
    state_directory: Path = _key_field("state.directory", Path, Path("/var/lib/activemq-agent"))
    socket: Path = _key_field("socket", Path, Path())
    """The agent's UNIX socket; ``agent.sock`` in ``state_directory`` if not set."""
    outbox_rows: int = _key_field("outbox.rows", _parse_limit, _DEFAULT_LIMITS.outbox_rows)
    outbox_bytes: int = _key_field("outbox.bytes", _parse_limit, _DEFAULT_LIMITS.outbox_bytes)
    inbox_rows: int = _key_field("inbox.rows", _parse_limit, _DEFAULT_LIMITS.inbox_rows)
    inbox_bytes: int = _key_field("inbox.bytes", _parse_limit, _DEFAULT_LIMITS.inbox_bytes)
    topic_rows: int = _key_field("topic.rows", _parse_limit, _DEFAULT_LIMITS.topic_rows)
    packet_bytes: int = _key_field("packet.bytes", values.integer_parser(4096, 268_435_455), 1 << 20)
    handlers: Path | None = _key_field("handlers", Path)
    handler_timeout: float = _key_field("handler.timeout", _parse_seconds, 60.0)
    handler_attempts: int = _key_field("handler.attempts", values.integer_parser(1, 1000), 6)
    handler_pause: float = _key_field("handler.pause", _parse_seconds, 1.0)
    dedupe_days: float = _key_field("dedupe.days", values.number_parser(3650, above=0), 7.0)
    offline_limit: float = _key_field("subscription.offline.limit", _parse_seconds, 6 * DAY)
    drain_seconds: float = _key_field("drain.seconds", values.number_parser(3600), 20.0)
    ready: Literal["outbox", "subscription"] = _key_field(
        "ready.when", values.choice_parser("outbox", "subscription"), "outbox"
    )
    metrics_address: Endpoint | None = _key_field("metrics.address", values.parse_listening_endpoint)
    log_level: str = _key_field("log.level", values.choice_parser("debug", "info", "warning", "error"), "info")
    log_format: str = _key_field("log.format", values.choice_parser("json", "text"), "json")
    tls: AgentTlsSettings = AgentTlsSettings()
    policy: ConnectionSettings = field(default_factory=ConnectionSettings)

    def __post_init__(self) -> None:
        if not self.agent:
            object.__setattr__(self, "agent", self.client_id)
        if self.socket == Path():
            object.__setattr__(self, "socket", self.state_directory / "agent.sock")

    @property
    def login_user_description(self) -> str:
        """A description, for messages, of the user that logs in to brokers, such as ``the user 'agent'``."""
        return f"the user {self.username!r}" if self.username else "clients without a user name"

    @property
    def store_limits(self) -> StoreLimits:
        """Return the limits of the agent's store (numbers of rows, bytes and seconds), from its configuration."""
        shared = {limit.name for limit in dataclasses.fields(StoreLimits)} & {
            key.name for key in dataclasses.fields(self)
        }
        return StoreLimits(
            **{name: getattr(self, name) for name in shared},
            filters=self.topics,
            timeout=self.publisher_timeout,
            remember=self.dedupe_days * DAY,
        )


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key of the agent's configuration file agent.conf.

    ``parse`` turns its text into the value, or raises ValueError with the reason. ``part`` is the attribute of
    ``Config`` that has the ``field``: ``tls`` or ``policy``, empty for fields of ``Config`` itself. ``default`` is None
    if there is no default, and a text if the default follows from something else.
    """

    name: str
    part: str
    field: str
    parse: Callable[[str], Any]
    default: Any

    def value_in(self, config: Config) -> Any:
        """Return the value that a key of agent.conf has in a configuration."""
        return getattr(getattr(config, self.part) if self.part else config, self.field)


_DERIVED_DEFAULTS = {
    "mb.urls": None,
    "client.id": "the host's name",
    "agent.name": "client.id",
    "socket": "agent.sock in state.directory",
}


def _keys_of(part: str, kind: type[Config | AgentTlsSettings]) -> list[ConfigKey]:
    """Return the keys of agent.conf that set fields of a data class."""
    return [
        ConfigKey(
            name, part, attribute.name, attribute.metadata["parse"], _DERIVED_DEFAULTS.get(name, attribute.default)
        )
        for attribute in dataclasses.fields(kind)
        if (name := attribute.metadata.get("key"))
    ]


def _policy_keys() -> list[ConfigKey]:
    """Return the keys ``connecting.*`` of agent.conf, one for each field of ``ConnectionSettings``."""
    return [
        ConfigKey(f"connecting.{name.replace('_', '.')}", "policy", name, values.duration_parser(default), default)
        for name, default in (
            (attribute.name, attribute.default) for attribute in dataclasses.fields(ConnectionSettings)
        )
    ]


KEYS = (*_keys_of("", Config), *_keys_of("tls", AgentTlsSettings), *_policy_keys())
"""Every key of agent.conf, in the order of the manual."""


def parse_tls(texts: Mapping[str, str]) -> AgentTlsSettings:
    """Parse the texts of the ``tls.*`` keys of agent.conf, and return the TLS settings.

    Relative paths stay relative. Raises ValueError with the reason for a value that cannot be used.
    """
    return AgentTlsSettings(
        **{key.field: key.parse(texts[key.name]) for key in KEYS if key.part == "tls" and texts.get(key.name)}
    )


def format_value(value: Any) -> str:
    """Format a value of the agent's configuration as text for agent.conf.

    Secrets are formatted as asterisks, and None as the empty string.
    """
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}"
        case Password():
            return "********"
        case tuple():
            return ",".join(map(format_value, value))
    return str(value)
