"""Variables for policies, usage, virtual destinations, stores and plugins: validation and rendering."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from lxml import etree

from activemq_fleet.errors import SettingsError
from activemq_fleet.node.host_paths import ACTIVEMQ_XML
from activemq_fleet.render import render_broker
from activemq_fleet.settings.plugins import RedeliveryPlugin
from activemq_fleet.settings.variable_validation import read_settings
from activemq_fleet.settings.xml_beans import BeanWithTypeKey, SwitchableBean
from activemq_fleet.settings.xml_element_settings import SettingsRenderedAsXmlElements
from activemq_fleet.topology import build_fleet
from tests.unit.element_inputs import model_of
from tests.unit.fleets import hosts

CORE = "{http://activemq.apache.org/schema/core}"
ROOT = Path(__file__).resolve().parents[2]
REDELIVERY = {"policies": [{"destination": "a.>", "kind": "queue", "redelivery_delay": 2000}]}


def render_broker_element(release: str = "5.18.3", *pairs: str, **settings: Any) -> etree._Element:
    """Render the broker element of the first node of pair a-mq1, which has links only if more pairs are given."""
    fleet = build_fleet(hosts("a-mq1", *pairs, release=release, **settings), {})
    return etree.fromstring(render_broker(fleet.brokers[0])[ACTIVEMQ_XML])[
        -2 if fleet.brokers[0].settings.console else -1
    ]


def find_policy(root: etree._Element, **named: str) -> etree._Element:
    [(kind, name)] = named.items()
    [policy_entry] = [element for element in root.iter(f"{CORE}policyEntry") if element.get(kind) == name]
    return policy_entry


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"destination_policies": [{"destination": "a", "kind": "queue", "queue_prefetc": 1}]},
            "activemq_destination_policies[0].queue_prefetc is not a known key: did you mean queue_prefetch?",
        ),
        (
            {"destination_policies": [{"kind": "queue", "queue_prefetch": 1}]},
            "in activemq_destination_policies[0], an entry with `kind: queue` requires the key destination",
        ),
        (
            {"destination_policies": [{"destination": "a", "kind": "queue", "dead_letter_strategy": "none"}]},
            "activemq_destination_policies[0].dead_letter_strategy.type must be 'individual', 'shared' or 'discarding'",
        ),
        (
            {
                "destination_policies": [
                    {
                        "destination": "a",
                        "kind": "queue",
                        "dead_letter_strategy": {"type": "shared", "queue_prefix": "D."},
                    }
                ]
            },
            "in activemq_destination_policies[0].dead_letter_strategy, a setting with `type: shared` does not support "
            "the key queue_prefix",
        ),
        (
            {"destination_policies": [{"destination": "a", "kind": "topic"}] * 2},
            "activemq_destination_policies has two entries for topic a",
        ),
        ({"usage": {"memory": "70 %"}, "temp_limit": "1 gb"}, "activemq_usage and activemq_temp_limit are both set"),
        (
            {"usage": {"job_scheduler": "70 %"}},
            "in activemq_usage.job_scheduler, the limit '70 %' cannot be a percentage",
        ),
        (
            {"usage": {"store": {"total": "1 gb"}}},
            "in activemq_usage.store, neither limit nor percent_limit is set: set limit",
        ),
        (
            {"virtual_destinations": [{"type": "composite_queue", "name": "a"}]},
            "in activemq_virtual_destinations[0], the composite_queue 'a' has no forward_to: ",
        ),
        (
            {"destinations": ["topic://a.*"]},
            "in activemq_destinations[0], the destination 'topic://a.*' contains the wildcard * or >",
        ),
        (
            {"kahadb": {"directory": "/x"}},
            "in activemq_kahadb, the key 'directory' is not supported in this variable: use ",
        ),
        (
            {"kahadb": {"by_destination": [{"destination": "a", "kind": "queue"}]}},
            "by_destination of activemq_kahadb leaves some destinations without a store",
        ),
        (
            {"kahadb": {"by_destination": [{"destination": "a", "kind": "queue", "per_destination": True}, {}]}},
            "activemq_kahadb.by_destination[0] sets per_destination and destination",
        ),
        (
            {"kahadb": {"by_destination": [{}, {"directory": "/x"}]}},
            "in activemq_kahadb.by_destination[1], the key 'directory' is not supported in this variable: use ",
        ),
        ({"kahadb": {"index_write_batch_size": 0}}, "activemq_kahadb.index_write_batch_size must be at least 1, not 0"),
        (
            {"kahadb": {"by_destination": [{"max_async_jobs": 0}]}},
            "activemq_kahadb.by_destination[0].max_async_jobs must be at least 1, not 0",
        ),
        (
            {"plugins": {"discarding_dlq": {"drop_only": "prices[.].* *a"}}},
            "in activemq_plugins.discarding_dlq.drop_only, '*a' is not a regular expression of Java: '*' at position",
        ),
        ({"kahadb": {"by_destination": [{}, {}]}}, "by_destination of activemq_kahadb has two entries for all other"),
        (
            {"kahadb": {"transaction_journal": {}}},
            "transaction_journal of activemq_kahadb requires by_destination, which is not set",
        ),
        (
            {"kahadb": {"by_destination": [{}]}, "fence": "guard"},
            "activemq_fence: guard protects only one store per pair",
        ),
        (
            {"kahadb": {"by_destination": [{}]}, "ha": "pure", "release": "5.7.0"},
            "with activemq_ha: pure the playbook resync copies only one store",
        ),
        ({"kahadb": {}, "ha": "shared-jdbc"}, "activemq_kahadb is set, but activemq_ha: shared-jdbc uses no kahaDB"),
        (
            {"scheduler": True, "broker_attributes": {"schedulerSupport": True}},
            "activemq_scheduler and 'schedulerSupport' in activemq_broker_attributes are both set",
        ),
        ({"scheduler": {"directory": "x"}}, "activemq_scheduler.directory"),
        (
            {"jmx": {}, "broker_attributes": {"useJmx": False}},
            "useJmx: false in activemq_broker_attributes disables JMX",
        ),
        (
            {"plugins": {"authorization": True}},
            "in activemq_plugins, the key 'authorization' is not supported in this variable: use activemq_acl",
        ),
        ({"plugins": {"redelivery": True}}, "activemq_plugins.redelivery must be a mapping"),
        (
            {"plugins": {"redelivery": {}}},
            "activemq_plugins.redelivery has no redelivery policy",
        ),
        (
            {"plugins": {"redelivery": {"default": {"redelivery_delay": 999}}}},
            "activemq_plugins.redelivery.default.redelivery_delay must be at least 1000, not 999. Write a "
            "number of milliseconds",
        ),
    ],
)
def test_invalid_element_setting_is_single_problem_with_host_and_key(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(SettingsError) as error:
        read_settings("mq1", {f"activemq_{name}": value for name, value in settings.items()})
    [problem] = error.value.problems
    assert problem.startswith("mq1: ")
    assert expected in problem


def test_attribute_missing_in_release_is_finding_and_not_rendered() -> None:
    policies = [{"destination": "a", "kind": "queue", "max_destinations": 3, "inactive_timeout_before_gc": 5}]
    old_fleet = build_fleet(hosts("a-mq1", release="5.8.0", destination_policies=policies), {})
    assert [finding.rule for finding in old_fleet.findings] == ["T011", "T011"]
    assert old_fleet.findings[0].message == (
        "activemq_destination_policies[0].max_destinations sets maxDestinations of <policyEntry>, but release "
        "5.8.0 does "
        "not support it (only 5.11.2 and later do)"
    )
    policy_entry = find_policy(render_broker_element("5.8.0", destination_policies=policies), queue="a")
    # This release misspells the attribute inactiveTimeoutBeforeGC.
    assert policy_entry.items() == [("queue", "a"), ("inactiveTimoutBeforeGC", "5")]
    assert (
        find_policy(render_broker_element(destination_policies=policies), queue="a").get("inactiveTimeoutBeforeGC")
        == "5"
    )


def test_replay_settings_of_all_queues_are_in_each_queue_policy() -> None:
    policies = [
        {"destination": "a", "kind": "queue"},
        {"destination": "b", "kind": "queue", "network_bridge_filter_factory": {"replay_when_no_consumers": False}},
    ]
    root = render_broker_element("5.8.0", "a-mq2", destination_policies=policies)
    replays = {
        entry.get("queue"): (
            entry.get("enableAudit"),
            [
                factory.get("replayWhenNoConsumers")
                for factory in entry.iter(f"{CORE}conditionalNetworkBridgeFilterFactory")
            ],
        )
        for entry in root.iter(f"{CORE}policyEntry")
        if entry.get("queue")
    }
    assert replays == {">": ("false", ["true"]), "a": ("false", ["true"]), "b": (None, ["false"])}


def test_topic_policy_keeps_default_cursor_unless_it_sets_another() -> None:
    policies = [
        {"destination": "a", "kind": "topic"},
        {"destination": "b", "kind": "topic", "pending_durable_subscriber_policy": "vm"},
    ]
    root = render_broker_element("6.3.1", destination_policies=policies)
    cursors = [child[0].tag.rpartition("}")[2] for child in root.iter(f"{CORE}pendingDurableSubscriberPolicy")]
    assert cursors == ["storeDurableSubscriberCursor", "storeDurableSubscriberCursor", "vmDurableCursor"]


@pytest.mark.parametrize("release", ["5.5.1", "5.8.0", "5.11.4", "5.18.3", "6.3.1"])
def test_topic_policies_limit_prefetch_unless_inventory_sets_it(release: str) -> None:
    policies = [
        {"destination": "a", "kind": "topic", "producer_flow_control": True},
        {"destination": "b", "kind": "topic", "topic_prefetch": 5000},
        {"destination": "q", "kind": "queue"},
    ]
    prefetches = {
        entry.get("topic") or entry.get("queue"): entry.get("topicPrefetch")
        for entry in render_broker_element(release, destination_policies=policies).iter(f"{CORE}policyEntry")
    }
    assert prefetches == {">": "100", "a": "100", "b": "5000", "q": None}
    all_topics = [{"destination": ">", "kind": "topic", "topic_prefetch": 32766}]
    assert (
        find_policy(render_broker_element(release, destination_policies=all_topics), topic=">").get("topicPrefetch")
        == "32766"
    )


def test_defaults_do_not_discard_events_or_abort_subscriptions() -> None:
    root = render_broker_element("6.3.1", "a-mq2")
    discards = ("pendingMessageLimitStrategy", "slowConsumerStrategy", "messageEvictionStrategy")
    assert not [element.tag for name in discards for element in root.iter(f"{CORE}{name}")]


@pytest.mark.parametrize(
    ("wrapped", "element"), [({}, "no"), ({"wrapped": {"type": "fixed_count", "maximum_size": 3}}, "fixedCount")]
)
def test_retained_recovery_policy_contains_wrapped_policy(wrapped: dict[str, Any], element: str) -> None:
    topic_policy = {
        "destination": "a",
        "kind": "topic",
        "subscription_recovery_policy": {"type": "retained", **wrapped},
    }
    [recovery] = find_policy(render_broker_element(destination_policies=[topic_policy]), topic="a").iter(
        f"{CORE}wrapped"
    )
    assert [child.tag for child in recovery] == [f"{CORE}{element}SubscriptionRecoveryPolicy"]


def test_purge_period_is_set_when_policy_removes_inactive_destinations() -> None:
    policies = [{"destination": "a", "kind": "queue", "gc_inactive_destinations": True}]
    period = "schedulePeriodForDestinationPurge"
    assert render_broker_element(destination_policies=policies).get(period) == "60000"
    assert render_broker_element(destination_policies=policies, broker_attributes={period: 5}).get(period) == "5"
    assert render_broker_element().get(period) is None


def test_omitted_usage_limits_keep_defaults() -> None:
    def limits(release: str, **settings: Any) -> dict[str, dict[Any, Any]]:
        usage = render_broker_element(release, **settings).find(f"{CORE}systemUsage/{CORE}systemUsage")
        assert usage is not None
        return {child[0].tag.rpartition("}")[2]: dict(child[0].items()) for child in usage}

    defaults = limits("5.18.3")
    assert limits("5.18.3", usage={"memory": "60 %"}) == {**defaults, "memoryUsage": {"percentOfJvmHeap": "60"}}
    assert limits("5.18.3", usage={"store": "2 gb"})["storeUsage"] == {"percentLimit": "100", "total": "2 gb"}
    assert limits("5.18.3", usage={"store": "80%"})["storeUsage"] == {"percentLimit": "80"}
    assert limits("5.5.1", usage={"memory": "60 %"}) == limits("5.5.1")


def test_composite_destinations_keep_default_virtual_topics() -> None:
    composite = {"type": "composite_queue", "name": "all", "forward_to": ["one"]}
    virtual_topic = {"type": "virtual_topic", "name": "VirtualTopic.>", "selector_aware": True}

    def topics(**settings: Any) -> list[str | None]:
        return [
            element.get("selectorAware", "no")
            for element in render_broker_element(**settings).iter(f"{CORE}virtualTopic")
        ]

    assert topics(virtual_destinations=[composite]) == ["no"]
    assert topics(virtual_destinations=[composite, virtual_topic]) == ["true"]
    assert topics(virtual_destinations=[composite], broker_attributes={"useVirtualTopics": False}) == []


def test_stores_by_destination_inherit_attributes_of_all_stores() -> None:
    kahadb = {
        "index_cache_size": 7,
        "transaction_journal": {"journal_max_file_length": "1 mb"},
        "by_destination": [
            {"destination": "a.>", "kind": "queue", "index_cache_size": 8, "usage": "1 gb"},
            {"per_destination": True, "cleanup_interval": 9},
        ],
    }
    [multi_store] = render_broker_element("6.3.1", ha="none", kahadb=kahadb).iter(f"{CORE}mKahaDB")
    assert multi_store.get("journalMaxFileLength") == "1 mb"
    assert [dict(store.items()) for store in multi_store.iter(f"{CORE}filteredKahaDB")] == [
        {"queue": "a.>"},
        {"perDestination": "true"},
    ]
    assert [dict(store.items()) for store in multi_store.iter(f"{CORE}kahaDB")] == [
        {"indexCacheSize": "8"},
        {"indexCacheSize": "7", "cleanupInterval": "9"},
    ]
    assert multi_store.find(f"{CORE}locker") is None


def test_stores_by_destination_of_pair_share_single_lock() -> None:
    [multi_store] = render_broker_element("6.3.1", kahadb={"by_destination": [{}]}).iter(f"{CORE}mKahaDB")
    assert (multi_store.get("directory"), multi_store.get("lockKeepAlivePeriod")) == ("/srv/activemq/a-mq1", "2000")
    assert [child.tag.rpartition("}")[2] for child in multi_store] == ["filteredPersistenceAdapters", "locker"]


def test_scheduler_is_rendered_when_enabled_and_with_its_directory() -> None:
    names = ("schedulerSupport", "schedulerDirectory")
    assert [render_broker_element(scheduler=True).get(name) for name in names] == ["true", None]
    assert [render_broker_element(scheduler={"directory": "/srv/later"}).get(name) for name in names] == [
        "true",
        "/srv/later",
    ]
    assert [render_broker_element(scheduler=False).get(name) for name in names] == [None, None]


def test_plugins_precede_authentication_and_redelivery_follows_discarding() -> None:
    plugin_settings = {
        "redelivery": REDELIVERY,
        "discarding_dlq": {"drop_all": False},
        "statistics": True,
        "logging": False,
    }
    root = render_broker_element(plugins=plugin_settings)
    plugins = root.find(f"{CORE}plugins")
    assert plugins is not None
    assert [child.tag.rpartition("}")[2] for child in plugins] == [
        "statisticsBrokerPlugin",
        "discardingDLQBrokerPlugin",
        "redeliveryPlugin",
        "simpleAuthenticationPlugin",
    ]
    assert root.get("schedulerSupport") == "true"
    assert render_broker_element("5.6.0", plugins=plugin_settings).get("schedulerSupport") is None


@pytest.mark.parametrize(
    ("variable", "values"),
    [
        ("destination_policies", ([{"destination": "a", "kind": "queue"}], [])),
        ("virtual_destinations", ([{"type": "virtual_topic", "name": "a.>"}], [])),
        ("destinations", (["a"], ["b"])),
        ("plugins", ({"statistics": True}, {})),
        ("kahadb", ({"cleanup_interval": 1}, {"cleanup_interval": 2})),
        ("usage", ({"store": "1 gb"}, {"store": "2 gb"})),
        ("scheduler", (True, {"directory": "/srv/later"})),
    ],
)
def test_different_element_settings_within_pair_are_t009(variable: str, values: tuple[Any, Any]) -> None:
    variables_by_host = hosts("a-mq1")
    for host_variables, setting in zip(variables_by_host.values(), values, strict=True):
        host_variables[f"activemq_{variable}"] = setting
    [finding] = build_fleet(variables_by_host, {}).findings
    assert (finding.rule, finding.message.split()[0]) == ("T009", f"activemq_{variable}")


def test_memory_usage_limit_may_differ_between_nodes_of_pair() -> None:
    variables_by_host = hosts("a-mq1")
    for host_variables, memory in zip(variables_by_host.values(), ("1 gb", "2 gb"), strict=True):
        host_variables["activemq_usage"] = {"memory": memory}
    assert build_fleet(variables_by_host, {}).findings == ()


@pytest.mark.parametrize("variable", sorted(SettingsRenderedAsXmlElements.model_fields))
def test_argument_spec_of_role_documents_every_key_of_element_settings(variable: str) -> None:
    spec = yaml.safe_load((ROOT / "roles/broker/meta/argument_specs.yml").read_text())
    documented = spec["argument_specs"]["main"]["options"][f"activemq_{variable}"]
    model = model_of(SettingsRenderedAsXmlElements.model_fields[variable].annotation)
    if model is None:
        return
    if documented["type"] == "raw":
        assert all(f"C({key})" in documented["description"] for key in model.model_fields)
        return
    assert documented["options"].keys() == model.model_fields.keys()
    for name, option in documented["options"].items():
        field = model.model_fields[name]
        assert option.get("required", False) == field.is_required(), name
        inner = model_of(field.annotation)
        if inner is not None and issubclass(inner, BeanWithTypeKey | SwitchableBean | RedeliveryPlugin):
            keys = set(inner.model_fields) - {"type", "redelivery_policy_map"}
            described = " ".join(option["description"].split())
            assert {key for key in keys if f"C({key})" not in described} == set(), name
