"""``activemq_plugins``: additional processing of messages by a broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator

from activemq_fleet.java_patterns import java_pattern_error
from activemq_fleet.settings.variable_types import Attribute, Count, Factor, Milliseconds, Name, OrUnlimited, Text
from activemq_fleet.settings.xml_beans import (
    BeanWithForbiddenKeys,
    DestinationPatternBean,
    OffIsNone,
    SwitchableBean,
    XmlBean,
)

_File = Attribute
_Delay = Annotated[int, Field(ge=1000, le=31_536_000_000)]
"""Milliseconds; with less than a second the plugin refuses to start (RedeliveryPlugin.validatePolicyDelay)."""
_REFUSED = {
    "authentication": "use activemq_users",
    "authorization": "use activemq_acl",
    "runtime_configuration": "use activemq_runtime_configuration",
    "destinations": "use activemq_destinations",
}


class StatisticsPlugin(SwitchableBean):
    """The statisticsBrokerPlugin, which sends statistics of the broker or of destinations on request.

    It answers messages to ``ActiveMQ.Statistics.…``.
    """

    ELEMENT: ClassVar[str] = "statisticsBrokerPlugin"


class TimeStampingPlugin(SwitchableBean):
    """The timeStampingBrokerPlugin, which replaces the producer's time stamp with the broker's time.

    Times are in milliseconds.
    """

    ELEMENT: ClassVar[str] = "timeStampingBrokerPlugin"
    zero_expiration_override: Milliseconds | None = None
    ttl_ceiling: Milliseconds | None = None
    future_only: bool | None = None
    process_network_messages: bool | None = None


class _Redelivery(XmlBean):
    ELEMENT: ClassVar[str] = "redeliveryPolicy"
    maximum_redeliveries: OrUnlimited | None = None
    initial_redelivery_delay: _Delay | None = None
    redelivery_delay: _Delay | None = None
    maximum_redelivery_delay: Milliseconds | None = None
    use_exponential_back_off: bool | None = None
    back_off_multiplier: Factor | None = None
    use_collision_avoidance: bool | None = None
    collision_avoidance_percent: Annotated[int, Field(ge=0, le=100)] | None = None


class RedeliveryPolicy(DestinationPatternBean, _Redelivery):
    """A policy of the redeliveryPlugin: how often and when messages of some destinations are sent again.

    Delays are in milliseconds.
    """


class _PolicyMap(XmlBean):
    ELEMENT: ClassVar[str] = "redeliveryPolicyMap"
    PROPERTIES: ClassVar[Mapping[str, str]] = {"policies": "redeliveryPolicyEntries", "default": "defaultEntry"}
    policies: tuple[RedeliveryPolicy, ...] = ()
    default: _Redelivery | None = None


class RedeliveryPlugin(XmlBean):
    """The redeliveryPlugin, with which the broker sends undelivered messages again before they become dead letters."""

    ELEMENT: ClassVar[str] = "redeliveryPlugin"
    IMPLIED: ClassVar[frozenset[str]] = frozenset({"redelivery_policy_map"})
    fallback_to_dead_letter: bool | None = None
    send_to_dlq_if_max_retries_exceeded: bool | None = None
    redelivery_policy_map: _PolicyMap  # its keys are written as the plugin's own

    @model_validator(mode="before")
    @classmethod
    def _nest_map_keys(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or "redelivery_policy_map" in value:
            return value
        inner = {key: value[key] for key in ("policies", "default") if key in value}
        return {**{key: known for key, known in value.items() if key not in inner}, "redelivery_policy_map": inner}

    @model_validator(mode="after")
    def _has_a_policy(self) -> Self:
        if not self.redelivery_policy_map.policies and self.redelivery_policy_map.default is None:
            raise ValueError(
                "activemq_plugins.redelivery has no redelivery policy, so the plugin would redeliver no message: set "
                "its key 'policies' or its key 'default'"
            )
        return self


def _check_java_patterns(text: str) -> str:
    """Return a text of Java regular expressions; raise ValueError if Java cannot compile one of them."""
    for pattern in text.split():
        if reason := java_pattern_error(pattern):
            raise ValueError(
                f"{pattern!r} is not a regular expression of Java: {reason}. With it, the broker does not start. Write "
                "a valid regular expression, such as '.*' for any characters"
            )
    return text


class DiscardingDlqPlugin(SwitchableBean):
    """The discardingDLQBrokerPlugin, which discards dead letters.

    ``drop_only`` contains regular expressions, separated by spaces.
    """

    ELEMENT: ClassVar[str] = "discardingDLQBrokerPlugin"
    drop_all: bool | None = None
    drop_temporary_topics: bool | None = None
    drop_temporary_queues: bool | None = None
    drop_only: Annotated[Text, AfterValidator(_check_java_patterns)] | None = None
    report_interval: Count | None = None


class ConnectionDotPlugin(SwitchableBean):
    """The connectionDotFilePlugin, which writes the broker's connections as a graph to a Graphviz file."""

    ELEMENT: ClassVar[str] = "connectionDotFilePlugin"
    file: _File = "${activemq.data}/connections.dot"


