"""Render conf/activemq.xml of a broker; this module decides everything that the template writes.

Children of ``<broker>`` are in alphabetical order: to 5.5 the schema is a sequence, later any order is valid
(AMQ-3570). The schemaLocation has no version, because every release maps that one to the schema in its own jar; a
broker would download a schema with a version that its jar does not list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from activemq_fleet import uris
from activemq_fleet.render import policies_usage_and_plugins
from activemq_fleet.render.engine import escape_xml_attribute, escape_xml_comment, render_template
from activemq_fleet.render.fragments import activemq_xml_with_merged_fragments
from activemq_fleet.render.jmx_access import management_context_values
from activemq_fleet.render.store_and_lock import Attributes, io_exception_handler_element, store_xml_element_with_lock
from activemq_fleet.settings.xml_beans import XmlElement
from activemq_fleet.topology import Broker, Link

NETWORK_PASSWORD = "${activemq.network.password}"  # noqa: S105 -- a reference, no password
_LOCK_WAIT_MILLISECONDS = "86400000"  # one day: by default, a master cancels its start after 600 s
_DISK_CHECK_MILLISECONDS = "60000"  # ms
_REGROW_THRESHOLD = str(32 << 20)  # bytes: space for one journal file justifies a log record


def render_activemq_xml_bytes(broker: Broker) -> bytes:
    """Return the content of a broker's activemq.xml as bytes.

    ``render_activemq_xml_document`` returns it as an XML document. Passwords are placeholders that
    credentials.properties fills.
    """
    document = render_template("broker/activemq.xml.j2", **_template_variables(broker))
    return activemq_xml_with_merged_fragments(document, broker) if broker.settings.xml_fragments else document


def _template_variables(broker: Broker) -> dict[str, Any]:
    settings, release, plugins = broker.settings, broker.release, policies_usage_and_plugins.plugin_elements(broker)
    return {
        "tree": _elements_to_text,
        "title": _title(broker),
        "attributes": _attributes(broker, plugins),
        "jdbc": settings.jdbc if broker.ha_profile.has_database_lease else None,
        "data_source_class": release.data_source_class,
        "virtual_destinations": policies_usage_and_plugins.virtual_destination_elements(broker),
        "policies": policies_usage_and_plugins.policy_entry_elements(broker),
        "destinations": policies_usage_and_plugins.startup_destination_elements(broker),
        "exception_handler": io_exception_handler_element(broker),
        "links": [(link, _link_attributes(broker, link), _link_destinations(link)) for link in broker.links],
        "store": store_xml_element_with_lock(broker),
        "plugins": plugins,
        "asks_for_login": settings.authentication == "simple",
        "accounts": broker.accounts,
        "permissions": broker.permissions,
        "runtime_configuration": _reloads_configuration(broker),
        "master_connector": _master_connector(broker),
        "management": management_context_values(broker),
        "shutdown_hooks": _shutdown_hooks(broker),
        "log_query_class": release.log_query_class if settings.log_query else None,
        "imports": settings.imports,
        "tls": settings.tls,
        "system_usage": policies_usage_and_plugins.system_usage_element(
            broker,
            raises_store_limit_again=_raises_store_limit_after_start(broker),
        ),
        "connectors": [
            (
                connector,
                uris.listener_uri(connector.scheme, connector.bind or settings.bind, connector.port, connector.options),
            )
            for connector in broker.connectors
        ],
        "console_file": release.console_file if settings.console else None,
    }


def _reloads_configuration(broker: Broker) -> bool:
    """Return whether a broker reloads its configuration (activemq.xml) when the file changes.

    It has the runtimeConfigurationPlugin then.
    """
    return broker.settings.runtime_configuration and broker.release.has_runtime_configuration


def _raises_store_limit_after_start(broker: Broker) -> bool:
    """Return whether a broker raises its store limit again after it had to lower the limit at its start.

    A broker lowers any limit to the room that the disk has, which may be none, and raises only a limit in percent again
    (BrokerService.checkUsageLimit of the tags). Measured on 5.15.16, 5.18.3 and 6.3.1: started on a full disk that was
    emptied afterwards, a broker with a limit in bytes acknowledges no message until it is restarted.
    """
    return not broker.ha_profile.has_database_lease and broker.release.supports("storeUsage", "total")


def _title(broker: Broker) -> str:
    node, release = broker.identity.node, broker.release.text
    if not broker.ha_profile.has_peer:
        return f"{broker.identity.short_host_name}: a single broker of group {broker.group}, release {release}"
    host = broker.identity.short_host_name
    return f"{host}: node {node} (preferred {broker.role}) of pair {broker.pair}, release {release}"


def _attributes(broker: Broker, plugins: tuple[XmlElement, ...]) -> Attributes:
    release = broker.release
    attributes: dict[str, object] = {
        "id": "broker",
        "brokerName": broker.broker_name,
        "dataDirectory": "${activemq.data}",
    }
    if release.has_network_start_async:
        attributes["networkConnectorStartAsync"] = "true"
    if _raises_store_limit_after_start(broker):
        attributes["schedulePeriodForDiskUsageCheck"] = _DISK_CHECK_MILLISECONDS
        attributes["diskUsageCheckRegrowThreshold"] = _REGROW_THRESHOLD
    if _reloads_configuration(broker):
        # The command starts the broker, not Spring, because an earlier plugin cannot determine its own file (measured).
        attributes["start"] = "false"
    if broker.ha_profile.replicates and broker.role == "master":
        attributes |= {
            "waitForSlave": "true",
            "waitForSlaveTimeout": _LOCK_WAIT_MILLISECONDS,
            "shutdownOnSlaveFailure": "false",
        }
    if policies_usage_and_plugins.removes_inactive_destinations(broker):
        attributes["schedulePeriodForDestinationPurge"] = policies_usage_and_plugins.PURGE_PERIOD
    attributes |= policies_usage_and_plugins.scheduler_attributes(broker)
    if any(plugin.name == "redeliveryPlugin" for plugin in plugins):
        attributes["schedulerSupport"] = "true"  # The plugin does not start without this attribute.
    attributes |= broker.settings.broker_attributes
    return tuple(attributes.items())


_CONTEXT_HOOK = "org.apache.activemq.hooks.SpringContextHook"


def _shutdown_hooks(broker: Broker) -> tuple[str, ...]:
    """Return the classes of shutdown hooks: of a console, which must let go of its port when a demoted master restarts
    inside its process, and those of ``activemq_shutdown_hooks``.
    """
    closes_context = broker.settings.console and broker.release.has_restart_allowed
    return tuple(dict.fromkeys(((_CONTEXT_HOOK,) if closes_context else ()) + broker.settings.shutdown_hooks))


def _link_attributes(broker: Broker, link: Link) -> Attributes:
    attributes: Attributes = (("duplex", "true" if link.duplex else "false"),)
    if link.network_ttl is not None:
        attributes += (("networkTTL", link.network_ttl),)
    else:
        attributes += (("consumerTTL", link.consumer_ttl), ("messageTTL", link.message_ttl))
    if link.destination_filter:
        attributes += (("destinationFilter", link.destination_filter),)
    attributes = (*attributes, ("decreaseNetworkConsumerPriority", "true"), *_network_user(broker))
    return tuple({**dict(attributes), **dict(link.attributes)}.items())


def _network_user(broker: Broker) -> Attributes:
    name = broker.link_user_name
    return (("userName", name), ("password", NETWORK_PASSWORD)) if name else ()


def _link_destinations(link: Link) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the elements that list the destinations of a link, each with (kind, name) of its destinations."""
    listed_destinations = (
        ("dynamicallyIncludedDestinations", link.include),
        ("excludedDestinations", link.exclude),
        ("staticallyIncludedDestinations", link.static_include),
    )
    return [(element, _destinations(texts)) for element, texts in listed_destinations if texts]


