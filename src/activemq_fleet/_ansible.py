"""Read inventories with Ansible's own code, as a library.

Ansible expects to run as a separate process: its options, vault secrets, caches and plugin loader are global.
``open_ansible_inventory`` sets them while it reads an inventory and restores them afterwards, so that a program can
read several inventories, or the same inventory again after a change. This module, ``_templating`` and
``_inventory_variables`` alone use Ansible's inner API (as of ansible-core 2.19).
"""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

# This import must be first: it prepares the process for Ansible, and rejects a locale that is not UTF-8.
from ansible.cli import CLI

# isort: split
from ansible import constants, context
from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import VaultSecretsContext
from ansible.plugins.loader import init_plugin_loader, inventory_loader
from ansible.template import trust_as_template
from ansible.utils.collection_loader import AnsibleCollectionConfig
from ansible.utils.context_objects import CLIArgs
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars, load_options_vars
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

from activemq_fleet._ansible_internals import (
    DeferredWarningContext,
    Origin,
    format_event_brief_message,
    variable_origin,
)
from activemq_fleet._collection import collection_version_warnings, directories_with_this_collection
from activemq_fleet._inventory_groups import identify_brokers_and_add_groups
from activemq_fleet._inventory_variables import InventoryFirstVariableManager
from activemq_fleet._yaml_mistakes import find_yaml_mistake
from activemq_fleet.errors import InputError
from activemq_fleet.group_names import GROUPS_OF_EVERY_INVENTORY
from activemq_fleet.inventory_structure import (
    ini_section_error_and_line,
    structure_finding_as_error_text,
    yaml_inventory_file_findings,
)
from activemq_fleet.naming import PREFIX

__all__ = ["AnsibleError", "LoadedInventory", "ansible_error_message", "open_ansible_inventory"]

PLUGIN = "activemq.fleet.topology"
_PLUGIN_FILES = (".activemq.yml", ".activemq.yaml")
_YAML_FILES = (".yml", ".yaml", ".json")
_PLUGIN_FILE_ERROR = re.compile(r".*\.activemq\.ya?ml: ")
_POSITION = re.compile(r"^Origin: (/.*:\d+):\d+$", re.MULTILINE)
_STATED_POSITION = re.compile(r" \((/[^()]*:\d+)\)$")
_FAILED_PLUGIN = re.compile(r"Failed to parse inventory with '([^']+)' plugin")
_MISSING_PASSWORD_TEXTS = ("no vault secrets found", "no vault secrets were found")
_YAML_PARSING_FAILED = "YAML parsing failed"
_DUPLICATE_KEY = re.compile(r"Found duplicate mapping key '?(.+?)'?\.")
_REMEDIES = {
    "Unable to get JSON decoder for inventory script": (
        ". The file is executable, so Ansible runs it as a script: correct its output. If the file is an inventory in "
        "YAML or INI, run chmod -x"
    ),
    "Failed to execute inventory script": (
        ". The file is executable, so Ansible runs it as a script: correct the script. If the file is an inventory in "
        "YAML or INI, run chmod -x"
    ),
    "Inventory script returned non-zero": ": run the script with --list, and correct the error that it prints",
    "Parsed empty YAML file": ": list hosts below `hosts:` of a group",
    "Tabs are usually invalid in YAML": ": write spaces in place of tabs",
    "missing quotes around a template": ": write the value in quotes",
    "ending in ':' is not allowed": ". The file is read as INI: write groups as [GROUP], or write YAML in a file *.yml",
}
"""The remedies for mistakes in inventories that Ansible's own message explains, by a part of that message."""
TOO_DEEP = "maximum recursion depth exceeded"
"""The message of Python's RecursionError, which Ansible's messages repeat."""
_RECURSIVE_LOOP = f"Recursive loop detected in template: {TOO_DEEP}"
_REFERS_TO_ITSELF = "the value refers to itself, or has too many levels of lists and mappings"
_NO_MAPPING = re.compile(r"Could not process '(.+?)': failed to combine variables")
_NO_FILE = re.compile(r".*Could not find or access '(.+?)'")
_NO_PASSWORD_FILE = re.compile(r"[Tt]he vault password file .* was not found$")
_NO_HOSTS = "Plugin configuration YAML file"
_BYTES_TO_CHECK = 8192
"""The number of bytes of a file that decide whether it is text."""
_NOT_A_MAPPING = "should be a dictionary, got: <class"


