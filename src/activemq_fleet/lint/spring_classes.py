"""Rule V about the classes of beans, by the jars of the release."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.lint.document import Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.releases import BeanClass, load_bean_classes

_FIRST_NAME = re.compile(r"[^.\[]+")


@rule("V028", "error", each="bean", refuses=True)
def bean_class_of_another_release(bean: Element) -> Iterator[Problem]:
    """A bean's class is not in the release, or has no such property.

    Why: 5.12.0 replaced commons-dbcp by commons-dbcp2, whose properties have different names, and 5.9.0 added
        activemq-jms-pool. Spring creates beans in the order of the file: a bean after <broker> fails when the broker
        serves already, which then stops after some seconds, at every start.
    Fix: name the class that the release has, and the properties by their names there: maxTotal for maxActive,
        maxWaitMillis for maxWait.
    Cannot see: whether a jar with the class was added to the release.
    Source: lib/optional and modules of the release tags, setters of their jars (bean_classes.toml); measured on 5.11.4,
        5.18.3 and 6.3.1

    Fires on 5.18.3::

        <broker><persistenceAdapter><jdbcPersistenceAdapter dataSource="#orders-db"/></persistenceAdapter></broker>
        <bean id="orders-db" class="org.apache.commons.dbcp.BasicDataSource">
          <property name="url" value="jdbc:postgresql://db.example.com/orders"/>
        </bean>

    Fires on 5.18.3::

        <broker><persistenceAdapter><jdbcPersistenceAdapter dataSource="#orders-db"/></persistenceAdapter></broker>
        <bean id="orders-db" class="org.apache.commons.dbcp2.BasicDataSource">
          <property name="url" value="jdbc:postgresql://db.example.com/orders"/>
          <property name="maxActive" value="50"/>
        </bean>

    Silent on 5.11.4::

        <bean id="orders-db" class="org.apache.commons.dbcp.BasicDataSource">
          <property name="maxActive" value="50"/>
        </bean>

    Silent on 5.18.3::

        <bean id="orders-db" class="org.apache.commons.dbcp2.BasicDataSource">
          <property name="maxTotal" value="50"/>
        </bean>
    """
    name = bean.get("class")
    known = load_bean_classes().get(name)
    # A template and a bean that nothing needs are not created.
    if known is None or bean.get("abstract") == "true" or bean.get("lazy-init") == "true":
        return
    release = bean.document.release
    properties = [(node, _property_of(node)) for node in bean.children("property")]
    if not release.within(known.releases):
        other = load_bean_classes().get(known.instead)
        renamed = other.renamed if other else {}
        names = "".join(f", {renamed[key]} for {key}" for _, key in properties if key in renamed)
        text = f"{name} is not shipped with {release.text}, so the broker does not start: write {known.instead}{names}"
        yield bean.problem(text, "class")
        return
    if release.within(known.properties_since):
        for node, key in properties:
            if key and (key not in known.properties or _is_no_text(node, key, known)):
                renamed_to = known.renamed.get(key)
                advice = f"write {renamed_to}" if renamed_to else "remove it"
                text = f"{name} of {release.text} has no property {key}, so the broker stops at its start: {advice}"
                yield node.problem(text, "name")


def _property_of(node: Element) -> str:
    """Return the name of the property that a <property> sets first; empty where it is not known."""
    name = node.known_value("name") or ""
    match = _FIRST_NAME.match(name)
    return match[0] if match else ""


def _is_no_text(node: Element, key: str, known: BeanClass) -> bool:
    return key in known.not_from_text and (node.has("value") or node.child("value") is not None)
