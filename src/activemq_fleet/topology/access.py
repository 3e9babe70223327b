"""Compute the accounts of each broker and the permissions of each user group.

The accounts of the network, of agents and of balancers are added to those of ``activemq_users``. Without
``activemq_acl`` every account has all permissions. With any entry, each user group gets only the permissions that it
needs.
"""

from __future__ import annotations

import functools
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from pydantic import SecretStr

from activemq_fleet import agent_topics
from activemq_fleet.node.config.probe_account import PROBE_GROUP, PROBE_PASSWORD_KEY, PROBE_TOPICS, PROBE_USER
from activemq_fleet.releases import Release
from activemq_fleet.settings.encrypted import UndecryptedVaultValue
from activemq_fleet.settings.host_settings import HostSettings
from activemq_fleet.topology.links import PlannedNetwork
from activemq_fleet.topology.model.balancer import Balancer
from activemq_fleet.topology.model.broker import Account, Broker, Link, Permission
from activemq_fleet.topology.model.fleet import Agent

NETWORK_GROUP = "activemq-network"
AGENT_GROUP = "activemq-agents"
"""The user group of all agents of a broker group, which may read the agents' topics and publish events on them."""
_ADVISORIES = "ActiveMQ.Advisory.>"
_EVERYTHING = ("queue://>", "topic://>")
_REPLACED = str.maketrans("/+#", ".*>")
_SWAPPED = str.maketrans("/+#.*>", ".*>/+#")


_PROBE_ADVISORIES = (
    "ActiveMQ.Advisory.Connection",
    "ActiveMQ.Advisory.Topic",
    f"ActiveMQ.Advisory.*.Topic.{PROBE_TOPICS}",
)
"""Advisory topics that the connection of a probe creates. Measured on 5.5.1, 5.8.0, 5.18.3 and 6.3.1."""
_DERIVATION_LABEL = b"activemq.fleet: password of the probe account"
_DERIVATION_ROUNDS = 50_000


def user_group_of_agent(username: str) -> str:
    """Return the name of the user group that contains one failover agent alone.

    Only this group may send the agent's canaries (messages that it sends to itself to test its connection) and barriers
    (messages that prove that its earlier events arrived).
    """
    return f"activemq-agent-{username}"


def agent_name_in_events_and_topics(agent: Agent) -> str:
    """Return the name that a failover agent has in the ids of its events and in the names of its topics.

    It is ``agent.name``, else its client id, else its host.
    """
    return agent.settings.agent_options.get("agent.name") or agent.settings.agent_client_id or agent.host


def add_links_accounts_and_permissions(
    brokers: Iterable[Broker], network: PlannedNetwork, agents: Sequence[Agent], balancers: Sequence[Balancer]
) -> tuple[Broker, ...]:
    """Return the brokers with their network links, user accounts and permissions added."""
    agents_by_group: dict[str, list[Agent]] = defaultdict(list)
    for agent in agents:
        agents_by_group[agent.group].append(agent)
    ends_of_plans = {name for plans in network.plans.values() for plan in plans for name in (plan.source, plan.target)}
    links_by_unit = _links_by_unit(network)
    complete = []
    for broker in brokers:
        group, unit, links = broker.group, broker.name_in_links, network.links_by_host[broker.host]
        in_front = [balancer for balancer in balancers if balancer.serves_group(group)]
        accounts = _accounts_of(broker, agents_by_group[group], in_front)
        permissions: tuple[Permission, ...] = ()
        if broker.settings.acl:
            carried = _union_of_carried_destinations(links_by_unit[unit])
            permissions = _permissions_of(broker, accounts, agents_by_group[group], carried)
        networked = unit in ends_of_plans or len(network.multicast_groups.get(group, ())) > 1
        complete.append(replace(broker, links=links, accounts=accounts, permissions=permissions, networked=networked))
    return tuple(complete)


def _links_by_unit(network: PlannedNetwork) -> dict[str, list[Link]]:
    """Return the links that begin or end at each pair or single broker, by its name.

    A multicast link ends at each pair or single broker of its group. The ends of links with ``addresses`` and of links
    in XML fragments are not known here: such a link is only in the list of the broker that opens it, or in none.
    """
    links_by_unit: dict[str, list[Link]] = {name: [] for name in network.units}
    for unit in network.units.values():
        targets = {plan.target for plan in network.plans.get(unit.name, ())} & network.units.keys()
        for link in (link for broker in unit.brokers for link in network.links_by_host[broker.host]):
            links_by_unit[unit.name].append(link)
            if link.kind == "multicast":
                for member in network.multicast_groups[link.target]:
                    links_by_unit[member.name].append(link)
            elif link.target in targets:
                links_by_unit[link.target].append(link)
    return links_by_unit


