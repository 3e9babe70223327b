"""Rules V about the classes of beans, by the jars of the release."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from activemq_fleet.lint.document import Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.releases import SpringBeanClass, bean_class_data_if_known

_PROPERTIES_NAMESPACE = "http://www.springframework.org/schema/p"
_REFERENCE_ATTRIBUTES = frozenset({"ref", "bean", "local", "parent", "depends-on", "factory-bean"})
_UNSHIPPED_PACKAGES = (
    *("com.mysql.", "org.mariadb.", "org.postgresql.", "oracle.jdbc.", "com.microsoft.sqlserver.", "com.ibm.db2."),
    *("net.sourceforge.jtds.", "org.apache.derby.", "org.h2.", "org.hsqldb."),
    *("com.mchange.", "com.zaxxer.", "com.jolbox.", "org.apache.tomcat.jdbc.", "org.springframework.jdbc."),
)
_FIRST_NAME = re.compile(r"[^.\[]+")
_SIZE_WITH_UNIT = re.compile(r"\s*[0-9]+\s*(?:[kmg]b?|b)\s*", re.IGNORECASE)
_USAGE_SIZES = frozenset({"limit", "total"})
_SIZES_OF_CLASSES: Mapping[str, frozenset[str]] = {
    "KahaDBPersistenceAdapter": frozenset({
        "indexCacheSize",
        "indexWriteBatchSize",
        "journalMaxFileLength",
        "journalMaxWriteBatchSize",
    }),
    "KahaDBStore": frozenset({"indexCacheSize", "indexWriteBatchSize", "journalMaxFileLength"}),
    "MemoryUsage": _USAGE_SIZES,
    "MultiKahaDBPersistenceAdapter": frozenset({"journalMaxFileLength", "journalWriteBatchSize"}),
    "PListStoreImpl": frozenset({"journalMaxFileLength"}),
    "PolicyEntry": frozenset({"memoryLimit"}),
    "StoreUsage": _USAGE_SIZES,
    "TempUsage": _USAGE_SIZES,
}  # fmt: skip
"""The properties that are sizes, by the names of ActiveMQ's classes."""


