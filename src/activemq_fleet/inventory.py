"""Read an Ansible inventory, the only source of a fleet's configuration."""

from __future__ import annotations

import dataclasses
import os
import re
import string
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from activemq_fleet._yaml_mistakes import too_deep_value_message
from activemq_fleet.errors import InputError, ReleaseError, SettingsError, group_hosts_by_problem, hosts_by_error_line
from activemq_fleet.findings import Finding
from activemq_fleet.group_names import BROKERS, hosts_level_by_level
from activemq_fleet.install_hint import install_hint
from activemq_fleet.inventory_error_positions import error_with_positions
from activemq_fleet.inventory_positions import Position as Position
from activemq_fleet.inventory_structure import (
    InventoryLayout,
    inventory_structure_findings,
    structure_finding_as_error_text,
)
from activemq_fleet.naming import (
    PART_VARIABLES,
    PREFIX,
    Naming,
    UnparsableBrokerNameError,
)
from activemq_fleet.node.text_lines import split_lines

if TYPE_CHECKING:
    from activemq_fleet._inventory_groups import ConflictingGroupVariable
    from activemq_fleet.topology import Broker, Fleet

OLDEST_ANSIBLE = (2, 19)
"""The oldest ansible-core whose templates the library can evaluate, as in meta/runtime.yml."""
# The prefixes of variables that hosts without a broker also use. All other variables are for brokers only, so a failed
# template of such a variable on another host is not an error.
_PREFIXES_OF_OTHER_HOSTS = ("activemq_agent_", "activemq_vip", "activemq_naming_pattern")
_WORD = re.compile(r"[\w-]+(?:\.[\w-]+)*")
# The lookbehind keeps the search in long words linear: a match begins only at the start of a word.
_HOST_RANGE = re.compile(r"(?<![\w.-])[\w.-]*(?:\[\w+:\w+(?::\d+)?\][\w.-]*)+")
_RANGE_BOUNDS = re.compile(r"\[(\w+):(\w+)(?::(\d+))?\]")
_MAX_EXPANDED_HOSTS = 100_000
_OriginReader = Callable[[Mapping[Any, Any], Mapping[Any, Any], Iterable[str]], dict[str, tuple[str, int]]]
_CONNECTION_VARIABLES = ("ansible_port", "ansible_connection")
# Consequences of a key that Ansible ignores or misreads. They are reported after the key is corrected.
_CONSEQUENCES = frozenset({"T001", "T002", "T003", "T037"})
_CORRECT_CONFIGURATION = "correct this setting in ansible.cfg or in the environment variables of Ansible"
# The messages of Ansible about keys and names that the rule T038 also reports.
_REPORTED_BY_FINDING = re.compile(
    r"Found both group and host|Skipping (?:unexpected )?key \(|Skipping '.*' as this is not a valid group definition"
)


@dataclass(frozen=True, slots=True)
class InventoryData:
    """The data read from an Ansible inventory: its hosts, groups, warnings and findings.

    ``hosts`` holds for every host, in the order of the inventory, the templated values of its variables that start with
    ``activemq_``, in plain Python types; an encrypted value that cannot be decrypted is an ``UndecryptedVaultValue``.
    ``groups`` are Ansible's, with the hosts of their children. ``warnings`` are Ansible's own, one line each.
    ``findings`` are those about the files of the inventory, and about variables without the prefix that have almost the
    name of a variable of the fleet. ``directories`` holds by host the directory of the inventory source that has the
    host, and ``machines`` how Ansible connects to it: address, port and type. ``positions`` is empty unless it was
    requested.
    """

    hosts: dict[str, dict[str, object]]
    groups: dict[str, list[str]]
    warnings: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    directories: dict[str, str] = dataclasses.field(default_factory=dict)
    machines: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    positions: dict[str, dict[str, Position]] = dataclasses.field(default_factory=dict)

    @property
    def inventory_file_error_lines(self) -> list[str]:
        """The errors in the files of the inventory, as lines of text."""
        return [
            structure_finding_as_error_text(finding) for finding in self.findings if finding.blocks and finding.file
        ]

    def all_inventory_findings(
        self, hosts_without_role: Iterable[str], brokers: Iterable[Broker]
    ) -> tuple[Finding, ...]:
        """Return all findings about the inventory: ``findings``, and findings about the given hosts and brokers.

        The latter are the findings about hosts without a role that may be meant as brokers (T037), and about
        ``brokers`` on one machine (T009).
        """
        from activemq_fleet.topology.machine_and_port_problems import same_machine_and_instance_findings
        from activemq_fleet.topology.name_problems import possible_broker_without_role_findings

        return (
            *self.findings,
            *possible_broker_without_role_findings(hosts_without_role),
            *same_machine_and_instance_findings(brokers, self.machines),
        )


