"""Compose the java command of a broker: the program, its options (``ACTIVEMQ_OPTS``), class path and arguments."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.addresses import join_host_port
from activemq_fleet.render.broker_paths import METRICS, paths_of_broker
from activemq_fleet.render.debian_package import MQTT_JARS, has_mqtt_connector
from activemq_fleet.render.log_configuration import log_configuration_file_names_by_property
from activemq_fleet.topology import Broker

# What the releases' start script passes to Java 9 and later: XStream, which turns objects of STOMP
# and of the console into text, and the release's own JMX connector reach into these packages.
_OPENED_PACKAGES = (
    "java.base/java.lang",
    "java.base/java.net",
    "java.base/java.security",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/sun.nio.ch",
    "java.naming/javax.naming.spi",
    "java.rmi/sun.rmi.transport.tcp",
)


def java_path(broker: Broker) -> str:
    """Return the path of the java program of a broker.

    It is below ``activemq_java_home`` where it is set, else ``/usr/bin/java``.
    """
    home = broker.settings.java_home
    return f"{home}/bin/java" if home else "/usr/bin/java"


def java_options(broker: Broker) -> tuple[str, ...]:
    """Return the Java options of a broker (``ACTIVEMQ_OPTS``).

    They are heap, options of the release, the metrics exporter, then ``activemq_java_options``.
    """
    return (
        f"-Xmx{broker.settings.heap}",
        *_release_options(broker),
        *_metrics_options(broker),
        *broker.settings.java_options,
    )


# Seconds that the HTTP server of the exporter gives a client to send a request and to read the answer. Without them ten
# idle connections hold all its threads for longer than a minute (exporter 0.20.0 in 5.18.3).
_METRICS_TIMEOUT_OPTIONS = ("-Dsun.net.httpserver.maxReqTime=5", "-Dsun.net.httpserver.maxRspTime=30")


def _metrics_options(broker: Broker) -> Iterator[str]:
    settings = broker.settings
    if settings.metrics:
        listen_address = join_host_port(settings.metrics_bind, broker.ports["metrics"])
        yield from _METRICS_TIMEOUT_OPTIONS
        yield f"-javaagent:{settings.metrics_jar}={listen_address}:{paths_of_broker(broker).current}/{METRICS}"


def arguments_after_java_options(broker: Broker) -> tuple[str, ...]:
    """Return the arguments of a broker's java command that follow the Java options.

    They are directories, class path, main class, configuration. Measured under systemd 252 with the whole unit: 5.18.3
    (distribution: take-over, a lost lock, a full store) and a pure pair of 5.5.1 (jars); without a unit also 6.3.1
    (jars).
    """
    paths = paths_of_broker(broker)
    jars = broker.settings.install == "jars"
    return (
        f"-Dactivemq.home={paths.home}",
        f"-Dactivemq.base={paths.base}",
        f"-Dactivemq.conf={paths.conf}",
        f"-Dactivemq.data={paths.data}",
        *(
            f"-D{name}=file:{paths.conf}/{log}"
            for name, log in log_configuration_file_names_by_property(broker).items()
        ),
        "-cp",
        ":".join(_class_path(broker)),
        "org.apache.activemq.console.Main",
        *(("--noDefExt",) if jars else ()),
        "start",
        f"xbean:file:{paths.conf}/activemq.xml",
    )


def _class_path(broker: Broker) -> Iterator[str]:
    settings, home = broker.settings, paths_of_broker(broker).home
    yield f"{home}/lib/*" if settings.install == "jars" else f"{home}/{broker.release.start_jar}"
    if settings.install == "package" and has_mqtt_connector(broker):
        yield from MQTT_JARS
    if settings.jdbc and settings.jdbc.jar:
        yield settings.jdbc.jar


def _release_options(broker: Broker) -> Iterator[str]:
    release, paths = broker.release, paths_of_broker(broker)
    if release.java_minimum >= 8:
        # A JVM without memory keeps its lock and serves no client. Its standby takes over after the JVM exits.
        yield "-XX:+ExitOnOutOfMemoryError"
    if release.java_minimum >= 9:
        for package in _OPENED_PACKAGES:
            yield f"--add-opens={package}=ALL-UNNAMED"
    if broker.settings.jmx:
        # A JMX client connects to a second address: that of the queried machine, not the one that the machine reports.
        yield f"-Djava.rmi.server.hostname={broker.address}"
    if broker.settings.console:
        if release.console_accounts == "jaas":
            yield f"-Djava.security.auth.login.config={paths.conf}/login.config"
        if release.jolokia_policy_file == "conf/jolokia-access.xml":
            # Without this path, Jolokia finds no policy and allows every request.
            yield f"-Djolokia.conf=file:{paths.conf}/jolokia-access.xml"
