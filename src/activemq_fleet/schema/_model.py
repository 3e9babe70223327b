"""Read the declarations of an XSD for each element: its children in order, and its attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from lxml import etree

from activemq_fleet.schema._documents import local_name
from activemq_fleet.schema._similar_names import split_name_into_words

_XS = "{http://www.w3.org/2001/XMLSchema}"


class XsdModel:
    """The model of an ``activemq.xsd``: its element declarations.

    They are global elements and the properties inside them. XBean generates the XSD.
    """

    def __init__(self, root: etree._Element) -> None:
        self._root = root

    @cached_property
    def global_element_declarations(self) -> Mapping[str, etree._Element]:
        """The XSD's global declarations of elements, by name."""
        return {node.get("name", ""): node for node in self._root.iterchildren(_XS + "element")}

    @cached_property
    def words_in_declared_names(self) -> frozenset[str]:
        """The words in all names of elements and attributes of the XSD, in lowercase."""
        return frozenset().union(
            *(split_name_into_words(str(node.get("name"))) for node in self._root.iter() if node.get("name"))
        )

    @cached_property
    def _nested_declarations(self) -> Mapping[str, list[etree._Element]]:
        elements_by_name: dict[str, list[etree._Element]] = {}
        for node in self._root.iter(_XS + "element"):
            name = node.get("name")
            if name is not None and node.getparent() is not self._root:
                elements_by_name.setdefault(name, []).append(node)
        return elements_by_name

    def element_declarations(self, path: str) -> list[etree._Element]:
        """Return the XSD's declarations of an element.

        ``path`` is the element's name, or its path from a global element. The result is [] for an unknown element.
        """
        first, *rest = path.split("/")
        nodes = (
            [self.global_element_declarations[first]]
            if first in self.global_element_declarations
            else self._nested_declarations.get(first, [])
        )
        for name in rest:
            nodes = [child for node in nodes for child in self._child_declarations(node) if child.get("name") == name]
        return nodes

    def child_names(self, path: str) -> tuple[str, ...]:
        """Return the names of the ActiveMQ elements that the XSD allows inside an element, in schema order."""
        children = (child for node in self.element_declarations(path) for child in self._child_declarations(node))
        return tuple(dict.fromkeys(child.get("name", "") for child in children))

    def attribute_types(self, path: str) -> Mapping[str, str]:
        """Return the XSD types of an XML element's attributes, by attribute name, in schema order."""
        return {
            attribute.get("name", ""): (attribute.get("type") or "string").rpartition(":")[2]
            for node in self.element_declarations(path)
            for attribute in node.iterfind(f"{_XS}complexType/{_XS}attribute")
        }

    def has_ordered_children(self, path: str) -> bool:
        """Return whether the XSD requires the children of an element in order, each at most once."""
        return any(node.find(f"{_XS}complexType/{_XS}sequence") is not None for node in self.element_declarations(path))

    def _child_declarations(self, node: etree._Element) -> Iterator[etree._Element]:
        """Yield the declarations of the children of a declared element; references are resolved."""
        for child in _particles(node.find(_XS + "complexType")):
            reference = child.get("ref")
            yield (
                child
                if reference is None
                else self.global_element_declarations[local_name(reference.replace(":", "}"))]
            )


def _particles(group: etree._Element | None) -> Iterator[etree._Element]:
    if group is None:
        return
    for child in group.iterchildren(_XS + "element", _XS + "choice", _XS + "sequence", _XS + "all"):
        if child.tag == _XS + "element":
            yield child
        else:
            yield from _particles(child)
