"""Run all steps of an adoption in their order."""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from lxml import etree

from activemq_fleet.adopt import companion_file_variables
from activemq_fleet.adopt.accounts_and_permissions import authentication_user_elements, propose_acl, propose_users
from activemq_fleet.adopt.agents import AgentConfiguration, find_agent_configurations, propose_agents
from activemq_fleet.adopt.authentication import (
    note_inexpressible_authentication,
    propose_authentication,
    propose_custom_for_inexpressible_accounts,
)
from activemq_fleet.adopt.broker_variables import (
    DEFAULT_HEAP,
    propose_limits_console_and_connectors,
)
from activemq_fleet.adopt.compared_element import ComparedElement, compared_element_from_lxml
from activemq_fleet.adopt.element_variables import (
    propose_policy_store_and_plugin_variables,
    remove_defaults_from_destination_policies,
)
from activemq_fleet.adopt.host_addresses import (
    propose_addresses_used_by_other_brokers,
    propose_preferred_master_per_pair,
)
from activemq_fleet.adopt.inventory_writer import inventory_files, labels_of_referenced_secrets
from activemq_fleet.adopt.leftovers import propose_attributes_and_fragments
from activemq_fleet.adopt.network_variables import propose_network
from activemq_fleet.adopt.placeholders import PLACEHOLDER
from activemq_fleet.adopt.profiles import propose_ha_profiles, propose_store_directories_below_base
from activemq_fleet.adopt.proposal import ProposedVariablesByHost, is_default_value
from activemq_fleet.adopt.secrets import (
    replace_secret_references_with_placeholders,
    with_masked_passwords,
    with_secret_references,
)
from activemq_fleet.adopt.sources import AdoptedDocument, parse_addresses_by_host, read_adopted_documents
from activemq_fleet.adopt.waivers import FindingsOf, add_note_on_remaining_warnings, propose_waivers_for_original_files
from activemq_fleet.adopt.xml_diff import XmlDifference, document_differences
from activemq_fleet.errors import ArtifactError, SchemaUnavailableError
from activemq_fleet.findings import Finding
from activemq_fleet.lint import fleet_findings
from activemq_fleet.naming import DEFAULT_PATTERN, Naming
from activemq_fleet.render.activemq_xml import render_activemq_xml_bytes
from activemq_fleet.render.credentials import credentials_file_content
from activemq_fleet.render.secrets import SecretRenderer as Shown
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import Broker, Fleet
from activemq_fleet.validation import SchemaSource, fleet_with_check_findings, schema_from_cache_or_maven

_JVM_PROPERTIES = frozenset(
    {"activemq.base", "activemq.home", "activemq.conf", "activemq.data", "java.io.tmpdir", "user.home"}
)
_CONSOLE_PORT = 8161
_logger = logging.getLogger("activemq_fleet.adopt")
_CAMEL_NAMESPACE_PREFIX = "{http://camel.apache.org/schema/"


@dataclass(frozen=True)
class AdoptedInventory:
    """An inventory that was made from existing activemq.xml files.

    It has notes for the operator. ``files`` are the inventory's files by path, ``differences`` the deviations of the
    rendered documents from the originals, ``notes`` remarks for the operator. ``secrets`` maps each file below
    ``.secrets`` of the inventory to a description of its password. ``files_read`` are the paths of all files that were
    read, by host. ``services`` are the names of the services in the unit files that were read.
    """

    files: dict[str, bytes]
    fleet: Fleet
    differences: tuple[XmlDifference, ...]
    notes: tuple[str, ...]
    secrets: dict[str, str]
    files_read: dict[str, tuple[str, ...]]
    services: tuple[str, ...] = ()


