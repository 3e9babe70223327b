"""Who may connect to a broker, and what each may do.

The users of network, agents and balancers are added by themselves. With no ``activemq_acl`` whoever
logs in may do everything; with any, each group gets what its work needs and nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pydantic import SecretStr

from activemq_fleet.releases import Release
from activemq_fleet.sealed import Sealed
from activemq_fleet.topology.model import Account, Agent, Balancer, Broker, Permission

NETWORK_GROUP = "activemq-network"
AGENT_GROUP = "activemq-agents"
_ADVISORIES = "ActiveMQ.Advisory.>"
_EVERYTHING = ("queue://>", "topic://>")
_REPLACED = str.maketrans("/+#", ".*>")
_SWAPPED = str.maketrans("/+#.*>", ".*>/+#")


def accounts_of(broker: Broker, agents: Sequence[Agent], balancers: Sequence[Balancer] = ()) -> tuple[Account, ...]:
    """Every account of a broker: network, ``activemq_users``, agents and balancers of its group, in this order."""
    settings = broker.settings
    found: dict[str, Account] = {}

    def add(name: str, variable: str, password: SecretStr | Sealed | None, groups: tuple[str, ...], key: str) -> None:
        known = found.get(name)
        if known:  # one person in two roles: both roles' groups, the first password
            groups = tuple(dict.fromkeys((*known.groups, *groups)))
            found[name] = Account(name, known.variable, known.password, groups, known.key)
        else:
            found[name] = Account(name, variable, password, groups, key)

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
            password = agent.settings.agent_password
            add(name, "activemq_agent_password", password, (AGENT_GROUP,), f"activemq.user.{name}.password")
    for balancer in balancers:
        name = balancer.settings.vip_username
        if name:  # in no group: it logs in, and that is all
            add(name, "activemq_vip_password", balancer.settings.vip_password, (), f"activemq.user.{name}.password")
    return tuple(found.values())


@dataclass
class _Rights:
    read: list[str] = field(default_factory=list)
    write: list[str] = field(default_factory=list)
    admin: list[str] = field(default_factory=list)

    def all(self, group: str) -> None:
        for names in (self.read, self.write, self.admin):
            names.append(group)


def permissions_of(
    broker: Broker, accounts: Sequence[Account], agents: Sequence[Agent], carried: Iterable[str]
) -> tuple[Permission, ...]:
    """The entries of the authorization plugin, none where ``activemq_acl`` is empty.

    ``carried`` are the destinations of the links that begin or end here (``queue://NAME``).
    """
    settings = broker.settings
    if not settings.acl:
        return ()
    rights: dict[tuple[str, str], _Rights] = {}

    def at(kind: str, destination: str) -> _Rights:
        return rights.setdefault((kind, destination), _Rights())

    for entry in settings.acl:
        here = at(entry.kind, entry.destination)
        here.read += entry.read
        here.write += entry.write
        here.admin += entry.admin
    everyone = dict.fromkeys(group for account in accounts for group in account.groups)
    for group in everyone:
        at("topic", _ADVISORIES).all(group)
    if NETWORK_GROUP in everyone:
        for destination in _EVERYTHING if settings.ha == "pure" else dict.fromkeys(carried):
            kind, _, name = destination.partition("://")
            at(kind, name).all(NETWORK_GROUP)
    used = [topic for agent in agents for topic in (*agent.settings.agent_topics, *_round_trips(agent))]
    for topic in dict.fromkeys(used):
        at("topic", _destination(topic, broker.release)).all(AGENT_GROUP)
    # The broker unites all entries that match a destination, so none has to repeat a wider one
    # (source: DefaultAuthorizationMap.getAllEntries).
    return tuple(
        Permission(kind, name, _unique(here.read), _unique(here.write), _unique(here.admin))  # type: ignore[arg-type]
        for (kind, name), here in rights.items()
    )


def _round_trips(agent: Agent) -> tuple[str, ...]:
    """Where an agent sends to itself: one topic for each connection, and one beside the events of a prefix.

    Without them it cannot prove that a broker took what it acknowledged (``activemq_fleet.agent.session``).
    """
    prefixes = [topic.rpartition("/")[0] or topic for topic in agent.settings.agent_topics if not topic.endswith("#")]
    beside = [f"{prefix}/{name}" for prefix in prefixes for name in ("__canary__/+", "__barrier__")]
    return ("__canary__/+", *beside)


def carried_by(includes: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """What links carry: their includes, or everything as soon as one has none."""
    found: dict[str, None] = {}
    for include in includes:
        if not include:
            return _EVERYTHING
        found |= dict.fromkeys(include)
    return tuple(found)


def _destination(topic_filter: str, release: Release) -> str:
    """An MQTT filter as a destination: ``instance/+/status/#`` -> ``instance.*.status.>``."""
    return topic_filter.translate(_SWAPPED if release.mqtt_swaps_dots else _REPLACED)


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
