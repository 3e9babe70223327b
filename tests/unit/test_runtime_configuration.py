"""Which changes a running broker may be left to take, and what counts as proof that it took them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from activemq_fleet.node.config import pending_restart
from activemq_fleet.node.config.configuration_archive import ConfigurationFile
from activemq_fleet.node.config.versions import ConfigurationPaths
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
    known = {"ha": "none", "topology": "none", "runtime_configuration": True, "links": links("b"), **variables}
    return build_fleet(hosts("a-mq01", "b-mq01", "c-mq01", nodes="a", **known), {})


def links(*targets: str, **more: Any) -> list[dict[str, Any]]:
    return [{"from": "a", "to": target, **more} for target in targets]


def document(**variables: Any) -> bytes:
    return render_activemq_xml_bytes(fleet_of(**variables).broker(HOST))


def taken(*, before: dict[str, Any] | None = None, **after: Any) -> runtime_configuration.LiveChange | None:
    return runtime_configuration.live_change_of_activemq_xml(document(**(before or {})), document(**after))


def test_the_plugin_stands_last_and_the_broker_is_started_by_its_command() -> None:
    broker = etree.fromstring(document()).find("c:broker", CORE)
    assert broker is not None
    plugins = broker.find("c:plugins", CORE)
    assert plugins is not None

    assert etree.QName(plugins[-1]).localname == "runtimeConfigurationPlugin"
    assert broker.get("start") == "false"


def test_without_the_variable_nothing_of_it_is_rendered() -> None:
    text = document(runtime_configuration=False)

    assert b"runtimeConfigurationPlugin" not in text
    assert b" start=" not in text


@pytest.mark.parametrize(("release", "place"), [("5.15.16", "archive"), ("5.18.3", "jars"), ("5.18.3", "package")])
def test_where_its_classes_are_not_there_it_is_an_error(release: str, place: str) -> None:
    found = fleet_of(release=release, install=place).findings

    assert {(one.rule, one.message.partition(" ")[0]) for one in found} == {("T011", "activemq_runtime_configuration")}


def test_an_added_link_is_taken() -> None:
    assert taken(links=links("b", "c")) == runtime_configuration.LiveChange(links=1, plugins=False, period=1.0)


def test_users_and_permissions_are_taken() -> None:
    assert taken(users=USERS) == runtime_configuration.LiveChange(links=0, plugins=True, period=1.0)
    more = {"users": USERS, "acl": ACL}
    assert taken(
        before=more, users=USERS, acl=[*ACL, {**ACL[0], "destination": "x"}]
    ) == runtime_configuration.LiveChange(0, True, 1.0)


NOT_TAKEN: dict[str, dict[str, Any]] = {
    "a link before another": {"links": links("c", "b")},
    "a removed link": {"links": []},
    "a changed link": {"links": links("b", duplex=True)},
    "the first permission": {"users": USERS, "acl": ACL},
    "a limit": {"store_limit": "1 gb"},
    "an attribute": {"broker_attributes": {"useJmx": False}},
    "a connector": {"port_offset": 1},
    "no plugin any more": {"runtime_configuration": False},
}


@pytest.mark.parametrize("case", NOT_TAKEN)
def test_anything_else_needs_a_restart(case: str) -> None:
    assert taken(**NOT_TAKEN[case]) is None


def test_a_broker_without_the_plugin_takes_nothing() -> None:
    off = {"runtime_configuration": False}

    assert runtime_configuration.live_change_of_activemq_xml(document(**off), document(**off, users=USERS)) is None


SAW = "change in URL [file:/x/conf/activemq.xml] at: Sat Nov 21 14:32:13 UTC 2026"
LINK = "started new network connector: DiscoveryNetworkConnector:n:BrokerService[x]"
PLUGINS = "changes to Plugins"


def lines(*messages: str, logger: str = "org.apache.activemq.plugin.AbstractRuntimeConfigurationBroker") -> list[str]:
    return [f"2026-11-21 14:32:18,716 | INFO  | {message} | {logger} | Scheduler" for message in messages]


@pytest.mark.parametrize(
    ("said", "change", "verdict"),
    [
        ([SAW, LINK], (1, False), True),
        ([SAW, LINK], (2, False), None),
        ([SAW, PLUGINS], (0, True), True),
        ([SAW], (0, True), None),
        ([LINK, PLUGINS], (1, True), None),
        ([], (0, False), None),
        (["No material change to configuration in URL [x] at: now"], (0, False), True),
        ([SAW, LINK, "Failed to add new networkConnector org.x"], (1, False), False),
        ([SAW, PLUGINS, "No runtime support for additions of org.x"], (0, True), False),
        (["Failed to parse: URL [x]"], (0, True), False),
    ],
)
def test_only_the_plugins_own_words_prove_that_it_took_the_change(
    said: list[str], change: tuple[int, bool], verdict: bool | None
) -> None:
    assert (
        runtime_configuration.logged_outcome_of_live_change(
            lines(*said), runtime_configuration.LiveChange(*change, period=1.0)
        )
        is verdict
    )


def test_words_of_another_logger_prove_nothing() -> None:
    said = lines(SAW, LINK, logger="org.apache.activemq.network.NetworkConnector")

    assert (
        runtime_configuration.logged_outcome_of_live_change(said, runtime_configuration.LiveChange(1, False, 1.0))
        is None
    )


class Host:
    """A directory with a broker that runs, and a log that somebody writes."""

    def __init__(self, base: Path) -> None:
        self.layout = ConfigurationPaths(str(base))
        self.log = base / "data" / "activemq.log"

    def install(
        self, credentials: str = "activemq.network.password=n\n", **variables: Any
    ) -> configuration_install.InstallationOutcome:
        tree = {
            runtime_configuration.DOCUMENT: ConfigurationFile(document(**variables), 0o640, None),
            "conf/credentials.properties": ConfigurationFile(credentials.encode(), 0o600, None),
        }
        return configuration_install.install_configuration(self.layout, tree, configuration_install.Owners())

    def seen(self) -> int:
        """What the plugin goes by."""
        return os.stat(os.path.join(self.layout.current, runtime_configuration.DOCUMENT)).st_mtime_ns


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    process = Process(pid=1, started=0.0, state="S", command=("java",))
    for module in (runtime_configuration, pending_restart):
        monkeypatch.setattr(module, "find_broker_process", lambda _base: process)
    monkeypatch.setattr(runtime_configuration, "_PATIENCE", 0.3)
    monkeypatch.setattr(runtime_configuration, "_SETTLED", 0.0)
    host = Host(tmp_path / "broker")
    host.install()
    host.log.write_text("")
    return host


def answers(host: Host, monkeypatch: pytest.MonkeyPatch, *messages: str) -> None:
    """The plugin's answer to whatever is installed next."""
    original_log_end_position = runtime_configuration.log_end_position

    def mark(layout: ConfigurationPaths) -> runtime_configuration.LogEndPosition:
        end = original_log_end_position(layout)
        with host.log.open("a") as file:
            file.writelines(f"{line}\n" for line in lines(*messages))
        return end

    monkeypatch.setattr(runtime_configuration, "log_end_position", mark)