def adopt_files(
    files: Sequence[str | os.PathLike[str]],
    *,
    releases: Sequence[str] = (),
    addresses: Sequence[str] = (),
    properties: Sequence[str] = (),
    shared_stores: Collection[str] = (),
    naming_pattern: str = DEFAULT_PATTERN,
    naming_parity: str | None = None,
    node: str | None = None,
    schema_of: SchemaSource | None = schema_from_cache_or_maven,
    warn: Callable[[str], None] = _logger.warning,
) -> AdoptedInventory:
    """Adopt existing activemq.xml files: return an inventory that renders them again.

    A list of what it cannot express is included. ``files`` are paths of files whose path holds the host's name,
    directories (each activemq.xml below them) or texts ``HOST=FILE``. ``releases`` are ``X`` for all hosts or
    ``HOST=X``; files that ``render`` wrote name their release. ``addresses`` are ``HOST=ADDRESS`` where peers dial a
    host by another name, ``properties`` files with values of placeholders, ``FILE`` or ``HOST=FILE``, and
    ``shared_stores`` names of pairs whose nodes share their store. ``naming_pattern``, ``naming_parity`` and ``node``
    are ``activemq_naming_pattern``, ``activemq_naming_parity`` and ``activemq_node``. ``schema_of`` is that of
    ``check_fleet``. ``warn`` gets each warning as one line; by default it goes to the logger ``activemq_fleet.adopt``.
    No file is written, and passwords are not copied.

    Raises InputError or ReleaseError, which name file or host, for files that cannot be adopted.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from activemq_fleet import adopt_files, build_fleet, render_fleet
    >>> variables = {"activemq_release": "5.18.3", "activemq_ha": "none", "activemq_port_offset": 10}
    >>> files = render_fleet(build_fleet({"orders-mq01-a": variables}))
    >>> with TemporaryDirectory() as directory:
    ...     file = Path(directory, "orders-mq01-a.xml")
    ...     _ = file.write_bytes(files["hosts/orders-mq01-a/conf/activemq.xml"])
    ...     adoption = adopt_files([file], schema_of=None)
    >>> adoption.fleet.broker("orders-mq01-a").ports["openwire"]
    61626
    >>> sorted(adoption.files)
    ['.gitignore', 'group_vars/all.yml', 'hosts.yml', 'zz.activemq.yml']
    """
    names = [os.fspath(file) for file in files]
    naming = Naming(naming_pattern, parity=naming_parity, stated={"node": node} if node else {})
    documents = read_adopted_documents(names, releases, naming, properties)
    for warning in dict.fromkeys(text for document in documents for text in document.release.warnings):
        warn(warning)

    unavailable: set[str] = set()

    def findings_of(fleet: Fleet, rendered: Mapping[str, XmlDocument]) -> Iterable[Finding]:
        try:
            return fleet_with_check_findings(fleet, rendered, schema_of).findings
        except (SchemaUnavailableError, ArtifactError) as error:
            if str(error) not in unavailable:
                warn(
                    "adopt did not validate the rendered files against the XML schema of ActiveMQ, so errors in them "
                    f"may be unreported. Run `activemq-fleet schema fetch`, and adopt again. Cause: {error}"
                )
            unavailable.add(str(error))
            return (*fleet.findings, *fleet_findings(fleet, rendered))

    agents, known_addresses = find_agent_configurations(names), parse_addresses_by_host(addresses, documents)
    return adopt_documents(documents, naming, findings_of, agents, known_addresses, shared_stores)


