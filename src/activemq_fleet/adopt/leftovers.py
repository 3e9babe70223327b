"""Propose ``activemq_broker_attributes`` and ``activemq_xml_fragments`` for XML that no variable expresses.

The fragments follow the merge of ``render.fragments``: a bean contains properties, a property contains beans, and a
bean is merged into an existing bean if only one of the two may exist. XML that merging cannot express remains a
difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from activemq_fleet.adopt.accounts_and_permissions import user_group_names_in_attribute
from activemq_fleet.adopt.compared_element import (
    XSI,
    ComparedElement,
    element_and_descendants,
    is_console_import,
    is_placeholder_bean,
    placeholder_bean_properties,
    to_xml,
)
from activemq_fleet.adopt.equal_meaning import are_attribute_values_equivalent, may_rendered_file_omit_attribute
from activemq_fleet.adopt.proposal import ProposedVariablesByHost, is_valid_value, parse_yaml_scalar
from activemq_fleet.adopt.secrets import (
    TextWithSecretLabels,
    attribute_contains_clear_text_password,
    element_with_secret_labels,
    is_clear_text_password,
    is_password_name,
)
from activemq_fleet.adopt.sources import AdoptedDocument
from activemq_fleet.lint.bean_references import SPRING_REFERENCE_ATTRIBUTES
from activemq_fleet.network.uri_parser import Uri
from activemq_fleet.releases import Release
from activemq_fleet.render.fragments import TOLD_APART_BY
from activemq_fleet.schema import BEANS, CORE

_RENDERED_REFERENCE_PREFIX = "${activemq."
_RENDERED_ATTRIBUTES = ("brokerName", "id", f"{{{XSI}}}schemaLocation")
_PURGE_PERIOD = "schedulePeriodForDestinationPurge"
_MASTER_URI = "masterConnectorURI"
_SCHEMA_LOCATION = f"{{{XSI}}}schemaLocation"
_LOCATION_SETTINGS = frozenset({"location", "locations"})


@dataclass(frozen=True, slots=True)
class _SkippedParts:
    """The XML that requires no fragment: elements (by id) that a variable replaces, and equivalent values."""

    elements: Collection[int]
    directories: Mapping[str, str]
    release: Release


def propose_attributes_and_fragments(
    proposal: ProposedVariablesByHost, document: AdoptedDocument, rendered: ComparedElement
) -> None:
    """Propose broker attributes and XML fragments for the parts of an activemq.xml that no other variable expresses.

    These are the parts that ``rendered`` lacks: the host's document as rendered from the proposed variables alone. They
    are added to ``proposal``; nothing is returned.
    """
    broker = next(child for child in rendered.children if child.tag == document.broker.tag)
    _propose_attributes(proposal, document, broker)
    skipped = _SkippedParts(
        proposal.replaced_elements, proposal.activemq_base_and_data_directories(document.host), document.release
    )
    fragments = []
    renamed_beans = proposal.renamed_beans.get(document.host, {})
    for original_child in document.broker.children:
        child = _with_renamed_references(original_child, renamed_beans)
        if document.host in proposal.slaves_at_client_connectors:
            child = _without_uri_of_client_connector(proposal, document, child, broker)
        counterpart = next((other for other in broker.children if other.tag == child.tag), None)
        missing_part = (
            _remove_skipped(child, skipped)
            if counterpart is None
            else _missing_in_property(child, counterpart, skipped)
        )
        if missing_part is not None and not (
            missing_part.children or missing_part.attributes or missing_part.normalized_text
        ):
            continue  # An empty property has no effect.
        if missing_part is not None:
            fragments.append(_fragment_entry(proposal, document, missing_part, None))
    unmatched = Counter(child.equivalence_key for child in rendered.children)
    for child in document.root.children:
        if child is document.broker or id(child) in skipped.elements or is_console_import(child):
            continue
        if is_placeholder_bean(child):
            _note_placeholder_settings(proposal, document, child)
            continue  # Each of two such beans would reject the placeholders that only the other one replaces.
        if ".insight.log" in child.get("class"):
            continue  # activemq_log_query, or a class that the release does not have
        if unmatched[child.equivalence_key]:
            unmatched[child.equivalence_key] -= 1
        else:
            fragments.append(
                _fragment_entry(proposal, document, _with_renamed_references(child, renamed_beans), "beans")
            )
    if fragments:
        proposal[document.host].setdefault("xml_fragments", []).extend(fragments)


def _note_placeholder_settings(
    proposal: ProposedVariablesByHost, document: AdoptedDocument, node: ComparedElement
) -> None:
    """Add a note about the settings of a bean that replaces placeholders which the rendered bean does not have."""
    omitted = sorted(placeholder_bean_properties(node).keys() - _LOCATION_SETTINGS)
    if omitted:
        proposal.add_note(
            [document.host],
            f"adopt left out {', '.join(omitted)} of the bean {node.get('class').rpartition('.')[2] or node.name}, "
            "because a rendered activemq.xml has another bean that replaces placeholders. Check the value of each "
            "placeholder ${NAME} in activemq.xml. If the value is wrong without the omitted settings, set "
            "activemq_java_options: [-DNAME=VALUE]",
            is_urgent=True,
        )


def _propose_attributes(
    proposal: ProposedVariablesByHost, document: AdoptedDocument, rendered: ComparedElement
) -> None:
    attributes: dict[str, Any] = dict(proposal[document.host].get("broker_attributes", {}))
    if _PURGE_PERIOD in rendered.attributes and _PURGE_PERIOD not in document.broker.attributes:
        attributes[_PURGE_PERIOD] = 0  # Without it, the rendered broker would remove queues that the original keeps.
    for name, value in document.broker.attributes.items():
        if name in _RENDERED_ATTRIBUTES:
            continue
        if name in rendered.attributes and are_attribute_values_equivalent(
            document.broker, name, value, rendered.attributes[name], {}
        ):
            continue
        secret = attribute_contains_clear_text_password(name, value)
        if not secret and is_valid_value("broker_attributes", {name: value}):
            attributes[name] = parse_yaml_scalar(value)
        elif name == _MASTER_URI and document.release.has_pure_master_slave:
            _propose_master_connector(proposal, document, value)
        else:
            text = (
                f"adopt left out the attribute {name} of <broker>, because its value contains a password. If the "
                "broker needs it, add it to activemq_broker_attributes with the password in ansible-vault"
                if secret
                else f"adopt left out the attribute {name} of <broker>, because activemq_broker_attributes does not "
                f"accept the value {value!r:.200}. If the broker needs the attribute, set it there to another value"
            )
            proposal.add_note([document.host], text, is_urgent=True)
    if attributes:
        proposal[document.host]["broker_attributes"] = attributes


def _propose_master_connector(proposal: ProposedVariablesByHost, document: AdoptedDocument, uri: str) -> None:
    """Propose a fragment for the slave of a pure pair whose ``masterConnectorURI`` has placeholders.

    Without it, the slave would serve clients. BrokerService creates a MasterConnector from the attribute's value.
    """
    node = ComparedElement(f"{{{CORE}}}masterConnector", {"remoteURI": uri})
    services = ComparedElement(f"{{{CORE}}}services", {}, "", (node,))
    fragments = proposal[document.host].setdefault("xml_fragments", [])
    fragments.append(_fragment_entry(proposal, document, services, None))


def _without_uri_of_client_connector(
    proposal: ProposedVariablesByHost, document: AdoptedDocument, services: ComparedElement, rendered: ComparedElement
) -> ComparedElement:
    """Return the services of a pure slave, whose masterConnector has no ``remoteURI`` if the rendered one replaces it.

    It is the URI of a connector that clients use, too. Add a note about the rendered port, by which migrate and the
    watchdog recognize the slave. Another element, and an element with the URI of another host, is returned unchanged.
    """
    rendered_connector = rendered.find("services/masterConnector")
    connector = next((child for child in services.children if child.name == "masterConnector"), None)
    if services.name != "services" or connector is None or rendered_connector is None:
        return services
    original_uris, rendered_uris = (
        Uri.parse(node.get("remoteURI")).transport_uris for node in (connector, rendered_connector)
    )
    if (
        len(original_uris) != 1
        or original_uris[0].scheme not in ("tcp", "nio")
        or [uri.host for uri in original_uris] != [uri.host for uri in rendered_uris]
    ):
        return services
    original_uri, rendered_uri = original_uris[0], rendered_uris[0]
    proposal.add_note(
        [document.host],
        f"the original slave connects to its master at port {original_uri.port}, which clients use, too. The rendered "
        f"slave connects to port {rendered_uri.port} of {rendered_uri.host}, by which the playbook migrate and the "
        "watchdog recognize the slave. Make sure that no firewall blocks this port between the two hosts, and that no "
        "other program uses it. activemq_replication_port sets another port",
        is_urgent=True,
    )
    attributes = {name: value for name, value in connector.attributes.items() if name != "remoteURI"}
    changed = replace(connector, attributes=attributes)
    return replace(services, children=tuple(changed if child is connector else child for child in services.children))


def _fragment_entry(
    proposal: ProposedVariablesByHost, document: AdoptedDocument, node: ComparedElement, parent: str | None
) -> dict[str, Any]:
    without_passwords = element_with_secret_labels(
        _with_password_references(node, proposal, document), proposal.secrets
    )
    without_passwords = _with_schema_locations(without_passwords, _schema_locations(document))
    entry: dict[str, Any] = {"parent": parent} if parent else {}
    return {**entry, "xml": TextWithSecretLabels(to_xml(without_passwords))}


def _schema_locations(document: AdoptedDocument) -> dict[str, str]:
    """Return the schema address of each XML namespace that a document names on its root element or its broker."""
    addresses: dict[str, str] = {}
    for node in (document.original, document.broker):
        words = node.get(_SCHEMA_LOCATION).split()
        for namespace, address in zip(words[::2], words[1::2], strict=False):
            addresses.setdefault(namespace, address)
    return addresses


def _with_schema_locations(node: ComparedElement, addresses: Mapping[str, str]) -> ComparedElement:
    """Return an XML element with the schema's address on each element of another namespace.

    These are namespaces other than Spring's and ActiveMQ's.

    The root element of a rendered file names the schemas of these two alone, and the broker needs the others.
    """
    if node.tag.startswith((f"{{{CORE}}}", f"{{{BEANS}}}")):
        return replace(node, children=tuple(_with_schema_locations(child, addresses) for child in node.children))
    namespaces = sorted({inner.tag.removeprefix("{").rpartition("}")[0] for inner in element_and_descendants(node)})
    words = [word for name in namespaces if name in addresses for word in (name, addresses[name])]
    if not words or _SCHEMA_LOCATION in node.attributes:
        return node
    return replace(node, attributes={_SCHEMA_LOCATION: " ".join(words), **node.attributes})


def _with_password_references(
    node: ComparedElement, proposal: ProposedVariablesByHost, document: AdoptedDocument
) -> ComparedElement:
    """Return an XML element with ``${activemq…}`` references for passwords that the inventory defines."""
    variables = proposal[document.host]
    network_user = variables.get("network_username")
    users = {user["name"] for user in variables.get("users", [])}

    def with_references(node: ComparedElement) -> ComparedElement:
        name = node.get("userName") or node.get("username")
        attributes = dict(node.attributes)
        if name and is_clear_text_password("password", node.get("password")):
            if name == network_user:
                attributes["password"] = "${activemq.network.password}"  # noqa: S105 -- a reference
            elif name in users:
                attributes["password"] = f"${{activemq.user.{name}.password}}"
        return replace(node, attributes=attributes, children=tuple(map(with_references, node.children)))

    return with_references(node)


def _with_renamed_references(node: ComparedElement, new_ids: Mapping[str, str]) -> ComparedElement:
    """Return an XML element whose references to renamed beans have the new ids; ``node`` itself without such ones."""
    if not new_ids:
        return node
    changed = {
        name: f"#{new_ids[value[1:]]}" if value.startswith("#") else new_ids[value]
        for name, value in node.attributes.items()
        if (value.startswith("#") and value[1:] in new_ids)
        or (value in new_ids and (name in SPRING_REFERENCE_ATTRIBUTES.get(node.name, ()) or name.endswith("-ref")))
    }
    children = tuple(_with_renamed_references(child, new_ids) for child in node.children)
    if not changed and all(child is other for child, other in zip(children, node.children, strict=True)):
        return node
    return replace(node, attributes={**node.attributes, **changed}, children=children)


def _remove_skipped(node: ComparedElement, skipped: _SkippedParts) -> ComparedElement | None:
    """Return an XML element without the children in ``skipped``; None if no child remains."""
    if not any(id(child) in skipped.elements for child in node.children):
        return node
    children = tuple(child for child in node.children if id(child) not in skipped.elements)
    return replace(node, children=children) if children else None


def _missing_in_property(
    original: ComparedElement, rendered: ComparedElement, skipped: _SkippedParts
) -> ComparedElement | None:
    """Return the parts of a property element that the rendered one lacks, at any depth; None without such parts."""
    missing = []
    unmatched = Counter(child.equivalence_key for child in rendered.children)
    rendered_by_key: dict[object, ComparedElement] = {}
    for other in rendered.children:
        rendered_by_key.setdefault(_merge_key(other, rendered), other)
    for child in original.children:
        if id(child) in skipped.elements:
            continue
        if unmatched[child.equivalence_key]:
            unmatched[child.equivalence_key] -= 1
            continue
        if child.name == "authorizationEntry" and _has_all_rights_of_entry(rendered, child):
            continue  # The broker unites the rights of all entries of a destination.
        key = _merge_key(child, rendered)
        counterpart = rendered_by_key.get(key) if key is not None else None
        missing_child = child if counterpart is None else _missing_in_bean(child, counterpart, skipped)
        if missing_child is not None:
            missing.append(missing_child)
    attributes = _changed_attributes(original, rendered, skipped)
    return ComparedElement(original.tag, attributes, "", tuple(missing)) if missing or attributes else None


def _has_all_rights_of_entry(rendered: ComparedElement, entry: ComparedElement) -> bool:
    """Return whether rendered entries of a destination grant each right of one of its authorizationEntry elements."""
    rendered_entries = [other for other in rendered.children if _destination_key(other) == _destination_key(entry)]
    return bool(rendered_entries) and all(
        set(user_group_names_in_attribute(entry, right))
        <= {group for other in rendered_entries for group in user_group_names_in_attribute(other, right)}
        for right in ("read", "write", "admin")
    )


def _destination_key(node: ComparedElement) -> tuple[str, str]:
    return node.get("queue"), node.get("topic")


def _missing_in_bean(
    original: ComparedElement, rendered: ComparedElement, skipped: _SkippedParts
) -> ComparedElement | None:
    """Return the attributes and properties of a bean that the rendered bean lacks; None without such parts."""
    missing = []
    for child in original.children:
        counterpart = next((other for other in rendered.children if other.tag == child.tag), None)
        missing_property = child if counterpart is None else _missing_in_property(child, counterpart, skipped)
        if missing_property is not None:
            missing.append(missing_property)
    attributes = _changed_attributes(original, rendered, skipped)
    if not missing and not attributes:
        return None
    key_attributes = {
        name: original.get(name) for name in TOLD_APART_BY.get(original.name, ()) if name in original.attributes
    }
    return ComparedElement(original.tag, {**key_attributes, **attributes}, "", tuple(missing))


def _changed_attributes(original: ComparedElement, rendered: ComparedElement, skipped: _SkippedParts) -> dict[str, str]:
    return {
        name: value
        for name, value in original.attributes.items()
        if not may_rendered_file_omit_attribute(original, name, skipped.release, rendered)
        and not (
            name in rendered.attributes
            and are_attribute_values_equivalent(original, name, value, rendered.attributes[name], skipped.directories)
        )
        and not is_clear_text_password(name, value)
        # credentials.properties defines a password with such a placeholder, also under a different earlier name.
        and not (is_password_name(name) and rendered.get(name).startswith(_RENDERED_REFERENCE_PREFIX))
    }


def _merge_key(node: ComparedElement, parent: ComparedElement) -> object:
    """Return a value that is equal for two Spring beans if ``render.fragments`` would merge them.

    None for a bean that is never merged.
    """
    if not node.is_in_activemq_namespace or parent.tag == f"{{{BEANS}}}beans":
        return None
    if not parent.name.endswith("s"):
        return node.tag
    key_attributes = TOLD_APART_BY.get(node.name)
    return None if key_attributes is None else (node.tag, *(node.get(name) for name in key_attributes))
