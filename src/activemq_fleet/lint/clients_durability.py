"""Rules C about messages that a broker takes and then does not have: an unsynced journal, queues that get no copies."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.lint.document import Element, Problem
from activemq_fleet.lint.engine import rule

_DEFAULT_TOPICS = "VirtualTopic.>"


@rule("C017", "warning", each="kahaDB")
def journal_not_on_disk(store: Element) -> Iterator[Problem]:
    """A kahaDB acknowledges messages before they are on disk.

    Why: a producer's message is acknowledged while it is only in the host's memory. When the host dies, and not only
        the broker, it is lost; a node that takes over from a shared store finds a journal without it.
    Fix: leave enableJournalDiskSyncs and journalDiskSyncStrategy out; by default each write is synced.
    Source: Journal and DataFileAppender of the release tags

    Fires on 5.18.3::

        <persistenceAdapter><kahaDB directory="/srv/a" journalDiskSyncStrategy="periodic"/></persistenceAdapter>

    Fires on 5.8.0::

        <persistenceAdapter><kahaDB directory="/srv/a" enableJournalDiskSyncs="false"/></persistenceAdapter>

    Silent on 5.18.3::

        <persistenceAdapter><kahaDB directory="/srv/a" journalDiskSyncStrategy="always"/></persistenceAdapter>
    """
    if store.flag("enableJournalDiskSyncs", True) is False:
        yield store.problem(
            "enableJournalDiskSyncs is false: what is acknowledged may not be on disk", "enableJournalDiskSyncs"
        )
    strategy = store.get("journalDiskSyncStrategy", "always").strip().lower()
    if strategy in ("periodic", "never"):
        message = f"journalDiskSyncStrategy is {strategy}: what is acknowledged may not be on disk"
        yield store.problem(message, "journalDiskSyncStrategy")


@rule("C018", "info", each="destinationInterceptors")
def default_virtual_topics_gone(interceptors: Element) -> Iterator[Problem]:
    """The file's virtual destinations lack the default VirtualTopic.>, which they replace.

    Why: messages to topics below VirtualTopic reach no queue Consumer.NAME.VirtualTopic.… any more, without a word.
    Fix: list <virtualTopic name="VirtualTopic.>"/> too, or set useVirtualTopics="false" on <broker> where nobody
        uses such topics.
    Cannot see: whether anybody uses such topics.
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
    if not any(topic.get("name") in (_DEFAULT_TOPICS, ">") for topic in interceptors.all("virtualTopic")):
        message = f"the virtual destinations here take the place of {_DEFAULT_TOPICS}, which is gone"
        yield interceptors.problem(message)


@rule("C019", "error", each="plugins", releases="5.7.0 !5.9.0")
def redelivery_beside_timestamps(plugins: Element) -> Iterator[Problem]:
    """The broker has both redeliveryPlugin and timeStampingBrokerPlugin, before 5.9.

    Why: what is to be sent again has no original destination, which the other plugin asks an individual dead letter
        strategy about: "Failed to schedule redelivery", and the message is not acknowledged.
    Fix: take timeStampingBrokerPlugin out, or use 5.9 or later.
    Source: measured on 5.8.0; TimeStampingBrokerPlugin.isDestinationDLQ of the release tags

    Fires on 5.8.0::

        <plugins><timeStampingBrokerPlugin/><redeliveryPlugin fallbackToDeadLetter="true"/></plugins>

    Silent on 5.8.0::

        <plugins><redeliveryPlugin fallbackToDeadLetter="true"/></plugins>
    """
    if any(plugins.all("redeliveryPlugin")):
        for plugin in plugins.all("timeStampingBrokerPlugin"):
            yield plugin.problem("the broker cannot send messages again while it stamps them")
