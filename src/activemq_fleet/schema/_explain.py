"""Explain in plain words why a document is not valid; only invalid documents come to this module."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import islice
from typing import cast

from lxml import etree

from activemq_fleet.findings import TextEdit
from activemq_fleet.releases import BEANS, CORE
from activemq_fleet.schema._documents import ROOTS, SchemaProblem, element_path, local_name
from activemq_fleet.schema._model import XsdModel
from activemq_fleet.schema._positions import XmlPositions, decode_xml_document
from activemq_fleet.schema._similar_names import sole_similar_name
from activemq_fleet.schema._spring import STUBS
from activemq_fleet.similar_names import most_similar_name

_ATTRIBUTE = re.compile(r"attribute '([^']+)'")
_FEW = 6
_MOST = 50  # problems that are reported per document
_ROUNDS = 50
_LARGEST = {"integer": (1 << 31) - 1, "long": (1 << 63) - 1, "short": (1 << 15) - 1}
_WHOLE = re.compile(r"[+-]?\d+")
_TYPES = {
    "boolean": "true or false",
    "integer": "a whole number",
    "long": "a whole number",
    "short": "a whole number",
    "float": "a number",
    "double": "a number",
    "ID": "a unique name of letters, digits, dots, dashes and underscores that begins with a letter",
}


@dataclass(frozen=True)
class _Explanation:
    """A reason why a document is invalid, at an element or at one of its attributes.

    ``name`` is the name that the element or attribute must mean; ``order`` the names of the siblings of the element in
    the order that the schema requires.
    """

    element: etree._Element
    message: str
    attribute: str = ""
    name: str = ""
    order: tuple[str, ...] = ()
    fix: str = ""

    def xml_repair_edits(self, positions: XmlPositions) -> tuple[TextEdit, ...]:
        """Return the text edits that repair an invalid element or attribute of an XML document.

        The tuple is empty if no repair, or more than one, is possible.
        """
        parent = self.element.getparent()
        if self.order and parent is not None:
            return positions.child_reordering_edit(parent, self.order)
        if not self.name:
            return ()
        if self.attribute:
            return positions.attribute_renaming_edit(self.element, self.attribute, self.name)
        return positions.element_renaming_edits(self.element, self.name)


class SchemaErrorExplainer:
    """An explainer that finds the reasons why XML documents are invalid against the schema of one release."""

    def __init__(self, compiled: etree.XMLSchema, model: XsdModel) -> None:
        self._compiled = compiled
        self._model = model

    def explain_problems(
        self, document: bytes, root: etree._Element, misplaced_elements: Iterable[etree._Element]
    ) -> tuple[SchemaProblem, ...]:
        """Explain why an XML document is invalid against the schema: return its problems, sorted by position.

        At most 50 problems are returned.
        """
        positions = XmlPositions(decode_xml_document(document, root.getroottree().docinfo.encoding), root)
        if root.tag not in ROOTS:
            name = local_name(root.tag)
            fix = f"write {_root_tag(name)}" if name in ("beans", "broker") else ""
            explained = [_Explanation(root, _root_message(root), fix=fix)]
        else:
            explained = [self._misplaced_child(root, element) for element in misplaced_elements]
            explained += islice(self._explained(root), _MOST)
        problems = set()
        for reason in explained[:_MOST]:
            element, attribute = reason.element, reason.attribute
            place = (
                positions.attribute_position(element, attribute) if attribute else positions.element_position(element)
            )
            edits = reason.xml_repair_edits(positions)
            fix = reason.fix or (f"write {reason.name}" if reason.name else "")
            problems.add(SchemaProblem(*place, element_path(element), reason.message, fix, edits))
        return tuple(sorted(problems))

    def _explained(self, root: etree._Element) -> Iterator[_Explanation]:
        """Yield an explanation of each error that libxml2 finds in a document.

        libxml2 stops at an invalid element, so the document is validated again without that element.
        """
        left = deepcopy(root)
        original = dict(zip(left.iter(), root.iter(), strict=True))
        reported: set[etree._Element] = set()
        for _ in range(_ROUNDS):
            if self._compiled.validate(left):
                return
            entries = list(islice(cast("Iterable[etree._LogEntry]", self._compiled.error_log), _MOST))
            for entry, element in [(entry, _element_of(left, entry.path or "")) for entry in entries]:
                yield from self._explain_and_remove(element, entry, original, reported)

    def _explain_and_remove(
        self,
        element: etree._Element,
        entry: etree._LogEntry,
        original: Mapping[etree._Element, etree._Element],
        reported: set[etree._Element],
    ) -> Iterator[_Explanation]:
        """Yield an error of libxml2 about an element in plain words, and remove its cause from the document.

        ``original`` maps the elements of this document to those of the complete one.
        ``reported`` are the elements of which a misplaced child was reported.
        """
        place, parent, message = original[element], element.getparent(), entry.message
        outer = place.getparent()
        attribute = _ATTRIBUTE.search(message)
        if attribute and attribute[1] in element.attrib:
            name, value = local_name(attribute[1]), " ".join(str(element.attrib.pop(attribute[1])).split())
            is_unknown = message.endswith("is not allowed.")
            if is_unknown:
                meant = sole_similar_name(name, self._attributes(place), self._model.words_in_declared_names)
                yield _Explanation(place, self._no_attribute_message(place, name), attribute[1], name=meant)
            else:
                fix = f"set {name} to {self._permitted_value(place, name, value)}"
                yield _Explanation(place, self._bad_value_message(place, name, value), attribute[1], fix=fix)
        elif "Character content" in message:
            element.text = None
            for child in element:
                child.tail = None
            name = local_name(place.tag)
            fix = f"remove the text between the elements of <{name}>, such as a character after a tag"
            yield _Explanation(place, f"<{name}> contains text, but allows only elements", fix=fix)
        elif "Element content" in message:
            for child in list(element.iterchildren(etree.Element)):
                element.remove(child)
                yield self._misplaced_child(place, original[child])
        elif parent is None or outer is None:
            yield _Explanation(place, f"<{local_name(place.tag)}>: {_plain(message)}")
        else:
            parent.remove(element)
            if entry.type != etree.ErrorTypes.SCHEMAV_ELEMENT_CONTENT:
                yield self._foreign_element(place)
                return
            in_sequence = local_name(place.tag) in self._children(outer) and self._is_ordered(outer)
            if in_sequence:
                self._put_in_order(element, parent, self._children(outer))
            if not in_sequence:
                yield self._misplaced_child(outer, place)
            elif outer not in reported:  # others out of order follow from the first
                yield self._misordered_child(outer, place)
            reported.add(outer)

    def _misordered_child(self, parent: etree._Element, child: etree._Element) -> _Explanation:
        """Return an explanation of a child that its parent has twice, or that is behind one that it must precede."""
        explanation = self._misplaced_child(parent, child)
        return replace(explanation, order=self._children(parent))

    def _later_sibling(self, parent: etree._Element, child: etree._Element) -> str:
        """Return the name of the nearest preceding sibling that the schema requires after a child; "" without one."""
        allowed, name = self._children(parent), local_name(child.tag)
        before = [local_name(other.tag) for other in child.itersiblings(etree.Element, preceding=True)]
        if name in before or not self._is_ordered(parent):
            return ""
        later = [other for other in before if other in allowed and allowed.index(other) > allowed.index(name)]
        return later[-1] if later else ""

    def _put_in_order(self, element: etree._Element, parent: etree._Element, names: tuple[str, ...]) -> None:
        """Put an element before those that must follow it, so that its content is validated; not a second of a name."""
        later = names[names.index(local_name(element.tag)) + 1 :]
        follower = next((child for child in parent.iterchildren(etree.Element) if local_name(child.tag) in later), None)
        if follower is not None and parent.find(element.tag) is None:
            follower.addprevious(element)

    def _misplaced_child(self, parent: etree._Element, child: etree._Element) -> _Explanation:
        name = local_name(child.tag)
        known = self._model.global_element_declarations if local_name(parent.tag) == "beans" else self._children(parent)
        is_misspelt = child.tag.startswith(f"{{{CORE}}}") and name not in known
        meant = sole_similar_name(name, known, self._model.words_in_declared_names) if is_misspelt else ""
        fix = "" if meant else self._placement_fix(parent, child)
        return _Explanation(child, self._misplaced_message(parent, child), name=meant, fix=fix)

    def _foreign_element(self, element: etree._Element) -> _Explanation:
        meant = ""
        if etree.QName(element).namespace == CORE:
            meant = sole_similar_name(
                local_name(element.tag), self._model.global_element_declarations, self._model.words_in_declared_names
            )
        return _Explanation(element, self._foreign_message(element), name=meant)

    def _misplaced_message(self, parent: etree._Element, child: etree._Element) -> str:
        allowed = self._children(parent)
        name, inside = local_name(child.tag), local_name(parent.tag)
        if name not in allowed or not child.tag.startswith(f"{{{CORE}}}"):
            return self._no_child_message(parent, child)
        before = [local_name(other.tag) for other in child.itersiblings(etree.Element, preceding=True)]
        if name in before:
            return f"<{name}> is allowed only once in <{inside}> in this release"
        if later := self._later_sibling(parent, child):
            return f"<{name}> must be before <{later}>: this release requires an order of the children of <{inside}>"
        if before:
            return f"<{inside}> allows only one element in this release: <{name}> cannot follow <{before[0]}>"
        return self._no_child_message(parent, child)

    def _placement_fix(self, parent: etree._Element, child: etree._Element) -> str:
        """Return what to do about a child that its parent allows, but not at this place; "" for one not allowed."""
        name, inside = local_name(child.tag), local_name(parent.tag)
        before = [local_name(other.tag) for other in child.itersiblings(etree.Element, preceding=True)]
        if name not in self._children(parent) or not child.tag.startswith(f"{{{CORE}}}") or not before:
            return ""
        if later := self._later_sibling(parent, child):
            return f"move <{name}> before <{later}>"
        return f"keep only one <{name}> in <{inside}>" if name in before else f"keep only one element in <{inside}>"

    def _no_child_message(self, parent: etree._Element, child: etree._Element) -> str:
        name, inside = local_name(child.tag), local_name(parent.tag)
        if child.tag == f"{{{BEANS}}}{name}" and name in self._model.global_element_declarations:
            return f'<{name}> lacks xmlns="{CORE}"'
        known = sorted(self._model.global_element_declarations) if inside == "beans" else list(self._children(parent))
        text = f"<{name}> is not allowed in <{inside}> in this release"
        return text + _suggestion(name, known, "<{}>") if known else text

    def _no_attribute_message(self, element: etree._Element, name: str) -> str:
        text = f"<{local_name(element.tag)}> has no attribute {name} in this release"
        return text + _suggestion(name, list(self._attributes(element)), "{}", few=0)

    def _permitted_value(self, element: etree._Element, name: str, value: str) -> str:
        """Return a description of the values that the schema permits for an attribute, such as ``true or false``."""
        kind = self._attributes(element).get(name, "")
        permitted = _TYPES.get(kind, "a value that the schema of this release accepts")
        return f"{permitted} up to {_LARGEST[kind]}" if kind in _LARGEST and _WHOLE.fullmatch(value) else permitted

    def _bad_value_message(self, element: etree._Element, name: str, value: str) -> str:
        shown = value if len(value) <= 60 else f"{value[:60]}…"
        permitted = self._permitted_value(element, name, value)
        return f'{name}="{shown}" of <{local_name(element.tag)}> must be {permitted}'

    def _foreign_message(self, element: etree._Element) -> str:
        namespace = etree.QName(element).namespace
        name = local_name(element.tag)
        if namespace == CORE:
            text = f"<{name}> is not an element of ActiveMQ in this release"
            return text + _suggestion(name, sorted(self._model.global_element_declarations), "<{}>")
        if namespace in STUBS:
            return f"<{name}> is not an element of {namespace}"
        return f"<{name}> of the namespace {namespace or 'none'} is not allowed here: its schema is unknown"

    def _declared_path(self, element: etree._Element) -> str:
        """Return the path of an element in the model; a property element is declared only below its owner."""
        name = local_name(element.tag)
        parent = element.getparent()
        if parent is not None and parent.tag.startswith(f"{{{CORE}}}"):
            path = f"{self._declared_path(parent)}/{name}"
            return path if self._model.element_declarations(path) else name
        return name

    def _children(self, element: etree._Element) -> tuple[str, ...]:
        return self._model.child_names(self._declared_path(element))

    def _attributes(self, element: etree._Element) -> Mapping[str, str]:
        return self._model.attribute_types(self._declared_path(element))

    def _is_ordered(self, element: etree._Element) -> bool:
        return self._model.has_ordered_children(self._declared_path(element))


def _root_message(root: etree._Element) -> str:
    name = local_name(root.tag)
    if name in ("beans", "broker"):
        return f"the root element must be {_root_tag(name)}: <{name}> has another namespace"
    return f"the root element must be {_root_tag('beans')}, not <{name}>"


def _root_tag(name: str) -> str:
    return f'<{name} xmlns="{BEANS if name == "beans" else CORE}">'


def _element_of(root: etree._Element, path: str) -> etree._Element:
    """Return the element at a path of libxml2's, such as ``/*/ns:broker/*[2]``; the nearest one above if none is."""
    element = root
    for step in path.split("/")[2:]:
        name, _, number = step.rstrip("]").partition("[")
        children = [child for child in element.iterchildren(etree.Element) if name in ("*", _prefixed(child))]
        if len(children) < int(number or 1):
            break
        element = children[int(number or 1) - 1]
    return element


def _prefixed(element: etree._Element) -> str:
    return f"{element.prefix}:{local_name(element.tag)}" if element.prefix else local_name(element.tag)


def _suggestion(name: str, known: list[str], form: str, *, few: int = _FEW) -> str:
    similar = most_similar_name(name, known, certain=True)
    if similar:
        return f"; did you mean {form.format(similar)}?"
    if len(known) <= few:
        return f"; the permitted names are {', '.join(form.format(other) for other in known)}"
    return ""


def _plain(message: str) -> str:
    """Return a message of libxml2 without the namespaces of names."""
    return re.sub(r"\{[^}]*\}", "", message).rstrip(". ")
