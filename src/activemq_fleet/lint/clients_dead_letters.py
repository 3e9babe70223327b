"""Rules C about dead letters: those that are kept permanently, and those that are discarded."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.lint.document import Element, Problem, other_lines_suffix
from activemq_fleet.lint.engine import rule


@rule("C015", "info", each="broker", releases="5.12.0")
def dead_letters_without_expiration(broker: Element) -> Iterator[Problem]:
    """A dead letter strategy sets no expiration: dead letters are kept permanently.

    Why: messages that no consumer could process stay in the dead letter queue. As long as one of them exists, the
        broker cannot delete the journal file that contains it. The store can therefore become full.
    Fix: set expiration="604800000" (7 days, in milliseconds) on the strategy. If you monitor the depth of the dead
        letter queues instead, suppress C015: write <!-- activemq-fleet: disable=C015 REASON --> before the strategy.
    Source: AbstractDeadLetterStrategy of the release tags

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
    if broker.document.broker is not None:  # the settings of the fleet determine its policy
        return
    if any(
        plugin.boolean_attribute("dropAll", True) is not False
        for plugin in broker.descendants("discardingDLQBrokerPlugin")
    ):
        return  # C041: no dead letter is kept
    strategies = broker.descendants("individualDeadLetterStrategy", "sharedDeadLetterStrategy")
    unlimited = [strategy for strategy in strategies if not strategy.is_positive("expiration")]
    if unlimited:
        reason = "its expiration is not above 0" if unlimited[0].has_attribute("expiration") else "it has no expiration"
        message = f"<{unlimited[0].name}> keeps dead letters permanently: {reason}"
        yield unlimited[0].problem(message + other_lines_suffix(unlimited))


@rule("C041", "warning", each="discardingDLQBrokerPlugin")
def all_dead_letters_discarded(plugin: Element) -> Iterator[Problem]:
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
