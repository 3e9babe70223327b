"""Find the lines of an inventory that define a variable, or the part of a variable that a finding is about."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from activemq_fleet.findings import Finding, InventoryVariablesOfValue
from activemq_fleet.naming import PATTERN_VARIABLE, PREFIX
from activemq_fleet.node.text_lines import split_lines
from activemq_fleet.value_origins import KIND, matching_start_tags

_VARIABLE = re.compile(r"\w+")
_WORD = re.compile(r"[^\s,:;\"'()]+")
_FRAGMENTS_VARIABLE = f"{PREFIX}xml_fragments"
_LITERAL_BLOCK = re.compile(r"\|[-+0-9]*\s*(?:#.*)?$")


@dataclass(frozen=True, slots=True)
class Position:
    """A position (file and line) in an inventory.

    ``line`` is 1-based. ``value`` is the value of the variable that is defined there, as Ansible read it.
    """

    file: str
    line: int
    value: Any = field(default=None, compare=False, repr=False)


Positions = Mapping[str, Position]
"""The positions of one host's variables by name; the position of the host itself has the name ""."""


def position_of_finding(positions: Positions, finding: Finding) -> Position | None:
    """Return the position (file and line) of a finding in the inventory.

    The position is that of ``position_of_reported_value``, else that of the finding's host.
    """
    return position_of_reported_value(positions, finding) or positions.get("")


def position_of_reported_value(positions: Positions, finding: Finding) -> Position | None:
    """Return the position in the inventory of the variable value that a finding reports.

    None is returned if no variable of its host is known. The variable is the one from which a rendered value came, else
    the first one that the finding names. A name that does not match the naming pattern is a mistake in the line of the
    host, and not in that of the pattern.
    """
    variables = {name: position for name, position in positions.items() if name not in ("", PATTERN_VARIABLE)}
    value_position = finding.origin and _position_of_origin(variables, finding.origin, finding.message)
    return value_position or position_of_first_variable_in_text(variables, finding.message)


def position_of_first_variable_in_text(
    positions: Positions, text: str, set_variables: Container[str] = ()
) -> Position | None:
    """Return the position in the inventory of the first variable that a text names, or None.

    ``positions`` maps the names of one host's variables to their positions. The result is None as well if this variable
    is one of ``set_variables`` and has no position, because the command line sets it.
    """
    for name in _VARIABLE.findall(text):
        if name in positions:
            return positions[name]
        if name in set_variables:
            return None
    return None


def _position_of_origin(positions: Positions, origin: InventoryVariablesOfValue, message: str) -> Position | None:
    if _FRAGMENTS_VARIABLE in positions and origin.element:
        fragment_position = _position_in_fragments(positions[_FRAGMENTS_VARIABLE], origin)
        if fragment_position:
            return fragment_position
    entry = max(_entries(positions, origin), key=lambda entry: entry.score, default=None)
    if entry and entry.score:
        return entry.position_of_reported_value_or_key(origin, message)
    return next((positions[name] for name in origin.settings if name in positions), None)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A key or a value inside a variable; ``key`` is the name below which a value is."""

    text: str
    key: str
    is_key: bool
    position: Position | None


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of a list or mapping, or the complete value of another variable.

    ``score`` is higher, the more of the rendered element the entry contains; 0 if nothing.
    """

    position: Position
    leaves: tuple[_Leaf, ...]
    score: int

    def position_of_reported_value_or_key(self, origin: InventoryVariablesOfValue, finding_message: str) -> Position:
        """Return the position of the value that a finding reports, or of the value's key, in an entry of the inventory.

        A value that the finding's message quotes precedes the key, and the key any other reported value. Without all of
        them, the position is that of the entry. ``origin`` identifies the value inside of the entry's variable.
        """
        words = {word.strip(".") for word in _WORD.findall(finding_message)}
        attribute, _ = _reported_attribute(origin)
        candidates = (
            [leaf for leaf in self.leaves if leaf.text in origin.reported and leaf.text in words],
            [leaf for leaf in self.leaves if leaf.is_key and _normalized_name(leaf.text) == attribute],
            [leaf for leaf in self.leaves if leaf.text in origin.reported and not leaf.is_key],
        )
        leaves = next(filter(None, candidates), [])
        return next((leaf.position for leaf in leaves if leaf.position), self.position)


