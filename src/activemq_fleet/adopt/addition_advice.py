"""Describe the additions of rendered files: their effect on the broker, and the variables that undo them."""

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
class RenderedAdditionAdvice:
    """Advice for the operator on an addition: content that the rendered file has and the existing file lacks.

    ``effect`` is what the addition changes, None if it has no known effect on the broker and its clients. ``variables``
    are those that undo it, without their prefix; where none does, or not all of it, ``reason`` states why.
    """

    effect: str | None
    variables: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _AdditionKind:
    """A kind of additions to an activemq.xml, with the advice about them.

    ``place`` matches the end of their paths, ``value`` a part of the rendered value; both are regular expressions.
    """

    place: str
    advice: RenderedAdditionAdvice
    value: str = ""
    unaffected: Callable[[Broker], str] = lambda _broker: ""
    """A function that returns the reason why an addition has no effect on a broker, or "" if it has its effect."""

    def applies_to_addition(self, path: str, rendered: str) -> bool:
        """Return whether XML that a rendered activemq.xml has and the existing one lacks is an addition of this kind.

        Its ``path`` (the XML path of that content) and ``rendered`` (its rendered value) then match the patterns of the
        kind.
        """
        return bool(re.search(self.value, rendered) and re.search(f"/(?:{self.place})$", path))


def _addition_kind(
    place: str,
    effect: str | None = None,
    *,
    value: str = "",
    reason: str = "",
    unaffected: Callable[[Broker], str] = lambda _broker: "",
    **variables: Any,
) -> _AdditionKind:
    return _AdditionKind(place, RenderedAdditionAdvice(effect, variables, reason), value, unaffected)


_JMX_EFFECT = "JMX no longer listens on port 1099"
_STATES_DEFAULT = "the rendered file explicitly sets the default value of the release"
_NEEDS_CREDENTIALS = "the rendered broker needs this bean, which reads its passwords from credentials.properties"
_NEEDS_LOCK = "the nodes of a pair need a lock on their shared store"
_NEEDS_MEMORY_LIMIT = "without a memory limit, messages can fill the Java heap. activemq_memory_limit sets the limit"
_WITH_ACL = "on a broker with activemq_acl"
_DEFAULT_EXCEPTION_HANDLER = (
    '<ioExceptionHandler><defaultIOExceptionHandler ignoreNoSpaceErrors="true"/></ioExceptionHandler>'
)


_DEFAULT_VALUE_REASON = "the value is the default of this release"


def _closed_jmx_reason(broker: Broker) -> str:
    """Return the reason why a broker without a managementContext has no JMX port; "" if it has one."""
    if broker.release.is_within_span("5.15.0"):
        return _DEFAULT_VALUE_REASON
    return 'the broker has useJmx="false"' if broker.settings.broker_attributes.get("useJmx") == "false" else ""


