"""Represent an XML element of a file as an immutable value, without comments, and write it as text.

``adopt`` reads all variables from these elements. A comment of a file is lost here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from xml.sax.saxutils import escape

from lxml import etree

from activemq_fleet.render.engine import escape_xml_attribute
from activemq_fleet.schema import BEANS, CORE

_LINE_WIDTH = 105
XSI = "http://www.w3.org/2001/XMLSchema-instance"
_ORDERED_ELEMENTS = frozenset({"plugins", "destinationInterceptors"})
_PREFIXES = {XSI: "xsi", "http://www.w3.org/XML/1998/namespace": "xml"}
PLACEHOLDERS = "PlaceholderConfigurer"
"""The end of the class names of Spring's beans that replace ``${name}``."""
_CONTEXT_NAMESPACE = "http://www.springframework.org/schema/context"
_DEFAULT_PREFIX = "${"


@dataclass(frozen=True, eq=False)
class ComparedElement:
    """An XML element as an immutable value for comparison.

    ``tag`` and attribute names are ``{namespace}local``, as in lxml. ``text`` is the text before the first child,
    ``tail`` the text behind the element, both with their white space.
    """

    tag: str
    attributes: Mapping[str, str]
    text: str = ""
    children: tuple[ComparedElement, ...] = ()
    tail: str = ""

    @property
    def name(self) -> str:
        """The XML element's name without its namespace."""
        return self.tag.rpartition("}")[2]

    @property
    def attrib(self) -> Mapping[str, str]:
        """The attributes of the XML element, as a mapping from name to value; the same as ``attributes``.

        An lxml element calls this property ``attrib``: functions can therefore accept elements of both kinds.
        """
        return self.attributes

    def __iter__(self) -> Iterator[ComparedElement]:
        return iter(self.children)

    @property
    def is_in_activemq_namespace(self) -> bool:
        """Whether the XML element is in ActiveMQ's namespace."""
        return self.tag.startswith(f"{{{CORE}}}")

    @property
    def is_order_of_children_significant(self) -> bool:
        """Whether the order of the XML element's children is significant."""
        return self.name in _ORDERED_ELEMENTS if self.is_in_activemq_namespace else self.tag != f"{{{BEANS}}}beans"

    @cached_property
    def normalized_text(self) -> str:
        """The text of the XML element with normalized white space.

        Each sequence of white space is one space.
        """
        return " ".join(" ".join([self.text, *(child.tail for child in self.children)]).split())

    @cached_property
    def equivalence_key(self) -> tuple[Any, ...]:
        """The equivalence key of the XML element, which is equal for elements that mean the same."""
        children = [child.equivalence_key for child in self.children]
        return (
            self.tag,
            tuple(sorted(self.attributes.items())),
            self.normalized_text,
            tuple(children if self.is_order_of_children_significant else sorted(children)),
        )

    def get(self, name: str, default: str = "") -> str:
        """Return an attribute of the XML element by its name, or ``default``.

        The attribute has no namespace.
        """
        return self.attributes.get(name, default)

    def find_all(self, path: str) -> list[ComparedElement]:
        """Return all descendants of the XML element at a path such as ``plugins/simpleAuthenticationPlugin``.

        They are in ActiveMQ's namespace.
        """
        elements = [self]
        for name in path.split("/"):
            elements = [child for node in elements for child in node.children if child.tag == f"{{{CORE}}}{name}"]
        return elements

    def find(self, path: str) -> ComparedElement | None:
        """Return the first descendant of the XML element at a path, or None.

        It is in ActiveMQ's namespace.
        """
        return next(iter(self.find_all(path)), None)

    def children_of_first_match(self, path: str) -> tuple[ComparedElement, ...]:
        """Return the children of the first XML element at a path.

        The element is in ActiveMQ's namespace; there are none where it is absent.
        """
        element = self.find(path)
        return element.children if element else ()


def compared_element_from_lxml(element: etree._Element) -> ComparedElement:
    """Return an XML element of lxml as an immutable element for comparison.

    Its descendants are included; comments are left out.
    """
    attributes = {
        str(name): " ".join(str(value).split()) if str(name) == f"{{{XSI}}}schemaLocation" else str(value)
        for name, value in element.attrib.items()
    }
    texts, children = [element.text or ""], []
    for child in element:
        if isinstance(child.tag, str):
            children.append(compared_element_from_lxml(child))
            texts.append(child.tail or "")
        else:
            texts[-1] += child.tail or ""  # type: ignore[unreachable] # lxml-stubs: a comment's tag is a function
    children_with_tails = tuple(replace(child, tail=tail) for child, tail in zip(children, texts[1:], strict=True))
    return ComparedElement(str(element.tag), attributes, texts[0], children_with_tails)


