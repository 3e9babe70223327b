"""Rules C about the limits of memory and disk, and about the behavior of a broker that reaches them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.lint.clients_policies import applied_destination_kind, policy_destination_text
from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.node.protocols import protocol_name_of_scheme
from activemq_fleet.releases import Release
from activemq_fleet.settings.java_memory_options import heap_variable_and_size, largest_heap_bytes

_MEGABYTE = 1 << 20
_DEFAULT_JOURNAL_FILE_LENGTH = 32 * _MEGABYTE
_WILDCARD_IN_NAME = re.compile(r"(^|\.)[*>](\.|$)")
# The protocol that acknowledges a message even if the broker rejects it: MQTTProtocolConverter of the release tags.
_ACKNOWLEDGING_PROTOCOL = "mqtt"
_SMALL_MEMORY_LIMIT = 64 * _MEGABYTE


@rule("C006", "warning", each="broker")
def memory_limits_exceed_usage_or_heap(broker: Element) -> Iterator[Problem]:
    """The memory limits of destinations exceed the broker's memoryUsage, or memoryUsage exceeds the heap.

    Why: all destinations share memoryUsage. When it is used up, all producers block, even those of destinations that
        have not reached their own memoryLimit. If memoryUsage exceeds the heap, the broker lowers it to 70 % of the
        heap when it starts. Before 5.9, the broker instead fails with an OutOfMemoryError.
    Fix: raise memoryUsage, but keep it below 70 % of the heap. Or lower the memoryLimit of the policy entries.
    Cannot see: the size of the heap if you check only a file (`check --file`), and the destinations that clients
        create.
    Source: BrokerService.checkMemorySystemUsageLimits; measured on 5.17.2

    Fires on 5.18.3::

        <policyEntry queue="orders.>" memoryLimit="512 mb"/>
        <memoryUsage limit="256 mb"/>

    Fires on 5.18.3::

        <policyEntry queue="orders.in" memoryLimit="200 mb"/>
        <policyEntry queue="orders.out" memoryLimit="200 mb"/>
        <memoryUsage limit="256 mb"/>

    Silent on 5.18.3::

        <policyEntry queue="orders.>" memoryLimit="64 mb"/>
        <memoryUsage limit="256 mb"/>
    """
    memory_usage = _limit_element(broker, "memoryUsage")
    if memory_usage is None or not (memory := memory_usage.size_attribute("limit")):
        return
    has_larger_limit = False
    for entry in broker.descendants("policyEntry"):
        limit = entry.size_attribute("memoryLimit")
        if limit is not None and limit > memory:
            has_larger_limit = True
            destination = policy_destination_text(entry, "a destination")
            message = (
                f"{destination} may use {_size_text(limit)}, but memoryUsage for all destinations is only "
                f"{_size_text(memory)}: producers block before the messages reach this memoryLimit"
            )
            yield entry.problem(message, "memoryLimit")
    limits = _limits_of_destinations(broker)
    if not has_larger_limit and sum(limits.values()) > memory:
        yield memory_usage.problem(
            f"{len(limits)} destinations may use {_size_text(sum(limits.values()))} together, but memoryUsage is only "
            f"{_size_text(memory)}: producers can block although no destination has reached its memoryLimit",
            "limit",
        )
    settings = broker.document.broker.settings if broker.document.broker else None
    if settings is not None and memory > (heap := largest_heap_bytes(settings)):
        variable, _ = heap_variable_and_size(settings)
        yield memory_usage.problem(
            f"memoryUsage is {_size_text(memory)}, more than the Java heap of {_size_text(heap)}",
            "limit",
            fix=f"lower memoryUsage below 70 % of the heap, or raise the heap ({variable})",
            why=_reason_above_heap(broker.document.release),
        )


def _reason_above_heap(release: Release) -> str:
    """Return the effect of a memoryUsage above the Java heap in a release."""
    if release.is_within_span("5.9.0"):
        return "the broker reduces a memoryUsage above the heap to 70 % of the heap at its start"
    return "messages fill the heap before the broker blocks producers, and the broker fails with OutOfMemoryError"


@rule("C007", "warning", each="broker", releases="5.6.0")
def store_or_temp_usage_below_one_journal_file(broker: Element) -> Iterator[Problem]:
    """storeUsage or tempUsage is smaller than one file of the journal.

    Why: the journal consists of files of 32 MB, unless journalMaxFileLength is set. The broker frees space only by
        deleting whole files, and never deletes the file to which it writes. If the limit is smaller than one file, the
        producers block as soon as the store reaches the limit. They stay blocked even after all messages are consumed.
    Fix: raise the limit of <storeUsage> or <tempUsage> to the size of several journal files, such as 1 gb.
    Source: measured on 5.6.0, 5.11.4 and 5.18.3; BrokerService.checkStoreUsageLimits

    Fires on 5.18.3::

        <storeUsage limit="16 mb"/>

    Fires on 5.18.3::

        <persistenceAdapter>
          <kahaDB directory="${activemq.data}/kahadb" journalMaxFileLength="1g"/>
        </persistenceAdapter>
        <storeUsage limit="512 mb"/>

    Silent on 5.18.3::

        <storeUsage limit="20 gb"/>
    """
    store = next(
        (node for container in broker.descendants("persistenceAdapter") for node in container.children()), None
    )
    is_kahadb = store is None or store.name == "kahaDB"
    if broker.boolean_attribute("persistent", True) is not False and is_kahadb:
        yield from _small_limit_problems(_limit_element(broker, "storeUsage"), _journal_file_length(store), "the store")
    if broker.boolean_attribute("persistent", True) and not broker.children("tempDataStore"):
        yield from _small_limit_problems(
            _limit_element(broker, "tempUsage"), _DEFAULT_JOURNAL_FILE_LENGTH, "the temporary store"
        )


def _small_limit_problems(usage: Element | None, file_length: int | None, store_name: str) -> Iterator[Problem]:
    attribute = "limit" if usage is not None and usage.has_attribute("limit") else "total"
    limit = usage.size_attribute(attribute) if usage is not None else None
    if usage is not None and limit and file_length and limit < file_length:
        message = (
            f"{store_name} is limited to {_size_text(limit)}, but a single journal file needs "
            f"{_size_text(file_length)}: once the store is full, producers block permanently"
        )
        fix = f"raise {attribute} of <{usage.name}> to the size of several journal files, such as 1 gb"
        yield usage.problem(message, attribute, fix=fix)


def _journal_file_length(store: Element | None) -> int | None:
    """Return the size of a file of a store's journal in bytes; None if a placeholder determines it."""
    if store is None or not store.has_attribute("journalMaxFileLength"):
        return _DEFAULT_JOURNAL_FILE_LENGTH
    return store.size_attribute("journalMaxFileLength")


