"""What clients of a fleet are given: agent.conf beside its secret, and jndi.properties."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from activemq_agent.config import KEYS, Config
from activemq_agent.config_parser import read_config
from activemq_agent.config_values import Endpoint
from activemq_fleet.errors import SettingsError
from activemq_fleet.render import file_mode_of, render_agent, render_java_client_files
from activemq_fleet.settings.agent import COMPUTED, VARIABLES
from activemq_fleet.topology import Agent, build_fleet
from tests.unit.fleets import fleet, hosts

TLS = dict.fromkeys(("keystore", "truststore"), "/etc/x") | dict.fromkeys(
    ("keystore_password", "truststore_password"), "hush"
)


def agent(inventory: dict[str, dict[str, Any]] | None = None, **variables: Any) -> Agent:
    own = {"activemq_agent_username": "agent", "activemq_agent_password": "hush, hush"}
    own |= {f"activemq_agent_{name}": value for name, value in variables.items()}
    return build_fleet((inventory or hosts("o-mq1")) | {"app1": own}, {"activemq_agents": ["app1"]}).agents[0]


def configuration(files: dict[str, bytes]) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(files["agent.conf"].decode())
    assert parser.sections() == ["agent"]
    return dict(parser["agent"])


def test_an_agent_gets_both_nodes_of_its_pair_and_the_place_of_its_password() -> None:
    files = render_agent(agent(topics=["instance/+/status", "#"]))

    found = configuration(files)
    assert found["mb.urls"] == "o-mq1-a.example.com:1883,o-mq1-b.example.com:1883"
    assert found["mb.password.file"] == "/etc/activemq-agent/mb.password"
    assert found["topics"] == "instance/+/status,#"
    assert files["mb.password"] == b"@activemq_agent_password@\n"


def test_the_password_of_an_agent_stands_in_its_own_file_only() -> None:
    files = render_agent(agent(), reveal=True)

    holding = [path for path, content in files.items() if b"hush, hush" in content]
    assert holding == ["mb.password"]
    assert file_mode_of("mb.password") == 0o640


def test_topics_of_an_agent_stay_one_line_of_its_configuration() -> None:
    found = configuration(render_agent(agent(topics=["a%b", "x=y", "[z]", "é"])))

    assert found["topics"] == "a%b,x=y,[z],é"


# -- what the agent reads ------------------------------------------------------------------------

EVERYTHING: dict[str, Any] = {
    "publisher_timeout": 60, "publisher_window": 7, "publisher_envelope": True, "publisher_drop_expired": True,
    "publisher_barrier": True, "topics": ["a%b", "#", "a%b"], "client_id": "kiosk-1", "outbox_rows": 11,
    "outbox_bytes": 12, "inbox_rows": 13, "inbox_bytes": 14, "topic_rows": 15, "handlers": "/etc/handlers.d",
    "handler_timeout": 16, "handler_attempts": 17, "handler_pause": 18, "dedupe_days": 19, "offline_limit": 20,
    "drain_seconds": 0, "metrics_address": "127.0.0.1:9464", "log_level": "debug",
    "options": {"connecting.cap": 21},
}  # fmt: skip


def as_the_agent_reads(tmp_path: Path, inventory: dict[str, dict[str, Any]] | None = None, **variables: Any) -> Config:
    """Lay the files down and let the agent read them: it refuses keys and values that it does not know."""
    for path, content in render_agent(agent(inventory, config=str(tmp_path), **variables), reveal=True).items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(content)
        (tmp_path / path).chmod(file_mode_of(path))
    return read_config(tmp_path / "agent.conf", {})


def test_every_variable_of_an_agent_is_read_by_it(tmp_path: Path) -> None:
    found = as_the_agent_reads(tmp_path, **EVERYTHING)

    assert [str(url) for url in found.urls] == ["o-mq1-a.example.com:1883", "o-mq1-b.example.com:1883"]
    assert found.password is not None
    assert found.password.text == "hush, hush"
    assert found.topics == ("a%b", "#")
    assert (found.publisher_timeout, found.publisher_window, found.drain_seconds) == (60, 7, 0)
    assert (found.publisher_envelope, found.drop_expired, found.barrier) == (True, True, True)
    assert (found.outbox_rows, found.outbox_bytes, found.inbox_rows, found.inbox_bytes) == (11, 12, 13, 14)
    assert (found.topic_rows, found.handlers, found.dedupe_days) == (15, Path("/etc/handlers.d"), 19)
    assert (found.handler_timeout, found.handler_attempts, found.handler_pause) == (16, 17, 18)
    assert (found.offline_limit, found.metrics_address, found.policy.cap) == (20, Endpoint("127.0.0.1", 9464), 21)


def test_what_no_variable_says_is_as_the_agent_would_have_it(tmp_path: Path) -> None:
    found = as_the_agent_reads(tmp_path)

    without_account = replace(found, username=None, password=None, password_file=None)
    assert without_account == Config(urls=found.urls, client_id="app1")


def test_files_of_tls_go_to_an_agent_whose_brokers_speak_it_only(tmp_path: Path) -> None:
    files: dict[str, Any] = {"tls_ca": "/etc/ca.pem", "tls_certificate": "/etc/own.pem", "tls_key": "/etc/own.key"}

    found = as_the_agent_reads(tmp_path, hosts("o-mq1", tls=TLS), **files)
    assert (str(found.urls[0]), found.tls.ca) == ("ssl://o-mq1-a.example.com:1883", Path("/etc/ca.pem"))
    assert as_the_agent_reads(tmp_path, **files).tls.ca is None


def test_each_variable_is_a_key_of_the_agent() -> None:
    assert VARIABLES.keys() | COMPUTED.keys() <= {entry.name for entry in KEYS}


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        (
            {"options": {"topics": "a"}},
            "activemq_agent_options must not set 'topics': remove the key, and use activemq_agent_topics",
        ),
        (
            {"options": {"mb.password": "a"}},
            "activemq_agent_options must not set 'mb.password': remove the key, and use activemq_agent_password",
        ),
        ({"options": {"Cap": 1}}, "in activemq_agent_options, the key 'Cap' must be a key of agent.conf"),
        (
            {"options": {"log.format": "text\nmb.urls = x:1"}},
            "the value of activemq_agent_options.log.format contains a line break",
        ),
        ({"handlers_source": "files/"}, "activemq_agent_handlers_source is set, but activemq_agent_handlers is not"),
        ({"metrics_address": "kiosk"}, "in activemq_agent_metrics_address, the address 'kiosk' has no valid"),
        (
            {"publish_prefixes": ["a/#"]},
            "activemq_agent_publish_prefixes contains 'a/#', but a prefix cannot end with #",
        ),
        ({"tls_key": "/etc/own.key"}, "activemq_agent_tls_key is set, but activemq_agent_tls_certificate is not"),
    ],
)
def test_what_an_agent_cannot_use_is_refused(variables: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        agent(**variables)

    assert said in str(caught.value)


@pytest.mark.parametrize("said", ["9464", ":9464", 9464, "127.0.0.1:9464"])
def test_metrics_are_on_loopback_unless_an_address_is_said(tmp_path: Path, said: object) -> None:
    assert as_the_agent_reads(tmp_path, metrics_address=said).metrics_address == Endpoint("127.0.0.1", 9464)


# -- the unit ------------------------------------------------------------------------------------


def unit(**variables: Any) -> str:
    return render_agent(agent(**variables))["systemd/activemq-agent.service"].decode()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="NOT SHOWN: needs systemd-analyze")
@pytest.mark.parametrize("variables", [{}, {"state": "/srv/agent"}, {"state": "/home/agent"}])
def test_systemd_finds_the_unit_hardened(variables: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "activemq-agent.service").write_text(unit(**variables))
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "./activemq-agent.service"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    found = re.search(r"Overall exposure level for activemq-agent.service: ([0-9.]+)", done.stdout)

    assert found is not None, done.stderr
    assert float(found[1]) <= 1.5


def test_the_state_is_a_directory_of_systemds_only_where_that_can_be() -> None:
    below, elsewhere = unit(state="/var/lib/a/b"), unit(state="/srv/agent")

    assert "\nStateDirectory=a/b\n" in below
    assert "ReadWritePaths=" not in below
    assert "\nReadWritePaths=/srv/agent\n" in elsewhere
    assert "StateDirectory=" not in elsewhere


def test_home_directories_are_hidden_unless_something_of_the_agent_lies_there() -> None:
    assert "\nProtectHome=yes\n" in unit()
    for name in ("state", "home", "config", "handlers"):
        assert "\nProtectHome=read-only\n" in unit(**{name: "/home/agent/x"})


def test_the_unit_has_a_bound_of_memory_that_grows_with_the_packets_it_may_receive() -> None:
    assert "\nMemoryMax=1044M\n" in unit()
    assert "\nMemoryMax=2304M\n" in unit(packet_bytes=64 << 20)


def test_systemd_waits_longer_than_the_agent_drains() -> None:
    assert "\nTimeoutStopSec=145\n" in unit(drain_seconds=120)


# -- Java clients --------------------------------------------------------------------------------


def test_java_clients_dial_each_broker_as_it_listens() -> None:
    inventory = hosts("o-mq1") | hosts("o-mq2", tls=TLS)
    lines = render_java_client_files(build_fleet(inventory, {}))["clients/o/jndi.properties"].decode().splitlines()

    provider = next(line for line in lines if line.startswith("java.naming.provider.url="))
    assert provider.partition("=")[2] == (
        "failover:(tcp://o-mq1-a.example.com:61616,ssl://o-mq2-a.example.com:61616,"
        "tcp://o-mq1-b.example.com:61616,ssl://o-mq2-b.example.com:61616)?initialReconnectDelay=100&maxReconnectDelay=2000"
    )


def test_java_clients_are_not_sent_to_a_pure_slave() -> None:
    text = render_java_client_files(fleet("o-mq1", release="5.5.1", ha="pure"))["clients/o/jndi.properties"].decode()

    assert "o-mq1-a" in text
    assert "o-mq1-b" not in text


def test_a_group_that_java_clients_cannot_dial_gets_no_file() -> None:
    stomp = [{"name": "s", "scheme": "stomp", "port": 61613}]

    assert render_java_client_files(fleet("o-mq1", connectors=stomp)) == {}
