"""Describe what rendered files add to original ones: the effect on the broker, and the variables that undo it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from lxml import etree

from activemq_fleet.adopt.xml_diff import XmlDifference
from activemq_fleet.node.config.probe_account import PROBE_GROUP
from activemq_fleet.schema import hardened_xml_parser
from activemq_fleet.topology import Broker
from activemq_fleet.topology.access import NETWORK_GROUP


@dataclass(frozen=True, slots=True)
class AdditionAdvice:
    """Advice for the operator on an addition that a rendered file has to the existing file.

    ``effect`` is what the addition changes, None if it has no known effect on the broker and its clients. ``variables``
    are those that undo it, without their prefix; where none does, or not all of it, ``reason`` states why.
    """

    effect: str | None
    variables: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _AdditionKind:
    """A kind of additions to an activemq.xml, with the advice about them.

    ``place`` matches the end of their paths, ``value`` is a part of the rendered value.
    """

    place: str
    advice: AdditionAdvice
    value: str = ""
    unaffected: Callable[[Broker], str] = lambda _broker: ""
    """Returns why an addition has no effect on a broker, or an empty text where it has its effect."""

    def matches_addition(self, path: str, rendered: str) -> bool:
        """Return whether an addition's path and value in a rendered activemq.xml match ``place`` and ``value``."""
        return self.value in rendered and re.search(f"/(?:{self.place})$", path) is not None


def _kind(
    place: str,
    effect: str | None = None,
    *,
    value: str = "",
    reason: str = "",
    unaffected: Callable[[Broker], str] = lambda _broker: "",
    **variables: Any,
) -> _AdditionKind:
    return _AdditionKind(place, AdditionAdvice(effect, variables, reason), value, unaffected)


_JMX = "JMX no longer listens on port 1099"
_STATES_DEFAULT = "the rendered file states the default of the release"
_NEEDS_CREDENTIALS = "the bean reads the passwords of the inventory from credentials.properties"
_NEEDS_LOCK = "the nodes of a pair need a lock on their shared store"
_NEEDS_MEMORY_LIMIT = "messages can fill the heap without a limit of memory, which activemq_memory_limit sets"
_WITH_ACL = "on a broker with activemq_acl"
_FULL_DISK = '<ioExceptionHandler><defaultIOExceptionHandler ignoreNoSpaceErrors="true"/></ioExceptionHandler>'


_IS_DEFAULT = "the value is the default of this release"


def _closed_jmx_reason(broker: Broker) -> str:
    """Return why a broker without a managementContext has no JMX port; an empty text where it has one."""
    if broker.release.is_within_span("5.15.0"):
        return _IS_DEFAULT
    return 'the broker has useJmx="false"' if broker.settings.broker_attributes.get("useJmx") == "false" else ""


