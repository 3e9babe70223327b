"""Logs of real brokers of each release line with starts, a kill, takeovers and planned stops: no false alarms."""

from __future__ import annotations

import pytest

from tests.situations import some_situations
from tests.support.recorded_logs import LOGS, audit_directory, audit_logs, read_log

RELEASES = sorted(path.name for path in (LOGS / "healthy").iterdir())


def test_healthy_logs_cover_each_release_line() -> None:
    lines = {".".join(release.split(".")[:2]) for release in RELEASES}

    assert lines >= {"5.5", "5.8", "5.11", "5.15", "5.16", "5.17", "5.18", "6.0", "6.1", "6.2", "6.3"}
    assert len(list((LOGS / "healthy").glob("*/*/activemq.log.gz"))) >= 30


@pytest.mark.parametrize("release", RELEASES)
def test_audit_of_healthy_pairs_finds_only_takeovers(release: str) -> None:
    findings = audit_directory(LOGS / "healthy" / release)

    assert [(incident.kind, incident.host) for incident in findings.incidents] == [
        ("takeover", "depot-mq01-a"),
        ("takeover", "depot-mq01-b"),
    ]
    assert findings.unexplained == []
    assert [
        bridge for bridge in findings.bridges if bridge.is_not_rebuilt_by_running_broker or bridge.state == "failed"
    ] == []


def test_audit_of_log_of_one_healthy_node_finds_at_most_takeovers() -> None:
    for release in RELEASES:
        for host in ("depot-mq01-a", "depot-mq01-b", "depot-mq02-a"):
            findings = audit_logs({host: read_log(LOGS / "healthy" / release / host)})

            assert findings.kinds <= {"takeover"}, f"the log of {host} ({release}) contains {findings.incidents}"


def test_audit_of_sample_logs_of_healthy_brokers_finds_at_most_takeover() -> None:
    expected = {
        "bridge-n1-over-failover": set[str](),
        "kahadb-unclean-restart": set(),
        "shared-m1-master": set(),
        "shared-m2-promoted": {"takeover"},
    }

    findings_by_sample = {name: audit_logs({"x": read_log(LOGS / "samples" / name)}) for name in expected}

    assert {name: findings.kinds for name, findings in findings_by_sample.items()} == expected
    assert [findings.unexplained for findings in findings_by_sample.values()] == [[], [], [], []]


@some_situations(3)
@pytest.mark.parametrize("release", RELEASES)
def test_audit_of_healthy_logs_cut_at_any_time_finds_at_most_takeovers(release: str) -> None:
    logs = {home.name: read_log(home).decode().splitlines() for home in (LOGS / "healthy" / release).iterdir()}
    moments = sorted({line[:19] for lines in logs.values() for line in lines if line.startswith("20")})
    for end in moments[:: max(1, len(moments) // 8)]:
        lines_until_end = {
            host: [line for line in lines if line[:1] != "2" or line[:19] <= end] for host, lines in logs.items()
        }
        logs_until_end = {
            host: "\n".join(lines).encode() for host, lines in lines_until_end.items() if lines and lines[0][:1] == "2"
        }

        findings = audit_logs(logs_until_end, [("depot-mq01-a", "depot-mq01-b")])

        assert findings.kinds <= {"takeover"}, f"logs until {end} contain {findings.incidents}"
        assert findings.unexplained == []
