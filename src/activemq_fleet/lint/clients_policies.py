"""Rules C about destination policies that contradict each other, and about messages that a policy loses."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.lint.document import Element, Problem, other_lines_suffix
from activemq_fleet.lint.engine import rule

# The cursors that keep all pending messages in memory, each with the kind of destinations that it is for.
_IN_MEMORY = {"vmQueueCursor": "queue", "vmCursor": "topic", "vmDurableCursor": "topic"}
_KINDS = ("queue", "topic", "tempQueue", "tempTopic")


@rule("C040", "warning", each="policyMap")
def two_policies_for_one_destination(policies: Element) -> Iterator[Problem]:
    """Two policyEntry elements are for the same destination: the broker applies only one of them.

    Why: the broker does not merge two entries for the same destination. The settings of one of them have no effect, and
        the file does not show which one.
    Fix: merge the two policyEntry elements into one.
    Source: PolicyMap and DestinationMap.chooseValue of the release tags

    Fires on 5.18.3::

        <policyEntry queue="orders.>" memoryLimit="64 mb"/>
        <policyEntry queue="orders.>" producerFlowControl="true"/>

    Silent on 5.18.3::

        <policyEntry queue="orders.>" memoryLimit="64 mb"/>
        <policyEntry topic="orders.>" memoryLimit="64 mb"/>
    """
    first: dict[tuple[str, str], Element] = {}
    for entry in policies.descendants("policyEntry"):
        for kind in _KINDS:
            name = entry.literal_value(kind)
            if not name:
                continue
            earlier = first.setdefault((kind, name), entry)
            if earlier is not entry:
                line = earlier.position(kind)[0]
                place = "the same line" if line == entry.position(kind)[0] else f"line {line}"
                message = (
                    f"this policyEntry and another in {place} are both for {kind} {name}: the broker ignores one of "
                    "them"
                )
                yield entry.problem(message, kind)


@rule("C041", "warning", each="discardingDLQBrokerPlugin")
def plugin_discards_all_dead_letters(plugin: Element) -> Iterator[Problem]:
    """The discardingDLQBrokerPlugin discards every message that would go to a dead letter queue.

    Why: a message that expires, or that still fails after the maximum number of redeliveries, is lost. The broker logs
        only one line per 1000 discarded messages. dropAll is true unless the file sets it to false, even if dropOnly is
        set.
    Fix: set dropAll="false", and list in dropOnly the destinations whose dead letters are not needed, separated by
        spaces: dropOnly="QUEUE1 QUEUE2".
    Cannot see: whether any of the messages matter.
    Source: DiscardingDLQBroker of the release tags

    Fires on 5.18.3::

        <broker><plugins><discardingDLQBrokerPlugin dropAll="true"/></plugins></broker>

    Silent on 5.18.3::

        <broker><plugins><discardingDLQBrokerPlugin dropAll="false" dropOnly="PRICES"/></plugins></broker>
    """
    if plugin.boolean_attribute("dropAll", True):
        attribute = "dropAll" if plugin.has_attribute("dropAll") else ""
        yield plugin.problem(
            "with <discardingDLQBrokerPlugin> the broker discards every message that would go to a dead letter queue",
            attribute,
        )


@rule("C042", "info", each="broker")
def relative_data_or_store_directory(broker: Element) -> Iterator[Problem]:
    """The data directory or the store directory is relative to the directory in which the broker is started.

    Why: a broker that is started in another directory, manually or by a new service unit, creates an empty store there.
        It then serves clients without the messages of the previous store. The lock of the new store does not prevent a
        second broker from using the previous store.
    Fix: write an absolute path, such as /var/lib/activemq, or a path that begins with ${activemq.data}.
    Cannot see: the working directory that a service unit sets.
    Source: BrokerService.setDataDirectory and KahaDBPersistenceAdapter.setDirectory of the release tags; measured on
        5.18.3

    Fires on 5.18.3::

        <broker dataDirectory="data">
          <persistenceAdapter><kahaDB directory="data/kahadb"/></persistenceAdapter>
        </broker>

    Silent on 5.18.3::

        <broker dataDirectory="/var/lib/activemq">
          <persistenceAdapter><kahaDB directory="${activemq.data}/kahadb"/></persistenceAdapter>
        </broker>
    """
    if broker.document.broker is not None or broker.boolean_attribute("persistent", True) is False:
        return
    stores = [store for holder in broker.children("persistenceAdapter", "persistenceFactory")
              for store in holder.children()]  # fmt: skip
    named = [(broker, "dataDirectory"), *((store, "directory") for store in stores)]
    relative = [(node, attribute) for node, attribute in named if _is_relative(node.literal_value(attribute) or "")]
    if relative:
        node, attribute = relative[0]
        text = (
            f'{attribute}="{node.get(attribute)}" is relative to the directory in which the broker is started: '
            "a start in another directory creates an empty store"
        )
        yield node.problem(
            text + other_lines_suffix((other for other, _ in relative), line=node.position(attribute)[0]), attribute
        )


def _is_relative(directory: str) -> bool:
    absolute = directory.startswith(("/", "\\", "~")) or directory[1:2] == ":" or ":/" in directory
    return bool(directory) and not absolute and "target" not in directory.split("/")  # L028 reports target


@rule("C043", "warning", each="policyMap", needs="@producerFlowControl")
def flow_control_off_with_memory_only_cursor(policies: Element) -> Iterator[Problem]:
    """A destination policy disables flow control and keeps all pending messages in memory.

    Why: producerFlowControl="false" lets producers send beyond the memoryLimit, and a vmQueueCursor, vmCursor or
        vmDurableCursor never moves messages to a disk. A slow consumer makes the heap run out, which stops the broker.
    Fix: remove producerFlowControl="false", or use a cursor that moves messages to the disk: storeCursor or
        fileQueueCursor for queues, fileCursor for topics, storeDurableSubscriberCursor or fileDurableSubscriberCursor
        for durable subscribers.
    Cannot see: the number of pending messages. With a vmCursor, a pendingMessageLimitStrategy limits this number.
    Source: documentation of message cursors; VMPendingMessageCursor of the release tags

    Fires on 5.18.3::

        <policyEntry queue=">" producerFlowControl="false">
          <pendingQueuePolicy><vmQueueCursor/></pendingQueuePolicy>
        </policyEntry>

    Silent on 5.18.3::

        <policyEntry queue=">" producerFlowControl="false" memoryLimit="64 mb">
          <pendingQueuePolicy><fileQueueCursor/></pendingQueuePolicy>
        </policyEntry>
    """
    unbounded = [
        (entry, kind) for entry in policies.descendants("policyEntry") for kind in _kinds_kept_in_memory(entry)
    ]
    if unbounded:
        entry, kind = unbounded[0]
        text = (
            f"the policy of {kind} {entry.get(kind)} keeps all pending messages in the heap without flow control: "
            "a slow consumer can exhaust the heap"
        )
        text += other_lines_suffix((other for other, _ in unbounded), "producerFlowControl")
        cursors = "<storeCursor/> or <fileQueueCursor/>" if kind == "queue" else "<fileCursor/>"
        fix = f'remove producerFlowControl="false", or use {cursors}, which moves messages to the disk'
        yield entry.problem(text, "producerFlowControl", fix=fix)


def _kinds_kept_in_memory(entry: Element) -> Iterator[str]:
    """Yield the kinds of destinations for which a policyEntry keeps pending messages in memory without a limit."""
    if entry.boolean_attribute("producerFlowControl", True) is not False:
        return
    for cursor, kind in _IN_MEMORY.items():
        bounded = cursor == "vmCursor" and entry.first_child("pendingMessageLimitStrategy") is not None
        if entry.has_attribute(kind) and entry.descendants(cursor) and not bounded:
            yield kind
