"""Rules V064 and V066: attributes and child elements without which a broker does not start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from activemq_fleet.lint.document import SCHEMA_LOCATION, Element, Problem
from activemq_fleet.lint.engine import ALWAYS, rule
from activemq_fleet.releases import Release
from activemq_fleet.schema import CORE, sole_similar_name


@dataclass(frozen=True, slots=True)
class _Requirement:
    """What an element requires: an attribute or child element with one of ``names``, or any child without ``names``.

    It applies in the parents ``containers``, or in any parent if they are empty. Brokers of the releases in ``missing``
    do not start without the part, and those in ``empty`` do not start with an empty attribute; None for no release. The
    spans begin with a release that was booted, also where an older one may fail, too. ``part`` and ``fix`` are texts of
    the finding.
    """

    names: tuple[str, ...]
    part: str
    fix: str
    containers: tuple[str, ...] = ()
    missing: str | None = ALWAYS
    empty: str | None = None


_SCHEDULER = "schedulerSupport"
_DESTINATION = ("destination", "queue", "topic", "tempQueue", "tempTopic")
_COMPOSITE_DESTINATION = (
    _Requirement(("name",), "name", "set name to the destination that clients use", empty="5.11.4"),
    _Requirement(("forwardTo",), "forwardTo", "add <forwardTo> with the target destinations", missing="5.11.4"),
)
_NAMES_OF_DESTINATION = ("physicalName", "compositeDestinations")
_PHYSICAL_NAME_FIX = "set physicalName to the name of the destination"
_PHYSICAL_NAME = (
    _Requirement(_NAMES_OF_DESTINATION, "physicalName", _PHYSICAL_NAME_FIX, ("destinations",), empty="5.11.4"),
    _Requirement(
        _NAMES_OF_DESTINATION, "physicalName", _PHYSICAL_NAME_FIX, ("forwardTo",), missing="5.11.4", empty="5.11.4"
    ),
)
_REQUIREMENTS: Mapping[str, tuple[_Requirement, ...]] = MappingProxyType({
    "networkConnector": (
        _Requirement(
            ("uri", "discoveryAgent"), "uri", "set uri, such as static:(tcp://other-broker:61616)", empty=ALWAYS
        ),
    ),
    "transportConnector": (
        _Requirement(("uri", "server"), "uri", "set uri, such as tcp://0.0.0.0:61616", empty=ALWAYS),
    ),
    "policyEntry": (
        _Requirement(
            _DESTINATION,
            "destination",
            'set queue or topic, such as queue=">" for all queues',
            ("policyEntries",),
            empty="5.11.4",
        ),
    ),
    "authorizationEntry": (
        _Requirement(
            _DESTINATION,
            "destination",
            'set queue or topic, such as queue=">" for all queues',
            ("authorizationEntries",),
            empty="5.11.4",
        ),
    ),
    "authorizationPlugin": (
        _Requirement(("map",), "map", "add <map> with an <authorizationMap>, or remove the plugin"),
    ),
    "authorizationMap": (
        _Requirement(
            ("authorizationEntries",),
            "authorizationEntries",
            "add <authorizationEntries> with an entry for each permission",
            missing="5.11.4",
        ),
    ),
    "compositeQueue": _COMPOSITE_DESTINATION,
    "compositeTopic": _COMPOSITE_DESTINATION,
    "filteredDestination": (
        _Requirement(
            ("destination", "queue", "topic"),
            "destination",
            "set queue or topic to the name of the target",
            ("forwardTo",),
            missing="5.11.4",
        ),
    ),
    "persistenceAdapter": (
        _Requirement(
            (),
            "store",
            "add a store, such as <kahaDB>, or remove <persistenceAdapter>",
            ("broker", "filteredKahaDB"),
        ),
    ),
    "map": (
        _Requirement(
            (), "authorization map", "add an <authorizationMap>, or remove the plugin", ("authorizationPlugin",)
        ),
    ),
    "virtualTopic": (
        _Requirement(("name",), "name", "set name, such as VirtualTopic.>", missing=None, empty="5.11.4"),
    ),
    "filteredKahaDB": (
        _Requirement(
            ("persistenceAdapter",), "store", "add <persistenceAdapter> with a <kahaDB>", missing="5.8.0"
        ),
    ),
    "queue": _PHYSICAL_NAME,
    "topic": _PHYSICAL_NAME,
})  # fmt: skip
"""The requirements of each element."""


@rule("V064", "error", each=" ".join(_REQUIREMENTS), refuses=True)
def required_attribute_or_child_missing(element: Element) -> Iterator[Problem]:
    """An element lacks an attribute or a child element that the broker requires.

    Why: the schema accepts the element, but the broker needs this attribute or child while it starts, fails ("You must
        specify", "You must configure", NullPointerException) and does not start.
    Fix: add the attribute or child that the finding names, or remove the element.
    Cannot see: values with a placeholder, and elements with parts in other namespaces, such as Spring's <property>. The
        rule reports an element only on releases on which a broker without the part was tried.
    Source: measured on 5.5.1, 5.8.0, 5.11.4, 5.18.3 and 6.3.1

    Fires on 5.18.3::

        <policyEntry producerFlowControl="false"/>

    Fires on 6.3.1::

        <transportConnector name="more"/>

    Fires on 5.5.1::

        <authorizationPlugin/>

    Silent on 5.18.3::

        <policyEntry queue="orders" producerFlowControl="false"/>
    """
    is_part_of_broker = element.namespace == CORE and element.nearest_ancestor_with_tag_name("broker") is not None
    if not is_part_of_broker or _has_unknown_parts(element):
        return
    for requirement in _REQUIREMENTS[element.name]:
        if not requirement.containers or (element.parent and element.parent.name in requirement.containers):
            yield from _requirement_problems(element, requirement)


def _requirement_problems(element: Element, requirement: _Requirement) -> Iterator[Problem]:
    """Yield a problem if an element does not meet a requirement in its release."""
    release = element.document.release
    attribute = next(filter(element.has_attribute, requirement.names), "")
    tag = f'<{element.name} name="{element.get("name")}">' if element.get("name") else f"<{element.name}>"
    if attribute:
        if _applies(requirement.empty, release) and element.literal_value(attribute) == "":
            text = f"{attribute} of {tag} is empty: the broker does not start"
            yield element.problem(text, attribute, fix=requirement.fix)
        return
    if element.children(*requirement.names) or element.leading_text or not _applies(requirement.missing, release):
        return
    if element.name == "networkConnector" and _are_links_started_asynchronously(element):
        return
    names = (*element.attributes, *(child.name for child in element.children()))
    if not any(sole_similar_name(name, requirement.names, frozenset()) for name in names):  # V002 reports misspellings
        yield element.problem(f"{tag} has no {requirement.part}: the broker does not start", fix=requirement.fix)


def _are_links_started_asynchronously(connector: Element) -> bool:
    """Return whether the broker may start without this connector, because another thread starts it."""
    broker = connector.nearest_ancestor_with_tag_name("broker")
    return broker is not None and broker.get("networkConnectorStartAsync", "false").strip().lower() != "false"


def _applies(span: str | None, release: Release) -> bool:
    """Return whether a release is within a span of releases; False without a span."""
    return span is not None and release.is_within_span(span)


def _has_unknown_parts(element: Element) -> bool:
    """Return whether an element has attributes or children of other namespaces, which can set any property."""
    return any("}" in name and name != SCHEMA_LOCATION for name in element.attributes) or any(
        child.namespace != CORE for child in element.children()
    )


@rule("V066", "error", each="redeliveryPlugin", releases="5.8.0", refuses=True)
def redelivery_plugin_without_scheduler(plugin: Element) -> Iterator[Problem]:
    """The broker has a redeliveryPlugin, but schedulerSupport is not enabled.

    Why: the plugin delays messages with the broker's scheduler. It fails while the broker starts ("RedeliveryPlugin
        requires schedulerSupport=true on the broker"), and the broker does not start.
    Fix: set schedulerSupport="true" on <broker>, or remove the plugin.
    Cannot see: a value of schedulerSupport with a placeholder, and brokers with a <jobSchedulerStore>.
    Source: RedeliveryPlugin of the release tags; measured on 5.8.0, 5.11.4, 5.18.3 and 6.3.1

    Fires on 5.18.3::

        <broker><plugins><redeliveryPlugin fallbackToDeadLetter="true"/></plugins></broker>

    Silent on 5.18.3::

        <broker schedulerSupport="true"><plugins><redeliveryPlugin fallbackToDeadLetter="true"/></plugins></broker>
    """
    broker = plugin.nearest_ancestor_with_tag_name("broker")
    if broker is None or _has_unknown_parts(broker) or broker.children("jobSchedulerStore"):
        return
    if broker.boolean_attribute(_SCHEDULER, False) is False:
        text = f"<redeliveryPlugin> requires {_SCHEDULER}, which <broker> does not set: the broker does not start"
        yield plugin.problem(text)
