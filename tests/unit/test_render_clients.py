"""What clients of a fleet are given: agent.conf beside its secret, and jndi.properties."""

from __future__ import annotations

import configparser
from typing import Any

from activemq_fleet.render import mode_of, render_agent, render_clients
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
    assert mode_of("mb.password") == 0o640


def test_topics_of_an_agent_stay_one_line_of_its_configuration() -> None:
    found = configuration(render_agent(agent(topics=["a%b", "x=y", "[z]", "é"])))

    assert found["topics"] == "a%b,x=y,[z],é"


def test_java_clients_dial_each_broker_as_it_listens() -> None:
    inventory = hosts("o-mq1") | hosts("o-mq2", tls=TLS)
    lines = render_clients(build_fleet(inventory, {}))["clients/o/jndi.properties"].decode().splitlines()

    provider = next(line for line in lines if line.startswith("java.naming.provider.url="))
    assert provider.partition("=")[2] == (
        "failover:(tcp://o-mq1-a.example.com:61616,ssl://o-mq2-a.example.com:61616,"
        "tcp://o-mq1-b.example.com:61616,ssl://o-mq2-b.example.com:61616)?initialReconnectDelay=100"
    )


def test_java_clients_are_not_sent_to_a_pure_slave() -> None:
    text = render_clients(fleet("o-mq1", release="5.5.1", ha="pure"))["clients/o/jndi.properties"].decode()

    assert "o-mq1-a" in text
    assert "o-mq1-b" not in text


def test_a_group_that_java_clients_cannot_dial_gets_no_file() -> None:
    stomp = [{"name": "s", "scheme": "stomp", "port": 61613}]

    assert render_clients(fleet("o-mq1", connectors=stomp)) == {}
