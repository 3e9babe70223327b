"""Rules C on limits of memory and disk, and on what happens when they are reached."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.lint.clients import elements_in_broker
from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.protocols import protocol_of

_MEGABYTE = 1 << 20
_JOURNAL = 32 * _MEGABYTE
_WILDCARDS = re.compile(r"(^|\.)[*>](\.|$)")
_HEAP = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
# Protocols that acknowledge to the sender what the broker then refuses: MQTTProtocolConverter of the release tags.
_ACKNOWLEDGED_ALL_THE_SAME = "mqtt"


@rule("C006", "warning", source="BrokerService.checkMemorySystemUsageLimits; measured on 5.17.2")
def memory_promised_twice(document: Document) -> Iterator[Problem]:
    """The memory limits of destinations add up to more than the broker's own, or the broker's to more than the heap.

    Why: memoryUsage is what all destinations share. A destination whose own limit is higher never reaches it: others
        have used up the memory before, and its producers wait although its own limit has room. A memoryUsage above
        the heap is cut to 70 % of it when the broker starts; up to 5.8 it is not, and the heap runs out.
    Fix: raise memoryUsage, or lower the memoryLimit of the policy entries; keep memoryUsage below 70 % of the heap.
    Cannot see: the heap, in a file alone; destinations that clients create.

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
    for broker in document.brokers:
        whole = _limit(broker, "memoryUsage")
        if whole is None or not (memory := whole.size("limit")):
            continue
        above = False
        for entry in elements_in_broker(broker, "policyEntry"):
            own = entry.size("memoryLimit")
            if own is not None and own > memory:
                above = True
                yield entry.problem(
                    f"{_name(entry)} may use {_mb(own)} of a memory of {_mb(memory)} that all share", "memoryLimit"
                )
        promised = _promised(broker)
        if not above and sum(promised.values()) > memory:
            yield whole.problem(
                f"{len(promised)} destinations may use {_mb(sum(promised.values()))} together, and share {_mb(memory)}",
                "limit",
            )
        heap = _heap(document)
        if heap is not None and memory > heap:
            yield whole.problem(f"memoryUsage is {_mb(memory)}, and the heap only {_mb(heap)}", "limit")


@rule(
    "C007",
    "warning",
    releases="5.6.0",
    source="measured on 5.6.0, 5.11.4 and 5.18.3; BrokerService.checkStoreUsageLimits",
)
def limit_below_one_file(document: Document) -> Iterator[Problem]:
    """storeUsage or tempUsage is smaller than one file of the journal.

    Why: the journal has files of 32 MB unless journalMaxFileLength says otherwise, and gives space back by whole files,
        never the one it writes to. With a limit below one file the store fills up once; from then on producers wait,
        also after everything was consumed. The broker says so at its start ("will not accept any data").
    Fix: give it room for several files.

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
    for broker in document.brokers:
        store = next(
            (node for holder in elements_in_broker(broker, "persistenceAdapter") for node in holder.children()), None
        )
        kaha = store is None or store.name == "kahaDB"
        if broker.flag("persistent", True) is not False and kaha:
            yield from _below(_limit(broker, "storeUsage"), _file_length(store), "the store")
        if broker.flag("persistent", True) and not broker.children("tempDataStore"):
            yield from _below(_limit(broker, "tempUsage"), _JOURNAL, "the temporary store")


def _below(usage: Element | None, file_length: int | None, what: str) -> Iterator[Problem]:
    attribute = "limit" if usage is not None and usage.has("limit") else "total"
    limit = usage.size(attribute) if usage is not None else None
    if usage is not None and limit and file_length and limit < file_length:
        yield usage.problem(
            f"{what} may have {_mb(limit)}, one file of its journal {_mb(file_length)}: once full it stays full",
            attribute,
        )


def _file_length(store: Element | None) -> int | None:
    """Return the size of a journal file in bytes; None where a placeholder decides it."""
    if store is None or not store.has("journalMaxFileLength"):
        return _JOURNAL
    return store.size("journalMaxFileLength")


@rule(
    "C008",
    "warning",
    source="MQTTProtocolConverter and Queue.send of the tags; measured on 5.17.2: 486 of 599 acknowledged events lost",
)
def refuses_instead_of_waiting(document: Document) -> Iterator[Problem]:
    """sendFailIfNoSpace where MQTT clients publish, or where bridges arrive.

    Why: when the store is full the broker then refuses messages instead of letting producers wait. An MQTT client gets
        its PUBACK all the same, so what it takes for stored is lost. Bridges are exempt: a full queue
        blocks them as before, and with them all that they carry for other queues.
    Fix: leave sendFailIfNoSpace and sendFailIfNoSpaceAfterTimeout out; bound the queues that may fill up by limits of
        their own, and give them a bridge of their own.

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
    for broker in document.brokers:
        schemes = {
            protocol_of(connector.uri().scheme) for connector in elements_in_broker(broker, "transportConnector")
        }
        loses = _ACKNOWLEDGED_ALL_THE_SAME in schemes
        links = elements_in_broker(broker, "networkConnector")
        for usage in elements_in_broker(broker, "systemUsage", "policyEntry"):
            for attribute in ("sendFailIfNoSpace", "sendFailIfNoSpaceAfterTimeout"):
                if not (usage.flag(attribute, False) or (usage.number(attribute) or 0) > 0):
                    continue
                if loses:
                    yield usage.problem(f"with {attribute} an MQTT client loses what a full store refuses", attribute)
                elif links:
                    yield usage.problem(
                        f"{attribute} does not reach bridges: a full queue blocks them all the same",
                        attribute,
                        severity="info",
                    )


