"""Render agent.conf, the password file and the unit of an agent, and jndi.properties of a group."""

from __future__ import annotations

from activemq_fleet import uris
from activemq_fleet.addresses import format_mb_urls_value_of_agent_conf
from activemq_fleet.render.engine import render_template
from activemq_fleet.render.secrets import SecretRenderer
from activemq_fleet.render.systemd_units import protect_home_value
from activemq_fleet.settings.agent import VARIABLES
from activemq_fleet.topology import Agent, Group

CONFIGURATION, PASSWORD, UNIT = "agent.conf", "mb.password", "systemd/activemq-agent.service"
STOP_SECONDS = 25
"""Seconds within which an agent must stop, in addition to the time in which it empties its outbox."""
MEMORY, COPIES = 1024, 20
"""MiB for an agent and its handlers, and how many of the largest packet are held or written as JSON at once."""
LARGEST_PACKET = MIB = 1 << 20
_STATE_DIRECTORY_ROOT = "/var/lib/"


def agent_files(agent: Agent, secrets: SecretRenderer) -> dict[str, bytes]:
    """Return the content of each configuration file of a failover agent, by path; ``secrets`` renders passwords.

    The passwords are values or placeholders. The agent is a program that sends events to brokers.
    ``mb.urls`` lists the brokers of its home pair, preferred master first.
    """
    return {
        CONFIGURATION: _configuration(agent),
        PASSWORD: (secrets.secret_text("activemq_agent_password", agent.settings.agent_password) + "\n").encode(),
        "jndi.properties": _jndi_properties_on_agent_host(agent.group, agent),
        UNIT: _unit_file(agent),
    }


def _unit_file(agent: Agent) -> bytes:
    settings = agent.settings
    used_paths = (
        settings.agent_state, settings.agent_home, settings.agent_config, settings.agent_handlers or "",
        settings.agent_tls_ca or "", settings.agent_tls_certificate or "", settings.agent_tls_key or "",
    )  # fmt: skip
    state_subdirectory = settings.agent_state.removeprefix(_STATE_DIRECTORY_ROOT)
    return render_template(
        "agent/agent.service.j2",
        host=agent.host,
        pair=agent.pair,
        user=settings.agent_user,
        program=f"{settings.agent_home}/bin/activemq-agent",
        config=settings.agent_config,
        # systemd makes a directory below /var/lib itself; one elsewhere may be a mount.
        own_state=state_subdirectory if state_subdirectory != settings.agent_state else None,
        state=settings.agent_state,
        memory_max=f"{MEMORY + COPIES * -(-(settings.agent_packet_bytes or LARGEST_PACKET) // MIB)}M",
        stop_timeout=settings.agent_drain_seconds + STOP_SECONDS,
        protect_home=protect_home_value(used_paths),
    )


def _configuration(agent: Agent) -> bytes:
    return render_template(
        "agent/agent.conf.j2",
        host=agent.host,
        pair=agent.pair,
        group=agent.group,
        entries=_configuration_entries(agent),
    )


def _configuration_entries(agent: Agent) -> list[tuple[str, str]]:
    """Return the keys and values of agent.conf; keys that no variable sets are left out."""
    settings = agent.settings
    entries: dict[str, str] = {
        "mb.urls": format_mb_urls_value_of_agent_conf(agent.urls, tls=agent.tls),
        "mb.username": "",
        "mb.password.file": f"{settings.agent_config}/{PASSWORD}",
    }
    for key, variable in VARIABLES.items():
        # The agent rejects TLS files if no entry of its list needs them.
        if agent.tls or not key.startswith("tls."):
            entries[key] = _option_text(getattr(settings, f"agent_{variable}"))
    entries["client.id"] = entries["client.id"] or agent.host
    return [(key, text) for key, text in (entries | settings.agent_options).items() if text]


def _option_text(value: object) -> str:
    if value is None or value is False:
        return ""
    if isinstance(value, tuple):
        return ",".join(dict.fromkeys(value))
    return "true" if value is True else str(value)


def _jndi_properties_on_agent_host(group: str, agent: Agent) -> bytes:
    """Return the file ``jndi.properties`` for Java clients on an agent's host.

    It lists the brokers of the agent's home pair.
    """
    connection_uris = [
        uris.connection_uri(url, scheme) for url, scheme in zip(agent.java_urls, agent.java_schemes, strict=True)
    ]
    return _jndi_file(group, uris.failover_uri_from_uris(connection_uris)) if connection_uris else b""


def java_client_files(group: Group) -> dict[str, bytes]:
    """Return the file ``jndi.properties`` for Java clients of a group of brokers, by path.

    It lists every broker that accepts clients, masters first.
    """
    brokers = sorted(group.brokers, key=lambda b: (b.role != "master", b.host))
    connection_uris = [
        uris.connection_uri((b.address, b.openwire.port), b.openwire.scheme) for b in brokers if b.openwire
    ]
    if not connection_uris:
        return {}
    return {"jndi.properties": _jndi_file(group.name, uris.failover_uri_from_uris(connection_uris))}


def _jndi_file(group: str, uri: str) -> bytes:
    return render_template("agent/jndi.properties.j2", group=group, uri=uri)