@rule("V028", "error", each="bean", refuses=True)
def bean_class_or_property_not_in_release(bean: Element) -> Iterator[Problem]:
    """A bean names a class that the release does not contain, or a property that the class does not have.

    Why: Spring creates beans in the order of the file. If the bean is after <broker>, the broker serves clients for
        some seconds at each start, and then stops. 5.12.0 replaced commons-dbcp with commons-dbcp2, whose properties
        have different names. Releases before 5.9.0 do not contain activemq-jms-pool.
    Fix: name a class of the release, and use the property names of that class. commons-dbcp2 has maxTotal instead of
        maxActive, and maxWaitMillis instead of maxWait.
    Cannot see: whether a jar with the class was added to the release.
    Source: lib/optional and modules of the release tags, setters of their jars and sources (bean_classes.toml);
        measured on 5.11.4, 5.18.3 and 6.3.1

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

    Fires on 5.11.4::

        <bean id="jms" class="org.apache.activemq.ActiveMQConnectionFactory">
          <property name="brokerURL" value="vm://north?create=false"/>
          <property name="trustAllPackages" value="true"/>
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
    name = _class_of(bean)
    known_class = bean_class_data_if_known(name)
    if known_class is None or not _is_created(bean):
        return
    release = bean.document.release
    properties = list(_properties_of(bean))
    if not release.is_within_span(known_class.releases):
        text = f"ActiveMQ {release.text} does not contain the class {name}: the broker does not start"
        yield bean.problem(text, "class", fix=_class_fix(known_class, properties))
        return
    subject = (
        f"the class {name} of ActiveMQ {release.text}" if known_class.are_properties_known else f"the class {name}"
    )
    for setting in properties:
        spans = known_class.spans_of_property(setting.name)
        is_missing = known_class.are_properties_known and not any(map(release.is_within_span, spans))
        is_wrong = not known_class.are_properties_known and setting.name in known_class.renamed
        if is_missing or is_wrong or (setting.is_text and setting.name in known_class.not_from_text):
            text = f"{subject} has no property {setting.name}: the broker stops during its start"
            yield setting.node.problem(text, setting.attribute, fix=_property_fix(known_class, setting, spans))


@rule("V037", "info", each="bean")
def driver_or_pool_class_not_shipped(bean: Element) -> Iterator[Problem]:
    """A bean's class is a JDBC driver or a connection pool that no ActiveMQ release contains.

    Why: an upgrade installs a new directory without the added jar. The broker then does not start, or it stops some
        seconds after its start: ClassNotFoundException.
    Fix: put the jar into lib/optional of each installation, also of the next release. In a fleet, set
        the key jar of activemq_jdbc.
    Cannot see: whether the jar was added.
    Source: assembly/src/main/descriptors/common-bin.xml of the release tags, 5.5.1 to 6.3.1

    Fires on 5.18.3::

        <bean id="orders-db" class="org.postgresql.ds.PGSimpleDataSource">
          <property name="serverName" value="db.example.com"/>
        </bean>

    Silent on 5.18.3::

        <bean id="orders-db" class="org.apache.commons.dbcp2.BasicDataSource">
          <property name="maxTotal" value="50"/>
        </bean>
    """
    broker = bean.document.broker
    if broker is not None and broker.settings.jdbc is not None:
        return  # the playbook installs the jar of this class with each release
    name = _class_of(bean)
    if name.startswith(_UNSHIPPED_PACKAGES) and _is_created(bean):
        yield bean.problem(
            f"no release of ActiveMQ contains the class {name}: the broker does not start unless you add the jar that "
            "contains this class",
            "class",
        )


@rule("V055", "error", each="bean", refuses=True)
def bean_size_with_unit(bean: Element) -> Iterator[Problem]:
    """A <bean> of an ActiveMQ class sets a size with a unit, which only ActiveMQ's own elements accept.

    Why: Spring converts the properties of a bean, and accepts only a number without a unit. With a unit, the start of
        the broker fails with a NumberFormatException. Only elements such as <kahaDB> use ActiveMQ's converters.
    Fix: write the number of bytes, or replace the <bean> with ActiveMQ's element for this class, such as <kahaDB>.
    Cannot see: a value that contains a placeholder.
    Source: NumberUtils.parseNumber of Spring; measured on 5.18.3

    Fires on 5.18.3::

        <broker><persistenceAdapter>
          <bean class="org.apache.activemq.store.kahadb.KahaDBPersistenceAdapter">
            <property name="journalMaxFileLength" value="64mb"/>
          </bean>
        </persistenceAdapter></broker>

    Silent on 5.18.3::

        <broker><persistenceAdapter>
          <bean class="org.apache.activemq.store.kahadb.KahaDBPersistenceAdapter">
            <property name="journalMaxFileLength" value="67108864"/>
          </bean>
        </persistenceAdapter></broker>
    """
    package, _, name = _class_of(bean).rpartition(".")
    sizes = _SIZES_OF_CLASSES.get(name, frozenset())
    if not package.startswith("org.apache.activemq.") or not sizes or not _is_created(bean):
        return
    for setting in _properties_of(bean):
        child = setting.node.first_child("value")
        value = setting.node.get("value") or (child.leading_text if child else "")
        if setting.node is bean:
            value = bean.get(setting.attribute)
        if setting.name in sizes and _SIZE_WITH_UNIT.fullmatch(value):
            text = f'{setting.name}="{value}" of a bean of the class {name} must be a number of bytes without a unit'
            yield setting.node.problem(text, setting.attribute if setting.node is bean else "value")


@dataclass(frozen=True, slots=True)
class _PropertySetting:
    """A property that a bean sets, the attribute that names it, and whether its value is a text."""

    name: str
    node: Element
    attribute: str
    is_text: bool


def _properties_of(bean: Element) -> Iterator[_PropertySetting]:
    """Yield the properties that a bean sets, by child elements or by attributes of Spring's namespace for them."""
    for node in bean.children("property"):
        match = _FIRST_NAME.match(node.literal_value("name") or "")
        if match:
            is_text = node.has_attribute("value") or node.first_child("value") is not None
            yield _PropertySetting(match[0], node, "name", is_text)
    for attribute in bean.attributes:
        namespace, _, name = attribute.rpartition("}")
        if namespace == f"{{{_PROPERTIES_NAMESPACE}":
            yield _PropertySetting(name.removesuffix("-ref"), bean, attribute, not name.endswith("-ref"))


