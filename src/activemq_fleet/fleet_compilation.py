"""Compile the fleet of a playbook run: check the inventory, and return the facts and files that the run deploys.

The action plugin ``compile`` calls it once per play, on the controller.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import platform
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any

from activemq_fleet import artifacts, deployment, validation
from activemq_fleet.errors import FleetError, InputError, SettingsError
from activemq_fleet.inventory import InventoryData, fleet_from_inventory_data
from activemq_fleet.inventory_error_positions import error_with_positions, finding_lines_with_positions
from activemq_fleet.node.config.configuration_archive import ConfigurationFile, pack_configuration
from activemq_fleet.node.host_paths import ACTIVEMQ_XML
from activemq_fleet.schema import XmlDocument
from activemq_fleet.site_refusals import reports_site_playbook_refusal
from activemq_fleet.topology import Agent, Balancer, Broker, Fleet

FilesByKindAndHost = Mapping[tuple[str, str], Mapping[str, ConfigurationFile]]


@dataclass(frozen=True)
class CompiledFleet:
    """The fleet that the module ``compile`` computed from the inventory, for the steps of one playbook run.

    ``facts`` are those that later steps read, without secrets. ``returned`` is what the module returns. ``files`` are
    the files to deploy by path, with secrets, by kind (``broker``, ``agent`` or ``balancer``) and host; they are empty
    for a fleet that was not checked.
    """

    facts: deployment.FleetFacts
    returned: Mapping[str, Any]
    files: FilesByKindAndHost = field(default_factory=dict, repr=False)


def compile_fleet(
    data: InventoryData,
    expected_hosts: Iterable[str] | None,
    *,
    checked: bool = True,
    installs: bool = False,
    warn: Callable[[str], None],
) -> CompiledFleet:
    """Compile the fleet of an inventory, and return the facts and files of its hosts.

    ``expected_hosts`` are those with which the play was started, by default all hosts of the inventory. With
    ``checked`` every file is rendered and checked. With ``installs`` findings that would stop an installation are
    errors. ``warn`` is called with the texts of warnings. Raises FleetError with a line for each error that is not
    waived.
    """
    fleet = fleet_from_inventory_data(data)
    try:
        files = _files_by_kind_and_host(fleet) if checked else {}
        if checked:
            fleet = _checked_fleet(fleet, files, data, installs, warn)
        facts = _fleet_facts(fleet, files, data.hosts if expected_hosts is None else expected_hosts)
    except SettingsError as error:
        raise error_with_positions(error, data) from None
    returned: dict[str, Any] = {
        "brokers": {host: broker.as_dict() for host, broker in facts.brokers.items()},
        "agents": {
            agent.host: {**deployment.agent_facts(agent), "inventory_directory": data.directories[agent.host]}
            for agent in fleet.agents
        },
    }
    if checked:
        returned |= {
            "run": token_hex(8),
            "by": f"{_user_name()}@{platform.node()}",
            "expected": list(facts.expected),
            "balancers": {balancer.host: deployment.balancer_facts(balancer) for balancer in fleet.balancers},
            "plays": deployment.hosts_by_play_of_site_playbook(fleet),
            "waivers": [dict(waiver) for waiver in fleet.waivers],
            "findings": [finding.to_dict() for finding in fleet.findings],
        }
        if installs and any(broker.settings.metrics for broker in fleet.brokers):
            path = deployment.exporter_jar_path_on_controller(fleet)
            returned["exporter"] = str(artifacts.prometheus_jmx_exporter_jar(path))
    return CompiledFleet(facts, returned, files)


def _files_by_kind_and_host(fleet: Fleet) -> FilesByKindAndHost:
    nodes: list[tuple[str, Broker | Agent | Balancer]] = [("broker", broker) for broker in fleet.brokers]
    nodes += [("agent", agent) for agent in fleet.agents]
    nodes += [("balancer", balancer) for balancer in fleet.balancers]
    rendered = validation.map_hosts_and_join_errors([node for _, node in nodes], deployment.files_to_deploy)
    return {(kind, node.host): files for (kind, node), files in zip(nodes, rendered, strict=True)}


def _checked_fleet(
    fleet: Fleet, files: FilesByKindAndHost, data: InventoryData, installs: bool, warn: Callable[[str], None]
) -> Fleet:
    """Return a fleet with the findings about its rendered files; raise InputError for errors that are not waived."""
    documents = {
        broker.host: XmlDocument(files["broker", broker.host][ACTIVEMQ_XML].content) for broker in fleet.brokers
    }
    fleet = validation.fleet_with_check_findings(fleet, documents, artifacts.load_schema, for_site=True)
    refused = [finding for finding in fleet.findings if installs and reports_site_playbook_refusal(finding)]
    if fleet.blocking_findings or refused:
        raise InputError(*finding_lines_with_positions((*fleet.blocking_findings, *refused), data))
    reported = (finding for finding in fleet.findings if finding.severity != "info")
    for text in (*fleet.warnings, *finding_lines_with_positions(reported, data)):
        warn(text)
    return fleet


def _fleet_facts(fleet: Fleet, files: FilesByKindAndHost, expected: Iterable[str]) -> deployment.FleetFacts:
    contents = {host: by_path[ACTIVEMQ_XML].content for (kind, host), by_path in files.items() if kind == "broker"}
    return deployment.FleetFacts(
        brokers={broker.host: deployment.broker_facts(broker, contents.get(broker.host)) for broker in fleet.brokers},
        agents={agent.host: deployment.PairAndGroupNamesOfAgent(agent.pair, agent.group) for agent in fleet.agents},
        waivers=tuple(dict(waiver) for waiver in fleet.waivers),
        expected=tuple(map(str, expected)),
    )


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # The machine has no entry for the account.
        return str(os.getuid())


def write_archives(files: FilesByKindAndHost, parent: str) -> dict[str, Any]:
    """Write the files of each broker, agent and load balancer as a tar archive to a new directory below ``parent``.

    The directory has the mode 0700. There is one archive for each kind of component and host. Returns ``directory``,
    and ``archives``: host -> kind -> path and sha256.
    """
    directory = tempfile.mkdtemp(prefix="activemq-fleet-", dir=parent)
    archives: dict[str, dict[str, dict[str, str]]] = {}
    for (kind, host), files_of_host in files.items():
        packed = pack_configuration(files_of_host)
        sha256 = hashlib.sha256(packed).hexdigest()
        path = Path(directory, f"{sha256}.{kind}.tar")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as archive:
            archive.write(packed)
        archives.setdefault(host, {})[kind] = {"path": str(path), "sha256": sha256}
    return {"directory": directory, "archives": archives}


def error_list_text(error: FleetError) -> str:
    """Return the message of a playbook run that fails: a heading, and a line for each error of the fleet."""
    count = len(error.lines)
    heading = f"the fleet has {count} error{'s' if count > 1 else ''}, so no configuration was created:"
    return "\n".join([heading, *(f"  {line}" for line in error.lines)])