def _entries(positions: Positions, origin: InventoryVariablesOfValue) -> Iterator[_Entry]:
    for name in origin.parts:
        position = positions.get(name)
        if position is None:
            continue
        if isinstance(position.value, Mapping) and not origin.is_attribute:
            continue  # A position of the complete element does not belong to one of the keys.
        for key, value in _keyed_items(position.value):
            leaves = (*_key_leaf(key), *_leaves(value, str(key)))
            first_position = leaves[0].position if leaves else None
            begin = _position_of_value(value) if key is None else first_position
            yield _Entry(begin or first_position or position, leaves, _score(leaves, origin))


def _keyed_items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from ((None, item) for item in value)
    else:
        yield None, value


def _leaves(value: Any, key: str = "") -> Iterator[_Leaf]:
    if isinstance(value, bool):
        yield _Leaf(str(value).lower(), key, False, None)
    elif isinstance(value, str | int | float):
        yield _Leaf(_without_destination_prefix(str(value)), key, False, _position_of_value(value))
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _key_leaf(name)
            yield from _leaves(inner, str(name))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item, key)


def _key_leaf(key: Any) -> Iterator[_Leaf]:
    if isinstance(key, str):
        yield _Leaf(str(key), str(key), True, _position_of_value(key))


def _score(leaves: tuple[_Leaf, ...], origin: InventoryVariablesOfValue) -> int:
    """Return the score of an inventory entry: the number of texts of the rendered element in it.

    The key of the reported attribute counts twice. Entries of several elements can have this key, so that the same
    value below it counts as well.
    """
    attribute, value = _reported_attribute(origin)
    below_key = [leaf for leaf in leaves if _normalized_name(leaf.key) == attribute]
    texts = {leaf.text for leaf in leaves}.intersection(origin.identifying)
    by_key = 2 if below_key else 0
    return len(texts) + by_key + any(leaf.text == value for leaf in below_key)


def _reported_attribute(origin: InventoryVariablesOfValue) -> tuple[str, str]:
    """Return the normalized name and the value of the reported attribute; ("", "") for a complete element."""
    if not origin.is_attribute:
        return "", ""
    [(name, value)] = origin.attributes
    return _normalized_name(name), _without_destination_prefix(value)


def _normalized_name(name: str) -> str:
    """Return a name of an attribute or a key in one form: ``memoryLimit`` and ``memory_limit`` are equal."""
    return name.replace("_", "").lower()


def _without_destination_prefix(text: str) -> str:
    return KIND.sub("", text, count=1)


def _position_of_value(value: Any) -> Position | None:
    from activemq_fleet._ansible_internals import variable_origin

    origin = variable_origin("", value)
    return Position(*origin, value) if origin else None


def _position_in_fragments(position: Position, origin: InventoryVariablesOfValue) -> Position | None:
    """Return the line of the XML fragment that sets the reported attribute or contains the element; None without one.

    If several fragments set the attribute to this value, the result is the line of the start tag that has the most
    attributes of the rendered element, such as the same queue.
    """
    fragment_matches = [
        (match.shared_attributes, leaf.position, match.line_offset)
        for leaf in _leaves(position.value)
        if leaf.key == "xml" and leaf.position is not None
        for match in matching_start_tags(str(leaf.position.value), origin)
    ]
    if not fragment_matches:
        return None
    _, fragment, offset = max(fragment_matches, key=lambda entry: entry[0])
    return _line_inside(fragment, offset)


def _line_inside(position: Position, offset: int) -> Position:
    """Return the position of a later line of a text; that of its first line unless the text is a literal block."""
    try:
        with open(position.file, encoding="utf-8") as file:
            lines = split_lines(file.read())
    except (OSError, UnicodeDecodeError):
        return position
    first = lines[position.line - 1] if position.line <= len(lines) else ""
    return Position(position.file, position.line + 1 + offset) if _LITERAL_BLOCK.search(first) else position
