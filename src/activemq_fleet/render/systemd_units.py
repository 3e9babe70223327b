"""Render the systemd units of a broker and its watchdog, and the commands that a unit runs before and after java.

The broker's unit starts java directly and not ``bin/activemq``. So there is no fork and no pid file, the command line
is the same for an archive and for jars, and systemd sees the broker's own exit code.
"""

from __future__ import annotations

from typing import Any

from activemq_fleet.node.host_paths import PROGRAM_DIRECTORY, STORE_MARKER
from activemq_fleet.node.process.service_names import watchdog_service_name
from activemq_fleet.node.timeouts import MAX_GUARD_SILENCE
from activemq_fleet.render.broker_paths import (
    FENCE_COMMAND,
    guard_state_directory,
    paths_of_broker,
)
from activemq_fleet.render.engine import escape_systemd_value, escape_systemd_word, render_template
from activemq_fleet.render.environment_file import environment_file_relative_path, render_environment_file
from activemq_fleet.render.java_command import arguments_after_java_options, java_path
from activemq_fleet.render.log_configuration import log_configuration_file_names_by_property, render_log_configuration
from activemq_fleet.render.systemd_memory import WATCHDOG_MEMORY, broker_systemd_memory_max
from activemq_fleet.topology import Broker

_FIRST_UNPRIVILEGED_PORT = 1024
# Seconds. A pure slave is started together with its master, and waits for it until this timeout.
_SLAVE_START_TIMEOUT = "600"
_START_TIMEOUT = "90"
# A stop writes the store's index and waits for clients. After this timeout, systemd kills the process.
STOP_TIMEOUT = 60
"""Seconds that an orderly stop may take before systemd sends SIGKILL."""
_HOME_DIRECTORIES = ("/home/", "/root/", "/run/user/")


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


def unit_environment_and_log_configuration(broker: Broker) -> dict[str, bytes]:
    """Return the systemd units, the environment file and the log configuration of a broker, by path.

    Paths are relative. None of the files holds a secret.
    """
    watchdog = watchdog_unit_relative_path(broker)
    return {
        **{
            f"conf/{name}": render_log_configuration(name)
            for name in log_configuration_file_names_by_property(broker).values()
        },
        environment_file_relative_path(broker): render_environment_file(broker),
        systemd_unit_relative_path(broker): _unit_file(broker),
        **({watchdog: _watchdog_file(broker)} if watchdog else {}),
    }


def guard_command_words(broker: Broker) -> tuple[str, ...]:
    """Return the command that starts a broker's guard, the process that fences its store.

    The command is a list of words. It is put before java on the unit's command line; empty without a guard.
    """
    if not broker.has_guard:
        return ()
    program = f"{PROGRAM_DIRECTORY}/{broker.settings.instance}-guard"
    command = (
        ("--fence-command", f"{paths_of_broker(broker).current}/{FENCE_COMMAND}") if broker.calls_fence_command else ()
    )
    keep = ("--keep-index-copies",) if broker.release.loses_subscriptions_on_rebuild else ()
    refuse = ("--refuse-loss",) if broker.settings.index_rebuild == "refuse" else ()
    options = ("--local", guard_state_directory(broker), *command, *keep, *refuse)
    return (program, "--store", broker.store_directory, *options, "--")


def repair_store_command_words(broker: Broker) -> tuple[str, ...]:
    """Return the command that repairs a broker's store.

    The command is a list of words. It runs after the broker was killed, before java starts. The result is empty without
    a kahaDB store, and with a guard, which repairs each generation (copy of the store).
    """
    keeps_store = not broker.has_guard or broker.calls_fence_command
    if broker.ha_profile.has_database_lease or not keeps_store:
        return ()
    accept = ("--accept-loss",) if broker.settings.index_rebuild == "serve" else ()
    return (
        f"{PROGRAM_DIRECTORY}/{broker.settings.instance}-guard",
        "--store",
        broker.store_directory,
        "--mend",
        *accept,
    )


def copy_store_index_command_words(broker: Broker) -> tuple[str, ...]:
    """Return the command that copies the index of a broker's store.

    The command is a list of words. It runs once java runs; the caller appends java's PID. The result is empty with a
    guard, which does the same, without a kahaDB store, and for a release that builds its index from the journal without
    a loss.
    """
    if broker.ha_profile.has_database_lease or broker.has_guard or not broker.release.loses_subscriptions_on_rebuild:
        return ()
    program = f"{PROGRAM_DIRECTORY}/{broker.settings.instance}-guard"
    return (program, "--store", broker.store_directory, "--keep-index")


