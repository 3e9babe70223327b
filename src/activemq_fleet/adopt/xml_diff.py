"""Compare XML documents by meaning, without comments, whitespace and the order of attributes.

The order of children is significant only if the broker uses it: plugins and destination interceptors are chains, and
Spring's own lists are lists. The broker reads other properties by name, and most lists as sets.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal
from xml.sax.saxutils import escape

from lxml import etree

from activemq_fleet.render.engine import escape_xml_attribute
from activemq_fleet.schema import BEANS, CORE

_LINE_WIDTH = 105
UNNAMED_BRIDGE = "NC"
"""The default name of a networkConnector (NetworkBridgeConfiguration of the release tags)."""
XSI = "http://www.w3.org/2001/XMLSchema-instance"
_ORDERED_ELEMENTS = frozenset({"plugins", "destinationInterceptors"})
_PREFIXES = {XSI: "xsi", "http://www.w3.org/XML/1998/namespace": "xml"}
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
PLACEHOLDERS = "PlaceholderConfigurer"
"""The end of the class names of Spring's beans that replace ``${name}``."""
_CONTEXT_NAMESPACE = "http://www.springframework.org/schema/context"
_DEFAULT_PREFIX = "${"

Direction = Literal["rendered adds", "rendered lacks", "differs"]


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
    def comparison_key(self) -> tuple[Any, ...]:
        """The comparison key of the XML element, which is equal for elements that mean the same."""
        children = [child.comparison_key for child in self.children]
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


def element_and_descendants(node: ComparedElement) -> Iterator[ComparedElement]:
    """Yield an XML element and all its descendants, in document order."""
    yield node
    for child in node.children:
        yield from element_and_descendants(child)


@dataclass(frozen=True, slots=True)
class _Comparison:
    host: str
    masked_by_id: Mapping[int, ComparedElement]
    """Each element, by ``id``, with its secrets masked."""

    def differences(self, path: str, original: ComparedElement, rendered: ComparedElement) -> Iterator[XmlDifference]:
        if original.comparison_key == rendered.comparison_key:
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
                attribute_path = f"{path}/@{_prefixed_name(name)}"
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
    for key_of in (lambda node: node.comparison_key, _identity_key, _listening_address):
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
        return node.tag, node.get("name", UNNAMED_BRIDGE)
    return node.tag, *(node.get(name) for name in _KEY_ATTRIBUTES.get(node.name, ()))


def _listening_address(node: ComparedElement) -> object:
    """Return a key that is equal for transportConnectors with one address, and unique for other elements."""
    return (node.tag, node.get("uri").partition("?")[0]) if node.name == "transportConnector" else id(node)


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


def _prefixed_name(name: str) -> str:
    namespace, _, local = name.removeprefix("{").rpartition("}")
    return f"{_PREFIXES.get(namespace, 'ns')}:{local}" if namespace else local


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
    prefixed = _prefixed_name(name)
    prefix = prefixed.partition(":")[0]
    declaration = f' xmlns:{prefix}="{escape_xml_attribute(namespace)}"' if namespace and prefix != "xml" else ""
    return f'{declaration} {prefixed}="{escape_xml_attribute(value)}"'