# Defaults of releases: the fields of the classes in the release tags, and BrokerService.getSystemUsage.
_ADDITION_KINDS = (
    _addition_kind(
        "managementContext|@createConnector",
        _JMX_EFFECT,
        value="false",
        unaffected=_closed_jmx_reason,
        jmx={"port": 1099},
    ),
    _addition_kind(
        "@createConnector|@connectorPort",
        reason=f"{_STATES_DEFAULT}. Without activemq_jmx, the broker opens no JMX port",
    ),
    _addition_kind(
        r"networkConnector(?:\[.*\])?/@decreaseNetworkConsumerPriority",
        "local consumers get messages before bridges do, which is the default from 5.18 on",
        value="true",
        unaffected=lambda broker: _DEFAULT_VALUE_REASON if broker.release.decreases_network_priority else "",
        network_attributes={"decreaseNetworkConsumerPriority": False},
    ),
    _addition_kind(r"networkConnector(?:\[.*\])?/@duplex", value="^false$", reason=_STATES_DEFAULT),
    _addition_kind(
        r"networkConnector(?:\[.*\])?/@(?:network|consumer|message)TTL", value="^1$", reason=_STATES_DEFAULT
    ),
    _addition_kind(
        "@userName|@password",
        "the bridge logs in to the remote broker",
        reason="activemq_network_username and activemq_network_password are set for all links",
    ),
    _addition_kind(
        r"networkConnector(?:\[.*\])?/@\w+",
        "the bridge has an attribute that the original bridge does not have",
        reason="activemq_network_attributes, activemq_network_ttl and activemq_links define the attributes of bridges: "
        "change these variables",
    ),
    _addition_kind(
        "@networkConnectorStartAsync",
        "the broker starts without waiting for its network connectors",
        unaffected=lambda broker: "" if broker.networked else "the broker has no links",
        broker_attributes={"networkConnectorStartAsync": False},
    ),
    _addition_kind(
        "@schedulePeriodForDiskUsageCheck",
        "the broker checks the free disk space regularly",
        broker_attributes={"schedulePeriodForDiskUsageCheck": 0},
    ),
    _addition_kind("@diskUsageCheckRegrowThreshold", broker_attributes={"diskUsageCheckRegrowThreshold": 0}),
    _addition_kind(
        "@schedulePeriodForDestinationPurge",
        reason="the original file sets no period, so the original broker removes no destinations. adopt therefore set "
        "the period to 0. Otherwise, activemq.fleet would render a period, and the broker would remove inactive "
        "destinations whose policyEntry has gcInactiveDestinations",
    ),
    _addition_kind(
        "@useVirtualTopics",
        reason="without this attribute, the destinationInterceptors of the rendered file would also contain the "
        "virtual topic VirtualTopic.>",
    ),
    _addition_kind(
        "@brokerName",
        "the brokerName changes from the default localhost to the name of the host",
        broker_name="localhost",
    ),
    _addition_kind(
        "broker/@dataDirectory",
        "the broker keeps its data below activemq_base",
        reason="a rendered activemq.xml always sets dataDirectory. To choose another directory, set activemq_base",
    ),
    _addition_kind("broker/@id", reason="the web console refers to the broker by this id"),
    _addition_kind(
        "ioExceptionHandler",
        "the broker stops if the disk is full",
        value='ignoreNoSpaceErrors="false"',
        xml_fragments=[{"xml": _DEFAULT_EXCEPTION_HANDLER}],
    ),
    _addition_kind(
        "ioExceptionHandler",
        "the broker handles I/O errors of its store with this handler instead of the default handler",
        reason="a broker must stop when it cannot write to its store. activemq_xml_fragments can replace the handler",
    ),
    _addition_kind(
        "kahaDB/@lockKeepAlivePeriod", reason=f"{_NEEDS_LOCK}; activemq_lock_keepalive_interval sets the interval"
    ),
    _addition_kind("locker", reason=f"{_NEEDS_LOCK}; activemq_lock_acquire_interval sets the interval"),
    _addition_kind("@stopOnError", reason="a node that loses the lock on the store must stop"),
    _addition_kind(
        "persistenceAdapter",
        "the store is in the directory that activemq.fleet sets, instead of the default directory of the release",
        reason="a rendered activemq.xml always sets the directory of the store. Set activemq_store_directory to the "
        "directory that contains the messages",
    ),
    _addition_kind(
        "systemUsage",
        "the limits of memory, store and temporary store at which the broker blocks producers differ from the limits "
        "of the original broker",
        reason=_NEEDS_MEMORY_LIMIT,
        store_limit="100 gb",
        temp_limit="50 gb",
    ),
    _addition_kind("storeUsage", "the broker blocks producers when the store reaches the limit", store_limit="100 gb"),
    _addition_kind(
        "tempUsage", "the broker blocks producers when the temporary store reaches the limit", temp_limit="50 gb"
    ),
    _addition_kind(
        r"memoryUsage(?:/@limit)?",
        "the broker blocks producers when messages use this much memory",
        reason=_NEEDS_MEMORY_LIMIT,
    ),
    _addition_kind(
        r"storeUsage/@(?:total|percentLimit)",
        reason="a broker that starts on a full disk lowers this limit. It later raises the limit again only if the "
        "limit is a percentage (`activemq-fleet rule C012` explains this)",
    ),
    _addition_kind(
        r"authenticationUser\[@username='activemq-probe'\]",
        "the broker accepts the account activemq-probe, with which `status` and the playbooks check that the broker "
        "serves clients",
        reason="the account belongs to activemq_authentication: simple, and activemq_network_password or "
        "activemq_probe_password sets its password",
    ),
    _addition_kind(
        r"authenticationUser\[.*\]",
        "the broker accepts logins with the account of the bridges",
        value=r"\{activemq\.network\.",
        reason="activemq_network_username defines this account for both ends of each bridge",
    ),
    _addition_kind(
        r"authenticationUser\[.*\]",
        "the broker accepts logins with this account, which the original file does not have",
        reason="activemq_users, activemq_agent_username or activemq_vip_username defines this account: remove the "
        "account there if no client uses it",
    ),
    _addition_kind(
        r"authenticationUser\[.*\]/@groups",
        "the account is a member of these groups, and has their rights",
        reason="activemq_users or activemq_network_username defines the groups of the account",
    ),
    _addition_kind(
        r"authorizationEntry\[@topic='ActiveMQ\.Advisory\.>'\](?:/@(?:read|admin))?",
        "all accounts may create and read the advisory topics: the broker rejects clients without these rights",
        reason=f"clients need these rights {_WITH_ACL}",
    ),
    _addition_kind(
        r"authorizationEntry\[.*\](?:/@\w+)?",
        "the account activemq-probe gets these rights, which it needs for the test messages of `status` and the "
        "playbooks. The rights of other accounts do not change",
        value=PROBE_GROUP,
        reason=f"`status` and the playbooks need these rights {_WITH_ACL}",
    ),
    _addition_kind(
        r"authorizationEntry\[.*\](?:/@\w+)?",
        "the account of the bridges (activemq_network_username) may read, write and create the destinations that the "
        "bridges forward. The rights of other accounts do not change",
        value=NETWORK_GROUP,
        reason=f"bridges need these rights {_WITH_ACL}. To limit the destinations, set `include` of each link in "
        "activemq_links",
    ),
    _addition_kind(
        r"authorizationEntry\[.*\](?:/@\w+)?",
        "the accounts of agents may use these topics. The rights of other accounts do not change",
        value="activemq-agent",
        reason=f"agents need these rights {_WITH_ACL}, for the topics of activemq_agent_topics and "
        "activemq_agent_publish_prefixes",
    ),
    _addition_kind(
        r"authorizationEntry\[.*\]/@\w+", reason="an empty value of a right has the same effect as a missing right"
    ),
    _addition_kind(
        "users",
        "the broker accepts logins with these accounts, which the original file does not have",
        value="authenticationUser",
        reason="activemq_users and activemq_network_username define the accounts: remove those that no client uses",
    ),
    _addition_kind("users", reason="the element <users> is empty, because the rendered file has no accounts"),
    _addition_kind(
        r"simpleAuthenticationPlugin",
        "the broker rejects clients without an account of activemq_users",
        reason="activemq_authentication: simple renders the plugin. With activemq_authentication: none, the broker "
        "accepts all clients",
    ),
    _addition_kind(
        r"authorizationPlugin",
        "each account has only the rights that activemq_acl gives to its groups",
        reason="activemq_acl renders the plugin. Without activemq_acl, each account has all rights",
    ),
    _addition_kind(
        "runtimeConfigurationPlugin",
        "the broker applies changes of activemq.xml while it runs",
        runtime_configuration=False,
    ),
    _addition_kind(
        "plugins(?:/.*)?",
        "the rendered broker has additional plugins, or additional settings of its plugins",
        reason="activemq_plugins, activemq_authentication and activemq_acl render the plugins: change these variables",
    ),
    _addition_kind(
        "shutdownHooks",
        reason="this shutdown hook frees the port of the web console when the broker stops. Without a web console "
        "(activemq_console: false) it is not rendered",
    ),
    _addition_kind(r"bean\[.*logQuery.*\]|bean", value="logQuery", log_query=False),
    _addition_kind(r"bean(?:\[.*\])?(?:/.*)?|property-placeholder/.*", reason=_NEEDS_CREDENTIALS),
    _addition_kind(
        r"transportConnector(?:\[.*\])?/@name", reason="the inventory gives each transport connector a name"
    ),
    _addition_kind("@xsi:schemaLocation", reason="ActiveMQ finds the XML schema of the element by this attribute"),
)