def _unit_file(broker: Broker) -> bytes:
    return render_template("broker/service.j2", **_unit_variables(broker))


def _unit_variables(broker: Broker) -> dict[str, Any]:
    settings, paths = broker.settings, paths_of_broker(broker)
    outside = not broker.ha_profile.has_database_lease and not broker.store_directory.startswith(f"{paths.data}/")
    store = (broker.store_directory,) if outside else ()
    low_port = any(port < _FIRST_UNPRIVILEGED_PORT for port in broker.ports.values())
    used = (paths.base, paths.home, *store, settings.java_home or "", *_tls_files(broker))
    return {
        "description": _description(f"ActiveMQ {broker.release.text}", broker),
        "mounts": " ".join((paths.base, *store)),
        "user": settings.user,
        "directory": paths.data,
        "environment_file": f"{paths.current}/{environment_file_relative_path(broker)}",
        "before": [" ".join(map(escape_systemd_word, command)) for command in commands_before_start(broker)],
        "mend_store": " ".join(map(escape_systemd_word, repair_store_command_words(broker))),
        # With "refuse", a start that would lose messages fails and prints the reason.
        "mend_may_fail": broker.settings.index_rebuild == "serve",
        "keep_index": " ".join(map(escape_systemd_word, copy_store_index_command_words(broker))),
        # systemd reads k, m and g as upper case only.
        "memory": _systemd_size(broker_systemd_memory_max(settings)),
        "command": _start_command(broker),
        "start_timeout": _SLAVE_START_TIMEOUT if broker.is_replication_slave else _START_TIMEOUT,
        "stop_timeout": str(STOP_TIMEOUT),
        "guard": str(MAX_GUARD_SILENCE) if broker.has_guard else "",
        "restart": not broker.ha_profile.needs_resync,
        # An unavailable share must fail in ExecStartPre, which reports it, and not during the mount.
        "writable": " ".join((paths.data, *(f"-{directory}" for directory in store))),
        "protect_home": protect_home_value(used),
        # Capabilities of a user namespace do not open the host's ports.
        "private_users": "no" if low_port else "yes",
        "capabilities": "CAP_NET_BIND_SERVICE" if low_port else "",
    }


def _systemd_size(text: str) -> str:
    return text if text == "infinity" else text.upper()


def _start_command(broker: Broker) -> str:
    guard, arguments = (
        map(escape_systemd_word, guard_command_words(broker)),
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
    return "read-only" if any(f"{path}/".startswith(_HOME_DIRECTORIES) for path in used_paths) else "yes"


def _watchdog_file(broker: Broker) -> bytes:
    settings, paths = broker.settings, paths_of_broker(broker)
    unit = f"{settings.instance}.service"
    name = watchdog_service_name(settings.instance)
    command = [f"{PROGRAM_DIRECTORY}/{name}", "--base", paths.base, "--unit", unit, "--ha", settings.ha]
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
        protect_home=protect_home_value((paths.base,)),
    )


def _tls_files(broker: Broker) -> tuple[str, ...]:
    tls, metrics = broker.settings.tls, broker.settings.metrics_tls if broker.settings.metrics else None
    return (*((tls.keystore, tls.truststore) if tls else ()), *((metrics.keystore,) if metrics else ()))


def commands_before_start(broker: Broker) -> tuple[tuple[str, ...], ...]:
    """Return the commands that run, and must succeed, before a broker starts.

    They are lists of words. One that fails prints what to do. The words after a script are its ``$0``, ``$1`` … and
    never code.
    """
    if broker.shared_store_directory:
        return (("/bin/sh", "-c", _STORE_MARKER_SCRIPT, broker.shared_store_directory, broker.pair, STORE_MARKER),)
    if broker.is_replication_slave and broker.peer_address:
        host, port = broker.peer_address
        return (("/bin/bash", "-c", _WAIT_FOR_MASTER_SCRIPT, host, str(port)),)
    return ()


_STORE_MARKER_SCRIPT = (
    'grep -qsxF -e "$1" "$0/$2" || { echo "activemq: $0 is not the store of pair $1: '
    "$2 in it is missing or names another pair. Mount the share of this pair; "
    'when it is mounted and new, write the name $1 into $0/$2" >&2; exit 1; }'
)
_WAIT_FOR_MASTER_SCRIPT = (
    'echo "activemq: waiting for the master at $0 port $1"; '
    'until (exec 3<>"/dev/tcp/$0/$1") 2>/dev/null; do sleep 1; done'
)
