"""Rules N about messages that must return to a broker from which they came, and about selectors that links ignore."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.lint.clients_policies import applied_destination_kind
from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule

FILTER = "conditionalNetworkBridgeFilterFactory"
_NO_RETURN = "a message cannot return to a broker that it came from"


def _queue_policies(document: Document) -> list[Element]:
    """Return the policyEntry elements about queues in an activemq.xml."""
    entries = document.elements_with_tag_name("policyEntry")
    return [entry for entry in entries if applied_destination_kind(entry) == "queue"]


def _bridge_filter_of(entry: Element) -> Element | None:
    """Return the network bridge filter of a policyEntry; None without one.

    A filter without its wrapper is also returned.
    """
    return next(iter(entry.descendants(FILTER)), None)


def _replay_flag(entry: Element) -> bool | None:
    bridge_filter = _bridge_filter_of(entry)
    return False if bridge_filter is None else bridge_filter.boolean_attribute("replayWhenNoConsumers", default=False)


def _forwarding_links(document: Document) -> list[Element]:
    """Return the network links of an activemq.xml to other pairs or brokers.

    Links between the two nodes of a pair are omitted. If the file belongs to no fleet, one-way static bridges are also
    omitted: no message returns over them, and it is unknown whether their peers have bridges.
    """
    broker = document.broker
    if broker is None:
        return [
            link
            for link in document.network_connectors
            if link.boolean_attribute("duplex", False) or not link.boolean_attribute("staticBridge", False)
        ]
    if not broker.networked:
        return [link for link in document.network_connectors if not document.is_from_inventory(link)]
    return document.network_connectors


@rule("N019", "warning", releases="5.6.0")
def replay_when_no_consumers_unset_for_queues(document: Document) -> Iterator[Problem]:
    """The policies of a networked broker's queues do not set replayWhenNoConsumers.

    Why: a bridge forwards messages to this broker while their consumer is here. If the consumer reconnects to the
        broker that the messages came from, the messages stay here until a consumer connects to this broker: without
        replayWhenNoConsumers a broker never sends a message back. Only the most specific policyEntry applies to a
        queue. If that policyEntry lacks replayWhenNoConsumers, the messages of its queues cannot return, even if the
        policyEntry of queue=">" has it.
    Fix: inside each policyEntry for queues, write <networkBridgeFilterFactory>
        <conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true" replayDelay="500"/>
        </networkBridgeFilterFactory>. Before 5.9, also set enableAudit="false" on the policyEntry.
    Cannot see: whether consumers move. If a file is checked without an inventory, and none of its policyEntry elements
        sets replayWhenNoConsumers, the severity is only info.
    Source: measured on 5.5.1, 5.18.3 and 6.3.1; NetworkBridgeFilter

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)"/>

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)"/>
        <policyEntry queue="orders.>" producerFlowControl="true"/>
        <policyEntry queue=">">
          <networkBridgeFilterFactory>
            <conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true" replayDelay="500"/>
          </networkBridgeFilterFactory>
        </policyEntry>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)"/>
        <policyEntry queue=">">
          <networkBridgeFilterFactory>
            <conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true" replayDelay="500"/>
          </networkBridgeFilterFactory>
        </policyEntry>
    """
    links = _forwarding_links(document)
    if not links:
        return
    entries = _queue_policies(document)
    may_replay = any(_replay_flag(entry) is not False for entry in entries)
    for entry in entries:
        bridge_filter = _bridge_filter_of(entry)
        if _replay_flag(entry) is not False:
            continue
        if bridge_filter is not None and bridge_filter.has_attribute("replayWhenNoConsumers"):
            yield bridge_filter.problem(f"replayWhenNoConsumers is false: {_NO_RETURN}", "replayWhenNoConsumers")
        elif may_replay or bridge_filter is not None:
            message = f"the policyEntry of queue {entry.get('queue')} has no replayWhenNoConsumers: {_NO_RETURN}"
            yield (bridge_filter or entry).problem(message, "" if bridge_filter else "queue")
        elif document.broker is not None or entry.get("queue") == ">":
            yield _no_replay_problem(entry, document)
    has_entry_for_all = any(entry.get("queue") == ">" for entry in entries)
    if document.broker is None and not may_replay and not has_entry_for_all:
        yield _no_replay_problem(links[0], document)


def _no_replay_problem(node: Element, document: Document) -> Problem:
    return node.problem(
        f"no policyEntry of a queue has replayWhenNoConsumers: {_NO_RETURN}",
        severity=None if document.broker is not None else "info",
    )


@rule("N020", "error", releases="5.6.0 !5.9.0")
def replay_without_disabled_audit_before_5_9(document: Document) -> Iterator[Problem]:
    """A destination policy of a broker before 5.9 sets replayWhenNoConsumers without enableAudit="false".

    Why: when another broker sends a message back, the queue's message audit treats the message as a duplicate and
        holds it back. No broker delivers it until this broker restarts, which is worse than no replay.
    Fix: add enableAudit="false" to that policyEntry.
    Source: measured on 5.6.0 and 5.8.0; StoreQueueCursor

    Fires on 5.8.0::

        <policyEntry queue=">">
          <networkBridgeFilterFactory>
            <conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true" replayDelay="500"/>
          </networkBridgeFilterFactory>
        </policyEntry>

    Silent on 5.8.0::

        <policyEntry queue=">" enableAudit="false">
          <networkBridgeFilterFactory>
            <conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true" replayDelay="500"/>
          </networkBridgeFilterFactory>
        </policyEntry>
    """
    for entry in _queue_policies(document):
        if _replay_flag(entry) and entry.boolean_attribute("enableAudit", default=True):
            queue = entry.get("queue")
            message = (
                f'the policyEntry of queue {queue} has replayWhenNoConsumers without enableAudit="false": the broker '
                "treats a message that another broker sends back as a duplicate, and does not deliver it"
            )
            yield entry.problem(message, "enableAudit" if entry.has_attribute("enableAudit") else "queue")


@rule("N021", "info", releases="5.6.0", needs="@replayWhenNoConsumers")
def missing_replay_delay(document: Document) -> Iterator[Problem]:
    """A destination policy sets replayWhenNoConsumers without a replayDelay.

    Why: without a delay, the messages of a queue move to another broker as soon as their consumer disconnects. When the
        consumer connects again, the messages must move back, which costs traffic and time.
    Fix: set replayDelay="500" on <conditionalNetworkBridgeFilterFactory>, in milliseconds.
    Source: ConditionalNetworkBridgeFilterFactory

    Fires on 5.18.3::

        <policyEntry queue=">">
          <networkBridgeFilterFactory>
            <conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true"/>
          </networkBridgeFilterFactory>
        </policyEntry>

    Silent on 5.18.3::

        <policyEntry queue=">">
          <networkBridgeFilterFactory>
            <conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true" replayDelay="1000"/>
          </networkBridgeFilterFactory>
        </policyEntry>
    """
    for bridge_filter in document.elements_with_tag_name(FILTER):
        if not bridge_filter.boolean_attribute("replayWhenNoConsumers", default=False):
            continue
        if not bridge_filter.has_attribute("replayDelay") or bridge_filter.integer_attribute("replayDelay") == 0:
            yield bridge_filter.problem(
                "replayWhenNoConsumers is set without a replayDelay: while a consumer restarts, its messages move to "
                "another broker and back",
                "replayDelay",
            )


@rule("N022", "error", releases="5.6.0", refuses=True)
def bridge_filter_directly_in_policy_entry(document: Document) -> Iterator[Problem]:
    """conditionalNetworkBridgeFilterFactory is directly in a policyEntry.

    Why: the schema requires it inside the property networkBridgeFilterFactory, so the broker does not start. A page of
        the product's documentation shows the filter without this property.
    Fix: enclose <conditionalNetworkBridgeFilterFactory> in <networkBridgeFilterFactory>.
    Source: measured on 5.6.0, 5.18.3 and 6.3.1; XSD

    Fires on 5.18.3::

        <policyEntry queue=">">
          <conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true" replayDelay="500"/>
        </policyEntry>

    Silent on 5.18.3::

        <policyEntry queue=">">
          <networkBridgeFilterFactory>
            <conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true" replayDelay="500"/>
          </networkBridgeFilterFactory>
        </policyEntry>
    """
    for bridge_filter in document.elements_with_tag_name(FILTER):
        if bridge_filter.parent is not None and bridge_filter.parent.name == "policyEntry":
            yield bridge_filter.problem(
                f"<{FILTER}> is directly in <policyEntry>, without an enclosing <networkBridgeFilterFactory>: "
                "the broker does not start"
            )


@rule("N025", "warning")
def selectors_ignored_by_bridge_or_replay(document: Document) -> Iterator[Problem]:
    """Consumers use selectors, and a bridge or replay policy ignores them.

    Why: with conduitSubscriptions all consumers of a queue behind a bridge count as one consumer without a selector:
        the bridge forwards messages that none of them accepts. replayWhenNoConsumers also counts a consumer whose
        selector never matches, and keeps the message.
    Fix: for a link, set conduitSubscriptions="false" on the networkConnector. For a replay policy of 5.16 or later, add
        selectorAware="true" to the element that has replayWhenNoConsumers. Before 5.16, upgrade first: selectorAware
        does not exist.
    Cannot see: the consumers. The rule infers selectors from virtualTopic selectorAware="true" and from
        virtualSelectorCacheBrokerPlugin.
    Source: ConduitBridge, ConditionalNetworkBridgeFilterFactory

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)"/>
        <destinationInterceptors>
          <virtualDestinationInterceptor>
            <virtualDestinations><virtualTopic name="orders.>" selectorAware="true"/></virtualDestinations>
          </virtualDestinationInterceptor>
        </destinationInterceptors>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616)" conduitSubscriptions="false">
          <excludedDestinations><topic physicalName=">"/></excludedDestinations>
        </networkConnector>
        <destinationInterceptors>
          <virtualDestinationInterceptor>
            <virtualDestinations><virtualTopic name="orders.>" selectorAware="true"/></virtualDestinations>
          </virtualDestinationInterceptor>
        </destinationInterceptors>
    """
    selector_topics = [
        topic
        for topic in document.elements_with_tag_name("virtualTopic")
        if topic.boolean_attribute("selectorAware", default=False)
    ]
    if not document.network_connectors or not (
        selector_topics or document.elements_with_tag_name("virtualSelectorCacheBrokerPlugin")
    ):
        return
    evidence = 'selectorAware="true" of <virtualTopic>' if selector_topics else "<virtualSelectorCacheBrokerPlugin>"
    for link in document.network_connectors:
        if link.boolean_attribute("conduitSubscriptions", default=True) and not link.boolean_attribute(
            "staticBridge", default=False
        ):
            yield link.problem(
                "this link with conduitSubscriptions ignores the selectors of consumers, so its bridge forwards "
                f"messages that no consumer accepts. {evidence} shows that consumers have selectors",
                "conduitSubscriptions",
                fix='set conduitSubscriptions="false" on the link',
                why="with conduitSubscriptions all consumers of a queue behind a bridge count as one consumer without "
                "a selector",
            )
    if document.release.has_selector_aware_replay:
        for bridge_filter in document.elements_with_tag_name(FILTER):
            replays = bridge_filter.boolean_attribute("replayWhenNoConsumers", default=False)
            if replays and bridge_filter.boolean_attribute("selectorAware", default=False) is False:
                yield bridge_filter.problem(
                    "replayWhenNoConsumers ignores the selectors of consumers, so a message that no local selector "
                    f"accepts does not move to another broker. {evidence} shows that consumers have selectors",
                    "selectorAware",
                    fix=f'set selectorAware="true" on <{FILTER}>, in addition to replayWhenNoConsumers',
                    why="the message stays on this broker as long as a consumer exists, even if its selector never "
                    "matches",
                )


@rule("N034", "error", releases="5.6.0", needs="@auditNetworkProducers")
def network_producer_audit_conflicts_with_replay(document: Document) -> Iterator[Problem]:
    """A connector sets auditNetworkProducers although a policy sets replayWhenNoConsumers.

    Why: the audit treats a message that returns to this broker as a duplicate ("suppressing duplicate message send"),
        and the message is lost. In a test with 20 persistent messages, all of them were lost.
    Fix: remove auditNetworkProducers from the connector, and let consumers detect duplicates.
    Cannot see: whether the peers set replayWhenNoConsumers. The rule assumes that the peers have the same policies as
        this file.
    Source: measured on 5.18.3; AMQ-4952; ProducerBrokerExchange.canDispatch

    Fires on 5.18.3::

        <transportConnector name="bridges" uri="tcp://0.0.0.0:61626" auditNetworkProducers="true"/>
        <policyEntry queue=">">
          <networkBridgeFilterFactory>
            <conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true" replayDelay="500"/>
          </networkBridgeFilterFactory>
        </policyEntry>

    Silent on 5.18.3::

        <transportConnector name="bridges" uri="tcp://0.0.0.0:61626" auditNetworkProducers="true"/>
    """
    replays = any(_replay_flag(entry) for entry in _queue_policies(document))
    for connector in document.transport_connectors:
        audits = connector.boolean_attribute("auditNetworkProducers", default=False)
        if audits and replays:
            message = (
                f"with auditNetworkProducers, connector {connector.get('name')} discards persistent messages that "
                "another broker sends back"
            )
            yield connector.problem(message, "auditNetworkProducers")
        elif audits is False and connector.has_attribute("auditNetworkProducers") and not replays:
            message = (
                f'with auditNetworkProducers="false", connector {connector.get("name")} accepts duplicates of messages '
                "that a bridge resends after a lost reply"
            )
            yield connector.problem(
                message,
                "auditNetworkProducers",
                severity="warning",
                fix='set auditNetworkProducers="true" on the transportConnector. If you later set '
                "replayWhenNoConsumers in a policy, remove auditNetworkProducers first",
                why="a bridge that receives no reply sends its message again. Only a connector with "
                "auditNetworkProducers detects the duplicate",
            )