def file_and_line_by_activemq_variable(
    variables: Mapping[Any, Any], extra_variables: Mapping[Any, Any], other_names: Iterable[str] = ()
) -> dict[str, tuple[str, int]]:
    """Return the origin (file, line) of each ``activemq_…`` variable of a host, as a dictionary by variable name.

    The dictionary also has the origins of the variables ``other_names``. A variable that ``extra_variables`` (``-e``)
    set has its origin there. Variables of unknown origin are left out.
    """
    requested_names = frozenset(other_names)
    tagged_extra = {name: (name, value) for name, value in extra_variables.items()}
    origins = {
        str(name): variable_origin(*tagged_extra.get(name, (name, value)))
        for name, value in variables.items()
        if isinstance(name, str) and (name.startswith(PREFIX) or name in requested_names)
    }
    return {name: origin for name, origin in origins.items() if origin is not None}


@dataclass(frozen=True, slots=True)
class LoadedInventory:
    """The hosts, groups and variables of an Ansible inventory, loaded by ``open_ansible_inventory``.

    The object is valid inside the ``with`` block of that function.
    """

    loader: Any
    inventory: Any
    stated: InventoryFirstVariableManager
    extra: Mapping[Any, Any]
    _warnings: DeferredWarningContext

    def ansible_warnings(self) -> tuple[str, ...]:
        """Return the warnings that Ansible and its plugins have reported so far, one line each.

        Warnings of the project's own plugin are left out: the fleet that is built from the same hosts has them too.
        """
        texts = (_warning_text(warning.event) for warning in self._warnings.get_warnings())
        return tuple(text for text in texts if not _PLUGIN_FILE_ERROR.match(text))

    def collection_version_warnings(self) -> tuple[str, ...]:
        """Return a tuple with a warning if Ansible has ``activemq.fleet`` in another version than this library, or ().

        Ansible's search path for collections decides. A path without the collection causes no warning.
        """
        return collection_version_warnings(constants.config.get_config_value("COLLECTIONS_PATHS"))


@contextmanager
def open_ansible_inventory(
    sources: Sequence[str],
    *,
    extra_vars: Sequence[str] = (),
    vault_ids: Sequence[str] = (),
    vault_password_files: Sequence[str] = (),
) -> Iterator[LoadedInventory]:
    """Return a context manager that loads the Ansible inventory in ``sources``, and yields it as a LoadedInventory.

    The sources are read as ``ansible-inventory`` would; nothing is printed.

    Raises InputError for a source of which any part cannot be read: half an inventory would be
    rendered as a smaller fleet. Raises Ansible's own errors for what it refuses.
    """
    # Extra variables on the command line may be templates, as with ansible-playbook.
    options = {"extra_vars": tuple(map(trust_as_template, extra_vars)), "inventory": tuple(sources)}
    with _temporary_ansible_globals(options), DeferredWarningContext(variables={}) as warnings:
        if not AnsibleCollectionConfig.collection_finder:
            init_plugin_loader(directories_with_this_collection())
        loader = DataLoader()
        secrets = CLI.setup_vault_secrets(
            loader,
            vault_ids=[*constants.DEFAULT_VAULT_IDENTITY_LIST, *vault_ids],
            vault_password_files=list(vault_password_files),
            auto_prompt=False,
            initialize_context=False,
        )
        loader.set_vault_secrets(secrets)
        VaultSecretsContext._current = VaultSecretsContext(secrets)
        extra = _read_extra_vars(loader)
        inventory = _StrictInventoryManager(loader, sources, warnings)
        variables = VariableManager(loader=loader, inventory=inventory, version_info=CLI.version_info())
        stated = InventoryFirstVariableManager(HostVars(inventory, variables, loader))
        yield LoadedInventory(loader, inventory, stated, extra, warnings)


def _read_extra_vars(loader: Any) -> Mapping[Any, Any]:
    """Return the extra variables. Raises InputError that names ``-e`` for invalid ones."""
    try:
        extra: Mapping[Any, Any] = load_extra_vars(loader)
    except AnsibleError as error:
        raise InputError(
            f"the extra variables (-e) cannot be read ({ansible_error_message(error)}). Correct the value of -e, or "
            "the file that it names"
        ) from error
    if "_raw_params" in extra:
        raise InputError(
            f"the text {str(extra['_raw_params'])!r} after -e sets no variable: write NAME=VALUE, JSON, YAML or @FILE"
        )
    return extra


