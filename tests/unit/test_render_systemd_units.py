"""How a broker runs on its host: directories, java command, units, guard and watchdog."""

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
from activemq_fleet.render import SECRET_FILES, render_broker
from activemq_fleet.render.broker_paths import (
    STORE_MARKER,
    BrokerPaths,
    broker_directory_paths,
    kahadb_directory_in_xml,
)
from activemq_fleet.render.debian_package import apt_packages
from activemq_fleet.render.engine import escape_systemd_word
from activemq_fleet.render.java_command import arguments_after_java_options, java_options
from activemq_fleet.render.systemd_units import (
    guard_command,
    systemd_unit_relative_path,
    unit_environment_and_log_files,
    watchdog_unit_relative_path,
)
from activemq_fleet.topology import Broker, build_fleet
from tests.unit.fleets import hosts
from tests.unit.rendered_units import broker, unit, value, values

HOST = "o-mq01-a"
JDBC = {
    "url": "jdbc:postgresql://db/mq",
    "driver": "org.postgresql.Driver",
    "jar": "/opt/jdbc/pg.jar",
    "username": "mq",
    "password": "db secret",
}


def words(line: str) -> list[str]:
    """A command line as systemd splits it; of the escapes, those of specifiers and variables."""
    return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line)]


# -- directories ---------------------------------------------------------------------------------


def test_an_instance_has_its_directories_below_the_base() -> None:
    assert broker_directory_paths(broker(base="/data/mq", instance="second", home="/opt/amq")) == BrokerPaths(
        home="/opt/amq-5.18.3",
        base="/data/mq/second",
        current="/data/mq/second/current",
        conf="/data/mq/second/current/conf",
        data="/data/mq/second/data",
    )


def test_two_instances_on_one_machine_share_no_path_but_home_and_store() -> None:
    spec = hosts("o-mq01")
    spec["o-mq01-b.example.com"] |= {"activemq_instance": "activemq-b", "activemq_port_offset": 10}
    first, second = build_fleet(spec, {}).brokers

    assert systemd_unit_relative_path(first) != systemd_unit_relative_path(second)
    shared = set(re.findall(r"/var/lib/\S+", unit(first))) & set(re.findall(r"/var/lib/\S+", unit(second)))
    assert shared == set()


def test_options_of_java_9_are_passed_only_where_java_9_is_certain() -> None:
    assert not any("--add-opens" in option for option in java_options(broker("5.16.7")))
    assert any("--add-opens" in option for option in java_options(broker("5.17.6")))


@pytest.mark.parametrize(("release", "expected"), [("5.17.0", False), ("5.17.1", True), ("6.3.1", True)])
def test_jolokia_gets_its_policy_where_release_ships_it_in_configuration(release: str, expected: bool) -> None:
    policy = "-Djolokia.conf=file:/var/lib/activemq/activemq/current/conf/jolokia-access.xml"

    assert (policy in java_options(broker(release))) is expected


def test_nothing_of_how_a_broker_runs_is_secret() -> None:
    of = broker(ha="shared-jdbc", jdbc=JDBC, users=[{"name": "ops", "password": "sesame", "groups": ["admins"]}])
    everything = b"".join(unit_environment_and_log_files(of).values())

    assert not [word for word in (b"sesame", b"db secret", b"a secret", b"@activemq_") if word in everything]


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
def test_the_unit_runs_the_java_of_the_layout(release: str, install: str, library: str) -> None:
    command = words(value(unit(broker(release, install=install, ha="none")), "ExecStart"))

    assert command[:2] == ["/usr/bin/java", "$ACTIVEMQ_OPTS"]
    assert command[command.index("-cp") + 1] == library
    rest = command[command.index("org.apache.activemq.console.Main") + 1 :]
    start = ["start", "xbean:file:/var/lib/activemq/activemq/current/conf/activemq.xml"]
    assert rest == (["--noDefExt", *start] if install == "jars" else start)


@given(st.text(st.characters(exclude_categories=["C"])))
def test_a_word_of_a_command_line_stays_one_word(text: str) -> None:
    assert words(escape_systemd_word(text)) == [text]


def test_the_database_driver_is_on_the_class_path() -> None:
    command = arguments_after_java_options(broker(ha="shared-jdbc", jdbc=JDBC))

    assert command[command.index("-cp") + 1] == "/opt/activemq-5.18.3/bin/activemq.jar:/opt/jdbc/pg.jar"