@rule("C012", "info", releases="5.15.0", source="BrokerService.checkUsageLimit; measured on 5.15.16, 5.18.3 and 6.3.1")
def limit_that_stays_low(document: Document) -> Iterator[Problem]:
    """A store limit that is not raised again after a start on a full disk.

    Why: a broker lowers its store limit at its start to the room that the disk has. Only a limit in percent is raised
        again, and only where the disk is looked at: with any other a broker that was started on a full disk answers,
        and acknowledges nothing, until it is started anew.
    Fix: <storeUsage percentLimit="100" total="20 gb"/> in the place of limit="20 gb", and
        schedulePeriodForDiskUsageCheck="60000" at <broker>.

    Fires on 5.18.3::

        <storeUsage limit="20 gb"/>

    Silent on 5.18.3::

        <broker schedulePeriodForDiskUsageCheck="60000">
          <systemUsage><systemUsage>
            <storeUsage><storeUsage percentLimit="100" total="20 gb"/></storeUsage>
          </systemUsage></systemUsage>
        </broker>
    """
    for broker in document.brokers:
        usage = _limit(broker, "storeUsage")
        if usage is not None and not (is_whole_of_total(usage) and broker.has("schedulePeriodForDiskUsageCheck")):
            yield usage.problem("is not raised again once the broker was started on a full disk")


def _limit(broker: Element, name: str) -> Element | None:
    """Return the usage element called ``name`` that has a limit, or 100 % of a total; None without one."""
    return next(
        (node for node in elements_in_broker(broker, name) if node.has("limit") or is_whole_of_total(node)), None
    )


def is_whole_of_total(usage: Element) -> bool:
    """Return whether a usage element sets 100 % of a total, a limit that a broker can raise again after lowering it."""
    return usage.get("percentLimit") == "100" and usage.has("total")


def _promised(broker: Element) -> dict[tuple[str, str], int]:
    """Return the memory limit in bytes by (kind, name) of each destination that a policy entry names in full."""
    found: dict[tuple[str, str], int] = {}
    for entry in elements_in_broker(broker, "policyEntry"):
        own = entry.size("memoryLimit")
        for kind in ("queue", "topic"):
            name = entry.known(kind)
            if own is not None and name and not _WILDCARDS.search(name):
                found[kind, name] = own
    return found


def _name(entry: Element) -> str:
    for kind in ("queue", "topic"):
        if entry.has(kind):
            return f"{kind} {entry.get(kind)}"
    return "a destination"


def _heap(document: Document) -> int | None:
    text = document.broker.settings.heap if document.broker else ""
    return int(text[:-1]) * _HEAP[text[-1].lower()] if text else None


def _mb(number: int) -> str:
    return f"{number / _MEGABYTE:g} MB"
