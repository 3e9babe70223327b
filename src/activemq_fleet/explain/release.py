"""Explain what a broker's release has and lacks for what the broker does."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.explain.explanation import ExplanationEntry, ExplanationSection, variable_entry
from activemq_fleet.topology import Broker, Fleet


def release_section(fleet: Fleet, broker: Broker) -> ExplanationSection:
    """Return the section of a host's explanation about a broker's release.

    It shows the features, present or missing, that affect the broker.
    """
    release = broker.release
    release_entry = variable_entry(
        broker.settings,
        "release",
        "release",
        f"{release.text}, for Java {release.java_minimum} or later",
        why="; ".join(release.warnings),
        data={"release": release.text, "java": release.java_minimum, "data_release": release.data_release},
    )
    answers = [
        *_survival_answers(broker),
        *_network_answers(broker),
        *_client_answers(broker),
        _security_answer(broker),
    ]
    entries = (
        ExplanationEntry("has" if good else "lacks", text, data={"has": good, "what": name})
        for name, good, text in answers
    )
    return ExplanationSection("release", "Release", (release_entry, *entries))


_Answer = tuple[str, bool, str]
_REQUIRED_BY_AGENTS = "which the agents of the collection (hosts in activemq_agents) require"


def _survival_answers(broker: Broker) -> Iterator[_Answer]:
    release, profile = broker.release, broker.profile
    if profile.replicates:
        yield (
            ("pure", True, "pure master/slave: a master that waits for its slave and replicates to it")
            if release.has_pure_master_slave
            else ("pure", False, "pure master/slave, which activemq_ha requires: its attributes have no effect")
        )
    elif profile.shares_store_directory and not release.has_lockers:
        text = "<locker>: the broker acquires the lock of its store at its start, and never checks it again"
        yield "lockers", False, text
    elif profile.shares_store_directory:
        yield "lockers", True, _lock_checks(broker)
    elif profile.has_database_lease and not release.has_adjustable_lease:
        yield "lease", False, "a configurable lease of the lock in the database: the lease is always 5 s"
    if profile.shares_store:
        yield (
            ("restart", True, "demotion without a restart: a node that loses its lock becomes standby again")
            if release.has_restart_allowed
            else (
                "restart",
                False,
                "demotion without a restart: a node that loses its lock stops, and is started again",
            )
        )
    if release.has_ignore_no_space_errors:
        text = "a stop of the broker on a full disk (ignoreNoSpaceErrors=false), so that no accepted message is lost"
        yield "no-space", True, text
    elif not profile.has_database_lease:
        text = "a stop of the broker on a full disk: without such a stop, accepted messages can be lost"
        yield "no-space", False, text


def _lock_checks(broker: Broker) -> str:
    if broker.release.lock_keepalive_checks_owner:
        return "<locker>: its keep-alive detects that the lock file was deleted, or that another broker wrote it"
    if broker.release.lock_keepalive_checks_file:
        return "<locker>: its keep-alive detects that the lock file was deleted, but not that another broker wrote it"
    return "<locker>: its keep-alive does not check the lock file of the store"


def _network_answers(broker: Broker) -> Iterator[_Answer]:
    release = broker.release
    if not broker.networked:
        return
    if not broker.profile.replicates:
        yield (
            ("masterslave", True, "masterslave: in links, one URI for both nodes of a pair")
            if release.has_masterslave_discovery
            else (
                "masterslave",
                False,
                "masterslave: in links, which are static:(failover:(…)) with "
                f"maxReconnectAttempts={release.bridge_reconnect_attempts}, so that a lost bridge is opened again",
            )
        )
    if release.forgets_early_bridge_failures:
        text = "a retry of a bridge that fails while it starts: such a bridge can stay down until the broker restarts"
        yield "bridges", False, text
    if not release.has_replay_when_no_consumers:
        text = "replayWhenNoConsumers: messages cannot return to a broker that forwarded them"
        yield "replay", False, text
    elif release.replay_needs_audit_off:
        text = (
            "replayWhenNoConsumers, with enableAudit=false so that a broker rejects no returned message as a duplicate"
        )
        yield "replay", True, text
    else:
        text = (
            "replayWhenNoConsumers: messages can return to a broker that forwarded them, when its consumers reconnect"
        )
        yield "replay", True, text
    yield (
        ("ttl", True, "consumerTTL and messageTTL as separate limits")
        if release.has_consumer_ttl
        else (
            "ttl",
            False,
            "consumerTTL and messageTTL as separate limits: one networkTTL limits both subscriptions and messages",
        )
    )


def _client_answers(broker: Broker) -> Iterator[_Answer]:
    if broker.release.supports_agents:
        yield "mqtt", True, f"several durable MQTT subscriptions per client, {_REQUIRED_BY_AGENTS}"
    elif broker.release.has_usable_mqtt:
        yield "mqtt", False, f"more than one durable MQTT subscription per client, {_REQUIRED_BY_AGENTS}"
    else:
        yield "mqtt", False, f"an MQTT connector that delivers messages, {_REQUIRED_BY_AGENTS}"


def _security_answer(broker: Broker) -> _Answer:
    release = broker.release
    cves = len(release.advisories)
    open_to = f"open to {cves or 'no'} published CVE{'' if cves == 1 else 's'}"
    text = f"the security fixes that a new installation requires (since {release.security_floor}); {open_to}"
    return "security", release.meets_security_floor, text
