"""Compute the facts about brokers, agents and load balancers that playbooks and operations need, without secrets.

The module ``compile`` returns the ``BrokerFacts`` of each broker. Playbooks read them as a mapping, and operations and
host rules as this type. The types of operations, such as ``ObservedNode``, combine them with evidence of the host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from activemq_fleet import uris
from activemq_fleet.node.config.broker_configuration import message_store_facts
from activemq_fleet.node.protocols import supports_round_trip
from activemq_fleet.profiles import PROFILES, HighAvailabilityProfile
from activemq_fleet.releases import Release
from activemq_fleet.render.broker_paths import paths_of_broker
from activemq_fleet.render.debian_package import apt_packages
from activemq_fleet.render.environment_file import environment_file_relative_path
from activemq_fleet.render.java_command import java_path
from activemq_fleet.render.load_balancer import DROP_INS, haproxy_configuration_id
from activemq_fleet.render.systemd_units import (
    repair_store_command_words,
    systemd_unit_relative_path,
    watchdog_unit_relative_path,
)
from activemq_fleet.settings.activemq_size_notation import size_in_bytes
from activemq_fleet.settings.agent import pins_one_version
from activemq_fleet.settings.java_memory_options import largest_heap_bytes
from activemq_fleet.topology import Agent, Balancer, Broker, Fleet

_WITHOUT_TCP_PORT = ("udp", "vm", "multicast")
_PORT_VARIABLES = {
    "console": "activemq_console_port",
    "metrics": "activemq_metrics_port",
    "replication": "activemq_replication_port",
    "jmx": "activemq_jmx",
    "jmx_rmi": "activemq_jmx",
}
# The address at which a host connects to its local broker that listens on all addresses.
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 -- the code binds no socket


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """The facts that playbooks need about a link, a network connection from a broker to another pair.

    ``target`` is that pair.
    """

    name: str
    target: str
    duplex: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsFacts:
    """The facts that playbooks need about the metrics exporter of a broker.

    These are its jar, its port, the keystore for TLS, and its labels.
    """

    jar: str
    port: int
    keystore: str | None
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ListenerFacts:
    """The facts that playbooks need about a listener (TCP port) of a broker.

    These are the listener's purpose, its address, and the variable that sets its port.
    """

    name: str
    address: str
    port: int
    variable: str


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """The facts that playbooks need about the message store of a broker.

    These are its kind and its location, as the broker's configuration names them. ``kind`` is the element of the store,
    None where it is not known; ``directory`` that of a kahaDB. ``openwire`` is ``storeOpenWireVersion`` if it is set.
    ``pure``: the broker replicates to a slave, or is a slave. ``database`` is the JDBC URL of a database without login
    and parameters. ``stores`` are the destinations of the stores of an mKahaDB, in words.
    """

    kind: str | None = "kahaDB"
    directory: str | None = None
    openwire: int | None = None
    pure: bool = False
    database: str | None = None
    stores: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """The facts about a broker that deployment and operation need, such as its release, directories and links.

    The facts come from the inventory. They have no secrets, and all defaults are applied.
    """

    host: str
    address: str
    """The host name or IP address at which other hosts connect to the broker (``activemq_address``)."""
    release: Release
    watch: str | None
    """The URL for ``broker_watch``: of a connector that supports a round trip, else of the first."""
    probe_ca: str | None
    group: str
    pair: str
    role: str
    peer: str | None
    ha: str
    replicates: bool
    needs_resync: bool
    install: str
    packages: tuple[str, ...]
    archive: str | None
    archive_sha512: str | None
    service: str
    user: str
    owner: str | None
    """The account that owns the files; None if that account neither installs nor runs a program, so that the files
    belong to the account that runs the playbook."""
    uid: int | None
    gid: int | None
    instance: str
    base: str
    home: str
    home_link: str
    """The symbolic link to ``home``; the same as ``home`` if the role creates no link."""
    unit: str
    watchdog: str | None
    fence: str
    guard: bool
    """Whether the guard's program is installed: for every store that two nodes share, because removing a fence also
    requires it."""
    java: str
    java_options: tuple[str, ...]
    environment: str | None
    """The path of the environment file that the broker's systemd unit reads."""
    directory: str | None
    """The directory of the store; None where the store is a database."""
    store_limit: int | None
    """The limit of the store in bytes; None if it is not a size."""
    heap: int | None
    """The largest Java heap in bytes; None if it is not a size."""
    metrics: MetricsFacts | None
    multicast: bool
    multicast_interface: str | None
    store: str | None
    """The directory of the store that both nodes of the pair share; None without one."""
    replication: int | None
    listens: str
    broker_name: str
    links: tuple[LinkFacts, ...]
    link_addresses: tuple[str, ...] = ()
    """The host names and IP addresses to which the links connect."""
    listeners: tuple[ListenerFacts, ...] = ()
    persistence: StoreFacts | None = None
    """The store that the rendered configuration names; None where nothing was rendered."""

    @property
    def ha_profile(self) -> HighAvailabilityProfile:
        """The high-availability profile of the broker's pair: how one node takes over from the other."""
        return PROFILES[self.ha]

    @property
    def unit_name(self) -> str:
        """The name of the broker's systemd unit."""
        return f"{self.instance}.service"

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> BrokerFacts:
        """Return the facts about a broker from a mapping that ``as_dict`` returned.

        Raises KeyError, TypeError, ReleaseError.
        """
        facts: dict[str, Any] = {
            field.name: tuple(mapping[field.name]) if isinstance(mapping[field.name], list) else mapping[field.name]
            for field in fields(cls)
        }
        metrics, persistence = facts["metrics"], facts["persistence"]
        return cls(
            **{
                **facts,
                "release": Release.of(facts["release"]),
                "metrics": MetricsFacts(**metrics) if metrics else None,
                "links": tuple(LinkFacts(**link) for link in facts["links"]),
                "listeners": tuple(ListenerFacts(**listener) for listener in facts["listeners"]),
                "persistence": StoreFacts(**persistence) if persistence else None,
            }
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the facts about a broker as a dict for playbooks and JSON.

        Tuples are lists, the release is text.
        """
        plain: dict[str, Any] = {}
        for field in fields(self):
            fact = getattr(self, field.name)
            plain[field.name] = list(fact) if isinstance(fact, tuple) else fact
        return {
            **plain,
            "release": self.release.text,
            "metrics": asdict(self.metrics) if self.metrics else None,
            "links": [asdict(link) for link in self.links],
            "listeners": [asdict(listener) for listener in self.listeners],
            "persistence": asdict(self.persistence) if self.persistence else None,
        }


def broker_facts(broker: Broker, activemq_xml: bytes | None = None) -> BrokerFacts:
    """Return the facts about a broker that playbooks need, derived from the broker's settings.

    The facts about the message store are read from ``activemq_xml``, the rendered activemq.xml.
    """
    settings, paths = broker.settings, paths_of_broker(broker)
    directory = None if broker.ha_profile.has_database_lease else broker.store_directory
    persistence = None
    if activemq_xml is not None:
        persistence = StoreFacts(**message_store_facts(activemq_xml, paths.base))
        if broker.has_guard:  # activemq.xml names the link of the guard
            persistence = replace(persistence, directory=directory)
    return BrokerFacts(
        host=broker.host,
        address=broker.address,
        release=broker.release,
        watch=_watch_url(broker),
        probe_ca=settings.probe_ca,
        group=broker.group,
        pair=broker.pair,
        role=broker.role,
        peer=broker.peer,
        ha=settings.ha,
        replicates=broker.ha_profile.replicates,
        needs_resync=broker.ha_profile.needs_resync,
        install=settings.install,
        packages=tuple(apt_packages(broker)),
        archive=settings.release_archive_path_or_url(),
        archive_sha512=settings.release_archive_sha512(),
        service=settings.service,
        user=settings.user,
        owner=settings.user if (settings.install, settings.service) != ("none", "none") else None,
        uid=settings.uid,
        gid=settings.gid,
        instance=settings.instance,
        base=paths.base,
        home=paths.home,
        home_link=settings.home if settings.install in ("archive", "jars") else paths.home,
        unit=systemd_unit_relative_path(broker),
        watchdog=watchdog_unit_relative_path(broker),
        fence=settings.fence,
        guard=broker.shared_store_directory is not None or bool(repair_store_command_words(broker)),
        java=java_path(broker),
        java_options=tuple(settings.java_options),
        environment=f"{paths.current}/{environment_file_relative_path(broker)}",
        directory=directory,
        store_limit=size_in_bytes(settings.store_limit),
        heap=largest_heap_bytes(settings),
        metrics=_metrics_facts(broker),
        multicast=any(link.kind == "multicast" for link in broker.links),
        multicast_interface=settings.multicast_interface,
        store=broker.shared_store_directory,
        replication=broker.ports.get("replication"),
        listens=_LOOPBACK.get(settings.bind, settings.bind),
        broker_name=broker.broker_name,
        links=tuple(LinkFacts(link.name, link.target, link.duplex) for link in broker.links),
        link_addresses=tuple(dict.fromkeys(name for link in broker.links for name, _port in link.addresses)),
        listeners=tuple(_listener_facts(broker)),
        persistence=persistence,
    )


def _watch_url(broker: Broker) -> str | None:
    connectors = sorted(broker.connectors, key=lambda connector: not supports_round_trip(connector.scheme))
    if not connectors:
        return None
    return uris.listener_uri(connectors[0].scheme, broker.address, connectors[0].port)


def _listener_facts(broker: Broker) -> Iterator[ListenerFacts]:
    without_tcp_port = {c.name for c in broker.connectors if c.scheme.startswith(_WITHOUT_TCP_PORT)}
    for name, address in broker.bind_addresses.items():
        if name not in without_tcp_port:
            variable = _PORT_VARIABLES.get(name, "activemq_connectors")
            yield ListenerFacts(name, address, broker.ports[name], variable)


def _metrics_facts(broker: Broker) -> MetricsFacts | None:
    settings = broker.settings
    if not settings.metrics:
        return None
    return MetricsFacts(
        jar=settings.metrics_jar,
        port=broker.ports["metrics"],
        keystore=settings.metrics_tls.keystore if settings.metrics_tls else None,
        labels=broker.metric_labels,
    )


def exporter_jar_path_on_controller(fleet: Fleet) -> Path | None:
    """Return the path of the metrics exporter's jar on the Ansible controller; None without one.

    The variable ``activemq_metrics_archive`` sets the path.
    """
    archives = (broker.settings.metrics_archive for broker in fleet.brokers if broker.settings.metrics)
    return next((Path(path).expanduser() for path in archives if path), None)


def hosts_by_play_of_site_playbook(fleet: Fleet) -> dict[str, list[str]]:
    """Return the names of a fleet's hosts for each play of the playbook ``site``.

    The keys are short names of the plays.
    """
    facts = [broker_facts(broker) for broker in fleet.brokers]
    brokers_with_units = [broker for broker in facts if broker.service == "systemd"]
    return {
        "configure": [broker.host for broker in facts],
        "prepare": [broker.host for broker in facts if broker.owner is not None],
        "run": [broker.host for broker in brokers_with_units],
        "share": [broker.host for broker in brokers_with_units if broker.store is not None],
        "equip": [agent.host for agent in fleet.agents],
        "balance": [balancer.host for balancer in fleet.balancers],
    }


def agent_facts(agent: Agent) -> dict[str, Any]:
    """Return the facts about a failover agent that a playbook needs.

    Defaults are applied, and there are no secrets.
    """
    settings = agent.settings
    return {
        "group": agent.group,
        "pair": agent.pair,
        "user": settings.agent_user,
        "home": settings.agent_home,
        "state": settings.agent_state,
        "config": settings.agent_config,
        "wheelhouse": settings.agent_wheelhouse,
        "package": settings.agent_package,
        "is_requirement": pins_one_version(settings.agent_package or ""),
        "python": settings.agent_python,
        "handlers": settings.agent_handlers,
        "handlers_source": settings.agent_handlers_source,
        "install": settings.agent_install,
        "service": settings.agent_service,
        "owner": settings.agent_user if settings.agent_install or settings.agent_service != "none" else None,
    }


def balancer_facts(balancer: Balancer) -> dict[str, Any]:
    """Return the facts about a load balancer for playbooks, such as its service, check port and addresses.

    Defaults are applied, and there are no secrets.
    """
    settings = balancer.settings
    return {
        "config": settings.vip_config,
        "check_port": settings.vip_check_port,
        "haproxy_configuration_id": haproxy_configuration_id(balancer),
        "install": settings.install != "none",
        "service": settings.service,
        "drop_ins": dict(DROP_INS),
        "addresses": {address.group: address.address for address in balancer.addresses},
    }
