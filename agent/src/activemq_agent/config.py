"""The agent's configuration as data classes; ``config_parser`` makes them from agent.conf."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from activemq_agent.addresses import join
from activemq_agent.connecting import Policy
from activemq_agent.store import Limits

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker of ``mb.urls``: host, port, and whether it is reached by TLS. ``str()`` gives the entry's text."""

    host: str
    port: int
    tls: bool = False

    def __str__(self) -> str:
        return ("ssl://" if self.tls else "") + join(self.host, self.port)


@dataclass(frozen=True, slots=True)
class CertificateName:
    """One entry of ``tls.certificate.names``: the name that the certificate of a host of ``mb.urls`` must hold."""

    host: str
    name: str

    def __str__(self) -> str:
        return f"{self.host}={self.name}"


@dataclass(frozen=True, slots=True)
class Secret:
    """A password or other secret text; ``repr()`` does not show it."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Tls:
    """The agent's TLS files, in PEM: authorities, certificate and key; ``names``: expected certificate names.

    Host names are always checked, and nothing below TLS 1.2 is spoken.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    names: tuple[CertificateName, ...] = ()


_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Config:
    """The agent's configuration. Times are in seconds, sizes in bytes of topics and payloads."""

    urls: tuple[Broker, ...]
    username: str | None = None
    password: Secret | None = None
    password_file: Path | None = None
    publisher_timeout: float = 900.0
    publisher_window: int = 100
    publisher_envelope: bool = False
    drop_expired: bool = False
    barrier: bool = False
    topics: tuple[str, ...] = ()
    client_id: str = field(default_factory=socket.gethostname)
    agent: str = ""
    """The agent's name in event ids and in the journal; ``client_id`` if empty."""
    state_directory: Path = Path("/var/lib/activemq-agent")
    socket: Path = Path()
    """The agent's UNIX socket; ``agent.sock`` in ``state_directory`` if not set."""
    tls: Tls = Tls()
    outbox_rows: int = _LIMITS.outbox_rows
    outbox_bytes: int = _LIMITS.outbox_bytes
    inbox_rows: int = _LIMITS.inbox_rows
    inbox_bytes: int = _LIMITS.inbox_bytes
    topic_rows: int = _LIMITS.topic_rows
    packet_bytes: int = 1 << 20
    handlers: Path | None = None
    handler_timeout: float = 60.0
    handler_attempts: int = 6
    handler_pause: float = 1.0
    dedupe_days: float = 7.0
    offline_limit: float = 6 * DAY
    drain_seconds: float = 20.0
    ready: Literal["outbox", "subscription"] = "outbox"
    metrics_address: tuple[str, int] | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["json", "text"] = "json"
    policy: Policy = field(default_factory=Policy)

    def __post_init__(self) -> None:
        if not self.agent:
            object.__setattr__(self, "agent", self.client_id)
        if self.socket == Path():
            object.__setattr__(self, "socket", self.state_directory / "agent.sock")

    @property
    def limits(self) -> Limits:
        """The store's bounds and times that follow from the configuration."""
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
