"""Render the files that run a broker on its host: environment file, logging configuration and systemd units.

The unit starts java directly and not ``bin/activemq``. So there is no fork and no pid file, the command line is the
same for an archive and for jars, and systemd sees the broker's own exit code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from activemq_fleet.addresses import join_host_port
from activemq_fleet.node.process.service_names import watchdog_service_name
from activemq_fleet.node.protocols import protocol_name_of_scheme
from activemq_fleet.render.engine import (
    escape_systemd_value,
    escape_systemd_word,
    quote_environment_value,
    render_template,
)
from activemq_fleet.render.systemd_memory import WATCHDOG_MEMORY, broker_systemd_memory_max
from activemq_fleet.topology import Broker

STORE_MARKER = ".activemq-fleet-pair"
"""The name of the marker file in a shared store, which contains the name of the pair that owns the store."""

_LOG_SIZE = "10MB"
_LOG_BACKUPS = "10"
# As in the releases: these log at INFO what does not help operators.
_QUIET = (
    "org.apache.activemq.spring",
    "org.apache.activemq.web.handler",
    "org.springframework",
    "org.apache.xbean",
    "org.eclipse.jetty",
)
# What the releases' start script passes to Java 9 and later: XStream, which turns objects of STOMP
# and of the console into text, and the release's own JMX connector reach into these packages.
_OPENED = (
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
METRICS = "conf/metrics.yml"
"""The path, in a broker's tree, of the configuration of the metrics exporter."""
FENCE_COMMAND = "conf/fence-command.json"
"""The path, in a broker's tree, of the call that its guard makes for ``activemq_fence: command``."""
_FIRST_FREE_PORT = 1024
# Seconds. A pure slave is started with its master, and waits for it this long.
_SLAVE_START_TIMEOUT = "600"
_START_TIMEOUT = "90"
# Longer than a guard waits for a share that does not answer, before it ends its broker itself.
_GUARD_SILENCE = "30"
# A stop writes the store's index and waits for clients; after that systemd kills.
STOP_TIMEOUT = 60
"""Seconds that an orderly stop may take before systemd sends SIGKILL."""
_PACKAGE_HOME = "/usr/share/activemq"
# Debian's package has the MQTT transport and not what it needs: an open port that never sends CONNACK.
_MQTT_OF_DEBIAN = tuple(
    f"/usr/share/java/{name}.jar" for name in ("mqtt-client", "hawtdispatch", "hawtdispatch-transport", "hawtbuf")
)
# Where the module ``watchdog`` puts the program.
_PROGRAMS = "/usr/local/sbin"
_HOMES = ("/home/", "/root/", "/run/user/")


@dataclass(frozen=True, slots=True)
class BrokerPaths:
    """The absolute paths of a broker's directories on its host.

    ``home`` is the directory of the release and not the link to it: after a rollback, the earlier configuration
    starts with its own jars, and installing a new release changes no file of a running broker.
    ``base`` is the instance; ``current`` links to the version of the configuration that is in
    force, ``conf`` lies below it; ``data`` holds logs.
    """

    home: str
    base: str
    current: str
    conf: str
    data: str


def broker_directory_paths(broker: Broker) -> BrokerPaths:
    """Return the absolute paths of a broker's directories on its host.

    Two brokers on one machine share only ``home``.
    """
    settings = broker.settings
    base = f"{settings.base.rstrip('/')}/{settings.instance}"
    current = f"{base}/current"
    home = settings.home
    if settings.install in ("archive", "jars"):
        home = f"{home}-{broker.release.text}"
    elif settings.install == "package" and "home" not in settings.model_fields_set:
        home = _PACKAGE_HOME
    return BrokerPaths(home, base, current, f"{current}/conf", f"{base}/data")


def environment_file_relative_path(broker: Broker) -> str:
    """Return the path of a broker's environment file, relative to the directory of its rendered files.

    It is ``etc/default/INSTANCE``, ``bin/env`` or ``bin/setenv``.
    """
    name = broker.release.environment_file
    return f"{name}/{broker.settings.instance}" if name == "etc/default" else name


def systemd_unit_relative_path(broker: Broker) -> str:
    """Return the path of a broker's systemd unit, relative to the directory of its rendered files.

    It is ``systemd/INSTANCE.service``.
    """
    return f"systemd/{broker.settings.instance}.service"


def watchdog_unit_relative_path(broker: Broker) -> str | None:
    """Return the path of the systemd unit of a broker's watchdog, relative to the directory of its rendered files.

    It is None without a watchdog.
    """
    off = broker.settings.watchdog == "off"
    return None if off else f"systemd/{watchdog_service_name(broker.settings.instance)}.service"


