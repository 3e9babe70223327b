# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads from the kernel which ports a broker's process listens on and whether it holds its store's lock.

A standby has neither, whatever its log contains; only the process itself can change them.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from ..host_paths import MKAHADB_STORE_NAME
from ..text_lines import split_lines
from .proc import open_files_with_descriptors, process_ids, read_proc_file

LISTENING, _ESTABLISHED = "0A", "01"
"""States of a socket in /proc/net/tcp."""
_TCP_TABLES = ("tcp", "tcp6")


def process_account_listens_on_one_of(pid: int, addresses: Collection[tuple[str, int]]) -> bool:
    """Return whether any process of the account that runs process ``pid`` listens on one of the (address, port) pairs.

    The network namespace is that of the process. The account is compared instead of the descriptors, because a reader
    in a separate user namespace, such as the watchdog, cannot read the descriptors of the process.
    """
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return False
    return any(
        owner == uid and any(socket_accepts_connections_to(host, port, address) for address in addresses)
        for owner, host, port in _listening_sockets(pid)
    )


def holds_store_lock(pid: int, store: str) -> bool | None:
    """Return whether a process holds the lock of a kahaDB store, or of a store in an mKahaDB.

    Brokers up to 5.8 lock each store in an mKahaDB, and not its root.
    Returns False also if its descriptors cannot be read. Returns None if the lock file is open on FUSE, as on
    GlusterFS: the kernel does not list locks of servers there.
    """
    with contextlib.suppress(OSError):
        store = os.readlink(store)  # with a guard this is a link to the generation in force
    store_name = os.path.basename(os.path.normpath(store))
    try:
        # This does not access the file system, which may be a share whose server is unreachable.
        numbers = [number for number, path in open_files_with_descriptors(pid) if _is_lock_of_store(path, store_name)]
    except OSError:
        return False
    lines = [line for number in numbers for line in split_lines(read_proc_file(pid, f"fdinfo/{number}"))]
    if any(line.startswith("lock:") and " WRITE " in line for line in lines):
        return True
    mounts = {line.split()[1] for line in lines if line.startswith("mnt_id:")}
    return None if any(_is_fuse(line) for line in _mount_lines(pid, mounts)) else False


def _is_lock_of_store(path: str, store_name: str) -> bool:
    """Return whether a path is that of the lock file of a store, or of a store in an mKahaDB, by the store's name."""
    directories, _separator, name = path.rpartition("/")
    if name != "lock":
        return False
    parent, _separator, directory = directories.rpartition("/")
    return directory == store_name or (
        os.path.basename(parent) == store_name and MKAHADB_STORE_NAME.fullmatch(directory) is not None
    )


def _mount_lines(pid: int, numbers: Collection[str]) -> list[str]:
    """Return the lines of a process's mountinfo for mounts with the given ids."""
    return [line for line in split_lines(read_proc_file(pid, "mountinfo")) if line.partition(" ")[0] in numbers]


def _is_fuse(mount: str) -> bool:
    return mount.partition(" - ")[2].startswith("fuse")


def _listening_sockets(pid: int) -> Iterator[tuple[int, str, int]]:
    """Yield the uid, address and port of every listening socket in the network namespace of a process.

    The address has the form of /proc/net/tcp.
    """
    for words in proc_net_tcp_rows(pid):
        if words[3] == LISTENING:
            host, _separator, port = words[1].partition(":")
            yield int(words[7]), host, int(port, 16)


@dataclass(frozen=True)
class ListeningSocket:
    """A listening TCP socket of this machine: address, port, owner's uid and inode."""

    address: str
    port: int
    uid: int
    inode: str


def all_listening_tcp_sockets() -> list[ListeningSocket]:
    """Return all listening TCP sockets of this machine."""
    sockets = []
    for words in proc_net_tcp_rows(os.getpid()):
        if words[3] == LISTENING:
            host, _separator, port = words[1].partition(":")
            sockets.append(ListeningSocket(kernel_ip_address_to_text(host), int(port, 16), int(words[7]), words[9]))
    return sockets


def sockets_that_block(address: str, port: int, listening: Iterable[ListeningSocket]) -> list[ListeningSocket]:
    """Return the listening sockets that block a TCP port at an address, so that no program can listen there.

    A socket at another address of the machine keeps no program from its port, unless one of both listens on all
    addresses. A name that this machine cannot resolve counts as all addresses.
    """
    required_addresses = _resolve_addresses(address)
    sockets = []
    for used in listening:
        if used.port != port:
            continue
        used_address = ipaddress.ip_address(used.address)
        if (
            used_address.is_unspecified
            or used_address in required_addresses
            or any(required.is_unspecified for required in required_addresses)
        ):
            sockets.append(used)
    return sockets


def _resolve_addresses(name: str) -> set[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    try:
        answers = socket.getaddrinfo(name.strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return {ipaddress.ip_address("0.0.0.0")}  # noqa: S104 -- nothing is bound
    return {ipaddress.ip_address(str(answer[4][0]).partition("%")[0]) for answer in answers}


def pids_by_socket_inode(inodes: Collection[str]) -> dict[str, list[int]]:
    """Return a dictionary from the inode of each given socket to a list of the pids that have the socket open.

    A socket that is open in no process that this process can see is missing.
    """
    inode_by_link = {f"socket:[{inode}]": inode for inode in inodes}
    holders: dict[str, list[int]] = {}
    for pid in process_ids() if inode_by_link else []:
        with contextlib.suppress(OSError):
            paths = [path for _number, path in open_files_with_descriptors(pid)]
            for inode in {inode_by_link[path] for path in paths if path in inode_by_link}:
                holders.setdefault(inode, []).append(pid)
    return holders


def has_connected_client_on(port: int) -> bool:
    """Return whether any client is connected to a TCP port of this machine."""
    return any(
        words[1].endswith(f":{port:04X}") and words[3] == _ESTABLISHED for words in proc_net_tcp_rows(os.getpid())
    )


def proc_net_tcp_rows(pid: int) -> Iterator[list[str]]:
    """Yield the rows of /proc/PID/net/tcp and tcp6, one per TCP socket, as lists of columns.

    Column 1 is the local address, 2 the remote address, 3 the state, 7 the uid, 9 the inode, 0 without a process.
    """
    for table in _TCP_TABLES:
        yield from map(str.split, split_lines(read_proc_file(pid, f"net/{table}"))[1:])


def kernel_ip_address_to_text(hexadecimal: str) -> str:
    """Convert an IP address (without port) from the hexadecimal form of /proc/net/tcp to its usual text.

    The hexadecimal words are little-endian. An IPv4 address in IPv6 form becomes an IPv4 address.
    """
    words = [hexadecimal[start : start + 8] for start in range(0, len(hexadecimal), 8)]
    data = b"".join(bytes.fromhex(word)[::-1] for word in words)
    address = ipaddress.ip_address(data)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def socket_accepts_connections_to(kernel_address: str, port: int, wanted_address: tuple[str, int]) -> bool:
    """Return whether a listening socket, by its own address and port, accepts connections to a wanted address.

    It has the same port, and the same or any IP address, if both are IPs. ``kernel_address`` is the socket's IP address
    as /proc/net/tcp has it. ``wanted_address`` is host and port.
    """
    if port != wanted_address[1]:
        return False
    host = kernel_ip_address_to_text(kernel_address)
    try:
        is_same = ipaddress.ip_address(wanted_address[0]) == ipaddress.ip_address(host)
    except ValueError:
        return True  # a name, which only the broker can resolve
    return is_same or ipaddress.ip_address(host).is_unspecified