_POLICY_ADDITIONS: Mapping[str, tuple[Mapping[str, Any], str]] = MappingProxyType(
    {
        "topicPrefetch": (
            {"topic_prefetch": 32766},
            "a topic consumer prefetches fewer messages than the default of 32,766",
        ),
        "networkBridgeFilterFactory": (
            {"network_bridge_filter_factory": {"replay_when_no_consumers": False}},
            "a bridge can forward a message back to the broker that it came from, if the local broker has no consumer "
            "for the message",
        ),
        "enableAudit": (
            {"enable_audit": True},
            "the queue also accepts a message with the ID of an earlier message",
        ),
        "pendingDurableSubscriberPolicy": (
            {"pending_durable_subscriber_policy": {"type": "store", "use_cache": True}},
            "the broker reads messages for durable subscribers from its store, without a cache in memory",
        ),
    }
)
"""The additions of rendered policies: the keys of ``activemq_destination_policies`` that undo each, and its effect."""
_POLICY_ENTRY = re.compile(r"policyEntry\[@(queue|topic)='([^']*)'\](?:/@?(\w+))?$")


def advice_on_addition(difference: XmlDifference, broker: Broker) -> RenderedAdditionAdvice:
    """Return advice on how to undo an addition: XML that the rendered activemq.xml has and the existing one lacks.

    It has the addition's effect, and the variables that undo it. Without a variable that undoes it, the advice has only
    a reason.
    """
    rendered = difference.rendered or ""
    policies = list(_added_policies(difference.path, rendered))
    if policies:
        return _policy_advice(policies)
    for kind in _ADDITION_KINDS:
        if kind.applies_to_addition(difference.path, rendered):
            reason = kind.unaffected(broker)
            if reason:
                return RenderedAdditionAdvice(
                    None, reason=f"the addition has no effect on this broker, because {reason}"
                )
            return kind.advice
    return RenderedAdditionAdvice(
        None, reason="no variable removes the addition; activemq_xml_fragments can set other values"
    )


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


def _policy_advice(policies: list[tuple[str, str, set[str]]]) -> RenderedAdditionAdvice:
    values: list[dict[str, Any]] = []
    effects: dict[str, None] = {}
    for kind, destination, names in policies:
        value: dict[str, Any] = {"destination": destination, "kind": kind}
        for name, (keys, effect) in _POLICY_ADDITIONS.items():
            if name in names:
                value |= keys
                effects[effect] = None
        values.append(value)
    return RenderedAdditionAdvice("; ".join(effects), {"destination_policies": values})
