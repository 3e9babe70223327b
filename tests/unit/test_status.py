"""The status of a fleet: findings about each wrong state, from the evidence of the hosts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.errors import InputError
from activemq_fleet.findings import SEVERITIES
from activemq_fleet.pair_state import PairState
from activemq_fleet.reports.status_page import status_html_page
from activemq_fleet.status import FleetStatus, fleet_status, nagios_line_and_exit_code, parse_states_and_findings
from activemq_fleet.status.active_node_count_findings import different_stores_message
from activemq_fleet.status.findings import BY_IMPORTANCE
from activemq_fleet.status.selection import host_status_parameters, hosts_to_query, select_hosts
from activemq_fleet.status.text import broker_cells, status_headline, table_lines
from activemq_fleet.topology import AGENTS, BALANCERS, Fleet, build_fleet
from tests.support.broker_evidence import NOW, A, B, broker_evidence, usage_evidence
from tests.unit.fleets import fleet, hosts

SHOP_A, SHOP_B = "shop-mq01-a.example.com", "shop-mq01-b.example.com"
SINGLE_PAIR = fleet("orders-mq01")
BRIDGED = fleet("orders-mq01", "shop-mq01", links=[{"from": "shop", "to": "orders", "duplex": True}], topology="none")
LINK = "shop-mq01-to-orders-mq01"


def status_with(inspected: Fleet = SINGLE_PAIR, **hosts: dict[str, Any]) -> FleetStatus:
    """Return the status if some hosts, which are named a, b, shop_a and shop_b, report other evidence."""
    names = {"a": A, "b": B, "shop_a": SHOP_A, "shop_b": SHOP_B}
    other_evidence = {names[name]: evidence_of_host for name, evidence_of_host in hosts.items()}
    evidence = {
        broker.host: other_evidence[broker.host]
        if "unreachable" in other_evidence.get(broker.host, {})
        else {"broker": broker_evidence(inspected, broker.host, **other_evidence.get(broker.host, {}))}
        for broker in inspected.brokers
    }
    return fleet_status(inspected, evidence, now=NOW, seconds=1.5)


def rules_and_hosts(report: FleetStatus) -> list[tuple[str, str]]:
    return [(finding.rule, finding.host) for finding in report.findings]


def test_status_of_pair_with_active_and_standby_is_healthy() -> None:
    report = status_with()
    assert (rules_and_hosts(report), report.exit_code, status_headline(report)) == ([], 0, "2 brokers: all is well")
    assert report.brokers[0].configuration_state == "planned"
    assert table_lines(report)[1].split() == [
        *(A, "master", "active", "2", "h", "5.18.3", "planned", "1", "%", "3", "2", "0", "-", "-", "-")
    ]


def test_host_without_sudo_is_finding_with_remedy_for_sudo() -> None:
    (finding,) = [
        f for f in status_with(b={"unreachable": "Missing sudo password"}).findings if f.rule == "unreachable"
    ]

    assert finding.message == (
        "Ansible can log in to the host, but privilege escalation (become) fails there: Missing sudo password"
    )
    assert finding.fix == (
        f"permit sudo without a password for the SSH user on {B}. Or enter the password: run activemq-fleet status "
        "with --ansible-options=--ask-become-pass, or the playbook status with --ask-become-pass"
    )


def test_headline_of_status_counts_brokers_that_are_starting() -> None:
    starting = status_with(b={"state": "starting", "usage": {}, "holds_lock": None, "release": None})
    assert status_headline(starting) == "2 brokers: no problem, and 1 broker still starting"


STOPPED: dict[str, Any] = {"state": "stopped", "pid": None, "usage": {}, "holds_lock": None, "release": None}
HUNG: dict[str, Any] = {"state": "hung", "usage": {}}
CERTIFICATE = {"name": "connector mqtt", "error": ""}
# Name of the case, evidence of one of the two hosts, and the findings about it.
STATES: list[tuple[str, dict[str, Any], list[tuple[str, str]]]] = [
    ("frozen", {"a": {**HUNG, "frozen": True}}, [("frozen", A), ("no-active", A)]),
    ("hung", {"a": HUNG}, [("hung", A), ("no-active", A)]),
    ("hung standby", {"b": HUNG}, [("hung", B), ("standby-missing", B)]),
    ("no standby", {"b": STOPPED}, [("standby-missing", B)]),
    ("no active broker", {"a": STOPPED}, [("no-active", A)]),
    (
        "two active brokers",
        {"b": {"state": "active", "holds_lock": True, "usage": usage_evidence()}},
        [("two-active", A)],
    ),
    ("lost lock", {"a": {"holds_lock": False}}, [("lock-lost", A)]),
    ("hidden descriptors", {"a": {"holds_lock": False, "release": None}}, []),
    ("standby without permission to lock", {"b": {"store_access": "lock: permission denied"}}, [("store-access", B)]),
    (
        "port of standby in use",
        {"b": {"taken_ports": [{"port": 61616, "address": "0.0.0.0", "pid": None, "program": None}]}},
        [("port-in-use", B)],
    ),
    ("stopped watchdog", {"a": {"watchdog": {"state": "failed", "text": ""}}}, [("not-watched", A)]),
    (
        "watchdog without access to files",
        {"a": {"watchdog": {"state": "active", "text": "the broker is not watched, because its files …"}}},
        [("not-watched", A)],
    ),
    ("running watchdog", {"a": {"watchdog": {"state": "active", "text": "process 7 answers"}}}, []),
    ("another release", {"a": {"release": "5.5.1"}}, [("wrong-release", A)]),
    ("changed by hand", {"a": {"drift": ["conf/activemq.xml was changed by hand"]}}, [("changed-by-hand", A)]),
    ("required restart", {"b": {"restart_reasons": ["conf/activemq.xml changed"]}}, [("restart-required", B)]),
    ("full store", {"a": {"usage": usage_evidence(store={"percent": 100, "limit": 1})}}, [("store-full", A)]),
    (
        "full memory",
        {
            "a": {
                "state": "unhealthy",
                "message_returned": False,
                "usage": usage_evidence(memory={"percent": 100, "limit": 1}),
            }
        },
        [("memory-full", A)],
    ),
    ("failed round trip", {"a": {"state": "unhealthy", "message_returned": False}}, [("messages-held-back", A)]),
    ("filling memory", {"a": {"usage": usage_evidence(memory={"percent": 80, "limit": 1})}}, [("memory-filling", A)]),
    ("full file system", {"a": {"free": {"/srv": 1 << 20}}}, [("disk-full", A)]),
    ("dead letters", {"a": {"usage": usage_evidence(dlq=4)}}, [("dlq", A)]),
    ("log with unknown layout", {"a": {"log_error": "use a pattern"}}, [("log-unreadable", A)]),
    ("JVM without response", {"a": {"usage": {}, "usage_error": "refused"}}, [("usage-unknown", A)]),
    (
        "certificate that expires soon",
        {"a": {"certificates": [{**CERTIFICATE, "ends": NOW + 86400}]}},
        [("certificate-near-end", A)],
    ),
    (
        "certificate that expires in a minute",
        {"a": {"certificates": [{**CERTIFICATE, "ends": NOW + 60}]}},
        [("certificate-near-end", A)],
    ),
    ("expired certificate", {"a": {"certificates": [{**CERTIFICATE, "ends": NOW - 1}]}}, [("certificate-ended", A)]),
    ("certificate that expires later", {"a": {"certificates": [{**CERTIFICATE, "ends": NOW + 86400 * 90}]}}, []),
    ("unreachable", {"b": {"unreachable": "no route to host"}}, [("unreachable", B)]),
    (
        "both unreachable",
        {"a": {"unreachable": "x"}, "b": {"unreachable": "x"}},
        [("unreachable", A), ("unreachable", B)],
    ),
    ("unknown state", {"b": {"state": None, "how": "current is no link"}}, [("unknown-state", B)]),
    ("standby, and unknown state", {"a": {"state": None, "how": "current is no link"}}, [("unknown-state", A)]),
    ("stopped standby, and unknown state", {"a": {"state": None}, "b": STOPPED}, [("unknown-state", A)]),
    ("subscriptions at risk", {"a": {"subscriptions_at_risk": ["daily: 50"]}}, [("subscriptions-at-risk", A)]),
    ("stale generation", {"a": {"generation": 3, "generation_in_force": 4}}, [("stale-generation", A)]),
    ("unmounted store", {"a": {"generation": 3, "generation_in_force": 0}}, [("store-access", A)]),
    ("another directory", {"a": {"generation": 3, "generation_in_force": 1}}, [("store-access", A)]),
    (
        "two active brokers with guards, one generation stale",
        {
            "a": {"guard": 9, "generation": 3, "generation_in_force": 4},
            "b": {"state": "active", "guard": 9, "generation": 4, "generation_in_force": 4, "usage": usage_evidence()},
        },
        [("stale-generation", A)],
    ),
    (
        "old generation that only the peer can see",
        {
            "a": {"guard": 9, "generation": 3, "generation_in_force": 3},
            "b": {"state": "active", "guard": 9, "generation": 4, "generation_in_force": 4, "usage": usage_evidence()},
        },
        [("stale-generation", A)],
    ),
    (
        "hung node that can write to the store of the active node",
        {
            "a": {"guard": 9, "generation": 4, "generation_in_force": 4},
            "b": {**HUNG, "guard": 9, "generation": 4, "generation_in_force": 4},
        },
        [("two-active", A), ("hung", B), ("standby-missing", B)],
    ),
    (
        "starting node that can write to the store of the active node",
        {
            "a": {"guard": 9, "generation": 4, "generation_in_force": 4},
            "b": {"state": "starting", "guard": 9, "generation": 4, "generation_in_force": 4},
        },
        [("two-active", A)],
    ),
    (
        "two active brokers with guards, one generation unknown",
        {
            "a": {"guard": 9, "generation": 4, "generation_in_force": 4},
            "b": {"state": "active", "guard": 9, "generation_in_force": 4, "usage": usage_evidence()},
        },
        [("two-active", A)],
    ),
]


def test_fix_of_stopped_pair_is_to_continue_interrupted_site() -> None:
    (finding,) = [finding for finding in status_with(a=STOPPED, b=STOPPED).findings if finding.rule == "no-active"]

    assert finding.fix == (
        "if the playbook site was interrupted, run it again. Otherwise check activemq.log and journalctl -u activemq "
        f"on {A} and {B} for the reason, then run systemctl start activemq"
    )


STANDBY: dict[str, Any] = {"state": "standby", "holds_lock": False, "usage": {}}
PURE_PAIR = fleet("orders-mq01", release="5.5.1", ha="pure")


@pytest.mark.parametrize(
    ("fence", "remedies"),
    [
        ("none", ("run fuser -v /srv/activemq/orders-mq01/lock,",)),
        ("guard", ("check journalctl -u activemq on", "fuser -v /srv/activemq/orders-mq01/fence/lock")),
    ],
)
def test_fix_of_pair_of_standbys_names_lock_of_its_fence(fence: str, remedies: tuple[str, ...]) -> None:
    report = status_with(fleet("orders-mq01", fence=fence), a=STANDBY, b=STANDBY)
    (finding,) = [finding for finding in report.findings if finding.rule == "no-active"]
    assert [remedy for remedy in remedies if remedy not in finding.fix] == []


def test_fix_of_stopped_pure_pair_is_playbook_resync() -> None:
    report = status_with(PURE_PAIR, a=STOPPED, b=STOPPED)
    (finding,) = [finding for finding in report.findings if finding.rule == "no-active"]
    assert finding.fix.endswith("then run the playbook resync for the pair orders-mq01")


def test_fix_of_pure_pair_with_two_masters_stops_no_broker() -> None:
    second_evidence = {"state": "active", "usage": usage_evidence(), "store": "/other"}
    report = status_with(PURE_PAIR, a={"holds_lock": True}, b=second_evidence | {"holds_lock": True})
    (finding,) = [finding for finding in report.findings if finding.rule == "two-active"]
    assert "lock" not in finding.message
    assert finding.fix.startswith("keep both brokers running")
    assert "-e activemq_target=orders-mq01 -e activemq_resync_from=HOST" in finding.fix


@pytest.mark.parametrize("frozen", [True, False])
def test_message_of_hung_broker_makes_no_claim_about_its_lock(frozen: bool) -> None:
    report = status_with(a=HUNG | {"frozen": frozen}, b={"state": "active", "holds_lock": True})
    (finding,) = [finding for finding in report.findings if finding.rule in ("hung", "frozen")]
    assert finding.message.endswith(". While it holds the lock of its store, the standby cannot take over")


def test_unmounted_store_has_single_finding_although_account_cannot_lock_it() -> None:
    fleet_status = status_with(a={"generation": 3, "generation_in_force": 0, "store_access": "Permission denied"})

    assert rules_and_hosts(fleet_status) == [("store-access", A)]
    assert "mount the shared directory" in fleet_status.findings[0].fix


def test_unmounted_store_of_running_broker_is_named_and_no_kill_is_advised() -> None:
    (finding,) = status_with(a={"generation": 3, "generation_in_force": 0, "store": "/mnt/mq/orders-mq01"}).findings

    assert "the directory /mnt/mq/orders-mq01 on the host contains no generation" in finding.message
    assert "mount the shared directory of /mnt/mq/orders-mq01 again" in finding.fix
    assert "kill" not in finding.fix


@pytest.mark.parametrize(("hosts", "expected"), [case[1:] for case in STATES], ids=[case[0] for case in STATES])
def test_state_of_host_has_expected_findings(hosts: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    report = status_with(**hosts)
    assert sorted(rules_and_hosts(report)) == sorted(expected)
    assert all(finding.message and finding.fix for finding in report.findings)
    assert report.exit_code == int(any(finding.severity != "info" for finding in report.findings))


@pytest.mark.parametrize(
    ("standby", "fix"),
    [
        (STOPPED, f"on {B}, check journalctl -u activemq for the reason, then run systemctl start activemq"),
        (HUNG, f"on {B}, kill the broker with systemctl kill -s KILL activemq.service"),
    ],
    ids=["stopped", "hung"],
)
def test_fix_of_missing_standby_contains_command_for_its_state(standby: dict[str, Any], fix: str) -> None:
    (finding,) = [finding for finding in status_with(b=standby).findings if finding.rule == "standby-missing"]
    assert finding.fix.startswith(fix)


def test_fix_of_pair_that_was_never_installed_is_playbook_site() -> None:
    not_installed = STOPPED | {"version": None}
    report = status_with(a=not_installed, b=not_installed)
    (finding,) = [finding for finding in report.findings if finding.rule == "no-active"]
    assert f"{A} is stopped, because the playbook site has not installed its broker" in finding.message
    assert finding.fix.startswith("run the playbook site")
    assert {broker_cells(row, NOW)[2] for row in report.brokers if row.host in (A, B)} == {"not installed"}
    assert {report.states_by_host[host] for host in (A, B)} == {"stopped"}


@pytest.mark.parametrize("state", ["standby", "stopped", "hung"])
def test_pair_without_active_node_is_no_finding_if_peer_was_not_queried(state: str) -> None:
    evidence = broker_evidence(SINGLE_PAIR, B, state=state, usage={}, holds_lock=None)
    report = fleet_status(SINGLE_PAIR, {B: {"broker": evidence}}, now=NOW)
    assert "no-active" not in [finding.rule for finding in report.findings]


@pytest.mark.parametrize(
    ("evidence", "rule"),
    [(STOPPED, "no-active"), ({"state": None}, "unknown-state"), ({"state": "x"}, "unknown-state")],
)
def test_single_broker_that_is_not_active_is_finding(evidence: dict[str, Any], rule: str) -> None:
    single = fleet("orders-mq01", ha="none")
    host = single.brokers[0].host
    report = fleet_status(single, {host: {"broker": broker_evidence(single, host, **evidence)}}, now=NOW)
    assert rules_and_hosts(report) == [(rule, host)]


@pytest.mark.parametrize(
    ("broker_state", "agent_state", "state", "exit_code"),
    [
        ("hung", "running", "hung", 2),
        ("active", "stopped", "active", 2),
        (None, "running", "unknown", 3),
        ("active", None, "active", 3),
    ],
)
def test_state_of_host_with_broker_and_agent_is_that_of_broker(
    broker_state: str | None, agent_state: str | None, state: str, exit_code: int
) -> None:
    both = build_fleet(
        {A: {"activemq_release": "5.18.3", "activemq_ha": "none", "activemq_agent_topics": ["a/#"]}},
        {"activemq_agents": [A]},
    )
    host_evidence = {
        "broker": broker_evidence(both, A, state=broker_state, how="x"),
        "agent": {"state": agent_state, "how": "x", "publisher": A},
    }
    report = fleet_status(both, {A: host_evidence}, now=NOW)
    assert report.states_by_host == {A: state}
    assert parse_states_and_findings(json.dumps(report.to_dict()), "s.json")[0] == {A: state}
    line, code = nagios_line_and_exit_code(report)
    assert code == exit_code, line
    assert f" - {A} is {state}; " in line


def test_missing_virtual_address_is_finding_only_if_all_balancers_were_queried() -> None:
    names = ["lb1", "lb2"]
    variables = {
        "activemq_vip": "10.77.0.100",
        "activemq_vip_interface": "eth0",
        "activemq_vip_username": "check",
        "activemq_vip_password": "s3cret-check",
    }
    balanced = build_fleet(hosts("orders-mq01") | dict.fromkeys(names, variables), {BALANCERS: names})
    standby = {
        "haproxy": {"answers": True, "state": "active/running"},
        "keepalived": {"state": "active/running"},
        "addresses": {"orders": False},
    }
    all_findings = fleet_status(balanced, {name: {"balancer": standby} for name in names}, now=NOW).findings
    assert [finding.rule for finding in all_findings] == ["no-address"]
    assert fleet_status(balanced, {"lb2": {"balancer": standby}}, now=NOW).findings == ()


def test_fix_of_standby_that_was_never_installed_is_playbook_site() -> None:
    (finding,) = [
        finding for finding in status_with(b=STOPPED | {"version": None}).findings if finding.rule == "standby-missing"
    ]
    assert finding.fix == f"run the playbook site, which installs and starts the broker on {B}"


def test_fix_of_two_active_brokers_without_store_names_no_directory() -> None:
    second_evidence = {"state": "active", "holds_lock": True, "usage": usage_evidence()}
    (finding,) = status_with(a={"store": None}, b=second_evidence).findings
    assert finding.rule == "two-active"
    assert finding.fix == (
        "immediately stop the broker with fewer client connections. If neither broker has client connections, stop "
        "either of the two"
    )


def test_two_active_brokers_with_unreadable_generation_are_reported() -> None:
    second_evidence = {"state": "active", "holds_lock": True, "usage": usage_evidence(), "guard": 9, "generation": 4}

    (finding,) = status_with(a={"guard": 9, "generation": 4}, b=second_evidence).findings

    assert finding.rule == "two-active"
    assert "the newest generation (numbered copy) of the store cannot be read" in finding.message


@pytest.mark.parametrize("guard", [None, 9])
def test_error_of_two_active_brokers_names_their_different_stores(guard: int | None) -> None:
    first_evidence = {"store": "/srv/orders", "guard": guard, "generation": 5, "generation_in_force": 5}
    second_evidence = {
        "state": "active",
        "holds_lock": True,
        "usage": usage_evidence(),
        "store": "/srv/order",
        "guard": guard,
    }

    (finding,) = status_with(a=first_evidence, b=second_evidence | {"generation": 1, "generation_in_force": 1}).findings

    assert (finding.rule, finding.severity) == ("two-active", "error")
    assert f"because they use different stores (/srv/orders on {A}, /srv/order on {B})" in finding.message
    assert "Keep a copy of both stores" in finding.fix


def test_active_brokers_with_different_store_markers_are_not_outdated() -> None:
    fenced = {"guard": 9, "generation": 5, "generation_in_force": 5, "store_marker": ["orders-mq01", "run1"]}
    second_evidence = {"state": "active", "holds_lock": True, "usage": usage_evidence(), "guard": 9}
    second_store = {"generation": 1, "generation_in_force": 1, "store_marker": ["orders-mq01", "run2"]}

    (finding,) = status_with(a=fenced, b=second_evidence | second_store).findings

    assert finding.rule == "two-active"
    assert "because they use different stores" in finding.message
    assert "mount the same share on both hosts, and run the playbook site" in finding.fix


@pytest.mark.parametrize(
    ("stores", "are_different"),
    [
        (("/srv/x", "/srv/x"), False),
        ((None, "/srv/x"), False),
        ((None, None), False),
        (("/srv/x", "/srv/y"), True),
    ],
)
def test_nodes_with_different_store_directories_use_different_stores(
    stores: tuple[str | None, str | None], *, are_different: bool
) -> None:
    report = status_with(a={"store": stores[0]}, b={"store": stores[1]})
    assert PairState(report.brokers).uses_different_stores == are_different


def test_different_store_directories_are_named_with_their_hosts() -> None:
    message = "they use different stores (/srv/x on a, /srv/y on b)"
    assert different_stores_message({"b": "/srv/y", "a": "/srv/x"}) == message


def test_deployed_file_that_differs_from_inventory_is_finding() -> None:
    deployed = {**broker_evidence(SINGLE_PAIR, A)["deployed"], "conf/activemq.xml": "0" * 64}
    del deployed["conf/log4j2.properties" if "conf/log4j2.properties" in deployed else "conf/log4j.properties"]
    report = status_with(a={"deployed": deployed})
    assert (report.brokers[0].configuration_state, rules_and_hosts(report)) == ("outdated", [("not-deployed", A)])
    assert "conf/activemq.xml differs from the inventory" in report.brokers[0].not_deployed


def bridge(peer: str, link: str = "", *, responder: bool = False) -> dict[str, Any]:
    return {"link": link, "peer": peer, "responder": responder}


BOTH = {
    "shop_a": {"usage": usage_evidence(bridges=[bridge("orders-mq01", LINK)])},
    "a": {"usage": usage_evidence(bridges=[bridge("shop-mq01", responder=True)])},
}
NULL = {"level": "INFO", "message": f"Started responder end of duplex bridge {LINK}@null"}
GOOD = {"level": "INFO", "message": f"Started responder end of duplex bridge {LINK}@ID:shop-1"}
REFUSED = {"level": "WARN", "message": "Could not accept connection from tcp://10.0.0.1:4 : User name is invalid."}
_HANDSHAKE = "javax.net.ssl.SSLHandshakeException:"
ALERT = {
    "level": "WARN",
    "message": f"Could not accept connection from tcp://a:4: {_HANDSHAKE} Received fatal alert: certificate_unknown",
}
CONNECTION_FAILED = f"Could not connect to remote URI: ssl://{A}:61616: {_HANDSHAKE}"
UNTRUSTED = {"level": "WARN", "message": f"{CONNECTION_FAILED} PKIX path building failed"}
ALERT_RECEIVED = {"level": "WARN", "message": f"{CONNECTION_FAILED} Received fatal alert: bad_certificate"}


@pytest.mark.parametrize(
    ("hosts", "state", "reason"),
    [
        (BOTH, "up", ""),
        ({**BOTH, "a": {"usage": usage_evidence()}}, "half", f"{A} has no connection for the opposite direction"),
        ({**BOTH, "a": {**BOTH["a"], "records": [NULL]}}, "half", "did not receive the broker id of"),
        ({**BOTH, "a": {**BOTH["a"], "records": [NULL, GOOD]}}, "up", ""),
        ({**BOTH, "shop_a": {"usage": usage_evidence()}}, "down", "no log contains a reason"),
        ({}, "down", "no log contains a reason"),
        ({"a": {"records": [REFUSED]}}, "down", f"the log of {A} reports: User name is invalid."),
        (
            {"a": {"records": [ALERT]}, "shop_a": {"records": [UNTRUSTED]}},
            "down",
            f"the log of {SHOP_A} reports: {CONNECTION_FAILED} PKIX path",
        ),
        (
            {"a": {"records": [REFUSED]}, "shop_a": {"records": [ALERT_RECEIVED]}},
            "down",
            f"the log of {A} reports: User name is invalid.",
        ),
        ({"a": {"records": [ALERT, ALERT, REFUSED]}}, "down", f"the log of {A} reports: User name is invalid."),
        (
            {"a": {"records": [ALERT]}},
            "down",
            f"the log of {A} reports: {_HANDSHAKE} Received fatal alert: certificate_unknown",
        ),
        ({"shop_a": {"usage": {}, "usage_error": "x"}}, "unknown", "the management view (JMX)"),
    ],
)
def test_status_reports_state_of_link_with_reason(hosts: dict[str, Any], state: str, reason: str) -> None:
    report = status_with(BRIDGED, **hosts)
    (link,) = next(row for row in report.brokers if row.host == SHOP_A).links
    assert (link.link, link.to, link.state) == (LINK, (A,), state)
    assert reason in link.reason
    bridge_rules = [rule for rule, host in rules_and_hosts(report) if rule.startswith("bridge")]
    assert bridge_rules == {"half": ["bridge-half"], "down": ["bridge-down"]}.get(state, [])


BREAKS = {"peer": "orders-mq01", "count": 22, "first": 1.0, "last": 50.0, "error": "java.io.EOFException"}
EDGE = {"name": "edge", "messages": 2, "consumers": 0, "dlq": False, "largest": 10_485_650}
OTHER = {"name": "other", "messages": 28, "consumers": 0, "dlq": False, "largest": 12}
TOO_LARGE = "Transport Connection to: tcp://10.0.0.1:4 failed: java.io.IOException: Frame size of 14 MB larger than max"


@pytest.mark.parametrize(
    ("queues", "records", "texts"),
    [
        ([EDGE, OTHER], [], ("queue://edge", "EOFException", "correct this error")),
        ([OTHER, EDGE], [f"{TOO_LARGE} allowed 10 MB"], ("queue://edge", TOO_LARGE, "wireFormat.maxFrameSize")),
        ([{**OTHER, "largest": 0}] * 5, [], ("queue://other and 2 more", "EOFException", "move this message")),
        ([{**OTHER, "largest": 0}], [], ("one of these queues: queue://other", "EOFException", "move this message")),
        ([], [], ("that the log does not name", "EOFException", "correct this error")),
    ],
)
def test_bridge_that_breaks_repeatedly_is_finding_with_queue_and_remedy(
    queues: list[dict[str, Any]], records: list[str], texts: tuple[str, ...]
) -> None:
    log_records = [{"level": "WARN", "message": text} for text in records]
    hosts: dict[str, Any] = {"shop_a": {"usage": usage_evidence(queues=queues), "breaking_bridges": [BREAKS]}}
    hosts["a"] = {"records": log_records}
    report = status_with(BRIDGED, **hosts)
    (finding,) = [finding for finding in report.findings if finding.rule.startswith("bridge")]
    assert (finding.rule, finding.host, finding.severity) == ("bridge-breaking", SHOP_A, "error")
    assert "22 times" in finding.message
    for text in texts:
        assert text in f"{finding.message}: {finding.fix}"


def test_link_is_recognized_by_its_name_in_jmx() -> None:
    linked_pairs = fleet("orders-mq01", "shop-mq01", links=[{"from": "shop", "to": "orders", "name": "T:shop->orders"}])
    bridges = [bridge("orders-mq01", "T_shop->orders")]
    fleet_status = status_with(
        linked_pairs, shop_a={"usage": usage_evidence(bridges=bridges)}, a={"usage": usage_evidence()}
    )
    assert "up" in {link.state for row in fleet_status.brokers for link in row.links if link.link == "T:shop->orders"}


def test_link_to_pair_without_active_node_is_not_expected() -> None:
    report = status_with(BRIDGED, a={"state": "starting", "usage": {}})
    assert [row.links for row in report.brokers if row.host == SHOP_A] == [()]


def test_nagios_line_has_worst_finding_and_performance_data() -> None:
    fleet_status = status_with(a={"release": "5.5.1", "usage": usage_evidence(store={"percent": 85, "limit": 1})})
    line, code = nagios_line_and_exit_code(fleet_status.restricted_to([A]))
    assert code == 2
    assert line.startswith(
        f"ACTIVEMQ CRITICAL - {A} is active; wrong-release: the broker runs release 5.5.1, "
        "but the inventory plans release 5.18.3; "
    )
    assert line.endswith("| store=85%;80;100;0 memory=1%;80;100;0 temp=1%;80;100;0 messages=3 durable=2 dlq=0")
    assert nagios_line_and_exit_code(status_with().restricted_to([A]))[1] == 0
    assert nagios_line_and_exit_code(status_with(b=STOPPED).restricted_to([B]))[1] == 1
    assert nagios_line_and_exit_code(status_with(b={"unreachable": "x|y\nz"}).restricted_to([B])) == (
        f"ACTIVEMQ UNKNOWN - {B} is unreachable; unreachable: the host did not answer Ansible (x/y z)",
        3,
    )


def test_finding_about_pair_is_in_status_of_each_node() -> None:
    report = status_with(a=STOPPED)
    assert [finding.rule for finding in report.restricted_to([B]).findings] == ["no-active"]


def test_states_and_findings_are_parsed_from_status_json() -> None:
    status_json = json.dumps(status_with(a={"release": "5.5.1"}).to_dict())
    states, findings = parse_states_and_findings(status_json, "s.json")
    assert states == {A: "active", B: "standby"}
    assert [(finding.rule, finding.severity, finding.host) for finding in findings] == [("wrong-release", "error", A)]
    for invalid in ("[]", "{}", "x", '{"format": 2}', '{"format": 1, "brokers": 3}'):
        with pytest.raises(InputError, match=r"s\.json: the file is not a status"):
            parse_states_and_findings(invalid, "s.json")


def test_status_page_shows_findings_and_escapes_texts_of_hosts() -> None:
    page = status_html_page(status_with(b={"unreachable": "<script>alert(1)</script>"}))
    assert "unreachable" in page
    assert "<script>" not in page


def test_status_of_host_queries_its_pair_and_peers_of_its_links() -> None:
    assert select_hosts(BRIDGED, "shop-mq01-a") == (SHOP_A,)
    assert hosts_to_query(BRIDGED, (SHOP_A,)) == (A, B, SHOP_A, SHOP_B)
    assert hosts_to_query(BRIDGED, (A,)) == (A, B)
    assert select_hosts(BRIDGED, "orders") == select_hosts(BRIDGED, "orders-mq01") == (A, B)
    assert host_status_parameters(SINGLE_PAIR, (A,)) == {
        A: {"broker": {"base": "/var/lib/activemq/activemq", "unit": "activemq.service"}}
    }
    with pytest.raises(InputError, match="the name is absent, which is not a host, pair or group"):
        select_hosts(BRIDGED, "absent")


def test_status_of_agent_distinguishes_its_certificate_from_authorities() -> None:
    stores = {"keystore": "/k", "keystore_password": "x", "truststore": "/t", "truststore_password": "x"}
    agent = {
        "activemq_agent_username": "web",
        "activemq_agent_password": "secret",
        "activemq_agent_tls_certificate": "/etc/ssl/web.pem",
        "activemq_agent_tls_key": "/etc/ssl/web.key",
        "activemq_agent_tls_ca": "/etc/ssl/ca.pem",
    }
    inspected = build_fleet(hosts("orders-mq01", tls=stores) | {"web": agent}, {AGENTS: ["web"]})
    parameters = host_status_parameters(inspected, ("web",))["web"]["agent"]
    assert parameters["certificates"] == ["/etc/ssl/web.pem"]
    assert parameters["authorities"] == ["/etc/ssl/ca.pem"]


@pytest.mark.parametrize(
    ("options", "socket"),
    [
        ({}, None),
        ({"socket": "/run/agent/a.sock"}, "/run/agent/a.sock"),
        ({"socket": "a.sock"}, "/etc/activemq-agent/a.sock"),
    ],
)
def test_status_queries_agent_at_socket_of_agent_options(options: dict[str, str], socket: str | None) -> None:
    agent = {
        "activemq_agent_username": "web",
        "activemq_agent_password": "secret",
        "activemq_agent_state": "/srv/agent",
        "activemq_agent_options": options,
    }
    inspected = build_fleet(hosts("orders-mq01") | {"web": agent}, {AGENTS: ["web"]})
    assert host_status_parameters(inspected, ("web",))["web"]["agent"]["socket"] == socket


def test_status_page_needs_no_package_of_extra_pipeline() -> None:
    """A controller does not have pyarrow and Spark, which belong to the extra ``pipeline``."""
    blocked = "import sys; sys.modules.update(dict.fromkeys(('pyarrow', 'pyspark', 'numpy')))"
    imports = (
        "from activemq_fleet.reports.status_page import write_status_as_html_or_json; import activemq_fleet.cli.status"
    )
    program = f"{blocked}; {imports}"
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (completed.returncode, completed.stderr) == (0, "")


def test_status_findings_of_same_severity_are_sorted_by_importance() -> None:
    report = status_with(
        a={"usage": usage_evidence(store={"percent": 100, "limit": 1})},
        b={"state": "active", "restart": ["conf/activemq.xml"]},
    )
    severities = [finding.severity for finding in report.findings]
    positions = [BY_IMPORTANCE.index(finding.rule) for finding in report.findings if finding.severity == "error"]

    assert severities == sorted(severities, key=SEVERITIES.index)
    assert report.findings[0].rule == "two-active"
    assert len(positions) > 1
    assert positions == sorted(positions)


def test_status_documentation_lists_every_rule() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "status.md").read_text("utf-8")
    table = page[page.index("## Findings") : page.index("## JSON")]
    listed = {rule for row in re.findall(r"(?m)^\| (`[^|]*) \|", table) for rule in re.findall(r"`([a-z-]+)`", row)}

    assert listed == set(BY_IMPORTANCE)
    assert len(BY_IMPORTANCE) == len(set(BY_IMPORTANCE))
