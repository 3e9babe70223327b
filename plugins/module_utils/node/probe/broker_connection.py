# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Connects to a broker's connector, and decides which login may be sent over the connection.

Invariant: a login goes to a listener on this machine only after the kernel has shown that the listener belongs to the
broker's account, and to another host over TLS only after the certificate was verified. To another host without TLS only
the account of probes is sent.
"""

from __future__ import annotations

import errno
import socket
import ssl
import time
from dataclasses import dataclass

from ..config.probe_account import Login
from ..process.peer_account import is_local_address, local_peer_uid
from ..process.proc import Process, find_broker_process, uid_of_broker_data_owner, uid_of_process
from ..protocols import is_encrypted
from .deadline_socket import DeadlineSocket


class ListenerOfOtherAccountError(OSError):
    """An error for a broker's port on which a process of another account than the broker's listens.

    No login was sent to it.
    """


@dataclass(frozen=True)
class ExpectedBroker:
    """The description of the broker expected at the other end of a connection, to verify it before a login is sent.

    ``account``: the uid that must own a listener on this machine; None where the broker's account is unknown. ``pid``:
    the broker's process, in whose network namespace the listener must be. ``is_local``: the broker runs on this
    machine; an address of another host is refused. ``ca_file``: certificates that a broker of another host must be
    verified with, in PEM; by default those of the system.
    """

    account: int | None = None
    pid: int | None = None
    is_local: bool = False
    ca_file: str | None = None


NO_ACCOUNT = -1
"""An account that owns nothing: no listener is accepted."""


def expected_broker_of_process(process: Process) -> ExpectedBroker:
    """Return the description of the broker that runs as a process on this machine, to verify a connection to it."""
    account = uid_of_process(process.pid)
    return ExpectedBroker(NO_ACCOUNT if account is None else account, process.pid, is_local=True)


def expected_broker_of_directory(base: str) -> ExpectedBroker:
    """Return the description of the broker installed in a directory, against which a connection to it is verified."""
    process = find_broker_process(base)
    if process is not None:
        return expected_broker_of_process(process)
    account = uid_of_broker_data_owner(base)
    return ExpectedBroker(NO_ACCOUNT if account is None else account, is_local=True)


class BrokerConnection:
    """A connection to a broker's connector.

    It shows whether the other end is verified. ``exchange`` sends and reads. ``is_verified``: the listener belongs to
    the broker's account, or the certificate was verified. ``is_local``: the listener is on this machine.
    """

    def __init__(self, connection: socket.socket, exchange: DeadlineSocket, is_verified: bool, is_local: bool) -> None:
        self.exchange = exchange
        self.is_verified = is_verified
        self._is_local = is_local
        self._connection = connection

    @property
    def is_encrypted(self) -> bool:
        """Whether this connection to a broker's connector uses TLS."""
        return isinstance(self._connection, ssl.SSLSocket)

    def peer_certificate(self) -> bytes:
        """Return the certificate of the other end of the connection, in DER; empty without TLS."""
        certificate = self._connection.getpeercert(True) if isinstance(self._connection, ssl.SSLSocket) else None
        return certificate or b""

    def credentials_if_broker_verified(self, login: Login) -> Login:
        """Return the login if the broker at the other end of the connection is verified, else an empty login.

        The login of probes is also returned for a connection to another host without TLS.
        """
        is_plain_remote = not self._is_local and not self.is_encrypted
        is_permitted = self.is_verified or (login.is_probe_account and is_plain_remote)
        return login if is_permitted else Login()


def connect_to_broker(
    scheme: str, address: tuple[str, int], timeout: float, limit: int, expected: ExpectedBroker
) -> BrokerConnection:
    """Connect to a broker's connector, and return the connection.

    It is over TLS where the scheme has it. ``timeout`` and ``limit`` are those of the whole exchange: seconds, and
    bytes that the broker may send. Raises OSError; ListenerOfOtherAccountError when another account than the broker's
    listens there.
    """
    deadline = time.monotonic() + timeout
    plain, is_local = _open_socket(address, deadline, expected)
    is_verified = is_local and expected.account is not None
    try:
        connection = plain
        if is_encrypted(scheme):
            context = _unverifying_context() if is_local else ssl.create_default_context(cafile=expected.ca_file)
            try:
                connection = context.wrap_socket(plain, server_hostname=address[0])
                is_verified = is_verified or not is_local
            except ssl.SSLCertVerificationError:
                plain.close()
                plain, _unused = _open_socket(address, deadline, expected)
                connection = _unverifying_context().wrap_socket(plain)
        exchange = DeadlineSocket(connection, _remaining_seconds(deadline), limit)
    except BaseException:
        plain.close()
        raise
    return BrokerConnection(connection, exchange, is_verified, is_local)


def _open_socket(address: tuple[str, int], deadline: float, expected: ExpectedBroker) -> tuple[socket.socket, bool]:
    """Return a connected socket and whether the listener, whose owner was checked, is on this machine."""
    connection = socket.create_connection(address, _remaining_seconds(deadline))
    try:
        is_local = expected.is_local or is_local_address(connection.getpeername()[0])
        if is_local and expected.account is not None:
            _require_owner(connection, expected.account, _remaining_seconds(deadline), expected.pid)
        connection.settimeout(_remaining_seconds(deadline))
    except BaseException:
        connection.close()
        raise
    return connection, is_local


def require_owner_of_local_listener(connection: socket.socket, account: int, timeout: float) -> None:
    """Check that the process which accepted a local connection runs as the account with the uid ``account``.

    Raises ListenerOfOtherAccountError if it does not. A listener on another host is not checked. ``timeout`` is in
    seconds.
    """
    if is_local_address(connection.getpeername()[0]):
        _require_owner(connection, account, timeout, None)


def _require_owner(connection: socket.socket, expected: int, timeout: float, pid: int | None) -> None:
    account = local_peer_uid(connection, expected, timeout, pid)
    if account == expected:
        return
    listener_owner = "a process of an unknown account"
    if account is not None:
        listener_owner = f"a process of the account with uid {account}"
    host, port = connection.getpeername()[:2]
    text = (
        f"{listener_owner} answers at {host}:{port}, but the broker's account has uid {expected}, so no login was "
        "sent: stop the process that listens on this port"
    )
    raise ListenerOfOtherAccountError(errno.EPERM, text)


def _remaining_seconds(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError(
            "no connection to the broker was established within the time limit: check the broker's process and "
            "activemq.log"
        )
    return seconds


def _unverifying_context() -> ssl.SSLContext:
    """Return a TLS context for a listener whose owner the kernel shows, or to which no login is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
