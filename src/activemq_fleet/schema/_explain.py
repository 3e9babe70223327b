"""Explain in plain words why a document is not valid; only invalid documents come to this module.

Misspelt attributes, elements and values are derived from the messages of libxml2, which takes
milliseconds. For all other errors, such as a wrong order, xmlschema is loaded: it names every position.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, cast

from lxml import etree

from activemq_fleet.schema._documents import BEANS, CORE, XBEAN, local, path_of
from activemq_fleet.schema._model import Model
from activemq_fleet.schema._positions import Positions
from activemq_fleet.schema._problems import SchemaProblem
from activemq_fleet.schema._spring import STUBS

if TYPE_CHECKING:
    from xmlschema import XMLSchema10, XMLSchemaValidationError

_NO_ATTRIBUTE = re.compile(r"(?:attribute '([^']+)'|'([^']+)' attribute) not allowed")
_BAD_VALUE = re.compile(r"attribute (\S+?)='(.*)': ", re.DOTALL)
_ATTRIBUTE = re.compile(r"attribute '([^']+)': ")
_FEW = 6
_MOST = 50  # problems that are told of one document
# From so many elements or bytes on xmlschema, which takes a second to load, is not asked.
_MANY, _LONG = 2000, 200_000
_ROUNDS = 20
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
    """Explains why documents are not valid against the schema of one release."""

    def __init__(self, xsd: bytes, compiled: etree.XMLSchema, model: Model) -> None:
        self._compiled = compiled
        self._model = model
        self._xsd = xsd

    @cached_property
    def _schema(self) -> XMLSchema10:
        import xmlschema

        schema = xmlschema.XMLSchema10(self._xsd, build=False, allow="none")
        for namespace, stub in STUBS.items():
            schema.add_schema(stub, namespace=namespace)
        schema.build()
        return schema

    def explain(
        self, document: bytes, root: etree._Element, strangers: Iterable[etree._Element]
    ) -> tuple[SchemaProblem, ...]:
        """Return the problems of a document that the compiled schema refused, sorted by position."""
        positions = Positions(document, root)

        def at(element: etree._Element, message: str, attribute: str = "") -> SchemaProblem:
            place = positions.of_attribute(element, attribute) if attribute else positions.of_element(element)
            return SchemaProblem(*place, path_of(element), message)

        if root.tag not in {f"{{{BEANS}}}beans", f"{{{XBEAN}}}beans"}:
            return (at(root, f'the root must be <beans xmlns="{BEANS}">, not <{local(root.tag)}>'),)
        strangers = list(islice(strangers, _MOST + 1))
        problems = {at(element, self._no_child(root, element)) for element in strangers[:_MOST]}
        entries = list(islice(cast("Iterable[etree._LogEntry]", self._compiled.error_log), _MOST + 1))
        large = len(document) > _LONG or sum(1 for _ in islice(root.iter(), _MANY)) == _MANY
        if large or len(strangers) > _MOST or len(entries) > _MOST:
            return tuple(sorted(problems | self._in_its_words(root, entries[:_MOST], at)))
        quick = self._misspelt(root)
        if quick is not None:
            return tuple(sorted(problems | {at(*explained) for explained in quick}))
        for error in islice(self._schema.iter_errors(root), _MOST):
            problems.add(at(*self._explain_error(error)))
        if not problems:  # the two validators disagree; the quick one decides
            self._compiled.validate(root)
            problems = self._in_its_words(root, cast("Iterable[etree._LogEntry]", self._compiled.error_log), at)
        return tuple(sorted(problems))

    def _in_its_words(
        self, root: etree._Element, entries: Iterable[etree._LogEntry], at: Callable[..., SchemaProblem]
    ) -> set[SchemaProblem]:
        """What libxml2 says as it says it: for a document that is too large for better words."""
        prefixes = _prefixes(root)
        places = ((_at(root, entry, prefixes), entry.message) for entry in entries)
        return {at(found[0] if found else root, _plain(message)) for found, message in places}

    def _misspelt(self, root: etree._Element) -> list[tuple[etree._Element, str, str]] | None:
        """The problems, when names and values that the schema does not know are all; None when there are others.

        libxml2 looks at nothing that follows a wrong element, so the document is asked again without it.
        """
        left = deepcopy(root)
        original = dict(zip(left.iter(), root.iter(), strict=True))
        explained: list[tuple[etree._Element, str, str]] = []
        for _ in range(_ROUNDS):
            if self._compiled.validate(left):
                return explained
            entries = list(cast("Iterable[etree._LogEntry]", self._compiled.error_log))
            prefixes = _prefixes(left)
            places = [_at(left, entry, prefixes) for entry in entries]
            if any(len(found) != 1 or found[0] not in original for found in places):
                return None
            for entry, (element,) in zip(entries, places, strict=True):
                problem = self._without(element, entry, original[element])
                if problem is None:
                    return None
                explained.append(problem)
        return None

    def _without(
        self, element: etree._Element, entry: etree._LogEntry, place: etree._Element
    ) -> tuple[etree._Element, str, str] | None:
        """What libxml2 says, in our words, the cause taken out of the document; None for what xmlschema says better."""
        attribute = _ATTRIBUTE.search(entry.message)
        parent = element.getparent()
        if attribute and attribute[1] in element.attrib:
            name, value = attribute[1], str(element.attrib.pop(attribute[1]))
            if entry.type == etree.ErrorTypes.SCHEMAV_CVC_COMPLEX_TYPE_3_2_2:
                return place, self._no_attribute(place, local(name)), name
            wanted = self._attributes(place).get(local(name), "")
            if entry.type == etree.ErrorTypes.SCHEMAV_CVC_DATATYPE_VALID_1_2_1 and wanted in _TYPES and wanted != "ID":
                return place, self._bad_value(place, local(name), " ".join(value.split())), name
            return None
        unknown = element.tag == f"{{{CORE}}}{local(element.tag)}" and not self._model.knows(local(element.tag))
        outer = place.getparent()
        if entry.type != etree.ErrorTypes.SCHEMAV_ELEMENT_CONTENT or not unknown or parent is None or outer is None:
            return None
        parent.remove(element)
        return place, self._misplaced(outer, place), ""

    def _explain_error(self, error: XMLSchemaValidationError) -> tuple[etree._Element, str, str]:
        from xmlschema import XMLSchemaChildrenValidationError

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


def _prefixes(root: etree._Element) -> dict[str, str]:
    """The prefixes that the elements of a document declare."""
    return {prefix: uri for element in root.iter() for prefix, uri in element.nsmap.items() if prefix}


def _at(root: etree._Element, entry: etree._LogEntry, prefixes: Mapping[str, str]) -> list[etree._Element]:
    """The element that libxml2 means: its path has the prefixes of the document."""
    try:
        return cast("list[etree._Element]", root.xpath(entry.path or ".", namespaces=dict(prefixes)))
    except etree.XPathError:
        return []


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
