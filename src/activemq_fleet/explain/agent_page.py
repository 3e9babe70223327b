"""Explain a host that runs the failover agent: its home pair, why that pair, and its configuration."""

from __future__ import annotations

from activemq_fleet.explain.accounts import mqtt_urls_for_agent_conf
from activemq_fleet.explain.explanation import ExplanationEntry, ExplanationSection, pair_count, variable_entry
from activemq_fleet.explain.ports_and_files import file_entry
from activemq_fleet.explain.takeover import takeover_time_text
from activemq_fleet.render import render_agent
from activemq_fleet.render.activemq_xml import activemq_xml
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import Agent, Fleet, Pair

_PURPOSES = {
    "agent.conf": "configuration of the agent: brokers in their order, topics, its state",
    "mb.password": "the password of its account",
    "jndi.properties": "the same brokers, for Java clients on this host",
    "systemd/activemq-agent.service": "the service unit",
}


def agent_explanation_title(agent: Agent) -> str:
    """Return the title of the explanation of a failover agent."""
    return f"a failover agent that connects to pair {agent.pair} of group {agent.group}"


def agent_sections(fleet: Fleet, agent: Agent) -> list[ExplanationSection]:
    """Return the sections of a host's explanation about a failover agent.

    They describe its home pair, configuration, files, and the effect of a broker's death.
    """
    pair = fleet.pairs[agent.pair]
    return [
        _home_pair_section(fleet, agent, pair),
        _configuration_section(agent, pair),
        _broker_death_section(pair),
        _files_section(agent),
    ]


def _home_pair_section(fleet: Fleet, agent: Agent, pair: Pair) -> ExplanationSection:
    settings = agent.settings
    pairs = pair_count(fleet, agent.group)
    why_group = "" if settings.agent_group else "the only group"
    group = variable_entry(settings, "agent_group", "group", agent.group, why=why_group, data={"group": agent.group})
    if settings.agent_pair:
        why = "set by hand"
    elif pairs == 1:
        why = f"the only pair of {agent.group}"
    else:
        why = f"a stable hash of this host's name among the {pairs} pairs of {agent.group}"
    home = variable_entry(settings, "agent_pair", "home pair", agent.pair, why=why, data={"pair": agent.pair})
    nodes = [
        ExplanationEntry(
            b.identity.short_host_name,
            f"preferred {b.role}" if b.profile.has_peer else "a single broker",
            why=f"ActiveMQ {b.release.text}",
        )
        for b in pair.brokers_in_dialling_order
    ]
    intro = (
        "The store of one pair contains the durable MQTT session, so the agent connects only to the nodes of that pair."
    )
    return ExplanationSection("home", "Home pair", (group, home, *nodes), intro=intro)


def _configuration_section(agent: Agent, pair: Pair) -> ExplanationSection:
    settings, urls = agent.settings, mqtt_urls_for_agent_conf(pair)
    shown = [
        ExplanationEntry("mb.urls", urls, why="preferred master first", data={"mb_urls": urls, "tls": agent.tls}),
        variable_entry(settings, "agent_username", "account", settings.agent_username or "none"),
        variable_entry(settings, "agent_client_id", "client id", settings.agent_client_id or agent.host),
        variable_entry(settings, "agent_topics", "topics", ", ".join(settings.agent_topics) or "none"),
        variable_entry(
            settings, "agent_publisher_timeout", "publisher", f"{settings.agent_publisher_timeout} s at most"
        ),
        variable_entry(settings, "agent_handlers", "handlers", settings.agent_handlers or "none"),
    ]  # fmt: skip
    return ExplanationSection("told", "Configuration", tuple(shown))


def _broker_death_section(pair: Pair) -> ExplanationSection:
    master, brokers = pair.preferred_master, pair.brokers_in_dialling_order
    fate = "if the broker was active, the agent finds its session and its messages on the other node"
    if len(brokers) == 1 or not master.profile.has_peer:
        fate = "the agent waits until the broker is back"
    entries = [ExplanationEntry(broker.identity.short_host_name, fate) for broker in brokers]
    entries.append(ExplanationEntry("within", takeover_time_text(master, XmlDocument(activemq_xml(master)))))
    entries.append(
        ExplanationEntry(
            "both", "outgoing messages wait on this host until a node is back; the agent tries no other pair"
        )
    )
    return ExplanationSection("dies", "Failure of a broker of the home pair", tuple(entries))


def _files_section(agent: Agent) -> ExplanationSection:
    settings = agent.settings
    entries = [
        variable_entry(settings, "agent_config", "below", settings.agent_config, why="a link to the version in force"),
        variable_entry(settings, "agent_state", "state", settings.agent_state, why="journal and outbox"),
    ]
    entries += [
        file_entry(path, settings.agent_config, _PURPOSES.get(path, "your own file")) for path in render_agent(agent)
    ]
    return ExplanationSection("agent-files", "Files", tuple(entries))