def adopt_documents(
    documents: Sequence[AdoptedDocument],
    naming: Naming,
    findings: FindingsOf = lambda fleet, _documents: fleet.findings,
    agents: Sequence[AgentConfiguration] = (),
    addresses: Mapping[str, str] = MappingProxyType({}),
    shared: Collection[str] = (),
) -> AdoptedInventory:
    """Adopt existing activemq.xml documents: return an inventory that renders them again.

    It includes the agents of given agent.conf files. ``addresses`` maps hosts to the addresses that others connect to,
    for hosts whose address is in no file. ``shared`` names pairs whose nodes share a KahaDB store although no file
    shows it. ``findings`` returns a fleet's findings with the given documents. Errors that the originals have too are
    waived in the inventory with a note, because a configuration in force cannot be refused. An error with which no
    broker starts remains an error, with a note. What would cause any other error is left out, with a note; raises
    InputError where that is not possible.
    """
    proposal = ProposedVariablesByHost.from_documents(documents, naming)
    for document in proposal.documents:
        for reason in (*document.remarks, *document.files_refused):
            proposal.add_note([document.host], reason, is_urgent=True)
    companion_file_variables.propose_heap_and_user(proposal)
    propose_ha_profiles(proposal, shared)
    propose_authentication(proposal)
    propose_limits_console_and_connectors(proposal)
    propose_policy_store_and_plugin_variables(proposal)
    companion_file_variables.propose_console(proposal)
    propose_preferred_master_per_pair(proposal, addresses)
    propose_addresses_used_by_other_brokers(proposal, addresses)
    _propose_instances(proposal)
    propose_store_directories_below_base(proposal)
    propose_network(proposal)
    propose_agents(proposal, agents)
    propose_users(proposal)
    propose_custom_for_inexpressible_accounts(proposal)
    propose_acl(proposal)
    _remove_default_values(proposal)
    fleet = proposal.build_proposed_fleet()
    companion_file_variables.propose_java_options(proposal, fleet)
    companion_file_variables.note_omitted_java_options(proposal)
    for variables in (*proposal.variables.values(), *proposal.agents.values()):
        for name, value in variables.items():
            variables[name] = with_secret_references(name, value, proposal.secrets)
    for document in proposal.documents:
        propose_attributes_and_fragments(proposal, document, _render_document_tree(fleet.broker(document.host)))
    propose_waivers_for_original_files(proposal, findings)
    add_note_on_remaining_warnings(proposal, findings)
    fleet = proposal.build_proposed_fleet()
    differences = tuple(_differences_of_documents(proposal, fleet))
    _note_undefined_placeholders(proposal, fleet)
    labels = labels_of_referenced_secrets([*proposal.variables.values(), *proposal.agents.values()])
    _note_default_passwords(proposal)
    _note_missing_settings(proposal)
    return AdoptedInventory(
        files=inventory_files(proposal, fleet),
        fleet=fleet,
        differences=differences,
        notes=tuple(proposal.notes),
        secrets={label: description for label, description in sorted(proposal.secrets.used.items()) if label in labels},
        files_read={
            **{document.host: document.files_read for document in proposal.documents},
            **{file.host: file.files_read for file in agents if file.host in proposal.agents},
        },
        services=companion_file_variables.services_of_adopted_brokers(proposal.documents),
    )


def _note_default_passwords(proposal: ProposedVariablesByHost) -> None:
    """Add a note about accounts whose password is a default of ActiveMQ, which no command accepts."""
    for label, account in proposal.secrets.accounts_with_default_password.items():
        hosts = [
            host for host, variables in proposal.variables.items() if label in labels_of_referenced_secrets(variables)
        ]
        if hosts:
            proposal.add_note(
                hosts,
                f"the account {account} has a well-known default password, which `activemq-fleet check`, "
                "`activemq-fleet render` and the playbook activemq.fleet.site reject. Before you run the playbook, "
                f"choose a new password, write it to .secrets/{label}, and prepare the clients that use this account. "
                "The restarted brokers accept only the new password",
                is_urgent=True,
            )


def _differences_of_documents(proposal: ProposedVariablesByHost, fleet: Fleet) -> Iterator[XmlDifference]:
    for document in proposal.documents:
        rendered = _render_document_tree(fleet.broker(document.host))
        yield from document_differences(document.host, document.original, rendered, with_masked_passwords)


def _render_document_tree(broker: Broker) -> ComparedElement:
    return compared_element_from_lxml(XmlDocument(render_activemq_xml_bytes(broker)).root)


def _propose_instances(proposal: ProposedVariablesByHost) -> None:
    """Choose instance names and console ports for brokers on one machine, which need separate directories and units."""
    machines: dict[str, list[AdoptedDocument]] = defaultdict(list)
    for document in proposal.documents:
        machines[proposal[document.host].get("address", document.host).lower()].append(document)
    for address, documents in machines.items():
        if len(documents) < 2:
            continue
        nodes = [document.identity.node.lower() for document in documents]
        hosts_by_variable: dict[str, set[str]] = {"activemq_instance": set(), "activemq_console_port": set()}
        for position, document in enumerate(documents):
            variables = proposal[document.host]
            if "instance" not in variables:
                suffix = nodes[position] if len(set(nodes)) == len(nodes) else str(position + 1)
                variables["instance"] = f"activemq-{suffix}"
                hosts_by_variable["activemq_instance"].add(document.host)
            if position and not {"port_offset", "console_port"} & variables.keys():
                variables["console_port"] = _CONSOLE_PORT + 10 * position
                hosts_by_variable["activemq_console_port"].add(document.host)
        for variable, hosts in hosts_by_variable.items():
            if hosts:
                proposal.add_note(
                    hosts,
                    f"several of the adopted brokers have the address {address}, so each needs its own value of "
                    f"{variable}. adopt chose a value. Replace it with the value that the broker uses on its host",
                )


