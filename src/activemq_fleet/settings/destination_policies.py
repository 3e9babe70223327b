"""``activemq_destination_policies``: policyEntry elements, by the destinations that they match.

Times are in milliseconds, sizes such as ``64 mb``. A key that is left out leaves the broker's own default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import model_validator

from activemq_fleet.settings.variable_types import (
    Count,
    Factor,
    Milliseconds,
    NamePart,
    OrUnlimited,
    Percent,
    Size,
    Word,
)
from activemq_fleet.settings.xml_beans import BeanWithTypeKey, DestinationPatternBean, NamedDestination, XmlBean


class DeadLetterStrategy(BeanWithTypeKey):
    """The settings that select the queue for undeliverable messages of a destination.

    It is one for each destination, one for all, or none (discarded).
    """

    ELEMENTS: ClassVar[Mapping[str, str]] = {
        "individual": "individualDeadLetterStrategy",
        "shared": "sharedDeadLetterStrategy",
        "discarding": "discarding",
    }
    type: Literal["individual", "shared", "discarding"]
    process_expired: bool | None = None
    process_non_persistent: bool | None = None
    enable_audit: bool | None = None
    max_audit_depth: Count | None = None
    max_producers_to_audit: Count | None = None
    expiration: Milliseconds | None = None
    queue_prefix: NamePart | None = None
    queue_suffix: NamePart | None = None
    topic_prefix: NamePart | None = None
    topic_suffix: NamePart | None = None
    use_queue_for_queue_messages: bool | None = None
    use_queue_for_topic_messages: bool | None = None
    destination_per_durable_subscriber: bool | None = None
    dead_letter_queue: NamedDestination | None = None


class PendingMessageLimit(BeanWithTypeKey):
    """The maximum number of a topic's messages that may wait for a slow consumer.

    It is fixed, or a multiple of the consumer's prefetch.
    """

    ELEMENTS: ClassVar[Mapping[str, str]] = {
        "constant": "constantPendingMessageLimitStrategy",
        "prefetch_rate": "prefetchRatePendingMessageLimitStrategy",
    }
    REQUIRED: ClassVar[Mapping[str, str]] = {"constant": "limit", "prefetch_rate": "multiplier"}
    type: Literal["constant", "prefetch_rate"]
    limit: OrUnlimited | None = None
    multiplier: Factor | None = None


class EvictionStrategy(BeanWithTypeKey):
    """The strategy by which a topic discards messages that exceed a slow consumer's limit."""

    ELEMENTS: ClassVar[Mapping[str, str]] = {
        "oldest": "oldestMessageEvictionStrategy",
        "lowest_priority": "oldestMessageWithLowestPriorityEvictionStrategy",
        "unique_property": "uniquePropertyMessageEvictionStrategy",
    }
    REQUIRED: ClassVar[Mapping[str, str]] = {"unique_property": "property_name"}
    type: Literal["oldest", "lowest_priority", "unique_property"]
    evict_expired_messages_high_watermark: Count | None = None
    expiry_check_enabled: bool | None = None
    property_name: Word | None = None


class QueueCursor(BeanWithTypeKey):
    """The cursor of a queue: the place where its messages wait for consumers.

    It is the store, memory, or memory and a temporary file.
    """

    ELEMENTS: ClassVar[Mapping[str, str]] = {"store": "storeCursor", "vm": "vmQueueCursor", "file": "fileQueueCursor"}
    type: Literal["store", "vm", "file"]


class NonDurableSubscriberCursor(BeanWithTypeKey):
    """The cursor of a topic's non-durable subscribers: the place where messages wait for them.

    It is memory or a temporary file.
    """

    ELEMENTS: ClassVar[Mapping[str, str]] = {"vm": "vmCursor", "file": "fileCursor"}
    type: Literal["vm", "file"]


class DurableSubscriberCursor(BeanWithTypeKey):
    """The cursor of a topic's durable subscribers: the place where messages wait for them.

    It is the store, memory or a temporary file.
    """

    ELEMENTS: ClassVar[Mapping[str, str]] = {
        "store": "storeDurableSubscriberCursor",
        "vm": "vmDurableCursor",
        "file": "fileDurableSubscriberCursor",
    }
    type: Literal["store", "vm", "file"]
    use_cache: bool | None = None
    immediate_priority_dispatch: bool | None = None


class DispatchPolicy(BeanWithTypeKey):
    """The policy that determines the order in which a topic's subscribers get a message."""

    ELEMENTS: ClassVar[Mapping[str, str]] = {
        "simple": "simpleDispatchPolicy",
        "round_robin": "roundRobinDispatchPolicy",
        "strict_order": "strictOrderDispatchPolicy",
        "priority": "priorityDispatchPolicy",
        "priority_network": "priorityNetworkDispatchPolicy",
        "client_id_filter": "clientIdFilterDispatchPolicy",
    }
    type: Literal["simple", "round_robin", "strict_order", "priority", "priority_network", "client_id_filter"]
    ptp_client_id: Word | None = None
    ptp_suffix: NamePart | None = None


