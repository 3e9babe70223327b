"""Files for the clients of a fleet: agent.conf and its password file, and jndi.properties."""

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


def agent_with(inventory: dict[str, dict[str, Any]] | None = None, **variables: Any) -> Agent:
    agent_variables = {"activemq_agent_username": "agent", "activemq_agent_password": "hush, hush"}
    agent_variables |= {f"activemq_agent_{name}": value for name, value in variables.items()}
    inventory = (inventory or hosts("o-mq1")) | {"app1": agent_variables}
    return build_fleet(inventory, {"activemq_agents": ["app1"]}).agents[0]


def configuration(files: dict[str, bytes]) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(files["agent.conf"].decode())
    assert parser.sections() == ["agent"]
    return dict(parser["agent"])


def test_agent_conf_has_both_nodes_of_pair_and_path_of_password_file() -> None:
    files = render_agent(agent_with(topics=["instance/+/status", "#"]))

    settings = configuration(files)
    assert settings["mb.urls"] == "o-mq1-a.example.com:1883,o-mq1-b.example.com:1883"
    assert settings["mb.password.file"] == "/etc/activemq-agent/mb.password"
    assert settings["topics"] == "instance/+/status,#"
    assert files["mb.password"] == b"@activemq_agent_password@\n"


def test_password_of_agent_is_only_in_password_file() -> None:
    files = render_agent(agent_with(), reveal=True)

    files_with_password = [path for path, content in files.items() if b"hush, hush" in content]
    assert files_with_password == ["mb.password"]
    assert file_mode_of("mb.password") == 0o640


def test_topics_of_agent_stay_on_single_line() -> None:
    settings = configuration(render_agent(agent_with(topics=["a%b", "x=y", "[z]", "é"])))

    assert settings["topics"] == "a%b,x=y,[z],é"


# -- the configuration as the agent reads it -----------------------------------------------------

EVERYTHING: dict[str, Any] = {
    "publisher_timeout": 60, "publisher_window": 7, "publisher_envelope": True, "publisher_drop_expired": True,
    "publisher_barrier": True, "topics": ["a%b", "#", "a%b"], "client_id": "kiosk-1", "outbox_rows": 11,
    "outbox_bytes": 12, "inbox_rows": 13, "inbox_bytes": 14, "topic_rows": 15, "handlers": "/etc/handlers.d",
    "handler_timeout": 16, "handler_attempts": 17, "handler_pause": 18, "dedupe_days": 19, "offline_limit": 20,
    "drain_seconds": 0, "metrics_address": "127.0.0.1:9464", "log_level": "debug",
    "options": {"connecting.cap": 21},
}  # fmt: skip


def read_by_agent(tmp_path: Path, inventory: dict[str, dict[str, Any]] | None = None, **variables: Any) -> Config:
    """Write the files, and return them as the agent reads them: it rejects unknown keys and invalid values."""
    for path, content in render_agent(agent_with(inventory, config=str(tmp_path), **variables), reveal=True).items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(content)
        (tmp_path / path).chmod(file_mode_of(path))
    return read_config(tmp_path / "agent.conf", {})


def test_agent_reads_value_of_every_variable_from_rendered_agent_conf(tmp_path: Path) -> None:
    config = read_by_agent(tmp_path, **EVERYTHING)

    assert [str(url) for url in config.urls] == ["o-mq1-a.example.com:1883", "o-mq1-b.example.com:1883"]
    assert config.password is not None
    assert config.password.text == "hush, hush"
    assert config.topics == ("a%b", "#")
    assert (config.publisher_timeout, config.publisher_window, config.drain_seconds) == (60, 7, 0)
    assert (config.publisher_envelope, config.drop_expired, config.barrier) == (True, True, True)
    assert (config.outbox_rows, config.outbox_bytes, config.inbox_rows, config.inbox_bytes) == (11, 12, 13, 14)
    assert (config.topic_rows, config.handlers, config.dedupe_days) == (15, Path("/etc/handlers.d"), 19)
    assert (config.handler_timeout, config.handler_attempts, config.handler_pause) == (16, 17, 18)
    assert (config.offline_limit, config.metrics_address, config.policy.cap) == (20, Endpoint("127.0.0.1", 9464), 21)


def test_unset_variables_keep_defaults_of_agent(tmp_path: Path) -> None:
    config = read_by_agent(tmp_path)

    without_account = replace(config, username=None, password=None, password_file=None)
    assert without_account == Config(urls=config.urls, client_id="app1")


