"""Rule V016: names and ids of beans, such as connectors and links, which must be unique."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.schema import BEANS, CORE

# The characters with which Spring separates names.
_NAME_SEPARATORS = re.compile(r"[,;\s]+")


@rule("V016", "error", refuses=True)
def duplicate_bean_name_or_id(document: Document) -> Iterator[Problem]:
    """Two beans have the same name or id, such as two networkConnectors.

    Why: Spring creates a bean from each element with a name or id. Both the name and the id are names of this bean. A
        networkConnector and a transportConnector therefore cannot have the same name. The broker rejects the second
        bean ("Bean name is already used") and does not start. Spring splits a name at each space, comma and semicolon:
        "to east" and "to west" both contain the name "to".
    Fix: give every connector a unique name without spaces: north-to-south for a link, openwire for a connector.
    Source: Spring's bean names; measured on eleven releases, 5.5.1 to 6.3.1

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://south:61616)"/>
        <networkConnector name="south" uri="static:(tcp://east:61616)"/>

    Fires on 5.5.1::

        <networkConnector name="openwire" uri="static:(tcp://south:61616)"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://south:61616)"/>
        <networkConnector name="east" uri="static:(tcp://east:61616)"/>
    """
    first_uses: dict[tuple[Element | None, str], Element] = {}
    nested_nodes = {
        node
        for bean in document.elements_with_tag_name("bean")
        if bean.namespace == BEANS
        for node in bean.descendants()
    }
    for node in document.elements_with_attribute("id", "name"):
        if node in nested_nodes or not _is_bean(node):
            continue
        scope = node.nearest_ancestor_with_tag_name("beans")
        names = [(attribute, name) for attribute in ("id", "name") for name in _bean_names(node, attribute)]
        for attribute, name in names:
            other = first_uses.get((scope, name))
            if other is not None:
                yield node.problem(
                    f'<{node.name}> has the same {attribute} "{name}" as the <{other.name}> in line '
                    f"{other.position()[0]}: the broker does not start",
                    attribute,
                    name,
                )
                break
        first_uses |= {(scope, name): node for _, name in names if (scope, name) not in first_uses}


def _is_bean(node: Element) -> bool:
    """Return whether an element's id must be unique: it is an ActiveMQ element, or a top-level Spring bean."""
    parent = node.parent
    if node.namespace == CORE:
        return True
    is_spring = (node.namespace, node.name) == (BEANS, "bean")
    return is_spring and parent is not None and (parent.namespace, parent.name) == (BEANS, "beans")


def _bean_names(node: Element, attribute: str) -> list[str]:
    value = node.literal_value(attribute)
    if value is None:
        return []
    return [value] if attribute == "id" else [name for name in dict.fromkeys(_NAME_SEPARATORS.split(value)) if name]
