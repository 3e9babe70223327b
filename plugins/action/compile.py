# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.compile``: compiles and checks the configuration of the whole fleet, once, on the controller."""

from __future__ import annotations

import getpass
import hashlib
import os
import platform
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import Any

from ansible import constants
from ansible.errors import AnsibleActionFail, AnsibleError
from ansible_collections.activemq.fleet.plugins.modules.compile import DOCUMENTATION
from ansible_collections.activemq.fleet.plugins.plugin_utils.compiled_fleet import write_compiled_fleet
from ansible_collections.activemq.fleet.plugins.plugin_utils.documented_options import argument_spec
from ansible_collections.activemq.fleet.plugins.plugin_utils.fleet_action import FleetAction
from ansible_collections.activemq.fleet.plugins.plugin_utils.library import (
    import_from_public_api,
    import_host_module,
    import_library_module,
)

File = import_host_module("config.configuration_archive").ConfigurationFile
ACTIVEMQ_XML = import_host_module("host_paths").ACTIVEMQ_XML
pack = import_host_module("config.configuration_archive").pack_configuration

# Ansible forks its workers from this process, which imports the library once. See the comment in ``decide``.
with suppress(AnsibleError):
    import_library_module("operations")


class ActionModule(FleetAction):
    """The Ansible action plugin ``compile``, which renders the configuration of every host of the inventory.

    It runs once per play.
    """

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        arguments = self.validate_argument_spec(argument_spec(DOCUMENTATION))[1]
        self._check_variables(task_vars or {})
        try:
            return self._compile(task_vars or {}, **arguments)
        except import_from_public_api("FleetError") as error:
            raise AnsibleActionFail(_error_list_text(error.lines)) from None

    def _compile(self, task_vars: dict[str, Any], archives: bool, checked: bool, installs: bool) -> dict[str, Any]:
        data = import_library_module("inventory").inventory_data_of_play(
            task_vars["hostvars"], task_vars["groups"], self._loader
        )
        fleet = import_library_module("inventory").fleet_from_inventory_data(data)
        try:
            return self._compile_fleet(fleet, data, task_vars, archives, checked, installs)
        except import_from_public_api("SettingsError") as error:
            raise import_library_module("inventory_error_positions").error_with_positions(error, data) from None

    def _compile_fleet(
        self, fleet: Any, data: Any, task_vars: dict[str, Any], archives: bool, checked: bool, installs: bool
    ) -> dict[str, Any]:
        deployment = import_library_module("deployment")
        agent_facts = {
            agent.host: {**deployment.agent_facts(agent), "inventory_directory": data.directories[agent.host]}
            for agent in fleet.agents
        }
        expected = [str(host) for host in task_vars.get("ansible_play_hosts_all", data.hosts)]
        if not checked:
            brokers = {broker.host: deployment.broker_facts(broker) for broker in fleet.brokers}
            write_compiled_fleet(_compiled_facts(fleet, brokers, expected))
            return {
                "changed": False,
                "brokers": {host: broker.as_dict() for host, broker in brokers.items()},
                "agents": agent_facts,
            }
        validation = import_library_module("validation")
        kinds = {"broker": fleet.brokers, "agent": fleet.agents, "balancer": fleet.balancers}
        nodes = [(kind, node) for kind, of_kind in kinds.items() for node in of_kind]
        rendered = validation.map_hosts_and_join_errors([node for _unused, node in nodes], deployment.files_to_deploy)
        files = {(kind, node.host): files for (kind, node), files in zip(nodes, rendered, strict=True)}
        documents = {
            broker.host: import_library_module("schema").XmlDocument(files["broker", broker.host][ACTIVEMQ_XML].content)
            for broker in fleet.brokers
        }
        load_schema = import_library_module("artifacts").load_schema
        fleet = validation.fleet_with_check_findings(fleet, documents, load_schema, for_site=True)
        lines_of = import_library_module("inventory_error_positions").finding_lines_with_positions
        is_refused = import_library_module("site_refusals").reports_site_playbook_refusal
        refused = [finding for finding in fleet.findings if installs and is_refused(finding)]
        if fleet.blocking_findings or refused:
            raise AnsibleActionFail(_error_list_text(lines_of((*fleet.blocking_findings, *refused), data)))
        lines = lines_of((finding for finding in fleet.findings if finding.severity != "info"), data)
        for text in (*fleet.warnings, *lines):
            self._display.warning(text)
        facts = {
            broker.host: deployment.broker_facts(broker, documents[broker.host].content) for broker in fleet.brokers
        }
        write_compiled_fleet(_compiled_facts(fleet, facts, expected))
        result: dict[str, Any] = {
            "changed": False,
            "run": token_hex(8),
            "by": f"{_user_name()}@{platform.node()}",
            "expected": expected,
            "brokers": {host: broker.as_dict() for host, broker in facts.items()},
            "agents": agent_facts,
            "balancers": {balancer.host: deployment.balancer_facts(balancer) for balancer in fleet.balancers},
            "plays": deployment.hosts_by_play(fleet),
            "waivers": [dict(waiver) for waiver in fleet.waivers],
            "findings": [finding.to_dict() for finding in fleet.findings],
        }
        if installs and any(broker.settings.metrics for broker in fleet.brokers):
            result["exporter"] = str(
                import_library_module("artifacts").prometheus_jmx_exporter_jar(
                    deployment.exporter_jar_path_on_controller(fleet)
                )
            )
        if archives:
            result |= _write_archives(files)
        return result


def _compiled_facts(fleet: Any, brokers: Mapping[str, Any], expected: Sequence[str]) -> Any:
    """Return the facts about the fleet's brokers and agents that later steps of the playbook run need."""
    deployment = import_library_module("deployment")
    return deployment.FleetFacts(
        brokers=brokers,
        agents={agent.host: deployment.PairAndGroupNamesOfAgent(agent.pair, agent.group) for agent in fleet.agents},
        waivers=tuple(dict(waiver) for waiver in fleet.waivers),
        expected=tuple(expected),
    )


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # The machine has no entry for the account.
        return str(os.getuid())


def _write_archives(files: Mapping[tuple[str, str], Mapping[str, Any]]) -> dict[str, Any]:
    """Write one archive per kind and host (the keys of ``files``) into a directory that ansible-playbook removes.

    Returns ``directory``, and ``archives``: host -> kind -> path and sha256.
    """
    directory = tempfile.mkdtemp(prefix="activemq-fleet-", dir=constants.DEFAULT_LOCAL_TMP)
    archives: dict[str, dict[str, dict[str, str]]] = {}
    for (kind, host), files_of_host in files.items():
        packed = pack(
            {path: File(file.content, file.mode, file.masked, file.hidden) for path, file in files_of_host.items()}
        )
        sha256 = hashlib.sha256(packed).hexdigest()
        path = os.path.join(directory, f"{sha256}.{kind}.tar")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as archive:
            archive.write(packed)
        archives.setdefault(host, {})[kind] = {"path": path, "sha256": sha256}
    return {"directory": directory, "archives": archives}


def _error_list_text(lines: Any) -> str:
    lines = [str(line) for line in lines]
    heading = f"the fleet has {len(lines)} error{'s' if len(lines) > 1 else ''}, so no configuration was created:"
    return "\n".join([heading, *(f"  {line}" for line in lines)])
