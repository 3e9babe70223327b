# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Gathers the state of a load balancer: whether HAProxy answers, whether keepalived runs, and its addresses."""
# pylint: disable=ansible-bad-function # The package also runs without Ansible, which has no run_command there.

from __future__ import annotations

import ipaddress
import socket
import subprocess
from collections.abc import Mapping
from typing import Any

from ..process.proc import properties_of_systemd_units
from ..text_lines import split_lines

_TIMEOUT = 5.0
_UNITS = ("haproxy.service", "keepalived.service")


def gather_haproxy_and_keepalived_status(balancer: Mapping[str, Any]) -> dict[str, Any]:
    """Gather the status of a load balancer: whether HAProxy and keepalived run, and which virtual addresses it holds.

    ``balancer`` has ``check_port``, the port of HAProxy on 127.0.0.1, and ``addresses``, the virtual address of each
    group. In the result each program has ``state``, the state of its systemd unit (None without systemd); ``haproxy``
    also has ``answers``. ``addresses`` is, by group, whether this host currently has the address; None if unknown.
    """
    unit_properties = properties_of_systemd_units("Id,ActiveState,SubState", _UNITS)
    states = {unit.get("Id"): f"{unit.get('ActiveState')}/{unit.get('SubState')}" for unit in unit_properties}
    host_addresses = _own_addresses()
    return {
        "haproxy": {"state": states.get(_UNITS[0]), "answers": _does_haproxy_answer(int(balancer["check_port"]))},
        "keepalived": {"state": states.get(_UNITS[1])},
        "addresses": {
            group: None if host_addresses is None else ipaddress.ip_interface(address).ip in host_addresses
            for group, address in balancer["addresses"].items()
        },
    }


def _does_haproxy_answer(port: int) -> bool:
    """Return whether HAProxy answers on the port that keepalived also checks."""
    try:
        with socket.create_connection(("127.0.0.1", port), _TIMEOUT) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return b" 200 " in connection.recv(64)
    except OSError:
        return False


def _own_addresses() -> set[Any] | None:
    try:
        result = subprocess.run(["ip", "-o", "address"], capture_output=True, text=True, timeout=_TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    rows = [line.split() for line in split_lines(result.stdout)]
    return {ipaddress.ip_interface(line[3]).ip for line in rows if len(line) > 3 and line[2].startswith("inet")}
