"""Rules C about destination policies and similar entries: contradictions, settings without effect, missing limits."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.lint.document import Element, Problem, other_lines_suffix
from activemq_fleet.lint.engine import rule

# The cursors that keep all pending messages in memory, each with the kind of its destinations.
_MEMORY_CURSORS = {"vmQueueCursor": "queue", "vmCursor": "topic", "vmDurableCursor": "topic"}
_DESTINATION_KINDS = ("queue", "tempQueue", "tempTopic", "topic")  # alphabetically: the last one of an entry applies
_TEMPORARY_KINDS = {"tempQueue": "all temporary queues", "tempTopic": "all temporary topics"}
# The elements that each apply to one destination, and have an attribute for each kind.
_ELEMENTS_FOR_ONE_DESTINATION = (
    "policyEntry",
    "authorizationEntry",
    "filteredKahaDB",
    "filteredDestination",
    "redeliveryPolicy",
)
# The elements that limit the pending messages of a destination without flow control.
_LIMITING_ELEMENTS = (
    "pendingQueuePolicy",
    "pendingSubscriberPolicy",
    "pendingMessageLimitStrategy",
    "pendingDurableSubscriberPolicy",
)


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
    first_entries: dict[tuple[str, str], Element] = {}
    for entry in policies.descendants("policyEntry"):
        kind = applied_destination_kind(entry)
        name = entry.literal_value(kind) if kind else ""
        if not name:
            continue
        earlier_entry = first_entries.setdefault((kind, name), entry)
        if earlier_entry is not entry:
            line = earlier_entry.position(kind)[0]
            place = "the same line" if line == entry.position(kind)[0] else f"line {line}"
            message = (
                f"this policyEntry and another in {place} are both for {kind} {name}: the broker ignores one of them"
            )
            yield entry.problem(message, kind)


@rule("C044", "warning", each=" ".join(_ELEMENTS_FOR_ONE_DESTINATION))
def entry_has_queue_and_topic(entry: Element) -> Iterator[Problem]:
    """A policyEntry or authorizationEntry has both a queue and a topic: it applies to only one of them.

    Why: such an element has one destination, and topic replaces queue, in whichever order the file has them. A nested
        destination element replaces both. tempTopic and tempQueue mean all temporary destinations, even if their value
        is false. The settings or rights of the replaced destination have no effect. The same is true of filteredKahaDB,
        filteredDestination and redeliveryPolicy.
    Fix: write two elements: one for the queue and one for the topic.
    Cannot see: whether another element covers the ignored destination. For an authorizationEntry, the finding is an
        error, because the broker rejects clients that have no right on a destination.
    Source: DestinationMapEntry and FilteredDestination of the release tags; measured on 5.5.1, 5.18.3 and 6.3.1

    Fires on 5.18.3::

        <policyEntry queue=">" topic=">" memoryLimit="64 mb"/>

    Silent on 5.18.3::

        <policyEntry queue=">" memoryLimit="64 mb"/>
        <policyEntry topic=">" memoryLimit="64 mb"/>
    """
    kinds = [kind for kind in _DESTINATION_KINDS if entry.has_attribute(kind)]
    applied_kind = applied_destination_kind(entry)
    applied = _destination_text(entry, applied_kind) if applied_kind else "the nested destination"
    replaced = [kind for kind in kinds if kind != applied_kind]
    if replaced:
        ignored = " and ".join(_destination_text(entry, kind) for kind in replaced)
        fix = f"write separate {entry.name} elements for {applied} and {ignored}"
        false_flags = [kind for kind in _TEMPORARY_KINDS if entry.boolean_attribute(kind, True) is False]
        if false_flags:
            fix = f"remove {' and '.join(false_flags)}, because the broker ignores the value false"
        yield entry.problem(
            f"this {entry.name} applies only to {applied}, and the broker ignores {ignored}, because each {entry.name} "
            "has one destination",
            replaced[0],
            severity="error" if entry.name == "authorizationEntry" else None,
            fix=fix,
        )


def _destination_text(entry: Element, kind: str) -> str:
    """Return the destination that one attribute of an entry sets, as text for findings."""
    if kind in _TEMPORARY_KINDS:
        return f"{_TEMPORARY_KINDS[kind]} ({kind})"
    return f"{kind} {entry.get(kind) or repr('')}"


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
    unlimited = [
        (entry, kind) for entry in policies.descendants("policyEntry") for kind in _kinds_kept_in_memory(entry)
    ]
    if unlimited:
        entry, kind = unlimited[0]
        text = (
            f"the policy of {kind} {entry.get(kind)} keeps all pending messages in the heap without flow control: "
            "a slow consumer can exhaust the heap"
        )
        text += other_lines_suffix((other for other, _ in unlimited), "producerFlowControl")
        cursors = "<storeCursor/> or <fileQueueCursor/>" if kind == "queue" else "<fileCursor/>"
        fix = f'remove producerFlowControl="false", or use {cursors}, which moves messages to the disk'
        yield entry.problem(text, "producerFlowControl", fix=fix)


def _kinds_kept_in_memory(entry: Element) -> Iterator[str]:
    """Yield the kinds of destinations for which a policyEntry keeps pending messages in memory without a limit."""
    if entry.boolean_attribute("producerFlowControl", True) is not False:
        return
    for cursor, kind in _MEMORY_CURSORS.items():
        is_limited = cursor == "vmCursor" and entry.first_child("pendingMessageLimitStrategy") is not None
        if applied_destination_kind(entry) == kind and entry.descendants(cursor) and not is_limited:
            yield kind


@rule("C016", "warning", each="broker", releases="5.4.0", needs="@gcInactiveDestinations")
def gc_inactive_without_purge_schedule(broker: Element) -> Iterator[Problem]:
    """A destination policy sets gcInactiveDestinations, but <broker> does not set schedulePeriodForDestinationPurge.

    Why: the broker removes inactive destinations every schedulePeriodForDestinationPurge milliseconds. The default, 0,
        means never.
    Fix: set schedulePeriodForDestinationPurge="60000" on <broker>.
    Source: BrokerService of the release tags: the period is 0 by default

    Fires on 5.18.3::

        <policyEntry queue=">" gcInactiveDestinations="true" inactiveTimoutBeforeGC="600000"/>

    Silent on 5.18.3::

        <broker schedulePeriodForDestinationPurge="60000">
          <destinationPolicy><policyMap><policyEntries>
            <policyEntry queue=">" gcInactiveDestinations="true"/>
          </policyEntries></policyMap></destinationPolicy>
        </broker>
    """
    period = broker.get("schedulePeriodForDestinationPurge", "0")
    if period.strip() != "0":
        return
    for entry in broker.descendants("policyEntry"):
        if entry.boolean_attribute("gcInactiveDestinations", False):
            message = (
                "gcInactiveDestinations has no effect: schedulePeriodForDestinationPurge of <broker> is 0 or missing"
            )
            yield entry.problem(message, "gcInactiveDestinations")


@rule("C014", "info", each="policyMap", needs="@producerFlowControl")
def flow_control_off_without_limit_or_cursor(policies: Element) -> Iterator[Problem]:
    """A destination policy sets producerFlowControl="false", but neither a memoryLimit nor a cursor.

    Why: messages that do not fit into memory fill the store or the temporary store. A full store blocks the producers
        of all destinations.
    Fix: remove producerFlowControl="false", or set a memoryLimit on the policyEntry.
    Cannot see: whether a cursor suffices. The rule is silent if the policyEntry contains any pendingQueuePolicy,
        pendingSubscriberPolicy, pendingDurableSubscriberPolicy or pendingMessageLimitStrategy.
    Source: documentation of producer flow control; Queue of the release tags

    Fires on 5.18.3::

        <policyEntry queue=">" producerFlowControl="false"/>

    Silent on 5.18.3::

        <policyEntry queue=">" producerFlowControl="false" memoryLimit="64 mb"/>
    """
    if policies.document.broker is not None:  # the settings of the fleet determine its policy
        return
    unlimited = [
        entry
        for entry in policies.descendants("policyEntry")
        if entry.boolean_attribute("producerFlowControl", True) is False
        and not (entry.is_positive("memoryLimit") or entry.children(*_LIMITING_ELEMENTS))
    ]
    if unlimited:
        destination = policy_destination_text(unlimited[0], "these destinations")
        text = (
            "producerFlowControl is false without a memory limit: only a full disk slows the producers of "
            f"{destination}"
        )
        text += other_lines_suffix(unlimited, "producerFlowControl")
        yield unlimited[0].problem(text, "producerFlowControl")


def applied_destination_kind(entry: Element) -> str:
    """Return the attribute that determines the destination of a policyEntry or similar element, such as ``queue``.

    An entry has one destination, and the last attribute in alphabetical order applies. The result is "" without such an
    attribute, and for an entry whose nested destination element replaces all of them.
    """
    if entry.first_child("destination"):
        return ""
    return next((kind for kind in reversed(_DESTINATION_KINDS) if entry.has_attribute(kind)), "")


def policy_destination_text(entry: Element, default: str) -> str:
    """Return the destinations of a policy entry as text for findings, such as ``queue orders``."""
    kind = applied_destination_kind(entry)
    return f"{kind} {entry.get(kind)}" if kind in ("queue", "topic") else default