def read_inventory(
    sources: Sequence[str],
    *,
    with_positions: bool = False,
    extra_vars: Sequence[str] = (),
    vault_ids: Sequence[str] = (),
    vault_password_files: Sequence[str] = (),
) -> InventoryData:
    """Read an Ansible inventory, and return its hosts with ``activemq_`` variables, groups, warnings and findings.

    Sources are files, directories or comma-separated host lists, read as Ansible reads them. Values are those that
    ``hostvars`` has, extra variables (``k=v``, JSON, YAML, ``@file``) included; facts of a fact cache outrank no
    variable of the inventory. ``with_positions`` also returns where each variable is defined. On a host that is no
    broker, a variable whose template refers to something that only brokers have is left out, as Ansible would not
    evaluate it there.

    Raises InputError for a source that cannot be read as a whole or that has no host, and SettingsError
    for all values whose template fails and for cached facts that have names of variables, naming host and variable.
    """
    if not sources:
        raise InputError("no inventory is selected: set -i INVENTORY, or inventory in ansible.cfg")
    for source in sources:
        if "," not in source and not os.path.exists(source):
            raise InputError(
                f"{source}: this inventory file or directory does not exist: correct the path. To name a single host, "
                "write a comma after its name"
            )
    options = {"extra_vars": extra_vars, "vault_ids": vault_ids, "vault_password_files": vault_password_files}
    try:
        with _ansible_module() as ansible, ansible.open_ansible_inventory(sources, **options) as loaded:
            reader = (
                _PositionReader(ansible.file_and_line_by_activemq_variable, loaded.extra) if with_positions else None
            )
            return _inventory_data_of(loaded, ", ".join(sources), reader)
    except RecursionError:
        raise InputError(too_deep_value_message(sources, extra_vars)) from None


def configured_inventory_sources() -> tuple[str, ...]:
    """Return the inventory sources that Ansible is configured to read.

    ``ANSIBLE_INVENTORY`` or ``inventory`` in ansible.cfg names them; () without both.

    Raises InputError for an ansible.cfg that cannot be read.
    """
    from ansible.config.manager import ConfigManager
    from ansible.errors import AnsibleError

    try:
        sources, origin = ConfigManager().get_config_value_and_origin("DEFAULT_HOST_LIST")
    except AnsibleError as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"Ansible cannot start ({reason}): {_CORRECT_CONFIGURATION}") from None
    return () if origin == "default" else tuple(str(source) for source in sources or () if source)


def load_fleet(
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    extra_vars: Sequence[str] = (),
    vault_ids: Sequence[str] = (),
    vault_password_files: Sequence[str] = (),
) -> Fleet:
    """Return the fleet that an Ansible inventory describes.

    ``sources`` is an inventory file, a directory or a comma-separated list of hosts, or a sequence of them; Ansible
    reads them. The options are those of ``ansible-playbook``: ``extra_vars`` are ``NAME=VALUE``, JSON, YAML or
    ``@FILE``. ``Fleet.findings`` are those about the topology, ``Fleet.warnings`` include Ansible's.

    Raises InputError for an inventory that cannot be read, SettingsError, which names hosts and variables, for
    variables that cannot be used, and ReleaseError for an unknown release.

    >>> from activemq_fleet import load_fleet
    >>> fleet = load_fleet("orders-mq01-a,orders-mq02-a", extra_vars=["activemq_release=5.18.3", "activemq_ha=none"])
    >>> [broker.host for broker in fleet.brokers]
    ['orders-mq01-a', 'orders-mq02-a']
    """
    paths = [sources] if isinstance(sources, str | os.PathLike) else sources
    data = read_inventory(
        [os.fspath(path) for path in paths],
        extra_vars=extra_vars,
        vault_ids=vault_ids,
        vault_password_files=vault_password_files,
    )
    return fleet_from_inventory_data(data)


