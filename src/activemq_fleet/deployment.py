"""Compute what is deployed to each host: its files with modes, and the facts that a playbook needs.

The files are those of ``render``, once with their secrets and once without, so that whoever
deploys them can show every change and no secret.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from activemq_fleet import uris
from activemq_fleet.node.protocols import supports_round_trip
from activemq_fleet.render import SECRET_FILES, mode_of, render_agent, render_balancer, render_masked_and_revealed
from activemq_fleet.render.balancer import DROP_INS
from activemq_fleet.render.service import (
    STORE_MARKER,
    apt_packages,
    environment_path,
    java_path,
    mend_store_command,
    paths,
    unit_path,
    watchdog_path,
)
from activemq_fleet.settings.agent import names_one_version
from activemq_fleet.settings.sizes import size_of
from activemq_fleet.topology import Agent, Balancer, Broker, Fleet

_OPEN = 0o007
# Where a host finds a broker of its own that listens on all addresses.
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 -- nothing is bound


@dataclass(frozen=True, slots=True)
class DeployedFile:
    """A file to deploy, with its mode; ``masked`` is its text with ``@variable@`` for secrets, None without.

    ``hidden``: the user wrote the file, so that it is unknown what in it is secret, and no change of it is shown.
    """

    content: bytes
    mode: int
    masked: str | None
    hidden: bool = False


def files_of(node: Broker | Agent | Balancer) -> dict[str, DeployedFile]:
    """Return the files to deploy for a broker, an agent or a balancer, by path, secrets in clear text.

    Raises SettingsError for a secret that is not set or cannot be opened.
    """
    hidden: set[str] = set()
    if isinstance(node, Broker):
        masked, revealed = render_masked_and_revealed(node)
        hidden = {extra.path for extra in node.settings.extra_files}
    elif isinstance(node, Agent):
        masked, revealed = render_agent(node), render_agent(node, reveal=True)
    else:
        masked, revealed = render_balancer(node), render_balancer(node, reveal=True)
    return {path: _deployed(path, content, masked[path], path in hidden) for path, content in revealed.items()}


def _deployed(path: str, content: bytes, shown: bytes, hidden: bool) -> DeployedFile:
    mode = mode_of(path)
    if content != shown:
        # A secret that stands in a file which was not known to hold any is still a secret.
        mode &= ~_OPEN
    is_secret = content != shown or path in SECRET_FILES
    return DeployedFile(content, mode, shown.decode() if is_secret else None, hidden)


def broker_facts(broker: Broker) -> dict[str, Any]:
    """Return the facts about a broker that a playbook needs, with all defaults applied and without secrets."""
    settings, where = broker.settings, paths(broker)
    return {
        "release": broker.release.text,
        "watch": _watched(broker),
        "probe_ca": settings.probe_ca,
        "group": broker.group,
        "pair": broker.pair,
        "role": broker.role,
        "peer": broker.peer,
        "ha": settings.ha,
        "replicates": broker.profile.replicates,
        "needs_resync": broker.profile.needs_resync,
        "install": settings.install,
        "packages": list(apt_packages(broker)),
        "archive": settings.archive_of_release(),
        "archive_sha512": settings.sha512_of_release(),
        "service": settings.service,
        "user": settings.user,
        # Whoever neither installs nor runs anything as that account owns the files himself.
        "owner": settings.user if (settings.install, settings.service) != ("none", "none") else None,
        "uid": settings.uid,
        "gid": settings.gid,
        "instance": settings.instance,
        "base": where.base,
        "home": where.home,
        "home_link": settings.home,
        "unit": unit_path(broker),
        "watchdog": watchdog_path(broker),
        "fence": settings.fence,
        # With every store that two nodes share: a fence that is taken away needs it, too.
        "guard": broker.shared_directory is not None or bool(mend_store_command(broker)),
        "java": java_path(broker),
        "java_options": list(settings.java_options),
        "environment": f"{where.current}/{environment_path(broker)}",
        "directory": None if broker.profile.has_database_lease else broker.store_directory,
        "store_limit": size_of(settings.store_limit),
        "metrics": _metrics_facts(broker),
        "multicast": any(link.kind == "multicast" for link in broker.links),
        "multicast_interface": settings.multicast_interface,
        "store": broker.shared_directory,
        "marker": STORE_MARKER,
        "replication": broker.ports.get("replication"),
        "listens": _LOOPBACK.get(settings.bind, settings.bind),
        "broker_name": broker.broker_name,
        "links": [{"name": link.name, "target": link.target, "duplex": link.duplex} for link in broker.links],
    }


def exporter_source(fleet: Fleet) -> Path | None:
    """Return the path of ``activemq_metrics_archive``, the exporter's jar on the controller; None without one."""
    named = (broker.settings.metrics_archive for broker in fleet.brokers if broker.settings.metrics)
    return next((Path(path).expanduser() for path in named if path), None)


def _metrics_facts(broker: Broker) -> dict[str, Any] | None:
    """Return the facts about a broker's metrics exporter; None without one."""
    settings = broker.settings
    if not settings.metrics:
        return None
    return {
        "jar": settings.metrics_jar,
        "port": broker.ports["metrics"],
        "keystore": settings.metrics_tls.keystore if settings.metrics_tls else None,
        "labels": broker.labels,
    }


def hosts_by_play(fleet: Fleet) -> dict[str, list[str]]:
    """Return the host names for each play of the playbook ``site``, by a short name of the play."""
    facts = {broker.host: broker_facts(broker) for broker in fleet.brokers}
    run = [host for host, broker in facts.items() if broker["service"] == "systemd"]
    return {
        "configure": list(facts),
        "prepare": [host for host, broker in facts.items() if broker["owner"] is not None],
        "run": run,
        "share": [host for host in run if facts[host]["store"] is not None],
        "equip": [agent.host for agent in fleet.agents],
        "balance": [balancer.host for balancer in fleet.balancers],
    }


def _watched(broker: Broker) -> str | None:
    """Return the URL for ``broker_watch``: of a connector that supports a round trip, else of the first."""
    connectors = sorted(broker.connectors, key=lambda each: not supports_round_trip(each.scheme))
    if not connectors:
        return None
    return uris.listen(connectors[0].scheme, broker.address, connectors[0].port)


def agent_facts(agent: Agent) -> dict[str, Any]:
    """Return the facts about an agent that a playbook needs, with all defaults applied and without secrets."""
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
        "is_requirement": names_one_version(settings.agent_package or ""),
        "python": settings.agent_python,
        "handlers": settings.agent_handlers,
        "handlers_source": settings.agent_handlers_source,
        "install": settings.agent_install,
        "service": settings.agent_service,
        "owner": settings.agent_user if settings.agent_install or settings.agent_service != "none" else None,
    }


def balancer_facts(balancer: Balancer) -> dict[str, Any]:
    """Return the facts about a load balancer that a playbook needs, with defaults applied, without secrets."""
    settings = balancer.settings
    return {
        "config": settings.vip_config,
        "check_port": settings.vip_check_port,
        "install": settings.install != "none",
        "service": settings.service,
        "drop_ins": dict(DROP_INS),
        "addresses": {one.group: one.address for one in balancer.addresses},
    }
