# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Subscribes to queues without taking a message, so that bridges forward all messages of those queues.

A bridge forwards a queue only while its far side has a consumer. A conduit bridge asks for all
messages of that queue whatever the consumer's selector is (source: ConduitBridge, 5.3 to 5.7), so a selector
that nothing matches brings everything and takes nothing.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Iterable
from typing import Any

from ..install.configuration_archive import InstallError
from ..protocols import protocol_of
from .broker_configuration import read_deployed
from .probe import Login, connect, send_frame, stomp_login_headers
from .versions import Layout

_TIMEOUT = 30.0
_LONGEST = 64 << 10
"""Bytes that an answer may have at most."""
_NOTHING = "1 = 0"


def subscribe_to_queues(base: str, queues: Iterable[str], seconds: float) -> dict[str, Any]:
    """Subscribe to queues of the broker in directory ``base`` for some seconds, so that its bridges forward their
    messages.

    Returns the result of the module queue_demand. The selector takes no message.

    Raises InstallError when the broker has no STOMP connector or refuses.
    """
    layout = Layout(os.path.abspath(base))
    name = layout.current_name()
    if name is None:
        raise InstallError(f"{layout.current} is not there: no broker is configured")
    deployed = read_deployed(layout, name)
    listener = next((one for one in deployed.listeners if protocol_of(one.scheme) == "stomp"), None)
    if listener is None:
        raise InstallError("this broker has no STOMP connector: add one to activemq_connectors while you migrate")
    wanted = sorted(set(queues))
    try:
        with connect(listener.scheme, listener.address, _TIMEOUT) as connection:
            for number, queue in enumerate(wanted):
                _subscribe(connection, deployed.login if number == 0 else None, queue, number)
            _wait(connection, seconds)
    except OSError as error:
        raise InstallError(f"{listener.name} at {listener.address[0]}:{listener.address[1]}: {error}") from None
    return {"changed": False, "queues": wanted, "seconds": seconds}


def _subscribe(connection: socket.socket, login: Login | None, queue: str, number: int) -> None:
    if login is not None:
        send_frame(connection, "CONNECT", stomp_login_headers(login))
        _expect(connection, "CONNECTED")
    headers = {"destination": f"/queue/{queue}", "id": str(number), "ack": "client", "selector": _NOTHING}
    send_frame(connection, "SUBSCRIBE", {**headers, "receipt": str(number)})
    _expect(connection, "RECEIPT")


def _expect(connection: socket.socket, command: str) -> None:
    frame, end = b"", time.monotonic() + _TIMEOUT
    while not frame.endswith(b"\0"):
        if len(frame) > _LONGEST or time.monotonic() > end:
            raise InstallError(f"what the broker answers does not end within {_LONGEST >> 10} KiB and {_TIMEOUT:g} s")
        part = connection.recv(1)
        if not part:
            raise InstallError("the broker closed the connection")
        frame = (frame + part).lstrip(b"\n")
    text = frame.decode(errors="replace")
    if not text.startswith(command):
        said = next((line[8:] for line in text.splitlines() if line.startswith("message:")), text[:200])
        raise InstallError(f"the broker does not let the queues be wanted: {said}")


def _wait(connection: socket.socket, seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([connection], [], [], left)[0] and not connection.recv(4096):
            raise InstallError("the broker closed the connection")
