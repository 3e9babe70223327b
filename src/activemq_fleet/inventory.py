"""Read an Ansible inventory, the only source of a fleet's configuration."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from activemq_fleet.errors import FleetError, InputError, ReleaseError, SettingsError, hosts_by_problem_line
from activemq_fleet.grouping import BROKERS
from activemq_fleet.install_hint import install_hint
from activemq_fleet.naming import PREFIX, STATED_PARTS, Naming, UnclearNameError
from activemq_fleet.node.text_lines import split_lines

if TYPE_CHECKING:
    from activemq_fleet.topology import Fleet

OLDEST_ANSIBLE = (2, 19)
"""The oldest ansible-core whose templates the library can evaluate, as in meta/runtime.yml."""
# Variables that hosts without a broker use too; other variables whose templates fail there are meant for brokers.
_BEYOND_BROKERS = ("activemq_agent_", "activemq_vip", "activemq_naming_pattern")
_VARIABLE = re.compile(rf"\b{PREFIX}\w+")
_WORD = re.compile(r"[\w-]+(?:\.[\w-]+)*")
_PLAIN = frozenset(PREFIX + part for part in STATED_PARTS)
_OriginReader = Callable[[Mapping[Any, Any], Mapping[Any, Any]], dict[str, tuple[str, int]]]
_NO_TEMPLATE = "is a template: write the text itself, since hosts are put into groups before templates are evaluated"


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a file of an inventory; ``line`` is 1-based."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class InventoryData:
    """The hosts, groups and warnings read from an Ansible inventory.

    ``hosts`` holds for every host, in the order of the inventory, the templated values of its
    variables that start with ``activemq_``, in plain Python types; an encrypted value that cannot
    be opened is an ``EncryptedValue``. ``groups`` are Ansible's, with the hosts of their children.
    ``warnings`` are Ansible's own, one line each. ``directories`` holds by host the directory of the inventory source
    that has the host. ``positions`` is empty unless it was requested.
    """

    hosts: dict[str, dict[str, object]]
    groups: dict[str, list[str]]
    warnings: tuple[str, ...] = ()
    directories: dict[str, str] = dataclasses.field(default_factory=dict)
    positions: dict[str, dict[str, Position]] = dataclasses.field(default_factory=dict)


def read_inventory(
    sources: Sequence[str],
    *,
    with_positions: bool = False,
    extra_vars: Sequence[str] = (),
    vault_ids: Sequence[str] = (),
    vault_password_files: Sequence[str] = (),
) -> InventoryData:
    """Return the data of Ansible inventory files, directories or comma-separated host lists,
    read as Ansible reads them.

    Values are those that ``hostvars`` has, extra variables (``k=v``, JSON, YAML, ``@file``)
    included; facts of a fact cache outrank no variable of the inventory. ``with_positions`` also returns where each
    variable is defined. On a host that is no broker, a variable whose
    template refers to something that only brokers have is left out, as Ansible would not evaluate it there.

    Raises InputError for a source that cannot be read as a whole or that has no host, and SettingsError
    for all values whose template fails and for cached facts that have names of variables, naming host and variable.
    """
    if not sources:
        raise InputError("no inventory is selected: set -i INVENTORY")
    for source in sources:
        if "," not in source and not os.path.exists(source):
            raise InputError(f"{source}: there is no such inventory file or directory")
    with _ansible_module() as ansible:
        options = {"extra_vars": extra_vars, "vault_ids": vault_ids, "vault_password_files": vault_password_files}
        with ansible.loaded_inventory(sources, **options) as loaded:
            reader = _PositionReader(ansible.origins_of, loaded.extra) if with_positions else None
            return _inventory_data_of(loaded, ", ".join(sources), reader)


def configured_sources() -> tuple[str, ...]:
    """Return the inventory sources that ``ANSIBLE_INVENTORY`` or ``inventory`` in ansible.cfg names; () without both.

    Raises InputError for an ansible.cfg that cannot be read.
    """
    from ansible.config.manager import ConfigManager
    from ansible.errors import AnsibleError

    try:
        sources, origin = ConfigManager().get_config_value_and_origin("DEFAULT_HOST_LIST")
    except AnsibleError as error:
        raise InputError(f"Ansible cannot start: {' '.join(str(error).split())}") from None
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
    return fleet_of(data)


def fleet_of(data: InventoryData) -> Fleet:
    """Return the fleet that the data of an inventory describes. Raises SettingsError and ReleaseError."""
    from activemq_fleet.topology import build_fleet

    fleet = build_fleet(data.hosts, data.groups)
    return dataclasses.replace(fleet, warnings=(*data.warnings, *fleet.warnings))


def inventory_of_play(hostvars: Any, groups: Mapping[str, Sequence[str]], loader: Any) -> InventoryData:
    """Return the inventory's data inside a playbook, from a task's ``hostvars``, ``groups`` and loader.

    All hosts of the inventory are read, whatever the limit: the files of one host depend on its peers. Variables
    of plays and roles are ignored, as in ``read_inventory``. Facts and results of tasks do not override variables of
    the inventory; ``check_play_variables`` refuses them.
    Raises SettingsError for all values whose template fails, naming host and variable.
    """
    from activemq_fleet._inventory_variables import InventoryVariables

    stated = InventoryVariables(hostvars).hostvars
    hosts = ((str(host), stated.raw_get(host)) for host in stated)
    return _evaluate_templates(
        hosts, {str(group): [str(host) for host in members] for group, members in groups.items()}, loader
    )


def runtime_variables(hostvars: Any) -> dict[str, list[str]]:
    """Return by host one line for each variable ``activemq_…`` that facts or tasks of a play have set.

    ``hostvars`` is a task's.
    """
    from activemq_fleet._inventory_variables import InventoryVariables

    return InventoryVariables(hostvars).problems_by_host()


def check_play_variables(hostvars: Any) -> None:
    """Raise SettingsError, naming host and variable, for variables ``activemq_…`` that facts or tasks have set."""
    _refuse(runtime_variables(hostvars))


def _refuse(problems_by_host: Mapping[str, Sequence[str]]) -> None:
    """Raise one SettingsError for the problems of all hosts, if there are any; hosts share a line for each problem."""
    hosts_by_problem: dict[str, list[str]] = {}
    for host, problems in problems_by_host.items():
        for problem in problems:
            hosts_by_problem.setdefault(problem, []).append(host)
    if hosts_by_problem:
        lines = hosts_by_problem_line(hosts_by_problem)
        raise SettingsError(*lines, hosts_by_line=lines)


@contextmanager
def _ansible_module() -> Iterator[Any]:
    """Import Ansible and yield the module that uses it; Ansible's errors are raised as InputError."""
    try:
        import ansible.errors  # the least of it, which reads no configuration
        from ansible.release import __version__ as release
    except ImportError as error:
        raise InputError(f"reading an inventory needs ansible-core 2.19 or later ({error}): {install_hint()}") from None
    if tuple(int(number) for number in re.findall(r"\d+", release)[:2]) < OLDEST_ANSIBLE:
        oldest = ".".join(map(str, OLDEST_ANSIBLE))
        raise InputError(
            f"ansible-core {release} of {sys.executable} cannot be used: activemq-fleet reads inventories with "
            f"ansible-core {oldest} or later. Run: {sys.executable} -m pip install --upgrade 'ansible-core>={oldest}'"
        )
    try:
        import ansible.constants

        from activemq_fleet import _ansible
    except ansible.errors.AnsibleError as error:
        raise InputError(f"Ansible cannot start: {error}") from None
    except SystemExit as error:  # Ansible ends the process for a locale that is not UTF-8
        reason = str(error).removeprefix("ERROR: ").rstrip(".")
        raise InputError(f"Ansible cannot start: {reason}: set LC_ALL=C.UTF-8, and unset PYTHONUTF8") from None
    try:
        yield _ansible
    except (_ansible.AnsibleError, OSError, ValueError, RecursionError) as error:
        raise InputError(_ansible.message_of(error)) from error