def _class_of(bean: Element) -> str:
    """Return the class of a bean, which may be that of its parent bean; "" if it is not known."""
    visited: set[Element] = set()
    while not bean.has_attribute("class") and bean.has_attribute("parent") and bean not in visited:
        visited.add(bean)
        parent = next(
            (node for node in bean.document.elements_with_tag_name("bean") if node.get("id") == bean.get("parent")),
            None,
        )
        if parent is None:
            return ""
        bean = parent
    return (
        ""
        if bean.has_attribute("factory-method") or bean.has_attribute("factory-bean")
        else bean.literal_value("class") or ""
    )


def _is_created(bean: Element) -> bool:
    """Return whether Spring creates a bean at the start: it is not abstract, and not lazy unless referenced."""
    if bean.get("abstract") == "true":
        return False
    return bean.get("lazy-init") != "true" or _is_referenced(bean)


def _is_referenced(bean: Element) -> bool:
    """Return whether another element of the file refers to a bean by its id or name."""
    names = {name for name in (bean.get("id"), bean.get("name")) if name}
    references = names | {f"#{name}" for name in names}
    return any(
        value in references
        for node in bean.document.nodes
        if node is not bean
        for attribute, value in node.attributes.items()
        if attribute not in ("id", "name", "value") and (value.startswith("#") or attribute in _REFERENCE_ATTRIBUTES)
    )


def _class_fix(known_class: SpringBeanClass, properties: list[_PropertySetting]) -> str:
    if not known_class.instead:
        return "remove the bean, or add the jar that contains its class"
    replacement = bean_class_data_if_known(known_class.instead)
    renamed = replacement.renamed if replacement else {}
    names = "".join(
        f", and {renamed[setting.name]} instead of {setting.name}" for setting in properties if setting.name in renamed
    )
    return f"write the class {known_class.instead}{names}"


def _property_fix(known_class: SpringBeanClass, setting: _PropertySetting, spans: tuple[str, ...]) -> str:
    if setting.name in known_class.renamed:
        new_name = known_class.renamed[setting.name]
        return f"write {new_name} instead of {setting.name}" if new_name else f"remove the property {setting.name}"
    if spans and setting.name not in known_class.not_from_text:
        since, _, before = spans[0].partition(" !")
        return (
            f"remove the property, which only releases before {before} have"
            if before
            else f"remove the property, or install {since} or later"
        )
    return "remove the property"


@rule("V013", "error", each="bean", releases="5.17.0", refuses=True)
def log_query_bean_prevents_start(bean: Element) -> Iterator[Problem]:
    """The file has the logQuery bean, whose class 5.17.0 removed: the broker does not start.

    Why: the class of the logQuery bean, in the default activemq.xml of 5.10 to 5.16, comes from hawtio's insight-log4j,
        which 5.17.0 removed from the distribution. The broker does not find the class and does not start.
    Fix: delete the logQuery bean; no other element refers to it.
    Source: the default activemq.xml of 5.16 and 5.17; measured on 5.17.6, 5.18.3 and 6.3.1

    Fires on 5.18.3::

        <bean id="logQuery" class="io.fabric8.insight.log.log4j.Log4jLogQuery" lazy-init="false" scope="singleton"
              init-method="start" destroy-method="stop"/>

    Silent on 5.18.3::

        <broker brokerName="north"/>
    """
    if ".insight.log" in bean.get("class"):
        text = (
            f"ActiveMQ {bean.document.release.text} does not contain the class {bean.get('class')} (removed in "
            "5.17.0): the broker does not start"
        )
        yield bean.problem(text, "class")


@rule("V023", "info", each="bean", releases="5.9.0 !5.17.0")
def log_query_bean_prevents_upgrade(bean: Element) -> Iterator[Problem]:
    """The file has the logQuery bean, with which a broker no longer starts after an upgrade to 5.17.0 or later.

    Why: the class of the logQuery bean is in this release but not from 5.17.0 on, where a broker with the bean does not
        start (V013). No other element uses the bean.
    Fix: delete the logQuery bean now, so that the upgrade does not fail.
    Source: the default activemq.xml of 5.9 to 5.16; pom.xml of 5.17.0

    Fires on 5.15.16::

        <bean id="logQuery" class="io.fabric8.insight.log.log4j.Log4jLogQuery" lazy-init="false" scope="singleton"
              init-method="start" destroy-method="stop"/>

    Silent on 5.15.16::

        <broker brokerName="north"/>
    """
    if ".insight.log" in bean.get("class"):
        text = (
            f"ActiveMQ 5.17.0 removed the class {bean.get('class')} of this bean: after an upgrade to 5.17.0 or later, "
            "the broker does not start"
        )
        yield bean.problem(text, "class")
