"""Logs of fleets with problems: each problem is an incident with its cause and remedy."""

from __future__ import annotations

from tests.support.recorded_logs import LOGS, RecordedFindings, audit_directory, audit_logs, read_log

CASES = LOGS / "cases"


def audit_case(name: str) -> RecordedFindings:
    findings = audit_directory(CASES / name)
    assert findings.unexplained == []
    return findings


def test_case_bridge_never_up_is_failed_link() -> None:
    findings = audit_case("bridge-never-up")

    (bridge,) = findings.bridges
    assert (bridge.link, bridge.state, bridge.flaps) == ("news-mq01-a-to-news-mq02-a", "failed", 15)
    incident = findings.only_incident("link_down")
    assert "never came up. The broker tried 15 times to connect to" in incident.cause
    assert "Connection refused" in incident.cause


def test_case_bridge_frame_too_large_names_limit_of_peer() -> None:
    findings = audit_case("bridge-frame-too-large")

    incident = findings.only_incident("breaking_bridge")
    assert "broke 20 times" in incident.cause
    assert "mill-mq02 refuses a message that is larger than wireFormat.maxFrameSize" in incident.cause
    assert "max allowed 10 MB" in incident.cause
    assert incident.remedy.startswith("Set wireFormat.maxFrameSize")
    assert findings.kinds == {"breaking_bridge", "refused_frames"}


def test_case_frame_limit_wedge_is_breaking_bridge() -> None:
    findings = audit_case("frame-limit-wedge")

    assert findings.kinds == {"breaking_bridge"}
    assert findings.only_incident("breaking_bridge").remedy.startswith("Set wireFormat.maxFrameSize")


def test_case_bridge_dies_in_handshake_names_attempt_and_restart() -> None:
    findings = audit_case("bridge-dies-in-handshake")

    incident = findings.only_incident("link_down")
    assert findings.kinds == {"link_down"}
    assert "failed during the handshake at 11:12:41 UTC. The log has no later attempt" in incident.cause
    assert "run the operations stop and start of the network connector's MBean (by JMX or Jolokia)" in incident.remedy
    assert "No known release of ActiveMQ connects again after such a failure" in incident.remedy
    assert "1864" not in incident.cause + incident.remedy
    assert "does not try again" not in incident.cause + incident.remedy


def test_case_crash_loop_late_bean_is_failing_start() -> None:
    findings = audit_case("crash-loop-late-bean")

    assert findings.kinds == {"failing_start"}
    assert "failed to start 4 times" in findings.only_incident("failing_start").cause


def test_case_both_wait_for_lock_is_outage_of_pair() -> None:
    findings = audit_case("both-wait-for-lock")

    incident = findings.only_incident("outage")
    assert findings.kinds == {"outage"}
    assert "dock-mq01-a and dock-mq01-b wait for the lock" in incident.cause
    assert "since 2026-05-05 12:05:01 UTC" in incident.cause
    assert "L001" in incident.rules


def test_case_stale_lock_single_is_outage_of_broker() -> None:
    findings = audit_case("stale-lock-single")

    assert findings.kinds == {"outage"}
    assert "yard-mq01-a waits for the lock" in findings.only_incident("outage").cause


def test_case_acl_topic_for_queue_is_refusal_of_rights() -> None:
    findings = audit_case("acl-topic-for-queue")

    assert findings.kinds == {"refused_rights"}
    cause = findings.only_incident("refused_rights").cause
    assert "a client with the account handheld tried to write to topic://picks.done 60 times without the right" in cause


def test_case_store_full_blocks_names_destination_and_lowered_limit() -> None:
    findings = audit_case("store-full-blocks")

    incident = findings.only_incident("blocked_producers")
    assert findings.kinds == {"blocked_producers"}
    assert "blocked producers of queue://orders.in, because the store was full" in incident.cause
    assert "had lowered its limit at 2026-06-18 00:00:02 UTC" in incident.cause
    assert {"C012", "L025"} <= set(incident.rules)


def test_case_out_of_memory_is_incident() -> None:
    findings = audit_case("out-of-memory")

    assert findings.kinds == {"out_of_memory"}
    assert "ran out of memory 20 times" in findings.only_incident("out_of_memory").cause


def test_case_kahadb_eof_at_start_is_store_error_despite_next_start() -> None:
    findings = audit_case("kahadb-eof-at-start")

    incident = findings.only_incident("store_error")
    assert findings.kinds == {"store_error"}
    assert "damaged" in incident.cause
    assert "java.io.EOFException" in incident.cause


def test_case_shared_tmp_storage_names_start_that_deleted_it() -> None:
    for name, start in (("shared-tmp-storage", "10:00:04"), ("shared-tmp-storage-real", "10:40:34")):
        findings = audit_case(name)

        incident = findings.only_incident("lost_spool")
        assert findings.kinds == {"lost_spool"}, f"the audit reports {findings.incidents}"
        assert incident.host == "ledger-mq01-a"
        assert f"ledger-mq01-b had been started at {start} UTC" in incident.cause


def test_case_max_uncommitted_network_is_refusal_of_messages() -> None:
    assert audit_case("max-uncommitted-network").kinds == {"breaking_bridge", "refused_messages"}
    assert audit_case("max-uncommitted-network-real").kinds == {"refused_messages"}


def test_sample_logs_of_faulty_brokers_are_incidents_of_expected_kinds() -> None:
    expected = {
        "bad-discovery-scheme": {"failing_start"},
        "failIfLocked": {"failing_start"},
        "masterconnector-on-5.17": {"failing_start"},
        "port-in-use": {"failing_start"},
        "unmapped-xsd-version": {"failing_start"},
        "kahadb-journal-missing-start-refused": {"store_error"},
        "bridge-auth-failure-client": {"refused_credentials"},
        "duplex-both-ends-same-name-1": {"duplicate_bridge"},
        "flow-control": {"blocked_producers", "refused_connections"},
    }

    kinds_by_sample = {name: audit_logs({"x": read_log(LOGS / "samples" / name)}).kinds for name in expected}

    assert kinds_by_sample == expected
