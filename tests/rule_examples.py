"""Completion of a snippet in a rule's docstring to an activemq.xml, and its check with the rule."""

from __future__ import annotations

import re

from lxml import etree

from activemq_fleet.findings import Finding
from activemq_fleet.lint import RuleSelection, file_findings
from activemq_fleet.releases import Release
from activemq_fleet.schema import BEANS, CORE

# The parent of a snippet's element, as a path below <broker>. Other elements are children of <broker>.
_HOMES = {
    "networkConnector": "networkConnectors",
    "multicastNetworkConnector": "networkConnectors",
    "ldapNetworkConnector": "networkConnectors",
    "transportConnector": "transportConnectors",
    "kahaDB": "persistenceAdapter",
    "mKahaDB": "persistenceAdapter",
    "levelDB": "persistenceAdapter",
    "replicatedLevelDB": "persistenceAdapter",
    "jdbcPersistenceAdapter": "persistenceAdapter",
    "memoryPersistenceAdapter": "persistenceAdapter",
    "amqPersistenceAdapter": "persistenceAdapter",
    "kahaPersistenceAdapter": "persistenceAdapter",
    "journalPersistenceAdapterFactory": "persistenceFactory",
    "journaledJDBC": "persistenceFactory",
    "policyEntry": "destinationPolicy/policyMap/policyEntries",
    "masterConnector": "services",
    "simpleAuthenticationPlugin": "plugins",
    "jaasAuthenticationPlugin": "plugins",
    "authorizationPlugin": "plugins",
    "runtimeConfigurationPlugin": "plugins",
    "memoryUsage": "systemUsage/systemUsage",
    "storeUsage": "systemUsage/systemUsage",
    "tempUsage": "systemUsage/systemUsage",
    "defaultIOExceptionHandler": "ioExceptionHandler",
    "leaseLockerIOExceptionHandler": "ioExceptionHandler",
    "jDBCIOExceptionHandler": "ioExceptionHandler",
}
_LISTED = {"networkConnector", "transportConnector", "policyEntry"}
_FRAME_SIZE = "?wireFormat.maxFrameSize=10485760"
_SKELETON = f"""<?xml version="1.0" encoding="UTF-8"?>
<beans xmlns="{BEANS}"
       xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
       xsi:schemaLocation="{BEANS} {BEANS}/spring-beans.xsd
                           {CORE} {CORE}/activemq-core.xsd">
  <broker xmlns="{CORE}" brokerName="north" dataDirectory="${{activemq.data}}" useJmx="false">
    <persistenceAdapter>
      <kahaDB directory="${{activemq.data}}/kahadb"/>
    </persistenceAdapter>
    <plugins>
      <simpleAuthenticationPlugin>
        <users>
          <authenticationUser username="app" password="${{app.password}}" groups="apps"/>
        </users>
      </simpleAuthenticationPlugin>
    </plugins>
    <transportConnectors>
      <transportConnector name="openwire" uri="tcp://0.0.0.0:61616{_FRAME_SIZE}"/>
    </transportConnectors>
  </broker>
</beans>
"""
# Replaces & while a snippet is parsed, so that the parser does not change an unescaped &.
_AMPERSAND = "\ue001"


def in_broker(inside: str) -> str:
    return f"<broker>{inside}</broker>"


def rule_findings(rule: str, snippet: str, release: str = "5.18.3") -> list[Finding]:
    """Return the findings of one rule about an activemq.xml with a snippet; no other rule runs."""
    data = complete(snippet, Release.of(release))
    return list(file_findings(data, Release.of(release), selection=RuleSelection(select=(rule,))))


def complete(snippet: str, release: Release) -> bytes:
    """Return a document that a broker of the release reads: the snippet, and the elements that every broker requires.

    A snippet is a complete ``<beans>`` or ``<configuration>``; or a ``<broker>`` whose attributes and children, in
    their order, replace those of the skeleton; or elements, each of which is inserted below its parent.
    """
    if re.search(r"<(?:beans|configuration)[\s>]", snippet):
        return snippet.encode()
    skeleton = _SKELETON if release.has_max_frame_size else _SKELETON.replace(_FRAME_SIZE, "")
    root = etree.fromstring(skeleton.encode())
    broker = root.find(f"{{{CORE}}}broker")
    assert broker is not None
    for element in _elements(snippet):
        name = etree.QName(element).localname
        if name == "broker":
            _merge(broker, element)
        elif name == "bean":
            broker.addprevious(element)
        elif name == "import":
            root.append(element)
        else:
            _put(broker, element, name)
    etree.indent(root)
    text = etree.tostring(root, xml_declaration=True, encoding="UTF-8").decode()
    return text.replace(_AMPERSAND, "&").encode()


def _elements(snippet: str) -> list[etree._Element]:
    text = re.sub(r"<(bean|import)(?=[\s/>])", rf'<\1 xmlns="{BEANS}"', snippet.replace("&", _AMPERSAND))
    return list(etree.fromstring(f'<snippet xmlns="{CORE}">{text}</snippet>').iterchildren(etree.Element))


def _merge(broker: etree._Element, given: etree._Element) -> None:
    """Insert the given children in their order, and the other children of the skeleton at their alphabetical places."""
    broker.attrib.update(given.attrib)
    children = list(given.iterchildren(etree.Element))
    names = {child.tag for child in children}
    for kept in [child for child in broker if child.tag not in names]:
        at = next((i for i, child in enumerate(children) if str(child.tag) > str(kept.tag)), len(children))
        children.insert(at, kept)
    for child in list(broker):
        broker.remove(child)
    broker.extend(children)


def _put(broker: etree._Element, element: etree._Element, name: str) -> None:
    """Add an element to its list, or replace the store, limit or plugin of its kind in the skeleton."""
    parent = broker
    for step in _HOMES.get(name, "").split("/") if name in _HOMES else ():
        child = parent.find(f"{{{CORE}}}{step}")
        parent = _insert(parent, etree.Element(f"{{{CORE}}}{step}")) if child is None else child
    if parent is broker:
        for same in broker.findall(str(element.tag)):
            broker.remove(same)
        _insert(broker, element)
        return
    if name not in _LISTED:
        for other in list(parent):
            if parent.tag.endswith(("}persistenceAdapter", "}persistenceFactory")) or other.tag == element.tag:
                parent.remove(other)
    parent.append(element)


def _insert(parent: etree._Element, element: etree._Element) -> etree._Element:
    at = next((i for i, child in enumerate(parent) if str(child.tag) > str(element.tag)), len(parent))
    parent.insert(at, element)
    return element
