"""Variables whose keys are attributes and properties of one XML element: how they become XML for a release.

A key is the name in the broker's own schema in small letters, words apart: ``queue_prefetch`` is ``queuePrefetch``. The
releases that have it are defined by :class:`~activemq_fleet.releases.Release`, and not here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, model_validator

from activemq_fleet.releases import Release, describe_releases_with
from activemq_fleet.settings import variable_types


@dataclass(frozen=True, slots=True)
class XmlElement:
    """An XML element of an activemq.xml that is to be rendered.

    It has its name, attributes and children. ``comment`` is written before it.
    """

    name: str
    attributes: tuple[tuple[str, str], ...] = ()
    children: tuple[XmlElement, ...] = ()
    comment: str = ""


class MissingFeature(NamedTuple):
    """An XML element or attribute in a setting that an ActiveMQ release does not have.

    It contains the variable's key, the XML name, and the releases that have it.
    """

    key: str
    name: str
    releases: str


class XmlBean(BaseModel):
    """The base class of pydantic models for the settings of one XML element of activemq.xml.

    The fields are the element's attributes and properties. A field with the value None is omitted. A key whose value is
    a bean is a property, an element around that bean's. ``PROPERTIES`` names those that the schema has as elements
    alone, or under another name. ``NOT_WRITTEN`` are keys that a bean writes itself, ``IMPLIED`` those that no
    inventory sets.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    ELEMENT: ClassVar[str] = ""
    PROPERTIES: ClassVar[Mapping[str, str]] = {}
    NOT_WRITTEN: ClassVar[frozenset[str]] = frozenset({"type"})
    IMPLIED: ClassVar[frozenset[str]] = frozenset()

    def xml_element_name(self) -> str:
        """Return the name of the activemq.xml element that is rendered from these settings."""
        return self.ELEMENT

    def leading_xml_attribute_pairs(self) -> tuple[tuple[str, str], ...]:
        """Return the attributes that come first in the element of this bean, as a tuple of (name, value) tuples.

        Every release has these attributes.
        """
        return ()


