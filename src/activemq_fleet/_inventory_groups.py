"""Group the brokers of a loaded Ansible inventory, as its plugin ``activemq.fleet.topology`` does.

The variables by which a name is read are read from the files, before templates are evaluated.
"""

from __future__ import annotations

import re
from collections import ChainMap, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ansible.inventory.helpers import sort_groups
from ansible.parsing.vault import EncryptedString
from ansible.utils.vars import load_extra_vars
from ansible.vars.plugins import get_vars_from_inventory_sources

from activemq_fleet._ansible_internals import Origin, variable_origin
from activemq_fleet.errors import InputError, SettingsError
from activemq_fleet.group_names import inventory_groups_of_brokers
from activemq_fleet.naming import PART_VARIABLES, PATTERN_VARIABLE, PREFIX, Identity, Naming, UnparsableBrokerNameError
from activemq_fleet.similar_names import most_similar_name

OPTIONS = {
    "naming_pattern": PATTERN_VARIABLE,
    "naming_parity": "activemq_naming_parity",
    "master_node": "activemq_master_node",
}
"""The variable of all hosts that each option of the plugin's file sets, by option."""


@dataclass(frozen=True, slots=True)
class BrokerIdentities:
    """The identities (group, pair and node) of an inventory's brokers.

    The hosts that nearly match the name pattern are listed, too. ``misspelt`` are problems with variables whose names
    are almost those of group, pair or node.
    """

    identities: tuple[Identity, ...]
    unclear: tuple[str, ...]
    nearly: tuple[str, ...]
    misspelt: tuple[str, ...]


def identify_brokers_and_add_groups(
    inventory: Any, loader: Any, sources: Sequence[str], options: Mapping[str, object]
) -> BrokerIdentities:
    """Identify the brokers of an Ansible inventory, add them to Ansible groups, and return their BrokerIdentities.

    The inventory is changed: it gets the groups, and the variable ``activemq_identity`` of each broker. ``options`` are
    those of the plugin's file. Raises InputError for an option and a variable that differ, and for what ``Naming``
    refuses; AnsibleError for a file of variables that cannot be read.
    """
    # Ansible makes a group that the file does not list below "all" its child only after all files are read.
    inventory.reconcile_inventory()
    variables = _GroupedVariables(inventory, loader, sources)
    variables_of_all = variables.merged_variables_of_groups([inventory.groups["all"]])
    for option, variable in OPTIONS.items():
        option_value, variable_value = options.get(option), variables_of_all.get(variable)
        if option_value is not None and variable_value is not None and option_value != variable_value:
            raise InputError(
                f"the option {option} in the file of the inventory plugin (*.activemq.yml) is {option_value}, but the "
                f"variable {variable}, which has the same meaning, is {variable_value}: remove one of them"
            )
    option_variables = {
        OPTIONS[name]: value for name, value in options.items() if name in OPTIONS and value is not None
    }
    for variable, value in option_variables.items():
        inventory.set_variable("all", variable, value)
    pattern = {**variables_of_all, **option_variables}.get(PATTERN_VARIABLE)
    identities, unparsable_names, similar_names, misspelled = [], [], [], list[str]()
    for host in inventory.hosts.values():
        host_variables = variables.host_variables(host)
        misspelled += [f"{host.name}: {problem}" for problem in misspelled_identity_variable_problems(host_variables)]
        try:
            naming = Naming.naming_of_host(host.name, host_variables, str(pattern) if pattern else None)
        except SettingsError as error:
            raise _with_origin(error, host_variables) from None
        try:
            identity = naming.identify_broker(host.name)
        except UnparsableBrokerNameError as error:
            unparsable_names.append(str(error))
            continue
        except InputError as error:
            raise _with_origin(error, host_variables) from None
        if identity is not None:
            identities.append(identity)
        elif naming.looks_like_misspelled_broker(host.name):
            similar_names.append(host.name)
    # If a group has the name of a host, Ansible's add_child and set_variable would change the group.
    for group, names in inventory_groups_of_brokers(identities).items():
        inventory.add_group(group)
        for name in names:
            inventory.add_host(name, group)
    for identity in identities:
        inventory.hosts[identity.name].set_variable("activemq_identity", identity.to_dict())
    return BrokerIdentities(tuple(identities), tuple(unparsable_names), tuple(similar_names), tuple(misspelled))


def misspelled_identity_variable_problems(variables: Mapping[Any, Any]) -> list[str]:
    """Return a problem text for each misspelled ``activemq_group``, ``activemq_pair`` or ``activemq_node`` of a host.

    The text does not name the host. It ends with the file and line of the variable.
    """
    intended_variables = {
        name: intended
        for name in variables
        if isinstance(name, str) and (intended := _intended_identity_variable(name))
    }
    return [
        f"{name} is not a variable of activemq.fleet: did you mean {intended}?{_origin_suffix(name, variables[name])}"
        for name, intended in intended_variables.items()
        if variables.get(intended) is None
    ]


