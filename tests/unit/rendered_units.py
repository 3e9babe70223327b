"""Brokers, their rendered systemd units, and the values of keys in rendered files."""

from __future__ import annotations

import re
from typing import Any

from activemq_fleet.render.systemd_units import systemd_unit_relative_path, unit_environment_and_log_files
from activemq_fleet.topology import Broker
from tests.unit.fleets import fleet


def broker(release: str = "5.18.3", node: str = "a", **variables: Any) -> Broker:
    return fleet("o-mq01", release=release, **variables).broker(f"o-mq01-{node}")


def unit(of: Broker) -> str:
    return unit_environment_and_log_files(of)[systemd_unit_relative_path(of)].decode()


def values(text: str, key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", text, re.MULTILINE)


def value(text: str, key: str) -> str:
    (found,) = values(text, key)
    return str(found)
