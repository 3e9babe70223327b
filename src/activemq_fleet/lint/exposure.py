"""Decide from one activemq.xml which ports its brokers open, as far as published vulnerabilities depend on it."""

from __future__ import annotations

from typing import Literal

from activemq_fleet.lint.clients_connectors import listener_uri
from activemq_fleet.lint.document import Document, Element
from activemq_fleet.lint.security_console import find_web_console_imports
from activemq_fleet.uris import is_openwire

Exposure = Literal["openwire", "other ports", "no port", "no broker"]
_BROKER_CLASSES = ("BrokerService", "BrokerFactoryBean")


def exposed_port_kind(document: Document) -> Exposure:
    """Return the kind of ports that an activemq.xml exposes: "openwire", "other ports", "no port" or "no broker".

    ``openwire``: at least one port for OpenWire, or ports that the file does not determine, as those of a placeholder,
    of another file or of a broker that is defined as a Spring bean. ``other ports``: only ports of other protocols or
    of the web console. ``no port``: none. ``no broker``: the file defines no broker.
    """
    brokers = document.brokers
    if any(bean.get("class").endswith(_BROKER_CLASSES) for bean in document.elements_with_tag_name("bean")):
        return "openwire"
    if not brokers:
        return "no broker"
    if any(map(_has_openwire, brokers)):
        return "openwire"
    uris = [listener_uri(connector) for connector in document.transport_connectors]
    if any(uri.scheme != "vm" for uri in uris) or find_web_console_imports(document):
        return "other ports"
    return "no port"


def _has_openwire(broker: Element) -> bool:
    """Return whether a broker in activemq.xml listens for OpenWire.

    The result is also True if a placeholder or another file determines it.
    """
    if broker.has_attribute("transportConnectorURIs") or broker.has_attribute("transportConnectors"):
        return True
    uris = [listener_uri(connector) for connector in broker.descendants("transportConnector")]
    has_bean_or_ref = any(
        node.name in ("bean", "ref")
        for container in broker.children("transportConnectors")
        for node in container.children()
    )
    return has_bean_or_ref or any(not uri.scheme or is_openwire(uri.scheme) for uri in uris)
