"""Rule V about names that a release has replaced by others of the same meaning."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.lint.document import Document, Problem
from activemq_fleet.lint.engine import XML_FRAGMENTS, rule, variable_to_change
from activemq_fleet.schema import CORE

# The new name of each attribute, and the first release in which the setter of the old name sets the new one.
_NEW_NAMES = {
    "batchStatments": ("batchStatements", "5.10.0"),
    "inactiveTimoutBeforeGC": ("inactiveTimeoutBeforeGC", "5.11.0"),
    "useDatabaseLock": ("useLock", "5.7.0"),
}


@rule("V060", "info", releases="5.7.0")
def attribute_with_deprecated_name(document: Document) -> Iterator[Problem]:
    """An attribute has a deprecated name, and the release has a new name with the same effect.

    Why: a later release may remove the deprecated name. A broker of that release does not start with this file. For
        batchStatments the broker logs a warning at each start.
    Fix: replace useDatabaseLock with useLock. From 5.10 on, replace batchStatments with batchStatements, and from 5.11
        on, inactiveTimoutBeforeGC with inactiveTimeoutBeforeGC. `activemq-fleet check --fix` writes the new names.
    Source: the setters in the classes of the releases 5.5.1 to 6.3.1

    Fires on 5.18.3::

        <policyEntry queue=">" gcInactiveDestinations="true" inactiveTimoutBeforeGC="600000"/>

    Fires on 5.7.0::

        <jdbcPersistenceAdapter dataSource="#orders-db" useDatabaseLock="true"/>

    Silent on 5.8.0::

        <policyEntry queue=">" gcInactiveDestinations="true" inactiveTimoutBeforeGC="600000"/>

    Silent on 5.18.3::

        <policyEntry queue=">" gcInactiveDestinations="true" inactiveTimeoutBeforeGC="600000"/>
    """
    for name, (new_name, since) in _NEW_NAMES.items():
        if not document.release.is_within_span(since):
            continue
        for node in document.elements_with_attribute(name):
            if node.namespace == CORE and not node.has_attribute(new_name):
                message = f"{name} of <{node.name}> is deprecated: its new name is {new_name}"
                edits = node.attribute_rename_edit(name, new_name)
                why = (
                    "a later release may remove the deprecated name. A broker of that release does not start with "
                    "this file"
                )
                if name == "batchStatments":
                    why += ". This release logs a warning at each start"
                in_fragment = variable_to_change(node, name) == XML_FRAGMENTS
                fix = f"replace {name} with {new_name}" + (f" in {XML_FRAGMENTS}" if in_fragment else "")
                yield node.problem(message, name, fix=fix, why=why, edits=edits)
