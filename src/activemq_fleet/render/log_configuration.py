"""Render the log configuration of a broker: ``log4j.properties`` or ``log4j2.properties``."""

from __future__ import annotations

from functools import cache

from activemq_fleet.render.engine import render_template
from activemq_fleet.topology import Broker

_LOG_SIZE = "10MB"
_LOG_BACKUPS = "10"
# As in the releases: the INFO records of these loggers do not help operators.
_LOGGERS_AT_WARN = (
    "org.apache.activemq.spring",
    "org.apache.activemq.web.handler",
    "org.springframework",
    "org.apache.xbean",
    "org.eclipse.jetty",
)


@cache
def render_log_configuration(name: str) -> bytes:
    """Return a log configuration, ``log4j.properties`` or ``log4j2.properties``; it is the same for all brokers."""
    return render_template(f"broker/{name}.j2", quiet=_LOGGERS_AT_WARN, size=_LOG_SIZE, backups=_LOG_BACKUPS)


def log_configuration_file_names_by_property(broker: Broker) -> dict[str, str]:
    """Return the names of the release's log configuration files, by the Java system property that names each.

    Debian links its package to Log4j 1 whatever the release ships (seen with 5.17.2): both are there then.
    """
    both = {"log4j.configuration": "log4j.properties", "log4j2.configurationFile": "log4j2.properties"}
    packaged = broker.settings.install == "package"
    return {name: log for name, log in both.items() if packaged or log == broker.release.log_file_name}
