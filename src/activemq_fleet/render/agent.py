"""Agent -> agent.conf, its password file and its unit; group -> jndi.properties."""

from __future__ import annotations

from activemq_fleet import uris
from activemq_fleet.addresses import format_list, join
from activemq_fleet.render import shapes
from activemq_fleet.render.secrets import Secrets
from activemq_fleet.render.shapes import Values
from activemq_fleet.topology import Agent, Fleet, Group

CONFIGURATION, PASSWORD, UNIT = "agent.conf", "mb.password", "systemd/activemq-agent.service"


def agent_files(agent: Agent, secrets: Secrets) -> dict[str, bytes]:
    """Files of an agent's host by path. ``mb.urls`` lists its home pair, preferred master first."""
    return {
        CONFIGURATION: _configuration(agent),
        PASSWORD: (secrets.show("activemq_agent_password", agent.settings.agent_password) + "\n").encode(),
        "jndi.properties": jndi_properties(agent.group, agent),
        UNIT: _unit(agent),
    }


def _unit(agent: Agent) -> bytes:
    settings, v = agent.settings, Values()
    return shapes.render(
        "agent/agent.service.j2",
        v,
        host=v(agent.host),
        pair=v(agent.pair),
        user=v(settings.agent_user),
        program=v(f"{settings.agent_home}/bin/activemq-agent"),
        config=v(settings.agent_config),
        state=v(settings.agent_state),
    )


def _configuration(agent: Agent) -> bytes:
    v = Values()
    return shapes.render(
        "agent/agent.conf.j2",
        v,
        host=v(agent.host),
        pair=v(agent.pair),
        group=v(agent.group),
        entries=tuple([(name, v(value)) for name, value in _entries(agent)]),
    )


def _entries(agent: Agent) -> list[tuple[str, str]]:
    settings = agent.settings
    urls = ",".join(f"ssl://{join(*url)}" for url in agent.urls) if agent.tls else format_list(agent.urls)
    found = {
        "mb.urls": urls,
        "mb.username": settings.agent_username,
        "mb.password.file": f"{settings.agent_config}/{PASSWORD}",
        "mb.publisher.timeout": settings.agent_publisher_timeout,
        "mb.publisher.window": settings.agent_publisher_window,
        "topics": ",".join(settings.agent_topics),
        "client.id": settings.agent_client_id or agent.host,
        "state.directory": settings.agent_state,
        "tls.ca": settings.agent_tls_ca,
        "tls.certificate": settings.agent_tls_certificate,
        "tls.key": settings.agent_tls_key,
        "handlers": settings.agent_handlers,
    }
    return [(name, str(value)) for name, value in found.items() if value not in (None, "")]


def jndi_properties(group: str, agent: Agent) -> bytes:
    """``jndi.properties`` for Java clients beside an agent, from the same list of nodes."""
    scheme = "ssl" if agent.tls else "tcp"
    return _jndi(group, uris.failover(agent.java_urls, scheme=scheme)) if agent.java_urls else b""


def client_files(group: Group) -> dict[str, bytes]:
    """Files for the Java clients of a group: every broker that they can dial, masters first."""
    brokers = sorted(group.brokers, key=lambda b: (b.role != "master", b.host))
    dialled = [uris.dial((b.address, b.openwire.port), b.openwire.scheme) for b in brokers if b.openwire]
    if not dialled:
        return {}
    return {"jndi.properties": _jndi(group.name, uris.failover_among(dialled))}


def _jndi(group: str, uri: str) -> bytes:
    v = Values()
    return shapes.render("agent/jndi.properties.j2", v, group=v(group), uri=v(uri))


def clients_of(fleet: Fleet) -> dict[str, bytes]:
    """``clients/GROUP/jndi.properties`` of every group."""
    return {
        f"clients/{group.name}/{path}": content
        for group in fleet.groups
        for path, content in client_files(group).items()
    }