class BeanWithForbiddenKeys(XmlBean):
    """The settings of one XML element; keys for attributes that another inventory variable sets are rejected.

    ``REFUSED`` maps each of these keys to a text that names the variable to use instead.
    """

    REFUSED: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _refuse_what_others_decide(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and (refused := sorted(cls.REFUSED.keys() & value.keys())):
            raise ValueError(f"the key {refused[0]!r} is not supported in this variable: {cls.REFUSED[refused[0]]}")
        return value


class BeanWithTypeKey(XmlBean):
    """A bean whose field ``type`` selects its XML element.

    The elements are in ``ELEMENTS``. A plain text is a bean with this type alone. A key that the type's element has in
    no release is an error, and so is a missing one of ``REQUIRED``.
    """

    ELEMENTS: ClassVar[Mapping[str, str]] = {}
    REQUIRED: ClassVar[Mapping[str, str]] = {}
    type: str

    @model_validator(mode="before")
    @classmethod
    def _type_alone(cls, value: Any) -> Any:
        return {"type": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _keys_are_of_the_type(self) -> Self:
        kind = self.type
        if (needed := self.REQUIRED.get(kind)) and getattr(self, needed) is None:
            raise ValueError(f"a setting with `type: {kind}` requires the key {needed}: set {needed}")
        for key in type(self).model_fields:
            if key in {*self.NOT_WRITTEN, *self.PROPERTIES} or getattr(self, key) is None:
                continue
            if not describe_releases_with(self.xml_element_name(), key):
                raise ValueError(
                    f"a setting with `type: {kind}` does not support the key {key}: remove {key}, or set another type"
                )
        return self

    def xml_element_name(self) -> str:
        """Return the name of the activemq.xml element for these settings, given by their key ``type``."""
        return self.ELEMENTS[self.type]


class NamedDestination(XmlBean):
    """A destination written as the XML element ``<queue physicalName="orders"/>``, from the text ``queue://orders``."""

    name: variable_types.DestinationPattern
    NOT_WRITTEN: ClassVar[frozenset[str]] = frozenset({"name"})

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    def xml_element_name(self) -> str:
        """Return the name of the destination's XML element, ``queue`` or ``topic``."""
        return self.name.partition("://")[0]

    def leading_xml_attribute_pairs(self) -> tuple[tuple[str, str], ...]:
        """Return the attributes to render first in the destination's element: only ``(("physicalName", NAME),)``."""
        return (("physicalName", self.name.partition("://")[2]),)


def _check_no_wildcard(text: str) -> str:
    """Return a destination's name unchanged, and raise ValueError if it contains a wildcard."""
    if {"*", ">"} & set(text.partition("://")[2].split(".")):
        raise ValueError(f"the destination {text!r} contains the wildcard * or >: name a single destination")
    return text


OneDestination = Annotated[variable_types.DestinationPattern, AfterValidator(_check_no_wildcard)]


class SwitchableBean(XmlBean):
    """A bean (settings of one XML element) that the value ``true`` enables with all its defaults."""

    @model_validator(mode="before")
    @classmethod
    def _true_is_all_defaults(cls, value: Any) -> Any:
        return {} if value is True else value


OffIsNone = BeforeValidator(lambda value: None if value is False else value)


class DestinationPatternBean(XmlBean):
    """A bean for the destinations that match ``destination`` (a name or wildcard) and ``kind``.

    Temporary destinations have no name.
    """

    destination: variable_types.Destination | None = None
    kind: Literal["queue", "topic", "temp_queue", "temp_topic"]
    NOT_WRITTEN: ClassVar[frozenset[str]] = frozenset({"destination", "kind"})

    @model_validator(mode="after")
    def _has_a_name(self) -> Self:
        if self.kind.startswith("temp") != (self.destination is None):
            if self.destination:
                raise ValueError(
                    f"an entry with `kind: {self.kind}` does not support the key destination: remove destination"
                )
            raise ValueError(
                f"an entry with `kind: {self.kind}` requires the key destination: set destination to a name such as "
                "orders.new, or a wildcard such as orders.>"
            )
        return self

    def leading_xml_attribute_pairs(self) -> tuple[tuple[str, str], ...]:
        """Return the attributes to render first in the element: its destination, such as ``(("queue", "a.>"),)``."""
        if self.destination is None:
            return ((f"temp{self.kind[5:].capitalize()}", "true"),)
        return ((self.kind, self.destination),)


def bean_to_xml(bean: XmlBean, release: Release) -> XmlElement | None:
    """Return settings as the element of activemq.xml that they describe, without attributes unknown to the release.

    Its children are in schema order. The result is None if the release does not have the element.
    ``find_missing_features`` returns what is left out.
    """
    name = bean.xml_element_name()
    if not release.supports(name):
        return None
    attributes, children = list(bean.leading_xml_attribute_pairs()), []
    for field, value in _set_fields(bean):
        xml_name = bean.PROPERTIES.get(field) or release.xml_attribute_for_key(name, field)
        if xml_name is None:
            continue
        if isinstance(value, XmlBean | tuple):
            beans = value if isinstance(value, tuple) else (value,)
            elements = (bean_to_xml(nested, release) for nested in beans)
            children.append(XmlElement(xml_name, (), tuple(element for element in elements if element is not None)))
        else:
            attributes.append((xml_name, str(variable_types.option_text(value))))
    kept = sorted((child for child in children if child.children), key=lambda child: child.name)
    return XmlElement(name, tuple(attributes), tuple(kept))


def find_missing_features(bean: XmlBean, release: Release, key: str) -> Iterator[MissingFeature]:
    """Yield the XML elements and attributes that a bean sets and an ActiveMQ release does not have.

    ``key`` is the bean's place in the inventory, ``activemq_destination_policies[0]``.
    """
    name = bean.xml_element_name()
    if not release.supports(name):
        yield MissingFeature(key, f"<{name}>", describe_releases_with(name))
        return
    for field, value in _set_fields(bean):
        place = key if field in bean.IMPLIED else f"{key}.{field}"
        if not (bean.PROPERTIES.get(field) or release.xml_attribute_for_key(name, field)):
            words = field.replace("_", " ").title().replace(" ", "")
            yield MissingFeature(
                place, f"{words[0].lower()}{words[1:]} of <{name}>", describe_releases_with(name, field)
            )
        elif isinstance(value, XmlBean):
            yield from find_missing_features(value, release, place)
        elif isinstance(value, tuple):
            for position, nested in enumerate(value):
                yield from find_missing_features(nested, release, f"{place}[{position}]")


def _set_fields(bean: XmlBean) -> Iterator[tuple[str, Any]]:
    """Yield the name and value of each field that a bean sets and that its XML element holds."""
    for field in type(bean).model_fields:
        value = getattr(bean, field)
        if value is not None and value != () and field not in bean.NOT_WRITTEN:
            yield field, value