def _remove_default_values(proposal: ProposedVariablesByHost) -> None:
    """Remove proposed variables whose value the fleet would have by default."""
    complete_fleet = proposal.build_proposed_fleet()
    remove_defaults_from_destination_policies(proposal, complete_fleet)
    for name in ("connectors", "store_directory"):
        fleet_without_variable = proposal.build_proposed_fleet(**{name: None})
        is_same = {
            host: getattr(complete_fleet.broker(host), name) == getattr(fleet_without_variable.broker(host), name)
            for host in proposal.variables
        }
        for documents in proposal.existing_activemq_xml_by_pair().values():
            hosts = [document.host for document in documents]
            # A pure slave has no active connectors, so it gets those of its master.
            shares_connectors = proposal.proposed_ha_profile(hosts[0]).replicates
            for host in hosts:
                if is_same[host] and (not shares_connectors or all(is_same[other] for other in hosts)):
                    proposal[host].pop(name, None)
    for variables in (*proposal.variables.values(), *proposal.agents.values()):
        for name in [
            name
            for name, value in variables.items()
            if is_default_value(name, replace_secret_references_with_placeholders(value))
        ]:
            del variables[name]


def _placeholders_of_document(document: XmlDocument) -> set[str]:
    """Return the names of the placeholders in a rendered activemq.xml, without those of Camel's elements."""
    names: set[str] = set()
    for element in document.root.iter(etree.Element):
        if not str(element.tag).startswith(_CAMEL_NAMESPACE_PREFIX):
            for text in (*map(str, element.attrib.values()), element.text or ""):
                names.update(PLACEHOLDER.findall(text))
    return names


def _note_undefined_placeholders(proposal: ProposedVariablesByHost, fleet: Fleet) -> None:
    """Add a note for each ``${name}`` placeholder whose value no rendered file defines."""
    hosts_by_placeholder: dict[str, list[str]] = defaultdict(list)
    for broker in fleet.brokers:
        credentials = credentials_file_content(broker, Shown(broker.host)).decode()
        for name in sorted(_placeholders_of_document(XmlDocument(render_activemq_xml_bytes(broker)))):
            if name not in _JVM_PROPERTIES and f"\n{name}=" not in credentials:
                hosts_by_placeholder[name].append(broker.host)
    for name, hosts in hosts_by_placeholder.items():
        proposal.add_note(
            hosts,
            f"no rendered file defines the placeholder ${{{name}}}. Define {name} in a properties file and adopt again "
            f"with --properties, or set activemq_java_options: [-D{name}=VALUE]",
            is_urgent=True,
        )


def _note_missing_settings(proposal: ProposedVariablesByHost) -> None:
    note_inexpressible_authentication(proposal)
    hosts_without_accounts = [
        document.host
        for document in proposal.documents
        if not authentication_user_elements(document) and "authentication" not in proposal[document.host]
    ]
    if hosts_without_accounts:
        proposal.add_note(
            hosts_without_accounts,
            "activemq.xml has no accounts, but the rendered broker rejects clients without an account: "
            "add the accounts of your clients to activemq_users",
            is_urgent=True,
        )
    may_install = any("install" not in variables for variables in proposal.variables.values())
    heap = (
        ""
        if companion_file_variables.is_heap_known_for_all_hosts(proposal)
        else f"activemq_heap ({DEFAULT_HEAP}), activemq_console_port and activemq_console_bind, "
    )
    proposal.notes.append(
        "the adopted files do not show the values of these variables, so their defaults apply. Set each to the value "
        f"that your hosts use: {heap}{'activemq_install, ' if may_install else ''}activemq_home, activemq_user, "
        "activemq_java_home, activemq_java_options. If you have agents or load balancers, add their variables, which "
        "adopt does not read"
    )
