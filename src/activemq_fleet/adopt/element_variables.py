"""Propose the variables that represent whole elements: policies, usage, virtual destinations, store, plugins.

The keys of those variables are attributes and properties of the broker's schema, so one function reads all of them from
the models of ``settings.xml_element_settings``. Content that a model does not accept becomes a fragment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any, get_args

from pydantic import ValidationError

from activemq_fleet.adopt.compared_element import ComparedElement
from activemq_fleet.adopt.proposal import ProposedVariablesByHost, is_valid_value, parse_yaml_scalar
from activemq_fleet.adopt.secrets import attribute_contains_clear_text_password
from activemq_fleet.adopt.sources import AdoptedDocument
from activemq_fleet.releases import Release
from activemq_fleet.render.policies_usage_and_plugins import policy_entry_elements
from activemq_fleet.settings.destination_policies import DestinationPolicy
from activemq_fleet.settings.kahadb import CrossStoreTransactionJournal, DestinationStore, StoreTuning
from activemq_fleet.settings.plugins import PluginSettings, RedeliveryPolicy
from activemq_fleet.settings.usage import UsageSettings
from activemq_fleet.settings.virtual_destinations import DEFAULT_VIRTUAL_TOPICS, VirtualDestination
from activemq_fleet.settings.xml_beans import BeanWithTypeKey, DestinationPatternBean, NamedDestination, XmlBean
from activemq_fleet.spring_values import spring_boolean
from activemq_fleet.topology import Broker, Fleet

_DESTINATION_KINDS = {"queue": "queue", "topic": "topic", "tempQueue": "temp_queue", "tempTopic": "temp_topic"}
_MAXIMUM_VALIDATED_VALUES = 200
_PERCENT_KEYS = frozenset({"percent_of_jvm_heap", "percent_limit"})


def propose_policy_store_and_plugin_variables(proposal: ProposedVariablesByHost) -> None:
    """Propose the variables for destination policies, usage limits, destinations, the store, plugins and the scheduler.

    They are taken from the XML elements of each host's own activemq.xml, and added to the proposal.
    """
    for document in proposal.documents:
        broker, release, variables = document.broker, document.release, proposal[document.host]
        entries = _first_entries(
            proposal, document, broker.find_all("destinationPolicy/policyMap/policyEntries/policyEntry")
        )
        _propose_valid_items(
            proposal, document, "destination_policies", _variable_values(entries, DestinationPolicy, release)
        )
        virtual_nodes = broker.find_all("destinationInterceptors/virtualDestinationInterceptor/virtualDestinations")
        virtual_destinations = _variable_values(
            (child for node in virtual_nodes for child in node.children), VirtualDestination, release
        )
        if _propose_valid_items(proposal, document, "virtual_destinations", virtual_destinations) and not any(
            (virtual_destination["type"], virtual_destination["name"])
            == (DEFAULT_VIRTUAL_TOPICS.type, DEFAULT_VIRTUAL_TOPICS.name)
            for virtual_destination in virtual_destinations
        ):
            # A broker whose file lists virtual destinations has no default ones, and neither must the rendered broker.
            variables["broker_attributes"] = {"useVirtualTopics": False}
        destinations = [
            name for node in broker.children_of_first_match("destinations") if (name := _destination_name(node))
        ]
        _propose_valid_items(proposal, document, "destinations", destinations)
        _propose_usage(proposal, document)
        store = broker.find("persistenceAdapter/kahaDB")
        store_value = _variable_value(store, StoreTuning, release) if store else _stores_by_destination(document)
        if store_value:
            proposal.propose_value_if_valid(document.host, "kahadb", store_value)
        _propose_plugins(proposal, document)
        directory = broker.get("schedulerDirectory")
        if spring_boolean(broker.get("schedulerSupport", "")) and (
            directory or "redelivery" not in variables.get("plugins", {})
        ):
            proposal.propose_value_if_valid(document.host, "scheduler", {"directory": directory} if directory else True)


def _first_entries(
    proposal: ProposedVariablesByHost, document: AdoptedDocument, entries: Iterable[ComparedElement]
) -> list[ComparedElement]:
    """Return the first policyEntry of each destination.

    Further ones are kept out of the inventory, with a note.

    A broker uses one of them, and a different one after each start: DestinationMap.chooseValue reads a HashSet of
    objects that do not define a hash.
    """
    first_entries: dict[tuple[str, ...], ComparedElement] = {}
    for entry in entries:
        key = tuple(entry.get(name) for name in _DESTINATION_KINDS)
        if key in first_entries:
            proposal.exclude_elements_from_fragments(entry)
            destination = " ".join(
                f"{kind} {entry.get(kind)}" for kind in _DESTINATION_KINDS if kind in entry.attributes
            )
            proposal.add_note(
                [document.host],
                f"activemq.xml has several policyEntry elements for {destination}, and the broker uses an arbitrary "
                "one of them. adopt wrote the first of these elements into activemq_destination_policies. If the "
                "broker needs another of them, correct this variable",
                is_urgent=True,
            )
        else:
            first_entries[key] = entry
    return list(first_entries.values())


def _propose_valid_items(
    proposal: ProposedVariablesByHost, document: AdoptedDocument, name: str, values: list[Any]
) -> bool:
    """Propose the values of a list variable that are valid together, and return whether there are any."""
    accepted = values
    if not is_valid_value(name, values):
        # Each value is validated together with all accepted values, so the number of validated values is limited.
        accepted = []
        for value in values[:_MAXIMUM_VALIDATED_VALUES]:
            if is_valid_value(name, [*accepted, value]):
                accepted.append(value)
    return bool(accepted) and proposal.propose_value_if_valid(document.host, name, accepted)


def _stores_by_destination(document: AdoptedDocument) -> dict[str, Any]:
    """Return the value of ``activemq_kahadb`` for an mKahaDB element.

    It is {} without the element, or if the variable cannot express all of it.
    """
    node = document.broker.find("persistenceAdapter/mKahaDB")
    filtered = node.find_all("filteredPersistenceAdapters/filteredKahaDB") if node else []
    stores = [child.name for entry in filtered for child in entry.find_all("persistenceAdapter/kahaDB")]
    filtered_stores = _variable_values(filtered, DestinationStore, document.release)
    if node is None or not len(filtered_stores) == len(filtered) == len(stores):
        return {}
    tunings = [entry.pop("persistence_adapter", {}) for entry in filtered_stores]
    entries = [{**entry, **tuning} for entry, tuning in zip(filtered_stores, tunings, strict=True)]
    journal = _variable_value(node, CrossStoreTransactionJournal, document.release)
    return {"by_destination": entries, **({"transaction_journal": journal} if journal else {})}


def _propose_usage(proposal: ProposedVariablesByHost, document: AdoptedDocument) -> None:
    """Propose ``activemq_usage`` if the file has more than the three limits in bytes that other variables set."""
    usage = document.broker.find("systemUsage/systemUsage")
    value = _variable_value(usage, UsageSettings, document.release) if usage else None
    if not isinstance(value, dict):
        return
    byte_limit_names = {"memory", "store", "temp"}
    store = value.get("store")
    if isinstance(store, dict) and store.get("percent_limit") == 100 and "total" in store:
        # Rendered brokers write a limit in bytes in this form.
        value = {**value, "store": str(store["total"])}
    if value.keys() <= byte_limit_names and all(
        isinstance(limit, str) and "%" not in limit for limit in value.values()
    ):
        return
    if is_valid_value("usage", value):
        for name in ("memory_limit", "store_limit", "temp_limit"):
            proposal[document.host].pop(name, None)
        proposal[document.host]["usage"] = value


def remove_defaults_from_destination_policies(proposal: ProposedVariablesByHost, fleet: Fleet) -> None:
    """Remove values that are equal to the defaults from the proposed ``activemq_destination_policies`` of each host.

    These are values that every broker's policies have anyway, and entries left empty. ``fleet`` is the proposed one
    with all its links.
    """
    for host, variables in proposal.variables.items():
        if "destination_policies" not in variables:
            continue
        broker = fleet.broker(host)
        without_policies = _policy_entries(broker, [])
        remaining_entries = []
        for entry in variables["destination_policies"]:
            # An entry is redundant if the rendered broker has the same policy entries without it.
            expected = _policy_entries(broker, [entry])
            shorter = (
                shorter_entry
                for shorter_entry in _shorter_entries(entry)
                if _policy_entries(broker, [shorter_entry]) == expected
            )
            if expected != without_policies:
                remaining_entries.append(next(shorter, entry))
        variables["destination_policies"] = remaining_entries
        if not remaining_entries:
            del variables["destination_policies"]


_RENDERED_POLICY_KEYS = ("network_bridge_filter_factory", "enable_audit", "pending_durable_subscriber_policy")


def _shorter_entries(entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a policy entry without each of the keys that rendered brokers may add, most of them first."""
    for count in range(len(_RENDERED_POLICY_KEYS), 0, -1):
        for keys in combinations(_RENDERED_POLICY_KEYS, count):
            if all(key in entry for key in keys):
                yield {key: value for key, value in entry.items() if key not in keys}


