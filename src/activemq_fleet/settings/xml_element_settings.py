"""Variables that represent whole elements of activemq.xml: policies, usage, virtual destinations, store, plugins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, model_validator

from activemq_fleet.releases import Release
from activemq_fleet.settings.destination_policies import DestinationPolicy
from activemq_fleet.settings.kahadb import KahadbSettings
from activemq_fleet.settings.plugins import PluginSettings
from activemq_fleet.settings.scheduler import SchedulerSettings
from activemq_fleet.settings.usage import UsageSettings
from activemq_fleet.settings.virtual_destinations import VirtualDestination
from activemq_fleet.settings.xml_beans import MissingFeature, OffIsNone, OneDestination, XmlBean, find_missing_features

_LIMITS = ("memory_limit", "store_limit", "temp_limit")


class SettingsRenderedAsXmlElements(BaseModel):
    """The ``activemq_*`` settings of a host that are rendered as XML elements of activemq.xml.

    It is a base class of ``HostSettings``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    destination_policies: tuple[DestinationPolicy, ...] = ()
    usage: UsageSettings | None = None
    virtual_destinations: tuple[VirtualDestination, ...] = ()
    destinations: tuple[OneDestination, ...] = ()
    kahadb: KahadbSettings | None = None
    plugins: PluginSettings | None = None
    scheduler: Annotated[SchedulerSettings | None, OffIsNone] = None

    @model_validator(mode="after")
    def _refuse_double_settings(self) -> Self:
        if double := _first_double([(policy.kind, policy.destination) for policy in self.destination_policies]):
            name = " ".join(filter(None, double))
            raise ValueError(f"activemq_destination_policies has two entries for {name}: merge the two entries")
        if double := _first_double([(virtual.type, virtual.name) for virtual in self.virtual_destinations]):
            raise ValueError(
                f"activemq_virtual_destinations has two entries for {double[0]} {double[1]}: merge the two entries"
            )
        limits = sorted(self.model_fields_set & set(_LIMITS))
        if self.usage is not None and limits:
            raise ValueError(
                f"activemq_usage and activemq_{limits[0]} are both set, but only one of them can define the limit: "
                f"remove activemq_{limits[0]}"
            )
        return self

    def xml_beans(self) -> Iterator[tuple[str, XmlBean]]:
        """Yield every bean (XML element of activemq.xml) that the settings of a broker define.

        Each is (key, XmlBean). A key is, for example, ``activemq_destination_policies[0]``.
        """
        for position, policy in enumerate(self.destination_policies):
            yield f"activemq_destination_policies[{position}]", policy
        for position, virtual in enumerate(self.virtual_destinations):
            yield f"activemq_virtual_destinations[{position}]", virtual
        if self.usage:
            yield "activemq_usage", self.usage
        if self.kahadb:
            yield "activemq_kahadb", self.kahadb
            if stores := self.kahadb.mkahadb_bean():
                yield "activemq_kahadb", stores
            if self.kahadb.transaction_journal:
                yield "activemq_kahadb.transaction_journal", self.kahadb.transaction_journal
        for key, plugin in self.plugins.plugin_beans().items() if self.plugins else ():
            yield f"activemq_plugins.{key}", plugin

    def xml_features_missing_in_release(self, release: Release) -> list[MissingFeature]:
        """Return the XML elements and attributes in the settings that an ActiveMQ release does not have."""
        return [feature for key, bean in self.xml_beans() for feature in find_missing_features(bean, release, key)]


def _first_double(values: list[tuple[str, str | None]]) -> tuple[str, str | None] | None:
    return next((value for value, count in Counter(values).items() if count > 1), None)
