"""Facts of a broker for tests that set only the facts relevant to them."""

from __future__ import annotations

from typing import Any

from activemq_fleet.deployment import BrokerFacts
from activemq_fleet.profiles import DEFAULT_PROFILE, PROFILES
from activemq_fleet.releases import Release

_FACTS: dict[str, Any] = {
    "watch": None,
    "probe_ca": None,
    "group": "x",
    "pair": "x-mq01",
    "role": "master",
    "peer": None,
    "install": "archive",
    "packages": (),
    "archive": None,
    "archive_sha512": None,
    "service": "systemd",
    "user": "activemq",
    "owner": "activemq",
    "uid": None,
    "gid": None,
    "instance": "activemq",
    "base": "/var/lib/activemq/activemq",
    "home": "/opt/activemq",
    "home_link": "/opt/activemq",
    "unit": "systemd/activemq.service",
    "watchdog": None,
    "fence": "none",
    "guard": False,
    "java": "/usr/bin/java",
    "java_options": (),
    "environment": None,
    "directory": None,
    "store_limit": None,
    "heap": None,
    "metrics": None,
    "multicast": False,
    "multicast_interface": None,
    "store": None,
    "replication": None,
    "listens": "127.0.0.1",
    "links": (),
}


def facts_of_broker(host: str, release: str = "6.3.1", *, ha: str = DEFAULT_PROFILE, **facts: Any) -> BrokerFacts:
    """Return the facts of a broker on ``host``: the given facts, and defaults for all others."""
    profile = PROFILES[ha]
    derived = {
        "replicates": profile.replicates,
        "needs_resync": profile.needs_resync,
        "broker_name": host,
        "address": host,
    }
    return BrokerFacts(host=host, release=Release.of(release), ha=ha, **{**_FACTS, **derived, **facts})
