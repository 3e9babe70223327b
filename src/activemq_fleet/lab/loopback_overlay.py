"""Compute the variables with which a lab replaces those of the inventory. The functions are pure.

Replaced are the loopback address to bind, literal addresses, multicast interface and port, directories, software, heap
and options of the JVM, the operating system account, and secrets that cannot be decrypted; nothing else, so that the
brokers behave as those of the real fleet. Names stay names: the JVMs resolve them from a file
(``-Djdk.net.hosts.file``), and lists for clients have the addresses instead.
"""

from __future__ import annotations

import getpass
import hashlib
import hmac
import ipaddress
import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from activemq_fleet.errors import InputError
from activemq_fleet.lab.lab_paths import LabPaths
from activemq_fleet.lab.lab_state_file import LabState
from activemq_fleet.settings.encrypted import UndecryptedVaultValue
from activemq_fleet.settings.host_settings import PREFIX, JdbcSettings
from activemq_fleet.topology import Agent, Broker, Fleet

HEAP = "256m"
_MEMORY_LIMIT = "102 mb"  # This is 40 % of the heap, which is also the default.
# The bottleneck of a test is the JIT compiler. With C1 alone, the start takes half the time (8 brokers on 2 cores).
_JVM_OPTIONS = (
    "-Xms32m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    # The file of the JVM would remain after a kill.
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
)
MARK = "-Dactivemq.fleet.lab="
"""The JVM option that identifies the lab to which a process belongs."""
PROGRAM_MARK = MARK.removeprefix("-D")
"""The word that identifies the lab in the command line of other programs, such as the database server or Prometheus."""
# Sizes, ports and Java agents are for a real machine, so the lab keeps only other properties.
_KEPT_PROPERTIES = re.compile(r"-D(?!com\.sun\.management\.|java\.io\.tmpdir=|jdk\.net\.hosts\.file=|activemq\.).*")
_FIRST_MULTICAST_PORT = 20000
_BLOCKS = 256
_ROWS, _NODES_A_ROW = 250, 240
_AGENT_METRICS_PORT = 9464
_PASSWORDS_OF_USERS = ("activemq_network_password", "activemq_agent_password", "activemq_vip_password")

DATABASE_PORT, DATABASE_USER = 15432, "activemq"
"""The port of the lab's database, which differs from the default port, and the account of the brokers."""

LAB_USER = "fleet-lab"
"""The account of load generators on brokers with ACLs, which reject other accounts."""
PROBE = "fleet.lab"
"""First part of the names of destinations that the load of a drill uses."""

Variables = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ReplacedHostVariable:
    """An inventory variable of a host whose value a lab replaces: its old and its new value.

    ``before`` is None if the inventory does not set the variable.
    """

    host: str
    variable: str
    before: str | None
    after: str


def process_mark_arguments(directory: Path) -> frozenset[str]:
    """Return the command-line arguments that mark a process as part of a lab.

    Each process of the lab has one of them. ``directory`` is that of the lab.
    """
    return frozenset({f"{MARK}{directory}", f"{PROGRAM_MARK}{directory}"})


