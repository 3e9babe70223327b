"""Rules C on unused destinations, and on memory that a few clients fill."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.lint.clients import elements_in_broker
from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.releases import Release

_MEGABYTE = 1 << 20
_LITTLE = 64 * _MEGABYTE
# What keeps messages of a destination without flow control from filling the broker.
_BOUNDS = (
    "pendingQueuePolicy",
    "pendingSubscriberPolicy",
    "pendingMessageLimitStrategy",
    "pendingDurableSubscriberPolicy",
)


@rule("C016", "warning", releases="5.4.0", source="BrokerService of the release tags: the period is 0 by default")
def nobody_collects(document: Document) -> Iterator[Problem]:
    """gcInactiveDestinations without schedulePeriodForDestinationPurge.

    Why: the policy marks empty destinations for removal; the broker removes them every
        schedulePeriodForDestinationPurge milliseconds, and never when that is 0, its default.
    Fix: set schedulePeriodForDestinationPurge="60000" on <broker>.

    Fires on 5.18.3::

        <policyEntry queue=">" gcInactiveDestinations="true" inactiveTimoutBeforeGC="600000"/>

    Silent on 5.18.3::

        <broker schedulePeriodForDestinationPurge="60000">
          <destinationPolicy><policyMap><policyEntries>
            <policyEntry queue=">" gcInactiveDestinations="true"/>
          </policyEntries></policyMap></destinationPolicy>
        </broker>
    """
    for broker in document.brokers:
        period = broker.get("schedulePeriodForDestinationPurge", "0")
        if period.strip() != "0":
            continue
        for entry in elements_in_broker(broker, "policyEntry"):
            if entry.flag("gcInactiveDestinations", False):
                yield entry.problem(
                    "gcInactiveDestinations does nothing: <broker> has no schedulePeriodForDestinationPurge",
                    "gcInactiveDestinations",
                )


@rule("C013", "info", source="start scripts of the release tags")
def memory_out_of_proportion(document: Document) -> Iterator[Problem]:
    """memoryUsage of 64 MB or less, or more than the heap of the release's own start script.

    Why: producers wait when all destinations together hold that much, which 64 MB, the default of old files, does with
        a few slow consumers. More than the heap is cut to 70 % of it when the broker starts, up to 5.8 it is not and
        the heap runs out; the start script gives 1 GB (512 MB up to 5.5, 2 GB on 6.3) unless somebody changed it.
    Fix: write percentOfJvmHeap="70" from 5.10 on, or a limit of half to two thirds of the heap.
    Cannot see: the heap that the host really gives.

    Fires on 5.18.3::

        <memoryUsage limit="64 mb"/>

    Fires on 5.18.3::

        <memoryUsage limit="4 gb"/>

    Silent on 5.18.3::

        <memoryUsage limit="512 mb"/>
    """
    if document.broker is not None:  # C006 knows the heap of a fleet's broker
        return
    heap = _shipped_heap(document.release)
    for usage in document.all("memoryUsage"):
        limit = usage.size("limit")
        if limit is None:
            continue
        if limit <= _LITTLE:
            yield usage.problem(f"memoryUsage is {_mb(limit)}: a few slow consumers make every producer wait", "limit")
        elif limit > heap:
            text = f"memoryUsage is {_mb(limit)}, and the heap {_mb(heap)} unless the start script was changed"
            yield usage.problem(text, "limit")


def _shipped_heap(release: Release) -> int:
    gigabyte = 1 << 30
    if release.within("6.3.0"):
        return 2 * gigabyte
    return gigabyte if release.within("5.6.0") else gigabyte // 2


def _mb(number: int) -> str:
    return f"{number / _MEGABYTE:g} MB"


@rule("C014", "info", source="documentation of producer flow control; Queue of the release tags")
def nothing_slows_producers(document: Document) -> Iterator[Problem]:
    """producerFlowControl="false" on destinations without a limit or a cursor of their own.

    Why: nothing then holds a producer back but the disk: messages that find no memory go to the store or the temporary
        store until that is full, and with it every destination stops.
    Fix: give the policy entry a memoryLimit and a pending…Policy, or leave flow control on.

    Fires on 5.18.3::

        <policyEntry queue=">" producerFlowControl="false"/>

    Silent on 5.18.3::

        <policyEntry queue=">" producerFlowControl="false" memoryLimit="64 mb"/>
    """
    if document.broker is not None:  # the fleet's own policy is decided by its settings
        return
    for entry in document.all("policyEntry"):
        bounded = entry.has("memoryLimit") or entry.children(*_BOUNDS)
        if entry.flag("producerFlowControl", True) is False and not bounded:
            text = f"nothing slows the producers of {_name(entry)} before the disk is full"
            yield entry.problem(text, "producerFlowControl")


def _name(entry: Element) -> str:
    return next((f"{kind} {entry.get(kind)}" for kind in ("queue", "topic") if entry.has(kind)), "these destinations")


@rule("C015", "info", releases="5.12.0", source="AbstractDeadLetterStrategy of the release tags")
def dead_letters_for_ever(document: Document) -> Iterator[Problem]:
    """A dead letter strategy without expiration.

    Why: what nobody could consume is kept in the dead letter queue for ever. Few look at it, and each of its messages
        keeps a file of the journal from being removed, until the store is full.
    Fix: set expiration (milliseconds) on the strategy, with a discarding or an own queue for dead letters of the dead
        letter queue itself; or watch the depth of these queues.

    Fires on 5.18.3::

        <policyEntry queue=">">
          <deadLetterStrategy><individualDeadLetterStrategy queuePrefix="DLQ."/></deadLetterStrategy>
        </policyEntry>

    Silent on 5.18.3::

        <policyEntry queue=">">
          <deadLetterStrategy>
            <individualDeadLetterStrategy queuePrefix="DLQ." expiration="604800000"/>
          </deadLetterStrategy>
        </policyEntry>
    """
    if document.broker is not None:  # the fleet's own policy is decided by its settings
        return
    for strategy in document.all("individualDeadLetterStrategy", "sharedDeadLetterStrategy"):
        if not strategy.has("expiration"):
            yield strategy.problem(f"<{strategy.name}> keeps dead letters for ever: it has no expiration")