def _inventory_data_of(loaded: Any, name: str, reader: _PositionReader | None) -> InventoryData:
    hosts = loaded.inventory.get_hosts()
    if not hosts:
        reason = "".join(f" ({text})" for text in loaded.warnings()[:1])
        raise InputError(f"{name}: the inventory has no hosts{reason}")
    groups = {group: list(members) for group, members in loaded.inventory.get_groups_dict().items()}
    _refuse(loaded.stated.problems_by_host())

    hosts_by_misspelling: dict[str, list[str]] = {}

    def variables_by_host() -> Iterator[tuple[str, dict[str, Any]]]:
        for host in hosts:
            variables = loaded.stated.get_vars(host, stage="all")
            for problem in _misspelt_variables(variables):
                hosts_by_misspelling.setdefault(problem, []).append(host.name)
            if reader is not None:
                reader.add(host.name, variables)
            yield host.name, variables

    data = _evaluate_templates(variables_by_host(), groups, loaded.loader)
    positions = reader.positions if reader is not None else {}
    misspellings = hosts_by_problem_line(hosts_by_misspelling)
    warnings = (*loaded.collection_warnings(), *loaded.warnings(), *misspellings)
    return dataclasses.replace(data, warnings=warnings, positions=positions)


def _misspelt_variables(variables: Mapping[Any, Any]) -> Iterator[str]:
    """Yield one line for each variable that has almost the name of a variable of the fleet and is ignored."""
    from activemq_fleet._ansible import origin_of
    from activemq_fleet.settings.reading import meant_variable

    for name, value in variables.items():
        if isinstance(name, str) and (meant := meant_variable(name)):
            place = origin_of(name, value)
            where = f" ({place[0]}:{place[1]})" if place else ""
            yield (
                f"{name} is ignored, because the names of the collection's variables begin with {PREFIX}; "
                f"did you mean {meant}?{where}"
            )