def element_and_descendants(node: ComparedElement) -> Iterator[ComparedElement]:
    """Yield an XML element and all its descendants, in document order."""
    yield node
    for child in node.children:
        yield from element_and_descendants(child)


def is_placeholder_bean(node: ComparedElement) -> bool:
    """Return whether an XML element is a Spring bean that configures placeholders ``${name}``.

    Rendered files have one. A bean for placeholders with another prefix, such as ``@{name}``, does not.
    """
    if node.tag == f"{{{_CONTEXT_NAMESPACE}}}property-placeholder":
        return True
    if node.tag != f"{{{BEANS}}}bean" or not node.get("class").endswith(PLACEHOLDERS):
        return False
    return placeholder_bean_properties(node).get("placeholderPrefix", _DEFAULT_PREFIX) == _DEFAULT_PREFIX


def placeholder_bean_properties(node: ComparedElement) -> dict[str, str]:
    """Return the properties of a Spring bean that configures placeholders, by name."""
    settings = {
        name.rpartition("}")[2]: value for name, value in node.attributes.items() if name not in ("class", "id", "name")
    }
    for child in node.children:
        if child.name == "property":
            settings[child.get("name")] = child.get("value") or next(
                (value.normalized_text for value in child.children), child.get("ref")
            )
        else:
            settings[child.name] = child.get("ref")
    return settings


def is_console_import(node: ComparedElement) -> bool:
    """Return whether an XML element imports the web console's Jetty file."""
    return node.tag == f"{{{BEANS}}}import" and "jetty" in node.get("resource")


def to_xml(node: ComparedElement, *, indent: int | None = 0) -> str:
    """Return an XML element as XML text.

    The default namespace of its parent is ActiveMQ's. ``indent`` is the nesting level of the first line; None writes
    everything on one line.
    """
    return ("" if indent is None else "\n").join(_xml_lines(node, CORE, indent))


def _xml_lines(node: ComparedElement, outer_namespace: str, indent: int | None) -> Iterator[str]:
    namespace = node.tag.removeprefix("{").rpartition("}")[0]
    space = "  " * (indent or 0)
    start = f"<{node.name}" + (f' xmlns="{escape_xml_attribute(namespace)}"' if namespace != outer_namespace else "")
    attributes = [_attribute_text(name, value) for name, value in node.attributes.items()]
    length = len(space) + len(start) + sum(map(len, attributes))
    separator = "\n" + " " * (len(space) + len(node.name) + 1) if indent is not None and length > _LINE_WIDTH else ""
    start += separator.join(attributes)
    if not node.children:
        text = escape(_normalized_spaces(node.text, indent))
        yield f"{space}{start}>{text}</{node.name}>" if text else f"{space}{start}/>"
        return
    yield f"{space}{start}>{escape(_normalized_spaces(node.text, indent))}"
    for child in node.children:
        yield from _xml_lines(child, namespace, None if indent is None else indent + 1)
        if tail := _normalized_spaces(child.tail, indent):
            yield escape(tail)
    yield f"{space}</{node.name}>"


def _normalized_spaces(text: str, indent: int | None) -> str:
    """Return an XML text without surrounding white space; lines of a text of several lines keep their indentation."""
    stripped = text.strip()
    one_line = " ".join(stripped.split())
    return text if indent is not None and stripped != one_line else one_line


def _attribute_text(name: str, value: str) -> str:
    namespace = name.removeprefix("{").rpartition("}")[0] if name.startswith("{") else ""
    prefixed = prefixed_name(name)
    prefix = prefixed.partition(":")[0]
    declaration = f' xmlns:{prefix}="{escape_xml_attribute(namespace)}"' if namespace and prefix != "xml" else ""
    return f'{declaration} {prefixed}="{escape_xml_attribute(value)}"'


def prefixed_name(name: str) -> str:
    """Return a name ``{namespace}local`` as ``prefix:local``, and a name without a namespace unchanged."""
    namespace, _, local = name.removeprefix("{").rpartition("}")
    return f"{_PREFIXES.get(namespace, 'ns')}:{local}" if namespace else local