class DestinationDotPlugin(SwitchableBean):
    """The destinationDotFilePlugin, which writes the broker's destinations as a graph to a Graphviz file."""

    ELEMENT: ClassVar[str] = "destinationDotFilePlugin"
    file: _File = "${activemq.data}/destinations.dot"


class LoggingPlugin(SwitchableBean):
    """The loggingBrokerPlugin, which logs the actions of clients, such as connections, messages and transactions."""

    ELEMENT: ClassVar[str] = "loggingBrokerPlugin"
    log_all: bool | None = None
    log_connection_events: bool | None = None
    log_session_events: bool | None = None
    log_consumer_events: bool | None = None
    log_producer_events: bool | None = None
    log_transaction_events: bool | None = None
    log_internal_events: bool | None = None
    log_message_events: bool | None = None
    per_destination_logger: bool | None = None


class ForcePersistencyPlugin(XmlBean):
    """The forcePersistencyModeBrokerPlugin, which makes every message persistent, or none."""

    ELEMENT: ClassVar[str] = "forcePersistencyModeBrokerPlugin"
    persistence_flag: bool


class TraceBrokerPathPlugin(SwitchableBean):
    """The traceBrokerPathPlugin, which records in a message property the names of the brokers that a message passed."""

    ELEMENT: ClassVar[str] = "traceBrokerPathPlugin"
    stamp_property: Name | None = None


class VirtualSelectorCachePlugin(SwitchableBean):
    """The virtualSelectorCacheBrokerPlugin, which caches the selectors of absent consumers of virtual topics.

    The broker then stores only the messages that they select.
    """

    ELEMENT: ClassVar[str] = "virtualSelectorCacheBrokerPlugin"
    persist_file: _File = "${activemq.data}/selectors.data"
    persist_interval: Milliseconds | None = None
    single_selector_per_destination: bool | None = None
    ignore_wildcard_selectors: bool | None = None


class PluginSettings(BeanWithForbiddenKeys):
    """The settings of broker plugins: the value of ``activemq_plugins``.

    It has one key for each broker plugin, in the order of activemq.xml. A later plugin processes a message first. Dead
    letters are to be sent again before they are discarded, so redelivery follows the plugins that discard. The plugins
    for logins follow all others, so they decide first which messages the others receive.
    """

    REFUSED: ClassVar[Mapping[str, str]] = _REFUSED

    statistics: Annotated[StatisticsPlugin | None, OffIsNone] = None
    timestamp: Annotated[TimeStampingPlugin | None, OffIsNone] = None
    force_persistency: Annotated[ForcePersistencyPlugin | None, OffIsNone] = None
    trace_broker_path: Annotated[TraceBrokerPathPlugin | None, OffIsNone] = None
    virtual_selector_cache: Annotated[VirtualSelectorCachePlugin | None, OffIsNone] = None
    connection_dot: Annotated[ConnectionDotPlugin | None, OffIsNone] = None
    destination_dot: Annotated[DestinationDotPlugin | None, OffIsNone] = None
    logging: Annotated[LoggingPlugin | None, OffIsNone] = None
    discarding_dlq: Annotated[DiscardingDlqPlugin | None, OffIsNone] = None
    redelivery: Annotated[RedeliveryPlugin | None, OffIsNone] = None

    def plugin_beans(self) -> dict[str, XmlBean]:
        """Return the beans of the configured broker plugins, by key, in the order of activemq.xml."""
        beans_by_key = {key: getattr(self, key) for key in type(self).model_fields}
        return {key: bean for key, bean in beans_by_key.items() if bean is not None}
