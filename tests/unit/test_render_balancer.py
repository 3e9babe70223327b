"""Files of a load balancer: golden files, and the bytes of the health checks of brokers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.deployment import balancer_facts, files_to_deploy
from activemq_fleet.render import file_mode_of, render_balancer, render_fleet
from activemq_fleet.render.engine import escape_haproxy_word
from activemq_fleet.render.load_balancer import haproxy_configuration_id
from activemq_fleet.topology import BALANCERS, Fleet, build_fleet
from tests.golden_files import Golden
from tests.unit.fleets import hosts

LOGIN = {"activemq_vip_username": "look", "activemq_vip_password": "made-up, # and \\ 'quoted'"}
LB = {"activemq_vip_interface": "eth0", **LOGIN}
ORDERS = {"vip": "10.77.0.100"}


def fleet(brokers: dict[str, dict[str, Any]] | None = None, **balancer: Any) -> Fleet:
    variables = {f"activemq_{name}": value for name, value in balancer.items()}
    balancers = {f"lb{n}.example.com": LB | {"activemq_address": f"10.77.0.4{n}"} | variables for n in (1, 2)}
    return build_fleet((brokers or hosts("orders-mq01", **ORDERS)) | balancers, {BALANCERS: list(balancers)})


def render_files(topology: Fleet, *, reveal: bool = False) -> dict[str, str]:
    files = render_balancer(topology.balancers[0], reveal=reveal)
    return {path: content.decode() for path, content in files.items()}


def bytes_of_check(text: str, backend: str) -> list[bytes]:
    """Return what the health check of the brokers of a backend sends, in order."""
    section = re.split(r"\n(?=backend |frontend )", text.partition(f"\nbackend {backend}\n")[2])[0]
    return [bytes.fromhex(hex_bytes) for hex_bytes in re.findall(r"tcp-check send-binary ([0-9a-f]+)$", section, re.M)]


def test_rendered_files_of_balancers_match_golden_files(golden: Golden) -> None:
    brokers = hosts("orders-mq01", "orders-mq02", **ORDERS) | hosts("stock-mq01", vip="10.77.0.102")
    brokers |= hosts("legacy-mq01", "legacy-mq02", release="5.5.1", ha="pure", vip="10.77.0.101")
    files = render_fleet(fleet(brokers))
    golden.tree("balancers", {path: content for path, content in files.items() if path.startswith("hosts/lb")})


def test_fleet_json_lists_balancers_and_their_files() -> None:
    index = json.loads(render_fleet(fleet())["fleet.json"])
    assert index["balancers"][0] == {
        "host": "lb1.example.com",
        "groups": [
            {
                "group": "orders",
                "vip": "10.77.0.100",
                "ports": {"openwire": 61616, "stomp": 61613, "mqtt": 1883},
                "router_id": 100,
                "priority": 200,
            }
        ],
    }
    assert {"hosts/lb1.example.com/haproxy.cfg", "hosts/lb2.example.com/keepalived.conf"} <= index["files"].keys()
    assert "balancers" not in json.loads(render_fleet(build_fleet(hosts("orders-mq01"), {}))["fleet.json"])


def test_balancer_that_is_also_broker_has_files_of_both() -> None:
    host = "orders-mq01-a.example.com"
    brokers = hosts("orders-mq01", bind="10.77.0.31", **ORDERS)
    topology = build_fleet(brokers | {host: brokers[host] | LB}, {BALANCERS: [host]})
    assert {f"hosts/{host}/{path}" for path in ("haproxy.cfg", "conf/activemq.xml")} <= render_fleet(topology).keys()


def test_password_of_balancer_is_only_in_haproxy_cfg_with_mode_0640() -> None:
    files = files_to_deploy(fleet().balancers[0])
    packet = LOGIN["activemq_vip_password"].encode().hex()
    assert [path for path, file in files.items() if packet.encode() in file.content] == ["haproxy.cfg"]
    assert files["haproxy.cfg"].mode == file_mode_of("haproxy.cfg") == 0o640
    assert packet not in (files["haproxy.cfg"].masked or packet)
    assert "send-binary @activemq_vip_password@\n" in (files["haproxy.cfg"].masked or "")


def test_mqtt_health_check_sends_connect_with_login_and_disconnect() -> None:
    connect, disconnect = bytes_of_check(render_files(fleet(), reveal=True)["haproxy.cfg"], "orders-mq01.mqtt")
    password = LOGIN["activemq_vip_password"].encode()
    assert connect[0] == 0x10
    assert connect[1] == len(connect) - 2
    assert connect[2:14] == b"\0\6MQIsdp" + bytes((3, 0xC2)) + b"\0\x1e"
    length = int.from_bytes(connect[14:16])
    assert length <= 23  # the limit of MQTT 3.1
    assert connect[16 + length :] == b"\0\4look" + len(password).to_bytes(2) + password
    assert disconnect == b"\xe0\0"


def test_mqtt_health_check_with_long_password_has_packet_length_of_two_bytes() -> None:
    connect = bytes_of_check(
        render_files(fleet(vip_password="x" * 200), reveal=True)["haproxy.cfg"], "orders-mq01.mqtt"
    )[0]
    assert (connect[1] & 0x7F) + 128 * connect[2] == len(connect) - 3
    assert connect[1] & 0x80


def test_each_mqtt_health_check_has_unique_client_id() -> None:
    connectors = [{"name": name, "scheme": "mqtt", "port": port} for name, port in (("one", 1883), ("two", 1884))]
    topology = fleet(hosts("orders-mq01", connectors=connectors, **ORDERS))
    texts = [render_balancer(balancer, reveal=True)["haproxy.cfg"].decode() for balancer in topology.balancers]
    client_ids = [bytes_of_check(text, f"orders-mq01.{name}")[0][16:34] for text in texts for name in ("one", "two")]
    assert all(client_id.startswith(b"check-") for client_id in client_ids)
    assert len(set(client_ids)) == 4


def test_stomp_health_check_sends_connect_with_login_and_disconnect() -> None:
    haproxy_cfg = render_files(fleet(), reveal=True)["haproxy.cfg"]
    password = LOGIN["activemq_vip_password"]
    assert bytes_of_check(haproxy_cfg, "orders-mq01.stomp") == [
        f"CONNECT\nlogin:look\npasscode:{password}\n\n\0".encode(),
        b"DISCONNECT\n\n\0",
    ]


def test_health_check_without_login_sends_no_account_and_has_no_masked_secret() -> None:
    topology = fleet(vip_username=None, vip_password=None)
    haproxy_cfg = render_files(topology)["haproxy.cfg"]
    assert haproxy_cfg == render_files(topology, reveal=True)["haproxy.cfg"]
    assert bytes_of_check(haproxy_cfg, "orders-mq01.stomp")[0] == b"CONNECT\n\n\0"
    assert bytes_of_check(haproxy_cfg, "orders-mq01.mqtt")[0][11] == 2  # only the flag of a clean session


@pytest.mark.parametrize(("scheme", "greetings"), [("nio", 0), ("auto+nio", 1)])
def test_openwire_health_check_sends_greeting_only_to_auto_connector(scheme: str, greetings: int) -> None:
    connectors = [{"name": "openwire", "scheme": scheme, "port": 61616}]
    haproxy_cfg = render_files(fleet(hosts("orders-mq01", connectors=connectors, **ORDERS)))["haproxy.cfg"]
    assert len(bytes_of_check(haproxy_cfg, "orders-mq01.openwire")) == greetings
    assert f"tcp-check expect binary 01{b'ActiveMQ'.hex()}\n" in haproxy_cfg


def test_openwire_health_check_sends_greeting_if_any_connector_is_auto() -> None:
    connectors = [{"name": "openwire", "scheme": "auto+nio", "port": 61616}]
    brokers = hosts("orders-mq01", **ORDERS) | hosts("orders-mq02", connectors=connectors, **ORDERS)
    haproxy_cfg = render_files(fleet(brokers))["haproxy.cfg"]
    assert [len(bytes_of_check(haproxy_cfg, f"orders-mq0{pair}.openwire")) for pair in (1, 2)] == [1, 1]


def test_balancer_forwards_tls_and_checks_brokers_over_tls() -> None:
    tls = dict.fromkeys(("keystore", "truststore"), "/etc/x") | dict.fromkeys(
        ("keystore_password", "truststore_password"), "hush"
    )
    brokers = hosts("orders-mq01", "orders-mq02", tls=tls | {"client_auth": True}, **ORDERS)
    haproxy_cfg = render_files(fleet(brokers, vip_certificate="/etc/lb.pem"))["haproxy.cfg"]
    assert "orders-mq01-a.example.com:1883 check check-ssl verify none crt /etc/lb.pem maxconn 990\n" in haproxy_cfg
    verified = render_files(fleet(brokers, vip_certificate="/etc/lb.pem", vip_broker_ca="/etc/ca.pem"))["haproxy.cfg"]
    expected = "verify required ca-file /etc/ca.pem verifyhost orders-mq01-a.example.com crt /etc/lb.pem maxconn 990\n"
    assert f"orders-mq01-a.example.com:1883 check check-ssl {expected}" in verified
    assert "mqtt_field_value" not in haproxy_cfg  # the client id is encrypted
    assert "bind 10.77.0.100:1883 transparent\n" in haproxy_cfg


@pytest.mark.parametrize(
    ("word", "escaped"),
    [("plain.name:1", "plain.name:1"), ("a b#c", "a\\ b\\#c"), ("back\\slash", "back\\\\slash"), ("'\"", "\\'\\\"")],
)
def test_escaped_haproxy_word_stays_single_word(word: str, escaped: str) -> None:
    assert escape_haproxy_word(word) == escaped


def test_configuration_id_of_haproxy_depends_on_file_and_not_on_password() -> None:
    ids = [
        haproxy_configuration_id(topology.balancers[0])
        for topology in (fleet(), fleet(vip_password="another"), fleet(hosts("orders-mq01", vip="10.77.0.101")))
    ]
    assert ids[0] == ids[1] != ids[2]
    for reveal in (False, True):
        assert f" string {ids[0]} if {{ path /configuration }}\n" in render_files(fleet(), reveal=reveal)["haproxy.cfg"]


def test_facts_of_balancer_for_playbooks_have_no_secret() -> None:
    balancer = fleet().balancers[0]
    assert balancer_facts(balancer) == {
        "config": "/etc/activemq-loadbalancer",
        "check_port": 8405,
        "haproxy_configuration_id": haproxy_configuration_id(balancer),
        "install": True,
        "service": "systemd",
        "drop_ins": {"haproxy": "systemd/haproxy.conf", "keepalived": "systemd/keepalived.conf"},
        "addresses": {"orders": "10.77.0.100"},
    }


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="haproxy is not installed: run apt-get install haproxy")
def test_haproxy_accepts_rendered_configuration(tmp_path: Path) -> None:
    brokers = hosts("orders-mq01", "orders-mq02", **ORDERS)
    brokers |= hosts("legacy-mq01", "legacy-mq02", release="5.5.1", ha="pure", vip="fd00::1")
    (tmp_path / "haproxy.cfg").write_text(render_files(fleet(brokers), reveal=True)["haproxy.cfg"])
    completed = subprocess.run(
        ["haproxy", "-c", "-f", str(tmp_path / "haproxy.cfg")], capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stderr
    assert [
        line for line in completed.stderr.splitlines() if "WARNING" in line and "could not resolve" not in line
    ] == []
