"""Render policies, limits (systemUsage), virtual destinations, scheduler and plugins of activemq.xml, with defaults.

``settings.xml_element_settings`` describes the variables that set them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Literal

from activemq_fleet.settings.destination_policies import DestinationPolicy
from activemq_fleet.settings.java_memory_options import largest_heap_bytes
from activemq_fleet.settings.virtual_destinations import DEFAULT_VIRTUAL_TOPICS
from activemq_fleet.settings.xml_beans import NamedDestination, XmlBean, XmlElement, bean_to_xml
from activemq_fleet.topology import Broker

PURGE_PERIOD = "60000"
"""Milliseconds between two searches for inactive destinations; by default a broker never removes destinations."""
_REPLAY_FILTER = XmlElement(
    "networkBridgeFilterFactory",
    children=(
        XmlElement(
            "conditionalNetworkBridgeFilterFactory", (("replayWhenNoConsumers", "true"), ("replayDelay", "500"))
        ),
    ),
)
_UNCACHED_SUBSCRIBER_POLICY = XmlElement(
    "pendingDurableSubscriberPolicy",
    children=(XmlElement("storeDurableSubscriberCursor", (("useCache", "false"),)),),
)
_WHY_REPLAY = "a message may return to a broker that it came from, after its consumers moved to that broker"
_WHY_NO_CACHE = "if useCache is true, a broker can send messages twice when they arrive during its start"
_TOPIC_PREFETCH = "100"
"""Messages that a broker holds in memory for a topic subscriber that does not name a prefetch; the rest are written to
the temporary store. The default of releases is 32766. Measured on 5.5.1, 5.18.3 and 6.3.1: docs/security.md."""
_WHY_PREFETCH = "at most this many messages for a slow subscriber stay in memory"
_HEAP_SHARE = 0.4
"""The share of the heap that messages may have. G1 gives an object above half a region whole regions, so that a message
takes up to twice its size: under 70 % of 512 MB a broker of 5.18.3 stopped with 266 MB of messages of 550 kB."""
_MEBIBYTES_BY_UNIT = {"k": 1 / 1024, "m": 1, "g": 1024}


def _xml_element_of(broker: Broker, bean: XmlBean) -> XmlElement | None:
    return bean_to_xml(bean, broker.release)


def policy_entry_elements(broker: Broker) -> tuple[XmlElement, ...]:
    """Return the destination policy elements (policyEntry) of a broker.

    They are those of ``activemq_destination_policies``, and the default one for ``>``. A broker applies only the most
    specific entry that matches a destination (N019). So each entry inherits what it does not set from the entry for
    ``>``.
    """
    policies = broker.settings.destination_policies
    named = {(policy.kind, policy.destination) for policy in policies}
    default_policies = []
    if _allows_replay(broker) and ("queue", ">") not in named:
        default_policies.append(_default_policy("queue"))
    if ("topic", ">") not in named:
        default_policies.append(_default_policy("topic"))
    return tuple(_policy_entry(broker, policy) for policy in (*default_policies, *policies))


@cache
def _default_policy(kind: Literal["queue", "topic"]) -> DestinationPolicy:
    return DestinationPolicy(kind=kind, destination=">")


def _policy_entry(broker: Broker, policy: DestinationPolicy) -> XmlElement:
    entry = _xml_element_of(broker, policy) or XmlElement("policyEntry")
    attributes, children = dict(entry.attributes), {child.name: child for child in entry.children}
    for kind, needed, child, reason in (
        ("queue", _allows_replay(broker), _REPLAY_FILTER, _WHY_REPLAY),
        ("topic", _may_have_durable_subscribers(broker), _UNCACHED_SUBSCRIBER_POLICY, _WHY_NO_CACHE),
    ):
        if policy.kind == kind and needed and child.name not in children:
            children[child.name] = replace(child, comment=reason if policy.destination == ">" else "")
            if kind == "queue" and broker.release.replay_needs_audit_off:
                # Before 5.9, the cursor treats a replayed message as a duplicate and keeps it until a restart.
                attributes.setdefault("enableAudit", "false")
    comment = entry.comment
    if policy.kind == "topic" and "topicPrefetch" not in attributes:
        attributes["topicPrefetch"] = _TOPIC_PREFETCH
        comment = _WHY_PREFETCH if policy.destination == ">" else comment
    return replace(
        entry, attributes=tuple(attributes.items()), children=_sorted_by_name(children.values()), comment=comment
    )


def _sorted_by_name(children: Iterable[XmlElement]) -> tuple[XmlElement, ...]:
    return tuple(sorted(children, key=lambda child: child.name))


def removes_inactive_destinations(broker: Broker) -> bool:
    """Return whether a destination policy lets a broker remove inactive destinations."""
    return any(policy.gc_inactive_destinations for policy in broker.settings.destination_policies)


def _allows_replay(broker: Broker) -> bool:
    return broker.networked and broker.release.has_replay_when_no_consumers


def _may_have_durable_subscribers(broker: Broker) -> bool:
    """Return whether a broker may have durable subscribers: agents may subscribe to it.

    Durable topics then need a cursor without a cache. With a cache a broker sends some events twice to durable
    subscribers: those that come while it starts, before their subscriber connects: 7 and 9 of 30 starts of 5.18.3 and
    6.3.1, none of 40 without the cache. The cost is low: 1.03 times the rate online, 0.85 (5.18.3) and 1.33 times
    (6.3.1) that of events which had waited; 8,000 and 5,000 events of 200 bytes, medians of three runs in turn on a
    loaded machine.
    """
    return broker.release.supports_agents and broker.connector("mqtt") is not None


def default_memory_limit_text(heap: str) -> str:
    """Return the default memoryLimit of a broker as text, for a given Java heap."""
    return f"{max(1, int(int(heap[:-1]) * _MEBIBYTES_BY_UNIT[heap[-1].lower()] * _HEAP_SHARE))} mb"


def system_usage_element(broker: Broker, *, raises_store_limit_again: bool) -> XmlElement:
    """Return the systemUsage element of a broker.

    With ``raises_store_limit_again`` a store limit in bytes is
    written as 100 percent of that many bytes.
    """
    settings = broker.settings
    heap = f"{largest_heap_bytes(settings) >> 10}k"
    usage_element = settings.usage and _xml_element_of(broker, settings.usage)
    usage = usage_element or XmlElement("systemUsage")
    children = {child.name: child for child in usage.children if child.children[0].attributes}
    for name, limit in (
        ("memoryUsage", settings.memory_limit or default_memory_limit_text(heap)),
        ("storeUsage", settings.store_limit),
        ("tempUsage", settings.temp_limit),
    ):
        children.setdefault(name, XmlElement(name, children=(XmlElement(name, (("limit", limit),)),)))
    [store] = children["storeUsage"].children
    if raises_store_limit_again and store.attributes[0][0] == "limit":
        again = XmlElement("storeUsage", (("percentLimit", "100"), ("total", store.attributes[0][1])))
        children["storeUsage"] = XmlElement("storeUsage", children=(again,))
    return replace(usage, children=_sorted_by_name(children.values()))


def virtual_destination_elements(broker: Broker) -> tuple[XmlElement, ...]:
    """Return the XML elements of a broker's virtual destinations.

    There are none where no variable sets any. A broker whose file lists virtual destinations loses the default one,
    ``VirtualTopic.>``, so that is listed too. It is left out where the variable defines its name, or
    ``activemq_broker_attributes`` sets ``useVirtualTopics`` to false.
    """
    configured_destinations = broker.settings.virtual_destinations
    destination_elements = [
        element for virtual in configured_destinations if (element := _xml_element_of(broker, virtual))
    ]
    default = DEFAULT_VIRTUAL_TOPICS
    if not configured_destinations or broker.settings.broker_attributes.get("useVirtualTopics") == "false":
        return tuple(destination_elements)
    if any((virtual.type, virtual.name) == (default.type, default.name) for virtual in configured_destinations):
        return tuple(destination_elements)
    reason = "the default of ActiveMQ: a file with virtual destinations replaces it, so it is repeated here"
    return (XmlElement("virtualTopic", (("name", default.name),), comment=reason), *destination_elements)


def startup_destination_elements(broker: Broker) -> tuple[XmlElement, ...]:
    """Return the XML elements of the destinations that a broker creates at startup.

    ``activemq_destinations`` lists them.
    """
    beans = (NamedDestination(name=name) for name in broker.settings.destinations)
    return tuple(element for bean in beans if (element := _xml_element_of(broker, bean)))


def scheduler_attributes(broker: Broker) -> tuple[tuple[str, str], ...]:
    """Return the attributes of a broker's XML element for the scheduler of delayed messages.

    ``activemq_scheduler`` sets them.
    """
    element = broker.settings.scheduler and _xml_element_of(broker, broker.settings.scheduler)
    return element.attributes if element else ()


def plugin_elements(broker: Broker) -> tuple[XmlElement, ...]:
    """Return the XML elements of a broker's plugins.

    ``activemq_plugins`` lists them; messages pass the last plugin first.
    """
    settings = broker.settings.plugins
    beans = settings.plugin_beans().values() if settings else ()
    return tuple(element for bean in beans if (element := _xml_element_of(broker, bean)))
