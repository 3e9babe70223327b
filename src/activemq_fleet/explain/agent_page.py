"""Explain a host that runs the failover agent: its home pair, why that pair, and its configuration."""

from __future__ import annotations

from activemq_fleet.explain.account_sections import mb_urls_value_for_agent_conf
from activemq_fleet.explain.explanation import ExplanationSection, HostStatement, pair_count, variable_entry
from activemq_fleet.explain.port_and_file_sections import file_entry
from activemq_fleet.explain.takeover_section import takeover_time_text
from activemq_fleet.render import render_agent
from activemq_fleet.render.activemq_xml import render_activemq_xml_bytes
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import Agent, Fleet, Pair

_PURPOSES = {
    "agent.conf": "configuration of the agent: brokers (in the order of its attempts), topics, and state directory",
    "mb.password": "the password of the agent's account",
    "jndi.properties": "the brokers of agent.conf, for Java clients on this host",
    "systemd/activemq-agent.service": "the service unit",
}


def agent_explanation_title(agent: Agent) -> str:
    """Return the title of the explanation of a failover agent."""
    return f"a failover agent that connects to pair {agent.pair} of group {agent.group}"


def agent_sections(fleet: Fleet, agent: Agent) -> list[ExplanationSection]:
    """Return the sections of a host's explanation about a failover agent.

    They describe its home pair, configuration, files, and the effect of a broker's death.
    """
    pair = fleet.pairs_by_name[agent.pair]
    return [
        _home_pair_section(fleet, agent, pair),
        _configuration_section(agent, pair),
        _broker_death_section(pair),
        _files_section(agent),
    ]


def _home_pair_section(fleet: Fleet, agent: Agent, pair: Pair) -> ExplanationSection:
    settings = agent.settings
    pairs = pair_count(fleet, agent.group)
    why_group = "" if settings.agent_group else "the fleet has only this group"
    group = variable_entry(settings, "agent_group", "group", agent.group, why=why_group, data={"group": agent.group})
    if settings.agent_pair:
        reason = "set by hand"
    elif pairs == 1:
        reason = f"group {agent.group} has only this pair"
    else:
        reason = f"a stable hash of the host name selects one of the {pairs} pairs of group {agent.group}"
    home = variable_entry(settings, "agent_pair", "home pair", agent.pair, why=reason, data={"pair": agent.pair})
    nodes = [
        HostStatement(
            b.identity.short_host_name,
            f"preferred {b.role}" if b.ha_profile.has_peer else "a single broker",
            why=f"ActiveMQ {b.release.text}",
        )
        for b in pair.brokers_in_dialling_order
    ]
    intro = (
        "The agent connects only to the nodes of its home pair, because the store of this pair contains the durable "
        "MQTT session of the agent."
    )
    return ExplanationSection("home", "Home pair", (group, home, *nodes), intro=intro)


def _configuration_section(agent: Agent, pair: Pair) -> ExplanationSection:
    settings, urls = agent.settings, mb_urls_value_for_agent_conf(pair)
    displayed_keys = [
        HostStatement("mb.urls", urls, why="preferred master first", data={"mb_urls": urls, "tls": agent.tls}),
        variable_entry(settings, "agent_username", "account", settings.agent_username or "none"),
        variable_entry(settings, "agent_client_id", "client id", settings.agent_client_id or agent.host),
        variable_entry(settings, "agent_topics", "topics", ", ".join(settings.agent_topics) or "none"),
        variable_entry(
            settings, "agent_publisher_timeout", "publisher", f"{settings.agent_publisher_timeout} s at most"
        ),
        variable_entry(settings, "agent_handlers", "handlers", settings.agent_handlers or "none"),
    ]  # fmt: skip
    return ExplanationSection("told", "Configuration", tuple(displayed_keys))


def _broker_death_section(pair: Pair) -> ExplanationSection:
    master, brokers = pair.preferred_master, pair.brokers_in_dialling_order
    effect = "if {} fails while it is active, the agent continues its MQTT session on the other node of the pair"
    if len(brokers) == 1 or not master.ha_profile.has_peer:
        effect = "if {} fails, the agent waits until this broker runs again"
    names = [broker.identity.short_host_name for broker in brokers]
    entries = [HostStatement(name, effect.format(name)) for name in names]
    entries.append(HostStatement("within", takeover_time_text(master, XmlDocument(render_activemq_xml_bytes(master)))))
    entries.append(
        HostStatement(
            "both",
            f"while no node of pair {pair.name} runs, the agent keeps outgoing messages on its host. It connects to no "
            "other pair",
        )
    )
    return ExplanationSection("dies", "Failure of a broker of the home pair", tuple(entries))


def _files_section(agent: Agent) -> ExplanationSection:
    settings = agent.settings
    entries = [
        variable_entry(
            settings, "agent_config", "below", settings.agent_config, why="a symbolic link to the installed version"
        ),
        variable_entry(settings, "agent_state", "state", settings.agent_state, why="journal and outbox"),
    ]
    entries += [
        file_entry(path, settings.agent_config, _PURPOSES.get(path, "another file of the agent"))
        for path in render_agent(agent)
    ]
    return ExplanationSection("agent-files", "Files", tuple(entries))