def _accounts_of(broker: Broker, agents: Sequence[Agent], balancers: Sequence[Balancer] = ()) -> tuple[Account, ...]:
    """Return the accounts that a broker accepts.

    They are for network bridges, ``activemq_users``, agents, balancers and probes; empty without login. A name that
    occurs twice is one account with the user groups of both and the first password.
    """
    settings = broker.settings
    if settings.authentication == "none":
        return ()
    accounts: dict[str, Account] = {}

    def add(
        name: str, variable: str, password: SecretStr | UndecryptedVaultValue | None, groups: tuple[str, ...], key: str
    ) -> None:
        known = accounts.get(name)
        if known:  # one person in two roles: both roles' groups, the first password
            groups = tuple(dict.fromkeys((*known.groups, *groups)))
            accounts[name] = Account(name, known.variable, known.password, groups, known.key)
        else:
            accounts[name] = Account(name, variable, password, groups, key)

    if settings.network_username:
        add(
            settings.network_username,
            "activemq_network_password",
            settings.network_password,
            (NETWORK_GROUP,),
            "activemq.network.password",
        )
    for position, user in enumerate(settings.users):
        variable = f"activemq_users[{position}].password"
        add(user.name, variable, user.password, user.groups, f"activemq.user.{user.name}.password")
    for agent in agents:
        name = agent.settings.agent_username
        if name:
            # Without activemq_acl a separate group would have no effect.
            groups = (AGENT_GROUP, user_group_of_agent(name)) if settings.acl else (AGENT_GROUP,)
            password = agent.settings.agent_password
            add(name, "activemq_agent_password", password, groups, f"activemq.user.{name}.password")
    for balancer in balancers:
        name = balancer.settings.vip_username
        if name:  # in no group: it logs in, and that is all
            add(name, "activemq_vip_password", balancer.settings.vip_password, (), f"activemq.user.{name}.password")
    password = probe_password_of(settings)
    if password is not None:
        add(PROBE_USER, "activemq_probe_password", password, (PROBE_GROUP,), PROBE_PASSWORD_KEY)
    return tuple(accounts.values())


def probe_password_of(settings: HostSettings) -> SecretStr | UndecryptedVaultValue | None:
    """Return the password of the account with which probes log in to a broker, or None.

    It is ``activemq_probe_password``, or derived from ``activemq_network_password`` where the broker's accounts are
    rendered. The derivation has one result for one password and cannot be reversed.
    """
    network = settings.network_password
    if settings.probe_password is not None or settings.authentication != "simple":
        return settings.probe_password
    return DerivedPassword(network.get_secret_value()) if isinstance(network, SecretStr) else network


class DerivedPassword(SecretStr):
    """A password that is derived (computed) from another password.

    It is derived when its value is read. The derivation is slow on purpose, and only the deployed files contain the
    value.
    """

    def get_secret_value(self) -> str:
        """Return the derived password as text: the secret value."""
        return _derive_password(super().get_secret_value())


@functools.lru_cache(maxsize=1024)
def _derive_password(password: str) -> str:
    derived = hashlib.pbkdf2_hmac("sha256", password.encode(), _DERIVATION_LABEL, _DERIVATION_ROUNDS, 20)
    return derived.hex()


@dataclass
class _Rights:
    read: list[str] = field(default_factory=list)
    write: list[str] = field(default_factory=list)
    admin: list[str] = field(default_factory=list)

    def all(self, group: str) -> None:
        for names in (self.read, self.write, self.admin):
            names.append(group)


