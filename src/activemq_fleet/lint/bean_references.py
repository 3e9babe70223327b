"""Rule V065: references to beans that the file does not define."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.schema import BEANS, CORE

_NAME_SEPARATORS = re.compile(r"[,;\s]+")
SPRING_REFERENCE_ATTRIBUTES: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "property": ("ref",),
    "constructor-arg": ("ref",),
    "entry": ("key-ref", "value-ref"),
    "ref": ("bean", "local"),
    "idref": ("bean", "local"),
    "bean": ("parent", "factory-bean", "depends-on"),
})  # fmt: skip
"""The attributes of Spring's elements that name other beans, by element."""
_NAMES_OF_SPRING = frozenset({
    "applicationEventMulticaster", "applicationStartup", "environment", "lifecycleProcessor", "messageSource",
    "systemEnvironment", "systemProperties",
})  # fmt: skip
"""The beans that Spring itself can register under a name without a dot."""
_PASSWORD_ATTRIBUTE = re.compile("passw|passphrase|pwd|secret", re.IGNORECASE)
"""Attributes whose value can be a password that begins with #, which no message may contain."""
_LITERAL_FIX = "define a bean with this id. If the value is no reference, write ## in place of its first #"
_NULL_VALUE = "#null"
"""The value that represents null, in any attribute of ActiveMQ's elements."""
_PACKAGES_WITHOUT_FURTHER_BEANS = (
    "java.", "javax.", "org.apache.", "org.springframework.", "org.postgresql.", "com.mysql."
)  # fmt: skip
"""The packages of classes that register no further beans, unless the name of a class matches ``_REGISTERS_BEANS``."""
_REGISTERS_BEANS = re.compile(r"PostProcessor|Regist|Scanner")


@rule("V065", "error", refuses=True)
def reference_to_undefined_bean(document: Document) -> Iterator[Problem]:
    """The file refers to a bean that it does not define.

    Why: Spring creates each bean while the broker starts, does not find the bean to which the file refers ("No bean
        named 'NAME' available", "is defined"), and the broker does not start.
    Fix: define the bean with this id, or correct the name of the reference.
    Cannot see: files with an <import>, with elements of other namespaces, or with classes other than those of Java,
        Apache, Spring, PostgreSQL and MySQL, which can define further beans. Beans that Spring does not create at the
        start (lazy-init, scope, abstract, profile), and names with a dot or a placeholder, are not checked.
    Source: XBeanNamespaceHandler and Spring's bean factory; measured on 5.5.1, 5.8.0, 5.18.3 and 6.3.1

    Fires on 5.18.3::

        <jdbcPersistenceAdapter dataSource="#orders-ds"/>

    Fires on 6.3.1::

        <bean id="clock" class="java.lang.String"><constructor-arg ref="time"/></bean>

    Fires on 5.5.1::

        <bean id="clocks" class="java.util.ArrayList">
          <constructor-arg><list><ref bean="clock"/></list></constructor-arg>
        </bean>

    Silent on 5.18.3::

        <bean id="clock" class="java.util.Date"/>
        <bean id="clocks" class="java.util.ArrayList">
          <constructor-arg><list><ref bean="clock"/></list></constructor-arg>
        </bean>
    """
    if not document.brokers or document.file or _may_have_further_beans(document):
        return
    defined_names = {
        name for node in document.elements_with_attribute("id", "name", "alias") for name in _bean_names(node)
    }
    for node in document.nodes:
        for attribute, name in _references(node):
            if name not in defined_names and name not in _NAMES_OF_SPRING and "." not in name and _is_created(node):
                bean = "a bean" if _PASSWORD_ATTRIBUTE.search(attribute) else f'the bean "{name}"'
                yield node.problem(
                    f"{attribute} of <{node.name}> refers to {bean}, which the file does not define: the broker does "
                    "not start",
                    attribute,
                    fix=_LITERAL_FIX if node.namespace == CORE else "",
                )


def _may_have_further_beans(document: Document) -> bool:
    """Return whether other files, or elements and classes that the rule does not know, can define further beans."""
    if document.elements_with_tag_name("import"):
        return True
    return any(
        (node.namespace not in (BEANS, CORE) and node.name != "property-placeholder")
        or _REGISTERS_BEANS.search(node.get("class"))
        or (node.get("class") and not node.get("class").startswith(_PACKAGES_WITHOUT_FURTHER_BEANS))
        or any(node.has_placeholder_value(attribute) for attribute in ("id", "name", "alias"))
        for node in document.nodes
    )


def _bean_names(node: Element) -> Iterator[str]:
    """Yield all names that an element can give to a bean: its id, name and alias, and the parts of its name."""
    for attribute in ("id", "name", "alias"):
        if node.has_attribute(attribute):
            yield node.get(attribute)
            yield from _NAME_SEPARATORS.split(node.get(attribute))


def _references(node: Element) -> Iterator[tuple[str, str]]:
    """Yield the references of an element to beans, each as (attribute, name of the bean)."""
    if node.namespace == CORE:
        for attribute in node.attributes:
            value = node.get(attribute)
            if value.startswith("#") and value[1:2] != "#" and value != _NULL_VALUE and node.literal_value(attribute):
                yield attribute, value[1:]
    elif node.namespace == BEANS:
        for attribute in SPRING_REFERENCE_ATTRIBUTES.get(node.name, ()):
            names = node.literal_value(attribute) or ""
            # &name is the factory that creates the bean of this name.
            yield from ((attribute, name.lstrip("&")) for name in _NAME_SEPARATORS.split(names) if name)


def _is_created(node: Element) -> bool:
    """Return whether Spring creates the bean of an element at the start, as far as the file shows."""
    ancestor: Element | None = node
    while ancestor is not None:
        if any(map(ancestor.has_attribute, ("lazy-init", "scope", "abstract", "profile", "default-lazy-init"))):
            return False
        ancestor = ancestor.parent
    return True
