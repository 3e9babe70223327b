"""Findings about hosts: from the facts of a machine to the line that stops a playbook run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from activemq_fleet.deployment import BrokerFacts, broker_facts
from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.state import machine
from activemq_fleet.node.state.evidence import MachineFacts
from activemq_fleet.operations.preflight import facts_without_manual_broker_ports_and_warning
from activemq_fleet.topology import Broker
from activemq_fleet.validation import preflight_findings
from tests.unit.fleets import fleet

A, B = "orders-mq01-a.example.com", "orders-mq01-b.example.com"
STORE = "/srv/activemq/orders-mq01"
SERVER = "filer:/export/activemq /srv/activemq"


def facts_by_host(**variables: Any) -> dict[str, BrokerFacts]:
    brokers: tuple[Broker, ...] = fleet("orders-mq01", **variables).brokers
    return {broker.host: broker_facts(broker) for broker in brokers}


def mount_facts(mounts: str, **options: Any) -> MachineFacts:
    """Return the facts of a machine with these lines in /proc/self/mounts, as ``machine_info`` returns them."""
    mount = machine.mount_of(STORE, f"/dev/sda1 / ext4 rw,relatime 0 0\n{mounts}")
    assert mount is not None
    return MachineFacts.from_machine_info_result(
        {"store_filesystem": mount.kind, "store_mount_options": list(mount.options), **options}
    )


def rules_of(machine_facts: MachineFacts, **variables: Any) -> list[str]:
    return [finding.rule for finding in preflight_findings(facts_by_host(**variables), {A: machine_facts})]


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        (f"{SERVER} nfs4 rw,relatime,vers=4.2,hard,proto=tcp,local_lock=none,addr=10.0.0.9 0 0", []),
        (f"{SERVER} nfs rw,relatime,vers=3,hard,mountvers=3,local_lock=none,addr=10.0.0.9 0 0", ["L001"]),
        (f"{SERVER} nfs rw,relatime,vers=3,nolock,local_lock=all,addr=10.0.0.9 0 0", ["L001", "L002", "L002"]),
        (f"{SERVER} nfs4 rw,vers=4.1,local_lock=posix 0 0", ["L002"]),
        ("/dev/sdb1 /srv/activemq ocfs2 rw,_netdev,heartbeat=local 0 0", ["L002"]),
        ("//filer/activemq /srv/activemq cifs rw,vers=3.1.1 0 0", ["L002"]),
        ("filer:activemq /srv/activemq fuse.glusterfs rw 0 0", []),
        ("/dev/sdb1 /srv/activemq gfs2 rw,relatime 0 0", []),
    ],
)
def test_store_mount_causes_findings_for_its_file_system_and_options(mounts: str, expected: list[str]) -> None:
    assert rules_of(mount_facts(mounts)) == expected


def test_share_mounted_on_single_node_causes_warning_for_other_node() -> None:
    facts = {A: mount_facts("", boot="1"), B: mount_facts(f"{SERVER} nfs4 rw,vers=4.2 0 0", boot="2")}
    (finding,) = preflight_findings(facts_by_host(), facts)
    assert (finding.rule, finding.host, finding.severity) == ("L026", A, "warning")
    assert f"{STORE} is on ext4" in finding.message


def test_two_nodes_on_same_machine_may_share_its_disk() -> None:
    assert preflight_findings(facts_by_host(), {A: mount_facts("", boot="1"), B: mount_facts("", boot="1")}) == []


def test_limits_above_capacity_and_unsynchronized_clock_cause_findings() -> None:
    assert rules_of(MachineFacts(store_capacity=5 << 30), store_limit="20 gb") == ["L025"]
    assert rules_of(MachineFacts(memory=16 << 30), heap="32g") == ["L044"]
    assert rules_of(MachineFacts(memory=16 << 30), heap="4g", java_options=["-Xmx32g"]) == ["L044"]
    assert rules_of(MachineFacts(memory=16 << 30), heap="4g") == []
    jdbc = {"url": "jdbc:x:y", "driver": "a.B", "jar": "/j.jar", "username": "u", "password": "p"}
    assert rules_of(MachineFacts(clock_synchronised=False), ha="shared-jdbc", jdbc=jdbc) == ["L011"]
    assert rules_of(MachineFacts(clock_synchronised=False)) == []


def test_fix_of_heap_above_memory_names_both_variables_that_set_heap() -> None:
    settings = facts_by_host(heap="4g", java_options=["-Xmx32g"])
    (finding,) = preflight_findings(settings, {A: MachineFacts(memory=16 << 30)})
    assert finding.fix == (
        "lower the heap to less than 16384m: activemq_heap, or -Xmx in activemq_java_options if it is set"
    )


def test_preflight_finding_has_same_format_and_waivers_as_other_findings() -> None:
    facts = {A: mount_facts(f"{SERVER} nfs rw,vers=3 0 0")}
    (finding,) = preflight_findings(facts_by_host(), facts)
    assert finding.blocks
    assert finding.to_line().startswith(f"L001 {A}: ")
    assert json.loads(json.dumps(finding.to_dict()))["rule"] == "L001"
    assert finding.to_dict()["fix"]
    waiver = {"rule": "L001", "reason": "the server was replaced", "hosts": ["*"]}
    (waived,) = preflight_findings(facts_by_host(), facts, [waiver])
    assert not waived.blocks
    assert waived.to_dict()["waived"]


def test_unresolved_host_names_cause_warning_that_lists_them() -> None:
    (finding,) = preflight_findings(facts_by_host(), {A: MachineFacts(unresolved_names=(B, A))})
    assert (finding.rule, finding.severity, finding.blocks) == ("N063", "warning", False)
    assert finding.message.startswith(f"the host cannot resolve {A}, {B}, to which ")
    assert "/etc/hosts" in finding.to_dict()["fix"]


def blocking_lines(facts: dict[str, MachineFacts], **variables: Any) -> list[str]:
    return [finding.to_line() for finding in preflight_findings(facts_by_host(**variables), facts) if finding.blocks]


PYTHON = {"port": 61613, "address": "0.0.0.0", "pid": 402, "program": "python3"}
LISTENERS = [("openwire", "nio", 61616), ("stomp", "stomp+nio", 61613)]
ACCOUNT = {"account_exists": True, "account_uid": 999, "account_gid": 998}


def test_port_in_use_is_refused_with_process_and_variable() -> None:
    facts = {A: MachineFacts(), B: MachineFacts.from_machine_info_result({"taken_ports": [PYTHON]})}
    connectors = [{"name": "stomp", "scheme": "stomp+nio", "port": 61613}]
    assert blocking_lines(facts, connectors=connectors) == [
        f"V062 {B}: port 61613 of the broker's listener stomp is in use by python3, pid 402. "
        "Stop the process that uses port 61613, or set another port in activemq_connectors"
    ]
    assert blocking_lines(facts, connectors=connectors, service="none") == []


def test_port_of_broker_with_other_service_is_refused_with_command_that_disables_it() -> None:
    java = {**PYTHON, "program": "java", "service": "orders.service"}
    connectors = [{"name": "stomp", "scheme": "stomp+nio", "port": 61613}]
    facts = {A: MachineFacts.from_machine_info_result({"taken_ports": [java], "home_processes": [402]})}
    assert blocking_lines(facts, connectors=connectors) == [
        f"V062 {A}: port 61613 of the broker's listener stomp is in use by java, pid 402. Stop and disable the service "
        "of this broker: run `systemctl disable --now orders.service`, and the same for orders-watchdog.service if it "
        "exists. If this broker stays, set another port in activemq_connectors"
    ]
    facts = {
        A: MachineFacts.from_machine_info_result({"taken_ports": [{**java, "service": "activemq.service"}]}),
    }
    assert "Stop the process that uses port 61613" in blocking_lines(facts, connectors=connectors)[0]


def test_port_of_broker_from_same_release_directory_is_warning_in_check_mode_only() -> None:
    java = {**PYTHON, "port": 61616, "program": "java"}
    facts = MachineFacts.from_machine_info_result(
        {"taken_ports": [java, {**PYTHON, "pid": 7}], "home_processes": [402]}
    )
    connectors = [{"name": name, "scheme": scheme, "port": port} for name, scheme, port in LISTENERS]
    broker = facts_by_host(connectors=connectors)[A]
    assert sorted(blocking_lines({A: facts}, connectors=connectors), reverse=True) == [
        f"V062 {A}: port 61616 of the broker's listener openwire is in use by java, pid 402. Stop the broker that "
        "runs from /opt/activemq-5.18.3: the playbook starts a different broker, which needs the same ports",
        f"V062 {A}: port 61613 of the broker's listener stomp is in use by python3, pid 7. "
        "Stop the process that uses port 61613, or set another port in activemq_connectors",
    ]
    remaining_facts, warning = facts_without_manual_broker_ports_and_warning(facts, broker)
    assert [taken.port for taken in remaining_facts.taken_ports] == [61613]
    assert warning == (
        f"{A}: a broker that runs from /opt/activemq-5.18.3 (pid 402) uses these ports of the new broker: 61616. "
        "Stop it, and disable its service if that is not activemq.service, before you run the playbook without --check"
    )
    assert facts_without_manual_broker_ports_and_warning(remaining_facts, broker) == (remaining_facts, "")


@pytest.mark.parametrize(
    ("service", "fix"),
    [
        (
            "amq.service",
            "Stop and disable the service of this broker: run `systemctl disable --now amq.service`, and the same for "
            "amq-watchdog.service if it exists",
        ),
        (None, "Stop it with /opt/activemq/bin/activemq stop, and disable its service if it has one"),
    ],
)
def test_running_standby_that_is_replaced_is_refused_without_its_ports(service: str | None, fix: str) -> None:
    old_standby = {"pid": 402, "base": "/opt/activemq", "service": service}
    facts = MachineFacts.from_machine_info_result({"replaced_brokers": [old_standby], "home_processes": [402]})
    message = "the broker of the directory /opt/activemq, which the playbook replaces, still runs (pid 402)"
    assert blocking_lines({B: facts}) == [f"V062 {B}: {message}. {fix}"]
    assert blocking_lines({B: facts}, service="none") == []

    remaining_facts, warning = facts_without_manual_broker_ports_and_warning(facts, facts_by_host()[B])
    assert blocking_lines({B: remaining_facts}) == []
    assert warning.startswith(f"{B}: {message}. Stop it, and disable its service")


def test_replaced_broker_on_port_is_refused_once_and_warning_in_check_mode() -> None:
    java = {**PYTHON, "port": 61616, "program": "java", "service": "amq.service"}
    old_broker = {"pid": 402, "base": "/opt/old", "service": "amq.service"}
    facts = MachineFacts.from_machine_info_result({"taken_ports": [java], "replaced_brokers": [old_broker]})
    (line,) = blocking_lines({A: facts})
    assert "port 61616 of the broker's listener openwire is in use by java" in line
    remaining_facts, warning = facts_without_manual_broker_ports_and_warning(facts, facts_by_host()[A])
    assert remaining_facts == MachineFacts()
    assert "uses these ports of the new broker: 61616" in warning


def test_host_without_root_rights_is_refused() -> None:
    facts = {A: MachineFacts(is_root=True), B: MachineFacts.from_machine_info_result({"is_root": False})}
    assert blocking_lines(facts) == [
        f"V063 {B}: Ansible's tasks do not run as root on this host, so they cannot create the broker's account and "
        "service unit. Set ansible_become: true for the host, and permit the SSH user to use sudo. Or connect as root"
    ]
    assert blocking_lines(facts, service="none") == []


def test_unknown_holder_of_port_is_shown_as_another_process() -> None:
    facts = {A: MachineFacts.from_machine_info_result({"taken_ports": [{"port": 8161, "pid": None, "program": None}]})}
    assert blocking_lines(facts) == [
        f"V062 {A}: port 8161 of the broker's listener console is in use by another process. "
        "Stop the process that uses port 8161, or set another port in activemq_console_port"
    ]


def test_program_of_process_on_port_is_shown_without_control_characters() -> None:
    facts = {
        A: MachineFacts.from_machine_info_result({"taken_ports": [{**PYTHON, "port": 8161, "program": "x\x1b[31m"}]})
    }
    assert "\x1b" not in blocking_lines(facts)[0]


@pytest.mark.parametrize("port", [7, {"port": "61616"}, {"pid": 1}])
def test_taken_port_of_wrong_type_is_refused(port: object) -> None:
    with pytest.raises(NodeError):
        MachineFacts.from_machine_info_result({"taken_ports": [port]})


def test_missing_java_is_refused_with_release_and_remedy() -> None:
    missing = {A: MachineFacts(java_failure="No such file or directory")}
    assert blocking_lines(missing, release="5.18.3") == [
        f"V061 {A}: ActiveMQ 5.18.3 requires Java 11 or later, but the program /usr/bin/java does not exist. "
        "Install Java, for example with apt-get install openjdk-17-jre-headless, or set activemq_java_home to "
        "the directory of an installed Java"
    ]
    (line,) = blocking_lines(missing, release="5.18.3", java_home="/opt/jdk")
    assert "the program /opt/jdk/bin/java does not exist" in line
    assert line.endswith(
        "Install Java so that /opt/jdk/bin/java runs, or set activemq_java_home to the directory of an installed Java"
    )
    broken = {A: MachineFacts(java_failure="Exec format error")}
    assert "but /usr/bin/java does not report its version (Exec format error)" in blocking_lines(broken)[0]
    assert blocking_lines(missing, service="none") == []


def test_different_uids_on_same_store_are_refused_with_commands() -> None:
    facts = {
        A: MachineFacts.from_machine_info_result(ACCOUNT),
        B: MachineFacts.from_machine_info_result({**ACCOUNT, "account_uid": 997}),
    }
    (line,) = blocking_lines(facts)
    assert f"the account activemq has uid 999 on {A} and 997 on {B}: one node cannot read what " in line
    assert (
        f"Then stop the services activemq and activemq-watchdog on {A} and {B}, run `groupmod -g GID activemq; usermod"
        in line
    )
    assert f"chown -R activemq:activemq /var/lib/activemq/activemq {STORE}" in line


def test_account_on_single_node_is_refused_with_ids_to_set() -> None:
    facts = {A: MachineFacts(account_exists=False), B: MachineFacts.from_machine_info_result(ACCOUNT)}
    (line,) = blocking_lines(facts)
    assert f"has uid 999 on {B} and does not exist on {A}" in line
    assert line.endswith("Set activemq_uid: 999 and activemq_gid: 998 for both nodes")


def test_missing_account_on_both_nodes_requires_uid() -> None:
    neither = dict.fromkeys([A, B], MachineFacts(account_exists=False))
    assert "Set activemq_uid and activemq_gid to numbers that are free on both nodes" in blocking_lines(neither)[0]
    assert blocking_lines(neither, uid=990, gid=990) == []
    assert blocking_lines(dict.fromkeys([A, B], MachineFacts(account_exists=False, boot="1"))) == []
    assert blocking_lines({A: MachineFacts(account_exists=False)}) == []
    assert blocking_lines(neither, ha="none", topology="none") == []


def test_uid_of_account_in_use_is_not_changed() -> None:
    used = MachineFacts.from_machine_info_result({**ACCOUNT, "account_processes": [7389], "base_exists": True})
    (line,) = blocking_lines({A: used}, uid=990, gid=991)
    assert (
        f"L038 {A}: the account activemq has uid 999 instead of 990 (activemq_uid) and gid 998 instead of 991 "
        "(activemq_gid): "
        "the playbook cannot change the id while the account has running processes (process ids: 7389). Set "
        "activemq_uid to 999 and activemq_gid to 998, if the other node of the pair has the same ids. To change the "
        f"account instead, stop the services activemq and activemq-watchdog on {A} and {B}, run "
        "`groupmod -g 991 activemq; usermod -u 990 activemq; chown -R activemq:activemq "
    ) in line
    (line,) = blocking_lines(
        {A: MachineFacts.from_machine_info_result({**ACCOUNT, "base_exists": True})}, uid=990, gid=998
    )
    assert "files in /var/lib/activemq/activemq belong to the current id" in line
    assert "groupmod" not in line
    assert blocking_lines({A: used}, uid=999, gid=998) == []
    assert blocking_lines({A: MachineFacts.from_machine_info_result(ACCOUNT)}, uid=990, gid=990) == []


def test_uid_of_another_account_is_refused() -> None:
    facts = {A: MachineFacts(account_exists=False, uid_holder="sshd", gid_holder="ssl-cert")}
    assert [line.partition(": ")[2] for line in blocking_lines(facts, uid=101, gid=102)] == [
        "activemq_gid is 102, but this gid already belongs to ssl-cert. "
        "Set activemq_gid to a number that is free on both nodes",
        "activemq_uid is 101, but this uid already belongs to sshd. "
        "Set activemq_uid to a number that is free on both nodes",
    ]


def test_account_that_does_not_own_data_directory_is_refused() -> None:
    owned = {"data_uid": 999, "data_account": "activemq"}
    facts = {A: MachineFacts.from_machine_info_result({**owned, "account_exists": False})}
    assert blocking_lines(facts, user="mq") == [
        f"V070 {A}: /var/lib/activemq/activemq/data belongs to the account activemq, but activemq_user is mq: the "
        "broker of the new account cannot write to the files in this directory. Set activemq_user: activemq. To change "
        f"the account instead, stop the services activemq and activemq-watchdog on {A} and {B}, run `groupadd -r mq; "
        "useradd -r -g mq -M -s /usr/sbin/nologin mq; "
        f"chown -R mq:mq /var/lib/activemq/activemq {STORE}` on {A} and {B}, and run the playbook again"
    ]
    assert (
        "run `groupadd -r -g 990 mq; useradd -r -u 991 -g mq" in blocking_lines(facts, user="mq", uid=991, gid=990)[0]
    )
    facts = {A: MachineFacts.from_machine_info_result({**owned, **ACCOUNT, "account_uid": 990})}
    assert f"run `chown -R mq:mq /var/lib/activemq/activemq {STORE}`" in blocking_lines(facts, user="mq")[0]


def test_missing_group_of_existing_account_is_created_before_chown() -> None:
    without_group = {"account_exists": True, "account_uid": 1001, "account_gid": None}
    data = {"data_uid": 999, "data_account": "activemq"}
    facts = {A: MachineFacts.from_machine_info_result({**without_group, **data})}
    assert "run `groupadd -r mq; chown -R mq:mq " in blocking_lines(facts, user="mq")[0]
    facts = {A: MachineFacts.from_machine_info_result({**without_group, "base_exists": True})}
    (line,) = blocking_lines(facts, user="mq", uid=990, gid=989)
    assert "run `groupadd -r -g 989 mq; usermod -u 990 mq; chown -R mq:mq " in line


def test_data_directory_of_id_without_account_is_refused_unless_it_is_configured() -> None:
    facts = {A: MachineFacts.from_machine_info_result({"account_exists": False, "data_uid": 999})}
    (line,) = blocking_lines(facts)
    assert "belongs to the uid 999, but activemq_user is activemq" in line
    assert "Set activemq_uid: 999, so that the account gets this id. To change the id instead, stop" in line
    assert blocking_lines(facts, uid=999, gid=999) == []


def test_used_data_directory_of_root_is_refused_if_broker_is_stopped() -> None:
    (line,) = blocking_lines(
        {A: MachineFacts.from_machine_info_result({**ACCOUNT, "data_uid": 0, "data_account": "root"})}
    )
    assert "/data belongs to the account root, but activemq_user is activemq" in line
    assert ". Stop the services activemq and activemq-watchdog" in line


def test_listeners_of_broker_have_addresses_and_variables() -> None:
    connectors = [{"name": "stomp", "scheme": "stomp+nio", "port": 61613, "bind": "10.0.0.4"}]
    jmx = {"port": 1616, "rmi_port": 1617}
    facts = facts_by_host(connectors=connectors, jmx=jmx, metrics=True, metrics_jar="/x.jar", port_offset=10)[A]
    assert {(listener.name, listener.address, listener.port, listener.variable) for listener in facts.listeners} == {
        ("stomp", "10.0.0.4", 61623, "activemq_connectors"),
        ("console", "127.0.0.1", 8171, "activemq_console_port"),
        ("metrics", "127.0.0.1", 9414, "activemq_metrics_port"),
        ("jmx", "0.0.0.0", 1626, "activemq_jmx"),
        ("jmx_rmi", "0.0.0.0", 1627, "activemq_jmx"),
    }
    assert BrokerFacts.from_mapping(json.loads(json.dumps(facts.as_dict()))) == facts