def test_agent_has_tls_files_only_if_brokers_use_tls(tmp_path: Path) -> None:
    files: dict[str, Any] = {"tls_ca": "/etc/ca.pem", "tls_certificate": "/etc/own.pem", "tls_key": "/etc/own.key"}

    config = read_by_agent(tmp_path, hosts("o-mq1", tls=TLS), **files)
    assert (str(config.urls[0]), config.tls.ca) == ("ssl://o-mq1-a.example.com:1883", Path("/etc/ca.pem"))
    assert read_by_agent(tmp_path, **files).tls.ca is None


def test_each_variable_is_key_of_agent_configuration() -> None:
    assert VARIABLES.keys() | COMPUTED.keys() <= {entry.name for entry in KEYS}


@pytest.mark.parametrize(
    ("variables", "message"),
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
def test_invalid_variables_of_agent_are_refused(variables: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        agent_with(**variables)

    assert message in str(caught.value)


@pytest.mark.parametrize("address", ["9464", ":9464", 9464, "127.0.0.1:9464"])
def test_metrics_address_of_agent_without_host_is_on_loopback(tmp_path: Path, address: object) -> None:
    assert read_by_agent(tmp_path, metrics_address=address).metrics_address == Endpoint("127.0.0.1", 9464)


# -- the unit ------------------------------------------------------------------------------------


def agent_unit(**variables: Any) -> str:
    return render_agent(agent_with(**variables))["systemd/activemq-agent.service"].decode()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="NOT SHOWN: needs systemd-analyze")
@pytest.mark.parametrize("variables", [{}, {"state": "/srv/agent"}, {"state": "/home/agent"}])
def test_systemd_rates_agent_unit_as_hardened(variables: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "activemq-agent.service").write_text(agent_unit(**variables))
    completed = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "./activemq-agent.service"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    exposure = re.search(r"Overall exposure level for activemq-agent.service: ([0-9.]+)", completed.stdout)

    assert exposure is not None, completed.stderr
    assert float(exposure[1]) <= 1.5


def test_state_of_agent_is_state_directory_of_systemd_only_below_var_lib() -> None:
    unit_below_var_lib, unit_elsewhere = agent_unit(state="/var/lib/a/b"), agent_unit(state="/srv/agent")

    assert "\nStateDirectory=a/b\n" in unit_below_var_lib
    assert "ReadWritePaths=" not in unit_below_var_lib
    assert "\nReadWritePaths=/srv/agent\n" in unit_elsewhere
    assert "StateDirectory=" not in unit_elsewhere


def test_agent_unit_hides_home_directories_unless_agent_uses_them() -> None:
    assert "\nProtectHome=yes\n" in agent_unit()
    for name in ("state", "home", "config", "handlers"):
        assert "\nProtectHome=read-only\n" in agent_unit(**{name: "/home/agent/x"})
    assert "\nProtectHome=read-only\n" in agent_unit(tls_ca="/home/agent/ca.pem")
    for certificate, key in (("/home/agent/a.pem", "/etc/a.key"), ("/etc/a.pem", "/home/agent/a.key")):
        assert "\nProtectHome=read-only\n" in agent_unit(tls_certificate=certificate, tls_key=key)


def test_memory_limit_of_agent_unit_grows_with_packet_size() -> None:
    assert "\nMemoryMax=1044M\n" in agent_unit()
    assert "\nMemoryMax=2304M\n" in agent_unit(packet_bytes=64 << 20)


def test_stop_timeout_of_agent_unit_exceeds_drain_time() -> None:
    assert "\nTimeoutStopSec=145\n" in agent_unit(drain_seconds=120)


# -- Java clients --------------------------------------------------------------------------------


def test_java_clients_connect_to_each_broker_with_its_scheme() -> None:
    inventory = hosts("o-mq1") | hosts("o-mq2", tls=TLS)
    lines = render_java_client_files(build_fleet(inventory, {}))["clients/o/jndi.properties"].decode().splitlines()

    provider = next(line for line in lines if line.startswith("java.naming.provider.url="))
    assert provider.partition("=")[2] == (
        "failover:(tcp://o-mq1-a.example.com:61616,ssl://o-mq2-a.example.com:61616,"
        "tcp://o-mq1-b.example.com:61616,ssl://o-mq2-b.example.com:61616)?initialReconnectDelay=100&maxReconnectDelay=2000"
    )


def test_java_clients_do_not_connect_to_pure_slave() -> None:
    jndi_properties = render_java_client_files(fleet("o-mq1", release="5.5.1", ha="pure"))[
        "clients/o/jndi.properties"
    ].decode()

    assert "o-mq1-a" in jndi_properties
    assert "o-mq1-b" not in jndi_properties


def test_group_without_openwire_connector_has_no_java_client_file() -> None:
    stomp = [{"name": "s", "scheme": "stomp", "port": 61613}]

    assert render_java_client_files(fleet("o-mq1", connectors=stomp)) == {}
