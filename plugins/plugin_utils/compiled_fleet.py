# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps the fleet that ``compile`` computed in one file on the controller, for the later steps of the playbook run.

Ansible runs every action in a separate process, so they share data only through a file. It is in the temporary
directory of the run (mode 0700), which ``ansible-playbook`` removes when it ends, also after a failure. A run that is
killed leaves the directory; the file contains no secrets, and no other run reads it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible_collections.activemq.fleet.plugins.plugin_utils.library import import_library_module


def _compiled_fleet_path() -> Path:
    return Path(constants.DEFAULT_LOCAL_TMP, "activemq-fleet.json")


def write_compiled_fleet_file(fleet: Any) -> None:
    """Write the fleet that a playbook run compiled from its inventory to a file, for later tasks of the run.

    It replaces an earlier one. It is a ``deployment.FleetFacts``; the file is readable for its owner only.
    """
    import_library_module("atomic_files").write_file_atomically(_compiled_fleet_path(), fleet.to_json().encode(), 0o600)


def read_compiled_fleet() -> Any:
    """Read the data of all brokers that an earlier task of this playbook run computed from the Ansible inventory.

    It is a ``deployment.FleetFacts``. Raises AnsibleActionFail if no task of the run has compiled the fleet.
    """
    try:
        text = _compiled_fleet_path().read_text(encoding="utf-8")
    except OSError:
        raise AnsibleActionFail(
            "this playbook run has not computed the configuration of the brokers. Run a task with the module "
            "activemq.fleet.compile before this task in the same playbook run"
        ) from None
    return import_library_module("deployment").FleetFacts.from_json(text)
