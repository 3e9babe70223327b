"""``activemq_virtual_destinations``: topics whose consumers have queues, and names that represent several
destinations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from activemq_fleet.settings.variable_types import Destination, NamePart, Text
from activemq_fleet.settings.xml_beans import BeanWithTypeKey, NamedDestination

_Selector = Annotated[Text, Field(max_length=4000)]


class ForwardTarget(NamedDestination):
    """A destination to which a composite destination forwards messages.

    With ``selector``, only messages that match it are forwarded.
    """

    selector: _Selector | None = None
    NOT_WRITTEN: ClassVar[frozenset[str]] = frozenset({"name", "selector"})

    def xml_element_name(self) -> str:
        """Return the element name of a composite destination's target: ``queue``, ``topic``, ``filteredDestination``.

        It is ``filteredDestination`` if the forward target has a selector.
        """
        return "filteredDestination" if self.selector else super().xml_element_name()

    def leading_xml_attribute_pairs(self) -> tuple[tuple[str, str], ...]:
        """Return the attributes to render first in a forward target's element: its destination and its selector.

        They are (name, value) tuples.
        """
        if not self.selector:
            return super().leading_xml_attribute_pairs()
        kind, _, name = self.name.partition("://")
        return ((kind, name), ("selector", self.selector))


class VirtualDestination(BeanWithTypeKey):
    """The settings of a virtual topic, or of a composite queue or topic.

    They are one entry of ``activemq_virtual_destinations``.
    """

    ELEMENTS: ClassVar[Mapping[str, str]] = {
        "virtual_topic": "virtualTopic",
        "composite_queue": "compositeQueue",
        "composite_topic": "compositeTopic",
    }
    PROPERTIES: ClassVar[Mapping[str, str]] = {"forward_to": "forwardTo"}
    type: Literal["virtual_topic", "composite_queue", "composite_topic"]
    name: Destination
    prefix: NamePart | None = None
    postfix: NamePart | None = None
    selector_aware: bool | None = None
    local: bool | None = None
    concurrent_send: bool | None = None
    transacted_send: bool | None = None
    drop_on_resource_limit: bool | None = None
    set_original_destination: bool | None = None
    forward_only: bool | None = None
    copy_message: bool | None = None
    send_when_not_matched: bool | None = None
    forward_to: tuple[ForwardTarget, ...] | None = None

    @model_validator(mode="after")
    def _forwards_or_not(self) -> Self:
        if self.type == "virtual_topic" and self.forward_to:
            raise ValueError(f"the virtual topic {self.name!r} does not support forward_to: remove forward_to")
        if self.type != "virtual_topic" and not self.forward_to:
            raise ValueError(
                f"the {self.type} {self.name!r} has no forward_to: set forward_to to the destinations that receive its "
                "messages"
            )
        return self


DEFAULT_VIRTUAL_TOPICS = VirtualDestination(type="virtual_topic", name="VirtualTopic.>")
"""The defaults of a broker as long as its file lists no virtual destination (BrokerService of all tags)."""
