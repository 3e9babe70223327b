"""Map elements and attributes of a rendered activemq.xml to the variables of the inventory that set them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from html import unescape
from typing import NamedTuple

from activemq_fleet.findings import InventoryVariablesOfValue
from activemq_fleet.naming import PREFIX

XmlPath = Sequence[tuple[str, Mapping[str, str]]]
"""An element and those that contain it, the inner one first: the name and the attributes of each."""


class _Section(NamedTuple):
    """The inventory variables of one part of activemq.xml, without their common prefix.

    A value of ``parts`` occurs in the element. ``settings`` decide about the part where no value of ``parts`` does.
    """

    parts: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


_SECTIONS = {
    "authorizationPlugin": _Section(("acl",), ("acl",)),
    "bean": _Section(("jdbc", "tls", "shutdown_hooks"), ("log_query",)),
    "broker": _Section(("broker_attributes",)),
    "destinationInterceptors": _Section(("virtual_destinations",), ("virtual_destinations",)),
    "destinationPolicy": _Section(("destination_policies",), ("destination_policies",)),
    "destinations": _Section(("destinations",), ("destinations",)),
    "import": _Section(("imports",), ("console",)),
    "managementContext": _Section(("jmx",), ("jmx",)),
    "networkConnectors": _Section(
        ("links", "network_attributes", "network_options"), ("topology", "discovery", "pair_links", "links")
    ),
    "persistenceAdapter": _Section(("kahadb", "jdbc", "store_directory"), ("kahadb", "jdbc", "store_directory", "ha")),
    "plugins": _Section(("plugins",), ("plugins",)),
    "services": _Section((), ("ha",)),
    "shutdownHooks": _Section(("shutdown_hooks",), ("shutdown_hooks",)),
    "simpleAuthenticationPlugin": _Section(("users", "network_username"), ("users", "authentication")),
    "sslContext": _Section(("tls",), ("tls",)),
    "systemUsage": _Section(("usage", "memory_limit", "store_limit", "temp_limit"), ("usage", "heap")),
    "transportConnectors": _Section(("connectors",), ("connectors", "port_offset", "bind")),
}
"""The sections by the name of an element; the innermost element with a section decides."""

_VARIABLE_BY_ATTRIBUTE = {
    ("broker", "brokerName"): "broker_name",
    ("broker", "schedulerDirectory"): "scheduler",
    ("broker", "schedulerSupport"): "scheduler",
    ("kahaDB", "directory"): "store_directory",
    ("memoryUsage", "limit"): "memory_limit",
    ("networkConnector", "consumerTTL"): "network_ttl",
    ("networkConnector", "messageTTL"): "network_ttl",
    ("networkConnector", "networkTTL"): "network_ttl",
    ("networkConnector", "userName"): "network_username",
    ("shared-file-locker", "lockAcquireSleepInterval"): "lock_acquire_interval",
    ("lease-database-locker", "lockAcquireSleepInterval"): "lock_acquire_interval",
    ("kahaDB", "lockKeepAlivePeriod"): "lock_keepalive_interval",
    ("jdbcPersistenceAdapter", "lockKeepAlivePeriod"): "lock_keepalive_interval",
    ("storeUsage", "limit"): "store_limit",
    ("storeUsage", "total"): "store_limit",
    ("tempUsage", "limit"): "temp_limit",
}
"""Variables that set a single attribute of an element, and decide where no value of the section does."""

_DESTINATION_KINDS = frozenset({"queue", "topic"})
"""Attributes for the name of a destination; in entries of the inventory, these words are values of ``kind``."""
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_START_TAG = re.compile(r"""<(?:[\w.-]+:)?(?P<name>[\w.-]+)(?P<attributes>(?:[^<>"']|"[^"]*"|'[^']*')*)>""")
_ATTRIBUTE = re.compile(r"""([\w:.-]+)\s*=\s*("[^"]*"|'[^']*')""")
_WHITE_SPACE = re.compile(r"\r\n|[\t\r\n]")
_SEPARATOR = re.compile(r"[\s,?&()=;]+")
_NOT_IDENTIFYING = re.compile(r"true|false|[0-9]*")
"""Values that occur in many entries of a variable and identify none of them."""
KIND = re.compile(r"^(?:[a-z][a-z0-9+]*://|file:)")
"""The prefix of a destination or address. Either the XML attribute or the variable may lack this prefix."""


def origin_of_value(path: XmlPath, attribute: str = "", part: str = "") -> InventoryVariablesOfValue:
    """Return the origin (the inventory variables) of an attribute or element of activemq.xml.

    ``part`` is the part of the value that has a problem.
    """
    name, attributes = path[0]
    depth, section = _section_of(path)
    attribute_variable = _VARIABLE_BY_ATTRIBUTE.get((name, attribute))
    settings = ((attribute_variable,) if attribute_variable else ()) + section.settings
    reported = part or attributes.get(attribute) or " ".join(attributes.values())
    attribute_maps = [attributes, *(attribute_map for _, attribute_map in path[1:depth])]
    kind_names = (name for attribute_map in attribute_maps for name in attribute_map if name in _DESTINATION_KINDS)
    identifying = (
        *kind_names,
        *(
            piece
            for attribute_map in attribute_maps
            for value in attribute_map.values()
            for piece in _value_and_words(value)
        ),
    )
    return InventoryVariablesOfValue(
        tuple(f"{PREFIX}{variable}" for variable in section.parts),
        tuple(f"{PREFIX}{variable}" for variable in settings),
        element=name if attributes or name not in _SECTIONS else "",
        attributes=tuple((key, attributes[key]) for key in ([attribute] if attribute in attributes else attributes)),
        other_attributes=tuple(item for item in attributes.items() if attribute in attributes and item[0] != attribute),
        is_attribute=attribute in attributes,
        reported=_value_and_words(reported),
        identifying=tuple(dict.fromkeys(piece for piece in identifying if not _NOT_IDENTIFYING.fullmatch(piece))),
    )


def variable_of_rendered_attribute(path: XmlPath, attribute: str) -> str | None:
    """Return the name of the inventory variable that sets an attribute in activemq.xml; None if no variable is known.

    XML fragments, which can set each attribute, are not considered.
    """
    attribute_variable = _VARIABLE_BY_ATTRIBUTE.get((path[0][0], attribute))
    _, section = _section_of(path)
    variables = ((attribute_variable,) if attribute_variable else ()) + section.parts + section.settings
    return f"{PREFIX}{variables[0]}" if variables else None


def _section_of(path: XmlPath) -> tuple[int, _Section]:
    """Return the number of elements between an element and its section of activemq.xml, and the section."""
    return next(
        ((depth, _SECTIONS[parent]) for depth, (parent, _) in enumerate(path) if parent in _SECTIONS), (0, _Section())
    )


class PossibleOriginTagInFragment(NamedTuple):
    """A start tag in a user-written XML fragment that may define the element of activemq.xml which a finding reports.

    ``shared_attributes`` is the number of attributes that the tag and the rendered element have in common, and
    ``line_offset`` the number of lines before the attribute, or before the tag of a whole element.
    """

    shared_attributes: int
    line_offset: int


def matching_start_tags(fragment: str, origin: InventoryVariablesOfValue) -> Iterator[PossibleOriginTagInFragment]:
    """Yield the start tags in a user-written XML fragment that match the element of activemq.xml in a finding.

    ``origin`` describes the rendered element or attribute that a finding reports.
    """
    element = {*origin.attributes, *origin.other_attributes}
    text = _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), fragment)
    for tag in _START_TAG.finditer(text):
        matches = {match[1]: match for match in _ATTRIBUTE.finditer(text, *tag.span("attributes"))}
        attributes = {(name, _attribute_value(match[2])) for name, match in matches.items()}
        if tag["name"] != origin.element or not attributes.issuperset(origin.attributes):
            continue
        begin = matches[origin.attributes[0][0]].start() if origin.is_attribute else tag.start()
        yield PossibleOriginTagInFragment(len(attributes & element), text.count("\n", 0, begin))


def _attribute_value(quoted: str) -> str:
    """Return the value of an attribute as an XML parser reads it; ``quoted`` is its text with the quotation marks."""
    return unescape(_WHITE_SPACE.sub(" ", quoted[1:-1]))


def origin_of_extra_file(path: str) -> InventoryVariablesOfValue:
    """Return the origin of an additional configuration file: the variable ``activemq_extra_files`` and the file's path.

    ``path`` is relative to the configuration tree.
    """
    variables = (f"{PREFIX}extra_files",)
    return InventoryVariablesOfValue(variables, variables, identifying=(path,))


def origin_of_release() -> InventoryVariablesOfValue:
    """Return the origin (the inventory variable) of a broker's ActiveMQ release."""
    return InventoryVariablesOfValue(settings=(f"{PREFIX}release",))


@lru_cache(maxsize=1 << 12)  # the files of many brokers have the same values
def _value_and_words(value: str) -> tuple[str, ...]:
    """Return a value of an activemq.xml and its words, each without its destination prefix or ``file:``."""
    parts = (value, *_SEPARATOR.split(value))
    return tuple(dict.fromkeys(KIND.sub("", part, count=1) for part in parts if part))
