"""Brokers, their rendered systemd units, and the values of keys in rendered files."""

from __future__ import annotations

import re
from typing import Any

from activemq_fleet.render.systemd_units import systemd_unit_relative_path, unit_environment_and_log_configuration
from activemq_fleet.topology import Broker
from tests.unit.fleets import fleet


def broker(release: str = "5.18.3", node: str = "a", **variables: Any) -> Broker:
    """Return a broker of a pair. The names of the variables have no prefix."""
    return fleet("o-mq01", release=release, **variables).broker(f"o-mq01-{node}")


def unit_text(broker: Broker) -> str:
    """Return the text of the systemd unit of a broker."""
    return unit_environment_and_log_configuration(broker)[systemd_unit_relative_path(broker)].decode()


def values_of_key(text: str, key: str) -> list[str]:
    """Return the values of a key, in their order in the text."""
    return re.findall(rf"^{key}=(.*)$", text, re.MULTILINE)


def value_of_key(text: str, key: str) -> str:
    """Return the value of a key that the text has once."""
    (value,) = values_of_key(text, key)
    return str(value)