@contextmanager
def _temporary_ansible_globals(options: Mapping[str, object]) -> Iterator[None]:
    """Set Ansible's global state for the loading of one inventory inside a ``with`` block, and restore it."""
    display = Display()
    previous_state = context.CLIARGS, VaultSecretsContext._current, display.verbosity, constants.DEFAULT_DEBUG
    functions = ((load_extra_vars, "extra_vars"), (load_options_vars, "options_vars"))
    cached_values = [function.__dict__.pop(name, None) for function, name in functions]
    context.CLIARGS, VaultSecretsContext._current = CLIArgs(options), None
    # Verbose output of Ansible would be written to stdout, among the output of activemq-fleet.
    display.verbosity, constants.DEFAULT_DEBUG = 0, False
    _clear_cached_variable_files()
    try:
        yield
    finally:
        context.CLIARGS, VaultSecretsContext._current, display.verbosity, constants.DEFAULT_DEBUG = previous_state
        for (function, name), value in zip(functions, cached_values, strict=True):
            function.__dict__.pop(name, None)
            if value is not None:
                setattr(function, name, value)


def _clear_cached_variable_files() -> None:
    """Clear the cached list of group_vars and host_vars files, which Ansible keeps until the process ends."""
    plugin = sys.modules.get("ansible.plugins.vars.host_group_vars")
    for cache in ("FOUND", "NAK", "CANONICAL_PATHS"):
        getattr(plugin, cache, set()).clear()


class _StrictInventoryManager(InventoryManager):  # type: ignore[misc]  # Ansible carries no types
    """Ansible's inventory manager, except that it raises InputError for a source that Ansible would skip."""

    def __init__(self, loader: Any, sources: Sequence[str], warnings: DeferredWarningContext) -> None:
        self._warnings = warnings
        super().__init__(loader=loader, sources=list(sources))

    def parse_source(self, source: str, cache: bool = False) -> bool:
        if os.path.isdir(source):
            return bool(super().parse_source(source, cache=cache))
        if source.endswith(_PLUGIN_FILES) and not _reads_plugin_files():
            self._group_brokers(source)
            return True
        warning_count = len(self._warnings.get_warnings())
        if not super().parse_source(source, cache=cache):
            raise InputError(self._unreadable_source_message(source, warning_count))
        if reserved_names := GROUPS_OF_EVERY_INVENTORY.intersection(self._inventory.hosts):
            raise InputError(
                f"{source}: a host is named {min(reserved_names)}, but every Ansible inventory has a group of this "
                "name: rename the host, and set its ansible_host to its address"
            )
        return True

    def _unreadable_source_message(self, source: str, earlier_warning_count: int) -> str:
        """Return the error message for a file that no plugin could parse, with the error of the intended plugin.

        The plugin of this project also reads the variables of ``all``, so the mistake may be in a different file.
        """
        mistakes = [finding for finding in yaml_inventory_file_findings(source) if finding.severity == "error"]
        if mistakes:
            return structure_finding_as_error_text(mistakes[0])
        beginning = f"{source} cannot be read as an inventory"
        if not os.access(source, os.X_OK) and not _is_text(source):
            return f"{beginning}: the file is not text in UTF-8. Set -i to an inventory in YAML or INI"
        causes = {}
        for warning in self._warnings.get_warnings()[earlier_warning_count:]:
            plugin = _FAILED_PLUGIN.match(warning.event.msg)
            if plugin and warning.event.chain:
                causes[plugin[1]] = warning.event.chain.event
        if not causes:
            return (
                f"{beginning}, because no plugin of Ansible knows the format of this file: write the inventory as YAML "
                "in a file FILE.yml"
            )
        intended_plugins = ("yaml", "auto") if source.endswith(_YAML_FILES) else ("script", "ini")
        # For the configuration file of a plugin, the plugin yaml only reports the kind of the file. The plugin auto
        # reports the mistake.
        intended_causes = [
            causes[name] for name in intended_plugins if name in causes and _NO_HOSTS not in causes[name].msg
        ]
        cause = (intended_causes or list(causes.values()))[0]
        reason = format_event_brief_message(cause).removeprefix(f"{source}: ").rstrip(".")
        reason = reason.removeprefix("Failed to parse inventory: ")
        if TOO_DEEP in reason:
            raise RecursionError
        if _NOT_A_MAPPING in reason:
            return (
                f"{beginning}: the file contains a list, but an inventory is a mapping of groups. Write all: in the "
                "first line, and hosts: below it"
            )
        contexts = "\n".join(text for event in (cause, *causes.values()) for text in _source_contexts(event))
        position = _POSITION.search(contexts) or _STATED_POSITION.search(reason)
        if position is None:
            corrected_reason, place = _reason_with_remedy_and_place(reason, source, None)
            return (
                f"{beginning}: {reason}" if corrected_reason == reason else f"{beginning}: {corrected_reason} ({place})"
            )
        reason = _STATED_POSITION.sub("", reason)
        path, _, line = position[1].rpartition(":")
        if section := ini_section_error_and_line(path, reason):
            return f"{beginning}: {section[0]} ({path}:{section[1]})"
        reason, place = _reason_with_remedy_and_place(reason, path, int(line))
        is_other_file = os.path.realpath(path) != os.path.realpath(source)
        return f"{place}: {reason}" if is_other_file else f"{beginning}: {reason} ({place})"

    def _group_brokers(self, source: str) -> None:
        """Group the brokers as the inventory plugin does, where Ansible cannot load the plugin."""
        options = self._loader.load_from_file(source)
        if not isinstance(options, Mapping) or options.get("plugin") != PLUGIN:
            raise InputError(f"{source}: the inventory file has no line 'plugin: {PLUGIN}': add this line")
        identify_brokers_and_add_groups(self._inventory, self._loader, self._sources, options)