def unit_environment_and_log_files(broker: Broker) -> dict[str, bytes]:
    """Return the systemd units, the environment file and the log configuration of a broker, by path.

    Paths are relative. None of the files holds a secret.
    """
    watchdog = watchdog_unit_relative_path(broker)
    return {
        **{f"conf/{name}": _log_configuration(name) for name in _log_files(broker).values()},
        environment_file_relative_path(broker): _environment_file(broker),
        systemd_unit_relative_path(broker): _unit_file(broker),
        **({watchdog: _watchdog_file(broker)} if watchdog else {}),
    }


@cache
def _log_configuration(name: str) -> bytes:
    """Return a log configuration, ``log4j.properties`` or ``log4j2.properties``; it is the same for all brokers."""
    return render_template(f"broker/{name}.j2", quiet=_QUIET, size=_LOG_SIZE, backups=_LOG_BACKUPS)


def apt_packages(broker: Broker) -> tuple[str, ...]:
    """Return the packages that apt installs for a broker.

    There are none unless ``activemq_install`` is ``package``.
    """
    needs = ("libmqtt-client-java",) if _has_mqtt(broker) else ()
    # 5.17.2+dfsg-2, never 5.17.20
    return (f"activemq={broker.release.text}[-+]*", *needs) if broker.settings.install == "package" else ()


def guard_state_directory(broker: Broker) -> str:
    """Return the directory in which a broker's guard, the process that fences its store, keeps its state.

    It is on the host's own disk. It also contains the symbolic link to the store that activemq.xml names.
    """
    return f"{broker_directory_paths(broker).data}/fence"


def kahadb_directory_in_xml(broker: Broker) -> str:
    """Return the path of a broker's KahaDB store in activemq.xml.

    It is the store itself, or with a guard the symbolic link that the guard sets.
    """
    return f"{guard_state_directory(broker)}/store" if broker.has_guard else broker.store_directory


def guard_command(broker: Broker) -> tuple[str, ...]:
    """Return the command that starts a broker's guard, the process that fences its store.

    The command is a list of words. It is put before java on the unit's command line; empty without a guard.
    """
    if not broker.has_guard:
        return ()
    program = f"{_PROGRAMS}/{broker.settings.instance}-guard"
    command = (
        ("--fence-command", f"{broker_directory_paths(broker).current}/{FENCE_COMMAND}")
        if broker.calls_fence_command
        else ()
    )
    keep = ("--keep-index-copies",) if broker.release.loses_subscriptions_on_rebuild else ()
    refuse = ("--refuse-loss",) if broker.settings.index_rebuild == "refuse" else ()
    options = ("--local", guard_state_directory(broker), *command, *keep, *refuse)
    return (program, "--store", broker.store_directory, *options, "--")


def repair_store_command(broker: Broker) -> tuple[str, ...]:
    """Return the command that repairs a broker's store.

    The command is a list of words. It runs after the broker was killed, before java starts. The result is empty without
    a kahaDB store, and with a guard, which repairs each generation (copy of the store).
    """
    keeps_store = not broker.has_guard or broker.calls_fence_command
    if broker.ha_profile.has_database_lease or not keeps_store:
        return ()
    accept = ("--accept-loss",) if broker.settings.index_rebuild == "serve" else ()
    return (f"{_PROGRAMS}/{broker.settings.instance}-guard", "--store", broker.store_directory, "--mend", *accept)


def copy_store_index_command(broker: Broker) -> tuple[str, ...]:
    """Return the command that copies the index of a broker's store.

    The command is a list of words. It runs once java runs; the caller appends java's PID. The result is empty with a
    guard, which does the same, without a kahaDB store, and for a release that builds its index from the journal without
    a loss.
    """
    if broker.ha_profile.has_database_lease or broker.has_guard or not broker.release.loses_subscriptions_on_rebuild:
        return ()
    program = f"{_PROGRAMS}/{broker.settings.instance}-guard"
    return (program, "--store", broker.store_directory, "--keep-index")


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
        *_metrics_option(broker),
        *broker.settings.java_options,
    )


# Seconds that the HTTP server of the exporter gives a client to send a request and to read the answer. Without them ten
# idle connections hold all its threads for longer than a minute (exporter 0.20.0 in 5.18.3).
_METRICS_TIMEOUTS = ("-Dsun.net.httpserver.maxReqTime=5", "-Dsun.net.httpserver.maxRspTime=30")


def _metrics_option(broker: Broker) -> Iterator[str]:
    settings = broker.settings
    if settings.metrics:
        where = join_host_port(settings.metrics_bind, broker.ports["metrics"])
        yield from _METRICS_TIMEOUTS
        yield f"-javaagent:{settings.metrics_jar}={where}:{broker_directory_paths(broker).current}/{METRICS}"