def fleet_from_inventory_data(data: InventoryData) -> Fleet:
    """Return the fleet that an inventory's data describes.

    The findings about the inventory's files are included.

    Raises SettingsError, ReleaseError and InputError. The lines of an error end with the file and line of the variable,
    if ``data`` has positions. An error also has the mistakes in the files, which may be its cause.
    """
    from activemq_fleet.settings.host_settings import WaiverSettings
    from activemq_fleet.topology.build import apply_waivers, build_fleet

    try:
        fleet = build_fleet(data.hosts, data.groups)
    except (SettingsError, ReleaseError, InputError) as error:
        located = error_with_positions(error, data)
        raise type(error)(
            *data.inventory_file_error_lines, *located.lines, hosts_by_line=located.hosts_by_line
        ) from None
    waivers = [WaiverSettings.model_validate(waiver) for waiver in fleet.waivers]
    findings = apply_waivers((*fleet.findings, *data.all_inventory_findings(fleet.unread, fleet.brokers)), waivers)
    if any(finding.blocks for finding in set(data.findings).intersection(findings)):
        findings = [finding for finding in findings if finding.rule not in _CONSEQUENCES]
    return dataclasses.replace(fleet, findings=tuple(findings), warnings=(*data.warnings, *fleet.warnings))


def inventory_data_of_play(hostvars: Any, loader: Any) -> InventoryData:
    """Return the data of the inventory that a running Ansible play uses.

    The data are made from a task's ``hostvars`` and loader. All hosts of the inventory are read, whatever
    the limit: the files of one host depend on its peers. Variables of plays and roles are ignored, as in
    ``read_inventory``. Facts and results of tasks do not override variables of the inventory;
    ``raise_for_variables_set_at_runtime`` refuses them. Raises SettingsError for all values whose template fails,
    naming host and variable.
    """
    from activemq_fleet._ansible import file_and_line_by_activemq_variable
    from activemq_fleet._inventory_variables import InventoryFirstVariableManager

    inventory_hostvars = InventoryFirstVariableManager(hostvars).hostvars
    hosts = ((str(host), inventory_hostvars.raw_get(host)) for host in inventory_hostvars)
    groups = host_names_by_group(hostvars._inventory)
    data = _read_hosts(hosts, groups, loader, _PositionReader(file_and_line_by_activemq_variable, {}))
    return dataclasses.replace(data, findings=(*_file_findings(hostvars._inventory, groups), *data.findings))


def errors_by_host_for_variables_set_at_runtime(hostvars: Any) -> dict[str, list[str]]:
    """Return a dictionary from host to the errors for its variables ``activemq_…`` that facts or tasks of a play set.

    The errors are lines of text, one for each such variable; hosts without one are omitted.
    ``hostvars`` is the variable of that name in a task of Ansible.
    """
    from activemq_fleet._inventory_variables import InventoryFirstVariableManager

    return InventoryFirstVariableManager(hostvars).errors_by_host_for_variables_set_at_runtime()


def raise_for_variables_set_at_runtime(hostvars: Any) -> None:
    """Raise SettingsError for variables ``activemq_…`` that facts or tasks set at run time.

    The error names host and variable.
    """
    _raise_settings_error_if_any(errors_by_host_for_variables_set_at_runtime(hostvars))


def _raise_settings_error_if_any(problems_by_host: Mapping[str, Sequence[str]]) -> None:
    """Raise one SettingsError for the problems of all hosts, if there are any; hosts share a line for each problem."""
    if lines := hosts_by_error_line(group_hosts_by_problem(problems_by_host)):
        raise SettingsError(*lines, hosts_by_line=lines)


