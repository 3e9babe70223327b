"""Rules N about the subscriptions of a link: the consumers and destinations for which it forwards messages."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from activemq_fleet.lint.document import Document, Element, Problem, other_lines_suffix
from activemq_fleet.lint.engine import rule

_PERMISSION_FIX = (
    'in the authorizationMap, give the group of the bridges read, write and admin on topic="ActiveMQ.Advisory.>"'
)
_EXAMPLE_ADVISORY_TOPIC = (
    "ActiveMQ.Advisory.Consumer.Queue.orders"  # an example of the topics to which a bridge subscribes
)


def wildcard_covers(wildcard: str, name_or_wildcard: str) -> bool:
    """Return whether a destination wildcard matches a destination name, or all names that another wildcard matches."""
    for part, level in zip_longest(wildcard.split("."), name_or_wildcard.split(".")):
        if part == ">":
            return True
        if level in (None, ">") or part not in ("*", level):
            return False
    return True


def _destinations_in_child_element(link: Element, child_name: str) -> list[Element]:
    """Return the queue and topic elements inside one child element of a networkConnector, such as excludedDestinations.

    ``child_name`` is the name of the child element.
    """
    container = link.first_child(child_name)
    return [] if container is None else container.children("queue", "topic")


@rule("N023", "info", each="networkConnector", needs="@decreaseNetworkConsumerPriority")
def decrease_priority_without_effect_in_conduit(link: Element) -> Iterator[Problem]:
    """decreaseNetworkConsumerPriority="false" is without effect: conduitSubscriptions counts remote consumers as one.

    Why: decreaseNetworkConsumerPriority="false" gives consumers behind the bridge an equal share, but with
        conduitSubscriptions all consumers of a queue there count as one: ten remote consumers get as much as one local
        consumer.
    Fix: set conduitSubscriptions="false" on this networkConnector and exclude topics from it. For topics, add a second
        networkConnector with another name and with conduitSubscriptions, and exclude queues from it
        (<excludedDestinations><queue physicalName=">"/></excludedDestinations>).
    Cannot see: the number of consumers.
    Source: documentation of networks of brokers; ConduitBridge

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" decreaseNetworkConsumerPriority="false"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)"/>
    """
    if link.boolean_attribute("decreaseNetworkConsumerPriority", default=True) is not False:
        return
    if link.boolean_attribute("conduitSubscriptions", default=True) and not _forwards_no_destination(link, "queue"):
        message = (
            'decreaseNetworkConsumerPriority="false" has no effect: conduitSubscriptions counts all consumers of the '
            "other broker as one"
        )
        fix = ""
        if _has_entry_in_links(link):
            fix = (
                f"in activemq_links, set conduitSubscriptions: false in attributes of the entry for link "
                f"{link.get('name')}, and add topic://> to its exclude. For topics, add a second entry with a "
                "different name, exclude: ['queue://>'] and attributes: {conduitSubscriptions: true}"
            )
        yield link.problem(message, "decreaseNetworkConsumerPriority", fix=fix)


@rule("N024", "warning", each="networkConnector", needs="@conduitSubscriptions")
def topic_link_with_conduit_subscriptions_off(link: Element) -> Iterator[Problem]:
    """A link that carries topics sets conduitSubscriptions="false".

    Why: the bridge subscribes once for each remote consumer. It forwards every copy of a topic's message, and each
        remote consumer receives each message as often as there are consumers.
    Fix: add <excludedDestinations><topic physicalName=">"/></excludedDestinations> to this networkConnector. For
        topics, add a second networkConnector with another name, without conduitSubscriptions="false", that excludes
        <queue physicalName=">"/>.
    Source: measured on 5.11.4 and 5.18.3: two consumers, four copies; DemandForwardingBridge

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" conduitSubscriptions="false"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" conduitSubscriptions="false">
          <excludedDestinations><topic physicalName=">"/></excludedDestinations>
        </networkConnector>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" conduitSubscriptions="false">
          <dynamicallyIncludedDestinations><queue physicalName="orders.>"/></dynamicallyIncludedDestinations>
        </networkConnector>
    """
    is_dynamic = not link.boolean_attribute("staticBridge", default=False) and not link.has_attribute(
        "destinationFilter"
    )
    if (
        link.boolean_attribute("conduitSubscriptions", default=True) is False
        and is_dynamic
        and not _forwards_no_destination(link, "topic")
    ):
        message = (
            "conduitSubscriptions is false for a link that carries topics: consumers on the other broker receive each "
            "message of a topic several times"
        )
        fix = ""
        if _has_entry_in_links(link):
            fix = (
                f"in activemq_links, add topic://> to exclude of the entry for link {link.get('name')}. For topics, "
                "add a second entry with a different name, exclude: ['queue://>'] and attributes: "
                "{conduitSubscriptions: true}"
            )
        yield link.problem(message, "conduitSubscriptions", fix=fix)


def _has_entry_in_links(link: Element) -> bool:
    """Return whether the name or target of a link shows that an entry of ``activemq_links`` defines it."""
    broker = link.document.broker
    if broker is None:
        return False
    targets = {planned.target for planned in broker.links if planned.name == link.get("name")}
    return bool(targets) and any(
        entry.name == link.get("name") or entry.to in targets for entry in broker.settings.links
    )


def _forwards_no_destination(link: Element, kind: str) -> bool:
    """Return whether a network link forwards no destination of a kind (queue or topic)."""
    included = _destinations_in_child_element(link, "dynamicallyIncludedDestinations")
    patterns = [node.get("physicalName") for node in included if node.name == kind] if included else [">"]
    excluded = [
        node.get("physicalName")
        for node in _destinations_in_child_element(link, "excludedDestinations")
        if node.name == kind
    ]
    return all(any(wildcard_covers(pattern, name) for pattern in excluded) for name in patterns)


@rule("N027", "error", each="broker", needs="@advisorySupport authorizationMap")
def bridges_get_no_consumer_advisories(broker: Element) -> Iterator[Problem]:
    """Bridges detect no consumers: advisory messages are disabled, or the bridges have no permission to read them.

    Why: a bridge detects consumers by the advisory topics of their broker. Without advisories, or without permission to
        read them, it is established and forwards nothing.
    Fix: remove advisorySupport="false" from <broker>. In the authorizationMap, give the group of the bridges read,
        write and admin on topic="ActiveMQ.Advisory.>".
    Cannot see: links of other brokers to this broker. If no link of this broker is duplex, only those links need its
        advisories, and advisorySupport="false" is a warning. If S032 already reports that no group has the admin right
        on the advisory topics, this rule does not report it again.
    Source: DemandForwardingBridgeSupport, AuthorizationBroker

    Fires on 5.18.3::

        <broker advisorySupport="false">
          <networkConnectors>
            <networkConnector name="south" uri="static:(tcp://a:61616)" duplex="true"/>
          </networkConnectors>
        </broker>

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" userName="app" password="${app.password}"/>
        <authorizationPlugin><map><authorizationMap><authorizationEntries>
          <authorizationEntry topic="ActiveMQ.Advisory.>" read="admins" write="apps" admin="apps"/>
        </authorizationEntries></authorizationMap></map></authorizationPlugin>

    Silent on 5.18.3::

        <broker advisorySupport="false"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" userName="app" password="${app.password}"/>
        <authorizationPlugin><map><authorizationMap><authorizationEntries>
          <authorizationEntry queue=">" read="apps" write="apps" admin="apps"/>
          <authorizationEntry topic="ActiveMQ.Advisory.>" read="apps" write="apps" admin="apps"/>
        </authorizationEntries></authorizationMap></map></authorizationPlugin>
    """
    links = [
        link
        for link in broker.descendants("networkConnector")
        if not link.boolean_attribute("staticBridge", default=False)
    ]
    is_announced = any(
        connector.has_attribute("discoveryUri") for connector in broker.descendants("transportConnector")
    )
    if broker.boolean_attribute("advisorySupport", default=True) is False and (links or is_announced):
        duplex = any(link.boolean_attribute("duplex", default=False) for link in links)
        message = "advisorySupport is false: bridges of other brokers do not detect the consumers of this broker"
        fix = 'remove advisorySupport="false"'
        yield broker.problem(message, "advisorySupport", severity=None if duplex else "warning", fix=fix)
    if links:
        yield from _advisory_permission_problems(broker, links)


def _advisory_permission_problems(broker: Element, links: list[Element]) -> Iterator[Problem]:
    groups = _groups_of_users(broker, {link.get("userName") for link in links})
    for authorization_map in broker.descendants("authorizationMap"):
        containers = authorization_map.children("authorizationEntries")
        entries = [entry for container in containers for entry in container.children("authorizationEntry")]
        if not entries or authorization_map.first_child("defaultEntry") is not None:
            continue
        advisory_entries = [
            entry
            for entry in entries
            if entry.has_attribute("topic") and wildcard_covers(entry.get("topic"), _EXAMPLE_ADVISORY_TOPIC)
        ]
        if not advisory_entries:
            yield authorization_map.problem(
                "no group has permission to read the topics ActiveMQ.Advisory.>: bridges do not detect consumers",
                fix=_PERMISSION_FIX,
            )
            continue
        readers = {name.strip() for entry in advisory_entries for name in entry.get("read").split(",")}
        if groups and not groups & readers and not any("{" in name or name == "*" for name in readers):
            names = ", ".join(sorted(groups))
            message = (
                f"the groups of the links' accounts ({names}) have no permission to read the topics "
                "ActiveMQ.Advisory.>: bridges do not detect consumers"
            )
            yield advisory_entries[0].problem(
                message, "read" if advisory_entries[0].has_attribute("read") else "topic", fix=_PERMISSION_FIX
            )


def _groups_of_users(broker: Element, users: set[str]) -> set[str]:
    """Return the groups of the users of a broker's network links among the broker's own accounts.

    Bridges of peers use the same accounts.
    """
    accounts = broker.descendants("authenticationUser")
    texts = [account.literal_value("groups") for account in accounts if account.get("username") in users]
    return {name.strip() for text in texts if text for name in text.split(",")}


@rule("N029", "warning", needs="staticallyIncludedDestinations")
def excluded_destination_statically_included(document: Document) -> Iterator[Problem]:
    """excludedDestinations match destinations that staticallyIncludedDestinations lists.

    Why: before 5.14 the bridge ignores the exclusion. From 5.14 on, an exclusion that matches all destinations of a
        static include removes this include: the bridge logs one INFO line, and forwards nothing for it. If the
        exclusion matches only some of the destinations, the bridge consumes their messages, but neither forwards nor
        acknowledges them.
    Fix: list exactly the destinations to be forwarded in staticallyIncludedDestinations, and remove the entries of
        excludedDestinations that match them.
    Source: measured on 5.11.4 and 5.18.3; DemandForwardingBridgeSupport

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)">
          <excludedDestinations><queue physicalName="orders.private.>"/></excludedDestinations>
          <staticallyIncludedDestinations><queue physicalName="orders.>"/></staticallyIncludedDestinations>
        </networkConnector>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)">
          <excludedDestinations><queue physicalName="private.>"/></excludedDestinations>
          <staticallyIncludedDestinations><queue physicalName="orders.>"/></staticallyIncludedDestinations>
        </networkConnector>
    """
    is_5_14_or_later = document.release.is_within_span("5.14.0")
    for link in document.network_connectors:
        listed = _destinations_in_child_element(link, "staticallyIncludedDestinations")
        for excluded in _destinations_in_child_element(link, "excludedDestinations"):
            name = excluded.literal_value("physicalName") or ""
            for static in listed:
                other = static.literal_value("physicalName") or ""
                covers_all = wildcard_covers(name, other)
                if (
                    static.name != excluded.name
                    or not (name and other)
                    or not (covers_all or wildcard_covers(other, name))
                ):
                    continue
                effect = f"the bridge still forwards {other if covers_all else name}"
                if is_5_14_or_later:
                    effect = (
                        f"{other} is not forwarded at all"
                        if covers_all
                        else f"the bridge consumes messages of {name} and does not forward them"
                    )
                message = (
                    f"{excluded.name} {name} is in excludedDestinations, but staticallyIncludedDestinations lists "
                    f"{other}: {effect}"
                )
                fix = (
                    f"to forward {other}, remove {excluded.name} {name} from excludedDestinations. Otherwise remove "
                    f"{static.name} {other} from staticallyIncludedDestinations"
                    if covers_all
                    else f"replace {other} in staticallyIncludedDestinations with the destinations to be forwarded"
                )
                yield excluded.problem(
                    message, "physicalName", fix=fix, why=_static_include_reason(is_5_14_or_later, covers_all)
                )
                break


def _static_include_reason(is_5_14_or_later: bool, covers_all: bool) -> str:
    """Return the effect of an excluded static include on a bridge, from 5.14 on (``is_5_14_or_later``) or before."""
    if not is_5_14_or_later:
        return "before 5.14 excludedDestinations has no effect on staticallyIncludedDestinations"
    if covers_all:
        return "the bridge removes the excluded destination from its static includes, and logs one INFO line"
    return (
        "the bridge consumes the messages of the excluded destinations, then drops them and does not acknowledge them"
    )


@rule("N031", "warning", each="broker", releases="5.13.0", needs="@useVirtualDestSubs")
def virtual_dest_subs_on_broker_or_link_only(broker: Element) -> Iterator[Problem]:
    """useVirtualDestSubs is set on the broker or on its link, but not on both.

    Why: the broker's attribute announces the consumers of virtual destinations, and the link's attribute requests
        them from the other broker. One of them alone has no effect. A duplex link needs both on this broker, for the
        reverse direction.
    Fix: set useVirtualDestSubs="true" on <broker> and on <networkConnector>, on both brokers.
    Cannot see: the other broker. With one-way links only, the finding is an info.
    Source: AMQ-6027; NetworkBridgeConfiguration, BrokerService

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" duplex="true" useVirtualDestSubs="true"/>

    Silent on 5.18.3::

        <broker useVirtualDestSubs="true">
          <networkConnectors>
            <networkConnector name="south" uri="static:(tcp://a:61616)" duplex="true" useVirtualDestSubs="true"/>
          </networkConnectors>
        </broker>
    """
    links = broker.descendants("networkConnector")
    announces = broker.boolean_attribute("useVirtualDestSubs", default=False)
    requesting_links = [
        link for link in links if link.boolean_attribute("useVirtualDestSubs", default=False) is not False
    ]
    if announces is False:
        message = (
            "useVirtualDestSubs is true on the link but not on <broker>: the broker does not announce the consumers of "
            "its virtual destinations"
        )
        for link in requesting_links:
            if link.boolean_attribute("useVirtualDestSubs", default=False):
                duplex = link.boolean_attribute("duplex", default=False)
                yield link.problem(message, "useVirtualDestSubs", severity=None if duplex else "info")
    elif announces and links and not requesting_links:
        duplex = any(link.boolean_attribute("duplex", default=False) for link in links)
        message = (
            "useVirtualDestSubs is true on <broker> but not on its links: no link requests the consumers of virtual "
            "destinations"
        )
        yield broker.problem(message, "useVirtualDestSubs", severity=None if duplex else "info")


@rule("N026", "warning", each="broker", releases="5.3.0 !5.18.0")
def decrease_consumer_priority_unset_before_5_18(broker: Element) -> Iterator[Problem]:
    """A networkConnector of a broker before 5.18 does not set decreaseNetworkConsumerPriority.

    Why: consumers behind a bridge have the same priority as local consumers. The broker forwards messages although
        local consumers exist, and with such links in both directions messages may come back. From 5.18 on the default
        is true.
    Fix: set decreaseNetworkConsumerPriority="true". To give local and remote consumers an equal share, set it to
        "false" explicitly.
    Source: AMQ-5137; NetworkBridgeConfiguration

    Fires on 5.17.6::

        <networkConnector name="south" uri="static:(tcp://a:61616)"/>

    Silent on 5.17.6::

        <networkConnector name="south" uri="static:(tcp://a:61616)" decreaseNetworkConsumerPriority="true"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)"/>
    """
    links = [
        link
        for link in broker.descendants("networkConnector")
        if not link.has_attribute("decreaseNetworkConsumerPriority")
    ]
    if links:
        yield links[0].problem(
            f"the link does not set decreaseNetworkConsumerPriority: ActiveMQ {broker.document.release.text} forwards "
            "messages although local consumers exist" + other_lines_suffix(links)
        )


@rule("N028", "error", each="networkConnector", releases="5.6.0", needs="@staticBridge")
def static_bridge_without_static_destinations(link: Element) -> Iterator[Problem]:
    """A networkConnector sets staticBridge="true" without staticallyIncludedDestinations.

    Why: a static bridge ignores consumers and forwards only the listed destinations. Without a list it is established,
        logs no error, and forwards nothing.
    Fix: list the destinations in <staticallyIncludedDestinations>, or remove staticBridge.
    Source: DemandForwardingBridgeSupport; measured on 5.18.3 and 6.3.1

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" staticBridge="true"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" staticBridge="true">
          <staticallyIncludedDestinations><queue physicalName="orders"/></staticallyIncludedDestinations>
        </networkConnector>
    """
    listed = link.first_child("staticallyIncludedDestinations")
    if link.boolean_attribute("staticBridge", default=False) and (listed is None or not listed.children()):
        yield link.problem(
            "staticBridge is true without staticallyIncludedDestinations: the bridge forwards nothing", "staticBridge"
        )


@rule("N030", "error", each="networkConnector", refuses=True, needs="@prefetchSize")
def prefetch_size_below_one(link: Element) -> Iterator[Problem]:
    """A networkConnector sets a prefetchSize of 0 or less.

    Why: a bridge receives only prefetched messages, so with 0 it forwards nothing. With a negative value, and from
        5.13.3 on also with 0, the broker does not start.
    Fix: remove prefetchSize, so that the default of 1000 applies, or write a number of 1 or more.
    Source: measured on 5.5.1 to 6.3.1; NetworkBridgeConfiguration.setPrefetchSize

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://127.0.0.1:19999)" prefetchSize="0"/>

    Fires on 5.5.1::

        <networkConnector name="south" uri="static:(tcp://127.0.0.1:19999)" prefetchSize="-1"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://127.0.0.1:19999)" prefetchSize="1"/>
    """
    size = link.integer_attribute("prefetchSize")
    if size is not None and size < 1:
        prevents_start = size < 0 or link.document.release.is_within_span("5.13.3")
        effect = "the broker does not start" if prevents_start else "the bridge forwards nothing"
        why = "the broker rejects the value" if prevents_start else "a bridge receives only prefetched messages"
        yield link.problem(f"prefetchSize is {size}: {effect}", "prefetchSize", why=why)


@rule("N032", "warning", each="networkConnector", releases="5.14.0 !5.19.7 6.0.0 !6.2.6", needs="@syncDurableSubs")
def sync_durable_subs_discloses_subscriptions(link: Element) -> Iterator[Problem]:
    """A link sets syncDurableSubs="true" on a release that discloses durable subscriptions (CVE-2026-49270).

    Why: any client that connects as a bridge can read the list of durable subscriptions of the broker.
    Fix: upgrade to 5.19.7, 6.2.6 or later, or remove syncDurableSubs.
    Source: CVE-2026-49270

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" syncDurableSubs="true"/>

    Silent on 6.3.1::

        <networkConnector name="south" uri="static:(tcp://a:61616)" syncDurableSubs="true"/>
    """
    if link.boolean_attribute("syncDurableSubs", default=False):
        message = (
            f"with syncDurableSubs, ActiveMQ {link.document.release.text} discloses its durable subscriptions to any "
            "client that connects as a bridge"
        )
        yield link.problem(message, "syncDurableSubs")


@rule("N033", "info", each="networkConnector", needs="@dynamicOnly")
def dynamic_only_is_false(link: Element) -> Iterator[Problem]:
    """dynamicOnly="false" is set: a bridge restores durable subscriptions of consumers that no longer exist.

    Why: at each start, the bridge restores the durable subscriptions of all former consumers. It then forwards messages
        for consumers that no longer exist, and these messages accumulate on the other broker.
    Fix: set dynamicOnly="true" if durable subscribers move or are short-lived. If they are permanent, keep
        dynamicOnly="false" and suppress N033. In a file, write <!-- activemq-fleet: disable=N033 REASON --> before the
        networkConnector. In a fleet, add a waiver of N033 to activemq_waivers.
    Cannot see: whether durable subscribers exist.
    Source: documentation of networks of brokers; DurableConduitBridge

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" dynamicOnly="false"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" dynamicOnly="true"/>
    """
    if link.boolean_attribute("dynamicOnly", default=True) is False:
        yield link.problem(
            "dynamicOnly is false: at each start the bridge restores durable subscriptions of consumers that no longer "
            "exist",
            "dynamicOnly",
        )
