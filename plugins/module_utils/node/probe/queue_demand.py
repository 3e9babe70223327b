# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Subscribes to queues without taking a message, so that bridges forward all messages of those queues.

A bridge forwards a queue only while the remote broker has a consumer. A conduit bridge subscribes to all messages of
that queue, whatever the consumer's selector is (source: ConduitBridge, 5.3 to 5.7). So a selector that matches no
message makes the bridge forward all messages, and consumes none.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ..config.broker_configuration import read_deployed_broker_settings
from ..config.versions import ConfigurationPaths
from ..errors import NodeError
from ..protocols import protocol_name_of_scheme
from .broker_connection import connect_to_broker, expected_broker_of_directory
from .stomp_client import StompClient, StompFrame, connect_headers

_TIMEOUT = 30.0
_MAX_BYTES = 1 << 20
"""Maximum bytes that the broker may send."""
_SELECT_NOTHING = "1 = 0"


def subscribe_to_queues(base: str, queues: Iterable[str], seconds: float) -> dict[str, Any]:
    """Subscribe to queues of a broker for some seconds, so that bridges move the queues' messages to this broker.

    The subscriptions consume no messages. ``base`` is the broker's directory. Returns the result of the
    module queue_demand.

    Raises NodeError if the broker has no STOMP connector or rejects the subscription.
    """
    layout = ConfigurationPaths(os.path.abspath(base))
    name = layout.current_version_name()
    if name is None:
        raise NodeError(f"{layout.current} does not exist, so no broker is configured: run the playbook site first")
    deployed = read_deployed_broker_settings(layout, name)
    listener = next(
        (candidate for candidate in deployed.listeners if protocol_name_of_scheme(candidate.scheme) == "stomp"), None
    )
    if listener is None:
        raise NodeError("the migration requires a STOMP connector on this broker: add one to activemq_connectors")
    subscribed = sorted(set(queues))
    try:
        expected = expected_broker_of_directory(layout.base)
        connection = connect_to_broker(listener.scheme, listener.address, _TIMEOUT, _MAX_BYTES, expected)
        with connection.exchange as exchange:
            client = StompClient(exchange)
            client.send_frame("CONNECT", connect_headers(connection.credentials_if_broker_verified(deployed.login)))
            _check_command(client.read_frame(), "CONNECTED")
            for number, queue in enumerate(subscribed):
                headers = {
                    "destination": f"/queue/{queue}",
                    "id": str(number),
                    "ack": "client",
                    "selector": _SELECT_NOTHING,
                }
                client.send_frame("SUBSCRIBE", {**headers, "receipt": str(number)})
                _check_command(client.read_frame(), "RECEIPT")
            exchange.sleep_or_raise_if_peer_closes(seconds)
    except (OSError, ValueError) as error:
        raise NodeError(
            f"the migration cannot use the connector {listener.name} at "
            f"{listener.address[0]}:{listener.address[1]} of this broker ({error}). Check the broker with "
            "activemq-fleet status"
        ) from None
    return {"changed": False, "queues": subscribed, "seconds": seconds}


def _check_command(frame: StompFrame, command: str) -> None:
    if frame.command != command:
        reason = frame.error_reason or "no reason given"
        if frame.command != "ERROR":
            reason = frame.command[:200]
        raise NodeError(
            f"the broker rejects the login or the subscriptions of the migration ({reason}). If it rejects the login, "
            "correct activemq_network_username and activemq_network_password. Otherwise give the account of "
            "activemq_network_username, in activemq_acl, the permission to read the queues that are migrated"
        )