@contextmanager
def _ansible_module() -> Iterator[Any]:
    """Import Ansible and yield the module that uses it; Ansible's errors are raised as InputError."""
    try:
        import ansible.errors  # the smallest module, which does not read the configuration
        from ansible.release import __version__ as release
    except ImportError as error:
        raise InputError(
            f"ansible-core, which reads inventories, cannot be imported ({error}): {install_hint()}"
        ) from None
    if tuple(int(number) for number in re.findall(r"\d+", release)[:2]) < OLDEST_ANSIBLE:
        oldest = ".".join(map(str, OLDEST_ANSIBLE))
        raise InputError(
            f"ansible-core {release} of {sys.executable} is older than {oldest}, which activemq-fleet requires. "
            f"Run: {sys.executable} -m pip install --upgrade 'ansible-core>={oldest}'"
        )
    try:
        import ansible.constants

        from activemq_fleet import _ansible
    except ansible.errors.AnsibleError as error:
        raise InputError(f"Ansible cannot start ({error}): {_CORRECT_CONFIGURATION}") from None
    except SystemExit as error:  # Ansible stops the process if the locale is not UTF-8.
        reason = str(error).removeprefix("ERROR: ").rstrip(".")
        raise InputError(
            f"Ansible cannot start ({reason}): set LC_ALL=C.UTF-8 in the environment, and unset PYTHONUTF8"
        ) from None
    try:
        yield _ansible
    except (_ansible.AnsibleError, OSError, ValueError) as error:
        message = _ansible.ansible_error_message(error)
        if _ansible.TOO_DEEP in message:
            raise RecursionError from error
        raise InputError(message) from error


def _inventory_data_of(loaded: Any, name: str, reader: _PositionReader | None) -> InventoryData:
    hosts = loaded.inventory.get_hosts()
    groups = host_names_by_group(loaded.inventory)
    file_findings = _file_findings(loaded.inventory, groups)
    if not hosts:
        causes = [structure_finding_as_error_text(finding) for finding in file_findings if finding.blocks]
        reason = "".join(f" ({text})" for text in loaded.ansible_warnings()[:1])
        raise InputError(
            *(causes or [f"{name}: the inventory has no hosts{reason}: list hosts below `hosts:` of a group"])
        )
    _raise_settings_error_if_any(loaded.stated.errors_by_host_for_variables_set_at_runtime())
    variables = ((host.name, loaded.stated.get_vars(host, stage="all")) for host in hosts)
    data = _read_hosts(variables, groups, loaded.loader, reader)
    reported_positions = tuple(f"{os.path.abspath(finding.file or '')}:{finding.line}: " for finding in file_findings)
    warnings = [
        text
        for text in loaded.ansible_warnings()
        if not (_REPORTED_BY_FINDING.match(text) or text.startswith(reported_positions))
    ]
    return dataclasses.replace(
        data, warnings=(*loaded.collection_version_warnings(), *warnings), findings=(*file_findings, *data.findings)
    )


def host_names_by_group(inventory: Any) -> dict[str, list[str]]:
    """Return the names of each group's hosts: its own hosts, then those of its children level by level.

    ``inventory`` is Ansible's. Its ``get_groups_dict`` iterates sets, so that hosts two levels below a group have
    another order in each process.
    """
    groups = inventory.groups

    def hosts_of(name: str) -> Iterable[str]:
        return (str(host) for host in groups[name].hosts if not host.implicit)

    def children_of(name: str) -> Iterable[str]:
        return (child.name for child in groups[name].child_groups)

    return {str(name): hosts_level_by_level(name, hosts_of, children_of) for name in groups}


def _file_findings(inventory: Any, groups: Mapping[str, Sequence[str]]) -> list[Finding]:
    """Return the findings about the files of a loaded inventory of Ansible with the given hosts by group."""
    from activemq_fleet._inventory_groups import conflicting_group_variables

    files = (str(source) for source in inventory._inventory.processed_sources)
    layout = InventoryLayout(tuple(filter(os.path.isfile, files)), groups, frozenset(map(str, inventory.hosts)))
    conflicts = conflicting_group_variables(inventory, inventory._loader, inventory._sources)
    return [*inventory_structure_findings(layout), *map(_group_conflict_finding, conflicts)]


