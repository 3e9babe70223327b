"""Merge the user's XML (``activemq_xml_fragments``) into activemq.xml, in the order of the schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lxml import etree

from activemq_fleet.errors import SettingsError
from activemq_fleet.schema import BEANS, CORE, xml_parser
from activemq_fleet.settings.broker import FragmentSettings
from activemq_fleet.topology import Broker

_BROKER = f"{{{CORE}}}broker"
# Beans of lists that a broker has once, or once for each value of these attributes.
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
_SPRINGS_OWN = frozenset({f"{{{CORE}}}{name}" for name in ("alias", "bean", "import")})

# Properties that we fill and that hold one bean: another kind of bean takes its place.
_HOLDS_ONE = frozenset({"ioExceptionHandler", "locker", "persistenceAdapter"})


def merge_fragments(document: bytes, broker: Broker) -> bytes:
    """Return the activemq.xml ``document`` with each of ``activemq_xml_fragments`` merged below its parent element.

    The schema alternates: a bean (``broker``, ``kahaDB``) contains its properties (``plugins``, ``locker``), and a
    property contains beans. A property goes to its alphabetical place, or into the existing one, because each may occur
    only once up to 5.5. A bean is added to a list of beans, or merged with the bean that it would contradict: its
    attributes replace those of the rendered bean, and its properties are added. A different kind of store, locker or
    exception handler replaces the rendered one. Raises SettingsError that names the fragment.
    """
    root = etree.fromstring(document, xml_parser())
    for position, fragment in enumerate(broker.settings.xml_fragments):
        where = f"{broker.host}: activemq_xml_fragments[{position}]"
        elements = _parse(fragment, where)
        names = [] if fragment.parent == "beans" else fragment.parent.split("/")
        parent = _find_or_create_parent(root, names, where)
        for element in elements:
            if element.tag == _BROKER and parent is root:
                raise SettingsError(
                    f"{where}.xml contains <broker>, which activemq.xml has already: set parent to broker, and write "
                    "only its child elements"
                )
            (_put_property if len(names) % 2 else _put_bean)(parent, element)
    etree.indent(root)
    return etree.tostring(root.getroottree(), xml_declaration=True, encoding="UTF-8") + b"\n"


def _parse(fragment: FragmentSettings, where: str) -> list[etree._Element]:
    try:
        root = _parse_in_namespace(fragment.xml, CORE)
        if fragment.parent == "beans" and {child.tag for child in root} <= _SPRINGS_OWN:
            root = _parse_in_namespace(fragment.xml, BEANS)
    except (etree.XMLSyntaxError, UnicodeEncodeError, ValueError) as error:
        raise SettingsError(f"{where}.xml is not well-formed XML ({error}): correct it") from None
    if any(isinstance(node, etree._Entity) for node in root.iter()):
        raise SettingsError(f"{where}.xml declares or uses an XML entity: replace the entity by its text")
    elements = [child for child in root if isinstance(child.tag, str)]
    if not elements or any((text or "").strip() for text in (root.text, *(child.tail for child in root))):
        raise SettingsError(
            f"{where}.xml has no element, or text outside of elements: write one or more elements, such as "
            "<plugins>…</plugins>"
        )
    return elements


def _parse_in_namespace(xml: str, namespace: str) -> etree._Element:
    return etree.fromstring(f'<fragment xmlns="{namespace}">{xml}</fragment>'.encode(), xml_parser())


def _find_or_create_parent(root: etree._Element, names: Sequence[str], where: str) -> etree._Element:
    parent = root
    for depth, name in enumerate(names):
        child = parent.find(f"{{{CORE}}}{name}")
        if child is None and parent is root:
            raise SettingsError(f"{where}.parent begins with {name!r}: begin it with broker, such as broker/plugins")
        if child is None:
            child = etree.Element(f"{{{CORE}}}{name}")
            (_put_property if depth % 2 else _put_bean)(parent, child)
        parent = child
    return parent


def _put_property(bean: etree._Element, element: etree._Element) -> None:
    element.tail = None
    same = bean.find(str(element.tag))
    if same is not None:
        _merge(same, element, _put_bean)
        return
    later = (child for child in bean if isinstance(child.tag, str) and _name(child) > _name(element))
    before = next(later, None)
    if before is None:
        bean.append(element)
    else:
        before.addprevious(element)


def _put_bean(parent: etree._Element, element: etree._Element) -> None:
    element.tail = None
    same = next(
        (child for child in parent.findall(str(element.tag)) if _exclude_each_other(child, element, parent)), None
    )
    if same is not None:
        _merge(same, element, _put_property)
        return
    if _name(parent) in _HOLDS_ONE:
        for other in list(parent):
            parent.remove(other)
    parent.append(element)


def _exclude_each_other(bean: etree._Element, other_bean: etree._Element, parent: etree._Element) -> bool:
    """Return whether a property cannot hold both of two beans of the same kind."""
    if not str(bean.tag).startswith(f"{{{CORE}}}") or parent.tag == f"{{{BEANS}}}beans":
        return False
    if not _name(parent).endswith("s"):  # in every schema the names of properties that hold lists end with s
        return True
    key_attributes = TOLD_APART_BY.get(_name(bean))
    if key_attributes is None:
        return False
    # beans without any key attribute are different: links without a name, policies for temporary destinations
    is_identified = not key_attributes or any(bean.get(name) is not None for name in key_attributes)
    return is_identified and all(bean.get(name) == other_bean.get(name) for name in key_attributes)


def _merge(
    into: etree._Element, element: etree._Element, put: Callable[[etree._Element, etree._Element], None]
) -> None:
    for name, value in element.attrib.items():
        into.set(name, value)
    for child in list(element):
        if isinstance(child.tag, str):
            put(into, child)
        else:
            into.append(child)  # type: ignore[unreachable] # lxml-stubs: a comment's tag is a function


def _name(element: etree._Element) -> str:
    return etree.QName(element).localname