def _policy_entries(broker: Broker, policies: list[Any]) -> set[Any]:
    """Return the policy entries that a broker with these destination policies has, in a comparable form."""
    models = tuple(DestinationPolicy.model_validate(policy) for policy in policies)
    settings = broker.settings.model_copy(update={"destination_policies": models})
    return {_comparable_key(element) for element in policy_entry_elements(replace(broker, settings=settings))}


def _comparable_key(element: Any) -> tuple[Any, ...]:
    return element.name, frozenset(element.attributes), frozenset(map(_comparable_key, element.children))


def _propose_plugins(proposal: ProposedVariablesByHost, document: AdoptedDocument) -> None:
    nodes = {node.name: node for node in document.broker.children_of_first_match("plugins")}
    value: dict[str, Any] = {}
    for key, field in PluginSettings.model_fields.items():
        model = _model_of(field.annotation)
        node = nodes.get(model.ELEMENT) if model else None
        if node is None or model is None or not document.release.supports(node.name):
            continue
        keys = (
            _redelivery_keys(node, document.release)
            if key == "redelivery"
            else _variable_value(node, model, document.release)
        )
        if keys is not None and is_valid_value("plugins", {key: keys or True}):
            value[key] = keys or True
    if value:
        proposal.propose_value_if_valid(document.host, "plugins", value)


