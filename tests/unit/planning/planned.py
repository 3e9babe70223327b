"""A fleet with every kind of connection between groups, and its rows when it is planned as a whole."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from activemq_fleet.artifacts import load_schema
from activemq_fleet.planning.host_records import variables_to_json
from activemq_fleet.releases import Release
from activemq_fleet.render import activemq_xml_documents_of_rendered_files, render_hosts, render_java_client_files
from activemq_fleet.topology import Fleet, build_fleet
from activemq_fleet.validation import fleet_with_check_findings

Hosts = dict[str, dict[str, Any]]
Groups = dict[str, list[str]]
Rows = dict[str, list[dict[str, Any]]]

BASE = {
    "activemq_release": "5.18.3",
    "activemq_network_username": "net",
    "activemq_network_password": "a secret",
    "activemq_users": [{"name": "app", "password": "long enough", "groups": ["admins"]}],
}
VIP = {"activemq_vip": "10.9.9.9", "activemq_vip_interface": "eth0"}
AGENT = {"activemq_agent_username": "agent", "activemq_agent_password": "a secret of agents"}


def pairs(*names: str, **variables: Any) -> Hosts:
    """Return both nodes of each pair. The names of the variables have no prefix."""
    prefixed = {f"activemq_{name}": value for name, value in variables.items()}
    return {f"{name}-{node}.example.com": copy.deepcopy(BASE | prefixed) for name in names for node in "ab"}


def hosts_of_connected_groups() -> tuple[Hosts, Groups]:
    """Return groups that links, addresses, stores, fragments, agents and a balancer connect, with many errors."""
    link = {"from": "north", "to": "south", "ttl": 1}
    connector_xml = '<networkConnector name="out" uri="static:(tcp://dialled-mq01-a.example.com:61616)"/>'
    hosts = {
        **pairs("north-mq01", "north-mq02", topology="chain"),
        **pairs("south-mq01", "south-mq02", topology="chain", links=[{"from": "south", "to": "alone-mq01"}]),
        **pairs("east-mq01", links=[link, {"from": "east", "to": "nroth"}, {"from": "zzzzzz", "to": "east"}]),
        **pairs("alone-mq01", ha="none"),
        **pairs("clash-mq01", address="10.0.0.9"),
        **pairs("other-mq01", "other-mq02", address="10.0.0.9", instance="second"),
        **pairs("stored-mq01", store_directory="/srv/activemq/north-mq01"),
        **pairs("shared-mq01", "shared-mq02", store_directory="/srv/all"),
        **pairs("sharing-mq01", store_directory="/srv/all"),
        **pairs("frag-mq01", xml_fragments=[{"parent": "broker/networkConnectors", "xml": connector_xml}]),
        **pairs("dialled-mq01"),
        **pairs("pure-mq01", "pure-mq02", release="5.5.1", ha="pure", environment="prod"),
        **pairs("prod-pure-mq01", release="5.5.1", ha="pure"),
        **pairs("served-mq01", vip=VIP["activemq_vip"]),
        **pairs("wrong-mq01", broker_attributes={"useJmx": "maybe"}),
        **pairs("lonely-mq01"),
    }
    del hosts["lonely-mq01-b.example.com"]
    hosts["served-mq01-a.example.com"]["activemq_waivers"] = [
        {"rule": "T002", "reason": "bought later", "hosts": ["lonely*"]},
        {"rule": "L017", "reason": "other mounts", "hosts": ["sharing*"]},
    ]
    hosts |= {
        "lb1.example.com": {**VIP, "activemq_vip_username": "look", "activemq_vip_password": "looks only"},
        "shop.example.com": AGENT | {"activemq_agent_group": "north"},
        "lost.example.com": AGENT | {"activemq_agent_group": "nowhere"},
        "db.example.com": {"activemq_release": ["not", "asked"]},
        "foo-mq1.example.com": {},
    }
    hosts["dialled-mq01-a.example.com"] |= AGENT | {"activemq_agent_group": "served"}
    groups = {
        "activemq_agents": ["shop.example.com", "lost.example.com", "dialled-mq01-a.example.com"],
        "activemq_loadbalancers": ["lb1.example.com"],
        "activemq_brokers": ["odd.example.com", "north-mq01-a.example.com"],
    }
    hosts["odd.example.com"] = {}
    return hosts, groups


def inventory_json_lines(hosts: Mapping[str, Mapping[str, Any]], groups: Mapping[str, list[str]]) -> str:
    """Return the hosts, their variables and their groups as JSON lines."""
    groups_by_host = {host: [name for name, members in groups.items() if host in members] for host in hosts}
    records = (
        {"host": host, "variables": json.loads(variables_to_json(host, hosts[host])), "groups": groups_by_host[host]}
        for host in hosts
    )
    return "".join(json.dumps(record) + "\n" for record in records)


def whole_fleet_and_rows(hosts: Hosts, groups: Groups) -> tuple[Fleet, Rows]:
    """Return the checked and rendered whole fleet, and its rows of the datasets."""
    fleet = build_fleet(hosts, groups)
    trees = render_hosts(fleet)
    fleet = fleet_with_check_findings(fleet, activemq_xml_documents_of_rendered_files(fleet, trees), schema_of)
    brokers = [broker.to_dict() for broker in fleet.brokers]
    links = [{"host": broker["host"], **link} for broker in brokers for link in broker.pop("links")]
    files: list[tuple[str | None, str, bytes]] = [
        (host, path, content) for host, tree in trees.items() for path, content in tree.items()
    ]
    files += [(None, path, content) for path, content in render_java_client_files(fleet).items()]
    return fleet, {
        "brokers": brokers,
        "links": links,
        "findings": [finding.to_dict() for finding in fleet.findings],
        "files": [
            {
                "host": host,
                "path": path,
                "sha256": hashlib.sha256(content).hexdigest(),
                "masked_sha256": None,
                "content": content.decode(),
            }
            for host, path, content in files
        ],
    }


def schema_of(release: Release) -> Any:
    return load_schema(release)


def sorted_rows(rows: list[dict[str, Any]]) -> list[str]:
    """Return rows in a form that can be compared independently of their order."""
    return sorted(json.dumps(row, sort_keys=True, default=dict) for row in rows)
