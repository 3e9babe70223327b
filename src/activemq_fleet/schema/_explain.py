"""Says in plain words what a document does wrong. Loads xmlschema, so only a no comes here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import cast

import xmlschema
from lxml import etree
from xmlschema import XMLSchemaChildrenValidationError, XMLSchemaValidationError

from activemq_fleet.schema._documents import BEANS, CORE, local, path_of
from activemq_fleet.schema._model import Model
from activemq_fleet.schema._positions import Positions
from activemq_fleet.schema._problems import SchemaProblem
from activemq_fleet.schema._spring import STUBS

_NO_ATTRIBUTE = re.compile(r"(?:attribute '([^']+)'|'([^']+)' attribute) not allowed")
_BAD_VALUE = re.compile(r"attribute (\S+?)='(.*)': ", re.DOTALL)
_FEW = 6
_TYPES = {
    "boolean": "true or false",
    "integer": "a whole number",
    "int": "a whole number",
    "long": "a whole number",
    "short": "a whole number",
    "float": "a number",
    "double": "a number",
    "ID": "a name of its own, of letters, digits, dots, dashes and underscores, that begins with a letter",
}


class Explainer:
    """Explains with the schema of one release."""

    def __init__(self, xsd: bytes, compiled: etree.XMLSchema, model: Model) -> None:
        self._compiled = compiled
        self._model = model
        self._schema = xmlschema.XMLSchema10(xsd, build=False, allow="none")
        for namespace, stub in STUBS.items():
            self._schema.add_schema(stub, namespace=namespace)
        self._schema.build()

    def explain(
        self, document: bytes, root: etree._Element, strangers: Iterable[etree._Element]
    ) -> tuple[SchemaProblem, ...]:
        """The problems of a document that the compiled schema refused."""
        positions = Positions(document, root)

        def at(element: etree._Element, message: str, attribute: str = "") -> SchemaProblem:
            place = positions.of_attribute(element, attribute) if attribute else positions.of_element(element)
            return SchemaProblem(*place, path_of(element), message)

        if root.tag != f"{{{BEANS}}}beans":
            return (at(root, f'the root must be <beans xmlns="{BEANS}">, not <{local(root.tag)}>'),)
        problems = {at(element, self._no_child(root, element)) for element in strangers}
        for error in self._schema.iter_errors(root):
            problems.add(at(*self._told(error)))
        if not problems:  # the two validators disagree; the quick one decides
            self._compiled.validate(root)
            for entry in cast("Iterable[etree._LogEntry]", self._compiled.error_log):
                found = cast("list[etree._Element]", root.xpath(entry.path)) if entry.path else []
                problems.add(at(found[0] if found else root, _plain(entry.message)))
        return tuple(sorted(problems))

    def _told(self, error: XMLSchemaValidationError) -> tuple[etree._Element, str, str]:
        element, reason = cast("etree._Element", error.elem), error.reason or ""
        if isinstance(error, XMLSchemaChildrenValidationError) and error.invalid_tag:
            child = _child_at(element, error.index, error.invalid_tag)
            return child, self._misplaced(element, child), ""
        if match := _NO_ATTRIBUTE.search(reason):
            name = match[1] or match[2]
            return element, self._no_attribute(element, local(name)), name
        if match := _BAD_VALUE.match(reason):
            return element, self._bad_value(element, local(match[1]), match[2]), match[1]
        if reason.startswith("character data"):
            return element, f"<{local(element.tag)}> takes no text of its own, only elements", ""
        if reason.startswith(("unavailable namespace", "element ")):
            return element, self._foreign(element), ""
        return element, f"<{local(element.tag)}>: {_plain(reason)}", ""

    def _misplaced(self, parent: etree._Element, child: etree._Element) -> str:
        allowed = self._children(parent)
        name, inside = local(child.tag), local(parent.tag)
        if name not in allowed or not child.tag.startswith(f"{{{CORE}}}"):
            return self._no_child(parent, child)
        before = [local(other.tag) for other in child.itersiblings(etree.Element, preceding=True)]
        if name in before:
            return f"<{name}> may stand only once in <{inside}> in this release"
        later = [other for other in before if other in allowed and allowed.index(other) > allowed.index(name)]
        if later and self._is_ordered(parent):
            return f"<{name}> must stand before <{later[-1]}>: this release wants the children of <{inside}> in order"
        if before:
            return f"<{inside}> takes one element in this release, so <{name}> cannot follow <{before[0]}>"
        return self._no_child(parent, child)

    def _no_child(self, parent: etree._Element, child: etree._Element) -> str:
        name, inside = local(child.tag), local(parent.tag)
        if child.tag == f"{{{BEANS}}}{name}" and name in self._model.globals:
            return f'<{name}> lacks xmlns="{CORE}"'
        known = sorted(self._model.globals) if inside == "beans" else list(self._children(parent))
        text = f"<{name}> is not allowed in <{inside}> in this release"
        return text + _suggestion(name, known, "<{}>") if known else text

    def _no_attribute(self, element: etree._Element, name: str) -> str:
        text = f"<{local(element.tag)}> has no attribute {name} in this release"
        return text + _suggestion(name, list(self._attributes(element)), "{}", few=0)

    def _bad_value(self, element: etree._Element, name: str, value: str) -> str:
        wanted = _TYPES.get(self._attributes(element).get(name, ""), "another kind of value")
        shown = value if len(value) <= 60 else f"{value[:60]}…"
        return f'{name}="{shown}" of <{local(element.tag)}> must be {wanted}'

    def _foreign(self, element: etree._Element) -> str:
        namespace = etree.QName(element).namespace
        name = local(element.tag)
        if namespace == CORE:
            text = f"<{name}> is not an element of ActiveMQ in this release"
            return text + _suggestion(name, sorted(self._model.globals), "<{}>")
        if namespace in STUBS:
            return f"<{name}> is not an element of {namespace}"
        return f"<{name}> of the namespace {namespace or 'none'} cannot stand here: its schema is not known"

    def _declared(self, element: etree._Element) -> str:
        """The path by which the model knows an element: a property element only by its owner."""
        name = local(element.tag)
        parent = element.getparent()
        if parent is not None and parent.tag.startswith(f"{{{CORE}}}"):
            path = f"{self._declared(parent)}/{name}"
            try:
                self._model.declarations(path)
            except KeyError:
                return name
            return path
        return name

    def _children(self, element: etree._Element) -> tuple[str, ...]:
        try:
            return self._model.children(self._declared(element))
        except KeyError:
            return ()

    def _attributes(self, element: etree._Element) -> dict[str, str]:
        try:
            return dict(self._model.attributes(self._declared(element)))
        except KeyError:
            return {}

    def _is_ordered(self, element: etree._Element) -> bool:
        return self._model.is_ordered(self._declared(element))


def _child_at(parent: etree._Element, index: int, tag: str) -> etree._Element:
    if index < len(parent) and parent[index].tag == tag:
        return parent[index]
    return next((child for child in parent if child.tag == tag), parent)


def _suggestion(name: str, known: list[str], form: str, *, few: int = _FEW) -> str:
    close = get_close_matches(name, known, n=1, cutoff=0.82)
    if close:
        return f"; did you mean {form.format(close[0])}?"
    if len(known) <= few:
        return f"; it takes {', '.join(form.format(other) for other in known)}"
    return ""


def _plain(message: str) -> str:
    """A validator's own words, without namespaces."""
    return re.sub(r"\{[^}]*\}", "", message).rstrip(". ")