def with_positions(error: SettingsError | ReleaseError, data: InventoryData) -> FleetError:
    """Return an error about variables whose lines end with the file and line that define the variable."""
    hosts_by_line = {}
    for line in error.lines:
        hosts = error.hosts_by_line.get(line, (line.partition(": ")[0],))
        position = position_of_variable(data.positions.get(hosts[0], {}), line)
        hosts_by_line[f"{line} ({position.file}:{position.line})" if position else line] = hosts
    return type(error)(*hosts_by_line, hosts_by_line=hosts_by_line)


def position_of_variable(positions: Mapping[str, Position], text: str) -> Position | None:
    """Return the position of the first variable that a text names and a host has; None without one."""
    return next((positions[name] for name in _VARIABLE.findall(text) if name in positions), None)


class _PositionReader:
    """Collects where an inventory defines the variables of its hosts, while these are read.

    ``origins_of`` returns the origins of a host's variables by name, ``extra`` are the extra variables. Each file is
    read once for the lines of all its hosts.
    """

    def __init__(self, origins_of: _OriginReader, extra: Mapping[Any, Any]) -> None:
        self._origins_of = origins_of
        self._extra = extra
        self._lines: dict[str, Mapping[str, int]] = {}
        self.positions: dict[str, dict[str, Position]] = {}

    def add(self, host: str, variables: Mapping[Any, Any]) -> None:
        """Add the positions of a host's variables, and by the name "" that of the host itself."""
        origins = self._origins_of(variables, self._extra)
        self.positions[host] = {name: Position(*origin) for name, origin in origins.items()}
        file = variables.get("inventory_file")
        if isinstance(file, str) and os.path.isfile(file):
            if file not in self._lines:
                self._lines[file] = _first_lines_of_words(file)
            self.positions[host][""] = Position(str(file), self._lines[file].get(host, 1))


def _first_lines_of_words(path: str) -> Mapping[str, int]:
    """Return by word of an inventory file, such as the name of a host, the first line that contains it."""
    first_lines: dict[str, int] = {}
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(split_lines(file.read()), 1):
            for word in _WORD.findall(line):
                first_lines.setdefault(word, number)
    return first_lines


def _evaluate_templates(
    hosts: Iterable[tuple[str, dict[str, Any]]], groups: dict[str, list[str]], loader: Any
) -> InventoryData:
    """Return the inventory data of hosts; ``hosts`` yields each with its variables, whose templates are evaluated here.

    Raises one SettingsError for all hosts, in which hosts share a line for each error.
    """
    from activemq_fleet._templating import Templates

    templates = Templates(loader)
    brokers = frozenset(groups.get(BROKERS, ()))
    values_by_host: dict[str, dict[str, object]] = {}
    directories: dict[str, str] = {}
    wrong: dict[str, list[str]] = {}
    for host, variables in hosts:
        directories[host] = str(variables.get("inventory_dir") or ".")
        try:
            values_by_host[host] = _values(host, variables, templates.switch_to_host(variables), brokers)
        except SettingsError as error:
            wrong[host] = [problem.removeprefix(f"{host}: ") for problem in error.problems]
    _refuse(wrong)
    return InventoryData(values_by_host, groups, directories=directories)


def _values(host: str, variables: Mapping[Any, Any], templates: Any, brokers: frozenset[str]) -> dict[str, object]:
    """Return the values of one host's variables. Raises SettingsError for variables whose template fails."""
    from activemq_fleet._ansible import AnsibleError, message_of

    values: dict[str, object] = {}
    failed: dict[str, AnsibleError] = {}
    for name, raw in variables.items():
        if isinstance(name, str) and name.startswith(PREFIX):  # YAML has keys that are no text
            if name in _PLAIN and isinstance(raw, str) and "{{" in raw:
                raise SettingsError(f"{host}: {name} {_NO_TEMPLATE}")
            try:
                values[name] = templates.value(raw)
            except AnsibleError as reason:
                failed[name] = reason
    if failed:
        is_broker = host in brokers or _is_named_as_broker(host, values)
        meant = [name for name in failed if is_broker or name.startswith(_BEYOND_BROKERS)]
        if meant:
            raise SettingsError(*(f"{host}: {name}: {message_of(failed[name])}" for name in meant)) from failed[
                meant[0]
            ]
    return values


def _is_named_as_broker(host: str, variables: Mapping[str, object]) -> bool:
    try:
        return Naming.of_host(host, variables).identify(host) is not None
    except UnclearNameError:
        return True
