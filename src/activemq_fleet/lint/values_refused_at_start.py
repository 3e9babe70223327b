"""The rule about numbers and regular expressions that the schema accepts and with which the broker does not start."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.java_patterns import java_pattern_error
from activemq_fleet.lint.document import Document, Problem
from activemq_fleet.lint.engine import in_variable_phrase, rule

_AT_LEAST_ONE = ("indexWriteBatchSize", "maxAsyncJobs")


@rule("V067", "error", needs="@indexWriteBatchSize @maxAsyncJobs @dropOnly", refuses=True)
def kahadb_number_or_drop_only_pattern_refused(document: Document) -> Iterator[Problem]:
    """An attribute of kahaDB is below 1, or a regular expression in dropOnly is not valid in Java.

    Why: the store divides by indexWriteBatchSize, creates a queue of maxAsyncJobs jobs, and the
        discardingDLQBrokerPlugin compiles each word of dropOnly. This fails while the broker starts ("/ by zero",
        IllegalArgumentException, PatternSyntaxException), and the broker does not start.
    Fix: write a number of at least 1, or a valid regular expression, in which .* matches any characters.
    Cannot see: values that contain a placeholder, and some errors of regular expressions, such as an unknown escape
        sequence.
    Source: PageFile, KahaDBStore and DiscardingDLQBrokerPlugin of the release tags; measured on 5.5.1, 5.8.0, 5.18.3
        and 6.3.1

    Fires on 5.18.3::

        <kahaDB directory="${activemq.data}/kahadb" indexWriteBatchSize="0"/>

    Fires on 6.3.1::

        <kahaDB directory="${activemq.data}/kahadb" maxAsyncJobs="0"/>

    Fires on 5.8.0::

        <broker><plugins><discardingDLQBrokerPlugin dropAll="false" dropOnly="prices[.].* *a"/></plugins></broker>

    Silent on 5.18.3::

        <kahaDB directory="${activemq.data}/kahadb" indexWriteBatchSize="1" maxAsyncJobs="1"/>

    Silent on 5.18.3::

        <broker><plugins><discardingDLQBrokerPlugin dropAll="false" dropOnly="prices[.].*"/></plugins></broker>
    """
    for store in document.elements_with_tag_name("kahaDB"):
        broker = store.nearest_ancestor_with_tag_name("broker")
        if broker is not None and broker.boolean_attribute("persistent", True) is not True:
            continue
        for attribute in _AT_LEAST_ONE:
            number = store.integer_attribute(attribute)
            if number is not None and (number == 0 or (number < 0 and attribute == "maxAsyncJobs")):
                message = f'{attribute}="{number}" of <kahaDB> must be at least 1: the broker does not start'
                place = in_variable_phrase(store, attribute)
                yield store.problem(message, attribute, fix=f"write a number of at least 1 as {attribute}{place}")
    for plugin in document.elements_with_tag_name("discardingDLQBrokerPlugin"):
        for pattern in (plugin.literal_value("dropOnly") or "").split():
            if reason := java_pattern_error(pattern):
                message = (
                    f"the regular expression {pattern} in dropOnly of <discardingDLQBrokerPlugin> is not valid in "
                    f"Java, because {reason}: the broker does not start"
                )
                place = in_variable_phrase(plugin, "dropOnly")
                fix = f"write a valid regular expression{place}, in which .* matches any characters"
                yield plugin.problem(message, "dropOnly", pattern, fix=fix)
