"""Render the environment file of a broker, which its systemd unit and ActiveMQ's start script read."""

from __future__ import annotations

from activemq_fleet.render.broker_paths import paths_of_broker
from activemq_fleet.render.engine import quote_environment_value, render_template
from activemq_fleet.render.java_command import java_options, java_path
from activemq_fleet.topology import Broker


def environment_file_relative_path(broker: Broker) -> str:
    """Return the path of a broker's environment file, relative to the directory of its rendered files.

    It is ``etc/default/INSTANCE``, ``bin/env`` or ``bin/setenv``.
    """
    name = broker.release.environment_file
    return f"{name}/{broker.settings.instance}" if name == "etc/default" else name


def render_environment_file(broker: Broker) -> bytes:
    """Return the environment file of a broker; its values are quoted for shells and systemd."""
    variables = [(name, quote_environment_value(value)) for name, value in environment_variables(broker).items()]
    return render_template("broker/environment.j2", variables=variables)


def environment_variables(broker: Broker) -> dict[str, str]:
    """Return the environment variables of a broker's process.

    They are as in its environment file.
    """
    paths, home = paths_of_broker(broker), broker.settings.java_home
    return ({"JAVA_HOME": home, "JAVACMD": java_path(broker)} if home else {}) | {
        "ACTIVEMQ_HOME": paths.home,
        "ACTIVEMQ_BASE": paths.base,
        "ACTIVEMQ_CONF": paths.conf,
        "ACTIVEMQ_DATA": paths.data,
        "ACTIVEMQ_OPTS_MEMORY": f"-Xmx{broker.settings.heap}",
        "ACTIVEMQ_OPTS": " ".join(java_options(broker)),
    }
