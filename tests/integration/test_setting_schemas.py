"""Test of the rendered file of each variable against the schema of each release."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.artifacts import load_schema
from activemq_fleet.node.host_paths import ACTIVEMQ_XML
from activemq_fleet.releases import Release
from activemq_fleet.render import render_broker
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import build_fleet
from tests.support.schema_releases import SCHEMA_RELEASES
from tests.unit.fleets import hosts

SECRETS = dict.fromkeys(("keystore_password", "truststore_password"), "a secret")
JDBC = {"url": "jdbc:derby://db/x;create=true", "driver": "a.B", "username": "u", "password": "a secret"}
SETTINGS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "single brokers": {"ha": "none"},
    "a pure pair": {"ha": "pure"},
    "a database": {"ha": "shared-jdbc", "jdbc": JDBC},
    "a hub": {"topology": "hub"},
    "a ring over failover": {"topology": "ring", "discovery": "failover", "network_ttl": 7},
    "a chain of static links": {"topology": "chain", "discovery": "static"},
    "multicast": {"discovery": "multicast", "multicast_interface": "eth0", "environment": "test"},
    "links": {
        "pair_links": "static",
        "links": [{"from": "a", "to": "b", "duplex": True, "include": ["x.>", "topic://y"], "exclude": ["topic://z"]}],
    },
    "accounts": {
        "users": [
            {"name": "ann", "password": "s3cret-ann", "groups": "admins,staff"},
            {"name": "bob@x", "password": "s3cret-bob"},
        ],
        "acl": [{"destination": "orders.>", "kind": "queue", "read": "staff"}],
    },
    "tls": {"tls": {"keystore": "/etc/k", "truststore": "/etc/t", "client_auth": True, **SECRETS}},
    "limits": {"memory_limit": "10 mb", "lock_acquire_interval": 3000, "lock_keepalive_interval": 1000},
    "attributes": {"broker_attributes": {"useJmx": True, "schedulePeriodForDestinationPurge": 1000}},
    "no console": {"console": False, "bind": "::"},
    "fragments": {
        "xml_fragments": [
            {"xml": "<destinations><queue physicalName='a'/><topic physicalName='b'/></destinations>"},
            {"xml": "<persistenceAdapter><kahaDB journalMaxFileLength='64mb'/></persistenceAdapter>"},
            {"xml": "<systemUsage><systemUsage sendFailIfNoSpace='false'/></systemUsage>"},
            {"xml": "<managementContext><managementContext createConnector='true'/></managementContext>"},
            {
                "parent": "broker/destinationPolicy/policyMap/policyEntries",
                "xml": "<policyEntry queue='&gt;' memoryLimit='1mb'>"
                "<pendingQueuePolicy><vmQueueCursor/></pendingQueuePolicy></policyEntry>",
            },
            {
                "parent": "broker/destinationPolicy/policyMap/policyEntries/policyEntry",
                "xml": "<deadLetterStrategy><individualDeadLetterStrategy/></deadLetterStrategy>",
            },
            {
                "parent": "broker/plugins",
                "xml": "<timeStampingBrokerPlugin/>"
                "<bean xmlns='http://www.springframework.org/schema/beans' class='a.B'/>",
            },
        ]
    },
}


def is_supported(settings: str, release: str) -> bool:
    """Return False for settings that a release lacks; tests/unit/test_topology.py tests the findings about them."""
    features = Release.of(release)
    return {"a pure pair": features.has_pure_master_slave, "a database": features.has_lockers}.get(settings, True)


@pytest.mark.parametrize(
    ("settings", "release"),
    [(name, release) for name in SETTINGS for release in SCHEMA_RELEASES if is_supported(name, release)],
)
def test_rendered_settings_are_valid_in_schema_of_release(settings: str, release: str) -> None:
    fleet = build_fleet(hosts("a-mq1", "a-mq2", "a-mq3", "b-mq1", release=release, **SETTINGS[settings]), {})

    assert fleet.findings == ()
    for broker in fleet.brokers:
        assert load_schema(broker.release).find_problems(XmlDocument(render_broker(broker)[ACTIVEMQ_XML])) == ()