def assign_loopback_addresses(fleet: Fleet, block: int, known: Mapping[str, str] | None = None) -> dict[str, str]:
    """Assign a loopback address to each broker of a fleet, and return the addresses by host.

    Brokers with equal ``activemq_address`` get the same one. The pair decides the third number and the node the last:
    127.16.2.1 is the first node of the second pair. Addresses in ``known``, by host, stay as they are, so that a lab
    survives a change of its inventory; only brokers that no longer share a machine get separate addresses. Raises
    InputError for a fleet that has more brokers than addresses.
    """
    lab_network = ipaddress.ip_network(f"127.{block}.0.0/16")
    kept_addresses = {host: text for host, text in (known or {}).items() if ipaddress.ip_address(text) in lab_network}
    by_address, used_addresses, rows = dict[str, str](), set[str](), dict[str, int]()
    for broker in fleet.brokers:
        kept_address = kept_addresses.get(broker.host)
        # Brokers that shared a machine may have separate ones now, and only the first keeps the address.
        if kept_address and broker.address not in by_address and kept_address not in used_addresses:
            by_address[broker.address] = kept_address
            used_addresses.add(kept_address)
    for broker in fleet.brokers:
        if broker.address in by_address:
            continue
        row = rows.setdefault(broker.pair, len(rows))
        first = 1 if broker.role == "master" else 2
        steps = range(row, _ROWS * _NODES_A_ROW // 2)
        candidates = (f"127.{block}.{1 + step % _ROWS}.{first + 2 * (step // _ROWS)}" for step in steps)
        address = next((address for address in candidates if address not in used_addresses), None)
        if address is None:
            raise InputError(
                f"{broker.host}: no loopback address is left for this broker of the lab: use an inventory with fewer "
                "brokers"
            )
        used_addresses.add(address)
        by_address[broker.address] = address
    return {broker.host: by_address[broker.address] for broker in fleet.brokers}


def loopback_variables(
    fleet: Fleet, hosts: Variables, lab_paths: LabPaths, state: LabState, heap: str = HEAP, *, metrics: bool = False
) -> dict[str, dict[str, Any]]:
    """Return the inventory variables with which a lab runs a fleet on loopback addresses, by host.

    They replace the inventory's, for each broker and agent. Other hosts, such as load balancers, have only generated
    secrets: no lab runs them, but the brokers have accounts for them. ``metrics``: whether all brokers and agents have
    metrics, regardless of the inventory.
    """
    ports = _multicast_ports(fleet, state.block)
    secrets = _generate_secrets(hosts, state.seed)
    overlays = {
        broker.host: _broker_variables(broker, hosts[broker.host], lab_paths, state, ports, heap)
        for broker in fleet.brokers
    }
    for broker in fleet.brokers:
        if metrics or broker.settings.metrics:
            overlays[broker.host] |= _metrics_variables(broker, state)
    for number, agent in enumerate(fleet.agents):
        overlays[agent.host] = overlays.get(agent.host, {}) | _agent_variables(agent, lab_paths)
        if metrics or agent.settings.agent_metrics_address:
            address = f"127.{state.block}.0.{2 + number % _NODES_A_ROW}:{_AGENT_METRICS_PORT + number // _NODES_A_ROW}"
            overlays[agent.host]["activemq_agent_metrics_address"] = address
    for host, host_overlay in overlays.items():
        if hosts[host].get("activemq_acl"):
            host_overlay |= _lab_user({**hosts[host], **secrets.get(host, {}), **host_overlay}, state.seed)
    for balancer in fleet.balancers:
        overlays.setdefault(balancer.host, {})
    return {host: secrets.get(host, {}) | overlays.get(host, {}) for host in overlays | secrets}


def _generate_secrets(hosts: Variables, seed: str) -> dict[str, dict[str, Any]]:
    """Return the variables that have encrypted values by host, with a readable secret in place of each encrypted value.

    A password of a user that is readable in another variable is that one: first a variable of the host, then one of any
    host. Other secrets are derived from the seed of the lab. Encrypted values are those that could not be decrypted.
    """
    readable_by_host = {host: _readable_passwords_of_users(variables) for host, variables in hosts.items()}
    readable = {path: password for passwords in readable_by_host.values() for path, password in passwords.items()}
    secrets: dict[str, dict[str, Any]] = {}
    for host, variables in hosts.items():
        known_secrets = readable | readable_by_host[host]
        generated = {
            name: _replace_encrypted(value, _secret_path(name, variables), known_secrets, seed)
            for name, value in variables.items()
            if name.startswith(PREFIX) and _has_encrypted_value(value)
        }
        if generated:
            secrets[host] = generated
    return secrets


def _readable_passwords_of_users(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the passwords of a host's users that are not encrypted, by the path of ``_secret_path``."""
    passwords = {_path_of_user(user["name"]): user.get("password") for user in variables.get("activemq_users") or ()}
    for name in _PASSWORDS_OF_USERS:
        if (path := _secret_path(name, variables)) != name and not passwords.get(path):
            passwords[path] = variables.get(name)
    return {path: password for path, password in passwords.items() if password and not _has_encrypted_value(password)}


def variables_with_overlay(variables_by_host: Variables, overlay_by_host: Variables) -> dict[str, dict[str, Any]]:
    """Return a new dictionary of inventory variables by host, in which an overlay replaces or adds values."""
    return {host: {**variables, **overlay_by_host.get(host, {})} for host, variables in variables_by_host.items()}


def replaced_variables_with_both_values(hosts: Variables, overlay: Variables) -> tuple[ReplacedHostVariable, ...]:
    """Return the inventory variables whose values a lab replaces, with their hosts, old values and new values.

    They are in the order of the lab's hosts. Secrets are masked, also those within a value, such as a Java option.
    """
    return tuple(
        ReplacedHostVariable(
            host, name, _printable_value(hosts[host].get(name), name), _printable_value(value, name) or ""
        )
        for host, variables in overlay.items()
        for name, value in variables.items()
        if hosts[host].get(name) != value
    )


def jvm_hosts_file_content(fleet: Fleet, addresses: Mapping[str, str]) -> str:
    """Return the content of a hosts file that maps names to loopback addresses for the JVMs of a lab.

    It is for ``-Djdk.net.hosts.file``; a JVM with this option resolves only the names in it. The name that peers
    connect to is the first one, because the broker announces that name by multicast (measured on 5.5.1).
    """
    lines = {"127.0.0.1": dict.fromkeys(["localhost", socket.gethostname()])}
    for broker in fleet.brokers:
        names = lines.setdefault(addresses[broker.host], {})
        host_names = [broker.address] if not _is_literal(broker.address) else []
        names |= dict.fromkeys([*host_names, broker.host, broker.identity.short_host_name])
    text = "".join(f"{address} {' '.join(names)}\n" for address, names in lines.items())
    return f"# Names of this lab's brokers, for the option -Djdk.net.hosts.file of their JVMs.\n{text}"


def fleet_for_clients(fleet: Fleet, addresses: Mapping[str, str]) -> Fleet:
    """Return the fleet of a lab for clients, with loopback addresses in place of host names."""
    lab_addresses = {broker.address: addresses[broker.host] for broker in fleet.brokers}

    def with_lab_addresses(urls: Sequence[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
        return tuple((lab_addresses.get(host, host), port) for host, port in urls)

    return replace(
        fleet,
        brokers=tuple(replace(broker, address=addresses[broker.host]) for broker in fleet.brokers),
        agents=tuple(
            replace(agent, urls=with_lab_addresses(agent.urls), java_urls=with_lab_addresses(agent.java_urls))
            for agent in fleet.agents
        ),
    )


def _broker_variables(
    broker: Broker,
    variables: Mapping[str, Any],
    lab_paths: LabPaths,
    state: LabState,
    ports: Mapping[str, int],
    heap: str,
) -> dict[str, Any]:
    settings, address = broker.settings, state.addresses[broker.host]
    instance = lab_paths.activemq_base_directory(broker.host) / settings.instance
    software = state.software[broker.release.text]
    lab_variables: dict[str, Any] = {
        "activemq_bind": address,
        "activemq_console_bind": address,
        "activemq_install": "none",
        "activemq_service": "none",
        "activemq_user": getpass.getuser(),
        "activemq_home": software.home,
        "activemq_base": str(lab_paths.activemq_base_directory(broker.host)),
        "activemq_heap": heap,
        "activemq_java_options": [
            *filter(_KEPT_PROPERTIES.fullmatch, settings.java_options),
            *_JVM_OPTIONS,
            f"-Djdk.net.hosts.file={lab_paths.names}",
            f"-Djava.io.tmpdir={instance}/data/tmp",
            f"{MARK}{lab_paths.directory}",
        ],
        # A lab is for tests: the playbook `drill` may inject faults into its brokers.
        "activemq_drill_allowed": True,
    }
    if _is_literal(broker.address):
        lab_variables["activemq_address"] = address
    if settings.jdbc and broker.ha_profile.has_database_lease:
        lab_variables["activemq_jdbc"] = _jdbc_variables(broker, settings.jdbc, state)
    if settings.console and not software.whole:
        lab_variables["activemq_console"] = False
    if settings.runtime_configuration and not software.whole:
        lab_variables["activemq_runtime_configuration"] = False
    if broker.shared_store_directory:
        lab_variables["activemq_store_directory"] = str(lab_paths.stores / broker.pair)
    elif settings.store_directory:
        lab_variables["activemq_store_directory"] = str(instance / "data" / "kahadb")
    lab_variables |= _network_variables(broker, variables, ports)
    lab_variables |= _limit_variables(broker, variables, lab_paths)
    if settings.java_home:
        lab_variables["activemq_java_home"] = str(Path(state.java).resolve().parents[1])
    # The ids of accounts are those of the hosts. In a lab, the user owns all files.
    lab_variables |= {name: None for name in ("activemq_uid", "activemq_gid") if variables.get(name) is not None}
    return lab_variables


def _network_variables(broker: Broker, variables: Mapping[str, Any], ports: Mapping[str, int]) -> dict[str, Any]:
    """Return the variables by which a broker connects and listens only inside of the lab."""
    settings, lab_variables = broker.settings, dict[str, Any]()
    if any(link.kind == "multicast" for link in broker.links) or any(c.discovery_uri for c in broker.connectors):
        group = settings.multicast.partition(":")[0]
        lab_variables["activemq_multicast"] = f"{group}:{ports[settings.multicast]}"
        lab_variables["activemq_multicast_interface"] = "lo"
    if settings.jmx:
        lab_variables["activemq_jmx"] = None  # JMX would listen on all addresses of this machine.
    if any(connector.bind for connector in settings.connectors or ()):
        lab_variables["activemq_connectors"] = [
            {name: value for name, value in entry.items() if name != "bind"}
            for entry in variables["activemq_connectors"]
        ]
    if any(link.addresses for link in settings.links):
        # A lab does not connect to brokers outside of the lab.
        lab_variables["activemq_links"] = [entry for entry in variables["activemq_links"] if not entry.get("addresses")]
    return lab_variables


def _limit_variables(broker: Broker, variables: Mapping[str, Any], lab_paths: LabPaths) -> dict[str, Any]:
    """Return the variables that keep a broker's memory, its archive and its delayed messages within the lab."""
    settings, lab_variables = broker.settings, dict[str, Any]()
    data = lab_paths.activemq_base_directory(broker.host) / settings.instance / "data"
    if settings.memory_limit:
        lab_variables["activemq_memory_limit"] = _MEMORY_LIMIT
    elif settings.usage and settings.usage.memory and settings.usage.memory.limit:
        lab_variables["activemq_usage"] = {**variables["activemq_usage"], "memory": _MEMORY_LIMIT}
    if settings.kahadb and settings.kahadb.directory_archive:
        lab_variables["activemq_kahadb"] = {**variables["activemq_kahadb"], "directory_archive": str(data / "archive")}
    if settings.scheduler and settings.scheduler.directory:
        shared = lab_paths.stores / f"{broker.pair}-scheduler"
        directory = shared if settings.ha_profile.shares_store else data / "scheduler"
        lab_variables["activemq_scheduler"] = {"directory": str(directory)}
    return lab_variables


def _metrics_variables(broker: Broker, state: LabState) -> dict[str, Any]:
    tls = broker.settings.metrics_tls
    has_keystore = tls is not None and Path(tls.keystore).is_file()
    return {
        "activemq_metrics": True,
        "activemq_metrics_bind": state.addresses[broker.host],
        "activemq_metrics_jar": state.exporter,
        **({} if has_keystore else {"activemq_metrics_tls": None}),
    }


def _jdbc_variables(broker: Broker, jdbc: JdbcSettings, state: LabState) -> dict[str, Any]:
    """Return the variables of a pair's separate database on the lab's PostgreSQL server.

    The JDBC URL keeps the options of PostgreSQL's driver, except those for TLS.
    """
    _, _, options = jdbc.url.partition("?")
    kept_options = "&".join(option for option in options.split("&") if not option.startswith("ssl"))
    has_kept_options = jdbc.url.startswith("jdbc:postgresql:") and kept_options
    url = f"jdbc:postgresql://{database_address(state.block)}:{DATABASE_PORT}/{broker.pair}"
    return {
        "url": f"{url}?{kept_options}" if has_kept_options else url,
        "driver": "org.postgresql.Driver",
        "jar": state.jdbc_driver,
        "username": DATABASE_USER,
        "password": database_password(state.seed),
    }


def _agent_variables(agent: Agent, lab_paths: LabPaths) -> dict[str, Any]:
    base = lab_paths.activemq_base_directory(agent.host)
    return {
        "activemq_agent_user": getpass.getuser(),
        "activemq_agent_home": str(base / "agent"),
        "activemq_agent_state": str(base / "agent-state"),
        "activemq_agent_config": str(base / "agent-config"),
        "activemq_agent_install": False,
        "activemq_agent_service": "none",
    }


def _multicast_ports(fleet: Fleet, block: int) -> dict[str, int]:
    """Return a port of the lab for each multicast address and port of the fleet."""
    multicast_addresses = sorted({broker.settings.multicast for broker in fleet.brokers})
    return {text: _FIRST_MULTICAST_PORT + block + _BLOCKS * number for number, text in enumerate(multicast_addresses)}


def _lab_user(variables: Mapping[str, Any], seed: str) -> dict[str, Any]:
    password = _derive_secret(seed, "lab", LAB_USER)
    user = {"name": LAB_USER, "password": password, "groups": [LAB_USER]}
    rights = {kind: [LAB_USER] for kind in ("read", "write", "admin")}
    # The probes of the lab, and the load of its drills, use any queue.
    entries = [{"destination": ">", "kind": kind, **rights} for kind in ("queue", "topic")]
    return {
        "activemq_users": [*(variables.get("activemq_users") or []), user],
        "activemq_acl": [*variables["activemq_acl"], *entries],
    }


def database_address(block: int) -> str:
    """Return the loopback address of a lab's database server.

    It is in the lab's block of addresses.
    """
    return f"127.{block}.0.1"


def database_password(seed: str) -> str:
    """Return the password for a lab's database, derived from the seed of the lab.

    All accounts of the database have it.
    """
    return _derive_secret(seed, "database")


def _derive_secret(seed: str, *names: str) -> str:
    """Derive a secret of a lab from its seed and the given names.

    It has 32 hexadecimal digits.
    """
    return hmac.new(seed.encode(), "\0".join(names).encode(), hashlib.sha256).hexdigest()[:32]


def _has_encrypted_value(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_has_encrypted_value(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_has_encrypted_value(item) for item in value)
    return isinstance(value, UndecryptedVaultValue)


def _secret_path(name: str, variables: Mapping[str, Any]) -> str:
    """Return the path of a variable's generated secrets, which is the same for all passwords of one user.

    A broker has one password for each user name, and ``activemq_users`` may have the user, too. The password may be
    encrypted separately in each variable, so equal passwords cannot be recognized by their ciphertexts.
    """
    user = variables.get(name.replace("_password", "_username")) if name in _PASSWORDS_OF_USERS else None
    return _path_of_user(user) if user else name


def _path_of_user(user: Any) -> str:
    return f"activemq_users[{user}].password"


def _replace_encrypted(value: Any, path: str, known_secrets: Mapping[str, Any], seed: str) -> Any:
    """Return the value of a variable with the known secret or a derived one in place of each encrypted value.

    The derived secrets depend on ``path``, the variable or the user, and not on the host, because peers must have equal
    secrets. An entry of a list is identified by its name, else by its position.
    """
    if isinstance(value, UndecryptedVaultValue):
        return known_secrets[path] if path in known_secrets else _derive_secret(seed, path)
    if isinstance(value, Mapping):
        return {key: _replace_encrypted(item, f"{path}.{key}", known_secrets, seed) for key, item in value.items()}
    if isinstance(value, list | tuple):
        names = (item.get("name", at) if isinstance(item, Mapping) else at for at, item in enumerate(value))
        return [
            _replace_encrypted(item, f"{path}[{name}]", known_secrets, seed)
            for name, item in zip(names, value, strict=True)
        ]
    return value


def _is_literal(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True


def _printable_value(value: Any, name: str) -> str | None:
    """Return the text of a value without secrets. ``name`` is that of its variable, or its key in a mapping."""
    from activemq_fleet.node.masking import is_secret_name, mask_text  # only printed values need its many patterns

    if value is None:
        return None
    if "password" in name or is_secret_name(name) or isinstance(value, UndecryptedVaultValue):
        return "********"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_printable_value(item, str(key))}" for key, item in value.items()) + "}"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return "[" + ", ".join(str(_printable_value(item, name)) for item in value) + "]"
    return mask_text(str(value))
