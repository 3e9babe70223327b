"""Changes that a running broker applies without a restart, and the log records that prove it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from activemq_fleet.node.config import pending_restart
from activemq_fleet.node.config.configuration_archive import ConfigurationFile
from activemq_fleet.node.config.versions import ConfigurationPaths
from activemq_fleet.node.host_paths import ACTIVEMQ_XML
from activemq_fleet.node.install import (
    configuration_install,
    runtime_configuration,
)
from activemq_fleet.node.process.proc import Process
from activemq_fleet.render.activemq_xml import render_activemq_xml_bytes
from activemq_fleet.topology import Fleet, build_fleet
from tests.unit.fleets import hosts

CORE = {"c": "http://activemq.apache.org/schema/core"}
HOST = "a-mq01-a.example.com"
USERS = [{"name": "ann", "password": "x", "groups": "staff"}]
ACL = [{"destination": "orders.>", "kind": "queue", "read": "staff"}]


def fleet_of(**variables: Any) -> Fleet:
    settings = {"ha": "none", "topology": "none", "runtime_configuration": True, "links": links("b"), **variables}
    return build_fleet(hosts("a-mq01", "b-mq01", "c-mq01", nodes="a", **settings), {})


def links(*targets: str, **options: Any) -> list[dict[str, Any]]:
    return [{"from": "a", "to": target, **options} for target in targets]


def activemq_xml_with(**variables: Any) -> bytes:
    return render_activemq_xml_bytes(fleet_of(**variables).broker(HOST))


def live_change(*, before: dict[str, Any] | None = None, **after: Any) -> runtime_configuration.LiveChange | None:
    return runtime_configuration.live_change_of_activemq_xml(
        activemq_xml_with(**(before or {})), activemq_xml_with(**after)
    )


def test_runtime_configuration_plugin_is_last_and_start_attribute_is_false() -> None:
    broker = etree.fromstring(activemq_xml_with()).find("c:broker", CORE)
    assert broker is not None
    plugins = broker.find("c:plugins", CORE)
    assert plugins is not None

    assert etree.QName(plugins[-1]).localname == "runtimeConfigurationPlugin"
    assert broker.get("start") == "false"


def test_runtime_configuration_plugin_and_start_attribute_require_variable() -> None:
    activemq_xml = activemq_xml_with(runtime_configuration=False)

    assert b"runtimeConfigurationPlugin" not in activemq_xml
    assert b" start=" not in activemq_xml


@pytest.mark.parametrize(("release", "install"), [("5.15.16", "archive"), ("5.18.3", "jars"), ("5.18.3", "package")])
def test_runtime_configuration_is_t011_where_installation_lacks_plugin_classes(release: str, install: str) -> None:
    findings = fleet_of(release=release, install=install).findings

    assert {(finding.rule, finding.message.partition(" ")[0]) for finding in findings} == {
        ("T011", "activemq_runtime_configuration")
    }


def test_added_link_is_live_change() -> None:
    assert live_change(links=links("b", "c")) == runtime_configuration.LiveChange(links=1, plugins=False, period=1.0)


def test_changed_users_and_permissions_are_live_change() -> None:
    assert live_change(users=USERS) == runtime_configuration.LiveChange(links=0, plugins=True, period=1.0)
    variables = {"users": USERS, "acl": ACL}
    assert live_change(
        before=variables, users=USERS, acl=[*ACL, {**ACL[0], "destination": "x"}]
    ) == runtime_configuration.LiveChange(0, True, 1.0)


RESTART_REQUIRED: dict[str, dict[str, Any]] = {
    "link before another link": {"links": links("c", "b")},
    "removed link": {"links": []},
    "changed link": {"links": links("b", duplex=True)},
    "first permission": {"users": USERS, "acl": ACL},
    "limit": {"store_limit": "1 gb"},
    "attribute": {"broker_attributes": {"useJmx": False}},
    "connector": {"port_offset": 1},
    "removed plugin": {"runtime_configuration": False},
}


@pytest.mark.parametrize("case", RESTART_REQUIRED)
def test_other_change_of_activemq_xml_is_no_live_change(case: str) -> None:
    assert live_change(**RESTART_REQUIRED[case]) is None


def test_broker_without_plugin_has_no_live_change() -> None:
    off = {"runtime_configuration": False}

    assert (
        runtime_configuration.live_change_of_activemq_xml(
            activemq_xml_with(**off), activemq_xml_with(**off, users=USERS)
        )
        is None
    )


CHANGE_DETECTED = "change in URL [file:/x/conf/activemq.xml] at: Sat Nov 21 14:32:13 UTC 2026"
LINK_STARTED = "started new network connector: DiscoveryNetworkConnector:n:BrokerService[x]"
PLUGINS_CHANGED = "changes to Plugins"


def log_lines(
    *messages: str, logger: str = "org.apache.activemq.plugin.AbstractRuntimeConfigurationBroker"
) -> list[str]:
    return [f"2026-11-21 14:32:18,716 | INFO  | {message} | {logger} | Scheduler" for message in messages]


@pytest.mark.parametrize(
    ("messages", "change", "outcome"),
    [
        ([CHANGE_DETECTED, LINK_STARTED], (1, False), True),
        ([CHANGE_DETECTED, LINK_STARTED], (2, False), None),
        ([CHANGE_DETECTED, PLUGINS_CHANGED], (0, True), True),
        ([CHANGE_DETECTED], (0, True), None),
        ([LINK_STARTED, PLUGINS_CHANGED], (1, True), None),
        ([], (0, False), None),
        (["No material change to configuration in URL [x] at: now"], (0, False), True),
        ([CHANGE_DETECTED, LINK_STARTED, "Failed to add new networkConnector org.x"], (1, False), False),
        ([CHANGE_DETECTED, PLUGINS_CHANGED, "No runtime support for additions of org.x"], (0, True), False),
        (["Failed to parse: URL [x]"], (0, True), False),
    ],
)
def test_only_log_records_of_plugin_prove_live_change(
    messages: list[str], change: tuple[int, bool], outcome: bool | None
) -> None:
    assert (
        runtime_configuration.has_live_change_succeeded(
            log_lines(*messages), runtime_configuration.LiveChange(*change, period=1.0)
        )
        is outcome
    )


def test_log_records_of_other_logger_prove_nothing() -> None:
    records = log_lines(CHANGE_DETECTED, LINK_STARTED, logger="org.apache.activemq.network.NetworkConnector")

    assert (
        runtime_configuration.has_live_change_succeeded(records, runtime_configuration.LiveChange(1, False, 1.0))
        is None
    )


class Host:
    """A directory with a running broker, and the log to which the tests write."""

    def __init__(self, base: Path) -> None:
        self.layout = ConfigurationPaths(str(base))
        self.log = base / "data" / "activemq.log"

    def install(
        self, credentials: str = "activemq.network.password=n\n", *, check: bool = False, **variables: Any
    ) -> configuration_install.InstallationOutcome:
        tree = {
            ACTIVEMQ_XML: ConfigurationFile(activemq_xml_with(**variables), 0o640, None),
            "conf/credentials.properties": ConfigurationFile(credentials.encode(), 0o600, None),
            "conf/jetty.xml": ConfigurationFile(b"<beans/>", 0o640, None),
        }
        return configuration_install.install_configuration(
            self.layout, tree, configuration_install.Owners(), check=check
        )

    def document_mtime(self) -> int:
        """Return the modification time that the plugin compares."""
        return os.stat(os.path.join(self.layout.current, ACTIVEMQ_XML)).st_mtime_ns


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    process = Process(pid=1, started=0.0, state="S", command=("java",))
    for module in (runtime_configuration, pending_restart):
        monkeypatch.setattr(module, "find_broker_process", lambda _base: process)
    monkeypatch.setattr(runtime_configuration, "_TIMEOUT", 0.3)
    monkeypatch.setattr(runtime_configuration, "_SETTLING_SECONDS", 0.0)
    host = Host(tmp_path / "broker")
    host.install()
    host.log.write_text("")
    return host


def log_on_next_installation(host: Host, monkeypatch: pytest.MonkeyPatch, *messages: str) -> None:
    """Write the log records of the plugin when the next configuration is installed."""
    original_log_end_position = runtime_configuration.log_end_position

    def write_records_at_log_end(layout: ConfigurationPaths) -> runtime_configuration.LogEndPosition:
        log_end = original_log_end_position(layout)
        with host.log.open("a") as file:
            file.writelines(f"{line}\n" for line in log_lines(*messages))
        return log_end

    monkeypatch.setattr(runtime_configuration, "log_end_position", write_records_at_log_end)


def test_live_change_that_plugin_applied_requires_no_restart(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    mtime_before = host.document_mtime()
    log_on_next_installation(host, monkeypatch, CHANGE_DETECTED, LINK_STARTED)

    outcome = host.install(links=links("b", "c"))

    assert (outcome.changed, outcome.reasons) == (True, ())
    assert pending_restart.read_pending_restart(host.layout) is None
    assert host.document_mtime() > mtime_before


@pytest.mark.parametrize(
    "messages", [[], [CHANGE_DETECTED, "Failed to add new networkConnector x"]], ids=["no record", "failed"]
)
def test_live_change_without_proof_in_log_requires_restart(
    host: Host, monkeypatch: pytest.MonkeyPatch, messages: list[str]
) -> None:
    log_on_next_installation(host, monkeypatch, *messages)

    assert host.install(links=links("b", "c")).reasons == ("conf/activemq.xml changed",)
    pending = pending_restart.read_pending_restart(host.layout)
    assert pending is not None
    assert pending.reasons == ("conf/activemq.xml changed",)


def test_earlier_log_records_of_plugin_prove_nothing(host: Host) -> None:
    host.log.write_text("\n".join(log_lines(CHANGE_DETECTED, LINK_STARTED)) + "\n")

    assert host.install(links=links("b", "c")).reasons


def test_plugin_does_not_detect_change_that_it_would_apply_partially(host: Host) -> None:
    mtime_before = host.document_mtime()

    assert host.install(users=USERS, store_limit="1 gb").reasons == ("conf/activemq.xml changed",)
    assert host.document_mtime() == mtime_before


def test_plugin_detects_rollback_that_it_can_apply(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    log_on_next_installation(host, monkeypatch, CHANGE_DETECTED, PLUGINS_CHANGED)
    host.install(users=USERS)
    between = host.document_mtime()

    assert host.install().reasons == ()
    assert host.document_mtime() > between


def test_changed_password_requires_restart_despite_live_change(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    log_on_next_installation(host, monkeypatch, CHANGE_DETECTED, PLUGINS_CHANGED)

    reasons = host.install("activemq.network.password=other\n", users=USERS).reasons

    assert set(reasons) == {"conf/activemq.xml changed", "conf/credentials.properties changed"}


def test_change_by_hand_that_inventory_adopts_requires_restart(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin applied only a part of the change by hand."""
    Path(host.layout.current, ACTIVEMQ_XML).write_bytes(activemq_xml_with(store_limit="1 gb"))
    log_on_next_installation(host, monkeypatch, CHANGE_DETECTED, PLUGINS_CHANGED)

    assert host.install(store_limit="1 gb", users=USERS).reasons == ("conf/activemq.xml changed",)