@rule("C008", "warning", each="broker", needs="@sendFailIfNoSpace @sendFailIfNoSpaceAfterTimeout")
def send_fail_if_no_space_with_mqtt_or_links(broker: Element) -> Iterator[Problem]:
    """A broker sets sendFailIfNoSpace although MQTT clients publish to it or bridges connect to it.

    Why: if the store is full, the broker rejects messages instead of blocking producers. An MQTT client receives a
        PUBACK for a rejected message, and the message is lost. The attribute has no effect on bridges: a full queue
        still blocks each bridge that sends to it.
    Fix: remove sendFailIfNoSpace or sendFailIfNoSpaceAfterTimeout.
    Source: MQTTProtocolConverter and Queue.send of the tags; measured on 5.17.2: 486 of 599 acknowledged events lost

    Fires on 5.18.3::

        <broker>
          <systemUsage><systemUsage sendFailIfNoSpace="true"/></systemUsage>
          <transportConnectors>
            <transportConnector name="mqtt" uri="mqtt://0.0.0.0:1883?wireFormat.maxFrameSize=1048576"/>
          </transportConnectors>
        </broker>

    Silent on 5.18.3::

        <broker>
          <systemUsage><systemUsage/></systemUsage>
          <transportConnectors>
            <transportConnector name="mqtt" uri="mqtt://0.0.0.0:1883?wireFormat.maxFrameSize=1048576"/>
          </transportConnectors>
        </broker>
    """
    schemes = {
        protocol_name_of_scheme(connector.uri_attribute_or_empty().scheme)
        for connector in broker.descendants("transportConnector")
    }
    loses_messages = _ACKNOWLEDGING_PROTOCOL in schemes
    links = broker.descendants("networkConnector")
    for usage in [*broker.descendants("systemUsage"), *broker.descendants("policyEntry")]:
        for attribute in ("sendFailIfNoSpace", "sendFailIfNoSpaceAfterTimeout"):
            if not (usage.boolean_attribute(attribute, False) or (usage.integer_attribute(attribute) or 0) > 0):
                continue
            if loses_messages:
                yield usage.problem(
                    f"with {attribute}, the broker rejects MQTT messages when the store is full, but acknowledges "
                    "them to the client: these messages are lost",
                    attribute,
                    fix=f"remove {attribute}. The broker then blocks a producer until the store has space",
                    why="an MQTT client receives a PUBACK for a rejected message, and does not send it again",
                )
            elif links:
                message = (
                    f"{attribute} does not apply to bridges: a full queue still blocks each bridge that sends to it"
                )
                fix = (
                    "on the sending broker, use a separate networkConnector for the queues that may become full. "
                    f"Remove {attribute} if only bridges send to this broker"
                )
                why = "while a bridge waits for space in a full queue, it also forwards no messages to other queues"
                yield usage.problem(message, attribute, severity="info", fix=fix, why=why)


