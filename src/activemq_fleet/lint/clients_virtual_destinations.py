"""Rule C018: virtual destinations that replace the default virtual topic."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.lint.document import Element, Problem
from activemq_fleet.lint.engine import rule

_DEFAULT_VIRTUAL_TOPIC = "VirtualTopic.>"


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
    if not any(
        topic.get("name", ">") in (_DEFAULT_VIRTUAL_TOPIC, ">") for topic in interceptors.descendants("virtualTopic")
    ):
        message = (
            f"these destinationInterceptors replace the default virtual topic {_DEFAULT_VIRTUAL_TOPIC}: messages to "
            "topics below VirtualTopic no longer reach the queues Consumer.NAME.VirtualTopic.…"
        )
        yield interceptors.problem(message)
