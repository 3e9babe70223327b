# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Determines which account owns the other end of a TCP connection within this machine.

Invariant: only the kernel's entry of the socket at the other end of this connection counts. Any account can listen on
a port that the broker does not use at the moment.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import time

from ..text_lines import split_lines
from .held_by_process import LISTENING, kernel_ip_address_to_text, proc_net_tcp_rows, socket_accepts_connections_to
from .proc import read_system_file

_CLOSED_STATES = ("04", "05", "06", "07", "09", "0B")
_NO_INODE = "0"
_TABLE_TIMEOUT = 1.0
"""Seconds to wait until the other end of a connection is in the kernel's tables. A connection that is forwarded to
another network namespace has no other end there."""
_FIRST_PAUSE = 0.002
_LONGEST_PAUSE = 0.1
_ALL_ACCOUNTS = "4294967295"
_UNMAPPED_UID = 65534


def is_local_address(host: str) -> bool:
    """Return whether an IP address belongs to this machine.

    The network namespace is that of this process.
    """
    address = _parse_address(host)
    if address.is_loopback or address.is_unspecified:
        return True
    if address.version == 6:
        rows = [line.split() for line in split_lines(read_system_file("/proc/net/if_inet6"))]
        return any(row and row[0] == f"{int(address):032x}" for row in rows)
    return any(address in network for network in _local_networks())


def local_peer_uid(connection: socket.socket, expected_uid: int, timeout: float, pid: int | None = None) -> int | None:
    """Return the uid that owns the other end of a TCP connection within this machine; None if unknown.

    It may differ from ``expected_uid``: the caller compares them. If no process has accepted the connection yet, the
    uid of the listening socket is returned: immediately if it is ``expected_uid``, else after ``timeout`` seconds.
    ``pid``: a process in the network namespace of the other end, by default this process. Raises ConnectionResetError
    if the other end was closed in the meantime.
    """
    local_end, remote_end = _normalize_end(connection.getsockname()), _normalize_end(connection.getpeername())
    namespace = pid or os.getpid()
    started_at, pause = time.monotonic(), _FIRST_PAUSE
    while True:
        row = _find_socket_row(remote_end, local_end, namespace)
        if row is not None and row[9] != _NO_INODE:
            return _uid_if_unambiguous(int(row[7]))
        if row is not None and row[3] in _CLOSED_STATES:
            raise ConnectionResetError(
                "the server on this port closed the connection immediately: check the log of this server"
            )
        waited = time.monotonic() - started_at
        is_timed_out = waited >= (min(_TABLE_TIMEOUT, timeout) if row is None else timeout)
        listeners = _listening_uids(remote_end, namespace) if row is not None else set()
        if len(listeners) == 1 and (is_timed_out or listeners == {expected_uid}):
            return _uid_if_unambiguous(listeners.pop())
        if is_timed_out:
            return None
        time.sleep(pause)
        pause = min(_LONGEST_PAUSE, pause * 2)


def _uid_if_unambiguous(account: int) -> int | None:
    """Return the account, or None if the kernel shows several accounts with this uid.

    In a user namespace the kernel shows every account without a mapping as 65534.
    """
    ranges = [line.split() for line in split_lines(read_system_file("/proc/self/uid_map"))]
    maps_all_uids = any(len(row) == 3 and row[2] == _ALL_ACCOUNTS for row in ranges)
    return account if maps_all_uids or account != _UNMAPPED_UID else None


def _find_socket_row(local: tuple[str, int], remote: tuple[str, int], pid: int) -> list[str] | None:
    """Return the row of the TCP socket between two addresses; None without such a socket.

    A row with an owner is preferred.
    """
    port, peer_port = f":{local[1]:04X}", f":{remote[1]:04X}"
    rows = [
        row
        for row in proc_net_tcp_rows(pid)
        if row[1].endswith(port)
        and row[2].endswith(peer_port)
        and row[3] != LISTENING
        and (_ip_address_text(row[1]), _ip_address_text(row[2])) == (local[0], remote[0])
    ]
    return min(rows, key=lambda row: row[9] == _NO_INODE, default=None)


def _listening_uids(address: tuple[str, int], pid: int) -> set[int]:
    """Return the accounts that listen at an address."""
    return {
        int(row[7])
        for row in proc_net_tcp_rows(pid)
        if row[3] == LISTENING
        and socket_accepts_connections_to(row[1].partition(":")[0], _port_number(row[1]), address)
    }


def _ip_address_text(text: str) -> str:
    return kernel_ip_address_to_text(text.partition(":")[0])


def _port_number(text: str) -> int:
    return int(text.partition(":")[2], 16)


def _normalize_end(name: tuple[object, ...]) -> tuple[str, int]:
    """Return the IP address and port of a TCP socket's end, an IPv4 address in IPv6 form as IPv4."""
    return str(_parse_address(str(name[0]))), int(str(name[1]))


def _parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address(host.partition("%")[0])
    return (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address


def _local_networks() -> list[ipaddress.IPv4Network]:
    """Return the IPv4 addresses of this machine, as networks, from the kernel's routing table."""
    networks, prefix = [], ""
    for line in split_lines(read_system_file("/proc/net/fib_trie")):
        words = line.split()
        if words[:1] == ["|--"]:
            prefix = words[1]
        elif words[1:] == ["host", "LOCAL"]:
            networks.append(ipaddress.IPv4Network(f"{prefix}{words[0]}", strict=False))
    return networks
