"""Explain in plain words why a document is invalid; this module gets only invalid documents."""

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
_MAXIMUM_LISTED_NAMES = 6
_MAXIMUM_PROBLEMS = 50  # problems that are reported per document
_MAXIMUM_VALIDATIONS = 50
_LARGEST_VALUES = {"integer": (1 << 31) - 1, "long": (1 << 63) - 1, "short": (1 << 15) - 1}
_WHOLE_NUMBER = re.compile(r"[+-]?\d+")
_PERMITTED_BY_TYPE = {
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

    ``name`` is the intended name of the element or attribute; ``order`` the names of the siblings of the element in
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
        """Return the reasons why an XML document is invalid against ``activemq.xsd``, sorted by line and column.

        At most 50 problems are returned.
        """
        positions = XmlPositions(decode_xml_document(document, root.getroottree().docinfo.encoding), root)
        if root.tag not in ROOTS:
            name = local_name(root.tag)
            fix = f"write {_root_tag(name)}" if name in ("beans", "broker") else ""
            explained = [_Explanation(root, _root_message(root), fix=fix)]
        else:
            explained = [self._explain_misplaced_child(root, element) for element in misplaced_elements]
            explained += islice(self._explanations(root), _MAXIMUM_PROBLEMS)
        problems = set()
        for reason in explained[:_MAXIMUM_PROBLEMS]:
            element, attribute = reason.element, reason.attribute
            position = (
                positions.attribute_position(element, attribute) if attribute else positions.element_position(element)
            )
            edits = reason.xml_repair_edits(positions)
            fix = reason.fix or (f"write {reason.name}" if reason.name else "")
            problems.add(SchemaProblem(*position, element_path(element), reason.message, fix, edits))
        return tuple(sorted(problems))

    def _explanations(self, root: etree._Element) -> Iterator[_Explanation]:
        """Yield an explanation of each error that libxml2 finds in a document.

        libxml2 stops at an invalid element, so the document is validated again without that element.
        """
        remaining = deepcopy(root)
        original = dict(zip(remaining.iter(), root.iter(), strict=True))
        reported: set[etree._Element] = set()
        for _ in range(_MAXIMUM_VALIDATIONS):
            if self._compiled.validate(remaining):
                return
            entries = list(islice(cast("Iterable[etree._LogEntry]", self._compiled.error_log), _MAXIMUM_PROBLEMS))
            for entry, element in [(entry, _element_at_path(remaining, entry.path or "")) for entry in entries]:
                yield from self._explain_and_remove(element, entry, original, reported)

    def _explain_and_remove(
        self,
        element: etree._Element,
        entry: etree._LogEntry,
        original: Mapping[etree._Element, etree._Element],
        reported: set[etree._Element],
    ) -> Iterator[_Explanation]:
        """Yield an explanation of an error of libxml2 about an element, and remove its cause from the document.

        ``original`` maps the elements of this document to those of the complete one.
        ``reported`` contains the elements for which a misplaced child was reported.
        """
        original_element, parent, message = original[element], element.getparent(), entry.message
        outer = original_element.getparent()
        attribute = _ATTRIBUTE.search(message)
        if attribute and attribute[1] in element.attrib:
            name, value = local_name(attribute[1]), " ".join(str(element.attrib.pop(attribute[1])).split())
            is_unknown = message.endswith("is not allowed.")
            if is_unknown:
                intended_name = sole_similar_name(
                    name, self._allowed_attributes(original_element), self._model.words_in_declared_names
                )
                yield _Explanation(
                    original_element,
                    self._no_attribute_message(original_element, name),
                    attribute[1],
                    name=intended_name,
                )
            else:
                fix = f"set {name} to {self._permitted_value(original_element, name, value)}"
                yield _Explanation(
                    original_element, self._bad_value_message(original_element, name, value), attribute[1], fix=fix
                )
        elif "Character content" in message:
            element.text = None
            for child in element:
                child.tail = None
            name = local_name(original_element.tag)
            fix = f"remove the text between the elements of <{name}>, such as a character after a tag"
            yield _Explanation(original_element, f"<{name}> contains text, but allows only elements", fix=fix)
        elif "Element content" in message:
            for child in list(element.iterchildren(etree.Element)):
                element.remove(child)
                yield self._explain_misplaced_child(original_element, original[child])
        elif parent is None or outer is None:
            yield _Explanation(
                original_element, f"<{local_name(original_element.tag)}>: {_without_namespaces(message)}"
            )
        else:
            parent.remove(element)
            if entry.type != etree.ErrorTypes.SCHEMAV_ELEMENT_CONTENT:
                yield self._explain_foreign_element(original_element)
                return
            in_sequence = local_name(original_element.tag) in self._allowed_children(outer) and self._is_ordered(outer)
            if in_sequence:
                self._move_before_followers(element, parent, self._allowed_children(outer))
            if not in_sequence:
                yield self._explain_misplaced_child(outer, original_element)
            elif outer not in reported:  # The first element out of order causes the others.
                yield self._explain_misordered_child(outer, original_element)
            reported.add(outer)

    def _explain_misordered_child(self, parent: etree._Element, child: etree._Element) -> _Explanation:
        """Return an explanation of a repeated child, or of a child that follows a sibling that it must precede."""
        explanation = self._explain_misplaced_child(parent, child)
        return replace(explanation, order=self._allowed_children(parent))

    def _later_sibling(self, parent: etree._Element, child: etree._Element) -> str:
        """Return the name of the nearest preceding sibling that the schema requires after a child; "" without one."""
        allowed, name = self._allowed_children(parent), local_name(child.tag)
        preceding = [local_name(other.tag) for other in child.itersiblings(etree.Element, preceding=True)]
        if name in preceding or not self._is_ordered(parent):
            return ""
        later = [other for other in preceding if other in allowed and allowed.index(other) > allowed.index(name)]
        return later[-1] if later else ""

    def _move_before_followers(self, element: etree._Element, parent: etree._Element, names: tuple[str, ...]) -> None:
        """Move an element before those that must follow it, to validate its content.

        A second element of a name is not moved.
        """
        later = names[names.index(local_name(element.tag)) + 1 :]
        follower = next((child for child in parent.iterchildren(etree.Element) if local_name(child.tag) in later), None)
        if follower is not None and parent.find(element.tag) is None:
            follower.addprevious(element)

    def _explain_misplaced_child(self, parent: etree._Element, child: etree._Element) -> _Explanation:
        name = local_name(child.tag)
        allowed_names = (
            self._model.global_element_declarations
            if local_name(parent.tag) == "beans"
            else self._allowed_children(parent)
        )
        is_misspelled = child.tag.startswith(f"{{{CORE}}}") and name not in allowed_names
        intended_name = (
            sole_similar_name(name, allowed_names, self._model.words_in_declared_names) if is_misspelled else ""
        )
        fix = "" if intended_name else self._placement_fix(parent, child)
        return _Explanation(child, self._misplaced_message(parent, child), name=intended_name, fix=fix)

    def _explain_foreign_element(self, element: etree._Element) -> _Explanation:
        intended_name = ""
        if etree.QName(element).namespace == CORE:
            intended_name = sole_similar_name(
                local_name(element.tag), self._model.global_element_declarations, self._model.words_in_declared_names
            )
        return _Explanation(element, self._foreign_message(element), name=intended_name)

    def _misplaced_message(self, parent: etree._Element, child: etree._Element) -> str:
        allowed = self._allowed_children(parent)
        name, parent_name = local_name(child.tag), local_name(parent.tag)
        if name not in allowed or not child.tag.startswith(f"{{{CORE}}}"):
            return self._no_child_message(parent, child)
        preceding = [local_name(other.tag) for other in child.itersiblings(etree.Element, preceding=True)]
        if name in preceding:
            return f"<{name}> is allowed only once in <{parent_name}> in this release"
        if later := self._later_sibling(parent, child):
            return (
                f"<{name}> must be before <{later}>: this release requires an order of the children of <{parent_name}>"
            )
        if preceding:
            return f"<{parent_name}> allows only one element in this release: <{name}> cannot follow <{preceding[0]}>"
        return self._no_child_message(parent, child)

    def _placement_fix(self, parent: etree._Element, child: etree._Element) -> str:
        """Return the fix for a child that its parent allows at another place only; "" for any other child."""
        name, parent_name = local_name(child.tag), local_name(parent.tag)
        preceding = [local_name(other.tag) for other in child.itersiblings(etree.Element, preceding=True)]
        if name not in self._allowed_children(parent) or not child.tag.startswith(f"{{{CORE}}}") or not preceding:
            return ""
        if later := self._later_sibling(parent, child):
            return f"move <{name}> before <{later}>"
        return (
            f"keep only one <{name}> in <{parent_name}>"
            if name in preceding
            else f"keep only one element in <{parent_name}>"
        )

    def _no_child_message(self, parent: etree._Element, child: etree._Element) -> str:
        name, parent_name = local_name(child.tag), local_name(parent.tag)
        if child.tag == f"{{{BEANS}}}{name}" and name in self._model.global_element_declarations:
            return f'<{name}> lacks xmlns="{CORE}"'
        allowed_names = (
            sorted(self._model.global_element_declarations)
            if parent_name == "beans"
            else list(self._allowed_children(parent))
        )
        text = f"<{name}> is not allowed in <{parent_name}> in this release"
        return text + _suggestion(name, allowed_names, "<{}>") if allowed_names else text

    def _no_attribute_message(self, element: etree._Element, name: str) -> str:
        text = f"<{local_name(element.tag)}> has no attribute {name} in this release"
        return text + _suggestion(name, list(self._allowed_attributes(element)), "{}", limit=0)

    def _permitted_value(self, element: etree._Element, name: str, value: str) -> str:
        """Return a description of the values that the schema permits for an attribute, such as ``true or false``."""
        kind = self._allowed_attributes(element).get(name, "")
        permitted = _PERMITTED_BY_TYPE.get(kind, "a value that the schema of this release accepts")
        return (
            f"{permitted} up to {_LARGEST_VALUES[kind]}"
            if kind in _LARGEST_VALUES and _WHOLE_NUMBER.fullmatch(value)
            else permitted
        )

    def _bad_value_message(self, element: etree._Element, name: str, value: str) -> str:
        shortened_value = value if len(value) <= 60 else f"{value[:60]}…"
        permitted = self._permitted_value(element, name, value)
        return f'{name}="{shortened_value}" of <{local_name(element.tag)}> must be {permitted}'

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

    def _allowed_children(self, element: etree._Element) -> tuple[str, ...]:
        return self._model.child_names(self._declared_path(element))

    def _allowed_attributes(self, element: etree._Element) -> Mapping[str, str]:
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


def _element_at_path(root: etree._Element, path: str) -> etree._Element:
    """Return the element at a path of libxml2, such as ``/*/ns:broker/*[2]``, or else its nearest existing ancestor."""
    element = root
    for step in path.split("/")[2:]:
        name, _, number = step.rstrip("]").partition("[")
        children = [child for child in element.iterchildren(etree.Element) if name in ("*", _prefixed_name(child))]
        if len(children) < int(number or 1):
            break
        element = children[int(number or 1) - 1]
    return element


def _prefixed_name(element: etree._Element) -> str:
    return f"{element.prefix}:{local_name(element.tag)}" if element.prefix else local_name(element.tag)


def _suggestion(name: str, known_names: list[str], form: str, *, limit: int = _MAXIMUM_LISTED_NAMES) -> str:
    similar = most_similar_name(name, known_names, certain=True)
    if similar:
        return f"; did you mean {form.format(similar)}?"
    if len(known_names) <= limit:
        return f"; the permitted names are {', '.join(form.format(other) for other in known_names)}"
    return ""


def _without_namespaces(message: str) -> str:
    """Return a message of libxml2 without the namespaces of names."""
    return re.sub(r"\{[^}]*\}", "", message).rstrip(". ")
