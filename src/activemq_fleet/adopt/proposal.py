"""Collect the variables that an adoption proposes, by host, and validate the values of single variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from activemq_fleet.adopt.compared_element import ComparedElement
from activemq_fleet.adopt.equal_meaning import activemq_base_and_data_directories
from activemq_fleet.adopt.secrets import LabeledPasswords, replace_secret_references_with_placeholders
from activemq_fleet.adopt.sources import AdoptedDocument
from activemq_fleet.errors import names_to_text
from activemq_fleet.naming import Naming
from activemq_fleet.profiles import PROFILES, HighAvailabilityProfile
from activemq_fleet.settings.host_settings import PREFIX, HostSettings
from activemq_fleet.topology import AGENTS, Fleet, build_fleet

Variables = dict[str, Any]


@dataclass
class ProposedVariablesByHost:
    """The inventory variables that ``adopt`` proposes for existing brokers, by host.

    Their names are without the prefix ``activemq_``. ``replaced_elements`` are ids of XML elements that a
    variable replaces although it renders another element, so that no XML fragment may restore them.
    """

    documents: tuple[AdoptedDocument, ...]
    naming: Naming
    variables: dict[str, Variables]
    agents: dict[str, Variables] = field(default_factory=dict)
    """Variables of hosts that run an agent, by host."""
    secrets: LabeledPasswords = field(default_factory=LabeledPasswords)
    notes: list[str] = field(default_factory=list)
    _added_notes: set[str] = field(default_factory=set)
    _urgent_count: int = 0
    replaced_elements: set[int] = field(default_factory=set)
    renamed_beans: dict[str, dict[str, str]] = field(default_factory=dict)
    """The ids of beans that a variable replaces by a bean with another id: new id by original id, by host."""
    slaves_at_client_connectors: set[str] = field(default_factory=set)
    """The hosts of pure slaves that connect to a connector of their master that clients use, too."""

    @classmethod
    def from_documents(cls, documents: Sequence[AdoptedDocument], naming: Naming) -> ProposedVariablesByHost:
        """Return a proposal of inventory variables for existing activemq.xml documents.

        It holds nothing but naming and the release of every host.
        """
        common = {"naming_parity": naming.parity} if naming.parity else {}
        common |= naming.stated
        return cls(tuple(documents), naming, {d.host: {"release": d.release.text, **common} for d in documents})

    def __getitem__(self, host: str) -> Variables:
        return self.variables[host]

    def proposed_ha_profile(self, host: str) -> HighAvailabilityProfile:
        """Return the proposed high-availability profile of a host: how one node of its pair replaces the other."""
        return PROFILES[self.variables[host]["ha"]]

    def propose_value_if_valid(self, host: str, name: str, value: Any, **other_variables: Any) -> bool:
        """Add a value to the variables that ``adopt`` proposes for a host if it is valid; return whether it was added.

        None is not valid. ``other_variables`` are those of ``is_valid_value``.
        """
        if value is None or not is_valid_value(name, value, **other_variables):
            return False
        self.variables[host][name] = value
        return True

    def activemq_base_and_data_directories(self, host: str) -> dict[str, str]:
        """Return a host's ``${activemq.base}`` and ``${activemq.data}``, in a dictionary by ``base`` and ``data``."""
        base, instance = (
            str(self.variables[host].get(name, HostSettings.model_fields[name].default))
            for name in ("base", "instance")
        )
        return activemq_base_and_data_directories(base, instance)

    def propose_preferred_master_unless_default(self, host: str, node_mark: str) -> None:
        """Propose the preferred master of a host's pair, unless it is the node that the naming convention prefers.

        ``node_mark`` is the preferred master's mark: the part of its host name that distinguishes the two nodes, such
        as ``a``.
        """
        if node_mark != self.naming.preferred_node_mark:
            self.propose_value_if_valid(host, "master_node", node_mark)

    def existing_activemq_xml_by_pair(self) -> dict[str, list[AdoptedDocument]]:
        """Return the existing activemq.xml documents of each pair, by the pair's name.

        They are in the order of their nodes.
        """
        documents: dict[str, list[AdoptedDocument]] = {}
        for document in sorted(self.documents, key=lambda d: (d.identity.pair, d.identity.node)):
            documents.setdefault(document.identity.pair, []).append(document)
        return documents

    def build_proposed_fleet(self, **changes: Any) -> Fleet:
        """Return the proposed fleet, which the proposed inventory variables describe.

        ``changes`` override every host's variables, None removes one.
        """
        return self.proposed_fleet_with_host_overrides(lambda _host: changes)

    def proposed_fleet_with_host_overrides(self, overrides_of: Callable[[str], Mapping[str, Any]]) -> Fleet:
        """Return the fleet that the proposed inventory variables describe, with some variables of each host replaced.

        ``overrides_of`` returns the overriding variables of a host.
        """
        hosts = {}
        for host, variables in self.variables.items():
            merged = {**variables, **overrides_of(host)}
            hosts[host] = {
                PREFIX + name: replace_secret_references_with_placeholders(value)
                for name, value in merged.items()
                if value is not None
            }
        for host, variables in self.agents.items():
            hosts[host] = {
                PREFIX + name: replace_secret_references_with_placeholders(value) for name, value in variables.items()
            }
        return build_fleet(hosts, {AGENTS: list(self.agents)}, naming_pattern=self.naming.pattern)

    def add_note(self, hosts: Iterable[str], text: str, *, is_urgent: bool = False) -> None:
        """Add a text about given hosts to the notes for the operator.

        A note that exists already is not repeated. Urgent notes come before all others: errors, and what the rendered
        files leave out.
        """
        line = f"{names_to_text(sorted(hosts))}: {text}"
        if line not in self._added_notes:
            self._added_notes.add(line)
            if is_urgent:
                self.notes.insert(self._urgent_count, line)
                self._urgent_count += 1
            else:
                self.notes.append(line)

    @property
    def urgent_notes(self) -> tuple[str, ...]:
        """The urgent notes for the operator, as lines of text that begin with the names of hosts.

        They are about errors, and about what the rendered files leave out.
        """
        return tuple(self.notes[: self._urgent_count])

    def exclude_elements_from_fragments(self, *nodes: ComparedElement | None) -> None:
        """Record XML elements that proposed variables replace, so that ``adopt`` proposes no XML fragments for them.

        ``nodes`` are such elements of an existing activemq.xml. A fragment adds XML to the rendered file as it is.
        """
        self.replaced_elements |= {id(node) for node in nodes if node is not None}


def is_valid_value(name: str, value: Any, **other_variables: Any) -> bool:
    """Return whether a value is valid for the variable ``activemq_NAME``.

    ``other_variables`` are the values of variables on which its validity depends. No further variables are considered.
    """
    try:
        HostSettings.model_validate({name: replace_secret_references_with_placeholders(value), **other_variables})
    except ValidationError:
        return False
    return True


def is_default_value(name: str, value: Any) -> bool:
    """Return whether a value is the default value of its variable.

    Then the inventory need not set the variable.
    """
    return bool(HostSettings.model_fields[name].get_default(call_default_factory=True) == value)


def parse_yaml_scalar(text: str) -> str | int | bool:
    """Parse a text as a YAML scalar, and return its value: a boolean, a number or the text."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isascii() and text.isdigit() and str(int(text)) == text else text