def _group_conflict_finding(conflict: ConflictingGroupVariable) -> Finding:
    return Finding(
        rule="T040",
        severity="error" if conflict.variable in PART_VARIABLES else "warning",
        host=conflict.host,
        message=f"the groups {conflict.group} and {conflict.winner} of the host set {conflict.variable} to different "
        f"values: Ansible uses the value of {conflict.winner}, whose name is later in the alphabet",
        fix=f"set {conflict.variable} in the variables of the host, set ansible_group_priority of one group, or remove "
        "the host from one of the two groups",
        why=f"if one of the groups is renamed, Ansible may use the value of the other group for {conflict.variable}",
    )


def _misspelled_variable_findings(host: str, intended_by_name: Mapping[str, str]) -> Iterator[Finding]:
    for name, intended in intended_by_name.items():
        yield Finding(
            rule="T036",
            severity="warning",
            host=host,
            message=f"the variable {name} has no effect: the names of activemq.fleet's variables begin with {PREFIX}",
            fix=f"rename {name} to {intended}. If {name} has another purpose, add a waiver of T036 to activemq_waivers",
            why=f"the value of {name} does not set {intended}",
        )


class _PositionReader:
    """A reader of the positions at which an inventory defines the variables of its hosts.

    ``read_origins`` returns the origins of a host's variables by name, ``extra`` are the extra variables. Each
    file is read once for the lines of all its hosts.
    """

    def __init__(self, read_origins: _OriginReader, extra: Mapping[Any, Any]) -> None:
        self._read_origins = read_origins
        self._extra = extra
        self._lines: dict[str, Mapping[str, int]] = {}

    def variable_positions(
        self, host: str, variables: Mapping[Any, Any], misspelled_names: Iterable[str]
    ) -> dict[str, Position]:
        """Return the positions (file and line) of a host's variables, by variable name.

        Those of ``misspelled_names`` are included. The position of the host itself in its inventory file has the key
        ""; it is missing if that file is unknown.
        """
        origins = self._read_origins(variables, self._extra, misspelled_names)
        values = {**variables, **self._extra}
        positions = {name: Position(*origin, values.get(name)) for name, origin in origins.items()}
        file = variables.get("inventory_file")
        if isinstance(file, str) and os.path.isfile(file):
            if file not in self._lines:
                self._lines[file] = _first_lines_of_words(file)
            positions[""] = Position(str(file), self._lines[file].get(host, 1))
        return positions


def _first_lines_of_words(path: str) -> Mapping[str, int]:
    """Return the number of the first line that contains each word of an inventory file, by word.

    A range such as ``mq[01:20]`` contains each of its host names, unless it has more than 100,000.
    """
    first_lines: dict[str, int] = {}
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(split_lines(file.read()), 1):
            for word in (*_WORD.findall(line), *_hosts_in_ranges(line)):
                first_lines.setdefault(word, number)
    return first_lines


def _hosts_in_ranges(line: str) -> Iterator[str]:
    from ansible.errors import AnsibleError
    from ansible.plugins.inventory import expand_hostname_range

    for host_range in _HOST_RANGE.findall(line):
        with suppress(AnsibleError, ValueError):  # The title of a section, such as [brokers:vars], is no range.
            if _count_hosts_in_range(host_range) <= _MAX_EXPANDED_HOSTS:
                yield from expand_hostname_range(host_range)


