# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads which store the running broker of a host uses."""

from __future__ import annotations

import os
from typing import Any
from xml.etree.ElementTree import ParseError

from ..config.broker_configuration import read_deployed_broker_settings
from ..config.pending_restart import pending_restart_of_process
from ..config.versions import ConfigurationPaths
from ..errors import NodeError
from ..fence.shared_store import shared_store_directory
from ..process.proc import Process


def running_store_facts(base: str, process: Process | None, next_directory: str | None) -> dict[str, Any] | None:
    """Return facts about the store of the configuration that a host's running broker was started with.

    They are those of ``message_store_facts``, with the shared directory of a store with guards. A path that leads to
    ``next_directory``, the directory of the store in the inventory, is returned as ``next_directory``. Returns None
    without a process, and for a broker whose configuration is not known or cannot be read.
    """
    if process is None:
        return None
    layout = ConfigurationPaths(base)
    try:
        pending = pending_restart_of_process(layout, process)
        version = pending.previous if pending and pending.previous else layout.current_version_name()
        if version is None:
            return None
        deployed = read_deployed_broker_settings(layout, version)
    except (NodeError, OSError, ParseError):
        return None
    directory = shared_store_directory(deployed.store) if deployed.store else None
    if directory and next_directory and os.path.realpath(directory) == os.path.realpath(next_directory):
        directory = next_directory
    return {**deployed.persistence, "directory": directory}