def _is_text(path: str) -> bool:
    """Return whether the beginning of a file is text in UTF-8."""
    with open(path, "rb") as file:
        beginning = file.read(_BYTES_TO_CHECK)
    try:
        # A character that is cut at the end of the bytes is not an error.
        codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        return False
    return b"\0" not in beginning


def _warning_text(event: Any) -> str:
    """Return a warning of Ansible as one line; a warning about a repeated key names the file and the line."""
    text = " ".join(format_event_brief_message(event).split())
    key = _DUPLICATE_KEY.match(text)
    position = _POSITION.search("\n".join(_source_contexts(event)))
    if key is None or position is None:
        return text
    return (
        f"{position[1]}: the key {key[1]} occurs twice, and Ansible uses only the second value: remove one of the two"
    )


def _source_contexts(event: Any) -> Iterator[str]:
    """Yield the file positions that an Ansible event and its causes name, the position of the event first."""
    while event is not None:
        if event.formatted_source_context:
            yield event.formatted_source_context
        event = event.chain.event if event.chain else None


def _reads_plugin_files() -> bool:
    """Return whether Ansible loads the inventory plugin; False without the collection or if not enabled."""
    return not {"auto", PLUGIN}.isdisjoint(constants.INVENTORY_ENABLED) and inventory_loader.has_plugin(PLUGIN)


def _reason_with_remedy_and_place(reason: str, path: str, line: int | None) -> tuple[str, str]:
    """Return the reason of an error, followed by its remedy, and the place ``FILE:LINE``.

    For a file that is not YAML, both are those of the first mistake in the file.
    """
    mistake = find_yaml_mistake(path) if _YAML_PARSING_FAILED in reason else None
    if mistake is None:
        default_remedy = f": correct this {'line' if line else 'file'}" if _YAML_PARSING_FAILED in reason else ""
        remedy = next((remedy for words, remedy in _REMEDIES.items() if words in reason), default_remedy)
        return reason + remedy, f"{path}:{line}" if line else path
    return f"{_YAML_PARSING_FAILED}: {mistake.reason}", f"{path}:{mistake.line}"


def ansible_error_message(error: BaseException) -> str:
    """Return the message of an Ansible error in one line.

    It has file and line of the error's cause where they are known.
    """
    message = " ".join(str(error).split()).rstrip(".").replace(_RECURSIVE_LOOP, _REFERS_TO_ITSELF)
    if any(text in message for text in _MISSING_PASSWORD_TEXTS):
        message += ": set --vault-password-file or --vault-id, or ANSIBLE_VAULT_PASSWORD_FILE"
    if _NO_PASSWORD_FILE.search(message):
        message += ": correct its path in --vault-password-file, --vault-id or ANSIBLE_VAULT_PASSWORD_FILE"
    if match := _NO_MAPPING.match(message):
        message = f"{match[1]}: the file contains no mapping of variables: write its lines as NAME: VALUE"
    if match := _NO_FILE.match(message):
        message = f"the file {match[1]} does not exist or cannot be read: correct its path, or make it readable"
    cause: BaseException | None = error
    while cause is not None:
        obj = cause.obj if isinstance(cause, AnsibleError) else None
        origin = obj if isinstance(obj, Origin) else Origin.get_tag(obj)
        if origin and origin.path:
            message, place = _reason_with_remedy_and_place(message, origin.path, origin.line_num)
            return f"{message} ({place})"
        cause = cause.__cause__ or cause.__context__
    return message