class SubscriptionRecovery(BeanWithTypeKey):
    """The settings that select the earlier messages of a topic that a retroactive consumer receives.

    ``maximum_size`` is a number of messages for ``fixed_count``, and of bytes for ``fixed_size``. ``retained`` sends
    the last message with the retain flag, then the messages of the policy in ``wrapped``.
    """

    ELEMENTS: ClassVar[Mapping[str, str]] = {
        "none": "noSubscriptionRecoveryPolicy",
        "last_image": "lastImageSubscriptionRecoveryPolicy",
        "fixed_count": "fixedCountSubscriptionRecoveryPolicy",
        "fixed_size": "fixedSizedSubscriptionRecoveryPolicy",
        "timed": "timedSubscriptionRecoveryPolicy",
        "retained": "retainedMessageSubscriptionRecoveryPolicy",
    }
    type: Literal["none", "last_image", "fixed_count", "fixed_size", "timed", "retained"]
    maximum_size: Count | None = None
    use_shared_buffer: bool | None = None
    recover_duration: Milliseconds | None = None
    wrapped: SubscriptionRecovery | None = None

    @model_validator(mode="before")
    @classmethod
    def _retained_wraps_one(cls, value: Any) -> Any:
        """Return the settings with the ``wrapped`` that a broker does not start without."""
        policy_keys = {"type": value} if isinstance(value, str) else value
        retains = isinstance(policy_keys, Mapping) and policy_keys.get("type") == "retained"
        return {"wrapped": "none", **policy_keys} if retains else value


class SlowConsumerStrategy(BeanWithTypeKey):
    """The strategy by which a broker closes slow consumers.

    They are slow, or have acknowledged nothing for too long.
    """

    ELEMENTS: ClassVar[Mapping[str, str]] = {
        "abort": "abortSlowConsumerStrategy",
        "abort_slow_ack": "abortSlowAckConsumerStrategy",
    }
    type: Literal["abort", "abort_slow_ack"]
    abort_connection: bool | None = None
    check_period: Milliseconds | None = None
    max_slow_count: OrUnlimited | None = None
    max_slow_duration: Milliseconds | None = None
    ignore_network_consumers: bool | None = None
    ignore_idle_consumers: bool | None = None
    max_time_since_last_ack: Milliseconds | None = None


class BridgeFilter(XmlBean):
    """The settings of a network bridge's message filter.

    They decide whether it may send messages back to the broker that sent them.
    """

    ELEMENT: ClassVar[str] = "conditionalNetworkBridgeFilterFactory"
    replay_when_no_consumers: bool | None = None
    replay_delay: Milliseconds | None = None
    rate_limit: Count | None = None
    rate_duration: Milliseconds | None = None
    selector_aware: bool | None = None


class DestinationPolicy(DestinationPatternBean):
    """The policy settings of destinations: one entry of ``activemq_destination_policies``.

    Of all entries that match a destination only the most specific applies.
    """

    ELEMENT: ClassVar[str] = "policyEntry"

    producer_flow_control: bool | None = None
    memory_limit: Size | None = None
    blocked_producer_warning_interval: Milliseconds | None = None
    send_fail_if_no_space: bool | None = None
    send_fail_if_no_space_after_timeout: Milliseconds | None = None
    cursor_memory_high_water_mark: Percent | None = None
    store_usage_high_water_mark: Percent | None = None
    max_destinations: OrUnlimited | None = None

    queue_prefetch: Count | None = None
    queue_browser_prefetch: Count | None = None
    topic_prefetch: Count | None = None
    durable_topic_prefetch: Count | None = None
    use_prefetch_extension: bool | None = None
    max_page_size: Count | None = None
    max_browse_page_size: Count | None = None
    max_expire_page_size: Count | None = None
    expire_messages_period: Milliseconds | None = None
    lazy_dispatch: bool | None = None
    optimized_dispatch: bool | None = None
    strict_order_dispatch: bool | None = None
    use_consumer_priority: bool | None = None
    all_consumers_exclusive_by_default: bool | None = None
    always_retroactive: bool | None = None
    consumers_before_dispatch_starts: Count | None = None
    time_before_dispatch_starts: Milliseconds | None = None
    prioritized_messages: bool | None = None
    persist_jms_redelivered: bool | None = None
    use_cache: bool | None = None
    reduce_memory_footprint: bool | None = None
    minimum_message_size: Count | None = None
    optimize_message_storage: bool | None = None
    optimize_message_store_in_flight_limit: Count | None = None

    enable_audit: bool | None = None
    max_audit_depth: Count | None = None
    max_producers_to_audit: Count | None = None
    max_queue_audit_depth: Count | None = None
    send_duplicate_from_store_to_dlq: bool | None = None
    allow_temp_destination_stealing: bool | None = None

    gc_inactive_destinations: bool | None = None
    gc_with_network_consumers: bool | None = None
    inactive_timeout_before_gc: Milliseconds | None = None

    advisory_for_consumed: bool | None = None
    advisory_for_delivery: bool | None = None
    advisory_for_discarding_messages: bool | None = None
    advisory_for_dispatched: bool | None = None
    advisory_for_fast_producers: bool | None = None
    advisory_for_slow_consumers: bool | None = None
    advisory_when_full: bool | None = None
    include_body_for_advisory: bool | None = None
    send_advisory_if_no_consumers: bool | None = None
    advanced_message_statistics_enabled: bool | None = None
    advanced_network_statistics_enabled: bool | None = None
    use_topic_subscription_inflight_stats: bool | None = None

    dead_letter_strategy: DeadLetterStrategy | None = None
    dispatch_policy: DispatchPolicy | None = None
    message_eviction_strategy: EvictionStrategy | None = None
    message_group_map_factory_type: Literal["cached", "bucket", "simple"] | None = None
    network_bridge_filter_factory: BridgeFilter | None = None
    pending_durable_subscriber_policy: DurableSubscriberCursor | None = None
    pending_message_limit_strategy: PendingMessageLimit | None = None
    pending_queue_policy: QueueCursor | None = None
    pending_subscriber_policy: NonDurableSubscriberCursor | None = None
    slow_consumer_strategy: SlowConsumerStrategy | None = None
    subscription_recovery_policy: SubscriptionRecovery | None = None