def _count_hosts_in_range(host_range: str) -> int:
    """Return the maximum number of host names in a range of Ansible. Raises ValueError for bounds of no number."""
    count = 1
    for first, last, step in _RANGE_BOUNDS.findall(host_range):
        if first in string.ascii_letters and last in string.ascii_letters:
            count *= len(string.ascii_letters)
        else:
            step_size = int(step or 1) or 1  # Ansible refuses a step of 0.
            count *= max(0, (int(last) - int(first)) // step_size + 1)
    return count


def _read_hosts(
    hosts: Iterable[tuple[str, dict[str, Any]]],
    groups: dict[str, list[str]],
    loader: Any,
    reader: _PositionReader | None,
) -> InventoryData:
    """Return the inventory data of hosts; ``hosts`` yields each with its variables, whose templates are evaluated here.

    Raises one SettingsError for all hosts, in which hosts share a line for each error.
    """
    from activemq_fleet._templating import TemplateEvaluator
    from activemq_fleet.settings.variable_validation import variables_by_misspelled_name

    templates = TemplateEvaluator(loader)
    brokers = frozenset(groups.get(BROKERS, ()))
    values_by_host: dict[str, dict[str, object]] = {}
    directories: dict[str, str] = {}
    machines: dict[str, tuple[str, ...]] = {}
    positions: dict[str, dict[str, Position]] = {}
    findings: list[Finding] = []
    problems_by_host: dict[str, Sequence[str]] = {}
    for host, variables in hosts:
        directories[host] = str(variables.get("inventory_dir") or ".")
        address = variables.get("ansible_host", host)
        if isinstance(address, str):
            machines[host] = (address, *(str(variables.get(name)) for name in _CONNECTION_VARIABLES))
        misspelled = variables_by_misspelled_name(variables)
        if reader is not None:
            positions[host] = reader.variable_positions(host, variables, [*misspelled, "ansible_host"])
        try:
            _check_naming_variables(host, variables)
            values_by_host[host] = _evaluated_variables(host, variables, templates.switch_to_host(variables), brokers)
        except SettingsError as error:
            problems_by_host[host] = error.problems_by_host[host]
        findings += _misspelled_variable_findings(host, misspelled)
    _raise_settings_error_if_any(problems_by_host)
    return InventoryData(
        values_by_host,
        groups,
        directories=directories,
        machines=machines,
        positions=positions,
        findings=tuple(findings),
    )


def _check_naming_variables(host: str, variables: Mapping[Any, Any]) -> None:
    """Raise SettingsError for a misspelled group, pair or node: all other errors would be about its consequences."""
    from activemq_fleet._inventory_groups import misspelled_identity_variable_problems

    if problems := misspelled_identity_variable_problems(variables):
        raise SettingsError.of_host(host, *problems)


def _evaluated_variables(
    host: str, variables: Mapping[Any, Any], templates: Any, brokers: frozenset[str]
) -> dict[str, object]:
    """Return the values of one host's variables. Raises SettingsError for variables whose template fails."""
    from activemq_fleet._ansible import AnsibleError, ansible_error_message

    values: dict[str, object] = {}
    errors_by_name: dict[str, AnsibleError] = {}
    for name, raw in variables.items():
        if isinstance(name, str) and name.startswith(PREFIX):  # YAML allows keys that are not text.
            if name in PART_VARIABLES and isinstance(raw, str) and "{{" in raw:
                raise SettingsError.of_host(
                    host,
                    f"{name} is a template, but Ansible groups the hosts before it evaluates templates: replace the "
                    "template by its value",
                )
            try:
                values[name] = templates.evaluate_template(raw)
            except AnsibleError as reason:
                errors_by_name[name] = reason
    if errors_by_name:
        is_broker = host in brokers or _is_named_as_broker(host, values)
        relevant_names = [name for name in errors_by_name if is_broker or name.startswith(_PREFIXES_OF_OTHER_HOSTS)]
        if relevant_names:
            raise SettingsError.of_host(
                host,
                *(
                    f"the template in {name} has no value, because {ansible_error_message(errors_by_name[name])}. "
                    "Correct the template, or define the variables that the template uses"
                    for name in relevant_names
                ),
            ) from errors_by_name[relevant_names[0]]
    return values


def _is_named_as_broker(host: str, variables: Mapping[str, object]) -> bool:
    try:
        return Naming.naming_of_host(host, variables).identify_broker(host) is not None
    except UnparsableBrokerNameError:
        return True
