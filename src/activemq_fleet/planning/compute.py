"""Compute the dataset rows of one component with the functions that ``check`` and ``render`` use."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from activemq_fleet import __version__
from activemq_fleet.errors import FleetError, InputError
from activemq_fleet.findings import Finding, error_finding
from activemq_fleet.node.masking import mask_configuration_file_text
from activemq_fleet.planning.components import FleetDivision, RestOfFleetFacts
from activemq_fleet.planning.host_facts import release_of_variables
from activemq_fleet.planning.host_records import variables_from_json
from activemq_fleet.releases import Release
from activemq_fleet.render import activemq_xml_documents_of_rendered_files, render_hosts, render_java_client_files
from activemq_fleet.schema import CompiledActivemqXsd
from activemq_fleet.topology import AGENTS, BALANCERS, BROKERS, Broker, Fleet, WholeInventoryFacts, build_fleet
from activemq_fleet.topology.brokers import build_brokers_without_links_or_accounts
from activemq_fleet.topology.build import apply_waivers
from activemq_fleet.topology.hosts_by_role import classify_hosts_by_role, read_settings_by_host_and_broker_hosts
from activemq_fleet.validation import fleet_with_check_findings

DATASETS = ("brokers", "links", "findings", "files", "components")
_MAXIMUM_NAMES = 4
_NO_REST = RestOfFleetFacts()

Row = dict[str, Any]


class ConnectedComponentHost(NamedTuple):
    """A host in a connected component of the fleet, which is a set of hosts that must be planned together.

    It has its roles and its variables as JSON. ``text`` is None for a host without variables. ``agent_position`` and
    ``balancer_position`` are its positions in the inventory groups of agents and of load balancers. ``by_hand``: the
    host is in the group of brokers, but its name does not match.
    """

    host: str
    text: str | None
    agent_position: int
    balancer_position: int
    broker: bool
    agent: bool
    balancer: bool
    by_hand: bool


@dataclass(frozen=True)
class PlanContext:
    """The inputs of a fleet's plan that all components (hosts planned together) share, such as each release's XSD.

    ``division`` is that of the fleet, ``schemas`` the compressed XSD of each release. ``content``: whether rows of
    files have their content. ``largest``: the number of brokers above which a component is only listed. ``earlier``:
    fingerprints by component of an earlier output; equal ones are not computed again.
    """

    division: FleetDivision
    schemas: Mapping[str, bytes]
    content: bool = True
    largest: int = 5000
    earlier: Mapping[str, str] = field(default_factory=dict)

    def compiled_xml_schema(self, release: Release) -> CompiledActivemqXsd:
        """Return the compiled XML schema (XSD) of an ActiveMQ release.

        A broker of the fleet must have this release.
        """
        return _compiled_schema(self.schemas[release.text])


@dataclass
class ComponentPlanRows:
    """The planned brokers, links, findings and files of a fleet component (hosts planned together), as rows by dataset.

    ``unchanged``: there are no rows, because those of the earlier output apply. ``blocking`` is the number of errors
    without a waiver, ``withheld`` the number of brokers without files. ``error`` is the message of an error
    in the variables.
    """

    component: str
    rows: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in DATASETS})
    unchanged: bool = False
    blocking: int = 0
    withheld: int = 0
    error: str | None = None

    def add_finding_rows(self, findings: Iterable[Finding]) -> None:
        """Add a row for each finding about the component's hosts to the dataset ``findings`` of a fleet's plan.

        The order is kept, and blocking findings are counted. Blocking findings are errors without a waiver.
        """
        for finding in findings:
            self.rows["findings"].append(finding.to_dict())
            self.blocking += finding.blocks

    def add_broker_and_link_rows(self, brokers: Iterable[Broker]) -> None:
        """Add rows for brokers and their links to the datasets ``brokers`` and ``links`` of a fleet's plan.

        The columns are those of fleet.json.
        """
        for broker in brokers:
            row = broker.to_dict()
            self.rows["links"] += [{"host": broker.host, **link} for link in row.pop("links")]
            self.rows["brokers"].append(row)

    def add_file_rows(self, host: str | None, tree: Mapping[str, bytes], *, content: bool) -> None:
        """Add a row for each file that is rendered for a host to the dataset ``files`` of a fleet's plan.

        ``host`` is None for the files of a group's clients. Without ``content``, a row has the hash of the masked text,
        which ``drift`` compares with the collected file.
        """
        for path, data in tree.items():
            text = data.decode()
            masked_text = None if content else mask_configuration_file_text(path, text)
            self.rows["files"].append(
                {
                    "host": host,
                    "path": path,
                    "sha256": hashlib.sha256(data).hexdigest(),
                    "masked_sha256": None if masked_text is None else hashlib.sha256(masked_text.encode()).hexdigest(),
                    "content": text if content else None,
                }
            )


def plan_fleet_component(
    component: str, hosts: Sequence[ConnectedComponentHost], context: PlanContext
) -> ComponentPlanRows:
    """Plan a fleet component (hosts planned together), and return its brokers, links, findings and files as rows.

    For an error in its variables, the result contains the error. ``hosts`` are all hosts of the component, sorted by
    name.
    """
    computed = ComponentPlanRows(component)
    fingerprint = component_fingerprint(component, hosts, context)
    if context.earlier.get(component) == fingerprint:
        computed.unchanged = True
        return computed
    try:
        for host, next_host in pairwise(hosts):
            if host.host == next_host.host:
                raise InputError(f"{host.host}: --hosts lists this host twice: remove one of the entries")
        brokers = sum(host.broker for host in hosts)
        if brokers > context.largest:
            _list_brokers_only(hosts, brokers, context, computed)
        else:
            _compute_rows(component, hosts, context, computed)
    except FleetError as problem:
        computed.error = str(problem)
        return computed
    computed.rows["components"] = [
        {"host": host.host, "component": component, "fingerprint": fingerprint} for host in hosts
    ]
    return computed


def component_fingerprint(component: str, hosts: Iterable[ConnectedComponentHost], context: PlanContext) -> str:
    """Return a hash of the input of a fleet component's plan, by which a later run detects an unchanged input.

    A component is a set of hosts that are planned together. The hash covers variables, links, waivers and the version
    of the package.
    """
    digest, division = hashlib.sha256(), context.division
    releases, requires_group_names = set(), False
    for host in hosts:
        digest.update(json.dumps(host).encode())
        requires_group_names |= host.agent or host.balancer
        if host.broker and host.text is not None and (release := release_of_variables(host.text)):
            releases.add(release.text)
    rest = division.rest_by_component.get(component, _NO_REST)
    schemas = [hashlib.sha256(context.schemas[release]).hexdigest() for release in sorted(releases)]
    waivers = [waiver.model_dump_json() for waiver in division.waivers]
    links = [(link.model_dump_json(), host, position) for link, host, position in rest.links]
    findings = [finding.to_dict() for finding in rest.findings]
    groups = division.known_groups if requires_group_names else None
    settings = [__version__, division.pattern, groups, context.content, context.largest]
    inputs = [settings, schemas, waivers, links, sorted(rest.stores.items()), findings]
    digest.update(json.dumps(inputs).encode())
    return digest.hexdigest()[:32]


def _compute_rows(
    component: str, hosts: Sequence[ConnectedComponentHost], context: PlanContext, computed: ComponentPlanRows
) -> None:
    fleet = _build_component_fleet(component, hosts, context.division)
    trees = render_hosts(fleet)
    fleet = fleet_with_check_findings(
        fleet, activemq_xml_documents_of_rendered_files(fleet, trees), context.compiled_xml_schema
    )
    computed.add_broker_and_link_rows(fleet.brokers)
    computed.add_finding_rows(fleet.findings)
    if computed.blocking:
        computed.withheld = len(fleet.brokers)
        return
    computed.add_file_rows(None, render_java_client_files(fleet), content=context.content)
    for host, tree in sorted(trees.items()):
        computed.add_file_rows(host, tree, content=context.content)


def _build_component_fleet(component: str, hosts: Sequence[ConnectedComponentHost], division: FleetDivision) -> Fleet:
    rest = division.rest_by_component.get(component, _NO_REST)
    agents = sorted((host.agent_position, host.host) for host in hosts if host.agent)
    balancers = sorted((host.balancer_position, host.host) for host in hosts if host.balancer)
    # Hosts with equal variables share one mapping, because it is then parsed only once.
    variables = {text: variables_from_json(text or "{}") for text in {host.text for host in hosts}}
    return build_fleet(
        {host.host: variables[host.text] for host in hosts},
        {
            AGENTS: [name for _, name in agents],
            BALANCERS: [name for _, name in balancers],
            BROKERS: [host.host for host in hosts if host.by_hand],
        },
        naming_pattern=division.pattern,
        rest=WholeInventoryFacts(
            groups=division.known_groups,
            links=tuple(rest.links),
            waivers=division.waivers,
            stores=rest.stores,
            findings=tuple(rest.findings),
        ),
    )


def _list_brokers_only(
    hosts: Sequence[ConnectedComponentHost], brokers: int, context: PlanContext, computed: ComponentPlanRows
) -> None:
    """Add only the brokers of a component that is too large for one task, and the finding T028, to the rows."""
    variables = {host.host: variables_from_json(host.text or "{}") for host in hosts if host.broker}
    hosts_by_role, _ = classify_hosts_by_role(variables, {}, context.division.pattern)
    _, members = read_settings_by_host_and_broker_hosts(variables, hosts_by_role)
    listed_brokers, findings = build_brokers_without_links_or_accounts(members)
    computed.add_broker_and_link_rows(listed_brokers)
    computed.add_finding_rows(apply_waivers(findings, context.division.waivers))
    groups = list(dict.fromkeys(broker.group for broker in listed_brokers))
    finding = _component_too_large_finding(hosts[0].host, groups, brokers, context.largest)
    computed.add_finding_rows(apply_waivers([finding], context.division.waivers))
    computed.withheld = brokers


def _component_too_large_finding(host: str, groups: Sequence[str], brokers: int, largest: int) -> Finding:
    more = f" and {len(groups) - _MAXIMUM_NAMES} more" if len(groups) > _MAXIMUM_NAMES else ""
    names = ", ".join(groups[:_MAXIMUM_NAMES])
    network = f"group {names} has" if len(groups) == 1 else f"groups {names}{more} are one network of"
    return error_finding(
        "T028",
        host,
        f"{network} {brokers} brokers, but the command plan accepts at most {largest} connected brokers "
        "(option --largest). The plan therefore lacks the links, routes and files of these brokers",
        f"if all these brokers must be connected, set --largest to {brokers}, and give each Spark worker more memory. "
        "Otherwise remove links between these brokers from activemq_links. If several hosts have the same "
        "activemq_address by mistake, give each host its own address",
        why="routes can be computed only if all connected brokers are planned together",
    )


@lru_cache(maxsize=256)
def _compiled_schema(xsd: bytes) -> CompiledActivemqXsd:
    return CompiledActivemqXsd(zlib.decompress(xsd))
