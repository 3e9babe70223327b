"""Explain where a broker listens and which files it has: the reason of each port, the use of each file."""

from __future__ import annotations

from activemq_fleet.explain.explanation import ExplanationSection, HostStatement, variable_entry
from activemq_fleet.node.host_paths import ACTIVEMQ_XML
from activemq_fleet.node.protocols import PROTOCOLS, protocol_name_of_scheme
from activemq_fleet.render import file_mode_of, render_broker
from activemq_fleet.render.broker_paths import paths_of_broker
from activemq_fleet.render.environment_file import environment_file_relative_path
from activemq_fleet.render.systemd_units import systemd_unit_relative_path, watchdog_unit_relative_path
from activemq_fleet.settings.host_settings import PREFIX, HostSettings
from activemq_fleet.topology import Broker, Connector, Fleet

_PURPOSES = {
    ACTIVEMQ_XML: "configuration of the broker: store, lock, links, accounts, references to passwords",
    "conf/credentials.properties": "passwords that activemq.xml references",
    "conf/log4j.properties": "configuration of logging",
    "conf/log4j2.properties": "configuration of logging",
    "conf/jetty.xml": "address, port and access rules of the web console",
    "conf/jetty-spring.xml": "components of the web console",
    "conf/jetty-spring.properties": "address and port of the web console",
    "conf/jetty/jetty-security.xml": "access rules of the web console",
    "conf/jetty-realm.properties": "accounts of the web console",
    "conf/users.properties": "accounts of the web console",
    "conf/groups.properties": "administrators among the accounts in users.properties",
    "conf/login.config": "authentication of the web console",
}


def ports_section(fleet: Fleet, broker: Broker) -> ExplanationSection:
    """Return the section of the output of the command ``explain`` about a broker's ports.

    It shows the purpose of each, and how its number is computed.
    """
    settings = broker.settings
    entries = [_connector_entry(broker, connector) for connector in broker.connectors]
    if not broker.connectors:
        reason = (
            "a slave with activemq_ha: pure serves no clients. After promotion it sends its messages to other masters"
        )
        entries.append(
            HostStatement(
                "none", "no connector", why=reason if broker.ha_profile.replicates else "activemq_connectors is empty"
            )
        )
    if "console" in broker.ports:
        entries.append(_console_entry(broker))
    if broker.connectors:
        entries.append(variable_entry(settings, "bind", "listens on", settings.bind, data={"bind": settings.bind}))
    if settings.port_offset:
        reason = "this number is added to every port of the broker"
        entries.append(variable_entry(settings, "port_offset", "offset", str(settings.port_offset), why=reason))
    if settings.tls:
        client = "clients need a certificate" if settings.tls.client_auth else "clients need no certificate"
        stores = (f"key {settings.tls.keystore}", f"trust {settings.tls.truststore}")
        entries.append(variable_entry(settings, "tls", "TLS", client, details=stores))
    return ExplanationSection("ports", "Listeners", tuple(entries), intro=_listening_note(broker))


def _listening_note(broker: Broker) -> str:
    if broker.ha_profile.shares_store:
        return "A standby opens its ports, including the console's, only when it takes over."
    if broker.ha_profile.replicates and broker.role == "master":
        return (
            "The master opens its ports before its slave is attached. The master is ready when it logs "
            "a line that ends with `(BROKER, ID) started`."
        )
    return ""


def _connector_entry(broker: Broker, connector: Connector) -> HostStatement:
    settings = broker.settings
    reasons = [_connector_use(connector) + _port_offset_text(settings, connector.port)]
    if connector.uses_tls and settings.tls:
        reasons.append("over TLS, because activemq_tls is set")
    details = (f"announced at {connector.discovery_uri}",) if connector.discovery_uri else ()
    return variable_entry(
        settings,
        "replication_port" if connector.name == "replication" else "connectors",
        connector.name,
        f"{connector.port} {connector.scheme}",
        why=", ".join(reasons),
        details=details,
        data={
            "port": connector.port,
            "scheme": connector.scheme,
            "tls": connector.uses_tls,
            "offset": settings.port_offset,
            "options": dict(connector.options),
        },
    )


def _connector_use(connector: Connector) -> str:
    if connector.name == "replication":
        return "the slave of this master connects to this port"
    name = protocol_name_of_scheme(connector.scheme)
    return PROTOCOLS[name].clients if name in PROTOCOLS else f"{name} clients"


def _port_offset_text(settings: HostSettings, port: int) -> str:
    """Return how a port follows from the port offset, after a comma; "" without an offset."""
    return f", {port - settings.port_offset} + port offset {settings.port_offset}" if settings.port_offset else ""


def _console_entry(broker: Broker) -> HostStatement:
    settings, port = broker.settings, broker.ports["console"]
    reason = f"web console on {settings.console_bind}{_port_offset_text(settings, port)}"
    data = {"port": port, "scheme": "http", "tls": False, "offset": settings.port_offset, "bind": settings.console_bind}
    return variable_entry(settings, "console_port", "console", f"{port} http", why=reason, data=data)


def files_section(fleet: Fleet, broker: Broker) -> ExplanationSection:
    """Return the section of the output of the command ``explain`` about a broker's deployed files and directories.

    It shows mode and use of each file.
    """
    paths, settings = paths_of_broker(broker), broker.settings
    extra_files = {extra.path: position for position, extra in enumerate(settings.extra_files)}
    uses = _PURPOSES | {
        environment_file_relative_path(broker): "Java heap size, Java options, directories",
        systemd_unit_relative_path(broker): "the service unit",
    }
    if watchdog := watchdog_unit_relative_path(broker):
        uses[watchdog] = f"the service unit of the watchdog, which {_WATCHES[settings.watchdog]}"
    if settings.service == "systemd":
        uses[systemd_unit_relative_path(broker)] += f", copied to /etc/systemd/system/{settings.instance}.service"
    entries = [
        variable_entry(settings, "base", "below", paths.current, why="a symbolic link to the installed version"),
        variable_entry(
            settings,
            "instance",
            "instance",
            settings.instance,
            why="the service unit and the directories have this name",
        ),
        variable_entry(settings, "home", "the release", paths.home, why=_INSTALLED[settings.install]),
        HostStatement("logs", paths.data),
    ]
    for path in render_broker(broker):
        variable = f"{PREFIX}extra_files[{extra_files[path]}]" if path in extra_files else ""
        default_use = "a file from activemq_extra_files" if variable else "another file of the broker"
        entries.append(file_entry(path, paths.current, uses.get(path, default_use), variable))
    return ExplanationSection("files", "Files", tuple(entries))


_WATCHES = {"warn": "warns about a hung broker", "kill": "kills a hung broker"}
_INSTALLED = {
    "archive": "unpacked from activemq_archive",
    "package": "the distribution's package",
    "jars": "installed as a set of jar files",
    "none": "activemq.fleet does not install ActiveMQ (activemq_install: none)",
}


def file_entry(path: str, below: str, use: str, variable: str = "") -> HostStatement:
    """Return the entry of a host's explanation about one deployed file.

    ``below`` is the directory on the host.
    """
    mode = f"{file_mode_of(path):04o}"
    data = {"path": path, "mode": mode, "on_host": f"{below}/{path}"}
    return HostStatement(path, f"{mode} {use}", variable=variable, origin="inventory" if variable else None, data=data)