def _redelivery_keys(node: ComparedElement, release: Release) -> dict[str, Any] | None:
    """Return the keys of a redeliveryPlugin element, including those of the map inside it."""
    plugin_keys = {
        key: parse_yaml_scalar(node.get(name))
        for key, name in (
            ("fallback_to_dead_letter", "fallbackToDeadLetter"),
            ("send_to_dlq_if_max_retries_exceeded", "sendToDlqIfMaxRetriesExceeded"),
        )
        if node.get(name)
    }
    policy_map = node.find("redeliveryPolicyMap/redeliveryPolicyMap")
    if policy_map is None:
        return None
    policies = _variable_values(
        policy_map.find_all("redeliveryPolicyEntries/redeliveryPolicy"), RedeliveryPolicy, release
    )
    default = policy_map.find("defaultEntry/redeliveryPolicy")
    return {
        **plugin_keys,
        **({"policies": policies} if policies else {}),
        **({"default": _variable_value(default, RedeliveryPolicy, release, bare=True)} if default else {}),
    }


def _model_of(annotation: Any) -> type[XmlBean] | None:
    """Return the class of the beans in a model's field, which is a bean, a tuple of beans, or a bean or None."""
    if isinstance(annotation, type) and issubclass(annotation, XmlBean):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_of(part))), None)


def _variable_values(nodes: Iterable[ComparedElement], model: type[XmlBean], release: Release) -> list[Any]:
    return [value for node in nodes if (value := _variable_value(node, model, release)) is not None]


