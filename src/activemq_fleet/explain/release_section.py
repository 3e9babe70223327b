"""Explain what a broker's release has and lacks for what the broker does."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.explain.explanation import ExplanationSection, HostStatement, variable_entry
from activemq_fleet.topology import Broker, Fleet


def release_section(fleet: Fleet, broker: Broker) -> ExplanationSection:
    """Return the section of the output of the command ``explain`` about a broker's release.

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
        HostStatement("has" if is_present else "lacks", text, data={"has": is_present, "what": name})
        for name, is_present, text in answers
    )
    return ExplanationSection("release", "Release", (release_entry, *entries))


_Answer = tuple[str, bool, str]
_REQUIRED_BY_AGENTS = "as the failover agents (hosts in activemq_agents) require"


def _survival_answers(broker: Broker) -> Iterator[_Answer]:
    release, profile = broker.release, broker.ha_profile
    name = f"ActiveMQ {release.text}"
    if profile.replicates:
        yield (
            (
                "pure",
                True,
                f"{name} has pure master/slave: a master waits for its slave and replicates to it",
            )
            if release.has_pure_master_slave
            else (
                "pure",
                False,
                f"{name} does not support pure master/slave, which activemq_ha: pure requires. The broker ignores the "
                "XML attributes of pure master/slave",
            )
        )
    elif profile.shares_store_directory and not release.has_lockers:
        text = (
            f"{name} lacks <locker>: the broker acquires the lock of its store at its start, and never checks "
            "the lock again"
        )
        yield "lockers", False, text
    elif profile.shares_store_directory:
        yield "lockers", True, _lock_checks(broker)
    elif profile.has_database_lease and not release.has_adjustable_lease:
        yield (
            "lease",
            False,
            f"{name} cannot configure the lease of the database lock: it is always 5 s",
        )
    if profile.shares_store:
        yield (
            (
                "restart",
                True,
                f"{name} demotes without a restart: a node that loses its lock becomes standby",
            )
            if release.has_restart_allowed
            else (
                "restart",
                False,
                f"{name} cannot demote without a restart: a node that loses its lock stops, and the service unit "
                "starts it again",
            )
        )
    if release.has_ignore_no_space_errors:
        text = (
            f"{name} stops the broker on a full disk (ignoreNoSpaceErrors=false). Therefore no accepted message is lost"
        )
        yield "no-space", True, text
    elif not profile.has_database_lease:
        text = f"{name} does not stop the broker on a full disk: accepted messages can be lost"
        yield "no-space", False, text


def _lock_checks(broker: Broker) -> str:
    keepalive = f"ActiveMQ {broker.release.text} has <locker>, whose keep-alive"
    if broker.release.lock_keepalive_checks_owner:
        return f"{keepalive} detects that the lock file was deleted, or that another broker wrote it"
    if broker.release.lock_keepalive_checks_file:
        return f"{keepalive} detects that the lock file was deleted, but not that another broker wrote it"
    return f"{keepalive} does not check the lock file of the store"


def _network_answers(broker: Broker) -> Iterator[_Answer]:
    release, name = broker.release, f"ActiveMQ {broker.release.text}"
    if not broker.networked:
        return
    if not broker.ha_profile.replicates:
        yield (
            (
                "masterslave",
                True,
                f"{name} has masterslave: URIs, so a link has one URI for both nodes of a pair",
            )
            if release.has_masterslave_discovery
            else (
                "masterslave",
                False,
                f"{name} lacks masterslave: URIs. Links have static:(failover:(…)) with "
                f"maxReconnectAttempts={release.bridge_reconnect_attempts}, so that a broker reopens a lost bridge",
            )
        )
    if release.forgets_early_bridge_failures:
        text = (
            f"{name} does not retry a bridge that fails while it starts: the bridge can stay down until the "
            "broker restarts"
        )
        yield "bridges", False, text
    if not release.has_replay_when_no_consumers:
        text = f"{name} lacks replayWhenNoConsumers: messages cannot return to a broker that forwarded them"
        yield "replay", False, text
    elif release.replay_needs_audit_off:
        text = (
            f"{name} has replayWhenNoConsumers. It needs enableAudit=false, so that a broker rejects no returned "
            "message as a duplicate"
        )
        yield "replay", True, text
    else:
        text = (
            f"{name} has replayWhenNoConsumers: messages return to a broker that forwarded them, when consumers "
            "reconnect to it"
        )
        yield "replay", True, text
    yield (
        (
            "ttl",
            True,
            f"{name} limits subscriptions and messages separately, by consumerTTL and messageTTL",
        )
        if release.has_consumer_ttl
        else (
            "ttl",
            False,
            f"{name} lacks consumerTTL and messageTTL: networkTTL limits both subscriptions and messages",
        )
    )


def _client_answers(broker: Broker) -> Iterator[_Answer]:
    release, name = broker.release, f"ActiveMQ {broker.release.text}"
    if release.supports_agents:
        text = f"{name} supports several durable MQTT subscriptions per client, {_REQUIRED_BY_AGENTS}"
        yield "mqtt", True, text
    elif release.has_usable_mqtt:
        text = f"{name} does not support several durable MQTT subscriptions per client, {_REQUIRED_BY_AGENTS}"
        yield "mqtt", False, text
    else:
        yield (
            "mqtt",
            False,
            f"{name} has no MQTT connector that delivers messages, {_REQUIRED_BY_AGENTS}",
        )


def _security_answer(broker: Broker) -> _Answer:
    release, name = broker.release, f"ActiveMQ {broker.release.text}"
    cves = len(release.advisories)
    affected = f"{cves or 'no'} published CVE{' affects' if cves == 1 else 's affect'} {name}"
    verb = "has" if release.meets_security_floor else "lacks"
    fixes = f"the security fixes of {release.security_floor}, which new installations require"
    text = f"{name} {verb} {fixes}; {affected}"
    return "security", release.meets_security_floor, text
