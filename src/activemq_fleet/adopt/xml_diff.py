"""Compare XML documents by meaning, without comments, whitespace and the order of attributes.

The order of children is significant only if the broker uses it: plugins and destination interceptors are chains, and
Spring's own lists are lists. The broker reads other properties by name, and most lists as sets.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from activemq_fleet.adopt.compared_element import (
    PLACEHOLDERS,
    ComparedElement,
    element_and_descendants,
    is_console_import,
    is_placeholder_bean,
    prefixed_name,
    to_xml,
)
from activemq_fleet.network.connectors import DEFAULT_CONNECTOR_NAME
from activemq_fleet.schema import BEANS

# Attributes that distinguish elements of one name. Paths contain the first one that an element has.
_KEY_ATTRIBUTES = {
    "authenticationUser": ("username",),
    "authorizationEntry": ("queue", "topic"),
    "bean": ("id", "class"),
    "entry": ("key",),
    "networkConnector": ("name",),
    "policyEntry": ("queue", "topic", "tempQueue", "tempTopic"),
    "property": ("name",),
    "queue": ("physicalName",),
    "topic": ("physicalName",),
    "transportConnector": ("name",),
}

Direction = Literal["rendered adds", "rendered lacks", "differs"]


@dataclass(frozen=True, slots=True)
class XmlDifference:
    """A difference between a rendered activemq.xml and its original.

    ``original`` and ``rendered`` are the values on either side, None where the element or attribute is absent; elements
    include all their content, and secrets are ``***``. ``path`` is the path of schema findings, with an identifying
    attribute where siblings share a name, and ``@`` before an attribute.
    """

    host: str
    path: str
    direction: Direction
    original: str | None
    rendered: str | None


def document_differences(
    host: str,
    original: ComparedElement,
    rendered: ComparedElement,
    mask_secrets: Callable[[ComparedElement], ComparedElement],
) -> list[XmlDifference]:
    """Return the differences between an existing activemq.xml and the one rendered from the proposed inventory.

    ``mask_secrets`` returns a document with its secrets masked: secrets are compared and never shown.
    """
    masked_by_id: dict[int, ComparedElement] = {}
    for tree in (original, rendered):
        masked_by_id |= {
            id(node): masked
            for node, masked in zip(
                element_and_descendants(tree), element_and_descendants(mask_secrets(tree)), strict=True
            )
        }
    return list(_Comparison(host, masked_by_id).differences(original.name, original, rendered))


@dataclass(frozen=True, slots=True)
class _Comparison:
    host: str
    masked_by_id: Mapping[int, ComparedElement]
    """Each element, by ``id``, with its secrets masked."""

    def differences(self, path: str, original: ComparedElement, rendered: ComparedElement) -> Iterator[XmlDifference]:
        if original.equivalence_key == rendered.equivalence_key:
            return
        yield from self._attribute_differences(path, original, rendered)
        pairs, removed, added = _pair_children(original.children, rendered.children)
        steps = {**_path_steps(original.children), **_path_steps(rendered.children)}
        for before, after in pairs:
            yield from self.differences(f"{path}/{steps[id(before)]}", before, after)
        for child in removed:
            yield self._difference(
                f"{path}/{steps[id(child)]}", to_xml(self.masked_by_id[id(child)], indent=None), None
            )
        for child in added:
            yield self._difference(
                f"{path}/{steps[id(child)]}", None, to_xml(self.masked_by_id[id(child)], indent=None)
            )
        if original.is_order_of_children_significant and rendered.is_order_of_children_significant:
            yield from self._order_differences(path, pairs, steps, rendered)

    def _attribute_differences(
        self, path: str, original: ComparedElement, rendered: ComparedElement
    ) -> Iterator[XmlDifference]:
        before, after = self.masked_by_id[id(original)], self.masked_by_id[id(rendered)]
        for name in sorted({**original.attributes, **rendered.attributes}):
            if original.attributes.get(name) != rendered.attributes.get(name):
                attribute_path = f"{path}/@{prefixed_name(name)}"
                yield self._difference(attribute_path, before.attributes.get(name), after.attributes.get(name))
        if original.normalized_text != rendered.normalized_text:
            yield self._difference(f"{path}/text()", before.normalized_text or None, after.normalized_text or None)

    def _order_differences(
        self,
        path: str,
        pairs: Sequence[tuple[ComparedElement, ComparedElement]],
        steps: Mapping[int, str],
        rendered: ComparedElement,
    ) -> Iterator[XmlDifference]:
        positions = {id(after): position for position, (_, after) in enumerate(pairs)}
        rendered_order = [positions[id(child)] for child in rendered.children if id(child) in positions]
        if rendered_order != sorted(rendered_order):
            original_steps = ", ".join(steps[id(before)] for before, _ in pairs)
            rendered_steps = ", ".join(steps[id(pairs[position][0])] for position in rendered_order)
            yield self._difference(path, f"in this order: {original_steps}", f"in this order: {rendered_steps}")

    def _difference(self, path: str, before: str | None, after: str | None) -> XmlDifference:
        direction: Direction = "rendered adds" if before is None else "rendered lacks" if after is None else "differs"
        return XmlDifference(self.host, path, direction, before, after)


def _pair_children(
    originals: Sequence[ComparedElement], rendered: Sequence[ComparedElement]
) -> tuple[list[tuple[ComparedElement, ComparedElement]], list[ComparedElement], list[ComparedElement]]:
    """Return pairs of matching children of two XML elements, and the children of each without a match.

    The pairs (original, rendered) are in the order of the original.
    """
    counterparts: dict[int, ComparedElement] = {}
    unmatched = list(rendered)
    for key_of in (lambda node: node.equivalence_key, _identity_key, _listening_address):
        unmatched_by_key: dict[Any, deque[ComparedElement]] = defaultdict(deque)
        for node in unmatched:
            unmatched_by_key[key_of(node)].append(node)
        for node in originals:
            if id(node) not in counterparts and unmatched_by_key[key_of(node)]:
                counterparts[id(node)] = unmatched_by_key[key_of(node)].popleft()
        used = {id(node) for node in counterparts.values()}
        unmatched = [node for node in unmatched if id(node) not in used]
    pairs = [(node, counterparts[id(node)]) for node in originals if id(node) in counterparts]
    return pairs, [node for node in originals if id(node) not in counterparts], unmatched


def _identity_key(node: ComparedElement) -> tuple[str, ...]:
    if is_placeholder_bean(node):
        return BEANS, PLACEHOLDERS
    if is_console_import(node):
        return node.tag, "console"
    if node.name == "networkConnector":
        return node.tag, node.get("name", DEFAULT_CONNECTOR_NAME)
    return node.tag, *(node.get(name) for name in _KEY_ATTRIBUTES.get(node.name, ()))


def _listening_address(node: ComparedElement) -> object:
    """Return a key that is equal for transportConnectors with one address, and unique for other elements."""
    return (node.tag, node.get("uri").partition("?")[0]) if node.name == "transportConnector" else id(node)


def _path_steps(siblings: Iterable[ComparedElement]) -> dict[int, str]:
    """Return the path step of each of the elements below one XML element, by ``id``."""
    siblings = list(siblings)
    totals = Counter(node.tag for node in siblings)
    counts: Counter[str] = Counter()
    steps = {}
    for node in siblings:
        counts[node.tag] += 1
        steps[id(node)] = f"{node.name}[{counts[node.tag]}]" if totals[node.tag] > 1 else node.name
        for name in _KEY_ATTRIBUTES.get(node.name, ()):
            if node.get(name):
                steps[id(node)] = f"{node.name}[@{name}='{node.get(name)}']"
                break
    return steps