def _variable_value(node: ComparedElement, model: type[XmlBean], release: Release, *, bare: bool = False) -> Any:
    """Return the value of a variable for an XML element, in its shortest form that the model accepts.

    It is None if the model accepts no part of it. ``bare``: the destination to which it applies is omitted.
    """
    if issubclass(model, NamedDestination):
        return _named_destination(node, model)
    value = {} if bare else _identifying_keys(node, model)
    if value is None:
        return None
    for field, info in model.model_fields.items():
        if field in model.NOT_WRITTEN:
            continue
        field_value = _field_value(node, field, info.annotation, model, release)
        if field_value is not None and (bare or _is_valid(model, {**value, field: field_value}, value)):
            value[field] = field_value
    if not bare and not _is_valid(model, value, {}):
        return None
    return _shorten_value(value)


def _identifying_keys(node: ComparedElement, model: type[XmlBean]) -> dict[str, Any] | None:
    """Return the keys that identify a bean or its destination; None for an XML element that no model describes."""
    if issubclass(model, BeanWithTypeKey):
        kinds = {element: kind for kind, element in model.ELEMENTS.items()}
        return {"type": kinds[node.name]} if node.name in kinds else None
    if issubclass(model, DestinationPatternBean | DestinationStore):
        kind_attributes = [name for name in _DESTINATION_KINDS if name in node.attributes]
        if issubclass(model, DestinationStore) and not kind_attributes:
            return {}
        if len(kind_attributes) != 1:
            return None
        kind = _DESTINATION_KINDS[kind_attributes[0]]
        return {"kind": kind} if kind.startswith("temp") else {"destination": node.get(kind), "kind": kind}
    return {}


def _field_value(node: ComparedElement, field: str, annotation: Any, model: type[XmlBean], release: Release) -> Any:
    try:
        xml_name = model.PROPERTIES.get(field) or release.xml_attribute_for_key(node.name, field)
    except KeyError:
        return None
    if xml_name is None:
        return None
    nested_model = _model_of(annotation)
    if nested_model is None:
        text = node.attributes.get(xml_name)
        if text is None or attribute_contains_clear_text_password(xml_name, text):
            return None
        return int(text) if text.removeprefix("-").isdecimal() and text.startswith("-") else parse_yaml_scalar(text)
    property_element = node.find(xml_name)
    if property_element is None or not property_element.children:
        return None
    if "tuple" in str(annotation):
        return _variable_values(property_element.children, nested_model, release) or None
    return (
        _variable_value(property_element.children[0], nested_model, release)
        if len(property_element.children) == 1
        else None
    )


def _is_valid(model: type[XmlBean], value: dict[str, Any], valid_value: dict[str, Any]) -> bool:
    """Return whether a model accepts a value, or rejects it only for a key that was missing before, too."""
    try:
        model.model_validate(value)
    except ValidationError as error:
        try:
            model.model_validate(valid_value)
        except ValidationError as earlier_error:
            return error.error_count() <= earlier_error.error_count()
        return False
    return True


def _shorten_value(value: dict[str, Any]) -> Any:
    if value.keys() == {"type"}:
        return value["type"]
    if value.keys() == {"limit"} and isinstance(value["limit"], str):
        return value["limit"]
    if len(value) == 1 and value.keys() <= _PERCENT_KEYS:
        return f"{next(iter(value.values()))} %"
    return value


def _destination_name(node: ComparedElement) -> str | None:
    if node.name not in ("queue", "topic") or set(node.attributes) != {"physicalName"}:
        return None
    return node.get("physicalName") if node.name == "queue" else f"topic://{node.get('physicalName')}"


def _named_destination(node: ComparedElement, model: type[NamedDestination]) -> Any:
    """Return a destination element as text, with the selector of a filteredDestination; None for another."""
    if node.name == "filteredDestination" and "selector" in model.model_fields:
        kinds = [kind for kind in ("queue", "topic") if node.get(kind)]
        if len(kinds) != 1 or set(node.attributes) - {kinds[0], "selector"}:
            return None
        name = f"{kinds[0]}://{node.get(kinds[0])}"
        value: Any = {"name": name, "selector": node.get("selector")} if node.get("selector") else name
    else:
        value = _destination_name(node)
    return value if value is not None and _is_valid(model, value, {}) else None
