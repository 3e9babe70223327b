"""Directories, Java command, systemd units, guard and watchdog of a broker."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activemq_fleet.errors import SettingsError
from activemq_fleet.node.host_paths import STORE_MARKER
from activemq_fleet.render import SECRET_FILES, render_broker
from activemq_fleet.render.broker_paths import (
    BrokerPaths,
    kahadb_directory_in_xml,
    paths_of_broker,
)
from activemq_fleet.render.debian_package import apt_packages
from activemq_fleet.render.engine import escape_systemd_word
from activemq_fleet.render.java_command import arguments_after_java_options, java_options
from activemq_fleet.render.systemd_units import (
    guard_command_words,
    systemd_unit_relative_path,
    unit_environment_and_log_configuration,
    watchdog_unit_relative_path,
)
from activemq_fleet.topology import Broker, build_fleet
from tests.unit.fleets import hosts
from tests.unit.rendered_units import broker, unit_text, value_of_key, values_of_key

HOST = "o-mq01-a"
JDBC = {
    "url": "jdbc:postgresql://db/mq",
    "driver": "org.postgresql.Driver",
    "jar": "/opt/jdbc/pg.jar",
    "username": "mq",
    "password": "db secret",
}


def command_words(line: str) -> list[str]:
    """Return the words of a command line as systemd splits it; unescape only specifiers and variables."""
    return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line)]


# -- directories ---------------------------------------------------------------------------------


def test_broker_instance_has_directories_below_activemq_base() -> None:
    assert paths_of_broker(broker(base="/data/mq", instance="second", home="/opt/amq")) == BrokerPaths(
        home="/opt/amq-5.18.3",
        base="/data/mq/second",
        current="/data/mq/second/current",
        conf="/data/mq/second/current/conf",
        data="/data/mq/second/data",
    )


def test_two_instances_on_host_share_no_unit_and_no_path_below_var_lib() -> None:
    inventory = hosts("o-mq01")
    inventory["o-mq01-b.example.com"] |= {"activemq_instance": "activemq-b", "activemq_port_offset": 10}
    first_broker, second_broker = build_fleet(inventory, {}).brokers

    assert systemd_unit_relative_path(first_broker) != systemd_unit_relative_path(second_broker)
    shared = set(re.findall(r"/var/lib/\S+", unit_text(first_broker))) & set(
        re.findall(r"/var/lib/\S+", unit_text(second_broker))
    )
    assert shared == set()


def test_add_opens_options_are_passed_only_from_release_5_17() -> None:
    assert not any("--add-opens" in option for option in java_options(broker("5.16.7")))
    assert any("--add-opens" in option for option in java_options(broker("5.17.6")))


@pytest.mark.parametrize(("release", "expected"), [("5.17.0", False), ("5.17.1", True), ("6.3.1", True)])
def test_jolokia_policy_is_set_where_release_ships_it_in_configuration(release: str, expected: bool) -> None:
    policy = "-Djolokia.conf=file:/var/lib/activemq/activemq/current/conf/jolokia-access.xml"

    assert (policy in java_options(broker(release))) is expected


def test_unit_environment_and_log_files_contain_no_secret() -> None:
    jdbc_broker = broker(
        ha="shared-jdbc", jdbc=JDBC, users=[{"name": "ops", "password": "sesame", "groups": ["admins"]}]
    )
    rendered_bytes = b"".join(unit_environment_and_log_configuration(jdbc_broker).values())

    assert not [word for word in (b"sesame", b"db secret", b"a secret", b"@activemq_") if word in rendered_bytes]


# -- the command ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "install", "library"),
    [
        ("5.5.1", "archive", "/opt/activemq-5.5.1/bin/run.jar"),
        ("5.18.3", "archive", "/opt/activemq-5.18.3/bin/activemq.jar"),
        ("5.5.1", "jars", "/opt/activemq-5.5.1/lib/*"),
        ("6.3.1", "jars", "/opt/activemq-6.3.1/lib/*"),
    ],
)
def test_unit_runs_java_command_of_install_layout(release: str, install: str, library: str) -> None:
    command = command_words(value_of_key(unit_text(broker(release, install=install, ha="none")), "ExecStart"))

    assert command[:2] == ["/usr/bin/java", "$ACTIVEMQ_OPTS"]
    assert command[command.index("-cp") + 1] == library
    arguments = command[command.index("org.apache.activemq.console.Main") + 1 :]
    start_arguments = ["start", "xbean:file:/var/lib/activemq/activemq/current/conf/activemq.xml"]
    assert arguments == (["--noDefExt", *start_arguments] if install == "jars" else start_arguments)


@given(st.text(st.characters(exclude_categories=["C"])))
def test_escaped_systemd_word_stays_single_word(text: str) -> None:
    assert command_words(escape_systemd_word(text)) == [text]


def test_class_path_contains_database_driver() -> None:
    command = arguments_after_java_options(broker(ha="shared-jdbc", jdbc=JDBC))

    assert command[command.index("-cp") + 1] == "/opt/activemq-5.18.3/bin/activemq.jar:/opt/jdbc/pg.jar"


# -- checks before the start ---------------------------------------------------------------------


def first_pre_start_command(broker: Broker) -> list[str]:
    """Return the first ExecStartPre command of the unit as an argument list that can be run."""
    return command_words(values_of_key(unit_text(broker), "ExecStartPre")[0])


@pytest.mark.parametrize(
    ("marker", "exit_code"), [("o-mq01\n", 0), ("o-mq01", 0), ("o-mq02\n", 1), ("o-mq0.\n", 1), ("", 1), (None, 1)]
)
def test_start_check_refuses_store_without_marker_of_pair(tmp_path: Path, marker: str | None, exit_code: int) -> None:
    store = tmp_path / "store"
    if marker is not None:
        store.mkdir()
        (store / STORE_MARKER).write_text(marker)
    completed = subprocess.run(
        first_pre_start_command(broker(store_directory=str(store))),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert completed.returncode == exit_code
    assert completed.stdout == ""
    if exit_code:
        assert completed.stderr.startswith(f"activemq: {store} is not the store of pair o-mq01: {STORE_MARKER}")
        assert completed.stderr.count("\n") == 1


def test_unit_tolerates_missing_store_path_and_requires_its_mount() -> None:
    unit = unit_text(broker(store_directory="/mnt/o"))

    assert value_of_key(unit, "ReadWritePaths").split() == ["/var/lib/activemq/activemq/data", "-/mnt/o"]
    assert value_of_key(unit, "RequiresMountsFor").split() == ["/var/lib/activemq/activemq", "/mnt/o"]


@pytest.mark.parametrize(("ha", "variables"), [("shared-jdbc", {"jdbc": JDBC}), ("none", {})])
def test_unit_checks_marker_only_of_shared_directory(ha: str, variables: dict[str, Any]) -> None:
    assert STORE_MARKER in unit_text(broker())
    lines = values_of_key(unit_text(broker(ha=ha, **variables)), "ExecStartPre")
    assert [line for line in lines if " --mend " not in line] == []


def pure_broker(node: str) -> Broker:
    inventory = hosts("o-mq01", release="5.5.1", ha="pure")
    inventory["o-mq01-a.example.com"] |= {"activemq_port_offset": 100, "activemq_address": "127.0.0.1"}
    return build_fleet(inventory, {}).broker(f"o-mq01-{node}")


def test_pure_slave_waits_for_replication_port_of_master() -> None:
    assert first_pre_start_command(pure_broker("b"))[-2:] == ["127.0.0.1", "61718"]
    assert not any("/dev/tcp" in line for line in values_of_key(unit_text(pure_broker("a")), "ExecStartPre"))
    assert int(value_of_key(unit_text(pure_broker("b")), "TimeoutStartSec")) > int(
        value_of_key(unit_text(pure_broker("a")), "TimeoutStartSec")
    )


@pytest.mark.parametrize(
    ("release", "variables", "repairs"),
    [
        ("5.13.5", {}, True),
        ("5.13.5", {"ha": "none"}, True),
        ("5.13.5", {"ha": "shared-jdbc", "jdbc": JDBC}, False),
        ("5.13.5", {"fence": "guard"}, False),
        ("5.13.5", {"fence": "command", "fence_command": {"argv": ["/bin/fence"]}}, True),
        ("5.14.0", {}, True),
        ("6.3.1", {"fence": "guard"}, False),
        ("5.5.1", {"ha": "pure"}, True),
    ],
)
def test_unit_repairs_store_before_start_if_no_guard_creates_generations(
    release: str, variables: dict[str, Any], *, repairs: bool
) -> None:
    lines = values_of_key(unit_text(broker(release, **variables)), "ExecStartPre")

    assert [command_words(line) for line in lines if "--mend" in line] == (
        [
            [
                "-/usr/local/sbin/activemq-guard",
                "--store",
                broker(release, **variables).store_directory,
                "--mend",
                "--accept-loss",
            ]
        ]
        if repairs
        else []
    )


def listen_below_ephemeral_ports() -> socket.socket:
    """Return a socket below the ephemeral ports, because a poll of an ephemeral port can connect to itself."""
    for port in range(24600, 24700):
        with contextlib.suppress(OSError):
            return socket.create_server(("127.0.0.1", port))
    raise AssertionError("no port from 24600 to 24699 is free: stop the processes that listen there")


@pytest.mark.skipif(not os.path.exists("/bin/bash"), reason="the wait command requires /dev/tcp of bash: install bash")
def test_wait_command_of_pure_slave_ends_only_when_port_accepts_connections() -> None:
    with listen_below_ephemeral_ports() as server:
        command = [*first_pre_start_command(pure_broker("b"))[:-1], str(server.getsockname()[1])]
        assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(command, capture_output=True, timeout=0.5, check=False)


# -- restart and stop ----------------------------------------------------------------------------


def test_unit_kills_pure_broker_and_does_not_restart_it_or_start_it_at_boot() -> None:
    for node in "ab":
        unit = unit_text(pure_broker(node))
        assert value_of_key(unit, "KillSignal") == "SIGKILL"
        assert value_of_key(unit, "Restart") == "no"
        assert "SIGKILL" in value_of_key(unit, "SuccessExitStatus").split()
        assert "\n[Install]" not in unit


@pytest.mark.parametrize(("ha", "variables"), [("shared-file", {}), ("shared-jdbc", {"jdbc": JDBC}), ("none", {})])
def test_unit_always_restarts_broker_without_pure_replication(ha: str, variables: dict[str, Any]) -> None:
    unit = unit_text(broker(ha=ha, **variables))

    assert value_of_key(unit, "Restart") == "always"
    assert value_of_key(unit, "StartLimitIntervalSec") == "0"
    assert value_of_key(unit, "SuccessExitStatus") == "143"
    assert values_of_key(unit, "KillSignal") == []
    assert value_of_key(unit, "WantedBy") == "multi-user.target"


# -- hardening -----------------------------------------------------------------------------------


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="the program systemd-analyze is missing: install systemd"
)
@pytest.mark.parametrize(
    "hardened_broker", [broker(), pure_broker("b"), broker(connectors=[{"name": "o", "scheme": "tcp", "port": 80}])]
)
def test_systemd_analyze_rates_broker_unit_as_hardened(hardened_broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "activemq.service").write_text(unit_text(hardened_broker))
    completed = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "./activemq.service"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    exposure = re.search(r"Overall exposure level for activemq.service: ([0-9.]+)", completed.stdout)

    assert exposure is not None, completed.stderr
    assert float(exposure[1]) <= 2.0


def test_unit_does_not_deny_executable_memory_to_jvm() -> None:
    assert values_of_key(unit_text(broker()), "MemoryDenyWriteExecute") == []


def test_unit_grants_capability_only_for_port_below_1024() -> None:
    low = unit_text(broker(connectors=[{"name": "openwire", "scheme": "tcp", "port": 616}]))

    assert (
        value_of_key(low, "AmbientCapabilities") == value_of_key(low, "CapabilityBoundingSet") == "CAP_NET_BIND_SERVICE"
    )
    assert (
        value_of_key(unit_text(broker()), "AmbientCapabilities")
        == value_of_key(unit_text(broker()), "CapabilityBoundingSet")
        == ""
    )


def test_unit_hides_home_directories_unless_base_is_below_home() -> None:
    assert value_of_key(unit_text(broker()), "ProtectHome") == "yes"
    assert value_of_key(unit_text(broker(base="/home/mq")), "ProtectHome") == "read-only"


def test_unit_permits_writes_to_store_outside_base() -> None:
    unit = unit_text(broker(ha="none", store_directory="/fast/kahadb"))

    assert value_of_key(unit, "ReadWritePaths").split() == ["/var/lib/activemq/activemq/data", "-/fast/kahadb"]


def test_files_of_equal_brokers_are_identical() -> None:
    assert unit_environment_and_log_configuration(broker()) == unit_environment_and_log_configuration(broker())


# -- Debian's package ----------------------------------------------------------------------------


def test_package_runs_from_home_of_debian_unless_home_is_set() -> None:
    assert paths_of_broker(broker("5.17.2", install="package")).home == "/usr/share/activemq"
    assert paths_of_broker(broker("5.17.2", install="package", home="/opt/own")).home == "/opt/own"


def test_class_path_of_package_has_mqtt_client_jar_only_with_mqtt_connector() -> None:
    def class_path(**variables: Any) -> str:
        command = command_words(value_of_key(unit_text(broker("5.17.2", install="package", **variables)), "ExecStart"))
        return command[command.index("-cp") + 1]

    assert class_path().split(":")[:2] == ["/usr/share/activemq/bin/activemq.jar", "/usr/share/java/mqtt-client.jar"]
    openwire = [{"name": "openwire", "scheme": "nio", "port": 61616}]
    assert class_path(connectors=openwire) == "/usr/share/activemq/bin/activemq.jar"


def test_apt_packages_name_exact_release() -> None:
    assert apt_packages(broker("5.17.2", install="package")) == ("activemq=5.17.2[-+]*", "libmqtt-client-java")
    assert apt_packages(broker("5.17.2")) == ()


# -- the watchdog --------------------------------------------------------------------------------


def test_watchdog_command_contains_base_unit_and_ha_of_broker() -> None:
    files = unit_environment_and_log_configuration(broker(watchdog="kill", instance="second"))
    watchdog_unit = files["systemd/second-watchdog.service"].decode()

    assert command_words(value_of_key(watchdog_unit, "ExecStart")) == [
        "/usr/local/sbin/second-watchdog",
        *("--base", "/var/lib/activemq/second", "--unit", "second.service", "--ha", "shared-file", "kill"),
    ]
    assert value_of_key(watchdog_unit, "PartOf") == value_of_key(watchdog_unit, "WantedBy") == "second.service"


@pytest.mark.parametrize("setting", ["off", False])
def test_disabled_watchdog_has_no_unit(setting: Any) -> None:
    unwatched_broker = broker(watchdog=setting)
    assert watchdog_unit_relative_path(unwatched_broker) is None
    assert not [path for path in unit_environment_and_log_configuration(unwatched_broker) if "watchdog" in path]


def test_instance_name_that_ends_with_watchdog_is_refused() -> None:
    with pytest.raises(SettingsError, match="must not end with -watchdog"):
        broker(instance="activemq-watchdog")


# -- the guard of the store ------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["5.5.1", "5.8.0", "6.3.1"])
def test_guard_starts_java_and_xml_names_link_to_store_on_local_disk(release: str) -> None:
    fenced = broker(release, fence="guard")
    command = command_words(value_of_key(unit_text(fenced), "ExecStart"))
    guard, java = command[: command.index("--")], command[command.index("--") + 1 :]
    local = "/var/lib/activemq/activemq/data/fence"
    keep_options = [] if release == "6.3.1" else ["--keep-index-copies"]
    assert guard == [
        "/usr/local/sbin/activemq-guard",
        "--store",
        "/srv/activemq/o-mq01",
        "--local",
        local,
        *keep_options,
    ]
    assert java == command_words(value_of_key(unit_text(broker(release)), "ExecStart"))
    assert kahadb_directory_in_xml(fenced) == f"{local}/store"
    assert value_of_key(unit_text(fenced), "WatchdogSignal") == "SIGKILL"
    assert "/srv/activemq/o-mq01" in value_of_key(unit_text(fenced), "ReadWritePaths")


def test_refused_rebuild_is_passed_to_guard_and_lets_start_fail() -> None:
    assert "--refuse-loss" in guard_command_words(broker("5.11.4", fence="guard", index_rebuild="refuse"))
    (line,) = (
        line
        for line in values_of_key(unit_text(broker("5.11.4", index_rebuild="refuse")), "ExecStartPre")
        if "--mend" in line
    )
    assert line.endswith(" --mend")
    assert not line.startswith("-")


@pytest.mark.parametrize(("release", "keeps"), [("5.5.1", True), ("5.13.0", True), ("5.13.1", False), ("6.3.1", False)])
def test_unit_keeps_index_copy_if_rebuild_of_index_loses_subscriptions(release: str, keeps: bool) -> None:
    plain = broker(release, ha="none")
    lines = values_of_key(unit_text(plain), "ExecStartPost")
    assert [line.split(" --keep-index ")[1] for line in lines] == (["$MAINPID"] if keeps else [])


def test_broker_without_fence_opens_store_directory() -> None:
    plain = broker(fence="none")
    assert kahadb_directory_in_xml(plain) == plain.store_directory == "/srv/activemq/o-mq01"
    assert guard_command_words(plain) == ()
    assert values_of_key(unit_text(plain), "WatchdogSec") == []


def test_fence_without_shared_store_is_refused() -> None:
    with pytest.raises(
        SettingsError, match="activemq_fence is guard, but with activemq_ha: none the broker shares no directory"
    ):
        broker(ha="none", fence="guard")


FENCE_COMMAND = {"argv": ["/usr/local/sbin/end-node", "--now"], "timeout": 30, "secrets": {"TOKEN": "t0p secret"}}


def test_guard_calls_fence_command_whose_secrets_are_in_separate_file() -> None:
    fenced = broker(fence="command", fence_command=FENCE_COMMAND)
    command = command_words(value_of_key(unit_text(fenced), "ExecStart"))
    command_path = command[command.index("--fence-command") + 1]
    files = render_broker(fenced, reveal=True)
    current = paths_of_broker(fenced).current
    fence_command = json.loads(files[command_path.removeprefix(f"{current}/")])
    assert fence_command == {
        "argv": ["/usr/local/sbin/end-node", "--now"],
        "timeout": 30,
        "environment": {
            "ACTIVEMQ_FENCE_HOST": "o-mq01-b.example.com",
            "ACTIVEMQ_FENCE_PAIR": "o-mq01",
            "ACTIVEMQ_FENCE_SECRETS": f"{current}/conf/fence-secrets.env",
        },
    }
    assert files["conf/fence-secrets.env"] == b"TOKEN='t0p secret'\n"
    assert "conf/fence-secrets.env" in SECRET_FILES
    hidden = render_broker(fenced)
    assert b"t0p" not in b"".join(hidden.values())
    assert hidden["conf/fence-secrets.env"] == b"TOKEN=@activemq_fence_command.secrets.TOKEN@\n"


def test_guard_with_generations_calls_no_fence_command() -> None:
    fenced = broker(fence="guard", fence_command=FENCE_COMMAND)
    assert "--fence-command" not in value_of_key(unit_text(fenced), "ExecStart")
    assert "conf/fence-command.json" not in render_broker(fenced)


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (None, "activemq_fence is command, but activemq_fence_command is not set"),
        ({"argv": []}, "activemq_fence_command.argv"),
        ({"argv": ["end-node"]}, "argv of activemq_fence_command begins with the program 'end-node'"),
        ({"argv": ["/bin/true"], "timeout": 0}, "activemq_fence_command.timeout"),
        ({"argv": ["/bin/true"], "secrets": {"a b": "x"}}, "must be the name of an environment variable"),
    ],
)
def test_invalid_fence_command_is_refused(command: Any, problem: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(problem)):
        broker(fence="command", **({"fence_command": command} if command else {}))


SHELL_SECRETS = ["$(touch evaluated)", "`id`", 'it\'s "quoted" $HOME', "a;b&c|d", r"back\slash", "*"]


@pytest.mark.parametrize("secret", SHELL_SECRETS)
def test_shell_reads_fence_secret_unchanged(tmp_path: Path, secret: str) -> None:
    command = {**FENCE_COMMAND, "secrets": {"TOKEN": secret}}
    rendered = render_broker(broker(fence="command", fence_command=command), reveal=True)
    (tmp_path / "secrets.env").write_bytes(rendered["conf/fence-secrets.env"])

    script = '. ./secrets.env && printf %s "$TOKEN"'
    output = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, check=True).stdout

    assert output.decode() == secret
    assert not (tmp_path / "evaluated").exists()
