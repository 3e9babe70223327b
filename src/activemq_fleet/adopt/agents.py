"""Read agent.conf files that ``render`` wrote, below given directories, into the variables of their hosts."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from activemq_fleet.addresses import parse_host_port
from activemq_fleet.adopt.proposal import ProposedVariablesByHost, Variables, is_valid_value, parse_yaml_scalar
from activemq_fleet.adopt.untrusted_companion_files import CompanionFiles, find_files_by_name
from activemq_fleet.settings.agent import VARIABLES
from activemq_fleet.topology import Broker
from activemq_fleet.topology.brokers_by_address import BrokersByAddress

AGENT_CONF = "agent.conf"
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_USER = re.compile(r"^User=(\S+)$", re.MULTILINE)
_AGENT_HOME = re.compile(r"^ExecStart=(/\S*)/bin/activemq-agent ", re.MULTILINE)


@dataclass(frozen=True)
class AgentConfiguration:
    """The configuration of a failover agent: the entries of its agent.conf.

    It includes its systemd unit's text ("" without one).
    """

    host: str
    entries: Mapping[str, str]
    unit: str = ""
    files_read: tuple[str, ...] = ()
    """The paths of the files that were read."""


def find_agent_configurations(paths: Iterable[str]) -> list[AgentConfiguration]:
    """Return a list of the failover agents' configurations found below directories, sorted by host.

    The files are every ``hosts/HOST/agent.conf`` below each of ``paths`` that is a directory; other paths are ignored.
    Files that are links, are larger than 1 MiB, cannot be parsed or have no ``[agent]`` section are passed over.
    """
    agents_by_host = {}
    for root in (Path(argument) for argument in paths):
        for path in find_files_by_name(root, AGENT_CONF) if root.is_dir() else ():
            if len(path.parts) < 3 or path.parts[-3] != "hosts":
                continue
            companions = CompanionFiles(root)
            text = companions.read_text(path)
            parser = configparser.RawConfigParser(delimiters=("=",), strict=False)
            try:
                parser.read_string(text or "")
            except configparser.Error:
                continue
            unit_file = companions.read_text(path.parent / "systemd" / "activemq-agent.service") or ""
            if parser.has_section("agent"):
                read = tuple(map(str, companions.read))
                agents_by_host[path.parts[-2]] = AgentConfiguration(
                    path.parts[-2], dict(parser["agent"]), unit_file, read
                )
    return [agents_by_host[host] for host in sorted(agents_by_host)]


def propose_agents(proposal: ProposedVariablesByHost, files: Iterable[AgentConfiguration]) -> None:
    """Propose the inventory variables of agents, from their agent.conf files.

    Each agent whose first broker URL belongs to an adopted broker gets a group and pair.
    """
    fleet = proposal.build_proposed_fleet()
    brokers_by_address = BrokersByAddress(fleet.brokers)
    for file in files:
        home = _home_broker(file, brokers_by_address)
        if home is None or proposal.naming.identify_broker(file.host) or not _HOST.fullmatch(file.host):
            continue  # The broker of the agent is not in this fleet, or the host is that of a broker.
        variables = _agent_variables(file)
        if variables.get("agent_client_id") == file.host:
            del variables["agent_client_id"]
        name = file.entries.get("mb.username", "")
        variables["agent_password"] = proposal.secrets.secret_file_reference_for(
            name, "", f"password of the agent {name}"
        )
        if len(fleet.groups) > 1:
            variables["agent_group"] = home.group
        proposal.agents[file.host] = {name: value for name, value in variables.items() if is_valid_value(name, value)}
        homes = {agent.host: agent.pair for agent in proposal.build_proposed_fleet().agents}
        if file.host not in homes:
            del proposal.agents[file.host]
        elif homes[file.host] != home.pair:
            proposal.agents[file.host]["agent_pair"] = home.pair


def _agent_variables(file: AgentConfiguration) -> Variables:
    """Return the agent's variables that its agent.conf and systemd unit set, without the prefix ``activemq_``."""
    variables: Variables = {
        f"agent_{VARIABLES[key]}": text.split(",") if VARIABLES[key] == "topics" else parse_yaml_scalar(text)
        for key, text in file.entries.items()
        if key in VARIABLES
    }
    if "mb.password.file" in file.entries:
        variables["agent_config"] = str(Path(file.entries["mb.password.file"]).parent)
    for variable, pattern in (("agent_user", _USER), ("agent_home", _AGENT_HOME)):
        match = pattern.search(file.unit)
        if match:
            variables[variable] = match[1]
    return variables


def _home_broker(file: AgentConfiguration, brokers_by_address: BrokersByAddress) -> Broker | None:
    """Return the broker at the first address to which an agent connects, or None."""
    first = file.entries.get("mb.urls", "").partition(",")[0].strip().rpartition("//")[2]
    try:
        listener = brokers_by_address.listener_at(*parse_host_port(first))
    except ValueError:
        return None
    return listener.broker if listener else None