def _destinations(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Return (kind, name) of destinations such as ``queue://NAME``."""
    parts = (text.partition("://") for text in texts)
    return [(kind, name) for kind, _, name in parts]


def _master_connector(broker: Broker) -> Attributes | None:
    if not broker.is_replication_slave or broker.peer_address is None:
        return None
    if not broker.release.has_pure_master_slave:
        return None  # T005 reports this, so another finding about the element would be redundant
    return (("remoteURI", uris.master_connector_uri(broker.peer_address)), *_network_user(broker))


def _elements_to_text(elements: Iterable[XmlElement], indent: str) -> str:
    """Return XML elements as text: each start tag, end tag and comment is on a line."""
    return "".join(line for element in elements for line in _element_lines(element, indent))


def _element_lines(element: XmlElement, indent: str) -> Iterator[str]:
    if element.comment:
        yield f"{indent}<!-- {escape_xml_comment(element.comment)} -->\n"
    tag = "".join([element.name, *(f' {name}="{escape_xml_attribute(value)}"' for name, value in element.attributes)])
    if not element.children:
        yield f"{indent}<{tag}/>\n"
        return
    yield f"{indent}<{tag}>\n"
    for child in element.children:
        yield from _element_lines(child, f"{indent}  ")
    yield f"{indent}</{element.name}>\n"
