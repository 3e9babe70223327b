"""V: what a file refers to and does not bring: placeholders, and beans of the next release line."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.lint.document import Document, Node, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.schema import BEANS, CORE

_PLACEHOLDER = re.compile(r"\$\{([A-Za-z_][\w.-]*)(:[^${}]*)?\}")
# Set by the start script, the JVM or Karaf.
_ALWAYS = re.compile(r"(activemq|java|user|os|file|line|path|karaf|env|hostname|random)(\.|$)|[A-Z][A-Z0-9_]*$")
_KEYS = re.compile(rb"^[ \t]*([\w.-]+)[ \t]*[=:]", re.MULTILINE)
_OWN_KEYS = re.compile(r"^[ \t]*([\w.-]+)[ \t]*[=:]", re.MULTILINE)


@rule("V023", "info", releases="5.9.0 !5.17.0", source="the default activemq.xml of 5.9 to 5.16; pom.xml of 5.17.0")
def log_query_on_the_way_out(document: Document) -> Iterator[Problem]:
    """The logQuery bean, which ends with 5.16.

    Why: its class is in this release and in none from 5.17.0 on, where a broker whose file has the bean does not start
        (V013). Nothing else in the file uses it.
    Fix: delete the bean now, so that the upgrade does not end at it.

    Fires on 5.15.16::

        <bean id="logQuery" class="io.fabric8.insight.log.log4j.Log4jLogQuery" lazy-init="false" scope="singleton"
              init-method="start" destroy-method="stop"/>

    Silent on 5.15.16::

        <broker brokerName="north"/>
    """
    for bean in document.all("bean"):
        if ".insight.log" in bean.get("class"):
            yield bean.problem(f"{bean.get('class')} is gone from 5.17.0 on: the broker will not start there", "class")


@rule("V024", "warning", source="PropertyPlaceholderConfigurer of Spring 3.0 to 7.0; measured on 5.18.3")
def placeholder_that_nothing_sets(document: Document) -> Iterator[Problem]:
    """A ${name} that nothing in sight sets.

    Why: with a PropertyPlaceholderConfigurer the broker does not start ("Could not resolve placeholder") unless a
        properties file, -Dname= or the environment has the name. Without a configurer nothing replaces it at all, and
        the broker takes the text itself, dollar and braces, as a name, directory or address.
    Fix: put the name into the properties file that the configurer reads, give it a default as ${name:default}, or add
        the configurer.
    Cannot see: the command line and the environment, and properties files elsewhere: with a configurer it is an info.

    Fires on 5.18.3::

        <broker brokerName="${my.name}"/>

    Fires on 5.18.3::

        <bean class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer"/>
        <networkConnector name="south" uri="static:(tcp://${south.host}:61616)"/>

    Silent on 5.18.3::

        <bean class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer">
          <property name="properties"><value>
            app.password=rosebud
            south.host=localhost
          </value></property>
        </bean>
        <networkConnector name="south" uri="static:(tcp://${south.host}:${south.port:61616})"/>
    """
    if document.broker is not None:  # the render of a fleet brings its own properties
        return
    configured = [bean for bean in document.all("bean") if _configures(bean)] + document.all("property-placeholder")
    known = {key for bean in configured for key in _keys_of(bean)}
    known |= {key.decode("ascii", "replace") for data in document.beside.values() for key in _KEYS.findall(data)}
    if not configured and document.all("import"):  # which may bring one
        return
    told: set[str] = set()
    for element in document.tree.iter(f"{{{CORE}}}*", f"{{{BEANS}}}*"):  # ${header.x} is Camel's own language
        node = Node(element, document)
        for attribute, value in node.attributes.items():
            for match in _PLACEHOLDER.finditer(value):
                name = match[1]
                if name in told or name in known or _is_set(name, bool(match[2]), bool(configured)):
                    continue
                told.add(name)
                text = f"nothing here sets ${{{name}}}: -D{name}= or a properties file must"
                if not configured:
                    text = f"nothing replaces ${{{name}}}: the file has no PropertyPlaceholderConfigurer"
                yield node.problem(text, attribute, match[0], severity="info" if configured else None)


def _is_set(name: str, has_default: bool, configured: bool) -> bool:
    return configured and (has_default or _ALWAYS.match(name) is not None)


def _configures(bean: Node) -> bool:
    return bean.get("class").endswith(("PlaceholderConfigurer", "PlaceholderConfigurer3"))


def _keys_of(bean: Node) -> Iterator[str]:
    """The names that a configurer has itself: <props>, <map>, or the lines of a <value>."""
    for node in bean.all("prop", "entry"):
        yield node.get("key")
    for node in bean.all("value"):
        yield from _OWN_KEYS.findall(node.text)