def _permissions_of(
    broker: Broker, accounts: Sequence[Account], agents: Sequence[Agent], carried: Iterable[str]
) -> tuple[Permission, ...]:
    """Return the permissions (authorization entries) of a broker.

    They name user groups by destination; empty where ``activemq_acl`` is empty. ``carried`` are the destinations
    (``queue://NAME``) of the links that begin or end at the broker.
    """
    settings = broker.settings
    if not settings.acl:
        return ()
    rights: dict[tuple[str, str], _Rights] = {}

    def at(kind: str, destination: str) -> _Rights:
        return rights.setdefault((kind, destination), _Rights())

    for entry in settings.acl:
        granted = at(entry.kind, entry.destination)
        granted.read += entry.read
        granted.write += entry.write
        granted.admin += entry.admin
    private_groups = {user_group_of_agent(account.name) for account in accounts}
    private_groups.add(PROBE_GROUP)
    everyone = dict.fromkeys(group for account in accounts for group in account.groups if group not in private_groups)
    for group in everyone:
        # Who first uses a destination makes its advisory topics, which takes admin; the broker itself writes there, and
        # no other account: bridges act upon what they read. Measured on 5.5.1, 5.8.0, 5.18.3 and 6.3.1.
        advisories = at("topic", _ADVISORIES)
        advisories.read.append(group)
        advisories.admin.append(group)
    if NETWORK_GROUP in everyone:
        for destination in _EVERYTHING if broker.ha_profile.replicates else dict.fromkeys(carried):
            kind, _, name = destination.partition("://")
            at(kind, name).all(NETWORK_GROUP)
    for topic in dict.fromkeys(topic for agent in agents for topic in agent.settings.agent_topics):
        at("topic", _destination_of_filter(topic, broker.release)).read.append(AGENT_GROUP)
    for topic in dict.fromkeys(topic for agent in agents for topic in _events_of(agent)):
        at("topic", _destination_of_filter(topic, broker.release)).all(AGENT_GROUP)
    for agent in agents:
        if agent.settings.agent_username:
            for topic in _check_topics_of(agent):
                at("topic", _destination_of_filter(topic, broker.release)).all(
                    user_group_of_agent(agent.settings.agent_username)
                )
    if any(account.name == PROBE_USER for account in accounts):
        at("topic", PROBE_TOPICS).all(PROBE_GROUP)
        for topic in _PROBE_ADVISORIES:
            at("topic", topic).admin.append(PROBE_GROUP)
    # The broker unites all entries that match a destination, so none has to repeat a wider one
    # (source: DefaultAuthorizationMap.getAllEntries).
    return tuple(
        Permission(kind, name, _unique(granted.read), _unique(granted.write), _unique(granted.admin))  # type: ignore[arg-type]
        for (kind, name), granted in rights.items()
    )


def _events_of(agent: Agent) -> Iterator[str]:
    """Yield the MQTT filters of the events that an agent publishes: its topics, and one level below each prefix.

    Never more levels: the broker unites all entries that match, so that nothing can be taken out of ``a.>`` again,
    and canaries and barriers, two levels below their prefix, are for one account alone.
    """
    for topic in agent.settings.agent_topics:
        yield f"{topic[:-1]}+" if topic.endswith("#") else topic
    for prefix in agent.settings.agent_publish_prefixes:
        yield f"{prefix}/+"


def _check_topics_of(agent: Agent) -> tuple[str, ...]:
    """Return the topics on which an agent sends canaries and barriers.

    There is a canary topic for each connection, and one next to the events of each prefix. Without them an agent cannot
    prove that a broker took what it acknowledged (``activemq_agent.publishing``).
    """
    name = agent_name_in_events_and_topics(agent)
    topics = [agent_topics.canary_topic("", f"{name}-{role}") for role in agent_topics.ROLES]
    wide = [topic[:-1].removesuffix("/") for topic in agent.settings.agent_topics if topic.endswith("#")]
    topics += [agent_topics.canary_topic(prefix, f"{name}-subscriber") for prefix in wide]  # anchors
    events = [agent_topics.topic_without_last_level(topic) for topic in _events_of(agent)]
    for prefix in dict.fromkeys(events):
        topics += [agent_topics.canary_topic(prefix, name), agent_topics.barrier_topic(prefix, name)]
    return tuple(dict.fromkeys(topics))


def _union_of_carried_destinations(links: Iterable[Link]) -> tuple[str, ...]:
    """Return the union of the destinations that several links carry.

    It is ``queue://>`` and ``topic://>`` if a link carries all. A static bridge without static_include carries none.
    """
    destinations: dict[str, None] = {}
    for link in links:
        if not link.carried_destinations and not link.is_static_bridge:
            return _EVERYTHING
        destinations |= dict.fromkeys(link.carried_destinations)
    return tuple(destinations)


def _destination_of_filter(topic_filter: str, release: Release) -> str:
    """Return the ActiveMQ destination of an MQTT topic filter: ``instance/+/status/#`` is ``instance.*.status.>``."""
    return topic_filter.translate(_SWAPPED if release.mqtt_swaps_dots else _REPLACED)


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