def test_a_change_that_was_taken_owes_nothing(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    before = host.seen()
    answers(host, monkeypatch, SAW, LINK)

    outcome = host.install(links=links("b", "c"))

    assert (outcome.changed, outcome.reasons) == (True, ())
    assert pending_restart.read_pending_restart(host.layout) is None
    assert host.seen() > before


@pytest.mark.parametrize("said", [[], [SAW, "Failed to add new networkConnector x"]], ids=["silent", "failed"])
def test_a_change_that_was_not_seen_to_be_taken_owes_a_restart(
    host: Host, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    answers(host, monkeypatch, *said)

    assert host.install(links=links("b", "c")).reasons == ("conf/activemq.xml changed",)
    owed = pending_restart.read_pending_restart(host.layout)
    assert owed is not None
    assert owed.reasons == ("conf/activemq.xml changed",)


def test_what_the_plugin_said_before_proves_nothing(host: Host) -> None:
    host.log.write_text("\n".join(lines(SAW, LINK)) + "\n")

    assert host.install(links=links("b", "c")).reasons


def test_the_plugin_does_not_see_a_change_that_it_would_take_in_part(host: Host) -> None:
    before = host.seen()

    assert host.install(users=USERS, store_limit="1 gb").reasons == ("conf/activemq.xml changed",)
    assert host.seen() == before


def test_going_back_to_an_earlier_version_is_seen_where_it_can_be_taken(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(host, monkeypatch, SAW, PLUGINS)
    host.install(users=USERS)
    between = host.seen()

    assert host.install().reasons == ()
    assert host.seen() > between


def test_a_changed_password_owes_a_restart_whatever_else_changed(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(host, monkeypatch, SAW, PLUGINS)

    reasons = host.install("activemq.network.password=other\n", users=USERS).reasons

    assert set(reasons) == {"conf/activemq.xml changed", "conf/credentials.properties changed"}


def test_the_password_of_a_new_user_is_taken_with_it(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(host, monkeypatch, SAW, PLUGINS)

    assert host.install("activemq.network.password=n\nactivemq.user.ann.password=x\n", users=USERS).reasons == ()


def test_nothing_is_left_to_the_plugin_while_a_restart_is_owed(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.install(store_limit="1 gb")
    answers(host, monkeypatch, SAW, LINK)

    assert host.install(store_limit="1 gb", links=links("b", "c")).reasons


def test_check_mode_foretells_that_no_restart_is_owed(host: Host) -> None:
    tree = {
        runtime_configuration.DOCUMENT: ConfigurationFile(document(users=USERS), 0o640, None),
        "conf/credentials.properties": ConfigurationFile(b"activemq.network.password=n\n", 0o600, None),
    }

    assert (
        configuration_install.install_configuration(
            host.layout, tree, configuration_install.Owners(), check=True
        ).reasons
        == ()
    )
