"""Memory limits of units: separate for a broker, its watchdog and a balancer, and above what each of them needs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from activemq_fleet.errors import SettingsError
from activemq_fleet.render import render_balancer, render_broker
from activemq_fleet.topology import BALANCERS, build_fleet

HOST = "orders-mq01-a.example.com"


def memory_limits(**variables: Any) -> dict[str, str]:
    """Return ``MemoryMax`` by unit."""
    host_variables = {"activemq_release": "6.3.1", "activemq_ha": "none"} | {
        f"activemq_{k}": x for k, x in variables.items()
    }
    files = render_broker(build_fleet({HOST: host_variables}, {}).brokers[0])
    limits_by_path = {path: re.findall(r"^MemoryMax=(.*)$", text.decode(), re.M) for path, text in files.items()}
    return {
        path.rpartition("/")[2]: limits_of_unit[0] for path, limits_of_unit in limits_by_path.items() if limits_of_unit
    }


def test_every_unit_of_broker_has_memory_limit() -> None:
    assert memory_limits() == {"activemq.service": "1920M", "activemq-watchdog.service": "512M"}


@pytest.mark.parametrize(
    ("variables", "limit"),
    [
        ({"heap": "4g"}, "9984M"),
        ({"heap": "512m", "java_options": ["-Xmx4g"]}, "9984M"),
        ({"heap": "512m", "java_options": ["-XX:MaxHeapSize=4294967296"]}, "9984M"),
        ({"heap": "4g", "java_options": ["-XX:MaxDirectMemorySize=256m"]}, "6144M"),
        ({"unit_memory_max": "3g"}, "3G"),
        ({"unit_memory_max": "infinity"}, "infinity"),
    ],
)
def test_memory_limit_of_broker_unit_exceeds_memory_of_jvm(variables: dict[str, Any], limit: str) -> None:
    assert memory_limits(**variables)["activemq.service"] == limit


@pytest.mark.parametrize(
    ("variables", "heap"),
    [
        ({}, "activemq_heap sets a heap of 512m"),
        ({"java_options": ["-Xmx1g", "-XX:MaxHeapSize=600M"]}, "activemq_java_options sets a heap of 600M"),
    ],
)
def test_memory_limit_of_broker_unit_below_heap_is_refused(variables: dict[str, Any], heap: str) -> None:
    with pytest.raises(SettingsError, match=f"activemq_unit_memory_max is 512m, but {heap}: set"):
        memory_limits(unit_memory_max="512m", **variables)


def test_memory_limit_of_broker_unit_may_be_below_heap_that_java_option_lowers() -> None:
    assert memory_limits(heap="4g", java_options=["-Xmx1g"], unit_memory_max="3g")["activemq.service"] == "3G"


def test_memory_limit_of_balancer_suffices_for_all_clients() -> None:
    host_variables = {"activemq_release": "6.3.1", "activemq_ha": "none", "activemq_vip": "10.0.0.9"}
    fleet = build_fleet({HOST: host_variables, "lb1": {"activemq_vip_interface": "eth0"}}, {BALANCERS: ["lb1"]})
    files = {path: text.decode() for path, text in render_balancer(fleet.balancers[0]).items()}
    (max_clients,) = re.findall(r"^    maxconn ([0-9]+)$", files["haproxy.cfg"].partition("defaults")[0], re.M)
    (limit,) = re.findall(r"^MemoryMax=([0-9]+)M$", files["systemd/haproxy.conf"], re.M)
    assert int(limit) * 1024 >= 64 * 2 * int(max_clients)
    assert "MemoryMax=" in files["systemd/keepalived.conf"]