def arguments_after_java_options(broker: Broker) -> tuple[str, ...]:
    """Return the arguments of a broker's java command that follow the Java options.

    They are directories, class path, main class, configuration. Measured under systemd 252 with the whole unit: 5.18.3
    (distribution: take-over, a lost lock, a full store) and a pure pair of 5.5.1 (jars); without a unit also 6.3.1
    (jars).
    """
    where = broker_directory_paths(broker)
    jars = broker.settings.install == "jars"
    return (
        f"-Dactivemq.home={where.home}",
        f"-Dactivemq.base={where.base}",
        f"-Dactivemq.conf={where.conf}",
        f"-Dactivemq.data={where.data}",
        *(f"-D{name}=file:{where.conf}/{log}" for name, log in _log_files(broker).items()),
        "-cp",
        ":".join(_class_path(broker)),
        "org.apache.activemq.console.Main",
        *(("--noDefExt",) if jars else ()),
        "start",
        f"xbean:file:{where.conf}/activemq.xml",
    )


def _log_files(broker: Broker) -> dict[str, str]:
    """Return the release's logging configuration files, by the system property that names each.

    Debian links its package to Log4j 1 whatever the release ships (seen with 5.17.2): both are there then.
    """
    both = {"log4j.configuration": "log4j.properties", "log4j2.configurationFile": "log4j2.properties"}
    packaged = broker.settings.install == "package"
    return {name: log for name, log in both.items() if packaged or log == broker.release.log_file_name}


def _has_mqtt(broker: Broker) -> bool:
    return any(protocol_name_of_scheme(connector.scheme) == "mqtt" for connector in broker.connectors)


def _class_path(broker: Broker) -> Iterator[str]:
    settings, home = broker.settings, broker_directory_paths(broker).home
    yield f"{home}/lib/*" if settings.install == "jars" else f"{home}/{broker.release.start_jar}"
    if settings.install == "package" and _has_mqtt(broker):
        yield from _MQTT_OF_DEBIAN
    if settings.jdbc and settings.jdbc.jar:
        yield settings.jdbc.jar


def _release_options(broker: Broker) -> Iterator[str]:
    release, where = broker.release, broker_directory_paths(broker)
    if release.java_minimum >= 8:
        # A JVM without memory keeps its lock and serves no client; its standby takes over once it ends.
        yield "-XX:+ExitOnOutOfMemoryError"
    if release.java_minimum >= 9:
        for package in _OPENED:
            yield f"--add-opens={package}=ALL-UNNAMED"
    if broker.settings.jmx:
        # The second address of a JMX client: the name of the queried machine, not the name that the machine reports.
        yield f"-Djava.rmi.server.hostname={broker.address}"
    if broker.settings.console:
        if release.console_accounts == "jaas":
            yield f"-Djava.security.auth.login.config={where.conf}/login.config"
        if release.jolokia_policy_file == "conf/jolokia-access.xml":
            # Without it Jolokia finds no policy and allows everything.
            yield f"-Djolokia.conf=file:{where.conf}/jolokia-access.xml"


def _environment_file(broker: Broker) -> bytes:
    variables = [(name, quote_environment_value(value)) for name, value in environment_variables(broker).items()]
    return render_template("broker/environment.j2", variables=variables)


def environment_variables(broker: Broker) -> dict[str, str]:
    """Return the environment variables of a broker's process.

    They are as in its environment file.
    """
    where, home = broker_directory_paths(broker), broker.settings.java_home
    return ({"JAVA_HOME": home, "JAVACMD": java_path(broker)} if home else {}) | {
        "ACTIVEMQ_HOME": where.home,
        "ACTIVEMQ_BASE": where.base,
        "ACTIVEMQ_CONF": where.conf,
        "ACTIVEMQ_DATA": where.data,
        "ACTIVEMQ_OPTS_MEMORY": f"-Xmx{broker.settings.heap}",
        "ACTIVEMQ_OPTS": " ".join(java_options(broker)),
    }


def _unit_file(broker: Broker) -> bytes:
    return render_template("broker/service.j2", **_unit_variables(broker))