# Defaults of releases: the fields of the classes in the release tags, and BrokerService.getSystemUsage.
_KINDS = (
    _kind(
        "managementContext|@createConnector",
        _JMX,
        value="false",
        unaffected=_closed_jmx_reason,
        jmx={"port": 1099},
    ),
    _kind("@createConnector|@connectorPort", reason=f"{_STATES_DEFAULT}; without activemq_jmx, JMX does not listen"),
    _kind(
        r"networkConnector(?:\[.*\])?/@decreaseNetworkConsumerPriority",
        "local consumers get messages before bridges do, which is the default from 5.18 on",
        value="true",
        unaffected=lambda broker: _IS_DEFAULT if broker.release.decreases_network_priority else "",
        network_attributes={"decreaseNetworkConsumerPriority": False},
    ),
    _kind(r"networkConnector(?:\[.*\])?/@\w+", reason=_STATES_DEFAULT),
    _kind(
        "@networkConnectorStartAsync",
        "the broker starts without waiting for its links",
        unaffected=lambda broker: "" if broker.networked else "the broker has no links",
        broker_attributes={"networkConnectorStartAsync": False},
    ),
    _kind(
        "@schedulePeriodForDiskUsageCheck",
        "the broker checks the free disk space regularly",
        broker_attributes={"schedulePeriodForDiskUsageCheck": 0},
    ),
    _kind("@diskUsageCheckRegrowThreshold", broker_attributes={"diskUsageCheckRegrowThreshold": 0}),
    _kind(
        "@schedulePeriodForDestinationPurge",
        reason="without the value 0, the broker would remove the destinations whose policies have "
        "gcInactiveDestinations. The original file has no period, so its broker keeps them",
    ),
    _kind(
        "@useVirtualTopics",
        reason="without this attribute, the rendered file would list the virtual topic VirtualTopic.>",
    ),
    _kind(
        "@brokerName",
        "the broker has the name of its host, and not localhost, which is the default",
        broker_name="localhost",
    ),
    _kind(
        "broker/@dataDirectory",
        "the broker keeps its data below activemq_base",
        reason="the rendered file always names the directory. To choose another one, set activemq_base",
    ),
    _kind("broker/@id", reason="the web console refers to the broker by this id"),
    _kind(
        "ioExceptionHandler",
        "the broker stops if the disk is full",
        value='ignoreNoSpaceErrors="false"',
        xml_fragments=[{"xml": _FULL_DISK}],
    ),
    _kind(
        "ioExceptionHandler",
        "the broker handles errors of its store differently",
        reason="a broker must stop when it cannot write; activemq_xml_fragments can replace the handler",
    ),
    _kind("kahaDB/@lockKeepAlivePeriod", reason=f"{_NEEDS_LOCK}; activemq_lock_keepalive_interval sets the interval"),
    _kind("locker", reason=f"{_NEEDS_LOCK}; activemq_lock_acquire_interval sets the interval"),
    _kind("@stopOnError", reason="a node that loses the lock on the store must stop"),
    _kind(
        "persistenceAdapter",
        "the store is in the directory of a rendered broker, and not in the default directory of the release",
        reason="the rendered file always names the directory. Set activemq_store_directory to the directory that has "
        "the messages",
    ),
    _kind(
        "systemUsage",
        "producers wait at other limits of memory, store and temporary store",
        reason=_NEEDS_MEMORY_LIMIT,
        store_limit="100 gb",
        temp_limit="50 gb",
    ),
    _kind("storeUsage", "producers wait when the store reaches the limit", store_limit="100 gb"),
    _kind("tempUsage", "producers wait when the temporary store reaches the limit", temp_limit="50 gb"),
    _kind(
        r"memoryUsage(?:/@limit)?",
        "producers wait when messages take this memory",
        reason=_NEEDS_MEMORY_LIMIT,
    ),
    _kind(
        r"storeUsage/@(?:total|percentLimit)",
        reason="only a limit in percent rises again after the broker lowered it on a full disk "
        "(`activemq-fleet rule C012` explains it)",
    ),
    _kind(
        r"authenticationUser\[@username='activemq-probe'\]",
        "the broker accepts the account activemq-probe, with which `status` and the playbooks check that the broker "
        "serves clients",
        reason="the account belongs to activemq_authentication: simple, and activemq_network_password or "
        "activemq_probe_password sets its password",
    ),
    _kind(
        r"authenticationUser\[.*\]",
        "the broker accepts this account, with which the bridges log in",
        value="{activemq.network.",
        reason="activemq_network_username defines this account for both ends of each bridge",
    ),
    _kind(
        r"authenticationUser\[.*\]",
        "the broker accepts this account",
        reason="activemq_users, activemq_agent_username or activemq_vip_username defines this account: remove the "
        "account there if no client uses it",
    ),
    _kind(
        r"authenticationUser\[.*\]/@groups",
        "the account belongs to these groups, whose rights it gets",
        reason="activemq_users or activemq_network_username defines the groups of the account",
    ),
    _kind(
        r"authorizationEntry\[@topic='ActiveMQ\.Advisory\.>'\](?:/@(?:read|admin))?",
        "all accounts may create and read the advisory topics: the broker rejects clients without these rights",
        reason=f"clients need these rights {_WITH_ACL}",
    ),
    _kind(
        r"authorizationEntry\[.*\](?:/@\w+)?",
        "the account activemq-probe gets these rights, which it needs for the test messages of `status` and the "
        "playbooks. The rights of other accounts do not change",
        value=PROBE_GROUP,
        reason=f"`status` and the playbooks need these rights {_WITH_ACL}",
    ),
    _kind(
        r"authorizationEntry\[.*\](?:/@\w+)?",
        "the account of the bridges (activemq_network_username) may read, write and create the destinations that the "
        "bridges forward. The rights of other accounts do not change",
        value=NETWORK_GROUP,
        reason=f"bridges need these rights {_WITH_ACL}. The key include of activemq_links limits the destinations",
    ),
    _kind(
        r"authorizationEntry\[.*\](?:/@\w+)?",
        "the accounts of agents may use these topics. The rights of other accounts do not change",
        value="activemq-agent",
        reason=f"agents need these rights {_WITH_ACL}, for the topics of activemq_agent_topics and "
        "activemq_agent_publish_prefixes",
    ),
    _kind(r"authorizationEntry\[.*\]/@\w+", reason="an empty right is the same as a missing right"),
    _kind(
        "users",
        "the broker accepts these accounts",
        value="authenticationUser",
        reason="activemq_users and activemq_network_username define the accounts: remove those that no client uses",
    ),
    _kind("users", reason="the element is empty, because the file has no accounts"),
    _kind(
        "@userName|@password",
        "the bridge logs in",
        reason="activemq_network_username and activemq_network_password are set for all links",
    ),
    _kind(
        r"simpleAuthenticationPlugin",
        "the broker rejects clients without an account of activemq_users",
        reason="activemq_authentication: simple renders the plugin. With activemq_authentication: none, the broker "
        "accepts all clients",
    ),
    _kind(
        r"authorizationPlugin",
        "each account has only the rights that activemq_acl gives to its groups",
        reason="activemq_acl renders the plugin. Without activemq_acl, each account has all rights",
    ),
    _kind(
        "runtimeConfigurationPlugin",
        "the broker applies changes of activemq.xml while it runs",
        runtime_configuration=False,
    ),
    _kind(
        "plugins(?:/.*)?",
        "the rendered broker has these plugins or settings of plugins in addition",
        reason="activemq_plugins, activemq_authentication and activemq_acl render the plugins: change these variables",
    ),
    _kind(
        "shutdownHooks",
        reason="the web console frees its port by this hook; activemq_console: false removes the console",
    ),
    _kind(r"bean\[.*logQuery.*\]|bean", value="logQuery", log_query=False),
    _kind(r"bean(?:\[.*\])?(?:/.*)?|property-placeholder/.*", reason=_NEEDS_CREDENTIALS),
    _kind(r"transportConnector(?:\[.*\])?/@name", reason="the inventory names each connector"),
    _kind("@xsi:schemaLocation", reason="the broker finds the schema of the element by this attribute"),
)