@lru_cache(maxsize=4096)
def _intended_identity_variable(name: str) -> str | None:
    """Return the variable of a host's group, pair or node that a misspelled variable name means, or None."""
    if name.startswith(PREFIX) or most_similar_name(name, PART_VARIABLES, certain=True) is None:
        return None
    # This import loads the models of all settings, which the inventory plugin does not need in other cases.
    from activemq_fleet.settings.variable_validation import probable_activemq_variable

    intended = probable_activemq_variable(name)
    return intended if intended in PART_VARIABLES else None


def _origin_suffix(name: str, value: object) -> str:
    origin = variable_origin(name, value)
    return f" ({origin[0]}:{origin[1]})" if origin else ""


def _with_origin(error: InputError, variables: Mapping[str, object]) -> InputError:
    """Return an error about a variable of a host that ends with the file and line of the variable, if known."""
    value = next((variables[name] for name in re.findall(r"\w+", str(error)) if name in variables), None)
    origin = Origin.get_tag(value)
    if origin is None or not origin.path:
        return error
    return type(error)(f"{error} ({origin.path}:{origin.line_num})")


@dataclass(frozen=True, slots=True)
class ConflictingGroupVariable:
    """A variable that two inventory groups of one host set to different values.

    The group that is last in the alphabet wins.
    """

    host: str
    variable: str
    group: str
    winner: str


def conflicting_group_variables(inventory: Any, loader: Any, sources: Sequence[str]) -> list[ConflictingGroupVariable]:
    """Return the variables ``activemq_…`` that two groups of a host set to different values.

    Only groups at the same level of the inventory are compared. Ansible then takes the value of the group that is last
    in alphabetical order. Groups that the inventory plugin makes, and those whose names begin in the same way, are
    ordered by their names with intention.
    """
    variables = _GroupedVariables(inventory, loader, sources)
    variables_by_group = {
        name: {
            key: value for key, value in variables.variables_set_on_group(group).items() if str(key).startswith(PREFIX)
        }
        for name, group in inventory.groups.items()
        if not name.startswith(PREFIX)
    }
    conflicts = []
    for host in inventory.hosts.values():
        by_variable: dict[str, list[tuple[Any, object]]] = defaultdict(list)
        for group in sort_groups(host.get_groups()):
            for name, value in variables_by_group.get(group.name, {}).items():
                by_variable[name].append((group, value))
        for name, definitions in by_variable.items():
            winner, value = definitions[-1]
            rivals = [
                group.name
                for group, other_value in definitions[:-1]
                if (group.depth, group.priority) == (winner.depth, winner.priority)
                and _are_different(other_value, value)
            ]
            if rivals and variables.variables_set_on_host(host).get(name) is None:
                conflicts.append(ConflictingGroupVariable(host.name, name, rivals[-1], winner.name))
    return conflicts


def _are_different(left: object, right: object) -> bool:
    """Return whether two values of a variable surely differ; encrypted values are not decrypted."""
    return not isinstance(left, EncryptedString) and not isinstance(right, EncryptedString) and left != right


class _GroupedVariables:
    """The variables of hosts and groups, those of group_vars and host_vars included, in the order of Ansible."""

    def __init__(self, inventory: Any, loader: Any, sources: Sequence[str]) -> None:
        self._loader, self._sources = loader, sources
        self._extra = load_extra_vars(loader)
        self._variables_by_group: dict[str, tuple[dict[str, object], dict[str, object]]] = {}

    def merged_variables_of_groups(self, groups: Sequence[Any]) -> ChainMap[str, object]:
        """Return the variables that Ansible inventory groups define, merged into one mapping by variable name.

        The order of precedence of the groups is that of Ansible. Extra variables (``-e``) take precedence over all
        groups.
        """
        return ChainMap(self._extra, *self._variable_layers(groups))

    def host_variables(self, host: Any) -> ChainMap[str, object]:
        """Return the inventory variables of a host and its groups; extra variables (``-e``) take precedence."""
        return ChainMap(self._extra, self._file_variables(host), host.vars, *self._variable_layers(host.get_groups()))

    def variables_set_on_host(self, host: Any) -> ChainMap[str, object]:
        """Return the variables that the Ansible inventory sets on a host itself, not on its groups.

        Extra variables (``-e``) take precedence.
        """
        return ChainMap(self._extra, self._file_variables(host), host.vars)

    def variables_set_on_group(self, group: Any) -> Mapping[str, object]:
        """Return the variables that an Ansible inventory group itself defines, not its parent or child groups."""
        self._variable_layers([group])
        files, variables = self._variables_by_group[group.name]
        return {**variables, **files}

    def _variable_layers(self, groups: Sequence[Any]) -> list[dict[str, object]]:
        layers = []
        for group in reversed(sort_groups(groups)):
            if group.name not in self._variables_by_group:
                self._variables_by_group[group.name] = (self._file_variables(group), group.vars)
            layers.append(self._variables_by_group[group.name])
        return [files for files, _ in layers] + [variables for _, variables in layers]

    def _file_variables(self, entity: Any) -> dict[str, object]:
        file_variables: dict[str, object] = get_vars_from_inventory_sources(
            self._loader, self._sources, [entity], "all"
        )
        return file_variables
