"""``activemq_agent_*`` variables, and which key of ``agent.conf`` each of them sets.

None means that the key is left out and the agent's own default holds.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from activemq_fleet.settings import variable_types

_ONE_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._ -]*\])?\s*(===?\s*[A-Za-z0-9.+!-]+|@\s*\S.*)")
_Seconds = Annotated[int, Field(ge=1, le=31_536_000)]
_Bound = Annotated[int, Field(ge=1, le=1 << 40)]

VARIABLES = {
    "mb.username": "username",
    "mb.publisher.timeout": "publisher_timeout",
    "mb.publisher.window": "publisher_window",
    "publisher.envelope": "publisher_envelope",
    "publisher.drop.expired": "publisher_drop_expired",
    "publisher.barrier": "publisher_barrier",
    "topics": "topics",
    "client.id": "client_id",
    "state.directory": "state",
    "tls.ca": "tls_ca",
    "tls.certificate": "tls_certificate",
    "tls.key": "tls_key",
    "outbox.rows": "outbox_rows",
    "outbox.bytes": "outbox_bytes",
    "inbox.rows": "inbox_rows",
    "inbox.bytes": "inbox_bytes",
    "topic.rows": "topic_rows",
    "packet.bytes": "packet_bytes",
    "handlers": "handlers",
    "handler.timeout": "handler_timeout",
    "handler.attempts": "handler_attempts",
    "handler.pause": "handler_pause",
    "dedupe.days": "dedupe_days",
    "subscription.offline.limit": "offline_limit",
    "drain.seconds": "drain_seconds",
    "metrics.address": "metrics_address",
    "log.level": "log_level",
}
"""Key of ``agent.conf`` -> variable without ``activemq_agent_``, in the order of the file."""

COMPUTED = {
    "mb.urls": "activemq_agent_pair",
    "mb.password": "activemq_agent_password",
    "mb.password.file": "activemq_agent_password",
}
"""Keys of ``agent.conf`` that ``activemq_agent_options`` may not set, and which variable to use instead."""


def pins_one_version(package: str) -> bool:
    """Return whether ``activemq_agent_package`` pins exactly one version of the agent's Python package.

    It is then a pip requirement for one version, or a URL of a file. The role ``agent`` installs such a requirement as
    written; it takes any other value for a wheel or a directory of wheels.
    """
    return _ONE_VERSION.fullmatch(package) is not None


class AgentSettings(BaseModel):
    """The validated settings of a host's failover agent: its ``activemq_agent_*`` variables.

    The host is in the group ``activemq_agents``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, arbitrary_types_allowed=True)

    agent_group: variable_types.Text | None = None
    agent_pair: variable_types.Text | None = None
    agent_username: variable_types.Principal | None = None
    agent_password: variable_types.Secret | None = None
    agent_publisher_timeout: int = Field(default=900, ge=1, le=31_536_000)
    agent_publisher_window: int = Field(default=100, ge=1, le=10_000)
    agent_publisher_envelope: bool = False
    agent_publisher_drop_expired: bool = False
    agent_publisher_barrier: bool = False
    agent_topics: Annotated[tuple[variable_types.MqttFilter, ...], variable_types.Words] = ()
    agent_publish_prefixes: Annotated[tuple[variable_types.MqttFilter, ...], variable_types.Words] = ()
    agent_client_id: variable_types.Name | None = None
    agent_tls_ca: variable_types.AbsolutePath | None = None
    agent_tls_certificate: variable_types.AbsolutePath | None = None
    agent_tls_key: variable_types.AbsolutePath | None = None
    agent_outbox_rows: _Bound | None = None
    agent_outbox_bytes: _Bound | None = None
    agent_inbox_rows: _Bound | None = None
    agent_inbox_bytes: _Bound | None = None
    agent_topic_rows: _Bound | None = None
    agent_packet_bytes: Annotated[int, Field(ge=4096, le=268_435_455)] | None = None
    agent_handlers: variable_types.AbsolutePath | None = None
    agent_handlers_source: variable_types.Line | None = None
    agent_handler_timeout: _Seconds | None = None
    agent_handler_attempts: Annotated[int, Field(ge=1, le=1000)] | None = None
    agent_handler_pause: _Seconds | None = None
    agent_dedupe_days: Annotated[int, Field(ge=1, le=3650)] | None = None
    agent_offline_limit: _Seconds | None = None
    agent_drain_seconds: int = Field(default=20, ge=0, le=3600)
    agent_metrics_address: variable_types.HostAndPort | None = None
    agent_log_level: Literal["debug", "info", "warning", "error"] | None = None
    agent_options: dict[variable_types.AgentKey, Annotated[variable_types.Text, variable_types.OptionText]] = Field(
        default_factory=dict
    )
    agent_user: variable_types.UnixName = "activemq-agent"
    agent_home: variable_types.AbsolutePath = "/opt/activemq-agent"
    agent_state: variable_types.AbsolutePath = "/var/lib/activemq-agent"
    agent_config: variable_types.AbsolutePath = "/etc/activemq-agent"
    agent_wheelhouse: variable_types.Line | None = None
    agent_package: variable_types.Line | None = None
    agent_python: variable_types.Line = "python3"
    agent_install: bool = True
    agent_service: Literal["systemd", "none"] = "systemd"

    @model_validator(mode="after")
    def _check_agent_settings(self) -> Self:
        variable_types.check_set_together(
            activemq_agent_tls_certificate=self.agent_tls_certificate, activemq_agent_tls_key=self.agent_tls_key
        )
        if self.agent_wheelhouse and self.agent_package:
            raise ValueError(
                "activemq_agent_wheelhouse and activemq_agent_package are both set: remove one of the two variables"
            )
        if wrong := next((prefix for prefix in self.agent_publish_prefixes if prefix.endswith("#")), None):
            raise ValueError(
                f"activemq_agent_publish_prefixes contains {wrong!r}, but a prefix cannot end with #: write the prefix "
                "without #, such as a/b for the topics a/b/EVENT"
            )
        if self.agent_handlers_source and not self.agent_handlers:
            raise ValueError(
                "activemq_agent_handlers_source is set, but activemq_agent_handlers is not: set "
                "activemq_agent_handlers to the directory of the handlers on the host"
            )
        for key in sorted(self.agent_options):
            variable = COMPUTED.get(key) or (f"activemq_agent_{VARIABLES[key]}" if key in VARIABLES else None)
            if variable:
                raise ValueError(f"activemq_agent_options must not set {key!r}: remove the key, and use {variable}")
        return self
