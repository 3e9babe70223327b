"""Merge the user's XML (``activemq_xml_fragments``) into activemq.xml, in the order of the schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lxml import etree

from activemq_fleet.errors import SettingsError
from activemq_fleet.schema import BEANS, CORE, hardened_xml_parser
from activemq_fleet.settings.host_settings import XmlFragmentSettings
from activemq_fleet.topology import Broker

_BROKER = f"{{{CORE}}}broker"
# Beans in lists that a broker has once, or once per value of these attributes.
TOLD_APART_BY = {
    "authenticationUser": ("username",),
    "authorizationPlugin": (),
    "masterConnector": (),
    "networkConnector": ("name",),
    "policyEntry": ("queue", "topic"),
    "simpleAuthenticationPlugin": (),
    "transportConnector": ("name",),
}

# Outside the broker these can only be Spring's elements, also without a namespace.
_SPRING_ELEMENTS = frozenset({f"{{{CORE}}}{name}" for name in ("alias", "bean", "import")})

# Properties that the templates fill and that hold one bean: a bean of another kind replaces the rendered one.
_SINGLE_BEAN_PROPERTIES = frozenset({"ioExceptionHandler", "locker", "persistenceAdapter"})

_INDENT = "  "
_MARKUP = re.compile(r"""<!--.*?-->|<\?.*?\?>|(?P<start_tag><[^!?/](?:[^"'>]|"[^"]*"|'[^']*')*>)""", re.DOTALL)
_ATTRIBUTE = re.compile(r"""(\s+)([^\s=]+)="([^"]*)\"""")
_PARSED_TEXT_SUFFIX = re.compile(r" \(<string>, line \d+\)$")
"""The name that lxml gives a parsed text, at the end of an error."""


class _StartTag(NamedTuple):
    """A start tag of the rendered document, in the layout of the template and in that of the serializer."""

    rendered: str
    serialized: str


@dataclass(frozen=True, slots=True)
class _FragmentPlace:
    """The place of an XML fragment: its host, and its position in ``activemq_xml_fragments``."""

    host: str
    position: int

    def settings_error(self, problem: str) -> SettingsError:
        """Return an error about this entry of ``activemq_xml_fragments``; ``problem`` is the text after its index."""
        return SettingsError.of_host(self.host, f"in activemq_xml_fragments[{self.position}]{problem}")


def activemq_xml_with_merged_fragments(document: bytes, broker: Broker) -> bytes:
    """Return an activemq.xml with the broker's XML fragments merged into it.

    Each of ``activemq_xml_fragments`` is placed below its parent element. The schema alternates: a bean (``broker``,
    ``kahaDB``) contains its properties (``plugins``, ``locker``), and a property contains beans. A property goes to its
    alphabetical place, or into the existing one, because each may occur only once up to 5.5. A bean is added to a list
    of beans, or merged with the bean that it would contradict: its attributes replace those of the rendered bean, and
    its properties are added. A different kind of store, locker or exception handler replaces the rendered one. Lines
    that no fragment concerns do not change. Raises SettingsError that names the fragment.
    """
    root = etree.fromstring(document, hardened_xml_parser())
    text = document.decode()
    start_tags = _start_tags(root, text)
    for position, fragment in enumerate(broker.settings.xml_fragments):
        place = _FragmentPlace(broker.host, position)
        elements = _parse_fragment(fragment, place)
        names = [] if fragment.parent == "beans" else fragment.parent.split("/")
        parent = _find_or_create_parent(root, names, place)
        for element in elements:
            if element.tag == _BROKER and parent is root:
                raise place.settings_error(
                    ", the value of xml contains <broker>, which activemq.xml has already: set parent to broker, and "
                    "write only its child elements"
                )
            (_put_property if len(names) % 2 else _put_bean)(parent, element)
    before_root = text[: text.index(start_tags[root].rendered)]
    return f"{before_root}{_serialize(root, start_tags)}\n".encode()


def _start_tags(root: etree._Element, document: str) -> dict[etree._Element, _StartTag]:
    rendered, serialized = (
        [match["start_tag"] for match in _MARKUP.finditer(text) if match["start_tag"]]
        for text in (document, etree.tostring(root, encoding="unicode"))
    )
    return dict(zip(root.iter("*"), map(_StartTag, rendered, serialized), strict=True))


def _serialize(root: etree._Element, start_tags: Mapping[etree._Element, _StartTag]) -> str:
    """Return the root as text; the elements of ``start_tags`` keep the layout of their attributes.

    A parser keeps the text between tags, but not the line ends between attributes.
    """
    elements = root.iter("*")

    def in_rendered_layout(match: re.Match[str]) -> str:
        tag = match["start_tag"]
        rendered_tag = start_tags.get(next(elements)) if tag else None
        return _in_layout_of(rendered_tag, tag) if rendered_tag else match[0]

    return _MARKUP.sub(in_rendered_layout, etree.tostring(root, encoding="unicode"))


def _in_layout_of(rendered_tag: _StartTag, tag: str) -> str:
    """Return a serialized start tag in the layout that it had before the merge; new attributes follow the last one."""
    attributes = {name: (space, value) for space, name, value in _ATTRIBUTE.findall(rendered_tag.rendered)}
    unchanged = {(name, value) for _, name, value in _ATTRIBUTE.findall(rendered_tag.serialized)}
    last_space = next((space for space, _ in reversed(attributes.values())), " ")
    for _, name, value in _ATTRIBUTE.findall(tag):
        if (name, value) not in unchanged:
            space, _ = attributes.get(name, (last_space, ""))
            attributes[name] = (space, value)
    name = re.split(r"[\s/>]", tag, maxsplit=1)[0]
    texts = (f'{space}{attribute}="{value}"' for attribute, (space, value) in attributes.items())
    return f"{name}{''.join(texts)}{'/>' if tag.endswith('/>') else '>'}"


def _parse_fragment(fragment: XmlFragmentSettings, place: _FragmentPlace) -> list[etree._Element]:
    try:
        root = _parse_in_namespace(fragment.xml, CORE)
        if fragment.parent == "beans" and {child.tag for child in root} <= _SPRING_ELEMENTS:
            root = _parse_in_namespace(fragment.xml, BEANS)
    except (etree.XMLSyntaxError, UnicodeEncodeError, ValueError) as error:
        reason = _PARSED_TEXT_SUFFIX.sub("", str(error))
        raise place.settings_error(f", the value of xml is not well-formed XML ({reason}): correct it") from None
    if any(isinstance(node, etree._Entity) for node in root.iter()):
        raise place.settings_error(
            ", the value of xml declares or uses an XML entity: replace the entity with its text"
        )
    elements = [child for child in root if isinstance(child.tag, str)]
    if not elements or any((text or "").strip() for text in (root.text, *(child.tail for child in root))):
        raise place.settings_error(
            ", the value of xml must consist of XML elements, without text between them: write one or more elements, "
            "such as <plugins>…</plugins>"
        )
    return elements


def _parse_in_namespace(xml: str, namespace: str) -> etree._Element:
    return etree.fromstring(f'<fragment xmlns="{namespace}">{xml}</fragment>'.encode(), hardened_xml_parser())


def _find_or_create_parent(root: etree._Element, names: Sequence[str], place: _FragmentPlace) -> etree._Element:
    parent = root
    for depth, name in enumerate(names):
        child = parent.find(f"{{{CORE}}}{name}")
        if child is None and parent is root:
            raise place.settings_error(
                f": the value of the key parent must begin with broker, not {name!r}: write a path such as "
                "broker/plugins"
            )
        if child is None:
            child = etree.Element(f"{{{CORE}}}{name}")
            (_put_property if depth % 2 else _put_bean)(parent, child)
        parent = child
    return parent


def _put_property(bean: etree._Element, element: etree._Element) -> None:
    existing = bean.find(str(element.tag))
    if existing is not None:
        _merge_element(existing, element, _put_bean)
        return
    later = (child for child in bean if isinstance(child.tag, str) and _local_name(child) > _local_name(element))
    _insert_before(bean, element, next(later, None))


def _put_bean(parent: etree._Element, element: etree._Element) -> None:
    existing = next(
        (child for child in parent.findall(str(element.tag)) if _exclude_each_other(child, element, parent)), None
    )
    if existing is not None:
        _merge_element(existing, element, _put_property)
        return
    if _local_name(parent) in _SINGLE_BEAN_PROPERTIES:
        for other in list(parent):
            parent.remove(other)
    _insert_before(parent, element, None)


def _insert_before(parent: etree._Element, node: etree._Element, later: etree._Element | None) -> None:
    """Insert an element or a comment before a child and its comments, or at the end, and indent it like its siblings.

    The white space before a node is the tail of the node before it, or the text of its parent.
    """
    depth = len(list(parent.iterancestors()))
    if len(node):
        etree.indent(node, _INDENT, level=depth + 1)
    if len(parent) == 0:
        parent.text, node.tail = f"\n{_INDENT * (depth + 1)}", f"\n{_INDENT * depth}"
        parent.append(node)
        return
    index = len(parent) if later is None else parent.index(later)
    while later is not None and index and isinstance(parent[index - 1], etree._Comment):
        index -= 1
    if index < len(parent):
        node.tail = _space_before(parent, index)
    else:
        node.tail, parent[-1].tail = parent[-1].tail, _space_before(parent, index - 1)
    parent.insert(index, node)


def _space_before(parent: etree._Element, index: int) -> str | None:
    return parent[index - 1].tail if index else parent.text


def _exclude_each_other(bean: etree._Element, other_bean: etree._Element, parent: etree._Element) -> bool:
    """Return whether a property cannot hold both of two beans of the same kind."""
    if not str(bean.tag).startswith(f"{{{CORE}}}") or parent.tag == f"{{{BEANS}}}beans":
        return False
    if not _local_name(parent).endswith("s"):  # In every schema, the names of properties with lists end with s.
        return True
    key_attributes = TOLD_APART_BY.get(_local_name(bean))
    if key_attributes is None:
        return False
    # Beans without a key attribute differ: links without a name, policies for temporary destinations.
    is_identified = not key_attributes or any(bean.get(name) is not None for name in key_attributes)
    return is_identified and all(bean.get(name) == other_bean.get(name) for name in key_attributes)


def _merge_element(
    target: etree._Element, element: etree._Element, put_child: Callable[[etree._Element, etree._Element], None]
) -> None:
    for name, value in element.attrib.items():
        target.set(name, value)
    for child in list(element):
        if isinstance(child.tag, str):
            put_child(target, child)
        else:
            _insert_before(target, child, None)  # type: ignore[unreachable] # lxml-stubs: a comment's tag is a function


def _local_name(element: etree._Element) -> str:
    return etree.QName(element).localname