# -- what must hold before the start -------------------------------------------------------------


def before(of: Broker) -> list[str]:
    """The unit's first ExecStartPre as an argument list that can be run."""
    return words(values(unit(of), "ExecStartPre")[0])


@pytest.mark.parametrize(
    ("marker", "code"), [("o-mq01\n", 0), ("o-mq01", 0), ("o-mq02\n", 1), ("o-mq0.\n", 1), ("", 1), (None, 1)]
)
def test_a_store_without_the_marker_of_its_pair_is_refused(tmp_path: Path, marker: str | None, code: int) -> None:
    store = tmp_path / "store"
    if marker is not None:
        store.mkdir()
        (store / STORE_MARKER).write_text(marker)
    done = subprocess.run(
        before(broker(store_directory=str(store))), capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == code
    assert done.stdout == ""
    if code:
        assert done.stderr.startswith(f"activemq: {store} is not the store of pair o-mq01: {STORE_MARKER}")
        assert done.stderr.count("\n") == 1


def test_a_store_that_is_away_fails_in_the_check_and_not_before_it() -> None:
    text = unit(broker(store_directory="/mnt/o"))

    assert value(text, "ReadWritePaths").split() == ["/var/lib/activemq/activemq/data", "-/mnt/o"]
    assert value(text, "RequiresMountsFor").split() == ["/var/lib/activemq/activemq", "/mnt/o"]


@pytest.mark.parametrize(("ha", "more"), [("shared-jdbc", {"jdbc": JDBC}), ("none", {})])
def test_only_a_shared_directory_needs_a_marker(ha: str, more: dict[str, Any]) -> None:
    assert STORE_MARKER in unit(broker())
    lines = values(unit(broker(ha=ha, **more)), "ExecStartPre")
    assert [line for line in lines if " --mend " not in line] == []


def pure(node: str) -> Broker:
    spec = hosts("o-mq01", release="5.5.1", ha="pure")
    spec["o-mq01-a.example.com"] |= {"activemq_port_offset": 100, "activemq_address": "127.0.0.1"}
    return build_fleet(spec, {}).broker(f"o-mq01-{node}")


def test_a_pure_slave_waits_for_its_masters_replication_port() -> None:
    assert before(pure("b"))[-2:] == ["127.0.0.1", "61718"]
    assert not any("/dev/tcp" in line for line in values(unit(pure("a")), "ExecStartPre"))
    assert int(value(unit(pure("b")), "TimeoutStartSec")) > int(value(unit(pure("a")), "TimeoutStartSec"))


@pytest.mark.parametrize(
    ("release", "more", "mends"),
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
def test_a_store_is_made_fit_for_a_start_where_no_guard_makes_generations_of_it(
    release: str, more: dict[str, Any], *, mends: bool
) -> None:
    lines = values(unit(broker(release, **more)), "ExecStartPre")

    assert [words(line) for line in lines if "--mend" in line] == (
        [
            [
                "-/usr/local/sbin/activemq-guard",
                "--store",
                broker(release, **more).store_directory,
                "--mend",
                "--accept-loss",
            ]
        ]
        if mends
        else []
    )


def listening() -> socket.socket:
    """Below the ephemeral ports: a poll of one of those can connect to itself."""
    for port in range(24600, 24700):
        with contextlib.suppress(OSError):
            return socket.create_server(("127.0.0.1", port))
    raise AssertionError("no free port from 24600 to 24699")


@pytest.mark.skipif(not os.path.exists("/bin/bash"), reason="the wait is bash's /dev/tcp")
def test_the_wait_ends_when_the_port_answers_and_not_before() -> None:
    with listening() as server:
        command = [*before(pure("b"))[:-1], str(server.getsockname()[1])]
        assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(command, capture_output=True, timeout=0.5, check=False)


# -- restart and stop ----------------------------------------------------------------------------


def test_a_pure_broker_is_killed_never_restarted_and_not_started_at_boot() -> None:
    for node in "ab":
        text = unit(pure(node))
        assert value(text, "KillSignal") == "SIGKILL"
        assert value(text, "Restart") == "no"
        assert "SIGKILL" in value(text, "SuccessExitStatus").split()
        assert "\n[Install]" not in text


@pytest.mark.parametrize(("ha", "more"), [("shared-file", {}), ("shared-jdbc", {"jdbc": JDBC}), ("none", {})])
def test_any_other_broker_comes_back_however_it_ended(ha: str, more: dict[str, Any]) -> None:
    text = unit(broker(ha=ha, **more))

    assert value(text, "Restart") == "always"
    assert value(text, "StartLimitIntervalSec") == "0"
    assert value(text, "SuccessExitStatus") == "143"
    assert values(text, "KillSignal") == []
    assert value(text, "WantedBy") == "multi-user.target"


# -- hardening -----------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("of", [broker(), pure("b"), broker(connectors=[{"name": "o", "scheme": "tcp", "port": 80}])])
def test_systemd_finds_the_unit_hardened(of: Broker, tmp_path: Path) -> None:
    (tmp_path / "activemq.service").write_text(unit(of))
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "./activemq.service"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    found = re.search(r"Overall exposure level for activemq.service: ([0-9.]+)", done.stdout)

    assert found is not None, done.stderr
    assert float(found[1]) <= 2.0


def test_the_jvm_may_compile() -> None:
    assert values(unit(broker()), "MemoryDenyWriteExecute") == []


def test_only_a_port_below_1024_needs_a_capability() -> None:
    low = unit(broker(connectors=[{"name": "openwire", "scheme": "tcp", "port": 616}]))

    assert value(low, "AmbientCapabilities") == value(low, "CapabilityBoundingSet") == "CAP_NET_BIND_SERVICE"
    assert value(unit(broker()), "AmbientCapabilities") == value(unit(broker()), "CapabilityBoundingSet") == ""


def test_home_directories_are_hidden_unless_the_broker_lies_there() -> None:
    assert value(unit(broker()), "ProtectHome") == "yes"
    assert value(unit(broker(base="/home/mq")), "ProtectHome") == "read-only"


def test_a_store_elsewhere_on_the_host_can_be_written() -> None:
    text = unit(broker(ha="none", store_directory="/fast/kahadb"))

    assert value(text, "ReadWritePaths").split() == ["/var/lib/activemq/activemq/data", "-/fast/kahadb"]


def test_the_same_broker_gives_the_same_bytes() -> None:
    assert unit_environment_and_log_files(broker()) == unit_environment_and_log_files(broker())


# -- Debian's package ----------------------------------------------------------------------------


def test_a_package_is_run_from_where_debian_puts_it() -> None:
    assert broker_directory_paths(broker("5.17.2", install="package")).home == "/usr/share/activemq"
    assert broker_directory_paths(broker("5.17.2", install="package", home="/opt/own")).home == "/opt/own"


def test_a_package_is_given_the_jars_that_its_mqtt_lacks_and_only_then() -> None:
    def path(**variables: Any) -> str:
        command = words(value(unit(broker("5.17.2", install="package", **variables)), "ExecStart"))
        return command[command.index("-cp") + 1]

    assert path().split(":")[:2] == ["/usr/share/activemq/bin/activemq.jar", "/usr/share/java/mqtt-client.jar"]
    openwire = [{"name": "openwire", "scheme": "nio", "port": 61616}]
    assert path(connectors=openwire) == "/usr/share/activemq/bin/activemq.jar"


def test_apt_is_asked_for_this_very_release() -> None:
    assert apt_packages(broker("5.17.2", install="package")) == ("activemq=5.17.2[-+]*", "libmqtt-client-java")
    assert apt_packages(broker("5.17.2")) == ()


# -- the watchdog --------------------------------------------------------------------------------


def test_the_watchdog_is_told_what_the_broker_is() -> None:
    files = unit_environment_and_log_files(broker(watchdog="kill", instance="second"))
    text = files["systemd/second-watchdog.service"].decode()

    assert words(value(text, "ExecStart")) == [
        "/usr/local/sbin/second-watchdog",
        *("--base", "/var/lib/activemq/second", "--unit", "second.service", "--ha", "shared-file", "kill"),
    ]
    assert value(text, "PartOf") == value(text, "WantedBy") == "second.service"


@pytest.mark.parametrize("off", ["off", False])
def test_a_watchdog_that_is_off_has_no_unit(off: Any) -> None:
    of = broker(watchdog=off)
    assert watchdog_unit_relative_path(of) is None
    assert not [path for path in unit_environment_and_log_files(of) if "watchdog" in path]


def test_no_instance_takes_the_name_of_a_watchdog() -> None:
    with pytest.raises(SettingsError, match="must not end with -watchdog"):
        broker(instance="activemq-watchdog")


# -- a guard before the store ----------------------------------------------------------------------


@pytest.mark.parametrize("release", ["5.5.1", "5.8.0", "6.3.1"])
def test_a_guard_starts_java_and_the_broker_waits_at_a_link_on_its_own_disk(release: str) -> None:
    fenced = broker(release, fence="guard")
    line = words(value(unit(fenced), "ExecStart"))
    guard, java = line[: line.index("--")], line[line.index("--") + 1 :]
    local = "/var/lib/activemq/activemq/data/fence"
    keeps = [] if release == "6.3.1" else ["--keep-index-copies"]
    assert guard == ["/usr/local/sbin/activemq-guard", "--store", "/srv/activemq/o-mq01", "--local", local, *keeps]
    assert java == words(value(unit(broker(release)), "ExecStart"))
    assert kahadb_directory_in_xml(fenced) == f"{local}/store"
    assert value(unit(fenced), "WatchdogSignal") == "SIGKILL"
    assert "/srv/activemq/o-mq01" in value(unit(fenced), "ReadWritePaths")


def test_refused_rebuild_is_passed_to_guard_and_lets_start_fail() -> None:
    assert "--refuse-loss" in guard_command(broker("5.11.4", fence="guard", index_rebuild="refuse"))
    (line,) = (
        line for line in values(unit(broker("5.11.4", index_rebuild="refuse")), "ExecStartPre") if "--mend" in line
    )
    assert line.endswith(" --mend")
    assert not line.startswith("-")


@pytest.mark.parametrize(("release", "keeps"), [("5.5.1", True), ("5.13.0", True), ("5.13.1", False), ("6.3.1", False)])
def test_copy_of_index_is_kept_beside_broker_that_loses_subscriptions_on_rebuild(release: str, keeps: bool) -> None:
    plain = broker(release, ha="none")
    lines = values(unit(plain), "ExecStartPost")
    assert [line.split(" --keep-index ")[1] for line in lines] == (["$MAINPID"] if keeps else [])


def test_without_a_fence_the_store_is_what_the_broker_opens() -> None:
    plain = broker(fence="none")
    assert kahadb_directory_in_xml(plain) == plain.store_directory == "/srv/activemq/o-mq01"
    assert guard_command(plain) == ()
    assert values(unit(plain), "WatchdogSec") == []


def test_a_fence_needs_a_store_that_both_nodes_share() -> None:
    with pytest.raises(
        SettingsError, match="activemq_fence is guard, but with activemq_ha: none the broker shares no directory"
    ):
        broker(ha="none", fence="guard")


FENCE_COMMAND = {"argv": ["/usr/local/sbin/end-node", "--now"], "timeout": 30, "secrets": {"TOKEN": "t0p secret"}}


def test_guard_calls_fence_command_whose_secrets_are_in_a_separate_file() -> None:
    fenced = broker(fence="command", fence_command=FENCE_COMMAND)
    line = words(value(unit(fenced), "ExecStart"))
    called = line[line.index("--fence-command") + 1]
    files = render_broker(fenced, reveal=True)
    current = broker_directory_paths(fenced).current
    call = json.loads(files[called.removeprefix(f"{current}/")])
    assert call == {
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


def test_a_guard_with_generations_calls_no_command() -> None:
    fenced = broker(fence="guard", fence_command=FENCE_COMMAND)
    assert "--fence-command" not in value(unit(fenced), "ExecStart")
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
def test_a_fence_command_that_cannot_be_called_is_refused(command: Any, problem: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(problem)):
        broker(fence="command", **({"fence_command": command} if command else {}))


SHELL_SECRETS = ["$(touch evaluated)", "`id`", 'it\'s "quoted" $HOME', "a;b&c|d", r"back\slash", "*"]


@pytest.mark.parametrize("secret", SHELL_SECRETS)
def test_a_fence_command_reads_its_secret_as_it_is(tmp_path: Path, secret: str) -> None:
    command = {**FENCE_COMMAND, "secrets": {"TOKEN": secret}}
    rendered = render_broker(broker(fence="command", fence_command=command), reveal=True)
    (tmp_path / "secrets.env").write_bytes(rendered["conf/fence-secrets.env"])

    script = '. ./secrets.env && printf %s "$TOKEN"'
    read = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, check=True).stdout

    assert read.decode() == secret
    assert not (tmp_path / "evaluated").exists()
