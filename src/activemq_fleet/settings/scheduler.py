"""``activemq_scheduler``: whether a broker keeps messages that are to be delivered later, and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from activemq_fleet.settings import variable_types
from activemq_fleet.settings.xml_beans import SwitchableBean


class SchedulerSettings(SwitchableBean):
    """The settings of the broker's scheduler for delayed messages: the value of ``activemq_scheduler``.

    The broker keeps scheduled messages in ``directory``, by default below its data directory.
    """

    ELEMENT: ClassVar[str] = "broker"
    PROPERTIES: ClassVar[Mapping[str, str]] = {"directory": "schedulerDirectory"}
    directory: variable_types.AbsolutePath | None = None

    def leading_xml_attribute_pairs(self) -> tuple[tuple[str, str], ...]:
        """Return the attributes to render first in the element ``broker``: only ``(("schedulerSupport", "true"),)``.

        The attribute enables the broker's scheduler.
        """
        return (("schedulerSupport", "true"),)
