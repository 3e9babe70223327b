# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Queries the state of a host's agent over its socket, as ``activemq-agent status`` does."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping
from typing import Any

from ..config.versions import ConfigurationPaths
from ..foreign_data import parse_untrusted_json
from ..printable import escape_unprintable
from ..probe.certificates import first_expiring_certificate
from ..probe.deadline_socket import DeadlineSocket
from ..process.proc import properties_of_systemd_units
from .broker_status import deployed_file_hashes

_TIMEOUT = 5.0
_MAX_BYTES = 1 << 20
_STORE_COUNTS = ("outbox_rows", "outbox_bytes", "oldest_age", "inbox_rows", "quarantined", "expired")


def gather_agent_status(agent: Mapping[str, Any]) -> dict[str, Any]:
    """Gather the status of an agent on its host: whether it is running, and what it reports.

    ``state`` is running or stopped, or None if the answer is no status; ``how`` is the reason for it. ``agent``:
    ``config`` and ``state``, its directories, ``socket``, the path of its socket, None for agent.sock in ``state``,
    ``unit`` or None, and ``certificates`` and ``authorities``, paths of PEM files with its own certificates, and with
    those of the authorities that it trusts. ``store``: rows and bytes of the outbox, the age of its oldest event in
    seconds, and the rows of the inbox. ``publisher`` and ``subscriber``: the broker that each is connected to, or None.
    ``deployed`` is as for a broker.
    """
    home = ConfigurationPaths(f"{agent['config']}.d", agent["config"], "")
    evidence: dict[str, Any] = {
        "deployed": deployed_file_hashes(home),
        "certificates": [
            *(row for file in agent.get("certificates") or () for row in first_expiring_certificate(file)),
            *(
                row
                for file in agent.get("authorities") or ()
                for row in first_expiring_certificate(file, is_authority_bundle=True)
            ),
        ],
        "unit": next(
            iter(properties_of_systemd_units("Id,ActiveState,SubState,ActiveEnterTimestamp", [agent["unit"]])), None
        )
        if agent.get("unit")
        else None,
    }
    path = agent.get("socket") or os.path.join(agent["state"], "agent.sock")
    try:
        status = query_agent_status(path)
    except OSError as error:
        return {
            **evidence,
            "state": "stopped",
            "how": (f"the agent does not answer on its socket {path} ({error}): check systemctl status activemq-agent"),
        }
    except ValueError as error:
        return {
            **evidence,
            "state": None,
            "how": (
                f"the agent's answer on its socket {path} cannot be read ({error}): check journalctl -u activemq-agent"
            ),
        }
    if "error" in status:
        return {
            **evidence,
            "state": None,
            "how": (
                f"the agent runs, but answered the query of its status on its socket {path} with an error: "
                f"{escape_unprintable(str(status['error']))}"
            ),
        }
    invalid_parts = [
        part for part in ("store", "publisher", "subscriber") if not isinstance(status.get(part) or {}, dict)
    ]
    if invalid_parts:
        return {
            **evidence,
            "state": None,
            "how": (
                f"the agent sent a status that cannot be used, because its member {invalid_parts[0]} is not a JSON "
                "object: install the same version of the agent and the collection"
            ),
        }
    store = status.get("store") or {}
    return {
        **evidence,
        "state": "running",
        "how": "the agent answers over its socket",
        "uptime": status.get("uptime"),
        "version": status.get("version"),
        "damage": escape_unprintable(str(status["damage"])) if status.get("damage") else None,
        "store": {name: store.get(name) for name in _STORE_COUNTS},
        **{part: (status.get(part) or {}).get("broker") for part in ("publisher", "subscriber")},
    }


def query_agent_status(path: str) -> dict[str, Any]:
    """Query the status of a running agent over its socket.

    An agent that refuses the query answers with the member ``error`` instead. Raises OSError when the agent does not
    answer completely within 5 s, ValueError when the answer is no JSON object.
    """
    with socket.socket(socket.AF_UNIX) as plain:
        plain.settimeout(_TIMEOUT)
        plain.connect(path)
        with DeadlineSocket(plain, _TIMEOUT, _MAX_BYTES) as connection:
            # An agent with too many callers answers immediately, and does not read the request.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.send(b'{"op": "status"}\n')
            answer = connection.read_until_ending(b"\n")
    status = parse_untrusted_json(answer)
    if not isinstance(status, dict):
        raise ValueError(f"received {answer[:100]!r}")
    return status
