"""Explain what a broker's release has and lacks for what the broker does."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.explain.explanation import Entry, Section, variable_entry
from activemq_fleet.topology import Broker, Fleet


def release_section(fleet: Fleet, broker: Broker) -> Section:
    """Return the section that explains which features, present or missing in a broker's release, affect it."""
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
        Entry("has" if good else "lacks", text, data={"has": good, "what": name}) for name, good, text in answers
    )
    return Section("release", "Its release", (release_entry, *entries))


_Answer = tuple[str, bool, str]


def _survival_answers(broker: Broker) -> Iterator[_Answer]:
    release, profile = broker.release, broker.profile
    if profile.replicates:
        yield (
            ("pure", True, "pure master/slave: a master that waits for its slave and copies to it")
            if release.has_pure_master_slave
            else ("pure", False, "pure master/slave, which activemq_ha asks for: its attributes do nothing")
        )
    elif profile.shares_store_directory and not release.has_lockers:
        yield "lockers", False, "<locker>: the lock is taken at the start and never looked at again"
    elif profile.shares_store_directory:
        yield "lockers", True, _lock_checks(broker)
    elif profile.has_database_lease and not release.has_adjustable_lease:
        yield "lease", False, "a lease of one's own length: it is always 5 s"
    if profile.shares_store:
        yield (
            ("restart", True, "the way back in one process: a node that loses its lock becomes standby again")
            if release.has_restart_allowed
            else ("restart", False, "the way back in one process: a node that loses its lock ends, and is started anew")
        )
    if release.has_ignore_no_space_errors:
        yield "no-space", True, "a stop on a full disk (ignoreNoSpaceErrors=false), instead of losing what was accepted"
    elif not profile.has_database_lease:
        yield "no-space", False, "a stop on a full disk: what was accepted then can be lost"


def _lock_checks(broker: Broker) -> str:
    if broker.release.lock_keepalive_checks_owner:
        return "<locker>: a keep-alive that sees a lock file deleted, or written by another broker"
    if broker.release.lock_keepalive_checks_file:
        return "<locker>: a keep-alive that sees a lock file deleted, but not that another broker wrote it"
    return "<locker>, with a keep-alive that does not look at the lock file"


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
                f"maxReconnectAttempts={release.bridge_reconnect_attempts}, so that a lost bridge is built anew",
            )
        )
    if release.forgets_early_bridge_failures:
        yield "bridges", False, "memory of a bridge that fails while it starts: it can stay away until a restart"
    if not release.has_replay_when_no_consumers:
        yield "replay", False, "replayWhenNoConsumers: messages do not go back to a broker they came from"
    elif release.replay_needs_audit_off:
        yield "replay", True, "replayWhenNoConsumers, with enableAudit=false so that a replay is no duplicate"
    else:
        yield "replay", True, "replayWhenNoConsumers: messages go back to a broker whose consumers came back"
    yield (
        ("ttl", True, "consumerTTL and messageTTL apart")
        if release.has_consumer_ttl
        else ("ttl", False, "consumerTTL and messageTTL apart: one networkTTL limits demand and messages alike")
    )


def _client_answers(broker: Broker) -> Iterator[_Answer]:
    if broker.release.supports_agents:
        yield "mqtt", True, "MQTT that delivers, so agents can be at home here"
    elif broker.release.has_usable_mqtt:
        yield "mqtt", False, "more than one durable MQTT subscription of a client: no agent can be at home here"
    else:
        yield "mqtt", False, "MQTT that delivers: no failover agent can be at home here"


def _security_answer(broker: Broker) -> _Answer:
    release = broker.release
    cves = len(release.advisories)
    open_to = f"open to {cves or 'no'} published CVE{'' if cves == 1 else 's'}"
    text = f"the security fixes that a new installation needs (from {release.security_floor} on); {open_to}"
    return "security", release.meets_security_floor, text
