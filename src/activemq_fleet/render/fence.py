"""Render the files with which a guard calls ``activemq_fence_command``: the call itself, and its secrets."""

from __future__ import annotations

import json
import shlex

from activemq_fleet.render.broker_paths import FENCE_COMMAND, paths_of_broker
from activemq_fleet.render.secrets import SecretRenderer
from activemq_fleet.topology import Broker

SECRETS = "conf/fence-secrets.env"


def fence_command_files(broker: Broker, secrets: SecretRenderer) -> dict[str, bytes]:
    """Return the files of a broker's fence command (``activemq_fence_command``), by path.

    They are its call as JSON, and its secrets; empty for another fence. The secrets' file has a line NAME=VALUE for
    each of ``activemq_fence_command.secrets``, for a shell to read: a value with other characters than letters, digits
    and ``@%+=:,./-_`` is quoted, so that nothing in it is evaluated.
    """
    command = broker.settings.fence_command
    if command is None or not broker.calls_fence_command:
        return {}
    current = paths_of_broker(broker).current
    template_variables = {
        "argv": list(command.argv),
        "timeout": command.timeout,
        "environment": {
            "ACTIVEMQ_FENCE_HOST": broker.peer or "",
            "ACTIVEMQ_FENCE_PAIR": broker.pair,
            "ACTIVEMQ_FENCE_SECRETS": f"{current}/{SECRETS}",
        },
    }
    lines = [
        f"{name}={shlex.quote(secrets.secret_text(f'activemq_fence_command.secrets.{name}', value))}\n"
        for name, value in command.secrets.items()
    ]
    return {FENCE_COMMAND: (json.dumps(template_variables, indent=1) + "\n").encode(), SECRETS: "".join(lines).encode()}