def _unit_variables(broker: Broker) -> dict[str, Any]:
    settings, where = broker.settings, broker_directory_paths(broker)
    outside = not broker.ha_profile.has_database_lease and not broker.store_directory.startswith(f"{where.data}/")
    store = (broker.store_directory,) if outside else ()
    low_port = any(port < _FIRST_FREE_PORT for port in broker.ports.values())
    used = (where.base, where.home, *store, settings.java_home or "", *_key_files(broker))
    return {
        "description": _description(f"ActiveMQ {broker.release.text}", broker),
        "mounts": " ".join((where.base, *store)),
        "user": settings.user,
        "directory": where.data,
        "environment_file": f"{where.current}/{environment_file_relative_path(broker)}",
        "before": [" ".join(map(escape_systemd_word, command)) for command in commands_before_start(broker)],
        "mend_store": " ".join(map(escape_systemd_word, repair_store_command(broker))),
        # With "refuse" a start that would lose messages fails with the reason.
        "mend_may_fail": broker.settings.index_rebuild == "serve",
        "keep_index": " ".join(map(escape_systemd_word, copy_store_index_command(broker))),
        # systemd reads k, m and g as upper case only.
        "memory": _systemd_size(broker_systemd_memory_max(settings)),
        "command": _command(broker),
        "start_timeout": _SLAVE_START_TIMEOUT if broker.is_replication_slave else _START_TIMEOUT,
        "stop_timeout": str(STOP_TIMEOUT),
        "guard": _GUARD_SILENCE if broker.has_guard else "",
        "restart": not broker.ha_profile.needs_resync,
        # A share that is away must fail in ExecStartPre, which reports it, not while mounting.
        "writable": " ".join((where.data, *(f"-{directory}" for directory in store))),
        "protect_home": protect_home_value(used),
        # Capabilities of a user namespace do not open the host's ports.
        "private_users": "no" if low_port else "yes",
        "capabilities": "CAP_NET_BIND_SERVICE" if low_port else "",
    }


def _systemd_size(text: str) -> str:
    return text if text == "infinity" else text.upper()


def _command(broker: Broker) -> str:
    guard, arguments = (
        map(escape_systemd_word, guard_command(broker)),
        map(escape_systemd_word, arguments_after_java_options(broker)),
    )
    return " ".join((*guard, java_path(broker), "$ACTIVEMQ_OPTS", *arguments))


def _description(what: str, broker: Broker) -> str:
    text = f"{what}, {broker.host}, node {broker.identity.node} of {broker.pair}"
    return escape_systemd_value(" ".join(text.split()))


def protect_home_value(used_paths: tuple[str, ...]) -> str:
    """Return the value of ``ProtectHome`` for a systemd unit that uses the given paths.

    It is read-only if a path is in a home directory.
    """
    return "read-only" if any(f"{path}/".startswith(_HOMES) for path in used_paths) else "yes"


def _watchdog_file(broker: Broker) -> bytes:
    settings, where = broker.settings, broker_directory_paths(broker)
    unit = f"{settings.instance}.service"
    name = watchdog_service_name(settings.instance)
    command = [f"{_PROGRAMS}/{name}", "--base", where.base, "--unit", unit, "--ha", settings.ha]
    if settings.metrics:
        command += ["--metrics", f"/run/{name}/metrics.prom"]
        command += [word for label, value in broker.metric_labels.items() for word in ("--label", f"{label}={value}")]
    return render_template(
        "broker/watchdog.service.j2",
        description=_description("Watchdog of ActiveMQ", broker),
        unit=unit,
        user=settings.user,
        command=" ".join(map(escape_systemd_word, (*command, settings.watchdog))),
        runtime=name,
        runtime_mode="0755" if settings.metrics else "0700",
        memory=WATCHDOG_MEMORY,
        protect_home=protect_home_value((where.base,)),
    )


def _key_files(broker: Broker) -> tuple[str, ...]:
    tls, metrics = broker.settings.tls, broker.settings.metrics_tls if broker.settings.metrics else None
    return (*((tls.keystore, tls.truststore) if tls else ()), *((metrics.keystore,) if metrics else ()))


def commands_before_start(broker: Broker) -> tuple[tuple[str, ...], ...]:
    """Return the commands that run, and must succeed, before a broker starts.

    They are lists of words. One that fails prints what to do. The words after a script are its ``$0``, ``$1`` … and
    never code.
    """
    if broker.shared_store_directory:
        return (("/bin/sh", "-c", _MARKER_TEST, broker.shared_store_directory, broker.pair, STORE_MARKER),)
    if broker.is_replication_slave and broker.peer_address:
        host, port = broker.peer_address
        return (("/bin/bash", "-c", _MASTER_WAIT, host, str(port)),)
    return ()


_MARKER_TEST = (
    'grep -qsxF -e "$1" "$0/$2" || { echo "activemq: $0 is not the store of pair $1: '
    "$2 in it is missing or names another pair. Mount the share of this pair; "
    'when it is mounted and new, write the name $1 into $0/$2" >&2; exit 1; }'
)
_MASTER_WAIT = (
    'echo "activemq: waiting for the master at $0 port $1"; '
    'until (exec 3<>"/dev/tcp/$0/$1") 2>/dev/null; do sleep 1; done'
)
