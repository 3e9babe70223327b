"""Compare an existing activemq.xml with a rendered one by meaning, so that equal settings need no fragment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from activemq_fleet.adopt.compared_element import ComparedElement
from activemq_fleet.network.connectors import DEFAULT_CONNECTOR_NAME, multicast_endpoint_and_group
from activemq_fleet.network.uri_parser import Uri
from activemq_fleet.node.protocols import protocol_name_of_scheme
from activemq_fleet.releases import Release
from activemq_fleet.spring_values import spring_boolean

_MULTICAST_URI = re.compile(r"multicast://[^:/?]+(?::[0-9]+)?/?(?:\?(.*))?")
_DIRECTORY_PLACEHOLDER = re.compile(r"\$\{activemq\.(base|data)\}")
_STATIC_PARTS = re.compile(r"static:\((?P<parts>[^()]*)\)(?P<options>.*)")
_NIO_SCHEME = re.compile(r"\bnio(\+ssl)?://")


def with_default_connector_names(root: ComparedElement) -> ComparedElement:
    """Return an activemq.xml in which unnamed connectors have the names that ActiveMQ gives them by default."""
    used_names = {child.get("name") for child in root.children}
    numbers: dict[str, int] = {}

    def name_of(node: ComparedElement) -> str:
        if node.name == "networkConnector":
            return DEFAULT_CONNECTOR_NAME
        name = kind = protocol_name_of_scheme(node.get("uri").partition(":")[0]) or "connector"
        while name in used_names:
            number = numbers[kind] = numbers.get(kind, 1) + 1
            name = f"{kind}-{number}"
        used_names.add(name)
        return name

    if root.name in ("networkConnectors", "transportConnectors"):
        unnamed = [child for child in root.children if child.name == root.name[:-1] and not child.get("name")]
        if root.name == "transportConnectors" or len(unnamed) == 1:
            attributes_by_id = {id(child): {"name": name_of(child), **child.attributes} for child in unnamed}
            return replace(
                root,
                children=tuple(
                    replace(child, attributes=attributes_by_id[id(child)]) if id(child) in attributes_by_id else child
                    for child in root.children
                ),
            )
        return root
    if root.name not in ("beans", "broker"):
        return root
    return replace(root, children=tuple(map(with_default_connector_names, root.children)))


def parse_multicast_uri(uri: str) -> tuple[str, dict[str, str]] | None:
    """Parse a multicast URI, and return (``host:port``, options), or None for another URI.

    Default options are included.
    """
    match = _MULTICAST_URI.fullmatch(uri)
    if match is None:
        return None
    endpoint, group = multicast_endpoint_and_group(uri)
    options = dict(part.partition("=")[::2] for part in (match[1] or "").split("&") if part)
    return endpoint, {"group": group, **options}


def expand_directory_placeholders(path: str, directories: Mapping[str, str]) -> str:
    """Return a path with the placeholders ``${activemq.base}`` and ``${activemq.data}`` replaced by directories."""
    return _DIRECTORY_PLACEHOLDER.sub(lambda match: directories[match[1]], path)


def activemq_base_and_data_directories(base: str, instance: str) -> dict[str, str]:
    """Return the directories ``${activemq.base}`` and ``${activemq.data}`` of a broker, by ``base`` and ``data``.

    The parameters are the values of the variables ``activemq_base`` and ``activemq_instance``.
    """
    home = f"{base.rstrip('/')}/{instance}"
    return {"base": home, "data": f"{home}/data"}


def are_attribute_values_equivalent(
    node: ComparedElement, name: str, original: str, rendered: str, directories: Mapping[str, str]
) -> bool:
    """Return whether two values of an XML attribute have the same effect on a broker."""
    if original == rendered:
        return True
    if rendered in ("true", "false"):
        return spring_boolean(original) is spring_boolean(rendered)
    if name == "directory" and node.name in ("kahaDB", "mKahaDB"):
        return expand_directory_placeholders(original, directories).rstrip("/") == rendered
    if node.name == "networkConnector" and name == "uri":
        original_parts = parse_multicast_uri(original)
        return (
            original_parts == parse_multicast_uri(rendered)
            if original_parts
            else _normalize_remote_uri(original) == _normalize_remote_uri(rendered)
        )
    if node.name == "transportConnector" and name == "discoveryUri":
        return parse_multicast_uri(original) == parse_multicast_uri(rendered) is not None
    if node.name == "transportConnector" and name == "uri":
        return _normalize_listening_uri(original) == _normalize_listening_uri(rendered)
    if name == "text()":
        return original.replace("${activemq.base}/conf/", "${activemq.conf}/") == rendered
    return False


def opens_jmx_port(context: ComparedElement, release: Release) -> bool:
    """Return whether a broker opens a port for JMX, according to its managementContext element.

    Up to 5.14 it does so by default.
    """
    return (
        spring_boolean(context.get("createConnector", "false" if release.is_within_span("5.15.0") else "true")) is True
    )


def may_rendered_file_omit_attribute(
    node: ComparedElement, name: str, release: Release, rendered: ComparedElement | None = None
) -> bool:
    """Return whether an XML attribute may be missing in the rendered file without an effect."""
    if node.name.endswith("Usage") and name == "name":
        return True  # The name is a label: the broker names each usage.
    if name == "inactiveTimoutBeforeGC" and rendered is not None:
        return rendered.get("inactiveTimeoutBeforeGC") == node.get(name)  # the spelling of the attribute from 5.11 on
    if node.name == "networkConnector" and name in ("consumerTTL", "messageTTL"):
        return "networkTTL" in node.attributes  # which replaces both
    if node.name == "networkConnector" and name == "networkTTL" and rendered is not None:
        return rendered.get("consumerTTL") == rendered.get("messageTTL") == node.get("networkTTL")
    if node.name == "storeUsage" and name == "limit" and rendered is not None:
        return rendered.get("percentLimit") == "100" and rendered.get("total") == node.get("limit")
    if node.name == "managementContext" and name in (
        "connectorPort",
        "connectorPath",
        "rmiServerPort",
        "connectorHost",
    ):
        return not opens_jmx_port(node, release)
    return False


def _normalize_remote_uri(text: str) -> str:
    normalized = _NIO_SCHEME.sub(lambda match: "ssl://" if match[1] else "tcp://", re.sub(r"\s", "", text))
    normalized = re.sub("^(static|masterslave)://", r"\1:", normalized.replace("simple:", "static:"))
    # A single part needs no brackets. Options at its end then belong to that part.
    normalized = re.sub(r"^static:(?!\()(.*)$", r"static:(\1)", normalized)
    # A broker starts a separate bridge to each part. In failover: and masterslave: the first part is preferred.
    if parts := _STATIC_PARTS.fullmatch(normalized):
        return f"static:({','.join(sorted(parts['parts'].split(',')))}){parts['options']}"
    return normalized


def _normalize_listening_uri(text: str) -> tuple[object, ...]:
    uri = Uri.parse(text)
    return uri.scheme, uri.host, uri.port, tuple(sorted(uri.options.items()))
