"""``activemq_metrics*`` variables of a broker: where its metrics are served, to whom, and of which destinations."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from activemq_fleet.settings import variable_types
from activemq_fleet.settings.connectors_and_links import ImmutableSettingsBase

EXPORTER = "jmx_prometheus_javaagent-0.20.0.jar"
"""The Prometheus JMX exporter that serves a broker's metrics: the newest whose jar (0.6 MB) is for Java 8 and later."""
EXPORTER_JAVA = 8
"""The oldest feature release of Java on which the exporter runs: class files of its jar are of version 52 at most."""


class MetricsTlsSettings(ImmutableSettingsBase):
    """The TLS settings of a broker's metrics exporter.

    They are a keystore path, its password, and the key's alias. They are the value of ``activemq_metrics_tls``.
    ``ca_file``: the PEM file of who signed it, where Prometheus runs; None for one that the system there trusts.
    """

    keystore: variable_types.AbsolutePath
    keystore_password: variable_types.Secret
    alias: variable_types.Name
    ca_file: variable_types.AbsolutePath | None = None


class MetricsSettings(ImmutableSettingsBase):
    """The validated ``activemq_metrics*`` variables of a broker.

    ``metrics_port`` is without the port offset.
    """

    metrics: bool = False
    metrics_bind: variable_types.Host = "127.0.0.1"
    metrics_port: variable_types.Port = 9404
    metrics_username: variable_types.Principal | None = None
    metrics_password: variable_types.Secret | None = None
    metrics_tls: MetricsTlsSettings | None = None
    metrics_destinations: Annotated[tuple[variable_types.DestinationPattern, ...], Field(max_length=200)] = ()
    metrics_node_port: variable_types.Port = 9100
    metrics_runbook: variable_types.Text | None = None
    metrics_jar: variable_types.AbsolutePath = f"/opt/activemq-metrics/{EXPORTER}"
    metrics_archive: variable_types.Line | None = None

    @model_validator(mode="after")
    def _check_metrics_login(self) -> Self:
        variable_types.check_set_together(
            activemq_metrics_username=self.metrics_username, activemq_metrics_password=self.metrics_password
        )
        return self
