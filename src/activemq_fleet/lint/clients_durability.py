"""Rules C about messages that a broker takes and then does not have: an unsynced journal, queues that get no copies."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.lint.document import Element, Problem
from activemq_fleet.lint.engine import rule

_DEFAULT_TOPICS = "VirtualTopic.>"
_SYNCED = "By default the broker syncs each write to the disk before it acknowledges the message"


@rule("C017", "warning", each="kahaDB", needs="@enableJournalDiskSyncs @journalDiskSyncStrategy")
def acknowledged_before_disk_sync(store: Element) -> Iterator[Problem]:
    """A kahaDB acknowledges messages before they are on disk.

    Why: a producer's message is acknowledged while it is only in the host's memory. If the host fails, the message is
        lost, and a node that takes over a shared store does not have it.
    Fix: remove enableJournalDiskSyncs="false" and journalDiskSyncStrategy, whichever is set, so that the broker syncs
        each write to the disk before it acknowledges the message.
    Source: Journal and DataFileAppender of the release tags

    Fires on 5.18.3::

        <persistenceAdapter><kahaDB directory="/srv/a" journalDiskSyncStrategy="periodic"/></persistenceAdapter>

    Fires on 5.8.0::

        <persistenceAdapter><kahaDB directory="/srv/a" enableJournalDiskSyncs="false"/></persistenceAdapter>

    Silent on 5.18.3::

        <persistenceAdapter><kahaDB directory="/srv/a" journalDiskSyncStrategy="always"/></persistenceAdapter>
    """
    if store.boolean_attribute("enableJournalDiskSyncs", True) is False:
        yield store.problem(
            "enableJournalDiskSyncs is false: the broker acknowledges messages before they are on disk",
            "enableJournalDiskSyncs",
            fix=f'remove enableJournalDiskSyncs="false". {_SYNCED}',
        )
    strategy = store.get("journalDiskSyncStrategy", "always").strip().lower()
    if strategy in ("periodic", "never"):
        message = f"journalDiskSyncStrategy is {strategy}: the broker acknowledges messages before they are on disk"
        fix = f'remove journalDiskSyncStrategy="{strategy}". {_SYNCED}'
        yield store.problem(message, "journalDiskSyncStrategy", fix=fix)


@rule("C018", "info", each="destinationInterceptors")
def default_virtual_topics_missing(interceptors: Element) -> Iterator[Problem]:
    """The virtual destinations of the file replace the default virtual topic VirtualTopic.>, and do not include it.

    Why: the broker accepts messages to topics below VirtualTopic without an error, but the queues
        Consumer.NAME.VirtualTopic.… do not receive them.
    Fix: add <virtualTopic name="VirtualTopic.>"/> to <virtualDestinations> of <virtualDestinationInterceptor>. If no
        client uses such topics, set useVirtualTopics="false" on <broker> instead: this does not affect the virtual
        destinations that the file defines.
    Cannot see: whether any client uses such topics.
    Source: BrokerService.createDefaultDestinationInterceptor of the release tags

    Fires on 5.18.3::

        <destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>
          <compositeQueue name="all"><forwardTo><queue physicalName="one"/></forwardTo></compositeQueue>
        </virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>

    Silent on 5.18.3::

        <destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>
          <virtualTopic name="VirtualTopic.>"/>
          <compositeQueue name="all"><forwardTo><queue physicalName="one"/></forwardTo></compositeQueue>
        </virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>
    """
    broker = interceptors.parent
    if broker is not None and broker.get("useVirtualTopics", "true").strip().lower() == "false":
        return
    if not any(topic.get("name") in (_DEFAULT_TOPICS, ">") for topic in interceptors.descendants("virtualTopic")):
        message = (
            f"these destinationInterceptors replace the default virtual topic {_DEFAULT_TOPICS}: messages to "
            "topics below VirtualTopic no longer reach the queues Consumer.NAME.VirtualTopic.…"
        )
        yield interceptors.problem(message)


@rule("C019", "error", each="plugins", releases="5.7.0 !5.9.0")
def redelivery_with_timestamp_plugin_before_5_9(plugins: Element) -> Iterator[Problem]:
    """A broker before 5.9 has both redeliveryPlugin and timeStampingBrokerPlugin.

    Why: before 5.9, timeStampingBrokerPlugin fails for each message that redeliveryPlugin sends again. The broker logs
        "Failed to schedule redelivery", and the message is not acknowledged.
    Fix: remove timeStampingBrokerPlugin, or upgrade ActiveMQ to 5.9 or later.
    Source: measured on 5.8.0; TimeStampingBrokerPlugin.isDestinationDLQ of the release tags

    Fires on 5.8.0::

        <plugins><timeStampingBrokerPlugin/><redeliveryPlugin fallbackToDeadLetter="true"/></plugins>

    Silent on 5.8.0::

        <plugins><redeliveryPlugin fallbackToDeadLetter="true"/></plugins>
    """
    if any(plugins.descendants("redeliveryPlugin")):
        for plugin in plugins.descendants("timeStampingBrokerPlugin"):
            yield plugin.problem(
                "redeliveryPlugin cannot redeliver messages while the broker also has timeStampingBrokerPlugin"
            )