@rule("C012", "info", each="broker", releases="5.15.0")
def lowered_store_limit_not_raised_again(broker: Element) -> Iterator[Problem]:
    """A broker that starts on a full disk lowers its store limit, and does not raise the limit again.

    Why: until its next restart, the broker possibly cannot store any message. It raises the limit again only if
        <storeUsage> sets the limit in percent, and <broker> sets schedulePeriodForDiskUsageCheck.
    Fix: replace limit="SIZE" of <storeUsage> with percentLimit="100" total="SIZE", and set
        schedulePeriodForDiskUsageCheck="60000" on <broker>.
    Source: BrokerService.checkUsageLimit; measured on 5.15.16, 5.18.3 and 6.3.1

    Fires on 5.18.3::

        <storeUsage limit="20 gb"/>

    Silent on 5.18.3::

        <broker schedulePeriodForDiskUsageCheck="60000">
          <systemUsage><systemUsage>
            <storeUsage><storeUsage percentLimit="100" total="20 gb"/></storeUsage>
          </systemUsage></systemUsage>
        </broker>
    """
    if broker.boolean_attribute("persistent", True) is False:  # a broker without a store does not lower a store limit
        return
    usage = _limit_element(broker, "storeUsage")
    if usage is not None and not (
        _is_100_percent_of_total(usage) and broker.is_positive("schedulePeriodForDiskUsageCheck")
    ):
        yield usage.problem(
            "a broker that starts on a full disk lowers the limit of <storeUsage>, and does not raise it when the disk "
            "has space again"
        )


def _limit_element(broker: Element, name: str) -> Element | None:
    """Return the element of a broker, such as ``<storeUsage>``, that sets a usage limit; None without one.

    The element has a limit, or 100 % of a total.
    """
    return next(
        (node for node in broker.descendants(name) if node.has_attribute("limit") or _is_100_percent_of_total(node)),
        None,
    )


def _is_100_percent_of_total(usage: Element) -> bool:
    """Return whether a usage element sets its limit to 100 % of a total.

    A broker raises such a limit again after it lowered the limit.
    """
    return usage.get("percentLimit") == "100" and usage.has_attribute("total")


def _limits_of_destinations(broker: Element) -> dict[tuple[str, str], int]:
    """Return the memory limits in bytes of the destinations that policy entries name in full, by (kind, name)."""
    limits: dict[tuple[str, str], int] = {}
    for entry in broker.descendants("policyEntry"):
        limit = entry.size_attribute("memoryLimit")
        kind = applied_destination_kind(entry)
        name = entry.literal_value(kind) if kind in ("queue", "topic") else None
        if limit is not None and name and not _WILDCARD_IN_NAME.search(name):
            limits[kind, name] = limit
    return limits


@rule("C013", "info")
def memory_usage_too_small_or_above_heap(document: Document) -> Iterator[Problem]:
    """memoryUsage is 64 MB or less, or exceeds the heap that the start script of the release sets.

    Why: all producers block when the messages of all destinations together fill memoryUsage. If memoryUsage exceeds the
        heap, the broker lowers it to 70 % of the heap when it starts. Before 5.9, the broker instead fails with an
        OutOfMemoryError. The start script sets a heap of 1 GB (512 MB up to 5.5, 2 GB on 6.3) by default.
    Fix: from 5.10 on, replace the limit of <memoryUsage> with percentOfJvmHeap="70". Before 5.10, set the limit to
        about 60 % of the heap (-Xmx).
    Cannot see: the actual heap of the host.
    Source: start scripts of the release tags

    Fires on 5.18.3::

        <memoryUsage limit="64 mb"/>

    Fires on 5.18.3::

        <memoryUsage limit="4 gb"/>

    Silent on 5.18.3::

        <memoryUsage limit="512 mb"/>
    """
    if document.broker is not None:  # rule C006 checks the heap of a fleet's broker
        return
    heap = _shipped_heap(document.release)
    fix = "set the limit of <memoryUsage> to about 60 % of the Java heap (-Xmx)"
    if document.release.supports("memoryUsage", "percentOfJvmHeap"):
        fix = 'replace the limit of <memoryUsage> with percentOfJvmHeap="70"'
    for usage in document.elements_with_tag_name("memoryUsage"):
        limit = usage.size_attribute("limit")
        if limit is None:
            continue
        if limit <= _SMALL_MEMORY_LIMIT:
            yield usage.problem(
                f"memoryUsage is only {_size_text(limit)}: a few slow consumers can block all producers",
                "limit",
                fix=fix,
                why="all producers block when the messages of all destinations together fill memoryUsage",
            )
        elif limit > heap:
            text = (
                f"memoryUsage is {_size_text(limit)}, more than the {_size_text(heap)} of Java heap that the release's "
                "start script sets by default"
            )
            why = _reason_above_heap(document.release)
            yield usage.problem(text, "limit", fix=f"{fix}. Or raise the heap (-Xmx) of the broker", why=why)


def _shipped_heap(release: Release) -> int:
    gigabyte = 1 << 30
    if release.is_within_span("6.3.0"):
        return 2 * gigabyte
    return gigabyte if release.is_within_span("5.6.0") else gigabyte // 2


def _size_text(number: int) -> str:
    return f"{number / _MEGABYTE:.15g} MB" if number >= _MEGABYTE else f"{number / 1024:.15g} KB"