def test_password_changed_by_hand_that_inventory_adopts_requires_restart(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = "activemq.network.password=other\n"
    Path(host.layout.current, "conf/credentials.properties").write_text(password)
    log_on_next_installation(host, monkeypatch, CHANGE_DETECTED, PLUGINS_CHANGED)

    assert "conf/credentials.properties changed" in host.install(password, users=USERS).reasons


def test_mode_changed_by_hand_does_not_prevent_live_change(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(host.layout.current, "conf/jetty.xml").chmod(0o600)
    log_on_next_installation(host, monkeypatch, CHANGE_DETECTED, LINK_STARTED)

    assert host.install(links=links("b", "c")).reasons == ()


def test_password_of_new_user_requires_no_restart(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    log_on_next_installation(host, monkeypatch, CHANGE_DETECTED, PLUGINS_CHANGED)

    assert host.install("activemq.network.password=n\nactivemq.user.ann.password=x\n", users=USERS).reasons == ()


def test_live_change_requires_restart_while_restart_is_pending(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.install(store_limit="1 gb")
    log_on_next_installation(host, monkeypatch, CHANGE_DETECTED, LINK_STARTED)

    assert host.install(store_limit="1 gb", links=links("b", "c")).reasons


def test_check_mode_reports_that_live_change_requires_no_restart(host: Host) -> None:
    assert host.install(check=True, users=USERS).reasons == ()