_POLICY_ADDITIONS: Mapping[str, tuple[Mapping[str, Any], str]] = MappingProxyType(
    {
        "topicPrefetch": (
            {"topic_prefetch": 32766},
            "a topic consumer prefetches fewer messages than the default of 32,766",
        ),
        "networkBridgeFilterFactory": (
            {"network_bridge_filter_factory": {"replay_when_no_consumers": False}},
            "a message can return to the broker that it came from if this broker has no consumer for it",
        ),
        "enableAudit": ({"enable_audit": True}, "the queue accepts a message with the id of an earlier one"),
        "pendingDurableSubscriberPolicy": (
            {"pending_durable_subscriber_policy": {"type": "store", "use_cache": True}},
            "messages for durable subscribers come from the store without a cache",
        ),
    }
)
"""What rendered policies add: the keys of ``activemq_destination_policies`` that undo it, and the effect."""
_POLICY_ENTRY = re.compile(r"policyEntry\[@(queue|topic)='([^']*)'\](?:/@?(\w+))?$")


def advise_on_addition(difference: XmlDifference, broker: Broker) -> AdditionAdvice:
    """Return advice on an addition that a rendered file has to the existing file.

    It has the addition's effect, and the variables that undo it.
    """
    rendered = difference.rendered or ""
    policies = list(_added_policies(difference.path, rendered))
    if policies:
        return _policy_advice(policies)
    for kind in _KINDS:
        if kind.matches_addition(difference.path, rendered):
            reason = kind.unaffected(broker)
            if reason:
                return AdditionAdvice(None, reason=f"it has no effect on this broker and release, because {reason}")
            return kind.advice
    return AdditionAdvice(None, reason="no variable removes it; activemq_xml_fragments can set other values")


def _added_policies(path: str, rendered: str) -> Iterator[tuple[str, str, set[str]]]:
    """Yield kind, destination and additions of each destination policy to which a default was added.

    The differences show the additions.
    """
    entry = _POLICY_ENTRY.search(path)
    if entry and entry[3]:
        additions = {entry[3]} & _POLICY_ADDITIONS.keys()
        if additions:
            yield entry[1], entry[2], additions
    elif entry or re.search(r"/destinationPolicy(?:\[.*\])?$", path):
        for node in etree.fromstring(rendered.encode(), hardened_xml_parser()).iter(etree.Element):
            names = {*map(str, node.keys()), *(etree.QName(child).localname for child in node)}
            for kind in {"queue", "topic"} & names & set(map(str, node.keys())):
                if etree.QName(node).localname == "policyEntry" and names & _POLICY_ADDITIONS.keys():
                    yield kind, str(node.get(kind)), names & _POLICY_ADDITIONS.keys()


def _policy_advice(policies: list[tuple[str, str, set[str]]]) -> AdditionAdvice:
    values: list[dict[str, Any]] = []
    effects: dict[str, None] = {}
    for kind, destination, names in policies:
        value: dict[str, Any] = {"destination": destination, "kind": kind}
        for name, (keys, effect) in _POLICY_ADDITIONS.items():
            if name in names:
                value |= keys
                effects[effect] = None
        values.append(value)
    return AdditionAdvice("; ".join(effects), {"destination_policies": values})
