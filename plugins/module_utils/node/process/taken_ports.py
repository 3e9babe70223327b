# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Finds the processes that prevent the start of a broker: those on its ports, and brokers that it replaces."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from .held_by_process import ListeningSocket, all_listening_tcp_sockets, pids_by_socket_inode, sockets_that_block
from .proc import (
    Process,
    activemq_bases_in_command,
    is_in_systemd_unit,
    is_process_of_running_broker,
    process_ids,
    read_proc_file,
    service_of_main_process,
    uid_of_process,
)


def taken_ports(
    listeners: Sequence[tuple[str, int]], broker: Process | None, unit: str | None, base: str
) -> list[dict[str, Any]]:
    """Return the ports of a broker on which another process already listens.

    The broker cannot listen on them. ``listeners`` are addresses and ports of the broker, ``broker`` is the process of
    the broker that runs, ``unit`` the systemd unit of the broker, ``base`` its directory. A broker of another directory
    in the same unit, such as the one before an adoption, is another process. Each result has ``port``, ``address``,
    ``pid``, ``program`` and ``service``. ``pid`` and ``program`` are None where the process is not visible. ``service``
    is the systemd service of a process that is a broker, else None.
    """
    listening = all_listening_tcp_sockets()
    blocked = [(port, sockets_that_block(address, port, listening)) for address, port in listeners]
    holders = pids_by_socket_inode(
        {listening_socket.inode for _unused, sockets in blocked for listening_socket in sockets}
    )
    taken = []
    for port, sockets in blocked:
        sockets_and_pids = [(listening_socket, holders.get(listening_socket.inode, [])) for listening_socket in sockets]
        foreign_sockets = [
            (listening_socket, pids)
            for listening_socket, pids in sockets_and_pids
            if not _is_socket_of_broker(listening_socket, pids, broker, unit, base)
        ]
        if foreign_sockets:
            pids = [pid for _unused, socket_pids in foreign_sockets for pid in socket_pids]
            pid = pids[0] if pids else None
            program = read_proc_file(pid, "comm").rstrip("\n") if pid else None
            service = service_of_main_process(pid) if pid and activemq_bases_in_command(pid) else None
            address = foreign_sockets[0][0].address
            taken.append({"port": port, "address": address, "pid": pid, "program": program, "service": service})
    return taken


def _is_socket_of_broker(
    listening_socket: ListeningSocket, pids: Sequence[int], broker: Process | None, unit: str | None, base: str
) -> bool:
    if pids:
        if broker is not None and broker.pid in pids:
            return True
        return unit is not None and any(
            is_in_systemd_unit(pid, unit) and not _has_other_base(pid, base) for pid in pids
        )
    # Only root can read which process has a socket open; other accounts can read only its owner.
    return broker is not None and uid_of_process(broker.pid) == listening_socket.uid


def running_brokers_to_replace(base: str, home: str, home_processes: Sequence[int]) -> list[dict[str, Any]]:
    """Return the running brokers that the broker of the directory ``base`` replaces.

    They are the brokers of other directories in the systemd unit that is named after ``base``, and the broker that runs
    in the release directory ``home`` itself, as before an adoption. A standby among them listens on no port.
    ``home_processes`` are the pids of processes that have files of ``home`` open. Each result has ``pid``, ``base`` and
    ``service``, the systemd service of the process or None.
    """
    unit, home_path = f"{os.path.basename(base)}.service", os.path.realpath(home)
    brokers = []
    for pid in process_ids():
        directories = _absolute_paths(pid, activemq_bases_in_command(pid))
        if not directories or base in directories or not is_process_of_running_broker(pid):
            continue
        is_in_unit = is_in_systemd_unit(pid, unit)
        if is_in_unit or (pid in home_processes and home_path in map(os.path.realpath, directories)):
            service = unit if is_in_unit else service_of_main_process(pid)
            brokers.append({"pid": pid, "base": directories[0], "service": service})
    return brokers


def _absolute_paths(pid: int, paths: Sequence[str]) -> list[str]:
    """Return the absolute paths of ``paths``, which can be relative to the current directory of a process.

    The service wrapper of ActiveMQ starts a broker with relative paths.
    """
    try:
        current_directory = os.readlink(f"/proc/{pid}/cwd")
    except OSError:  # the process has ended or is hidden
        current_directory = "/"
    return [os.path.normpath(os.path.join(current_directory, path)) for path in paths]


def _has_other_base(pid: int, base: str) -> bool:
    """Return whether a process is a broker of another directory than ``base``."""
    directories = activemq_bases_in_command(pid)
    return bool(directories) and base not in directories
