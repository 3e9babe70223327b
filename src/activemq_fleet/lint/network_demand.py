"""Rules N about the subscriptions of a link: what it forwards, its permissions and its login."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest

from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule

AUTHENTICATION = (
    "simpleAuthenticationPlugin",
    "jaasAuthenticationPlugin",
    "jaasCertificateAuthenticationPlugin",
    "jaasDualAuthenticationPlugin",
)
_PERMISSIONS = (
    'in the authorizationMap, give the group of the bridges read, write and admin on topic="ActiveMQ.Advisory.>"'
)
_ADVISORY = "ActiveMQ.Advisory.Consumer.Queue.orders"  # any that a bridge listens to
_VM = re.compile(r"vm:(?://)?(?P<name>[^\s?/,()\"']+)(?:\?(?P<query>[^\s\"',()]*))?")


def wildcard_covers(wildcard: str, name_or_wildcard: str) -> bool:
    """Return whether a destination wildcard matches a destination name, or all names that another wildcard matches."""
    for part, level in zip_longest(wildcard.split("."), name_or_wildcard.split(".")):
        if part == ">":
            return True
        if level in (None, ">") or part not in ("*", level):
            return False
    return True


def _destinations_in_child_element(link: Element, where: str) -> list[Element]:
    """Return the queue and topic elements inside one child element of a networkConnector, such as excludedDestinations.

    ``where`` is the name of the child element.
    """
    holder = link.first_child(where)
    return [] if holder is None else holder.children("queue", "topic")


@rule("N023", "info", each="networkConnector", needs="@decreaseNetworkConsumerPriority")
def priority_without_effect_due_to_conduit(link: Element) -> Iterator[Problem]:
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
def topic_link_without_conduit_subscriptions(link: Element) -> Iterator[Problem]:
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
    dynamic = not link.boolean_attribute("staticBridge", default=False) and not link.has_attribute("destinationFilter")
    if (
        link.boolean_attribute("conduitSubscriptions", default=True) is False
        and dynamic
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
    """Return whether an entry of ``activemq_links`` defines a link, as far as its name or target shows it."""
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
    announced = any(connector.has_attribute("discoveryUri") for connector in broker.descendants("transportConnector"))
    if broker.boolean_attribute("advisorySupport", default=True) is False and (links or announced):
        duplex = any(link.boolean_attribute("duplex", default=False) for link in links)
        message = "advisorySupport is false: bridges of other brokers do not detect the consumers of this broker"
        fix = 'remove advisorySupport="false"'
        yield broker.problem(message, "advisorySupport", severity=None if duplex else "warning", fix=fix)
    if links:
        yield from _unread_advisories(broker, links)


def _unread_advisories(broker: Element, links: list[Element]) -> Iterator[Problem]:
    groups = _groups_of(broker, {link.get("userName") for link in links})
    for rights in broker.descendants("authorizationMap"):
        holders = rights.children("authorizationEntries")
        entries = [entry for holder in holders for entry in holder.children("authorizationEntry")]
        if not entries or rights.first_child("defaultEntry") is not None:
            continue
        hearing = [
            entry
            for entry in entries
            if entry.has_attribute("topic") and wildcard_covers(entry.get("topic"), _ADVISORY)
        ]
        if not hearing:
            yield rights.problem(
                "no group has permission to read the topics ActiveMQ.Advisory.>: bridges do not detect consumers",
                fix=_PERMISSIONS,
            )
            continue
        readers = {name.strip() for entry in hearing for name in entry.get("read").split(",")}
        if groups and not groups & readers and not any("{" in name or name == "*" for name in readers):
            names = ", ".join(sorted(groups))
            message = (
                f"the groups of the links' accounts ({names}) have no permission to read the topics "
                "ActiveMQ.Advisory.>: bridges do not detect consumers"
            )
            yield hearing[0].problem(message, "read" if hearing[0].has_attribute("read") else "topic", fix=_PERMISSIONS)


def _groups_of(broker: Element, users: set[str]) -> set[str]:
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
    later = document.release.is_within_span("5.14.0")
    for link in document.network_connectors:
        listed = _destinations_in_child_element(link, "staticallyIncludedDestinations")
        for excluded in _destinations_in_child_element(link, "excludedDestinations"):
            name = excluded.literal_value("physicalName") or ""
            for static in listed:
                other = static.literal_value("physicalName") or ""
                whole = wildcard_covers(name, other)
                if static.name != excluded.name or not (name and other) or not (whole or wildcard_covers(other, name)):
                    continue
                what = f"the bridge still forwards {other if whole else name}"
                if later:
                    what = (
                        f"{other} is not forwarded at all"
                        if whole
                        else f"the bridge consumes messages of {name} and does not forward them"
                    )
                message = (
                    f"{excluded.name} {name} is in excludedDestinations, but staticallyIncludedDestinations lists "
                    f"{other}: {what}"
                )
                fix = (
                    f"to forward {other}, remove {excluded.name} {name} from excludedDestinations. Otherwise remove "
                    f"{static.name} {other} from staticallyIncludedDestinations"
                    if whole
                    else f"replace {other} in staticallyIncludedDestinations with the destinations to be forwarded"
                )
                yield excluded.problem(message, "physicalName", fix=fix, why=_static_include_reason(later, whole))
                break


def _static_include_reason(later: bool, whole: bool) -> str:
    """Return the effect of an excluded static include on a bridge, from 5.14 on (``later``) or before."""
    if not later:
        return "before 5.14 excludedDestinations has no effect on staticallyIncludedDestinations"
    if whole:
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
    tells = broker.boolean_attribute("useVirtualDestSubs", default=False)
    asking = [link for link in links if link.boolean_attribute("useVirtualDestSubs", default=False) is not False]
    if tells is False:
        message = (
            "useVirtualDestSubs is true on the link but not on <broker>: the broker does not announce the consumers of "
            "its virtual destinations"
        )
        for link in asking:
            if link.boolean_attribute("useVirtualDestSubs", default=False):
                duplex = link.boolean_attribute("duplex", default=False)
                yield link.problem(message, "useVirtualDestSubs", severity=None if duplex else "info")
    elif tells and links and not asking:
        duplex = any(link.boolean_attribute("duplex", default=False) for link in links)
        message = (
            "useVirtualDestSubs is true on <broker> but not on its links: no link requests the consumers of virtual "
            "destinations"
        )
        yield broker.problem(message, "useVirtualDestSubs", severity=None if duplex else "info")


@rule("N036", "error", each="broker")
def link_without_user_name(broker: Element) -> Iterator[Problem]:
    """A link has no userName, although the file requires authentication.

    Why: a bridge also authenticates to its local broker, with the same userName. Without a userName, the local broker
        rejects each attempt of the bridge: "User name [null] or password is invalid". The bridge retries every few
        seconds.
    Fix: set userName and password on the link to an account that exists on both brokers, such as userName="network"
        password="${activemq.network.password}".
    Cannot see: the accounts of the other broker. With JAAS the finding is a warning, because the rule cannot see
        whether the login module accepts guests. For fleets, T008 reports missing network credentials.
    Source: measured on 5.5.1 and 5.18.3; DemandForwardingBridgeSupport.startLocalBridge

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" userName="app" password="${app.password}"/>
    """
    plugins = broker.descendants(*AUTHENTICATION)
    if not plugins or any(
        plugin.boolean_attribute("anonymousAccessAllowed", default=False) is not False for plugin in plugins
    ):
        return
    simple = any(plugin.name == "simpleAuthenticationPlugin" for plugin in plugins)
    for link in broker.descendants("networkConnector"):
        if not link.has_attribute("userName") and not broker.document.is_from_inventory(link):
            message = (
                f"the link has no userName, but the <{plugins[0].name}> of this broker requires authentication: this "
                "broker rejects its own bridge"
            )
            yield link.problem(message, severity=None if simple else "warning")


@rule("N039", "error")
def vm_uri_of_unknown_broker(document: Document) -> Iterator[Problem]:
    """A vm:// URI names a broker that the file does not define.

    Why: if no such broker exists, vm:// starts an empty broker with that name and default settings. The client works,
        and its messages are in the wrong broker.
    Fix: write the brokerName of the intended broker in the vm:// URI. Add create=false&amp;waitForStart=10000, so that
        the client never starts a broker.
    Cannot see: brokers that other files start in the same process.
    Source: VMTransportFactory.doCompositeConnect

    Fires on 5.18.3::

        <bean id="factory" class="org.apache.activemq.ActiveMQConnectionFactory">
          <property name="brokerURL" value="vm://localhost"/>
        </bean>

    Silent on 5.18.3::

        <bean id="factory" class="org.apache.activemq.ActiveMQConnectionFactory">
          <property name="brokerURL" value="vm://north?create=false&amp;waitForStart=10000"/>
        </bean>
    """
    if not document.contains_text("vm:"):
        return
    names = {
        broker.literal_value("brokerName") if broker.has_attribute("brokerName") else "localhost"
        for broker in document.brokers
    }
    if None in names or not names:
        return
    names |= {
        listener.uri_attribute_or_empty().host
        for listener in document.transport_connectors
        if listener.uri_attribute_or_empty().scheme == "vm"
    }
    for node in document.nodes:
        if node.name == "transportConnector":
            continue  # a listener is no client
        for attribute, value in node.attribute_values_and_text():
            for match in _VM.finditer(value) if attribute or value.startswith("vm:") else ():
                name, query = match["name"], match["query"] or ""
                outside = "{" in name or name.startswith("broker:") or "create=false" in query
                if name not in names and not outside:
                    message = (
                        f"{match[0].partition('?')[0]} starts a new, empty broker: this file defines no broker with "
                        f"the name {name}"
                    )
                    yield node.problem(message, attribute, match[0])
